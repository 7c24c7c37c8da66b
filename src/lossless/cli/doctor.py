"""`lcm doctor`: what is wrong with an archive, and what helps."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.commands import Group, number, text
from lossless.cli.drafting import diff_option, emit, prompt_dir_option, writing_of
from lossless.cli.options import wrong
from lossless.cli.plain import backups, confirm, looking, open_engine, whole
from lossless.cli.reindex import rebuild, reindex
from lossless.cli.repair import kinds, repairs, sick
from lossless.cli.source_times import source_times
from lossless.cli.surgery import yes_option
from lossless.cli.target import budget_option
from lossless.cli.toolbox import vault_of
from lossless.cli.writer import named_model
from lossless.compaction.summariser import Summariser
from lossless.doctor import clean as cleaning
from lossless.doctor import examine as examining
from lossless.doctor import maintenance as owing
from lossless.doctor.finding import NAMED, Finding
from lossless.doctor.structure import remedy_of
from lossless.surgery import merge as merging
from lossless.verify import verify as verify_archive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lossless.cli.invocation import Invocation
    from lossless.doctor.examine import Examination
    from lossless.verify import Problem

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
@click.argument("conversation_id", metavar="[ID]", type=number, required=False)
@click.option(
    "--summary", "summary_ids", metavar="ID", type=text, multiple=True, help="Only this one of ID; may be repeated."
)
@budget_option
@source_times
@prompt_dir_option
@named_model
@diff_option
@click.option(
    "--confirm/--dry-run", "is_real", default=False, help="Do it; or only say what would be done, which is the default."
)
@yes_option
@click.pass_context
def apply(
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
    how = writing_of(invocation, **more)
    if summary_ids and conversation_id is None:
        raise wrong("--summary is for the summaries of one conversation: name it.")
    with looking(invocation) as archive:
        ids = [conversation_id] if conversation_id is not None else sick(archive)
        for id_ in ids:
            archive.conversations.get(id_)
        found = repairs(invocation, archive, ids, budget, summary_ids)
    blocked = [reason for one in found for reason in one.blocked]
    emit(ctx, "doctor.apply", [one.plan for one in found], how, {"kinds": kinds(found), "blocked": blocked})


@doctor.command("clean")
@click.option(
    "--apply",
    "filter_id",
    type=click.Choice((*cleaning.FILTERS, cleaning.ALL)),
    help="Delete what this filter means, or all of them.",
)
@click.option("--vacuum", is_flag=True, help="Give the room back afterwards.")
@yes_option
@click.pass_obj
def clean(invocation: Invocation, filter_id: str | None, vacuum: bool, yes: bool) -> None:
    """List conversations that nobody goes back to, by filter; with --apply delete those of one, after a backup.

    Filters: archived_subagents, cron_sessions (finished runs), null_subagent_context. Files are left for `lcm files
    gc`.
    """
    with looking(invocation) as archive:
        plans = [cleaning.plan(archive, filter_id)] if filter_id else cleaning.plans(archive)
    data: dict[str, Any] = {"items": [_filter(plan) for plan in plans], "applied": False, "done": None}
    if filter_id is not None:
        confirm(f"Delete {len(plans[0].conversations)} conversations for good?", yes, plans[0].text)
        with open_engine(invocation) as engine:
            report = cleaning.apply(engine.archive, plans[0], backups(engine), vacuum=vacuum)
        data |= {"applied": True, "done": whole(report)}
    invocation.emit("doctor.clean", data)


@doctor.command("maintenance")
@click.option("--apply", "conversation_id", metavar="ID", type=number, help="Close the debt of this conversation.")
@yes_option
@click.pass_obj
def maintenance(invocation: Invocation, conversation_id: int | None, yes: bool) -> None:
    """List sweeps that were put off, of active and of closed conversations; with --apply close one that nobody pays.

    Only a closed conversation's debt can be closed: an active one's is paid by `lcm worker`.
    """
    now = datetime.now(UTC)
    with looking(invocation) as archive:
        found = owing.debts(archive, now)
        work = None if conversation_id is None else owing.plan(archive, conversation_id, now)
    data: dict[str, Any] = {
        "items": [whole(debt) | {"isStuck": owing.is_stuck(debt)} for debt in found],
        "applied": False,
        "backup": None,
    }
    if work is not None:
        confirm("Close it?", yes, work.text)
        with open_engine(invocation) as engine:
            copy = owing.apply(engine.archive, work, now, backups(engine))
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
    with looking(invocation) as archive:
        found = merging.splits(archive)
        plans = [merging.plan(archive, split.session_key) for split in found if not split.review]
    reports = []
    if is_real and plans:
        confirm(f"Merge {len(plans)} sessions?", yes, "\n".join(plan.text for plan in plans))
        with open_engine(invocation) as engine:
            reports = [merging.apply(engine.archive, plan, datetime.now(UTC), backups(engine)) for plan in plans]
    data = {"items": whole(found), "applied": is_real, "done": whole(reports)}
    invocation.emit("doctor.rollover-splits", data)


doctor.add_command(reindex)
doctor.add_command(rebuild)


def _examine(ctx: click.Context, *, offline: bool) -> None:
    invocation: Invocation = ctx.obj
    summariser = None if offline else Summariser(invocation.loaded.settings)
    with looking(invocation) as archive:
        vault = vault_of(invocation)
        found = examining.examine(archive, datetime.now(UTC), vault=vault, summariser=summariser)
        if found.healthy:  # as far as a quick look goes
            proof = verify_archive(archive, vault=vault)
            found = replace(found, findings=(*found.findings, *_unproven(proof.problems)))
    invocation.emit("doctor", _examined(found, offline=offline), ok=found.healthy)
    ctx.exit(failures.OK if found.healthy else failures.INTERNAL)


def _unproven(problems: Iterable[Problem]) -> Iterator[Finding]:
    """What only a proof of every row finds, by table."""
    wrong: defaultdict[str, list[Problem]] = defaultdict(list)
    for problem in problems:
        if problem.severity == "error":
            wrong[problem.table].append(problem)
    for table, some in wrong.items():
        message = f"{table}: {some[0].detail}{f', and {len(some) - 1:,} more' if len(some) > 1 else ''}"
        ids = tuple(problem.id for problem in some[:NAMED])
        yield Finding("proof", "problem", message, remedy_of(table, some[0].check), ids=ids)


def _examined(found: Examination, *, offline: bool) -> dict[str, Any]:
    live = whole(found.liveness)
    names = ("conversationId", "since", "reason")
    live["blocked"] = [dict(zip(names, row, strict=True)) for row in live["blocked"]]
    plain: dict[str, Any] = whole(found)
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
