"""Rows that are shown in other words: which words are current, and which are kept beside them.

A host's reduction (a cut with its mark, a mask, a placeholder) is kept as a lesser wording and the row stays as it is;
any other words the row takes, and the ones it had become a version, in the same transaction.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from lossless.ingest import likeness
from lossless.ingest.payloads import without_payloads
from lossless.model.identity import words_digest
from lossless.model.masking import FORGOTTEN
from lossless.store.context import Change
from lossless.store.operations import Operations

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from lossless.ingest.events import Event
    from lossless.ingest.payloads import Payloads
    from lossless.ingest.plan import IngestPlan
    from lossless.model.conversations import Conversation
    from lossless.model.messages import StoredMessage
    from lossless.store.archive import Archive
    from lossless.store.messages import NewMessage


def write_versions(
    archive: Archive,
    conversation: Conversation,
    plan: IngestPlan,
    new: Iterable[tuple[int, NewMessage]],
    payloads: Payloads | None,
    now: datetime,
) -> int:
    """Write the other words of `new`, by row, and keep those of `plan.cuts`; returns how many rows have other words.

    Words that are no running session's are only kept, unless they come under the row's own id and are new.
    """
    stored = {row.id: row for row in archive.messages.many([id_ for id_, _ in plan.versions])}
    several = _standing_for_several(plan, stored)
    revised: list[int] = []
    before = None
    for id_, message in new:
        if stored[id_].message.content == FORGOTTEN and archive.tombstones.rounds():
            continue  # what it said was forgotten: it takes no words again
        words = words_digest(message.message)
        is_lesser = likeness.is_reduction(
            stored[id_].message, message.message, stands_for_several=message.message.content in several
        )
        is_kept = is_lesser or not _is_current(archive, plan, stored[id_], message, words)
        shown, notes = without_payloads(archive, conversation, message, payloads, now)
        if is_kept:
            archive.versions.keep(id_, shown.message, words, "lesser", now, notes)
            continue
        before = archive.context.tokens(conversation.id) if before is None else before
        if archive.versions.revise(conversation, id_, shown, now, digest=words, notes=notes):
            revised.append(id_)
    for id_, event in plan.cuts:
        archive.versions.keep(id_, event.message, words_digest(event.message), "lesser", now)
    if revised:
        archive.summaries.mark_stale(revised, now)
        after = archive.context.tokens(conversation.id)
        change = Change("revise", "sync", "revised", (), tuple(revised), None, before or 0, after)
        archive.context.log(conversation.id, change, now)
    return len(revised)


def join_leaf(archive: Archive, conversation_id: int, ids: Sequence[int], before: int, now: datetime) -> bool:
    """Put messages into the folded range that another one is inside of, just before it; False when it is in none.

    They become sources of the leaf there, which does not tell of them yet.
    """
    leaf = archive.summaries.join(conversation_id, ids, before) if ids else None
    if leaf is None:
        return False
    archive.context.take_out(conversation_id, ids)
    Operations(archive).recount([leaf])
    archive.summaries.mark_stale(ids, now)
    return True


def _is_current(archive: Archive, plan: IngestPlan, stored: StoredMessage, message: NewMessage, words: bytes) -> bool:
    """Whether a row takes these words: those of a running session, or new ones under the row's own id."""
    if plan.is_running:
        return True
    if message.entry_id is None or message.entry_id != stored.entry_id:
        return False
    return words not in archive.versions.digests([stored.id]).get(stored.id, set())


def _standing_for_several(plan: IngestPlan, stored: dict[int, StoredMessage]) -> frozenset[str]:
    """Texts that are shown in the place of results that differ."""
    rows: defaultdict[str, set[str]] = defaultdict(set)
    for id_, event in plan.versions:
        if _is_result(event) and id_ in stored:
            rows[event.message.content].add(stored[id_].message.content)
    return frozenset(text for text, texts in rows.items() if len(texts) > 1)


def _is_result(event: Event) -> bool:
    return bool(event.message.tool_results)
