"""Compares two wordings of one message: their similarity, and whether one is a reduction of the other by its host.

Pure. Similarity only decides where text belongs, never whether it is stored.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from lossless.formats.reading import is_provider_id
from lossless.ingest.synthetic import is_referenced
from lossless.model.identity import canonical_arguments, words_in_frame
from lossless.model.js_json import storable_text, stringify_js
from lossless.model.messages import File, Opaque, Reasoning

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lossless.model.messages import Message, ToolCall

#: Texts are compared by at most so many characters, to bound the cost.
_MAX_CHARS = 20_000
#: The shares of the shorter and the longer text's words that two similar texts have in common.
_OF_SHORTER, _OF_LONGER = 0.6, 0.25
#: So many words, all in a text less than twice as long, are not a coincidence.
_SEVERAL = 4
#: From so many words on, this share of the shorter text's must have the same neighbour in both.
_MANY, _TOGETHER = 8, 0.3
#: Texts this short may be repeated at any time.
_SHORT_CHARS = 16
#: The minimum share of a row's text in the pieces it is shown in.
_OF_PIECES = 0.8
#: The longest text that is compared with pieces in other words.
_MAX_PIECED = 8_000
#: How much the length ratios of translated messages may vary.
_SPREAD = 1.4
#: So many longer messages tell a translation from another conversation; fewer, if both have the same numbers.
_RATIOS, _FEW_RATIOS = 4, 2
#: Words, and single characters of scripts without spaces.
_WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_NUMBER = re.compile(r"\d+")
#: Half a character in JSON; a prompt has the replacement character there.
_HALF = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
#: The reference in place of a stored message's payload.
_REFERENCE = re.compile(r"\[LCM (?:File|Tool Output|Raw Payload): file_|LCM file: file_")
#: What a host writes in place of removed text: a label in brackets, asterisks, a sentence that says so.
_LABEL = re.compile(r"\[[^\[\]]{0,200}\]|<[^<>]{0,200}>|\{[^{}]{0,80}\}|\([^()]{0,120}\)|\*{3,}|█+|…|\.{3}")
#: The same in what people and models say: remarks in parentheses are their own words.
_FIRM_LABEL = re.compile(r"\[[^\[\]]{0,300}\]|<[^<>]{0,200}>|\*{3,}|█+|…|\.{3}")
_TAKEN_OUT = re.compile(
    r"redact|mask|remov|omit|truncat|clear|hidden|elid|trimm|prun|compact|shorten|left out|cut off|snip|x{3,}"
    r"|placeholder|persisted|more (?:char|line|byte|token|word)|no longer|not shown|^(?:\*{3,}|█+|…|\.{3})$",
    re.IGNORECASE,
)
#: The minimum length of a text that was cut off with just an ellipsis, and of the beginning of a shorter one.
_LONG, _HEAD = 200, 40
_ELLIPSES = ("…", "...")
#: A mark in place of a result that is not there yet.
_PENDING = re.compile(r"[(\[<][^\W\d_][^()\[\]<>\n\"':,]{0,80}[)\]>]")
#: A line in which a host says that it has cut a text.
_CUT_LINE = re.compile(
    r"[^\n]{0,200}?(?:truncat|omitted|elided|cut off|left out|more (?:char|line|byte|token|word))[^\n]{0,200}",
    re.IGNORECASE,
)
#: A host's marker for omitted messages.
_GAP = re.compile(
    r"[^\n]{0,80}(?:messages?|turns?|history|conversation|context)[^\n]{0,60}"
    r"(?:omit|truncat|remov|drop|left out|hidden|trimm|skipp|elid)[^\n]{0,80}",
    re.IGNORECASE,
)
#: What hosts put around a user's text: tagged blocks, and lines in brackets.
_DECORATION = re.compile(
    r"<([\w-]+)[^<>]*>.*?</\1>|^\[[^\[\]\n]*\](?:[ \t]|$)|^\([^()\n]*\)[ \t]*$", re.DOTALL | re.MULTILINE
)
#: The beginning of a line that a host has put before a text.
_LABELLED = re.compile(r"(?:^|\n)[^\W\d]\w*: $")
#: A label before the rest of a line, as in "Question: yes".
_LABEL_BEFORE = re.compile(r"[^\W\d][\w ]{0,20}: ")
#: What programs that remove personal data write in place of a word, with punctuation around it.
_MASKED = re.compile(r"[^\w\[<]*(?:(?:\[[A-Z][A-Z_ ]*\d*\]|<[A-Z][A-Z_ ]*\d*>)[^\w\[<]*)+")
#: Quotation marks and spaces of typesetting, as a keyboard has them.
_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d\u00a0", "''\"\" ")
#: Invisible characters, and terminal colours.
_UNSEEN = re.compile(r"[\u00ad\u200b\u200e\u200f\u2060\ufeff]|\x1b\[[0-9;]*[A-Za-z]")
#: A URL that replaces bytes.
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s<>()\[\]]+")
#: Bytes encoded as text.
_BYTES = re.compile(r"(?:data:[\w/+.;=-]{1,100},)?[A-Za-z0-9+/_-]{200,}={0,2}")


class MessageComparer(Protocol):
    """Compares shown messages and rows for the matcher; results are computed on demand."""

    def may_be(self, shown: int, row: int) -> bool:
        """Whether nothing contradicts it: the role, the ids of calls, the ids of the host."""

    def is_respelled(self, shown: int, row: int) -> bool:
        """Whether both have the same words but for spaces, case and typesetting, and the same calls."""

    def likeness(self, shown: int, row: int) -> float:
        """From 0 to 1; at least `match.ALIKE` for a version of the row."""

    def holds(self, shown: int, rows: Sequence[int]) -> bool:
        """Whether a message contains the text of all of these rows, in order."""

    def is_held(self, shown: Sequence[int], row: int) -> bool:
        """Whether these messages, in order, are the text of a row."""

    def uses_tools(self, row: int) -> bool:
        """Whether a row calls a tool or is the result of one."""

    def is_short(self, row: int) -> bool:
        """Whether a row is so short that others may be equal."""

    def is_gap_mark(self, shown: int) -> bool:
        """Whether a message only says that others were omitted."""

    def is_lesser(self, shown: int, row: int) -> bool:
        """Whether a message is a row shortened, masked or replaced by its host."""

    def are_rewritten(self, pairs: Sequence[tuple[int, int]]) -> bool:
        """Whether all messages are rows in different words, with the same numbers."""


def may_be_same(stored: Message, shown: Message) -> bool:
    """Whether two messages may be one event: the same role, and no different calls or results."""
    if stored.role != shown.role:
        return False
    for mine, theirs in (_calls(stored), _calls(shown)), (_results(stored), _results(shown)):
        if mine and theirs and not set(mine) & set(theirs):
            return False
    return bool(_results(stored)) == bool(_results(shown)) or not shown.parts


def score_likeness(stored: Message, shown: Message) -> float:
    """Similarity from 0 to 1; 1 for the same words in another frame, and results of one call.

    A call id that a host may reuse scores slightly less.
    """
    if not may_be_same(stored, shown):
        return 0.0
    if answered := set(_results(stored)) & set(_results(shown)):
        return 1.0 if any(map(is_provider_id, answered)) else 0.9
    same = {_call(part) for part in stored.tool_calls} & {_call(part) for part in shown.tool_calls}
    if same and (stored.content == shown.content or any(is_provider_id(id_) for id_, _, _ in same)):
        return 1.0
    if same and _text_likeness(_plain(stored.content), _plain(shown.content)) >= 0.5:
        return 1.0
    if stored.tool_calls and stored.content == shown.content and _named_calls(stored) == _named_calls(shown):
        is_sure = not is_short(stored)  # otherwise only the arguments tell a call from the next one under its id
        return 0.9 if is_sure else min(0.9, _text_likeness(_arguments(stored), _arguments(shown)))
    if stored.tool_calls and not shown.tool_calls and _tells_calls(stored, shown.content):
        return 1.0
    if (
        bool(stored.tool_calls) != bool(shown.tool_calls)
        and min(len(stored.content), len(shown.content)) <= _SHORT_CHARS
    ):
        # a very short text proves nothing next to a call; it may be the beginning of an answer that then calls
        is_begun = stored.content and not stored.tool_calls and shown.content.startswith(stored.content)
        return 0.9 if is_begun else 0.0
    if stored.role == "user":
        framed = words_in_frame(stored.content), words_in_frame(shown.content)
        if framed != (None, None) and (framed[0] or stored.content).strip() == (framed[1] or shown.content).strip():
            return 1.0
    score = _score_words(stored, shown)
    # a call is not an answer with some of its words
    return score if score >= 0.9 or bool(stored.tool_calls) == bool(shown.tool_calls) else 0.0


def _score_words(stored: Message, shown: Message) -> float:
    begun = stored.content.rstrip("\ufffd")  # a stream may be cut inside a character
    if stored.role == "assistant" and begun and shown.content.startswith(begun):
        is_sure = len(begun) > _SHORT_CHARS or _words_of(begun) == _words_of(shown.content)
        return 1.0 if is_sure else 0.9
    reference = _REFERENCE.search(stored.content)
    if reference and _is_same_but_files(stored, shown, reference.start()):
        return 1.0
    if reference and not (reference[0].startswith("LCM") and undecorated(stored.content)):  # its own words are gone
        return 0.75
    mine, theirs = _plain(stored.content), _plain(shown.content)
    score = _text_likeness(mine, theirs)
    return score if stored.role != "user" or score >= 0.9 else max(score, _end_likeness(mine, theirs))


def _is_same_but_files(stored: Message, shown: Message, reference: int) -> bool:
    """Whether two texts are equal without what hosts put around them, and the files may be those of the references."""
    files = replace(stored, content=stored.content[stored.content.rfind("[", 0, reference + 1) :])
    return undecorated(stored.content) == undecorated(shown.content) != "" and is_referenced(files, shown)


def _named_calls(message: Message) -> list[tuple[str | None, str]]:
    """The ids and names of a message's tool calls, without arguments."""
    return [(part.id, part.name) for part in message.tool_calls]


