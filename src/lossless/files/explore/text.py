"""Prose, logs, diffs and whatever else is text: size, headers, excerpts, and what it looks like."""

from __future__ import annotations

import re

from lossless.files.explore.logs import log_lines
from lossless.files.explore.shapes import looks_like_json
from lossless.files.explore.words import SMALL_CHARS, item, listed, one_line, plural

#: How every summary of prose begins that is made here.
HEADING = "Text exploration summary ("
_EXCERPT_CHARS = 500
_MAX_HEADERS = 18
_HEAD_BYTES = 65_536
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_MARKDOWN = re.compile(r"^[ \t]{0,3}#{1,6}[ \t]+(\S.{0,200})", re.MULTILINE)
_CAPITALS = re.compile(
    r"^(?=.{4,80}$)[A-ZÀ-ÖØ-Þ][A-ZÀ-ÖØ-Þ0-9 ,:&/()'-]*[A-ZÀ-ÖØ-Þ]{2}[A-ZÀ-ÖØ-Þ0-9 ,:&/()'-]*$", re.MULTILINE
)
_UNDERLINED = re.compile(r"^(\S.{1,100})\n(?:={3,}|-{3,})[ \t]*$", re.MULTILINE)
_DIFF = re.compile(r"^(?:diff --git a/(\S{1,400})|\+\+\+ b/(\S{1,400}))", re.MULTILINE)
_HUNKS = re.compile(r"^@@ ", re.MULTILINE)
_DELIMITERS = ("\t", ";", ",", "|")
_TABLE_ROWS = 50


def is_binary(data: bytes) -> bool:
    """Whether bytes are no text in UTF-8, UTF-16 or a one-byte encoding."""
    head = data[:_HEAD_BYTES]
    if head.startswith(_UTF16):
        return False
    if b"\0" in head:
        return True
    broken = head.decode("utf-8", "replace").count("\ufffd")
    return broken > 4 and broken * 4 > len(head)


def decoded_text(data: bytes) -> str:
    """Bytes as text; what cannot be read shows as U+FFFD."""
    return data.decode("utf-16" if data.startswith(_UTF16) else "utf-8-sig", "replace")


def text_summary(text: str, name: str | None) -> str:
    """Size, section headers, beginning and end; for more than a few lines also what kind of text it looks like."""
    lines = [
        f"{HEADING}{item(name or 'unnamed')}):",
        f"Characters: {len(text):,}.",
        f"Words: {len(text.split()):,}.",
        f"Lines: {text.count(chr(10)) + 1:,}.",
        listed("Detected section headers", headers(text), _MAX_HEADERS, " | "),
        f"Opening excerpt: {one_line(text[:_EXCERPT_CHARS])}.",
        f"Closing excerpt: {one_line(text[-_EXCERPT_CHARS:])}.",
    ]
    if len(text) > SMALL_CHARS:
        found = looks_like_json(text) or _diff(text) or log_lines(text) or _table(text)
        lines += [found] if found else []
    return "\n".join(lines)


def headers(text: str) -> list[str]:
    """Headings of Markdown and lines in capitals, in order, each once.

    >>> headers("# One\\n\\nTHE SECOND PART\\nwords\\n\\nThree\\n-----\\n")
    ['One', 'THE SECOND PART', 'Three']
    """
    found: list[tuple[int, str]] = []
    for pattern, group in ((_MARKDOWN, 1), (_CAPITALS, 0), (_UNDERLINED, 1)):
        found += [(match.start(), match[group].strip().rstrip("#").strip()) for match in pattern.finditer(text)]
    return list(dict.fromkeys(header for _, header in sorted(found) if header))


def _diff(text: str) -> str | None:
    if "@@ " not in text:
        return None
    files = list(dict.fromkeys(a or b for a, b in _DIFF.findall(text)))
    hunks = len(_HUNKS.findall(text))
    if not files or not hunks:
        return None
    added = len(re.findall(r"^\+(?!\+\+)", text, re.MULTILINE))
    removed = len(re.findall(r"^-(?!--)", text, re.MULTILINE))
    size = f"{plural(hunks, 'hunk')}, {plural(added, 'line')} added, {removed:,} removed"
    return f"It is a diff: {size}.\n" + listed("Files", files, 18)


def _table(text: str) -> str | None:
    """Columns of a text whose first lines all have the same number of delimiters."""
    rows = [row for row in text[: 400 * _TABLE_ROWS].split("\n") if row.strip()][: _TABLE_ROWS + 1]
    if text.count("\n") > len(rows):
        rows = rows[:-1]
    if len(rows) < 5:
        return None
    for delimiter in _DELIMITERS:
        counts = {row.count(delimiter) for row in rows}
        if len(counts) == 1 and counts != {0} and max(map(len, rows)) < 2000:
            columns = [cell.strip().strip('"') for cell in rows[0].split(delimiter)]
            named = {"\t": "tab", "|": "bar", ";": "semicolon", ",": "comma"}[delimiter]
            return f"It looks like a table ({named}-separated). " + listed("Columns", columns, 30)
    return None
