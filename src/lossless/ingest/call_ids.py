"""Ids of tool calls of a host that makes new ones for every request: calls are known by their words instead."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, cast

from lossless import formats
from lossless.formats.reading import CALL_ID_KEYS
from lossless.model.identity import canonical_arguments, words_digest
from lossless.model.messages import ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lossless.model.messages import Json, JsonObject, Message, Part

#: Where call ids are in a foreign message, and what is never searched for them: a tool's arguments.
_KEYS, _ARGUMENTS = frozenset(("id", *CALL_ID_KEYS)), frozenset(("input", "arguments", "toolInput"))

#: A call with fewer characters may well be made again.
_SHORT = 40


def ids_of(message: Message) -> list[str | None]:
    """The call ids in a message, in order."""
    return [*(call.id for call in message.tool_calls), *(result.call_id for result in message.tool_results)]


def name_by_words(messages: Sequence[Message], stored: Sequence[Message] = ()) -> list[Message]:
    """Messages whose calls have ids made of their names and arguments, and whose results have those of their calls.

    `stored` are such messages: a result whose call is omitted gets the id of one of them.
    """
    named: dict[str | None, str | None] = {}
    found: list[Message] = []
    for place, message in enumerate(messages):
        for result in message.tool_results:
            if stored and result.call_id not in named:
                named[result.call_id] = _id_of_same(result, messages[place + 1 : place + 2], stored)
        for n, call in enumerate(message.tool_calls):
            words = json.dumps([n, call.name, canonical_arguments(call.input)])
            digest = blake2b(words.encode(), digest_size=12).hexdigest()
            named[call.id] = digest if len(words) < _SHORT else f"call_{digest}"  # as providers write unique ids
        found.append(_with_ids(message, lambda id_: named.get(id_, id_)))
    return found


def _id_of_same(result: ToolResult, following: Sequence[Message], stored: Sequence[Message]) -> str | None:
    """The call id of the newest stored result with this text, preferably with the same message after it."""
    same = [(n, part.call_id) for n, one in enumerate(stored) for part in one.tool_results if part.text == result.text]
    words = [_words_of(one) for one in following]
    followed = [id_ for n, id_ in same if [_words_of(one) for one in stored[n + 1 : n + 2]] == words]
    return (followed or [id_ for _, id_ in same] or [result.call_id])[-1]


def _words_of(message: Message) -> tuple[object, ...]:
    return message.content, *((call.name, json.dumps(canonical_arguments(call.input))) for call in message.tool_calls)


def rename(message: Message, ids: Mapping[str, str]) -> Message:
    """A message with other call ids, also in its original; itself, where that would change words."""
    if not any(id_ in ids for id_ in ids_of(message)):
        return message
    if message.body is None:
        return replace(_with_ids(message, lambda id_: ids.get(id_ or "", id_)), event_key=None)
    renamed = formats.decode(cast("JsonObject", _renamed(message.body, ids)), message.format)
    return renamed if words_digest(renamed) == words_digest(message) else message


def _with_ids(message: Message, name: Callable[[str | None], str | None]) -> Message:
    if not message.tool_calls and not message.tool_results:
        return message

    def part_with_id(part: Part) -> Part:
        if isinstance(part, ToolCall):
            return replace(part, id=name(part.id))
        return replace(part, call_id=name(part.call_id)) if isinstance(part, ToolResult) else part

    return replace(message, parts=tuple(map(part_with_id, message.parts)))


def _renamed(value: Json, ids: Mapping[str, str]) -> Json:
    if isinstance(value, list):
        return [_renamed(item, ids) for item in value]
    if not isinstance(value, dict):
        return value
    is_result = any(key in value for key in CALL_ID_KEYS)  # its content has words only
    made = {key: item if is_result or key in _ARGUMENTS else _renamed(item, ids) for key, item in value.items()}
    return made | {
        key: ids[item] for key, item in value.items() if key in _KEYS and isinstance(item, str) and item in ids
    }
