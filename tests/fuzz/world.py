"""A made-up host, its transcript file, and the engines that it talks to, in this process or another one."""

from __future__ import annotations

import json
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

import lossless
from lossless.testing.scripted import VirtualClock
from tests.fuzz.messages import HostMessage, framed, turn, untimed
from tests.fuzz.oracle import Handed, Oracle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

    from tests.fuzz.messages import Body


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


class Door(Protocol):
    """An engine as a host sees it, in this process or in another one."""

    def call(self, method: str, *arguments: Any, **named: Any) -> Any: ...

    def close(self) -> None: ...


class Local:
    """An engine of this process."""

    def __init__(self, path: Path) -> None:
        self.engine = open_engine(path)

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        return getattr(self.engine, method)(*arguments, **named)

    def close(self) -> None:
        self.engine.close()


def open_engine(path: Path) -> lossless.Engine:
    """An engine under whose settings a few messages make a leaf."""
    settings = lossless.Settings(
        payloads_in_files=False,
        fresh_tail_count=2,
        leaf_chunk_tokens=120,
        leaf_target_tokens=40,
        leaf_min_fanout=2,
        condensed_min_fanout=2,
        independent_log_file_enabled=False,
    )
    return lossless.open(path, settings, clock=VirtualClock(), background=False)


class ReplayStage:
    """One archive for many runs: an engine that looks, and two that hosts talk to, the second one anywhere."""

    def __init__(self, folder: Path, second: type[Local] | Any = Local) -> None:
        self.folder, self._second = folder, second
        self.path = folder / "lcm.db"
        self.first = Local(self.path)
        self.doors: list[Door] = [self.first, second(self.path)]
        self._runs = 0
        self._pool = ThreadPoolExecutor(2)

    @property
    def engine(self) -> lossless.Engine:
        return self.first.engine

    def next_name(self) -> str:
        self._runs += 1
        return f"run{self._runs}"

    def restart(self, which: int) -> None:
        """Close an engine and open it again."""
        self.doors[which].close()
        if which == 0:
            self.first = Local(self.path)
        self.doors[which] = self.first if which == 0 else self._second(self.path)

    def together(self, method: str, *arguments: Any, **named: Any) -> list[Any]:
        """The same call by both engines at the same time."""
        waiting = [self._pool.submit(door.call, method, *arguments, **named) for door in self.doors]
        return [one.result() for one in waiting]

    def close(self) -> None:
        self._pool.shutdown()
        for door in self.doors:
            door.close()


@dataclass(frozen=True, slots=True)
class HostKind:
    """What sort of host it is, which decides what it may do and how much is promised to it."""

    name: str
    operations: tuple[str, ...]
    #: Each message is its own; otherwise most of them repeat.
    distinct: bool = False
    #: No message looks like another one that says something else.
    plain: bool = False
    #: What it hands over itself has entry ids; what it writes has them unless it is `bare`.
    with_ids: bool = False
    bare: bool = False
    #: What it hands over always carries the time at which it was said.
    timed: bool = False
    #: What it writes carries no time at all.
    timeless: bool = False
    #: What is bare stands behind a header all the same.
    headed: bool = False
    #: The archive is the log, always; otherwise what content cannot decide may be missing, if it is counted.
    exact: bool = True


