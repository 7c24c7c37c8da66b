"""Foreign messages to `Message` and back, without loss.

`decode` reads a message in any of `FORMATS`; `encode` gives back the very object that came in, or builds it
from the parts when it came in another format.
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput
from lossless.formats import anthropic, openai_chat, openai_responses, openclaw, plain
from lossless.formats.codec import Written
from lossless.formats.detection import detect
from lossless.formats.shape import check_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lossless.formats.codec import Codec
    from lossless.formats.shape import Raw
    from lossless.model.messages import Message

__all__ = ["FORMATS", "Written", "decode", "detect", "encode", "join", "strict", "written"]

FORMATS: dict[str, Codec] = {
    "plain": plain.CODEC,
    "openai-chat": openai_chat.CODEC,
    "openai-responses": openai_responses.CODEC,
    "anthropic": anthropic.CODEC,
    "openclaw": openclaw.CODEC,
}


def decode(body: Any, format: str | None = None) -> Message:
    """The message in `body`, which is neither copied nor changed; its format is seen from its shape.

    Raises BadMessage with the path to what is wrong.
    """
    checked = check_json(body)
    return _codec(format or detect(checked)).decode(checked)


def encode(messages: Sequence[Message], format: str) -> list[Raw]:
    """The messages as `format` wants them.

    What came in that format is the object that came. What came in another is built from its parts: words,
    calls, results and files as far as the format has them; thinking is not carried over, and a message of
    which nothing remains is left out.
    """
    return join([written(message, format) for message in messages], format)


def written(message: Message, format: str) -> Written:
    """One message as `format` wants it, before it meets its neighbours."""
    codec = _codec(format)
    if _is_native(message, format, codec):
        return Written([message.original], is_built=False)
    return Written(codec.encode(message), is_built=True)


def strict(written: Written, format: str) -> Written:
    """What came in `format` in the shape that strict providers demand; the same when it has that already."""
    check = _codec(format).strict
    if check is None or written.is_built:
        return written
    items = [check(item) for item in written.items]
    return written if all(map(is_, items, written.items)) else Written(items, is_built=False)


def join(written: Iterable[Written], format: str) -> list[Raw]:
    """The messages of a talk in one list; neighbours that were built become one where `format` wants that."""
    merge = _codec(format).merge
    wire: list[Raw] = []
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


def _is_native(message: Message, format: str, codec: Codec) -> bool:
    """Whether the message's own object is right in `format`; one that was made from parts has none."""
    if message.format == format:
        return message.body is not None or not message.parts or format == "plain"
    known = message.body is None or message.body.keys() <= {"role", "content"} or format == "plain"
    return message.format == "plain" and known and codec.takes_plain(message)


def _codec(format: str) -> Codec:
    codec = FORMATS.get(format)
    if codec is None:
        raise BadInput(f"unknown format {format!r}; allowed: {', '.join(FORMATS)}")
    return codec
