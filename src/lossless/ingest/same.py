"""Telling a rewritten copy of a message from another message."""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING

from lossless.model.inbound import words_in_frame
from lossless.model.messages import Text
from lossless.store.skeleton import storable

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
#: What a host puts around a text: fences, a bracketed or tagged piece, a line that heads such a piece, a host's own
#: line about an event or about pictures.
_FRAME = re.compile(
    r"```.*?```|<([\w-]+)[^<>]*>.*?</\1>|^System: \[[^\[\]\n]*\][^\n]*$|^To send an image back,[^\n]*$"
    r"|\[[^\[\]]*\]|<[^<>]*>|\{[^{}]*\}|^[^\n]{0,80}:$",
    re.DOTALL | re.MULTILINE,
)
_REDACTED = re.compile(r"redact|mask|remov|omit|truncat|clear|hidden|x{3,}", re.IGNORECASE)
#: What a host writes where it has cut a text: it begins with a sign, and says that something is missing.
_NOTICE = re.compile(
    r"\s*(?:…|\.{3}|[\[(<{*⚠])[^\n]{0,300}?"
    r"(?:truncat|omitted|elided|cut off|more (?:char|line|byte|token|word))[^\n]{0,300}",
    re.IGNORECASE,
)
#: Characters that nobody sees, and the colours of a terminal.
_UNSEEN = re.compile(r"[\u00ad\u200b\u200e\u200f\u2060\ufeff]|\x1b\[[0-9;]*[A-Za-z]")
#: Bytes that were written as text, and the name of the place where a host has put them instead.
_BYTES = re.compile(r"(?:data:[\w/+.;=-]{1,100},)?[A-Za-z0-9+/_-]{200,}={0,2}")
_PLACE = re.compile(r"\S{0,200}/\S+")
_BULLET, _NUMBERED = (
    re.compile(r"^[ \t]*[-*+•][ \t]", re.MULTILINE),
    re.compile(r"^[ \t]*\d{1,3}[.)][ \t]", re.MULTILINE),
)


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

    What was cut off or masked makes no edit, nor does a frame of brackets, tags or fences around the text, another
    encoding of the same characters, nor another result of the same call. Words added in the open do: they would be
    stored nowhere else.
    """
    if stored.role == "system" or is_certain_copy(stored, copy) or _REFERENCE.search(stored.content):
        return False
    return _brings_words(_plain(stored.content), _plain(copy.content))


def is_retold(stored: Message, copy: Message) -> bool:
    """Whether a message under the id of a stored one says only what that one says, in whatever frame.

    One of which only a mask is stored may say anything.
    """
    if stored.role != copy.role:
        return False
    if _is_masked(stored.content):
        return True
    if stored.role == "user" and not stored.content.strip():
        return re.search(r"\w", _FRAME.sub(" ", copy.content)) is None
    if not is_edited(stored, copy):
        return True
    if stored.role != "user":
        return False
    mine, theirs = (words_in_frame(message.content) or message.content for message in (stored, copy))
    return not _brings_words(_plain(mine), _plain(theirs))


def is_unmasked(stored: Message, copy: Message) -> bool:
    """Whether a message is the one of which only a masked or shortened form is stored."""
    return stored.role == copy.role and _MASK.search(stored.content) is not None and not is_edited(copy, stored)


def goes_on(stored: Message, copy: Message) -> bool:
    """Whether an answer is the beginning of another one that says more, be that a list in brackets or fenced code."""
    begun = "" if _is_wordless(stored) else stored.content.rstrip()
    if stored.role != "assistant" or copy.role != "assistant" or not copy.content.startswith(begun):
        return False
    added = _MASK.sub(lambda label: "" if _REDACTED.search(label[0]) else label[0], copy.content[len(begun) :]).strip()
    added = added if begun else re.sub(r"<[^<>]{0,80}>", "", added)
    return re.search(r"\w", added) is not None and _NOTICE.fullmatch(added) is None


def _is_wordless(message: Message) -> bool:
    """Whether the blocks of a message hold no text; its content tells of them in JSON then."""
    return bool(message.parts) and all(isinstance(part, Text) and not part.text.strip() for part in message.parts)


def _is_masked(text: str) -> bool:
    """Whether nothing is left of a text but marks of what was taken out."""
    labels = [found[0] for found in _MASK.finditer(text)]
    return any(map(_REDACTED.search, labels)) and re.search(r"\w", _MASK.sub("", text)) is None


def _plain(text: str) -> str:
    """A text as it is read, however its characters are written."""
    return unicodedata.normalize("NFC", _UNSEEN.sub("", html.unescape(storable(text[:_MAX_CHARS])))).strip()


def _brings_words(mine: str, theirs: str) -> bool:
    if mine and mine in theirs:
        before, _, after = theirs.partition(mine)
        return any(re.search(r"\w", _FRAME.sub(" ", added)) for added in (before, after))
    if _is_cut(mine, theirs) or _is_cut(_FRAME.sub("", mine).strip(), theirs):
        return False
    if _BYTES.search(mine) and not _BYTES.search(theirs):
        theirs = _PLACE.sub(" ", theirs)
    if _BULLET.search(mine):
        theirs = _NUMBERED.sub("", theirs)
    theirs = _MASK.sub(" ", theirs).strip()
    if theirs in mine:
        return False
    said = Counter(_WORDS.findall(mine))
    added = Counter(word for word in _WORDS.findall(theirs) if word.isalnum()) - said
    return any(not _REDACTED.search(word) and not _is_piece(word, said) for word in added)


def _is_cut(mine: str, theirs: str) -> bool:
    """Whether a text is the beginning of a longer one, and maybe its end, with a notice of what is missing."""
    if len(theirs) >= len(mine):
        return False
    start = next((n for n, (one, other) in enumerate(zip(mine, theirs, strict=False)) if one != other), len(theirs))
    found = _NOTICE.match(theirs, start)
    return found is not None and mine.endswith(theirs[found.end() :].strip())


def _is_piece(word: str, said: Iterable[str]) -> bool:
    """Whether a word is what is left of a longer one that was cut."""
    return any(len(whole) > len(word) + 2 and (whole.startswith(word) or whole.endswith(word)) for whole in said)
