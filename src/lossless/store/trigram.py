"""An index of all pieces of three letters. It exists only once it is wanted; it costs about twice the text."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lossless.store.archive import Archive
    from lossless.store.database import Database

_QUERIES = load("trigram")
_BATCH = 200
#: More pieces of a text than this do not narrow a search any further.
_MOST_PIECES = 24


class Trigrams:
    """Narrows a search for letters down to the messages that can hold them."""

    def __init__(self, database: Database) -> None:
        self._db = database

    @property
    def is_there(self) -> bool:
        return self._db.row(_QUERIES["is_there"]) is not None

    @property
    def through(self) -> int:
        """The message up to which all are in the index; 0 when there is none."""
        row = self._db.row(_QUERIES["through"]) if self.is_there else None
        return row[0] if row else 0

    @property
    def is_behind(self) -> bool:
        """Whether messages were stored that it does not hold."""
        return self.is_there and bool(self.next_ids(1))

    def having(self, texts: Iterable[str]) -> set[int] | None:
        """The messages that can hold all of `texts`, whatever their case; None when the texts say nothing."""
        pieces = list(dict.fromkeys(text[at : at + 3] for text in texts for at in range(len(text) - 2)))
        usable = [piece for piece in pieces if "\0" not in piece]
        if not usable:
            return None
        step = -(-len(usable) // _MOST_PIECES)
        match = " AND ".join('"' + piece.replace('"', '""') + '"' for piece in usable[::step])
        return {row[0] for row in self._db.rows(_QUERIES["having"], {"match": match})}

    def add(self, rows: Sequence[tuple[int, str]]) -> None:
        """Index texts by message; needs a transaction."""
        self._db.run_many(_QUERIES["add"], [(id_, text.replace("\0", "\ufffd")) for id_, text in rows])
        self._db.run(_QUERIES["set_through"], {"value": rows[-1][0]})

    def replace(self, message_id: int, text: str) -> None:
        """Index a message anew that was revised, if it is in the index; needs a transaction."""
        if message_id <= self.through:
            self._db.run(_QUERIES["drop"], {"message_id": message_id})
            self._db.run(_QUERIES["add"], (message_id, text.replace("\0", "\ufffd")))

    def next_ids(self, limit: int = _BATCH) -> list[int]:
        """The oldest messages that are not in the index."""
        return [row[0] for row in self._db.rows(_QUERIES["next"], {"after": self.through, "limit": limit})]

    def create(self) -> None:
        """Make the empty index; needs a transaction."""
        self._db.run(_QUERIES["create"])


def build(archive: Archive, seconds: float) -> bool:
    """Make the index, or go on making it, for so long; whether it holds all messages now."""
    if archive.read_only:
        return False
    trigrams = archive.search.trigrams
    end = time.monotonic() + seconds
    while True:
        with archive.writing():
            trigrams.create()
            ids = trigrams.next_ids()
            if not ids:
                return True
            texts = archive.search.texts.messages(ids)
            trigrams.add([(text.id, f"{text.content}\n{text.called}") for text in texts])
        if time.monotonic() > end:
            return False
