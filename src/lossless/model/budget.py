"""The token estimate for budgets: by kind of text, so that it is not below what tokenizers count.

Stored token counts are the reference's (`model.tokens`), which are far too low for code, logs, hex and hashes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lossless.model.js_json import stringify
from lossless.model.messages import File, Opaque, ToolCall, ToolResult

if TYPE_CHECKING:
    from lossless.model.messages import Json, Message, Part

#: What a picture costs, whatever its bytes are.
PICTURE_TOKENS = 1_600
#: Of other binary data, about so many characters of base64 are one token: pages have a price each.
_BINARY_CHARS = 32
#: Strings from this length on without a blank are data, where a block is not known.
_DATA_CHARS = 4_096
#: Id, name and quotes around a call or its result.
_CALL_TOKENS = 12


def budget_tokens(text: str) -> int:
    """At least about how many tokens `text` takes, by tokenizers of today."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // 3)


def json_budget_tokens(value: Json) -> int:
    """What a value takes as JSON: tool schemas, arguments, blocks. Binary strings have their own price."""
    data: list[str] = []
    kept = _without_data(value, data)
    return budget_tokens(stringify(kept)) + sum(max(PICTURE_TOKENS, len(one) // _BINARY_CHARS) for one in data)


def message_budget_tokens(message: Message) -> int:
    """What a message takes in a prompt, without the frame around it that every message has."""
    if not message.parts:
        return budget_tokens(message.content)
    return sum(map(_part_tokens, message.parts))


def _part_tokens(part: Part) -> int:
    match part:
        case ToolCall():
            given = part.input if isinstance(part.input, str) else stringify(part.input)
            return _CALL_TOKENS + budget_tokens(part.name) + budget_tokens(given)
        case ToolResult():
            return _CALL_TOKENS + budget_tokens(part.text)
        case File():
            is_picture = (part.mime or "image/").startswith("image/")
            return PICTURE_TOKENS if is_picture else json_budget_tokens(part.raw)
        case Opaque():
            return json_budget_tokens(part.raw)
        case _:
            return budget_tokens(part.text)


def _without_data(value: Any, data: list[str]) -> Any:
    if isinstance(value, str):
        if len(value) < _DATA_CHARS or (" " in value[:_DATA_CHARS] and not value.startswith("data:")):
            return value
        data.append(value)
        return ""
    if isinstance(value, dict):
        return {name: _without_data(item, data) for name, item in value.items()}
    return [_without_data(item, data) for item in value] if isinstance(value, list | tuple) else value
