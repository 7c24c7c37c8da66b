"""Chooses the items of a prompt, and their forms, within the budget. Pure: candidates in, a selection out."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.model.context import PAST_RESULT_SHARE, ContextItem, MessageItem, SummaryItem, part_share
from lossless.model.terms import chunk_terms

if TYPE_CHECKING:
    from lossless.model.messages import Role

OVER_BUDGET = "over budget"
TAIL_OVER_BUDGET = "the fresh tail alone is over budget"
TURN_OVER_BUDGET = "the current turn alone is over budget"
COLLAPSED_STEP = "an older step of the current turn"

#: Omission reasons for which nothing in the prompt represents the item.
OMITTED_WITHOUT_TRACE = frozenset((OVER_BUDGET, TAIL_OVER_BUDGET))

#: The minimum tokens of a shortened message, if so few are possible.
MIN_MESSAGE_TOKENS = 64


@dataclass(frozen=True, slots=True)
class ContextCandidate:
    """An item of the context, with its size in the prompt."""

    item: ContextItem
    #: As serialised.
    tokens: int
    #: Its weight in steps: the same in every prompt; `tokens` when not given.
    weight: int | None = None
    covers_messages: int = 0
    #: The match with the prompt (`relevance`).
    score: float = 0.0
    #: Candidates with the same number are kept or dropped together (`atoms.atoms`).
    atom: int | None = None
    #: Its size with stubbed tool results; None when there is nothing to stub.
    stub_tokens: int | None = None
    #: Its minimum size when shown in part; None when that is impossible.
    least_tokens: int | None = None
    #: Its size as the reference to its stored file; None without a file, or when it already is that reference.
    reference_tokens: int | None = None
    is_unanswered: bool = False
    #: Its form when nothing has to be dropped.
    form: ItemForm = "verbatim"

    @property
    def moves(self) -> int:
        return self.tokens if self.weight is None else self.weight

    @property
    def role(self) -> Role | None:
        return self.item.role if isinstance(self.item, MessageItem) else None

    @property
    def id(self) -> str:
        item = self.item
        return item.summary_id if isinstance(item, SummaryItem) else f"msg#{item.message_id}"


@dataclass(frozen=True, slots=True)
class SelectionPolicy:
    """The limits of the prompt, and the order in which items are dropped."""

    #: The provider's tokens for the whole prompt.
    budget: int
    #: Index of the first candidate of the fresh tail (`model.context.fresh_tail_start`).
    tail_start: int
    #: Estimated tokens of the fixed parts (system text, pins, focus brief); must not vary between turns.
    reserved: int = 0
    #: The provider's tokens per estimated token, as learned from its usage reports.
    factor: float = 1.0
    #: Order by relevance instead of age, at the cost of the stable prefix.
    is_prompt_aware: bool = False
    step_share: float = 0.10
    #: The summary that covers most is kept first if it is within this share of the budget.
    widest_share: float = 0.15
    #: How many of the newest messages of an over-budget turn stay verbatim.
    verbatim_in_turn: int = 8
    #: The maximum size of the one line for the oldest steps of such a turn.
    run_tokens: int = 128
    #: The weight of older items, before the first candidate, that are already dropped.
    border: int = 0
    #: Whether summaries are dropped before the tail that precedes the newest turn, as without a cap.
    keeps_tail: bool = True
    #: The maximum size of the line about omitted items, if there are any.
    notice_tokens: int = 0

    @property
    def capacity(self) -> int:
        """The budget in estimated tokens; the factor counts in steps of 5 %, to ignore small corrections."""
        return int(self.budget * 20 / max(1, math.ceil(round(self.factor * 20, 6))))

    @property
    def limit(self) -> int:
        return max(0, self.capacity - self.reserved)

    @property
    def step(self) -> int:
        return max(1, int(self.capacity * self.step_share))

    @property
    def widest_tokens(self) -> int:
        return int(self.widest_share * self.capacity)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Sizes for a message that is shown in part: half of the limit, a quarter, and so on.

        They depend on the budget alone, so that a message is the same from turn to turn.
        """
        halves = (self.capacity >> n for n in range(1, 24))
        return tuple(length for length in halves if length >= MIN_MESSAGE_TOKENS) or (MIN_MESSAGE_TOKENS,)


