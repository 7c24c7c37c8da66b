"""What the screens read: windows of a conversation, never all of it, and one thing with all that belongs to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.model.messages import File, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult
from lossless.tui.text import LocalTimes, plural

if TYPE_CHECKING:
    from lossless.maintenance.browse import Browse
    from lossless.model.records import ConversationRow, MessageRow

_FIRST, _LAST = -(2**62), 2**62
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

    @property
    def known(self) -> list[tuple[str, str]]:
        """The facts that are not empty."""
        return [fact for fact in self.facts if fact[1]]


def titles(browse: Browse, rows: Iterable[ConversationRow]) -> dict[int, str]:
    """What conversations are about: their titles, else the first words of a user, else of anybody."""
    found = {row.conversation_id: row.title or "" for row in rows}
    with browse.reading():
        ids = {id_: browse.messages_after(id_, _FIRST, _OPENING) for id_, title in found.items() if not title}
        messages = browse.messages_by_id([id_ for group in ids.values() for id_ in group], whole=False)
    for message in sorted(messages, key=lambda message: message.role != "user"):
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


def older_messages(browse: Browse, conversation_id: int, size: int, seq: int = _LAST) -> MessageWindow:
    """The messages just before a place, or the newest; where there are too few to fill a window, the first ones."""
    with browse.reading():
        ids = browse.messages_before(conversation_id, seq, size + 1)
        if len(ids) < size:
            return newer_messages(browse, conversation_id, size)
        rows = browse.messages_by_id(ids[-size:], whole=False)
        is_newer = bool(browse.messages_after(conversation_id, seq - 1))
    return MessageWindow(tuple(rows), len(ids) > size, is_newer)


def newer_messages(browse: Browse, conversation_id: int, size: int, seq: int = _FIRST) -> MessageWindow:
    """The messages just after a place, or the first ones."""
    with browse.reading():
        ids = browse.messages_after(conversation_id, seq, size + 1)
        rows = browse.messages_by_id(ids[:size], whole=False)
        is_older = bool(browse.messages_before(conversation_id, seq + 1))
    return MessageWindow(tuple(rows), is_older, len(ids) > size)


def messages_around(browse: Browse, conversation_id: int, size: int, message_id: int) -> MessageWindow:
    """A message with its neighbours; the newest ones when it is not there."""
    with browse.reading():
        conversation, seq = browse.message_places([message_id]).get(message_id, (None, 0))
        if conversation != conversation_id:
            return older_messages(browse, conversation_id, size)
        before = browse.messages_before(conversation_id, seq, size // 2) if size > 1 else []
        first = browse.message_places(before[:1])[before[0]][1] if before else seq
        return newer_messages(browse, conversation_id, size, first - 1)


def message_detail(browse: Browse, message_id: int, times: LocalTimes) -> DetailView:
    """A message, whole."""
    with browse.reading():
        stored = browse.stored_messages([message_id])
        if not stored:
            return DetailView(f"msg#{message_id}", text="It is no longer in the archive.")
        status = browse.message_status(message_id)
    found, message = stored[0], stored[0].message
    if status.ordinal is not None:
        place = f"in the context, at {status.ordinal}"
    elif status.leaf_id is not None:
        place = f"below {status.leaf_id}"
    else:
        place = f"hidden: {status.hidden_cause}" if status.hidden_cause else "nowhere"
    facts = (
        ("role", message.role),
        ("time", times.minute(found.created_at)),
        ("tokens", f"{message.tokens:,}"),
        ("place", place),
        ("entry", found.entry_id or ""),
        ("file", found.file_id or ""),
    )
    text = parts_text(message.parts) or message.content or "(no text)"
    return DetailView(f"msg#{message_id}  seq {found.seq}", facts, text, parts=readable_parts(message))


def readable_parts(message: Message) -> tuple[Part, ...]:
    """The parts of a message; one without parts has its text."""
    return message.parts or ((Text(message.content),) if message.content else ())


def parts_text(parts: Sequence[Part]) -> str:
    """The parts of a message for a person's eyes."""
    texts = []
    for part in parts:
        match part:
            case Text(text):
                texts.append(text)
            case Reasoning(text):
                texts.append(f"(thinking) {text}" if text else "")
            case ToolCall():
                given = part.input
                text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, indent=2)
                texts.append(f"→ {part.name} {text}")
            case ToolResult():
                texts.append(f"{'✗' if part.is_error else '←'} {part.name or 'result'}\n{part.text}")
            case File():
                texts.append(f"(file {part.name or ''} {part.mime or ''})")
            case Opaque():
                texts.append(f"({part.type})")
    return "\n\n".join(filter(None, texts))


def summary_detail(browse: Browse, summary_id: str, times: LocalTimes) -> DetailView:
    """A summary, whole, with its relatives."""
    with browse.reading():
        found = browse.summaries_by_id([summary_id])
        if not found:
            return DetailView(summary_id, text="It is no longer in the archive.")
        sources, users = browse.sources(summary_id), browse.used_in(summary_id)
    row = found[0]
    made_of = ", ".join(sources) if len(sources) < 3 else plural(len(sources), "summary")
    made_of = made_of or plural(row.source_message_count, "message")
    facts = (
        ("depth", f"{row.depth} ({row.kind})"),
        ("covers", f"{times.minute(row.earliest_at)} … {times.minute(row.latest_at)}"),
        ("tokens", f"{row.token_count:,} for {row.source_message_token_count:,} of messages"),
        ("written", f"{times.minute(row.created_at)} by {row.model}"),
        ("made of", made_of),
        ("used in", ", ".join(users)),
        ("files", ", ".join(row.file_ids)),
    )
    return DetailView(summary_id, facts, row.content, is_markdown=True)
