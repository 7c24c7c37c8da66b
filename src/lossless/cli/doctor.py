"""`lcm doctor`, `lcm verify` and `lcm adopt`: check an archive, repair it, prove that nothing is lost, and rebuild
what can be derived.
"""

from __future__ import annotations

import secrets
from collections import Counter, defaultdict
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.apply import backup_maker, confirm, open_for_writing, read_archive, to_json
from lossless.cli.commands import Command, Group, id_type, text_type
from lossless.cli.model import model_options, source_time_options
from lossless.cli.options import budget_option, usage_error
from lossless.cli.output import json_fields
from lossless.cli.recall import vault_of
from lossless.cli.retention import phrases_in
from lossless.cli.rewrite import (
    broken_conversations,
    count_kinds,
    diff_option,
    draft_options,
    emit_rewrites,
    plan_repairs,
    prompt_dir_option,
)
from lossless.cli.surgery import yes_option
from lossless.compaction.summariser import Summariser
from lossless.errors import ArchiveCorrupt, ArchiveDenied
from lossless.maintenance import doctor as examining
from lossless.maintenance import repair
from lossless.maintenance import repair as cleaning
from lossless.maintenance import repair as owing
from lossless.maintenance.doctor import MAX_NAMED_IDS, DoctorFinding, remedy_of
from lossless.maintenance.surgery import merge as merging
from lossless.maintenance.verify import verify_archive
from lossless.model.paths import create_private_file
from lossless.store.archive import Archive
from lossless.store.bundles.other_programs import drop_upstream_search, exclusive_access, find_reclaimable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lossless.cli.commands import Invocation
    from lossless.files.vault import Vault
    from lossless.maintenance.doctor import Examination
    from lossless.maintenance.verify import VerificationProblem
    from lossless.model.records import ArchiveCounts


@click.command("reindex", cls=Command)
@click.option("--all", "anew", is_flag=True, help="Empty the index first, and make all of it again.")
@click.option("--apply", "is_real", is_flag=True, help="Do it; without this, only count what is missing.")
@click.pass_context
def reindex(ctx: click.Context, anew: bool, is_real: bool) -> None:
    """Count what the search index lacks; with --apply make it again from the rows, which stay as they are.

    Others may write meanwhile. When it is stopped, the next call goes on. Exit code 1 when rows cannot be read.
    """
    invocation: Invocation = ctx.obj
    with read_archive(invocation) as archive:
        drift, counts = repair.plan_reindex(archive), archive.care.counts()
        damaged = repair.damaged_indexes(archive)
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
        with open_for_writing(invocation) as engine, _progress(invocation, total) as advance:
            data["done"] = to_json(repair.apply_reindex(engine.archive, advance, anew=anew, vault=engine.vault))
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
    with read_archive(invocation) as archive:
        found = repair.plan_rebuild(archive)
    if is_real:
        with open_for_writing(invocation) as engine:
            found = repair.apply_rebuild(engine.archive, datetime.now(UTC), backup_maker(engine))
    invocation.emit("doctor.rebuild", {**to_json(found), "applied": is_real})
    ctx.exit(failures.OK)


def _progress(invocation: Invocation, total: int) -> AbstractContextManager[Callable[[int], None] | None]:
    if not invocation.shows_progress or not total:
        return nullcontext()
    from lossless.cli.screen import count_progress

    return count_progress("Indexing", total)


#: How many conversations of a filter are listed; the others are counted.
_SHOWN = 50
_offline = click.option("--offline", is_flag=True, help="Ask no model whether it answers.")


@click.group("doctor", cls=Group, invoke_without_command=True)
@_offline
@click.pass_context
def doctor(ctx: click.Context, offline: bool) -> None:
    """Find what is wrong with the archive, and repair it. Alone: `lcm doctor examine`."""
    if ctx.invoked_subcommand is None:
        _examine(ctx, offline=offline)


@doctor.command("examine")
@_offline
@click.pass_context
def examine(ctx: click.Context, offline: bool) -> None:
    """Look for everything that is known to go wrong; `lcm doctor` alone does the same.

    Contexts that do not hold together, broken summaries, a search index that drifts, files without rows and rows
    without files, debts that nobody pays, sessions that were split, rows that older engines stored twice, refused
    input, models that do not answer. Reads only; each finding says what helps. Exit code 1 when something is damaged or
    lost, as for `lcm verify`; warnings and notes leave it at 0.
    """
    _examine(ctx, offline=offline)


