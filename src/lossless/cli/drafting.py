"""Summaries written anew, whoever asks for it: what a person wants of it, how it is carried out, what is printed."""

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
from lossless.cli.plain import backups, confirm, done, open_engine, whole
from lossless.cli.writer import reachable, writer_of
from lossless.compaction.summariser import Summariser
from lossless.revising import run as rewrite_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from lossless.cli.invocation import Invocation
    from lossless.cli.source_times import Times
    from lossless.cli.writer import Named
    from lossless.engine import Engine
    from lossless.revising.rewriting import RewritePlan
    from lossless.revising.run import Drafted
    from lossless.settings import Settings
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


@dataclass(frozen=True, slots=True)
class Writing:
    """How drafts are written this time, and what becomes of them."""

    prompt_dir: Path | None
    asked: Settings
    is_real: bool
    shows_diff: bool
    yes: bool
    times: Times

    @property
    def is_reviewed(self) -> bool:
        """Whether a person looks at the new texts before they take their place."""
        return self.is_real and self.shows_diff and not self.yes and sys.stdin.isatty()

    def spending(self, plans: Sequence[RewritePlan]) -> dict[str, int]:
        """How many calls plans take, and how many are made in a window when nobody asks for them."""
        count = sum(len(plan.targets) for plan in plans)
        calls = count if Summariser(self.asked).has_model else 0
        return {"calls": calls, "callLimit": self.asked.summary_max_calls_per_window}


def writing_of(
    invocation: Invocation,
    *,
    times: Times,
    prompt_dir: Path | None,
    named: Named,
    shows_diff: bool,
    is_real: bool,
    yes: bool,
) -> Writing:
    """How a command wants its drafts written; a model that could not be asked is an error at once."""
    asked = times.settings(reachable(invocation, named))
    return Writing(prompt_dir, asked, is_real, shows_diff, yes, times)


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
    writer = how.times.summariser(how.asked, how.prompt_dir)
    with open_engine(invocation, asked=how.asked, summariser=writer) as engine:
        copy = cache(backups(engine))
        for n, plan in enumerate(plans):
            made = _drafted(invocation, engine, plan)
            if made.usable and how.is_reviewed:
                confirm(f"Put {len(made.usable)} new texts in place?", how.yes, _diffs(made))
            items[n] = _item(plan, made, rewrite_run.place(engine.surgery.writer, made, copy) if how.is_real else None)
            if made.stop is not None:
                break
    return items


def exit_code(command: str, items: Sequence[dict[str, Any]]) -> int:
    """How a run ended: interrupted, with something that stays as it is and should not, or well.

    What a rewrite leaves is as good as it was, unless a model failed or a text does not fit; a repair leaves it broken.
    """
    if any(item["stop"] == rewrite_run.INTERRUPTED for item in items):
        return failures.INTERRUPTED
    drafts = [draft for item in items for draft in item["drafts"] if draft["refusal"] is not None]
    is_bad = any(command != "rewrite" or draft["isFailed"] or draft["breaks"] is not None for draft in drafts)
    return failures.INTERNAL if is_bad else failures.OK


def emit(
    ctx: click.Context,
    command: str,
    plans: Sequence[RewritePlan],
    how: Writing,
    more: dict[str, Any] | None = None,
) -> None:
    """Carry plans out as far as that is wanted, print what came of it, and end the command."""
    invocation: Invocation = ctx.obj
    items = written(invocation, plans, how)
    code = exit_code(command, items)
    count = sum(len(plan.targets) for plan in plans)
    data = {"items": items, "targets": count, "writer": writer_of(how.asked), "wanted": how.is_real}
    invocation.emit(command, data | how.spending(plans) | (more or {}), ok=code == failures.OK)
    ctx.exit(code)


def _drafted(invocation: Invocation, engine: Engine, plan: RewritePlan) -> Drafted:
    if not invocation.shows_progress:
        with _interruptible():
            return rewrite_run.write(engine.surgery.writer, plan)
    from lossless.cli.progress import counting

    with _interruptible(), counting("Writing", len(plan.targets)) as advance:
        return rewrite_run.write(engine.surgery.writer, plan, heard=lambda draft: advance(0 if draft.because else 1))


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
