"""`lcm rewrite`, `lcm repair` and `lcm prompts`: write summaries again from their sources, show the diffs, and
change the prompts.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.apply import confirm, ended_by_signals, planning, result_json, with_hints
from lossless.cli.commands import F, Group, Invocation, command, folder_option, text_option, text_type
from lossless.cli.model import (
    ModelChoice,
    SourceTimes,
    model_options,
    settings_with_model,
    source_time_options,
    writer_name,
)
from lossless.cli.options import NAME_ONE, ConversationTarget, budget_option, gathered, target_options, usage_error
from lossless.cli.output import pick_json, to_json
from lossless.cli.screen import Data, Screen, styled
from lossless.cli.surgery import apply_option, print_diff_lines, print_result, yes_option
from lossless.compaction import summarise as templates
from lossless.compaction.summariser import Summariser
from lossless.maintenance.surgery.common import OperationReport, text_diff
from lossless.maintenance.surgery.rewriting import INTERRUPTED, DraftedPlan, RewritePlan
from lossless.tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lossless.engine import Engine
    from lossless.settings import Settings

prompt_dir_option = folder_option(
    "--prompt-dir", "A folder with your prompt templates; see `lcm summary prompts export`."
)
diff_option = click.option("--diff", "shows_diff", is_flag=True, help="Write the new texts and show how they differ.")


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
    return gathered("how", draft, *first, *apply, yes_option)


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
        confirm(question, how.yes, "\n".join(plan.text for plan in plans))
    writer = how.times.summariser(how.asked, how.prompt_dir)
    with invocation.engine(how.asked, writer) as engine:
        copy = cache(lambda label: engine.admin.copy(label).path)
        for n, plan in enumerate(plans):
            with ended_by_signals(), invocation.progress("Writing", len(plan.targets)) as advance:
                made = engine.surgery.write_drafts(
                    plan, on_draft=lambda draft: advance(0 if draft.because else 1) if advance else None
                )
            if made.usable and how.is_reviewed:
                diffs = "\n\n".join(one.diff for one in made.usable)
                confirm(f"Put {len(made.usable)} new texts in place?", how.yes, diffs)
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
    data = {"items": items, "targets": count, "writer": writer_name(how.asked), "wanted": how.is_real}
    data |= how.spending(plans) | (more or {})
    view = partial(print_rewrites, word="--confirm" if command == "doctor.apply" else "--apply")
    code = failures.INTERRUPTED if is_stopped else failures.INTERNAL
    invocation.emit(command, view, data, ok=not (is_stopped or is_bad), exit_code=code)


def _rewrite_json(plan: RewritePlan, made: DraftedPlan | None = None, report: OperationReport | None = None) -> Data:
    drafts = [to_json(one) | {"diff": one.diff if one.refusal is None else ""} for one in (made.drafts if made else ())]
    stop, reached, remaining = (made.stop, made.reached, made.left) if made else (None, 0, len(plan.targets))
    progress = {"reached": reached, "left": remaining, "stop": stop}
    return {"plan": to_json(plan), "text": plan.text, "drafts": drafts, **progress, **result_json(report)}


@command("rewrite")
@target_options(required=False)
@click.option("--summary", "summary_id", metavar="ID", type=text_type, help="This summary.")
@click.option("--subtree", metavar="ID", type=text_type, help="This summary and all below it.")
@click.option("--depth", metavar="N", type=click.IntRange(0, 1000), help="All summaries of a depth.")
@click.option("--all", "everything", is_flag=True, help="All summaries of the conversation.")
@click.option("--extractive", is_flag=True, help="Those that no model wrote; of all conversations when none is named.")
@click.option("--afresh", is_flag=True, help="Also rewrite what the same command wrote before it was stopped.")
@click.option("--upward", is_flag=True, help="Also summaries above that would no longer be smaller than their sources.")
@draft_options(apply_option)
def rewrite(invocation: Invocation, /, target: ConversationTarget | None, how: DraftOptions, **rule: Any) -> None:
    """Write summaries again from their sources, the deepest sources first, and show how the texts differ.

    The plan shows how many model calls it takes. No model is asked before you agree, except with --diff; then all calls
    are made, even above the spending limit. With --diff you see the new texts at a terminal before they replace the old
    ones. --model names another model for this time only. A new text must be smaller than its sources. If it is
    interrupted, or the model is down, finished summaries are kept, and the same command continues with the rest. Exit
    code 1 when a model failed, or when a new text is too large for a summary above it.
    """
    by = " ".join(filter(None, (writer_name(how.asked), str(how.prompt_dir or ""), how.times.name)))
    with planning(invocation) as engine:
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
        raise usage_error(NAME_ONE)
    plans = [engine.surgery.plan_rewrite(id_, **rule) for id_ in ids]
    return [plan for plan in plans if plan.targets] or plans[:1]


@command("repair")
@target_options(required=False)
@click.option("--all", "everything", is_flag=True, help="Of all conversations.")
@text_option("--summary", "summary_ids", metavar="ID", multiple=True, help="Only this one; may be repeated.")
@budget_option
@draft_options(
    click.option(
        "--confirm", "is_confirmed", is_flag=True, help="Do it even if there are many, or a compaction is pending."
    ),
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
    """Write summaries again that are truncated, empty, or were made in an emergency.

    --confirm is needed when there are more than 25, when they read more than 75 % of the budget, or when a compaction
    is pending. A summary above that would no longer be smaller than its sources is written again, too. A new text that
    is still a fallback is not used. Exit code 1 when something stays broken.
    """
    everything = everything or (target is None and invocation.rule is not None and not how.is_real)
    if (target is not None) + everything != 1:
        raise usage_error("Name a conversation with -s, or say --all.")
    if everything and summary_ids:
        raise usage_error("--summary is for the summaries of one conversation; with --all there are others.")
    with planning(invocation) as engine:
        plans, more = plan_repairs(engine, target, budget, summary_ids)
    if how.is_real and more["blocked"] and not is_confirmed:
        message = f"The repair needs --confirm: {'; '.join(more['blocked'])}."
        raise failures.fail("blocked", message, hint="Add --confirm to do it.")
    emit_rewrites(invocation, "repair", plans, how, more)


def plan_repairs(
    engine: Engine, target: ConversationTarget | None, budget: int | None, summary_ids: tuple[str, ...]
) -> tuple[list[RewritePlan], Data]:
    """Plans for one conversation or all, how many summaries are broken in which way, and reasons to look first."""
    ids = engine.surgery.broken_conversations() if target is None else [target.need(engine).id]
    found = [engine.surgery.plan_repair(id_, budget, summary_ids=summary_ids) for id_ in ids]
    kinds = Counter(str(one.reason) for plan, _ in found for one in plan.targets)
    blocked = [reason for _, reasons in found for reason in reasons]
    return [plan for plan, _ in found], {"kinds": dict(kinds), "blocked": blocked}


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
    invocation.emit("prompts.list", print_prompts, {"items": items})


@command("show", prompts)
@click.argument("name", metavar="NAME", type=_NAME)
@prompt_dir_option
def show_prompt(invocation: Invocation, name: str, prompt_dir: Path | None) -> None:
    """Show the template NAME."""
    found = templates.load_template(name, _folder(invocation, prompt_dir))
    invocation.emit("prompts.show", print_prompt, {"name": name, **pick_json(found, "origin", "text")})


@command("export", prompts)
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace existing files.")
def export_prompts(invocation: Invocation, folder: Path, overwrite: bool) -> None:
    """Write the built-in templates into DIR, ready to be edited; existing files are kept."""
    written = templates.export_templates(folder, overwrite=overwrite)
    data = {"folder": str(folder.absolute()), "written": [path.name for path in written]}
    invocation.emit("prompts.export", print_prompts_export, data | {"all": len(templates.TEMPLATE_NAMES)})


@command("diff", prompts)
@click.argument("name", metavar="[NAME]", type=_NAME, required=False)
@prompt_dir_option
def diff_prompts(invocation: Invocation, name: str | None, prompt_dir: Path | None) -> None:
    """Show how the templates in --prompt-dir, or only NAME, differ from the built-in ones."""
    prompt_dir = _folder(invocation, prompt_dir)
    if prompt_dir is None:
        raise usage_error("Name the folder of your templates with --prompt-dir.")
    names = templates.TEMPLATE_NAMES if name is None else (name,)
    pairs = [(templates.load_template(one), templates.load_template(one, prompt_dir)) for one in names]
    items = [{"name": own.name, "diff": text_diff(built_in.text, own.text, own.name)} for built_in, own in pairs]
    data = {"items": [item for item in items if item["diff"]], "folder": str(prompt_dir)}
    invocation.emit("prompts.diff", print_prompts_diff, data)


@command("render", prompts)
@click.argument("name", metavar="[NAME]", type=_NAME, required=False)
@text_option("--summary", "summary_id", metavar="ID", help="Fill it with what this summary was made of.")
@prompt_dir_option
def render_prompt(invocation: Invocation, name: str | None, summary_id: str | None, prompt_dir: Path | None) -> None:
    """Show a prompt as a model would get it: for an existing summary, or NAME with placeholders.

    No model is asked.
    """
    if (name is None) == (summary_id is None):
        raise usage_error("Give the name of a template or --summary.")
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
        with invocation.reader(summariser=summariser) as engine, with_hints():
            source = engine.surgery.summary_source(summary_id)
            name, filled = templates.template_name(source.depth), engine.surgery.preview_prompt(source)
    data = {"name": name, "summaryId": summary_id}
    data |= pick_json(filled, "system", "user", "target_tokens", "temperature")
    invocation.emit("prompts.render", print_rendered_prompt, data)


def _folder(invocation: Invocation, prompt_dir: Path | None) -> Path | None:
    return Summariser(invocation.loaded.settings, prompt_folder=prompt_dir).style.folder


def print_rewrites(screen: Screen, data: Data, word: str = "--apply") -> None:
    if not data["targets"]:
        what = "No summary is broken" if "kinds" in data else "There is no such summary"
        screen.line(f"{what}: nothing to do.")
        return
    screen.line(styled(f"written by: {data['writer']}", "dim"))
    if data["calls"]:
        limit = f"the limit of {data['callLimit']} (summaryMaxCallsPerWindow) is for calls that you did not ask for"
        takes = f"takes {plural(data['calls'], 'call')}, and another where an answer is too long or cut off; {limit}"
        screen.line(styled(takes, "dim"))
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
                screen.line(styled(f"Also rewritten: {draft['because']}.", "dim"))
            print_diff_lines(screen, draft["diff"])
        screen.gap()
        print_result(screen, item, "" if data["wanted"] else word)
        refused = [draft for draft in item["drafts"] if draft["refusal"] is not None]
        if refused:
            count = f"{len(refused)} of {plural(len(item['drafts']), 'summary', 'summaries')}"
            verb = "stays" if len(refused) == 1 else "stay"
            screen.line(styled(f"{count} {verb} as before; why is said above.", "yellow"))
        if item["stop"] is not None:
            kept = len(item["done"]["summaryIds"]) if item["done"] else 0
            stopped = f"Stopped after {item['reached']} of {len(item['plan']['targets'])}: "
            screen.line(styled(stopped, "yellow"), item["stop"])
            rest = f"{item['left']} to go; the same command goes on with these."
            screen.line(f"{plural(kept, 'new text')} in place, {rest}")
    for reason in data.get("blocked", ()):
        screen.line(styled(f"Needs --confirm: {reason}", "yellow"))


def print_prompts(screen: Screen, data: Data) -> None:
    screen.items(data["items"], "template=name, characters:count, from=origin:rest")


def print_prompt(screen: Screen, data: Data) -> None:
    screen.title(data["name"], data["origin"])
    screen.gap()
    screen.prose(data["text"], 0)


def print_prompts_export(screen: Screen, data: Data) -> None:
    skipped = data["all"] - len(data["written"])
    stayed = f"; {plural(skipped, 'file')} stayed" if skipped else ""
    screen.line(f"{plural(len(data['written']), 'template')} written to {data['folder']}{stayed}.")


def print_prompts_diff(screen: Screen, data: Data) -> None:
    if not data["items"]:
        screen.line("The templates are the built-in ones.")
    for item in data["items"]:
        print_diff_lines(screen, item["diff"])


def print_rendered_prompt(screen: Screen, data: Data) -> None:
    screen.title(data["name"], f"about {data['targetTokens']:,} tokens", data["summaryId"])
    for name in ("system", "user"):
        screen.gap()
        screen.line(styled(name, "bold"))
        screen.prose(data[name])
