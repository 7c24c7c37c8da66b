"""The text summaries are made from: messages and summaries as dated, cleaned text, without directives, cut into
sentences, with the files it mentions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lossless.model.identity import file_ids_in
from lossless.model.messages import (
    File,
    Json,
    Message,
    Opaque,
    Role,
    StoredMessage,
    Text,
    ToolCall,
    ToolResult,
    remove_reasoning,
)
from lossless.model.search_text import load_patterns
from lossless.model.tokens import cut_to_tokens, estimate_tokens

if TYPE_CHECKING:
    from lossless.model.context import Summary

#: XML blocks that memory plugins put into user messages.
INJECTED_TAGS = ("active_memory_plugin", "relevant-memories", "relevant_memories", "hindsight_memories")
MEDIA_ONLY = "[Media attachment]"
WITH_MEDIA = "[with media attachment]"
MEDIA_OMITTED = "[embedded media omitted]"

_DATA_URL = re.compile(r"data:[\w.+-]{1,80}/[\w.+-]{1,80}[\w;=.+-]{0,120},[A-Za-z0-9+/=_%.-]{16,}")
_BASE64_LINE = re.compile(r"^[ \t]*([A-Za-z0-9+/]{254,}={0,2})[ \t]*$\n?", re.MULTILINE)
_MEDIA_LINE = re.compile(r"^[ \t]*MEDIA:\s*/.*$\n?", re.MULTILINE)
_METADATA_LINE = re.compile(r"^[ \t]*Untrusted context \(metadata.*$\n?", re.MULTILINE)
_FORGED_HEADER = re.compile(r"^(?=\[\d{4}-\d\d-\d\d \d\d:\d\d )", re.MULTILINE)
_TEXT_KEYS = (
    *("text", "transcript", "transcription", "message", "summary"),
    *("segments", "utterances", "paragraphs", "alternatives", "items", "results"),
    *("content", "output", "result", "payload", "data", "value"),
)
_REASONING_TYPES = frozenset({"thinking", "redacted_thinking", "reasoning", "think"})
_MINING_DEPTH = 8


def input_text(call: ToolCall) -> str:
    """What a tool was given, as text."""
    if isinstance(call.input, str):
        return call.input
    return json.dumps(call.input, ensure_ascii=False, separators=(",", ":"), default=str)


@dataclass(frozen=True, slots=True)
class SourceMessage:
    """One message as a summariser reads it, already cleaned."""

    role: Role
    created_at: datetime
    text: str
    #: The sender as the host reported it (untrusted), JSON.
    sender: str | None = None
    inputs: tuple[ToolCall, ...] = ()
    outputs: tuple[ToolResult, ...] = ()
    file_ids: tuple[str, ...] = ()

    @property
    def is_meaningful(self) -> bool:
        """Whether anything but a media placeholder is left to summarise."""
        return bool(self.inputs or self.outputs or self.text not in ("", MEDIA_ONLY, MEDIA_OMITTED))

    @property
    def tokens(self) -> int:
        return estimate_tokens(_body(self))


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """One summary as the source of a condensed one."""

    earliest_at: datetime | None
    latest_at: datetime | None
    text: str
    file_ids: tuple[str, ...] = ()

    @property
    def is_meaningful(self) -> bool:
        return bool(self.text)

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.text)


def source_message(stored: StoredMessage, tags: Sequence[str] = INJECTED_TAGS) -> SourceMessage:
    """A stored message as a line: its words, its tool calls and results, never its reasoning."""
    message = stored.message
    outputs = tuple(
        ToolResult(result.call_id, result.name, clean_source(_unwrapped(result.text), tags), result.is_error)
        for result in message.tool_results
    )
    text = clean_source(_words(message), tags)
    if message.role == "assistant":
        text = remove_reasoning(text)
    if any(output.text and text in output.text for output in outputs):
        text = ""
    if any(isinstance(part, File) for part in message.parts):
        text = f"{text} {WITH_MEDIA}" if text else MEDIA_ONLY
    found = (stored.file_id or "", text, *(o.text for o in outputs), *map(input_text, message.tool_calls))
    outputs = tuple(output for output in outputs if output.text or output.is_error)
    sender, calls, ids = stored.sender, tuple(message.tool_calls), file_ids_in(*found)
    return SourceMessage(message.role, stored.created_at, text, sender, calls, outputs, ids)


def source_summary(summary: Summary) -> SourceSummary:
    """A summary as a section, without reasoning that a model left in it."""
    text = remove_reasoning(summary.content).strip()
    found = file_ids_in(*summary.file_ids, text)
    return SourceSummary(summary.earliest_at, summary.latest_at, text, found)


def leaf_text(lines: Iterable[SourceMessage], timezone: str = "UTC") -> str:
    """The source of a leaf: a header with time and role over each message, blank lines between."""
    blocks = []
    for line in lines:
        body = _body(line)
        if body:
            speaker = f" | speaker (untrusted metadata): {' '.join(line.sender.split())}" if line.sender else ""
            blocks.append(f"[{format_local_time(line.created_at, timezone)} | {line.role}{speaker}]\n{_unforged(body)}")
    return "\n\n".join(blocks)


def condensed_text(sections: Iterable[SourceSummary], timezone: str = "UTC") -> str:
    """The source of a condensed summary: each source under the span of time it covers."""
    return "\n\n".join(f"[{format_source_span(s, timezone)}]\n{_unforged(s.text)}" for s in sections if s.text)


def format_local_time(moment: datetime, timezone: str = "UTC") -> str:
    """`YYYY-MM-DD HH:MM ZONE` in a zone; UTC when the zone is unknown.

    >>> (format_local_time(datetime(2026, 1, 5, 9, 0, tzinfo=UTC), "Europe/Berlin"),
    ...  format_local_time(datetime(2026, 1, 5), "nowhere"))
    ('2026-01-05 10:00 CET', '2026-01-05 00:00 UTC')
    """
    local = to_local_time(moment, timezone)
    name = local.tzname() or "UTC"
    if name[0] in "+-":
        name = f"GMT{name[0]}{name[1:3].lstrip('0') or '0'}{':' + name[3:5] if name[3:5].strip('0') else ''}"
    return f"{local.isoformat(' ', 'minutes')[:16]} {name}"


def to_local_time(moment: datetime, timezone: str = "UTC") -> datetime:
    """A moment in a zone, UTC when the zone is unknown; a moment without a zone is UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.astimezone(_zone(timezone))


