"""`lcm bootstrap`, `lcm transcripts` and `lcm quarantine`: read a host's transcript, and decide about transcripts
and windows that are held back.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lossless.cli import failures
from lossless.cli.append import session_options
from lossless.cli.commands import Group, Invocation, command, dry_run_option, id_type
from lossless.cli.conversations import session_name
from lossless.cli.output import pick_json, to_json
from lossless.cli.screen import Data, Screen, styled
from lossless.tui.text import plural

if TYPE_CHECKING:
    from lossless.model.conversations import Session
    from lossless.model.records import QuarantinedConversation, TranscriptDecision


_NOT_STORED = ("held", "failed")
again_option = click.option("--again", is_flag=True, help="Also bring back what was deleted with `lcm prune`.")


@command("bootstrap")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@session_options
@click.option("--kind", metavar="KIND", help="openclaw, claude-code, codex, pi, gemini …; else it is detected.")
@again_option
@dry_run_option
def bootstrap(
    invocation: Invocation, file: Path, session: Session, kind: str | None, again: bool, dry_run: bool
) -> None:
    """Store the new messages of a transcript; the same transcript again changes nothing.

    Where possible, only the end of the file is read. A transcript that has nothing in common with the session's stored
    messages is held back in a quarantined conversation; `lcm session transcripts` shows it.
    """
    with invocation.engine(dry_run=dry_run) as engine:
        report = engine.bootstrap(session, file.absolute(), kind=kind, again=again)
    invocation.emit("bootstrap", print_bootstrap, to_json(report), ok=report.status not in _NOT_STORED)


@click.group("transcripts", cls=Group, invoke_without_command=True)
@click.pass_context
def transcripts(context: click.Context) -> None:
    """List what was decided about transcripts, accept one that is held back, or refuse it."""
    if context.invoked_subcommand is None:
        context.invoke(list_transcripts)


@command("list", transcripts)
@click.option("--all", "every", is_flag=True, help="All decisions, not only pending ones.")
def list_transcripts(invocation: Invocation, every: bool = False) -> None:
    """List transcripts that are held back or refused, or every decision about transcripts."""
    with invocation.reader() as engine:
        transcripts = engine.transcripts
        found = transcripts.decisions() if every else [*transcripts.held(), *transcripts.refused()]
    invocation.emit("transcripts list", print_transcripts, {"items": to_json(found), "all": every})


@command("accept", transcripts)
@click.argument("number_", metavar="NUMBER", type=id_type)
@dry_run_option
def accept_transcript(invocation: Invocation, number_: int, dry_run: bool) -> None:
    """Make a transcript that was held back or refused its session's conversation. Its NUMBER is in the list.

    If the session's conversation has been closed meanwhile, it becomes a closed one.
    """
    with invocation.engine(dry_run=dry_run) as engine:
        waiting = [*engine.transcripts.held(), *engine.transcripts.refused()]
        asked = next((epoch for epoch in engine.transcripts.decisions() if epoch.id == number_), None)
        place = asked and (asked.conversation_id, asked.path)  # one decision replaces another
        again = [epoch.id for epoch in waiting if (epoch.conversation_id, epoch.path) == place]
        epoch = _held_epoch(waiting, *again[:1] or [number_])
        report = engine.transcripts.accept(epoch.conversation_id, epoch.path)
    invocation.emit("transcripts accept", print_bootstrap, to_json(report), ok=report.status not in _NOT_STORED)


@command("refuse", transcripts)
@click.argument("number_", metavar="NUMBER", type=id_type)
@dry_run_option
def refuse_transcript(invocation: Invocation, number_: int, dry_run: bool) -> None:
    """Keep a transcript that is held back out of every prompt, until it is accepted. Its NUMBER is in the list."""
    with invocation.engine(dry_run=dry_run) as engine:
        epoch = _held_epoch(engine.transcripts.held(), number_)
        engine.transcripts.refuse(epoch.conversation_id, epoch.path)
    sentence = "What {path} says stays out of every prompt of conversation {conversationId}."
    refused = replace(epoch, decision="refused", reason="someone refused it")
    invocation.emit("transcripts refuse", sentence, to_json(refused))


def _held_epoch(waiting: list[TranscriptDecision], number_: int) -> TranscriptDecision:
    for epoch in waiting:
        if epoch.id == number_:
            return epoch
    raise failures.not_found(
        f"No transcript with number {number_} is held back.", hint="`lcm transcripts` lists those that are.", id=number_
    )


@click.group("quarantine", cls=Group, invoke_without_command=True)
@click.pass_context
def quarantine(context: click.Context) -> None:
    """List windows that had nothing in common with their session, accept one as its conversation, or refuse it."""
    if context.invoked_subcommand is None:
        context.invoke(list_quarantine)


@command("list", quarantine)
def list_quarantine(invocation: Invocation) -> None:
    """List quarantined conversations, and those that were refused."""
    with invocation.reader() as engine:
        found = engine.transcripts.quarantined()
    invocation.emit("quarantine list", print_quarantine, {"items": [_quarantine_json(one) for one in found]})


@command("accept", quarantine)
@click.argument("number_", metavar="CONVERSATION", type=id_type)
@dry_run_option
def accept_quarantined(invocation: Invocation, number_: int, dry_run: bool) -> None:
    """Make a quarantined CONVERSATION the active one of its session. The previous active one is closed and kept."""
    with invocation.engine(dry_run=dry_run) as engine:
        found = engine.transcripts.accept_quarantined(number_)
    sentence = "Conversation {id} is the active one of its session now."
    invocation.emit("quarantine accept", sentence, to_json(found))


@command("refuse", quarantine)
@click.argument("number_", metavar="CONVERSATION", type=id_type)
@dry_run_option
def refuse_quarantined(invocation: Invocation, number_: int, dry_run: bool) -> None:
    """Keep a quarantined CONVERSATION out of every prompt. It stays in the archive, and can be accepted later."""
    with invocation.engine(dry_run=dry_run) as engine:
        found = engine.transcripts.refuse_quarantined(number_)
    sentence = "Conversation {conversationId} stays in the archive and out of every prompt."
    invocation.emit("quarantine refuse", sentence, _quarantine_json(found))


def _quarantine_json(found: QuarantinedConversation) -> Data:
    named = {"conversationId": found.conversation_id, "sessionKey": found.session.key, "sessionId": found.session.id}
    return named | pick_json(found, "decision", "at", "messages", "beside")


def print_bootstrap(screen: Screen, data: Data) -> None:
    if data["status"] in ("held", "refused", "excluded", "failed"):
        kept = f"Kept outside the context, in conversation {data['quarantineId']}"
        done = "Nothing was stored" if data["quarantineId"] is None else kept
        screen.line(styled(f"{done} ({data['status']}): ", "yellow"), data["reason"] or "")
        if data["status"] == "held":
            screen.line(styled("`lcm transcripts` lists what is held back; accept or refuse it there.", "dim"))
        return
    screen.line(styled(f"{plural(data['stored'], 'message')} stored", "bold"), f", {data['replayed']:,} known")
    rows = [
        ("Given the host's ids", data["stamped"]),
        ("Left on another branch", data["abandoned"]),
        ("Undecided by content", data["ambiguous"]),
        ("Other records", data["opaque"]),
    ]
    screen.fields([(label, f"{count:,}") for label, count in rows if count])
    print_pruned(screen, data["pruned"])
    if data["badLines"]:
        screen.line(styled(f"{plural(data['badLines'], 'line')} could not be read:", "yellow"))
        for problem in data["problems"]:
            screen.line(f"  {problem}")


_DECIDED = "conversation=conversationId, decision, messages:count, when=at:time"


def print_transcripts(screen: Screen, data: Data) -> None:
    items = data["items"]
    if not items:
        screen.line("No transcript is held back." if not data["all"] else "No transcript was read yet.")
        return
    screen.items(items, f"no.=id, {_DECIDED}, file=path:key")
    for item in items:
        if item["decision"] == "held":
            screen.line(styled(f"{item['id']}: {item['reason']}", "yellow"))
    if not data["all"]:
        screen.line(
            styled("`lcm transcripts accept NO` makes one the session's conversation, `refuse NO` hides it.", "dim")
        )


def print_quarantine(screen: Screen, data: Data) -> None:
    if not data["items"]:
        screen.line("Nothing is quarantined.")
        return
    columns = f"{_DECIDED}, next to=neighbour, session:key"
    screen.items(data["items"], columns, neighbour=lambda item: item["beside"] or "", session=session_name)
    screen.line(styled("`lcm quarantine accept NO` makes one the session's conversation, `refuse NO` hides it.", "dim"))


def print_pruned(screen: Screen, count: int) -> None:
    if count:
        left_out = f"{plural(count, 'message')} left out, deleted with `lcm prune`; --again brings them back."
        screen.line(styled(left_out, "yellow"))
