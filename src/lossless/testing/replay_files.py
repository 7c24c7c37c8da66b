"""The transcript that a made-up host writes: it grows, waits in the middle of a line, is rewritten, cut, replaced."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from lossless.testing.replay_log import Body


class TranscriptFile:
    """A file of a header and one line for each message; with ids and parents, or bare messages without any.

    Bare messages have no header before them either, unless the file is `headed`.
    """

    def __init__(self, folder: Path, name: str, *, bare: bool, headed: bool = False) -> None:
        self._folder, self._name, self.bare = folder, name, bare
        self._headed = headed or not bare
        self._epoch = 0
        self._mtime = 1_000_000_000
        #: The numbers of the messages whose lines are complete, or lack only their line feed.
        self.numbers: list[int] = []
        #: Each event as it was written.
        self.bodies: dict[int, Body] = {}
        #: What is still to be written of the last line.
        self._rest = b""
        self._half: int | None = None
        #: The last record, and the last message.
        self._leaf: str | None = None
        self._last: str | None = None
        self._records = 0
        self._write(self._head(), append=False)

    @property
    def path(self) -> Path:
        return self._folder / f"{self._name}-{self._epoch}.jsonl"

    def _head(self) -> bytes:
        header = {"type": "session", "version": 3, "id": f"{self._name}-{self._epoch}"}
        return _line(header) if self._headed else b""

    def _write(self, data: bytes, *, append: bool = True) -> None:
        with self.path.open("ab" if append else "wb") as file:
            file.write(data)
        self.touch()

    def touch(self) -> None:
        """Every change has a time of its own, whatever the clock's grain."""
        self._mtime += 1
        os.utime(self.path, (self._mtime, self._mtime))

    def _encoded(self, body: Body, id_: str, parent: str | None, indent: str) -> bytes:
        if self.bare:
            return _line(body, indent)
        record: Any = {"type": "message", "id": id_, "parentId": parent, "message": body}
        return _line(record, indent)

    def finish_line(self) -> None:
        """Write what is missing of the last line."""
        if self._half is not None:
            self._write(self._rest)
            if self._half not in self.numbers:
                self.numbers.append(self._half)
            self._half, self._rest = None, b""

    def write(self, number: int, body: Body, id_: str, parent: str | None, cut: int | None = None) -> None:
        """Write a message below its parent; of its line only `cut` bytes for now, if that is given."""
        self.finish_line()
        parent = self._leaf if parent is not None and self.numbers and self._last == parent else parent
        data = self._encoded(body, id_, parent, "")
        self._leaf, self._last = id_, id_
        self.bodies[number] = body
        if cut is None:
            self._write(data)
            self.numbers.append(number)
            return
        cut = 1 + cut % (len(data) - 1)
        self._write(data[:cut])
        self._rest, self._half = data[cut:], number
        if cut == len(data) - 1:  # all but the line feed: that can be read
            self.numbers.append(number)

    def note(self) -> None:
        """A record that is no message, on the path of those that follow."""
        self.finish_line()
        if self.bare or not self.numbers:
            return
        self._records += 1
        id_ = f"{self._name}-note-{self._records}"
        self._write(_line({"type": "model_change", "id": id_, "parentId": self._leaf, "modelId": "one"}))
        self._leaf = id_

    def rewrite(
        self,
        numbers: Iterable[int],
        body: Callable[[int], Body],
        ids: Callable[[int], str],
        parents: Callable[[int], str | None],
        *,
        new_file: bool = False,
        indent: str = "",
    ) -> None:
        """Replace the file at once, or go on in another one with a header of its own."""
        self._epoch += new_file
        self._rest, self._half = b"", None
        self.numbers = list(numbers)
        data = [self._head()]
        first = True
        for number in self.numbers:
            parent = None if first else parents(number)
            self.bodies[number] = body(number)
            data.append(self._encoded(self.bodies[number], ids(number), parent, indent))
            first = False
        self._leaf = self._last = ids(self.numbers[-1]) if self.numbers else None
        beside = self.path.with_suffix(".new")
        beside.write_bytes(b"".join(data))
        beside.replace(self.path)
        self.touch()


def _line(record: Any, indent: str = "") -> bytes:
    return json.dumps(record, separators=(f",{indent}", f":{indent}")).encode() + b"\n"