@doctor.command("apply")
@click.argument("conversation_id", metavar="[ID]", type=id_type, required=False)
@click.option(
    "--summary",
    "summary_ids",
    metavar="ID",
    type=text_type,
    multiple=True,
    help="Only this one of ID; may be repeated.",
)
@budget_option
@source_time_options
@prompt_dir_option
@model_options
@diff_option
@click.option(
    "--confirm/--dry-run", "is_real", default=False, help="Do it; or only say what would be done, which is the default."
)
@yes_option
@click.pass_context
def apply_repairs(
    ctx: click.Context,
    /,
    conversation_id: int | None,
    summary_ids: tuple[str, ...],
    budget: int | None,
    **more: Any,
) -> None:
    """Write the broken summaries of conversation ID, or of all, anew.

    What speaks against it (more than 25 summaries, more to read than 75 % of the budget, a pending sweep) is listed.
    Exit code 1 when something stays broken.
    """
    invocation: Invocation = ctx.obj
    how = draft_options(invocation, **more)
    if summary_ids and conversation_id is None:
        raise usage_error("--summary is for the summaries of one conversation: name it.")
    with read_archive(invocation) as archive:
        ids = [conversation_id] if conversation_id is not None else broken_conversations(archive)
        for id_ in ids:
            archive.conversations.get(id_)
        found = plan_repairs(invocation, archive, ids, budget, summary_ids)
    blocked = [reason for one in found for reason in one.blocked]
    emit_rewrites(
        ctx, "doctor.apply", [one.plan for one in found], how, {"kinds": count_kinds(found), "blocked": blocked}
    )


@doctor.command("clean")
@click.option(
    "--apply",
    "filter_id",
    type=click.Choice((*cleaning.CLEAN_FILTERS, cleaning.ALL_FILTERS)),
    help="Delete what this filter means, or all of them.",
)
@click.option("--vacuum", is_flag=True, help="Give the room back afterwards.")
@yes_option
@click.pass_obj
def clean_command(invocation: Invocation, filter_id: str | None, vacuum: bool, yes: bool) -> None:
    """List conversations that nobody goes back to, by filter; with --apply delete those of one, after a backup.

    Filters: archived_subagents, cron_sessions (finished runs), null_subagent_context. Files are left for `lcm files
    gc`.
    """
    with read_archive(invocation) as archive:
        plans = [cleaning.plan_clean(archive, filter_id)] if filter_id else cleaning.plan_all_cleans(archive)
    data: dict[str, Any] = {"items": [_filter(plan) for plan in plans], "applied": False, "done": None}
    if filter_id is not None:
        confirm(f"Delete {len(plans[0].conversations)} conversations for good?", yes, plans[0].text)
        with open_for_writing(invocation) as engine:
            report = cleaning.apply_clean(engine.archive, plans[0], backup_maker(engine), vacuum=vacuum)
        data |= {"applied": True, "done": to_json(report)}
    invocation.emit("doctor.clean", data)


@doctor.command("maintenance")
@click.option("--apply", "conversation_id", metavar="ID", type=id_type, help="Close the debt of this conversation.")
@yes_option
@click.pass_obj
def maintenance_command(invocation: Invocation, conversation_id: int | None, yes: bool) -> None:
    """List sweeps that were put off, of active and of closed conversations; with --apply close one that nobody pays.

    Only a closed conversation's debt can be closed: an active one's is paid by `lcm worker`.
    """
    now = datetime.now(UTC)
    with read_archive(invocation) as archive:
        found = owing.open_debts(archive, now)
        work = None if conversation_id is None else owing.plan_close_debt(archive, conversation_id, now)
    data: dict[str, Any] = {
        "items": [to_json(debt) | {"isStuck": owing.is_stuck(debt)} for debt in found],
        "applied": False,
        "backup": None,
    }
    if work is not None:
        confirm("Close it?", yes, work.text)
        with open_for_writing(invocation) as engine:
            copy = owing.apply_close_debt(engine.archive, work, now, backup_maker(engine))
        data |= {"applied": True, "backup": str(copy), "closed": conversation_id}
    invocation.emit("doctor.maintenance", data)


