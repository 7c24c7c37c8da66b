"""`lcm rewrite`: summaries written anew, from what they were made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.commands import Command, text
from lossless.cli.drafting import diff_option, emit, prompt_dir_option, writing_of
from lossless.cli.options import wrong
from lossless.cli.plain import looking
from lossless.cli.source_times import source_times
from lossless.cli.surgery import apply_option, yes_option
from lossless.cli.target import NAME_ONE, targeted
from lossless.cli.writer import named_model, writer_of
from lossless.compaction.summariser import Summariser
from lossless.revising import rewriting

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.cli.target import Target
    from lossless.revising.rewriting import RewritePlan
    from lossless.store.archive import Archive

_RULES = ("summary_id", "subtree", "depth", "everything", "extractive", "afresh", "upward")


@click.command("rewrite", cls=Command)
@targeted(required=False)
@click.option("--summary", "summary_id", metavar="ID", type=text, help="This summary.")
@click.option("--subtree", metavar="ID", type=text, help="This summary and all below it.")
@click.option("--depth", metavar="N", type=click.IntRange(0, 1000), help="All summaries of a depth.")
@click.option("--all", "everything", is_flag=True, help="All summaries of the conversation.")
@click.option("--extractive", is_flag=True, help="Those that no model wrote; of all conversations when none is named.")
@click.option("--afresh", is_flag=True, help="Also what the same command wrote before it was stopped.")
@click.option("--upward", is_flag=True, help="Also those above that would no longer be smaller than their sources.")
@source_times
@prompt_dir_option
@named_model
@diff_option
@apply_option
@yes_option
@click.pass_context
def rewrite(ctx: click.Context, /, target: Target | None, **given: Any) -> None:
    """Write summaries anew, subtree by subtree from the bottom up, and show how the texts differ.

    Without --apply and --diff no model is asked: the plan says how many calls it takes. With one of them all are made,
    whatever the spending limit is; with both, a person sees the texts before they take their place. --model names
    another model for this time only. A text counts only when it is smaller than what it stands for.
    Interrupted, or when the model is down, what goes together is kept, and the same command goes on with the rest.
    Exit code 1 when a model failed on the way, or when a new text does not fit below one that was made of it.
    """
    invocation: Invocation = ctx.obj
    rule = {name: given.pop(name) for name in _RULES}
    how = writing_of(invocation, **given)
    by = " ".join(filter(None, (writer_of(how.asked), str(how.prompt_dir or ""), how.times.name)))
    with looking(invocation) as archive:
        plans = _plans(archive, target, rule | {"by": by})
    if rule["extractive"] and not Summariser(how.asked).has_model and (how.is_real or how.shows_diff):
        hint = "Name one with --model or the setting summaryModel, and see `lcm model test`."
        raise failures.fail("no_model", "There is no model to write them better.", failures.CONFIG, hint=hint)
    emit(ctx, "rewrite", plans, how)


def _plans(archive: Archive, target: Target | None, rule: dict[str, Any]) -> list[RewritePlan]:
    named = rule["summary_id"] or rule["subtree"]
    if target is not None:
        ids = [target.need(archive).id]
    elif named:
        ids = [archive.summaries.get(named).conversation_id]
    elif rule["extractive"]:
        ids = archive.checks.conversation_ids()
    else:
        raise wrong(NAME_ONE)
    plans = [rewriting.plan(archive, id_, **rule) for id_ in ids]
    return [plan for plan in plans if plan.targets] or plans[:1]
