"""`lcm focus`, `refocus` and `unfocus`: a brief for one question in place of older summaries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.commands import Command, text
from lossless.cli.plain import done, looking, open_engine, whole
from lossless.cli.target import find, targeted
from lossless.cli.writer import Named, named_model, reachable
from lossless.revising import focus as focusing

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.cli.target import Target
    from lossless.model.conversations import Conversation
    from lossless.revising.focus import FocusStatus

_dry_run = click.option("--dry-run", is_flag=True, help="Only say which summaries the brief would stand for.")
_no_compact = click.option("--no-compact", is_flag=True, help="Do not fold older history before.")


@click.command("focus", cls=Command)
@click.argument("question", metavar="[QUESTION]", type=text, required=False)
@targeted()
@named_model
@_no_compact
@_dry_run
@click.pass_context
def focus(
    ctx: click.Context, question: str | None, target: Target, named: Named, no_compact: bool, dry_run: bool
) -> None:
    """Write a brief for QUESTION that stands in prompts for older summaries, or show the brief there is.

    Nothing leaves the archive. Older history is folded first. A configured model writes the brief in two steps; without
    one it is extracted. A brief that cannot be written is recorded, and the one before stays in use; exit code 1 then.
    """
    invocation: Invocation = ctx.obj
    if question is None:
        with looking(invocation) as archive:
            found = focusing.status(archive, target.need(archive).id)
        invocation.emit("focus", {"plan": None, "text": "", "focus": _status(found)})
        return
    _focus(ctx, "focus", target, question, named, is_folded=no_compact, dry_run=dry_run)


@click.command("refocus", cls=Command)
@targeted()
@named_model
@_no_compact
@_dry_run
@click.pass_context
def refocus(ctx: click.Context, target: Target, named: Named, no_compact: bool, dry_run: bool) -> None:
    """Bring the active brief up to date with what was said since."""
    _focus(ctx, "refocus", target, None, named, is_folded=no_compact, dry_run=dry_run)


@click.command("unfocus", cls=Command)
@targeted()
@click.pass_obj
def unfocus(invocation: Invocation, target: Target) -> None:
    """Put the active brief away: the summaries that it stood for are shown again."""
    conversation = find(invocation, target)
    with open_engine(invocation) as engine:
        report = engine.surgery.unfocus(conversation)
        found = focusing.status(engine.archive, conversation.id)
    invocation.emit("unfocus", {"focus": _status(found)} | done(report))


def _focus(
    ctx: click.Context,
    command: str,
    target: Target,
    question: str | None,
    named: Named,
    *,
    is_folded: bool,
    dry_run: bool,
) -> None:
    invocation: Invocation = ctx.obj
    asked = reachable(invocation, named)
    conversation = find(invocation, target)
    if dry_run:
        plan = _plan(invocation, conversation, question)
        invocation.emit(command, {"plan": whole(plan), "text": plan.text, "focus": None})
        return
    with open_engine(invocation, asked=asked) as engine:
        if not is_folded:
            engine.compact(conversation, force=True)
        found = engine.surgery.focus(conversation, question)
    is_written = found is not None and found.brief.status == "active"
    invocation.emit(command, {"plan": None, "text": "", "focus": _status(found)}, ok=is_written)
    ctx.exit(failures.OK if is_written else failures.INTERNAL)


def _plan(invocation: Invocation, conversation: Conversation, question: str | None) -> focusing.FocusPlan:
    with looking(invocation) as archive:
        return focusing.plan(archive, conversation.id, question, invocation.loaded.settings.max_expand_tokens)


def _status(found: FocusStatus | None) -> dict[str, Any] | None:
    if found is None:
        return None
    plain: dict[str, Any] = whole(found)
    return plain | {"isStale": found.is_stale, "at": datetime.now(UTC)}
