"""What recall returns and how it reads: hits, ids, cursors, message text, and the limits on length."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lossless.errors import BadInput
from lossless.model.messages import (
    File,
    Json,
    Message,
    Opaque,
    Part,
    Reasoning,
    StoredMessage,
    Text,
    ToolCall,
    ToolResult,
)
from lossless.model.records import SearchPlace, pack_cursor, unpack_cursor
from lossless.model.times import row_time, state_time
from lossless.model.tokens import cut_to_tokens, estimate_tokens
from lossless.settings.setting import camel_case

if TYPE_CHECKING:
    from lossless.recall.query import TermFinder, TermMatch
    from lossless.recall.scope import GrepRequest, HitKind, Scope

#: The longest text that a tool returns, and what of it is left for everything but the content.
MAX_RESULT_CHARS = 40_000
MAX_CONTENT_CHARS = 36_000
#: A cut moves back to the end of a line when at most this share of the text is lost to the next page.
_SLACK = 0.2
_WORD = 32


@dataclass(frozen=True, slots=True)
class TextBudget:
    """Tokens and characters that are left."""

    tokens: int
    chars: int = MAX_CONTENT_CHARS

    def less(self, text: str, tokens: int | None = None) -> TextBudget:
        """What is left after a text."""
        taken = estimate_tokens(text) if tokens is None else tokens
        return TextBudget(self.tokens - taken, self.chars - len(text))

    @property
    def is_kept(self) -> bool:
        """Whether there is not less than nothing."""
        return self.tokens >= 0 and self.chars >= 0

    def head(self, text: str) -> str:
        """The beginning of a text that fits, up to the end of a line or of a word where that costs little."""
        fitting = cut_to_tokens(text[: max(0, self.chars)], self.tokens)
        if len(fitting) == len(text):
            return fitting
        line = fitting.rfind("\n") + 1
        if line > len(fitting) * (1 - _SLACK):
            return fitting[:line]
        return fitting[: fitting.rfind(" ", -_WORD) + 1] or fitting

    def tail(self, text: str) -> str:
        """The end of a text that fits."""
        start = max(0, len(text) - max(0, self.chars), len(text) - 4 * max(0, self.tokens))
        rest = range(start, len(text))
        return text[start + bisect_left(rest, True, key=lambda at: estimate_tokens(text[at:]) <= self.tokens) :]


def json_fields(value: object, fields: str) -> dict[str, Any]:
    """Some fields of a value for programs, times as texts: `created_at` as `createdAt`, `tokens=size` as `size`."""
    keys, read = _reader(fields)
    return {key: one if type(one) in _PLAIN else _json_value(one) for key, one in zip(keys, read(value), strict=False)}


@cache
def _reader(fields: str) -> tuple[list[str], Callable[[object], tuple[object, ...]]]:
    named = [field.partition("=") for field in fields.split()]
    names = [name for name, _, _ in named]
    return [key or camel_case(name) for name, _, key in named], attrgetter(*names, "__class__")  # two at least: a tuple


_PLAIN = frozenset((str, int, bool, type(None)))


def _json_value(value: object) -> object:
    if isinstance(value, datetime):
        return state_time(value)
    return list(value) if isinstance(value, tuple) else value


_VERSION = 1
_BAD = "the cursor cannot be used; take one from an earlier result, whole, or begin again without it"


def encode_cursor(resource: str, fields: dict[str, Any]) -> str:
    """The word for a place."""
    return pack_cursor({"v": _VERSION, "r": resource} | fields)


def decode_cursor(resource: str, word: str, kinds: dict[str, type]) -> dict[str, Any]:
    """The fields of a cursor, each of the kind that it should be; `BadInput` when it is none of this resource's."""
    fields = unpack_cursor(word.strip())
    if fields is None or fields.get("v") != _VERSION or fields.get("r") != resource:
        raise bad_cursor()
    if any(type(fields.get(name)) is not kind for name, kind in kinds.items()):
        raise bad_cursor()
    return fields


def bad_cursor() -> BadInput:
    """The error for a cursor whose place is not there."""
    return BadInput(_BAD)


NOTHING_FOUND_HINT = "Nothing in scope holds this."
_LARGEST = 1 << 62


