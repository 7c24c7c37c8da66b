"""`lcm repair`: summaries that fallbacks left behind, written anew."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.commands import Command, text
from lossless.cli.drafting import diff_option, emit, prompt_dir_option, writing_of
from lossless.cli.options import wrong
from lossless.cli.plain import looking
from lossless.cli.source_times import source_times
from lossless.cli.surgery import apply_option, yes_option
from lossless.cli.target import budget_option, targeted
from lossless.cli.writer import named_model
from lossless.doctor import repair as repairing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.cli.invocation import Invocation
    from lossless.cli.target import Target
    from lossless.doctor.repair import Repair
    from lossless.store.archive import Archive


@click.command("repair", cls=Command)
@targeted(required=False)
@click.option("--all", "everything", is_flag=True, help="Of all conversations.")
@click.option(
    "--summary", "summary_ids", metavar="ID", type=text, multiple=True, help="Only this one; may be repeated."
)
@budget_option
@source_times
@prompt_dir_option
@named_model
@diff_option
@click.option("--confirm", "is_confirmed", is_flag=True, help="Do it although the preflight speaks against it.")
@apply_option
@yes_option
@click.pass_context
def repair(
    ctx: click.Context,
    /,
    target: Target | None,
    everything: bool,
    summary_ids: tuple[str, ...],
    budget: int | None,
    is_confirmed: bool,
    **more: Any,
) -> None:
    """Write summaries anew that fallbacks left behind: truncated, empty, or made in an emergency.

    From the bottom up. The preflight asks for --confirm when there are more than 25, when they read more than 75 % of
    the budget, or when a sweep is pending. What was made of one and would no longer be smaller than its sources is
    written anew as well. A text that is still a fallback is left out. Exit code 1 when something stays broken.
    """
    invocation: Invocation = ctx.obj
    how = writing_of(invocation, **more)
    if (target is not None) + everything != 1:
        raise wrong("Name a conversation with --session-key, --session-id or --conversation-id, or say --all.")
    if everything and summary_ids:
        raise wrong("--summary is for the summaries of one conversation; with --all there are others.")
    with looking(invocation) as archive:
        ids = [target.need(archive).id] if target is not None else sick(archive)
        found = repairs(invocation, archive, ids, budget, summary_ids)
    blocked = [reason for one in found for reason in one.blocked]
    if how.is_real and blocked and not is_confirmed:
        message = f"The repair wants your word first: {'; '.join(blocked)}."
        raise failures.fail("blocked", message, failures.BAD_ARGUMENTS, hint="Say it with --confirm.")
    emit(ctx, "repair", [one.plan for one in found], how, {"kinds": kinds(found), "blocked": blocked})


def sick(archive: Archive) -> list[int]:
    """Conversations with broken summaries."""
    return sorted({one.conversation_id for one in repairing.broken(archive)})


def repairs(
    invocation: Invocation,
    archive: Archive,
    conversation_ids: Sequence[int],
    budget: int | None,
    summary_ids: Sequence[str] = (),
) -> list[Repair]:
    """What repairing conversations would do, for the budget that was named or is set."""
    most = budget or invocation.loaded.settings.default_token_budget
    return [repairing.plan(archive, id_, most, summary_ids=summary_ids) for id_ in conversation_ids]


def kinds(found: Sequence[Repair]) -> dict[str, int]:
    """How many summaries are broken in which way."""
    total: Counter[str] = Counter()
    for one in found:
        total.update(one.kinds)
    return dict(total)
