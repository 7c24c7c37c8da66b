"""Reading JSON5, in which hosts let people write their config: comments, trailing commas, bare names, single quotes.

Each value knows where it stands, so that a file can be edited without touching the rest of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

_SPACE: Final = re.compile(r"(?:\s|\ufeff|//[^\n\r\u2028\u2029]*|/\*.*?\*/)*", re.DOTALL)
_NAME: Final = re.compile(r"(?:[$_\w]|\\u[0-9a-fA-F]{4})+")
_NUMBER: Final = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]+|Infinity|NaN|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
_PLAIN: Final = re.compile(r"[^\"'\\\n\r]+")
_HALF: Final = re.compile("[\ud800-\udfff]")
_WORDS: Final = {"true": True, "false": False, "null": None}
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
#: Nobody's config is deeper.
_DEEPEST: Final = 200


class NotJson5(ValueError):
    """A text that is no JSON5; says what is wrong and where."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value and where its text stands; members of an object or of a list, in the order of the text."""

    value: Any
    start: int
    end: int
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class Member:
    """What an object or a list holds: where it begins (with its name, if it has one) and where its comma is."""

    key: str | None
    start: int
    node: Node
    comma: int | None = None


def parse(text: str) -> Node:
    """The value of a text; raises `NotJson5`."""
    reader = _Reader(text)
    found = reader.value(reader.space(0), 0)
    end = reader.space(found.end)
    if end != len(text):
        raise reader.wrong(end, "nothing may follow here")
    return found


class _Reader:
    """Reads one text; each method takes a place and gives back what stands there."""

    def __init__(self, text: str) -> None:
        self.text = text

    def wrong(self, at: int, why: str) -> NotJson5:
        line = self.text.count("\n", 0, at) + 1
        return NotJson5(f"{why}: line {line} column {at - self.text.rfind(chr(10), 0, at)}")

    def space(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        return at if found is None else found.end()

    def value(self, at: int, depth: int) -> Node:
        if depth > _DEEPEST:
            raise self.wrong(at, "this is nested too deeply")
        first = self.text[at : at + 1]
        if first in ("{", "["):
            return self._held(at, depth)
        if first in ("'", '"'):
            return self._string(at)
        if (found := _NAME.match(self.text, at)) and found[0] in _WORDS:
            return Node(_WORDS[found[0]], at, found.end())
        if found := _NUMBER.match(self.text, at):
            return Node(_number(found[1], found[2]), at, found.end())
        raise self.wrong(at, "a value is missing")

    def _held(self, start: int, depth: int) -> Node:
        """An object or a list."""
        is_object = self.text[start] == "{"
        close = "}" if is_object else "]"
        members: list[Member] = []
        at = self.space(start + 1)
        while self.text[at : at + 1] != close:
            if members and members[-1].comma is None:
                raise self.wrong(at, f"a comma or {close} is missing")
            members.append(self._member(at, depth) if is_object else Member(None, at, self.value(at, depth + 1)))
            at = self.space(members[-1].node.end)
            if self.text[at : at + 1] == ",":
                members[-1] = Member(members[-1].key, members[-1].start, members[-1].node, at)
                at = self.space(at + 1)
        made: Any = [one.node.value for one in members]
        if is_object:
            made = {one.key: one.node.value for one in members}
        return Node(made, start, at + 1, tuple(members))

    def _member(self, start: int, depth: int) -> Member:
        if self.text[start : start + 1] in ("'", '"'):
            name = self._string(start)
        elif (found := _NAME.match(self.text, start)) and not found[0][0].isdigit():
            name = Node(re.sub(r"\\u(.{4})", lambda one: chr(int(one[1], 16)), found[0]), start, found.end())
        else:
            raise self.wrong(start, "a name is missing")
        colon = self.space(name.end)
        if self.text[colon : colon + 1] != ":":
            raise self.wrong(colon, "a colon is missing")
        return Member(str(name.value), start, self.value(self.space(colon + 1), depth + 1))

    def _string(self, start: int) -> Node:
        quote, at, pieces = self.text[start], start + 1, []
        while (char := self.text[at : at + 1]) != quote:
            if found := _PLAIN.match(self.text, at):
                pieces.append(found[0])
                at = found.end()
            elif char == "\\":
                piece, at = self._escape(at + 1)
                pieces.append(piece)
            elif char in ("'", '"'):
                pieces.append(char)
                at += 1
            else:
                raise self.wrong(start, "a text does not end")
        made = "".join(pieces)
        if _HALF.search(made):  # two escapes may be one character
            made = made.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        return Node(made, start, at + 1)

    def _escape(self, at: int) -> tuple[str, int]:
        """What stands behind a backslash, and where it ends."""
        char = self.text[at : at + 1]
        for letter, digits in (("u", 4), ("x", 2)):
            code = self.text[at + 1 : at + 1 + digits]
            if char == letter:
                if not re.fullmatch(f"[0-9a-fA-F]{{{digits}}}", code):
                    raise self.wrong(at, "an escape is incomplete")
                return chr(int(code, 16)), at + 1 + digits
        if char in ("\n", "\r", "\u2028", "\u2029"):
            return "", at + 2 if self.text[at : at + 2] == "\r\n" else at + 1
        return _ESCAPES.get(char, char), at + 1


def _number(sign: str, digits: str) -> int | float:
    """A number as Python has it: whole ones stay whole."""
    if digits[:2] in ("0x", "0X"):
        found: int | float = int(digits, 16)
    elif digits.isdigit():
        found = int(digits)
    else:
        found = float(digits.replace("Infinity", "inf"))
    return -found if sign == "-" else found
