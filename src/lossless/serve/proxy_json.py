"""JSON objects that know where their values stand, and long lists that are not read again and again.

Clients send what they sent before, and a little more: of such a list only what is new is read.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput

if TYPE_CHECKING:
    from lossless.exchange.dialect import Raw

_BLANKS = re.compile(r"[ \t\n\r]*")
#: Lists of so many characters are worth remembering, and so many lists are.
_LEAST, _MOST, _REMEMBERED = 4_096, 1 << 20, 8


@dataclass(slots=True)
class Lists:
    """The last long lists that were read, each up to the end of its last member; what they hold is never changed."""

    _known: list[tuple[str, list[Any]]] = field(default_factory=list)

    def read(self, text: str, start: int) -> tuple[list[Any], int]:
        """The list that begins here, and where it ends. It shares its members with the one that it goes on from."""
        begun = [known for known in self._known if text.startswith(known[0], start)]
        if begun:
            longest = max(begun, key=lambda known: len(known[0]))
            self._known = [known for known in self._known if known is not longest]
            members, end = _gone_on(text, start + len(longest[0]), [*longest[1]])
        else:
            members, end = READER.raw_decode(text, start)
        if _LEAST <= end - start <= _MOST:
            whole = text[start : end - 1].rstrip(" \t\n\r")
            if whole.endswith("}"):  # a number might go on
                self._known = [*self._known[1 - _REMEMBERED :], (whole, members)]
        return members, end


def read_object(text: str, lists: Lists) -> tuple[Raw, dict[str, tuple[int, int]]]:
    """The object that a text is, and where each of its values stands; raises ValueError for anything else.

    Raises BadInput for a number without end.
    """
    raw: Raw = {}
    places: dict[str, tuple[int, int]] = {}
    at = behind("{", text, 0)
    is_over = text.startswith("}", at)
    at = behind("}", text, at) if is_over else at
    while not is_over:
        key, at = READER.raw_decode(text, at)
        start = behind(":", text, at)
        value, end = lists.read(text, start) if text.startswith("[", start) else READER.raw_decode(text, start)
        if not isinstance(key, str):
            raise ValueError(key)
        raw[key], places[key] = value, (start, end)
        at = blank(text, end)
        is_over = not text.startswith(",", at)
        at = behind("}" if is_over else ",", text, at)
    if at != len(text):
        raise ValueError(at)
    return raw, places


def _gone_on(text: str, at: int, members: list[Any]) -> tuple[list[Any], int]:
    """The list with the members that stand behind a place, and where it ends."""
    at = blank(text, at)
    while not text.startswith("]", at):
        member, end = READER.raw_decode(text, behind(",", text, at))
        members.append(member)
        at = blank(text, end)
    return members, at + 1


def behind(mark: str, text: str, at: int) -> int:
    """The place behind a mark and the blanks around it; raises ValueError when it is not there."""
    at = blank(text, at)
    if not text.startswith(mark, at):
        raise ValueError(at)
    return blank(text, at + 1)


def blank(text: str, at: int) -> int:
    """The place behind blanks."""
    found = _BLANKS.match(text, at)
    return at if found is None else found.end()


def _number(text: str) -> float:
    number = float(text)
    if isfinite(number):
        return number
    raise BadInput(f"the request has {text:.40} where a number belongs: JSON has no such number")


READER = json.JSONDecoder(parse_float=_number, parse_constant=_number)
