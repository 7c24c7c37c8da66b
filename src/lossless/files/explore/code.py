"""Outlines of source code: what it depends on and what it defines, one line each, in a dozen languages."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from lossless.files.explore.languages import LANGUAGES, SQL
from lossless.files.explore.words import ITEM_CHARS, SMALL_CHARS, counted, item, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lossless.files.explore.languages import Language


__all__ = ["LANGUAGES", "code_summary"]

_MAX_IMPORTS, _MAX_DEFINITIONS, _MAX_MEMBERS = 12, 24, 24
_VERBS = "SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|WITH|MERGE|COPY|GRANT|TRUNCATE"
_VERB = re.compile(rf"^[ \t]*({_VERBS})\b", re.MULTILINE | re.IGNORECASE)


def code_summary(text: str, name: str | None, language: Language) -> str:
    """Lines, imports and top-level definitions; for more than a few lines also what is inside of classes."""
    lines = [f"Code exploration summary ({item(name or 'unnamed')}):", f"Lines: {text.count(chr(10)) + 1:,}."]
    if language is SQL:
        verbs = Counter(verb.upper() for verb in _VERB.findall(text))
        lines.append(f"Statements: {counted(verbs.most_common(12)) or 'none detected'}.")
    else:
        imports = list(dict.fromkeys(_lines(language.imports, text)))
        lines.append(listed("Imports/dependencies", imports, _MAX_IMPORTS, " | "))
    lines.append(listed("Top-level definitions", list(_lines(language.definitions, text)), _MAX_DEFINITIONS, " | "))
    if language.members is not None and len(text) > SMALL_CHARS:
        members = list(_lines(language.members, text))
        if members:
            lines.append(listed("Members", members, _MAX_MEMBERS, " | "))
    return "\n".join(lines)


def _lines(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """The lines at whose beginning the pattern matches, each cut to a bounded length."""
    for match in pattern.finditer(text):
        start = match.start()
        end = text.find("\n", start, start + ITEM_CHARS)
        yield text[start : end if end >= 0 else start + ITEM_CHARS].strip()