def format_source_span(section: SourceSummary, timezone: str = "UTC") -> str:
    """`earliest - latest` of a section; `undated` when neither is known."""
    ends = [format_local_time(end, timezone) for end in (section.earliest_at, section.latest_at) if end]
    return " - ".join(dict.fromkeys(ends)) or "undated"


def clean_source(text: str, tags: Sequence[str] = INJECTED_TAGS) -> str:
    """Text without injected blocks, host metadata lines and raw media; linear in its length."""
    for tag in tags if "<" in text else ():
        text = _without_blocks(text, tag)
    if "Untrusted context (metadata" in text:
        text = _METADATA_LINE.sub("", text)
    if "data:" in text:
        text = _DATA_URL.sub(MEDIA_OMITTED, text)
    if "MEDIA:" in text:
        text = _MEDIA_LINE.sub("", text)
    if len(text) >= 256 and any(len(row) >= 256 and " " not in row.strip() for row in text.split("\n")):
        text = _BASE64_LINE.sub(lambda m: m[0] if len(m[1]) < 256 or len(m[1]) % 4 else "", text)
    return text.strip()


def _body(line: SourceMessage) -> str:
    pieces = [line.text] if line.text else []
    pieces += [f"Tool input ({call.name}): {clean_source(input_text(call), ())}" for call in line.inputs]
    for output in line.outputs:
        label = ", ".join(filter(None, (output.name, "failed" if output.is_error else "")))
        pieces.append(f"Tool output ({label or 'unnamed'}): {output.text}")
    return "\n".join(pieces)


def _words(message: Message) -> str:
    """The readable text: the stored content, else the text parts, else what unknown blocks say."""
    if message.content.strip():
        return _unwrapped(message.content)
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    if not any(texts):
        texts = [found for part in message.parts if isinstance(part, Opaque) for found in _mined(part.raw, 0)]
    return "\n".join(texts)