@dataclass(slots=True)
class World:
    """One run: a host in a session of its own."""

    stage: ReplayStage
    kind: HostKind
    session: lossless.Session
    file: TranscriptFile
    oracle: Oracle = field(default_factory=Oracle)
    said: list[HostMessage] = field(default_factory=list)
    #: The events that the host is on now, oldest first, and where it was before.
    path: list[int] = field(default_factory=list)
    left: list[list[int]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    #: How many events of the path its runtime has handed over, and the batches themselves.
    handed: int = 0
    batches: list[tuple[list[Any], str | None]] = field(default_factory=list)
    #: Numbers of batches, none of them twice.
    numbers: Iterator[int] = field(default_factory=count)
    #: The last window, as places in the path.
    window: tuple[int, int] = (0, 0)
    #: How far pages were handed over, and the host's mark of it.
    page: tuple[int, str | None] = (0, None)
    #: How many events of the path were read from transcripts and pages.
    read_to: int = 0
    #: Events that the host shows in other words from now on.
    changed: dict[int, Body] = field(default_factory=dict)
    #: The host has given its history other ids. These are learnt from its transcript and from whole windows; whatever
    #: hands old messages over one by one says that they are new.
    is_renamed: bool = False
    #: Missing rows are accounted for.
    excused: bool = False
    #: The transcripts of sessions that were forked from this one.
    forks: list[Any] = field(default_factory=list)
    deliveries: int = 0
    #: Which engine the current step talks to, and whether both do at once.
    door: int = 0
    at_once: bool = False

    @classmethod
    def on(cls, stage: ReplayStage, kind: HostKind) -> World:
        name = stage.next_name()
        file = TranscriptFile(stage.folder, name, bare=kind.bare, headed=kind.headed)
        return cls(stage, kind, lossless.Session(key=f"agent:main:{name}"), file)

    @property
    def stored(self) -> int:
        """How many events of the path, from its first on, are stored."""
        known = self.oracle.known
        return next((place for place, number in enumerate(self.path) if number not in known), len(self.path))

    @property
    def has_to_tell(self) -> bool:
        """Whether the runtime has something to hand over, or it was not read yet, and so has no id to be left by."""
        is_read = self.path[-1:] == self.file.numbers[-1:] and self.read_to == len(self.path)
        return "tell" in self.kind.operations and not (is_read and self.handed == len(self.said))

    def say(self, seed: int, turns: int) -> None:
        """Something is said; nobody has heard of it yet."""
        dice = Random(seed)
        for _ in range(turns):
            for body, is_framed in turn(dice, len(self.said), distinct=self.kind.distinct, plain=self.kind.plain):
                parent = self.path[-1] if self.path else None
                number = len(self.said)
                self.said.append(HostMessage(number, parent, body, is_framed))
                self.ids.append(f"e{number}")
                self.path.append(number)

    def body(self, number: int, *, timed: bool = True, changed: bool = True) -> Body:
        """An event as the host says it this time; in its own words unless they were `changed`."""
        event = self.said[number]
        is_changed = changed and number in self.changed
        body = self.changed[number] if is_changed else event.body
        if event.is_framed and not is_changed:
            self.deliveries += 1
            body = framed(body, self.deliveries)
        return body if timed else untimed(body)

    def note_read(self, handed: Handed) -> None:
        """Remember how far the path was read."""
        places = {number: place for place, number in enumerate(self.path, 1)}
        before = self.read_to if self.read_to <= len(self.path) else 0
        self.read_to = max([before, *(places.get(number, 0) for number in handed.numbers)])

    def taken(self, start: int, end: int, *, timed: bool = True) -> Handed:
        """A stretch of the path, to be handed over."""
        numbers = tuple(self.path[start:end])
        sure = range(start, end) if self.kind.with_ids else self._sure(start, end)
        timed = timed or self.kind.timed
        bodies = (self.body(number, timed=timed, changed=place in sure) for place, number in enumerate(numbers, start))
        return Handed(numbers, tuple(bodies))

    def _sure(self, start: int, end: int) -> range:
        """The places of a stretch at which changed copies can be recognised: between stored messages in their words."""
        there = range(start, min(end, self.stored))
        return range(start + 1, max((place for place in there if self.path[place] not in self.changed), default=0))

    def items(self, handed: Handed) -> list[Any]:
        """What an engine is given for it."""
        if not self.kind.with_ids:
            return list(handed.bodies)
        return [
            lossless.Incoming(body, entry_id=self.ids[number])
            for number, body in zip(handed.numbers, handed.bodies, strict=True)
        ]

    def call(self, method: str, *arguments: Any, **named: Any) -> list[Any]:
        """Have an engine do it, or both at the same time."""
        if self.at_once:
            return self.stage.together(method, self.session, *arguments, **named)
        return [self.stage.doors[self.door].call(method, self.session, *arguments, **named)]

    # --- the transcript ---

    def written(self, number: int) -> Body:
        """An event as the host writes it; a transcript keeps what was said, unless ids tell what it is."""
        return self.body(number, timed=not self.kind.timeless, changed=self.kind.with_ids)

    def parent_id(self, number: int) -> str | None:
        parent = self.said[number].parent
        return None if parent is None else self.ids[parent]

    def write(self, end: int, cut: int | None = None) -> None:
        """Write what was said up to an event that is not in the file yet; the last line perhaps not to its end."""
        self.file.finish_line()
        done = self.file.numbers[-1] if self.file.numbers else -1
        for number in range(done + 1, end):
            is_last = number == end - 1
            id_, parent = self.ids[number], self.parent_id(number)
            self.file.write(number, self.written(number), id_, parent, cut if is_last else None)

    def in_file(self) -> Handed:
        """What the file says: the path to its last event, as far as it is in the file."""
        there = set(self.file.numbers)
        numbers: list[int] = []
        place = self.file.numbers[-1] if there else None
        while place is not None and place in there:
            numbers.append(place)
            place = self.said[place].parent
        numbers.reverse()
        return Handed(tuple(numbers), tuple(self.file.bodies[number] for number in numbers))


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
