"""What is left of conversations that were deleted for good: it travels with an archive, so that it stays deleted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lossless.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from lossless.store.bundles import Bundle, Values
    from lossless.transfer.reports import ImportReport

#: Bytes for each message.
_MARK = 20
_TEXTS = ("session_key", "path", "header_id")


def sound_pruned(rows: Iterable[Values], report: ImportReport) -> list[Values]:
    """The rows that an archive can keep, each once, in the order of their numbers; others are told of."""
    found: dict[object, Values] = {}
    for row in rows:
        one = dict.fromkeys(_TEXTS) | row
        if _is_sound(one):
            found.setdefault((*(one[name] for name in _TEXTS), one["marks"]), one)
        else:
            report.warnings.append("a deleted conversation is remembered by what makes no sense: left out")
    return sorted(found.values(), key=lambda row: row["number"])


def with_forks_of(bundle: Bundle, conversation_ids: Collection[object]) -> Bundle:
    """A conversation that relies only on such as go the same way."""
    rows = bundle.tables.get("fork_sources", [])
    kept = [row for row in rows if row["source_id"] in conversation_ids]
    return replace(bundle, tables=bundle.tables | {"fork_sources": kept})


def _is_sound(row: Values) -> bool:
    marks, number = row.get("marks"), row.get("number")
    if not isinstance(marks, bytes) or not marks or len(marks) % _MARK or type(number) is not int:
        return False
    try:
        parse_time(str(row.get("at")))
    except ValueError:
        return False
    return all(row[name] is None or isinstance(row[name], str) for name in _TEXTS)
