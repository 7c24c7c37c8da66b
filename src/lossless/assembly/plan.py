"""Which items of the context go into the prompt, for a budget. Pure: candidates in, a choice out.

What must go goes from the start of the context, in steps of a tenth of the budget, so that the prompt's
beginning stays byte for byte the same until the conversation has grown by another step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from lossless.assembly.budget import Action, Change, Form, Stage, shed
from lossless.assembly.candidates import IN_RUN, OVER_BUDGET, TAIL_OVER_BUDGET, Candidate, Policy
from lossless.assembly.turn import turn_stages
from lossless.model.context import MessageItem, SummaryItem, part_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: How a prompt is meant to divide: shown beside what it came to, never enforced.
SHARE_TARGETS: Mapping[str, tuple[float, float]] = {
    "protected tail": (0.25, 0.30),
    "recent summaries": (0.30, 0.40),
    "widest summary": (0.10, 0.15),
}

#: Beside a system prompt, a message that is shown in part takes at most so many times its share of the rest.
_PART_SLACK = 1.2


@dataclass(frozen=True, slots=True)
class Kept:
    """A candidate that goes in, and how."""

    candidate: Candidate
    form: Form
    tokens: int
    in_tail: bool
    #: For a run: the candidates that its one line stands for.
    stands_for: tuple[Candidate, ...] = ()

    @property
    def kind(self) -> str:
        if self.form in ("stub", "run"):
            return "stubs"
        return "messages" if isinstance(self.candidate.item, MessageItem) else "summaries"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A candidate that stays out, and why."""

    candidate: Candidate
    reason: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """What goes in, in the context's order, and what does not."""

    kept: tuple[Kept, ...]
    left_out: tuple[LeftOut, ...]
    limit: int
    #: The share of the limit that each lane of `SHARE_TARGETS` came to, and the rest as `background`.
    shares: Mapping[str, float]

    @property
    def tokens(self) -> int:
        return sum(kept.tokens for kept in self.kept)

    @property
    def room(self) -> int:
        """What may still be added, such as a recall cue."""
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
class _Zones:
    """Indices of the candidates by how well they are protected."""

    #: System prompts that the context begins with: they never go.
    head: tuple[int, ...]
    older: tuple[int, ...]
    tail: tuple[int, ...]
    #: The newest user message and what follows it.
    turn: tuple[int, ...]
    widest: int | None


def choose(candidates: Sequence[Candidate], policy: Policy) -> Chosen:
    """What fits: the fresh tail always, then the widest summary, then the newest of what is older.

    Where summaries do not fit, the condensed one that covers them stands in. A tail that is over budget alone
    gives up what is before the newest user message; a turn that is over budget alone gives up its older tool
    results, oldest first, but never the user's message. What is longer than the budget by itself is shown in part.
    """
    candidates = _alone(candidates, policy)
    zones = _zones(candidates, policy)
    excess = sum(candidate.tokens for candidate in candidates) - policy.limit
    actions: tuple[Action, ...] = ()
    if excess > 0:
        policy = replace(policy, reserved=policy.reserved + policy.notice_tokens)
        excess += policy.notice_tokens
        stages = _stages(candidates, zones, policy)
        found = shed(stages, excess, policy.step, policy.border)
        actions = found if found is not None else _long_turn(candidates, zones, policy, stages)
    return _outcome(candidates, zones, actions, policy)


def _alone(candidates: Sequence[Candidate], policy: Policy) -> Sequence[Candidate]:
    """Messages that no prompt can hold stand in it in part, wherever they are: the same in every turn."""
    head = list(takewhile(_is_system, candidates))
    room = policy.limit - sum(candidate.tokens for candidate in head)
    rest = candidates[len(head) :]
    if all(candidate.tokens <= room for candidate in rest):
        return candidates
    return [*head, *(one if one.tokens <= room else _in_part(one, room, policy.lengths) for one in rest)]


