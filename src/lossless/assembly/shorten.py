"""A message that is too long for the window: its beginning and its end, and how to read what is between them.

The same message, room and format give the same bytes, so that a prompt keeps its beginning from turn to turn.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lossless.assembly.parts import with_parts
from lossless.assembly.stubs import message_ref
from lossless.assembly.wire import sent
from lossless.formats.synthetic import shortened_text
from lossless.model.messages import Reasoning, Text, ToolCall, ToolResult
from lossless.model.tokens import cut_to_tokens, estimate_tokens

if TYPE_CHECKING:
    from lossless.model.messages import Json, Message, Part

#: Of what is shown of a text, so much is its beginning.
_HEAD_SHARE = 2 / 3
#: A cut moves to the end of a line when at most this share of the piece is lost by it.
_LINE_SLACK = 0.2
#: How often the room for each text is reckoned anew until the message fits.
_TRIES = 12
#: The name of the one argument of a call whose arguments are shown in part.
SHORTENED_ARGUMENT = "lcm_shortened"


def shortened(message: Message, message_id: int | None, most: int, format: str) -> Message:
    """The message in at most `most` tokens, as it is sent; more only when what cannot be cut takes more.

    Words, tool results and arguments that are too long are cut in their middle. Ids, names and marks of errors stay,
    so that it still pairs; arguments stay valid JSON. Without an id nothing says where the rest is.
    """
    ref = None if message_id is None else message_ref(message_id)
    room = most
    made = _cut(message, room, ref)
    for _ in range(_TRIES):
        tokens = sent(made, format).tokens
        if tokens <= most or room == 0:
            break
        room = min(room - 1, int(room * most / tokens * 0.98)) if room > 1 else 0
        made = _cut(message, room, ref)
    else:
        made = _cut(message, 0, ref)
    return made


def _cut(message: Message, room: int, ref: str | None) -> Message:
    parts = [short for part in message.parts if (short := _short_part(part, room, ref)) is not None]
    if parts:
        return with_parts(message, parts)
    return replace(message, content=short_text(message.content, room, ref), parts=(), body=None, tokens=-1)


def _short_part(part: Part, room: int, ref: str | None) -> Part | None:
    match part:
        case Text() | ToolResult():
            return replace(part, text=short_text(part.text, room, ref))
        case ToolCall():
            return replace(part, input=_short_input(part.input, room, ref))
        case Reasoning(signature=None):
            return None
        case _:
            return part


def short_text(text: str, room: int, ref: str | None = None) -> str:
    """A text of at most `room` tokens and one line: the line says what is left out between beginning and end.

    A text that would not get shorter by it stays as it is.
    """
    if 2 * len(text) <= room or estimate_tokens(text) <= room:
        return text
    head = _to_line_end(cut_to_tokens(text, int(room * _HEAD_SHARE)))
    tail = _from_line_start(_end(text, room - estimate_tokens(head)))
    short = shortened_text(head, tail, len(text), ref)
    return short if len(short) < len(text) else text


def _end(text: str, room: int) -> str:
    """The longest end of a text that has at most `room` tokens."""
    return cut_to_tokens(text[: -4 * room - 1 : -1], room)[::-1] if room > 0 else ""


def _to_line_end(head: str) -> str:
    line = head.rfind("\n") + 1
    return head[:line] if line > len(head) * (1 - _LINE_SLACK) else head


def _from_line_start(tail: str) -> str:
    line = tail.find("\n") + 1
    return tail[line:] if 0 < line < len(tail) * _LINE_SLACK else tail


def _short_input(value: Json, room: int, ref: str | None) -> Json:
    """Arguments whose long texts are cut; where that is not enough, their JSON, cut, in one argument."""
    given = _parsed(value) if isinstance(value, str) else value
    whole = value if isinstance(value, str) else _json(value)
    if estimate_tokens(whole) <= room:
        return value
    short = _short_texts(given, room, ref) if isinstance(given, dict) else None
    if short is None or estimate_tokens(_json(short)) > max(2 * room, room + 80):
        short = {SHORTENED_ARGUMENT: short_text(whole, room, ref)}
    if len(_json(short)) >= len(whole):
        return value
    return _json(short) if isinstance(value, str) else short


def _short_texts(value: Any, room: int, ref: str | None) -> Any:
    if isinstance(value, str):
        return short_text(value, room, ref)
    if isinstance(value, dict):
        return {name: _short_texts(item, room, ref) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_short_texts(item, room, ref) for item in value]
    return value


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
