"""Rebuilding: what messages and summaries tell is made again, so that no backup has to be restored for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.store.rebuilding import Rebuilding

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from lossless.store.archive import Archive

REBUILD = "lcm doctor rebuild --apply"


@dataclass(frozen=True, slots=True)
class Rebuild:
    """What can be made again."""

    #: Conversations whose context is laid again.
    contexts: tuple[int, ...]
    #: Summaries that get their sources back from the log.
    without_sources: tuple[str, ...]
    #: Summaries whose counts and times are worked out again.
    miscounted: tuple[str, ...]
    #: Conversations whose counters are worked out again.
    counters: tuple[int, ...]

    @property
    def is_none(self) -> bool:
        return not (self.contexts or self.without_sources or self.miscounted or self.counters)


def plan(archive: Archive) -> Rebuild:
    """What is wrong and can be derived; reads only."""
    with archive.reading():
        return _plan(Rebuilding(archive))


def _plan(work: Rebuilding) -> Rebuild:
    sources, miscounted = tuple(work.without_sources()), tuple(work.miscounted())
    return Rebuild(tuple(work.contexts()), sources, miscounted, tuple(work.counters()))


def apply(archive: Archive, now: datetime, backup: Callable[[str], Path] | None) -> Rebuild:
    """Make it again, all or nothing, after a backup; returns what was made. Words stay as they are."""
    if plan(archive).is_none:
        return Rebuild((), (), (), ())
    if backup is not None:
        backup("rebuild")
    with archive.writing():
        work = Rebuilding(archive)
        sources = tuple(work.without_sources())
        for summary_id in sources:
            work.link(summary_id)
        miscounted = tuple(work.miscounted())
        work.recount(list(miscounted))
        contexts = tuple(work.contexts())
        for conversation_id in contexts:
            work.context(conversation_id, now)
        counters = tuple(work.counters())
        for conversation_id in counters:
            work.count(conversation_id)
    return Rebuild(contexts, sources, miscounted, counters)
