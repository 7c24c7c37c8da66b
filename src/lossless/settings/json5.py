"""JSON5: parsing, and editing values while comments, order, quotes and indentation stay.

Written here because the only Python library that keeps comments, json-five, takes half a second for 24 kB, hooks read
the host's file at every start, and new members would still need manual spacing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

_SPACE: Final = re.compile(r"(?:\s|\ufeff|//[^\n\r\u2028\u2029]*|/\*.*?\*/)*", re.DOTALL)
_NAME: Final = re.compile(r"(?:[$_\w]|\\u[0-9a-fA-F]{4})+")
_NUMBER: Final = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]+|Infinity|NaN|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
_STRING: Final = re.compile(r""""(?:[^"\\\n\r]+|\\(?:\r\n|.))*"|'(?:[^'\\\n\r]+|\\(?:\r\n|.))*'""", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|.))", re.DOTALL)
_HALF: Final = re.compile("[\ud800-\udfff]")
_WORDS: Final = {"true": True, "false": False, "null": None}
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_ESCAPES |= dict.fromkeys(("\n", "\r", "\r\n", "\u2028", "\u2029"), "")
#: No real config is deeper.
_DEEPEST: Final = 200


@dataclass(frozen=True, slots=True)
class Json5Node:
    """A value and the position of its text; members of an object or list, in text order.

    A member also has its name, if it is one of an object, the position where its name or it begins, and where its
    comma is.
    """

    value: Any
    start: int
    end: int
    members: tuple[Json5Node, ...] = ()
    key: str | None = None
    first: int = -1
    comma: int | None = None


def parse_json5(text: str) -> Json5Node:
    """The value of a text; raises `ValueError`."""
    found = _value(text, _space(text, 0), 0)
    end = _space(text, found.end)
    if end != len(text):
        raise _wrong(text, end, "nothing may follow here")
    return found


def _wrong(text: str, at: int, why: str) -> ValueError:
    line = text.count("\n", 0, at) + 1
    return ValueError(f"{why}: line {line} column {at - text.rfind(chr(10), 0, at)}")


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _value(text: str, at: int, depth: int) -> Json5Node:
    if depth > _DEEPEST:
        raise _wrong(text, at, "this is nested too deeply")
    first = text[at : at + 1]
    if first in ("{", "["):
        return _held(text, at, depth)
    if first in ("'", '"'):
        return _string(text, at)
    if (found := _NAME.match(text, at)) and found[0] in _WORDS:
        return Json5Node(_WORDS[found[0]], at, found.end())
    if found := _NUMBER.match(text, at):
        return Json5Node(_number(found[1], found[2]), at, found.end())
    raise _wrong(text, at, "a value is missing")


def _held(text: str, start: int, depth: int) -> Json5Node:
    is_object = text[start] == "{"
    close = "}" if is_object else "]"
    members: list[Json5Node] = []
    at = _space(text, start + 1)
    while text[at : at + 1] != close:
        if members and members[-1].comma is None:
            raise _wrong(text, at, f"a comma or {close} is missing")
        name = _member_name(text, at) if is_object else None
        begin = at if name is None else _space(text, name.end)
        if name is not None and text[begin : begin + 1] != ":":
            raise _wrong(text, begin, "a colon is missing")
        node = _value(text, at if name is None else _space(text, begin + 1), depth + 1)
        end = _space(text, node.end)
        comma = end if text[end : end + 1] == "," else None
        members.append(replace(node, key=None if name is None else str(name.value), first=at, comma=comma))
        at = end if comma is None else _space(text, comma + 1)
    made: Any = {one.key: one.value for one in members} if is_object else [one.value for one in members]
    return Json5Node(made, start, at + 1, tuple(members))


def _member_name(text: str, start: int) -> Json5Node:
    if text[start : start + 1] in ("'", '"'):
        return _string(text, start)
    found = _NAME.match(text, start)
    if not found or found[0][0].isdigit():
        raise _wrong(text, start, "a name is missing")
    return Json5Node(re.sub(r"\\u(.{4})", lambda one: chr(int(one[1], 16)), found[0]), start, found.end())


def _string(text: str, start: int) -> Json5Node:
    found = _STRING.match(text, start)
    if found is None:
        raise _wrong(text, start, "a text is not terminated")

    def unescaped(one: re.Match[str]) -> str:
        if digits := one[1] or one[2]:
            return chr(int(digits, 16))
        if one[3] in ("u", "x"):
            raise _wrong(text, start + one.start() + 2, "an escape is incomplete")
        return _ESCAPES.get(one[3], one[3])

    made = _ESCAPE.sub(unescaped, found[0][1:-1])
    if _HALF.search(made):  # two escapes may be one character
        made = made.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return Json5Node(made, start, found.end())


def _number(sign: str, digits: str) -> int | float:
    if digits[:2] in ("0x", "0X"):
        found: int | float = int(digits, 16)
    elif digits.isdigit():
        found = int(digits)
    else:
        found = float(digits.replace("Infinity", "inf"))
    return -found if sign == "-" else found


_LINE_REST = re.compile(r"(?:[ \t]|/\*[^\n]*?\*/)*(?://[^\n\r]*)?")


#: A change of a text: from where, up to where, and what stands there then.
_TextEdit: TypeAlias = tuple[int, int, str]


