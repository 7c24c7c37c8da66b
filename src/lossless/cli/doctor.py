"""`lcm doctor`, `lcm verify` and `lcm adopt`: check an archive, repair it, prove that nothing is lost, and rebuild
what can be derived.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.apply import apply_confirmed, ask_person, planning
from lossless.cli.commands import Command, Group, id_type, new_spelling, text_type
from lossless.cli.model import SourceTimes, model_options, source_time_options, writer_name
from lossless.cli.options import budget_option, usage_error
from lossless.cli.output import pick_json, to_json
from lossless.cli.retention import phrases_in
from lossless.cli.rewrite import (
    DraftOptions,
    count_kinds,
    diff_option,
    draft_options,
    emit_rewrites,
    prompt_dir_option,
    write_plans,
)
from lossless.cli.surgery import yes_option
from lossless.compaction.summariser import Summariser
from lossless.maintenance.doctor import MAX_NAMED_IDS, DoctorFinding, remedy_of
from lossless.maintenance.prune import adopt_archive
from lossless.maintenance.repair import ALL_FILTERS, CLEAN_FILTERS, describe_close, is_stuck
from lossless.tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lossless.cli.commands import Invocation
    from lossless.engine import Engine
    from lossless.maintenance.doctor import Examination
    from lossless.maintenance.repair import CleanPlan
    from lossless.maintenance.verify import VerificationProblem


@click.command("reindex", cls=Command, short_help="Make the search index again.")
@click.option("--all", "anew", is_flag=True, help="Empty the index first, and make all of it again.")
@click.option("--apply", "is_real", is_flag=True, help="Do it; without this, only count what is missing.")
@click.pass_context
def reindex(ctx: click.Context, anew: bool, is_real: bool) -> None:
    """Count what the search index lacks; with --apply make it again from the rows, which stay as they are.

    Others may write meanwhile. When it is stopped, the next call goes on. Exit code 1 when rows cannot be read.
    """
    invocation: Invocation = ctx.obj
    with planning(invocation) as engine:
        (drift, damaged), counts = engine.admin.reindex_plan(), engine.browse.counts()
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
        with invocation.engine() as engine, invocation.progress("Indexing", total) as advance:
            data["done"] = to_json(engine.admin.reindex(anew=anew, progress=advance))
    is_whole = not (data["done"] and data["done"]["unreadable"])
    invocation.emit("doctor.reindex", data, ok=is_whole)
    ctx.exit(failures.OK if is_whole else failures.INTERNAL)


@click.command("rebuild", cls=Command, short_help="Make again what rows tell.")
@click.option("--apply", "is_real", is_flag=True, help="Do it; without this, only say what would be made again.")
@click.pass_context
def rebuild(ctx: click.Context, is_real: bool) -> None:
    """Say what messages and summaries tell and what is wrong about it; with --apply make it again, after a backup.

    Places of contexts, sources of summaries that the log names, their counts and times, counters. Messages stay as
    they are.
    """
    invocation: Invocation = ctx.obj
    with planning(invocation) as engine:
        found = engine.admin.rebuild_plan()
    if is_real:
        with invocation.engine() as engine:
            found = engine.admin.rebuild()
    invocation.emit("doctor.rebuild", {**to_json(found), "applied": is_real})
    ctx.exit(failures.OK)


#: How many conversations of a filter are listed; the others are counted.
_SHOWN = 50
_offline = click.option("--offline", is_flag=True, help="Ask no model whether it answers.")


@click.group("doctor", cls=Group, invoke_without_command=True)
@_offline
@click.option("--fix", is_flag=True, help="Repair what can be repaired, and look again.")
@click.option("--dry-run", is_flag=True, help="With --fix: only say what would be repaired.")
@click.option("--yes", "-y", is_flag=True, help="With --fix: do not ask before models are asked.")
@click.pass_context
def doctor(ctx: click.Context, offline: bool, fix: bool, dry_run: bool, yes: bool) -> None:
    """Find what is wrong with the archive, and repair it. Alone: `lcm doctor examine`.

    --fix makes the search index and what rows tell again, merges sessions that were split, and rewrites broken
    summaries, after a backup. Where a model writes them, you are asked first.
    """
    if ctx.invoked_subcommand is not None:
        return
    if (dry_run or yes) and not fix:
        raise usage_error("--dry-run and --yes go with --fix.")
    if fix:
        _fix(ctx.obj, dry_run=dry_run, yes=yes)
    _examine(ctx, offline=offline or fix)


def _fix(invocation: Invocation, *, dry_run: bool, yes: bool) -> None:
    """Repair what can be repaired; what is done is said on standard error, so that the answer is the examination."""
    asked = invocation.loaded.settings
    with planning(invocation) as engine:
        drift, damaged = engine.admin.reindex_plan()
        rebuilt = engine.admin.rebuild_plan()
        merges = [engine.surgery.plan_merge(split.session_key) for split in engine.surgery.splits() if not split.review]
        repairs = [engine.surgery.plan_repair(id_, None) for id_ in engine.surgery.broken_conversations()]
    broken = sum(len(plan.targets) for plan, _ in repairs)
    calls = broken if Summariser(asked).has_model else 0
    steps: dict[str, Callable[[Engine], object]] = {}
    if drift.wrong or damaged:
        steps["make the search index again"] = lambda engine: engine.admin.reindex(anew=bool(damaged))
    if any((rebuilt.contexts, rebuilt.without_sources, rebuilt.miscounted, rebuilt.counters)):
        steps["make again what rows tell"] = lambda engine: engine.admin.rebuild()
    if merges:
        steps[f"merge {plural(len(merges), 'split session')}"] = lambda engine: list(map(engine.surgery.apply, merges))
    plan = [*steps, *([f"rewrite {plural(broken, 'broken summary', 'broken summaries')}"] if broken else [])]
    click.echo(f"To repair: {'; '.join(plan) or 'nothing'}.", err=True)
    if dry_run or not plan:
        return
    if calls and not yes and not ask_person(f"Ask {writer_name(asked)} at least {plural(calls, 'time')}?"):
        click.echo("Broken summaries stay as they are; --yes has them rewritten.", err=True)
        repairs = []
    for act in steps.values():
        with invocation.engine() as engine:
            act(engine)
    if repairs:
        how = DraftOptions(None, asked, is_real=True, shows_diff=False, yes=True, times=SourceTimes())
        write_plans(invocation, [plan for plan, _ in repairs], how)


@doctor.command("examine", short_help="Look for everything that goes wrong.")
@_offline
@click.pass_context
def examine(ctx: click.Context, offline: bool) -> None:
    """Look for everything that is known to go wrong; `lcm doctor` alone does the same.

    Contexts that do not hold together, broken summaries, a search index that drifts, files without rows and rows
    without files, compactions that never run, sessions that were split, rows that older engines stored twice, refused
    input, models that do not answer. Reads only; each finding says what helps. Exit code 1 when something is damaged or
    lost, as for `lcm verify`; warnings and notes leave it at 0.
    """
    _examine(ctx, offline=offline)


@doctor.command("apply", short_help="Rewrite broken summaries.")
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
    """Write the broken summaries of conversation ID, or of all, again.

    Reasons to look first (more than 25 summaries, more to read than 75 % of the budget, a pending compaction) are
    listed. Exit code 1 when something stays broken.
    """
    invocation: Invocation = ctx.obj
    how = draft_options(invocation, **more)
    if summary_ids and conversation_id is None:
        raise usage_error("--summary is for the summaries of one conversation: name it.")
    with planning(invocation) as engine:
        ids = engine.surgery.broken_conversations() if conversation_id is None else [conversation_id]
        for id_ in ids:
            engine.browse.get(id_)
        found = [engine.surgery.plan_repair(id_, budget, summary_ids=summary_ids) for id_ in ids]
    plans = [plan for plan, _ in found]
    blocked = [reason for _, reasons in found for reason in reasons]
    emit_rewrites(ctx, "doctor.apply", plans, how, {"kinds": count_kinds(plans), "blocked": blocked})


@doctor.command("clean", short_help="Delete conversations that are not used any more.")
@click.option(
    "--apply",
    "filter_id",
    type=click.Choice((*CLEAN_FILTERS, ALL_FILTERS)),
    help="Delete what this filter means, or all of them.",
)
@click.option("--vacuum", is_flag=True, help="Give the room back afterwards.")
@yes_option
@click.pass_obj
def clean_command(invocation: Invocation, filter_id: str | None, vacuum: bool, yes: bool) -> None:
    """List conversations that are not used any more, by filter; with --apply delete those of one, after a backup.

    Filters: archived_subagents, cron_sessions (finished runs), null_subagent_context. Files are left for `lcm files
    gc`.
    """
    with planning(invocation) as engine:
        plans = engine.admin.clean_plans(filter_id)
    data: dict[str, Any] = {"items": [_filter(plan) for plan in plans], "applied": False, "done": None}
    if filter_id is not None:
        plan, question = plans[0], f"Delete {len(plans[0].conversations)} conversations for good?"
        report = apply_confirmed(
            invocation, question, yes, plan.text, lambda engine: engine.admin.clean(plan, vacuum=vacuum)
        )
        data |= {"applied": True, "done": to_json(report)}
    invocation.emit("doctor.clean", data)


@doctor.command("maintenance", short_help="List or close stuck compactions.")
@click.option(
    "--apply", "conversation_id", metavar="ID", type=id_type, help="Close the pending compaction of this conversation."
)
@yes_option
@click.pass_obj
def maintenance_command(invocation: Invocation, conversation_id: int | None, yes: bool) -> None:
    """List pending compactions, of open and of closed conversations; with --apply close one that will never run.

    Only that of a closed conversation can be closed: `lcm worker` runs the others.
    """
    with planning(invocation) as engine:
        found = engine.admin.open_debts()
        work = None if conversation_id is None else engine.admin.close_debt_plan(conversation_id)
    data: dict[str, Any] = {
        "items": [to_json(debt) | {"isStuck": is_stuck(debt)} for debt in found],
        "applied": False,
        "backup": None,
    }
    if work is not None:
        text = describe_close(work)
        copy = apply_confirmed(invocation, "Close it?", yes, text, lambda engine: engine.admin.close_debt(work))
        data |= {"applied": True, "backup": str(copy), "closed": conversation_id}
    invocation.emit("doctor.maintenance", data)


@doctor.command("rollover-splits", short_help="Merge sessions that were split.")
@click.option("--apply", "is_real", is_flag=True, help="Merge those that are certain, after a backup.")
@yes_option
@click.pass_obj
def rollover_splits(invocation: Invocation, is_real: bool, yes: bool) -> None:
    """List sessions whose history a rollover split, and merge those that are certain.

    What needs a look is left; `lcm merge --reviewed` merges it.
    """
    with planning(invocation) as engine:
        found = engine.surgery.splits()
        plans = [engine.surgery.plan_merge(split.session_key) for split in found if not split.review]
    reports = []
    if is_real and plans:
        reports = apply_confirmed(
            invocation,
            f"Merge {len(plans)} sessions?",
            yes,
            "\n".join(plan.text for plan in plans),
            lambda engine: [engine.surgery.apply(plan) for plan in plans],
        )
    data = {"items": to_json(found), "applied": is_real, "done": to_json(reports)}
    invocation.emit("doctor.rollover-splits", data)


doctor.add_command(reindex)
doctor.add_command(rebuild)


def _examine(ctx: click.Context, *, offline: bool) -> None:
    invocation: Invocation = ctx.obj
    with planning(invocation) as engine:
        found = engine.admin.examine(ask_models=not offline)
        if found.healthy:  # as far as a quick look goes
            proof = engine.verify()
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


def _filter(plan: CleanPlan) -> dict[str, Any]:
    conversations = [
        {
            "conversationId": held.id,
            **pick_json(held, "session_key", "session_id", "active", "newest_at", "messages"),
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
    if absent is not None:
        ctx.exit(_prove_absent(invocation, absent, limit))
    with invocation.reader() as engine:
        total = engine.browse.counts().messages if invocation.shows_progress else None
        with invocation.progress("Checking messages", total) as advance:
            found = engine.verify(advance)
    problems = sorted(found.problems, key=lambda problem: problem.severity)
    data = {
        "ok": found.ok,
        "messages": found.messages,
        "summaries": found.summaries,
        "errors": sum(problem.severity == "error" for problem in problems),
        "warnings": sum(problem.severity == "warning" for problem in problems),
        "byCheck": dict(Counter(problem.check for problem in problems)),
        "problems": to_json(problems[:limit]),
    }
    invocation.emit("verify", data, ok=found.ok)
    ctx.exit(failures.OK if found.ok else failures.INTERNAL)


def _prove_absent(invocation: Invocation, source: str, limit: int) -> int:
    from lossless.maintenance.forget import prove_absence

    invocation.reader().close()  # it must be there
    found = prove_absence(invocation.file_path, invocation.vault, phrases_in(source, "--absent-from"))
    data = {
        "ok": found.ok,
        "files": found.files,
        "bytes": found.bytes,
        "found": len(found.traces),
        "traces": to_json(found.traces[:limit]),
        "unreadable": list(found.unreadable),
    }
    invocation.emit("verify absent", data, ok=found.ok)
    return failures.OK if found.ok else failures.INTERNAL


@click.command("adopt", cls=Command, short_help="Drop lossless-claw's own search tables.")
@click.option("--apply", "is_real", is_flag=True, help="Do it; without this, only say what it would free.")
@click.pass_obj
def adopt(invocation: Invocation, is_real: bool) -> None:
    """Drop the search tables that only lossless-claw reads, and free their space.

    Without --apply nothing changes. With it, everything is put into our own index where that is not done yet, a
    backup is made next to the file, and all is counted again afterwards. It refuses while another process has the
    file open. lossless-claw rebuilds these tables when it opens the file, so this is for archives that it no longer
    uses.
    """
    with invocation.reader() as engine:
        found, (size, free), counts = engine.admin.reclaimable(), engine.browse.size(), engine.browse.counts()
    data = {
        "applied": False,
        "tables": list(found.tables),
        "bytesToFree": found.bytes + free if found.tables else 0,
        "databaseSizeBytes": size,
    }
    if is_real and found.tables:
        with invocation.progress("Indexing", counts.messages) as advance:
            done = adopt_archive(invocation.file_path, datetime.now(UTC), advance)
        data |= {
            "applied": True,
            "databaseSizeBytes": done.size_after,
            "sizeBefore": done.size_before,
            "bytesFreed": done.size_before - done.size_after,
            "backupPath": str(done.backup),
            "backupBytes": done.backup.stat().st_size,
            "counts": to_json(done.counts),
        }
    invocation.emit("adopt", data)


doctor.add_command(new_spelling(adopt, "adopt", "now"))
