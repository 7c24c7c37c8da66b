"""Write messages and what changed about them: payloads go into files first, other wordings of a row become versions,
and system prompts are kept at the head of the context.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lossless import formats
from lossless.files.intercept import intercept
from lossless.files.vault import store_payloads
from lossless.ingest import likeness
from lossless.ingest.likeness import score_likeness
from lossless.ingest.match import ALIKE
from lossless.model.identity import words_digest
from lossless.model.masking import FORGOTTEN
from lossless.model.records import ContextChange
from lossless.store.maintenance.surgery import SurgeryWrites
from lossless.store.messages import Appended, NewMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from lossless.files.intercept import Intercepted
    from lossless.files.vault import Vault
    from lossless.ingest.events import Event
    from lossless.ingest.plan import IngestPlan
    from lossless.model.conversations import Conversation
    from lossless.model.messages import Json, StoredMessage
    from lossless.store.archive import Archive
    from lossless.store.context import PreambleItem


@dataclass(frozen=True, slots=True)
class PayloadPolicy:
    """Where payloads go, and from which size on."""

    vault: Vault
    threshold_tokens: int


def store_messages(
    archive: Archive,
    conversation: Conversation,
    new: Sequence[NewMessage],
    payloads: PayloadPolicy | None,
    now: datetime,
) -> Appended:
    """Append messages without their payloads, inside the caller's transaction."""
    caught = _find_payloads(archive, conversation, new, payloads) if payloads else {}
    if payloads is None or not caught:
        return archive.messages.append(conversation, new, now)
    found = [payload for one in caught.values() for payload in one.payloads]
    store_payloads(archive.files, payloads.vault, conversation.id, found, now)
    shown = [replace(item, message=caught[n].message) if n in caught else item for n, item in enumerate(new)]
    appended = archive.messages.append(conversation, shown, now)
    for n, one in caught.items():
        archive.files.note(appended.ids[n], one.message.role, one.notes)
    return appended


def extract_payloads(
    archive: Archive, conversation: Conversation, item: NewMessage, payloads: PayloadPolicy | None, now: datetime
) -> tuple[NewMessage, Mapping[int, Mapping[str, Json]] | None]:
    """A message whose payloads were put into files, and what is noted about them; as it is when it has none."""
    caught = _find_payloads(archive, conversation, [item], payloads).get(0) if payloads else None
    if payloads is None or caught is None:
        return item, None
    store_payloads(archive.files, payloads.vault, conversation.id, caught.payloads, now)
    return replace(item, message=caught.message), caught.notes


def _find_payloads(
    archive: Archive, conversation: Conversation, new: Sequence[NewMessage], payloads: PayloadPolicy
) -> dict[int, Intercepted]:
    """The messages that hold payloads, by their place in the batch."""

    def tool_of(call_id: str) -> str | None:
        for item in reversed(new):
            for call in item.message.tool_calls:
                if call.id == call_id:
                    return call.name
        stored = archive.files.call(conversation.id, call_id)
        return None if stored is None else stored.tool

    found: dict[int, Intercepted] = {}
    for n, item in enumerate(new):
        one = intercept(
            item.message,
            threshold_tokens=payloads.threshold_tokens,
            conversation_id=conversation.id,
            decode=formats.decode,
            tool_of=tool_of,
        )
        if one is not None:
            found[n] = one
    return found


def write_versions(
    archive: Archive,
    conversation: Conversation,
    plan: IngestPlan,
    new: Iterable[tuple[int, NewMessage]],
    payloads: PayloadPolicy | None,
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
        shown, notes = extract_payloads(archive, conversation, message, payloads, now)
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
        change = ContextChange("revise", "sync", "revised", (), tuple(revised), None, before or 0, after)
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
    SurgeryWrites(archive).recount([leaf])
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


@dataclass(frozen=True, slots=True)
class SystemPrompts:
    """The rows that a context begins with, those of them that are new, and those that have other words now."""

    ids: tuple[int, ...] = ()
    appended: Appended = field(default_factory=Appended)
    changed: tuple[tuple[int, Event], ...] = ()


def write_system_prompts(
    archive: Archive,
    conversation: Conversation,
    prompts: Sequence[Event],
    now: datetime,
    *,
    is_first: bool,
    is_all: bool = False,
) -> SystemPrompts:
    """Let the context begin with these prompts; a text that is stored is used again, one that is gone is hidden.

    Without any, those that are there stay, unless these are said to be all.
    """
    if not prompts and not is_all:
        return SystemPrompts()
    if is_first:
        appended = archive.messages.append(conversation, [_new_prompt(event, now) for event in prompts], now)
        return SystemPrompts(appended.ids, appended)
    there, _ = archive.context.preamble(conversation.id)
    if [prompt.fingerprint for prompt in there] == [event.fingerprint for event in prompts]:
        return SystemPrompts(tuple(prompt.message_id for prompt in there))
    before = archive.context.tokens(conversation.id)
    ids, appended, changed = _prompt_rows(archive, conversation, prompts, there, now)
    gone = [prompt.message_id for prompt in there if prompt.message_id not in ids]
    archive.context.hide(conversation.id, gone, "superseded", now)
    for id_ in ids:
        archive.context.unhide(conversation.id, id_)
    covered = archive.context.covered(conversation.id, ids)
    archive.context.begin_with(conversation.id, [id_ for id_ in ids if id_ not in covered], now)
    after = archive.context.tokens(conversation.id)
    change = ContextChange("hide", "sync", "superseded", tuple(gone), tuple(ids), 0, before, after)
    archive.context.log(conversation.id, change, now)
    archive.context.close_gaps(conversation.id)
    return SystemPrompts(tuple(ids), appended, tuple(changed))


def _prompt_rows(
    archive: Archive, conversation: Conversation, prompts: Sequence[Event], there: Sequence[PreambleItem], now: datetime
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
        if id_ is None and (was := _changed_prompt(archive, event, n, there, prompts)) is not None and was not in ids:
            changed.append((was, event))
            ids.append(was)
            continue
        if id_ is None or id_ in ids:  # a prompt that changed may keep its entry id, which stays where it is
            unnamed = event if event.entry_id not in taken else replace(event, entry_id=None)
            one = archive.messages.append(conversation, [_new_prompt(unnamed, now)], now, in_context=False)
            id_, appended = one.ids[0], appended + one
        ids.append(id_)
    return ids, appended, changed


def _changed_prompt(
    archive: Archive, event: Event, place: int, there: Sequence[PreambleItem], prompts: Sequence[Event]
) -> int | None:
    """The prompt that stood at this place, if it is gone and this one is alike: it was changed."""
    if len(there) != len(prompts) or there[place].fingerprint in {prompt.fingerprint for prompt in prompts}:
        return None
    before = archive.messages.get(there[place].message_id).message
    return there[place].message_id if score_likeness(before, event.message) >= ALIKE else None


def _new_prompt(event: Event, now: datetime) -> NewMessage:
    return NewMessage(
        event.message, event.identity, event.fingerprint, event.created_at or now, event.entry_id, is_preamble=True
    )
