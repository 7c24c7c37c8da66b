"""Repairs prompts for strict providers: one result right after each tool call, no empty or foreign content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TypeAlias

from lossless.context import render
from lossless.formats.reading import is_provider_id
from lossless.formats.synthetic import MISSING_RESULT, OPENING_TEXT
from lossless.model.messages import Message, ModelIdentity, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

#: Hosts recognise this text, so it is exactly the reference's.
SYNTHETIC_RESULT = MISSING_RESULT
#: Stop reasons of an aborted answer: its calls were never meant to run.
BROKEN_OFF_REASONS = frozenset({"error", "aborted"})


def is_synthetic(result: ToolResult) -> bool:
    """Whether a result was inserted by a repair, ours or a host's."""
    return result.text == SYNTHETIC_RESULT


def is_paired(messages: Sequence[Message], *, item_style: bool = False) -> bool:
    """A quick check that each call has its result right after it, so that `repair_pairs` would change nothing.

    False does not mean that something is wrong.
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
    """Whether an assistant's calls are new and in place; adds them to the pending ones."""
    calls = message.tool_calls
    if not calls:
        return not message.tool_results
    ids = {call.id for call in calls}
    if len(ids) < len(calls) or not called.isdisjoint(ids) or message.stop_reason in BROKEN_OFF_REASONS:
        return False
    after = message.parts[message.parts.index(calls[0]) :] if len(calls) == 1 else ()
    if message.tool_results or any(isinstance(part, Reasoning) for part in after):
        return False
    called |= ids
    awaited |= ids
    return True


def _answers_once(message: Message, awaited: set[str | None]) -> bool:
    """Whether the results in a tool's or user's message are pending and come first; they are then no longer pending."""
    results = message.tool_results
    if not results:
        return not awaited and message.role != "tool" and not message.tool_calls
    ids = {result.call_id for result in results}
    if message.role == "system" or len(ids) < len(results) or not ids <= awaited:
        return False
    awaited -= ids
    rest = () if message.role == "tool" else message.parts[len(results) :]
    return not rest or not (awaited or any(isinstance(part, ToolResult) for part in rest))


def repair_pairs(messages: tuple[Message, ...], *, item_style: bool = False) -> tuple[Message, ...]:
    """Messages in which each call has exactly one result right after it; the same tuple when nothing changed.

    Real results take precedence over synthetic ones at any position; repeated calls and results, and results without a
    call, are dropped; a call without an id gets one, an id that a later turn reuses is renamed. `item_style`: adjacent
    assistant messages are one turn, as in the Responses API. Idempotent.
    """
    renamed = _rename_reused(_name_nameless(messages), item_style)
    cleaned, broken = _clean_calls(renamed)
    owner = {call.id: i for i, message in enumerate(cleaned) if message for call in render.open_calls(message)}
    chosen = _choose_results(cleaned, owner, broken)
    return render.same_if_unchanged(messages, _emit(cleaned, chosen, item_style))


def _name_nameless(messages: tuple[Message, ...]) -> list[Message]:
    """Give ids to calls without one, and to the results right after them, in order."""
    taken: set[str | None] = set()
    waiting: list[str] = []
    out: list[Message] = []
    for message in messages:
        taken.update(_ids(message))
        if not render.answering_results(message):
            waiting = []
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolCall) and part.id is None and message.role == "assistant":
                waiting.append(_fresh_id(f"call_{part.name}", taken))
                parts.append(replace(part, id=waiting[-1]))
            elif isinstance(part, ToolResult) and part.call_id is None and waiting:
                parts.append(replace(part, call_id=waiting.pop(0)))
            else:
                parts.append(part)
        out.append(message if tuple(parts) == message.parts else render.with_parts(message, parts))
    return out


def _ids(message: Message) -> set[str | None]:
    return {call.id for call in message.tool_calls} | {result.call_id for result in message.tool_results}


