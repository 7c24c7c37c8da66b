"""Changing a JSON or JSON5 text where its value changes: comments, order, quotes and indentation of the rest stay."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lossless.settings.json5 import NotJson5, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.settings.json5 import Member, Node

_HALF = re.compile("[\ud800-\udfff]")
_LINE_REST = re.compile(r"(?:[ \t]|/\*[^\n]*?\*/)*(?://[^\n\r]*)?")


@dataclass(frozen=True, slots=True)
class _Cut:
    """A piece of the text and what takes its place."""

    start: int
    end: int
    text: str


def edited(text: str, after: object) -> str:
    """The text with as little changed as possible so that it holds `after`; raises `NotJson5` where that fails."""
    cuts = sorted(_changes(text, parse(text), after), key=lambda cut: (cut.start, cut.end))
    end, pieces, at = line_end(text), [], 0
    for cut in cuts:
        pieces += [text[at : cut.start], cut.text.replace("\n", end)]
        at = cut.end
    made = "".join([*pieces, text[at:]])
    if not _same(parse(made).value, after):
        raise NotJson5("the text cannot be changed safely")
    return made


def repeated_key(node: Node) -> str | None:
    """A key that an object in a text has twice; None when there is none.

    >>> [repeated_key(parse(text)) for text in ("{a: 1, b: [{'c': 1, c: 2}]}", "{a: {a: 1}}")]
    ['c', None]
    """
    keys = [one.key for one in node.members if one.key is not None]
    found = [key for at, key in enumerate(keys) if key in keys[:at]]
    return found[0] if found else next(filter(None, (repeated_key(one.node) for one in node.members)), None)


def line_end(text: str) -> str:
    """What ends the lines of a text.

    >>> [line_end(text) for text in ("a\\r\\nb\\n", "a\\nb", "a")]
    ['\\r\\n', '\\n', '\\n']
    """
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def writable(text: str) -> str:
    """JSON that any file can hold: the halves of characters that stand alone in it are escaped."""
    return _HALF.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _same(one: object, other: object) -> bool:
    """Equal, and of equal kinds: 1, 1.0 and true are three values."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _changes(text: str, node: Node, after: object) -> list[_Cut]:
    if _same(node.value, after):
        return []
    if isinstance(node.value, dict) and isinstance(after, dict):
        last = {one.key: one for one in node.members}
        gone = [one for one in node.members if one.key not in after or last[one.key] is not one]
        kept = [one for one in node.members if one not in gone]
        inner = [cut for one in kept for cut in _changes(text, one.node, after[one.key])]
        new = [(key, value) for key, value in after.items() if key not in last]
        return inner + _held(text, node, kept, gone, new)
    if isinstance(node.value, list) and isinstance(after, list):
        kept = _still_there(node.members, after)
        if _same([one.node.value for one in kept], after[: len(kept)]):
            gone = [one for one in node.members if one not in kept]
            return _held(text, node, kept, gone, [(None, value) for value in after[len(kept) :]])
    return [_Cut(node.start, node.end, _written(after, _indent(text, node.start), _step(text)))]


def _still_there(members: Sequence[Member], after: list[Any]) -> list[Member]:
    """The items that stay, when the others go and all that is new stands behind them."""
    kept: list[Member] = []
    for one in members:
        if len(kept) < len(after) and _same(one.node.value, after[len(kept)]):
            kept.append(one)
    return kept


def _held(
    text: str, node: Node, kept: Sequence[Member], gone: Sequence[Member], new: Sequence[tuple[str | None, Any]]
) -> list[_Cut]:
    """What an object or a list loses and what is added behind the rest of it."""
    cuts = [_without(text, one) for one in gone]
    if gone and not kept and not new and not _left(text, node, cuts).strip():
        return [_Cut(node.start + 1, node.end - 1, "")]
    if not new:
        if gone and kept and kept[-1].comma is not None and node.members[-1].comma is None:
            cuts.append(_Cut(kept[-1].comma, kept[-1].comma + 1, ""))
        return cuts
    is_flat = "\n" not in text[node.start : node.end] and bool(kept)
    outer = _indent(text, node.start)
    inner = _indent(text, kept[0].start) if kept and not is_flat else outer + _step(text)
    named = [
        ("" if key is None else _written(key, None, "") + ": ")
        + _written(value, None if is_flat else inner, _step(text))
        for key, value in new
    ]
    if not kept:
        return [*cuts, _into_empty(text, node, cuts, named, inner, outer)]
    last = kept[-1]
    at, comma = last.node.end, []
    if last.comma is None:
        comma = [_Cut(at, at, ",")]
    else:
        at = last.comma + 1
    between, end = " " if is_flat else f"\n{inner}", "" if node.members[-1].comma is None else ","
    if not is_flat:
        at = max(at, _line_rest(text, at, node.end - 1))
    return [*cuts, *comma, _Cut(at, at, "".join(between + one + "," for one in named)[:-1] + end)]


def _left(text: str, node: Node, cuts: Sequence[_Cut]) -> str:
    """What is left between the brackets of an object or a list from which all that it holds is cut: space, remarks."""
    pieces, at = [], node.start + 1
    for cut in cuts:
        pieces.append(text[at : max(at, cut.start)])
        at = max(at, cut.end)
    return "".join([*pieces, text[at : node.end - 1]])


def _into_empty(text: str, node: Node, cuts: list[_Cut], named: list[str], inner: str, outer: str) -> _Cut:
    """The first things in an object or a list that holds nothing, before its bracket; comments in it stay."""
    start = node.end - 1
    earliest = max((cut.end for cut in cuts), default=node.start + 1)
    while start > earliest and text[start - 1].isspace():
        start -= 1
    return _Cut(start, node.end - 1, "".join(f"\n{inner}{one}," for one in named)[:-1] + f"\n{outer}")


def _without(text: str, one: Member) -> _Cut:
    """A member with its comma, and with its line when nothing else stands there."""
    start, end = one.start, one.node.end if one.comma is None else one.comma + 1
    line = text.rfind("\n", 0, start)
    rest = _line_rest(text, end, len(text))
    is_first = line >= 0 and not text[line:start].strip()
    if is_first and text[rest : rest + 1] in ("\n", "\r"):
        return _Cut(line - 1 if text[line - 1 : line] == "\r" else line, rest, "")
    if not is_first or one.comma is None:
        start = len(text[:start].rstrip(" \t"))
    return _Cut(start, end, "")


def _line_rest(text: str, at: int, most: int) -> int:
    """Where the comments end that stand behind a place on the same line; the place itself if more than that does."""
    found = _LINE_REST.match(text, at, most)
    end = at if found is None else found.end()
    return end if text[end : end + 1] in ("\n", "\r", "") else at


def _indent(text: str, at: int) -> str:
    """What the line of a place begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _step(text: str) -> str:
    found = re.search(r"\n([ \t]+)\S", text)
    return "  " if found is None else found[1]


def _written(value: object, indent: str | None, step: str) -> str:
    """A value as JSON, which is JSON5, too; its lines stand behind `indent`, or it is one line."""
    if indent is None:
        return writable(json.dumps(value, ensure_ascii=False))
    return writable(json.dumps(value, ensure_ascii=False, indent=step)).replace("\n", f"\n{indent}")
