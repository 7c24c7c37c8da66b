"""Conversations as people read them: what was said, what was called, what it was summed up to."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless import formats
from lossless.errors import ArchiveError, NotFound
from lossless.files.intercept import restored
from lossless.files.keep import reader
from lossless.model.messages import File, Opaque, Reasoning, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lossless.files.vault import Vault
    from lossless.model.messages import Json, StoredMessage
    from lossless.model.summaries import Summary
    from lossless.store.archive import Archive

_PAGE = 500


@dataclass(frozen=True, slots=True)
class Said:
    """A message to be read: its text, what it thought, what it called, what it carried, why it is hidden."""

    id: int
    seq: int
    role: str
    at: str
    text: str
    thoughts: tuple[str, ...] = ()
    calls: tuple[tuple[str, str], ...] = ()
    attached: tuple[str, ...] = ()
    hidden: str | None = None


def said(archive: Archive, conversation_id: int, hidden: dict[int | str, str]) -> Iterator[Said]:
    """The messages of a conversation, oldest first."""
    for stored in in_order(archive, conversation_id):
        parts = stored.message.parts
        calls = tuple((part.name, _input(part.input)) for part in parts if isinstance(part, ToolCall))
        yield Said(
            stored.id,
            stored.seq,
            stored.message.role,
            f"{stored.created_at:%Y-%m-%d %H:%M:%S} UTC",
            stored.message.content,
            tuple(part.text for part in parts if isinstance(part, Reasoning) and part.text),
            calls,
            tuple(_attached(part) for part in parts if isinstance(part, File | Opaque)),
            hidden.get(stored.id),
        )


def in_order(archive: Archive, conversation_id: int) -> Iterator[StoredMessage]:
    """The stored messages of a conversation, oldest first, never all of them in memory."""
    after = 0
    while page := archive.messages.in_order(conversation_id, after, _PAGE):
        yield from page
        after = page[-1].seq


def originals(archive: Archive, vault: Vault | None, conversation_id: int) -> Iterator[dict[str, Json]]:
    """Each message as it came, with its id and time around it, as `lcm append` reads it."""
    for stored in in_order(archive, conversation_id):
        message = stored.message
        recipe = archive.files.recipes([stored.id]).get(stored.id)
        if recipe is not None and vault is not None:
            try:
                message = restored(message, recipe, reader(archive.files, vault), formats.decode)
            except (NotFound, ArchiveError):
                message = stored.message
        if message.body is None and message.parts:
            body: dict[str, Json] = dict(formats.encode([message], "openclaw")[0])
        else:
            body = message.original
        line: dict[str, Json] = {"message": body, "timestamp": f"{stored.created_at:%Y-%m-%dT%H:%M:%SZ}"}
        if stored.entry_id is not None:
            line["id"] = stored.entry_id
        yield line


def summaries(archive: Archive, ids: list[str]) -> list[Summary]:
    """Summaries, the widest first, then in the order of what they cover."""
    found = archive.summaries.many(ids)
    return sorted(found, key=lambda one: (-one.depth, str(one.earliest_at), one.id))


def file_name(conversation_id: int, name: str, ending: str) -> str:
    """A name that every system takes, whatever a session is called."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60].strip("-")
    return f"{conversation_id:04d}{f'-{plain}' if plain else ''}.{ending}"


def _input(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def _attached(part: File | Opaque) -> str:
    if isinstance(part, File):
        return " ".join(filter(None, ("file", part.name, part.mime)))
    return f"block of type {part.type}"
