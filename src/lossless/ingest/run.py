"""Stores a batch: read once, decide, write once, in one transaction. Payloads go into files first, other wordings of
a row become versions, and system prompts are kept at the start of the context.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

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
from lossless.model.js_json import is_encodable
from lossless.model.masking import FORGOTTEN
from lossless.model.messages import MessageLike
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
    from lossless.model.messages import Json, MessageLike, StoredMessage
    from lossless.store.archive import Archive
    from lossless.store.context import PreambleItem

#: The rows of system prompts, which of them are new, and which have new text.
PromptRows: TypeAlias = "tuple[Sequence[int], Appended, Sequence[tuple[int, Event]]]"

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
    check_names(session, key)
    events, skips = incoming.read_events(items)
    with archive.writing():
        conversation = archive.conversations.open(session, now)
        if (kept := mask_items(archive, conversation.id, items)) is not items:
            events, skips = incoming.read_events(kept)
        events = with_own_ids(events)
        if key is not None and archive.ingest.has_key(conversation.id, key, _payload(events)):
            return AppendReport(conversation.id, replayed=len(events), skipped=tuple(skips))
        writer = ConversationWriter(archive, conversation, now, payloads)
        events = drop_delivery_notes(archive, conversation.id, events, skips, follows=True)
        events, known = split_by_role(archive, conversation.id, events)
        plan = plan_batch(archive, conversation.id, events, known)
        appended, revised = writer.write(plan)
        batch = IncomingWindow((), tuple(events), tuple(skips), len(items))
        writer.count(plan, batch, appended, fits=bool(appended.ids), revised=revised)
        writer.remember_key(key, events)
    return writer.report(plan, skips, appended.ids, plan.replayed, revised)


def check_names(session: Session, key: str | None) -> None:
    for what, name in (("session key", session.key), ("session id", session.id), ("key", key)):
        if name is not None and not is_encodable(name):
            raise BadInput(f"the {what} contains a lone surrogate, which is not valid text")


def _payload(events: Sequence[Event]) -> str:
    """The digest of a batch's content."""
    return hashlib.sha256(b"".join(event.fingerprint for event in events)).hexdigest()


def drop_delivery_notes(
    archive: Archive, id_: int, events: Sequence[Event], skips: list[Skip], *, follows: bool
) -> list[Event]:
    """The events without delivery notes, which are added to `skips`; `follows` when they follow the newest row."""
    kept: list[Event] = []
    for event in events:
        if may_be_note(event.message):
            newest = archive.messages.newest_id(id_) if follows and not kept else None
            stored = None if newest is None else archive.messages.get(newest).message
            before = kept[-1].message if kept else stored
            if is_note_of(event.message, before):
                skips.append(Skip(event.index, "a delivery note"))
                continue
        kept.append(event)
    return kept


def split_by_role(archive: Archive, id_: int, events: Sequence[Event]) -> tuple[list[Event], dict[str, TailRow]]:
    """Events with the rows of their ids; an id names one role, and a message of another role gets its own id."""
    entry_ids = entry_ids_of(events)
    if not entry_ids:
        return list(events), {}
    known = archive.messages.known_entries(id_, entry_ids)
    roles: dict[str, str] = {name: row.role for name, row in known.items()}
    found = [
        event
        if event.entry_id is None or roles.setdefault(event.entry_id, event.message.role) == event.message.role
        else with_own_id(event)
        for event in events
    ]
    renamed = [event for event in found if event.entry_id is not None and event.entry_id not in roles]
    if renamed:
        known |= archive.messages.known_entries(id_, entry_ids_of(renamed))
    return found, known


def plan_batch(
    archive: Archive, id_: int, events: Sequence[Event], by_entry: Mapping[str, TailRow] | None = None
) -> IngestPlan:
    """What a batch adds; `by_entry` are the rows of its entry ids, if already looked up."""
    entry_ids = entry_ids_of(events)
    others = WITHOUT_IDS if entry_ids else WITH_IDS
    adoptable: list[TailRow] = []
    if archive.ingest.producers(id_) & others:
        adoptable = archive.messages.tail(id_, _ADOPTION_ROWS) if entry_ids else _unclaimed(archive, id_)
    if by_entry is None:
        by_entry = archive.messages.known_entries(id_, entry_ids)
    by_event = archive.messages.known_events(id_, event_keys_of(events))
    again = archive.messages.called_after(id_, {key: row.id for key, row in by_event.items()})
    if any(event.message.role == "system" for event in events):
        adoptable = [*context_prompts(archive, id_), *adoptable]
    return plan_append(events, by_entry, by_event, again, adoptable, copy_detector(archive))


