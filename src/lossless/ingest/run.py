"""Stores a batch: read once, decide, write once, in one transaction. Payloads go into files first, other wordings of
a row become versions, and system prompts are kept at the start of the context.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lossless import formats
from lossless.errors import BadInput
from lossless.files.intercept import intercept
from lossless.files.vault import write_payloads
from lossless.ingest import events as incoming
from lossless.ingest import likeness
from lossless.ingest.events import (
    QUIET_ANSWERS,
    Skip,
    entry_ids_of,
    event_keys_of,
    is_note_of,
    is_quiet_answer,
    is_quiet_question,
    mask_items,
    may_be_note,
    sender_of,
)
from lossless.ingest.likeness import score_likeness
from lossless.ingest.match import ALIKE
from lossless.ingest.plan import IngestPlan, plan_append, with_own_id, with_own_ids
from lossless.ingest.synthetic import is_referenced
from lossless.ingest.window import (
    IncomingWindow,
)
from lossless.model.identity import identity_hash, words_digest
from lossless.model.masking import FORGOTTEN
from lossless.model.messages import MessageLike, ToolCall
from lossless.model.records import ContextChange, TailRow
from lossless.store.context import REVISE
from lossless.store.maintenance.surgery import SurgeryWrites
from lossless.store.messages import Appended, NewMessage
from lossless.store.state import WITH_IDS, WITHOUT_IDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from lossless.files.intercept import Intercepted
    from lossless.files.vault import Vault
    from lossless.ingest.events import Event
    from lossless.ingest.plan import IngestPlan, IsCopy
    from lossless.model.conversations import Conversation, Session
    from lossless.model.messages import Json, Message, MessageLike, StoredMessage
    from lossless.store.archive import Archive
    from lossless.store.context import PreambleItem

#: How many of the newest rows a producer may adopt from the other one.
_ADOPTION_ROWS, _FEW_ROWS = 256, 16


@dataclass(frozen=True, slots=True)
class AppendReport:
    """The result of one call. `stored` counts new rows; everything else was already stored, or has a reason."""

    conversation_id: int | None
    stored: int = 0
    #: Messages that were already stored.
    replayed: int = 0
    #: Messages that are not stored, each with its reason.
    skipped: tuple[Skip, ...] = ()
    #: Rows that got an entry id: they had none, or one that is gone.
    stamped: int = 0
    #: Rows with new text; their old text is kept as a version.
    revised: int = 0
    #: Messages whose row was decided by similarity.
    likely: int = 0
    #: Repeats that may be missing, because content alone could not decide; they count as replays.
    ambiguous: int = 0
    #: Messages that left the context because the host continued differently.
    abandoned: int = 0
    #: `branch`, `disjoint`, `host-summary`, or None.
    cause: str | None = None
    #: Why the messages are not in the context: they are in a quarantined conversation, until that is decided.
    blocked: str | None = None
    #: That conversation.
    quarantine_id: int | None = None
    message_ids: tuple[int, ...] = field(default=(), repr=False)
    #: Whether earlier messages changed, so that summaries may be stale.
    changes_past: bool = field(default=False, repr=False)
    #: The conversation itself, as it was opened.
    conversation: Conversation | None = field(default=None, repr=False, compare=False)


def append(
    archive: Archive,
    session: Session,
    items: Sequence[MessageLike],
    *,
    key: str | None,
    now: datetime,
    payloads: PayloadPolicy | None = None,
) -> AppendReport:
    """Store messages that the host says are new; the same key with the same words, or the same entry id, is a no-op."""
    _check_names(session, key)
    events, skips = incoming.read_events(items)
    with archive.writing():
        conversation = archive.conversations.open(session, now)
        if (kept := mask_items(archive, conversation.id, items)) is not items:
            events, skips = incoming.read_events(kept)
        events = with_own_ids(events)
        if key is not None and archive.ingest.has_key(conversation.id, key, _payload(events)):
            return AppendReport(conversation.id, replayed=len(events), skipped=tuple(skips))
        events = drop_delivery_notes(archive, conversation, events, skips, follows=True)
        events, known = split_by_role(archive, conversation, events)
        plan = plan_batch(archive, conversation, events, known)
        appended, revised = write_plan(archive, conversation, plan, payloads, now)
        batch = IncomingWindow((), tuple(events), tuple(skips), len(items))
        update_counters(archive, conversation, plan, batch, appended, now, fits=bool(appended.ids), revised=revised)
        _remember_key(archive, conversation, key, events, now)
    return append_report(conversation, plan, skips, appended.ids, plan.replayed, revised)


def drop_delivery_notes(
    archive: Archive, conversation: Conversation, events: Sequence[Event], skips: list[Skip], *, follows: bool
) -> list[Event]:
    """The events without delivery notes, which are added to `skips`; `follows` when they follow the newest row."""
    kept: list[Event] = []
    for event in events:
        if may_be_note(event.message):
            before = kept[-1].message if kept else _newest(archive, conversation) if follows else None
            if is_note_of(event.message, before):
                skips.append(Skip(event.index, "a delivery note"))
                continue
        kept.append(event)
    return kept


def _newest(archive: Archive, conversation: Conversation) -> Message | None:
    newest = archive.messages.newest_id(conversation.id)
    return None if newest is None else archive.messages.get(newest).message


def split_by_role(
    archive: Archive, conversation: Conversation, events: Sequence[Event]
) -> tuple[list[Event], dict[str, TailRow]]:
    """Events with the rows of their ids; an id names one role, and a message of another role gets its own id."""
    entry_ids = entry_ids_of(events)
    if not entry_ids:
        return list(events), {}
    known = archive.messages.known_entries(conversation.id, entry_ids)
    roles: dict[str, str] = {id_: row.role for id_, row in known.items()}
    found = [
        event
        if event.entry_id is None or roles.setdefault(event.entry_id, event.message.role) == event.message.role
        else with_own_id(event)
        for event in events
    ]
    renamed = [event for event in found if event.entry_id is not None and event.entry_id not in roles]
    if renamed:
        known |= archive.messages.known_entries(conversation.id, entry_ids_of(renamed))
    return found, known


def plan_batch(
    archive: Archive,
    conversation: Conversation,
    events: Sequence[Event],
    by_entry: Mapping[str, TailRow] | None = None,
) -> IngestPlan:
    """What a batch adds; `by_entry` are the rows of its entry ids, if already looked up."""
    entry_ids = entry_ids_of(events)
    others = WITHOUT_IDS if entry_ids else WITH_IDS
    adoptable: list[TailRow] = []
    if archive.ingest.producers(conversation.id) & others:
        adoptable = (
            archive.messages.tail(conversation.id, _ADOPTION_ROWS) if entry_ids else _unclaimed(archive, conversation)
        )
    if by_entry is None:
        by_entry = archive.messages.known_entries(conversation.id, entry_ids)
    by_event = archive.messages.known_events(conversation.id, event_keys_of(events))
    again = archive.messages.called_after(conversation.id, {key: row.id for key, row in by_event.items()})
    if any(event.message.role == "system" for event in events):
        adoptable = [*context_prompts(archive, conversation), *adoptable]
    return plan_append(events, by_entry, by_event, again, adoptable, copy_detector(archive))


def context_prompts(archive: Archive, conversation: Conversation) -> list[TailRow]:
    """The leading system prompts of the context, for a producer that sends them, too."""
    there, _ = archive.context.preamble(conversation.id)
    known = archive.messages.entry_ids([id_ for _, id_, _ in there])
    return [TailRow(id_, digest, known.get(id_), False, "system", 0, True) for _, id_, digest in there]


def _unclaimed(archive: Archive, conversation: Conversation) -> list[TailRow]:
    """The rows after the last one from a producer without entry ids: usually few."""
    for limit in (_FEW_ROWS, _ADOPTION_ROWS):
        rows = archive.messages.tail(conversation.id, limit)
        last = max((n for n, row in enumerate(rows) if row.claimed), default=-1)
        if last >= 0 or len(rows) < limit:
            break
    return rows[last + 1 :]


def copy_detector(archive: Archive) -> IsCopy:
    """Recognises other wordings of stored rows."""

    def is_copy(event: Event, row: TailRow, alone: bool) -> bool:
        stored = archive.messages.get(row.id).message
        is_alike = likeness.score_likeness(stored, event.message) >= (1.0 if alone else 0.5)
        return is_alike or is_referenced(stored, event.message) or likeness.is_cut_result(stored, event.message)

    return is_copy


def _check_names(session: Session, key: str | None) -> None:
    for what, name in (("session key", session.key), ("session id", session.id), ("key", key)):
        if name is not None and not incoming.is_encodable(name):
            raise BadInput(f"the {what} contains a lone surrogate, which is not valid text")


def write_plan(
    archive: Archive, conversation: Conversation, plan: IngestPlan, payloads: PayloadPolicy | None, now: datetime
) -> tuple[Appended, int]:
    """Carry out a plan inside the caller's transaction; returns the new rows, and how many rows have new text."""
    if plan.stamps:
        archive.messages.stamp(plan.stamps)
    if plan.claims:
        archive.messages.claim(plan.claims)
    if plan.abandoned or plan.revived or plan.insertions or plan.hidden:
        appended = _branch(archive, conversation, plan, payloads, now)
    else:
        appended = _store(archive, conversation, plan, payloads, now)
    if not plan.versions and not plan.cuts:
        return appended, 0
    new = [(id_, _new_message(event, now)) for id_, event in plan.versions]
    return appended, write_versions(archive, conversation, plan, new, payloads, now)


