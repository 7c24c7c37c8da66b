"""Messages and their parts, the sender of a message, and payloads stored outside it.

A message has three shapes. Incoming: `Message`, with what its host says of it as `Incoming`, and with all derived
values as the store's `NewMessage`. Stored: `StoredMessage`, or `MessageSketch` while its original is not needed.
Reference: `MessageItem` in a context, `TailRow` for alignment, `MessageRow` in lists; they hold ids and sizes, and no
parts, because contexts and windows have thousands of messages and most are only counted or compared. Other records
about messages are rows of one table (`PartRow`, `Version`), or say which message of another archive or conversation
is meant (`MessageKey`, `MessageRef`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Literal, TypeAlias, cast

from lossless.model.tokens import estimate_tokens

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
JsonObject: TypeAlias = Mapping[str, Json]
Role = Literal["system", "user", "assistant", "tool"]
#: The prefix of entry ids that the host did not assign: they are unique within one file only.
GENERATED_ID_PREFIX = "#"
#: The digest of words in such an id, to be cleared when the words must not be kept.
FORGOTTEN_WORDS_DIGEST = "0" * 16
_LINE = re.compile(re.escape(GENERATED_ID_PREFIX) + r"(?:\d+\.)?\d+:(?=[0-9a-f]{16}$)")
ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")


def without_words_digest(entry_id: str) -> str:
    """An id that was generated for a line of a file, without the digest of its words; any other id unchanged.

    >>> without_words_digest("#2.17:0123456789abcdef")
    '#2.17:0000000000000000'
    """
    found = _LINE.match(entry_id)
    return entry_id if found is None else found[0] + FORGOTTEN_WORDS_DIGEST


@dataclass(frozen=True, slots=True)
class Text:
    """Readable text."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A model's thinking: kept for the model that made it, never summarised, indexed or shown as speech."""

    text: str
    #: The provider's proof that the thinking is its own, when it gave one.
    signature: str | None = None


#: The name of a call that has none.
UNNAMED = "unknown"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's call of a tool."""

    id: str | None
    name: str
    #: The arguments exactly as given: an object, or the JSON text that OpenAI sends.
    input: Json

    @property
    def arguments(self) -> Json:
        """The arguments as a value; a text that is not JSON stays a text."""
        if isinstance(self.input, str):
            with suppress(ValueError, RecursionError):
                return cast("Json", json.loads(self.input or "{}"))
        return self.input


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's result."""

    call_id: str | None
    name: str | None
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class File:
    """An image or another file in a message; `raw` is its original block."""

    raw: JsonObject
    mime: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Opaque:
    """A block of unknown type; `raw` is the original."""

    raw: Json
    type: str = "unknown"


