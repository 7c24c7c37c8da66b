"""`lcm doctor`, `lcm verify` and `lcm adopt`: check an archive, repair it, prove that nothing is lost, and rebuild
what can be derived.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import options
from lossless.cli.commands import Group, Invocation, command, new_spelling
from lossless.cli.config import SourceTimes, writer_name
from lossless.cli.retention import phrases_in
from lossless.cli.screen import Data, Screen, message_counts, pick_json, styled, to_json
from lossless.cli.surgery import DraftOptions, write_plans
from lossless.compaction.summariser import Summariser
from lossless.maintenance.doctor import MAX_NAMED_IDS, DoctorFinding, remedy_of
from lossless.maintenance.prune import adopt_archive
from lossless.maintenance.repair import ALL_FILTERS, CLEAN_FILTERS, describe_close, is_stuck
from lossless.tui.text import plural

if TYPE_CHECKING:
    from lossless.engine import Engine
    from lossless.maintenance.verify import Verification


#: How many conversations of a filter are listed; the others are counted.
_SHOWN = 50
_offline = options.flag("--offline", help="Do not call models to see whether they answer.")


@click.group("doctor", cls=Group, invoke_without_command=True)
@_offline
@options.flag("--fix", help="Repair what can be repaired, and look again.")
@options.flag("--dry-run", help="With --fix: only list what would be repaired.")
@options.flag("--yes", "-y", help="With --fix: call models without asking.")
@click.pass_context
def doctor(ctx: click.Context, offline: bool, fix: bool, dry_run: bool, yes: bool) -> None:
    """Find what is wrong with the archive, and repair it. Alone: `lcm doctor examine`."""
    if ctx.invoked_subcommand is not None:
        return
    if (dry_run or yes) and not fix:
        raise options.usage_error("--dry-run and --yes go with --fix.")
    if fix:
        _fix(ctx.obj, dry_run=dry_run, yes=yes)
    ctx.invoke(examine, offline=offline or fix)


def _fix(invocation: Invocation, *, dry_run: bool, yes: bool) -> None:
    """Repair what can be repaired; what is done is said on standard error, so that the answer is the examination."""
    asked = invocation.loaded.settings
    with invocation.reader() as engine:
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
    plan = [*steps, *([f"rewrite {plural(broken, 'broken summary')}"] if broken else [])]
    click.echo(f"To repair: {'; '.join(plan) or 'nothing'}.", err=True)
    if dry_run or not plan:
        return
    if calls and not yes and not options.ask_person(f"Ask {writer_name(asked)} at least {plural(calls, 'time')}?"):
        click.echo("Broken summaries were not rewritten; --yes rewrites them.", err=True)
        repairs = []
    for act in steps.values():
        with invocation.engine() as engine:
            act(engine)
    if repairs:
        how = DraftOptions(None, asked, is_real=True, shows_diff=False, yes=True, times=SourceTimes())
        write_plans(invocation, [plan for plan, _ in repairs], how)


@command("examine", doctor, short_help="Look for all known problems.")
@_offline
def examine(invocation: Invocation, offline: bool) -> None:
    """Look for all known problems; `lcm doctor` alone does the same."""
    with invocation.reader() as engine:
        found = engine.admin.examine(ask_models=not offline)
        if found.healthy:  # as far as a quick look goes
            proof = engine.verify()
            found = replace(found, findings=(*found.findings, *_unproven_json(proof)))
    live = to_json(found.liveness)
    live["blocked"] = [dict(zip(("conversationId", "since", "reason"), row, strict=True)) for row in live["blocked"]]
    data = to_json(found) | {"healthy": found.healthy, "liveness": live, "offline": offline}
    invocation.answer("doctor", data, view=print_examination, ok=found.healthy)


@command("clean", doctor, short_help="Delete conversations that are no longer used.")
@click.option(
    "--apply",
    "filter_id",
    type=click.Choice((*CLEAN_FILTERS, ALL_FILTERS)),
    help="Delete what this filter finds; or what all of them find.",
)
@options.flag("--vacuum", help="Free the space on disk afterwards.")
@options.flag("--dry-run", help="Only list them.")
@options.yes
def clean_command(invocation: Invocation, filter_id: str | None, vacuum: bool, dry_run: bool, yes: bool) -> None:
    """List conversations that are no longer used, by filter; with --apply delete those of one, after a backup."""
    with invocation.reader() as engine:
        plans = engine.admin.clean_plans(filter_id)
    names = ("session_key", "session_id", "active", "newest_at", "messages", "bytes=text_bytes")
    items = [
        {
            **pick_json(plan, "filter=filter_id", "meaning", "bytes"),
            "count": len(plan.conversations),
            "messages": sum(held.messages for held in plan.conversations),
            "conversations": [pick_json(held, "conversation_id=id", *names) for held in plan.conversations[:_SHOWN]],
        }
        for plan in plans
    ]
    data: Data = {"items": items, "applied": False, "done": None}
    if filter_id is not None and not dry_run:
        plan, question = plans[0], f"Delete {len(plans[0].conversations)} conversations permanently?"
        report = options.apply_confirmed(
            invocation, question, yes, plan.text, lambda engine: engine.admin.clean(plan, vacuum=vacuum)
        )
        data |= {"applied": True, "done": to_json(report)}
    if screen := invocation.answer("doctor.clean", data):
        if data["done"] is not None:
            screen.line(styled("Deleted.", "bold green"))
            screen.record(data["done"])
            return
        for item in data["items"]:
            screen.title(item["filter"], item["meaning"])
            screen.record(item, "filter", "meaning")
        screen.unchanged("--apply FILTER deletes, after a backup.")


@command("maintenance", doctor, short_help="List or close stuck compactions.")
@options.row_id("--apply", "conversation_id", help="Close the pending compaction of this conversation.")
@options.flag("--dry-run", help="Only list them.")
@options.yes
def maintenance_command(invocation: Invocation, conversation_id: int | None, dry_run: bool, yes: bool) -> None:
    """List pending compactions, of open and of closed conversations; with --apply close one that will never run."""
    with invocation.reader() as engine:
        found = engine.admin.open_debts()
        work = None if conversation_id is None else engine.admin.close_debt_plan(conversation_id)
    items = [to_json(debt) | {"isStuck": is_stuck(debt)} for debt in found]
    data: Data = {"items": items, "applied": False, "backup": None}
    if work is not None and not dry_run:
        text = describe_close(work)
        copy = options.apply_confirmed(invocation, "Close it?", yes, text, lambda engine: engine.admin.close_debt(work))
        data |= {"applied": True, "backup": str(copy), "closed": conversation_id}
    none = "" if items else "No compaction is pending."
    done = f"The pending compaction of conversation {conversation_id} is closed."
    how, hidden = "--apply ID closes that of a closed conversation.", ("backup", "closed")
    invocation.answer(
        "doctor.maintenance", data, view=partial(Screen.outcome, none=none, done=done, how=how, hidden=hidden)
    )


@command("rollover-splits", doctor, short_help="Merge sessions that were split.")
@click.option("--apply/--dry-run", "is_real", help="Merge them, after a backup; or only list them, as by default.")
@options.yes
def rollover_splits(invocation: Invocation, is_real: bool, yes: bool) -> None:
    """List sessions whose history was split by a rollover; with --apply merge those that are certain."""
    with invocation.reader() as engine:
        found = engine.surgery.splits()
        plans = [engine.surgery.plan_merge(split.session_key) for split in found if not split.review]
    reports = []
    if is_real and plans:
        question, text = f"Merge {len(plans)} sessions?", "\n".join(plan.text for plan in plans)
        reports = options.apply_confirmed(
            invocation, question, yes, text, lambda engine: [engine.surgery.apply(plan) for plan in plans]
        )
    data: Data = {"items": to_json(found), "applied": is_real, "done": to_json(reports)}
    done, how = f"{plural(len(reports), 'session')} merged.", "--apply merges those that are certain, after a backup."
    none = "" if found else "No session is split."
    view = partial(Screen.outcome, none=none, done=done, how=how, hidden=["done"])
    invocation.answer("doctor.rollover-splits", data, view=view)


@command("reindex", doctor, short_help="Rebuild the search index.")
@options.flag("--all", "anew", help="Empty the index first, and rebuild all of it.")
@click.option("--apply/--dry-run", "is_real", help="Do it; or only count what is missing, which is the default.")
def reindex(invocation: Invocation, anew: bool, is_real: bool) -> None:
    """Count what is missing in the search index; with --apply rebuild it from the rows, which do not change."""
    with invocation.reader() as engine:
        (drift, damaged), counts = engine.admin.reindex_plan(), engine.browse.counts()
    unindexed = drift.unindexed_messages + drift.unindexed_summaries
    all_ = counts.messages + counts.summaries
    total = all_ if anew or damaged else drift.wrong + unindexed + drift.upstream_lost
    lost = pick_json(drift, "lost_messages=lost_count", "gone_messages=gone_count", "gone_summaries")
    data: Data = {"damaged": list(damaged), **lost, "losslessClawLost": drift.upstream_lost, "unindexed": unindexed}
    data |= {"staleSummaries": len(drift.stale_summaries), "all": anew, "applied": is_real, "done": None}
    if is_real:
        with invocation.engine() as engine, invocation.progress("Indexing", total) as advance:
            data["done"] = to_json(engine.admin.reindex(anew=anew, progress=advance))
    is_whole = not (data["done"] and data["done"]["unreadable"])
    invocation.answer("doctor.reindex", data, ok=is_whole, view=partial(Screen.outcome, how="--apply makes it again."))


@command("rebuild", doctor, short_help="Compute derived values again.")
@click.option("--apply/--dry-run", "is_real", help="Do it; or only list what is wrong, which is the default.")
def rebuild(invocation: Invocation, is_real: bool) -> None:
    """List values that do not match the messages and summaries; with --apply compute them again, after a backup."""
    with invocation.reader() as engine:
        found = engine.admin.rebuild_plan()
    if is_real:
        with invocation.engine() as engine:
            found = engine.admin.rebuild()
    data: Data = {**to_json(found), "applied": is_real}
    none = "" if any(to_json(found).values()) else "All that can be derived is as it should be."
    view = partial(Screen.outcome, none=none, done="It was made again.", how="--apply makes it again.")
    invocation.answer("doctor.rebuild", data, view=view)


def _unproven_json(proof: Verification) -> Iterator[DoctorFinding]:
    errors = [problem for problem in proof.problems if problem.severity == "error"]
    for table in dict.fromkeys(problem.table for problem in errors):
        some = [problem for problem in errors if problem.table == table]
        message = f"{table}: {some[0].detail}{f', and {len(some) - 1:,} more' if len(some) > 1 else ''}"
        ids = tuple(problem.id for problem in some[:MAX_NAMED_IDS])
        yield DoctorFinding("proof", "problem", message, remedy_of(table, some[0].check), ids=ids)


@command("verify")
@options.number("--limit", maximum=100_000, default=100, help="List this many.")
@options.text("--absent-from", "absent", metavar="FILE", help="Prove that these phrases are nowhere.")
def verify(invocation: Invocation, limit: int, absent: str | None) -> None:
    """Prove that everything stored is complete, searchable and reachable."""
    if absent is not None:
        from lossless.maintenance.forget import prove_absence

        invocation.reader().close()  # it must be there
        proof = prove_absence(invocation.file_path, invocation.vault, phrases_in(absent, "--absent-from"))
        traces = {"found": len(proof.traces), "traces": to_json(proof.traces[:limit])}
        absence = pick_json(proof, "ok", "files", "bytes", "unreadable") | traces
        if screen := invocation.answer("verify absent", absence, ok=proof.ok):
            screen.record(absence)
            screen.line("Nowhere." if proof.ok else styled("It was found, or not all could be read.", "red"))
        return
    with invocation.reader() as engine:
        total = engine.browse.counts().messages if invocation.shows_progress else None
        with invocation.progress("Checking messages", total) as advance:
            found = engine.verify(advance)
    problems = sorted(found.problems, key=lambda problem: problem.severity)
    data: Data = {
        **pick_json(found, "ok", "messages", "summaries"),
        "errors": sum(problem.severity == "error" for problem in problems),
        "warnings": sum(problem.severity == "warning" for problem in problems),
        "byCheck": dict(Counter(problem.check for problem in problems)),
        "problems": to_json(problems[:limit]),
    }
    if screen := invocation.answer("verify", data, ok=found.ok):
        for one in data["problems"]:
            severity = styled(f"{one['severity']} ", "red" if one["severity"] == "error" else "yellow")
            screen.line(severity, f"{one['table']} {one['id']}: {one['detail']}")
        unlisted = data["errors"] + data["warnings"] - len(data["problems"])
        if unlisted > 0:
            screen.note(f"and {unlisted:,} more; see them with --limit")
        if data["problems"]:
            screen.gap()
        verdict = styled("All is there.", "bold green")
        if data["errors"]:
            verdict = styled(f"{plural(data['errors'], 'error')}.", "bold red")
        warned = f" {plural(data['warnings'], 'warning')}." if data["warnings"] else ""
        screen.line(verdict, f"{warned} {message_counts(data)} checked.")


@command("adopt", short_help="Delete lossless-claw's own search tables.")
@options.flag("--apply", "is_real", help="Do it; without this, only say what it would free.")
def adopt(invocation: Invocation, is_real: bool) -> None:
    """Delete the search tables that only lossless-claw reads, and free their space."""
    with invocation.reader() as engine:
        found, (size, free), counts = engine.admin.reclaimable(), engine.browse.size(), engine.browse.counts()
    data: Data = {
        "applied": False,
        "tables": list(found.tables),
        "bytesToFree": found.bytes + free if found.tables else 0,
        "databaseSizeBytes": size,
    }
    if is_real and found.tables:
        with invocation.progress("Indexing", counts.messages) as advance:
            sizes, backup, counts = adopt_archive(invocation.file_path, datetime.now(UTC), advance)
        data |= {
            "applied": True,
            **pick_json(sizes, "database_size_bytes=size_after", "size_before"),
            "bytesFreed": sizes.size_before - sizes.size_after,
            "backupPath": str(backup),
            "backupBytes": backup.stat().st_size,
            "counts": to_json(counts),
        }
    none = "" if found.tables else "There is nothing to drop: the archive has none of lossless-claw's search tables."
    view = partial(Screen.outcome, none=none, how="`lcm adopt --apply` makes a backup and does it.")
    invocation.answer("adopt", data, view=view)


doctor.add_command(new_spelling(adopt, "adopt", "now"))


_SEVERITIES = {"problem": "red", "warning": "yellow", "note": "dim"}


def print_examination(screen: Screen, data: Data) -> None:
    live = data["liveness"]
    screen.title(f"lossless {data['version']}", f"schema {data['schema']}", f"SQLite {data['sqlite']}")
    seen = ", ".join(f"{live[name]:,} {name}" for name in ("seen", "stored", "ambiguous"))
    rows: list[tuple[str, Any]] = [("Last stored", screen.ago(live["lastStoredAt"])), ("Arrived", seen)]
    rows += [
        (f"Model {model['name']}", f"answers in {model['seconds']} s" if model["ok"] else str(model["error"]))
        for model in data["models"]
    ]
    if not data["models"]:
        rows.append(("Model", "not asked" if data["offline"] else "none is configured; summaries are extracted"))
    screen.fields(rows)
    screen.gap()
    for finding in data["findings"]:
        colour = _SEVERITIES[finding["severity"]]
        screen.line(styled(f"{finding['severity']} ", colour), finding["message"])
        if finding["remedy"]:
            screen.note(f"  {finding['remedy']}")
    if data["findings"]:
        screen.gap()
    verdict = styled("Not healthy.", "bold red")
    if data["healthy"]:
        warnings = sum(finding["severity"] == "warning" for finding in data["findings"])
        verdict = styled("Healthy.", "bold green")
        if warnings:
            verdict = styled(f"Nothing is damaged; {plural(warnings, 'warning')}.", "bold yellow")
    screen.line(verdict, styled("  `lcm verify` proves every row.", "dim"))
