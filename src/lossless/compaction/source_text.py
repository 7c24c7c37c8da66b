"""What a summariser reads: messages and summaries as dated, labelled, cleaned text.

Reasoning never gets in, media become placeholders, context that a host injected is taken out again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lossless.model.messages import File, Opaque, Text
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lossless.model.messages import Json, Message, Role, StoredMessage
    from lossless.model.summaries import Summary

#: XML blocks that memory plugins put into user messages.
INJECTED_TAGS = ("active_memory_plugin", "relevant-memories", "relevant_memories", "hindsight_memories")
MEDIA_ONLY = "[Media attachment]"
WITH_MEDIA = "[with media attachment]"
MEDIA_OMITTED = "[embedded media omitted]"

_FILE_ID = re.compile(r"file_[a-f0-9]{16}(?![A-Za-z0-9])")
_DATA_URL = re.compile(r"data:[\w.+-]{1,80}/[\w.+-]{1,80}[\w;=.+-]{0,120},[A-Za-z0-9+/=_%.-]{16,}")
_BASE64_LINE = re.compile(r"^[ \t]*([A-Za-z0-9+/]{254,}={0,2})[ \t]*$\n?", re.MULTILINE)
_MEDIA_LINE = re.compile(r"^[ \t]*MEDIA:\s*/.*$\n?", re.MULTILINE)
_METADATA_LINE = re.compile(r"^[ \t]*Untrusted context \(metadata.*$\n?", re.MULTILINE)
_FORGED_HEADER = re.compile(r"^(?=\[\d{4}-\d\d-\d\d \d\d:\d\d )", re.MULTILINE)
_THINK_TAG = re.compile("<(?:think|thinking|reasoning)>", re.IGNORECASE)
_THINK_OPEN = re.compile(r"(^[ \t]*)?(?<!`)<(think|thinking|reasoning)>", re.IGNORECASE | re.MULTILINE)
_THINK_CLOSE = {tag: re.compile(f"</{tag}>", re.IGNORECASE) for tag in ("think", "thinking", "reasoning")}
_TEXT_KEYS = (
    *("text", "transcript", "transcription", "message", "summary"),
    *("segments", "utterances", "paragraphs", "alternatives", "items", "results"),
    *("content", "output", "result", "payload", "data", "value"),
)
_REASONING_TYPES = frozenset({"thinking", "redacted_thinking", "reasoning", "think"})
_MINING_DEPTH = 8


@dataclass(frozen=True, slots=True)
class ToolInput:
    """What a model asked a tool to do."""

    name: str
    input: Json
    call_id: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.input, str):
            return self.input
        return json.dumps(self.input, ensure_ascii=False, separators=(",", ":"), default=str)


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool answered, and whether it failed."""

    name: str | None
    text: str
    call_id: str | None = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One message as a summariser reads it, already cleaned."""

    role: Role
    created_at: datetime
    text: str
    #: The sender as the host reported it (untrusted), JSON.
    sender: str | None = None
    inputs: tuple[ToolInput, ...] = ()
    outputs: tuple[ToolOutput, ...] = ()
    file_ids: tuple[str, ...] = ()

    @property
    def is_meaningful(self) -> bool:
        """Whether anything but a media placeholder is left to summarise."""
        return bool(self.inputs or self.outputs or self.text not in ("", MEDIA_ONLY, MEDIA_OMITTED))

    @property
    def tokens(self) -> int:
        return estimate_tokens(_body(self))


@dataclass(frozen=True, slots=True)
class Section:
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


def line_of(stored: StoredMessage, tags: Sequence[str] = INJECTED_TAGS) -> Line:
    """A stored message as a line: its words, its tool calls and results, never its reasoning."""
    message = stored.message
    inputs = tuple(ToolInput(call.name, call.input, call.id) for call in message.tool_calls)
    outputs = tuple(
        ToolOutput(result.name, clean(_unwrapped(result.text), tags), result.call_id, result.is_error)
        for result in message.tool_results
    )
    text = clean(_words(message), tags)
    if message.role == "assistant":
        text = without_reasoning(text)
    if any(output.text and text in output.text for output in outputs):
        text = ""
    if any(isinstance(part, File) for part in message.parts):
        text = f"{text} {WITH_MEDIA}" if text else MEDIA_ONLY
    found = (stored.file_id or "", text, *(o.text for o in outputs), *(i.text for i in inputs))
    return Line(
        role=message.role,
        created_at=stored.created_at,
        text=text,
        sender=stored.sender,
        inputs=inputs,
        outputs=tuple(output for output in outputs if output.text or output.is_error),
        file_ids=file_ids_in(found),
    )


def section_of(summary: Summary) -> Section:
    """A summary as a section, without reasoning that a model left in it."""
    text = without_reasoning(summary.content).strip()
    found = file_ids_in((*summary.file_ids, text))
    return Section(summary.earliest_at, summary.latest_at, text, found)


def leaf_text(lines: Iterable[Line], timezone: str = "UTC") -> str:
    """The source of a leaf: a header with time and role over each message, blank lines between."""
    blocks = []
    for line in lines:
        body = _body(line)
        if body:
            speaker = f" | speaker (untrusted metadata): {_one_line(line.sender)}" if line.sender else ""
            blocks.append(f"[{stamp(line.created_at, timezone)} | {line.role}{speaker}]\n{_unforged(body)}")
    return "\n\n".join(blocks)


def condensed_text(sections: Iterable[Section], timezone: str = "UTC") -> str:
    """The source of a condensed summary: each source under the span of time it covers."""
    return "\n\n".join(f"[{span(s, timezone)}]\n{_unforged(s.text)}" for s in sections if s.text)


def stamp(moment: datetime, timezone: str = "UTC") -> str:
    """`YYYY-MM-DD HH:MM ZONE` in a zone; UTC when the zone is unknown.

    >>> stamp(datetime(2026, 1, 5, 9, 0, tzinfo=UTC), "Europe/Berlin"), stamp(datetime(2026, 1, 5), "nowhere")
    ('2026-01-05 10:00 CET', '2026-01-05 00:00 UTC')
    """
    local = local_time(moment, timezone)
    name = local.tzname() or "UTC"
    if name[0] in "+-":
        name = f"GMT{name[0]}{name[1:3].lstrip('0') or '0'}{':' + name[3:5] if name[3:5].strip('0') else ''}"
    return f"{local.isoformat(' ', 'minutes')[:16]} {name}"


def local_time(moment: datetime, timezone: str = "UTC") -> datetime:
    """A moment in a zone, UTC when the zone is unknown; a moment without a zone is UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.astimezone(_zone(timezone))


