"""`lcm rewrite` and `lcm repair`: summaries written anew, from what they were made of."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.commands import Command, text
from lossless.cli.options import wrong
from lossless.cli.plain import backups, confirm, done, looking, open_engine, whole
from lossless.cli.surgery import apply_option, yes_option
from lossless.cli.target import budget_option, targeted
from lossless.cli.writer import Named, named_model, reachable, writer_of
from lossless.compaction.summariser import Summariser
from lossless.doctor import repair as repairing
from lossless.doctor import rewriting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.cli.invocation import Invocation
    from lossless.cli.target import Target
    from lossless.doctor.rewriting import Draft, RewritePlan
    from lossless.engine import Engine
    from lossless.settings import Settings
    from lossless.store.archive import Archive

prompt_dir_option = click.option(
    "--prompt-dir",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder with prompt templates of your own; see `lcm prompts export`.",
)
diff_option = click.option("--diff", "shows_diff", is_flag=True, help="Write the new texts and show how they differ.")


@click.command("rewrite", cls=Command)
@targeted(required=False)
@click.option("--summary", "summary_id", metavar="ID", type=text, help="This summary.")
@click.option("--subtree", metavar="ID", type=text, help="This summary and all below it.")
@click.option("--depth", metavar="N", type=click.IntRange(0, 1000), help="All summaries of a depth.")
@click.option("--all", "everything", is_flag=True, help="All summaries of the conversation.")
@click.option("--extractive", is_flag=True, help="Those that no model wrote; of all conversations when none is named.")
@prompt_dir_option
@named_model
@diff_option
@apply_option
@yes_option
@click.pass_context
def rewrite(
    ctx: click.Context,
    /,
    target: Target | None,
    prompt_dir: Path | None,
    named: Named,
    shows_diff: bool,
    is_real: bool,
    yes: bool,
    **rule: Any,
) -> None:
    """Write summaries anew, from the bottom up, and show how the texts differ before they take their place.

    Without --apply and --diff no model is asked; --model names another one for this time only. A text counts only when
    it is smaller than what it stands for.
    Dates, counts, models and the search index are brought in line. Exit code 1 when a model failed on the way.
    """
    invocation: Invocation = ctx.obj
    asked = reachable(invocation, named)
    with looking(invocation) as archive:
        plans = _plans(archive, target, rule)
    if rule["extractive"] and not Summariser(asked).has_model and (is_real or shows_diff):
        hint = "Name one with --model or the setting summaryModel, and see `lcm model test`."
        raise failures.fail("no_model", "There is no model to write them better.", failures.CONFIG, hint=hint)
    _emit(ctx, "rewrite", plans, Writing(prompt_dir, asked, is_real, shows_diff, yes))


@click.command("repair", cls=Command)
@targeted()
@click.option(
    "--summary", "summary_ids", metavar="ID", type=text, multiple=True, help="Only this one; may be repeated."
)
@budget_option
@prompt_dir_option
@named_model
@diff_option
@click.option("--confirm", "is_confirmed", is_flag=True, help="Do it although the preflight speaks against it.")
@apply_option
@yes_option
@click.pass_context
def repair(
    ctx: click.Context,
    target: Target,
    summary_ids: tuple[str, ...],
    budget: int | None,
    prompt_dir: Path | None,
    named: Named,
    shows_diff: bool,
    is_confirmed: bool,
    is_real: bool,
    yes: bool,
) -> None:
    """Write summaries anew that fallbacks left behind: truncated, empty, or made in an emergency.

    From the bottom up. The preflight asks for --confirm when there are more than 25, when they read more than 75 % of
    the budget, or when a sweep is pending. A text that is still a fallback is left out.
    """
    invocation: Invocation = ctx.obj
    asked = reachable(invocation, named)
    with looking(invocation) as archive:
        most = budget or invocation.loaded.settings.default_token_budget
        found = repairing.plan(archive, target.need(archive).id, most, summary_ids=summary_ids)
    refuse_unconfirmed(found.blocked, is_real=is_real, is_confirmed=is_confirmed)
    more = {"kinds": found.kinds, "blocked": list(found.blocked)}
    _emit(ctx, "repair", [found.plan], Writing(prompt_dir, asked, is_real, shows_diff, yes), more)


def refuse_unconfirmed(blocked: Sequence[str], *, is_real: bool, is_confirmed: bool) -> None:
    """Stop before anything is done when something speaks against it and nobody overruled it."""
    if is_real and blocked and not is_confirmed:
        message = f"The repair wants your word first: {'; '.join(blocked)}."
        raise failures.fail("blocked", message, failures.BAD_ARGUMENTS, hint="Say it with --confirm.")


def _plans(archive: Archive, target: Target | None, rule: dict[str, Any]) -> list[RewritePlan]:
    named = rule["summary_id"] or rule["subtree"]
    if target is not None:
        ids = [target.need(archive).id]
    elif named:
        ids = [archive.summaries.get(named).conversation_id]
    elif rule["extractive"]:
        ids = archive.checks.conversation_ids()
    else:
        raise wrong("Name a conversation with --session-key, --session-id or --conversation-id.")
    plans = [rewriting.plan(archive, id_, **rule) for id_ in ids]
    return [plan for plan in plans if plan.targets] or plans[:1]


@dataclass(frozen=True, slots=True)
class Writing:
    """How drafts are written this time, and what becomes of them."""

    prompt_dir: Path | None
    asked: Settings
    is_real: bool
    shows_diff: bool
    yes: bool


def written(invocation: Invocation, plans: Sequence[RewritePlan], how: Writing) -> list[dict[str, Any]]:
    """What became of each plan; without a word that drafts are wanted, the plans alone."""
    if not (how.is_real or how.shows_diff) or not any(plan.targets for plan in plans):
        return [{"plan": whole(plan), "text": plan.text, "drafts": [], **done(None)} for plan in plans]
    with open_engine(invocation, how.prompt_dir, how.asked) as engine:
        return [_run(invocation, engine, plan, is_real=how.is_real, yes=how.yes) for plan in plans if plan.targets]


def _emit(
    ctx: click.Context,
    command: str,
    plans: Sequence[RewritePlan],
    how: Writing,
    more: dict[str, Any] | None = None,
) -> None:
    invocation: Invocation = ctx.obj
    results = written(invocation, plans, how)
    failed = any(draft["isLast"] for result in results for draft in result["drafts"])
    count = sum(len(plan.targets) for plan in plans)
    data = {"items": results, "targets": count, "writer": writer_of(how.asked), "wanted": how.is_real, **(more or {})}
    invocation.emit(command, data, ok=not failed)
    ctx.exit(failures.INTERNAL if failed else failures.OK)


def _run(invocation: Invocation, engine: Engine, plan: RewritePlan, *, is_real: bool, yes: bool) -> dict[str, Any]:
    """Write drafts of a plan, and put them in place when that is wanted and a person at a terminal agrees."""
    made: list[Draft] = []
    with _bar(invocation, len(plan.targets)) as advance:
        for one in rewriting.drafts(engine.writer, plan):
            made.append(one)
            if advance:
                advance(1)
    good, refused = rewriting.settled(engine.archive, made)
    report = None
    if is_real and good:
        confirm(f"Put {len(good)} new texts in place?", yes, "\n\n".join(one.diff for one in good))
        report = rewriting.apply(engine.archive, plan, good, datetime.now(UTC), backups(engine))
    drafts = [whole(one) | {"diff": one.diff if one.refusal is None else ""} for one in (*good, *refused)]
    return {"plan": whole(plan), "text": plan.text, "drafts": drafts, **done(report)}


def _bar(invocation: Invocation, total: int) -> Any:
    if not invocation.shows_progress:
        return nullcontext()
    from lossless.cli.progress import counting

    return counting("Writing", total)
