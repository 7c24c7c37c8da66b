"""The age of a file without ids: how often its lines were counted anew, because it was cut or begun again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.lifecycle.stream import age_of, id_of, made_up, made_up_parts, said
from lossless.model.messages import NO_WORDS, line_alone

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lossless.store.archive import Archive
    from lossless.transcripts.entries import BadLine, Entry


def newest(archive: Archive, conversation_id: int) -> int:
    """The age under which the newest ids were made up; 0 where there are none."""
    return max((age_of(id_) for _, id_ in archive.messages.made_up(conversation_id)), default=0)


def aged(entry_id: str | None, age: int) -> str | None:
    """The id of the same line in a file of another age; one that a host gave stays as it is."""
    part = None if entry_id is None else made_up_parts(entry_id)
    return entry_id if part is None else made_up(age, part[1], part[2])


def count(archive: Archive, conversation_id: int, age: int) -> int:
    """How many messages have an id of this age."""
    parts = (made_up_parts(id_) for _, id_ in archive.messages.made_up(conversation_id))
    return sum(part is not None and part[0] == age for part in parts)


def count_anew(archive: Archive, conversation_id: int, entries: Iterable[Entry | BadLine]) -> bool:
    """Give the rows of a file that we have just shortened to its end the ids of its new lines; whether they were those.

    Words need not decide then, however often they repeat.
    """
    age = newest(archive, conversation_id)
    kept = [id_ for entry in said(entries) if entry.id is None and (id_ := id_of(entry, age + 1)) is not None]
    if not kept:
        return False
    with archive.writing():
        rows = [(part, row) for row, id_ in archive.messages.made_up(conversation_id) if (part := made_up_parts(id_))]
        of_age = sorted((part[1], part[2], row) for part, row in rows if part[0] == age)
        last = of_age[-len(kept) :]
        digests = [part[2] for id_ in kept if (part := made_up_parts(id_))]
        if len(digests) != len(last) or any(
            theirs not in (mine, NO_WORDS) for mine, (_, theirs, _) in zip(digests, last, strict=True)
        ):
            return False
        named = zip(last, kept, strict=True)
        archive.messages.stamp([(row, line_alone(id_) if was == NO_WORDS else id_) for (_, was, row), id_ in named])
    return True
