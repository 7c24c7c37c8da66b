"""`lcm summary`: dissolve, transplant, merge, undo, diff, focus, refocus and unfocus change a context by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from lossless.cli import options
from lossless.cli.apply import apply_confirmed, confirm, planning, result_json
from lossless.cli.commands import Invocation, command, dry_run_option, id_type, text_option, text_type, words_argument
from lossless.cli.model import ModelChoice, model_options, settings_with_model, writer_name
from lossless.cli.options import ConversationTarget, bad_option, combined
from lossless.cli.output import pick_json, to_json
from lossless.cli.screen import Data, Screen, styled
from lossless.compaction.summariser import Summariser
from lossless.model.times import parse_time
from lossless.tui.text import plural

if TYPE_CHECKING:
    from lossless.maintenance.surgery.focus import FocusStatus
    from lossless.maintenance.surgery.group import OperationPlan

apply_option = click.option(
    "--apply/--dry-run", "is_real", help="Do it, after a backup; or only show what would be done, which is the default."
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask at a terminal.")
apply_options = combined(apply_option, yes_option)


@command("dissolve")
@click.argument("summary_id", metavar="SUMMARY", type=text_type)
@click.option("--purge", is_flag=True, help="Delete the summary itself, if nothing else needs it.")
@apply_options
def dissolve(invocation: Invocation, summary_id: str, purge: bool, **apply: Any) -> None:
    """Put the sources of SUMMARY back into the context, in its place.

    It shows which items come back and how far later ones move. `lcm summary undo` takes it back.
    """
    with planning(invocation) as engine:
        work = engine.surgery.plan_dissolve(summary_id, purge=purge)
    operate(invocation, "dissolve", work, f"Dissolve {summary_id}?", **apply)


@command("transplant")
@click.option("--from", "source_id", metavar="ID", type=id_type, required=True, help="The conversation to copy from.")
@click.option("--to", "target_id", metavar="ID", type=id_type, required=True, help="The conversation to copy into.")
@text_option("--summary", "summary_ids", metavar="ID", multiple=True, help="Only this one; may be repeated.")
@apply_options
def transplant(
    invocation: Invocation, source_id: int, target_id: int, summary_ids: tuple[str, ...], **apply: Any
) -> None:
    """Copy the summaries of one conversation's context to the head of another's.

    Everything below them is copied, too: summaries, messages, parts and files, all with new ids. It is refused when the
    other conversation has a summary with the same text already.
    """
    with planning(invocation) as engine:
        work = engine.surgery.plan_transplant(source_id, target_id, summary_ids)
    data = pick_json(work, "source_id", "target_id", "roots") | {"summaries": len(work.summary_ids)}
    data |= {"messages": len(work.message_ids), "files": len(work.file_ids)}
    data |= pick_json(work, "tokens_before", "tokens_after")
    operate(invocation, "transplant", work, f"Copy into conversation {target_id}?", data, **apply)


@command("merge")
@options.session_key_option("The session whose conversations belong together.", required=True)
@click.option("--reviewed", is_flag=True, help="You have looked at it: also merge what is not certain.")
@apply_options
def merge(invocation: Invocation, session_key: str, reviewed: bool, **apply: Any) -> None:
    """Put conversations of a session that a rollover split by mistake back together, in the active one.

    A conversation that was closed on purpose is never merged. Messages are renumbered from 1; `lcm summary undo` takes
    it back.
    """
    with planning(invocation) as engine:
        (session_key,) = options.session_names(engine, [session_key])
        ConversationTarget(session_key=session_key).need_id(engine)
        work = engine.surgery.plan_merge(session_key, reviewed=reviewed)
    operate(invocation, "merge", work, f"Merge into conversation {work.split.target_id}?", **apply)


@command("undo")
@options.target_options()
@apply_options
def undo(invocation: Invocation, target: ConversationTarget, **apply: Any) -> None:
    """Take back the last fold, surgery or focus of a conversation.

    Run it again for the change before. Messages that were folded come back into the context; the summary's text is
    kept.
    """
    with planning(invocation) as engine:
        work = engine.surgery.plan_undo(target.need_id(engine))
    plan = to_json(work) | {"entry": _log_entry_json(work.entry)}
    operate(invocation, "undo", work, f"Undo the {work.entry.action}?", plan, **apply)


@command("diff")
@options.target_options()
@click.option("--since", metavar="POINT", help="A change by its number, or a time; else the change before the last.")
@click.option("--until", metavar="POINT", help="A change by its number, or a time; else now.")
def diff(invocation: Invocation, target: ConversationTarget, since: str | None, until: str | None) -> None:
    """Show what left and what entered the context between two points, and by which changes.

    Without points, it shows the last change. Appended messages do not count as changes.
    """
    after, through = _parse_point("--since", since), _parse_point("--until", until)
    with planning(invocation) as engine:
        found = engine.surgery.diff(target.need(engine), after, through)
    data = to_json(found) | {"entries": [_log_entry_json(entry) for entry in found.entries], "text": found.text}
    invocation.emit("diff", print_context_diff, data)


def _log_entry_json(entry: Any) -> Data:
    """A line of the log, without what undoing it needs."""
    return {name: value for name, value in to_json(entry).items() if name != "detail"}


def _parse_point(option: str, value: str | None) -> int | datetime | None:
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return int(value)
    try:
        return parse_time(value)
    except (ValueError, OverflowError):
        raise bad_option(option, f"{value!r:.60} is neither the number of a change nor a time") from None


class FocusOptions(NamedTuple):
    """How a brief is written."""

    named: ModelChoice
    no_compact: bool
    dry_run: bool
    yes: bool


_focus_options = options.gathered(
    "how",
    FocusOptions,
    model_options,
    click.option("--no-compact", is_flag=True, help="Do not fold older history first."),
    click.option("--dry-run", is_flag=True, help="Only show which summaries the brief would replace."),
    yes_option,
)


@command("focus")
@words_argument("question", "[QUESTION]...", required=False)
@options.target_options()
@_focus_options
def focus(invocation: Invocation, question: str | None, target: ConversationTarget, how: FocusOptions) -> None:
    """Write a brief about QUESTION that replaces older summaries in prompts. Without QUESTION, show the brief.

    Nothing leaves the archive. Older history is folded first. A configured model writes the brief in two steps; without
    a model it is extracted. If no brief can be written, the failure is recorded, the one before stays in use, and the
    exit code is 1.
    """
    if question is None:
        with planning(invocation) as engine:
            found = engine.surgery.focus_status(target.need_id(engine))
        invocation.emit("focus", print_focus, {"plan": None, "text": "", "focus": _focus_json(found)})
        return
    _write_focus(invocation, "focus", target, question, how)


@command("refocus")
@options.target_options()
@_focus_options
def refocus(invocation: Invocation, target: ConversationTarget, how: FocusOptions) -> None:
    """Bring the active brief up to date with later messages."""
    _write_focus(invocation, "refocus", target, None, how)


@command("unfocus")
@options.target_options()
@dry_run_option
def unfocus(invocation: Invocation, target: ConversationTarget, dry_run: bool) -> None:
    """Remove the active brief: prompts have the summaries again that it replaced."""
    conversation = options.find_active(invocation, target)
    with invocation.engine(dry_run=dry_run) as engine:
        report = engine.surgery.unfocus(conversation)
        found = engine.surgery.focus_status(conversation.id)
    invocation.emit("unfocus", print_focus, {"focus": _focus_json(found)} | result_json(report))


def _write_focus(
    invocation: Invocation, command: str, target: ConversationTarget, question: str | None, how: FocusOptions
) -> None:
    asked = settings_with_model(invocation, how.named)
    conversation = options.find_active(invocation, target)
    if invocation.rule == "ask" and not how.dry_run and Summariser(asked).has_model:
        confirm(f"Have {writer_name(asked)} write the brief?", how.yes)
    if how.dry_run:
        with planning(invocation) as engine:
            plan = engine.surgery.plan_focus(conversation.id, question)
        invocation.emit(command, print_focus, {"plan": to_json(plan), "text": plan.text, "focus": None})
        return
    with invocation.engine(asked) as engine:
        if not how.no_compact:
            engine.compact(conversation, force=True)
        found = engine.surgery.focus(conversation, question)
    is_written = found is not None and found.brief.status == "active"
    invocation.emit(command, print_focus, {"plan": None, "text": "", "focus": _focus_json(found)}, ok=is_written)


def _focus_json(found: FocusStatus | None) -> Data | None:
    return None if found is None else to_json(found) | {"isStale": found.is_stale, "at": datetime.now(UTC)}


_COLOURS = {"+": "green", "-": "red", "~": "yellow", "!": "bold yellow", "@": "cyan"}


def print_diff_lines(screen: Screen, text: str) -> None:
    for line in text.splitlines():
        screen.line(styled(line, _COLOURS.get(line[:1], "")))


def print_result(screen: Screen, data: Data, word: str = "--apply") -> None:
    report = data["done"]
    if report is None:
        screen.unchanged(f"{word} does it, after a backup." if word else "")
        return
    tokens = f"{report['tokensBefore']:,} → {report['tokensAfter']:,} tokens"
    screen.line(styled("Done. ", "bold green"), f"The context: {tokens} (change {report['logId']}).")
    if report["backup"]:
        back = "lcm restore" if report["action"] == "undo" else f"lcm summary undo -s {report['conversationId']}"
        screen.line(styled(f"`{back}` takes this back; the copy from before is {report['backup']}.", "dim"))


def print_context_diff(screen: Screen, data: Data) -> None:
    if not data["entries"]:
        screen.line("The context did not change between these points, except for new messages.")
        return
    columns = "change=id:right, when=at:time, what=action, by=actor, out:right, in:right, tokens=tokensAfter:count"
    counts = {"out": lambda entry: len(entry["removed"]), "in": lambda entry: len(entry["added"])}
    screen.items(data["entries"], columns, **counts)
    screen.gap()
    print_diff_lines(screen, data["text"])


def print_focus(screen: Screen, data: Data) -> None:
    if data.get("text"):
        print_diff_lines(screen, data["text"])
        screen.unchanged("Leave --dry-run out to do it.")
        return
    found = data["focus"]
    if found is None:
        screen.line("There is no focus. `lcm summary focus QUESTION` writes a brief.")
        return
    brief = found["brief"]
    screen.title(f"Focus {brief['id']}", brief["status"], "stale" if found["isStale"] else "")
    since = f"{plural(found['messagesSince'], 'message')}, {found['tokensSince']:,} tokens"
    size = f"{brief['tokens']:,} of about {brief['targetTokens']:,} tokens"
    screen.fields(
        (("Question", brief["prompt"]), ("Written", screen.time(brief["createdAt"])), ("Size", size), ("Since", since))
    )
    if brief["error"]:
        screen.line(styled(f"It could not be written: {brief['error']}", "red"))
    screen.gap()
    screen.prose(brief["content"])
    if brief["status"] == "active":
        screen.undo(f"lcm summary unfocus -s {brief['conversationId']}")


def _print_operation(screen: Screen, data: Data) -> None:
    print_diff_lines(screen, data["text"])
    screen.gap()
    print_result(screen, data)


def operate(
    invocation: Invocation,
    command: str,
    plan: OperationPlan,
    question: str,
    plan_json: Data | None = None,
    *,
    is_real: bool,
    yes: bool,
) -> None:
    """Print a surgery's plan, and what carrying it out did, when that is wanted."""
    report = None
    if is_real:
        report = apply_confirmed(invocation, question, yes, plan.text, lambda engine: engine.surgery.apply(plan))
    shown = to_json(plan) if plan_json is None else plan_json
    invocation.emit(command, _print_operation, {"plan": shown, "text": plan.text} | result_json(report))
