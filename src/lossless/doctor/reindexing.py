"""Curing the search index: what it lacks is made again from the rows, in steps; whatever stops it, it can go on."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lossless.errors import ArchiveCorrupt
from lossless.files.place import lies_at
from lossless.store.findable import Findable
from lossless.store.index import indexed_text
from lossless.store.row_digests import payload_digest
from lossless.store.symptoms import Symptoms

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.files.vault import Vault
    from lossless.model.messages import StoredMessage
    from lossless.store.archive import Archive
    from lossless.store.symptoms import IndexDrift

#: Rows in one transaction.
BATCH = 500


@dataclass(frozen=True, slots=True)
class Reindexed:
    """What was made again, and what could not be because it cannot be read."""

    messages: int
    summaries: int
    #: Index rows that had lost their message, and are out now.
    dropped: int
    unreadable: tuple[str, ...]


def plan(archive: Archive) -> IndexDrift:
    """Where the index and the rows disagree; reads only."""
    with archive.reading():
        return Symptoms(archive.database).index_drift()


def damaged(archive: Archive) -> tuple[str, ...]:
    """The full-text tables that are damaged, and that a cure makes anew."""
    with archive.reading():
        return Findable(archive.database).damaged()


def apply(
    archive: Archive,
    progress: Callable[[int], None] | None = None,
    *,
    anew: bool = False,
    batch: int = BATCH,
    vault: Vault | None = None,
) -> Reindexed:
    """Fill in what the index lacks and take out what is gone; with `anew`, or when it is damaged, all is made.

    Each step is a transaction of its own, so others write meanwhile. One that is stopped is gone on with by the next.
    lossless-claw's own search tables, where the file has them, get what they lack, too; rows of other programs and of
    older versions get their digests, and so do payloads with their vault.
    """
    work = _Work(archive, progress or (lambda _: None), batch)
    with archive.writing():
        if anew or archive.index.has_stray_passages or damaged(archive):
            archive.index.empty()
        archive.index.renew_upstream()
    dropped = _stepwise(work, archive.index.drop_gone)
    dropped += _stepwise(work, archive.index.drop_gone_summaries)
    dropped += _stepwise(work, archive.versions.drop_gone)
    _stepwise(work, archive.versions.refill)
    messages = _fill(work, passages=False) + _fill(work, passages=True)
    summaries = _summaries(work)
    more = _catch_up(work)
    _stepwise(work, archive.index.refill_upstream)
    with archive.writing():
        archive.row_digests.fill()
        _digest_payloads(archive, vault)
    ids = tuple(f"msg#{id_}" for id_ in sorted(work.unreadable))
    return Reindexed(messages + more[0], summaries + more[1], dropped, ids)


@dataclass(frozen=True, slots=True)
class _Work:
    """An archive that is indexed in transactions of so many rows; collects the messages that cannot be read."""

    archive: Archive
    advance: Callable[[int], None]
    batch: int
    unreadable: set[int] = field(default_factory=set)


def _digest_payloads(archive: Archive, vault: Vault | None) -> None:
    """Remember what the bytes of files are whose ids do not say it, as those of other programs."""
    for file in archive.checks.file_places():
        with suppress(OSError, ValueError):
            data = lies_at(file.place, vault).read_bytes()
            if file.digest is None and not file.has_id_of(data):
                archive.row_digests.put_payloads({file.id: payload_digest(data)})


def _stepwise(work: _Work, step: Callable[[int], int]) -> int:
    """Do a step in transactions of its own until nothing is left; returns how much it did."""
    done = 0
    while True:
        with work.archive.writing():
            some = step(work.batch)
        if not some:
            return done
        done += some
        work.advance(some)


def _catch_up(work: _Work) -> tuple[int, int]:
    """Index the messages and summaries that never were, wherever they stand; returns how many of each."""
    archive = work.archive
    drift = plan(archive)
    if not (drift.unindexed_messages or drift.unindexed_summaries):
        return 0, 0
    with archive.writing():
        archive.index.unmark()
    messages = 0
    while True:
        with archive.writing():
            ids, summaries = archive.index.unindexed(work.batch)
            if not ids and not summaries:
                return messages, drift.unindexed_summaries
            found = _readable(archive, ids)
            for one in found:
                archive.index.reindex_message(one.id, one.message.content, one.message)
            for summary_id, content in summaries:
                archive.index.put_summary(summary_id, content)
            if ids:
                archive.index.mark_caught_up(ids[-1])
        work.unreadable.update(set(ids).difference(one.id for one in found))
        messages += len(found)
        work.advance(len(ids) + len(summaries))


def _fill(work: _Work, *, passages: bool) -> int:
    archive, filled, after = work.archive, 0, 0
    while True:
        with archive.writing():
            ids = archive.index.lost(after, passages=passages, limit=work.batch)
            if not ids:
                return filled
            found = _readable(archive, ids)
            archive.index.refill([(one.id, indexed_text(one.message.content, one.message)) for one in found])
        work.unreadable.update(set(ids).difference(one.id for one in found))
        filled += len(found)
        after = ids[-1]
        work.advance(len(ids))


def _readable(archive: Archive, ids: list[int]) -> list[StoredMessage]:
    """Those of some messages that can be read; one that cannot be does not stand in the way of the others."""
    try:
        return archive.messages.many(ids, exact=False)
    except ArchiveCorrupt:
        if len(ids) == 1:
            return []
    half = len(ids) // 2
    return _readable(archive, ids[:half]) + _readable(archive, ids[half:])


def _summaries(work: _Work) -> int:
    archive, stale = work.archive, plan(work.archive).stale_summaries
    for start in range(0, len(stale), work.batch):
        some = stale[start : start + work.batch]
        with archive.writing():
            for summary in archive.summaries.many(some):
                archive.index.put_summary(summary.id, summary.content)
        work.advance(len(some))
    return len(stale)
