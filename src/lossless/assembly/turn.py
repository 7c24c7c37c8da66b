"""A turn that is longer than the budget: its older tool results become stubs, then one line for many.

What cannot go, the newest messages and the words of the user, is shown in part when nothing else helps.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from lossless.assembly.budget import Action, Change, Stage
from lossless.assembly.candidates import IN_RUN, TURN_OVER_BUDGET
from lossless.model.context import MessageItem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lossless.assembly.candidates import Candidate, Policy

#: Stubs may fill this share of the limit; then the older half of them becomes one line.
STUB_SHARE = 0.30


def turn_stages(
    candidates: Sequence[Candidate], turn: Sequence[int], policy: Policy
) -> tuple[Stage, list[Stage], list[Stage]]:
    """How the turn at indices `turn` is shortened: older results, what else is not the user's, the user's words.

    The user's message and the newest `policy.verbatim_in_turn` messages stay as they are, and so does a call
    that waits for its result. Where that is not enough, the turn's summaries go but for the widest; results among the
    newest that the model has read become stubs; then whatever is longest is shown in part; and at last results that it
    has not read become stubs, and the widest summary goes.
    """
    said = [i for i in turn if isinstance(candidates[i].item, MessageItem)]
    users = [i for i in said if _role(candidates[i]) == "user"]
    newest = set(said[-policy.verbatim_in_turn :])
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
    sizes = {i: candidates[i].tokens for i in said if i not in gone}
    unread = set(takewhile(lambda i: candidates[i].stub_tokens is not None, reversed(said)))
    asked = {i: sizes.pop(i) for i in users if i in sizes}
    ladder = Stage(tuple(_ladder(candidates, older, policy)), is_ladder=True)
    folded, widest = _summaries(candidates, summaries, policy, ladder)
    stages = [folded, _stubs(candidates, [atom for atom in recent if unread.isdisjoint(atom)], sizes)]
    stages += _shorter(candidates, sizes, policy)
    stages.append(_stubs(candidates, [atom for atom in recent if unread.intersection(atom)], sizes))
    stages.append(widest)
    return ladder, stages, list(_shorter(candidates, asked, policy))


def _summaries(
    candidates: Sequence[Candidate], summaries: Sequence[int], policy: Policy, ladder: Stage
) -> tuple[Stage, Stage]:
    """Summaries of the turn join the run, oldest first; the one that covers most does so last."""
    if not summaries:
        return Stage(()), Stage(())
    widest = max(summaries, key=lambda i: (candidates[i].covers_messages, -i))
    has_run = any(change.form == "run" for action in ladder.actions for change in action.changes)
    made, line = [], 0 if has_run else policy.run_tokens
    for i in (*(i for i in summaries if i != widest), widest):
        made.append(_collapsed([_Live([i], candidates[i].tokens, candidates[i].moves)], line))
        line = 0
    return Stage(tuple(made[:-1]), is_ladder=True), Stage(tuple(made[-1:]))


def _stubs(candidates: Sequence[Candidate], atoms: Sequence[Sequence[int]], sizes: dict[int, int]) -> Stage:
    """Stubs for the results in `atoms`, oldest first; `sizes` are those of the moment, and go on from there."""
    actions = [action for atom in atoms if (action := _stubbed(candidates, atom, sizes)).frees > 0]
    for change in (change for action in actions for change in action.changes):
        sizes[change.index] = change.tokens
    return Stage(tuple(actions))


def _shorter(candidates: Sequence[Candidate], sizes: dict[int, int], policy: Policy) -> Iterator[Stage]:
    """No message longer than half of all there is, then than a quarter, and so on."""
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
            yield Stage((Action(frees, tuple(changes)),))


def _shown_in_part(index: int, candidate: Candidate, length: int, is_reference: bool) -> Change:
    """A message as the reference to its file, or in at most `length` tokens; unchanged where it cannot be."""
    if candidate.reference_tokens is not None and not is_reference:
        return Change(index, "reference", candidate.reference_tokens, TURN_OVER_BUDGET)
    if candidate.least_tokens is None:
        return Change(index, candidate.form, candidate.tokens)
    return Change(index, "shortened", max(length, candidate.least_tokens), TURN_OVER_BUDGET)


def _role(candidate: Candidate) -> str | None:
    return candidate.item.role if isinstance(candidate.item, MessageItem) else None


def _stubbed(candidates: Sequence[Candidate], atom: Sequence[int], sizes: Mapping[int, int]) -> Action:
    changes = tuple(
        Change(i, "stub", stub, TURN_OVER_BUDGET)
        for i in atom
        if i in sizes and (stub := candidates[i].stub_tokens) is not None and stub < sizes[i]
    )
    frees = sum(sizes[c.index] - c.tokens for c in changes)
    return Action(frees, changes, sum(candidates[c.index].moves - c.tokens for c in changes))


@dataclass(frozen=True, slots=True)
class _Live:
    """An atom that still stands, stubbed as far as it can be."""

    atom: Sequence[int]
    tokens: int
    weight: int


def _ladder(candidates: Sequence[Candidate], older: Sequence[list[int]], policy: Policy) -> list[Action]:
    """Stubs from the oldest on; whenever they are too many, the older half of them joins the run.

    Its rungs are set by weights alone, so that they stand where they stood when the turn was shorter.
    """
    actions: list[Action] = []
    live: deque[_Live] = deque()
    line = policy.run_tokens
    most = max(STUB_SHARE * policy.limit, 3 * line)
    weight = 0
    for atom in older:
        stub = _stubbed(candidates, atom, {i: candidates[i].tokens for i in atom})
        if stub.frees > 0:
            actions.append(stub)
        left = _Live(
            atom,
            sum(candidates[i].tokens for i in atom) - stub.frees,
            sum(candidates[i].moves for i in atom) - stub.moves,
        )
        live.append(left)
        weight += left.weight
        if weight > most:
            gone = []
            while live and 2 * weight > most:
                gone.append(live.popleft())
                weight -= gone[-1].weight
            actions.append(_collapsed(gone, line))
            line = 0
    if weight > line:
        last = [[entry] for entry in live] if line == 0 else [list(live)]
        actions += [_collapsed(entries, line) for entries in last]
    return actions


def _collapsed(entries: Sequence[_Live], line: int) -> Action:
    """Take atoms into the run; the first to go leave a line of `line` tokens where they stood."""
    indices = [i for entry in entries for i in entry.atom]
    changes = [Change(i, None, reason=IN_RUN) for i in indices]
    if line:
        changes[0] = Change(indices[0], "run", line, IN_RUN)
    frees, weight = sum(entry.tokens for entry in entries), sum(entry.weight for entry in entries)
    return Action(frees - line, tuple(changes), weight - line)
