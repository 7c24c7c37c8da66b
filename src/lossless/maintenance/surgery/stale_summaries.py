"""Rewrites stale summaries, whose sources have changed: extracts at once, those of a model before the next compaction.

Until then a correction follows them in the prompt. Sources are rewritten first.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from lossless.compaction.source_text import SourceSummary, input_text
from lossless.compaction.summarise import WrittenSummary
from lossless.errors import GuardOpen, ModelError, Stale
from lossless.maintenance.surgery.rewriting import summary_source
from lossless.model.context import EXTRACTIVE_MODEL
from lossless.model.records import ContextChange
from lossless.model.tokens import cut_to_tokens, estimate_tokens
from lossless.store.maintenance.surgery import SurgeryWrites

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from datetime import datetime

    from lossless.compaction.summarise import SummarySource
    from lossless.compaction.summariser import Summariser
    from lossless.model.context import Summary
    from lossless.store.archive import Archive
    from lossless.store.maintenance.surgery import FormerSummary

#: How many summaries are extracted again in one call; others keep their corrections until the next one.
MAX_AT_ONCE = 16
#: The text of a summary whose sources have all left the conversation.
NOTHING_LEFT = "[Nothing that this told of is part of the conversation any more.]"


def extract_stale(
    archive: Archive,
    conversation_id: int,
    summariser: Summariser,
    now: datetime,
    *,
    everything: bool = False,
    limit: int = MAX_AT_ONCE,
) -> tuple[str, ...]:
    """Extract stale summaries again whose sources are up to date, or `everything`; returns their ids."""
    if not archive.summaries.stale(conversation_id):
        return ()
    done: list[str] = []
    with archive.writing(), _rewriting(archive, conversation_id, now) as write:
        found = _stale(archive, conversation_id)
        stale = {summary.id for summary in found}
        for summary in found:
            if len(done) == limit:
                break
            if (everything or summary.model == EXTRACTIVE_MODEL) and stale.isdisjoint(summary.source_ids):
                source = summary_source(archive, summariser, summary.id, {})
                write(summary, _smaller(source, summariser.write(source)))
                stale.discard(summary.id)
                done.append(summary.id)
    return tuple(done)


def write_stale(archive: Archive, conversation_id: int, summariser: Summariser, clock: Callable[[], datetime]) -> None:
    """Rewrite all stale summaries, by a model where one wrote them; when it fails, the rest stays stale."""
    tried = set[str]()
    if not archive.summaries.stale(conversation_id):
        return
    with summariser.lease(archive, conversation_id, clock) as prolong:
        gate = replace(summariser.gate(archive, conversation_id, clock), is_wanted=prolong)
        ask = summariser.ask(gate) if summariser.has_model else None
        while prolong():
            extract_stale(archive, conversation_id, summariser, clock(), everything=ask is None)
            summary = _next(archive, conversation_id, tried)
            if summary is None:
                break
            if ask is None or summary.model == EXTRACTIVE_MODEL:
                continue  # there were more than one call extracts
            tried.add(summary.id)
            source = summary_source(archive, summariser, summary.id, {})
            try:
                written = summariser.write(source, ask, "raise")
            except (ModelError, GuardOpen, Stale):
                break
            with archive.writing():
                is_same = archive.summaries.many([summary.id]) == [summary]
                if prolong() and is_same and summary_source(archive, summariser, summary.id, {}) == source:
                    with _rewriting(archive, conversation_id, clock()) as write:
                        write(summary, _smaller(source, written))


def _stale(archive: Archive, conversation_id: int) -> list[Summary]:
    return archive.summaries.many(list(archive.summaries.stale(conversation_id)))


def _next(archive: Archive, conversation_id: int, tried: Collection[str]) -> Summary | None:
    found = _stale(archive, conversation_id)
    stale = {summary.id for summary in found}
    return next((one for one in found if one.id not in tried and stale.isdisjoint(one.source_ids)), None)


@contextmanager
def _rewriting(
    archive: Archive, conversation_id: int, now: datetime
) -> Iterator[Callable[[Summary, WrittenSummary], None]]:
    """A function that replaces texts inside a transaction; at the end, what depends on them is updated and logged."""
    operations, before = SurgeryWrites(archive), archive.context.tokens(conversation_id)
    former: list[FormerSummary] = []

    def write(summary: Summary, written: WrittenSummary) -> None:
        if written.text != summary.content:
            former.append(operations.state(summary.id))
            operations.write(summary.id, written.text, written.tokens, written.model, written.file_ids)
        archive.summaries.clear_stale([summary.id])

    yield write
    if former:
        operations.recount([was.id for was in former])
        after = archive.context.tokens(conversation_id)
        change = ContextChange("renew", "sync", "revised", (), (), None, before, after)
        operations.log(conversation_id, change, now, former)


def _smaller(source: SummarySource, written: WrittenSummary | None) -> WrittenSummary:
    """A new text, or, where none is smaller than its sources, as many of their words as fit."""
    if written is not None:
        return written
    words = "\n".join(
        part.text
        if part.text or isinstance(part, SourceSummary)
        else " ".join((*map(input_text, part.inputs), *(result.text for result in part.outputs)))
        for part in source.parts
        if part.is_meaningful
    )
    text = cut_to_tokens(words, max(1, (source.tokens or 0) - 1)).strip() or NOTHING_LEFT
    return WrittenSummary(text, "extractive", estimate_tokens(text), EXTRACTIVE_MODEL)