def is_short(message: Message) -> bool:
    """Whether a message is so short that others may be equal."""
    return len(message.content) <= _SHORT_CHARS and not any(is_provider_id(part.id) for part in message.tool_calls)


def may_be_called_again(message: Message) -> bool:
    """Whether nothing in a message is a call of its own: neither an id like no other nor long arguments."""
    calls = message.tool_calls
    ids = (*(call.id for call in calls), *(result.call_id for result in message.tool_results))
    return not any(map(is_provider_id, ids)) and all(len(stringify_js(call.arguments)) < _SHORT_CHARS for call in calls)


def may_be_said_again(message: Message) -> bool:
    """Whether a message is a few words that people and models repeat; a number makes them its own."""
    uses_tools = message.tool_calls or message.tool_results
    return is_short(message) and not uses_tools and _NUMBER.search(message.content) is None


def spelling(message: Message) -> tuple[object, ...] | None:
    """What stays of a message where a host strips it, or changes case and typesetting; None where that says nothing."""
    text = " ".join(_plain(message.content).casefold().split())
    has_files = any(isinstance(part, File | Opaque) for part in message.parts)
    if message.role == "system" or has_files or not (text or message.tool_calls):
        return None
    return text, *map(_call, message.tool_calls), *_results(message)


def reads_same(stored: Message, shown: Message) -> bool:
    """Whether both are the same as a person reads them: spelled alike, or longer texts with the same words in order."""
    if (spelled := spelling(shown)) is not None and spelled == spelling(stored):
        return True
    words = _words_of(_plain(shown.content))
    is_long = min(len(stored.content), len(shown.content)) > _SHORT_CHARS and not is_short(shown)
    has_parts = bool(shown.tool_calls or stored.tool_calls or shown.tool_results or stored.tool_results)
    return is_long and not has_parts and bool(words) and words == _words_of(_plain(stored.content))