@doctor.command("rollover-splits")
@click.option("--apply", "is_real", is_flag=True, help="Merge those that are certain, after a backup.")
@yes_option
@click.pass_obj
def rollover_splits(invocation: Invocation, is_real: bool, yes: bool) -> None:
    """List sessions whose history a rollover split, and merge those that are certain.

    What needs a look is left; `lcm merge --reviewed` merges it.
    """
    with read_archive(invocation) as archive:
        found = merging.find_splits(archive)
        plans = [merging.plan_merge(archive, split.session_key) for split in found if not split.review]
    reports = []
    if is_real and plans:
        confirm(f"Merge {len(plans)} sessions?", yes, "\n".join(plan.text for plan in plans))
        with open_for_writing(invocation) as engine:
            reports = [
                merging.apply_merge(engine.archive, plan, datetime.now(UTC), backup_maker(engine)) for plan in plans
            ]
    data = {"items": to_json(found), "applied": is_real, "done": to_json(reports)}
    invocation.emit("doctor.rollover-splits", data)


doctor.add_command(reindex)
doctor.add_command(rebuild)


def _examine(ctx: click.Context, *, offline: bool) -> None:
    invocation: Invocation = ctx.obj
    summariser = None if offline else Summariser(invocation.loaded.settings)
    with read_archive(invocation) as archive:
        vault = vault_of(invocation)
        found = examining.examine(archive, datetime.now(UTC), vault=vault, summariser=summariser)
        if found.healthy:  # as far as a quick look goes
            proof = verify_archive(archive, vault=vault)
            found = replace(found, findings=(*found.findings, *_unproven_json(proof.problems)))
    invocation.emit("doctor", _examination_json(found, offline=offline), ok=found.healthy)
    ctx.exit(failures.OK if found.healthy else failures.INTERNAL)


def _unproven_json(problems: Iterable[VerificationProblem]) -> Iterator[DoctorFinding]:
    """What only a proof of every row finds, by table."""
    wrong: defaultdict[str, list[VerificationProblem]] = defaultdict(list)
    for problem in problems:
        if problem.severity == "error":
            wrong[problem.table].append(problem)
    for table, some in wrong.items():
        message = f"{table}: {some[0].detail}{f', and {len(some) - 1:,} more' if len(some) > 1 else ''}"
        ids = tuple(problem.id for problem in some[:MAX_NAMED_IDS])
        yield DoctorFinding("proof", "problem", message, remedy_of(table, some[0].check), ids=ids)


def _examination_json(found: Examination, *, offline: bool) -> dict[str, Any]:
    live = to_json(found.liveness)
    names = ("conversationId", "since", "reason")
    live["blocked"] = [dict(zip(names, row, strict=True)) for row in live["blocked"]]
    plain: dict[str, Any] = to_json(found)
    return plain | {"healthy": found.healthy, "liveness": live, "offline": offline}


def _filter(plan: cleaning.CleanPlan) -> dict[str, Any]:
    conversations = [
        {
            "conversationId": held.id,
            "sessionKey": held.session_key,
            "sessionId": held.session_id,
            "active": held.active,
            "newestAt": held.newest_at,
            "messages": held.messages,
            "bytes": held.text_bytes,
        }
        for held in plan.conversations[:_SHOWN]
    ]
    return {
        "filter": plan.filter_id,
        "meaning": plan.meaning,
        "count": len(plan.conversations),
        "messages": sum(held.messages for held in plan.conversations),
        "bytes": plan.bytes,
        "conversations": conversations,
    }


@click.command("verify", cls=Command)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 100_000),
    default=100,
    show_default=True,
    help="List this many.",
)
@click.option("--absent-from", "absent", metavar="FILE", type=text_type, help="Prove that these phrases are nowhere.")
@click.pass_context
def verify(ctx: click.Context, limit: int, absent: str | None) -> None:
    """Prove that everything stored is there, findable and reachable.

    Reads only. Exit code 1 when something is wrong; each offender is listed with its table and id. Warnings
    concern rows that other programs wrote, and do not count as wrong.

    With --absent-from it proves the opposite for the phrases in FILE (one a line; `-` reads standard input): that none
    of them is in any file of the archive, its payloads and its backups, in compressed columns and search indexes
    neither. Exit code 1 when one is; each place is listed.
    """
    invocation: Invocation = ctx.obj
    vault = vault_of(invocation)
    if absent is not None:
        ctx.exit(_prove_absent(invocation, absent, vault, limit))
    with invocation.archive() as archive:
        if invocation.shows_progress:
            from lossless.cli.screen import count_progress

            with count_progress("Checking messages", archive.care.counts().messages) as advance:
                found = verify_archive(archive, advance, vault)
        else:
            found = verify_archive(archive, vault=vault)
    problems = sorted(found.problems, key=lambda problem: problem.severity)
    data = {
        "ok": found.ok,
        "messages": found.messages,
        "summaries": found.summaries,
        "errors": sum(problem.severity == "error" for problem in problems),
        "warnings": sum(problem.severity == "warning" for problem in problems),
        "byCheck": dict(Counter(problem.check for problem in problems)),
        "problems": [json_fields(problem) for problem in problems[:limit]],
    }
    invocation.emit("verify", data, ok=found.ok)
    ctx.exit(failures.OK if found.ok else failures.INTERNAL)


