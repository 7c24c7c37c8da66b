"""`lcm bootstrap`, `lcm transcripts` and `lcm quarantine`: read a host's transcript, and decide about transcripts
and windows that are held back.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.append import session_of, session_options
from lossless.cli.commands import Command, Group, dry_run_option, id_type
from lossless.cli.output import pick_json, to_json
from lossless.cli.screen import styled
from lossless.tui.text import format_count, plural

if TYPE_CHECKING:
    from lossless.cli.commands import Invocation
    from lossless.cli.screen import Screen
    from lossless.ingest.transcripts.following import TranscriptReport
    from lossless.model.records import QuarantinedConversation, TranscriptDecision


@click.command("bootstrap", cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@session_options
@click.option("--kind", metavar="KIND", help="openclaw, claude-code, codex, pi, jsonl or chatgpt; else it is seen.")
@click.option("--again", is_flag=True, help="Bring back what was deleted of it with `lcm prune`, too.")
@dry_run_option
@click.pass_obj
def bootstrap(
    invocation: Invocation,
    file: Path,
    session_key: str | None,
    session_id: str | None,
    kind: str | None,
    again: bool,
    dry_run: bool,
) -> None:
    """Store what a transcript has that the archive does not; again with the same one changes nothing.

    Only what was appended is read where that is possible. A transcript that has nothing in common with what is
    stored for the session is held back: it is kept in a quarantined conversation; `lcm transcripts` shows it.
    """
    session = session_of(invocation, session_key, session_id)
    with invocation.engine(dry_run=dry_run) as engine:
        report = engine.bootstrap(session, file.absolute(), kind=kind, again=again)
    _emit(invocation, "bootstrap", report)


@click.group("transcripts", cls=Group, invoke_without_command=True)
@click.pass_context
def transcripts(context: click.Context) -> None:
    """List what was decided about transcripts, accept one that is held back, or refuse it."""
    if context.invoked_subcommand is None:
        context.invoke(list_transcripts)


@transcripts.command("list")
@click.option("--all", "every", is_flag=True, help="All decisions, not only what waits for one.")
@click.pass_obj
def list_transcripts(invocation: Invocation, every: bool = False) -> None:
    """List transcripts that are held back or refused, or every decision about transcripts."""
    with invocation.reader() as engine:
        transcripts = engine.transcripts
        found = transcripts.decisions() if every else [*transcripts.held(), *transcripts.refused()]
    invocation.emit("transcripts list", {"items": to_json(found), "all": every})


@transcripts.command("accept")
@click.argument("number_", metavar="NUMBER", type=id_type)
@dry_run_option
@click.pass_obj
def accept_transcript(invocation: Invocation, number_: int, dry_run: bool) -> None:
    """Let a transcript that is held back or was refused be its session's conversation. Its NUMBER is in the list.

    It is a closed one where the conversation for which it was held back has been closed since.
    """
    with invocation.engine(dry_run=dry_run) as engine:
        waiting = [*engine.transcripts.held(), *engine.transcripts.refused()]
        asked = next((epoch for epoch in engine.transcripts.decisions() if epoch.id == number_), None)
        again = [epoch.id for epoch in waiting if asked and _place(epoch) == _place(asked)]
        epoch = _held_epoch(waiting, *again[:1] or [number_])
        report = engine.transcripts.accept(engine.browse.get(epoch.conversation_id), epoch.path)
    _emit(invocation, "transcripts accept", report)


@transcripts.command("refuse")
@click.argument("number_", metavar="NUMBER", type=id_type)
@dry_run_option
@click.pass_obj
def refuse_transcript(invocation: Invocation, number_: int, dry_run: bool) -> None:
    """Keep a transcript that is held back out of every prompt, until it is accepted. Its NUMBER is in the list."""
    with invocation.engine(dry_run=dry_run) as engine:
        epoch = _held_epoch(engine.transcripts.held(), number_)
        engine.transcripts.refuse(engine.browse.get(epoch.conversation_id), epoch.path)
    invocation.emit("transcripts refuse", to_json(replace(epoch, decision="refused", reason="someone refused it")))


def _held_epoch(waiting: list[TranscriptDecision], number_: int) -> TranscriptDecision:
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


def _place(epoch: TranscriptDecision) -> tuple[int, str]:
    """What a decision is about: one decision replaces another."""
    return epoch.conversation_id, epoch.path


def _emit(invocation: Invocation, command: str, report: TranscriptReport) -> None:
    data: dict[str, Any] = to_json(report)
    invocation.emit(command, data, ok=report.status not in ("held", "failed"))
    if report.status in ("held", "failed"):
        raise click.exceptions.Exit(failures.INTERNAL)


@click.group("quarantine", cls=Group, invoke_without_command=True)
@click.pass_context
def quarantine(context: click.Context) -> None:
    """List what had nothing in common with its session, accept it as the session's conversation, or refuse it."""
    if context.invoked_subcommand is None:
        context.invoke(list_quarantine)


