"""Parses model responses: text without reasoning, stop reason, usage, or an error and its cause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from importlib.resources import files
from typing import Any

from lossless.llm.completion import NO_USAGE, Completion, Usage
from lossless.model.js_json import hashed_utf8
from lossless.model.messages import remove_reasoning

#: Keys that may hold an object's text; they are alternatives, and the first that yields text is used.
_TEXT_KEYS = ("text", "output_text", "value", "content", "summary", "output", "message", "response", "choices", "delta")
_ALTERNATIVES = ("choices", "candidates")
_NOT_WORDS = re.compile(r"reason|think|thought|tool|function|image|audio|refusal", re.IGNORECASE)
_LONE_CLOSING = re.compile(r"(?<![`'\"])</(?:think|thinking|reasoning)>(?![`'\"])", re.IGNORECASE)
_STOP_KEYS = ("finish_reason", "stop_reason", "finishReason", "stopReason")
_INCOMPLETE = frozenset({"length", "max_tokens", "max_output_tokens", "model_length", "incomplete"})
_MAX_DEPTH = 12
_MOST_TOKENS = 1 << 40
#: Longer than any requested answer; the rest is not read.
_MOST_CHARS = 500_000


def answer_text(response: object) -> str:
    """The text of an answer: blocks joined by line breaks, without repeats and thinking, valid Unicode.

    >>> answer_text({"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Yes."}]})
    'Yes.'
    """
    fragments: dict[str, None] = {}
    for fragment in _fragments(response, 0):
        if words := strip_reasoning(fragment):
            fragments.setdefault(words)
    return hashed_utf8("\n".join(fragments)).decode()


def _fragments(value: object, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, str):
        yield value[:_MOST_CHARS]
    elif isinstance(value, Mapping):
        kind = value.get("type")  # thinking, a tool call or an image is not text
        if value.get("thought") is True or (isinstance(kind, str) and _NOT_WORDS.search(kind)):
            return
        for key in _TEXT_KEYS:
            inner = value.get(key)
            for option in inner if key in _ALTERNATIVES and isinstance(inner, list) else [inner]:
                if found := [text for text in _fragments(option, depth + 1) if strip_reasoning(text)]:
                    yield from found
                    return
    elif isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        for item in value:
            yield from _fragments(item, depth + 1)


def strip_reasoning(text: str) -> str:
    """An answer without thinking, also without that whose opening tag the server swallowed; empty when it is no more.

    >>> strip_reasoning("<think>first this</think>Done."), strip_reasoning("hm</think>Done.")
    ('Done.', 'Done.')
    """
    rest = remove_reasoning(text).strip()
    lone = _LONE_CLOSING.search(rest)
    return rest if lone is None else remove_reasoning(rest[lone.end() :]).strip()


def _types(value: object, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH or not isinstance(value, Mapping | list | tuple):
        return
    if isinstance(value, Mapping) and isinstance(kind := value.get("type"), str):
        yield kind[:40]
    for inner in value.values() if isinstance(value, Mapping) else value:
        yield from _types(inner, depth + 1)


def response_stop_reason(response: object) -> str | None:
    """Why generation ended, from any of the fields that may say so."""
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
    """Whether a stop reason means that the answer was truncated.

    >>> is_incomplete("MAX_TOKENS"), is_incomplete("end_turn"), is_incomplete(None)
    (True, False, False)
    """
    return (reason or "").lower() in _INCOMPLETE


def _envelopes(response: object) -> Iterator[Mapping[object, object]]:
    """The answer and its nested envelopes, outermost first."""
    level, depth = response, 0
    while isinstance(level, Mapping) and depth < _MAX_DEPTH:
        yield level
        choices = level.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
            yield choices[0]
        wrapped = (level.get(key) for key in ("response", "message", "result", "delta"))
        level = next((inner for inner in wrapped if isinstance(inner, Mapping)), None)
        depth += 1


def parse_usage(response: object) -> Usage:
    found = (level.get("usage") for level in _envelopes(response))
    return next((read_usage(raw) for raw in found if isinstance(raw, Mapping)), NO_USAGE)


def read_usage(raw: Mapping[Any, object]) -> Usage:
    """A usage object, in OpenAI's, Anthropic's or a host's spelling."""
    details = raw.get("prompt_tokens_details") or raw.get("input_tokens_details")
    cached = _count(details, "cached_tokens") if isinstance(details, Mapping) else 0
    read = _count(raw, "cache_read_input_tokens", "cacheRead", "cached_tokens", "cache_read")
    write = _count(raw, "cache_creation_input_tokens", "cacheWrite", "cache_write")
    tokens = _count(raw, "prompt_tokens", "input_tokens", "input", "inputTokens")
    is_separate = any(key in raw for key in ("cache_read_input_tokens", "cache_creation_input_tokens", "cacheRead"))
    return Usage(
        input_tokens=tokens + read + write if is_separate else tokens,
        output_tokens=_count(raw, "completion_tokens", "output_tokens", "output", "outputTokens"),
        cache_read=read or cached,
        cache_write=write,
        cost=reported_cost(raw),
    )