Part: TypeAlias = Text | Reasoning | ToolCall | ToolResult | File | Opaque


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Which model wrote the message; thinking signatures are only valid for it."""

    provider: str
    api: str
    model: str
    response_model: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of any format.

    `content` is the text that people read and search; `parts` are the blocks, empty when there is only text. `body` is
    the original foreign message, None when `{"role", "content"}` is all of it.
    """

    role: Role
    content: str
    parts: tuple[Part, ...] = ()
    #: The codec that read it (a key of `lossless.formats.FORMATS`).
    format: str = "plain"
    body: JsonObject | None = None
    #: The reference's estimate of the serialised content; computed from `content` when not given.
    tokens: int = -1
    #: The provider's own id of this event, if there is one (`stable_event_key`).
    event_key: str | None = None
    #: The message's own timestamp, if it has one.
    created_at: datetime | None = None
    identity: ModelIdentity | None = None
    #: Why generation ended, as the host spells it (`stop`, `error`, `aborted`, …).
    stop_reason: str | None = None

    def __post_init__(self) -> None:
        if self.tokens < 0:
            object.__setattr__(self, "tokens", estimate_tokens(self.content))

    @property
    def original(self) -> dict[str, Json]:
        """The foreign message, equal to the original."""
        if self.body is not None:
            return cast("dict[str, Json]", self.body)
        return {"role": self.role, "content": self.content}

    @property
    def is_text_only(self) -> bool:
        """Whether the original is a string or a list of plain text blocks, which most formats share."""
        if not self.parts and self.body is None:
            return True
        if not all(isinstance(part, Text) for part in self.parts):
            return False
        content = self.original.get("content")
        if isinstance(content, str):
            return True
        blocks = content if isinstance(content, list) else []
        texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
        return bool(texts) and len(texts) == len(blocks) and all(isinstance(text, str) for text in texts)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple([part for part in self.parts if isinstance(part, ToolCall)]) if self.parts else ()

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        return tuple([part for part in self.parts if isinstance(part, ToolResult)]) if self.parts else ()


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message with the host's entry id and time for it."""

    message: Message | Mapping[str, object]
    entry_id: str | None = None
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message in the archive."""

    id: int
    conversation_id: int
    seq: int
    message: Message
    created_at: datetime
    entry_id: str | None = None
    #: `file_…` id when the text is also stored in a file that a stub may refer to.
    file_id: str | None = None
    #: The sender as the host reported it (untrusted), JSON.
    sender: str | None = None


#: Best key first: lossless-claw's spellings, then those of other hosts.
_KEYS = (
    "senderName", "name", "displayName", "display_name", "senderUsername", "username", "label", "senderId", "id",
)  # fmt: skip
MAX_SENDER_CHARS = 40


@lru_cache(maxsize=256)
def sender_name(sender: str | None) -> str:
    """The name in a sender's metadata, on one short line; '' when there is none.

    >>> sender_name('{"senderId": "7", "senderName": "Ada"}')
    'Ada'
    """
    if not sender:
        return ""
    try:
        known = json.loads(sender)
    except (ValueError, RecursionError):
        known = sender
    if isinstance(known, dict):
        known = next((known[key] for key in _KEYS if known.get(key)), "")
    return " ".join(str(known).split())[:MAX_SENDER_CHARS]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A large payload: its bytes are at `storage_uri`, the message has a reference."""

    id: str
    conversation_id: int
    name: str | None
    mime: str | None
    byte_size: int | None
    line_count: int | None
    storage_uri: str
    exploration_summary: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class StoredToolOutput:
    """A large tool result whose text is in its message only."""

    message_id: int
    conversation_id: int
    byte_size: int
    #: The beginning of its text.
    head: str
    tool: str | None
    #: Its call, and its position in the conversation.
    call_id: str | None = None
    seq: int = 0


#: A message as callers pass it: a dict of any format (also the typed ones of SDKs), or one of our classes.
MessageLike: TypeAlias = Message | Incoming | Mapping[str, object]


_TAG = re.compile("<(?:think|reasoning)", re.IGNORECASE)
#: A tag that opens thinking, with what stands before it in its line if that is blank. In backquotes it is talk of tags.
_OPENING = re.compile(r"(^[ \t]*)?(?<!`)<(think|thinking|reasoning)\b[^<>]*>", re.IGNORECASE | re.MULTILINE)
_CLOSING = {tag: re.compile(rf"</{tag}\b[^<>]*>", re.IGNORECASE) for tag in ("think", "thinking", "reasoning")}


def remove_reasoning(text: str) -> str:
    """A text without thinking blocks; one that opens a line and is never closed takes the rest along."""
    if _TAG.search(text) is None:
        return text
    kept: list[str] = []
    never_closed: set[str] = set()
    position = search = 0
    while opening := _OPENING.search(text, search):
        tag = opening[2].lower()
        closing = None if tag in never_closed else _CLOSING[tag].search(text, opening.end())
        if closing is not None:
            kept.append(text[position : opening.start()])
            position = search = closing.end()
        elif opening[1] is not None:
            return ("".join(kept) + text[position : opening.start()]).strip()
        else:
            never_closed.add(tag)
            search = opening.end()
    return ("".join(kept) + text[position:]).strip() if kept else text