@quarantine.command("list")
@click.pass_obj
def list_quarantine(invocation: Invocation) -> None:
    """List quarantined conversations, and those that were refused."""
    with invocation.reader() as engine:
        found = engine.transcripts.quarantined()
    invocation.emit("quarantine list", {"items": [_quarantine_json(one) for one in found]})


@quarantine.command("accept")
@click.argument("number_", metavar="CONVERSATION", type=id_type)
@dry_run_option
@click.pass_obj
def accept_quarantined(invocation: Invocation, number_: int, dry_run: bool) -> None:
    """Let a quarantined CONVERSATION be the active one of its session. The one that was it is closed and kept."""
    with invocation.engine(dry_run=dry_run) as engine:
        found = engine.transcripts.accept_quarantined(number_)
    invocation.emit("quarantine accept", to_json(found))


@quarantine.command("refuse")
@click.argument("number_", metavar="CONVERSATION", type=id_type)
@dry_run_option
@click.pass_obj
def refuse_quarantined(invocation: Invocation, number_: int, dry_run: bool) -> None:
    """Keep a quarantined CONVERSATION out of every prompt. It stays in the archive, and can be accepted later."""
    with invocation.engine(dry_run=dry_run) as engine:
        found = engine.transcripts.refuse_quarantined(number_)
    invocation.emit("quarantine refuse", _quarantine_json(found))


def _quarantine_json(found: QuarantinedConversation) -> dict[str, Any]:
    return {
        "conversationId": found.conversation_id,
        "sessionKey": found.session.key,
        "sessionId": found.session.id,
        **pick_json(found, "decision", "at", "messages", "beside"),
    }


Data = dict[str, Any]
#: So many conversations of an import are listed.
_SHOWN_ITEMS = 20
_COLOURS = {"imported": "green", "would-import": "green", "error": "red", "held": "yellow"}


def print_bootstrap(screen: Screen, data: Data) -> None:
    """What one reading of a transcript did."""
    if data["status"] in ("held", "refused", "excluded", "failed"):
        apart = data["quarantineId"]
        done = "Nothing was stored" if apart is None else f"Kept outside the context, in conversation {apart}"
        screen.line(styled(f"{done} ({data['status']}): ", "yellow"), data["reason"] or "")
        if data["status"] == "held":
            screen.line(styled("`lcm transcripts` lists what is held back; accept or refuse it there.", "dim"))
        return
    screen.line(
        styled(f"{plural(data['stored'], 'message')} stored", "bold"), f", {format_count(data['replayed'])} known"
    )
    rows = [
        ("Given the host's ids", data["stamped"]),
        ("Left on another branch", data["abandoned"]),
        ("Undecided by content", data["ambiguous"]),
        ("Records beside messages", data["opaque"]),
    ]
    screen.fields([(label, format_count(count)) for label, count in rows if count])
    _pruned(screen, data["pruned"])
    _problems(screen, data["badLines"], data["problems"])


def _pruned(screen: Screen, count: int) -> None:
    if count:
        left_out = f"{plural(count, 'message')} left out, deleted with `lcm prune`; --again brings them back."
        screen.line(styled(left_out, "yellow"))


