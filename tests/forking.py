"""Child processes that are forks of this one: they begin at once, because everything is imported already.

A fork must not open a database that this process has open at that moment: SQLite takes no notice of the fork.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from lossless.cli.main import cli

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


class Fork:
    """Calls a function in a child, and has of `subprocess.Popen` what tests need."""

    #: Our ends of the pipes of all children: a child that held those of another would keep it from its end.
    _ours: ClassVar[set[IO[Any]]] = set()

    def __init__(self, function: Callable[[], object], env: Mapping[str, str] | None = None) -> None:
        self.returncode: int | None = None
        reading, writing = os.pipe()
        asked, asking = os.pipe()
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # other threads are asleep, and the child uses none
            self.pid = os.fork()
        if self.pid == 0:
            for number, end in enumerate((asked, writing, self._errors.fileno())):
                os.dup2(end, number)
            for end in (asked, asking, reading, writing, *[pipe.fileno() for pipe in self._ours if not pipe.closed]):
                os.close(end)
            _be_a_child(function, env)
        os.close(writing)
        os.close(asked)
        self.stdout = open(reading, encoding="utf-8")  # noqa: SIM115
        self.stdin = open(asking, "wb")  # noqa: SIM115
        self._ours.update((self.stdout, self.stdin))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.poll() is None:
            self.kill()
        self.communicate()

    def poll(self) -> int | None:
        """The exit code, or the negative number of the signal, once it has ended."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float = 60) -> int:
        """Wait for its end."""
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            assert time.monotonic() < until, "the child does not end"
            time.sleep(0.002)
        return code

    def communicate(self) -> tuple[str, str]:
        """What it has written since, and to its standard error."""
        self._hang_up(self.stdin)
        out = "" if self.stdout.closed else self.stdout.read()
        self._hang_up(self.stdout)
        self.wait()
        err = ""
        if not self._errors.closed:
            self._errors.seek(0)
            err = self._errors.read()
            self._errors.close()
        return out, err

    def _hang_up(self, pipe: IO[Any]) -> None:
        self._ours.discard(pipe)
        with suppress(BrokenPipeError):
            pipe.close()


def run_forked(function: Callable[..., object], *arguments: object) -> tuple[int, str, str]:
    """Call a function in a child; its exit code and what it wrote."""
    child = Fork(lambda: function(*arguments))
    out, err = child.communicate()
    return child.wait(), out, err


def run_lcm(*arguments: object, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> tuple[int, str, str]:
    """Run `lcm` in a child; its exit code and what it wrote."""

    def child() -> None:
        if cwd is not None:
            os.chdir(cwd)
        cli.main([str(argument) for argument in arguments])

    fork = Fork(child, env)
    out, err = fork.communicate()
    return fork.wait(), out, err


def _be_a_child(function: Callable[[], object], env: Mapping[str, str] | None) -> NoReturn:
    code = 1
    try:
        signal.alarm(0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if env is not None:
            os.environ.clear()
            os.environ.update(env)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        function()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 (whatever it is, the parent is to see it)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
