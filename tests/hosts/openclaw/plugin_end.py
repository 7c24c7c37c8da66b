"""The plugin's end of the pipes, for tests: calls the real process and answers what it asks back."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Queue
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless.hosts.openclaw.service import main
from tests.forking import Fork

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

Answer: TypeAlias = Callable[[dict[str, Any]], Any]

KEY = "agent:main:main"
COMMAND = (sys.executable, "-m", "lossless.hosts.openclaw")


class PluginEnd:
    """A plugin with one process behind it. `answers` are what it answers, by method."""

    def __init__(self, database: Path, *, answers: dict[str, Answer] | None = None, **config: Any) -> None:
        self.answers = answers or {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.strange: list[bytes] = []
        self._waiting: dict[int, Queue[dict[str, Any]]] = {}
        self._number = 0
        self._lock = threading.Lock()
        self.process = Fork(main)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        settings = {"databasePath": str(database), "independentLogFile": {"enabled": False}, **config}
        can = {"llm": "llm.complete" in self.answers, "subagents": "subagent.run" in self.answers}
        hello = {"protocol": 1, "host": "2026.9.6", "config": settings, "capabilities": can}
        self.about = self.call("initialize", **hello)

    def call(self, method: str, /, **params: Any) -> Any:
        """The result; an error is raised as RuntimeError."""
        return self.result(self.send(method, params))

    def send(self, method: str, params: dict[str, Any]) -> int:
        with self._lock:
            self._number += 1
            number, self._waiting[self._number] = self._number, Queue()
        self.write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def result(self, number: int, seconds: float = 60.0) -> Any:
        frame = self._waiting[number].get(timeout=seconds)
        if "error" in frame:
            raise RuntimeError(frame["error"]["message"])
        return frame["result"]

    def has_result(self, number: int) -> bool:
        return not self._waiting[number].empty()

    def write(self, frame: object) -> None:
        with self._lock:
            self.process.stdin.write(json.dumps(frame).encode() + b"\n")
            self.process.stdin.flush()

    def commit(self, number: int, *, key: str = KEY, words: int = 40) -> str:
        """One turn with a fact in it."""
        text = f"fact-{number} " * words
        messages = [
            {"role": "user", "content": f"question {number}: {text}"},
            {"role": "assistant", "content": [{"type": "text", "text": f"answer {number}: {text}"}]},
        ]
        done = self.call("commitTurn", sessionKey=key, advancementKey=f"turn-{number}", messages=messages)
        return str(done["status"])

    def close(self) -> None:
        """Hang up and wait for the process."""
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self._reader.join(60)
        self.process.communicate()

    def kill(self) -> None:
        self.process.kill()
        self.close()

    def __enter__(self) -> PluginEnd:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self) -> None:
        for line in self.process.stdout:
            try:
                frame = json.loads(line)
            except ValueError:
                self.strange.append(line.encode())
                continue
            if "method" in frame:
                threading.Thread(target=self._answer, args=(frame,), daemon=True).start()
            else:
                self._waiting[frame["id"]].put(frame)

    def _answer(self, frame: dict[str, Any]) -> None:
        self.asked.append((frame["method"], frame["params"]))
        if "id" not in frame:
            return
        try:
            reply = {"result": self.answers[frame["method"]](frame["params"])}
        except (KeyError, RuntimeError) as error:
            reply = {"error": {"code": -32000, "message": str(error), "data": {"name": type(error).__name__}}}
        with suppress(ValueError, BrokenPipeError):  # nobody waits for it any more
            self.write({"jsonrpc": "2.0", "id": frame["id"], **reply})
