"""What must come of each call, said from the identities of events alone: rulings on matching and versions.

- Other words of the same event: the row takes them, unless the host has reduced them with its mark.
- Missing between two shown events: at most one exchange leaves the context (`GONE`); a longer run, and tool rounds,
  stay: the host only saves room. What comes and goes (`transient`) leaves.
- Missing behind the last shown one: it leaves if the host went on differently. If it shows nothing after it, the
  host may have gone back or may show an old window: nothing is demanded (`EITHER`). Nor is it where what follows it
  is very short and says what the newest row says, or what the first one behind tool rounds says, or is a call like
  a later one: another branch with the same words, or a window that leaves out what is between. Nor where only an
  edited message is known and the very short one behind it says what the newest said: the host may have gone on from
  the edit with the same word, or the window has moved on to its newest message, behind a notice that changes. Content
  cannot decide that, so it may be a replay, as far as `ambiguous` says.
- An unknown head in place of two or more rows is the host's own summary: a row, never a version.
- Missing in front: the window slid, all stays. The system prompt is no anchor; with nothing else in common, all stays.
  But where it begins with the same very short words as the context, it may as well be another branch from there.
- The order is the host's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.hosts_fuzz.calls import Call, Shown
    from tests.hosts_fuzz.words import Words

KEEP, EITHER, GONE = "keep", "either", "gone"


@dataclass(slots=True, eq=False)
class Unit:
    """One event as the archive must have it: a row."""

    atoms: set[str]
    words: Words
    state: str = KEEP
    transient: bool = False
    #: It was shown as a part or together with others: which of the forms the prompt has is open.
    regrouped: bool = False
    #: The host's own summary of what it left out: in the prompt or not, and wherever it stands there.
    floating: bool = False
    #: It has an entry id that the archive has seen.
    has_id: bool = False


@dataclass(slots=True)
class Expected:
    """All events that were shown so far, and the context in the order of the host."""

    units: list[Unit] = field(default_factory=list)
    context: list[Unit] = field(default_factory=list)
    #: Every wording that was shown.
    wordings: set[tuple[str, str]] = field(default_factory=set)
    #: Of regrouped messages: words that must be somewhere, in whatever grouping.
    loose: set[tuple[str, str]] = field(default_factory=set)
    #: The order of the context is open: history was read that is older than it.
    unordered: bool = False
    _of: dict[str, Unit] = field(default_factory=dict)
    _batches: set[tuple[str | None, tuple[Shown, ...]]] = field(default_factory=set)

    def take(self, call: Call) -> list[Unit]:
        """Account for a call; the units that it shows, in order."""
        if call.key is not None and (call.key, call.shown) in self._batches:
            return []
        self._batches.add((call.key, call.shown))
        before = {unit: unit.words for unit in self.context}
        listed: list[Unit] = []
        for one in call.shown:
            (self.loose if one.regrouped else self.wordings).update(one.words.pieces)
            for unit in self._units_of(one, call.verb):
                if unit not in listed:
                    listed.append(unit)
        if call.verb == "sync":
            self._lay_over(listed, {unit for unit in listed if unit.words != before.get(unit, unit.words)})
        else:
            self._add(listed, call.verb)
        return listed

    def is_known(self, one: Shown) -> bool:
        return any(atom in self._of for atom in one.atoms)

    def unit(self, one: Shown) -> Unit | None:
        return next((self._of[atom] for atom in one.atoms if atom in self._of), None)

    def _units_of(self, one: Shown, verb: str) -> list[Unit]:
        known = [self._of[atom] for atom in one.atoms if atom in self._of]
        if not known:
            known = [Unit(set(one.atoms), one.words, transient=one.transient)]
            self.units.append(known[0])
        elif one.regrouped or len(one.atoms) < len(known[0].atoms) or len(known) > 1:
            for unit in known:
                unit.regrouped = True
        elif not one.reduced and verb != "bootstrap":
            known[0].words = one.words
        for atom in one.atoms:
            known[0].atoms.add(atom) if atom not in self._of else None
            self._of.setdefault(atom, known[0])
        for unit in known:
            unit.has_id |= one.entry_id is not None
        return list(dict.fromkeys(known))

    def _add(self, listed: Sequence[Unit], verb: str) -> None:
        """A batch, or entries of a transcript: what is new comes last; old history may belong in front."""
        fresh = [unit for unit in listed if unit not in self.context and unit.state == KEEP]
        known = [place for place, unit in enumerate(listed) if unit in self.context]
        if verb == "bootstrap" and known and any(listed.index(unit) < known[-1] for unit in fresh):
            self.unordered = True
        self.context += fresh

    def _lay_over(self, listed: list[Unit], edited: set[Unit]) -> None:
        here = set(listed)
        old = self.context
        places = [place for place, unit in enumerate(old) if unit in here]
        body = [place for place in places if old[place].words.role != "system"]
        first, last = (body[0], body[-1]) if body else (len(old), -1)
        spoken = [unit for unit in listed if unit.words.role != "system"]
        went_on = bool(body) and spoken[-1] is not old[last] and not _looks_old(spoken, old, last)
        went_on = went_on and not _may_leave_out(spoken, old, last)
        went_on = went_on and not (len(body) == 1 and old[last] in edited and _may_have_moved_on(spoken, old))
        for run in _runs(old, here):
            for place in run:
                old[place].state = _state_of(old, run, place, (first, last), went_on=went_on)
        if not body and _begin_alike(spoken, old):
            for unit in old:
                unit.state = EITHER
        for unit in listed:
            unit.state = KEEP
        self._open_summary(listed, set(old), first)
        self.context = _merged(old, listed, here)

    def _open_summary(self, listed: list[Unit], known: set[Unit], first: int) -> None:
        """An unknown head in place of two or more rows is the host's own summary: kept, in the prompt or not."""
        body = [unit for unit in listed if unit.words.role != "system"]
        head = next((place for place, unit in enumerate(body) if unit in known), 0)
        covered = [unit for unit in self.context[:first] if unit.words.role != "system"]
        if head and len(covered) > 1:
            for unit in (*body[:head], *covered):
                unit.state = EITHER
            for unit in body[:head]:
                unit.floating = True