def _problems(screen: Screen, count: int, problems: list[str] | tuple[str, ...]) -> None:
    if count:
        screen.line(styled(f"{plural(count, 'line')} could not be read:", "yellow"))
        for problem in problems:
            screen.line(f"  {problem}")


def print_transcripts(screen: Screen, data: Data) -> None:
    """Decisions about transcripts, or those that wait for one."""
    items = data["items"]
    if not items:
        screen.line("No transcript is held back." if not data["all"] else "No transcript was read yet.")
        return
    screen.table(
        ("no.", "conversation", "decision", ("messages", "right"), "when", ("file", "rest")),
        (
            (
                item["id"],
                item["conversationId"],
                item["decision"],
                format_count(item["messages"]),
                screen.time(item["at"]),
                item["path"],
            )
            for item in items
        ),
    )
    for item in items:
        if item["decision"] == "held":
            screen.line(styled(f"{item['id']}: {item['reason']}", "yellow"))
    if not data["all"]:
        screen.line(
            styled("`lcm transcripts accept NO` makes one the session's conversation, `refuse NO` hides it.", "dim")
        )


def print_transcript_refused(screen: Screen, data: Data) -> None:
    screen.line(f"What {data['path']} says stays out of every prompt of conversation {data['conversationId']}.")


def print_quarantine(screen: Screen, data: Data) -> None:
    """What had nothing in common with its session."""
    if not data["items"]:
        screen.line("Nothing is quarantined.")
        return
    screen.table(
        ("conversation", "decision", ("messages", "right"), "when", "beside", ("session", "rest")),
        (
            (
                item["conversationId"],
                item["decision"],
                format_count(item["messages"]),
                screen.time(item["at"]),
                item["beside"] or "",
                item["sessionKey"] or item["sessionId"],
            )
            for item in data["items"]
        ),
    )
    screen.line(styled("`lcm quarantine accept NO` makes one the session's conversation, `refuse NO` hides it.", "dim"))


def print_quarantine_accepted(screen: Screen, data: Data) -> None:
    screen.line(f"Conversation {data['id']} is the active one of its session now.")


def print_quarantine_refused(screen: Screen, data: Data) -> None:
    screen.line(f"Conversation {data['conversationId']} stays in the archive and out of every prompt.")


def print_transcript_import(screen: Screen, data: Data) -> None:
    """What an import of transcripts did, or would do; what stored nothing says why."""
    if not data["files"] and not data["items"]:
        screen.line(f"There are no transcripts of kind {data['kind']} there.")
        return
    shown = data["items"][:_SHOWN_ITEMS]
    screen.table(
        ("status", ("messages", "right"), ("conversation", "rest")),
        (
            (styled(item["status"], _COLOURS.get(item["status"], "dim")), format_count(item["messages"]), _name(item))
            for item in shown
        ),
    )
    if len(data["items"]) > len(shown):
        screen.line(styled(f"and {format_count(sum(data['conversations'].values()) - len(shown))} more", "dim"))
    for item in data["items"]:
        if item["reason"] and item["status"] in ("error", "held"):
            screen.line(styled(f"{Path(item['path']).name}: {item['reason']}", "red"))
        for problem in item["problems"]:
            screen.line(styled(f"{Path(item['path']).name}, {problem}", "yellow"))
    skipped = Counter(item["reason"] for item in data["items"] if item["status"] == "skipped" and item["reason"])
    for reason, count in skipped.items():
        screen.line(styled(f"{format_count(count)} skipped: {reason}", "dim"))
    told = ", ".join(f"{format_count(count)} {status}" for status, count in sorted(data["conversations"].items()))
    screen.line(styled(f"{plural(data['files'], 'file')}, {plural(data['messages'], 'message')}", "bold"), f": {told}")
    _pruned(screen, data["pruned"])
    if data["otherKinds"].get("unknown"):
        screen.line(styled(f"{plural(data['otherKinds']['unknown'], 'file')} of no known kind left out.", "dim"))
    if data["filesLeftOut"]:
        screen.line(styled(f"{plural(data['filesLeftOut'], 'file')} left out by --limit.", "dim"))
    if not data["applied"]:
        screen.unchanged("--apply does it." if data["messages"] else "", "Nothing was stored.")
    elif not data["messages"]:
        screen.line("Nothing new was stored: the archive has all of it already, or the files hold no messages.")
    else:
        screen.line(styled("`lcm prune -s KEY --include-active` deletes one of them again.", "dim"))


