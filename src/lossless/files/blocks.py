"""`<file name="…" mime="…">…</file>`: the form in which hosts put a file into a user's text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_OPEN = re.compile(r"<file\b", re.IGNORECASE)
_TAG = re.compile(r"<file\b((?:[^>\"']|\"[^\"]*\"|'[^']*')*)>", re.IGNORECASE)
#: Longer tags are text, so that a thousand openings without an end cost little more than one.
_MAX_TAG = 500
_CLOSE = re.compile(r"</file\s{0,8}>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"([A-Za-z_:][\w:.-]*)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")


@dataclass(frozen=True, slots=True)
class FileBlock:
    """A file in a text: `[start, end)` is all of it, `[begin, stop)` what it holds."""

    start: int
    end: int
    begin: int
    stop: int
    text: str
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str | None:
        return self.attributes.get("name")

    @property
    def mime(self) -> str | None:
        return self.attributes.get("mime") or self.attributes.get("type")


def file_blocks(text: str) -> list[FileBlock]:
    """The file blocks of a text, in order; an opening without an end is text."""
    found: list[FileBlock] = []
    at = 0
    while (opened := _OPEN.search(text, at)) is not None:
        tag = _TAG.match(text, opened.start(), opened.start() + _MAX_TAG)
        if tag is None:
            at = opened.end()
            continue
        closed = _CLOSE.search(text, tag.end())
        if closed is None:
            break
        begin, stop = tag.end(), closed.start()
        attributes = {name.lower(): a or b or c for name, a, b, c in _ATTRIBUTE.findall(tag[1])}
        found.append(FileBlock(tag.start(), closed.end(), begin, stop, text[begin:stop], attributes))
        at = closed.end()
    return found
