"""What a window takes when it is sent, whether it shows everything, and the messages in it that lie in files."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lossless import formats
from lossless.assembly.shorten import shortened
from lossless.assembly.size import item_tokens, json_text
from lossless.assembly.wire import plain, sent
from lossless.errors import ArchiveError, NotFound
from lossless.files.intercept import restored
from lossless.files.keep import reader
from lossless.formats.js_json import is_blob
from lossless.ingest.window import system_head
from lossless.model.budget import budget_tokens
from lossless.model.context import framed
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lossless.engine import Engine
    from lossless.exchange.dialect import Raw
    from lossless.ingest.run import AppendReport
    from lossless.model.messages import Message, StoredMessage

#: A message that is not stored yet is not shown in fewer tokens than this.
_SHORTEST = 64
#: What stands in messages beside words.
_NAMES = frozenset(
    ("role", "type", "id", "call_id", "tool_call_id", "tool_use_id", "toolCallId", "status", "signature")
)
#: Texts of fewer characters are measured once, as long as they are among so many.
_SHORT, _REMEMBERED = 4_096, 2_048


def window_tokens(window: Iterable[Raw]) -> int:
    """What a window takes when it is sent, measured message by message."""
    return sum([message_tokens(message) for message in window])


def message_tokens(message: Raw) -> int:
    """What one message of a window takes."""
    role, content = message.get("role"), message.get("content")
    if len(message) == 2 and type(role) is str and type(content) is str and len(content) < _SHORT:
        return _text_tokens(role, content)
    message = plain(message)
    text = json_text(message)
    key = (len(text), hash(text))
    known = _sizes.get(key)
    if known is None:
        while len(_sizes) >= _REMEMBERED:
            _sizes.pop(next(iter(_sizes)), None)
        known = _sizes[key] = _dense_tokens(message, item_tokens(message, text))
    return known


def _dense_tokens(message: Raw, tokens: int) -> int:
    """What a message takes that is so many tokens by its length."""
    words = "\n".join(_texts(message))
    by_kind = budget_tokens(words)
    return tokens if by_kind <= estimate_tokens(words) else max(tokens, framed(by_kind))


def _texts(value: Any, key: str = "") -> Iterator[str]:
    """All texts of a message but for names, ids and the data of files."""
    if isinstance(value, str):
        if key not in _NAMES and not is_blob(value, key):
            yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _texts(item, name)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, key)


#: What messages take, by the length and the hash of their JSON: hosts show the same ones again and again.
_sizes: dict[tuple[int, int], int] = {}


@lru_cache(maxsize=_REMEMBERED)
def _text_tokens(role: str, content: str) -> int:
    """What a message of one text takes; hosts show the same ones again and again."""
    message = {"role": role, "content": content}
    return _dense_tokens(message, item_tokens(message, json_text(message)))


def shows_all(engine: Engine, report: AppendReport, window: Sequence[Raw], *, prompts: bool = False) -> bool:
    """Whether a window that was just stored is all that there is: nothing older, no pins, no focus.

    With `prompts`, its system prompts have to be all there are, too.
    """
    archive, id_ = engine.archive, report.conversation_id
    if id_ is None:
        return True
    said = len(window) - len(report.skipped)
    with archive.reading():
        if archive.beside.pins(id_) or archive.beside.active_brief(id_) is not None:
            return False
        if archive.context.counts(id_) == (said, 0):
            return True
        if prompts:
            return False
        said -= system_head(window)
        return archive.messages.visible(id_, said + 1) <= said


def holds_payload(window: Iterable[Raw], threshold: int) -> bool:
    """Whether a message is so large that the archive has a reference where the window has the words."""
    return any(2 * _characters(message) >= threshold <= message_tokens(message) for message in window)


def whole(engine: Engine, stored: StoredMessage) -> Message | None:
    """A message with its payloads put back; None when it has none, or a file is gone."""
    archive = engine.archive
    recipe = archive.files.recipes([stored.id]).get(stored.id)
    if recipe is None or engine.vault is None:
        return None
    try:
        return restored(stored.message, recipe, reader(archive.files, engine.vault), formats.decode)
    except (NotFound, ArchiveError):
        return None


def in_part(items: Sequence[Raw], most: int, format: str) -> list[Raw]:
    """Messages that no archive has yet, in at most `most` tokens if that can be: the longest are shown in part."""
    found = list(items)
    length = most // 2
    while window_tokens(found) > most and length >= _SHORTEST:
        found = [piece for item in items for piece in _shorter(item, length, format)]
        length //= 2
    return found


def _shorter(item: Raw, length: int, format: str) -> list[Raw]:
    if message_tokens(item) <= length:
        return [item]
    return sent(shortened(formats.decode(item), None, length, format), format).written.items


def _characters(message: Raw) -> int:
    content = message.get("content")
    return len(content) if isinstance(content, str) else len(json_text(plain(message)))