#: A piece of a text on one line, and the matches in it.
Snippet: TypeAlias = tuple[str, tuple[tuple[int, int], ...]]


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message, a summary or a place in a file."""

    id: int | str
    kind: HitKind
    conversation_id: int
    #: Its place in the conversation; None for what is no message.
    seq: int | None
    #: Comparable within one search only; 0 in searches that do not rank.
    score: float
    snippet: str
    created_at: datetime
    role: str | None = None
    #: 0 for a leaf; None for what is no summary.
    depth: int | None = None
    #: The leaf that covers a message, where there is one.
    summary_id: str | None = None
    #: Where in the snippet the words stand; none when only its neighbours have them.
    matches: tuple[tuple[int, int], ...] = ()
    #: Of a file: its name, and the line and byte of the match.
    name: str | None = None
    line: int | None = None
    offset: int | None = None
    #: Where the words stand only in a version of the message: `earlier` or `lesser`.
    version: str | None = None

    @property
    def reference(self) -> str:
        """The name under which it can be opened."""
        return f"msg#{self.id}" if self.kind == "message" else str(self.id)


@dataclass(frozen=True, slots=True)
class SearchStart:
    """Where the next page begins: behind so many ranked hits, or behind a place in the order newest first."""

    offset: int = 0
    place: SearchPlace | None = None
    #: Whether the letters are looked for as they are, instead of words.
    is_scan: bool = False
    is_any: bool = False
    #: Whether only versions are left, behind so many of them.
    is_version: bool = False

    @property
    def cursor(self) -> str:
        """As an opaque word."""
        at, what, id_ = self.place or (0, "", 0)
        fields = {"o": self.offset, "a": at, "w": what, "i": id_, "s": self.is_scan, "y": self.is_any}
        fields |= {"v": True} if self.is_version else {}
        return encode_cursor("grep", fields)


def start_from_cursor(cursor: str) -> SearchStart:
    """The place that a cursor means; `BadInput` when it is none of a search."""
    fields = decode_cursor("grep", cursor, {"o": int, "a": int, "w": str, "s": bool, "y": bool})
    what, id_ = fields["w"], fields.get("i")
    if not 0 <= fields["o"] < _LARGEST or abs(fields["a"]) >= _LARGEST:
        raise bad_cursor()
    if not what:
        return SearchStart(fields["o"], None, fields["s"], fields["y"], fields.get("v") is True)
    if what == "message" and type(id_) is int and 0 < id_ < _LARGEST:
        place = SearchPlace(fields["a"], "message", id_)
    elif what == "summary" and isinstance(id_, str):
        place = SearchPlace(fields["a"], "summary", id_)
    else:
        raise bad_cursor()
    return SearchStart(fields["o"], place, fields["s"], fields["y"])


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found, best or newest first; `str()` of it is the text that an agent reads."""

    request: GrepRequest
    scope: Scope
    hits: tuple[SearchHit, ...] = ()
    #: How many match, as far as they were counted; their neighbours are not counted.
    total: int = 0
    #: What the caller should know about how the pattern was read, or what was left out.
    hint: str | None = None
    #: Whether there is more than is shown, or not everything was looked at.
    truncated: bool = False
    next: SearchStart | None = None
    #: The summaries above the hits: when what they cover was said.
    spans: dict[str, tuple[datetime | None, datetime | None]] = field(default_factory=dict)

    @property
    def cursor(self) -> str | None:
        """Where the rest is, when there is a rest."""
        return None if self.next is None else self.next.cursor

    def __str__(self) -> str:
        """As Markdown: what was asked, then one line a hit with its id, its speaker and its time, under the summary
        that covers it, in the order of each group's best hit.
        """
        groups: dict[str, list[str]] = {}
        for hit in self.hits:
            key = hit.summary_id or (str(hit.id) if hit.kind == "summary" else hit.kind)
            groups.setdefault(key, []).append(_hit_line(hit))
        titles = {"message": "### Not summarised", "file": "### Files"}
        for key, (first, last) in self.spans.items():
            times = f" ({format_moment(first)} to {format_moment(last)})" if first or last else ""
            titles[key] = f"### {key}{times}"
        lines = _result_head(self)
        space = MAX_RESULT_CHARS - _ROOM_FOR_END - sum(len(line) + 1 for line in lines)
        blocks = [
            ([] if list(groups) == ["message"] else [titles.get(key, f"### {key}")]) + hits
            for key, hits in groups.items()
        ]
        shown = 0
        for line in chain.from_iterable(blocks):
            if len(line) + 1 > space:
                lines.append(f"(truncated: {shown} of {len(self.hits)} hits fit)")
                break
            lines.append(line)
            space -= len(line) + 1
            shown += not line.startswith("### ")
        lines += ["", _OPENING] if self.hits else ["Nothing was found."]
        if self.cursor:
            what = "There is more" if self.truncated else "For the same letters inside of other words"
            lines.append(f"{what}: pass cursor={self.cursor}")
        return "\n".join(lines)


