"""A transcript and the archive side by side: what both have, and what only one of them has."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lossless.store.archive import Archive
    from lossless.store.listings import MessageRow
    from lossless.tui.scrolls import Said, Scroll

#: So many messages that only the archive has are shown in one place; the others are counted.
GAP = 50
#: So many messages before a window are looked up to see where it begins in the archive.
_LEAD = 20
#: Of a text that is said again and again, so many places are looked at.
_PLACES = 1_000
_END = 2**62

#: In both, in both with another text, only in the transcript, only in the archive, in the transcript and never kept.
Mark: TypeAlias = Literal["=", "~", "+", "-", "·"]


@dataclass(frozen=True, slots=True)
class Pair:
    """A message of the transcript and the one of the archive that it is; one of them may be missing."""

    mark: Mark
    said: Said | None = None
    row: MessageRow | None = None
    #: In place of a row: the seqs of messages that are not shown.
    seqs: tuple[int, int] | None = None

    @property
    def is_difference(self) -> bool:
        return self.mark not in ("=", "·")

    @property
    def key(self) -> str:
        if self.said is not None:
            return f"line {self.said.place}"
        return f"seq {self.row.seq if self.row is not None else self.seqs}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A window of a transcript against the archive."""

    first: int
    pairs: tuple[Pair, ...]

    def count(self, mark: Mark) -> int:
        """How many pairs of a kind there are, those that are not shown too."""
        several = sum(pair.seqs[1] - pair.seqs[0] for pair in self.pairs if pair.mark == mark and pair.seqs)
        return several + sum(pair.mark == mark for pair in self.pairs)

    @property
    def is_same(self) -> bool:
        return not any(pair.is_difference for pair in self.pairs)


@dataclass(frozen=True, slots=True)
class _Match:
    seq: int
    is_same: bool = True


@dataclass(frozen=True, slots=True)
class _Chain:
    """Places with rising seqs, from the last one back."""

    place: int
    seq: int
    before: _Chain | None


def compared(archive: Archive, conversation_id: int, scroll: Scroll, first: int, count: int) -> Comparison:
    """Lay a window of a transcript over the archive: by the host's ids, else by what was said, in order."""
    lead = scroll.window(max(0, first - _LEAD), min(_LEAD, first))
    said = scroll.window(first, count)
    with archive.reading():
        matches = _matches(archive, conversation_id, [*lead, *said])
        before = max((matches[one.place].seq for one in lead if one.place in matches), default=0)
        if not before and first:  # what only the archive has before this window cannot be told
            before = min((match.seq for match in matches.values()), default=_END) - 1
        is_last = first + len(said) >= len(scroll)
        return Comparison(first, tuple(_paired(archive, conversation_id, said, matches, before, is_last=is_last)))


def next_difference(
    archive: Archive, conversation_id: int, scroll: Scroll, first: int, count: int
) -> Comparison | None:
    """The first window from a place on in which the two are not the same; None when there is none."""
    for place in range(first, len(scroll), count):
        found = compared(archive, conversation_id, scroll, place, count)
        if not found.is_same:
            return found
    return None


def _matches(archive: Archive, conversation_id: int, said: Iterable[Said]) -> dict[int, _Match]:
    """Which message of the archive each one is, by its place."""
    all_of_them = list(said)
    known = archive.messages.known_entries(conversation_id, [one.id for one in all_of_them if one.id is not None])
    found = {
        one.place: _Match(known[one.id].seq, known[one.id].fingerprint == one.fingerprint)
        for one in all_of_them
        if one.id is not None and one.id in known
    }
    used = {match.seq for match in found.values()}
    choices: dict[int, list[int]] = {}
    for one in all_of_them:
        if one.place in found:
            choices[one.place] = [found[one.place].seq]
        elif one.message is not None:
            seqs = archive.messages.seqs_of_identity(conversation_id, one.identity, _PLACES)
            choices[one.place] = [seq for seq in seqs if seq not in used]
    return {place: _Match(seq) for place, seq in in_order(choices).items()} | found


def in_order(choices: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """A seq for as many places as can have one of theirs so that all of them rise.

    >>> in_order({0: [9, 1], 1: [1], 2: [2, 3], 3: [3]})
    {1: 1, 2: 2, 3: 3}
    """
    ends: list[int] = []
    chains: list[_Chain] = []
    for place, seqs in choices.items():
        for seq in sorted(seqs, reverse=True):  # so that a place is in a chain only once
            at = bisect_left(ends, seq)
            chain = _Chain(place, seq, chains[at - 1] if at else None)
            ends[at : at + 1], chains[at : at + 1] = [seq], [chain]
    found: dict[int, int] = {}
    link = chains[-1] if chains else None
    while link is not None:
        found[link.place], link = link.seq, link.before
    return dict(sorted(found.items()))


def _paired(
    archive: Archive, conversation_id: int, said: list[Said], matches: dict[int, _Match], before: int, *, is_last: bool
) -> Iterator[Pair]:
    used = {match.seq for match in matches.values()}
    ids = [id_ for seq in used for id_ in archive.lineage.after(conversation_id, seq - 1, 1)]
    rows = {row.seq: row for row in archive.listings.messages_by_id(ids, whole=False)}
    for one in said:
        match = matches.get(one.place)
        if match is None:
            yield Pair("·" if one.message is None else "+", one)
            continue
        if match.seq > before + 1:
            yield from _only_here(archive, conversation_id, before, match.seq, used)
        before = max(before, match.seq)
        yield Pair("=" if match.is_same else "~", one, rows.get(match.seq))
    if is_last:
        yield from _only_here(archive, conversation_id, before, _END, used)


def _only_here(archive: Archive, conversation_id: int, after: int, until: int, used: set[int]) -> Iterator[Pair]:
    """Messages between two places that only the archive has."""
    ids = archive.lineage.after(conversation_id, after, GAP + len(used))
    rows = [row for row in archive.listings.messages_by_id(ids, whole=False) if row.seq < until and row.seq not in used]
    yield from (Pair("-", row=row) for row in rows[:GAP])
    if len(rows) > GAP:
        newest = archive.lineage.before(conversation_id, until, 1)
        last = archive.lineage.places(newest)[newest[0]][1]
        yield Pair("-", seqs=(rows[GAP].seq, last))
