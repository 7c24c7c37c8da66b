"""What strict providers refuse, and how it is put right before anything is sent.

`problems` only looks. `make_valid` repairs in a fixed order and says what it did: calls without results,
foreign blocks, tool pairs, empty content, system messages, a trailing assistant, the opening. A rule
looks at a message and its neighbours, never at how far it is from the end (but for the trailing assistant),
so that what was sent once is repaired the same way next time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from lossless.assembly.atoms import drop_unanswered
from lossless.assembly.pairing import is_paired, is_synthetic, repair
from lossless.assembly.parts import (
    answers,
    is_blank,
    is_thinking_only,
    is_user_turn,
    newest_user,
    open_calls,
    same_or_new,
    says_something,
    with_parts,
)
from lossless.formats.synthetic import OPENING_TEXT
from lossless.model.messages import Message, Opaque, Reasoning, Text, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from lossless.model.messages import ModelIdentity, Part

#: Stands where a provider wants a user to speak and none does.
OPENING = Message(role="user", content=OPENING_TEXT)

Code = Literal[
    "call-without-id", "duplicate-call", "unanswered-call", "orphan-result", "duplicate-result",
    "results-not-first", "empty-content", "blank-text", "thinking-only", "foreign-block",
    "no-user", "first-not-user", "system-inside", "trailing-assistant",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shape:
    """What one kind of request demands."""

    #: Formats whose thinking and unknown blocks this provider can read.
    native: frozenset[str]
    starts_with_user: bool = False
    system_apart: bool = False
    #: Each block is an item of its own: an assistant's turn may span several messages.
    item_style: bool = False
    thinking_is_signed: bool = False
    #: A host that talks to providers itself: it keeps thinking apart by model, if it knows the model.
    is_host: bool = False


SHAPES: dict[str, Shape] = {
    "openai-chat": Shape(frozenset({"openai-chat"})),
    "openai-responses": Shape(frozenset({"openai-responses"}), item_style=True),
    "anthropic": Shape(frozenset({"anthropic"}), starts_with_user=True, system_apart=True, thinking_is_signed=True),
}


def shape_of(provider: str) -> Shape:
    """The demands of a provider, or of a host's format."""
    return SHAPES.get(provider) or Shape(frozenset({provider}), is_host=True)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a strict provider would refuse, and at which message."""

    code: Code
    index: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Repair:
    """A kind of repair and how often it was made."""

    what: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Valid:
    """Messages that a strict provider takes, and what was repaired to get there."""

    messages: tuple[Message, ...]
    repairs: tuple[Repair, ...] = ()


# --- looking --------------------------------------------------------------------------------------


def problems(
    messages: Sequence[Message],
    provider: str,
    *,
    model: ModelIdentity | None = None,
    allow_trailing_assistant: bool = False,
) -> list[Problem]:
    """Everything in `messages` that the provider would refuse; empty when it may be sent.

    System messages at the start stand apart and are not part of the talk.
    """
    shape = shape_of(provider)
    start = _talk_start(messages)
    found = [*_pairing_problems(messages, shape), *_content_problems(messages, shape, model)]
    if not any(map(is_user_turn, messages)):
        found.append(Problem("no-user"))
    if shape.starts_with_user and start < len(messages) and messages[start].role != "user":
        found.append(Problem("first-not-user", start, messages[start].role))
    if shape.system_apart:
        found += [Problem("system-inside", i) for i in range(start, len(messages)) if messages[i].role == "system"]
    if messages and messages[-1].role == "assistant" and not allow_trailing_assistant:
        found.append(Problem("trailing-assistant", len(messages) - 1))
    return found


def _talk_start(messages: Sequence[Message]) -> int:
    return next((i for i, message in enumerate(messages) if message.role != "system"), len(messages))


def _pairing_problems(messages: Sequence[Message], shape: Shape) -> Iterator[Problem]:
    called: set[str | None] = set()
    awaited: dict[str | None, int] = {}
    done: set[str | None] = set()
    may_call = True
    for index, message in enumerate(messages):
        calls, results = open_calls(message), answers(message)
        goes_on = shape.item_style and message.role == "assistant" and may_call
        if not results and not goes_on:
            yield from (Problem("unanswered-call", at, str(id)) for id, at in awaited.items())
            awaited, done = {}, set()
        for result in results:
            known = result.call_id in awaited
            if not known:
                yield Problem("duplicate-result" if result.call_id in done else "orphan-result", index)
            awaited.pop(result.call_id, None)
            done.add(result.call_id)
        if results and message.role == "user":
            if any(isinstance(part, ToolResult) for part in message.parts[len(results) :]):
                yield Problem("results-not-first", index)
            if len(message.parts) > len(results):
                yield from (Problem("unanswered-call", at, str(id)) for id, at in awaited.items())
                awaited = {}
        for call in calls:
            if call.id is None or call.id in called:
                yield Problem("call-without-id" if call.id is None else "duplicate-call", index, call.name)
            awaited[call.id] = index
            called.add(call.id)
        may_call = message.role == "assistant"
    yield from (Problem("unanswered-call", at, str(id)) for id, at in awaited.items())


def _content_problems(messages: Sequence[Message], shape: Shape, model: ModelIdentity | None) -> Iterator[Problem]:
    for index, message in enumerate(messages):
        if is_thinking_only(message):
            if not _thinks_for_next(messages, index, shape):
                yield Problem("thinking-only", index)
        elif not says_something(message):
            yield Problem("empty-content", index, message.role)
        elif any(map(is_blank, message.parts)):
            yield Problem("blank-text", index)
        if _foreign(message, shape, model):
            yield Problem("foreign-block", index)


def _foreign(message: Message, shape: Shape, model: ModelIdentity | None) -> list[Reasoning | Opaque]:
    """The blocks that only their own format, and of thinking only its own model, can read.

    A message in the provider's own format that names no model is taken to be of the model in use.
    """
    bound = [part for part in message.parts if isinstance(part, (Reasoning, Opaque))]
    if message.format not in shape.native:
        return bound
    made_by = message.identity
    thinking = [part for part in bound if isinstance(part, Reasoning)]
    if shape.is_host:
        return [part for part in thinking if part.signature and made_by is None]
    if made_by is None or model is None or _same_model(made_by, model):
        return [part for part in thinking if shape.thinking_is_signed and not part.signature]
    return list(thinking)


def _same_model(one: ModelIdentity, other: ModelIdentity) -> bool:
    return (one.provider, one.api, one.model) == (other.provider, other.api, other.model)


def _thinks_for_next(messages: Sequence[Message], index: int, shape: Shape) -> bool:
    """Whether thinking that is an item of its own belongs to the assistant's item after it."""
    after = index + 1
    return shape.item_style and after < len(messages) and messages[after].role == "assistant"


