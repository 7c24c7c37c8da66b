"""Converts foreign messages to `Message` (`decode`, any of `FORMATS`) and back (`encode`), without loss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_
from typing import Any

from lossless.errors import BadInput, BadMessage
from lossless.formats import anthropic, openai_chat, openai_responses, openclaw
from lossless.formats.codec import Codec, EncodedMessage, arguments_text
from lossless.formats.openclaw import read_loose
from lossless.formats.reading import role_in
from lossless.model.js_json import RawObject, check_json, is_not_json
from lossless.model.messages import ROLES, Message, Role
from lossless.model.search_text import load_patterns

__all__ = ["FORMATS", "EncodedMessage", "decode", "detect", "encode", "encode_message", "join", "strict"]

_KEYS = {name: frozenset(words) for name, words in load_patterns(__package__)["keys"].items()}
_BLOCK_FORMATS = {kind: format for format, kinds in load_patterns(__package__)["blocks"].items() for kind in kinds}


def detect(body: Any) -> str:
    """The name of the format of `body`; a message that is invalid in every format gets the closest one."""
    if not isinstance(body, dict):
        raise BadMessage(f"a message is an object (a dict), not {type(body).__name__}")
    content = body.get("content")
    if len(body) == 2 and type(content) is str and body.get("role") in ("user", "assistant", "system", "tool"):
        return "plain"
    kind, role = body.get("type"), body.get("role")
    if isinstance(kind, str) and (
        kind == "additional_tools"
        or (role is None and (kind in _KEYS["items"] or kind.endswith(("_call", "_call_output"))))
    ):
        return "openai-responses"
    if kind == "message" and role != "toolResult":
        is_item = "status" in body or isinstance(content, str) or _format_by_blocks(content) == "openai-responses"
        return "openai-responses" if is_item else "anthropic"
    if role == "toolResult":
        return "openclaw"
    if not _KEYS["calls"].isdisjoint(body):
        return "openai-chat"
    if not _KEYS["openclaw"].isdisjoint(body):
        return "openclaw"
    return _format_by_blocks(content) or _format_by_keys(body, role, content)


def _format_by_keys(body: RawObject, role: Any, content: Any) -> str:
    if not _KEYS["chat"].isdisjoint(body) or role in ("developer", "function"):
        return "openai-chat"
    if content is None and "content" in body and role == "assistant":
        return "openai-chat"
    if not _KEYS["anthropic"].isdisjoint(body):
        return "anthropic"
    if not _KEYS["host"].isdisjoint(body):
        return "openclaw"
    return "plain" if isinstance(content, str | list) else "openclaw"


def _format_by_blocks(content: Any) -> str | None:
    for block in content if isinstance(content, list) else ():
        kind = block.get("type") if isinstance(block, dict) else None
        if isinstance(kind, str) and (name := _format_by_block(kind, block)) is not None:
            return name
    return None


def _format_by_block(kind: str, block: RawObject) -> str | None:
    if kind == "text":
        return "anthropic" if "cache_control" in block or "citations" in block else None
    if kind == "thinking":
        return "openclaw" if "thinkingSignature" in block else "anthropic"
    if kind == "image":
        return "anthropic" if "source" in block else "openclaw"
    if kind == "file":
        return "openai-chat" if "file" in block else "openclaw"
    if kind.endswith("_tool_result"):
        return "anthropic"
    return _BLOCK_FORMATS.get(kind)


_PLAIN_ROLES: dict[str, Role] = {role: role for role in ROLES}


def _simple_message(body: Any) -> Message | None:
    """The message in a role and a text, as most are; None for any other."""
    if type(body) is dict and tuple(body) == ("role", "content"):
        role, content = body.values()
        if role in ("user", "assistant", "system") and type(content) is str and is_not_json(content):
            return Message(role, content)
    return None


def _decode_plain(body: RawObject) -> Message:
    """Read `{"role", "content"}`; additional fields and unusual content are kept."""
    return _simple_message(body) or read_loose(body, "plain", role_in(body, _PLAIN_ROLES))


def _encode_plain(message: Message) -> list[RawObject]:
    """The text of a message; a call without text is named in brackets."""
    text = message.content or "\n".join(
        f"[tool call: {call.name} {arguments_text(call)}]" for call in message.tool_calls
    )
    return [{"role": message.role, "content": text}] if text else []


FORMATS: dict[str, Codec] = {
    "plain": Codec(_decode_plain, _encode_plain, lambda _message: True),
    "openai-chat": openai_chat.CODEC,
    "openai-responses": openai_responses.CODEC,
    "anthropic": anthropic.CODEC,
    "openclaw": openclaw.CODEC,
}


def decode(body: Any, format: str | None = None) -> Message:
    """The message in `body`, unchanged; its format is detected. Raises BadMessage with the path to what is wrong."""
    if format is None and (simple := _simple_message(body)) is not None:
        return simple
    checked = check_json(body)
    return _codec(format or detect(checked)).decode(checked)


def encode(messages: Sequence[Message], format: str) -> list[RawObject]:
    """The messages in `format`.

    A message that came in that format is returned as its original object. Any other is built from its parts: text,
    calls, results and files as far as the format supports them; thinking is dropped, and so is a message of which
    nothing remains.
    """
    return join([encode_message(message, format) for message in messages], format)


def encode_message(message: Message, format: str) -> EncodedMessage:
    """One message in `format`, before adjacent messages are merged."""
    codec = _codec(format)
    known = message.body is None or message.body.keys() <= {"role", "content"} or format == "plain"
    if message.format == format:
        is_native = message.body is not None or not message.parts or format == "plain"
    elif message.format != "plain" or not known:
        is_native = False
    else:
        takes_text = message.role != "tool" and message.is_text_only
        is_native = codec.takes_plain(message) if codec.takes_plain else takes_text
    if is_native:  # its original object is valid in this format; a message that was built from parts has none
        return EncodedMessage([message.original], is_built=False)
    return EncodedMessage(codec.encode(message), is_built=True)


def strict(written: EncodedMessage, format: str) -> EncodedMessage:
    """A message that came in `format`, in the shape that strict providers require; the same object when it conforms."""
    check = _codec(format).strict
    if check is None or written.is_built:
        return written
    items = [check(item) for item in written.items]
    return written if all(map(is_, items, written.items)) else EncodedMessage(items, is_built=False)


def join(written: Iterable[EncodedMessage], format: str) -> list[RawObject]:
    """All encoded messages in one list; adjacent ones that were built are merged where `format` requires it."""
    merge = _codec(format).merge
    wire: list[RawObject] = []
    is_built = False
    for one in written:
        if not one.is_built:
            wire += one.items
            is_built = False
            continue
        for item in one.items:
            merged = merge(wire[-1], item) if is_built else None
            if merged is None:
                wire.append(item)
            else:
                wire[-1] = merged
            is_built = True
    return wire


def _codec(format: str) -> Codec:
    codec = FORMATS.get(format)
    if codec is None:
        raise BadInput(f"unknown format {format!r}; allowed: {', '.join(FORMATS)}")
    return codec
