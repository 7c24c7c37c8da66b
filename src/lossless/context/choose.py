"""Chooses the items of a prompt, and their forms, within the budget. Pure: candidates in, a selection out."""

from __future__ import annotations

import math
import re
from collections import Counter, deque
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.model.context import PAST_RESULT_SHARE, MessageItem, SummaryItem, part_share
from lossless.model.search_text import letter_pairs, unspaced_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lossless.model.context import ContextItem
    from lossless.model.messages import Role

#: Reasons for omission.
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
    #: How many messages a summary covers.
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
    #: A tool call that has no result yet.
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
    """Changes that are made together, and the tokens that they free."""

    frees: int
    changes: tuple[FormChange, ...]
    #: By how much they move the border of dropped items; `frees` when not given.
    weight: int | None = None

    @property
    def moves(self) -> int:
        return self.frees if self.weight is None else self.weight


@dataclass(frozen=True, slots=True)
class TrimStage:
    """Actions in order. In a ladder each one builds on the previous ones."""

    actions: tuple[TrimAction, ...]
    is_ladder: bool = False

    @property
    def frees(self) -> int:
        return sum(action.frees for action in self.actions)


def free_tokens(stages: Sequence[TrimStage], needed: int, step: int, border: int = 0) -> tuple[TrimAction, ...] | None:
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
        taken = actions[:end]
        if stage.is_ladder:
            return taken
        spared = _without_spare(taken, starts, goal, step)
        if sum(action.frees for action in spared) >= needed:
            return spared
        end += 1
    return actions


def _without_spare(actions: Sequence[TrimAction], starts: Sequence[int], goal: int, step: int) -> list[TrimAction]:
    """Without the actions of the last two steps that an action larger than a step makes unnecessary."""
    spare = starts[len(actions)] - goal
    if spare < step:
        return list(actions)
    kept: list[TrimAction] = []
    for action, start in zip(reversed(actions), reversed(starts[: len(actions)]), strict=True):
        if start >= goal - 2 * step and action.moves <= spare:
            spare -= action.moves
        else:
            kept.append(action)
    return kept[::-1]


#: Stubs may fill this share of the limit; then the older half of them becomes one line.
STUB_SHARE = 0.30


def turn_stages(
    candidates: Sequence[ContextCandidate], turn: Sequence[int], policy: SelectionPolicy
) -> tuple[TrimStage, list[TrimStage], list[TrimStage]]:
    """How the turn at indices `turn` is shortened: older results, other items, the user's message last.

    The user's message and the newest `policy.verbatim_in_turn` messages stay verbatim, and so does a call without its
    result. If that is not enough, the turn's summaries are dropped except for the widest; results among the newest that
    the model has read become stubs; then the longest items are shown in part; unread results become stubs; and at last
    steps that the model has read are dropped, and the widest summary.
    """
    spoken = [i for i in turn if isinstance(candidates[i].item, MessageItem)]
    users = [i for i in spoken if candidates[i].role == "user"]
    newest = set(spoken[-policy.verbatim_in_turn :])
    atoms: dict[object, list[int]] = {}
    for i in turn:
        atom = candidates[i].atom
        atoms.setdefault(i if atom is None else ("atom", atom), []).append(i)
    finished = [atom for atom in atoms.values() if not any(candidates[i].is_unanswered for i in atom)]
    summaries = [i for i in turn if not isinstance(candidates[i].item, MessageItem)]
    kept = newest.union(users, summaries)
    older = [atom for atom in finished if not kept.intersection(atom)]
    recent = [atom for atom in finished if newest.intersection(atom)]
    gone = {i for atom in older for i in atom}
    sizes = {i: candidates[i].tokens for i in spoken if i not in gone}
    unread = set(takewhile(lambda i: candidates[i].stub_tokens is not None, reversed(spoken)))
    asked = {i: sizes.pop(i) for i in users if i in sizes}
    ladder = TrimStage(tuple(_collapse_ladder(candidates, older, policy)), is_ladder=True)
    widest = max(summaries, key=lambda i: (candidates[i].covers_messages, -i), default=None)
    has_run = any(change.form == "run" for action in ladder.actions for change in action.changes)
    line = 0 if has_run else policy.run_tokens
    folded, line = _join_run(candidates, [[i] for i in summaries if i != widest], {}, line)
    stages = [folded, _stubs(candidates, [atom for atom in recent if unread.isdisjoint(atom)], sizes)]
    stages += _shorter(candidates, sizes, policy)
    stages.append(_stubs(candidates, [atom for atom in recent if unread.intersection(atom)], sizes))
    needed = unread.union(users, spoken[-1:])
    joined, line = _join_run(candidates, [atom for atom in recent if needed.isdisjoint(atom)], sizes, line)
    stages += [joined, _join_run(candidates, [] if widest is None else [[widest]], {}, line)[0]]
    return ladder, stages, list(_shorter(candidates, asked, policy))