#: How a candidate appears in the prompt: in full; its beginning and end; the reference to its file; with stubs for its
#: results; one line for a run of them.
ItemForm = Literal["verbatim", "shortened", "reference", "stub", "run"]


@dataclass(frozen=True, slots=True)
class FormChange:
    """The new form of the candidate at `index`; without a form it is omitted for `reason`."""

    index: int
    form: ItemForm | None
    tokens: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TrimAction:
    """Changes that are made together, the tokens that they free, and by how far they move the border of omission."""

    frees: int
    moves: int
    changes: Sequence[FormChange]


@dataclass(frozen=True, slots=True)
class TrimStage:
    """Actions in order. In a ladder each one builds on the previous ones."""

    actions: Sequence[TrimAction]
    is_ladder: bool = False

    @property
    def frees(self) -> int:
        return sum(action.frees for action in self.actions)


def free_tokens(stages: Sequence[TrimStage], needed: int, step: int, border: int = 0) -> Sequence[TrimAction] | None:
    """The actions that free at least `needed` tokens, taken in whole steps; None when all are too few.

    A stage begins only when the previous ones are used up. The result depends only on the number of steps and on the
    beginning of each stage: candidates that are appended do not change it until a step is full. Steps are counted in
    weights, from the start of the whole context, of which `border` is already dropped.
    """
    taken: list[TrimAction] = []
    freed = 0
    for stage in stages:
        if freed + stage.frees >= needed:
            return (*taken, *_enough(stage, needed - freed, step, border))
        taken += stage.actions
        freed += stage.frees
        border += sum(action.moves for action in stage.actions)
    return None


