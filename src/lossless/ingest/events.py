"""What a host hands over, read and identified before anything is decided or rewritten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless import formats, recognise
from lossless.errors import BadMessage
from lossless.formats.shape import check_json
from lossless.model.identity import fingerprint, identity_hash
from lossless.model.messages import ROLES, File, Incoming, JsonObject, Message, Opaque, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime


#: Roles that some format knows; a host's records with any other role are no part of a conversation.
_KNOWN_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "toolResult", "function"})


@dataclass(frozen=True, slots=True)
class Event:
    """One incoming message with its identity."""

    #: Its place in the list that the host passed.
    index: int
    message: Message
    fingerprint: bytes
    entry_id: str | None = None
    created_at: datetime | None = None

    @property
    def identity(self) -> str:
        """The reference's hash; only what is stored or looked up needs it."""
        return identity_hash(self.message.role, self.message.content)


@dataclass(frozen=True, slots=True)
class Skip:
    """A message that is not stored, and why."""

    index: int
    reason: str


def read(items: Iterable[Message | Incoming | JsonObject], first: int = 0) -> tuple[list[Event], list[Skip]]:
    """Decode what a host passed; `first` is the index of the first item in the host's list.

    Raises `BadMessage` with the index and the field of the first item that is no message at all.
    """
    events: list[Event] = []
    skips: list[Skip] = []
    for index, item in enumerate(items, first):
        entry_id, created_at, body = None, None, item
        if isinstance(item, Incoming):
            entry_id, created_at, body = item.entry_id, item.created_at, item.message
        try:
            message = _checked(body) if isinstance(body, Message) else _decode(body)
            _check_names(message, entry_id)
        except BadMessage as error:
            raise error.at(index) from None
        reason = f"role {message!r} is not kept" if isinstance(message, str) else recognise.why_skipped(message)
        if isinstance(message, str) or reason:
            skips.append(Skip(index, reason or ""))
            continue
        events.append(Event(index, message, fingerprint(message), entry_id, created_at or message.created_at))
    return events, skips


def _check_names(message: Message | str, entry_id: str | None) -> None:
    """Names and ids are looked up, so they are kept as they are or not at all: half a surrogate pair is refused."""
    names: list[tuple[str, str | None]] = [("entry_id", entry_id)]
    if isinstance(message, Message):
        names.append(("event_key", message.event_key))
        for part in message.parts:
            if isinstance(part, ToolCall):
                names += [("tool call id", part.id), ("tool name", part.name)]
            elif isinstance(part, ToolResult):
                names += [("tool call id", part.call_id), ("tool name", part.name)]
    for field, name in names:
        if name is not None and not is_encodable(name):
            raise BadMessage("holds half a surrogate pair, which is no text", field=field)


def is_encodable(name: str) -> bool:
    """Whether UTF-8 can carry a name."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _checked(message: Message) -> Message:
    """A message that a caller made: its role is one of ours, and JSON can hold what is in it."""
    if message.role not in ROLES:
        raise BadMessage(f"{message.role!r:.60} is not a role; allowed: {', '.join(ROLES)}", field="role")
    inputs = [part.input for part in message.parts if isinstance(part, ToolCall)]
    raws = [part.raw for part in message.parts if isinstance(part, File | Opaque)]
    check_json({"inputs": inputs, "raws": raws, "body": message.body})
    return message


def _decode(body: object) -> Message | str:
    """The message, or the name of a role that is no part of a conversation (a host's own records)."""
    if not isinstance(body, Mapping):
        raise BadMessage(f"expected an object with a role and content, got {type(body).__name__}")
    role = body.get("role")
    if isinstance(role, str) and role not in _KNOWN_ROLES:
        return role
    return formats.decode(body)