def is_reduction(stored: Message, shown: Message, *, stands_for_several: bool = False) -> bool:
    """Whether the shown message is the stored one shortened, masked or replaced by a host.

    That requires a host's marker: fewer words, another order and other punctuation are edits. `stands_for_several`
    means that the same text is shown for different results.
    """
    if stands_for_several and stored.content != shown.content:
        return True
    if _lacks_payload(stored, shown) and _is_part_of(shown.content, stored.content):
        return True
    if _results(stored) == _results(shown) and len(_results(stored)) > 1:
        both = zip(stored.tool_results, shown.tool_results, strict=False)
        changed = [(mine.text, theirs.text) for mine, theirs in both if mine.text != theirs.text]
        if changed and all(_is_reduced(mine, theirs, is_result=True, has_parts=True) for mine, theirs in changed):
            return True
    return _is_reduced(stored.content, shown.content, is_result=shown.role == "tool", has_parts=bool(shown.parts))


def _is_reduced(mine: str, theirs: str, *, is_result: bool, has_parts: bool) -> bool:
    if mine == theirs or not mine.strip():
        return mine != theirs and is_result and _is_label(theirs, _LABEL)
    if not theirs.strip():  # in place of a mark for a pending result, it is the result
        return (has_parts or is_result) and undecorated(mine) != "" and not _PENDING.fullmatch(mine.strip())
    return _stands_for(theirs, mine, is_result=is_result) or _is_marked_part(mine, theirs, is_result=is_result)