def _store(
    archive: Archive, conversation: Conversation, plan: IngestPlan, payloads: PayloadPolicy | None, now: datetime
) -> Appended:
    new = _with_own_keys(archive, conversation, [_new_message(event, now) for event in plan.new])
    appended = store_messages(archive, conversation, new, payloads, now)
    hide_quiet_turns(archive, conversation, plan.new, appended.ids, now)
    return appended


def _with_own_keys(archive: Archive, conversation: Conversation, new: list[NewMessage]) -> list[NewMessage]:
    """Messages to be stored, without call ids that belong to another result."""
    keys = [item.event_key for item in new if item.event_key is not None]
    taken: set[str | None] = {*archive.messages.known_events(conversation.id, keys)} if keys else set()
    for n, item in enumerate(new):
        if item.event_key in taken:
            new[n] = replace(item, event_key=None)
        elif item.event_key is not None:
            taken.add(item.event_key)
    return new


def _new_message(event: Event, now: datetime) -> NewMessage:
    at = event.created_at or now
    message = event.message
    sender = sender_of(message)
    return NewMessage(message, event.identity, event.fingerprint, at, event.entry_id, message.event_key, sender)


def _branch(
    archive: Archive, conversation: Conversation, plan: IngestPlan, payloads: PayloadPolicy | None, now: datetime
) -> Appended:
    """Hide what the host left or removed, restore what it returned to, and store new messages at their positions."""
    before = archive.context.tokens(conversation.id)
    if plan.abandoned:
        archive.context.hide(conversation.id, plan.abandoned, "branch", now)
    for cause in dict.fromkeys(cause for _, cause in plan.hidden):
        archive.context.hide(conversation.id, [id_ for id_, why in plan.hidden if why == cause], cause, now)
    if plan.revived:
        archive.context.reveal(conversation.id, plan.revived, now)
    appended = _store(archive, conversation, plan, payloads, now)
    placed = _place(archive, conversation, plan, appended.ids, now)
    archive.summaries.mark_stale((*plan.abandoned, *(id_ for id_, _ in plan.hidden), *plan.revived), now)
    after = archive.context.tokens(conversation.id)
    gone = (*plan.abandoned, *(id_ for id_, _ in plan.hidden))
    why = plan.cause if plan.abandoned or plan.revived else next((cause for _, cause in plan.hidden), plan.cause)
    added = tuple(dict.fromkeys((*plan.revived, *placed)))
    change = ContextChange("branch", "sync", why, gone, added, None, before, after)
    archive.context.log(conversation.id, change, now)
    archive.context.close_gaps(conversation.id)
    return appended


