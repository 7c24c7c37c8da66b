"""Reading answers: the text out of whatever shape came back, without the model's thinking."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation

from lossless.llm.base import Completion, Usage
from lossless.model.js_json import utf8

#: Where an object keeps its words. The keys of one object are spellings of the same thing: the first that
#: yields text wins.
_TEXT_KEYS = (
    "text",
    "output_text",
    "value",
    "content",
    "summary",
    "output",
    "message",
    "response",
    "choices",
    "delta",
)
_ALTERNATIVES = ("choices", "candidates")
_NOT_WORDS = re.compile(r"reason|think|thought|tool|function|image|audio|refusal", re.IGNORECASE)
_TAG = re.compile(r"<(/?)(think|thinking|reasoning)\b[^<>]*>", re.IGNORECASE)
#: Quoted, a tag is what the answer speaks of.
_LONE_CLOSE = re.compile(r"(?<![`'\"])</(?:think|thinking|reasoning)>(?![`'\"])", re.IGNORECASE)
_STOP_KEYS = ("finish_reason", "stop_reason", "finishReason", "stopReason")
_INCOMPLETE = frozenset({"length", "max_tokens", "max_output_tokens", "model_length", "incomplete"})
_MAX_DEPTH = 12
#: More than any answer that is asked for has: what goes beyond it is not even read.
_MOST_CHARS = 500_000


def answer_text(response: object) -> str:
    """The words of an answer: blocks joined by line breaks, repeats once, no thinking, valid Unicode.

    >>> answer_text({"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Yes."}]})
    'Yes.'
    """
    fragments: dict[str, None] = {}
    for fragment in _fragments(response, 0):
        if words := strip_reasoning(fragment):
            fragments.setdefault(words)
    return utf8("\n".join(fragments)).decode()


def _fragments(value: object, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, str):
        yield value[:_MOST_CHARS]
    elif isinstance(value, Mapping):
        if not _is_aside(value):
            yield from _first_with_text(value, depth)
    elif isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        for item in value:
            yield from _fragments(item, depth + 1)


def _first_with_text(value: Mapping[object, object], depth: int) -> list[str]:
    for key in _TEXT_KEYS:
        inner = value.get(key)
        options = inner if key in _ALTERNATIVES and isinstance(inner, list) else [inner]
        for option in options:
            found = [text for text in _fragments(option, depth + 1) if strip_reasoning(text)]
            if found:
                return found
    return []


def _is_aside(value: Mapping[object, object]) -> bool:
    """Whether a block is no speech: thinking, a tool call, an image."""
    kind = value.get("type")
    return value.get("thought") is True or (isinstance(kind, str) and bool(_NOT_WORDS.search(kind)))


def strip_reasoning(text: str) -> str:
    """`text` without closed thinking blocks; a text that is nothing but thinking is empty.

    Thinking that was cut off (opened at the start, never closed) and thinking whose opening tag the server
    swallowed (a closing tag that is not quoted) count as thinking too.

    >>> strip_reasoning("<think>first this</think>Done."), strip_reasoning("<think>first th")
    ('Done.', '')
    """
    if "<" not in text:
        return text.strip()
    rest = _without_closed_blocks(text).strip()
    if lone := _LONE_CLOSE.search(rest):
        rest = rest[lone.end() :].strip()
    opening = _TAG.match(rest)
    return "" if opening and not opening[1] else rest


def _without_closed_blocks(text: str) -> str:
    tags = list(_TAG.finditer(text))
    next_close: dict[str, int] = {}
    closed_by: dict[int, int] = {}
    for index in range(len(tags) - 1, -1, -1):
        name = tags[index][2].lower()
        if tags[index][1]:
            next_close[name] = index
        elif name in next_close:
            closed_by[index] = next_close[name]
    kept, position, index = [], 0, 0
    while index < len(tags):
        if index in closed_by:
            kept.append(text[position : tags[index].start()])
            index = closed_by[index]
            position = tags[index].end()
        index += 1
    return "".join([*kept, text[position:]])


def block_types(response: object) -> tuple[str, ...]:
    """The types of all blocks in an answer, each once, for a diagnosis."""
    return tuple(dict.fromkeys(_types(response, 0)))


def _types(value: object, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        kind = value.get("type")
        if isinstance(kind, str):
            yield kind[:40]
        for inner in value.values():
            yield from _types(inner, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _types(item, depth + 1)


def stop_reason(response: object) -> str | None:
    """Why generation ended, wherever the answer says so."""
    for level in _envelopes(response):
        for key in _STOP_KEYS:
            if isinstance(reason := level.get(key), str) and reason:
                return reason
        details = level.get("incomplete_details")
        if isinstance(details, Mapping) and isinstance(reason := details.get("reason"), str):
            return reason
        if level.get("status") == "incomplete":
            return "incomplete"
    return None


def is_incomplete(reason: str | None) -> bool:
    """Whether a stop reason says that the answer was cut off.

    >>> is_incomplete("MAX_TOKENS"), is_incomplete("end_turn"), is_incomplete(None)
    (True, False, False)
    """
    return (reason or "").lower() in _INCOMPLETE


def _envelopes(response: object) -> Iterator[Mapping[object, object]]:
    """The answer and the objects that it is wrapped in, outermost first."""
    level, depth = response, 0
    while isinstance(level, Mapping) and depth < _MAX_DEPTH:
        yield level
        choices = level.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
            yield choices[0]
        wrapped = (level.get(key) for key in ("response", "message", "result", "delta"))
        level = next((inner for inner in wrapped if isinstance(inner, Mapping)), None)
        depth += 1


def usage_of(response: object) -> Usage:
    """What the answer says that it consumed, in OpenAI's, Anthropic's or a host's spelling."""
    for level in _envelopes(response):
        raw = level.get("usage")
        if isinstance(raw, Mapping):
            return _usage(raw)
    return Usage()


def _usage(raw: Mapping[object, object]) -> Usage:
    details = raw.get("prompt_tokens_details") or raw.get("input_tokens_details")
    cached = _count(details, "cached_tokens") if isinstance(details, Mapping) else 0
    read = _count(raw, "cache_read_input_tokens", "cacheRead", "cache_read") or cached
    write = _count(raw, "cache_creation_input_tokens", "cacheWrite", "cache_write")
    tokens = _count(raw, "prompt_tokens", "input_tokens", "input", "inputTokens")
    beside = any(key in raw for key in ("cache_read_input_tokens", "cache_creation_input_tokens", "cacheRead"))
    return Usage(
        input_tokens=tokens + read + write if beside else tokens,
        output_tokens=_count(raw, "completion_tokens", "output_tokens", "output", "outputTokens"),
        cache_read=read,
        cache_write=write,
        cost=reported_cost(raw),
    )


def _count(raw: Mapping[object, object], *keys: str) -> int:
    for key in keys:
        value = raw.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return 0


def reported_cost(raw: Mapping[object, object]) -> Decimal | None:
    """The cost that a usage object states, None when it states none."""
    value = raw.get("cost")
    if isinstance(value, Mapping):
        value = value.get("total")
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        cost = Decimal(str(value))
    except InvalidOperation:
        return None
    return cost if cost.is_finite() and cost >= 0 else None


def completion(response: object, model: str) -> Completion:
    """A raw answer (an object or a text) as a `Completion`."""
    reason = stop_reason(response)
    return Completion(
        text=answer_text(response),
        model=model,
        usage=usage_of(response),
        stop_reason=reason,
        incomplete=is_incomplete(reason),
        blocks=block_types(response),
    )