def _in_part(candidate: Candidate, room: int, lengths: Sequence[int]) -> Candidate:
    role = candidate.item.role if isinstance(candidate.item, MessageItem) else None
    length = next((length for length in lengths if length <= _PART_SLACK * part_share(role) * room), lengths[-1])
    reference, least = candidate.reference_tokens, candidate.least_tokens
    if reference is not None and reference <= room:
        return replace(candidate, tokens=reference, form="reference")
    if least is None:
        return candidate
    return replace(candidate, tokens=max(least, length), form="shortened")


# --- what is protected ----------------------------------------------------------------------------


def _zones(candidates: Sequence[Candidate], policy: Policy) -> _Zones:
    tail_start = min(policy.tail_start, len(candidates))
    head = range(sum(1 for _ in takewhile(_is_system, candidates)))
    users = [i for i, c in enumerate(candidates) if isinstance(c.item, MessageItem) and c.item.role == "user"]
    turn_start = users[-1] if users else tail_start
    turn = _with_atoms(candidates, range(turn_start, len(candidates)))
    tail = _with_atoms(candidates, range(min(tail_start, turn_start), len(candidates))) - turn
    turn, tail = turn.difference(head), tail.difference(head)
    older = [i for i in range(len(candidates)) if i not in tail and i not in turn and i not in head]
    reservable = [
        i
        for i in older
        if isinstance(candidates[i].item, SummaryItem) and candidates[i].tokens <= policy.widest_share * policy.capacity
    ]
    widest = max(reservable, key=lambda i: (candidates[i].covers_messages, -i), default=None)
    detail = tuple(i for i in older if i != widest)
    return _Zones(tuple(head), detail, tuple(sorted(tail)), tuple(sorted(turn)), widest)


def _is_system(candidate: Candidate) -> bool:
    return isinstance(candidate.item, MessageItem) and candidate.item.role == "system"


def _with_atoms(candidates: Sequence[Candidate], indices: Iterable[int]) -> set[int]:
    found = set(indices)
    atoms = {candidates[i].atom for i in found} - {None}
    return found | {i for i, candidate in enumerate(candidates) if candidate.atom in atoms}


# --- making room ----------------------------------------------------------------------------------


def _stages(candidates: Sequence[Candidate], zones: _Zones, policy: Policy) -> _Stages:
    """Messages that no turn needs first, then summaries and the stand-ins they left, then the widest summary.

    Where the tail is kept (`policy.keeps_tail`) older items go as they come, and messages of the tail go last.
    """
    raw: list[Action] = []
    details: list[Action] = []
    stand_ins: list[Action] = []
    kept_whole = candidates[zones.widest].covered_by if zones.widest is not None else None
    for unit in _units(candidates, zones.older, policy):
        stand_in = candidates[unit[0]].covered_by
        tokens = 0 if stand_in is None else sum(candidates[i].tokens for i in unit)
        if not policy.keeps_tail and all(isinstance(candidates[i].item, MessageItem) for i in unit):
            raw.append(_left_out(candidates, unit, OVER_BUDGET))
        elif stand_in is None or stand_in == kept_whole or stand_in.tokens >= tokens:
            details.append(_left_out(candidates, unit, OVER_BUDGET))
        else:
            reason = f"covered by {stand_in.summary_id}"
            rest = (Change(i, None, reason=reason) for i in unit[1:])
            first = Change(unit[0], "stand-in", stand_in.tokens, reason)
            details.append(Action(tokens - stand_in.tokens, (first, *rest), sum(candidates[i].moves for i in unit)))
            stand_ins.append(Action(stand_in.tokens, (Change(unit[0], None, reason=OVER_BUDGET),)))
    widest = () if zones.widest is None else (_left_out(candidates, (zones.widest,), OVER_BUDGET),)
    tail = [_left_out(candidates, u, TAIL_OVER_BUDGET) for u in _units(candidates, zones.tail, policy)]
    if not policy.keeps_tail:
        raw, tail = [*raw, *tail], []
    return _Stages(*(Stage(tuple(some)) for some in (raw, details, stand_ins, widest, tail)))


