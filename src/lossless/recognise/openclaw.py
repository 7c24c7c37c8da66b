"""What OpenClaw writes for its own use: runtime context, notes of deliveries, heartbeats, senders."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lossless.model.messages import Reasoning

if TYPE_CHECKING:
    from lossless.model.messages import Message

#: It wraps its own notes to the model in this; as an assistant's text they are an echo.
_RUNTIME_CONTEXT = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"
#: The model that it names as the speaker when it notes down an answer that it has delivered.
_DELIVERY_MIRROR = "delivery-mirror"
#: It asks the agent to look into this file, and the agent answers so when there is nothing to do.
_HEARTBEAT_FILE, _HEARTBEAT_OK = "heartbeat.md", "HEARTBEAT_OK"
QUIET_ANSWERS = (_HEARTBEAT_OK,)
_SENDER_KEYS = ("senderId", "senderName", "senderUsername")


def why_skipped(message: Message) -> str | None:
    """Its runtime context is no answer."""
    if message.role == "assistant" and message.content.startswith(_RUNTIME_CONTEXT):
        return "the host's own runtime context"
    return None


def may_be_note(message: Message) -> bool:
    """The note of a delivery names no model that could speak."""
    return message.role == "assistant" and (message.body or {}).get("model") == _DELIVERY_MIRROR


def is_note_of(message: Message, before: Message) -> bool:
    """A note says what the answer before it says, which also has the thinking."""
    if not may_be_note(message) or (before.role, before.content) != ("assistant", message.content):
        return False
    return any(isinstance(part, Reasoning) for part in before.parts)


def is_quiet_question(message: Message) -> bool:
    """A heartbeat's question names its file."""
    return message.role == "user" and _HEARTBEAT_FILE in message.content.lower()


def is_quiet_answer(message: Message) -> bool:
    """Nothing but the word for it: an answer that says more is an answer."""
    return message.role == "assistant" and message.content.strip() == _HEARTBEAT_OK


def sender_of(message: Message) -> str | None:
    """Who wrote in a group, from the metadata beside a user's message."""
    about = (message.body or {}).get("__openclaw") if message.role == "user" else None
    known = {key: about[key] for key in _SENDER_KEYS if about.get(key)} if isinstance(about, Mapping) else {}
    return json.dumps(known, ensure_ascii=False, separators=(",", ":")) if known else None
