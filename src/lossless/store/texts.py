"""The texts that a search looks at: messages with what they called tools with, summaries, files; newest first."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from lossless.model.index_text import index_text_of
from lossless.model.messages import ToolCall
from lossless.store.index import PASSAGE_BASE, digest
from lossless.store.rows import PartRow, unpack_part
from lossless.store.skeleton import storable
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lossless.model.messages import Json
    from lossless.store.database import Database

_QUERIES = load("search")

What: TypeAlias = Literal["message", "summary"]
_BATCH = 500
#: Above every summary's id.
_LAST_ID = "\U0010ffff"
#: Reads JSON from a place on, without what stands around it: quicker for short texts.
_READ: Callable[[str, int], tuple[Json, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
#: Letters that stand in JSON as they are, whoever wrote it.
_PLAIN_JSON = re.compile(r'[^"\\/\x00-\x1f\x7f-\U0010ffff]+')


class Place(NamedTuple):
    """A place in the order newest first: milliseconds since 1970, what it is, its id. Messages go before summaries."""

    at: int
    what: What
    id: int | str


@dataclass(frozen=True, slots=True)
class Where:
    """The rows that a search may see: of these conversations (None: all), of this stretch of time (milliseconds)."""

    conversation_ids: tuple[int, ...] | None = None
    since: int | None = None
    before: int | None = None

    @property
    def values(self) -> dict[str, Any]:
        """As the queries take it."""
        ids = None if self.conversation_ids is None else json.dumps(self.conversation_ids)
        return {"conversations": ids, "since": self.since, "before": self.before, "base": PASSAGE_BASE}

    @property
    def has_times(self) -> bool:
        return self.since is not None or self.before is not None


class MessageText(NamedTuple):
    """What a search looks at of a message."""

    id: int
    conversation_id: int
    seq: int
    role: str
    #: When it was said, in milliseconds since 1970.
    at: int
    tokens: int
    content: str
    #: What it called tools with, as JSON.
    calls: tuple[str, ...]
    #: Of the text that is indexed; None when it is not.
    digest: bytes | None
    sender: str | None = None

    @property
    def indexed(self) -> str:
        """The text that the index holds of it."""
        return storable(index_text_of(self.content, [_json(call) for call in self.calls]))

    @property
    def called(self) -> str:
        """All texts that it called tools with."""
        return "\n".join(_strings(self.calls)) if self.calls else ""

    @property
    def place(self) -> Place:
        return Place(self.at, "message", self.id)


class SummaryText(NamedTuple):
    """What a search looks at of a summary; its time is that of the newest message below it."""

    id: str
    conversation_id: int
    depth: int
    at: int
    tokens: int
    content: str
    digest: bytes | None

    @property
    def indexed(self) -> str:
        """The text that the index holds of it."""
        return self.content

    @property
    def called(self) -> str:
        return ""

    @property
    def place(self) -> Place:
        return Place(self.at, "summary", self.id)


AnyText: TypeAlias = MessageText | SummaryText


class Texts:
    """Reads texts by id, and in order; holds a few in memory at a time."""

    def __init__(self, database: Database) -> None:
        self._db = database
        #: Up to which message it is known whether times rise with ids.
        self._through, self._is_ordered = 0, True

    def messages(self, ids: Iterable[int]) -> list[MessageText]:
        """Messages by id, in the order asked for; unknown ids are left out."""
        wanted = {"ids": json.dumps([id_ for id_ in ids if isinstance(id_, int)])}  # an index may hold anything
        calls = self._calls(wanted)
        return [
            MessageText(
                id_, conversation_id, seq, role, at, tokens, text_of(content), calls.get(id_, ()), known, sender
            )
            for id_, conversation_id, seq, role, at, tokens, content, known, sender in self._db.rows(
                _QUERIES["texts"], wanted
            )
        ]

    def _calls(self, wanted: dict[str, Any]) -> dict[int, tuple[str, ...]]:
        """What messages called tools with, as JSON."""
        calls: dict[int, tuple[str, ...]] = {}
        for id_, raw, metadata in self._db.rows(_QUERIES["calls"], wanted):
            if _is_call(metadata):
                calls[id_] = (*calls.get(id_, ()), text_of(raw))
        return calls

    def bodies(self, ids: Sequence[int]) -> list[tuple[int, str]]:
        """Messages in this order, each with its content and the texts it called tools with as one text."""
        wanted = {"ids": json.dumps(ids)}
        calls = {id_: "\n".join(_strings(some)) for id_, some in self._calls(wanted).items()}
        found = ((id_, text_of(raw)) for id_, raw in self._db.rows(_QUERIES["contents"], wanted))
        return [(id_, f"{text}\n{calls[id_]}" if id_ in calls else text) for id_, text in found]

    def summaries(self, ids: Iterable[str]) -> list[SummaryText]:
        """Summaries by id, in the order asked for; unknown ids are left out."""
        order = [id_ for id_ in ids if isinstance(id_, str)]
        found = {
            id_: SummaryText(id_, conversation_id, depth, at, tokens, text_of(content), known)
            for id_, conversation_id, depth, at, tokens, content, known in self._db.rows(
                _QUERIES["summary_texts"], {"ids": json.dumps(order)}
            )
        }
        return [found[id_] for id_ in order if id_ in found]

    # --- newest first -------------------------------------------------------------------------------

    def is_ordered(self) -> bool:
        """Whether messages that were stored later were said later; what was seen before is not read again."""
        newest = self._db.row(_QUERIES["sizes"])
        if self._is_ordered and newest and newest[0] > self._through:
            if self._db.row(_QUERIES["disorder"], {"after": self._through}) is not None:
                self._is_ordered = False
            self._through = newest[0]
        return self._is_ordered

    def order(self, where: Where, start: Place | None = None) -> list[int]:
        """The ids of all messages of a scope behind a place."""
        values = where.values | from_message(start)
        if not where.has_times and (start is None or start.what == "message") and self.is_ordered():
            values["below"] = start.id if start else None
            return sorted((row[0] for row in self._db.rows(_QUERIES["all_ids"], values)), reverse=True)
        return [row[0] for row in self._db.rows(_QUERIES["all_by_time"], values)]

    def read(self, ids: Sequence[int]) -> Iterator[MessageText]:
        """Messages in this order."""
        for start in range(0, len(ids), _BATCH):
            yield from self.messages(ids[start : start + _BATCH])

    def holding(self, ids: Sequence[int], text: str, *, ignore_case: bool) -> list[int]:
        """Of these messages those that can hold a text, in their order. `ignore_case`: the text is lower-case ASCII."""
        piece = max(_PLAIN_JSON.findall(text), key=len, default="")
        values = {"ids": json.dumps(ids), "text": text, "piece": piece, "ignore_case": ignore_case}
        found = {row[0] for row in self._db.rows(_QUERIES["holding"], values)}
        return [id_ for id_ in ids if id_ in found]

    def all_summaries(self, where: Where, start: Place | None = None) -> Iterator[SummaryText]:
        """All summaries of a scope behind a place."""
        ids = iter([row[0] for row in self._db.rows(_QUERIES["all_summaries"], where.values | from_summary(start))])
        while batch := list(islice(ids, _BATCH)):
            yield from self.summaries(batch)


def is_behind(place: Place, start: Place) -> bool:
    """Whether a place comes after another one, newest first."""
    return newest_first(place) > newest_first(start)


def newest_first(place: Place) -> tuple[int, What, tuple[int, ...]]:
    """A key that sorts places newest first."""
    at, what, id_ = place
    return -at, what, (-id_,) if isinstance(id_, int) else tuple(-ord(letter) for letter in id_)


def is_stale(text: AnyText) -> bool:
    """Whether a text was changed since it was indexed."""
    return text.digest is not None and digest(text.indexed) != text.digest[:8]


def text_of(raw: Any) -> str:
    """A column that holds text, whatever another program wrote there."""
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else "" if raw is None else str(raw)


def from_message(start: Place | None) -> dict[str, Any]:
    """Where messages go on behind a place: they come before summaries of the same time."""
    return {"from_at": start.at if start else None, "from_id": start.id if start and start.what == "message" else 0}


def from_summary(start: Place | None) -> dict[str, Any]:
    """Where summaries go on behind a place."""
    id_ = start.id if start and start.what == "summary" else _LAST_ID
    return {"from_at": start.at if start else None, "from_id": id_}


@lru_cache(maxsize=4096)
def _is_call(metadata: str | None) -> bool:
    """Whether a part with an input is a call; some programs keep the input with the result."""
    known = _json(metadata or "{}")
    row = PartRow(0, "tool", None, None, None, None, None, "")
    return isinstance(unpack_part(row, known if isinstance(known, dict) else {}, ""), ToolCall)


def _json(text: str) -> Json:
    try:
        value, end = _READ(text, 0)
        if end < len(text):
            value = json.loads(text)
    except (StopIteration, ValueError, RecursionError):
        return text
    return value


def _strings(calls: Iterable[str]) -> list[str]:
    """The texts inside of calls; JSON that was sent as text is read, too."""
    found: list[str] = []
    for call in calls:
        value = _json(call)
        pending: list[Any] = [_json(value) if isinstance(value, str) else value]
        while pending:
            item = pending.pop()
            if isinstance(item, str):
                found.append(item)
            elif isinstance(item, dict):
                pending.extend(reversed(item.values()))
            elif isinstance(item, list):
                pending.extend(reversed(item))
    return found
