"""Messages as a model gets them: what strict providers refuse inside an object is put right, and it is measured.

The archive keeps every original as it came; only what is sent is changed, and only where it has to be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lossless import formats
from lossless.assembly.parts import estimated
from lossless.assembly.size import item_tokens, json_text
from lossless.model.context import framed
from lossless.model.js_json import utf8

if TYPE_CHECKING:
    from lossless.formats import Written
    from lossless.model.messages import Message

#: So many blocks of an Anthropic prompt may carry `cache_control`.
MOST_CACHE_MARKS = 4
#: What OpenClaw passes on of a message; usage, times, prices and the like stay with it.
_SHOWN = ("role", "content", "toolCallId", "toolName", "isError")
_HOST_FIELDS = 2
#: Under this name a message carries a framework's own, which comes back as it was and is never sent.
CARRIED = "carried"


@dataclass(frozen=True, slots=True)
class Sent:
    """A message as it is sent, and the tokens that it takes with the commas behind it."""

    message: Message
    written: Written
    tokens: int


def sent(message: Message, format: str) -> Sent:
    """A message as a model may get it: in the strict shape of its format, every text valid Unicode."""
    written = formats.written(message, format)
    if not written.is_built and CARRIED in written.items[0]:
        written = replace(written, items=[plain(item) for item in written.items])
    if message.parts:
        written = formats.strict(written, format)
    tokens, is_clean = 0, True
    for item in written.items:
        text = json_text(item)
        if not text.isascii() and not _is_unicode(text):
            is_clean = False
        tokens += _tokens(item, text, format)
    if is_clean:
        return Sent(message, written, tokens)
    items = [_clean(item) for item in written.items]
    size = sum(_tokens(item, json_text(item), format) for item in items)
    return Sent(message, replace(written, items=items), size)


def _tokens(item: dict[str, Any], text: str, format: str) -> int:
    """The tokens of an item; of a host's own format, only what it passes on to the model counts."""
    if format != "openclaw" or len(item) <= _HOST_FIELDS:
        return item_tokens(item, text)
    shown = {name: item[name] for name in _SHOWN if name in item}
    return item_tokens(shown, json_text(shown))


def sent_tokens(message: Message, written: Sent, estimate: int | None = None) -> int:
    """What a message takes once it is sent: by its length, and for text that is denser than prose by the estimate."""
    words = estimated(message) if estimate is None else estimate
    return written.tokens if words <= message.tokens else max(written.tokens, framed(words))


def plain(item: dict[str, Any]) -> dict[str, Any]:
    """A message as it is sent: without what it carries for a framework."""
    return item if CARRIED not in item else {name: item[name] for name in item if name != CARRIED}


def with_few_marks(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages with at most as many cache marks as Anthropic takes: the newest ones."""
    left = MOST_CACHE_MARKS
    for n in range(len(messages) - 1, -1, -1):
        content = messages[n].get("content")
        if not isinstance(content, list) or not any("cache_control" in block for block in content):
            continue
        kept = []
        for block in reversed(content):
            if "cache_control" in block:
                left -= 1
                block = block if left >= 0 else {key: block[key] for key in block if key != "cache_control"}
            kept.append(block)
        messages[n] = messages[n] | {"content": kept[::-1]}
    return messages


def clean_text(text: str) -> str:
    """`text` in valid Unicode: a surrogate without its other half is U+FFFD.

    >>> clean_text("a\\ud83d\\ude00 \\ud800")
    'a😀 �'
    """
    return text if text.isascii() else utf8(text).decode()


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value
