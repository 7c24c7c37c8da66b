"""How many tokens models read at once, as far as it is known."""

from __future__ import annotations

#: By the beginning of a model's name; the first that fits. Names change faster than this table: say `window=` when
#: it matters.
_WINDOWS = (
    ("gpt-3.5", 16_385),
    ("gpt-4-32k", 32_768),
    ("gpt-4-turbo", 128_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4.5", 128_000),
    ("gpt-4o", 128_000),
    ("gpt-4", 8_192),
    ("gpt-5", 400_000),
    ("o1-mini", 128_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4", 200_000),
    ("claude", 200_000),
    ("gemini", 1_048_576),
    ("deepseek", 128_000),
    ("mistral-large", 128_000),
)


def known_window(model: str) -> int | None:
    """The window of a model, from its name; None when nobody knows.

    >>> known_window("gpt-4o-mini"), known_window("anthropic/claude-sonnet-4-5"), known_window("my-own")
    (128000, 200000, None)
    """
    name = model.rsplit("/", 1)[-1].lower()
    return next((tokens for start, tokens in _WINDOWS if name.startswith(start)), None)
