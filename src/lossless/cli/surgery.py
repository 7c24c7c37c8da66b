"""`lcm summary`: dissolve, transplant, merge, undo, diff and focus change a context by hand; rewrite, repair and
prompts write summaries again from their sources.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures, options
from lossless.cli.commands import F, Group, Invocation, command, text_type
from lossless.cli.config import (
    ModelChoice,
    SourceTimes,
    model_options,
    settings_with_model,
    source_time_options,
    writer_name,
)
from lossless.cli.options import ConversationTarget
from lossless.cli.screen import Data, Screen, pick_json, styled, to_json
from lossless.compaction import summarise as templates
from lossless.compaction.summariser import Summariser
from lossless.maintenance.surgery.common import OperationReport, text_diff
from lossless.maintenance.surgery.rewriting import INTERRUPTED, DraftedPlan, RewritePlan
from lossless.model.times import parse_time
from lossless.tui.text import plural

if TYPE_CHECKING:
    from lossless.engine import Engine
    from lossless.maintenance.surgery.focus import FocusStatus
    from lossless.maintenance.surgery.group import OperationPlan
    from lossless.settings import Settings


apply_option = click.option(
    "--apply/--dry-run", "is_real", help="Do it, after a backup; or only show what would be done, which is the default."
)
apply_options = options.combined(apply_option, options.yes)


@command("dissolve")
@click.argument("summary_id", metavar="SUMMARY", type=text_type)
@options.flag("--purge", help="Delete the summary itself, if nothing else needs it.")
@apply_options
def dissolve(invocation: Invocation, summary_id: str, purge: bool, **apply: Any) -> None:
    """Put the sources of SUMMARY back into the context, in its place."""
    with invocation.reader() as engine:
        work = engine.surgery.plan_dissolve(summary_id, purge=purge)
    operate(invocation, "dissolve", work, f"Dissolve {summary_id}?", **apply)


@command("transplant")
@options.row_id("--from", "source_id", required=True, help="The conversation to copy from.")
@options.row_id("--to", "target_id", required=True, help="The conversation to copy into.")
@options.text("--summary", "summary_ids", metavar="ID", multiple=True, help="Only this one; may be repeated.")
@apply_options
def transplant(
    invocation: Invocation, source_id: int, target_id: int, summary_ids: tuple[str, ...], **apply: Any
) -> None:
    """Copy the summaries of one conversation's context to the head of another's."""
    with invocation.reader() as engine:
        work = engine.surgery.plan_transplant(source_id, target_id, summary_ids)
    data = pick_json(work, "source_id", "target_id", "roots", "tokens_before", "tokens_after")
    data |= {"summaries": len(work.summary_ids), "messages": len(work.message_ids), "files": len(work.file_ids)}
    operate(invocation, "transplant", work, f"Copy into conversation {target_id}?", data, **apply)


@command("merge")
@options.session_key_option("The session whose conversations belong together.", required=True)
@options.flag("--reviewed", help="You have looked at it: also merge what is not certain.")
@apply_options
def merge(invocation: Invocation, session_key: str, reviewed: bool, **apply: Any) -> None:
    """Put conversations of a session that a rollover split by mistake back together, in the active one."""
    with invocation.reader() as engine:
        (session_key,) = options.session_names(engine, [session_key])
        ConversationTarget(session_key=session_key).need_id(engine)
        work = engine.surgery.plan_merge(session_key, reviewed=reviewed)
    operate(invocation, "merge", work, f"Merge into conversation {work.split.target_id}?", **apply)


@command("undo")
@options.target_options()
@apply_options
def undo(invocation: Invocation, target: ConversationTarget, **apply: Any) -> None:
    """Take back the last fold, surgery or focus of a conversation."""
    with invocation.reader() as engine:
        work = engine.surgery.plan_undo(target.need_id(engine))
    plan = to_json(work) | {"entry": _log_entry_json(work.entry)}
    operate(invocation, "undo", work, f"Undo the {work.entry.action}?", plan, **apply)


def _point(value: str) -> int | datetime:
    if value.isascii() and value.isdigit():
        return int(value)
    try:
        return parse_time(value)
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{value!r:.60} is neither the number of a change nor a time") from None


@command("diff")
@options.target_options()
@click.option(
    "--since", metavar="POINT", type=_point, help="A change by its number, or a time; else the change before the last."
)
@click.option("--until", metavar="POINT", type=_point, help="A change by its number, or a time; else now.")
def diff(
    invocation: Invocation, target: ConversationTarget, since: int | datetime | None, until: int | datetime | None
) -> None:
    """Show what left and what entered the context between two points, and by which changes."""
    with invocation.reader() as engine:
        found = engine.surgery.diff(target.need(engine), since, until)
    data = to_json(found) | {"entries": [_log_entry_json(entry) for entry in found.entries], "text": found.text}
    if screen := invocation.answer("diff", data):
        if not data["entries"]:
            screen.line("The context did not change between these points, except for new messages.")
            return
        columns = "change=id:right, when=at:time, what=action, by=actor, out:right, in:right, tokens=tokensAfter:count"
        counts: Data = {"out": lambda entry: len(entry["removed"]), "in": lambda entry: len(entry["added"])}
        screen.items(data["entries"], columns, **counts)
        screen.gap()
        print_diff_lines(screen, data["text"])


def _log_entry_json(entry: Any) -> Data:
    """A line of the log, without what undoing it needs."""
    return {name: value for name, value in to_json(entry).items() if name != "detail"}


_focus_options = options.combined(
    options.target_options(),
    model_options,
    options.flag("--no-compact", help="Do not fold older history first."),
    options.flag("--dry-run", help="Only show which summaries the brief would replace."),
    options.yes,
)


@command("focus")
@options.words("question", "[QUESTION]...", required=False)
@_focus_options
def focus(invocation: Invocation, /, question: str | None, target: ConversationTarget, **how: Any) -> None:
    """Write a brief about QUESTION that replaces older summaries in prompts. Without QUESTION, show the brief."""
    if question is None:
        with invocation.reader() as engine:
            found = engine.surgery.focus_status(target.need_id(engine))
        invocation.answer("focus", {"plan": None, "text": "", "focus": _focus_json(found)}, view=print_focus)
        return
    _write_focus(invocation, "focus", question, target, **how)


@command("refocus")
@_focus_options
def refocus(invocation: Invocation, /, **how: Any) -> None:
    """Bring the active brief up to date with later messages."""
    _write_focus(invocation, "refocus", None, **how)


@command("unfocus")
@options.target_options()
@options.dry_run
def unfocus(invocation: Invocation, target: ConversationTarget, dry_run: bool) -> None:
    """Remove the active brief: prompts have the summaries again that it replaced."""
    conversation = options.find_active(invocation, target)
    with invocation.engine(dry_run=dry_run) as engine:
        report = engine.surgery.unfocus(conversation)
        found = engine.surgery.focus_status(conversation.id)
    invocation.answer("unfocus", {"focus": _focus_json(found)} | options.result_json(report), view=print_focus)


def _write_focus(
    invocation: Invocation,
    command: str,
    question: str | None,
    target: ConversationTarget,
    named: ModelChoice,
    no_compact: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    asked = settings_with_model(invocation, named)
    conversation = options.find_active(invocation, target)
    if invocation.rule == "ask" and not dry_run and Summariser(asked).has_model:
        options.confirm(f"Have {writer_name(asked)} write the brief?", yes)
    if dry_run:
        with invocation.reader() as engine:
            plan = engine.surgery.plan_focus(conversation.id, question)
        invocation.answer(command, {"plan": to_json(plan), "text": plan.text, "focus": None}, view=print_focus)
        return
    with invocation.engine(asked) as engine:
        if not no_compact:
            engine.compact(conversation, force=True)
        found = engine.surgery.focus(conversation, question)
    is_written = found is not None and found.brief.status == "active"
    invocation.answer(command, {"plan": None, "text": "", "focus": _focus_json(found)}, view=print_focus, ok=is_written)


def _focus_json(found: FocusStatus | None) -> Data | None:
    return None if found is None else to_json(found) | {"isStale": found.is_stale, "at": datetime.now(UTC)}


_COLOURS = {"+": "green", "-": "red", "~": "yellow", "!": "bold yellow", "@": "cyan"}


def print_diff_lines(screen: Screen, text: str) -> None:
    for line in text.splitlines():
        screen.line(styled(line, _COLOURS.get(line[:1], "")))


def print_result(screen: Screen, data: Data, *, is_asked: bool = False) -> None:
    report = data["done"]
    if report is None:
        screen.unchanged("") if is_asked else screen.unchanged()
        return
    tokens = f"{report['tokensBefore']:,} → {report['tokensAfter']:,} tokens"
    screen.line(styled("Done. ", "bold green"), f"The context: {tokens} (change {report['logId']}).")
    if report["backup"]:
        back = "lcm restore" if report["action"] == "undo" else f"lcm summary undo -s {report['conversationId']}"
        screen.note(f"`{back}` takes this back; the copy from before is {report['backup']}.")


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
    since = {name: found[name] for name in ("messagesSince", "tokensSince")}
    screen.record(brief | since, "id", "status", "error", "content")
    if brief["error"]:
        screen.line(styled(f"It could not be written: {brief['error']}", "red"))
    screen.gap()
    screen.prose(brief["content"])
    if brief["status"] == "active":
        screen.undo(f"lcm summary unfocus -s {brief['conversationId']}")


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
        report = options.apply_confirmed(
            invocation, question, yes, plan.text, lambda engine: engine.surgery.apply(plan)
        )
    shown = to_json(plan) if plan_json is None else plan_json
    data: Data = {"plan": shown, "text": plan.text} | options.result_json(report)
    if screen := invocation.answer(command, data):
        print_diff_lines(screen, data["text"])
        screen.gap()
        print_result(screen, data)


prompt_dir_option = options.folder(
    "--prompt-dir", "A folder with your prompt templates; see `lcm summary prompts export`."
)
diff_option = options.flag("--diff", "shows_diff", help="Write the new texts and show how they differ.")


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """How drafts are written this time, and what becomes of them."""

    prompt_dir: Path | None
    asked: Settings
    is_real: bool
    shows_diff: bool
    yes: bool
    times: SourceTimes

    @property
    def is_reviewed(self) -> bool:
        """Whether a person looks at the new texts before they take their place."""
        return self.is_real and self.shows_diff and not self.yes and sys.stdin.isatty()

    def spending(self, plans: Sequence[RewritePlan]) -> dict[str, int]:
        """How many calls plans take, and how many are made in a window without being asked for."""
        count = sum(len(plan.targets) for plan in plans)
        calls = count if Summariser(self.asked).has_model else 0
        return {"calls": calls, "callLimit": self.asked.summary_max_calls_per_window}


def draft_options(*apply: Callable[[F], F]) -> Callable[[F], F]:
    """Options for how drafts are written; the command gets `how`. A model that could not be asked is an error."""

    def draft(
        times: SourceTimes, named: ModelChoice, prompt_dir: Path | None, shows_diff: bool, is_real: bool, yes: bool
    ) -> DraftOptions:
        invocation = click.get_current_context().ensure_object(Invocation)
        asked = times.settings(settings_with_model(invocation, named))
        return DraftOptions(prompt_dir, asked, is_real, shows_diff, yes, times)

    first = (source_time_options, prompt_dir_option, model_options, diff_option)
    return options.gathered("how", draft, *first, *apply, options.yes)


def write_plans(invocation: Invocation, plans: Sequence[RewritePlan], how: DraftOptions) -> list[Data]:
    """What became of each plan; without a word that drafts are wanted, the plans alone.

    A run that is stopped leaves the plans behind it as they are.
    """
    items = [_rewrite_json(plan) for plan in plans]
    if not (how.is_real or how.shows_diff) or not any(plan.targets for plan in plans):
        return items
    if how.is_real and not how.is_reviewed:
        count, calls = sum(len(plan.targets) for plan in plans), how.spending(plans)["calls"]
        price = f" with {calls} or more calls of {writer_name(how.asked)}" if calls else ""
        question = f"Write {count} summaries again{price}, and put them in place?"
        options.confirm(question, how.yes, "\n".join(plan.text for plan in plans))
    writer = how.times.summariser(how.asked, how.prompt_dir)
    with invocation.engine(how.asked, writer) as engine:
        copy = cache(lambda label: engine.admin.copy(label).path)
        for n, plan in enumerate(plans):
            with options.ended_by_signals(), invocation.progress("Writing", len(plan.targets)) as advance:
                made = engine.surgery.write_drafts(plan, on_draft=lambda draft: advance(0 if draft.because else 1))
            if made.usable and how.is_reviewed:
                diffs = "\n\n".join(one.diff for one in made.usable)
                options.confirm(f"Put {len(made.usable)} new texts in place?", how.yes, diffs)
            items[n] = _rewrite_json(plan, made, engine.surgery.place_drafts(made, copy) if how.is_real else None)
            if made.stop is not None:
                break
    return items


def emit_rewrites(
    invocation: Invocation, command: str, plans: Sequence[RewritePlan], how: DraftOptions, more: Data | None = None
) -> None:
    """Carry plans out as far as that is wanted, print what came of it, and end the command."""
    items = write_plans(invocation, plans, how)
    is_stopped = any(item["stop"] == INTERRUPTED for item in items)
    # what a rewrite leaves is as good as it was unless a model failed or a text does not fit; a repair leaves it broken
    drafts = [draft for item in items for draft in item["drafts"] if draft["refusal"] is not None]
    is_bad = any(command != "rewrite" or draft["isFailed"] or draft["breaks"] is not None for draft in drafts)
    count = sum(len(plan.targets) for plan in plans)
    data: Data = {"items": items, "targets": count, "writer": writer_name(how.asked), "wanted": how.is_real}
    data |= how.spending(plans) | (more or {})
    code = failures.INTERRUPTED if is_stopped else failures.INTERNAL
    invocation.answer(command, data, view=print_rewrites, ok=not (is_stopped or is_bad), exit_code=code)


def _rewrite_json(plan: RewritePlan, made: DraftedPlan | None = None, report: OperationReport | None = None) -> Data:
    drafts = [to_json(one) | {"diff": one.diff if one.refusal is None else ""} for one in (made.drafts if made else ())]
    stop, reached, remaining = (made.stop, made.reached, made.left) if made else (None, 0, len(plan.targets))
    progress = {"reached": reached, "left": remaining, "stop": stop}
    return {"plan": to_json(plan), "text": plan.text, "drafts": drafts, **progress, **options.result_json(report)}


@command("rewrite")
@options.target_options(required=False)
@options.text("--summary", "summary_id", metavar="ID", help="This summary.")
@options.text("--subtree", metavar="ID", help="This summary and all below it.")
@click.option("--depth", metavar="N", type=click.IntRange(0, 1000), help="All summaries of a depth.")
@options.flag("--all", "everything", help="All summaries of the conversation.")
@options.flag("--extractive", help="Those that no model wrote; of all conversations when none is named.")
@options.flag("--afresh", help="Also rewrite what the same command wrote before it was stopped.")
@options.flag("--upward", help="Also summaries above that would no longer be smaller than their sources.")
@draft_options(apply_option)
def rewrite(invocation: Invocation, /, target: ConversationTarget | None, how: DraftOptions, **rule: Any) -> None:
    """Write summaries again from their sources, the deepest sources first, and show how the texts differ."""
    by = " ".join(filter(None, (writer_name(how.asked), str(how.prompt_dir or ""), how.times.name)))
    with invocation.reader() as engine:
        plans = _plan_rewrites(engine, target, rule | {"by": by})
    if rule["extractive"] and not Summariser(how.asked).has_model and (how.is_real or how.shows_diff):
        hint = "Name one with --model or the setting summaryModel, and see `lcm model test`."
        raise failures.fail("no_model", "There is no model to write them better.", failures.CONFIG, hint=hint)
    emit_rewrites(invocation, "rewrite", plans, how)


def _plan_rewrites(engine: Engine, target: ConversationTarget | None, rule: Data) -> list[RewritePlan]:
    named = rule["summary_id"] or rule["subtree"]
    if target is not None:
        ids = [target.need_id(engine)]
    elif named:
        ids = [engine.browse.summary(named).conversation_id]
    elif rule["extractive"]:
        ids = engine.browse.conversation_ids()
    else:
        raise options.usage_error(options.NAME_ONE)
    plans = [engine.surgery.plan_rewrite(id_, **rule) for id_ in ids]
    return [plan for plan in plans if plan.targets] or plans[:1]


@command("repair")
@options.target_options(required=False)
@options.flag("--all", "everything", help="Of all conversations.")
@options.text("--summary", "summary_ids", metavar="ID", multiple=True, help="Only this one; may be repeated.")
@options.budget_option
@draft_options(
    options.flag("--confirm", "is_confirmed", help="Do it even if there are many, or a compaction is pending."),
    apply_option,
)
def repair(
    invocation: Invocation,
    target: ConversationTarget | None,
    everything: bool,
    summary_ids: tuple[str, ...],
    budget: int | None,
    is_confirmed: bool,
    how: DraftOptions,
) -> None:
    """Write summaries again that are truncated, empty, or were made in an emergency."""
    everything = everything or (target is None and invocation.rule is not None and not how.is_real)
    if (target is not None) + everything != 1:
        raise options.usage_error("Name a conversation with -s, or say --all.")
    if everything and summary_ids:
        raise options.usage_error("--summary is for the summaries of one conversation; with --all there are others.")
    with invocation.reader() as engine:
        ids = engine.surgery.broken_conversations() if target is None else [target.need(engine).id]
        found = [engine.surgery.plan_repair(id_, budget, summary_ids=summary_ids) for id_ in ids]
    kinds = Counter(str(one.reason) for plan, _ in found for one in plan.targets)
    blocked = [reason for _, reasons in found for reason in reasons]
    if how.is_real and blocked and not is_confirmed:
        message = f"The repair needs --confirm: {'; '.join(blocked)}."
        raise failures.fail("blocked", message, hint="Add --confirm to do it.")
    more = {"kinds": dict(kinds), "blocked": blocked}
    emit_rewrites(invocation, "repair", [plan for plan, _ in found], how, more)


_NAME = click.Choice(templates.TEMPLATE_NAMES)


prompts = Group("prompts", help="List, show, export, compare or fill the templates of summary prompts.")


@command("list", prompts)
@prompt_dir_option
def list_prompts(invocation: Invocation, prompt_dir: Path | None) -> None:
    """List the templates, and where each comes from."""
    items = [
        {"name": found.name, "origin": found.origin, "characters": len(found.text), "isOwn": found.origin != "built-in"}
        for found in templates.load_templates(_folder(invocation, prompt_dir))
    ]
    data: Data = {"items": items}
    if screen := invocation.answer("prompts.list", data):
        screen.items(data["items"], "template=name, characters:count, from=origin:rest")


@command("show", prompts)
@click.argument("name", metavar="NAME", type=_NAME)
@prompt_dir_option
def show_prompt(invocation: Invocation, name: str, prompt_dir: Path | None) -> None:
    """Show the template NAME."""
    found = templates.load_template(name, _folder(invocation, prompt_dir))
    data: Data = {"name": name, **pick_json(found, "origin", "text")}
    if screen := invocation.answer("prompts.show", data):
        screen.title(data["name"], data["origin"])
        screen.gap()
        screen.prose(data["text"], 0)


@command("export", prompts)
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@options.overwrite
def export_prompts(invocation: Invocation, folder: Path, overwrite: bool) -> None:
    """Write the built-in templates into DIR, ready to be edited; existing files are kept."""
    written = templates.export_templates(folder, overwrite=overwrite)
    names, count = [path.name for path in written], len(templates.TEMPLATE_NAMES)
    data: Data = {"folder": str(folder.absolute()), "written": names, "all": count}
    stayed = f"; {plural(count - len(names), 'file')} stayed" if len(names) < count else ""
    sentence = f"{plural(len(names), 'template')} written to {data['folder']}{stayed}."
    if screen := invocation.answer("prompts.export", data):
        screen.line(sentence)


@command("diff", prompts)
@click.argument("name", metavar="[NAME]", type=_NAME, required=False)
@prompt_dir_option
def diff_prompts(invocation: Invocation, name: str | None, prompt_dir: Path | None) -> None:
    """Show how the templates in --prompt-dir, or only NAME, differ from the built-in ones."""
    prompt_dir = _folder(invocation, prompt_dir)
    if prompt_dir is None:
        raise options.usage_error("Name the folder of your templates with --prompt-dir.")
    names = templates.TEMPLATE_NAMES if name is None else (name,)
    pairs = [(templates.load_template(one), templates.load_template(one, prompt_dir)) for one in names]
    items = [{"name": own.name, "diff": text_diff(built_in.text, own.text, own.name)} for built_in, own in pairs]
    data: Data = {"items": [item for item in items if item["diff"]], "folder": str(prompt_dir)}
    if screen := invocation.answer("prompts.diff", data):
        if not data["items"]:
            screen.line("The templates are the built-in ones.")
        for changed in data["items"]:
            print_diff_lines(screen, changed["diff"])


@command("render", prompts)
@click.argument("name", metavar="[NAME]", type=_NAME, required=False)
@options.text("--summary", "summary_id", metavar="ID", help="Fill it with what this summary was made of.")
@prompt_dir_option
def render_prompt(invocation: Invocation, name: str | None, summary_id: str | None, prompt_dir: Path | None) -> None:
    """Show a prompt as a model would get it: for an existing summary, or NAME with placeholders."""
    if (name is None) == (summary_id is None):
        raise options.usage_error("Give the name of a template or --summary.")
    if summary_id is None:
        filled = templates.render_prompt(
            "(the source)",
            1200,
            depth={"condensed-d1": 1, "condensed-d2": 2, "condensed-d3": 3}.get(str(name), 0),
            mode="aggressive" if name == "leaf-aggressive" else "normal",
            previous_context="(what came before)",
            instructions="(the operator's instructions)",
            folder=_folder(invocation, prompt_dir),
        )
    else:
        summariser = Summariser(invocation.loaded.settings, prompt_folder=prompt_dir)
        with invocation.reader(summariser=summariser) as engine:
            source = engine.surgery.summary_source(summary_id)
            name, filled = templates.template_name(source.depth), engine.surgery.preview_prompt(source)
    data: Data = {"name": name, "summaryId": summary_id}
    data |= pick_json(filled, "system", "user", "target_tokens", "temperature")
    if screen := invocation.answer("prompts.render", data):
        screen.title(data["name"], f"about {data['targetTokens']:,} tokens", data["summaryId"])
        for part in ("system", "user"):
            screen.gap()
            screen.line(styled(part, "bold"))
            screen.prose(data[part])


def _folder(invocation: Invocation, prompt_dir: Path | None) -> Path | None:
    return Summariser(invocation.loaded.settings, prompt_folder=prompt_dir).style.folder


def print_rewrites(screen: Screen, data: Data) -> None:
    if not data["targets"]:
        what = "No summary is broken" if "kinds" in data else "There is no such summary"
        screen.line(f"{what}: nothing to do.")
        return
    screen.note(f"written by: {data['writer']}")
    if data["calls"]:
        limit = f"the limit of {data['callLimit']} (summaryMaxCallsPerWindow) is for calls that you did not ask for"
        screen.note(
            f"takes {plural(data['calls'], 'call')}, and another where an answer is too long or cut off; {limit}"
        )
    for item in data["items"]:
        print_diff_lines(screen, item["text"])
        for draft in item["drafts"]:
            screen.gap()
            if draft["refusal"] is not None:
                screen.line(styled(f"{draft['summaryId']} was not changed: ", "yellow"), draft["refusal"])
                continue
            by = f"{draft['tokensBefore']:,} → {draft['tokens']:,} tokens, by {draft['model']}"
            screen.title(draft["summaryId"], by)
            if draft["because"]:
                screen.note(f"Also rewritten: {draft['because']}.")
            print_diff_lines(screen, draft["diff"])
        screen.gap()
        print_result(screen, item, is_asked=data["wanted"])
        if refused := sum(draft["refusal"] is not None for draft in item["drafts"]):
            count, verb = plural(len(item["drafts"]), "summary"), "stays" if refused == 1 else "stay"
            screen.warn(f"{refused} of {count} {verb} as before; why is said above.")
        if item["stop"] is not None:
            kept = len(item["done"]["summaryIds"]) if item["done"] else 0
            screen.warn(f"Stopped after {item['reached']} of {len(item['plan']['targets'])}: {item['stop']}")
            rest = f"{item['left']} to go; the same command goes on with these."
            screen.line(f"{plural(kept, 'new text')} in place, {rest}")
    for reason in data.get("blocked", ()):
        screen.warn(f"Needs --confirm: {reason}")
