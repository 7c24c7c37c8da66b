"""What takes the room of an archive, and what of it could go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.lifecycle import backup, prune
from lossless.store import adopt
from lossless.store.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lossless.files.vault import Vault
    from lossless.store.archive import Archive
    from lossless.store.retention import Held

#: Rows of the report and the tables that they count, in the order in which they are shown.
_ROWS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("messages", ("messages", "message_extras", "message_parts", "message_versions")),
    ("summaries", ("summaries", "summary_messages", "summary_parents", "summary_extras")),
    ("full-text index", ("message_index", "summary_index", "version_index", "message_passages")),
    ("trigram index", ("message_trigrams",)),
    ("lossless-claw's search index", ("messages_fts", "summaries_fts")),
)
#: Conversations that were closed and silent for so long.
_AGES = ("30d", "90d", "180d", "1y")


@dataclass(frozen=True, slots=True)
class SizeRow:
    """Something that takes room; `count` is how many there are, `of_messages` its size beside the messages'."""

    name: str
    bytes: int
    count: int | None = None
    of_messages: float | None = None


@dataclass(frozen=True, slots=True)
class CouldGo:
    """Something that could go, how much that would free, and the command that does it."""

    what: str
    count: int
    bytes: int
    command: str


@dataclass(frozen=True, slots=True)
class SizeReport:
    """Where the bytes of an archive are. `is_exact` is False where SQLite cannot count pages."""

    rows: tuple[SizeRow, ...]
    could_go: tuple[CouldGo, ...]
    database_bytes: int
    free_bytes: int
    file_bytes: int
    message_text_bytes: int
    is_exact: bool = True


def survey(archive: Archive, vault: Vault | None, now: datetime, *, count_pages: bool = True) -> SizeReport:
    """What takes the room; reads every page once and writes nothing."""
    retention = Retention(archive.database)
    with archive.reading():
        size, free = archive.care.size()
        pages = retention.pages() if count_pages else None
        tables = retention.texts() if pages is None else pages
        messages, text = retention.message_text()
        by_kind = retention.summary_text()
        claw = adopt.survey(archive.database)
        known = archive.files.ids()
        held, borrowed = retention.held(), retention.borrowed()
    sizes = grouped(tables, size - free)
    orphans = [] if vault is None else vault.orphans(known)
    on_disk = sum(item.file_bytes for item in held)
    rows = _rows(sizes, by_kind, messages, (sum(item.files for item in held), on_disk), free)
    gone = [
        *_ages(held, borrowed, size - free, now),
        CouldGo("files that no row knows", len(orphans), sum(item.size for item in orphans), "lcm files gc --apply"),
        CouldGo("lossless-claw's search tables", len(claw.tables), claw.bytes, "lcm adopt --apply"),
        CouldGo("free pages", 1 if free else 0, free, "lcm prune --vacuum --apply"),
        _old_backups(archive.path),
    ]
    could_go = tuple(item for item in gone if item.count and item.bytes)
    return SizeReport(rows, could_go, size, free, on_disk, text, pages is not None)


def grouped(tables: Mapping[str, int], live_bytes: int) -> dict[str, int]:
    """Bytes by row of the report; what belongs to none, or was not counted, is `other`."""
    sizes = dict.fromkeys((name for name, _ in _ROWS), 0)
    for table, size in tables.items():
        name = _row_of(table)
        if name is not None:
            sizes[name] += size
    return sizes | {"other": max(0, live_bytes - sum(sizes.values()))}


def _row_of(name: str) -> str | None:
    """The row of a table, of one of its indexes, or of a table inside it; the longest name that fits decides."""
    bare = name.removeprefix("sqlite_autoindex_")
    fits = [
        (len(table), row) for row, tables in _ROWS for table in tables if bare == table or bare.startswith(f"{table}_")
    ]
    return max(fits)[1] if fits else None


def _rows(
    sizes: Mapping[str, int],
    by_kind: Mapping[str, tuple[int, int]],
    messages: int,
    files: tuple[int, int],
    free: int,
) -> tuple[SizeRow, ...]:
    leaves, condensed = by_kind.get("leaf", (0, 0)), by_kind.get("condensed", (0, 0))
    folded = leaves[1] + condensed[1]
    leaf_bytes = sizes["summaries"] * leaves[1] // (folded or 1)
    condensed_bytes = sizes["summaries"] - leaf_bytes if folded else 0
    base = sizes["messages"] or 1

    def row(name: str, taken: int, count: int | None = None) -> SizeRow:
        return SizeRow(name, taken, count, round(taken / base, 4))

    found = [
        row("messages", sizes["messages"], messages),
        row("leaf summaries", leaf_bytes, leaves[0]),
        row("condensed summaries", condensed_bytes, condensed[0]),
        row("full-text index", sizes["full-text index"]),
        row("trigram index", sizes["trigram index"]),
        row("lossless-claw's search index", sizes["lossless-claw's search index"]),
        row("other", sizes["other"] + (0 if folded else sizes["summaries"])),
        SizeRow("free pages", free),
        row("files on disk", files[1], files[0]),
    ]
    return tuple(item for item in found if item.bytes or item.name != "lossless-claw's search index")


def _ages(held: Sequence[Held], borrowed: set[tuple[int, int]], live_bytes: int, now: datetime) -> list[CouldGo]:
    """What pruning closed conversations of each age would free."""
    found = []
    for age in _AGES:
        work = prune.chosen_of(held, borrowed, prune.Choice(prune.parse_age(age)), live_bytes, now)
        what = f"closed conversations older than {age}"
        found.append(CouldGo(what, len(work.chosen), work.bytes, f"lcm prune --older-than {age} --apply"))
    return found


def _old_backups(path: str) -> CouldGo:
    found = [] if path == ":memory:" else backup.listed(path)
    return CouldGo("backups beside the archive", len(found), sum(item.bytes for item in found), "lcm backups")