def _rename_reused(messages: Sequence[Message], item_style: bool) -> list[Message]:
    """Give a new id to a call that repeats the id of an answered one and has its own result."""
    taken: set[str | None] = set()
    alias: dict[str | None, str] = {}
    is_answered: dict[str, bool] = {}
    out: list[Message] = []
    for index, message in enumerate(messages):
        taken |= _ids(message)
        calls = render.open_calls(message) if message.stop_reason not in BROKEN_OFF_REASONS else ()
        ids = {call.id for call in calls if call.id is not None}
        repeated = {id for id in ids if is_answered.get(id)}
        if repeated:
            repeated &= _section_ids(messages, index, item_style)
        for id in sorted(repeated):
            alias[id] = _fresh_id(id, taken)
        is_answered.update({id: False for id in ids if id in repeated or id not in is_answered})
        is_answered.update({r.call_id: True for r in render.answering_results(message) if r.call_id in is_answered})
        out.append(_renamed(message, alias, repeated) if alias else message)
    return out


def _renamed(message: Message, alias: Mapping[str | None, str], calls: AbstractSet[str]) -> Message:
    results = render.answering_results(message)

    def rename(part: Part) -> Part:
        if isinstance(part, ToolCall) and part.id in calls:
            return replace(part, id=alias[part.id])
        if isinstance(part, ToolResult) and part.call_id in alias and part in results:
            return replace(part, call_id=alias[part.call_id])
        return part

    parts = tuple(map(rename, message.parts))
    return message if parts == message.parts else render.with_parts(message, parts)


def _fresh_id(id: str, taken: set[str | None]) -> str:
    """`id`, with a number if needed; different from all ids so far, so that later messages do not change it."""
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
        if render.open_calls(message) and not is_same_turn:
            break
        found.update(result.call_id for result in render.answering_results(message))
    return found


def _clean_calls(messages: Sequence[Message]) -> tuple[list[Message | None], set[str | None]]:
    """Calls without duplicates or those of aborted answers, None where nothing is left; and the aborted ids."""
    claimed: set[str | None] = {None}
    broken: set[str | None] = set()
    out: list[Message | None] = []
    for message in messages:
        ids = {call.id for call in render.open_calls(message)}
        is_broken = message.stop_reason in BROKEN_OFF_REASONS
        broken |= ids if is_broken else set()
        out.append(_with_calls(message, ids, set(ids) if is_broken else claimed) if ids else message)
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
    parts = tuple(kept)
    if len(places) == 1:  # thinking after a single call moves before it
        late = sorted(parts[places[0] :], key=lambda part: not isinstance(part, Reasoning))
        parts = (*parts[: places[0]], *late)
    if parts == message.parts:
        return message
    changed = render.with_parts(message, parts)
    return changed if render.says_something(changed) else None


#: The message with the result of a call, if there is one, and the result.
_FoundResult: TypeAlias = tuple[Message | None, ToolResult]


def _choose_results(
    messages: Sequence[Message | None], owner: Mapping[str | None, int], broken: AbstractSet[str | None]
) -> dict[str | None, _FoundResult]:
    """One result for each call: the last real one after it, else a real one before it, else a synthetic one.

    A later result under a reused id belongs to another call, unless there are only results in between.
    """
    best: dict[str | None, tuple[int, _FoundResult]] = {}
    for index, message in enumerate(messages):
        for result in render.answering_results(message) if message else ():
            call = owner.get(result.call_id)
            if call is None or (index < call and result.call_id in broken):
                continue
            rank = 2 if is_synthetic(result) else int(index < call)
            before = best[result.call_id][0] if result.call_id in best else rank + 1
            between = messages[call + 1 : index]
            follows = all(message is None or render.answering_results(message) for message in between)
            is_later = rank == before == 0 and (is_provider_id(result.call_id) or follows)
            if rank < before or is_later:
                best[result.call_id] = rank, (message, result)
    return {id: found for id, (_, found) in best.items()}


def _emit(
    messages: Sequence[Message | None], chosen: Mapping[str | None, _FoundResult], item_style: bool
) -> Iterator[Message]:
    index = 0
    while index < len(messages):
        end = _turn_end(messages, index, chosen) if item_style else index + 1
        turn = [message for message in messages[index:end] if message is not None]
        calls = [call for message in turn for call in render.open_calls(message)]
        yield from filter(None, map(_leftover, turn))
        if calls:
            settled = _results_end(messages, end, calls, chosen)
            if settled is None:
                yield from _gather_results(turn[-1], calls, chosen)
            else:
                yield from filter(None, messages[end:settled])
                end = settled
        index = end


