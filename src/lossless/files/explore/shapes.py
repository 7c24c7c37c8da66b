"""JSON and JSON lines: what is inside, to a depth of two."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from lossless.files.explore.words import SMALL_CHARS, clipped, counted, item

_MAX_KEYS = 10
_SAMPLES = 3
#: Of a long list, this many items are looked at for their common keys.
_LOOKED_AT = 10_000
_MAX_FIELDS = 24


def json_summary(text: str) -> str:
    """Top-level type and shape; for more than a few lines also what stands in each field."""
    try:
        value = json.loads(text)
    except RecursionError:
        return _unreadable(text, "nested too deeply")
    except ValueError as error:
        return _unreadable(text, str(error).partition(":")[0].lower())
    lines = ["Structured summary (JSON):", f"Top-level type: {_type(value)}.", f"Shape: {shape(value)}."]
    if len(text) > SMALL_CHARS:
        lines += _details(value)
    return "\n".join(lines)


def json_lines_summary(text: str) -> str:
    """Records, their common fields, and the first one."""
    rows = [row for row in text.split("\n") if row and not row.isspace()]
    fields: Counter[str] = Counter()
    broken = 0
    for row in rows[:_LOOKED_AT]:
        try:
            value = json.loads(row)
        except (ValueError, RecursionError):
            broken += 1
            continue
        fields.update(value.keys() if isinstance(value, dict) else [_type(value)])
    lines = ["Structured summary (JSONL):", f"Records: {len(rows):,}."]
    if fields:
        lines.append(f"Fields ({len(fields):,}): {counted(fields.most_common(_MAX_FIELDS))}.")
    if broken:
        lines.append(f"Lines that are no JSON: {broken:,}.")
    if rows:
        lines.append(f"First record: {clipped(rows[0], 180)}.")
    return "\n".join(lines)


def looks_like_json(text: str) -> str | None:
    """The shape of a text that is JSON though nothing said so; None when it is none."""
    head = text[:64].lstrip()
    if not head.startswith(("{", "[")) or not text[-64:].rstrip().endswith(("}", "]")):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return "\n".join([f"It is JSON. Shape: {shape(value)}.", *_details(value)])


def shape(value: Any, depth: int = 0) -> str:
    """A value by its type, its size and a sample of what is inside.

    >>> shape([{"a": 1}, 2])
    'array(len=2; samples: object(keys=1: a), number)'
    """
    if isinstance(value, dict):
        names = ", ".join(item(key) for key in list(value)[:_MAX_KEYS])
        more = ", …" if len(value) > _MAX_KEYS else ""
        return f"object(keys={len(value):,}{': ' + names + more if names else ''})"
    if isinstance(value, list):
        if depth >= 2 or not value:
            return f"array(len={len(value):,})"
        samples = ", ".join(shape(inner, depth + 1) for inner in value[:_SAMPLES])
        return f"array(len={len(value):,}; samples: {samples})"
    return _type(value)


def _details(value: Any) -> list[str]:
    if isinstance(value, dict):
        fields = [f"{item(key)}: {_brief(inner)}" for key, inner in list(value.items())[:_MAX_FIELDS]]
        return [f"Fields: {'; '.join(fields)}."]
    if isinstance(value, list):
        common: Counter[str] = Counter()
        for inner in value[:_LOOKED_AT]:
            if isinstance(inner, dict):
                common.update(inner.keys())
        lines = [f"Fields of items ({len(common):,}): {counted(common.most_common(_MAX_FIELDS))}."] if common else []
        return [*lines, f"First item: {clipped(json.dumps(value[0], ensure_ascii=False), 180)}."] if value else lines
    return []


def _brief(value: Any) -> str:
    if isinstance(value, dict | list):
        return clipped(shape(value, 1))
    if isinstance(value, str):
        return f"string, {len(value):,} chars" if len(value) > 60 else item(json.dumps(value, ensure_ascii=False))
    return item(json.dumps(value))


def _type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names = {dict: "object", list: "array", str: "string", int: "number", float: "number"}
    return names[type(value)]


def _unreadable(text: str, reason: str) -> str:
    lines = text.count("\n") + 1
    return (
        f"Structured summary (JSON):\nIt cannot be parsed: {item(reason)}.\n"
        f"Characters: {len(text):,}.\nLines: {lines:,}.\nOpening excerpt: {clipped(' '.join(text[:400].split()), 300)}."
    )
