"""The size of an archive's parts, and permanent deletion of conversations, which is planned first."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import ArchiveCorrupt, BadInput, LosslessError
from lossless.files.vault import OrphanFile, Vault, delete_orphans, vault_users
from lossless.maintenance import backup
from lossless.model.conversations import matches_any
from lossless.store.archive import Archive
from lossless.store.bundles import other_programs
from lossless.store.maintenance.deletion import ArchiveRemover, ConversationSize

if TYPE_CHECKING:
    from lossless.maintenance.engine_parts import EngineParts
    from lossless.model.records import ArchiveCounts


def files_of_other_archives(archive: Archive, vault: Vault) -> frozenset[str]:
    """The ids of files that other archives keep in a folder; BadInput when these are unknown."""
    if not vault.root.is_dir():
        return frozenset()
    users, are_all = vault_users(vault.root)
    mine = os.path.realpath(archive.path)
    if not are_all:
        raise BadInput(
            f"the folder {str(vault.root)!r} dates from before archives had their own folders, so others may keep "
            "files there: name all archives that do, once, with `lcm files gc --used-by PATH`"
        )
    found: set[str] = set()
    for place in users:
        if os.path.realpath(place) == mine:
            continue
        try:
            with Archive.open(place, read_only=True) as other:
                found |= other.files.ids()
        except LosslessError as error:
            raise BadInput(
                f"the archive {str(place)!r} keeps files in {str(vault.root)!r} and cannot be read ({error}); "
                "if it is gone, name those that are left with `lcm files gc --used-by PATH`"
            ) from error
    return frozenset(found)


def find_orphans(parts: EngineParts) -> list[OrphanFile]:
    """Files on disk that no row refers to, of this archive and of others in the same folder."""
    return parts.files.orphans(parts.archive.files.ids() | files_of_other_archives(parts.archive, parts.files))


def remove_orphans(parts: EngineParts, orphans: Sequence[OrphanFile]) -> list[OrphanFile]:
    """Delete those that still have no row; returns them."""
    with parts.archive.writing():
        known = parts.archive.files.ids() | files_of_other_archives(parts.archive, parts.files)
        return delete_orphans(parts.files, orphans, known)


BATCH = 100
_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}
_MAX_DAYS = 365_000
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
#: The share of free pages from which on a vacuum is worthwhile.
_WORTHWHILE = 0.1
#: The size of a row besides its text: its other columns, its index entries.
_ROW_BYTES = 200


@dataclass(frozen=True, slots=True)
class PruneFilter:
    """Which conversations to delete; all given conditions must hold."""

    #: Inactive for longer than this.
    older_than: timedelta | None = None
    #: The oldest, until the archive and its files take at most so many bytes.
    to_bytes: int | None = None
    #: Sessions with names that match one of these globs.
    patterns: tuple[str, ...] = ()
    include_active: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether no condition is given."""
        return self.older_than is None and self.to_bytes is None and not self.patterns


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """What would be deleted. Bytes are estimates: of the database by its share of all text, of files as stored."""

    chosen: tuple[ConversationSize, ...]
    #: Matching conversations that stay: another one holds something of theirs.
    in_use: tuple[int, ...] = ()
    #: The archive with its files, now and afterwards.
    bytes_before: int = 0
    bytes_after: int = 0

    @property
    def messages(self) -> int:
        return sum(item.messages for item in self.chosen)

    @property
    def summaries(self) -> int:
        return sum(item.summaries for item in self.chosen)

    @property
    def files(self) -> int:
        return sum(item.files for item in self.chosen)

    @property
    def bytes(self) -> int:
        return sum(item.bytes for item in self.chosen)


@dataclass(frozen=True, slots=True)
class PruneReport:
    conversations: int
    messages: int
    summaries: int
    files: int
    file_bytes: int
    #: Conversations that changed since the plan was made, or are in use, and stay.
    left: tuple[int, ...] = ()
    #: Files of deleted conversations that are elsewhere or could not be deleted.
    files_left: int = 0


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """The result of a vacuum; `reason` says why it was not done."""

    size_before: int
    size_after: int
    done: bool
    reason: str | None = None


