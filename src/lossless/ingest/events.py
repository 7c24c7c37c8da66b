"""Decodes what a host sends into events with an identity, and masks what must not be kept: secrets and forgotten
phrases.

Everything after this (identity, prints, payloads, index) sees only the masked message, so the same message is masked
the same way again and matches its row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from lossless import formats
from lossless.errors import BadInput, BadMessage
from lossless.model import js_json
from lossless.model.identity import fingerprint, identity_hash
from lossless.model.masking import cut_json, cut_parts, empty_message
from lossless.model.messages import (
    ROLES,
    File,
    Incoming,
    JsonObject,
    Message,
    MessageLike,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    without_words_digest,
)
from lossless.store.state import EVERYWHERE, ForgetRound

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from lossless.model.masking import CutText
    from lossless.model.messages import JsonObject
    from lossless.store.archive import Archive

#: Roles that some format knows; a host's records with any other role are not part of a conversation.
_KNOWN_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "toolResult", "function"})


@dataclass(slots=True)  # one is made for every message, and a frozen one would take three times as long
class Event:
    """One incoming message with its identity."""

    #: Its index in the host's list.
    index: int
    message: Message
    fingerprint: bytes
    entry_id: str | None = None
    created_at: datetime | None = None

    @property
    def identity(self) -> str:
        """The reference's hash; computed only when needed."""
        return identity_hash(self.message.role, self.message.content)


@dataclass(frozen=True, slots=True)
class Skip:
    """A message that is not stored, and why."""

    index: int
    reason: str


def read_events(items: Iterable[MessageLike], first: int = 0) -> tuple[list[Event], list[Skip]]:
    """Decode what a host passed; `first` is the index of the first item in the host's list.

    Raises `BadMessage` with the index and the field of the first invalid item.
    """
    events: list[Event] = []
    skips: list[Skip] = []
    for index, item in enumerate(items, first):
        entry_id, created_at, body = None, None, item
        if isinstance(item, Incoming):
            entry_id, created_at, body = item.entry_id, item.created_at, item.message
        try:
            message = _check_message(body) if isinstance(body, Message) else _decode(body)
            _check_names(message, entry_id)
        except BadMessage as error:
            raise error.at(index) from None
        reason = f"role {message!r} is not kept" if isinstance(message, str) else why_skipped(message)
        if isinstance(message, str) or reason:
            skips.append(Skip(index, reason or ""))
            continue
        events.append(Event(index, message, fingerprint(message), entry_id, created_at or message.created_at))
    return events, skips


def _check_names(message: Message | str, entry_id: str | None) -> None:
    """Names and ids are used for lookups, so they must be storable unchanged: lone surrogates are refused."""
    names: list[tuple[str, str | None]] = [("entry_id", entry_id)] if entry_id is not None else []
    if isinstance(message, Message) and (message.parts or message.event_key is not None):
        names.append(("event_key", message.event_key))
        for part in message.parts:
            if isinstance(part, ToolCall):
                names += [("tool call id", part.id), ("tool name", part.name)]
            elif isinstance(part, ToolResult):
                names += [("tool call id", part.call_id), ("tool name", part.name)]
    for field, name in names:
        if name is not None and not js_json.is_encodable(name):
            raise BadMessage("contains a lone surrogate, which is not valid text", field=field)


def _check_message(message: Message) -> Message:
    """Check a caller's message: a known role, and JSON values only."""
    if message.role not in ROLES:
        raise BadMessage(f"{message.role!r:.60} is not a role; allowed: {', '.join(ROLES)}", field="role")
    inputs = [part.input for part in message.parts if isinstance(part, ToolCall)]
    raws = [part.raw for part in message.parts if isinstance(part, File | Opaque)]
    js_json.check_json({"inputs": inputs, "raws": raws, "body": message.body})
    return message


