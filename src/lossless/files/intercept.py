"""Which payloads leave a message, and what stands there instead. Pure: bytes out, nothing is written.

Five looks, in this order: pictures in blocks, pictures pasted into text, files in a user's text, answers of
tools, anything else that is too large. Identity is worked out before any of this; `recipe` undoes all of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lossless.errors import BadMessage
from lossless.files.detectors import (
    MIN_INLINE_CHARS,
    extract_file_blocks,
    extract_native_files,
    extract_oversized_rest,
    extract_pasted_images,
    extract_tool_answers,
    may_hold_image,
)
from lossless.files.document import MessageDraft, Payload, document_of, find_spots, message_from
from lossless.files.recipe import recipe_from_json, recipe_to_json, restore_document
from lossless.model.messages import File, Opaque, Text, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lossless.files.document import Decode
    from lossless.files.recipe import ReadFile, RecipeStep
    from lossless.model.messages import Json, Message

__all__ = ["Intercepted", "Payload", "intercept", "restore_message"]

_RECIPE_KEY = "restore"
_MIN_INLINE_TOKENS = MIN_INLINE_CHARS // 4 + 1


@dataclass(frozen=True, slots=True)
class Intercepted:
    """A message without its payloads, the payloads, and what is remembered about them.

    `notes` are the reference's keys for the metadata of parts, by the part's ordinal; the recipe for the
    original is among those of part 0.
    """

    message: Message
    payloads: tuple[Payload, ...]
    recipe: tuple[RecipeStep, ...]
    notes: Mapping[int, Mapping[str, Json]] = field(default_factory=dict)


def intercept(
    message: Message,
    *,
    threshold_tokens: int,
    conversation_id: int,
    decode: Decode,
    tool_of: Callable[[str], str | None] | None = None,
) -> Intercepted | None:
    """The message with references for its payloads, or None when it has none: the usual case, and cheap.

    `decode` reads a rewritten body (`lossless.formats.decode`); `tool_of` names the tool behind a call's id
    where the answer itself does not, and is asked about oversized answers only.
    """
    if not may_hold_payload(message, threshold_tokens):
        return None
    draft = MessageDraft(message, document_of(message), conversation_id, threshold_tokens)
    extract_native_files(draft)
    extract_pasted_images(draft)
    extract_file_blocks(draft)
    extract_tool_answers(draft, tool_of)
    extract_oversized_rest(draft)
    if not draft.steps:
        return None
    try:
        shown = message_from(message, draft.document, decode)
    except BadMessage:  # a body that its own format cannot read is kept as it is
        return None
    return Intercepted(shown, tuple(draft.payloads.values()), tuple(draft.steps), _notes(shown, draft))


def may_hold_payload(message: Message, threshold_tokens: int) -> bool:
    """Whether a closer look is worth it."""
    if message.tokens >= threshold_tokens:
        return True
    if message.parts and _parts_may(message, threshold_tokens):
        return True
    if message.tokens < _MIN_INLINE_TOKENS:
        return False
    if may_hold_image(message.content):
        return True
    raw = None if message.body is None else message.body.get("content")
    return isinstance(raw, str) and raw is not message.content and may_hold_image(raw)


def _parts_may(message: Message, threshold_tokens: int) -> bool:
    """Whether a part is a file, may hold one, or is large though the message was not counted so."""
    for part in message.parts:
        kind = type(part)
        if kind is File or kind is Opaque:
            return True
        if kind is ToolResult and message.format == "anthropic":
            return any(spot.is_file for spot in find_spots(document_of(message), message.role))
        if message.body is None and isinstance(part, Text | ToolResult) and 2 * len(part.text) >= threshold_tokens:
            return True
    return False


def restore_message(message: Message, recipe: Json, read: ReadFile, decode: Decode) -> Message:
    """The message as it was before interception; its `original` equals what the host sent.

    `recipe` is what was noted about it, `read` gives the bytes of a file by its id.
    """
    document: dict[str, Any] = restore_document(document_of(message), recipe_from_json(recipe), read)
    return message_from(message, document, decode)


def _notes(shown: Message, draft: MessageDraft) -> dict[int, dict[str, Json]]:
    told: dict[int, list[Payload]] = {}
    for payload in draft.payloads.values():
        if payload.note is not None:
            at = next((n for n, part in enumerate(shown.parts) if _names(part, payload.file_id)), 0)
            told.setdefault(at, []).append(payload)
    notes = {at: _keys(payloads) for at, payloads in told.items()}
    notes.setdefault(0, {})[_RECIPE_KEY] = recipe_to_json(draft.steps)
    return notes


def _names(part: object, file_id: str) -> bool:
    return isinstance(part, Text | ToolResult) and file_id in part.text


def _keys(payloads: list[Payload]) -> dict[str, Json]:
    """The keys that lossless-claw writes: one id with its size, several as a list; file blocks always as a list."""
    first = payloads[0]
    keys: dict[str, Json] = {"externalizedFileIds": [payload.file_id for payload in payloads]}
    if len(payloads) == 1 and first.reason != "large_file_block":
        keys = {"externalizedFileId": first.file_id, "originalByteSize": len(first.data)}
    keys |= {str(payload.note): True for payload in payloads}
    return keys | {"externalizationReason": payloads[-1].reason}
