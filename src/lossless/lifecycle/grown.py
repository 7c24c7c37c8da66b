"""Entries that were read while their host still wrote them, and that now say more under the same id.

The whole message takes the place of the part in the context; the part stays stored, under an id of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.ingest import entries as ingest
from lossless.ingest.plan import IngestPlan, Inserted
from lossless.ingest.same import is_edited
from lossless.lifecycle.stream import chunks, said
from lossless.model.messages import Incoming

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from lossless.ingest.events import Event
    from lossless.ingest.payloads import Payloads
    from lossless.model.conversations import Conversation
    from lossless.model.messages import Message
    from lossless.store.archive import Archive
    from lossless.store.messages import TailRow
    from lossless.transcripts.entries import BadLine, Entry

#: So many messages behind a part show where the whole one belongs.
_BEHIND = 64


def take_grown(
    archive: Archive,
    conversation: Conversation,
    entries: Iterable[Entry | BadLine],
    *,
    now: datetime,
    payloads: Payloads | None,
) -> int:
    """Store entries whose id is known and whose words have grown since; returns how many those were."""
    count = 0
    for chunk in chunks(entries):
        items = {
            entry.id: Incoming(entry.message, entry.id, entry.created_at)
            for entry in said(chunk)
            if entry.id is not None and entry.message is not None
        }
        known = archive.messages.known_entries(conversation.id, list(items))
        for event in ingest.read([items[id_] for id_ in items if id_ in known]).events:
            row = known[event.entry_id or ""]
            if row.claimed or row.fingerprint == event.fingerprint:
                continue
            if _has_grown(archive.messages.get(row.id).message, event.message):
                _take(archive, conversation, row, event, now, payloads)
                count += 1
    return count


def _has_grown(before: Message, now: Message) -> bool:
    """Whether a message says all that another one says, and more; a mask or a frame is no more."""
    if before.role != now.role or not now.content.startswith(before.content):
        return False
    return is_edited(before, now) or len(now.tool_calls) > len(before.tool_calls)


def _take(
    archive: Archive,
    conversation: Conversation,
    part: TailRow,
    whole: Event,
    now: datetime,
    payloads: Payloads | None,
) -> None:
    with archive.writing():
        name = f"{whole.entry_id}~{part.fingerprint.hex()[:16]}"
        behind = tuple(row.id for row in archive.messages.run_from(conversation.id, part.seq + 1)[:_BEHIND])
        plan = IngestPlan(
            new=(whole,),
            stamps=((part.id, name),),
            abandoned=(part.id,),
            cause="branch",
            insertions=(Inserted((whole.index,), behind),),
        )
        batch = ingest.Batch((whole,), (), (), 1)
        ingest.carry_out(archive, conversation, plan, batch, now=now, payloads=payloads)
