"""What makes two messages the same, and how ids are made.

`identity_hash` and `checkpoint_hash` are the reference's, digit for digit. `fingerprint` is ours: it also
tells tool calls, results and files apart, for the alignment of a window with the stored tail. `words_digest`
is ours, too, and tells one wording of a message from another.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING

from lossless.model.inbound import canonical_frame
from lossless.model.js_json import stringify, utf8
from lossless.model.messages import File, Opaque, Reasoning, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from lossless.model.messages import Json, Message, Part

_FILE_ID = re.compile(r"\bfile_[0-9a-f]{16}\b")
#: What providers are told to cache.
_MARK = "cache_control"


def canonical(role: str, content: str) -> str:
    """`content` without what a host changes when it delivers the same user message again."""
    return canonical_frame(content) if role == "user" else content


def identity_hash(role: str, content: str) -> str:
    """SHA-256 of role and canonical content.

    >>> identity_hash("user", "hello")[:12]
    '87ce4613405a'
    """
    return hashlib.sha256(utf8(f"{role}\0{canonical(role, content)}")).hexdigest()


def checkpoint_hash(role: str, content: str) -> str:
    """The hash under which a transcript's last entry is remembered."""
    entry = stringify({"role": role, "content": canonical(role, content)})
    return hashlib.sha256(entry.encode()).hexdigest()


def fingerprint(message: Message) -> bytes:
    """16 bytes that are equal for two copies of one event.

    Role and canonical content; ids, names and inputs of tool calls; call ids of results; files and unknown
    blocks whole. Never times, usage, thinking or provider metadata.
    """
    digest = hashlib.blake2b(utf8(f"{message.role}\0{canonical(message.role, message.content)}"), digest_size=16)
    for part in message.parts:
        seen = _seen(part)
        if seen is not None:
            digest.update(b"\0" + utf8(stringify(seen)))
    hidden = _hidden_text(message)
    if hidden is not None:
        digest.update(b"\0\0" + utf8(hidden))
    return digest.digest()


def words_digest(message: Message) -> bytes:
    """16 bytes that are equal for two messages with the same words, however they are wrapped.

    Words are text, thinking, names and arguments of tool calls, answers of tools, files and unknown blocks. Ids, key
    order, cache marks, signatures, usage and times are none, nor is the frame that a host puts around a user's message.
    What is stored of a message has the digest of what came, as long as no payload has left it.
    """
    content = canonical(message.role, message.content)
    digest = hashlib.blake2b(utf8(f"{message.role}\0{content}"), digest_size=16)
    for part in message.parts:
        said = _said(part, message.content)
        if said is not None:
            digest.update(b"\0" + json.dumps(said).encode())
    hidden = None if message.parts else _hidden_text(message)
    if hidden is not None:
        digest.update(b"\0" + json.dumps(["text", _whole(hidden)]).encode())
    return digest.digest()


def summary_id(content: str, nonce: str) -> str:
    """`sum_…`, from the text and something that is never used twice."""
    return f"sum_{_hex16(utf8(content + nonce))}"


def file_id(conversation_id: int, data: bytes) -> str:
    """`file_…`: the same bytes in the same conversation are the same file."""
    return "file_" + _hex16(b"%d\0" % conversation_id + data)


def focus_id(nonce: str) -> str:
    """`focus_…`, from something that is never used twice."""
    return f"focus_{_hex16(utf8(nonce))}"


def part_id(nonce: str, ordinal: int) -> str:
    """The id of a part in the form of a random UUID, from a nonce of its message and its place in it."""
    digits = hashlib.sha256(utf8(f"{nonce}\0{ordinal}")).hexdigest()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def file_ids_in(text: str) -> tuple[str, ...]:
    """The file ids that `text` names, each once, in order.

    >>> file_ids_in("[LCM File: file_0123456789abcdef | a.txt] and file_12")
    ('file_0123456789abcdef',)
    """
    return tuple(dict.fromkeys(_FILE_ID.findall(text)))


def _seen(part: Part) -> Json:
    """What of a part belongs to the event; None when the content already says it all."""
    if isinstance(part, ToolCall):
        return ["call", part.id, part.name, _sorted(part.input)]
    if isinstance(part, ToolResult):
        return ["result", part.call_id]
    if isinstance(part, File | Opaque):
        return ["raw", _sorted(part.raw)]
    return None


def _said(part: Part, content: str) -> Json:
    """The words of a part; None when the content already has them."""
    match part:
        case Text(text):
            return None if text in content or _whole(text) in _whole(content) else ["text", _whole(text)]
        case Reasoning(text):
            return ["thinking", _whole(text)] if text else None
        case ToolCall(_, name, input_):
            return ["call", _whole(name), _arguments(input_)]
        case ToolResult(_, _, text, is_error):
            return ["result", is_error, _whole(text)]
        case File(raw) | Opaque(raw):
            return ["raw", _unmarked(_sorted(raw))]


def _arguments(value: Json) -> Json:
    """Arguments without the order of their keys, also where they came as JSON text that says no key twice."""
    if not isinstance(value, str):
        return _sorted(value)
    try:
        parsed = json.loads(value, object_pairs_hook=_object_of, parse_float=_refuse, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return value
    return _sorted(parsed) if isinstance(parsed, dict) else value


def _object_of(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key stands there twice")
    return value


def _refuse(number: str) -> Json:
    """A number that has no single spelling."""
    raise ValueError(number)


def _unmarked(value: Json) -> Json:
    """A block without the marks that only say what a provider shall cache."""
    if isinstance(value, dict):
        marked = isinstance(value.get(_MARK), dict)
        return {key: _unmarked(item) for key, item in value.items() if not marked or key != _MARK}
    if isinstance(value, list):
        return [_unmarked(item) for item in value]
    return value


def _whole(text: str) -> str:
    """`text` as it is stored: half a character becomes U+FFFD."""
    return text if text.isascii() else utf8(text).decode()


def _hidden_text(message: Message) -> str | None:
    """The JSON text as it came, where `content` is only the words found inside it."""
    texts: list[object] = [part.text for part in message.parts if isinstance(part, Text)]
    if not texts and message.body is not None:
        texts.append(message.body.get("content"))
    raw = texts[0] if len(texts) == 1 else None
    if not isinstance(raw, str) or raw.lstrip()[:1] not in ("{", "["):
        return None
    return raw if utf8(raw) != utf8(message.content) else None


def _sorted(value: Json) -> Json:
    """`value` with the keys of every object in order: hosts do not keep it."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value


def _hex16(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