SNIPPET_CHARS = 400
ELLIPSIS = "…"
#: How far an end of the window may move to stand between words or sentences.
_WINDOW_SLACK = 40
_SNIPPET_MOST = 200
#: What another occurrence of a term adds; a different term adds its weight.
_REPEAT = 0.01


def best_window(
    text: str, finder: TermFinder, size: int = SNIPPET_CHARS, weights: Sequence[float] | None = None
) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    """The window of at most `size` characters with the most different terms (by weight), then the most matches: its
    start, its end, and the matches inside of it as offsets into the whole text.

    Without any match, the beginning. Linear in the text.
    """
    found = finder.find(text, _SNIPPET_MOST)
    first, last = _densest(found, size, weights)
    matches = found[first : last + 1]
    if matches:
        middle = (matches[0].start + max(hit.end for hit in matches)) // 2
        start = max(0, min(middle - size // 2, len(text) - size, matches[0].start))
    else:
        start = max(0, len(text) - len(text.lstrip()))
    start, end = _settle(text, start, size, matches)
    inside = dict.fromkeys((hit.start, hit.end) for hit in found if start <= hit.start and hit.end <= end)
    return start, end, tuple(inside)


def _densest(found: Sequence[TermMatch], size: int, weights: Sequence[float] | None) -> tuple[int, int]:
    """The first and last index of the best run of matches that fits into `size` characters."""
    best, best_value = (0, -1), 0.0
    times: dict[int, int] = {}
    value, first = 0.0, 0
    for last, hit in enumerate(found):
        times[hit.term] = times.get(hit.term, 0) + 1
        value += (weights[hit.term] if weights else 1.0) if times[hit.term] == 1 else _REPEAT
        while first < last and found[first].start < hit.end - size:
            gone = found[first].term
            times[gone] -= 1
            value -= _REPEAT if times[gone] else weights[gone] if weights else 1.0
            first += 1
        if value > best_value + _REPEAT / 2:
            best, best_value = (first, last), value
    return best


def _settle(text: str, start: int, size: int, matches: Sequence[TermMatch]) -> tuple[int, int]:
    """Move the ends of a window to places between words, without losing what it shows."""
    if len(text) <= size:
        return 0, len(text)
    latest = matches[0].start if matches else start
    for mark in ("\n", ". ", " "):
        at = text.find(mark, max(0, start - 1), min(start + _WINDOW_SLACK, latest))
        if start > 0 and at >= 0:
            start = at + len(mark)
            break
    start = min(start, latest)
    end = min(len(text), start + size)
    earliest = max((hit.end for hit in matches), default=start)
    if end < len(text) and not text[end].isspace():
        at = text.rfind(" ", max(earliest, end - _WINDOW_SLACK), end)
        end = at if at >= 0 else end
    return start, end


def best_snippet(text: str, finder: TermFinder, weights: Sequence[float] | None = None) -> Snippet:
    """The part of a text that shows best why it was found."""
    return on_one_line(text, *best_window(text, finder, weights=weights))


def snippet_around(text: str, start: int, end: int, size: int = SNIPPET_CHARS) -> Snippet:
    """A match with what stands around it; a long match is cut."""
    length = min(end - start, size)
    first = max(0, min(start - (size - length) // 3, len(text) - size))
    last = min(len(text), first + size)
    if 0 < first < start and not text[first - 1].isspace():
        blank = text.find(" ", first, min(start, first + 24))
        first = blank + 1 if blank >= 0 else first
    return on_one_line(text, first, last, ((start, min(end, last)),))


def on_one_line(text: str, first: int, last: int, matches: Sequence[tuple[int, int]]) -> Snippet:
    """A window of a text with white space as single blanks, and an ellipsis where text was left out."""
    before = ELLIPSIS if text[:first].strip() else ""
    after = ELLIPSIS if text[last:].strip() else ""
    shown = " ".join(text[first:last].split())
    spots = []
    for start, end in matches:
        head = " ".join(text[first:start].split())
        at = len(head) + (1 if head and text[start - 1].isspace() else 0)
        length = len(" ".join(text[start:end].split()))
        spots.append((len(before) + at, len(before) + min(at + length, len(shown))))
    return f"{before}{shown}{after}", tuple(spots)


_REASONING_TYPES = frozenset({"thinking", "redacted_thinking", "reasoning", "think"})


def message_text(message: Message) -> str:
    """The words of a message, its tool calls and their results, in the order of its parts.

    Reasoning is left out. A block that no codec knows is shown as its JSON.
    """
    if not message.parts:
        return message.content
    texts = [text for part in message.parts if (text := _part_text(part))]
    if message.content.strip() and not any(isinstance(part, Text | ToolResult) for part in message.parts):
        texts.insert(0, message.content)
    return "\n".join(texts)


def part_label(part: Part) -> str:
    """What a part is, in a few words.

    >>> part_label(ToolCall("call_1", "read", {"path": "a.py"}))
    'tool call read (call_1)'
    """
    match part:
        case Text(text):
            return f"text, {len(text):,} characters"
        case Reasoning():
            return "reasoning, not shown"
        case ToolCall(id_, name, _):
            return f"tool call {name}{f' ({id_})' if id_ else ''}"
        case ToolResult(call_id, name, text, is_error):
            what, failed = name or "unnamed", ", failed" if is_error else ""
            return f"tool result {what}{f' ({call_id})' if call_id else ''}{failed}, {len(text):,} characters"
        case File(_, mime, name):
            return f"file {name or 'unnamed'} ({mime or 'unknown type'})"
        case Opaque(_, type_):
            return f"{type_} block"


def message_header(stored: StoredMessage) -> str:
    """The line over a message: how it is named, who said it, when, as in `[msg#12 | user | 2026-01-05 09:00:00Z]`."""
    return f"[msg#{stored.id} | {stored.message.role} | {format_moment(stored.created_at)}]"


def format_moment(at: datetime | None) -> str:
    """A time to the second, in UTC; `undated` when it is not known."""
    return "undated" if at is None else f"{row_time(at)}Z"


def format_span(earliest: datetime | None, latest: datetime | None) -> str:
    """A range of time in the form of ids and tables, without blanks.

    >>> format_span(None, None)
    'unknown'
    """
    if earliest is not None and latest is not None:
        return f"{row_time(earliest, 'T')}Z..{row_time(latest, 'T')}Z"
    known = earliest or latest
    return "unknown" if known is None else f"{row_time(known, 'T')}Z"


def _part_text(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case Reasoning():
            return ""
        case ToolCall(_, name, input_):
            return f"Tool call ({name}): {_json(input_)}"
        case ToolResult(_, name, text, is_error):
            label = ", ".join(filter(None, (name, "failed" if is_error else "")))
            return f"Tool result{f' ({label})' if label else ''}: {text}"
        case File(_, mime, name):
            return f"[{name or 'file'} ({mime or 'unknown type'})]"
        case Opaque(raw, type_):
            return "" if type_ in _REASONING_TYPES else _json(raw)


def _json(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_OPENING = (
    "Open a hit with lcm_describe (id: msg#… shows the whole message, sum_… the summary, file_… the file); "
    "read around it with lcm_expand or lcm_expand_query."
)
_ROOM_FOR_END = 600


def _result_head(found: SearchResult) -> list[str]:
    request = found.request
    lines = [
        "## LCM Grep Results",
        f"**Pattern:** `{' '.join(request.pattern.split())[:400]}`",
        f"**Mode:** {request.mode} | **Scope:** {request.search_in} | **Sort:** {request.sort}",
        f"**Conversations:** {found.scope}",
    ]
    if found.scope.warning:
        lines.append(f"**Warning:** {found.scope.warning}")
    if request.since or request.before:
        since = f"since {format_moment(request.since)}" if request.since else ""
        before = f"before {format_moment(request.before)}" if request.before else ""
        lines.append(f"**Time:** {' '.join(filter(None, (since, before)))}")
    more = f" ({len(found.hits)} shown)" if found.total > len(found.hits) else ""
    lines.append(f"**Total matches:** {found.total}{'+' if found.truncated else ''}{more}")
    if found.hint:
        lines.append(f"**Note:** {found.hint}")
    return [*lines, ""]


def _hit_line(hit: SearchHit) -> str:
    if hit.kind == "file":
        name = f" ({hit.name})" if hit.name else ""
        place = f" line {hit.line}, offset {hit.offset}" if hit.line is not None else ""
        return f"- [conv={hit.conversation_id} {hit.id}{name}]{place}: {hit.snippet}"
    if hit.kind == "summary":
        kind = "leaf" if hit.depth == 0 else "condensed"
        return f"- [conv={hit.conversation_id} {hit.id}] ({kind}, {format_moment(hit.created_at)}): {hit.snippet}"
    near = ", beside a hit" if not hit.matches else ""
    at = format_moment(hit.created_at)
    return f"- [conv={hit.conversation_id} msg#{hit.id}] ({hit.role}, {at}{near}): {hit.snippet}"


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


def parse_reference(text: str, *, numbers: bool = True) -> Reference:
    """The one thing that a text names; `BadInput` says what is wrong with it.

    `numbers`: whether a bare number is a message id.
    """
    stripped = text.strip().strip(_QUOTES).strip()
    if not stripped:
        raise BadInput(f"an id is needed: {_EXAMPLES}")
    if numbers and stripped.isascii() and stripped.isdigit():
        return _checked(f"msg#{stripped}")
    if _BARE.fullmatch(stripped):
        return _checked(stripped)
    for head in _HEADS:
        if found := head.match(stripped):
            others = {other for pasted in _PASTED for other in pasted.findall(stripped)} - {found[1]}
            if head in _PASTED and others:
                raise _several([found[1], *sorted(others)])
            return _checked(found[1])
    ids = list(dict.fromkeys(match[0] for match in _ANY_ID.finditer(text)))
    if len(ids) > 1:
        raise _several(ids)
    if not ids:
        shown = stripped if len(stripped) <= 80 else f"{stripped[:77]}..."
        raise BadInput(f"{shown!r} is no id; ids look like {_EXAMPLES}")
    raise BadInput(f"pass the id alone, whole and in lower case, or a whole reference in brackets, not {ids[0]!r}")


def parse_references(texts: Iterable[str], *, kinds: tuple[ReferenceKind, ...]) -> tuple[Reference, ...]:
    """Each named thing once, in order; `BadInput` for one that is not of the wanted kinds."""
    found: dict[str, Reference] = {}
    for text in texts:
        reference = parse_reference(text)
        if reference.kind not in kinds:
            raise BadInput(f"{reference.id!r} is a {reference.kind} id; needed here: {' or '.join(kinds)}")
        found[reference.id] = reference
    return tuple(found.values())


def find_references(text: str) -> list[tuple[int, int, Reference]]:
    """Every id that stands in a text: where, and what it means. What only looks like one is left out."""
    found = []
    for match in _ANY_ID.finditer(text):
        id_ = match[0].rstrip("_-")
        with suppress(BadInput):
            if _BARE.fullmatch(id_):
                found.append((match.start(), match.start() + len(id_), _checked(id_)))
    return found


def _checked(id_: str) -> Reference:
    if id_.startswith("msg"):
        number = int(id_[4:24])
        if not 0 < number <= _MAX_MESSAGE_ID:
            raise BadInput(f"{id_[:28]} is not a message id")
        return Reference("message", f"msg#{number}", number)
    if not id_.partition("_")[2].strip("0_-"):
        raise BadInput(f"{id_!r} is a placeholder, not an id")
    return Reference("summary" if id_.startswith("sum_") else "file", id_)


def _several(ids: list[str]) -> BadInput:
    return BadInput(f"pass one id at a time, not {len(ids)}: {', '.join(ids[:3])}")
