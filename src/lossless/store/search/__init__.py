"""Search in the archive. This module holds the one lookup that hooks make, which must load as little as possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.errors import LosslessError
from lossless.store.database import load_queries
from lossless.store.search.index import PASSAGE_BASE
from lossless.store.sqlite import SqliteDatabase

if TYPE_CHECKING:
    from collections.abc import Sequence

#: How long another process may hold the file before nothing is found.
_BUSY_MS = 20
#: So many of the newest matches in the whole archive are looked at: one with more of them is no name.
_AMONG = 2_000


def find_mentions(
    path: str, conversation_id: int, names: Sequence[str], *, through: int, most: int
) -> dict[str, tuple[int, ...]]:
    """The messages of people and models that have each name in them, newest first, by the index: up to a message,
    and at most so many. Nothing of an archive that cannot be read.
    """
    query = load_queries("search")["spoken_of"]
    common = {"conversation_id": conversation_id, "through": through, "limit": most}
    common |= {"among": _AMONG, "base": PASSAGE_BASE}
    try:
        database = SqliteDatabase(path, read_only=True, busy_timeout_ms=_BUSY_MS)
    except LosslessError:
        return {}
    found: dict[str, tuple[int, ...]] = {}
    try:
        for name in names:
            if any(character.isalnum() for character in name):
                match = f'body: "{name.replace(chr(34), " ").replace(chr(0), " ")}"'
                rows = database.rows(query, common | {"match": match, "name": name})
                found[name] = tuple(row[0] for row in rows)
    except LosslessError:
        return {}
    finally:
        database.close()
    return found
