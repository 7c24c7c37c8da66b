"""Tool calls and their results: each call has one result right after it, each result has its call.

History loses, repeats and displaces results; providers refuse such a prompt. `repair` mends it with as
little change as possible: a message that needs no change comes out as the same object.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from lossless.assembly.parts import answers, open_calls, same_or_new, says_something, with_parts
from lossless.formats.reading import is_minted
from lossless.formats.synthetic import MISSING_RESULT
from lossless.model.messages import Message, Opaque, Reasoning, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from lossless.model.messages import Part

#: Hosts recognise this text, so it is the reference's, letter for letter.
SYNTHETIC_RESULT = MISSING_RESULT
#: Stop reasons of an answer that broke off: its calls were never meant to run.
BROKEN_OFF = frozenset({"error", "aborted"})


def is_synthetic(result: ToolResult) -> bool:
    """Whether a result was put in by a repair, of ours or of a host's."""
    return result.text == SYNTHETIC_RESULT


def is_paired(messages: Sequence[Message], *, item_style: bool = False) -> bool:
    """Whether each call surely has its result right after it, so that `repair` would change nothing.

    A cheap proof: False only says that it is for `repair` to find out.
    """
    called: set[str | None] = {None}
    awaited: set[str | None] = set()
    before = ""
    for message in messages:
        if not message.parts:
            if message.role == "tool" or (awaited and not (item_style and message.role == before == "assistant")):
                return False
        elif message.role == "assistant":
            if (awaited and not (item_style and before == "assistant")) or not _calls_once(message, called, awaited):
                return False
        elif not _answers_once(message, awaited):
            return False
        before = message.role
    return not awaited


def _calls_once(message: Message, called: set[str | None], awaited: set[str | None]) -> bool:
    """Whether an assistant's calls are new and in place; they are awaited from now on."""
    calls = message.tool_calls
    if not calls:
        return not message.tool_results
    ids = {call.id for call in calls}
    if len(ids) < len(calls) or not called.isdisjoint(ids) or message.stop_reason in BROKEN_OFF:
        return False
    if message.tool_results or (len(calls) == 1 and _thinks_after(message.parts, calls[0])):
        return False
    called |= ids
    awaited |= ids
    return True


def _thinks_after(parts: Sequence[Part], call: ToolCall) -> bool:
    return any(isinstance(part, Reasoning) for part in parts[parts.index(call) :])


def _answers_once(message: Message, awaited: set[str | None]) -> bool:
    """Whether what a tool or a user brings are results that are awaited, and no longer, before all else."""
    results = message.tool_results
    if not results:
        return not awaited and message.role != "tool" and not message.tool_calls
    ids = {result.call_id for result in results}
    if message.role == "system" or len(ids) < len(results) or not ids <= awaited:
        return False
    awaited -= ids
    rest = () if message.role == "tool" else message.parts[len(results) :]
    return not rest or not (awaited or any(isinstance(part, ToolResult) for part in rest))


def repair(messages: tuple[Message, ...], *, item_style: bool = False) -> tuple[Message, ...]:
    """Messages in which each call has exactly one result right after it; the same tuple when nothing changed.

    Real results beat synthetic ones wherever they stand; repeated calls and results, and results without a
    call, are dropped; a call without an id gets one, an id that a later turn used again is renamed.
    `item_style`: neighbouring assistant messages are one turn, as in the Responses API. Idempotent.
    """
    renamed = _rename_reused(_name_nameless(messages), item_style)
    cleaned, broken = _clean_calls(renamed)
    owner = {call.id: i for i, message in enumerate(cleaned) if message for call in open_calls(message)}
    chosen = _choose_results(cleaned, owner, broken)
    return same_or_new(messages, _emit(cleaned, chosen, item_style))


def _name_nameless(messages: tuple[Message, ...]) -> list[Message]:
    """Give ids to calls that came without, and to the nameless results right after them, in order."""
    taken: set[str | None] = set()
    waiting: list[str] = []
    out: list[Message] = []
    for message in messages:
        taken.update(_ids(message))
        if not answers(message):
            waiting = []
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolCall) and part.id is None and message.role == "assistant":
                waiting.append(_fresh(f"call_{part.name}", taken))
                parts.append(replace(part, id=waiting[-1]))
            elif isinstance(part, ToolResult) and part.call_id is None and waiting:
                parts.append(replace(part, call_id=waiting.pop(0)))
            else:
                parts.append(part)
        out.append(message if tuple(parts) == message.parts else with_parts(message, parts))
    return out


def _ids(message: Message) -> set[str | None]:
    return {call.id for call in message.tool_calls} | {result.call_id for result in message.tool_results}