def _join_run(
    candidates: Sequence[ContextCandidate], atoms: Sequence[Sequence[int]], sizes: Mapping[int, int], line: int
) -> tuple[TrimStage, int]:
    """Atoms join the run, oldest first; the first that free more than its line make it. What is left of the line."""
    actions: list[TrimAction] = []
    waiting: list[_LiveGroup] = []
    for atom in atoms:
        tokens = sum(sizes.get(i, candidates[i].tokens) for i in atom)
        waiting.append((atom, tokens, sum(candidates[i].moves for i in atom)))
        if sum(group[1] for group in waiting) > line:
            actions.append(_collapsed(waiting, line))
            waiting, line = [], 0
    return TrimStage(tuple(actions), is_ladder=True), line


def _stubs(candidates: Sequence[ContextCandidate], atoms: Sequence[Sequence[int]], sizes: dict[int, int]) -> TrimStage:
    """Stubs for the results in `atoms`, oldest first; `sizes` are the current ones and are updated."""
    actions = [action for atom in atoms if (action := _stubbed(candidates, atom, sizes)).frees > 0]
    for change in (change for action in actions for change in action.changes):
        sizes[change.index] = change.tokens
    return TrimStage(tuple(actions))


def _shorter(
    candidates: Sequence[ContextCandidate], sizes: dict[int, int], policy: SelectionPolicy
) -> Iterator[TrimStage]:
    """Limits messages to half of the limit, then to a quarter, and so on."""
    references = {i for i in sizes if candidates[i].form == "reference"}
    for length in policy.lengths:
        changes = [
            change
            for i, tokens in sizes.items()
            if tokens > length and (change := _shown_in_part(i, candidates[i], length, i in references)).tokens < tokens
        ]
        frees = sum(sizes[change.index] - change.tokens for change in changes)
        sizes |= {change.index: change.tokens for change in changes}
        references |= {change.index for change in changes if change.form == "reference"}
        if changes:
            yield TrimStage((TrimAction(frees, tuple(changes)),))


def _shown_in_part(index: int, candidate: ContextCandidate, length: int, is_reference: bool) -> FormChange:
    """A message as the reference to its file, or in at most `length` tokens; unchanged where that is impossible."""
    if candidate.reference_tokens is not None and not is_reference:
        return FormChange(index, "reference", candidate.reference_tokens, TURN_OVER_BUDGET)
    if candidate.least_tokens is None:
        return FormChange(index, candidate.form, candidate.tokens)
    return FormChange(index, "shortened", max(length, candidate.least_tokens), TURN_OVER_BUDGET)


def _stubbed(candidates: Sequence[ContextCandidate], atom: Sequence[int], sizes: Mapping[int, int]) -> TrimAction:
    changes = tuple(
        FormChange(i, "stub", stub, TURN_OVER_BUDGET)
        for i in atom
        if i in sizes and (stub := candidates[i].stub_tokens) is not None and stub < sizes[i]
    )
    frees = sum(sizes[c.index] - c.tokens for c in changes)
    return TrimAction(frees, changes, sum(candidates[c.index].moves - c.tokens for c in changes))


#: An atom that is still in the prompt, stubbed as far as possible: its candidates, tokens and weight.
_LiveGroup: TypeAlias = "tuple[Sequence[int], int, int]"


def _collapse_ladder(
    candidates: Sequence[ContextCandidate], older: Sequence[list[int]], policy: SelectionPolicy
) -> list[TrimAction]:
    """Stubs from the oldest on; when they are too many, the older half of them joins the run.

    Its steps depend on weights alone, so that they are the same as when the turn was shorter.
    """
    actions: list[TrimAction] = []
    live: deque[_LiveGroup] = deque()
    line = policy.run_tokens
    limit = max(STUB_SHARE * policy.limit, 3 * line)
    weight = 0
    for atom in older:
        stub = _stubbed(candidates, atom, {i: candidates[i].tokens for i in atom})
        if stub.frees > 0:
            actions.append(stub)
        tokens, moves = sum(candidates[i].tokens for i in atom), sum(candidates[i].moves for i in atom)
        live.append((atom, tokens - stub.frees, moves - stub.moves))
        weight += moves - stub.moves
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
    return actions


