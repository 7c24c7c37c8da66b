"""Extracting on all cores: processes of our own that write the same summaries, in the same order.

They are plain child processes that talk over pipes. Unlike those of `multiprocessing` they never run the host's main
module again, share no handle or lock with it, and end by themselves when their pipe does.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any

from lossless.compaction.escalate import summarise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future
    from types import TracebackType

    from lossless.compaction.escalate import Sizes, Source, Wording, Written

#: What a child runs: it finds modules where its parent does, then serves until its input ends.
_CHILD = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from lossless.compaction.crew import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"
)
#: Sources that wait for each process, so that none is idle while a summary is put in its place.
_AHEAD = 2
#: What happens when a child cannot start, is gone, or says what none of ours would.
_BROKEN = (OSError, EOFError, pickle.PickleError, ValueError, TypeError, LookupError, AttributeError, ImportError)


class Crew:
    """Some processes that extract summaries, started with the first source. None is left when the block ends.

    A summary takes milliseconds: a process that needs longer than `patience_seconds` is stuck. `program` is the
    interpreter that they run, else this one.
    """

    def __init__(self, size: int, *, program: str | None = None, patience_seconds: float = 30.0) -> None:
        self._size, self._patience_seconds = size, patience_seconds
        self._program = sys.executable if program is None else program
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="lossless-crew")
        self._started: list[_Process] = []
        self._is_closed = False
        #: Who is free; a None extracts here, in place of a process that could not start or broke.
        self._free: SimpleQueue[_Process | None] = SimpleQueue()

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closed = True
        for process in self._started:
            process.end()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for process in self._started:
            process.close()

    def extracted(self, sources: Iterable[Source], sizes: Sizes, wording: Wording) -> Iterator[Written | None]:
        """The summaries of sources in their order; sources are asked for only a little ahead."""
        if not self._started:
            self._started = [_Process(self._program) for _ in range(self._size)]
            for process in self._started:
                self._free.put(process)
        waiting: deque[Future[Written | None]] = deque()
        for source in sources:
            waiting.append(self._threads.submit(self._extract, source, sizes, wording))
            if len(waiting) >= _AHEAD * self._size:
                yield self._result(waiting.popleft())
        while waiting:
            yield self._result(waiting.popleft())

    def _result(self, future: Future[Written | None]) -> Written | None:
        """What a process wrote; when it does not answer, all are ended and everything is extracted here."""
        try:
            return future.result(self._patience_seconds)
        except TimeoutError:
            for process in self._started:
                process.end()
            return future.result()

    def _extract(self, source: Source, sizes: Sizes, wording: Wording) -> Written | None:
        process = self._free.get()
        try:
            if process is not None:
                return process.ask((source, sizes, wording))
        except _BROKEN:
            if process is not None:
                process.end()
            process = None
        finally:
            self._free.put(process)
        return None if self._is_closed else summarise(source, sizes=sizes, wording=wording)


class _Process:
    """One child; it starts with its first question."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._child: subprocess.Popen[bytes] | None = None
        self._is_ended = False
        self._changing = threading.Lock()

    def ask(self, question: tuple[Source, Sizes, Wording]) -> Written | None:
        """What the child makes of a source."""
        child = self._child or self._start()
        assert child.stdin is not None
        assert child.stdout is not None
        _send(child.stdin, question)
        written: Written | None = pickle.load(child.stdout)
        return written

    def _start(self) -> subprocess.Popen[bytes]:
        with self._changing:
            if self._is_ended or not _is_python(self._program):
                raise EOFError
            child = self._child = subprocess.Popen(
                [self._program, "-P", "-c", _CHILD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        assert child.stdin is not None
        _send(child.stdin, sys.path)
        return child

    def end(self) -> None:
        """Stop the child at once and wait for it; it holds nothing that could be lost."""
        with self._changing:
            self._is_ended = True
            if self._child is not None:
                self._child.kill()
                self._child.wait()

    def close(self) -> None:
        """Let go of the pipes, once nobody waits at them."""
        for pipe in (self._child.stdin, self._child.stdout) if self._child else ():
            if pipe is not None:
                with suppress(OSError):  # what was not yet sent is not wanted any more
                    pipe.close()


def _is_python(program: str | None) -> bool:
    """Whether a program is an interpreter, and not one that carries it."""
    return Path(program or "").name.lower().startswith(("python", "pypy")) and not hasattr(sys, "frozen")


def _send(pipe: IO[bytes], value: object) -> None:
    pickle.dump(value, pipe, pickle.HIGHEST_PROTOCOL)
    pipe.flush()


def cores() -> int:
    """How many cores this process may use."""
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable else os.cpu_count() or 1


def serve(questions: IO[bytes], answers: IO[bytes]) -> None:
    """What a child does: a summary for each source, until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            question: Any = pickle.load(questions)
        except EOFError:
            return
        source, sizes, wording = question
        _send(answers, summarise(source, sizes=sizes, wording=wording))
