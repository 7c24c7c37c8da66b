"""Words that no longer stand in their message: versions are looked at last, and every hit says what it is."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lossless.model.times import from_epoch
from lossless.recall.found import Finding, Snippet, best_snippet, snippet_around
from lossless.recall.literal import Literal
from lossless.recall.matching import Finder
from lossless.recall.query import understand

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lossless.recall.regexes import Regex
    from lossless.store.archive import Archive
    from lossless.store.texts import MessageText, Where
    from lossless.store.versions import Version

#: Up to so many messages are taken from the index; the others are looked at one by one, while there is time.
_MOST = 2000
_PAGE = 100
_SAID = {"earlier": "[earlier words] ", "lesser": "[shortened by the host] "}


class _Words:
    """All words of a question, or its letters as they are."""

    def __init__(self, question: str) -> None:
        query = understand(question)
        self.match = query.match_all if query.asked else None
        self._letters, self._finder = Literal(question), Finder(query.terms)
        self._asked = {at for at, term in enumerate(query.terms) if not term.piece_of}

    def find(self, text: str) -> Snippet | None:
        """Where a text shows it, or None."""
        if self._asked and self._asked <= {spot.term for spot in self._finder.find(text, 1)}:
            return best_snippet(text, self._finder)
        place = self._letters.find(text) if self._letters.text else None
        return None if place is None else snippet_around(text, *place)


class _Expression:
    """A regular expression."""

    match = None

    def __init__(self, regex: Regex, seconds: float) -> None:
        self._regex, self._seconds = regex, seconds

    def find(self, text: str) -> Snippet | None:
        """Where a text shows it, or None; a text that takes too long has none."""
        try:
            place = self._regex.find(text, self._seconds)
        except TimeoutError:
            return None
        return None if place is None else snippet_around(text, *place)


@dataclass(frozen=True, slots=True)
class VersionSearch:
    """A search among the versions of a scope."""

    archive: Archive
    where: Where
    asked: _Words | _Expression
    seconds: float

    @classmethod
    def words(cls, archive: Archive, where: Where, question: str, seconds: float) -> VersionSearch:
        return cls(archive, where, _Words(question), seconds)

    @classmethod
    def expression(cls, archive: Archive, where: Where, regex: Regex, seconds: float) -> VersionSearch:
        return cls(archive, where, _Expression(regex, seconds / 5), seconds)

    def hits(self) -> Iterator[Finding]:
        """Messages of which only a version has what is asked for, each once: best first, then newest first."""
        if not self.archive.versions.any:
            return
        seen: set[int] = set()
        for ids in self._pages():
            fresh = [id_ for id_ in ids if id_ not in seen]
            seen.update(fresh)
            yield from self._among(fresh)

    def _pages(self) -> Iterator[Sequence[int]]:
        versions, end = self.archive.versions, time.monotonic() + self.seconds
        if self.asked.match is not None:
            found = versions.having(self.asked.match, self.where, _MOST)
            yield from (found[start : start + _PAGE] for start in range(0, len(found), _PAGE))
        below: int | None = None
        while time.monotonic() < end and (ids := versions.newest(self.where, below, _PAGE)):
            yield ids
            below = ids[-1]

    def _among(self, ids: Sequence[int]) -> Iterator[Finding]:
        found = self.archive.versions.many(ids)
        for current in self.archive.search.texts.messages(ids):
            spot = self._spot(found.get(current.id, ()))
            if spot is not None and self.asked.find(current.indexed) is None:
                yield _finding(current, *spot)

    def _spot(self, versions: Sequence[Version]) -> tuple[Version, Snippet] | None:
        """The newest version that has it."""
        for version in reversed(versions):
            if version.is_whole and (snippet := self.asked.find(version.indexed)) is not None:
                return version, snippet
        return None


def _finding(current: MessageText, version: Version, snippet: Snippet) -> Finding:
    said = _SAID[version.kind]
    matches = tuple((start + len(said), end + len(said)) for start, end in snippet.matches)
    hit = Finding(
        current.id, "message", current.conversation_id, current.seq, 0.0, said + snippet.text,
        from_epoch(current.at / 1000), current.role, matches=matches,
    )  # fmt: skip
    return replace(hit, version=version.kind)
