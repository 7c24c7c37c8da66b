"""What stays or goes together: a tool call and its results, thinking and what it led to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lossless.assembly.parts import answers, open_calls, same_or_new, says_something, with_parts
from lossless.model.messages import Opaque, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from lossless.model.messages import Message


def atoms(messages: Sequence[Message]) -> tuple[int, ...]:
    """For each message the index of the first message of its atom.

    A result belongs to the nearest call before it that has its id, else to the first one after it; thinking
    that is a message of its own belongs to the assistant's message after it.
    """
    root = list(range(len(messages)))
    for one, other in _links(messages):
        low, high = sorted((_first(root, one), _first(root, other)))
        root[high] = low
    return tuple(_first(root, index) for index in root)


def _first(root: Sequence[int], index: int) -> int:
    while root[index] != index:
        index = root[index]
    return index


def _links(messages: Sequence[Message]) -> Iterator[tuple[int, int]]:
    owner: dict[str, int] = {}
    early: dict[str, list[int]] = {}
    for index, message in enumerate(messages):
        if index and message.role == "assistant" and _thinks_ahead(messages[index - 1]):
            yield index - 1, index
        if not message.parts:
            continue
        for call in open_calls(message):
            if call.id is not None:
                owner[call.id] = index
                yield from ((result, index) for result in early.pop(call.id, ()))
        for result in answers(message):
            if result.call_id in owner:
                yield owner[result.call_id], index
            elif result.call_id is not None:
                early.setdefault(result.call_id, []).append(index)
        for id in _unread_ids(message):
            yield owner.setdefault(id, index), index


def _unread_ids(message: Message) -> Iterator[str]:
    """The call ids inside blocks that no codec knows, such as a provider's own tools."""
    for part in message.parts:
        raw = part.raw if isinstance(part, Opaque) else None
        id = raw.get("call_id") if isinstance(raw, Mapping) else None
        if isinstance(id, str):
            yield id


def _thinks_ahead(message: Message) -> bool:
    return bool(message.parts) and message.role == "assistant" and not says_something(message)


def unanswered(messages: Sequence[Message]) -> frozenset[int]:
    """Indices of the messages with a call that no message answers."""
    with_parts = [(index, message) for index, message in enumerate(messages) if message.parts]
    answered = {result.call_id for _, message in with_parts for result in answers(message)}
    calls = ((index, call.id) for index, message in with_parts for call in open_calls(message))
    return frozenset(index for index, id in calls if id not in answered)


def drop_unanswered(
    messages: tuple[Message, ...], tail_start: int, answered_elsewhere: AbstractSet[str] = frozenset()
) -> tuple[Message, ...]:
    """Without the calls whose result did not come along; the same tuple when there are none.

    Before `tail_start` every call without a later result goes. In the tail only a call whose real result
    exists elsewhere goes; any other is left for `repair`, which tells the model that its result is missing.
    """
    later: set[str | None] = set()
    kept: list[Message] = []
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        later.update(result.call_id for result in answers(message))
        gone = {
            call.id
            for call in open_calls(message)
            if call.id not in later and (index < tail_start or call.id in answered_elsewhere)
        }
        changed = _without_calls(message, gone) if gone else message
        if changed is not None:
            kept.append(changed)
    return same_or_new(messages, reversed(kept))


def _without_calls(message: Message, ids: AbstractSet[str | None]) -> Message | None:
    left = [part for part in message.parts if not (isinstance(part, ToolCall) and part.id in ids)]
    changed = with_parts(message, left)
    return changed if says_something(changed) else None
