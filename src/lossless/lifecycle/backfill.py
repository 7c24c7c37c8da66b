"""Folding a history that is there already: all but its newest part, if need be anew, if need be to a single root."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from lossless.compaction.loop import Loop, Situation
from lossless.compaction.policy import first_import_policy
from lossless.lifecycle import rooting
from lossless.model.context import MessageItem, budget_sum, fresh_tail_start
from lossless.surgery import unfold

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lossless.compaction.escalate import Written
    from lossless.compaction.plan import Pass
    from lossless.compaction.policy import CompactionPolicy
    from lossless.compaction.run import CompactionReport
    from lossless.model.context import ContextItem
    from lossless.model.conversations import Conversation

Progress: TypeAlias = "Callable[[Pass, Written | None], None]"

#: No sweep ends for its length: a person asked for all of it.
_UNLIMITED = 2**53 - 1
SHORT = "it is short enough as it is"


@dataclass(frozen=True, slots=True)
class Filling:
    """How histories are folded this time."""

    may_ask_model: bool = False
    #: How many of the newest messages stay as they are; None keeps the newest `bootstrapMaxTokens`.
    fresh_tail: int | None = None
    #: Summaries give way to their messages first, and all is folded anew.
    recompact: bool = False
    #: Fold on until one summary stands for all.
    single_root: bool = False


@dataclass(frozen=True, slots=True)
class Filled:
    """What became of one history."""

    tokens_before: int
    tokens_after: int
    reason: str
    summary_ids: tuple[str, ...] = ()
    calls: int = 0
    #: The code of the error with which a model failed; what was folded from then on was extracted.
    failure: str | None = None
    #: How many summaries gave way first.
    unfolded: int = 0
    #: How many summaries stand before the fresh tail, when one was wanted.
    roots: int | None = None
    #: Whether the same work done again would find nothing to do.
    ok: bool = True


def fill(
    loop: Loop, conversation: Conversation, how: Filling, *, most: int | None = None, progress: Progress | None = None
) -> Filled:
    """Fold a history as it was asked for; again with the same numbers changes nothing, unless it is folded anew.

    Each summary is one transaction: whatever ends it, what is there stays, and another call goes on from it. A copy of
    the archive is the caller's to make.
    """
    archive, id_ = loop.archive, conversation.id
    before = archive.context.tokens(id_)
    unfolded = 0
    if how.recompact and (anew := unfold.plan(archive, id_)) is not None:
        unfold.apply(archive, anew, loop.clock(), None)
        unfolded = len(anew.summary_ids)
    tuned = tuned_to(loop, archive.context.items(id_), how)
    gate = tuned.summariser.gate(archive, id_, tuned.clock)
    is_asked = how.may_ask_model and tuned.summariser.has_model
    try:
        if is_asked:
            gate.reset()
        report = _fold(tuned, conversation, how, most, progress)
        made = () if report is None else report.summary_ids
        left = None if most is None else most - len(made)
        root = None
        if how.single_root and left != 0 and _is_over(report):
            policy = policy_of(tuned, situation_of(tuned, conversation))
            root = rooting.fold_to_root(
                tuned, id_, policy, may_ask_model=how.may_ask_model, most=left, progress=progress
            )
    finally:
        if is_asked:
            gate.reset()
    return _filled(before, archive.context.tokens(id_), report, root, unfolded)


def _filled(
    before: int, after: int, report: CompactionReport | None, root: rooting.Rooted | None, unfolded: int
) -> Filled:
    made = (() if report is None else report.summary_ids) + (() if root is None else root.summary_ids)
    said = SHORT if report is None else report.reason
    return Filled(
        before,
        after,
        root.reason if root is not None and root.reason is not None else said,
        made,
        (report.calls if report else 0) + (root.calls if root else 0),
        (report.failure if report else None) or (root.failure if root else None),
        unfolded,
        None if root is None else root.roots,
        _is_over(report) and (root is None or root.reason in (None, rooting.APART, rooting.NOT_SMALLER)),
    )


def _is_over(report: CompactionReport | None) -> bool:
    """Whether the history is folded as far as it can be, and not held up."""
    return report is None or (report.ok and report.stop != "busy")


def _fold(
    loop: Loop, conversation: Conversation, how: Filling, most: int | None, progress: Progress | None
) -> CompactionReport | None:
    """Fold all but the newest part; None when there is no more than that."""
    if loop.archive.context_budget(conversation.id) <= loop.settings.bootstrap_max_tokens:
        return None
    situation = situation_of(loop, conversation)
    return loop.fold_import(situation, may_ask_model=how.may_ask_model, most=most, progress=progress)


def situation_of(loop: Loop, conversation: Conversation) -> Situation:
    """A history and the budget that its numbers are worked out from."""
    return Situation(conversation, loop.settings.default_token_budget)


def policy_of(loop: Loop, situation: Situation) -> CompactionPolicy:
    """The numbers by which a history is folded."""
    return first_import_policy(loop.policy(situation))


def tuned_to(loop: Loop, context: Sequence[ContextItem], how: Filling) -> Loop:
    """The loop for work that a person asked for: it takes as long and as many calls as it takes."""
    settings = replace(
        loop.settings,
        sweep_deadline_ms=_UNLIMITED,
        compact_until_under_deadline_ms=_UNLIMITED,
        summary_max_calls_per_window=_UNLIMITED,
    )
    if how.fresh_tail is not None:
        tail = context[fresh_tail_start(context, how.fresh_tail) :]
        raw = budget_sum(item for item in tail if isinstance(item, MessageItem))
        settings = replace(settings, bootstrap_max_tokens=max(1, raw))
    return Loop(loop.archive, settings, replace(loop.summariser, settings=settings), loop.clock)
