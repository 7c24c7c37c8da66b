"""Thinking that models leave in the text of an answer, between tags."""

from __future__ import annotations

import re

_TAG = re.compile("<(?:think|reasoning)", re.IGNORECASE)
#: A tag that opens thinking, with what stands before it in its line if that is blank. In backquotes it is talk of tags.
_OPENING = re.compile(r"(^[ \t]*)?(?<!`)<(think|thinking|reasoning)\b[^<>]*>", re.IGNORECASE | re.MULTILINE)
_CLOSING = {tag: re.compile(rf"</{tag}\b[^<>]*>", re.IGNORECASE) for tag in ("think", "thinking", "reasoning")}


def remove_reasoning(text: str) -> str:
    """A text without thinking blocks; one that opens a line and is never closed takes the rest along."""
    if _TAG.search(text) is None:
        return text
    kept: list[str] = []
    never_closed: set[str] = set()
    position = search = 0
    while opening := _OPENING.search(text, search):
        tag = opening[2].lower()
        closing = None if tag in never_closed else _CLOSING[tag].search(text, opening.end())
        if closing is not None:
            kept.append(text[position : opening.start()])
            position = search = closing.end()
        elif opening[1] is not None:
            return ("".join(kept) + text[position : opening.start()]).strip()
        else:
            never_closed.add(tag)
            search = opening.end()
    return ("".join(kept) + text[position:]).strip() if kept else text
