"""The host filter for OpenClaw: runtime context, delivery notes, heartbeats and senders."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lossless.model.messages import Reasoning

if TYPE_CHECKING:
    from lossless.model.messages import Message

#: It wraps its own notes to the model in this; as an assistant's text they are an echo.
_RUNTIME_CONTEXT = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"
#: The model that it names as the speaker when it notes down an answer that it has delivered.
_DELIVERY_MIRROR = "delivery-mirror"
#: It asks the agent to look into this file, or only says that it asks, and the agent answers so when there is nothing
#: to do, or nothing to say.
_HEARTBEAT_FILE, _HEARTBEAT_POLL = "heartbeat.md", "[openclaw heartbeat poll]"
QUIET_ANSWERS = ("HEARTBEAT_OK", "NO_REPLY")
#: How it names its sessions. Other hosts may say the same words, and mean them.
_SESSION_KEY = re.compile(r"agent:[^:]+:.")
_SENDER_KEYS = ("senderId", "senderName", "senderUsername")


def why_skipped(message: Message) -> str | None:
    """Its runtime context is no answer; without the fields that it gives its answers it is another host's."""
    if message.role == "assistant" and message.format == "openclaw" and message.content.startswith(_RUNTIME_CONTEXT):
        return "the host's own runtime context"
    return None


def may_be_note(message: Message) -> bool:
    """The note of a delivery names no model that could speak."""
    is_its = message.role == "assistant" and message.format == "openclaw"
    return is_its and (message.body or {}).get("model") == _DELIVERY_MIRROR


def is_note_of(message: Message, before: Message) -> bool:
    """A note says what the answer before it says, which also has the thinking."""
    if not may_be_note(message) or (before.role, before.content) != ("assistant", message.content):
        return False
    return any(isinstance(part, Reasoning) for part in before.parts)


def is_quiet_question(message: Message, session_key: str | None) -> bool:
    """A heartbeat's question names its file, or itself."""
    if message.role != "user" or not _is_its(message, session_key):
        return False
    text = message.content.lower()
    return _HEARTBEAT_FILE in text or _HEARTBEAT_POLL in text


def is_quiet_answer(message: Message, session_key: str | None) -> bool:
    """Nothing but the word for it: an answer that says more is an answer."""
    is_its = message.role == "assistant" and _is_its(message, session_key)
    return is_its and message.content.strip() in QUIET_ANSWERS


def _is_its(message: Message, session_key: str | None) -> bool:
    """Whether a message is OpenClaw's by its fields, or by the name of the session; in doubt it is not."""
    if message.format == "openclaw":
        return True
    return message.format == "plain" and session_key is not None and _SESSION_KEY.match(session_key) is not None


def sender_of(message: Message) -> str | None:
    """Who wrote in a group, from the metadata beside a user's message."""
    about = (message.body or {}).get("__openclaw") if message.role == "user" else None
    known = {key: about[key] for key in _SENDER_KEYS if about.get(key)} if isinstance(about, Mapping) else {}
    return json.dumps(known, ensure_ascii=False, separators=(",", ":")) if known else None
