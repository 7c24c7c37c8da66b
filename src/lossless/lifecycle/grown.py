"""Entries that say something else under an id that is stored: no word of them is lost.

One that was read while its host still wrote it says more now, or its host has edited it: the row takes the new words,
and those it had become a version. Words that the row once had are not current again because an old file still has them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lossless.ingest import entries as ingest
from lossless.ingest.plan import IngestPlan
from lossless.lifecycle.stream import chunks, said
from lossless.model.messages import Incoming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from lossless.ingest.events import Event
    from lossless.ingest.payloads import Payloads
    from lossless.model.conversations import Conversation
    from lossless.store.archive import Archive
    from lossless.transcripts.entries import BadLine, Entry


@dataclass(frozen=True, slots=True)
class Reread:
    """Entries that were read, and the conversation that holds them."""

    archive: Archive
    conversation: Conversation
    entries: Callable[[], Iterable[Entry | BadLine]]
    now: datetime
    payloads: Payloads | None


def take_grown(reread: Reread) -> tuple[int, int]:
    """Keep the words of entries whose id is known and that say something else.

    Returns how many rows have new words, and how many rows are new: another role under a known id is another message.
    """
    revised = stored = 0
    for chunk in chunks(reread.entries()):
        items = [
            Incoming(entry.message, entry.id, entry.created_at)
            for entry in said(chunk)
            if entry.id is not None and entry.message is not None
        ]
        versions, strangers = _others(reread, items)
        if strangers:
            with reread.archive.writing():
                batch = ingest.Batch(strangers, (), (), 0)
                stored += ingest.follow(
                    reread.archive, reread.conversation, batch, now=reread.now, payloads=reread.payloads
                ).stored
        if versions:
            events = tuple(event for _, event in versions)
            plan = IngestPlan(versions=versions, is_running=False, replayed=len(events))
            with reread.archive.writing():
                report = ingest.carry_out(
                    reread.archive,
                    reread.conversation,
                    plan,
                    ingest.Batch(events, (), (), 0),
                    now=reread.now,
                    payloads=reread.payloads,
                )
            revised += report.revised
    return revised, stored


def _others(reread: Reread, items: list[Incoming]) -> tuple[tuple[tuple[int, Event], ...], tuple[Event, ...]]:
    """The rows whose entry has other words, and the events whose id names a row of another role.

    A row that a running session has shown, too, only keeps the words of its entry.
    """
    known = reread.archive.messages.known_entries(reread.conversation.id, [item.entry_id or "" for item in items])
    found: list[tuple[int, Event]] = []
    strangers: list[Event] = []
    there = [item for item in items if item.entry_id in known]
    for event in ingest.read(reread.archive, reread.conversation.id, there).events:
        row = known[event.entry_id or ""]
        if row.role != event.message.role:
            strangers.append(event)
        elif row.fingerprint != event.fingerprint:
            found.append((row.id, replace(event, entry_id=None) if row.claimed else event))
    return tuple(found), tuple(strangers)