def _rename_reused(messages: Sequence[Message], item_style: bool) -> list[Message]:
    """Give a fresh id to a call that repeats the id of an answered one and has a result of its own."""
    taken: set[str | None] = set()
    alias: dict[str | None, str] = {}
    is_answered: dict[str, bool] = {}
    out: list[Message] = []
    for index, message in enumerate(messages):
        taken |= _ids(message)
        calls = open_calls(message) if message.stop_reason not in BROKEN_OFF else ()
        ids = {call.id for call in calls if call.id is not None}
        repeated = {id for id in ids if is_answered.get(id)}
        if repeated:
            repeated &= _section_ids(messages, index, item_style)
        for id in sorted(repeated):
            alias[id] = _fresh(id, taken)
        is_answered.update({id: False for id in ids if id in repeated or id not in is_answered})
        is_answered.update({r.call_id: True for r in answers(message) if r.call_id in is_answered})
        out.append(_renamed(message, alias, repeated) if alias else message)
    return out


def _renamed(message: Message, alias: Mapping[str | None, str], calls: AbstractSet[str]) -> Message:
    results = answers(message)

    def rename(part: Part) -> Part:
        if isinstance(part, ToolCall) and part.id in calls:
            return replace(part, id=alias[part.id])
        if isinstance(part, ToolResult) and part.call_id in alias and part in results:
            return replace(part, call_id=alias[part.call_id])
        return part

    parts = tuple(map(rename, message.parts))
    return message if parts == message.parts else with_parts(message, parts)


def _fresh(id: str, taken: set[str | None]) -> str:
    """`id`, or with a number behind it; unlike any id so far, so that what comes later does not change it."""
    name, number = id, 1
    while name in taken:
        number += 1
        name = f"{id}__{number}"
    taken.add(name)
    return name


def _section_ids(messages: Sequence[Message], index: int, item_style: bool) -> set[str | None]:
    """Ids of the results between the assistant at `index` and the next one that calls a tool."""
    found: set[str | None] = set()
    is_same_turn = item_style
    for message in messages[index + 1 :]:
        is_same_turn = is_same_turn and message.role == "assistant"
        if open_calls(message) and not is_same_turn:
            break
        found.update(result.call_id for result in answers(message))
    return found


def _clean_calls(messages: Sequence[Message]) -> tuple[list[Message | None], set[str | None]]:
    """Calls once each, none of a broken-off answer; None where nothing is left. And the broken-off ids."""
    claimed: set[str | None] = {None}
    broken: set[str | None] = set()
    out: list[Message | None] = []
    for message in messages:
        calls = open_calls(message)
        if calls and message.stop_reason in BROKEN_OFF:
            ids = {call.id for call in calls}
            broken |= ids
            out.append(_with_calls(message, ids, set(ids)))
        elif calls:
            out.append(_with_calls(message, {call.id for call in calls}, claimed))
        else:
            out.append(message)
    return out, broken


def _with_calls(message: Message, ids: set[str | None], claimed: set[str | None]) -> Message | None:
    """The message with those of its open calls (`ids`) that are not claimed yet; claims them."""
    kept: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolCall) and part.id in ids:
            if part.id in claimed:
                continue
            claimed.add(part.id)
        kept.append(part)
    places = [i for i, part in enumerate(kept) if isinstance(part, ToolCall)]
    parts = _thinking_first(kept, places[0]) if len(places) == 1 else tuple(kept)
    if parts == message.parts:
        return message
    changed = with_parts(message, parts)
    return changed if says_something(changed) else None


def _thinking_first(parts: Sequence[Part], call: int) -> tuple[Part, ...]:
    """Thinking that stands after a lone call moves before it."""
    late = tuple(part for part in parts[call:] if isinstance(part, Reasoning))
    rest = tuple(part for part in parts[call:] if not isinstance(part, Reasoning))
    return (*parts[:call], *late, *rest)


@dataclass(frozen=True, slots=True)
class _Found:
    """A result and the index of the message that holds it."""

    index: int
    result: ToolResult


def _choose_results(
    messages: Sequence[Message | None], owner: Mapping[str | None, int], broken: AbstractSet[str | None]
) -> dict[str | None, _Found]:
    """One result for each call: the last real one after it, else a real one before it, else a synthetic one.

    A later result under an id that hosts use again is that of another call, unless nothing was said in between.
    """
    best: dict[str | None, tuple[int, _Found]] = {}
    for index, message in enumerate(messages):
        for result in answers(message) if message else ():
            call = owner.get(result.call_id)
            if call is None or (index < call and result.call_id in broken):
                continue
            rank = 2 if is_synthetic(result) else int(index < call)
            before = best[result.call_id][0] if result.call_id in best else rank + 1
            is_later = rank == before == 0 and (is_minted(result.call_id) or _follows(messages, call, index))
            if rank < before or is_later:
                best[result.call_id] = rank, _Found(index, result)
    return {id: found for id, (_, found) in best.items()}


def _follows(messages: Sequence[Message | None], call: int, index: int) -> bool:
    """Whether there are only results between a call and a message."""
    return all(message is None or answers(message) for message in messages[call + 1 : index])


def _emit(
    messages: Sequence[Message | None], chosen: Mapping[str | None, _Found], item_style: bool
) -> Iterator[Message]:
    index = 0
    while index < len(messages):
        end = _turn_end(messages, index, chosen) if item_style else index + 1
        turn = [message for message in messages[index:end] if message is not None]
        calls = [call for message in turn for call in open_calls(message)]
        yield from filter(None, map(_leftover, turn))
        if calls:
            settled = _settled(messages, end, calls, chosen)
            if settled is None:
                yield from _gather(messages, turn[-1], calls, chosen)
            else:
                yield from filter(None, messages[end:settled])
                end = settled
        index = end


def _turn_end(messages: Sequence[Message | None], start: int, chosen: Mapping[str | None, _Found]) -> int:
    """Where a row of assistant messages ends; words after calls that nobody answered are a new turn."""
    end, asked = start, set[str | None]()
    while end < len(messages) and ((message := messages[end]) is None or message.role == "assistant"):
        calls = {call.id for call in open_calls(message)} if message else set()
        if asked and message and not calls and asked.isdisjoint(chosen):
            break
        asked |= calls
        end += 1
    return max(end, start + 1)


def _settled(
    messages: Sequence[Message | None],
    start: int,
    calls: Sequence[ToolCall],
    chosen: Mapping[str | None, _Found],
) -> int | None:
    """Where the results end, if those of `calls` already stand in order at `start`; else None."""
    awaited = {call.id for call in calls}
    for index in range(start, len(messages)):
        message = messages[index]
        if message is None or message.role == "assistant" or not awaited:
            break
        results = answers(message)
        mine = {r.call_id for r in results if r.call_id in awaited and chosen[r.call_id].result is r}
        rest = () if message.role == "tool" else message.parts[len(results) :]
        if not results or len(mine) != len(results) or any(isinstance(part, ToolResult) for part in rest):
            break
        awaited -= mine
        if rest or not awaited:
            return None if awaited else index + 1
    return None


def _gather(
    messages: Sequence[Message | None],
    asked: Message,
    calls: Sequence[ToolCall],
    chosen: Mapping[str | None, _Found],
) -> Iterator[Message]:
    """The results of `calls` in call order; in one message where the format wants them so."""
    found = [chosen.get(call.id) or _Found(-1, _missing(call)) for call in calls]
    sources = [message for f in found if f.index >= 0 and (message := messages[f.index])]
    together = next((s for s in sources if s.role == "user" or s.format == "anthropic"), None)
    if together is not None:
        yield _carrying(together, tuple(f.result for f in found))
        return
    for index, group in groupby(found, key=lambda f: f.index):
        results = tuple(f.result for f in group)
        source = messages[index] if index >= 0 else None
        if source is not None:
            yield _carrying(source, results)
        else:
            blank = Message(role="tool", content="", format=asked.format)
            yield from (with_parts(blank, (result,)) for result in results)


def _carrying(source: Message, results: tuple[ToolResult, ...]) -> Message:
    """A tool's own message goes whole, with the images in it; from any other only the results go."""
    whole = source.tool_results if source.role == "tool" else source.parts
    return source if whole == results else with_parts(source, results)


def _missing(call: ToolCall) -> ToolResult:
    return ToolResult(call_id=call.id, name=call.name, text=SYNTHETIC_RESULT, is_error=True)


def _leftover(message: Message) -> Message | None:
    """A message without its results; a result that names no call stays as an assistant's words."""
    results = answers(message)
    is_unread = any(isinstance(part, Opaque) for part in message.parts)
    if not results and (message.role != "tool" or is_unread):
        return message
    nameless = any(result.call_id is None for result in results) or not results
    if message.role == "tool" and not nameless:
        return None
    kept = [
        Text(part.text) if isinstance(part, ToolResult) and part in results else part
        for part in message.parts or (Text(message.content),)
        if not (isinstance(part, ToolResult) and part in results and part.call_id is not None)
    ]
    changed = with_parts(message, kept, role="assistant" if message.role == "tool" else None)
    return changed if says_something(changed) else None