def context_prompts(archive: Archive, id_: int) -> list[TailRow]:
    """The leading system prompts of the context, for a producer that sends them, too."""
    there, _ = archive.context.preamble(id_)
    known = archive.messages.entry_ids([row for _, row, _ in there])
    return [TailRow(row, digest, known.get(row), False, "system", 0, True) for _, row, digest in there]


def _unclaimed(archive: Archive, id_: int) -> list[TailRow]:
    """The rows after the last one from a producer without entry ids: usually few."""
    for limit in (_FEW_ROWS, _ADOPTION_ROWS):
        rows = archive.messages.tail(id_, limit)
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


@dataclass(frozen=True, slots=True)
class PayloadPolicy:
    """Where payloads are stored, and from which size on."""

    vault: Vault
    threshold_tokens: int


#: A heartbeat with more messages has something to report.
_MOST_MESSAGES = 64
HEARTBEAT = "heartbeat"


def _last_question(rows: Sequence[TailRow]) -> int | None:
    return next((n for n in reversed(range(len(rows))) if rows[n].role == "user"), None)


class ConversationWriter:
    """Writes what one call adds to a conversation, inside the caller's transaction."""

    def __init__(
        self, archive: Archive, conversation: Conversation, now: datetime, payloads: PayloadPolicy | None = None
    ) -> None:
        self.archive, self.conversation, self.now, self.payloads = archive, conversation, now, payloads
        self.id, self.messages, self.context = conversation.id, archive.messages, archive.context

    def write(self, plan: IngestPlan) -> tuple[Appended, int]:
        """Carry out a plan; returns the new rows, and how many rows have new text."""
        if plan.stamps:
            self.messages.stamp(plan.stamps)
        if plan.claims:
            self.messages.claim(plan.claims)
        is_branch = plan.abandoned or plan.revived or plan.insertions or plan.hidden
        appended = self._branch(plan) if is_branch else self._store(plan)
        return appended, self._write_versions(plan) if plan.versions or plan.cuts else 0

    def _store(self, plan: IngestPlan) -> Appended:
        new = self._with_own_keys([self._new_message(event) for event in plan.new])
        appended = self._append(new)
        self._hide_quiet_turns(plan.new, appended.ids)
        return appended

    def _with_own_keys(self, new: list[NewMessage]) -> list[NewMessage]:
        """Messages to be stored, without call ids that belong to another result."""
        keys = [item.event_key for item in new if item.event_key is not None]
        taken: set[str | None] = {*self.messages.known_events(self.id, keys)} if keys else set()
        for n, item in enumerate(new):
            if item.event_key in taken:
                new[n] = replace(item, event_key=None)
            elif item.event_key is not None:
                taken.add(item.event_key)
        return new

    def _new_message(self, event: Event) -> NewMessage:
        at, message = event.created_at or self.now, event.message
        key, sender = message.event_key, sender_of(message)
        return NewMessage(message, event.identity, event.fingerprint, at, event.entry_id, key, sender)

    def _branch(self, plan: IngestPlan) -> Appended:
        """Hide what the host left or removed, restore what it returned to, and store new messages at their places."""
        before = self.context.tokens(self.id)
        if plan.abandoned:
            self.context.hide(self.id, plan.abandoned, "branch", self.now)
        for cause in dict.fromkeys(cause for _, cause in plan.hidden):
            hidden = [id_ for id_, why in plan.hidden if why == cause]
            self.context.hide(self.id, hidden, cause, self.now)
        if plan.revived:
            self.context.reveal(self.id, plan.revived, self.now)
        appended = self._store(plan)
        placed = self._place(plan, appended.ids)
        gone = (*plan.abandoned, *(id_ for id_, _ in plan.hidden))
        self.archive.summaries.mark_stale((*gone, *plan.revived), self.now)
        why = plan.cause if plan.abandoned or plan.revived else next((cause for _, cause in plan.hidden), plan.cause)
        self._log("branch", why, before, gone, dict.fromkeys((*plan.revived, *placed)))
        self.context.close_gaps(self.id)
        return appended

    def _log(
        self,
        action: str,
        cause: str | None,
        before: int,
        gone: Iterable[int] = (),
        added: Iterable[int] = (),
        *,
        ordinal: int | None = None,
        actor: str = "sync",
    ) -> None:
        """Log a change of a context that had `before` tokens."""
        after = self.context.tokens(self.id)
        change = ContextChange(action, actor, cause, tuple(gone), tuple(added), ordinal, before, after)
        self.context.log(self.id, change, self.now)

    def _place(self, plan: IngestPlan, ids: Sequence[int]) -> list[int]:
        """Move messages to their positions in the window; returns those that are not just appended.

        One before a folded message is added to the sources of the leaf there.
        """
        rows = {event.index: id_ for event, id_ in zip(plan.new, ids, strict=True)}
        rows |= plan.rows_by_event
        placed: list[int] = []
        for events, behind in plan.insertions:
            some = [rows[index] for index in events if index in rows]
            folded = self.context.covered(self.id, some)
            some = [id_ for id_ in some if id_ not in folded]
            if behind:
                if not self._join_leaf(some, behind[0]):
                    self.context.insert_before(self.id, some, behind, self.now)
            else:
                self.context.reveal(self.id, some, self.now)
                some = [id_ for id_ in some if id_ not in ids]
            placed += some
        return placed

    def count(
        self, plan: IngestPlan, window: IncomingWindow, appended: Appended, *, fits: bool, revised: int = 0
    ) -> None:
        """Add to the counters; input that fits ends an earlier refusal."""
        has_id = {event.entry_id is not None for events in (window.preamble, window.events) for event in events}
        self.archive.ingest.count(
            self.id,
            self.now,
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

    def remember_key(self, key: str | None, events: Sequence[Event]) -> None:
        if key is not None:
            ids, payload = entry_ids_of(events), _payload(events)
            self.archive.ingest.remember_key(self.conversation, key, ids, len(events), payload, self.now)

    def report(
        self, plan: IngestPlan, skips: Sequence[Skip], ids: Sequence[int], replayed: int, revised: int = 0
    ) -> AppendReport:
        return AppendReport(
            self.id,
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
            conversation=self.conversation,
        )

    def _append(self, new: Sequence[NewMessage]) -> Appended:
        """Append messages without their payloads."""
        caught = self._write_payloads(new)
        shown = [replace(item, message=caught[n].message) if n in caught else item for n, item in enumerate(new)]
        appended = self.messages.append(self.conversation, shown, self.now)
        for n, one in caught.items():
            self.archive.files.note(appended.ids[n], one.message.role, one.notes)
        return appended

    def extract_payloads(self, item: NewMessage) -> tuple[NewMessage, Mapping[int, Mapping[str, Json]] | None]:
        """A message with its payloads moved into files, and notes about them; unchanged when it has none."""
        caught = self._write_payloads([item]).get(0)
        return (item, None) if caught is None else (replace(item, message=caught.message), caught.notes)

    def _write_payloads(self, new: Sequence[NewMessage]) -> dict[int, Intercepted]:
        """Move payloads into files; returns the messages without them, by their position in the batch."""
        if self.payloads is None:
            return {}

        def tool_of(call_id: str) -> str | None:
            for item in reversed(new):
                for call in item.message.tool_calls:
                    if call.id == call_id:
                        return call.name
            stored = self.archive.files.call(self.id, call_id, None)
            return None if stored is None else stored[0]

        found: dict[int, Intercepted] = {}
        for n, item in enumerate(new):
            one = intercept(
                item.message,
                threshold_tokens=self.payloads.threshold_tokens,
                conversation_id=self.id,
                decode=formats.decode,
                tool_of=tool_of,
            )
            if one is not None:
                found[n] = one
        if found:
            every, files = [payload for one in found.values() for payload in one.payloads], self.archive.files
            files.add(write_payloads(files.many, self.payloads.vault, self.id, every, self.now))
        return found

    def _write_versions(self, plan: IngestPlan) -> int:
        """Write the new text of rows, and store that of `plan.cuts`; returns how many rows have new text.

        Text from outside a running session is only stored as a version, unless it has the row's own id and is new.
        """
        stored = {row.id: row for row in self.messages.many([id_ for id_, _ in plan.versions])}
        several = self._standing_for_several(plan, stored)
        revised: list[int] = []
        before = None
        for id_, message in [(id_, self._new_message(event)) for id_, event in plan.versions]:
            row = stored[id_]
            if row.message.content == FORGOTTEN and self.archive.tombstones.rounds():
                continue  # its text was forgotten and is not replaced
            words = words_digest(message.message)
            is_several = message.message.content in several
            is_lesser = likeness.is_reduction(row.message, message.message, stands_for_several=is_several)
            shown, notes = self.extract_payloads(message)
            if is_lesser or not self._is_current(plan, row, message, words):
                self.archive.versions.keep(id_, shown.message, words, "lesser", self.now, notes)
                continue
            before = self.context.tokens(self.id) if before is None else before
            if self.archive.versions.revise(self.conversation, id_, shown, self.now, digest=words, notes=notes):
                revised.append(id_)
        for id_, event in plan.cuts:
            self.archive.versions.keep(id_, event.message, words_digest(event.message), "lesser", self.now)
        if revised:
            self.archive.summaries.mark_stale(revised, self.now)
            self._log(REVISE, "revised", before or 0, added=revised)
        return len(revised)

    def _join_leaf(self, ids: Sequence[int], before: int) -> bool:
        """Add messages to the folded range around another one, just before it; False when there is none.

        They become sources of the leaf there, which does not reflect them yet.
        """
        leaf = self.archive.summaries.join(self.id, ids, before) if ids else None
        if leaf is None:
            return False
        self.context.take_out(self.id, ids)
        SurgeryWrites(self.archive).recount([leaf])
        self.archive.summaries.mark_stale(ids, self.now)
        return True

    def _is_current(self, plan: IngestPlan, stored: StoredMessage, message: NewMessage, words: bytes) -> bool:
        """Whether a row takes this text: from a running session, or new under the row's own id."""
        if plan.is_running:
            return True
        if message.entry_id is None or message.entry_id != stored.entry_id:
            return False
        return words not in self.archive.versions.digests([stored.id]).get(stored.id, set())

    def _standing_for_several(self, plan: IngestPlan, stored: dict[int, StoredMessage]) -> frozenset[str]:
        """Texts that are shown in place of several different results, now or before."""
        rows: defaultdict[str, set[str]] = defaultdict(set)
        digests: dict[bytes, str] = {}
        for id_, event in plan.versions:
            if event.message.tool_results and id_ in stored:
                rows[event.message.content].add(stored[id_].message.content)
                digests[words_digest(event.message)] = event.message.content
        found = {text for text, texts in rows.items() if len(texts) > 1}
        if len(found) < len(rows):
            tail = self.messages.tail(self.id, _ADOPTION_ROWS)
            others = [row.id for row in tail if row.role == "tool" and row.id not in stored]
            known = self.archive.versions.digests(others)
            same = [id_ for id_, there in known.items() if not there.isdisjoint(digests)]
            before = (version for versions in self.archive.versions.many(same).values() for version in versions)
            found |= {digests[one.digest] for one in before if one.kind == "lesser" and one.digest in digests}
        return frozenset(found)

    def write_system_prompts(self, prompts: Sequence[Event], *, is_first: bool, is_all: bool = False) -> PromptRows:
        """Make these prompts the start of the context; a stored text is reused, one that is gone is hidden.

        Without any, existing ones stay, unless the list is complete.
        """
        if not prompts and not is_all:
            return (), Appended(), ()
        if is_first:
            new = [self._new_prompt(event) for event in prompts]
            appended = self.messages.append(self.conversation, new, self.now)
            return appended.ids, appended, ()
        there, _ = self.context.preamble(self.id)
        if [digest for _, _, digest in there] == [event.fingerprint for event in prompts]:
            return [id_ for _, id_, _ in there], Appended(), ()
        before = self.context.tokens(self.id)
        ids, appended, changed = self._prompt_rows(prompts, there)
        gone = [id_ for _, id_, _ in there if id_ not in ids]
        self.context.hide(self.id, gone, "superseded", self.now)
        for id_ in ids:
            self.context.unhide(self.id, id_)
        covered = self.context.covered(self.id, ids)
        self.context.begin_with(self.id, [id_ for id_ in ids if id_ not in covered], self.now)
        self._log("hide", "superseded", before, gone, ids, ordinal=0)
        self.context.close_gaps(self.id)
        return ids, appended, changed

    def _prompt_rows(self, prompts: Sequence[Event], there: Sequence[PreambleItem]) -> PromptRows:
        """The row of each prompt, stored when its text is new."""
        known: defaultdict[bytes, list[int]] = defaultdict(list)
        for _, message_id, digest in there:
            known[digest].append(message_id)
        taken = self.messages.known_entries(self.id, entry_ids_of(prompts))
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
            id_ = self.messages.preamble_id(self.id, event.identity, event.fingerprint)
            if id_ is None and (was := self._changed_prompt(event, n, there, prompts)) is not None and was not in ids:
                changed.append((was, event))
                ids.append(was)
                continue
            if id_ is None or id_ in ids:  # a changed prompt may keep its entry id
                unnamed = event if event.entry_id not in taken else replace(event, entry_id=None)
                new = [self._new_prompt(unnamed)]
                one = self.messages.append(self.conversation, new, self.now, in_context=False)
                id_, appended = one.ids[0], appended + one
            ids.append(id_)
        return ids, appended, changed

    def _changed_prompt(
        self, event: Event, place: int, there: Sequence[PreambleItem], prompts: Sequence[Event]
    ) -> int | None:
        """The former prompt at this position, if it is gone and similar: it was changed."""
        if len(there) != len(prompts):
            return None
        _, id_, digest = there[place]
        if digest in {prompt.fingerprint for prompt in prompts}:
            return None
        before = self.messages.get(id_).message
        return id_ if score_likeness(before, event.message) >= ALIKE else None

    def _new_prompt(self, event: Event) -> NewMessage:
        at = event.created_at or self.now
        return NewMessage(event.message, event.identity, event.fingerprint, at, event.entry_id, is_preamble=True)

    def _hide_quiet_turns(self, new: Sequence[Event], ids: Sequence[int]) -> None:
        """Hide the turns that end in one of the new answers and only asked whether there is anything to do."""
        for event, id_ in zip(new, ids, strict=True):
            if is_quiet_answer(event.message, self.conversation.session_key):
                self._hide_turn([row for row in self.messages.tail(self.id, _MOST_MESSAGES) if row.id <= id_])

    def hide_heartbeat(self, after: int) -> None:
        """Hide the turn after the message `after` that the host calls a heartbeat, unless it has something to report.

        Its question may be earlier, if it is not answered yet.
        """
        rows = self.messages.tail(self.id, _MOST_MESSAGES)
        first = next((n for n, row in enumerate(rows) if row.id > after), None)
        if first is None or rows[-1].role != "assistant" or not self._says_nothing(rows[-1]):
            return
        start = _last_question(rows)
        if start is None or any(self._ends_turn(row) for row in rows[start:first]):
            start = first
        self._hide_as_heartbeat([row.id for row in rows[start:]])

    def _says_nothing(self, row: TailRow) -> bool:
        """Whether an answer is only the heartbeat token, or empty; one that calls a tool is not finished."""
        answer = self.messages.get(row.id).message
        return not answer.tool_calls and answer.content.strip() in ("", *QUIET_ANSWERS)

    def _ends_turn(self, row: TailRow) -> bool:
        return row.role == "assistant" and not self.messages.get(row.id).message.tool_calls

    def hide_quiet_history(self) -> None:
        """Hide such turns that are still in the context, for example from another program."""
        identities = [identity_hash("assistant", answer) for answer in QUIET_ANSWERS]
        for seq in self.messages.seqs_in_context(self.id, identities):
            self._hide_turn(self.messages.context_run(self.id, seq - _MOST_MESSAGES + 1, seq))

    def _hide_as_heartbeat(self, ids: Sequence[int]) -> None:
        before = self.context.tokens(self.id)
        self.context.hide(self.id, tuple(ids), HEARTBEAT, self.now)
        self._log("hide", HEARTBEAT, before, ids, actor="ingest")
        self.context.close_gaps(self.id)

    def _hide_turn(self, rows: Sequence[TailRow]) -> None:
        """Hide the last turn of these rows, if a heartbeat asked."""
        start = _last_question(rows)
        if start is not None:
            question = self.messages.get(rows[start].id).message
            if is_quiet_question(question, self.conversation.session_key):
                self._hide_as_heartbeat([row.id for row in rows[start:]])