def _place(
    archive: Archive, conversation: Conversation, plan: IngestPlan, ids: Sequence[int], now: datetime
) -> list[int]:
    """Move messages to their positions in the window; returns those that are not just appended.

    One before a folded message is added to the sources of the leaf there.
    """
    rows = {event.index: id_ for event, id_ in zip(plan.new, ids, strict=True)}
    rows |= plan.rows_by_event
    placed: list[int] = []
    for events, behind in plan.insertions:
        some = [rows[index] for index in events if index in rows]
        folded = archive.context.covered(conversation.id, some)
        some = [id_ for id_ in some if id_ not in folded]
        if behind:
            if not join_leaf(archive, conversation.id, some, behind[0], now):
                archive.context.insert_before(conversation.id, some, behind, now)
        else:
            archive.context.reveal(conversation.id, some, now)
            some = [id_ for id_ in some if id_ not in ids]
        placed += some
    return placed


def update_counters(
    archive: Archive,
    conversation: Conversation,
    plan: IngestPlan,
    window: IncomingWindow,
    appended: Appended,
    now: datetime,
    *,
    fits: bool,
    revised: int = 0,
) -> None:
    """Add to the counters; input that fits ends an earlier refusal."""
    has_id = {event.entry_id is not None for events in (window.preamble, window.events) for event in events}
    archive.ingest.count(
        conversation.id,
        now,
        seen=window.size,
        stored=len(appended.ids),
        replayed=window.size - len(window.skips) - len(appended.ids),
        skipped=len(window.skips),
        ambiguous=plan.ambiguous,
        revised=revised,
        likely=plan.likely,
        fits=fits,
        producers=(WITH_IDS if True in has_id else 0) | (WITHOUT_IDS if False in has_id else 0),
        tokens=appended.tokens,
        extra=appended.extra,
        last_seq=appended.last_seq,
    )


