"""Names of things: ids as agents write them, alone or inside a reference that they copied whole."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable

ReferenceKind: TypeAlias = Literal["summary", "file", "message"]

_MAX_MESSAGE_ID = 2**63 - 1
#: What the ids of other kinds look like; a suffix is lower-case, as they are made.
_ID = r"(?:sum|file)_[a-z0-9_-]{1,80}|msg[#:]\d{1,19}"
_BARE = re.compile(_ID)
_ANY_ID = re.compile(r"(?<![A-Za-z0-9_])(?:(?:sum|file)_[A-Za-z0-9_-]*|msg[#:]\d+)", re.IGNORECASE)
#: The heads of what stands in prompts and tool results for something that can be opened.
_HEADS = (
    re.compile(rf"\[LCM (?:Tool Output|File|Raw Payload): ({_ID})(?: \|[^\]]*)?\]", re.DOTALL),
    re.compile(rf"\[[A-Za-z]{{0,10}} ?[Ii]mage: [^\]]*\| LCM file: ({_ID})\]"),
    re.compile(rf"(?:- )?\[conv=\d+ ({_ID})(?: \([^\]]*\))?\]"),
    re.compile(rf'<summary id="({_ID})"'),
    re.compile(rf"LCM_(?:SUMMARY|MESSAGE) ({_ID})\b"),
)
_PASTED = _HEADS[:2]
_QUOTES = "`'\"“”‘’"
_EXAMPLES = "sum_…, file_… or msg#12"


@dataclass(frozen=True, slots=True)
class Reference:
    """What an id means."""

    kind: ReferenceKind
    id: str
    message_id: int = 0

    def __str__(self) -> str:
        return self.id


def message_reference(message_id: int) -> Reference:
    """The reference of a message."""
    return Reference("message", f"msg#{message_id}", message_id)


def parse(text: str, *, numbers: bool = True) -> Reference:
    """The one thing that a text names; `BadInput` says what is wrong with it.

    `numbers`: whether a bare number is a message id.

    >>> str(parse("[LCM Tool Output: file_0123456789abcdef | tool=exec | 1,234 bytes]")), str(parse("msg:12"))
    ('file_0123456789abcdef', 'msg#12')
    """
    stripped = text.strip().strip(_QUOTES).strip()
    if not stripped:
        raise BadInput(f"an id is needed: {_EXAMPLES}")
    if numbers and stripped.isascii() and stripped.isdigit():
        return _message(stripped)
    if _BARE.fullmatch(stripped):
        return _checked(stripped)
    for head in _HEADS:
        if found := head.match(stripped):
            others = {other for pasted in _PASTED for other in pasted.findall(stripped)} - {found[1]}
            if head in _PASTED and others:
                raise BadInput(_several([found[1], *sorted(others)]))
            return _checked(found[1])
    raise BadInput(_what_is_wrong(stripped))


def parse_all(texts: Iterable[str], *, kinds: tuple[ReferenceKind, ...]) -> tuple[Reference, ...]:
    """Each named thing once, in order; `BadInput` for one that is not of the wanted kinds."""
    found: dict[str, Reference] = {}
    for text in texts:
        reference = parse(text)
        if reference.kind not in kinds:
            raise BadInput(f"{reference.id!r} is a {reference.kind} id; needed here: {' or '.join(kinds)}")
        found[reference.id] = reference
    return tuple(found.values())


def mentioned(text: str) -> list[tuple[int, int, Reference]]:
    """Every id that stands in a text: where, and what it means. What only looks like one is left out."""
    found = []
    for match in _ANY_ID.finditer(text):
        id_ = match[0].rstrip("_-")
        if _BARE.fullmatch(id_) and not _is_empty(id_):
            found.append((match.start(), match.start() + len(id_), _checked(id_)))
    return found


def _checked(id_: str) -> Reference:
    if id_.startswith("msg"):
        return _message(id_[4:])
    if _is_empty(id_):
        raise BadInput(f"{id_!r} is a placeholder, not an id")
    return Reference("summary" if id_.startswith("sum_") else "file", id_)


def _message(digits: str) -> Reference:
    number = int(digits[:20])
    if not 0 < number <= _MAX_MESSAGE_ID:
        raise BadInput(f"msg#{digits[:24]} is not a message id")
    return message_reference(number)


def _is_empty(id_: str) -> bool:
    """Whether an id says nothing: zeros only."""
    if id_.startswith("msg"):
        return not 0 < int(id_[4:]) <= _MAX_MESSAGE_ID
    return not id_.partition("_")[2].strip("0_-")


def _what_is_wrong(text: str) -> str:
    ids = list(dict.fromkeys(match[0] for match in _ANY_ID.finditer(text)))
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    if len(ids) > 1:
        return _several(ids)
    if not ids:
        return f"{shown!r} is no id; ids look like {_EXAMPLES}"
    if ids[0] != ids[0].lower():
        return f"ids are lower-case: {ids[0]!r} is not one"
    if not ids[0].partition("_")[2] and not ids[0].startswith("msg"):
        return f"{ids[0]!r} has nothing after the underscore"
    return f"pass the id alone ({ids[0]!r}), or a whole reference in brackets"


def _several(ids: list[str]) -> str:
    return f"pass one id at a time, not {len(ids)}: {', '.join(ids[:3])}"
