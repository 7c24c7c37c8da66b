"""Telling a rewritten copy of a message from another message."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lossless.model.messages import Message

#: Where a payload was put into a file: blocks of text, tool outputs, raw messages, images.
_REFERENCE = re.compile(r"\[LCM (?:File|Tool Output|Raw Payload): file_|LCM file: file_")
_WORDS = re.compile(r"\w+|[^\w\s]")
#: Texts are compared by this many words at most, so that the cost stays small whatever their length.
_MAX_CHARS = 20_000
_SHARED = 0.6


def is_same_result(stored: Message, copy: Message) -> bool:
    """Whether both are results of the same calls, whatever they say."""
    calls = [part.call_id for part in stored.tool_results]
    return bool(calls) and None not in calls and calls == [part.call_id for part in copy.tool_results]


def is_rewritten(stored: Message, copy: Message) -> bool:
    """Whether `copy` is the stored message after a host redacted, decorated or shortened it.

    The caller has seen that the next message lines up. Tool results are the same by their call; a system
    prompt keeps its place whatever it says, and so does a text that was stored as a reference to a file; other
    texts must share most of their words.
    """
    if stored.role != copy.role:
        return False
    if stored.role == "system" or is_same_result(stored, copy) or _REFERENCE.search(stored.content):
        return True
    mine, theirs = stored.content[:_MAX_CHARS].strip(), copy.content[:_MAX_CHARS].strip()
    if not mine or not theirs:
        return [part.id for part in stored.tool_calls] == [part.id for part in copy.tool_calls] != []
    if mine in theirs or theirs in mine:
        return True
    first, second = Counter(_WORDS.findall(mine)), Counter(_WORDS.findall(theirs))
    shared = sum((first & second).values())
    return shared >= _SHARED * min(sum(first.values()), sum(second.values()))