def _decode(body: object) -> Message | str:
    """The message, or the name of a role that is not part of a conversation (a host's own records)."""
    if not isinstance(body, dict) and not isinstance(body, Mapping):
        raise BadMessage(f"expected an object with a role and content, got {type(body).__name__}")
    role = body.get("role")
    if isinstance(role, str) and role not in _KNOWN_ROLES:
        return role
    return formats.decode(body)


MaskableItem: TypeAlias = "MessageLike"
OpaqueRecord: TypeAlias = "tuple[str | None, str, JsonObject]"


def mask_items(archive: Archive, conversation_id: int, items: Sequence[MaskableItem]) -> Sequence[MaskableItem]:
    """A host's messages without what must not be kept; the same list when nothing is removed."""
    rounds = _rounds(archive)
    if not rounds:
        return items
    made = [_mask_item(archive, conversation_id, item, rounds) for item in items]
    return items if all(one is other for one, other in zip(made, items, strict=True)) else made


def mask_bodies(archive: Archive, bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Foreign messages without the phrases that must not be kept, for comparison with stored ones."""
    found = list(bodies)
    for cut in _cuts(archive):
        found = [cut_json(body, cut) for body in found]
    return found


def mask_text(archive: Archive, text: str) -> str:
    """A text outside of messages, such as a title, without what must not be kept."""
    for cut in _cuts(archive):
        text = cut(text)
    return text


def mask_records(archive: Archive, records: Iterable[OpaqueRecord]) -> list[OpaqueRecord]:
    """Records of a transcript that are not messages, without what must not be kept."""
    found = list(records)
    for cut in _cuts(archive):
        found = [(id_, kind, cut_json(record, cut)) for id_, kind, record in found]
    return found


def _cuts(archive: Archive) -> list[CutText]:
    return [round_ for round_ in _rounds(archive) if not isinstance(round_, frozenset)]


def _rounds(archive: Archive) -> tuple[ForgetRound, ...]:
    forgotten = archive.tombstones.rounds()
    return forgotten if archive.redact is None else (archive.redact, *forgotten)


def _mask_item(
    archive: Archive, conversation_id: int, item: MaskableItem, rounds: Sequence[ForgetRound]
) -> MaskableItem:
    if isinstance(item, Incoming):
        made = _mask_item(archive, conversation_id, item.message, rounds)
        assert not isinstance(made, Incoming)
        if made is item.message:
            return item
        return replace(
            item, message=made, entry_id=None if item.entry_id is None else without_words_digest(item.entry_id)
        )
    for round_ in rounds:
        if not isinstance(round_, frozenset):
            item = _mask_decoded(item, round_)
        elif (message := _decoded(item)) is not None:
            digest = archive.tombstones.digest(fingerprint(message))
            if not round_.isdisjoint(((digest, EVERYWHERE), (digest, conversation_id))):
                return empty_message(message)
    return item


def _mask_decoded(item: Message | Mapping[str, object], cut: CutText) -> Message | Mapping[str, object]:
    if isinstance(item, Message):
        return mask_message(item, cut)
    made: JsonObject = cut_json(cast("JsonObject", item), cut)
    if (message := _decoded(made)) is None or _is_clean(message, cut):
        return made
    return mask_message(message, cut)


def mask_message(message: Message, cut: CutText) -> Message:
    """A message without what must not be kept; the same object when there is nothing to remove."""
    if message.body is None:
        return cut_parts(message, cut)
    body = cut_json(message.body, cut)
    if body is message.body and _is_clean(message, cut):
        return message
    made = _decoded(body, message.format)
    if made is not None and _is_clean(made, cut):
        return replace(made, event_key=message.event_key)
    # it spans several blocks: the readable text is cut, and the blocks are dropped
    plain = cut_parts(made or message, cut)
    rest = tuple(part for part in plain.parts if not isinstance(part, Text))
    return replace(plain, parts=rest, format="plain", body=None, tokens=-1, event_key=message.event_key)


def _is_clean(message: Message, cut: CutText) -> bool:
    return cut_parts(message, cut) is message


def _decoded(item: Any, format: str | None = None) -> Message | None:
    if isinstance(item, Message):
        return item
    try:
        return formats.decode(item, format)
    except BadInput:
        return None


def entry_ids_of(events: Sequence[Event]) -> list[str]:
    return [event.entry_id for event in events if event.entry_id is not None]


def event_keys_of(events: Sequence[Event]) -> list[str]:
    """The providers' own ids of a batch."""
    return [event.message.event_key for event in events if event.message.event_key is not None]


# --- records for a host's own use: each rule applies only to what is clearly its own host's ---

#: OpenClaw wraps its own notes to the model in this; as an assistant's text they are an echo.
_RUNTIME_CONTEXT = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"
#: The model name in OpenClaw's note about a delivered answer.
_DELIVERY_MIRROR = "delivery-mirror"
#: OpenClaw's heartbeat file, the text of its question, and the agent's answers when there is nothing to do or to say.
_HEARTBEAT_FILE, _HEARTBEAT_POLL = "heartbeat.md", "[openclaw heartbeat poll]"
QUIET_ANSWERS = ("HEARTBEAT_OK", "NO_REPLY")
#: OpenClaw's session keys. Other hosts may use the same words with their usual meaning.
_SESSION_KEY = re.compile(r"agent:[^:]+:.")
_SENDER_KEYS = ("senderId", "senderName", "senderUsername")


def why_skipped(message: Message) -> str | None:
    """Why a message is not stored, or None: an empty failed answer, or OpenClaw's runtime context.

    Without OpenClaw's fields, its marker is just text of another host.
    """
    if message.role != "assistant":
        return None
    if not message.content.strip() and not message.parts and message.stop_reason in ("error", "aborted"):
        return f"an empty answer that ended with {message.stop_reason!r}"
    if message.format == "openclaw" and message.content.startswith(_RUNTIME_CONTEXT):
        return "the host's own runtime context"
    return None


def may_be_note(message: Message) -> bool:
    """Whether a message may be a delivery note: it names no model that could have written it."""
    is_its = message.role == "assistant" and message.format == "openclaw"
    return is_its and (message.body or {}).get("model") == _DELIVERY_MIRROR


def is_note_of(message: Message, before: Message | None) -> bool:
    """Whether a note repeats the answer before it, which also has the thinking."""
    if before is None or not may_be_note(message) or (before.role, before.content) != ("assistant", message.content):
        return False
    return any(isinstance(part, Reasoning) for part in before.parts)


def is_quiet_question(message: Message, session_key: str | None) -> bool:
    """Whether it is a heartbeat's question: it names the file, or the heartbeat."""
    if message.role != "user" or not _is_its(message, session_key):
        return False
    text = message.content.lower()
    return _HEARTBEAT_FILE in text or _HEARTBEAT_POLL in text


def is_quiet_answer(message: Message, session_key: str | None) -> bool:
    """Whether it is only the heartbeat token: an answer that says more is a real answer."""
    is_its = message.role == "assistant" and _is_its(message, session_key)
    return is_its and message.content.strip() in QUIET_ANSWERS


def _is_its(message: Message, session_key: str | None) -> bool:
    """Whether a message is OpenClaw's by its fields, or by the session key; in doubt it is not."""
    if message.format == "openclaw":
        return True
    return message.format == "plain" and session_key is not None and _SESSION_KEY.match(session_key) is not None


def sender_of(message: Message) -> str | None:
    """The sender in a group, from the metadata of a user message."""
    about = (message.body or {}).get("__openclaw") if message.role == "user" else None
    if about is None or not isinstance(about, Mapping):
        return None
    known = {key: about[key] for key in _SENDER_KEYS if about.get(key)}
    return json.dumps(known, ensure_ascii=False, separators=(",", ":")) if known else None
