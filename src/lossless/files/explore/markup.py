"""XML and HTML: tags and headings, found without a parser, so that broken markup is no problem."""

from __future__ import annotations

import re
from collections import Counter

from lossless.files.explore.words import SMALL_CHARS, counted, item, listed, one_line

_TAG = re.compile(r"<([A-Za-z0-9_:-]{1,200})(?=[\s>])")
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{0,400})", re.IGNORECASE)
_HEADING = re.compile(r"<h([1-3])[^>]{0,400}>(.{0,200}?)</h\1>", re.IGNORECASE | re.DOTALL)
_INNER_TAG = re.compile(r"<[^>]{0,400}>")
_MAX_TAGS = 30


def xml_summary(text: str) -> str:
    """The root and the tags below it; for more than a few lines also how often they occur."""
    tags = _TAG.findall(text)
    root = tags[0] if tags else "unknown"
    below = [tag for tag in tags if tag != root]
    seen = ", ".join(map(item, dict.fromkeys(below[:_MAX_TAGS]))) or "none detected"
    lines = ["Structured summary (XML):", f"Root element: {item(root)}.", f"Child elements seen: {seen}."]
    if len(text) > SMALL_CHARS and below:
        lines.append(f"Most frequent: {counted(Counter(below).most_common(12))}.")
    return "\n".join(lines)


def html_summary(text: str) -> str:
    """Title, headings, and what the page is made of."""
    title = _TITLE.search(text)
    headings = [one_line(_INNER_TAG.sub(" ", inner)) for _, inner in _HEADING.findall(text)]
    tags = Counter(tag.lower() for tag in _TAG.findall(text))
    return "\n".join(
        [
            "Structured summary (HTML):",
            f"Characters: {len(text):,}.",
            f"Lines: {text.count(chr(10)) + 1:,}.",
            f"Title: {item(title[1]) if title else 'none detected'}.",
            listed("Headings", [heading for heading in headings if heading], 18, " | "),
            f"Elements: {counted(tags.most_common(12)) or 'none detected'}.",
        ]
    )