def is_cut_result(stored: Message, shown: Message) -> bool:
    """Whether both are results of one call, and one is a host's reduction of the other."""
    if not set(_results(stored)) & set(_results(shown)):
        return False
    return is_reduction(stored, shown) or is_reduction(shown, stored)


def is_gap_mark(shown: Message) -> bool:
    """Whether a message only says that others were omitted."""
    return len(shown.content) <= 400 and _GAP.fullmatch(shown.content.strip()) is not None


def contains_all(shown: Message, rows: Sequence[Message]) -> bool:
    """Whether a message contains the text of all of these, in order."""
    texts = [row.content.strip() for row in rows]
    return all(texts) and (_follow_in(texts, shown.content) or _are_pieces(texts, shown.content, _OF_PIECES))


def is_contained(shown: Sequence[Message], row: Message) -> bool:
    """Whether these messages, in order, are the text of another one."""
    texts = [one.content.strip() for one in shown]
    is_most = sum(map(len, texts)) >= _OF_PIECES * len(row.content.strip())
    return all(texts) and ((is_most and _follow_in(texts, row.content)) or _are_pieces(texts, row.content, _OF_SHORTER))


def _are_pieces(texts: Sequence[str], whole: str, least: float) -> bool:
    """Whether texts have nearly all words of another one between them, in order: pieces of it that were edited."""
    size = sum(map(len, texts))
    if all(text in whole for text in texts):
        return False
    if len(whole) > _MAX_PIECED or not _OF_PIECES * size <= len(whole) <= size / _OF_PIECES:
        return False
    if any(len(text) <= _SHORT_CHARS and (text not in whole or len(text.split()) < 3) for text in texts):
        return False
    words, pieces = _words_of(_plain(whole)), [_words_of(_plain(text)) for text in texts]
    scale, start, shared = len(words) / max(1, sum(map(len, pieces))), 0.0, []
    for piece in pieces:
        end = start + scale * len(piece)
        around = words[max(0, round(start) - _SEVERAL) : round(end) + _SEVERAL]
        shared.append(_shared(piece, around))
        if shared[-1] < least * len(piece):
            return False
        start = end
    enough = _OF_PIECES * len(words)
    return sum(shared) >= enough > max(shared)


def are_rewritten(pairs: Sequence[tuple[Message, Message]]) -> bool:
    """Whether messages are others in different words, such as a translation: with the same numbers and length ratio.

    They must make the same tool calls, and no very short text is a long one. Less than that is another conversation. A
    host's frame does not count, and one number in so many messages may be written as a word.
    """
    if any(bool(stored.tool_calls) != bool(shown.tool_calls) for stored, shown in pairs):
        return False
    texts = [(stored.role, _bare(stored), _bare(shown)) for stored, shown in pairs]
    numbers = [(_numbers(mine), _numbers(theirs)) for role, mine, theirs in texts if role != "tool"]
    sizes = [(len(mine), len(theirs)) for _, mine, theirs in texts]
    ratios = [theirs / mine for mine, theirs in sizes if mine > _SHORT_CHARS and theirs > _SHORT_CHARS]
    if sum(mine != theirs for mine, theirs in numbers) > len(ratios) // _RATIOS:
        return False
    are_both = all((mine > _SHORT_CHARS) == (theirs > _SHORT_CHARS) or max(mine, theirs) < 40 for mine, theirs in sizes)
    has_numbers = any(mine and mine == theirs for mine, theirs in numbers)
    if not are_both or len(ratios) < (_FEW_RATIOS if has_numbers else _RATIOS):
        return False
    return max(ratios) <= _SPREAD * min(ratios) and 0.5 <= min(ratios) <= max(ratios) <= 2


def _bare(message: Message) -> str:
    return undecorated(message.content) or message.content


def _numbers(text: str) -> set[str]:
    return set(_NUMBER.findall(text))


def has_other_thinking(stored: Message, shown: Message) -> bool:
    """Whether a message has different thinking; a host that omits thinking only saves space."""
    theirs = [part.text for part in shown.parts if isinstance(part, Reasoning)]
    return bool(theirs) and theirs != [part.text for part in stored.parts if isinstance(part, Reasoning)]


def _calls(message: Message) -> list[str]:
    return [part.id for part in message.tool_calls if part.id is not None]