class _Stages(NamedTuple):
    """What goes, one after the other."""

    raw: Stage
    details: Stage
    stand_ins: Stage
    widest: Stage
    tail: Stage


def _units(candidates: Sequence[Candidate], indices: Sequence[int], policy: Policy) -> list[tuple[int, ...]]:
    """Candidates that go together, in the order in which they go."""
    units: dict[object, list[int]] = {}
    for i in indices:
        candidate = candidates[i]
        key = candidate.covered_by or (i if candidate.atom is None else ("atom", candidate.atom))
        units.setdefault(key, []).append(i)
    found = list(map(tuple, units.values()))
    if policy.is_prompt_aware:
        found.sort(key=lambda unit: max(candidates[i].score for i in unit))
    return found


def _left_out(candidates: Sequence[Candidate], unit: Sequence[int], reason: str) -> Action:
    if len(unit) == 1:
        only = candidates[unit[0]]
        return Action(only.tokens, (Change(unit[0], None, 0, reason),), only.moves)
    changes = tuple(Change(i, None, reason=reason) for i in unit)
    return Action(sum(candidates[i].tokens for i in unit), changes, sum(candidates[i].moves for i in unit))


def _long_turn(candidates: Sequence[Candidate], zones: _Zones, policy: Policy, stages: _Stages) -> tuple[Action, ...]:
    """Only the widest summary and the current turn are left, and the turn is shortened from within.

    The summary stays as long as anything of the turn but the words of the user can be shorter.
    """
    ladder, shorter, last_resorts = turn_stages(candidates, zones.turn, policy)
    before = [action for stage in stages if stage is not stages.widest for action in stage.actions]
    excess = sum(candidates[i].tokens for i in (*zones.head, *zones.turn)) + stages.widest.frees - policy.limit
    within = [ladder, *shorter, stages.widest, *last_resorts]
    found = shed(within, excess, policy.step)
    return (*before, *(found if found is not None else (a for stage in within for a in stage.actions)))


# --- what came of it ------------------------------------------------------------------------------


def _outcome(candidates: Sequence[Candidate], zones: _Zones, actions: Sequence[Action], policy: Policy) -> Chosen:
    changes = {change.index: change for action in actions for change in action.changes}
    in_run = tuple(candidates[i] for i in sorted(changes) if changes[i].reason == IN_RUN)
    protected = {*zones.tail, *zones.turn}
    kept: list[Kept] = []
    left_out: list[LeftOut] = []
    for i, candidate in enumerate(candidates):
        change = changes.get(i)
        if change is None:
            kept.append(Kept(candidate, candidate.form, candidate.tokens, i in protected))
        elif change.form is None:
            left_out.append(LeftOut(candidate, change.reason))
        else:
            stands_for = in_run if change.form == "run" else ()
            kept.append(Kept(candidate, change.form, change.tokens, i in protected, stands_for))
    widest = None if zones.widest is None else candidates[zones.widest]
    return Chosen(tuple(kept), tuple(left_out), policy.limit, _shares(kept, widest, policy.limit))


def _shares(kept: Sequence[Kept], widest: Candidate | None, limit: int) -> dict[str, float]:
    """Recent summaries are the newest ones up to their target; whatever is older is background."""
    tokens = dict.fromkeys([*SHARE_TARGETS, "background"], 0)
    most = SHARE_TARGETS["recent summaries"][1] * limit
    for item in reversed(kept):
        if item.in_tail:
            lane = "protected tail"
        elif item.candidate is widest and item.form == "verbatim":
            lane = "widest summary"
        elif item.kind == "summaries" and tokens["recent summaries"] + item.tokens <= most:
            lane = "recent summaries"
        else:
            lane = "background"
        tokens[lane] += item.tokens
    return {lane: round(amount / limit, 4) if limit else 0.0 for lane, amount in tokens.items()}