def _enough(stage: TrimStage, needed: int, step: int, border: int) -> Sequence[TrimAction]:
    """The actions that begin before the first whole step that frees `needed`; all of them together free enough."""
    actions = stage.actions
    starts = list(accumulate((action.moves for action in actions), initial=border))
    freed = list(accumulate((action.frees for action in actions), initial=0))
    end = next(n for n, amount in enumerate(freed) if amount >= needed)
    while end <= len(actions):
        goal = (starts[end - 1] // step + 1) * step
        end = next((n for n in range(end, len(actions)) if starts[n] >= goal), len(actions))
        if stage.is_ladder:
            return actions[:end]
        spared = _without_spare(actions[:end], starts, goal, step)
        if sum(action.frees for action in spared) >= needed:
            return spared
        end += 1
    return actions


def _without_spare(actions: Sequence[TrimAction], starts: Sequence[int], goal: int, step: int) -> Sequence[TrimAction]:
    """Without the actions of the last two steps that an action larger than a step makes unnecessary."""
    spare = starts[len(actions)] - goal
    if spare < step:
        return actions
    kept: list[TrimAction] = []
    for action, start in zip(reversed(actions), reversed(starts[: len(actions)]), strict=True):
        if start >= goal - 2 * step and action.moves <= spare:
            spare -= action.moves
        else:
            kept.append(action)
    return kept[::-1]


#: Target shares of a prompt: reported next to the actual ones, never enforced.
SHARE_TARGETS: Mapping[str, tuple[float, float]] = {
    "protected tail": (0.25, 0.30),
    "recent summaries": (0.30, 0.40),
    "widest summary": (0.10, 0.15),
}
#: Stubs may fill this share of the limit; then the older half of them becomes one line.
STUB_SHARE = 0.30
#: With a system prompt, a shortened message takes at most this many times its share of the rest.
_PART_SLACK = 1.2
#: Results of earlier turns are shortened in steps of this share of the budget: seldom, and many at once.
_PAST_STEP_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class KeptItem:
    """A candidate that is included, and its form."""

    candidate: ContextCandidate
    form: ItemForm
    tokens: int
    in_tail: bool
    #: For a run: the candidates that its line replaces.
    stands_for: tuple[ContextCandidate, ...] = ()

    @property
    def kind(self) -> str:
        if self.form in ("stub", "run"):
            return "stubs"
        return "messages" if isinstance(self.candidate.item, MessageItem) else "summaries"


@dataclass(frozen=True, slots=True)
class PromptSelection:
    """What is included, in the context's order, and what is not."""

    kept: tuple[KeptItem, ...]
    #: Omitted candidates, and why.
    left_out: tuple[tuple[ContextCandidate, str], ...]
    limit: int
    #: The share of the limit for each lane of `SHARE_TARGETS`, and the rest as `background`.
    shares: Mapping[str, float]

    @property
    def tokens(self) -> int:
        return sum(kept.tokens for kept in self.kept)

    @property
    def fits(self) -> bool:
        return self.tokens <= self.limit

    @property
    def tokens_by_kind(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for kept in self.kept:
            found[kept.kind] += kept.tokens
        return dict(sorted(found.items()))


def choose(candidates: Sequence[ContextCandidate], policy: SelectionPolicy) -> PromptSelection:
    """What fits: the fresh tail always, then the widest summary, then the newest of the older items.

    A tail that is over budget alone loses what precedes the newest user message; a turn that is over budget alone loses
    its older tool results, oldest first, but never the user's message. A message that exceeds the budget by itself is
    shown in part.
    """
    choice = _zoned(_shorten_oversized(candidates, policy), policy)
    excess = choice.excess
    if excess <= 0 or policy.keeps_tail:
        return choice.drop()
    past = choice.past_results()
    found = free_tokens([past], excess, int(_PAST_STEP_SHARE * policy.capacity), policy.border)
    if found is not None:
        return choice.made(found)
    choice = choice.changed(change for action in past.actions for change in action.changes)
    chosen = choice.drop()
    for length in (policy.widest_tokens, *policy.lengths):
        if any(isinstance(kept.candidate.item, SummaryItem) for kept in chosen.kept):
            break
        if (shorter := choice.with_short_widest(length)) is not None:
            chosen = shorter.drop()
    return chosen


def _is_system(candidate: ContextCandidate) -> bool:
    return candidate.role == "system"


def _shorten_oversized(candidates: Sequence[ContextCandidate], policy: SelectionPolicy) -> Sequence[ContextCandidate]:
    """Messages that no prompt can hold are shown in part, at any position and the same in every turn."""
    head = list(takewhile(_is_system, candidates))
    space = policy.limit - sum(candidate.tokens for candidate in head)
    rest = candidates[len(head) :]
    if all(candidate.tokens <= space for candidate in rest):
        return candidates
    return [*head, *(one if one.tokens <= space else _in_part(one, space, policy) for one in rest)]


def _in_part(
    candidate: ContextCandidate, space: int, policy: SelectionPolicy, *, is_past: bool = False
) -> ContextCandidate:
    share = _PART_SLACK * part_share(candidate.role, is_past=is_past)
    length = next((length for length in policy.lengths if length <= share * space), policy.lengths[-1])
    reference, minimum = candidate.reference_tokens, candidate.least_tokens
    if reference is not None and reference <= space:
        return replace(candidate, tokens=reference, form="reference")
    if minimum is None:
        return candidate
    return replace(candidate, tokens=max(minimum, length), form="shortened")


#: An atom that is still in the prompt, stubbed as far as possible: its candidates, tokens and weight.
_LiveGroup: TypeAlias = "tuple[Sequence[int], int, int]"


def _zoned(candidates: Sequence[ContextCandidate], policy: SelectionPolicy) -> _Choice:
    """Candidates with their levels of protection."""
    count = len(candidates)

    def with_atoms(start: int) -> set[int]:
        atoms = {candidate.atom for candidate in candidates[start:]} - {None}
        return {i for i, candidate in enumerate(candidates) if i >= start or candidate.atom in atoms}

    head = range(sum(1 for _ in takewhile(_is_system, candidates)))
    tail_start = min(policy.tail_start, count)
    turn_start = next((i for i in range(count - 1, -1, -1) if candidates[i].role == "user"), tail_start)
    turn = with_atoms(turn_start)
    tail = with_atoms(min(tail_start, turn_start)) - turn
    turn, tail = turn.difference(head), tail.difference(head)
    older = [i for i in range(len(head), count) if i not in tail and i not in turn]
    choice = _Choice(candidates, policy, head, older, sorted(tail), sorted(turn))
    return choice.reserving(choice.widest_of(i for i in older if candidates[i].tokens <= policy.widest_tokens))


@dataclass(frozen=True, slots=True)
class _Choice:
    """Candidates, and the indices of those at each level of protection."""

    candidates: Sequence[ContextCandidate]
    policy: SelectionPolicy
    #: Leading system prompts: never dropped.
    head: Sequence[int]
    older: Sequence[int]
    tail: Sequence[int]
    #: The newest user message and everything after it.
    turn: Sequence[int]
    widest: int | None = None

    @property
    def excess(self) -> int:
        return sum([candidate.tokens for candidate in self.candidates]) - self.policy.limit

    def widest_of(self, indices: Iterable[int]) -> int | None:
        """The summary that covers most."""
        summaries = (i for i in indices if isinstance(self.candidates[i].item, SummaryItem))
        return max(summaries, key=lambda i: (self.candidates[i].covers_messages, -i), default=None)

    def reserving(self, widest: int | None) -> _Choice:
        return replace(self, older=[i for i in self.older if i != widest], widest=widest)

    def changed(self, changes: Iterable[FormChange]) -> _Choice:
        """With some candidates in shorter forms."""
        candidates = list(self.candidates)
        for change in changes:
            one = candidates[change.index]
            candidates[change.index] = replace(one, tokens=change.tokens, form=change.form or one.form)
        return replace(self, candidates=candidates)

    def with_short_widest(self, length: int) -> _Choice | None:
        """With the summary that covers most in part; None when it is no longer than `length`, or cannot be shorter."""
        widest = self.widest_of(self.older) if self.widest is None else self.widest
        if widest is None:
            return None
        tokens, minimum = self.candidates[widest].tokens, self.candidates[widest].least_tokens
        if minimum is None or not minimum <= length < tokens:
            return None
        return self.changed([FormChange(widest, "shortened", length)]).reserving(widest)

    def past_results(self) -> TrimStage:
        """Long results of earlier turns are shown in part, oldest first."""
        actions = []
        longest = PAST_RESULT_SHARE * self.policy.limit
        for i in sorted({*self.older, *self.tail}):
            one = self.candidates[i]
            if one.tokens > longest and one.role == "tool":
                short = _in_part(one, self.policy.limit, self.policy, is_past=True)
                if (frees := one.tokens - short.tokens) > 0:
                    change = FormChange(i, short.form, short.tokens)
                    actions.append(TrimAction(frees, one.moves - short.tokens, [change]))
        return TrimStage(actions)

    def drop(self) -> PromptSelection:
        """What is left when as much is dropped as must be; the widest summary, where the tail is capped, last."""
        policy, excess = self.policy, self.excess
        if excess <= 0:
            return self.made(())
        fuller = replace(self, policy=replace(policy, reserved=policy.reserved + policy.notice_tokens))
        stages = fuller._stages()
        droppable = stages if policy.keeps_tail or self.widest is None else stages[:2]
        found = free_tokens(droppable, excess + policy.notice_tokens, policy.step, policy.border)
        return fuller.made(found if found is not None else fuller._shorten_turn(stages))

    def _stages(self) -> tuple[TrimStage, TrimStage, TrimStage, TrimStage]:
        """Messages that no turn needs first, then summaries, then the widest summary, then the tail.

        With `policy.keeps_tail` older items are dropped in their order, and messages of the tail last.
        """
        raw: list[TrimAction] = []
        details: list[TrimAction] = []
        for unit in self._units(self.older):
            is_raw = not self.policy.keeps_tail and all(self.candidates[i].role is not None for i in unit)
            (raw if is_raw else details).append(self._omit(unit, OVER_BUDGET))
        widest = () if self.widest is None else (self._omit([self.widest], OVER_BUDGET),)
        tail = [self._omit(unit, TAIL_OVER_BUDGET) for unit in self._units(self.tail)]
        if not self.policy.keeps_tail:
            raw, tail = [*raw, *tail], []
        return TrimStage(raw), TrimStage(details), TrimStage(widest), TrimStage(tail)

    def _atoms(self, indices: Iterable[int]) -> list[list[int]]:
        """Candidates that are kept or dropped together."""
        atoms: dict[object, list[int]] = {}
        for i in indices:
            atom = self.candidates[i].atom
            atoms.setdefault(i if atom is None else ("atom", atom), []).append(i)
        return list(atoms.values())

    def _units(self, indices: Sequence[int]) -> list[list[int]]:
        """The same in the order of dropping."""
        found = self._atoms(indices)
        if self.policy.is_prompt_aware:
            found.sort(key=lambda unit: max(self.candidates[i].score for i in unit))
        return found

    def _omit(self, unit: Sequence[int], reason: str) -> TrimAction:
        some = [self.candidates[i] for i in unit]
        changes = [FormChange(i, None, 0, reason) for i in unit]
        return TrimAction(sum([one.tokens for one in some]), sum([one.moves for one in some]), changes)

    def _shorten_turn(self, stages: Sequence[TrimStage]) -> Sequence[TrimAction]:
        """Only the widest summary and the current turn are left, and the turn is shortened from within.

        The summary stays as long as anything of the turn except the user's message can be shortened.
        """
        ladder, shorter, last_resorts = self._turn_stages()
        raw, details, widest, tail = stages
        before = [action for stage in (raw, details, tail) for action in stage.actions]
        left = sum(self.candidates[i].tokens for i in (*self.head, *self.turn))
        within = [ladder, *shorter, widest, *last_resorts]
        found = free_tokens(within, left + widest.frees - self.policy.limit, self.policy.step)
        return (*before, *(found if found is not None else (a for stage in within for a in stage.actions)))

    def _turn_stages(self) -> tuple[TrimStage, list[TrimStage], list[TrimStage]]:
        """How the newest turn is shortened: older results, other items, the user's message last.

        The user's message and the newest `policy.verbatim_in_turn` messages stay verbatim, and so does a call without
        its result. If that is not enough, the turn's summaries are dropped except for the widest; results among the
        newest that the model has read become stubs; then the longest items are shown in part; unread results become
        stubs; and at last steps that the model has read are dropped, and the widest summary.
        """
        candidates, turn = self.candidates, self.turn
        spoken = [i for i in turn if candidates[i].role is not None]
        users = [i for i in spoken if candidates[i].role == "user"]
        newest = set(spoken[-self.policy.verbatim_in_turn :])
        finished = [atom for atom in self._atoms(turn) if not any(candidates[i].is_unanswered for i in atom)]
        summaries = [i for i in turn if candidates[i].role is None]
        kept = newest.union(users, summaries)
        older = [atom for atom in finished if not kept.intersection(atom)]
        recent = [atom for atom in finished if newest.intersection(atom)]
        gone = {i for atom in older for i in atom}
        sizes = {i: candidates[i].tokens for i in spoken if i not in gone}
        unread = set(takewhile(lambda i: candidates[i].stub_tokens is not None, reversed(spoken)))
        asked = {i: sizes.pop(i) for i in users if i in sizes}
        ladder = self._collapse_ladder(older)
        widest = self.widest_of(summaries)
        has_run = any(change.form == "run" for action in ladder.actions for change in action.changes)
        line = 0 if has_run else self.policy.run_tokens
        folded, line = self._join_run([[i] for i in summaries if i != widest], {}, line)
        stages = [folded, self._stubs([atom for atom in recent if unread.isdisjoint(atom)], sizes)]
        stages += self._shorter(sizes)
        stages.append(self._stubs([atom for atom in recent if unread.intersection(atom)], sizes))
        needed = unread.union(users, spoken[-1:])
        joined, line = self._join_run([atom for atom in recent if needed.isdisjoint(atom)], sizes, line)
        stages += [joined, self._join_run([] if widest is None else [[widest]], {}, line)[0]]
        return ladder, stages, list(self._shorter(asked))

    def _join_run(self, atoms: Sequence[Sequence[int]], sizes: Mapping[int, int], line: int) -> tuple[TrimStage, int]:
        """Atoms join the run, oldest first; the first that free more than its line make it. The rest of the line."""
        actions: list[TrimAction] = []
        waiting: list[_LiveGroup] = []
        for atom in atoms:
            tokens = sum(sizes.get(i, self.candidates[i].tokens) for i in atom)
            waiting.append((atom, tokens, sum(self.candidates[i].moves for i in atom)))
            if sum(group[1] for group in waiting) > line:
                actions.append(_collapsed(waiting, line))
                waiting, line = [], 0
        return TrimStage(actions, is_ladder=True), line

    def _stubs(self, atoms: Sequence[Sequence[int]], sizes: dict[int, int]) -> TrimStage:
        """Stubs for the results in `atoms`, oldest first; `sizes` are the current ones and are updated."""
        actions = [action for atom in atoms if (action := self._stubbed(atom, sizes)).frees > 0]
        sizes |= {change.index: change.tokens for action in actions for change in action.changes}
        return TrimStage(actions)

    def _stubbed(self, atom: Sequence[int], sizes: Mapping[int, int]) -> TrimAction:
        changes = [
            FormChange(i, "stub", stub, TURN_OVER_BUDGET)
            for i in atom
            if i in sizes and (stub := self.candidates[i].stub_tokens) is not None and stub < sizes[i]
        ]
        frees = sum(sizes[c.index] - c.tokens for c in changes)
        return TrimAction(frees, sum(self.candidates[c.index].moves - c.tokens for c in changes), changes)

    def _shorter(self, sizes: dict[int, int]) -> Iterator[TrimStage]:
        """Limits messages to half of the limit, then to a quarter, and so on."""
        references = {i for i in sizes if self.candidates[i].form == "reference"}
        for length in self.policy.lengths:
            changes = [
                change
                for i, tokens in sizes.items()
                if tokens > length and (change := self._shown_in_part(i, length, i in references)).tokens < tokens
            ]
            frees = sum(sizes[change.index] - change.tokens for change in changes)
            sizes |= {change.index: change.tokens for change in changes}
            references |= {change.index for change in changes if change.form == "reference"}
            if changes:
                yield TrimStage([TrimAction(frees, frees, changes)])

    def _shown_in_part(self, index: int, length: int, is_reference: bool) -> FormChange:
        """A message as the reference to its file, or in at most `length` tokens; unchanged where that is impossible."""
        candidate = self.candidates[index]
        if candidate.reference_tokens is not None and not is_reference:
            return FormChange(index, "reference", candidate.reference_tokens, TURN_OVER_BUDGET)
        if candidate.least_tokens is None:
            return FormChange(index, candidate.form, candidate.tokens)
        return FormChange(index, "shortened", max(length, candidate.least_tokens), TURN_OVER_BUDGET)

    def _collapse_ladder(self, older: Sequence[list[int]]) -> TrimStage:
        """Stubs from the oldest on; when they are too many, the older half of them joins the run.

        Its steps depend on weights alone, so that they are the same as when the turn was shorter.
        """
        actions: list[TrimAction] = []
        live: deque[_LiveGroup] = deque()
        line = self.policy.run_tokens
        limit = max(STUB_SHARE * self.policy.limit, 3 * line)
        weight = 0
        for atom in older:
            whole = self._omit(atom, COLLAPSED_STEP)
            stub = self._stubbed(atom, {i: self.candidates[i].tokens for i in atom})
            if stub.frees > 0:
                actions.append(stub)
            live.append((atom, whole.frees - stub.frees, whole.moves - stub.moves))
            weight += whole.moves - stub.moves
            if weight > limit:
                gone = []
                while live and 2 * weight > limit:
                    gone.append(live.popleft())
                    weight -= gone[-1][2]
                actions.append(_collapsed(gone, line))
                line = 0
        if weight > line:
            last = [[entry] for entry in live] if line == 0 else [list(live)]
            actions += [_collapsed(entries, line) for entries in last]
        return TrimStage(actions, is_ladder=True)

    def made(self, actions: Iterable[TrimAction]) -> PromptSelection:
        """What is left after some actions."""
        candidates = self.candidates
        changes = {change.index: change for action in actions for change in action.changes}
        in_run = tuple(candidates[i] for i in sorted(changes) if changes[i].reason == COLLAPSED_STEP)
        protected = {*self.tail, *self.turn}
        kept: list[KeptItem] = []
        left_out: list[tuple[ContextCandidate, str]] = []
        for i, candidate in enumerate(candidates):
            change = changes.get(i)
            if change is None:
                kept.append(KeptItem(candidate, candidate.form, candidate.tokens, i in protected))
            elif change.form is None:
                left_out.append((candidate, change.reason))
            else:
                stands_for = in_run if change.form == "run" else ()
                kept.append(KeptItem(candidate, change.form, change.tokens, i in protected, stands_for))
        widest = None if self.widest is None else candidates[self.widest]
        limit = self.policy.limit
        return PromptSelection(tuple(kept), tuple(left_out), limit, _shares(kept, widest, limit))


def _collapsed(entries: Sequence[_LiveGroup], line: int) -> TrimAction:
    """Moves atoms into the run; the first ones leave a line of `line` tokens in their place."""
    indices = [i for atom, _, _ in entries for i in atom]
    changes = [FormChange(i, None, reason=COLLAPSED_STEP) for i in indices]
    if line:
        changes[0] = FormChange(indices[0], "run", line, COLLAPSED_STEP)
    frees, weight = sum(tokens for _, tokens, _ in entries), sum(weight for _, _, weight in entries)
    return TrimAction(frees - line, weight - line, changes)


def _shares(kept: Sequence[KeptItem], widest: ContextCandidate | None, limit: int) -> dict[str, float]:
    """Recent summaries are the newest ones up to their target; older ones are background."""
    tokens = dict.fromkeys([*SHARE_TARGETS, "background"], 0)
    maximum = SHARE_TARGETS["recent summaries"][1] * limit
    for item in reversed(kept):
        if item.in_tail:
            lane = "protected tail"
        elif item.candidate is widest and item.form == "verbatim":
            lane = "widest summary"
        elif item.kind == "summaries" and tokens["recent summaries"] + item.tokens <= maximum:
            lane = "recent summaries"
        else:
            lane = "background"
        tokens[lane] += item.tokens
    return {lane: round(amount / limit, 4) if limit else 0.0 for lane, amount in tokens.items()}


#: How soon the terms of a long text count less, as in BM25.
_SATURATION, _LENGTH = 1.2, 0.75


def relevance_scores(prompt: str, texts: Sequence[str]) -> tuple[float, ...]:
    """A score for each text: 0 when it shares no term with the prompt, higher for rarer shared terms.

    Scores are normalised by length, so that short texts are not favoured.
    """
    rows = [" ".join(text.split()) for text in (prompt, *texts)]
    _, (asked, *found), weights, *_ = chunk_terms(rows)
    mean = max(1.0, sum(map(len, found)) / max(1, len(found)))

    def score(terms: frozenset[str]) -> float:
        slack = 1 + _SATURATION * (1 - _LENGTH + _LENGTH * len(terms) / mean)
        return sum(weights[term] for term in asked & terms) / slack

    return tuple(map(score, found))