def _remember_key(
    archive: Archive, conversation: Conversation, key: str | None, events: Sequence[Event], now: datetime
) -> None:
    if key is not None:
        archive.ingest.remember_key(conversation, key, entry_ids_of(events), len(events), _payload(events), now)


def _payload(events: Sequence[Event]) -> str:
    """The digest of a batch's content."""
    return hashlib.sha256(b"".join(event.fingerprint for event in events)).hexdigest()


def append_report(
    conversation: Conversation,
    plan: IngestPlan,
    skips: Sequence[Skip],
    ids: Sequence[int],
    replayed: int,
    revised: int = 0,
) -> AppendReport:
    return AppendReport(
        conversation.id,
        stored=len(ids),
        replayed=replayed,
        skipped=tuple(skips),
        stamped=len(plan.stamps),
        revised=revised,
        likely=plan.likely,
        ambiguous=plan.ambiguous,
        abandoned=len(plan.abandoned),
        cause=plan.cause,
        message_ids=tuple(ids),
        changes_past=bool(plan.versions or plan.abandoned or plan.hidden or plan.revived or plan.insertions),
        conversation=conversation,
    )


@dataclass(frozen=True, slots=True)
class PayloadPolicy:
    """Where payloads are stored, and from which size on."""

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
    archive.files.add(write_payloads(archive.files.many, payloads.vault, conversation.id, found, now))
    shown = [replace(item, message=caught[n].message) if n in caught else item for n, item in enumerate(new)]
    appended = archive.messages.append(conversation, shown, now)
    for n, one in caught.items():
        archive.files.note(appended.ids[n], one.message.role, one.notes)
    return appended


def extract_payloads(
    archive: Archive, conversation: Conversation, item: NewMessage, payloads: PayloadPolicy | None, now: datetime
) -> tuple[NewMessage, Mapping[int, Mapping[str, Json]] | None]:
    """A message with its payloads moved into files, and notes about them; unchanged when it has none."""
    caught = _find_payloads(archive, conversation, [item], payloads).get(0) if payloads else None
    if payloads is None or caught is None:
        return item, None
    archive.files.add(write_payloads(archive.files.many, payloads.vault, conversation.id, caught.payloads, now))
    return replace(item, message=caught.message), caught.notes


def _find_payloads(
    archive: Archive, conversation: Conversation, new: Sequence[NewMessage], payloads: PayloadPolicy
) -> dict[int, Intercepted]:
    """The messages with payloads, by their position in the batch."""

    def tool_of(call_id: str) -> str | None:
        for item in reversed(new):
            for call in item.message.tool_calls:
                if call.id == call_id:
                    return call.name
        stored = archive.files.call(conversation.id, call_id, None)
        return None if stored is None else stored[0]

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
    """Write the new text of `new`, by row, and store that of `plan.cuts`; returns how many rows have new text.

    Text from outside a running session is only stored as a version, unless it has the row's own id and is new.
    """
    stored = {row.id: row for row in archive.messages.many([id_ for id_, _ in plan.versions])}
    several = _standing_for_several(archive, conversation, plan, stored)
    revised: list[int] = []
    before = None
    for id_, message in new:
        if stored[id_].message.content == FORGOTTEN and archive.tombstones.rounds():
            continue  # its text was forgotten and is not replaced
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
        change = ContextChange(REVISE, "sync", "revised", (), tuple(revised), None, before or 0, after)
        archive.context.log(conversation.id, change, now)
    return len(revised)