def _turn_end(messages: Sequence[Message | None], start: int, chosen: Mapping[str | None, _FoundResult]) -> int:
    """The end of a run of assistant messages; text after unanswered calls starts a new turn."""
    end, asked = start, set[str | None]()
    while end < len(messages) and ((message := messages[end]) is None or message.role == "assistant"):
        calls = {call.id for call in render.open_calls(message)} if message else set()
        if asked and message and not calls and asked.isdisjoint(chosen):
            break
        asked |= calls
        end += 1
    return max(end, start + 1)


def _results_end(
    messages: Sequence[Message | None], start: int, calls: Sequence[ToolCall], chosen: Mapping[str | None, _FoundResult]
) -> int | None:
    """Where the results end, if those of `calls` are already in order at `start`; else None."""
    awaited = {call.id for call in calls}
    for index in range(start, len(messages)):
        message = messages[index]
        if message is None or message.role == "assistant" or not awaited:
            break
        results = render.answering_results(message)
        mine = {r.call_id for r in results if r.call_id in awaited and chosen[r.call_id][1] is r}
        rest = () if message.role == "tool" else message.parts[len(results) :]
        if not results or len(mine) != len(results) or any(isinstance(part, ToolResult) for part in rest):
            break
        awaited -= mine
        if rest or not awaited:
            return None if awaited else index + 1
    return None


def _gather_results(
    asked: Message, calls: Sequence[ToolCall], chosen: Mapping[str | None, _FoundResult]
) -> Iterator[Message]:
    """The results of `calls` in call order; in one message where the format requires it."""
    found = [chosen.get(call.id) or (None, ToolResult(call.id, call.name, SYNTHETIC_RESULT, True)) for call in calls]
    together = next((s for s, _ in found if s and (s.role == "user" or s.format == "anthropic")), None)
    if together is not None:
        yield _carrying(together, tuple(result for _, result in found))
        return
    for _, group in groupby(found, key=lambda pair: id(pair[0])):
        sources, results = zip(*group, strict=True)
        source = sources[0]
        if source is not None:
            yield _carrying(source, results)
        else:
            blank = Message(role="tool", content="", format=asked.format)
            yield from (render.with_parts(blank, (result,)) for result in results)


def _carrying(source: Message, results: tuple[ToolResult, ...]) -> Message:
    """A tool's own message moves as a whole, with its images; from any other only the results move."""
    whole = source.tool_results if source.role == "tool" else source.parts
    return source if whole == results else render.with_parts(source, results)


def _leftover(message: Message) -> Message | None:
    """A message without its results; a result without a call id stays as assistant text."""
    results = render.answering_results(message)
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
    changed = render.with_parts(message, kept, role="assistant" if message.role == "tool" else None)
    return changed if render.says_something(changed) else None


def message_groups(messages: Sequence[Message]) -> tuple[int, ...]:
    """For each message the index of the first message of its atom.

    A result belongs to the nearest call before it with its id, else to the first one after it; thinking in a separate
    message belongs to the next assistant message.
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
        before = messages[index - 1] if index and message.role == "assistant" else None
        if before and before.parts and before.role == "assistant" and not render.says_something(before):
            yield index - 1, index
        if not message.parts:
            continue
        for call in render.open_calls(message):
            if call.id is not None:
                owner[call.id] = index
                yield from ((result, index) for result in early.pop(call.id, ()))
        for result in render.answering_results(message):
            if result.call_id in owner:
                yield owner[result.call_id], index
            elif result.call_id is not None:
                early.setdefault(result.call_id, []).append(index)
        for id in _unread_ids(message):
            yield owner.setdefault(id, index), index


def _unread_ids(message: Message) -> Iterator[str]:
    """The call ids inside blocks of unknown type, such as a provider's own tools."""
    for part in message.parts:
        raw = part.raw if isinstance(part, Opaque) else None
        id = raw.get("call_id") if isinstance(raw, Mapping) else None
        if isinstance(id, str):
            yield id


