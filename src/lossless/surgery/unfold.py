"""Unfolding: every summary of a context gives way to the messages below it, so that they can be folded anew."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lossless.errors import BadInput
from lossless.model.context import MessageItem, SummaryItem, token_sum
from lossless.store.context import Change, item_id
from lossless.store.operations import Operations
from lossless.surgery.outcome import Operated, backed_up, same

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lossless.model.context import ContextItem
    from lossless.store.archive import Archive
    from lossless.store.operations import Former
    from lossless.surgery.outcome import Backup


@dataclass(frozen=True, slots=True)
class UnfoldPlan:
    """What would come back; nothing is written yet."""

    conversation_id: int
    #: The ordinals of the first and the last summary that gives way.
    first: int
    last: int
    #: What stands between these now, and what would: messages, and summaries whose messages are not known or hidden.
    removed: tuple[int | str, ...]
    added: tuple[int | str, ...]
    #: The summaries that go, those below others included, shallow ones first.
    summary_ids: tuple[str, ...]
    tokens_before: int
    #: The whole context as it would be.
    context: tuple[ContextItem, ...] = field(repr=False, default=())
    #: How many messages do not come back, as they are hidden.
    hidden: int = 0

    @property
    def tokens_after(self) -> int:
        return token_sum(self.context)

    @property
    def essence(self) -> tuple[object, ...]:
        """What was decided; messages that were only appended since do not matter."""
        return self.removed, self.added, self.summary_ids

    @property
    def text(self) -> str:
        """The plan for a person's eyes."""
        back = sum(isinstance(id_, int) for id_ in self.added) - sum(isinstance(id_, int) for id_ in self.removed)
        rows = [f"- {len(self.summary_ids)} summaries give way to the {back} messages below them"]
        rows += [f"{self.hidden} messages are hidden and stay so"] if self.hidden else []
        return "\n".join([*rows, f"context: {self.tokens_before} → {self.tokens_after} tokens before it is folded"])


def plan(archive: Archive, conversation_id: int) -> UnfoldPlan | None:
    """What unfolding a context would bring back; None when no summary stands there that could give way.

    What is hidden stays hidden. Raises BadInput when a message stands in the context and below a summary there.
    """
    with archive.reading():
        context = archive.context.items(conversation_id)
        below = {item.summary_id: _messages(archive, item.summary_id) for item in _summaries(context)}
        all_ = [id_ for ids in below.values() for id_ in ids]
        visible = set(Operations(archive).visible(conversation_id, all_))
        back = {id_: kept for id_, ids in below.items() if (kept := [one for one in ids if one in visible])}
        if not back:
            return None
        whole = _unfolded(archive, context, back)
        gone = Operations(archive).below(back)
    if (twice := _twice(whole)) is not None:
        raise BadInput(f"conversation {conversation_id} cannot be folded anew: msg#{twice} stands in its context twice")
    places = [n for n, item in enumerate(context) if item_id(item) in back]
    first, last = places[0], places[-1]
    behind = len(context) - 1 - last
    return UnfoldPlan(
        conversation_id,
        context[first].ordinal,
        context[last].ordinal,
        tuple(item_id(item) for item in context[first : last + 1]),
        tuple(item_id(item) for item in whole[first : len(whole) - behind]),
        tuple(gone),
        token_sum(context),
        tuple(whole),
        sum(len(below[id_]) - len(kept) for id_, kept in back.items()),
    )


def apply(archive: Archive, work: UnfoldPlan, now: datetime, backup: Backup, *, actor: str = "recompact") -> Operated:
    """Carry a plan out, all or nothing; raises `Stale` when it is no longer what would be planned.

    Summaries that nothing needs any more are deleted; undoing this step brings them back.
    """
    copy = backed_up(backup, "recompact")
    id_ = work.conversation_id
    with archive.writing():
        again = plan(archive, id_)
        same(work.essence, None if again is None else again.essence)
        assert again is not None
        operations = Operations(archive)
        operations.exchange(id_, again.first, again.last, again.added, now)
        archive.summaries.mark_pending_stale(id_, again.first, 2**62)
        former = _purged(operations, again.summary_ids)
        change = Change(
            "dissolve", actor, None, again.removed, again.added, again.first, again.tokens_before, again.tokens_after
        )
        log_id = operations.log(id_, change, now, former)
    gone = tuple(was.id for was in former)
    return Operated("dissolve", id_, log_id, again.tokens_before, again.tokens_after, gone, copy)


def _purged(operations: Operations, summary_ids: Sequence[str]) -> list[Former]:
    """Delete summaries, those above first; what a brief or another summary needs stays."""
    return [operations.purge(id_) for id_ in reversed(summary_ids) if not operations.uses(id_)]


def _summaries(context: Sequence[ContextItem]) -> list[SummaryItem]:
    return [item for item in context if isinstance(item, SummaryItem)]


def _messages(archive: Archive, summary_id: str) -> list[int]:
    """The messages below a summary, in the order of what it was made of; none when some of them are not known."""
    found: list[int] = []
    waiting = [summary_id]
    while waiting:
        id_ = waiting.pop()
        sources = archive.summaries.get(id_).source_ids
        messages = [] if sources else archive.summaries.message_ids(id_)
        if not sources and not messages:
            return []
        waiting += reversed(sources)
        found += messages
    return list(dict.fromkeys(found))


def _unfolded(archive: Archive, context: Sequence[ContextItem], back: dict[str, list[int]]) -> list[ContextItem]:
    """The context with messages where their summaries stand, numbered from 0."""
    ids = [id_ for found in back.values() for id_ in found]
    known = {stored.id: stored for stored in archive.messages.many(ids, exact=False)}
    whole: list[ContextItem] = []
    for item in context:
        if isinstance(item, SummaryItem) and item.summary_id in back:
            said = [known[id_] for id_ in back[item.summary_id]]
            whole += [MessageItem(0, one.id, one.message.role, one.message.tokens, one.seq) for one in said]
        else:
            whole.append(item)
    return [replace(item, ordinal=n) for n, item in enumerate(whole)]


def _twice(context: Sequence[ContextItem]) -> int | None:
    """A message that stands in a context more than once."""
    ids = Counter(item.message_id for item in context if isinstance(item, MessageItem))
    return next((id_ for id_, count in ids.items() if count > 1), None)
