"""One root: the summaries before the fresh tail are folded on until a single one stands there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from typing import TYPE_CHECKING
from uuid import uuid4

from lossless.compaction.escalate import summarise
from lossless.compaction.lease import lease, lease_name
from lossless.compaction.plan import Pass
from lossless.compaction.run import fold, source_of
from lossless.errors import ModelAuth
from lossless.model.context import MessageItem, SummaryItem, fresh_tail_start, token_sum
from lossless.model.identity import summary_id
from lossless.model.summaries import NewSummary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lossless.compaction.escalate import Ask, Written
    from lossless.compaction.loop import Loop
    from lossless.compaction.policy import CompactionPolicy
    from lossless.model.context import ContextItem

BUSY = "another worker is summarising this conversation"
NOT_SMALLER = "no text came out that is smaller than these summaries together"
APART = "messages that nothing makes smaller stand between the summaries"


@dataclass(frozen=True, slots=True)
class Rooted:
    """What folding on came to: the summaries it made, how many stand before the tail now, and why more than one."""

    summary_ids: tuple[str, ...] = ()
    roots: int = 0
    calls: int = 0
    reason: str | None = None
    #: The code of the error with which a model failed; what it did not write was extracted.
    failure: str | None = None


def next_root(context: Sequence[ContextItem], policy: CompactionPolicy) -> Pass | None:
    """The next summary on the way to a single root; None when there is one, or when none can be made.

    Neighbours that fit into one chunk are folded together, whatever their depths; else the shallow ones go first.
    """
    for run in _runs(context, policy):
        if len(run) > 1:
            items = run if token_sum(run) <= policy.leaf_chunk_tokens else _part(run, policy)
            depth = max(item.depth for item in items) + 1
            return Pass(tuple(items), depth, policy.condensed_target())
    return None


def roots(context: Sequence[ContextItem], policy: CompactionPolicy) -> int:
    """How many summaries stand before the fresh tail."""
    return sum(len(run) for run in _runs(context, policy))


def fold_to_root(
    loop: Loop,
    conversation_id: int,
    policy: CompactionPolicy,
    *,
    may_ask_model: bool,
    most: int | None = None,
    progress: Callable[[Pass, Written | None], None] | None = None,
) -> Rooted:
    """Fold on until one root stands before the fresh tail, or `most` summaries are made; each is one transaction."""
    archive = loop.archive
    if next_root(archive.context.items(conversation_id), policy) is None:
        return _ended(loop, conversation_id, policy, ())
    gate = loop.summariser.gate(archive, conversation_id, loop.clock)
    ask = loop.summariser.ask(gate) if may_ask_model and loop.summariser.has_model else None
    made: list[str] = []
    failure = reason = None
    with lease(archive, lease_name(conversation_id), loop.clock, loop.settings.summary_timeout_ms) as prolong:
        if not prolong():
            return Rooted(roots=roots(archive.context.items(conversation_id), policy), reason=BUSY)
        while work := None if len(made) == most else next_root(archive.context.items(conversation_id), policy):
            written = _written(loop, work, ask)
            if written is None or not prolong():
                reason = NOT_SMALLER if written is None else BUSY
                break
            made.append(_placed(loop, conversation_id, work, written))
            failure = failure or written.failure
            ask = None if written.failure else ask
            if progress:
                progress(work, written)
    return _ended(loop, conversation_id, policy, tuple(made), len(gate.tickets), reason, failure)


def _ended(
    loop: Loop,
    conversation_id: int,
    policy: CompactionPolicy,
    made: tuple[str, ...],
    calls: int = 0,
    reason: str | None = None,
    failure: str | None = None,
) -> Rooted:
    context = loop.archive.context.items(conversation_id)
    left = roots(context, policy)
    if left > 1 and reason is None and next_root(context, policy) is None:
        reason = APART
    return Rooted(made, left, calls, reason, failure)


def _written(loop: Loop, work: Pass, ask: Ask | None) -> Written | None:
    """The text of a root; a model that fails or refuses is replaced by extraction."""
    source = source_of(loop.archive, work, loop.summariser)
    sizes, wording = loop.summariser.sizes, loop.summariser.wording
    try:
        return summarise(source, ask, sizes=sizes, wording=wording)
    except ModelAuth as error:
        found = summarise(source, sizes=sizes, wording=wording)
        return None if found is None else replace(found, failure=error.code)


def _placed(loop: Loop, conversation_id: int, work: Pass, written: Written) -> str:
    id_ = summary_id(written.text, str(uuid4()))
    new = NewSummary(id_, work.depth, written.text, written.tokens, written.model, written.file_ids)
    fold(loop.archive, conversation_id, work.items, new, loop.clock(), actor="import")
    return id_


def _runs(context: Sequence[ContextItem], policy: CompactionPolicy) -> Iterator[list[SummaryItem]]:
    """Summaries that stand side by side, between the system prompts and the fresh tail."""
    head = sum(1 for _ in takewhile(_is_prompt, context))
    tail = fresh_tail_start(context, policy.fresh_tail_count, policy.fresh_tail_max_tokens)
    for is_summary, items in groupby(context[head:tail], key=lambda item: isinstance(item, SummaryItem)):
        if is_summary:
            yield [item for item in items if isinstance(item, SummaryItem)]


def _is_prompt(item: ContextItem) -> bool:
    return isinstance(item, MessageItem) and item.role == "system"


def _part(run: list[SummaryItem], policy: CompactionPolicy) -> list[SummaryItem]:
    """Of a run that is too large for one summary: the oldest of the shallowest, or a lone one with its neighbour."""
    least = min(item.depth for item in run)
    groups = [list(group) for _, group in groupby(run, key=lambda item: item.depth)]
    shallow = next((group for group in groups if group[0].depth == least and len(group) > 1), None)
    if shallow is not None:
        return _chunk(shallow, policy)
    lone = next(n for n, item in enumerate(run) if item.depth == least)
    start = max(0, lone - 1)
    return run[start : start + 2]


def _chunk(items: list[SummaryItem], policy: CompactionPolicy) -> list[SummaryItem]:
    """As many of the first as fit into one chunk, but at least as many as are condensed when space is short."""
    count = tokens = 0
    for item in items:
        if count >= policy.fanout(item.depth, pressure=True) and tokens + item.tokens > policy.leaf_chunk_tokens:
            break
        count, tokens = count + 1, tokens + item.tokens
    return items[:count]
