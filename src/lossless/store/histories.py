"""What other conversations hold of a transcript: those closed before, those deleted for good, those forked from."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from lossless.model.identity import fingerprint
from lossless.model.messages import MADE_UP
from lossless.model.times import parse_time, row_time
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from lossless.model.conversations import Conversation
    from lossless.store.database import Database, Row
    from lossless.store.messages import Messages

_QUERIES = load("histories")
#: Digests of an entry id and of words, and a second; zeros for what is not known.
_MARK = struct.Struct(">8s8sI")
#: How much of a fingerprint tells words apart here.
PRINT = 8
_NONE = bytes(PRINT)


@dataclass(frozen=True, slots=True)
class Told:
    """A message that another conversation holds, or held."""

    #: The beginning of its fingerprint; empty for one that left the context on a branch.
    print: bytes
    #: A digest of the host's entry id; empty where it has none.
    id: bytes
    #: The second in which it was said, 0 where that is not known.
    at: int
    #: Its row; 0 where it was deleted.
    row: int = 0
    #: Whether its second is that of a transcript; otherwise it may only be the one in which it arrived.
    is_timed: bool = True
    role: str = ""


@dataclass(frozen=True, slots=True)
class History:
    """The messages of one other conversation in their order, and whether it followed the very same file."""

    number: int
    told: tuple[Told, ...]
    is_same_file: bool
    #: The second in which it was closed; 0 where that is not known.
    ended: int = 0


def id_mark(entry_id: str | None) -> bytes:
    """What stands for a host's entry id; empty where there is none, or it was made up for a file."""
    if entry_id is None or entry_id.startswith(MADE_UP):
        return b""
    return blake2b(entry_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()


class Histories:
    """Reads what other conversations hold, and keeps what is left of those that are deleted."""

    def __init__(self, database: Database, messages: Messages | None = None) -> None:
        self._db, self._messages = database, messages

    def former(self, conversation: Conversation) -> list[int]:
        """The conversations that were closed under the same name before this one; runs of a cron job have none."""
        if conversation.session.is_cron:
            return []
        name = {"key": conversation.session_key, "run": conversation.session_id, "id": conversation.id}
        return [id_ for (id_,) in self._db.rows(_QUERIES["former"], name)]

    def following(self, name: str) -> list[int]:
        """The conversations that follow, or followed, the transcript with this path or header id."""
        return [id_ for (id_,) in self._db.rows(_QUERIES["following"], {"name": name})]

    def known(self, conversation_ids: Sequence[int], entry_ids: Sequence[str]) -> list[tuple[str, int, bytes, int]]:
        """Which entry ids some conversations hold: id, conversation, the beginning of its fingerprint, row."""
        place = {"ids": json.dumps(list(conversation_ids)), "entries": json.dumps(list(entry_ids))}
        found = self._db.rows(_QUERIES["known"], place)
        return [(entry_id, id_, (print_ or b"")[:PRINT], row) for entry_id, id_, print_, row in found]

    def history(self, conversation_id: int, path: str) -> History:
        """All that a conversation holds, and whether it followed the file at `path`."""
        rows = self._db.rows(_QUERIES["told"], {"conversation_id": conversation_id})
        foreign = [row[0] for row in rows if row[1] is None]
        prints: dict[int, bytes] = {}
        if foreign and self._messages is not None:
            prints = {one.id: fingerprint(one.message) for one in self._messages.many(foreign)}
        followed, ended = self._db.row(_QUERIES["life"], {"conversation_id": conversation_id}) or (None, None)
        told = tuple(_told(row, prints) for row in rows)
        return History(conversation_id, told, bool(path) and followed == path, _second(ended) if ended else 0)

    # --- what was deleted for good ---

    def bury(self, conversation_ids: Sequence[int], now: datetime) -> None:
        """Keep what tells the messages of conversations that are about to be deleted; belongs into that transaction."""
        for id_ in conversation_ids:
            row = self._db.row(_QUERIES["grave"], {"conversation_id": id_})
            told = [_told(row, {}) for row in self._db.rows(_QUERIES["told"], {"conversation_id": id_})]
            if row is None or not told:
                continue
            seconds = [one.at if one.is_timed else 0 for one in told]
            named = zip(told, seconds, strict=True)
            marks = b"".join(_MARK.pack(one.id or _NONE, one.print or _NONE, at) for one, at in named)
            values = {"number": id_, "key": row[0], "path": row[1] or None, "header_id": row[2], "marks": marks}
            self._db.run(_QUERIES["bury"], values | {"now": row_time(now)})

    def pruned(self, key: str | None, path: str, header_id: str | None) -> list[History]:
        """What was deleted of a session, or of a transcript."""
        place = {"key": key, "path": path or None, "header_id": header_id}
        return [
            History(number, tuple(_unpacked(marks)), bool(path) and followed == path)
            for number, followed, marks in self._db.rows(_QUERIES["pruned"], place)
        ]

    def forget(self, key: str | None, path: str, header_id: str | None) -> None:
        """What was deleted of a session or a transcript may come back."""
        self._db.run(_QUERIES["forget"], {"key": key, "path": path or None, "header_id": header_id})

    # --- forks ---

    def rely(self, conversation_id: int, sources: Iterable[int]) -> None:
        """Note that a fork's older history is stored in these conversations alone."""
        self._db.run_many(_QUERIES["rely"], [{"conversation_id": conversation_id, "source": id_} for id_ in sources])


def _told(row: Row, prints: dict[int, bytes]) -> Told:
    id_, print_, entry_id, created_at, claimed, is_hidden, role = row
    seen = print_ or prints.get(id_, b"")
    is_timed = not claimed and entry_id is not None
    return Told(b"" if is_hidden else seen[:PRINT], id_mark(entry_id), _second(created_at), id_, is_timed, role)


def _unpacked(marks: bytes) -> Iterable[Told]:
    whole = len(marks) - len(marks) % _MARK.size
    for id_, print_, at in _MARK.iter_unpack(marks[:whole]):
        yield Told(b"" if print_ == _NONE else print_, b"" if id_ == _NONE else id_, at)


def _second(text: object) -> int:
    try:
        return max(0, int(parse_time(str(text)).timestamp()))
    except ValueError:
        return 0
