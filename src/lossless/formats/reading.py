"""From a foreign object to a message: what all codecs take from it besides its blocks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lossless.errors import BadMessage
from lossless.formats.js_json import boundary_tokens, serialized_tokens
from lossless.formats.shape import check_json
from lossless.formats.text import is_blank
from lossless.model.js_json import parse
from lossless.model.messages import File, Message, ModelIdentity, Reasoning, Text
from lossless.model.times import from_epoch, parse_time
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from lossless.formats.shape import Raw
    from lossless.model.messages import Part, Role

#: The serialisation of an empty list of blocks beside thinking, as the reference counts it.
_REASONING_ONLY_TOKENS = 6
_STABLE_CALL_ID = re.compile(r"(?:toolu_|call_)[A-Za-z0-9]{12,}")


def message_from(
    body: Raw,
    format: str,
    role: Role,
    content: str,
    parts: tuple[Part, ...],
    tokens: int,
    key: str | None = None,
) -> Message:
    """The message, with what its body says about time, model and end."""
    identity = None
    if role == "assistant":
        key = _response_key(body)
        identity = _identity(body)
    return Message(
        role,
        content,
        parts,
        format,
        None if _says_it_all(body, role, content) else body,
        tokens,
        key,
        _time(body),
        identity,
        _stop_reason(body),
    )


def held_in_content(parts: list[Part], content: str) -> tuple[Part, ...]:
    """The parts to keep: none when the only one is a text that `content` holds."""
    if len(parts) == 1 and isinstance(parts[0], Text) and parts[0].text == content:
        return ()
    return tuple(parts)


def top_level_reasoning(body: Raw, role: Role) -> list[Part]:
    """The thinking that some chat providers put beside the content."""
    text = body.get("reasoning_content") if role == "assistant" else None
    return [Reasoning(text)] if isinstance(text, str) and not is_blank(text) else []


def content_tokens(body: Raw, role: Role, text: str, parts: Iterable[Part]) -> int:
    """The reference's stored count: strings as they are, block lists as JSON, thinking beside them on top."""
    content = body.get("content")
    thinking = body.get("reasoning_content") if role == "assistant" else None
    extra = 0
    if isinstance(thinking, str) and not is_blank(thinking):
        extra = estimate_tokens(thinking) + (_REASONING_ONLY_TOKENS if content == [] else 0)
    if isinstance(content, str):
        return estimate_tokens(content) + extra
    if not content or not isinstance(content, list | dict):
        return estimate_tokens(text) + extra
    if role in ("user", "system") and (only := _only_text(content)) is not None:
        return estimate_tokens(only)
    return block_tokens(content if isinstance(content, list) else [content], parts) + extra


def block_tokens(blocks: list[Any], parts: Iterable[Part]) -> int:
    """The count of a list of blocks; the data of files has a flat price."""
    has_file = False
    for index, part in enumerate(parts):
        kind = type(part)
        if kind is File:
            has_file = True
        elif kind is Reasoning and (item := _openai_item(part)) is not None:
            blocks = [*blocks[:index], item, *blocks[index + 1 :]]
    return boundary_tokens(blocks) if has_file else serialized_tokens(blocks)


def result_key(call_ids: set[str]) -> str | None:
    """The event key of a tool result: its call's id, when there is exactly one and a provider minted it."""
    if len(call_ids) != 1:
        return None
    (call_id,) = call_ids
    return f"tool-result:{call_id}" if is_minted(call_id) else None


def is_minted(call_id: str | None) -> bool:
    """Whether a provider made up the id of a call, so that no other call has it; hosts count theirs from one again."""
    return call_id is not None and _STABLE_CALL_ID.fullmatch(call_id) is not None


def _only_text(content: list[Any] | Raw) -> str | None:
    block = content if isinstance(content, dict) else content[0] if len(content) == 1 else None
    if not isinstance(block, dict) or block.get("type") != "text":
        return None
    text = block.get("text")
    return text if isinstance(text, str) else None


def _openai_item(part: Part) -> Raw | None:
    """The item that OpenClaw sends to OpenAI for thinking whose signature is that item's JSON."""
    signature = part.signature if isinstance(part, Reasoning) else None
    if signature is None or not signature.startswith("{"):
        return None
    try:
        item = check_json(parse(signature))
    except (ValueError, BadMessage):
        return None
    return item if item.get("type") == "reasoning" and str(item.get("id")).startswith("rs_") else None


def _says_it_all(body: Raw, role: Role, content: str) -> bool:
    return len(body) == 2 and tuple(body) == ("role", "content") and body["role"] == role and body["content"] == content


def _response_key(body: Raw) -> str | None:
    found = body.get("responseId") or body.get("response_id")
    return f"assistant-response:{found}" if isinstance(found, str) and not is_blank(found) else None


def _identity(body: Raw) -> ModelIdentity | None:
    provider, api, model = body.get("provider"), body.get("api"), body.get("model")
    if not (isinstance(provider, str) and isinstance(api, str) and isinstance(model, str)):
        return None
    answered = body.get("responseModel")
    if not (provider and api and model):
        return None
    return ModelIdentity(provider, api, model, answered if isinstance(answered, str) else None)


def _stop_reason(body: Raw) -> str | None:
    found = body.get("stopReason") or body.get("stop_reason") or body.get("finish_reason")
    return found if isinstance(found, str) else None


def _time(body: Raw) -> datetime | None:
    for key in ("timestamp", "createdAt", "created_at"):
        value = body.get(key)
        if value is None:
            continue
        try:
            if type(value) is int or type(value) is float:
                return from_epoch(value)
            if isinstance(value, str):
                return parse_time(value)
        except (ValueError, OverflowError, OSError):
            continue
    return None
