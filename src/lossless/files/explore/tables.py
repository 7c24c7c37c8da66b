"""CSV and TSV, YAML, and files of settings."""

from __future__ import annotations

import csv
import re

from lossless.files.explore.words import ITEM_CHARS, SMALL_CHARS, clipped, item, listed

_MAX_COLUMNS = 40
_MAX_KEYS = 30
_BARE_KEY = re.compile(r"^([A-Za-z0-9_.\"'/-][^:\n#]{0,120}):[ \t]*(?:#.*)?$", re.MULTILINE)
_VALUED_KEY = re.compile(r"^([A-Za-z0-9_.\"'/-][^:\n#]{0,120}):[ \t]+[^\s#]", re.MULTILINE)
_SECTION = re.compile(r"^[ \t]*\[{1,2}([^\]\n]{1,200})\]{1,2}[ \t]*(?:[#;].*)?$", re.MULTILINE)
_ASSIGNED = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Za-z0-9_.\"'-]{1,120})[ \t]*[=:]", re.MULTILINE)
_NUMBER = re.compile(r"-?[0-9][0-9_,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_SAMPLED_ROWS = 200


def table_summary(text: str, delimiter: str, kind: str) -> str:
    """Rows, columns and the first row; for more than a few lines also what the columns hold."""
    rows = [row for row in text.split("\n") if row and not row.isspace()]
    if not rows:
        return f"Structured summary ({kind}):\nNo rows found."
    names = _cells(rows[0], delimiter)
    more = ", …" if len(names) > _MAX_COLUMNS else ""
    lines = [
        f"Structured summary ({kind}):",
        f"Rows: {len(rows) - 1:,}.",
        f"Columns ({len(names):,}): {', '.join(item(name) or '(empty)' for name in names[:_MAX_COLUMNS])}{more}.",
    ]
    if len(rows) > 1:
        lines.append(f"First row sample: {clipped(rows[1].strip(), 180)}.")
    if len(text) > SMALL_CHARS and len(rows) > 2:
        lines += [f"Last row: {clipped(rows[-1].strip(), 180)}.", *_column_kinds(names, rows, delimiter)]
    return "\n".join(lines)


def _column_kinds(names: list[str], rows: list[str], delimiter: str) -> list[str]:
    """What each column seems to hold, from a sample spread over the rows."""
    step = max(1, (len(rows) - 1) // _SAMPLED_ROWS)
    sample = [_cells(row, delimiter) for row in rows[1::step]]
    kinds = []
    for number, name in enumerate(names[:12]):
        cells = [row[number] for row in sample if number < len(row) and row[number]]
        if cells:
            numeric = all(_NUMBER.fullmatch(cell) for cell in cells)
            kinds.append(f"{item(name)} {'number' if numeric else 'text'}")
    return [f"Column types: {', '.join(kinds)}."] if kinds else []


def _cells(row: str, delimiter: str) -> list[str]:
    row = row[: 100 * ITEM_CHARS]
    try:
        return [cell.strip() for cell in next(csv.reader([row], delimiter=delimiter), [])]
    except csv.Error:
        return [cell.strip() for cell in row.split(delimiter)]


def yaml_summary(text: str) -> str:
    """Top-level keys that open a block; for more than a few lines also those that have a value."""
    bare = list(dict.fromkeys(_BARE_KEY.findall(text)))
    lines = ["Structured summary (YAML):", listed("Top-level keys", bare, _MAX_KEYS)]
    if len(text) > SMALL_CHARS:
        valued = list(dict.fromkeys(_VALUED_KEY.findall(text)))
        documents = text.count("\n---") + 1
        items = len(re.findall(r"^- ", text, re.MULTILINE))
        lines += [f"Lines: {_lines(text):,}."]
        lines += [listed("Top-level values", valued, _MAX_KEYS)] if valued else []
        lines += [f"Documents: {documents:,}."] if documents > 1 else []
        lines += [f"Top-level list items: {items:,}."] if items else []
    return "\n".join(lines)


def settings_summary(text: str, kind: str) -> str:
    """Sections and keys."""
    sections = list(dict.fromkeys(found.strip() for found in _SECTION.findall(text)))
    keys = list(dict.fromkeys(_ASSIGNED.findall(text)))
    lines = [f"Structured summary ({kind}):", f"Characters: {len(text):,}.", f"Lines: {_lines(text):,}."]
    if sections:
        lines.append(listed("Sections", sections, _MAX_KEYS))
    return "\n".join([*lines, listed("Keys", keys, _MAX_KEYS)])


def _lines(text: str) -> int:
    return text.count("\n") + 1
