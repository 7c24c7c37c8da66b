"""What makes two messages the same, and how ids are made.

Frames that chat hosts put around user text are reduced to the parts that do not change between deliveries.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from itertools import chain

from lossless.model.js_json import hashed_utf8, parse_js, refuse_number, storable_text, stringify_js
from lossless.model.messages import File, Json, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

_DELIVERY = "Delivery:"
_CONVERSATION = "Conversation info (untrusted metadata):"
_SENDER = "Sender (untrusted metadata):"
_GAP = "\n\n"
_OPEN = "\n```json\n"
_CLOSE = "\n```"
_PER_DELIVERY = frozenset(("message_id", "reply_to_id", "timestamp"))
_PER_RECAP = _PER_DELIVERY | {"history_count", "history_media_count", "history_truncated"}
#: Hosts do not nest metadata deeper; the limit makes the result independent of the caller's stack depth.
_DEEPEST = 32


def words_in_frame(content: str) -> str | None:
    """The user's words without the frame; None when there is no frame, or nothing in it."""
    found = _framed(content)
    return None if found is None else found[2].strip() or None


def _framed(content: str) -> tuple[str, bool, str] | None:
    """The stable part of the frame, whether it has a stable key, and the words outside it; None without a frame."""
    if not content.startswith((_DELIVERY, _CONVERSATION)):
        return None
    start, gap = 0, ""
    if content.startswith(_DELIVERY):
        start, gap = content.find(_GAP), _GAP
    info, end = _fenced_at(content, start, gap + _CONVERSATION)
    if not isinstance(info, dict):
        return None
    count = info.get("history_count")
    # a positive whole number; `2.0` counts, as in JavaScript
    has_history = isinstance(count, int | float) and not isinstance(count, bool) and count > 0 and count % 1 == 0
    volatile = _PER_RECAP if has_history else _PER_DELIVERY
    stable = {key: value for key, value in info.items() if key not in volatile}
    frame = content[:start] + gap + _written(_CONVERSATION, stable)
    sender, sender_end = _fenced_at(content, end, _GAP + _SENDER)
    if isinstance(sender, dict):
        frame += _GAP + _written(_SENDER, sender)
        end = sender_end
    if has_history:  # a recap, headed `Chat history … (untrusted…):`, with a list of objects that is not empty
        line_start = end + len(_GAP)
        heading = content[line_start : content.find("\n", line_start)]
        if heading.startswith("Chat history") and "(untrusted" in heading and heading.endswith(":"):
            entries, recap_end = _fenced_at(content, end, _GAP + heading)
            if isinstance(entries, list) and entries and all(isinstance(entry, dict) for entry in entries):
                end = recap_end
    return frame, bool(stable), content[end:]


def _fenced_at(text: str, at: int, heading: str) -> tuple[Json, int]:
    """The value of the block with this heading at `at`, up to the first line that closes its fence, and its end.

    None and `at` without such a block.
    """
    opening = heading + _OPEN
    if at < 0 or not text.startswith(opening, at):
        return None, at
    start = at + len(opening)
    close = text.find(_CLOSE, start)
    end = close + len(_CLOSE)
    if close < 0 or text[end : end + 1] not in ("", "\n"):
        return None, at
    try:
        value: Json = parse_js(text[start:close])
    except ValueError:
        return None, at
    return (value, end) if _is_shallow(value) else (None, at)


def _written(heading: str, record: Mapping[str, Json]) -> str:
    return heading + _OPEN + stringify_js(dict(sorted(record.items()))) + _CLOSE


def _is_shallow(value: Json) -> bool:
    level: list[Json] = [value]
    for _ in range(_DEEPEST):
        boxes = (item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list))
        level = list(chain.from_iterable(boxes))
        if not level:
            return True
    return False


_FILE_ID = re.compile(r"\bfile_[0-9a-f]{16}\b")
#: Cache marks for providers.
_MARK = "cache_control"


def canonical_content(role: str, content: str) -> str:
    """`content` without the parts that a host changes when it delivers the same user message again.

    A user's frame is reduced to its stable parts, with sorted keys; unless it has no stable key, or there are no words
    outside it: then only the volatile keys tell two messages apart.
    """
    found = _framed(content) if role == "user" else None
    if found is None:
        return content
    frame, is_stable, words = found
    return frame + words if is_stable and words.strip() else content


def identity_hash(role: str, content: str) -> str:
    """SHA-256 of role and canonical content.

    >>> identity_hash("user", "hello")[:12]
    '87ce4613405a'
    """
    return hashlib.sha256(hashed_utf8(f"{role}\0{canonical_content(role, content)}")).hexdigest()


def checkpoint_hash(role: str, content: str) -> str:
    """The hash that identifies a transcript's last entry."""
    entry = stringify_js({"role": role, "content": canonical_content(role, content)})
    return hashlib.sha256(entry.encode()).hexdigest()