def _count(raw: Mapping[Any, object], *keys: str) -> int:
    numbers = (value for key in keys if isinstance(value := raw.get(key), int | float) and not isinstance(value, bool))
    return next((int(number) for number in numbers if 0 <= number < _MOST_TOKENS), 0)


def reported_cost(raw: Mapping[Any, object]) -> Decimal | None:
    """The cost in a usage object; None when there is none."""
    value = raw.get("cost")
    try:
        cost = Decimal(str(value.get("total") if isinstance(value, Mapping) else value))
    except InvalidOperation:
        return None
    return cost if cost.is_finite() and cost >= 0 else None


def parse_completion(response: object, model: str) -> Completion:
    """A raw answer (an object or a text) as a `Completion`."""
    reason = response_stop_reason(response)
    return Completion(
        text=answer_text(response),
        model=model,
        usage=parse_usage(response),
        stop_reason=reason,
        incomplete=is_incomplete(reason),
        blocks=tuple(dict.fromkeys(_types(response, 0))),
    )


def _failures(name: str) -> re.Pattern[str]:
    """A list of `failures.txt`: what error messages of a kind say."""
    lists = files("lossless.llm").joinpath("failures.txt").read_text("utf-8").split("\n\n")
    lines = next(one for one in lists if one.startswith(f"{name}:\n")).splitlines()[1:]
    return re.compile("|".join(lines), re.IGNORECASE)


_AUTH_TEXT, _DENIED_TEXT = _failures("credentials are refused"), _failures("a policy forbids the call")
_DENIED_KINDS = frozenset(
    {"denied", "policy", "policy_denied", "forbidden", "unavailable", "llm_unavailable", "model_denied"}
)
_STATUS_KEYS = ("status", "status_code", "statusCode", "http_status", "code")
_FAILURES_TEXT_KEYS = (
    "message", "error", "detail", "details", "reason", "description", "kind", "type", "code", "title",
)  # fmt: skip
_INNER_KEYS = ("error", "errors", "cause", "data", "details", "body", "response")
_FAILURES_MAX_DEPTH = 6


def text_is_auth_failure(text: str) -> bool:
    """Whether an error's text means that credentials were refused.

    >>> text_is_auth_failure("401 Incorrect API key provided"), text_is_auth_failure("the token limit was reached")
    (True, False)
    """
    return bool(_AUTH_TEXT.search(text[:4000]))


def is_auth_failure(error: object) -> bool:
    """Whether an error (an exception, an object or a text) means that credentials were refused."""
    return _has_401(error) or any(text_is_auth_failure(text) for text in _texts(error, 0))


def is_denied_failure(error: object) -> bool:
    """Whether an error means that a policy forbids the call or that the host has no model."""
    if isinstance(error, PermissionError):
        return True
    return any(text.lower() in _DENIED_KINDS or _DENIED_TEXT.search(text[:4000]) for text in _texts(error, 0))


def answer_is_auth_failure(response: object) -> bool:
    """Whether a response is an authentication failure by its structure: a 401, or `provider_auth`."""
    if not isinstance(response, Mapping):
        return False
    error = response.get("error")
    kinds = [error.get(key) for key in ("kind", "type", "code")] if isinstance(error, Mapping) else []
    return _has_401(response) or "provider_auth" in kinds


def error_in_response(response: object) -> object | None:
    """The error inside a successful response; None when there is none."""
    if not isinstance(response, Mapping):
        return None
    error: object = response.get("error")
    if error:
        return error
    failed = response.get("ok") is False or response.get("success") is False
    return response if failed else None


def error_message(error: object) -> str:
    """The first sentence of an error, at most 200 characters."""
    text = next((text for text in _texts(error, 0) if " " in text), next(_texts(error, 0), ""))
    flat = " ".join(text.split())
    return flat if len(flat) <= 200 else flat[:199] + "…"


def _has_401(error: object) -> bool:
    return any(str(level.get(key)) == "401" for level in _levels(error, 0) for key in _STATUS_KEYS if key in level)


def _levels(error: object, depth: int) -> Iterator[Mapping[object, object]]:
    if depth > _FAILURES_MAX_DEPTH or isinstance(error, str | None):
        return
    inside: Iterable[object] = error[:20] if isinstance(error, list) else ()
    if (level := _as_mapping(error)) is not None:
        yield level
        inside = (level.get(key) for key in _INNER_KEYS)
    for inner in inside:
        yield from _levels(inner, depth + 1)


def _as_mapping(error: object) -> Mapping[object, object] | None:
    if isinstance(error, Mapping):
        return error
    if isinstance(error, BaseException):
        fields = {key: getattr(error, key, None) for key in (*_STATUS_KEYS, *_INNER_KEYS, "message")}
        return {"message": str(error), "cause": error.__cause__} | {k: v for k, v in fields.items() if v is not None}
    status = getattr(error, "status_code", None)
    return {"status_code": status} if isinstance(status, int) else None


def _texts(error: object, depth: int) -> Iterator[str]:
    if isinstance(error, str):
        yield error
        return
    for level in _levels(error, depth):
        for key in _FAILURES_TEXT_KEYS:
            if isinstance(text := level.get(key), str) and text:
                yield text