def _prove_absent(invocation: Invocation, source: str, vault: Vault | None, limit: int) -> int:
    from lossless.maintenance.forget import prove_absence

    invocation.archive().close()  # it must be there
    found = prove_absence(invocation.file_path, vault, phrases_in(source, "--absent-from"))
    data = {
        "ok": found.ok,
        "files": found.files,
        "bytes": found.bytes,
        "found": len(found.traces),
        "traces": [json_fields(trace) for trace in found.traces[:limit]],
        "unreadable": list(found.unreadable),
    }
    invocation.emit("verify absent", data, ok=found.ok)
    return failures.OK if found.ok else failures.INTERNAL


#: Whoever holds the file longer than this counts as using it.
_PATIENCE_MS = 2_000


@click.command("adopt", cls=Command)
@click.option("--apply", "is_real", is_flag=True, help="Do it; without this, only say what it would free.")
@click.pass_obj
def adopt(invocation: Invocation, is_real: bool) -> None:
    """Drop the search tables that only lossless-claw reads, and free their space.

    Without --apply nothing changes. With it, everything is put into our own index where that is not done yet, a
    backup is made beside the file, and all is counted again afterwards. It refuses while another process has the
    file open. lossless-claw builds these tables anew when it opens the file, so this is for archives that it no
    longer uses.
    """
    with invocation.archive() as archive:
        found, (size, free) = find_reclaimable(archive.database), archive.care.size()
    data = {
        "applied": False,
        "tables": list(found.tables),
        "bytesToFree": found.bytes + free if found.tables else 0,
        "databaseSizeBytes": size,
    }
    if is_real and found.tables:
        data |= _apply_adoption(invocation)
    invocation.emit("adopt", data)


def _apply_adoption(invocation: Invocation) -> dict[str, Any]:
    with Archive.open(invocation.file_path, busy_timeout_ms=_PATIENCE_MS) as archive:
        _catch_up(invocation, archive)
        with exclusive_access(archive.database):
            before, (size, _) = archive.care.counts(), archive.care.size()
            backup = _backup(archive)
            _check_unchanged(before, _counts_of(backup), f"the backup {str(backup)!r}")
            drop_upstream_search(archive.database)
            after = archive.care.counts()
            _check_unchanged(before, after, f"archive {archive.path!r} (its backup is {str(backup)!r})")
            new_size = archive.care.size()[0]
    return {
        "applied": True,
        "databaseSizeBytes": new_size,
        "sizeBefore": size,
        "bytesFreed": size - new_size,
        "backupPath": str(backup),
        "backupBytes": backup.stat().st_size,
        "counts": json_fields(after),
    }


def _catch_up(invocation: Invocation, archive: Archive) -> None:
    """Everything is in our own index before the other one goes."""
    bar: Any = nullcontext()
    if invocation.shows_progress:
        from lossless.cli.screen import count_progress

        bar = count_progress("Indexing", archive.care.counts().messages)
    with bar as advance:
        archive.catch_up(progress=advance)


def _backup(archive: Archive) -> Path:
    """A copy beside the file, for its owner alone."""
    source = Path(archive.path)
    name = f"{source.name}.adopt-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}.bak"
    target = source.with_name(name)
    try:
        create_private_file(target)
    except OSError as error:
        raise ArchiveDenied(f"no backup can be made at {str(target)!r}: {error.strerror}") from error
    try:
        archive.database.backup_to(str(target))
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return target


def _counts_of(path: Path) -> ArchiveCounts:
    with Archive.open(path, read_only=True) as copy:
        return copy.care.counts()


def _check_unchanged(before: ArchiveCounts, after: ArchiveCounts, what: str) -> None:
    if before != after:
        raise ArchiveCorrupt(f"{what} does not hold what it should: {after} instead of {before}")