def join_leaf(archive: Archive, conversation_id: int, ids: Sequence[int], before: int, now: datetime) -> bool:
    """Add messages to the folded range around another one, just before it; False when there is none.

    They become sources of the leaf there, which does not reflect them yet.
    """
    leaf = archive.summaries.join(conversation_id, ids, before) if ids else None
    if leaf is None:
        return False
    archive.context.take_out(conversation_id, ids)
    SurgeryWrites(archive).recount([leaf])
    archive.summaries.mark_stale(ids, now)
    return True


def _is_current(archive: Archive, plan: IngestPlan, stored: StoredMessage, message: NewMessage, words: bytes) -> bool:
    """Whether a row takes this text: from a running session, or new under the row's own id."""
    if plan.is_running:
        return True
    if message.entry_id is None or message.entry_id != stored.entry_id:
        return False
    return words not in archive.versions.digests([stored.id]).get(stored.id, set())


def _standing_for_several(
    archive: Archive, conversation: Conversation, plan: IngestPlan, stored: dict[int, StoredMessage]
) -> frozenset[str]:
    """Texts that are shown in place of several different results, now or before."""
    rows: defaultdict[str, set[str]] = defaultdict(set)
    digests: dict[bytes, str] = {}
    for id_, event in plan.versions:
        if event.message.tool_results and id_ in stored:
            rows[event.message.content].add(stored[id_].message.content)
            digests[words_digest(event.message)] = event.message.content
    found = {text for text, texts in rows.items() if len(texts) > 1}
    if len(found) < len(rows):
        tail = archive.messages.tail(conversation.id, _ADOPTION_ROWS)
        others = [row.id for row in tail if row.role == "tool" and row.id not in stored]
        same = [id_ for id_, known in archive.versions.digests(others).items() if not known.isdisjoint(digests)]
        before = (version for versions in archive.versions.many(same).values() for version in versions)
        found |= {digests[one.digest] for one in before if one.kind == "lesser" and one.digest in digests}
    return frozenset(found)


def write_system_prompts(
    archive: Archive,
    conversation: Conversation,
    prompts: Sequence[Event],
    now: datetime,
    *,
    is_first: bool,
    is_all: bool = False,
) -> tuple[Sequence[int], Appended, Sequence[tuple[int, Event]]]:
    """Make these prompts the start of the context; a stored text is reused, one that is gone is hidden.

    Without any, existing ones stay, unless the list is complete. Returns their rows, which of them are new, and which
    have new text.
    """
    if not prompts and not is_all:
        return (), Appended(), ()
    if is_first:
        appended = archive.messages.append(conversation, [_new_prompt(event, now) for event in prompts], now)
        return appended.ids, appended, ()
    there, _ = archive.context.preamble(conversation.id)
    if [digest for _, _, digest in there] == [event.fingerprint for event in prompts]:
        return [id_ for _, id_, _ in there], Appended(), ()
    before = archive.context.tokens(conversation.id)
    ids, appended, changed = _prompt_rows(archive, conversation, prompts, there, now)
    gone = [id_ for _, id_, _ in there if id_ not in ids]
    archive.context.hide(conversation.id, gone, "superseded", now)
    for id_ in ids:
        archive.context.unhide(conversation.id, id_)
    covered = archive.context.covered(conversation.id, ids)
    archive.context.begin_with(conversation.id, [id_ for id_ in ids if id_ not in covered], now)
    after = archive.context.tokens(conversation.id)
    change = ContextChange("hide", "sync", "superseded", tuple(gone), tuple(ids), 0, before, after)
    archive.context.log(conversation.id, change, now)
    archive.context.close_gaps(conversation.id)
    return ids, appended, changed


def _prompt_rows(
    archive: Archive, conversation: Conversation, prompts: Sequence[Event], there: Sequence[PreambleItem], now: datetime
) -> tuple[list[int], Appended, list[tuple[int, Event]]]:
    """The row of each prompt, stored when its text is new, and the rows whose id is known with new text."""
    known: defaultdict[bytes, list[int]] = defaultdict(list)
    for _, message_id, digest in there:
        known[digest].append(message_id)
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
        if id_ is None or id_ in ids:  # a changed prompt may keep its entry id
            unnamed = event if event.entry_id not in taken else replace(event, entry_id=None)
            one = archive.messages.append(conversation, [_new_prompt(unnamed, now)], now, in_context=False)
            id_, appended = one.ids[0], appended + one
        ids.append(id_)
    return ids, appended, changed


