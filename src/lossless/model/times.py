"""Times as they are stored: UTC, whole seconds for rows, milliseconds with `Z` for summaries and states."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime


def row_time(moment: datetime, between: str = " ") -> str:
    """`YYYY-MM-DD HH:MM:SS` in UTC, as SQLite's `datetime('now')` writes it.

    >>> row_time(datetime(2026, 1, 5, 9, 0, 3, 999_000, tzinfo=UTC))
    '2026-01-05 09:00:03'
    """
    return _utc(moment).isoformat(between, "seconds")[:19]


def state_time(moment: datetime) -> str:
    """ISO-8601 with milliseconds and `Z`, for summary spans, debts and telemetry.

    >>> state_time(datetime(2026, 1, 5, 9, 0, 3, 999_000, tzinfo=UTC))
    '2026-01-05T09:00:03.999Z'
    """
    return _utc(moment).isoformat("T", "milliseconds")[:23] + "Z"


def parse_time(text: str) -> datetime:
    """Read either form; a time without a zone is UTC. Raises ValueError for anything else.

    >>> parse_time("2026-01-05 09:00:03").isoformat()
    '2026-01-05T09:00:03+00:00'
    """
    return _utc(datetime.fromisoformat(text.strip()))


def from_epoch(value: float) -> datetime:
    """A time from a number: milliseconds when it is too large to be seconds (as in JavaScript)."""
    return datetime.fromtimestamp((value / 1000 if abs(value) >= 100_000_000_000 else value), UTC)


def first_time(values: Iterable[object]) -> datetime | None:
    """The first valid time of these: ISO-8601, or seconds or milliseconds since 1970."""
    for value in values:
        try:
            if type(value) is int or type(value) is float:  # not a boolean
                return from_epoch(value)
            if isinstance(value, str):
                return parse_time(value)
        except (ValueError, OverflowError, OSError):
            continue
    return None


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is UTC:
        return moment
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
