"""Deleting whole conversations for good, on a person's command: what would go, then letting it go.

Nothing here runs by itself. A plan only reads; carrying it out deletes a hundred conversations at a time, each
hundred in a transaction of its own, so that an interruption leaves an archive in which everything holds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import BadInput
from lossless.files.keep import collect
from lossless.files.vault import Orphan
from lossless.ingest.shared_payloads import files_of_others
from lossless.model.conversations import matches_any
from lossless.store.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from lossless.files.vault import Vault
    from lossless.store.archive import Archive
    from lossless.store.retention import FilePlace, Held

BATCH = 100
_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}
_MOST_DAYS = 365_000
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
#: A file of which this share is free is worth writing anew.
_WORTHWHILE = 0.1
#: What a row costs beside its text: its other columns, its place in indexes.
_ROW_BYTES = 200


@dataclass(frozen=True, slots=True)
class Choice:
    """Which conversations a person wants to be rid of; all conditions that are given must hold."""

    #: Silent for longer than this.
    older_than: timedelta | None = None
    #: The oldest, until the archive and its files take at most so many bytes.
    to_bytes: int | None = None
    #: Sessions with names that match one of these globs.
    patterns: tuple[str, ...] = ()
    include_active: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing was asked for."""
        return self.older_than is None and self.to_bytes is None and not self.patterns