def span(section: Section, timezone: str = "UTC") -> str:
    """`earliest - latest` of a section; `undated` when neither is known."""
    ends = [stamp(end, timezone) for end in (section.earliest_at, section.latest_at) if end]
    return " - ".join(dict.fromkeys(ends)) or "undated"


def clean(text: str, tags: Sequence[str] = INJECTED_TAGS) -> str:
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


def without_reasoning(text: str) -> str:
    """Text without `<think>` blocks; one that opens a line and is never closed takes the rest along.

    Tags in backquotes are talk about tags, and stay.
    """
    if _THINK_TAG.search(text) is None:
        return text
    kept: list[str] = []
    never_closed: set[str] = set()
    position = search = 0
    while opening := _THINK_OPEN.search(text, search):
        tag = opening[2].lower()
        closing = None if tag in never_closed else _THINK_CLOSE[tag].search(text, opening.end())
        if closing is not None:
            kept.append(text[position : opening.start()])
            position = search = closing.end()
        elif opening[1] is not None:
            return ("".join(kept) + text[position : opening.start()]).strip()
        else:
            never_closed.add(tag)
            search = opening.end()
    return ("".join(kept) + text[position:]).strip() if kept else text


def file_ids_in(texts: Iterable[str]) -> tuple[str, ...]:
    """The ids of stored files named in texts, in order, each once."""
    return tuple(dict.fromkeys(found for text in texts if "file_" in text for found in _FILE_ID.findall(text)))


def _body(line: Line) -> str:
    pieces = [line.text] if line.text else []
    pieces += [f"Tool input ({call.name}): {clean(call.text, ())}" for call in line.inputs]
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
    opening, closing = re.compile(rf"<{re.escape(tag)}(?=[\s>])"), f"</{tag}>"
    kept: list[str] = []
    position = 0
    while block := opening.search(text, position):
        end = text.find(closing, block.end())
        if end < 0:
            break
        kept.append(text[position : block.start()])
        position = end + len(closing)
    return "".join(kept) + text[position:]


def _unforged(body: str) -> str:
    """History must not look like a header of ours."""
    return _FORGED_HEADER.sub("> ", body) if body[:1] == "[" or "\n[" in body else body


def _one_line(text: str) -> str:
    return " ".join(text.split())


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC
