"""What the screens read: windows of a conversation, never all of it, and one thing with all that belongs to it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.model.messages import File, Opaque, Reasoning, Text, ToolCall, ToolResult
from lossless.tui.text import format_count, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lossless.maintenance.browse import Browse
    from lossless.model.messages import Message, Part
    from lossless.model.records import ConversationRow, MessageRow
    from lossless.tui.text import LocalTimes

_FIRST = -(2**62)
_MARKS = re.compile(r"\A(?:\s+|#{1,6}\s|>|[-*+]\s|[`~]{3}\w*(?:\n|\Z)|[-*_=]{3,}(?:\n|\Z))+")
#: Among so many first messages the words of a user are looked for.
_OPENING = 4


@dataclass(frozen=True, slots=True)
class MessageWindow:
    """Some neighbouring messages, oldest first, and whether there are more on either side."""

    rows: tuple[MessageRow, ...]
    has_older: bool
    has_newer: bool


@dataclass(frozen=True, slots=True)
class DetailView:
    """One thing: what it is, what is known about it, and its text."""

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    text: str = ""
    is_markdown: bool = False
    #: Of a message: what `text` says, piece by piece.
    parts: tuple[Part, ...] = ()


def titles(browse: Browse, rows: Iterable[ConversationRow]) -> dict[int, str]:
    """What conversations are about: their titles, else the first words of a user, else of anybody."""
    found = {row.conversation_id: row.title or "" for row in rows}
    with browse.reading():
        ids = {id_: browse.messages_after(id_, _FIRST, _OPENING) for id_, title in found.items() if not title}
        said = browse.messages_by_id([id_ for group in ids.values() for id_ in group], whole=False)
    for message in sorted(said, key=lambda message: message.role != "user"):
        found[message.conversation_id] = found[message.conversation_id] or next(
            (words for line in message.content.splitlines() if (words := without_marks(line))), ""
        )
    return found


def without_marks(text: str) -> str:
    """A text without the marks of a heading, a quotation or a list that it begins with.

    >>> without_marks("## > Draft"), without_marks("**bold** words"), without_marks("```")
    ('Draft', '**bold** words', '')
    """
    return _MARKS.sub("", text)


def newest_messages(browse: Browse, conversation_id: int, size: int) -> MessageWindow:
    """The last messages of a conversation."""
    return older_messages(browse, conversation_id, 2**62, size)


def oldest_messages(browse: Browse, conversation_id: int, size: int) -> MessageWindow:
    """The first messages of a conversation."""
    return newer_messages(browse, conversation_id, _FIRST, size)


def older_messages(browse: Browse, conversation_id: int, seq: int, size: int) -> MessageWindow:
    """The messages just before a place; where there are too few to fill a window, the first ones."""
    with browse.reading():
        ids = browse.messages_before(conversation_id, seq, size + 1)
        if len(ids) < size:
            return oldest_messages(browse, conversation_id, size)
        rows = browse.messages_by_id(ids[-size:], whole=False)
        is_newer = bool(browse.messages_after(conversation_id, seq - 1))
    return MessageWindow(tuple(rows), len(ids) > size, is_newer)


def newer_messages(browse: Browse, conversation_id: int, seq: int, size: int) -> MessageWindow:
    """The messages just after a place."""
    with browse.reading():
        ids = browse.messages_after(conversation_id, seq, size + 1)
        rows = browse.messages_by_id(ids[:size], whole=False)
        is_older = bool(browse.messages_before(conversation_id, seq + 1))
    return MessageWindow(tuple(rows), is_older, len(ids) > size)


def messages_around(browse: Browse, conversation_id: int, message_id: int, size: int) -> MessageWindow:
    """A message with its neighbours; the newest ones when it is not there."""
    with browse.reading():
        conversation, seq = browse.message_places([message_id]).get(message_id, (None, 0))
        if conversation != conversation_id:
            return newest_messages(browse, conversation_id, size)
        before = browse.messages_before(conversation_id, seq, size // 2) if size > 1 else []
        first = browse.message_places(before[:1])[before[0]][1] if before else seq
        return newer_messages(browse, conversation_id, first - 1, size)


def message_detail(browse: Browse, message_id: int, times: LocalTimes) -> DetailView:
    """A message, whole."""
    with browse.reading():
        stored = browse.stored_messages([message_id])
        if not stored:
            return DetailView(f"msg#{message_id}", text="It is no longer in the archive.")
        standing = browse.message_status(message_id)
    found, said = stored[0], stored[0].message
    if standing.ordinal is not None:
        place = f"in the context, at {standing.ordinal}"
    elif standing.leaf_id is not None:
        place = f"below {standing.leaf_id}"
    else:
        place = f"hidden: {standing.hidden_cause}" if standing.hidden_cause else "nowhere"
    facts = [
        ("role", said.role),
        ("time", times.minute(found.created_at)),
        ("tokens", format_count(said.tokens)),
        ("place", place),
        ("entry", found.entry_id or ""),
        ("file", found.file_id or ""),
    ]
    text = parts_text(said.parts) or said.content or "(no text)"
    return DetailView(f"msg#{message_id}  seq {found.seq}", _without_empty(facts), text, parts=readable_parts(said))


def readable_parts(said: Message) -> tuple[Part, ...]:
    """The parts of a message; one without parts has its text."""
    return said.parts or ((Text(said.content),) if said.content else ())


def parts_text(parts: Sequence[Part]) -> str:
    """The parts of a message for a person's eyes."""
    return "\n\n".join(text for part in parts if (text := _part_text(part)))


def _part_text(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case Reasoning(text):
            return f"(thinking) {text}" if text else ""
        case ToolCall():
            said = part.input if isinstance(part.input, str) else json.dumps(part.input, ensure_ascii=False, indent=2)
            return f"→ {part.name} {said}"
        case ToolResult():
            return f"{'✗' if part.is_error else '←'} {part.name or 'result'}\n{part.text}"
        case File():
            return f"(file {part.name or ''} {part.mime or ''})"
        case Opaque():
            return f"({part.type})"


def summary_detail(browse: Browse, summary_id: str, times: LocalTimes) -> DetailView:
    """A summary, whole, with its relatives."""
    with browse.reading():
        found = browse.summaries_by_id([summary_id])
        if not found:
            return DetailView(summary_id, text="It is no longer in the archive.")
        sources, users = browse.sources(summary_id), browse.used_in(summary_id)
    row = found[0]
    made_of = f"{', '.join(sources)}" if sources else plural(row.source_message_count, "message")
    facts = (
        ("depth", f"{row.depth} ({row.kind})"),
        ("covers", f"{times.minute(row.earliest_at)} … {times.minute(row.latest_at)}"),
        ("tokens", f"{format_count(row.token_count)} for {format_count(row.source_message_token_count)} of messages"),
        ("written", f"{times.minute(row.created_at)} by {row.model}"),
        ("made of", made_of),
        ("used in", ", ".join(users)),
        ("files", ", ".join(row.file_ids)),
    )
    return DetailView(summary_id, _without_empty(facts), row.content, is_markdown=True)


def _without_empty(facts: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in facts if value)