def unanswered_indices(messages: Sequence[Message]) -> frozenset[int]:
    worked = [(index, message) for index, message in enumerate(messages) if message.parts]
    answered = {result.call_id for _, message in worked for result in render.answering_results(message)}
    calls = ((index, call.id) for index, message in worked for call in render.open_calls(message))
    return frozenset(index for index, id in calls if id not in answered)


def drop_unanswered(messages: tuple[Message, ...], answered_elsewhere: AbstractSet[str | None]) -> tuple[Message, ...]:
    """Without the calls whose real result exists elsewhere and was not chosen; the same tuple when there are none.

    Any other is left for `repair`, which tells the model that its result is missing.
    """
    later: set[str | None] = set()
    kept: list[Message] = []
    for message in reversed(messages):
        later.update(result.call_id for result in render.answering_results(message))
        calls = (call.id for call in render.open_calls(message))
        gone = {id_ for id_ in calls if id_ in answered_elsewhere and id_ not in later}
        if gone:
            remaining = [part for part in message.parts if not (isinstance(part, ToolCall) and part.id in gone)]
            message = render.with_parts(message, remaining)
        if not gone or render.says_something(message):
            kept.append(message)
    return render.same_if_unchanged(messages, reversed(kept))


OPENING_MESSAGE = Message(role="user", content=OPENING_TEXT)


@dataclass(frozen=True, slots=True)
class ProviderRules:
    """The requirements of one kind of request."""

    #: Formats whose thinking and unknown blocks this provider can read.
    native: frozenset[str]
    starts_with_user: bool = False
    system_apart: bool = False
    #: Each block is a separate item: an assistant's turn may span several messages.
    item_style: bool = False
    thinking_is_signed: bool = False
    #: A host that calls providers itself: it filters thinking by model, if it knows the model.
    is_host: bool = False


PROVIDER_RULES: dict[str, ProviderRules] = {
    "openai-chat": ProviderRules(frozenset({"openai-chat"})),
    "openai-responses": ProviderRules(frozenset({"openai-responses"}), item_style=True),
    "anthropic": ProviderRules(
        frozenset({"anthropic"}), starts_with_user=True, system_apart=True, thinking_is_signed=True
    ),
}


def provider_rules(provider: str) -> ProviderRules:
    """The requirements of a provider, or of a host's format."""
    return PROVIDER_RULES.get(provider) or ProviderRules(frozenset({provider}), is_host=True)


@dataclass(frozen=True, slots=True)
class MessageRepair:
    """A kind of repair and how often it was made."""

    what: str
    count: int = 1


def _first_after_system(messages: Sequence[Message]) -> int:
    return next((i for i, message in enumerate(messages) if message.role != "system"), len(messages))


def _foreign(message: Message, shape: ProviderRules, model: ModelIdentity | None) -> list[Reasoning | Opaque]:
    """The blocks that only their own format, and for thinking only its own model, can read.

    A message in the provider's own format without a model is attributed to the model in use.
    """
    bound = [part for part in message.parts if isinstance(part, (Reasoning, Opaque))]
    if message.format not in shape.native:
        return bound
    made_by = message.identity
    thinking = [part for part in bound if isinstance(part, Reasoning)]
    if shape.is_host:
        return [part for part in thinking if part.signature and made_by is None]
    is_other = made_by and model and replace(made_by, response_model=None) != replace(model, response_model=None)
    if not is_other:
        return [part for part in thinking if shape.thinking_is_signed and not part.signature]
    return list(thinking)


def make_valid(
    messages: tuple[Message, ...],
    provider: str,
    *,
    model: ModelIdentity | None = None,
    allow_trailing_assistant: bool = False,
    answered_elsewhere: AbstractSet[str] = frozenset(),
) -> tuple[tuple[Message, ...], tuple[MessageRepair, ...]]:
    """The messages as the provider accepts them, the same tuple when nothing was wrong, and the repairs made.

    A call whose result is `answered_elsewhere` in the archive, and was omitted, is dropped. The text of the newest user
    message and everything after it is not changed: only pairs, empty content and foreign blocks are repaired there.
    """
    shape = provider_rules(provider)
    paired = partial(is_paired, item_style=shape.item_style)
    log: list[MessageRepair] = []

    def step(name: str, work: Callable[[tuple[Message, ...]], tuple[Message, ...]]) -> None:
        nonlocal messages
        before, messages = messages, work(messages)
        if messages is not before:
            log.extend(_described(name, before, messages))

    step("unanswered", lambda m: m if paired(m) else drop_unanswered(m, answered_elsewhere))
    step("foreign blocks", lambda m: _drop_foreign_blocks(m, shape, model))
    step("pairs", lambda m: m if paired(m) else repair_pairs(m, item_style=shape.item_style))
    step("empty content", lambda m: _without_blanks(m, shape))
    step("system", lambda m: _system_apart(m) if shape.system_apart else m)
    if not allow_trailing_assistant:
        step("trailing assistant", _without_trailing_assistant)
    step("opening", lambda m: _with_opening(m, shape))
    return messages, tuple(log)


def _drop_foreign_blocks(
    messages: tuple[Message, ...], shape: ProviderRules, model: ModelIdentity | None
) -> tuple[Message, ...]:
    """Without foreign blocks; a host, which filters thinking itself, only loses detached signatures."""

    def change(message: Message) -> Message | None:
        foreign = _foreign(message, shape, model) if message.parts else []
        if not foreign:
            return message
        if shape.is_host and message.format in shape.native:
            unsigned = {id(part): replace(part, signature=None) for part in foreign if isinstance(part, Reasoning)}
            parts = [unsigned.get(id(part), part) for part in message.parts]
            return render.with_parts(message, parts)
        parts = [part for part in message.parts if part not in foreign]
        if message.content.strip() and not any(isinstance(part, (Text, ToolResult)) for part in parts):
            parts.append(Text(message.content))
        return render.with_parts(message, parts) if parts else None

    return render.same_if_unchanged(messages, filter(None, map(change, messages)))


def _without_blanks(messages: tuple[Message, ...], shape: ProviderRules) -> tuple[Message, ...]:
    """Without blank blocks and empty messages; from the end, because thinking depends on what follows."""
    kept: list[Message] = []
    for message in reversed(messages):
        if message.parts and any(map(render.is_blank, message.parts)):
            message = render.with_parts(message, [part for part in message.parts if not render.is_blank(part)])
        thinks_for_next = shape.item_style and bool(kept) and kept[-1].role == "assistant"
        if render.says_something(message) or (thinks_for_next and render.is_thinking_only(message)):
            kept.append(message)
    return render.same_if_unchanged(messages, reversed(kept))


def _system_apart(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """System messages inside the conversation become user messages; leading ones stay separate."""
    start = _first_after_system(messages)
    if not any(message.role == "system" for message in messages[start:]):
        return messages
    inside = (
        Message("user", m.content, created_at=m.created_at) if m.role == "system" else m for m in messages[start:]
    )
    return (*messages[:start], *inside)


def _without_trailing_assistant(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    end = len(messages)
    while end and messages[end - 1].role == "assistant":
        end -= 1
    return messages if end == len(messages) else messages[:end]


def _with_opening(messages: tuple[Message, ...], shape: ProviderRules) -> tuple[Message, ...]:
    start = _first_after_system(messages)
    has_user = render.newest_user(messages) is not None
    first_is_user = start < len(messages) and messages[start].role == "user"
    if has_user and (first_is_user or not shape.starts_with_user):
        return messages
    return (*messages[:start], OPENING_MESSAGE, *messages[start:])


def _described(name: str, before: Sequence[Message], after: Sequence[Message]) -> Iterator[MessageRepair]:
    if name != "pairs":
        yield MessageRepair(name, max(1, len({id(m) for m in before} - {id(m) for m in after})))
        return
    old, new = _count_pairs(before), _count_pairs(after)
    changed = {"call removed": old - new, "result removed": old - new, "missing result noted": new - old}
    yield from (MessageRepair(what, counts[what]) for what, counts in changed.items() if counts[what])
    if old == new:
        yield MessageRepair("results moved to their calls")


def _count_pairs(messages: Sequence[Message]) -> Counter[str]:
    results = [result for message in messages for result in render.answering_results(message)]
    return Counter({
        "call removed": sum(len(render.open_calls(message)) for message in messages),
        "result removed": sum(not is_synthetic(result) for result in results),
        "missing result noted": sum(map(is_synthetic, results)),
    })  # fmt: skip