def _changed_prompt(
    archive: Archive, event: Event, place: int, there: Sequence[PreambleItem], prompts: Sequence[Event]
) -> int | None:
    """The former prompt at this position, if it is gone and similar: it was changed."""
    if len(there) != len(prompts):
        return None
    _, id_, digest = there[place]
    if digest in {prompt.fingerprint for prompt in prompts}:
        return None
    before = archive.messages.get(id_).message
    return id_ if score_likeness(before, event.message) >= ALIKE else None


def _new_prompt(event: Event, now: datetime) -> NewMessage:
    return NewMessage(
        event.message, event.identity, event.fingerprint, event.created_at or now, event.entry_id, is_preamble=True
    )


#: A heartbeat with more messages has something to report.
_MOST_MESSAGES = 64
HEARTBEAT = "heartbeat"


def hide_quiet_turns(
    archive: Archive, conversation: Conversation, new: Sequence[Event], ids: Sequence[int], now: datetime
) -> None:
    """Hide the turns that end in one of the new answers and only asked whether there is anything to do."""
    for event, id_ in zip(new, ids, strict=True):
        if is_quiet_answer(event.message, conversation.session_key):
            rows = [row for row in archive.messages.tail(conversation.id, _MOST_MESSAGES) if row.id <= id_]
            if turn := _turn_of(archive, conversation, rows):
                hide_as_heartbeat(archive, conversation, turn, now)


def hide_heartbeat(archive: Archive, conversation: Conversation, after: int, now: datetime) -> None:
    """Hide the turn after the message `after` that the host calls a heartbeat, unless it has something to report.

    Its question may be earlier, if it is not answered yet.
    """
    rows = archive.messages.tail(conversation.id, _MOST_MESSAGES)
    first = next((n for n, row in enumerate(rows) if row.id > after), None)
    if first is None or rows[-1].role != "assistant" or not _says_nothing(archive, rows[-1]):
        return
    start = _last_question(rows)
    if start is None or any(_ends_turn(archive, row) for row in rows[start:first]):
        start = first
    hide_as_heartbeat(archive, conversation, [row.id for row in rows[start:]], now)


def _says_nothing(archive: Archive, row: TailRow) -> bool:
    """Whether an answer is only the heartbeat token, or empty; one that calls a tool is not finished."""
    answer = archive.messages.get(row.id).message
    if any(isinstance(part, ToolCall) for part in answer.parts):
        return False
    return answer.content.strip() in ("", *QUIET_ANSWERS)


def _ends_turn(archive: Archive, row: TailRow) -> bool:
    return row.role == "assistant" and not any(
        isinstance(part, ToolCall) for part in archive.messages.get(row.id).message.parts
    )


def hide_quiet_history(archive: Archive, conversation: Conversation, now: datetime) -> None:
    """Hide such turns that are still in the context, for example from another program."""
    identities = [identity_hash("assistant", answer) for answer in QUIET_ANSWERS]
    for seq in archive.messages.seqs_in_context(conversation.id, identities):
        rows = archive.messages.context_run(conversation.id, seq - _MOST_MESSAGES + 1, seq)
        if turn := _turn_of(archive, conversation, rows):
            hide_as_heartbeat(archive, conversation, turn, now)


def hide_as_heartbeat(archive: Archive, conversation: Conversation, ids: Sequence[int], now: datetime) -> None:
    before = archive.context.tokens(conversation.id)
    archive.context.hide(conversation.id, tuple(ids), HEARTBEAT, now)
    after = archive.context.tokens(conversation.id)
    archive.context.log(
        conversation.id, ContextChange("hide", "ingest", HEARTBEAT, tuple(ids), (), None, before, after), now
    )
    archive.context.close_gaps(conversation.id)


def _turn_of(archive: Archive, conversation: Conversation, rows: Sequence[TailRow]) -> list[int]:
    """The last turn of these rows, if a heartbeat asked."""
    start = _last_question(rows)
    if start is None:
        return []
    question = archive.messages.get(rows[start].id).message
    if not is_quiet_question(question, conversation.session_key):
        return []
    return [row.id for row in rows[start:]]


def _last_question(rows: Sequence[TailRow]) -> int | None:
    return next((n for n in reversed(range(len(rows))) if rows[n].role == "user"), None)
