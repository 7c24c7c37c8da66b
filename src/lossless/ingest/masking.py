"""What must not be kept leaves messages before anything is worked out about them: secrets, and what was forgotten.

All that follows (identity, prints, payloads, index) sees the masked message alone, so that the same message shown again
is masked alike and known as the one that is there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless import formats
from lossless.errors import BadInput
from lossless.model.identity import fingerprint
from lossless.model.masking import cut_json, cut_parts, emptied
from lossless.model.messages import Incoming, Message, Text, line_alone
from lossless.store.tombstones import EVERYWHERE, Round

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lossless.model.masking import Cut
    from lossless.model.messages import JsonObject
    from lossless.store.archive import Archive

Item: TypeAlias = "Message | Incoming | JsonObject"
Record: TypeAlias = "tuple[str | None, str, JsonObject]"


def masked(archive: Archive, conversation_id: int, items: Sequence[Item]) -> Sequence[Item]:
    """The messages that a host shows as they may be kept; the same list when nothing has to leave them."""
    rounds = _rounds(archive)
    if not rounds:
        return items
    made = [_masked_item(archive, conversation_id, item, rounds) for item in items]
    return items if all(one is other for one, other in zip(made, items, strict=True)) else made


def masked_bodies(archive: Archive, bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Foreign messages without the phrases that must not be kept, to be compared with what is stored."""
    found = list(bodies)
    for round_ in _rounds(archive):
        if (cut := round_.cut) is not None:
            found = [cut_json(body, cut) for body in found]
    return found


def masked_text(archive: Archive, text: str) -> str:
    """A text beside the messages, such as a title, as it may be kept."""
    for round_ in _rounds(archive):
        text = text if round_.cut is None else round_.cut(text)
    return text


def masked_records(archive: Archive, records: Iterable[Record]) -> list[Record]:
    """Records of a transcript that are no messages as they may be kept."""
    cuts = [round_.cut for round_ in _rounds(archive) if round_.cut is not None]
    found = list(records)
    for cut in cuts:
        found = [(id_, kind, cut_json(record, cut)) for id_, kind, record in found]
    return found


def _rounds(archive: Archive) -> tuple[Round, ...]:
    forgotten = archive.tombstones.rounds()
    return forgotten if archive.redact is None else (Round(cut=archive.redact), *forgotten)


def _masked_item(archive: Archive, conversation_id: int, item: Item, rounds: Sequence[Round]) -> Item:
    if isinstance(item, Incoming):
        made = _masked_item(archive, conversation_id, item.message, rounds)
        assert not isinstance(made, Incoming)
        if made is item.message:
            return item
        return replace(item, message=made, entry_id=None if item.entry_id is None else line_alone(item.entry_id))
    for round_ in rounds:
        if round_.cut is not None:
            item = _without(item, round_.cut)
        elif (message := _decoded(item)) is not None and is_whole(archive, conversation_id, message, round_):
            return emptied(message)
    return item


def is_whole(archive: Archive, conversation_id: int, message: Message, round_: Round) -> bool:
    """Whether a message was forgotten as a whole in this round."""
    digest = archive.tombstones.digest(fingerprint(message))
    return (digest, EVERYWHERE) in round_.whole or (digest, conversation_id) in round_.whole


def _without(item: Message | JsonObject, cut: Cut) -> Message | JsonObject:
    if isinstance(item, Message):
        return without(item, cut)
    made: JsonObject = cut_json(item, cut)
    if (message := _decoded(made)) is None or _is_clean(message, cut):
        return made
    return without(message, cut)


def without(message: Message, cut: Cut) -> Message:
    """A message without what must not be kept; the same object when it holds none."""
    if message.body is None:
        return cut_parts(message, cut)
    body = cut_json(message.body, cut)
    if body is message.body and _is_clean(message, cut):
        return message
    made = _decoded(body, message.format)
    if made is not None and _is_clean(made, cut):
        return replace(made, event_key=message.event_key)
    # it stands across the borders of blocks: the text that people read is cut, and the blocks go
    plain = cut_parts(made or message, cut)
    rest = tuple(part for part in plain.parts if not isinstance(part, Text))
    return replace(plain, parts=rest, format="plain", body=None, tokens=-1, event_key=message.event_key)


def _is_clean(message: Message, cut: Cut) -> bool:
    return cut_parts(message, cut) is message


def _decoded(item: Any, format: str | None = None) -> Message | None:
    if isinstance(item, Message):
        return item
    try:
        return formats.decode(item, format)
    except BadInput:
        return None