def _unwrapped(text: str) -> str:
    """The texts inside content blocks that were stored as JSON; any other text as it is."""
    stripped = text.strip()
    if stripped[:1] + stripped[-1:] not in ("{}", "[]"):
        return text
    try:
        value = json.loads(stripped)
    except (ValueError, RecursionError):
        return text
    blocks = value if isinstance(value, list) else [value]
    if not all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in blocks):
        return text
    return "\n".join(_mined(value, 0)) if blocks else text


def _mined(value: Json, depth: int) -> Iterator[str]:
    if depth > _MINING_DEPTH:
        return
    if isinstance(value, str):
        if value.strip():
            yield value
    elif isinstance(value, Mapping):
        if value.get("type") not in _REASONING_TYPES:
            for key in _TEXT_KEYS:
                yield from _mined(value.get(key), depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _mined(item, depth + 1)


def _without_blocks(text: str, tag: str) -> str:
    if f"<{tag}" not in text:
        return text
    closing = f"</{tag}>"
    head, found, rest = text.rpartition(closing)  # each block before the last end has one: linear in the text
    return re.sub(rf"(?s)<{re.escape(tag)}(?=[\s>]).*?{re.escape(closing)}", "", head + found) + rest


def _unforged(body: str) -> str:
    """History must not look like a header of ours."""
    return _FORGED_HEADER.sub("> ", body) if body[:1] == "[" or "\n[" in body else body


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


DIRECTIVE_OMITTED = "[LCM fallback summary omitted directive-shaped untrusted content]."
DIRECTIVE_MARKER = "[LCM fallback summary; directive-shaped untrusted content omitted]"
FALLBACK_MARKER = "[LCM fallback summary; truncated for context management]"
TRUNCATED_PREFIX = "[Truncated from "

_DIRECTIVES = load_patterns(__package__)["directives"]
_BOUNDARY = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")


#: Chinese and Japanese, and the letters that patterns take for an i, an s or a k but `lower` does not.
_WITHOUT_SIGNS = re.compile("[\u0130\u0131\u017f\u212a\u3040-\u9fff]")


def is_override(sentence: str) -> bool:
    """Whether a sentence tells a model to drop its instructions, reveal them or break its rules."""
    may_be = _has_any(sentence, "override_signs") or (_has_any(sentence, "ordered") and _has_any(sentence, "orders"))
    return (may_be or _may_have_no_sign(sentence)) and _DIRECTIVES["override"].search(sentence) is not None


def is_directive(sentence: str) -> bool:
    """Whether a sentence is shaped like an order to the model that reads it."""
    may_be = _has_any(sentence, "behaviour_signs") or _may_have_no_sign(sentence)
    return is_override(sentence) or (may_be and _DIRECTIVES["behaviour"].search(sentence) is not None)


def _has_any(sentence: str, signs: str) -> bool:
    folded = sentence.lower()
    for sign in _DIRECTIVES[signs]:  # noqa: SIM110 a generator would take most of the time
        if sign in folded:
            return True
    return False


def _may_have_no_sign(sentence: str) -> bool:
    """Whether a sentence may be an order without a sign; never in ASCII."""
    return not sentence.isascii() and _WITHOUT_SIGNS.search(sentence) is not None


def is_imperative(sentence: str) -> bool:
    """Whether a sentence opens with a verb of command: what follows a directive and belongs to it."""
    return _DIRECTIVES["imperative"].match(sentence) is not None


def remove_directives(text: str, is_unwanted: Callable[[str], bool] = is_directive) -> tuple[str, bool]:
    """Text whose directive-shaped sentences are replaced, once, by a note; and whether there were any.

    With `is_override` wishes about behaviour stay.
    """
    kept: list[str] = []
    omitted = previous = False
    for sentence in _sentences(text):
        previous = is_unwanted(sentence) or (previous and is_imperative(sentence))
        if not previous:
            kept.append(sentence)
        elif not omitted:
            kept.append(DIRECTIVE_OMITTED + (sentence[len(sentence.rstrip()) :] or " "))
        omitted = omitted or previous
    return ("".join(kept).strip(), True) if omitted else (text, False)


def truncate_source(text: str, max_tokens: int) -> str:
    """Text without directives, of at most `max_tokens`, its closing note included; short text as it is.

    Empty when the notes alone take all the room.

    >>> truncate_source("short text", 512)
    'short text'
    """
    kept, omitted = remove_directives(text)
    notes = [DIRECTIVE_MARKER] if omitted else []
    whole = "\n".join([kept, *notes])
    if estimate_tokens(whole) <= max_tokens:
        return whole
    notes.append(f"{TRUNCATED_PREFIX}{estimate_tokens(text)} tokens]")
    ending = "\n" + "\n".join(notes)
    words = cut_to_tokens(kept, max_tokens - estimate_tokens(ending)).rstrip()
    return words + ending if words else ""


def fallback_summary(text: str, max_tokens: int, source_tokens: int | None = None) -> str | None:
    """The truncated source, smaller than the source; None when that leaves nothing of it.

    `source_tokens` is what the sources weigh in the context, when that is not the text's own size.
    """
    weight = estimate_tokens(text) if source_tokens is None else source_tokens
    return truncate_source(text, min(max_tokens, weight - 1)).strip() or None


def _sentences(text: str) -> Iterator[str]:
    """Sentences with the space after them: joined, they are the text."""
    start = 0
    for boundary in _BOUNDARY.finditer(text):
        yield text[start : boundary.end()]
        start = boundary.end()
    if start < len(text):
        yield text[start:]


FILES_PREFIX = "Files: "
NO_FILES_LINE = "Files: none"

_FILES = load_patterns(__package__)["files"]
PATH_KEYS: Sequence[str] = _FILES["path_keys"]
_MAX_PATH = 160
_ITEM = re.compile(r"(.+?)(?: \(([^()]+)\))?")


def touched_files(lines: Iterable[SourceMessage]) -> dict[str, str]:
    """Paths that tool calls name → what was done to each; a failed call says so.

    The last change wins, and a read never hides a change.
    """
    found: dict[str, str] = {}
    waiting: dict[str, list[str]] = {}
    for line in lines:
        for call in line.inputs:
            operations = _operations(call)
            for path, operation in operations:
                note_operation(found, path, operation)
            if call.id and operations:
                waiting[call.id] = [path for path, _ in operations]
        for output in line.outputs:
            for path in waiting.pop(output.call_id or "", []) if output.is_error else ():
                found[path] = f"{found[path].removesuffix(' failed')} failed"
    return found


def note_operation(found: dict[str, str], path: str, operation: str) -> None:
    """Note what was done to a path, after what is already known of it."""
    known = found.get(path)
    if operation == "modified" and known == "created":
        return
    if known is None or operation != "read":
        found[path] = operation


def files_line(found: dict[str, str], space: int) -> str:
    """The line for some files within `space` characters: changes first, then reads; `Files: none` for none."""
    named = ((path, operation) for path, operation in found.items() if not is_directive(path))
    ordered = sorted(named, key=lambda item: item[1].startswith("read"))
    items: list[str] = []
    used = len(FILES_PREFIX)
    for place, (path, operation) in enumerate(ordered):
        item = f"{path} ({operation})" if operation else path
        rest = f"+{len(ordered) - place} more"
        more = len(item) + 2 + (len(rest) + 2 if place + 1 < len(ordered) else 0)
        if used + more > space:
            items.append(rest)
            break
        items.append(item)
        used += len(item) + 2
    return FILES_PREFIX + ", ".join(items) if items else NO_FILES_LINE


def parse_files_line(row: str) -> list[tuple[str, str]]:
    """Paths and operations of a `Files:` line, by any writer."""
    items = (item.strip() for item in row.removeprefix(FILES_PREFIX.strip()).split(","))
    named = (_ITEM.fullmatch(item) for item in items if item and item.lower() != "none" and item[0] != "+")
    return [(match[1], match[2] or "") for match in named if match and len(match[1]) <= _MAX_PATH]


def call_arguments(call: ToolCall) -> Mapping[str, Json]:
    """The arguments of a call by name; nothing when they are not an object."""
    return value if isinstance(value := call.arguments, Mapping) else {}


def file_operation(call: ToolCall) -> str:
    """What a tool does to the file that its call names; '' when it names none, or has another kind of name."""
    return _operation(call.name[:80]) if _first_path(call_arguments(call), PATH_KEYS) else ""


def _operations(call: ToolCall) -> list[tuple[str, str]]:
    given = call_arguments(call)
    command = next((text for key in _FILES["command_keys"] if isinstance(text := given.get(key), str)), None)
    path = _first_path(given, _FILES["new_path_keys"]) or _first_path(given, PATH_KEYS)
    if path is not None:
        kind = _operation(f"{call.name} {command or ''}"[:80])
        return [(path, kind)] if kind else []
    return [
        (target, kind)
        for kind, pattern in _FILES["commands"].items()
        for match in pattern.finditer((command or "")[:1000])
        if (target := next(filter(None, match.groups()), "")) and not target.startswith(("/dev/", "$", "-"))
    ]


@lru_cache(maxsize=1024)
def _operation(words: str) -> str:
    """What a tool of this name does to a file; '' when its name does not say."""
    return next((kind for kind, pattern in _FILES["tools"].items() if pattern.search(words)), "")


def _first_path(given: Mapping[str, Json], keys: Iterable[str]) -> str | None:
    for key in keys:
        value = given.get(key)
        if isinstance(value, str) and value.strip() and len(value) <= _MAX_PATH and "\n" not in value:
            return value.strip()
    return None


#: Sentences longer than this are cut into clauses, and clauses longer than the second number anywhere.
LONG_UNIT_CHARS = 160
MAX_UNIT_CHARS = 240
_LEAST_CHARS = 40

_UNITS = load_patterns(__package__)["units"]
_SENTENCE, _INTERJECTION = _UNITS["sentence"], _UNITS["interjection"]
_UNSPACED_STOPS = "。！？｡"
_UNSPACED_SENTENCE = re.compile(rf"(?<=[{_UNSPACED_STOPS}])(?![」』”’）]) ?")
_MARKS = " \t\r\f\v*#>•·–—-|"
_LIST_NUMBER = re.compile(r"^\d{1,2}[.)](?: +|$)")
#: The letters that interjections begin with.
_OPENINGS = frozenset("ohwyaOHWYA")


def split_units(text: str) -> list[str]:
    """The sentences and clauses of a text in order, each at most `MAX_UNIT_CHARS` long.

    >>> split_units("# Plan\\n- Use apsw. It bundles SQLite!\\n\\n好的。我们明天回滚。")
    ['Plan', 'Use apsw.', 'It bundles SQLite!', '好的。', '我们明天回滚。']
    """
    found: list[str] = []
    for row in text.splitlines():
        bare = row.strip(_MARKS)
        if bare[:1].isdigit():
            bare = _LIST_NUMBER.sub("", bare)
        if not bare:
            continue
        if "  " in bare or "\t" in bare:
            bare = " ".join(bare.split())
        sentences = _SENTENCE.split(bare)
        if not bare.isascii() and any(stop in bare for stop in _UNSPACED_STOPS):
            sentences = [part for whole in sentences for part in _UNSPACED_SENTENCE.split(whole) if part]
        if len(bare) <= LONG_UNIT_CHARS:
            found += sentences
            continue
        for sentence in sentences:
            if len(sentence) <= LONG_UNIT_CHARS:
                found.append(sentence)
            else:
                found.extend(_clauses(sentence))
    return found


def remove_interjections(units: Iterable[str]) -> list[str]:
    """Units without the interjections that they open with.

    >>> remove_interjections(["Oh, wow! We moved to Galway."])
    ['We moved to Galway.']
    """
    return [
        unit[opening.end() :] if unit[0] in _OPENINGS and (opening := _INTERJECTION.match(unit)) else unit
        for unit in units
    ]


def _clauses(sentence: str) -> Iterator[str]:
    """Pieces of a long sentence, cut where a clause ends and neither side is short."""
    start = 0
    for boundary in _UNITS["plain_clause" if sentence.isascii() else "clause"].finditer(sentence):
        cut, resume = boundary.span()
        if cut - start >= 2 * _LEAST_CHARS and len(sentence) - resume >= _LEAST_CHARS:
            yield from _cut(sentence[start:cut])
            start = resume
    yield from _cut(sentence[start:])


def _cut(piece: str) -> Iterator[str]:
    """A piece without inner boundaries, cut at blanks, or anywhere if it has none."""
    start = 0
    while len(piece) - start > MAX_UNIT_CHARS:
        blank = piece.rfind(" ", start + MAX_UNIT_CHARS // 2, start + MAX_UNIT_CHARS)
        end = blank if blank > 0 else start + MAX_UNIT_CHARS
        yield piece[start:end]
        start = end + (blank > 0)
    if start < len(piece):
        yield piece[start:]
