"""Messages that are no part of a conversation: what a host writes for its own use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.model.messages import Reasoning

if TYPE_CHECKING:
    from lossless.model.messages import Message

#: OpenClaw wraps its own notes to the model in this; as an assistant's text they are an echo.
_RUNTIME_CONTEXT = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"


#: The model that OpenClaw names as the speaker when it notes down an answer that it has delivered.
_DELIVERY_MIRROR = "delivery-mirror"


def is_delivery_copy(message: Message) -> bool:
    """Whether a host calls this message the note of a delivery."""
    body = message.body or {}
    return message.role == "assistant" and body.get("model") == _DELIVERY_MIRROR


def copies(message: Message, before: Message | None) -> bool:
    """Whether a note of a delivery says what the answer before it says, which also has the thinking."""
    if before is None or (before.role, before.content) != ("assistant", message.content):
        return False
    return any(isinstance(part, Reasoning) for part in before.parts)


def skip_reason(message: Message) -> str | None:
    """Why a message is not stored, or None."""
    if message.role != "assistant":
        return None
    if message.stop_reason in ("error", "aborted") and not message.content.strip() and not message.parts:
        return f"an empty answer that ended with {message.stop_reason!r}"
    if message.content.startswith(_RUNTIME_CONTEXT):
        return "the host's own runtime context"
    return None
