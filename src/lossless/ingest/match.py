"""The matcher: aligns a shown sequence of messages with stored rows.

Pure. It finds the row of each shown message, never whether text is stored: a message without a row is new, and
different text at a row's position is a version of that row. The order of evidence:

1. ids of the host, as far as the caller found them;
2. equal messages: the common beginning, then those that occur once on either side and are in a run or in the last
   window, in the longest chain whose order agrees (messages that cross it were moved);
3. between two of these: equal messages in their order, similar ones, the position, where the roles agree; several rows
   shown as one message, and one row shown as several.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import dropwhile, pairwise, takewhile
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.ingest.sequences import (
    best_in_order,
    firm_chain,
    longest_chain,
    longest_common,
    near_places,
    next_equal,
    next_spoken,
    overlap,
    runs_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from lossless.ingest.likeness import MessageComparer

#: The minimum score of similar messages.
ALIKE = 0.5
#: The minimum score without any other evidence.
VERY_ALIKE = 0.85
#: The score of a message with the same words, but for some that were removed or masked; numbers agree.
SAME = 0.9
#: So many equal messages in a row are not a coincidence.
SURE = 3
#: The maximum number of pairs compared between two anchors; beyond it each message takes the next equal row.
_MAX_CELLS = 65_536
#: How far before the first known row a message may have come from.
_NEAR = 4
#: Up to so many messages may all have changed.
_FEW = 4
#: How many messages at the beginning of a window may be rows in other words, and how many of these are evidence.
_HEADS, _SEVERAL = 12, 2
#: A user message, an answer, or both: when only this is missing, the host has deleted it.
_EXCHANGES = (["user"], ["assistant"], ["user", "assistant"], ["assistant", "user"])
_SPEAKERS = ("user", "assistant")
#: Roles, and whether very short, of messages that say which branch it is.
_BRANCH_SIGNS = (("user", False), ("user", True), ("assistant", False))

#: Why a row leaves the context: deleted by its host, abandoned on a branch, or shown temporarily only.
Cause: TypeAlias = Literal["removed", "branch", "transient"]


@dataclass(frozen=True, slots=True)
class MatchedMessage:
    """A message on either side: its content and role; of a shown one also the row that an id names."""

    mark: bytes
    role: str
    known: int | None = None
    #: Whether it is so short that others may be equal.
    is_short: bool = False


@dataclass(frozen=True, slots=True)
class MatchResult:
    """The row of each shown message, and the consequences for the others."""

    #: For each shown message the index of its row, or None when it is new.
    rows: tuple[int | None, ...]
    #: Shown messages whose text differs from their row: versions of it.
    versions: frozenset[int] = frozenset()
    #: Shown messages that are several rows, or a part of one: the text is stored, split differently.
    cuts: frozenset[int] = frozenset()
    #: Shown messages whose row has another position in the stored order.
    moved: frozenset[int] = frozenset()
    #: How many were decided by similarity, and how many repeats may be missing because content does not decide.
    likely: int = 0
    ambiguous: int = 0
    #: Rows that leave the context.
    gone: Mapping[int, Cause] = field(default_factory=dict)


def match(
    shown: Sequence[MatchedMessage],
    stored: Sequence[MatchedMessage],
    pair: MessageComparer,
    *,
    last: Collection[int] | None = None,
    follows: bool = False,
    is_abandoned: Callable[[int], bool] | None = None,
) -> MatchResult:
    """Align shown messages with stored rows, both oldest first.

    `last` are the rows that were shown before, None when unknown. `follows` means that both begin at the same position:
    what precedes them is equal. `is_abandoned` says whether a shown message equals one that has left the context and is
    not among the rows.
    """
    found = _Matcher(shown, stored, pair, last, follows, is_abandoned or (lambda _: False))
    found.find_anchors()
    found.fill_gaps()
    found.find_moved()
    return found.result()


class _Matcher:
    """One run of the matcher: pairs of a shown message and a row, as they are found."""

    def __init__(
        self,
        shown: Sequence[MatchedMessage],
        stored: Sequence[MatchedMessage],
        pair: MessageComparer,
        last: Collection[int] | None,
        follows: bool,
        is_abandoned: Callable[[int], bool],
    ) -> None:
        self.shown, self.stored, self.pair, self.is_abandoned = shown, stored, pair, is_abandoned
        self.roles = [row.role for row in stored]
        self.last, self.follows = None if last is None else frozenset(last), follows
        self.rows: dict[int, int] = {n: one.known for n, one in enumerate(shown) if one.known is not None}
        self.taken = set(self.rows.values())
        self.chain: list[tuple[int, int]] = []
        self.versions, self.cuts = set[int](), set[int]()
        self.alike, self.strayed = set[int](), set[int]()
        #: Messages that may have been said again, and how many more an overlap leaves open.
        self.repeats, self.ambiguous = set[int](), 0

    # -- anchors

    def find_anchors(self) -> None:
        """The certain pairs, as the longest chain whose order agrees on both sides."""
        anchors = dict(self.rows)
        self.follows = self.follows and not self._has_moved_on()
        if self.follows:
            anchors |= self._common_beginning()
        landmarks = self._landmarks(anchors)
        anchors |= {  # in a run, or shown before and not very short: no coincidence
            w: s
            for w, s in landmarks.items()
            if self._is_in_run(w, s, landmarks) or (self._was_shown(s) and not self.shown[w].is_short)
        }
        firm = {(w, s) for w, s in anchors.items() if w in self.rows or not self.shown[w].is_short}
        self.chain = self._without_repeated_end(firm_chain(sorted(anchors.items()), firm))
        found = [w for w, _ in self.chain if w not in self.rows]
        (w, _), (end, s) = (self.chain[0], self.chain[-1]) if self.chain else ((0, 0), (0, 0))
        is_newest = bool(self.chain) and all(self._is_equal(end + n, s + n) for n in range(1, len(self.stored) - s))
        is_little = len(found) < SURE and all(self.shown[w].is_short for w in found)
        if self.chain and not self.follows and not is_newest and is_little:  # only a run of very short texts
            is_there = len(found) < len(self.chain) or (w > 0 and self._begins_as_before(is_reworded=True))
            self.repeats.update(found if is_there else ())
            self.chain = self.chain if is_there else []
        if not self.chain and not self.follows:
            self._fill_cut(list(range(len(self.shown)))[:_HEADS], sorted(self.last or ())[: 2 * _HEADS])
            pairs = [] if self.rows else self._overlap_by_marks() or self._reworded_overlap() or self._newest_again()
            self.chain = pairs or sorted(self.rows.items())
        for w, s in self.chain:
            if w not in self.cuts:
                self._pair(w, s)
        for w, s in (anchors | landmarks).items():  # messages that cross the chain were moved
            is_within = self._was_shown(s) or (bool(self.chain) and s > self.chain[0][1])
            is_within = is_within and (self.shown[w].role != "tool" or self.rows.get(w - 1) == s - 1)  # with its call
            if w not in self.rows and is_within and s not in self.taken and not self.shown[w].is_short:
                self._pair(w, s)
                self._pair_neighbours(w, s)

    def _pair_neighbours(self, w: int, s: int, minimum: float = ALIKE, steps: Sequence[int] = (1, -1)) -> list[int]:
        """Pair messages that are still next to one that was moved, or that is shown again: the same, or versions."""
        found: list[int] = []
        near = [n for n in range(max(0, w - _NEAR), min(len(self.shown), w + _NEAR + 1)) if n not in self.rows]
        self._fill_split(near, [n for n in (s - 1, s + 1) if 0 <= n < len(self.stored) and n not in self.taken])
        for step in steps:
            n = step
            while self._is_neighbour(w + n, s + n, minimum):
                self._pair_all([(w + n, s + n)], alike=True)
                found.append(w + n)
                n += step
        return found

    def _is_neighbour(self, w: int, s: int, minimum: float) -> bool:
        if not (0 <= w < len(self.shown) and 0 <= s < len(self.stored)) or w in self.rows or s in self.taken:
            return False
        if self._is_equal(w, s) or not self.pair.may_be(w, s):
            return self._same(w, s)
        likeness = self.pair.likeness(w, s)
        return likeness >= minimum or (likeness >= ALIKE and self.pair.is_lesser(w, s))

    def _without_repeated_end(self, chain: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """A chain without a run of very short texts at its end that follow different user messages on the two sides."""
        start = len(chain)
        for w, s in reversed(chain):
            if not self._is_open(w) or chain[start : start + 1] not in ([], [(w + 1, s + 1)]):
                break
            start -= 1
        run, before = chain[start:], chain[start - 1] if start else (-1, -1)
        if not self.follows or not 0 < len(run) < SURE:
            return chain
        asked = next((n for n in range(run[0][0] - 1, before[0], -1) if self.shown[n].role == "user"), None)
        row = next((n for n in range(run[0][1] - 1, before[1], -1) if self.stored[n].role == "user"), None)
        if asked is None or row is None or self.shown[asked].is_short:
            return chain
        likeness = self.pair.likeness(asked, row) if self.pair.may_be(asked, row) else 0.0
        is_next = likeness == 1.0 or run[0][0] - asked == run[0][1] - row  # else the host may go on from an edit
        return chain if likeness >= ALIKE and is_next else chain[:start]

    def _common_beginning(self) -> dict[int, int]:
        both = range(min(len(self.shown), len(self.stored)))
        new = (n for n in both if n in self.rows or n in self.taken or not self._reads_same(n, n))
        return {n: n for n in range(next(new, len(both)))}

    def _has_moved_on(self) -> bool:
        """Whether the few very short texts at the beginning are also right before a later row, which is shown next.

        Or they are the last rows, and the window is as long as the last one.
        """
        size = len(self._common_beginning())
        if not 0 < size < min(SURE, len(self.shown)) or not all(self._is_open(w) for w in range(size)):
            return False
        there = {row.mark for row in self.stored}
        is_other = self.shown[size].role == "tool" and len(self.stored) > size + 1
        is_known = any(one.mark in there and not one.is_short for one in self.shown[size:])
        if is_other and not is_known and not self.pair.is_lesser(size, size):
            return True  # a call like the first with another result, and nothing else
        later, start = range(size + 1, len(self.stored)), len(self.stored) - size
        if start > 0 and all(self._is_equal(w, start + w) for w in range(size)):  # content cannot tell
            is_new = all(one.mark not in there for one in self.shown[size:])
            is_as_long = len(self.shown) >= len(self.last or self.stored)
            if is_new and is_as_long and not self._is_neighbour(size, size, ALIKE):
                return True
            self.repeats.update(range(size))
        return any(self._same(size, s) and all(self._is_almost(w, s - size + w) for w in range(size)) for s in later)

    def _landmarks(self, anchors: Mapping[int, int]) -> dict[int, int]:
        """Equal messages that occur once on either side, except system prompts."""
        taken = set(anchors.values())
        free = [(n, one) for n, one in enumerate(self.shown) if n not in anchors and one.role != "system"]
        rows = [(n, row) for n, row in enumerate(self.stored) if n not in taken and row.role != "system"]
        once = Counter(one.mark for _, one in free), Counter(row.mark for _, row in rows)
        places = {row.mark: n for n, row in rows if once[1][row.mark] == 1}
        pairs = [(w, places[one.mark]) for w, one in free if once[0][one.mark] == 1 and one.mark in places]
        return {w: s for w, s in pairs if (self._has_moved if self.shown[w].is_short else self.pair.may_be)(w, s)}

    def _was_shown(self, s: int) -> bool:
        return self.last is not None and s in self.last

    def _is_in_run(self, w: int, s: int, landmarks: Mapping[int, int]) -> bool:
        """Whether a neighbour is equal, too, maybe behind omitted tool rounds; no repeat next to a very short text."""
        beside = [w + n for n in (1, -1) if self._is_equal(w + n, s + n)]
        further = [w + n for n in (1, -1) if self._is_equal(w + n, next_spoken(self.roles, s, n))]
        if not self.shown[w].is_short:
            return bool(beside or further)
        long = (n for n in (*beside, *further) if not self.shown[n].is_short and self.shown[n].role != "system")
        return any(n in landmarks for n in beside) or next(long, None) is not None

    def _is_equal(self, w: int, s: int) -> bool:
        inside = 0 <= w < len(self.shown) and 0 <= s < len(self.stored)
        return inside and self.shown[w].mark == self.stored[s].mark

    def _overlap_by_marks(self, head: int = 0) -> list[tuple[int, int]]:
        """Without any anchor: repeated messages, where the window begins with what the rows end with, or behind one."""
        shown, stored = [one.mark for one in self.shown[head:]], [row.mark for row in self.stored]
        size, self.ambiguous = overlap(shown, stored, lambda n: self.shown[head + n].is_short)
        if not head and (not size or (size == 1 and stored.count(shown[0]) > 1)) and (pairs := self._edited_overlap()):
            return pairs
        start = len(self.stored) - size
        is_alone = size == 1 and not self.shown[head].is_short  # the newest row, from any producer
        is_known = size == 1 and (self._was_shown(start) or len(self.shown) == len(self.stored) == 1)
        is_sure = size >= 2 or (not head and (is_known or is_alone))
        if is_sure and all(self.pair.may_be(head + n, start + n) for n in range(size)):
            return [(head + n, start + n) for n in range(size)]
        self.ambiguous = 0
        return [] if head or len(shown) < SURE else self._overlap_by_marks(1)  # behind a summary of the host

    def _edited_overlap(self) -> list[tuple[int, int]]:
        """The same, where fewer than half have other words: longer messages, or the newest of a user, decorated."""
        newest = next((s for s in range(len(self.stored) - 1, -1, -1) if self.roles[s] == "user"), 0)
        for size in range(min(len(self.shown), len(self.stored)), 2, -1):
            start = len(self.stored) - size
            edited = [w for w in range(size) if not self._is_equal(w, start + w)] if self._is_equal(0, start) else []
            if not 0 < 2 * len(edited) < size or not all(self.pair.may_be(w, start + w) for w in range(size)):
                continue
            is_open = [start + w == newest or not self.shown[w].is_short for w in edited]
            if all(is_open) and all(self.pair.likeness(w, start + w) >= ALIKE for w in edited):
                shown, stored = [one.mark for one in self.shown], [row.mark for row in self.stored[: start + edited[0]]]
                self.ambiguous = overlap(shown, stored, lambda n: self.shown[n].is_short)[1]
                self.alike.update(edited)
                return [(w, start + w) for w in range(size)]
        return []

    def _reworded_overlap(self) -> list[tuple[int, int]]:
        """Where the beginning of the window is rows of the last one, each in other words: the longer messages there."""
        heads = [w for w, one in enumerate(self.shown[:_HEADS]) if one.role in _SPEAKERS and not one.is_short]
        rows = [s for s in sorted(self.last or ())[: 2 * _HEADS] if self.roles[s] in _SPEAKERS]
        rows = [s for s in rows if not self.pair.is_short(s)]
        scores: dict[tuple[int, int], float] = {}
        for i, w in enumerate(heads):
            alike = ((j, self.pair.likeness(w, s)) for j, s in enumerate(rows) if self.pair.may_be(w, s))
            scores |= {(i, j): score for j, score in alike if score >= ALIKE}
            if not scores and i + 1 == _SEVERAL:
                return []
        weights = {place: score if score >= SAME else score / 4 for place, score in scores.items()}
        pairs = best_in_order(weights, len(heads), len(rows))
        if sum(scores[place] >= SAME for place in pairs) < _SEVERAL or 2 * len(pairs) <= 1 + pairs[-1][0]:
            return []
        self.alike.update(heads[i] for i, _ in pairs)
        return [(heads[i], rows[j]) for i, j in pairs]

    def _newest_again(self) -> list[tuple[int, int]]:
        """The newest row alone at the start of what is shown: a very short text, or in a host's frame."""
        newest = len(self.stored) - 1
        if newest < 0 or not self.shown or not self._was_shown(newest):
            return []
        start = min(self.last or (), default=newest)
        is_start = self.pair.may_be(0, start) and self.pair.likeness(0, start) >= ALIKE
        few = SURE if is_start else 1 if self.shown[0].role == "tool" else 2  # a host's summary, or notices, precede it
        there = (w for w in range(few) if self._is_equal(w, newest) and self.pair.may_be(w, newest))
        head = next((w for w in there if not is_start or not self._is_equal(w, start + w)), None)
        if head is not None:
            self.repeats.add(head)
            run = [(n, newest - head + n) for n in range(head + 1) if newest >= head]
            return run if run and all(self._is_almost(w, s) for w, s in run) else [(head, newest)]
        for size in range(min(_FEW, len(self.shown), len(self.stored)), 0, -1):
            pairs = [(n, len(self.stored) - size + n) for n in range(size)]
            reworded = next((w for w, s in pairs if not self.shown[w].is_short and self._is_reworded(w, s)), size)
            # from there, the host may have continued with the same words
            late = [w for w, s in pairs[reworded + 1 :] if self.shown[w].is_short or self.pair.is_short(s)]
            if all(self._is_almost(w, s) and (w not in late or self._is_equal(w, s)) for w, s in pairs):
                self.alike.update(w for w, s in pairs if not self._is_equal(w, s))
                self.repeats.update(range(size) if all(self.shown[w].is_short for w, _ in pairs) else late)
                return pairs
        return []

    def _is_almost(self, w: int, s: int) -> bool:
        """Whether a message is a row with the same words, or in a host's frame."""
        if w in self.rows or s in self.taken or not self.pair.may_be(w, s):
            return False
        return self._is_equal(w, s) or self.pair.likeness(w, s) >= (1.0 if self.shown[w].is_short else VERY_ALIKE)

    def _pair(self, w: int, s: int) -> None:
        self.rows[w] = s
        self.taken.add(s)
        if self.shown[w].mark != self.stored[s].mark:
            self.versions.add(w)

    # -- gaps

    def fill_gaps(self) -> None:
        if not self.chain and not self.follows:
            self._fill_all()
            return
        if self._is_rewritten_throughout():
            return
        ends = [(-1, -1), *self.chain, (len(self.shown), len(self.stored))]
        for n, ((w, s), (next_w, next_s)) in enumerate(pairwise(ends)):
            anchored_before = n > 0 or self.follows or self._begins_as_before()
            free = [one for one in range(w + 1, next_w) if one not in self.rows]
            rows = [one for one in range(s + 1, next_s) if one not in self.taken]
            rest, is_system = self.chain[n:], all(self.shown[w].role == "system" for w in free)
            is_firm = is_system or len(rest) >= SURE or not all(self._is_open(w) for w, _ in rest)  # else repeats
            self._fill(free, rows, anchored_before=anchored_before, anchored_after=bool(rest) and is_firm)
        self._count_short_end()

    def _count_short_end(self) -> None:
        """Count very short texts that are certain only by their run, after something new or edited."""
        rest = len(self.chain)
        while rest and self._is_open(self.chain[rest - 1][0]):
            rest -= 1
        ends = [w for w, _ in self.chain[rest:]]
        if not 0 < len(ends) < SURE or (rest and not self.follows):
            return
        if self._is_edited(max((w for w in self.rows if w < ends[0]), default=-1)):
            self.repeats.update(ends)  # the host may have continued from there
        elif self.follows:
            self.repeats.update(dropwhile(lambda w: not self._is_behind_new(w), ends))

    def _is_open(self, w: int) -> bool:
        return self.shown[w].is_short and self.shown[w].known is None

    def _is_behind_new(self, w: int) -> bool:
        return w > 0 and w - 1 not in self.rows and self.shown[w - 1].role != "system"

    def _begins_as_before(self, *, is_reworded: bool = False) -> bool:
        """Whether as many messages precede the first certain one as in the last window, maybe each in other words."""
        w, s = self.chain[0] if self.chain else (0, 0)
        head = [one for one in sorted(self.last or ()) if one < s]
        is_as_long = bool(self.chain and self.last) and len(head) == w
        is_later = is_reworded and self._is_equal(0, len(self.stored) - 1)
        return is_as_long and not is_later and (not is_reworded or all(map(self.pair.may_be, range(w), head)))

    def _fill_all(self) -> None:
        """Nothing is certain. The first message may be reworded, or everything rewritten.

        Everything only if it was shown before, except omitted tool rounds: the window may have moved on too far.
        """
        rows, rest = sorted(self.last or ()), set(range(len(self.stored))).difference(self.last or ())
        if not rows or not self.shown or 0 in rest:
            return
        pairs = list(enumerate(rows[: len(self.shown)]))
        is_whole = all(map(self.pair.uses_tools, rest))
        is_all = is_whole and len(rows) > 1 and 0 <= len(self.shown) - len(rows) <= max(_FEW, len(rows))
        is_all = is_all and all(self.pair.may_be(w, s) for w, s in pairs)
        likeness = self.pair.likeness(0, rows[0]) if self.pair.may_be(0, rows[0]) else 0.0
        is_short = self.shown[0].is_short or (likeness == 1.0 and self.pair.is_short(rows[0]))
        is_little = len(rows) >= _FEW or is_short or not is_whole
        is_first = likeness >= VERY_ALIKE if is_little else likeness > ALIKE  # the same frame is not enough
        spoken = [(w, s) for w, s in pairs if is_first and self.shown[w].role != "tool"]
        goes_on = 2 * sum(self.pair.likeness(w, s) >= ALIKE for w, s in spoken) <= len(spoken)  # from the edited first
        is_all, is_first = is_all and not (is_first and goes_on), is_first and not (goes_on and is_short)
        if is_all and self.pair.are_rewritten(pairs):
            self._pair_all(pairs, alike=True)
        elif is_first:
            self._pair_all(pairs[:1], alike=True)
            self.chain = sorted(self.rows.items())
            self.fill_gaps()

    def _is_rewritten_to_end(self, shown: list[int], rows: list[int]) -> bool:
        """Whether all longer texts are other words for their rows, to the end of the last window: a translation.

        Tool calls and results may be unchanged.
        """
        if not rows or not 0 <= len(shown) - len(rows) <= max(_FEW, len(rows)):
            return False
        pairs = [*((w, s) for w, s in self.rows.items() if w not in self.cuts), *zip(shown, rows, strict=False)]
        same = [(w, s) for w, s in pairs if self._is_equal(w, s) and not self.shown[w].is_short]
        if any(self.shown[w].role == "user" for w, _ in same) or not all(self._was_shown(s) for s in rows):
            return False
        if not all(self.pair.uses_tools(s) for _, s in same) or not all(self.pair.may_be(w, s) for w, s in pairs):
            return False
        return self.pair.are_rewritten(
            [(w, s) for w, s in pairs if self.shown[w].role != "tool" and not self._is_equal(w, s)]
        )

    def _is_rewritten_throughout(self) -> bool:
        """Pair everything with the last window, if all longer texts are other words for its rows, in their order."""
        last = sorted(self.last or ())
        free = [w for w in range(len(self.shown)) if w not in self.rows]
        rows = [s for s in last if s not in self.taken]
        is_in_order = all(w < len(last) and last[w] == s for w, s in self.rows.items())
        if not is_in_order or free[:1] == [len(last)] or not self._is_rewritten_to_end(free, rows):
            return False
        self._pair_all(zip(free, rows, strict=False), alike=True)
        return True

    def _fill(self, shown: list[int], rows: list[int], *, anchored_before: bool, anchored_after: bool) -> None:
        if not shown or not rows:
            return
        found = equal = self._equal_in_order(shown, rows, (anchored_before, anchored_after))
        if not anchored_after:
            found, offset = self._led_by_first(found, shown, rows), shown[0] - rows[0]
            equal = self._without_late_words(found, offset)
            if len(equal) < len(found):  # what precedes them is not new if it is rows in parts
                there = dict(found)
                self._fill_cut([w for w in shown if w not in there], [s for s in rows if s not in there.values()])
                equal = self._without_late_words(found, offset)
        self._pair_all(equal, alike=True)
        ends = [(-1, -1), *equal, (len(self.shown), len(self.stored))]
        for n, ((w, s), (next_w, next_s)) in enumerate(pairwise(ends)):
            is_before, is_after = anchored_before or n > 0, anchored_after or n < len(ends) - 2
            some = [one for one in shown if w < one < next_w and one not in self.rows]
            others = [one for one in rows if s < one < next_s and one not in self.taken]
            is_sure = anchored_after or (is_after and not self.shown[next_w].is_short)
            is_sure = is_sure or (is_after and all(self.shown[one].role == "system" for one in some))
            self._fill_alike(some, others, anchored_before=is_before, anchored_after=is_sure)
        for w, s in [] if anchored_after else equal:
            is_next = self._is_equal(w, s) and self._follows_its_row(w, s)
            if self.shown[w].is_short and (w - 1 in self.repeats or not is_next):
                self.repeats.add(w)

    def _follows_its_row(self, w: int, s: int) -> bool:
        """Whether an unedited row precedes a message, and what preceded its own row is shown."""
        before = next((n for n in range(s - 1, -1, -1) if self.stored[n].role != "system"), None)
        if before is not None and before not in self.taken:
            return False
        return w == 0 or (w - 1 in self.rows and not self._is_edited(w - 1))

    def _is_reworded(self, w: int, s: int) -> bool:
        return not self._is_equal(w, s) and self.pair.likeness(w, s) < 1.0

    def _is_edited(self, w: int) -> bool:
        return w in self.versions and not self.pair.is_lesser(w, self.rows[w])

    def _equal_in_order(
        self, shown: list[int], rows: list[int], is_anchored: tuple[bool, bool]
    ) -> list[tuple[int, int]]:
        """Equal messages in their order, as many as possible; those next to the anchor take precedence.

        Without a certain message before, an equal one counts only if it was shown before or is next to what is certain
        after it: an isolated old short text does not; a longer one does, near what is certain.
        """
        found = self._common(shown, rows, from_start=is_anchored[0])
        if is_anchored[0]:
            return found
        kept: list[tuple[int, int]] = []
        next_w, next_s = shown[-1] + 1, rows[-1] + 1
        for w, s in reversed(found):
            is_next = w == next_w - 1 and (s == next_s - 1 or self._is_almost(w, next_s - 1))
            is_near = is_anchored[1] and next_s - s <= _NEAR and not self.shown[w].is_short
            if is_next or is_near or self._was_shown(s):
                next_w, next_s = w, next_s - 1 if is_next else s  # the row at its place, maybe in a host's frame
                kept.append((next_w, next_s))
        return kept[::-1]

    def _led_by_first(self, pairs: list[tuple[int, int]], shown: list[int], rows: list[int]) -> list[tuple[int, int]]:
        """Of scattered very short texts, only those at the beginning of what is shown count."""
        is_scattered = pairs and pairs[0][0] != shown[0] and all(self.shown[w].is_short for w, _ in pairs)
        first = self._common(shown[:1], rows, from_start=True) if is_scattered else []
        later = [s for s in rows if first and s > first[0][1]]
        return first + self._common(shown[1:], later, from_start=True) if first else pairs

    def _without_late_words(self, pairs: list[tuple[int, int]], offset: int) -> list[tuple[int, int]]:
        """Without a certain message after them, very short texts after something new are new as well, or were moved.

        Unless their distance from the certain messages is unchanged, or both sides end with a user message. Those after
        one that had left belong to its branch; after an edited one only those count that followed its row, results.
        """
        kept: list[tuple[int, int]] = []
        for w, s in pairs:
            is_next = w == 0 or w - 1 in self.rows or (bool(kept) and kept[-1][0] == w - 1)
            is_end = len(self.shown) - w == len(self.stored) - s == 1 and self.shown[w].role == "user"
            is_there = is_next or (w - s == offset and (is_end or self._is_behind_alike(w, s)))
            is_there = is_there and not self._is_behind_abandoned(w, {one for one, _ in kept})
            if self._is_edited(w - 1):
                is_same = self._is_equal(w, s) or not self._is_reworded(w - 1, s - 1)
                is_there = is_there and self.rows[w - 1] == s - 1 and is_same
            if not is_next or self._is_edited(w - 1):
                is_there = is_there and not self._has_other_result(w, s)
            if is_there or not self.shown[w].is_short:
                kept.append((w, s))
        return kept

    def _has_other_result(self, w: int, s: int) -> bool:
        """Whether it is the result of another call, or a call with another result, and what precedes it was edited."""
        if self.shown[w].role == "tool" and w - 1 not in self.rows and s > 0:
            return self.pair.likeness(w - 1, s - 1) < 1.0
        if w + 1 >= len(self.shown) or s + 1 >= len(self.stored) or self.shown[w + 1].role != "tool":
            return False
        is_other = self.stored[s + 1].role == "tool" and not self._is_equal(w + 1, s + 1)
        is_framed = w > 0 and s > 0 and self.pair.likeness(w - 1, s - 1) == 1.0
        return is_other and not is_framed and not self.pair.is_lesser(w + 1, s + 1)

    def _is_behind_alike(self, w: int, s: int) -> bool:
        """Whether what was said before both is the same in other words; very short texts that differ say nothing."""
        behind = s
        for n in range(1, min(w, s) + 1):
            if (self.shown[w - n].role, self.shown[w - n].is_short) in _BRANCH_SIGNS:
                if "user" in self.roles[s - n + 1 : behind] or not self.pair.may_be(w - n, s - n):
                    return False
                if self._is_equal(w - n, s - n) or not self.shown[w - n].is_short:
                    return self.pair.likeness(w - n, s - n) >= ALIKE
                behind = s - n
        return True

    def _is_behind_abandoned(self, w: int, found: Collection[int]) -> bool:
        """Whether the last longer message before it is not a row, and had left the context."""
        known = {*self.rows, *found}
        before = next((n for n in range(w - 1, -1, -1) if n in known or not self.shown[n].is_short), None)
        return before is not None and before not in known and self.is_abandoned(before)

    def _common(self, shown: list[int], rows: list[int], *, from_start: bool) -> list[tuple[int, int]]:
        """A longest common subsequence; of equally long ones the one shown before, and nearest to the anchor."""
        if len(shown) * len(rows) > _MAX_CELLS:
            marks = [self.shown[w].mark for w in shown], [self.stored[s].mark for s in rows]
            pairs = next_equal(*marks, lambda i, j: self.pair.may_be(shown[i], rows[j]))
            return [(shown[i], rows[j]) for i, j in pairs]
        turn = slice(None, None, 1 if from_start else -1)
        found = longest_common(shown[turn], rows[turn], self._same)[turn]
        if self.last is not None and not all(s in self.last for _, s in found):
            again = longest_common(shown[turn], [s for s in rows[turn] if s in self.last], self._same)[turn]
            found = again if len(again) == len(found) else found
        if len(found) == min(len(shown), len(rows)):
            return found
        return max(found, longest_common(shown[turn], rows[turn], self._reads_same)[turn], key=len)

    def _same(self, w: int, s: int) -> bool:
        return self.shown[w].mark == self.stored[s].mark and self.pair.may_be(w, s)

    def _reads_same(self, w: int, s: int) -> bool:
        """Whether they are equal as a person reads them: hosts strip and normalise texts."""
        is_of_one_role = self.shown[w].role == self.stored[s].role
        return self._same(w, s) or (is_of_one_role and self.pair.is_respelled(w, s) and self.pair.may_be(w, s))

    def _fill_alike(self, shown: list[int], rows: list[int], *, anchored_before: bool, anchored_after: bool) -> None:
        """A gap without equal messages: those at the same position between two certain ones, or similar ones."""
        is_between = anchored_before and anchored_after and len(shown) == len(rows)
        if is_between and all(map(self.pair.may_be, shown, rows)):
            self._pair_all(zip(shown, rows, strict=True))
            return
        self._fill_cut(shown, rows)
        shown, rows = [w for w in shown if w not in self.rows], [s for s in rows if s not in self.taken]
        pairs = self._alike(shown, rows, from_start=anchored_before)
        if not anchored_after:
            pairs = self._without_late_alike(pairs, shown)
            # an answer of a word or two, before more: the host may have asked for another one
            answers = (w for w, _ in pairs if w + 1 < len(self.shown) and self.shown[w].role == "assistant")
            self.repeats.update(filter(self._is_open, answers))
        self._pair_all(pairs, alike=True)
        if pairs:
            start = (shown[0] - 1, rows[0] - 1) if anchored_before else pairs[0]
            self._fill_places([pair for pair in pairs if not self.shown[pair[0]].is_short], start)
        if pairs and not anchored_before:
            self._pair_neighbours(*pairs[0], steps=(-1,))

    def _without_late_alike(self, pairs: list[tuple[int, int]], shown: list[int]) -> list[tuple[int, int]]:
        """Without a certain message after it, a message after new ones matches only the same words in another frame.

        So does one after an edited message, unless it followed its row: the host continued from there. A very short one
        does not skip rows.
        """
        kept: list[tuple[int, int]] = []
        for w, s in pairs:
            new = [one for one in shown if one < w and (not kept or one > kept[-1][0])]
            edit, row = kept[-1] if kept else (w - 1, self.rows.get(w - 1, s - 1 if w else -1))
            is_edit = (kept or edit in self.rows.keys() - self.cuts) and not self._is_equal(edit, row)
            is_late = is_edit and not self.pair.is_lesser(edit, row) and not self._is_rewritten_before(edit, dict(kept))
            is_short = self.shown[w].is_short or self.pair.is_short(s)
            is_late = is_late and (row != s - 1 or (is_short and self._is_reworded(edit, row)))
            is_late = is_late or any(self.shown[one].role != "system" for one in new)
            is_late = is_late or (is_short and row != s - 1 and s - 1 not in self.taken and s > 0)
            likeness = self.pair.likeness(w, s) if is_late else 1.0
            is_placed = (kept or edit not in new) and w - edit == s - row
            is_placed = is_placed and all(map(self.pair.may_be, range(edit + 1, w), range(row + 1, s)))
            if is_late and is_short and (likeness < 1.0 or (dict(kept) | self.rows).get(w - 1, s) != s - 1):
                continue
            if likeness == 1.0 or (likeness >= VERY_ALIKE and is_placed):
                self.repeats.update([w] if is_late and is_short else ())  # but for punctuation: it may go on with it
                kept.append((w, s))
        return kept

    def _fill_places(self, pairs: Sequence[tuple[int, int]], start: tuple[int, int]) -> None:
        """Messages between two that are found are their rows in other words, where their roles and number agree."""
        for (w, s), (next_w, next_s) in pairwise([start, *pairs]):
            between = list(zip(range(w + 1, next_w), range(s + 1, next_s), strict=False))
            is_free = all(one not in self.rows and row not in self.taken for one, row in between)
            if next_w - w == next_s - s and is_free and all(self.pair.may_be(*pair) for pair in between):
                self._pair_all(between, alike=True)

    def _is_rewritten_before(self, w: int, found: Mapping[int, int]) -> bool:
        """Whether the last longer message before an edited one is edited as well: its host rewrites all."""
        before = next((n for n in range(w - 1, -1, -1) if not self.shown[n].is_short), -1)
        return self._is_edited(before) or (before in found and not self._is_equal(before, found[before]))

    def _pair_all(self, pairs: Iterable[tuple[int, int]], *, alike: bool = False) -> None:
        for w, s in pairs:
            self._pair(w, s)
            if alike and w in self.versions:
                self.alike.add(w)

    def _alike(self, shown: list[int], rows: list[int], *, from_start: bool) -> list[tuple[int, int]]:
        """The pairs of similar messages in order with the highest total score; of many only near ones.

        Of equally good ones those nearest to the anchor. Without an anchor before it, a message in place of several
        rows is a host's summary, unless it was at the same position of the last window.
        """
        places, last = {s: j for j, s in enumerate(rows)}, sorted(self.last or ())
        scores: dict[tuple[int, int], float] = {}
        for i, w in enumerate(shown):
            for s in near_places(i, len(shown), rows):
                if self.shown[w].mark != self.stored[s].mark and self.pair.may_be(w, s):
                    score = self.pair.likeness(w, s)
                    is_summary = not from_start and last[w : w + 1] != [s]
                    is_summary = is_summary and len(rows) - places[s] > len(shown) - i
                    if score >= (VERY_ALIKE if is_summary else ALIKE):
                        scores[i, places[s]] = score
        back = {i for i, _ in scores if not self.shown[shown[i]].is_short and self.is_abandoned(shown[i])}
        scores = {place: score for place, score in scores.items() if place[0] not in back}  # those rows are equal
        best = best_in_order(scores, len(shown), len(rows), from_start=from_start)
        return [(shown[i], rows[j]) for i, j in best]

    def _fill_cut(self, shown: list[int], rows: list[int]) -> None:
        """Rows that are shown as one message, and those that are shown as several."""
        for i, w in enumerate(shown):
            free = [s for s in near_places(i, len(shown), rows) if s not in self.taken]
            free = [s for s in free if self.stored[s].role == self.shown[w].role in _SPEAKERS]
            run = next((run for run in runs_of(free) if self.pair.holds(w, run)), None)
            if run is not None:
                self.cuts.add(w)
                self.rows[w] = run[0]
                self.taken.update(run)
        self._fill_split(shown, rows)

    def _fill_split(self, shown: list[int], rows: list[int]) -> None:
        """Rows that are shown as several messages."""
        for j, s in enumerate(rows):
            free = [w for w in near_places(j, len(rows), shown) if w not in self.rows and s not in self.taken]
            free = [w for w in free if self.shown[w].role == self.stored[s].role in _SPEAKERS]
            parts = next((run for run in runs_of(free) if self.pair.is_held(run, s)), None)
            if parts is not None:
                self.cuts.update(parts)
                self.rows.update(dict.fromkeys(parts, s))
                self.taken.add(s)

    def find_moved(self) -> None:
        """Messages shown before that have moved, or are repeats: content cannot tell. System messages move along."""
        first, end = min(self.taken, default=len(self.stored)), max(self.rows, default=-1)
        before = {row.mark for n, row in enumerate(self.stored) if self._was_shown(n)}
        is_piece = not self.taken and all(one.mark in before for one in self.shown)  # a part of an old window
        for w, one in enumerate(self.shown):
            is_again = one.is_short and self._is_behind_new(w) and all(known < w for known in self.rows)
            if w in self.rows or is_again:  # a very short text after something new, and nothing stored follows
                continue
            places = (n for n, row in enumerate(self.stored) if n not in self.taken and row.mark == one.mark)
            is_system = one.role == "system"
            is_late = one.is_short and not is_piece and w > end  # it may be new: older messages were omitted
            since = -1 if is_system or self.follows else first if is_late else first - _NEAR
            within = (n for n in places if self._was_shown(n) and n > since and self._has_moved(w, n))
            if (s := next(within, None)) is not None:
                self._pair(w, s)
                moved = [w] if is_system else [w, *self._pair_neighbours(w, s, 1.0)]
                self.repeats.update(() if is_system else moved)
                self.strayed.update(moved)
        free = [w for w in range(len(self.shown)) if w not in self.rows and not self.shown[w].is_short]
        self._fill_split(free, [s for s in sorted(self.last or ()) if s not in self.taken])

    def _has_moved(self, w: int, s: int) -> bool:
        """Whether nothing contradicts it; the result of another call with the same id and text does."""
        return self.pair.may_be(w, s) and (self.shown[w].role != "tool" or self.pair.likeness(w, s) >= ALIKE)

    def result(self) -> MatchResult:
        sure = {w: s for w, s in self.rows.items() if w not in self.cuts and w not in self.strayed}
        ordered = longest_chain(sorted(sure.items()))
        strayed = {} if sure else {w: s for w, s in self.rows.items() if w not in self.cuts}
        in_order = {w for w, _ in ordered or longest_chain(sorted(strayed.items()))}
        moved = frozenset(w for w in self.rows if w not in in_order and w not in self.cuts)
        gone: dict[int, Cause] = {}
        matched = sorted({*(s for _, s in ordered), *(self.rows[w] for w in self.cuts)})
        if self.follows or self._begins_as_before():
            matched.insert(0, -1)
        for before, after in pairwise(matched):
            if run := [s for s in range(before + 1, after) if s not in self.taken]:
                self._leave_out(before, after, run, gone)
        last = matched[-1] if matched else len(self.stored)
        if behind := [s for s in range(last + 1, len(self.stored)) if s not in self.taken]:
            self._leave_behind(last, behind, gone)
        places = tuple(self.rows.get(n) for n in range(len(self.shown)))
        versions, cuts = frozenset(self.versions - self.cuts), frozenset(self.cuts)
        counts = len(self.alike) + len(self.cuts), self.ambiguous + len(self.repeats)
        return MatchResult(places, versions, cuts, moved, *counts, gone)

    def _leave_out(self, before: int, after: int, run: Sequence[int], gone: dict[int, Cause]) -> None:
        """Rows missing between two that are shown: an exchange was deleted; more is only omitted to save space."""
        seen = [s for s in run if self.last is None or s in self.last]
        gone.update((s, "transient") for s in seen if self.stored[s].role == "system" and self._was_shown(s))
        spoken = [s for s in run if self.stored[s].role != "system"]
        roles = [self.stored[s].role for s in spoken]
        first, end = self._shown_between(before, after)
        new = [w for w in range(first + 1, end) if w not in self.rows and self.shown[w].role != "system"]
        is_replaced = roles == [self.shown[w].role for w in new]  # as many others, under ids of their own
        if not (is_replaced or roles in _EXCHANGES) or not set(spoken) <= set(seen):
            return
        is_round = any(self.pair.uses_tools(s) for s in spoken) and not (is_replaced and self._is_edited(first))
        if is_round or self._saves_space(before, after, is_replaced=is_replaced):
            return
        gone.update((s, "removed") for s in spoken)

    def _shown_between(self, before: int, after: int) -> tuple[int, int]:
        """The shown messages that match two rows."""
        first = max((w for w, s in self.rows.items() if s == before), default=-1)
        return first, min((w for w, s in self.rows.items() if s == after), default=len(self.shown))

    def _saves_space(self, before: int, after: int, *, is_replaced: bool) -> bool:
        """Whether the host says that it omits something here, or has done so before at this position."""
        first, end = self._shown_between(before, after)
        if any(w not in self.rows and self.pair.is_gap_mark(w) for w in range(first + 1, end)):
            return True
        head = [(w, self.rows[w]) for w in range(first + 1) if w in self.rows]
        is_head = len(head) == first + 1 > 0 and not is_replaced and not self.follows
        if is_head and all(self._is_reworded(w, s) for w, s in head):
            return True  # notices that change as it moves on
        return self.last is not None and any(s not in self.last for s in range(before + 1, after))

    def _leave_behind(self, end: int, behind: Sequence[int], gone: dict[int, Cause]) -> None:
        """Rows after the last shown one: abandoned on a branch, if the host went on, or changed what precedes them."""
        last_shown = max((w for w, s in self.rows.items() if s == end), default=-1)
        further = [w for w in range(last_shown + 1, len(self.shown)) if w not in self.rows or w in self.strayed]
        goes_on, ends = any(self.shown[w].role != "system" for w in further), last_shown == len(self.shown) - 1
        is_edit = any(not self.pair.is_lesser(w, self.rows[w]) for w in self.versions - self.cuts)
        if goes_on or (ends and (is_edit or "removed" in gone.values())):
            is_before = self.last is not None and end < min(self.last, default=0)  # it went back before what was shown
            newest = max(self.last or (), default=-1)
            left = [s for s in behind if self.last is None or s <= newest or is_before]
            gone.update((s, "transient" if self.stored[s].role == "system" else "branch") for s in left)
            before = takewhile(lambda w: w in self.alike and self._is_open(w), range(last_shown, -1, -1))
            self.repeats.update(before if goes_on else ())
            near = takewhile(lambda w: self.shown[w].role == "tool" or self._is_open(w), range(last_shown, -1, -1))
            results = (w for w in near if self.shown[w].role == "tool" and self.shown[w].known is None)
            if left and goes_on:  # other results: corrected by the host, or of the same calls made again
                self.repeats.update(filter(self._is_edited, results))
            return
        notices = takewhile(lambda s: self.stored[s].role == "system" and self._was_shown(s), behind)
        gone.update((s, "transient") for s in notices)
