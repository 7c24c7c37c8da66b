"""Phrases for summaries: numbers, lists, truncated lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: The maximum length of a single name, line or key in a summary.
ITEM_CHARS = 120
#: Smaller inputs get only the lines that lossless-claw writes.
SMALL_CHARS = 2000


def clip(text: str, limit: int = ITEM_CHARS) -> str:
    """`text`, or its beginning and an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def one_line(text: str) -> str:
    """`text` with white space collapsed."""
    return " ".join(text.split())


def list_item(text: str) -> str:
    """A value from the payload as a list item: one line, truncated."""
    return clip(one_line(text[: 4 * ITEM_CHARS]))


def list_items(label: str, items: Sequence[str], limit: int, separator: str = ", ") -> str:
    """`label (count): a, b.`, with the first `limit` of the items; `label: none detected.` without any."""
    if not items:
        return f"{label}: none detected."
    more = f"{separator}+{len(items) - limit:,} more" if len(items) > limit else ""
    return f"{label} ({len(items):,}): {separator.join(map(list_item, items[:limit]))}{more}."


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def count_list(pairs: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{list_item(name)} {count:,}" for name, count in pairs)
