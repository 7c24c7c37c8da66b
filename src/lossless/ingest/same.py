"""Telling a rewritten copy of a message from another message."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from lossless.model.inbound import words_in_frame

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lossless.model.messages import Message

#: Where a payload was put into a file: blocks of text, tool outputs, raw messages, images.
_REFERENCE = re.compile(r"\[LCM (?:File|Tool Output|Raw Payload): file_|LCM file: file_")
_WORDS = re.compile(r"\w+|[^\w\s]")
#: Texts are compared by this many words at most, so that the cost stays small whatever their length.
_MAX_CHARS = 20_000
_SHARED = 0.6
#: What stands for words that were taken out: a label in brackets, stars, an ellipsis.
_MASK = re.compile(r"\[[^\[\]]{0,80}\]|<[^<>]{0,80}>|\{[^{}]{0,80}\}|\*{2,}|…|\.{3}")
#: What a host puts around a text: fences, a bracketed or tagged piece, a line that heads such a piece.
_FRAME = re.compile(
    r"```.*?```|<([\w-]+)[^<>]*>.*?</\1>|\[[^\[\]]*\]|<[^<>]*>|\{[^{}]*\}|^[^\n]{0,80}:$", re.DOTALL | re.MULTILINE
)
_REDACTED = re.compile(r"redact|mask|remov|omit|truncat|clear|hidden|x{3,}", re.IGNORECASE)


def is_same_result(stored: Message, copy: Message) -> bool:
    """Whether both are results of the same calls, whatever they say."""
    calls = [part.call_id for part in stored.tool_results]
    return bool(calls) and None not in calls and calls == [part.call_id for part in copy.tool_results]


def is_certain_copy(stored: Message, copy: Message) -> bool:
    """Whether that both are one event needs no further proof: results of the same calls, or a user's words in a frame.

    Two frames around the same words are two messages, unless all that stays the same in them agrees.
    """
    if stored.role != "user" or copy.role != "user":
        return is_same_result(stored, copy)
    mine, theirs = words_in_frame(stored.content), words_in_frame(copy.content)
    if (mine is None) == (theirs is None):
        return False
    return (mine or stored.content.strip()) == (theirs or copy.content.strip())


def is_rewritten(stored: Message, copy: Message) -> bool:
    """Whether `copy` is the stored message after a host redacted, decorated or shortened it.

    The caller has seen that the next message lines up. Tool results are the same by their call; a system
    prompt keeps its place whatever it says, and so does a text that was stored as a reference to a file; other
    texts must share most of their words.
    """
    if stored.role != copy.role:
        return False
    if stored.role == "system" or is_certain_copy(stored, copy) or _REFERENCE.search(stored.content):
        return True
    mine, theirs = stored.content[:_MAX_CHARS].strip(), copy.content[:_MAX_CHARS].strip()
    if not mine or not theirs:
        return [part.id for part in stored.tool_calls] == [part.id for part in copy.tool_calls] != []
    if mine in theirs or theirs in mine:
        return True
    first, second = Counter(_WORDS.findall(mine)), Counter(_WORDS.findall(theirs))
    shared = sum((first & second).values())
    return shared >= _SHARED * min(sum(first.values()), sum(second.values()))


def is_edited(stored: Message, copy: Message) -> bool:
    """Whether a message that resembles a stored one brings words of its own, so that it is no mere copy of it.

    What was cut off or masked makes no edit, nor does a frame of brackets, tags or fences around the text, nor
    another result of the same call. Words added in the open do: they would be stored nowhere else.
    """
    if stored.role == "system" or is_certain_copy(stored, copy) or _REFERENCE.search(stored.content):
        return False
    mine, theirs = stored.content[:_MAX_CHARS].strip(), copy.content[:_MAX_CHARS].strip()
    if mine and mine in theirs:
        before, _, after = theirs.partition(mine)
        return any(re.search(r"\w", _FRAME.sub(" ", added)) for added in (before, after))
    theirs = _MASK.sub(" ", theirs).strip()
    if theirs in mine:
        return False
    said = Counter(_WORDS.findall(mine))
    added = Counter(word for word in _WORDS.findall(theirs) if word.isalnum()) - said
    return any(not _REDACTED.search(word) and not _is_piece(word, said) for word in added)


def _is_piece(word: str, said: Iterable[str]) -> bool:
    """Whether a word is what is left of a longer one that was cut."""
    return any(len(whole) > len(word) + 2 and (whole.startswith(word) or whole.endswith(word)) for whole in said)
