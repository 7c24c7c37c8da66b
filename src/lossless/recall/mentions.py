"""Messages that mention a name, in an archive that is not open; imports little, because a hook waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from lossless.errors import LosslessError
from lossless.store.database import PASSAGE_BASE, Database, load_queries

#: How long to wait for another process before giving up without a result.
_BUSY_MS = 20
#: How many of the newest matches in the whole archive are read: a term with more is not a name.
_AMONG = 2_000


def find_mentions(
    path: str, conversation_id: int, names: Sequence[str], *, through: int, limit: int
) -> dict[str, tuple[int, ...]]:
    """The messages of people and models with each name in them, newest first: up to a message, so many a name.

    Empty when the archive cannot be read.
    """
    query = load_queries("search")["mentions"]
    common = {"conversation_id": conversation_id, "through": through, "limit": limit}
    common |= {"among": _AMONG, "base": PASSAGE_BASE}
    found: dict[str, tuple[int, ...]] = {}
    try:
        with closing(Database(path, read_only=True, busy_timeout_ms=_BUSY_MS)) as database:
            for name in names:
                if any(character.isalnum() for character in name):
                    match = f'body: "{name.replace(chr(34), " ").replace(chr(0), " ")}"'
                    found[name] = tuple(database.column(query, common | {"match": match, "name": name}))
    except LosslessError:
        return {}
    return found
