"""A transcript that goes on after its conversation was closed: what was said before belongs to the closed one."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from lossless.lifecycle.stream import id_of, said
from lossless.model.messages import MADE_UP

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from lossless.model.conversations import Conversation
    from lossless.store.archive import Archive
    from lossless.transcripts.entries import BadLine, Entry

#: How many entries are looked up at once.
_AT_ONCE = 1000


def said_before(archive: Archive, conversation: Conversation, place: Path, entries: Iterable[Entry | BadLine]) -> int:
    """How many messages of a path are stored in the conversation that was closed under the same key before this one.

    Ids decide; those that were made up for a file without any hold for that very file alone.
    """
    former = archive.conversations.former(conversation)
    if former is None:
        return 0
    point = archive.transcripts.checkpoint(former.id)
    is_same_file = point is not None and point.path == str(place)
    count = before = 0
    stream = said(entries)
    while chunk := [id_of(entry) for entry in islice(stream, _AT_ONCE)]:
        stored = archive.messages.known_entries(former.id, [id_ for id_ in chunk if id_ is not None])
        for id_ in chunk:
            count += 1
            if id_ is not None and id_ in stored and (is_same_file or not id_.startswith(MADE_UP)):
                before = count
    return before