def parse_age(text: str) -> timedelta:
    """A duration: a number and `d`, `w`, `m` (30 days) or `y` (365 days)."""
    found = re.fullmatch(r"([1-9]\d{0,5})([dwmy])", text.strip(), re.ASCII | re.IGNORECASE)
    if found is None:
        raise BadInput(f"{text!r} is not an age; write a number and d, w, m or y, such as 90d")
    days = int(found[1]) * _DAYS[found[2].lower()]
    if days > _MAX_DAYS:
        raise BadInput(f"{text!r} is too long; the maximum is 1000y")
    return timedelta(days=days)


def parse_size(text: str) -> int:
    """A number of bytes: a number, optionally with a fraction, and `kB`, `MB`, `GB` or `TB`."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*([kmgt]?)b?", text.strip(), re.ASCII | re.IGNORECASE)
    if found is None:
        raise BadInput(f"{text!r} is not a size; write a number and kB, MB or GB, such as 2GB")
    return int(float(found[1]) * _SIZES[found[2].lower()])


def plan_prune(parts: EngineParts, choice: PruneFilter) -> PrunePlan:
    """Which conversations a filter would delete, and their size; changes nothing."""
    retention = ArchiveRemover(parts.archive)
    with parts.archive.reading():
        size, free = parts.archive.listings.size()
        held, borrowed = retention.held(), retention.borrowed()
    return choose_conversations(held, borrowed, choice, size - free, parts.clock())


def choose_conversations(
    held: Sequence[ConversationSize], borrowed: Iterable[tuple[int, int]], choice: PruneFilter, live: int, now: datetime
) -> PrunePlan:
    """The conversations that a filter selects, longest inactive first, with their sizes."""
    weights = [item.text_bytes + _ROW_BYTES * (item.messages + item.summaries + 1) for item in held]
    total = sum(weights) or 1
    weighed = zip(held, weights, strict=True)
    sized = [replace(item, bytes=live * weight // total + item.file_bytes) for item, weight in weighed]
    oldest = None if choice.older_than is None else now - choice.older_than
    meant = [
        item
        for item in sized
        if not choice.is_empty
        and (choice.include_active or not item.active)
        and (not choice.patterns or matches_any(item.name, choice.patterns))
        and (oldest is None or (item.newest_at is not None and item.newest_at < oldest))
    ]
    unused = not_in_use({item.id for item in meant}, borrowed)
    before = remaining = live + sum(item.file_bytes for item in held)
    chosen = []
    for item in meant:
        if item.id not in unused:
            continue
        if choice.to_bytes is not None and remaining <= choice.to_bytes:
            break
        chosen.append(item)
        remaining -= item.bytes
    return PrunePlan(tuple(chosen), tuple(item.id for item in meant if item.id not in unused), before, remaining)


def not_in_use(meant: set[int], borrowed: Iterable[tuple[int, int]]) -> set[int]:
    """Those that can be deleted: no other holds anything of theirs, by `borrowed` pairs of holder and owner."""
    pairs = [(holder, owner) for holder, owner in borrowed if owner in meant]
    free = set(meant)
    while used := {owner for holder, owner in pairs if owner in free and holder not in free}:
        free -= used
    return free


def apply_prune(
    parts: EngineParts,
    plan: PrunePlan,
    *,
    backup: bool = True,
    with_files: bool = True,
    progress: Callable[[int], None] | None = None,
) -> PruneReport:
    """Permanently delete what a plan chose, with its files (`with_files`); by default a backup is made first.

    What changed since stays. Rows are deleted first, then files, a hundred conversations at a time.
    """
    if backup and plan.chosen:
        parts.copy("prune", with_files=with_files)
    archive, now, retention = parts.archive, parts.clock(), ArchiveRemover(parts.archive)
    vault = parts.vault if with_files else None
    gone: list[ConversationSize] = []
    kept: list[int] = []
    deleted = file_bytes = files_left = 0
    for start in range(0, len(plan.chosen), BATCH):
        some = plan.chosen[start : start + BATCH]
        with archive.writing():
            ready = not_in_use(set(retention.unchanged(some, now)), retention.borrowed())
            files = retention.files(sorted(ready))
            if ready:
                retention.delete(sorted(ready), now)
        gone += [item for item in some if item.id in ready]
        kept += [item.id for item in some if item.id not in ready]
        removed = _remove_files(archive, vault, files)
        deleted += len(removed)
        file_bytes += sum(orphan.size for orphan in removed)
        files_left += len(files) - len(removed)
        if progress:
            progress(len(some))
    messages, summaries = sum(item.messages for item in gone), sum(item.summaries for item in gone)
    parts.log.log("prune", conversations=len(gone), messages=messages, files=deleted)
    return PruneReport(len(gone), messages, summaries, deleted, file_bytes, tuple(kept), files_left)


def _remove_files(
    archive: Archive, vault: Vault | None, files: Sequence[tuple[str, int, str, int]]
) -> list[OrphanFile]:
    """Delete the bytes of files whose rows are gone; files outside of the vault stay."""
    if vault is None or not files:
        return []
    orphans = [
        OrphanFile(vault.root / str(conversation_id) / Path(place).name, id_, size)
        for id_, conversation_id, place, size in files
        if Path(place).name.startswith(f"{id_}.")
    ]
    there = [orphan for orphan in orphans if orphan.path.is_file()]
    try:
        others = files_of_other_archives(archive, vault)
    except BadInput:  # their owner is unknown: they stay
        return []
    with archive.writing():
        return delete_orphans(vault, there, archive.files.ids() | others)


def vacuum_archive(archive: Archive, *, always: bool = False) -> VacuumReport:
    """Vacuum the file, when that is worthwhile or requested."""
    size, free = archive.listings.size()
    if not always and free < _WORTHWHILE * size:
        return VacuumReport(size, size, False, "too little space is free to be worthwhile")
    reason = ArchiveRemover(archive).give_back()
    return VacuumReport(size, archive.listings.size()[0], reason is None, reason)


def adopt_archive(
    path: str, now: datetime, progress: Callable[[int], None] | None = None
) -> tuple[VacuumReport, Path, ArchiveCounts]:
    """Drop the search tables that only lossless-claw reads, after a backup; rows are counted again afterwards.

    Returns the sizes, the backup and the counts. Raises `ArchiveLocked` while another process has the file open.
    """
    with Archive.open(path, busy_timeout_ms=backup.PATIENCE_MS) as archive:
        archive.catch_up(progress=progress)
        with other_programs.exclusive_access(archive.database):
            before, (size, _) = archive.listings.counts(), archive.listings.size()
            copy = backup.make_backup_beside(archive, "adopt", now, vault=None).path
            with Archive.open(copy, read_only=True) as copied:
                _check_unchanged(before, copied.listings.counts(), f"the backup {str(copy)!r}")
            other_programs.drop_upstream_search(archive.database)
            after = archive.listings.counts()
            _check_unchanged(before, after, f"archive {archive.path!r} (its backup is {str(copy)!r})")
            return VacuumReport(size, archive.listings.size()[0], True), copy, after


def _check_unchanged(before: ArchiveCounts, after: ArchiveCounts, what: str) -> None:
    if before != after:
        raise ArchiveCorrupt(f"{what} does not hold what it should: {after} instead of {before}")


#: Rows of the report and the tables that they count, in display order.
_ROWS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("messages", ("messages", "message_extras", "message_parts", "message_versions")),
    ("summaries", ("summaries", "summary_messages", "summary_parents", "summary_extras")),
    ("full-text index", ("message_index", "summary_index", "version_index", "message_passages")),
    ("trigram index", ("message_trigrams",)),
    ("vectors", ("message_vectors",)),
    ("lossless-claw's search index", ("messages_fts", "summaries_fts")),
)
#: Rows that are shown only where there is something in them.
_OPTIONAL_ROWS = ("lossless-claw's search index", "vectors")
#: Ages for closed, inactive conversations.
_AGES = ("30d", "90d", "180d", "1y")


@dataclass(frozen=True, slots=True)
class SizeRow:
    """A part of the archive; `count` is its number of rows, `of_messages` its size relative to the messages."""

    name: str
    bytes: int
    count: int | None = None
    of_messages: float | None = None


@dataclass(frozen=True, slots=True)
class SpaceSaving:
    """Something that could be deleted, how much that would free, and the command for it."""

    what: str
    count: int
    bytes: int
    command: str


@dataclass(frozen=True, slots=True)
class SizeReport:
    """The bytes of an archive by part. `is_exact` is False where SQLite cannot count pages."""

    rows: tuple[SizeRow, ...]
    could_go: tuple[SpaceSaving, ...]
    database_bytes: int
    free_bytes: int
    file_bytes: int
    message_text_bytes: int
    is_exact: bool = True


def measure_archive(parts: EngineParts) -> SizeReport:
    """The size of the archive's parts, and what could be freed."""
    archive, vault, retention = parts.archive, parts.vault, ArchiveRemover(parts.archive)
    with archive.reading():
        size, free = archive.listings.size()
        pages = retention.page_sizes()
        tables = retention.texts() if pages is None else pages
        messages, text = retention.message_text()
        by_kind = retention.summary_text()
        claw = other_programs.find_reclaimable(archive.database)
        known = archive.files.ids()
        held, borrowed = retention.held(), retention.borrowed()
    sizes = dict.fromkeys((name for name, _ in _ROWS), 0)
    for table, taken in tables.items():  # a table, one of its indexes or shadow tables: the longest matching name
        bare = table.removeprefix("sqlite_autoindex_")
        fits = [(len(one), row) for row, some in _ROWS for one in some if bare == one or bare.startswith(f"{one}_")]
        if fits:
            sizes[max(fits)[1]] += taken
    sizes["other"] = max(0, size - free - sum(sizes.values()))
    orphans = [] if vault is None else vault.orphans(known)
    on_disk = sum(item.file_bytes for item in held)
    backups = [] if archive.path == ":memory:" else backup.list_backups(archive.path)
    rows = _rows(sizes, by_kind, messages, (sum(item.files for item in held), on_disk), free)
    gone = []
    for age in _AGES:
        work = choose_conversations(held, borrowed, PruneFilter(parse_age(age)), size - free, parts.clock())
        what, command = f"closed conversations older than {age}", f"lcm prune --older-than {age} --apply"
        gone.append(SpaceSaving(what, len(work.chosen), work.bytes, command))
    gone += [
        SpaceSaving("files without a row", len(orphans), sum(item.size for item in orphans), "lcm files gc --apply"),
        SpaceSaving("lossless-claw's search tables", len(claw.tables), claw.bytes, "lcm adopt --apply"),
        SpaceSaving("free pages", 1 if free else 0, free, "lcm prune --vacuum --apply"),
        SpaceSaving("backups next to the archive", len(backups), sum(item.bytes for item in backups), "lcm backups"),
    ]
    could_go = tuple(item for item in gone if item.count and item.bytes)
    return SizeReport(rows, could_go, size, free, on_disk, text, pages is not None)


def _rows(
    sizes: dict[str, int], by_kind: Mapping[str, tuple[int, int]], messages: int, files: tuple[int, int], free: int
) -> tuple[SizeRow, ...]:
    """The rows in display order; leaves and condensed summaries share the bytes of summaries by their texts."""
    (leaves, leaf_text), (condensed, text) = by_kind.get("leaf", (0, 0)), by_kind.get("condensed", (0, 0))
    summaries, base = sizes.pop("summaries"), sizes["messages"] or 1
    of_leaves = summaries * leaf_text // ((leaf_text + text) or 1)
    if leaf_text + text == 0:
        sizes["other"], summaries = sizes["other"] + summaries, 0
    shown: list[tuple[str, int, int | None]] = [
        ("messages", sizes.pop("messages"), messages),
        ("leaf summaries", of_leaves, leaves),
        ("condensed summaries", summaries - of_leaves, condensed),
        *((name, size, None) for name, size in sizes.items() if size or name not in _OPTIONAL_ROWS),
    ]
    found = [SizeRow(name, size, count, round(size / base, 4)) for name, size, count in shown]
    return (*found, SizeRow("free pages", free), SizeRow("files on disk", files[1], files[0]))
