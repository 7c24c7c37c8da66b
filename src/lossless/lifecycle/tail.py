"""What stays of a transcript that is shortened to its tail. Pure: bytes in, bytes out.

The header, the latest session information, model and thinking level before the tail, and the messages of the tail,
linked one behind the other. Everything else of it must be in the archive before this may replace the file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lossless.lifecycle.stream import body_of, id_of
from lossless.model.context import MessageItem, fresh_tail_start
from lossless.transcripts.entries import Line
from lossless.transcripts.kinds import openclaw, pi
from lossless.transcripts.read import head_of, kind_of_head
from lossless.transcripts.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lossless.model.messages import JsonObject, Role

#: Records that tell how the session goes on; the latest of each kind stays.
STATES = ("session_info", "model_change", "thinking_level_change")
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "toolResult": "tool", "tool": "tool"}


class Unsafe(ValueError):
    """A transcript that must not be rewritten as it is; its text says why."""


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a transcript: where it stands, and what decides about it."""

    start: int
    end: int
    kind: str
    id: str | None
    parent: str | None
    #: The role of a message; None for what is none.
    role: str | None
    #: The number of its line, from 1.
    number: int = 0


@dataclass(frozen=True, slots=True)
class Said:
    """A message of a transcript, as the host wrote it."""

    entry_id: str | None
    message: JsonObject


@dataclass(frozen=True, slots=True)
class Shortened:
    """A transcript and its shorter form."""

    data: bytes
    kept_messages: int
    dropped_messages: int
    #: Messages on branches that the host has left; they go with the rest.
    abandoned: int
    #: Everything that goes, in the order of the file.
    dropped: tuple[Record, ...] = ()

    @property
    def is_shorter(self) -> bool:
        """Whether rewriting takes any message away."""
        return self.dropped_messages + self.abandoned > 0


def records_of(data: bytes) -> list[Record]:
    """The records of a transcript behind its header; raises `Unsafe` for one that cannot be rewritten."""
    if not data.endswith(b"\n"):
        raise Unsafe("its last line is not finished")
    found: list[Record] = []
    at = 0
    for number, raw in enumerate(data.splitlines(keepends=True), 1):
        start, at = at, at + len(raw)
        if raw.isspace():
            continue
        found.append(_record(raw, start, at, number))
    if not found or found[0].kind != "session":
        raise Unsafe("it has no header")
    if any(record.kind == "session" for record in found[1:]):
        raise Unsafe("it has more than one header")
    return found


def _record(raw: bytes, start: int, end: int, number: int) -> Record:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        raise Unsafe(f"line {number} cannot be read") from None
    if not isinstance(value, dict):
        raise Unsafe(f"line {number} is no record")
    message = value.get("message") if value.get("type") == "message" else value if "type" not in value else None
    role = message.get("role") if isinstance(message, dict) else None
    kind = value.get("type", "message")
    return Record(start, end, str(kind), _text(value.get("id")), _text(value.get("parentId")), _text(role), number)


def owner_of(data: bytes) -> str | None:
    """The kind of a transcript that a program other than OpenClaw has written; None where nothing shows that."""
    head = head_of(data)
    if head and head[0].get("type") == "session":
        return pi.KIND if pi.is_own_header(head[0]) else None
    kind = kind_of_head(head)
    return None if kind in (openclaw.KIND, pi.KIND) else kind


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def path_of(records: Sequence[Record]) -> list[Record]:
    """The records that were really said, from the first to the last: without branches that the host has left."""
    tree = Tree()
    for record in records[1:]:
        tree.add(record.id, record.parent)
    path, behind = tree.leaf_path(), records[1:]
    if path is None:
        return list(behind)
    places = path.order if path.order is not None else [n for n, kept in enumerate(path.kept) if kept]
    return [behind[place] for place in places]


def messages_of(data: bytes, records: Sequence[Record]) -> Iterator[Said]:
    """The messages among some records, parsed one by one."""
    for record, value in parsed_of(data, [record for record in records if record.role is not None]):
        yield Said(record.id, value["message"] if value.get("type") == "message" else value)


def parsed_of(data: bytes, records: Sequence[Record]) -> Iterator[tuple[Record, dict[str, Any]]]:
    """Some records with what stands in them, parsed one by one."""
    for record in records:
        yield record, json.loads(data[record.start : record.end])


def kept_as(record: Record, value: dict[str, Any]) -> tuple[str | None, str, JsonObject]:
    """The id, the kind and the body under which reading a transcript has stored a record, as message or beside them."""
    (entry,) = openclaw.entries(value, Line(record.number, record.start, record.end))
    if record.id is not None or entry.message is None:
        return record.id, record.kind, value
    return id_of(entry), record.kind, body_of(entry)


def shortened(data: bytes, tail_count: int) -> Shortened:
    """A transcript with its newest messages only; raises `Unsafe` when it cannot be rewritten."""
    records = records_of(data)
    path = path_of(records)
    start = _tail_start(path, tail_count)
    kept = [*_states_before(path[:start]), *_without_trailing(path[start:])]
    lines = [data[records[0].start : records[0].end], *_linked(data, kept)]
    messages = sum(record.role is not None for record in kept)
    on_path = sum(record.role is not None for record in path)
    everything = sum(record.role is not None for record in records)
    stays = {record.start for record in kept}
    dropped = tuple(record for record in records[1:] if record.start not in stays)
    return Shortened(b"".join(lines), messages, on_path - messages, everything - on_path, dropped)


def _tail_start(path: Sequence[Record], count: int) -> int:
    """Where the tail begins: by the rule of the fresh tail, and never with an answer whose call is cut off."""
    places = [n for n, record in enumerate(path) if record.role is not None]
    items = [MessageItem(n, n, _ROLES.get(path[n].role or "", "system"), 0, n) for n in places]
    first = fresh_tail_start(items, max(1, count))
    while 0 < first < len(items) and items[first].role == "tool":
        first -= 1
    return places[first] if first < len(places) else len(path)


def _states_before(head: Sequence[Record]) -> list[Record]:
    """The latest record of each kind of state, in the order of the file."""
    latest = {record.kind: record for record in head if record.kind in STATES}
    return sorted(latest.values(), key=lambda record: record.start)


def _without_trailing(tail: Sequence[Record]) -> list[Record]:
    """Messages and states of the tail, up to its last message."""
    kept = [record for record in tail if record.role is not None or record.kind in STATES]
    while kept and kept[-1].role is None:
        kept.pop()
    return kept


def _linked(data: bytes, kept: Sequence[Record]) -> Iterator[bytes]:
    """The lines of these records, each naming the one before it as its parent."""
    before: str | None = None
    for record in kept:
        raw = data[record.start : record.end]
        if record.id is None or record.parent == before:
            yield raw
        else:
            yield _dumped(json.loads(raw) | {"parentId": before})
        before = record.id or before


def _dumped(value: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        text = json.dumps(value, separators=(",", ":")).encode()
    return text + b"\n"
