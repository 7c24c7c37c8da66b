"""`lcm doctor reindex` and `rebuild`: what can be derived, made again."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.commands import Command
from lossless.cli.plain import backups, looking, open_engine, whole
from lossless.doctor import rebuilding, reindexing

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.cli.invocation import Invocation


@click.command("reindex", cls=Command)
@click.option("--all", "anew", is_flag=True, help="Empty the index first, and make all of it again.")
@click.option("--apply", "is_real", is_flag=True, help="Do it; without this, only count what is missing.")
@click.pass_context
def reindex(ctx: click.Context, anew: bool, is_real: bool) -> None:
    """Count what the search index lacks; with --apply make it again from the rows, which stay as they are.

    Others may write meanwhile. When it is stopped, the next call goes on. Exit code 1 when rows cannot be read.
    """
    invocation: Invocation = ctx.obj
    with looking(invocation) as archive:
        drift, counts = reindexing.plan(archive), archive.care.counts()
        damaged = reindexing.damaged(archive)
    unindexed = drift.unindexed_messages + drift.unindexed_summaries
    all_ = counts.messages + counts.summaries
    total = all_ if anew or damaged else drift.wrong + unindexed + drift.upstream_lost
    data: dict[str, Any] = {
        "damaged": list(damaged),
        "lostMessages": drift.lost_count,
        "goneMessages": drift.gone_count,
        "staleSummaries": len(drift.stale_summaries),
        "goneSummaries": drift.gone_summaries,
        "unindexed": unindexed,
        "losslessClawLost": drift.upstream_lost,
        "all": anew,
        "applied": is_real,
        "done": None,
    }
    if is_real:
        with open_engine(invocation) as engine, _progress(invocation, total) as advance:
            data["done"] = whole(reindexing.apply(engine.archive, advance, anew=anew, vault=engine.vault))
    is_whole = not (data["done"] and data["done"]["unreadable"])
    invocation.emit("doctor.reindex", data, ok=is_whole)
    ctx.exit(failures.OK if is_whole else failures.INTERNAL)


@click.command("rebuild", cls=Command)
@click.option("--apply", "is_real", is_flag=True, help="Do it; without this, only say what would be made again.")
@click.pass_context
def rebuild(ctx: click.Context, is_real: bool) -> None:
    """Say what messages and summaries tell and what is wrong about it; with --apply make it again, after a backup.

    Places of contexts, sources of summaries that the log names, their counts and times, counters. What was said stays
    as it is.
    """
    invocation: Invocation = ctx.obj
    with looking(invocation) as archive:
        found = rebuilding.plan(archive)
    if is_real:
        with open_engine(invocation) as engine:
            found = rebuilding.apply(engine.archive, datetime.now(UTC), backups(engine))
    invocation.emit("doctor.rebuild", {**whole(found), "applied": is_real})
    ctx.exit(failures.OK)


def _progress(invocation: Invocation, total: int) -> AbstractContextManager[Callable[[int], None] | None]:
    if not invocation.shows_progress or not total:
        return nullcontext()
    from lossless.cli.progress import counting

    return counting("Indexing", total)
