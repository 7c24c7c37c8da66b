"""An engine in another process, so that a host talks to two of them as hosts do."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING, Any

from lossless.testing.replay_world import open_engine

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

_WAIT = 60


class Remote:
    """An engine in a process of its own; what it raises is raised here."""

    def __init__(self, path: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, path), daemon=True)
        self._process.start()
        theirs.close()

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        self._pipe.send((method, arguments, named))
        worked, value = self._pipe.recv()
        if not worked:
            raise value
        return value

    def close(self) -> None:
        self._pipe.send(None)
        self._process.join(_WAIT)


def _serve(pipe: Connection, path: Path) -> None:
    """Answer calls until there are no more."""
    with open_engine(path) as engine:
        while (asked := pipe.recv()) is not None:
            method, arguments, named = asked
            try:
                answer = (True, getattr(engine, method)(*arguments, **named))
            except Exception as error:  # noqa: BLE001
                answer = (False, error)
            pipe.send(answer)