def fingerprint(message: Message) -> bytes:
    """16 bytes that are equal for two copies of one event.

    Role and canonical content; ids, names and inputs of tool calls; call ids of results; files and unknown
    blocks whole. Never times, usage, thinking or provider metadata.
    """
    content = canonical_content(message.role, message.content)
    digest = hashlib.blake2b(hashed_utf8(f"{message.role}\0{content}"), digest_size=16)
    for part in message.parts:
        seen: Json = None
        if isinstance(part, ToolCall):
            seen = ["call", part.id, part.name, _sorted(part.input)]
        elif isinstance(part, ToolResult):
            seen = ["result", part.call_id]
        elif isinstance(part, File | Opaque):
            seen = ["raw", _sorted(part.raw)]
        if seen is not None:
            digest.update(b"\0" + hashed_utf8(stringify_js(seen)))
    hidden = _hidden_text(message)
    if hidden is not None:
        digest.update(b"\0\0" + hashed_utf8(hidden))
    return digest.digest()


def words_digest(message: Message) -> bytes:
    """16 bytes that are equal for two messages with the same words, however they are wrapped.

    Words are text, thinking, names and arguments of tool calls, tool results, files and unknown blocks; not ids, key
    order, cache marks, signatures, usage, times or the frame around a user message. A stored message has the digest of
    the incoming one unless a payload was moved out of it.
    """
    content = canonical_content(message.role, message.content)
    digest = hashlib.blake2b(hashed_utf8(f"{message.role}\0{content}"), digest_size=16)
    for part in message.parts:
        words = _part_words(part, message.content)
        if words is not None:
            digest.update(b"\0" + json.dumps(words).encode())
    hidden = None if message.parts else _hidden_text(message)
    if hidden is not None:
        digest.update(b"\0" + json.dumps(["text", storable_text(hidden)]).encode())
    return digest.digest()


def summary_id(content: str, nonce: str) -> str:
    """`sum_…`, from the text and a unique nonce."""
    return f"sum_{_hex16(hashed_utf8(content + nonce))}"


def file_id(conversation_id: int, data: bytes) -> str:
    """`file_…`: the same bytes in the same conversation are the same file."""
    return "file_" + _hex16(b"%d\0" % conversation_id + data)


def focus_id(nonce: str) -> str:
    """`focus_…`, from a unique nonce."""
    return f"focus_{_hex16(hashed_utf8(nonce))}"


def part_id(nonce: str, ordinal: int) -> str:
    """A part id in the form of a random UUID, from its message's nonce and its position."""
    digits = hashlib.sha256(hashed_utf8(f"{nonce}\0{ordinal}")).hexdigest()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def file_ids_in(*texts: str) -> tuple[str, ...]:
    """The file ids that some texts name, each once, in order.

    >>> file_ids_in("[LCM File: file_0123456789abcdef | a.txt] and file_12")
    ('file_0123456789abcdef',)
    """
    return tuple(dict.fromkeys(found for text in texts if "file_" in text for found in _FILE_ID.findall(text)))


def _part_words(part: Part, content: str) -> Json:
    """The words of a part; None when the content already has them."""
    match part:
        case Text(text):
            return (
                None
                if text in content or storable_text(text) in storable_text(content)
                else ["text", storable_text(text)]
            )
        case Reasoning(text):
            return ["thinking", storable_text(text)] if text else None
        case ToolCall(_, name, input_):
            return ["call", storable_text(name), canonical_arguments(input_)]
        case ToolResult(_, _, text, is_error):
            return ["result", is_error, storable_text(text)]
        case File(raw) | Opaque(raw):
            return ["raw", _unmarked(_sorted(raw))]


def canonical_arguments(value: Json) -> Json:
    """Arguments with sorted keys, also when they came as JSON text without duplicate keys."""
    if not isinstance(value, str):
        return _sorted(value)
    try:
        parsed = json.loads(
            value, object_pairs_hook=_object_of, parse_float=refuse_number, parse_constant=refuse_number
        )
    except (ValueError, RecursionError):
        return value
    return _sorted(parsed) if isinstance(parsed, dict) else value


def _object_of(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate key")
    return value


def _unmarked(value: Json) -> Json:
    if isinstance(value, dict):
        marked = isinstance(value.get(_MARK), dict)
        return {key: _unmarked(item) for key, item in value.items() if not marked or key != _MARK}
    if isinstance(value, list):
        return [_unmarked(item) for item in value]
    return value


def _hidden_text(message: Message) -> str | None:
    """The original JSON text when `content` has only the words found inside it."""
    if not message.parts and message.body is None:
        return None
    texts: list[object] = [part.text for part in message.parts if isinstance(part, Text)]
    if not texts and message.body is not None:
        texts.append(message.body.get("content"))
    raw = texts[0] if len(texts) == 1 else None
    if not isinstance(raw, str) or raw.lstrip()[:1] not in ("{", "["):
        return None
    return raw if hashed_utf8(raw) != hashed_utf8(message.content) else None


def _sorted(value: Json) -> Json:
    """`value` with the keys of every object sorted: hosts do not keep key order."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value


def _hex16(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
