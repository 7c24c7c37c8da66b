"""Columns of foreign rows made what their names say: no value in a file can make a transfer fail half way."""

from __future__ import annotations

from typing import Any

from lossless.store.foreign import text

#: Larger counts than this make no sense, and their sums would not fit.
_MOST = 1 << 40
_COUNTS = frozenset(
    ("token_count", "descendant_count", "descendant_token_count", "source_message_token_count", "target_tokens",
     "byte_size", "line_count", "tokens")
)  # fmt: skip
_NUMBERS = frozenset(
    ("seq", "depth", "ordinal", "active", "claimed", "preamble", "is_ignored", "is_synthetic", "step_tokens_in",
     "step_tokens_out", "compaction_auto", "covered_message_seq", "last_seen_size", "last_seen_mtime_ms",
     "last_processed_offset", "fork_bounded", "fork_source_message_count", "pending", "running", "token_budget",
     "current_token_count", "projected_token_count", "raw_tokens_outside_tail", "context_fresh_tail_count",
     "context_leaf_chunk_tokens", "retry_attempts", "maintenance_revision", "last_observed_cache_read",
     "last_observed_cache_write", "last_observed_prompt_token_count", "consecutive_cold_observations",
     "turns_since_leaf_compaction", "tokens_accumulated_since_leaf_compaction", "turn", "start", "end", "escalation")
)  # fmt: skip
_FRACTIONS = frozenset(("step_cost", "context_threshold"))
_BYTES = frozenset(("fingerprint", "skeleton"))
_IDS = frozenset(("message_id", "conversation_id"))
_LISTS = frozenset(("parts", "messages", "sources", "part_ids", "part_sessions"))


def is_version(value: object) -> bool:
    """Whether a row of versions can hold a value."""
    if not isinstance(value, dict):
        return False
    numbers = (value.get(name) for name in ("version_id", "lesser", "tokens", "at"))
    maybe = (value.get(name) for name in ("length", "base_id"))
    return (
        all(isinstance(number, int) and abs(number) < _LARGEST for number in numbers)
        and all(number is None or (isinstance(number, int) and abs(number) < _LARGEST) for number in maybe)
        and isinstance(value.get("digest"), bytes)
        and isinstance(value.get("body"), bytes | None)
    )


def is_stale_mark(value: object) -> bool:
    """Whether a value names a message that changed below a summary, and when."""
    return isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], int | str)


_LARGEST = 1 << 62
#: Lists of what is no text, and what each of their values must be.
_RECORDS = {"versions": is_version, "stale": is_stale_mark}


def value_of(name: str, value: Any) -> Any:
    """A value that fits a column of this name."""
    if value is None:
        return None
    if name in _LISTS:
        return (
            [one if name == "parts" else value_of("message_id", one) for one in value]
            if isinstance(value, list)
            else []
        )
    if name in _RECORDS:
        return [one for one in value if _RECORDS[name](one)] if isinstance(value, list) else []
    kind = type(value)
    if name in _COUNTS:
        return min(max(_number(value), 0), _MOST)
    if name in _NUMBERS:
        return value if kind is int and -_MOST < value < _MOST else _number(value)
    if name in _BYTES:
        return value if kind is bytes else None
    if name in _IDS:
        return value if kind is str or (kind is int and abs(value) < 1 << 62) else text(value)
    if name in _FRACTIONS:
        return value if kind in (int, float) and abs(value) < _MOST else None
    return value if kind is str else text(value)


def row_of(values: dict[str, Any]) -> dict[str, Any]:
    """A row whose values fit their columns."""
    return {name: value_of(name, value) for name, value in values.items()}


def scalars(values: dict[str, Any]) -> dict[str, Any]:
    """A row of one of our own tables, in which nothing stands that a database cannot hold."""
    return {name: value if _is_scalar(value) else text(value) for name, value in values.items()}


def _is_scalar(value: Any) -> bool:
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 63
    return value is None or isinstance(value, str | bytes | float)


def _number(value: Any) -> int:
    """A number; 0 for what is none."""
    if isinstance(value, int | float) and abs(value) < _MOST:
        return int(value)
    return _MOST if isinstance(value, int) and value > 0 else 0
