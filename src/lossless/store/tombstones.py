"""What was forgotten on purpose: rounds of marks of phrases and of whole messages, with the key of this archive."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lossless.model.masking import Cutter, Mark, Marker
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lossless.model.masking import Cut
    from lossless.store.database import Database

_QUERIES = load("tombstones")
_KEY_BYTES = 32
#: The scope of a whole message that is forgotten in every conversation.
EVERYWHERE = 0


@dataclass(frozen=True, slots=True)
class Round:
    """One or several rounds of forgetting: phrases that are cut out, or whole messages that are emptied."""

    cut: Cut | None = None
    #: Keyed digests of fingerprints, each with the conversation in which it is forgotten.
    whole: frozenset[tuple[bytes, int]] = field(default=frozenset())


class Tombstones:
    """Reads and writes what is left of forgotten texts. Where nothing was forgotten, asking costs one small query."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._read: tuple[tuple[int, int], tuple[Round, ...], Marker] | None = None

    def rounds(self) -> tuple[Round, ...]:
        """What was forgotten, in the order in which it was; empty where nothing was."""
        newest, count = self._db.row(_QUERIES["newest"]) or (None, 0)
        if not count:
            return ()
        if self._read is None or self._read[0] != (newest, count):
            self._read = ((newest, count), *self._parsed())
        return self._read[1]

    def digest(self, fingerprint: bytes) -> bytes:
        """What a whole message is known by."""
        return (self._read[2] if self._read else self.marker()).digest(fingerprint)

    def marker(self) -> Marker:
        """What makes marks with this archive's key; the key is made when it is needed first."""
        row = self._db.row(_QUERIES["key"])
        if row is None:
            self._db.run(_QUERIES["set_key"], {"key": secrets.token_bytes(_KEY_BYTES)})
            row = self._db.row(_QUERIES["key"])
        assert row is not None
        return Marker(row[0])

    def add(self, phrases: Sequence[Iterable[str]], whole: Iterable[tuple[bytes, int]] = ()) -> None:
        """Remember phrases, each in all its forms and in a round of its own, and whole messages by their fingerprints.

        Needs a transaction.
        """
        marker = self.marker()
        round_ = (self._db.row(_QUERIES["newest"]) or (0,))[0] or 0
        rows: list[tuple[int, bytes, int | None, int | None, int]] = []
        for texts in phrases:
            round_ += 1
            marks = [marker.mark(text) for text in texts]
            rows += [(round_, mark.digest, mark.length, mark.roll, EVERYWHERE) for mark in marks]
        rows += [(round_ + 1, marker.digest(print_), None, None, where) for print_, where in whole]
        self._db.run_many(_QUERIES["add"], rows)

    def _parsed(self) -> tuple[tuple[Round, ...], Marker]:
        marker = self.marker()
        found: list[Round] = []
        phrases: list[list[Mark]] = []
        whole: set[tuple[bytes, int]] = set()
        last = 0

        def settle() -> None:
            if phrases:
                found.append(Round(cut=Cutter(marker, list(phrases))))
            if whole:
                found.append(Round(whole=frozenset(whole)))
            phrases.clear()
            whole.clear()

        for round_, digest, length, roll, where in self._db.rows(_QUERIES["all"]):
            if (length is None) == bool(phrases) or (length is not None) == bool(whole):
                settle()
            if length is None:
                whole.add((digest, where))
            elif round_ == last and phrases:
                phrases[-1].append(Mark(length, roll, digest))
            else:
                phrases.append([Mark(length, roll, digest)])
            last = round_
        settle()
        return tuple(found), marker