def _call(part: ToolCall) -> tuple[str | None, str, str]:
    """A call with its arguments, in whichever form; the id alone may be reused."""
    given = canonical_arguments(part.input)
    return part.id, part.name, _HALF.sub("\ufffd", given if isinstance(given, str) else stringify_js(given))


def _arguments(message: Message) -> str:
    return "\n".join(stringify_js(part.input) for part in message.tool_calls)


def _tells_calls(message: Message, text: str) -> bool:
    """Whether a text names all calls of a message: hosts without tool calls write them as text."""
    return all(is_provider_id(part.id) and str(part.id) in text and part.name in text for part in message.tool_calls)


def _results(message: Message) -> list[str]:
    return [part.call_id for part in message.tool_results if part.call_id is not None]


def _text_likeness(mine: str, theirs: str) -> float:
    if not mine or not theirs:
        return 0.0
    inner = _DECORATION.sub("", mine).strip(), _DECORATION.sub("", theirs).strip()
    bare = "\n".join(inner[0].split()), "\n".join(inner[1].split())
    if bare[0].casefold() == bare[1].casefold() != "":
        return 1.0
    for one, other in ((mine, theirs), inner) if all(inner) else ((mine, theirs),):
        short, long = sorted((one, other), key=len)
        if short in long and _is_whole_in(short, long):
            return 1.0
    if _has_gaps(mine, theirs) or _has_gaps(theirs, mine):
        return 0.9
    if _MASKED.fullmatch(mine) or _MASKED.fullmatch(theirs):  # nothing is left of it but its place
        return 0.5
    if all(bare):  # equal documents do not make different questions alike
        mine, theirs = bare
    if _LABEL.fullmatch(mine) and _LABEL.fullmatch(theirs):  # a notice with a count
        mine, theirs = _NUMBER.sub("0", mine), _NUMBER.sub("0", theirs)
    words = _words_of(mine), _words_of(theirs)
    shared, sizes = _shared(*words), sorted(map(len, words))
    weight, weights = _weigh((Counter(words[0]) & Counter(words[1])).elements()), sorted(map(_weigh, words))
    if not shared or weight < _OF_SHORTER * weights[0] or weight < _OF_LONGER * weights[1]:
        return 0.4 * shared / max(1, sizes[1])
    if shared == sizes[0] >= _SEVERAL and 2 * shared >= sizes[1]:  # words were removed, added or moved
        return 0.9
    together = _shared(*(list(pairwise(some)) for some in words))
    if sizes[0] >= _MANY and together < _TOGETHER * sizes[0]:  # the same subject, in other sentences
        return 0.4
    return 0.5 + 0.4 * shared / sizes[1]


def _words_of(text: str) -> list[str]:
    """The words of a text; an apostrophe does not divide one."""
    return _WORDS.findall(text.casefold().replace("'", ""))


def _has_gaps(text: str, whole: str) -> bool:
    """Whether a text is another one with labels in place of some words: everything around them is unchanged.

    Where no label says that words were removed, that must be most of it.
    """
    labels = {one for one in _FIRM_LABEL.findall(text) if one not in whole}
    kept = [piece for piece in (one.strip() for one in _FIRM_LABEL.split(text)) if piece] if labels else []
    size = sum(map(len, kept))
    is_marked = any(one not in _ELLIPSES and _TAKEN_OUT.search(one) for one in labels)
    return size > _SHORT_CHARS and (is_marked or 2 * size > len(whole)) and _follow_in(kept, whole)


def _end_likeness(mine: str, theirs: str) -> float:
    """How alike two texts are by their first and last line: a question after other documents, in a host's frame.

    A label before the question makes that certain: else it may be what a host asks of all documents.
    """
    both = mine.splitlines(), theirs.splitlines()
    is_framed = min(map(len, both)) >= 3 and both[0][0] == both[1][0] and both[0][-1] == both[1][-1]
    if not is_framed or len(both[0][-1].split()) < 2:
        return 0.0
    question = _LABEL_BEFORE.match(both[0][-1])
    if question is None:
        return 0.5
    return 0.9 if len(both[0][-1]) - question.end() > _SHORT_CHARS else 0.6


def _shared(first: Sequence[object], second: Sequence[object]) -> int:
    return sum((Counter(first) & Counter(second)).values())


def _weigh(words: Iterable[str]) -> float:
    """The number of words; two single letters, or characters of a script without spaces, count as one."""
    return sum(0.5 if len(word) == 1 else 1.0 for word in words)


