"""Looking a transcript through before anything is stored of it: what in it is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from lossless.lifecycle.epochs import Front
from lossless.lifecycle.stream import id_of, said
from lossless.transcripts.entries import BadLine

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from lossless.store.archive import Archive
    from lossless.transcripts.entries import Entry

#: How many entries are looked up at once.
_AT_ONCE = 1000


@dataclass(slots=True)
class Survey:
    """What the messages of a path are to a conversation. Places count messages from 0."""

    messages: int = 0
    known: int = 0
    first_unknown: int | None = None
    last_known: int | None = None
    #: How many have an id that was made up for this file.
    made_up: int = 0
    #: The last message, and the newest records of the path.
    last: Entry | None = None
    front: Front = field(default_factory=Front)
    _earliest: datetime | None = None
    _is_untimed: bool = False

    @property
    def earliest_at(self) -> datetime | None:
        """When the first unknown message was said; None when one of them has no time."""
        return None if self._is_untimed else self._earliest

    def add(self, entry: Entry, *, is_known: bool) -> None:
        """Take the next message in."""
        if is_known:
            self.known += 1
            self.last_known = self.messages
        else:
            self.first_unknown = self.messages if self.first_unknown is None else self.first_unknown
            at = entry.created_at
            self._is_untimed = self._is_untimed or at is None
            if at is not None and (self._earliest is None or at < self._earliest):
                self._earliest = at
        self.messages, self.last = self.messages + 1, entry


def survey(archive: Archive, conversation_id: int, entries: Iterable[Entry | BadLine], age: int = 0) -> Survey:
    """Look up the ids of all messages of a path; memory does not grow with it."""
    found, stream = Survey(), iter(entries)
    while chunk := list(islice(stream, _AT_ONCE)):
        messages = list(said(chunk))
        ids = [id_of(entry, age) for entry in messages]
        stored = archive.messages.known_entries(conversation_id, [id_ for id_ in ids if id_ is not None])
        for entry, id_ in zip(messages, ids, strict=True):
            found.add(entry, is_known=id_ is not None and id_ in stored)
            found.made_up += entry.id is None and id_ is not None
        found.front = found.front.along(entry for entry in chunk if not isinstance(entry, BadLine))
    return found
