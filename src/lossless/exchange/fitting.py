"""What a window takes when it is sent, and the newest words of the user whole, wherever they have room."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lossless import formats
from lossless.assembly.size import item_tokens, json_text
from lossless.assembly.validate import shape_of
from lossless.assembly.wire import sent, with_few_marks
from lossless.errors import ArchiveError, NotFound
from lossless.exchange.dialect import CARRIED, Raw
from lossless.files.intercept import restored
from lossless.files.keep import reader
from lossless.model.context import MessageItem, newest_user_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lossless.assembly.run import Assembled
    from lossless.engine import Engine
    from lossless.model.messages import Message, StoredMessage


def plain(message: Raw) -> Raw:
    """A message as it is sent: without what it carries for a framework."""
    return message if CARRIED not in message else {name: message[name] for name in message if name != CARRIED}


def window_tokens(window: Iterable[Raw]) -> int:
    """What a window takes when it is sent, measured message by message."""
    return sum([message_tokens(message) for message in window])


def message_tokens(message: Raw) -> int:
    """What one message of a window takes."""
    message = plain(message)
    return item_tokens(message, json_text(message))


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


@dataclass(frozen=True, slots=True)
class Shown:
    """A prompt to send."""

    made: Assembled
    #: Whether the engine has counted this very prompt, so that it can learn from what the provider counts.
    is_counted: bool = True


def with_newest_whole(
    engine: Engine, conversation_id: int, made: Assembled, format: str, assemble: Callable[[int], Assembled]
) -> Shown:
    """`made`, with the user's newest message instead of the reference to it where that fits.

    `assemble` puts the prompt together anew for a smaller budget: what is older makes room.
    """
    found = _newest(engine, conversation_id, made)
    if found is None:
        return Shown(made)
    reference, said = found
    receipt = made.receipt
    more = sent(said, format).tokens - sent(reference, format).tokens
    budget = int((receipt.capacity - more) * receipt.factor)
    if budget <= 0:
        return Shown(made)
    smaller = assemble(budget)
    place = _place(smaller.parts, reference)
    if place is None or smaller.tokens + more > receipt.capacity:
        return Shown(made, is_counted=False)
    parts = (*smaller.parts[:place], said, *smaller.parts[place + 1 :])
    tokens = smaller.tokens + more
    facts = replace(smaller.receipt, budget=receipt.budget, capacity=receipt.capacity, tokens=tokens)
    widened = replace(smaller, messages=_wire(parts, format), tokens=tokens, receipt=facts, parts=parts)
    return Shown(widened, is_counted=False)


def _newest(engine: Engine, conversation_id: int, made: Assembled) -> tuple[Message, Message] | None:
    """The user's newest message as it stands in the prompt, and as it was said; None when these are one."""
    archive = engine.archive
    with archive.reading():
        items = archive.context.newest_items(conversation_id, 0).items
        at = newest_user_index(items)
        item = None if at is None else items[at]
        stored = archive.messages.get(item.message_id) if isinstance(item, MessageItem) else None
        if stored is None or _place(made.parts, stored.message) is None:
            return None
        said = whole(engine, stored)
    return None if said is None else (stored.message, said)


def _place(parts: Sequence[Message], message: Message) -> int | None:
    """Where the newest message with these words is."""
    places = (n for n in range(len(parts) - 1, -1, -1) if parts[n].content == message.content)
    return next((n for n in places if parts[n].role == message.role), None)


def _wire(parts: Sequence[Message], format: str) -> list[Raw]:
    """Messages as they are sent; a system prompt that stands apart is not among them."""
    joined = formats.join([sent(message, format).written for message in parts], format)
    joined = with_few_marks(joined) if format == "anthropic" else joined
    is_apart = shape_of(format).system_apart
    return [message for message in joined if message.get("role") != "system"] if is_apart else joined


def _characters(message: Raw) -> int:
    content = message.get("content")
    return len(content) if isinstance(content, str) else len(json_text(plain(message)))