# --- repairing ------------------------------------------------------------------------------------


def make_valid(
    messages: tuple[Message, ...],
    provider: str,
    *,
    model: ModelIdentity | None = None,
    allow_trailing_assistant: bool = False,
    tail_start: int = 0,
    answered_elsewhere: AbstractSet[str] = frozenset(),
) -> Valid:
    """The messages as the provider takes them; the same tuple when nothing was wrong.

    `tail_start` is the index of the fresh tail: before it, a call whose result was left out goes; in it, only
    one whose result is `answered_elsewhere` in the archive. No word of the newest user message and of what
    follows it is changed: there, only pairs, empty content and foreign blocks are put right.
    """
    shape = shape_of(provider)
    paired = partial(is_paired, item_style=shape.item_style)
    log: list[Repair] = []

    def step(name: str, work: Callable[[tuple[Message, ...]], tuple[Message, ...]]) -> None:
        nonlocal messages
        before, messages = messages, work(messages)
        if messages is not before:
            log.extend(_described(name, before, messages))

    step("unanswered", lambda m: m if paired(m) else drop_unanswered(m, tail_start, answered_elsewhere))
    step("foreign blocks", lambda m: _own_blocks(m, shape, model))
    step("pairs", lambda m: m if paired(m) else repair(m, item_style=shape.item_style))
    step("empty content", lambda m: _without_blanks(m, shape))
    step("system", lambda m: _system_apart(m) if shape.system_apart else m)
    if not allow_trailing_assistant:
        step("trailing assistant", _without_trailing_assistant)
    step("opening", lambda m: _opened(m, shape))
    return Valid(messages, tuple(log))


def _own_blocks(messages: tuple[Message, ...], shape: Shape, model: ModelIdentity | None) -> tuple[Message, ...]:
    """Without foreign blocks; a host, which keeps thinking apart itself, only loses loose signatures."""

    def change(message: Message) -> Message | None:
        foreign = _foreign(message, shape, model) if message.parts else []
        if not foreign:
            return message
        if shape.is_host and message.format in shape.native:
            return with_parts(message, [_unsigned(p) if p in foreign else p for p in message.parts])
        parts = [part for part in message.parts if part not in foreign]
        if message.content.strip() and not any(isinstance(part, (Text, ToolResult)) for part in parts):
            parts.append(Text(message.content))
        return with_parts(message, parts) if parts else None

    return same_or_new(messages, filter(None, map(change, messages)))


def _unsigned(part: Part) -> Part:
    return replace(part, signature=None) if isinstance(part, Reasoning) else part


def _without_blanks(messages: tuple[Message, ...], shape: Shape) -> tuple[Message, ...]:
    """Without blank blocks and messages that say nothing; from the end, as thinking leans on what follows."""
    kept: list[Message] = []
    for message in reversed(messages):
        if message.parts and any(map(is_blank, message.parts)):
            message = with_parts(message, [part for part in message.parts if not is_blank(part)])
        if says_something(message) or (is_thinking_only(message) and _thinks_for_next([message, *kept[-1:]], 0, shape)):
            kept.append(message)
    return same_or_new(messages, reversed(kept))


def _system_apart(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """System messages inside the talk are said by the user instead; those before it stand apart."""
    start = _talk_start(messages)
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


def _opened(messages: tuple[Message, ...], shape: Shape) -> tuple[Message, ...]:
    start = _talk_start(messages)
    has_user = newest_user(messages) is not None
    first_is_user = start < len(messages) and messages[start].role == "user"
    if has_user and (first_is_user or not shape.starts_with_user):
        return messages
    return (*messages[:start], OPENING, *messages[start:])


def _described(name: str, before: Sequence[Message], after: Sequence[Message]) -> Iterator[Repair]:
    """What a step did, counted."""
    if name != "pairs":
        yield Repair(name, max(1, len({id(m) for m in before} - {id(m) for m in after})))
        return
    old, new = _tally(before), _tally(after)
    for what in ("call removed", "result removed"):
        if old[what] > new[what]:
            yield Repair(what, old[what] - new[what])
    if new["missing result noted"] > old["missing result noted"]:
        yield Repair("missing result noted", new["missing result noted"] - old["missing result noted"])
    if old == new:
        yield Repair("results moved to their calls")


def _tally(messages: Sequence[Message]) -> Counter[str]:
    results = [result for message in messages for result in answers(message)]
    return Counter({
        "call removed": sum(len(open_calls(message)) for message in messages),
        "result removed": sum(not is_synthetic(result) for result in results),
        "missing result noted": sum(map(is_synthetic, results)),
    })  # fmt: skip
