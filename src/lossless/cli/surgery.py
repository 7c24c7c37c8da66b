"""`lcm dissolve`, `transplant`, `merge`, `undo` and `diff`: what stands in a context, changed by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from lossless.cli.commands import Command, number, text
from lossless.cli.options import Selection, bad
from lossless.cli.plain import backups, confirm, done, looking, open_engine, whole
from lossless.cli.target import targeted
from lossless.model.times import parse_time
from lossless.surgery import dissolve as dissolving
from lossless.surgery import history
from lossless.surgery import merge as merging
from lossless.surgery import transplant as transplanting
from lossless.surgery import undo as undoing

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.cli.target import Target

apply_option = click.option(
    "--apply/--dry-run",
    "is_real",
    default=False,
    help="Do it, after a backup; or only show what would be done, which is the default.",
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask at a terminal.")


@click.command("dissolve", cls=Command)
@click.argument("summary_id", metavar="SUMMARY", type=text)
@click.option("--purge", is_flag=True, help="Delete the summary itself, if nothing else needs it.")
@apply_option
@yes_option
@click.pass_obj
def dissolve(invocation: Invocation, summary_id: str, purge: bool, is_real: bool, yes: bool) -> None:
    """Put what SUMMARY was made of back into the context, at its place.

    The preview shows which items come back and how far later ones move. `lcm undo` takes it back.
    """
    with looking(invocation) as archive:
        work = dissolving.plan(archive, summary_id, purge=purge)
    report = None
    if is_real:
        confirm(f"Dissolve {summary_id}?", yes, work.text)
        with open_engine(invocation) as engine:
            report = dissolving.apply(engine.archive, work, datetime.now(UTC), backups(engine))
    invocation.emit("dissolve", {"plan": whole(work), "text": work.text} | done(report))


@click.command("transplant", cls=Command)
@click.option("--from", "source_id", metavar="ID", type=number, required=True, help="The conversation to copy from.")
@click.option("--to", "target_id", metavar="ID", type=number, required=True, help="The conversation to copy into.")
@click.option(
    "--summary", "summary_ids", metavar="ID", type=text, multiple=True, help="Only this one; may be repeated."
)
@apply_option
@yes_option
@click.pass_obj
def transplant(
    invocation: Invocation, source_id: int, target_id: int, summary_ids: tuple[str, ...], is_real: bool, yes: bool
) -> None:
    """Copy the summaries of one conversation's context to the head of another's.

    Everything below them comes along: summaries, messages, parts and files, all with new ids. Refused when the other
    conversation has a summary with the same text already.
    """
    with looking(invocation) as archive:
        work = transplanting.plan(archive, source_id, target_id, summary_ids)
    report = None
    if is_real:
        confirm(f"Copy into conversation {target_id}?", yes, work.text)
        with open_engine(invocation) as engine:
            report = transplanting.apply(engine.archive, engine.vault, work, datetime.now(UTC), backups(engine))
    data = {
        "sourceId": source_id,
        "targetId": target_id,
        "roots": whole(work.roots),
        "summaries": len(work.summary_ids),
        "messages": len(work.message_ids),
        "files": len(work.file_ids),
        "tokensBefore": work.tokens_before,
        "tokensAfter": work.tokens_after,
    }
    invocation.emit("transplant", {"plan": data, "text": work.text} | done(report))


@click.command("merge", cls=Command)
@click.option("--session-key", type=text, required=True, help="The session whose conversations belong together.")
@click.option("--reviewed", is_flag=True, help="A person has looked: merge what is not certain, too.")
@apply_option
@yes_option
@click.pass_obj
def merge(invocation: Invocation, session_key: str, reviewed: bool, is_real: bool, yes: bool) -> None:
    """Put conversations of a session that a rollover split by mistake back together, in the active one.

    What a person closed is never merged. Messages are numbered anew from 1; `lcm undo` takes it back.
    """
    with looking(invocation) as archive:
        Selection(session_key=session_key).need(archive)
        work = merging.plan(archive, session_key, reviewed=reviewed)
    report = None
    if is_real:
        confirm(f"Merge into conversation {work.split.target_id}?", yes, work.text)
        with open_engine(invocation) as engine:
            report = merging.apply(engine.archive, work, datetime.now(UTC), backups(engine), reviewed=reviewed)
    invocation.emit("merge", {"plan": whole(work), "text": work.text} | done(report))


@click.command("undo", cls=Command)
@targeted()
@apply_option
@yes_option
@click.pass_obj
def undo(invocation: Invocation, target: Target, is_real: bool, yes: bool) -> None:
    """Take back the last fold, surgery or focus of a conversation.

    Again, the one before it. What a fold summarised comes back into the context; its text is kept.
    """
    with looking(invocation) as archive:
        work = undoing.plan(archive, target.need(archive).id)
    report = None
    if is_real:
        confirm(f"Undo the {work.entry.action}?", yes, work.text)
        with open_engine(invocation) as engine:
            report = undoing.apply(engine.archive, work, datetime.now(UTC), backups(engine))
    plan = whole(work) | {"entry": _entry(work.entry)}
    invocation.emit("undo", {"plan": plan, "text": work.text} | done(report))


@click.command("diff", cls=Command)
@targeted()
@click.option("--since", metavar="POINT", help="A change by its number, or a time; else the change before the last.")
@click.option("--until", metavar="POINT", help="A change by its number, or a time; else now.")
@click.pass_obj
def diff(invocation: Invocation, target: Target, since: str | None, until: str | None) -> None:
    """Show what left the context and what entered it between two points, and by which changes.

    Without points, by the last change. Messages that were only appended are no changes.
    """
    after, through = _point("--since", since), _point("--until", until)
    with looking(invocation) as archive:
        found = history.between(archive, target.need(archive).id, after, through)
    data = whole(found) | {"entries": [_entry(entry) for entry in found.entries], "text": found.text}
    invocation.emit("diff", data)


def _entry(entry: Any) -> dict[str, Any]:
    """A line of the log; what undoing it needs is nobody's business."""
    plain: dict[str, Any] = whole(entry)
    del plain["detail"]
    return plain


def _point(option: str, value: str | None) -> int | datetime | None:
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return int(value)
    try:
        return parse_time(value)
    except (ValueError, OverflowError):
        raise bad(option, f"{value!r:.60} is neither the number of a change nor a time") from None