def _collapsed(entries: Sequence[_LiveGroup], line: int) -> TrimAction:
    """Moves atoms into the run; the first ones leave a line of `line` tokens in their place."""
    indices = [i for atom, _, _ in entries for i in atom]
    changes = [FormChange(i, None, reason=COLLAPSED_STEP) for i in indices]
    if line:
        changes[0] = FormChange(indices[0], "run", line, COLLAPSED_STEP)
    frees, weight = sum(tokens for _, tokens, _ in entries), sum(weight for _, _, weight in entries)
    return TrimAction(frees - line, tuple(changes), weight - line)


#: Target shares of a prompt: reported next to the actual ones, never enforced.
SHARE_TARGETS: Mapping[str, tuple[float, float]] = {
    "protected tail": (0.25, 0.30),
    "recent summaries": (0.30, 0.40),
    "widest summary": (0.10, 0.15),
}

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
    def spare_tokens(self) -> int:
        """Tokens that are still free, for example for a recall cue."""
        return max(0, self.limit - self.tokens)

    @property
    def fits(self) -> bool:
        return self.tokens <= self.limit

    @property
    def tokens_by_kind(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for kept in self.kept:
            found[kept.kind] = found.get(kept.kind, 0) + kept.tokens
        return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class _ProtectionZones:
    """Indices of the candidates by level of protection."""

    #: Leading system prompts: never dropped.
    head: tuple[int, ...]
    older: tuple[int, ...]
    tail: tuple[int, ...]
    #: The newest user message and everything after it.
    turn: tuple[int, ...]
    widest: int | None


def choose(candidates: Sequence[ContextCandidate], policy: SelectionPolicy) -> PromptSelection:
    """What fits: the fresh tail always, then the widest summary, then the newest of the older items.

    A tail that is over budget alone loses what precedes the newest user message; a turn that is over budget alone loses
    its older tool results, oldest first, but never the user's message. A message that exceeds the budget by itself is
    shown in part.
    """
    candidates = _shorten_oversized(candidates, policy)
    zones = _zones(candidates, policy)
    excess = sum(candidate.tokens for candidate in candidates) - policy.limit
    if excess <= 0 or policy.keeps_tail:
        return _drop(candidates, zones, policy)
    past = _past_results(candidates, zones, policy)
    found = free_tokens([past], excess, int(_PAST_STEP_SHARE * policy.capacity), policy.border)
    if found is not None:
        return _make_selection(candidates, zones, found, policy)
    short = {change.index: change for action in past.actions for change in action.changes}
    candidates = [
        one if (change := short.get(i)) is None else replace(one, tokens=change.tokens, form=change.form or one.form)
        for i, one in enumerate(candidates)
    ]
    chosen = _drop(candidates, zones, policy)
    if zones.widest is not None or any(isinstance(kept.candidate.item, SummaryItem) for kept in chosen.kept):
        return chosen
    shorter, zones = _with_short_widest(candidates, zones, policy)
    return chosen if shorter is candidates else _drop(shorter, zones, policy)


def _drop(candidates: Sequence[ContextCandidate], zones: _ProtectionZones, policy: SelectionPolicy) -> PromptSelection:
    """What is left when as much is dropped as must be; the widest summary, where the tail is capped, after all else."""
    excess = sum(candidate.tokens for candidate in candidates) - policy.limit
    actions: tuple[TrimAction, ...] = ()
    if excess > 0:
        policy = replace(policy, reserved=policy.reserved + policy.notice_tokens)
        stages = _trim_stages(candidates, zones, policy)
        droppable = stages if policy.keeps_tail or zones.widest is None else stages[:2]
        found = free_tokens(droppable, excess + policy.notice_tokens, policy.step, policy.border)
        actions = found if found is not None else _shorten_turn(candidates, zones, policy, stages)
    return _make_selection(candidates, zones, actions, policy)


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


def _past_results(
    candidates: Sequence[ContextCandidate], zones: _ProtectionZones, policy: SelectionPolicy
) -> TrimStage:
    """Long results of earlier turns are shown in part, oldest first."""
    actions = []
    longest = PAST_RESULT_SHARE * policy.limit
    for i in sorted({*zones.older, *zones.tail}):
        one = candidates[i]
        if one.tokens > longest and one.role == "tool":
            short = _in_part(one, policy.limit, policy, is_past=True)
            if (frees := one.tokens - short.tokens) > 0:
                change = FormChange(i, short.form, short.tokens)
                actions.append(TrimAction(frees, (change,), one.moves - short.tokens))
    return TrimStage(tuple(actions))


def _zones(candidates: Sequence[ContextCandidate], policy: SelectionPolicy) -> _ProtectionZones:
    tail_start = min(policy.tail_start, len(candidates))
    head = range(sum(1 for _ in takewhile(_is_system, candidates)))
    users = [i for i, c in enumerate(candidates) if isinstance(c.item, MessageItem) and c.item.role == "user"]
    turn_start = users[-1] if users else tail_start
    turn = _with_atoms(candidates, range(turn_start, len(candidates)))
    tail = _with_atoms(candidates, range(min(tail_start, turn_start), len(candidates))) - turn
    turn, tail = turn.difference(head), tail.difference(head)
    older = [i for i in range(len(candidates)) if i not in tail and i not in turn and i not in head]
    reservable = [
        i for i in older if isinstance(candidates[i].item, SummaryItem) and candidates[i].tokens <= policy.widest_tokens
    ]
    widest = max(reservable, key=lambda i: (candidates[i].covers_messages, -i), default=None)
    detail = tuple(i for i in older if i != widest)
    return _ProtectionZones(tuple(head), detail, tuple(sorted(tail)), tuple(sorted(turn)), widest)


def _with_short_widest(
    candidates: Sequence[ContextCandidate], zones: _ProtectionZones, policy: SelectionPolicy
) -> tuple[Sequence[ContextCandidate], _ProtectionZones]:
    """Where each summary takes more than one may, the one that covers most is shown in part rather than none."""
    summaries = [i for i in zones.older if isinstance(candidates[i].item, SummaryItem)]
    if not summaries:
        return candidates, zones
    widest = max(summaries, key=lambda i: (candidates[i].covers_messages, -i))
    minimum = candidates[widest].least_tokens
    if minimum is None:
        return candidates, zones
    short = replace(candidates[widest], tokens=max(minimum, policy.widest_tokens), form="shortened")
    zones = replace(zones, older=tuple(i for i in zones.older if i != widest), widest=widest)
    return [short if i == widest else one for i, one in enumerate(candidates)], zones


def _is_system(candidate: ContextCandidate) -> bool:
    return isinstance(candidate.item, MessageItem) and candidate.item.role == "system"


def _with_atoms(candidates: Sequence[ContextCandidate], indices: Iterable[int]) -> set[int]:
    found = set(indices)
    atoms = {candidates[i].atom for i in found} - {None}
    return found | {i for i, candidate in enumerate(candidates) if candidate.atom in atoms}


def _trim_stages(
    candidates: Sequence[ContextCandidate], zones: _ProtectionZones, policy: SelectionPolicy
) -> tuple[TrimStage, TrimStage, TrimStage, TrimStage]:
    """Messages that no turn needs first, then summaries, then the widest summary, then the tail.

    With `policy.keeps_tail` older items are dropped in their order, and messages of the tail last.
    """
    raw: list[TrimAction] = []
    details: list[TrimAction] = []
    for unit in _units(candidates, zones.older, policy):
        is_raw = not policy.keeps_tail and all(isinstance(candidates[i].item, MessageItem) for i in unit)
        (raw if is_raw else details).append(_omit(candidates, unit, OVER_BUDGET))
    widest = () if zones.widest is None else (_omit(candidates, (zones.widest,), OVER_BUDGET),)
    tail = [_omit(candidates, u, TAIL_OVER_BUDGET) for u in _units(candidates, zones.tail, policy)]
    if not policy.keeps_tail:
        raw, tail = [*raw, *tail], []
    return TrimStage(tuple(raw)), TrimStage(tuple(details)), TrimStage(widest), TrimStage(tuple(tail))


def _units(
    candidates: Sequence[ContextCandidate], indices: Sequence[int], policy: SelectionPolicy
) -> list[tuple[int, ...]]:
    """Candidates that are dropped together, in the order of dropping."""
    units: dict[object, list[int]] = {}
    for i in indices:
        candidate = candidates[i]
        key = i if candidate.atom is None else ("atom", candidate.atom)
        units.setdefault(key, []).append(i)
    found = list(map(tuple, units.values()))
    if policy.is_prompt_aware:
        found.sort(key=lambda unit: max(candidates[i].score for i in unit))
    return found


def _omit(candidates: Sequence[ContextCandidate], unit: Sequence[int], reason: str) -> TrimAction:
    if len(unit) == 1:
        only = candidates[unit[0]]
        return TrimAction(only.tokens, (FormChange(unit[0], None, 0, reason),), only.moves)
    changes = tuple(FormChange(i, None, reason=reason) for i in unit)
    return TrimAction(sum(candidates[i].tokens for i in unit), changes, sum(candidates[i].moves for i in unit))


def _shorten_turn(
    candidates: Sequence[ContextCandidate],
    zones: _ProtectionZones,
    policy: SelectionPolicy,
    stages: Sequence[TrimStage],
) -> tuple[TrimAction, ...]:
    """Only the widest summary and the current turn are left, and the turn is shortened from within.

    The summary stays as long as anything of the turn except the user's message can be shortened.
    """
    ladder, shorter, last_resorts = turn_stages(candidates, zones.turn, policy)
    raw, details, widest, tail = stages
    before = [action for stage in (raw, details, tail) for action in stage.actions]
    excess = sum(candidates[i].tokens for i in (*zones.head, *zones.turn)) + widest.frees - policy.limit
    within = [ladder, *shorter, widest, *last_resorts]
    found = free_tokens(within, excess, policy.step)
    return (*before, *(found if found is not None else (a for stage in within for a in stage.actions)))


def _make_selection(
    candidates: Sequence[ContextCandidate],
    zones: _ProtectionZones,
    actions: Sequence[TrimAction],
    policy: SelectionPolicy,
) -> PromptSelection:
    changes = {change.index: change for action in actions for change in action.changes}
    in_run = tuple(candidates[i] for i in sorted(changes) if changes[i].reason == COLLAPSED_STEP)
    protected = {*zones.tail, *zones.turn}
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
    widest = None if zones.widest is None else candidates[zones.widest]
    return PromptSelection(tuple(kept), tuple(left_out), policy.limit, _shares(kept, widest, policy.limit))


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


_WORD = re.compile(r"[^\W_]+")
#: Words without topic; a short list, as rare terms weigh more anyway.
_STOP_WORDS = """
an and are as at be but by can did do does for from had has have he her his how if in into is it its me my no
not of on or our she so that the their them then there they this to us was we were what when where which who
why will with would you your der die das und ist ein eine nicht le la les et est un une el los las es que
en de du des не на что по это как os um uma het een van
"""
_STOP = frozenset(_STOP_WORDS.split())
#: The usual BM25 parameters: term saturation, and length normalisation.
_SATURATION = 1.2
_LENGTH = 0.75


def relevance_terms(text: str) -> list[str]:
    """The words of a text in lower case, and letter pairs in scripts without spaces.

    >>> relevance_terms("Why did the DEPLOY of web_app fail? 数据库")
    ['deploy', 'web', 'app', 'fail', '数据', '据库']
    """
    folded = text.casefold()
    found = []
    for word in _WORD.findall(folded):
        runs = unspaced_runs(word)
        for run in runs:
            found += letter_pairs(run)[:-1] or [run]
        rest = _without(word, runs)
        if len(rest) > 1 and rest not in _STOP:
            found.append(rest)
    return found


def _without(word: str, runs: Sequence[str]) -> str:
    for run in runs:
        word = word.replace(run, "")
    return word


def relevance_scores(prompt: str, texts: Sequence[str]) -> tuple[float, ...]:
    """A score for each text: 0 when it shares no term with the prompt, higher for rarer shared terms.

    Scores are normalised by length, so that short texts are not favoured.
    """
    asked = set(relevance_terms(prompt))
    if not asked or not texts:
        return (0.0,) * len(texts)
    counts = [Counter(relevance_terms(text)) for text in texts]
    lengths = [max(1, count.total()) for count in counts]
    mean = sum(lengths) / len(lengths)
    spread = {term: sum(term in count for count in counts) for term in sorted(asked)}
    weight = {t: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for t, n in spread.items() if n}

    def score(count: Counter[str], length: int) -> float:
        slack = _SATURATION * (1 - _LENGTH + _LENGTH * length / mean)
        return sum(w * count[t] * (_SATURATION + 1) / (count[t] + slack) for t, w in weight.items())

    return tuple(map(score, counts, lengths))
