"""What a provider reports about a prompt, in any of the common spellings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

from lossless.store.debts import Observation

_MOST_TOKENS = 1 << 40


def observation(usage: Mapping[str, object] | None, model: str | None) -> Observation:
    """A provider's usage report in any of the common spellings."""
    if usage is None:
        return Observation(None, model=model)

    details = [usage.get(name) for name in ("prompt_tokens_details", "input_tokens_details")]
    inside = next((found for found in details if isinstance(found, Mapping)), {})

    def number(*names: str) -> int:
        values = [(usage if name in usage else inside).get(name) for name in names]
        return next((int(value) for value in values if _is_count(value)), 0)

    read = number("cacheRead", "cache_read_input_tokens", "cached_tokens", "cache_read")
    write = number("cacheWrite", "cache_creation_input_tokens", "cache_write")
    plain = number("input", "input_tokens", "prompt_tokens")
    apart = "cacheRead" in usage or "cache_read_input_tokens" in usage
    prompt = plain + read + write if apart else plain
    written = number("output", "output_tokens", "completion_tokens")
    return Observation(prompt or None, read, write, None, model, written)


def _is_count(value: object) -> TypeGuard[int | float]:
    """Whether a provider may have counted so many tokens."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MOST_TOKENS
