"""`lcm bootstrap` and `lcm transcripts`: a host's transcript and the archive, and what was decided about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.append import session_of, session_options
from lossless.cli.commands import Command, Group, number
from lossless.cli.output import shape

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.lifecycle.reports import TranscriptReport
    from lossless.store.transcripts import Epoch


@click.command("bootstrap", cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@session_options
@click.option("--kind", metavar="KIND", help="openclaw, claude-code, codex, pi, jsonl or chatgpt; else it is seen.")
@click.option("--again", is_flag=True, help="Bring back what was deleted of it with `lcm prune`, too.")
@click.pass_obj
def bootstrap(
    invocation: Invocation, file: Path, session_key: str | None, session_id: str | None, kind: str | None, again: bool
) -> None:
    """Store what a transcript has that the archive does not; again with the same one changes nothing.

    Only what was appended is read where that is possible. A transcript that has nothing in common with what is
    stored for the session is held back; `lcm transcripts` shows it.
    """
    session = session_of(session_key, session_id)
    with invocation.engine() as engine:
        report = engine.bootstrap(session, file.absolute(), kind=kind, again=again)
    _emit(invocation, "bootstrap", report)


@click.group("transcripts", cls=Group, invoke_without_command=True)
@click.pass_context
def transcripts(context: click.Context) -> None:
    """List what was decided about transcripts, accept one that is held back, or refuse it."""
    if context.invoked_subcommand is None:
        context.invoke(list_)


@transcripts.command("list")
@click.option("--all", "every", is_flag=True, help="All decisions, not only what waits for one.")
@click.pass_obj
def list_(invocation: Invocation, every: bool = False) -> None:
    """List transcripts that are held back or refused, or every decision about transcripts."""
    with invocation.archive() as archive:
        transcripts = archive.transcripts
        found = transcripts.decisions() if every else [*transcripts.held(), *transcripts.refused()]
    invocation.emit("transcripts list", {"items": [shape(epoch) for epoch in found], "all": every})


@transcripts.command("accept")
@click.argument("number_", metavar="NUMBER", type=number)
@click.pass_obj
def accept(invocation: Invocation, number_: int) -> None:
    """Store a transcript that is held back or was refused. Its NUMBER is in the list."""
    with invocation.engine() as engine:
        waiting = [*engine.transcripts.held(), *engine.transcripts.refused()]
        asked = next((epoch for epoch in engine.archive.transcripts.decisions() if epoch.id == number_), None)
        again = [epoch.id for epoch in waiting if asked and _place(epoch) == _place(asked)]
        epoch = _held(waiting, *again[:1] or [number_])
        report = engine.transcripts.accept(engine.archive.conversations.get(epoch.conversation_id), epoch.path)
    _emit(invocation, "transcripts accept", report)


@transcripts.command("refuse")
@click.argument("number_", metavar="NUMBER", type=number)
@click.pass_obj
def refuse(invocation: Invocation, number_: int) -> None:
    """Store nothing of a transcript that is held back, until it is accepted. Its NUMBER is in the list."""
    with invocation.engine() as engine:
        epoch = _held(engine.transcripts.held(), number_)
        engine.transcripts.refuse(engine.archive.conversations.get(epoch.conversation_id), epoch.path)
    invocation.emit("transcripts refuse", shape(replace(epoch, decision="refused", reason="someone refused it")))


def _held(waiting: list[Epoch], number_: int) -> Epoch:
    for epoch in waiting:
        if epoch.id == number_:
            return epoch
    raise failures.fail(
        "not_found",
        f"No transcript with number {number_} is held back.",
        failures.NOT_FOUND,
        hint="`lcm transcripts` lists those that are.",
        id=number_,
    )


def _place(epoch: Epoch) -> tuple[int, str]:
    """What a decision is about: one decision replaces another."""
    return epoch.conversation_id, epoch.path


def _emit(invocation: Invocation, command: str, report: TranscriptReport) -> None:
    data: dict[str, Any] = shape(report)
    invocation.emit(command, data, ok=report.status not in ("held", "failed"))
    if report.status in ("held", "failed"):
        raise click.exceptions.Exit(failures.INTERNAL)