def undecorated(text: str) -> str:
    """A text without what hosts put around it: tagged blocks, and lines in brackets."""
    return "\n".join(_DECORATION.sub("", text).split())


def _is_whole_in(short: str, long: str) -> bool:
    """Whether a text is in another one on separate lines, or is more than a word or two at either end of it.

    Or it is the last line, after a label: "Question: yes".
    """
    if f"\n{short}\n" in f"\n{long}\n" or (long.endswith(short) and _LABELLED.search(long[: -len(short)])):
        return True
    cut = len(long) - len(short)
    is_in_word = _WORDS.fullmatch(long[cut - 1 : cut + 1]) is not None
    is_end = long.startswith(short) or (long.endswith(short) and not is_in_word)
    return is_end and (len(_WORDS.findall(short)) > 2 or len(long) < 2 * len(short))


def _plain(text: str) -> str:
    """A text as read, with normalised characters and quotation marks."""
    seen = _UNSEEN.sub("", html.unescape(storable_text(text[:_MAX_CHARS])))
    return unicodedata.normalize("NFC", seen).translate(_QUOTES).strip()


def _lacks_payload(stored: Message, shown: Message) -> bool:
    """Whether files of a message are missing, or replaced by a reference."""

    def payloads(message: Message) -> int:
        return sum(isinstance(part, File | Opaque) for part in message.parts)

    had = payloads(stored) or len(_BYTES.findall(stored.content))
    return had > payloads(shown) and not _BYTES.search(shown.content)


def _is_part_of(part: str, whole: str) -> bool:
    pieces = [piece for piece in (one.strip() for one in _LABEL.split(_ADDRESS.sub("…", part))) if piece]
    return _follow_in(pieces, whole)


def _stands_for(text: str, whole: str, *, is_result: bool) -> bool:
    """Whether only a host's marker is left of a text; in place of another text it is an edit."""
    if text.strip() in whole:
        return False
    label = _LABEL if is_result else _FIRM_LABEL
    if _is_label(text, label):
        return not _is_label(whole, label)
    return is_result and len(text.strip()) < len(whole) and _is_cut_line(text) and not _is_cut_line(whole)


def _is_label(text: str, label: re.Pattern[str]) -> bool:
    labels = label.findall(text)
    return bool(labels) and not re.search(r"\w", label.sub("", text)) and any(map(_TAKEN_OUT.search, labels))


def _is_cut_line(text: str) -> bool:
    return _CUT_LINE.fullmatch(text.strip()) is not None


def _is_marked_part(mine: str, theirs: str, *, is_result: bool) -> bool:
    """Whether a text is another one with markers in place of words: everything around the markers is unchanged."""
    heads = [theirs.removesuffix(end) for end in _ELLIPSES if theirs.endswith(end)]
    if any(len(head) >= _HEAD and mine.startswith(head) for head in heads):
        return True
    label = _LABEL if is_result else _FIRM_LABEL
    marks = [found for found in label.finditer(theirs) if _TAKEN_OUT.search(found[0]) and found[0] not in mine]
    if all(found[0] in _ELLIPSES for found in marks) and len(mine) < _LONG:
        marks = []
    if (marks or is_result) and _is_cut_at_a_line(mine, theirs):
        return True
    if not marks:
        return False
    pieces, at = [], 0
    for found in marks:
        pieces.append(theirs[at : found.start()])
        at = found.end()
    pieces.append(theirs[at:])
    kept = [piece.strip() for piece in pieces if piece.strip()]
    return 0 < sum(map(len, kept)) < len(mine.strip()) and _follow_in(kept, mine)


def _is_cut_at_a_line(mine: str, theirs: str) -> bool:
    """Whether a text begins, and possibly ends, like another one, and a line between says that words are missing.

    That line is shorter than what it stands for.
    """
    start = next((n for n, (one, other) in enumerate(zip(mine, theirs, strict=False)) if one != other), len(theirs))
    first = start + len(theirs[start:]) - len(theirs[start:].lstrip())
    found = _CUT_LINE.match(theirs, first)
    if found is None or "\n" not in theirs[max(0, start - 1) : first] or found[0].strip() in mine:
        return False
    return len(theirs) < len(mine) and mine.rstrip().endswith(theirs[found.end() :].strip())


def _follow_in(pieces: Sequence[str], text: str) -> bool:
    """Whether a text contains all pieces, in order."""
    at = 0
    for piece in pieces:
        at = text.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True