def _begin_alike(spoken: list[Unit], old: list[Unit]) -> bool:
    """Whether a window begins with the same very short words as the context."""
    first = next((unit.words for unit in old if unit.words.role != "system"), None)
    return first is not None and first.is_short and bool(spoken) and spoken[0].words.said == first.said


def _looks_old(spoken: list[Unit], old: list[Unit], last: int) -> bool:
    """Whether what follows the last known message says just what followed it before: it looks like an old window."""
    fresh = [unit.words for unit in spoken[spoken.index(old[last]) + 1 :]]
    return fresh == [unit.words for unit in old[last + 1 : last + 1 + len(fresh)]]


def _may_leave_out(spoken: list[Unit], old: list[Unit], last: int) -> bool:
    """Whether very short words of a row further on follow the last known message, or a call like a later one.

    That row is the newest one, or the first one behind tool rounds.
    """
    behind = [unit.words for unit in old[last + 1 :] if unit.words.role != "system"]
    beyond = behind[-1:] if len(behind) > 1 else []
    if behind and behind[0].calls:
        beyond += [words for words in behind if not words.calls and words.role != "tool"][:1]
    calls = [words for words in behind[1:] if words.calls]
    fresh = spoken[spoken.index(old[last]) + 1 :][:1]
    return any(
        unit.words.said in [words.said for words in (beyond if unit.words.is_short else calls)] for unit in fresh
    )


def _may_have_moved_on(spoken: list[Unit], old: list[Unit]) -> bool:
    """Whether a very short message with the words of the newest one follows the first."""
    newest = next(unit for unit in reversed(old) if unit.words.role != "system")
    return any(unit.words.is_short and unit.words.said == newest.words.said for unit in spoken[1:2])


def _runs(old: list[Unit], here: set[Unit]) -> list[list[int]]:
    """Places of units that are not shown, in runs."""
    runs: list[list[int]] = [[]]
    for place, unit in enumerate(old):
        if unit in here:
            runs.append([])
        else:
            runs[-1].append(place)
    return [run for run in runs if run]


def _state_of(old: list[Unit], run: list[int], place: int, ends: tuple[int, int], *, went_on: bool) -> str:
    unit, (first, last) = old[place], ends
    if unit.transient and last >= 0:
        return GONE
    if place < first:  # a prompt that is no longer shown at the head was cut off with what is old, or taken back
        return EITHER if unit.words.role == "system" and unit.state == KEEP else unit.state
    if place > last:
        return GONE if went_on else EITHER
    rest = [old[other].words for other in run if not old[other].transient]
    if any(words.calls or words.role == "tool" for words in rest):
        return unit.state
    roles = [words.role for words in rest]
    if roles in (["user"], ["assistant"], ["user", "assistant"]):
        return GONE
    return EITHER if len(roles) <= 2 else unit.state


def _merged(old: list[Unit], listed: list[Unit], here: set[Unit]) -> list[Unit]:
    """The host's order; what it leaves out stays behind the one that it stood behind."""
    after: dict[Unit | None, list[Unit]] = {}
    anchor: Unit | None = None
    for unit in old:
        if unit in here:
            anchor = unit
        elif unit.state != GONE:
            after.setdefault(anchor, []).append(unit)
    made = list(after.get(None, ()))
    for unit in listed:
        made += [unit, *after.get(unit, ())]
    return made
