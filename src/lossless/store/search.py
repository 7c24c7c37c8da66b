"""Search over messages and summaries: full-text reads within a scope."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lossless.errors import ArchiveDenied, ArchiveFull, ArchiveLocked
from lossless.store.index import PASSAGE_BASE
from lossless.store.sql import load
from lossless.store.texts import MessageText, Place, SummaryText, Texts, from_message, from_summary, is_behind
from lossless.store.trigram import Trigrams

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lossless.store.archive import Archive
    from lossless.store.database import Database, Row
    from lossless.store.texts import AnyText, What, Where

_QUERIES = load("search")

#: Up to so many matches are counted and put in order exactly.
FEW = 3000
#: Rows of other programs that one search indexes; what is left is looked at as it is.
_CATCH_UP = 2000
#: Rows without an index that one search looks at, the newest.
MOST_UNREAD = 20_000
#: So many messages may stand between a call and its result.
_CALL_BEFORE = 64
#: Why a search may be unable to write what it learned; it goes on without.
UNWRITABLE = (ArchiveDenied, ArchiveFull, ArchiveLocked)


class Search:
    """Reads for recall; what the words mean is recall's business. Never writes."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self.texts = Texts(database)
        self.trigrams = Trigrams(database)

    def quotes(self, conversation_id: int, phrase: str, limit: int) -> list[Row]:
        """Messages of people and models that hold a phrase: id, role, time, text; newest first."""
        words = phrase.replace("\0", " ").replace('"', " ").strip()
        if not any(character.isalnum() for character in words):
            return []
        values = {"match": f'body: "{words}"', "conversation_id": conversation_id, "limit": limit}
        return self._db.rows(_QUERIES["quotes"], values)

    # --- counts -------------------------------------------------------------------------------------

    def unmarked(self) -> tuple[int, int]:
        """How many messages, about, were stored since all were known to be indexed; and the newest of them."""
        newest = self._sizes()[0]
        return newest - self._number("marked", {}), newest

    def size(self, where: Where, what: What = "message") -> tuple[int, int]:
        """How many index rows the scope has and the whole archive, about."""
        messages, passages, summaries = self._sizes()
        everything = messages + passages if what == "message" else summaries
        if where.conversation_ids is None:
            return everything, everything
        inside = self._number("messages_in" if what == "message" else "summaries_in", where.values)
        if what == "message" and messages:
            inside = inside * everything // messages
        return min(inside, everything), everything

    def counts(self, matches: Sequence[str], where: Where, what: What = "message") -> list[int]:
        """How many index rows of the scope match each expression: exact for few, else by the scope's share."""
        inside, everything = self.size(where, what)
        query = "count" if what == "message" else "count_summaries"
        found = []
        for match in matches:
            count = self._number(query, {"match": match, "limit": -1})
            if count and inside < everything:
                if what == "message" and count <= FEW:
                    count = self._number("count_in", where.values | {"match": match})
                else:
                    count = max(1, count * inside // everything)
            found.append(count)
        return found

    def count(self, match: str, most: int = FEW) -> int:
        """How many index rows of messages match, counted up to one more than `most`."""
        return self._number("count", {"match": match, "limit": most + 1})

    def _number(self, query: str, values: dict[str, Any]) -> int:
        row = self._db.row(_QUERIES[query], values)
        return row[0] if row and row[0] else 0

    def _sizes(self) -> tuple[int, int, int]:
        row = self._db.row(_QUERIES["sizes"])
        assert row is not None
        return row[0], row[1], row[2]

    def unread(self, where: Where) -> list[int]:
        """Messages of the scope that are not indexed, the last stored first; not more than a search can look at."""
        return [row[0] for row in self._db.rows(_QUERIES["unread"], where.values | {"limit": MOST_UNREAD})]

    def unread_summaries(self, where: Where) -> list[str]:
        """Summaries of the scope that are not indexed."""
        return [row[0] for row in self._db.rows(_QUERIES["unread_summaries"], where.values | {"limit": MOST_UNREAD})]

    # --- matches ------------------------------------------------------------------------------------

    def candidates(self, match: str, where: Where, limit: int) -> list[tuple[int, int | None]]:
        """The best passages by bm25: the message, and where the passage begins; None for the first."""
        return [(row[0], row[1]) for row in self._db.rows(_QUERIES["candidates"], self._ranked(match, where, limit))]

    def candidate_summaries(self, match: str, where: Where, limit: int) -> list[str]:
        """The best summaries by bm25."""
        found = self._db.rows(_QUERIES["candidate_summaries"], self._ranked(match, where, limit, "summary"))
        return [row[0] for row in found]

    def _ranked(self, match: str, where: Where, limit: int, what: What = "message") -> dict[str, Any]:
        is_everything = not where.has_times
        if is_everything and where.conversation_ids is not None:
            inside, everything = self.size(where, what)
            is_everything = inside >= everything
        return where.values | {"match": match, "limit": limit, "everything": is_everything}

    def neighbours(self, places: Sequence[tuple[int, int]], where: Where) -> list[Row]:
        """Messages at places (conversation and seq): id, conversation, seq, time, tokens."""
        if not places:
            return []
        return self._db.rows(_QUERIES["neighbours"], where.values | {"places": json.dumps(places)})

    def having(self, match: str) -> list[int]:
        """All messages that match, in no order."""
        return [row[0] for row in self._db.rows(_QUERIES["having"], {"match": match, "base": PASSAGE_BASE})]

    def echoes(self, message_ids: Iterable[int]) -> frozenset[int]:
        """Those that only ask our recall tools, or are their answers: they repeat what was said elsewhere."""
        asked = {"ids": json.dumps(list(message_ids)), "back": _CALL_BEFORE}
        return frozenset(row[0] for row in self._db.rows(_QUERIES["echoes"], asked))

    def newest(self, match: str, where: Where, limit: int, start: Place | None = None) -> tuple[list[int], int | None]:
        """Messages that match, newest first, behind a place; and how many there are, None when that is unknown."""
        values = where.values | from_message(start) | {"match": match, "limit": limit}
        if self.count(match) <= FEW or not self.texts.is_ordered():
            found = self._db.rows(_QUERIES["newest_ids"], values)
            return [row[0] for row in found], found[0][1] if found else 0
        values["below"] = start.id if start and start.what == "message" else PASSAGE_BASE
        both = (self._db.rows(_QUERIES[query], values) for query in ("newest_heads", "newest_passages"))
        places = sorted({(row[1], row[0]) for rows in both for row in rows}, reverse=True)
        behind = [id_ for at, id_ in places if start is None or is_behind(Place(at, "message", id_), start)]
        return behind[:limit], None

    def newest_summaries(
        self, match: str, where: Where, limit: int, start: Place | None = None
    ) -> tuple[list[str], int]:
        """Summaries that match, newest first, behind a place; and how many there are."""
        values = where.values | from_summary(start) | {"match": match, "limit": limit}
        found = self._db.rows(_QUERIES["newest_summaries"], values)
        return [row[0] for row in found], found[0][1] if found else 0


def refresh(archive: Archive, stale: Iterable[AnyText]) -> None:
    """Index texts anew that another program has changed; where that cannot be written, it stays as it is."""
    texts = list(stale)
    if archive.read_only or not texts:
        return
    ids = [text.id for text in texts if isinstance(text, MessageText)]
    with suppress(*UNWRITABLE), archive.writing():
        for stored in archive.messages.many(ids, exact=False):
            archive.index.reindex_message(stored.id, stored.message.content, stored.message)
        for text in texts:
            if isinstance(text, SummaryText):
                archive.index.put_summary(text.id, text.content)


def keep_up(archive: Archive) -> bool:
    """Index what other programs wrote, so much at a time; whether all is indexed now."""
    if archive.read_only:
        return False
    with suppress(*UNWRITABLE):
        return archive.catch_up(limit=_CATCH_UP) < _CATCH_UP
    return False