@dataclass(frozen=True, slots=True)
class Pruned:
    """A conversation that goes, and about how many bytes it takes."""

    held: Held
    bytes: int


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """What would be deleted. Bytes are estimates: of the database by its share of all text, of files as stored."""

    chosen: tuple[Pruned, ...]
    #: Conversations that were meant and stay: another one holds something of theirs.
    in_use: tuple[int, ...] = ()
    #: The archive with its files, now and afterwards.
    bytes_before: int = 0
    bytes_after: int = 0

    @property
    def messages(self) -> int:
        return sum(item.held.messages for item in self.chosen)

    @property
    def summaries(self) -> int:
        return sum(item.held.summaries for item in self.chosen)

    @property
    def files(self) -> int:
        return sum(item.held.files for item in self.chosen)

    @property
    def bytes(self) -> int:
        return sum(item.bytes for item in self.chosen)


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What was deleted."""

    conversations: int
    messages: int
    summaries: int
    files: int
    file_bytes: int
    #: Conversations that changed since the plan was made, or that somebody works on, and stay.
    left: tuple[int, ...] = ()
    #: Files of deleted conversations that lie elsewhere or could not be deleted.
    files_left: int = 0


@dataclass(frozen=True, slots=True)
class RoomReport:
    """What writing the file anew gave back; `reason` says why it was not done."""

    size_before: int
    size_after: int
    done: bool
    reason: str | None = None


def parse_age(text: str) -> timedelta:
    """A stretch of time: a number and `d`, `w`, `m` (30 days) or `y` (365 days).

    >>> parse_age("12w").days, parse_age("2y").days
    (84, 730)
    """
    found = re.fullmatch(r"([1-9]\d{0,5})([dwmy])", text.strip(), re.ASCII | re.IGNORECASE)
    if found is None:
        raise BadInput(f"{text!r} is not an age; write a number and d, w, m or y, such as 90d")
    days = int(found[1]) * _DAYS[found[2].lower()]
    if days > _MOST_DAYS:
        raise BadInput(f"{text!r} is longer ago than a calendar goes; 1000y is the most")
    return timedelta(days=days)


def parse_size(text: str) -> int:
    """A number of bytes: a number, with a fraction or not, and `kB`, `MB`, `GB` or `TB`.

    >>> parse_size("1.5 GB"), parse_size("900")
    (1610612736, 900)
    """
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*([kmgt]?)b?", text.strip(), re.ASCII | re.IGNORECASE)
    if found is None:
        raise BadInput(f"{text!r} is not a size; write a number and kB, MB or GB, such as 2GB")
    return int(float(found[1]) * _SIZES[found[2].lower()])


# --- the plan ---------------------------------------------------------------------------------------------


def plan(archive: Archive, choice: Choice, now: datetime) -> PrunePlan:
    """What a choice would delete; reads only."""
    retention = Retention(archive.database)
    with archive.reading():
        size, free = archive.care.size()
        held = retention.held()
        borrowed = retention.borrowed()
    return chosen_of(held, borrowed, choice, size - free, now)


def chosen_of(
    held: Sequence[Held], borrowed: Iterable[tuple[int, int]], choice: Choice, live_bytes: int, now: datetime
) -> PrunePlan:
    """The conversations that a choice means, the longest silent first, with what they take."""
    weights = [_weight(item) for item in held]
    total = sum(weights) or 1
    sized = [
        Pruned(item, live_bytes * weight // total + item.file_bytes) for item, weight in zip(held, weights, strict=True)
    ]
    meant = [item for item in sized if _is_meant(item.held, choice, now)]
    free_to_go = _not_in_use({item.held.id for item in meant}, borrowed)
    candidates = [item for item in meant if item.held.id in free_to_go]
    before = live_bytes + sum(item.file_bytes for item in held)
    chosen = candidates if choice.to_bytes is None else _until_below(candidates, before, choice.to_bytes)
    in_use = tuple(item.held.id for item in meant if item.held.id not in free_to_go)
    return PrunePlan(tuple(chosen), in_use, before, before - sum(item.bytes for item in chosen))


def _weight(held: Held) -> int:
    return held.text_bytes + _ROW_BYTES * (held.messages + held.summaries + 1)


def _is_meant(held: Held, choice: Choice, now: datetime) -> bool:
    if choice.is_empty or (held.active and not choice.include_active):
        return False
    if choice.patterns and not matches_any(held.name, choice.patterns):
        return False
    if choice.older_than is None:
        return True
    return held.newest_at is not None and held.newest_at < now - choice.older_than


def _not_in_use(meant: set[int], borrowed: Iterable[tuple[int, int]]) -> set[int]:
    """Those of which no conversation that stays holds anything."""
    pairs = [(holder, owner) for holder, owner in borrowed if owner in meant]
    free = set(meant)
    while used := {owner for holder, owner in pairs if owner in free and holder not in free}:
        free -= used
    return free


def _until_below(candidates: Sequence[Pruned], size: int, limit: int) -> list[Pruned]:
    """As many of the oldest as it takes."""
    taken: list[Pruned] = []
    for item in candidates:
        if size <= limit:
            break
        taken.append(item)
        size -= item.bytes
    return taken


# --- carrying it out --------------------------------------------------------------------------------------


def apply(
    archive: Archive,
    vault: Vault | None,
    work: PrunePlan,
    now: datetime,
    progress: Callable[[int], None] | None = None,
) -> PruneReport:
    """Delete what a plan chose and nothing that changed since; rows first, then files, a hundred at a time."""
    retention = Retention(archive.database)
    gone: list[Held] = []
    left: list[int] = []
    deleted = file_bytes = files_left = 0
    for start in range(0, len(work.chosen), BATCH):
        some = [item.held for item in work.chosen[start : start + BATCH]]
        with archive.writing():
            ready = set(retention.unchanged(some, now))
            ready = _not_in_use(ready, retention.borrowed())
            files = retention.files(sorted(ready))
            if ready:
                retention.delete(sorted(ready), now)
        gone += [item for item in some if item.id in ready]
        left += [item.id for item in some if item.id not in ready]
        removed = _remove_files(archive, vault, files)
        deleted += len(removed)
        file_bytes += sum(orphan.size for orphan in removed)
        files_left += len(files) - len(removed)
        if progress:
            progress(len(some))
    messages, summaries = sum(item.messages for item in gone), sum(item.summaries for item in gone)
    return PruneReport(len(gone), messages, summaries, deleted, file_bytes, tuple(left), files_left)


def _remove_files(archive: Archive, vault: Vault | None, files: Sequence[FilePlace]) -> list[Orphan]:
    """Delete the bytes of files whose rows are gone; what lies outside of the vault is not ours to delete."""
    if vault is None or not files:
        return []
    orphans = [
        Orphan(vault.root / str(file.conversation_id) / Path(file.place).name, file.id, file.bytes)
        for file in files
        if Path(file.place).name.startswith(f"{file.id}.")
    ]
    there = [orphan for orphan in orphans if orphan.path.is_file()]
    try:
        others = files_of_others(archive, vault)
    except BadInput:  # whose they are is not known: they stay
        return []
    with archive.writing():
        return collect(archive.files, vault, there, others)


def give_room_back(archive: Archive, *, always: bool = False) -> RoomReport:
    """Write the file anew without its free pages, when that is worthwhile or asked for."""
    size, free = archive.care.size()
    if not always and free < _WORTHWHILE * size:
        return RoomReport(size, size, False, "too little is free to be worthwhile")
    reason = Retention(archive.database).give_back()
    return RoomReport(size, archive.care.size()[0], reason is None, reason)
