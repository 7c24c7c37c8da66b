"""What can be opened by an address: summaries, messages and files, as `lcm://<kind>/<id>`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lossless.errors import BadInput, NoArchive
from lossless.model.conversations import Session
from lossless.model.times import state_time
from lossless.recall.calls import error_result
from lossless.store.listings import Place

if TYPE_CHECKING:
    from lossless.recall.calls import ToolResult
    from lossless.serve.room import ReadingRoom
    from lossless.store.archive import Archive
    from lossless.store.listings import SummaryRow

TEMPLATES = {
    "summary": "A summary by its id (sum_…), with what it was made of.",
    "message": "A message by its number (12 for msg#12), in full, with its neighbours.",
    "file": "A stored file by its id (file_…), with its content.",
}
_ADDRESS = re.compile(r"lcm://(summary|message|file)/([^/?#]{1,200})")
_CURSOR = re.compile(r"([0-9T:.Z+-]{0,40})\|(sum_\w{1,80})", re.ASCII)
_PAGE = 50
_NAME_CHARS = 80


@dataclass(frozen=True, slots=True)
class Listed:
    """One thing that can be opened."""

    uri: str
    name: str
    about: str


@dataclass(frozen=True, slots=True)
class Shelf:
    """Some of what can be opened, and where the rest begins."""

    items: tuple[Listed, ...]
    cursor: str | None


def listed(room: ReadingRoom, cursor: str | None = None) -> Shelf:
    """Summaries, newest first; a session's own when the room is for one. Messages and files are opened by id.

    Where nothing is kept yet, nothing is listed.
    """
    start = None if cursor is None else _place(cursor)
    try:
        with room.engine() as engine:
            return _shelf(engine.archive, room.session_key, start)
    except NoArchive:
        return Shelf((), None)


def _shelf(archive: Archive, session_key: str | None, start: Place | None) -> Shelf:
    conversation = None if session_key is None else archive.conversations.find(Session(key=session_key))
    if session_key is not None and conversation is None:
        return Shelf((), None)
    page = archive.listings.summaries(_PAGE, start, conversation_id=None if conversation is None else conversation.id)
    following = None if page.next is None else f"{page.next.at}|{page.next.id}"
    return Shelf(tuple(_listed(row) for row in page.rows), following)


def opened(room: ReadingRoom, uri: str) -> ToolResult:
    """What an address leads to, as `lcm_describe` shows it; an address that leads nowhere is an error result."""
    found = _ADDRESS.fullmatch(uri)
    if found is None:
        return error_result("this is no address here", hint="There are lcm://summary/…, lcm://message/…, lcm://file/….")
    kind, name = found[1], unquote(found[2])
    wanted = f"msg#{name.removeprefix('msg#')}" if kind == "message" else name
    return room.call("lcm_describe", {"id": wanted})


def _listed(row: SummaryRow) -> Listed:
    about = " ".join(row.content.split())[:_NAME_CHARS]
    span = " to ".join(state_time(at) for at in (row.earliest_at, row.latest_at) if at is not None)
    return Listed(
        f"lcm://summary/{row.summary_id}",
        row.summary_id,
        f"conversation {row.conversation_id}, depth {row.depth}, {span or 'undated'}: {about}",
    )


def _place(cursor: str) -> Place:
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise BadInput("this cursor is not from this list")
    return Place(found[1], found[2])