def _name(item: Data) -> str:
    name = item["sessionKey"] or item["sessionId"]
    return f"{name} · {item['title']}" if item["title"] else str(name)


def print_backfill(screen: Screen, data: Data) -> None:
    """The summaries that were made, or would be."""
    (_backfill_plan if data["dryRun"] else _backfill_done)(screen, data)


def _backfill_plan(screen: Screen, data: Data) -> None:
    about = "" if data["exact"] else "about "
    for item in data["items"]:
        name, made = item["sessionKey"] or item["conversationId"], plural(item["summaries"], "summary", "summaries")
        gone = plural(item["unfolded"], "summary gives", "summaries give") if item["unfolded"] else ""
        screen.line(
            f"{name}: ", f"{gone} way, then " if gone else "", f"{about}{made} of {format_count(item['tokens'])} tokens"
        )
        if item["roots"] is not None and item["roots"] != 1:
            screen.line(styled(f"  {plural(item['roots'], 'root')} would be left", "yellow"))
    if not data["summaries"]:
        screen.line("There is nothing to fold.")
    _backfill_after(screen, data)
    screen.line(styled(f"Written by: {data['writer']}.", "dim"))
    screen.unchanged()


def _backfill_done(screen: Screen, data: Data) -> None:
    if data["items"]:
        screen.table(
            ("conversation", ("summaries", "right"), ("tokens", "right"), ("after", "right"), ("how it ended", "rest")),
            (
                (
                    item["sessionKey"] or item["conversationId"],
                    format_count(item["summaries"]),
                    format_count(item["tokensBefore"]),
                    format_count(item["tokensAfter"]),
                    _how_it_ended(item),
                )
                for item in data["items"]
            ),
        )
    made = plural(data["summaries"], "summary", "summaries")
    screen.line(styled(made, "bold"), f" in {plural(data['conversations'], 'conversation')}")
    for failure in dict.fromkeys(item["failure"] for item in data["items"] if item["failure"]):
        helps = "`lcm rewrite --extractive` has a model write what was extracted instead."
        screen.line(styled(f"The model failed ({failure}). {helps}", "yellow"))
    _backfill_after(screen, data)
    if data["backup"]:
        back = "`lcm undo` takes back the last one, `lcm restore` all of it."
        screen.line(styled(f"The copy from before is {data['backup']}; {back}", "dim"))


def _how_it_ended(item: Data) -> str:
    roots = "" if item["roots"] is None else f"; {plural(item['roots'], 'root')}"
    gone = f"{plural(item['unfolded'], 'summary', 'summaries')} gave way; " if item["unfolded"] else ""
    return f"{gone}{item['reason']}{roots}"


def _backfill_after(screen: Screen, data: Data) -> None:
    """What follows the folding, or would."""
    if data["title"] is not None:
        given = {"there": "It has this title already.", "given": "The title is given."}[data["title"]]
        screen.line(given if data["title"] == "there" or not data["dryRun"] else "Then the title would be given.")
    copied = data["transplant"]
    if copied is None:
        return
    for line in copied["text"].splitlines():
        screen.line(styled(line, "green" if line.startswith("+") else ""))
    where = f"conversation {copied['to']}"
    said = {
        "there": f"The summaries are in {where} already.",
        "planned": f"Then the summaries would be copied to {where}.",
        "copied": f"The summaries were copied to {where}; `lcm undo --conversation-id {copied['to']}` removes them.",
    }
    screen.line(said[copied["status"]])
