"""What folding a history would come to, worked out in memory."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from lossless.compaction import plan
from lossless.compaction.escalate import Source, summarise
from lossless.compaction.source_text import Line, Section, line_of, section_of
from lossless.lifecycle import rooting
from lossless.lifecycle.backfill import policy_of, situation_of, tuned_to
from lossless.model.context import MessageItem, SummaryItem, budget_sum
from lossless.surgery import unfold

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lossless.compaction.escalate import Written
    from lossless.compaction.loop import Loop
    from lossless.compaction.plan import Pass
    from lossless.lifecycle.backfill import Filling
    from lossless.model.context import CallIds, ContextItem
    from lossless.model.conversations import Conversation
    from lossless.surgery.unfold import UnfoldPlan


@dataclass(frozen=True, slots=True)
class Outlook:
    """What would be done to one history; nothing is written yet."""

    conversation: Conversation
    passes: tuple[Pass, ...]
    unfolded: UnfoldPlan | None = None
    roots: int | None = None

    @property
    def is_idle(self) -> bool:
        return not self.passes and self.unfolded is None


def outlook(
    loop: Loop, conversation: Conversation, how: Filling, *, extracts: bool, most: int | None = None
) -> Outlook:
    """The summaries that would be made: if each has its expected size, or its real one when they are extracted."""
    archive = loop.archive
    anew = unfold.plan(archive, conversation.id) if how.recompact else None
    context: Sequence[ContextItem]
    context = archive.context.items(conversation.id) if anew is None else anew.context
    work = _Work(tuned_to(loop, context, how), conversation, context, extracts)
    passes = tuple(islice(work.passes(how), most))
    is_whole = most is None or len(passes) < most
    left = rooting.roots(work.context, work.policy) if how.single_root and is_whole else None
    return Outlook(conversation, passes, anew, left)


class _Work:
    """A history that is folded in memory, to see what would come of it."""

    def __init__(self, loop: Loop, conversation: Conversation, context: Sequence[ContextItem], extracts: bool) -> None:
        self._loop, self._extracts = loop, extracts
        self._made: dict[str, Section] = {}
        self._count = 0
        situation = situation_of(loop, conversation)
        self.context, self.policy = context, policy_of(loop, situation)
        self._state = plan.begin_sweep(context, self.policy, loop.evaluate(situation))

    def passes(self, how: Filling) -> Iterator[Pass]:
        """The passes of the sweep, then those to a single root."""
        if budget_sum(self.context) > self._loop.settings.bootstrap_max_tokens:
            calls = self._call_ids()
            while work := plan.next_pass(self.context, self.policy, self._state, call_ids=calls):
                size = self._size(work)
                if size is None:
                    continue
                self._state = plan.after_pass(self._state, work, self._name, size)
                yield self._folded(work, size)
        while how.single_root and (work := rooting.next_root(self.context, self.policy)):
            size = self._size(work)
            if size is None:
                return
            yield self._folded(work, size)

    @property
    def _name(self) -> str:
        """What the summary of this pass would be called."""
        return f"planned-{self._count + 1}"

    def _folded(self, work: Pass, size: int) -> Pass:
        self.context = plan.folded(self.context, work, self._name, size)
        self._count += 1
        return work

    def _size(self, work: Pass) -> int | None:
        """How long the summary of a pass would be; None when there would be none, which the sweep remembers."""
        if not self._extracts:
            size = plan.expected_tokens(work)
            if size < work.tokens:
                return size
            self._state = plan.after_unshrinkable(self._state, work)
            return None
        source = self._source(work)
        summariser = self._loop.summariser
        written = summarise(source, sizes=summariser.sizes, wording=summariser.wording)
        if written is None:
            is_blank = not any(part.is_meaningful for part in source.parts)
            self._state = (plan.after_blank if is_blank else plan.after_unshrinkable)(self._state, work)
            return None
        self._made[self._name] = _section(source, written)
        return written.tokens

    def _source(self, work: Pass) -> Source:
        """What a pass is about; what only would be there is known from before."""
        archive, tags = self._loop.archive, self._loop.settings.strip_injected_context_tags
        messages = archive.messages.many([item.message_id for item in work.items if isinstance(item, MessageItem)])
        ids = [item.summary_id for item in work.items if isinstance(item, SummaryItem)]
        stored = archive.summaries.many([id_ for id_ in ids if id_ not in self._made])
        known = self._made | {one.id: section_of(one) for one in stored}
        lines = tuple(line_of(message, tags) for message in messages)
        return Source(lines or tuple(known[id_] for id_ in ids), work.depth, work.tokens)

    def _call_ids(self) -> CallIds:
        """The tool calls that messages of the context name."""
        ids = [item.message_id for item in self.context if isinstance(item, MessageItem)]
        found = self._loop.archive.messages.many(ids, exact=False)
        named = {
            one.id: frozenset(
                [call.id for call in one.message.tool_calls if call.id]
                + [result.call_id for result in one.message.tool_results if result.call_id]
            )
            for one in found
        }
        return {id_: calls for id_, calls in named.items() if calls}


def _section(source: Source, written: Written) -> Section:
    """What would be written, as the source of another summary."""
    spans = [
        (part.created_at, part.created_at) if isinstance(part, Line) else (part.earliest_at, part.latest_at)
        for part in source.parts
    ]
    first = min((at for at, _ in spans if at is not None), default=None)
    last = max((at for _, at in spans if at is not None), default=None)
    return Section(first, last, written.text, written.file_ids)