def edit_json5(text: str, after: object) -> str:
    """The text with minimal changes so that it holds `after`; raises `ValueError` when that is impossible."""
    end = line_ending(text)
    edits = [(start, stop, new.replace("\n", end)) for start, stop, new in _changes(text, parse_json5(text), after)]
    made = _applied(text, 0, len(text), edits)
    if not _same(parse_json5(made).value, after):
        raise ValueError("the text cannot be changed safely")
    return made


def repeated_key(node: Json5Node) -> str | None:
    """A duplicate key in an object of a text; None when there is none."""
    keys = [one.key for one in node.members if one.key is not None]
    found = [key for at, key in enumerate(keys) if key in keys[:at]]
    return found[0] if found else next(filter(None, (repeated_key(one) for one in node.members)), None)


def line_ending(text: str) -> str:
    """The line ending of a text."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def escape_lone_surrogates(text: str) -> str:
    """JSON in which lone surrogates are escaped, so that any file can hold it."""
    return _HALF.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _same(one: object, other: object) -> bool:
    """Equal, and of equal kinds: 1, 1.0 and true are three values."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _changes(text: str, node: Json5Node, after: object) -> list[_TextEdit]:
    if _same(node.value, after):
        return []
    if isinstance(node.value, dict) and isinstance(after, dict):
        last = {one.key: one for one in node.members}
        kept = [one for one in node.members if one.key in after and last[one.key] is one]
        inner = [cut for one in kept for cut in _changes(text, one, after[one.key])]
        return inner + _edit_members(text, node, kept, [(key, one) for key, one in after.items() if key not in last])
    if isinstance(node.value, list) and isinstance(after, list):
        kept = []  # those that remain when the others are removed and new ones are appended
        for one in node.members:
            if len(kept) < len(after) and _same(one.value, after[len(kept)]):
                kept.append(one)
        if _same([one.value for one in kept], after[: len(kept)]):
            return _edit_members(text, node, kept, [(None, value) for value in after[len(kept) :]])
    return [(node.start, node.end, _written(after, _indent(text, node.start), _step(text)))]


def _edit_members(
    text: str, node: Json5Node, kept: Sequence[Json5Node], new: Sequence[tuple[str | None, Any]]
) -> list[_TextEdit]:
    """The edits that leave some members of an object or list, and put new ones behind them."""
    gone = [one for one in node.members if one not in kept]
    cuts = [_without(text, one) for one in gone]
    if gone and not kept and not new and not _applied(text, node.start + 1, node.end - 1, cuts).strip():
        return [(node.start + 1, node.end - 1, "")]
    if not new:
        if gone and kept and kept[-1].comma is not None and node.members[-1].comma is None:
            cuts.append((kept[-1].comma, kept[-1].comma + 1, ""))
        return cuts
    is_flat = "\n" not in text[node.start : node.end] and bool(kept)
    outer = _indent(text, node.start)
    inner = _indent(text, kept[0].first) if kept and not is_flat else outer + _step(text)
    named = [
        ("" if key is None else _written(key, None, "") + ": ")
        + _written(value, None if is_flat else inner, _step(text))
        for key, value in new
    ]
    if not kept:
        # before the bracket; comments in it stay
        start, earliest = node.end - 1, max((stop for _, stop, _ in cuts), default=node.start + 1)
        while start > earliest and text[start - 1].isspace():
            start -= 1
        return [*cuts, (start, node.end - 1, "".join(f"\n{inner}{one}," for one in named)[:-1] + f"\n{outer}")]
    last = kept[-1]
    at, comma = (last.end, [(last.end, last.end, ",")]) if last.comma is None else (last.comma + 1, [])
    between, end = " " if is_flat else f"\n{inner}", "" if node.members[-1].comma is None else ","
    if not is_flat:
        at = max(at, _line_rest(text, at, node.end - 1))
    return [*cuts, *comma, (at, at, "".join(between + one + "," for one in named)[:-1] + end)]


def _applied(text: str, at: int, end: int, edits: Sequence[_TextEdit]) -> str:
    pieces = []
    for start, stop, new in sorted(edits, key=lambda edit: edit[:2]):
        pieces += [text[at : max(at, start)], new]
        at = max(at, stop)
    return "".join([*pieces, text[at:end]])


def _without(text: str, one: Json5Node) -> _TextEdit:
    """The edit that removes a member with its comma, and its line when nothing else is on it."""
    start, end = one.first, one.end if one.comma is None else one.comma + 1
    line = text.rfind("\n", 0, start)
    rest = _line_rest(text, end, len(text))
    is_first = line >= 0 and not text[line:start].strip()
    if is_first and text[rest : rest + 1] in ("\n", "\r"):
        return (line - 1 if text[line - 1 : line] == "\r" else line, rest, "")
    if not is_first or one.comma is None:
        start = len(text[:start].rstrip(" \t"))
    return (start, end, "")


def _line_rest(text: str, at: int, limit: int) -> int:
    """The end of the comments after a position on the same line; the position itself if anything else follows."""
    found = _LINE_REST.match(text, at, limit)
    end = at if found is None else found.end()
    return end if text[end : end + 1] in ("\n", "\r", "") else at


def _indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _step(text: str) -> str:
    found = re.search(r"\n([ \t]+)\S", text)
    return "  " if found is None else found[1]


def _written(value: object, indent: str | None, step: str) -> str:
    """A value as JSON, which is also JSON5: one line, or several indented by `indent`."""
    if indent is None:
        return escape_lone_surrogates(json.dumps(value, ensure_ascii=False))
    return escape_lone_surrogates(json.dumps(value, ensure_ascii=False, indent=step)).replace("\n", f"\n{indent}")
