"""The system prompts that a window begins with: they have no place in the order of what was said."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lossless.ingest.likeness import likeness
from lossless.ingest.match import ALIKE
from lossless.store.context import Change
from lossless.store.messages import Appended, NewMessage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lossless.ingest.events import Event
    from lossless.model.conversations import Conversation
    from lossless.store.archive import Archive
    from lossless.store.context import Preamble


@dataclass(frozen=True, slots=True)
class Prompts:
    """The rows that a context begins with, those of them that are new, and those that have other words now."""

    ids: tuple[int, ...] = ()
    appended: Appended = field(default_factory=Appended)
    changed: tuple[tuple[int, Event], ...] = ()


def write_preamble(
    archive: Archive,
    conversation: Conversation,
    prompts: Sequence[Event],
    now: datetime,
    *,
    is_first: bool,
    is_all: bool = False,
) -> Prompts:
    """Let the context begin with these prompts; a text that is stored is used again, one that is gone is hidden.

    Without any, those that are there stay, unless these are said to be all.
    """
    if not prompts and not is_all:
        return Prompts()
    if is_first:
        appended = archive.messages.append(conversation, [_new(event, now) for event in prompts], now)
        return Prompts(appended.ids, appended)
    there, _ = archive.context.preamble(conversation.id)
    if [prompt.fingerprint for prompt in there] == [event.fingerprint for event in prompts]:
        return Prompts(tuple(prompt.message_id for prompt in there))
    before = archive.context.tokens(conversation.id)
    ids, appended, changed = _rows(archive, conversation, prompts, there, now)
    gone = [prompt.message_id for prompt in there if prompt.message_id not in ids]
    archive.context.hide(conversation.id, gone, "superseded", now)
    for id_ in ids:
        archive.context.unhide(conversation.id, id_)
    covered = archive.context.covered(conversation.id, ids)
    archive.context.begin_with(conversation.id, [id_ for id_ in ids if id_ not in covered], now)
    after = archive.context.tokens(conversation.id)
    change = Change("hide", "sync", "superseded", tuple(gone), tuple(ids), 0, before, after)
    archive.context.log(conversation.id, change, now)
    archive.context.close_gaps(conversation.id)
    return Prompts(tuple(ids), appended, tuple(changed))


def _rows(
    archive: Archive, conversation: Conversation, prompts: Sequence[Event], there: Sequence[Preamble], now: datetime
) -> tuple[list[int], Appended, list[tuple[int, Event]]]:
    """The row of each prompt, stored now when its text is new, and the rows that an id names and whose text is new."""
    known: defaultdict[bytes, list[int]] = defaultdict(list)
    for prompt in there:
        known[prompt.fingerprint].append(prompt.message_id)
    taken = archive.messages.known_entries(conversation.id, [event.entry_id for event in prompts if event.entry_id])
    ids: list[int] = []
    appended = Appended()
    changed: list[tuple[int, Event]] = []
    for n, event in enumerate(prompts):
        if known[event.fingerprint]:
            ids.append(known[event.fingerprint].pop(0))
            continue
        row = taken.get(event.entry_id) if event.entry_id is not None else None
        if row is not None and row.is_preamble and row.role == event.message.role and row.id not in ids:
            changed.append((row.id, event))
            ids.append(row.id)
            continue
        id_ = archive.messages.preamble_id(conversation.id, event.identity, event.fingerprint)
        if id_ is None and (was := _was(archive, event, n, there, prompts)) is not None and was not in ids:
            changed.append((was, event))
            ids.append(was)
            continue
        if id_ is None or id_ in ids:  # a prompt that changed may keep its entry id, which stays where it is
            unnamed = event if event.entry_id not in taken else replace(event, entry_id=None)
            one = archive.messages.append(conversation, [_new(unnamed, now)], now, in_context=False)
            id_, appended = one.ids[0], appended + one
        ids.append(id_)
    return ids, appended, changed


def _was(archive: Archive, event: Event, place: int, there: Sequence[Preamble], prompts: Sequence[Event]) -> int | None:
    """The prompt that stood at this place, if it is gone and this one is alike: it was changed."""
    if len(there) != len(prompts) or there[place].fingerprint in {prompt.fingerprint for prompt in prompts}:
        return None
    before = archive.messages.get(there[place].message_id).message
    return there[place].message_id if likeness(before, event.message) >= ALIKE else None


def _new(event: Event, now: datetime) -> NewMessage:
    return NewMessage(
        event.message, event.identity, event.fingerprint, event.created_at or now, event.entry_id, is_preamble=True
    )
