"""`lcm rewrite` and `lcm repair`: summaries written anew, from what they were made of."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
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
from lossless.doctor import rewrite_run, rewriting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from lossless.cli.invocation import Invocation
    from lossless.cli.target import Target
    from lossless.doctor.rewrite_run import Drafted
    from lossless.doctor.rewriting import RewritePlan
    from lossless.engine import Engine
    from lossless.settings import Settings
    from lossless.store.archive import Archive
    from lossless.surgery.outcome import Operated

prompt_dir_option = click.option(
    "--prompt-dir",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder with prompt templates of your own; see `lcm prompts export`.",
)
diff_option = click.option("--diff", "shows_diff", is_flag=True, help="Write the new texts and show how they differ.")

#: Signals that end a program: SIGHUP, which not every system has, and SIGTERM.
_ENDS = frozenset({1, int(signal.SIGTERM)})


@click.command("rewrite", cls=Command)
@targeted(required=False)
@click.option("--summary", "summary_id", metavar="ID", type=text, help="This summary.")
@click.option("--subtree", metavar="ID", type=text, help="This summary and all below it.")
@click.option("--depth", metavar="N", type=click.IntRange(0, 1000), help="All summaries of a depth.")
@click.option("--all", "everything", is_flag=True, help="All summaries of the conversation.")
@click.option("--extractive", is_flag=True, help="Those that no model wrote; of all conversations when none is named.")
@click.option("--afresh", is_flag=True, help="Also what the same command wrote before it was stopped.")
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
    """Write summaries anew, subtree by subtree from the bottom up, and show how the texts differ.

    Without --apply and --diff no model is asked: the plan says how many calls it takes. With one of them all are made,
    whatever the spending limit is; with both, a person sees the texts before they take their place. --model names
    another model for this time only. A text counts only when it is smaller than what it stands for.
    Interrupted, or when the model is down, what goes together is kept, and the same command goes on with the rest.
    Exit code 1 when a model failed on the way.
    """
    invocation: Invocation = ctx.obj
    asked = reachable(invocation, named)
    with looking(invocation) as archive:
        plans = _plans(archive, target, rule | {"by": f"{writer_of(asked)} {prompt_dir or ''}".strip()})
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

    @property
    def is_reviewed(self) -> bool:
        """Whether a person looks at the new texts before they take their place."""
        return self.is_real and self.shows_diff and not self.yes and sys.stdin.isatty()

    def spending(self, plans: Sequence[RewritePlan]) -> dict[str, int]:
        """How many calls plans take, and how many are made in a window when nobody asks for them."""
        count = sum(len(plan.targets) for plan in plans)
        calls = count if Summariser(self.asked).has_model else 0
        return {"calls": calls, "callLimit": self.asked.summary_max_calls_per_window}


def written(invocation: Invocation, plans: Sequence[RewritePlan], how: Writing) -> list[dict[str, Any]]:
    """What became of each plan; without a word that drafts are wanted, the plans alone.

    A run that is stopped leaves the plans behind it as they are.
    """
    items = [_item(plan) for plan in plans]
    if not (how.is_real or how.shows_diff) or not any(plan.targets for plan in plans):
        return items
    if how.is_real and not how.is_reviewed:
        count, calls = sum(len(plan.targets) for plan in plans), how.spending(plans)["calls"]
        price = f" with {calls} or more calls of {writer_of(how.asked)}" if calls else ""
        question = f"Write {count} summaries anew{price}, and put them in place?"
        confirm(question, how.yes, "\n".join(plan.text for plan in plans))
    with open_engine(invocation, how.prompt_dir, how.asked) as engine:
        copy = cache(backups(engine))
        for n, plan in enumerate(plans):
            made = _drafted(invocation, engine, plan)
            if made.usable and how.is_reviewed:
                confirm(f"Put {len(made.usable)} new texts in place?", how.yes, _diffs(made))
            items[n] = _item(plan, made, rewrite_run.place(engine.writer, made, copy) if how.is_real else None)
            if made.stop is not None:
                break
    return items


def exit_code(items: Sequence[dict[str, Any]]) -> int:
    """How a run ended: interrupted, with a model that failed, or well."""
    if any(item["stop"] == rewrite_run.INTERRUPTED for item in items):
        return failures.INTERRUPTED
    return failures.INTERNAL if any(draft["isFailed"] for item in items for draft in item["drafts"]) else failures.OK


def _emit(
    ctx: click.Context,
    command: str,
    plans: Sequence[RewritePlan],
    how: Writing,
    more: dict[str, Any] | None = None,
) -> None:
    invocation: Invocation = ctx.obj
    items = written(invocation, plans, how)
    code = exit_code(items)
    count = sum(len(plan.targets) for plan in plans)
    data = {"items": items, "targets": count, "writer": writer_of(how.asked), "wanted": how.is_real}
    invocation.emit(command, data | how.spending(plans) | (more or {}), ok=code == failures.OK)
    ctx.exit(code)


def _drafted(invocation: Invocation, engine: Engine, plan: RewritePlan) -> Drafted:
    if not invocation.shows_progress:
        with _interruptible():
            return rewrite_run.write(engine.writer, plan)
    from lossless.cli.progress import counting

    with _interruptible(), counting("Writing", len(plan.targets)) as advance:
        return rewrite_run.write(engine.writer, plan, heard=lambda _draft: advance(1))


@contextmanager
def _interruptible() -> Iterator[None]:
    """The signals to end and of a terminal that was closed are an interrupt, too: what is written by then is kept."""

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise KeyboardInterrupt

    ends = [one for one in signal.valid_signals() if one in _ENDS and signal.getsignal(one) == signal.SIG_DFL]
    for one in ends:
        signal.signal(one, interrupt)
    try:
        yield
    finally:
        for one in ends:
            signal.signal(one, signal.SIG_DFL)


def _item(plan: RewritePlan, made: Drafted | None = None, report: Operated | None = None) -> dict[str, Any]:
    """A plan, what was written for it, and what became of it."""
    drafts = [whole(one) | {"diff": one.diff if one.refusal is None else ""} for one in (made.drafts if made else ())]
    stop, reached, left = (made.stop, made.reached, made.left) if made else (None, 0, len(plan.targets))
    progress = {"reached": reached, "left": left, "stop": stop}
    return {"plan": whole(plan), "text": plan.text, "drafts": drafts, **progress, **done(report)}


def _diffs(made: Drafted) -> str:
    return "\n\n".join(one.diff for one in made.usable)
