"""The literal scan: every text of an archive in order, a few of them in memory at a time."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from lossless.store.scope import numbers
from lossless.store.sql import load
from lossless.store.texts import Texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lossless.store.listings import StreamingDatabase
    from lossless.store.texts import AnyText

_QUERIES = load("scan")
#: How many texts are read at a time.
_STEP = 250
#: Above every summary's id: to SQLite, bytes come after all texts.
_ABOVE_ALL = b""

What: TypeAlias = Literal["message", "summary"]


class Matcher(Protocol):
    """Says where in a text something stands, or None."""

    def __call__(self, text: str) -> tuple[int, int] | None: ...


class Spot(NamedTuple):
    """A text's place in the order: its time ('' for none), what it is, its id. Messages go before summaries."""

    at: str
    what: What
    id: Any


@dataclass(frozen=True, slots=True)
class Found:
    """The piece of a text that matched, and where in the piece."""

    spot: Spot
    text: str
    start: int
    end: int


class Scan:
    """Reads texts newest first; never writes."""

    def __init__(self, database: StreamingDatabase) -> None:
        self._db = database
        self._texts = Texts(database)

    def found(
        self, matches: Matcher, conversation_id: int | None = None, start: Spot | None = None
    ) -> Iterator[list[Found]]:
        """Step by step, what matches behind a place: in a message's text, else in what it called tools with."""
        spots = self._spots(conversation_id, start)
        while step := list(islice(spots, _STEP)):
            yield self._matching(step, matches)

    def _spots(self, conversation_id: int | None, start: Spot | None) -> Iterator[Spot]:
        scope = numbers(conversation_id) | {"from_at": start.at if start else None}
        message_id = start.id if start and start.what == "message" else 0
        summary_id = start.id if start and start.what == "summary" else _ABOVE_ALL
        messages = self._db.stream(_QUERIES["messages"], scope | {"from_id": message_id})
        summaries = self._db.stream(_QUERIES["summaries"], scope | {"from_id": summary_id})
        yield from merge(
            (Spot(at, "message", id_) for at, id_ in messages),
            (Spot(at, "summary", id_) for at, id_ in summaries),
            key=lambda spot: (spot.at, spot.what == "message"),
            reverse=True,
        )

    def _matching(self, step: list[Spot], matches: Matcher) -> list[Found]:
        texts: dict[int | str, AnyText] = {}
        for message in self._texts.messages(spot.id for spot in step if spot.what == "message"):
            texts[message.id] = message
        for summary in self._texts.summaries(spot.id for spot in step if spot.what == "summary"):
            texts[summary.id] = summary
        found = (_find(spot, texts[spot.id], matches) for spot in step if spot.id in texts)
        return [match for match in found if match is not None]


def _find(spot: Spot, source: AnyText, matches: Matcher) -> Found | None:
    for text in (source.content, source.called):
        if (place := matches(text)) is not None:
            return Found(spot, text, *place)
    return None
