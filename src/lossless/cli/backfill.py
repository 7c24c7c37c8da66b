"""`lcm backfill`: write the summaries of imported conversations, then optionally a title and a copy of the summaries
in another conversation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import click

from lossless.cli import failures
from lossless.cli.apply import confirm, result_json, with_hints
from lossless.cli.commands import Invocation, command, id_type, number_option, text_option
from lossless.cli.model import ModelChoice, base_url_option, provider_option, settings_with_model, writer_name
from lossless.cli.options import ConversationTarget, bad_option, gathered, target_options, usage_error
from lossless.cli.output import to_json
from lossless.cli.rewrite import prompt_dir_option
from lossless.cli.screen import Data, Screen, styled
from lossless.cli.surgery import apply_options
from lossless.compaction.summariser import Summariser
from lossless.maintenance.surgery.backfill import BackfillOptions, BackfillPlan, backfill_history, plan_backfill
from lossless.model.context import EXTRACTIVE_MODEL, SummaryItem
from lossless.settings.setting import camel_case
from lossless.tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from lossless.engine import Engine
    from lossless.maintenance.surgery.common import OperationReport
    from lossless.model.conversations import Conversation
    from lossless.settings import Settings

_HARD_FANOUT = "The fewest that are condensed together when too many tokens are left"
#: Settings that options give for this time: the option, the least value, and what it says.
_NUMBERS = {
    "leaf_chunk_tokens": ("--leaf-chunk-tokens", 1, "The most that one summary is made of"),
    "leaf_target_tokens": ("--leaf-target-tokens", 1, "How long a leaf should be"),
    "condensed_target_tokens": ("--condensed-target-tokens", 1, "How long a summary of summaries should be"),
    "leaf_min_fanout": ("--leaf-fanout", 2, "The fewest leaves that are condensed together"),
    "condensed_min_fanout": ("--condensed-fanout", 2, "The fewest summaries above leaves that are condensed together"),
    "condensed_min_fanout_hard": ("--hard-fanout", 2, _HARD_FANOUT),
}


number_options = gathered(
    "numbers",
    dict,
    *(
        number_option(option, name, minimum=minimum, help=f"{about}; else the setting {camel_case(name)}.")
        for name, (option, minimum, about) in _NUMBERS.items()
    ),
    names=_NUMBERS,
)


def apply_numbers(settings: Settings, numbers: Mapping[str, int | None]) -> Settings:
    """The settings with the numbers that were given: they win over the rules for some sessions, too."""
    given: Data = {name: number for name, number in numbers.items() if number is not None}
    if not given:
        return settings
    rules = settings.context_threshold_overrides
    if "leaf_chunk_tokens" in given:
        rules = tuple(replace(rule, leaf_chunk_tokens=None) for rule in rules)
    changed = replace(settings, context_threshold_overrides=rules, **given)
    for name, (option, *_) in _NUMBERS.items():
        if name.endswith("_target_tokens") and given.get(name, 0) >= changed.leaf_chunk_tokens:
            chunk = f"the {changed.leaf_chunk_tokens} tokens (--leaf-chunk-tokens) that it is made of"
            raise bad_option(option, f"such a summary would not be smaller than {chunk}")
    return changed


def _roots(engine: Engine, conversation_id: int) -> tuple[str, ...]:
    items = engine.browse.context_items(conversation_id)
    return tuple(item.summary_id for item in items if isinstance(item, SummaryItem))


@dataclass(frozen=True, slots=True)
class _BackfillRun:
    single_root: bool
    recompact: bool
    transplant_to: int | None
    title: str | None
    numbers: Mapping[str, int | None]
    fresh_tail: int | None
    prompt_dir: Path | None
    model: str | None
    provider: str | None
    base_url: str | None
    limit: int | None
    is_real: bool
    yes: bool

    def settings(self, invocation: Invocation) -> Settings:
        """The settings for this command: the model and the numbers that it names."""
        if self.model is None and (self.provider, self.base_url, self.prompt_dir) != (None, None, None):
            raise usage_error("--provider, --base-url and --prompt-dir are about a model: say --model, too.")
        named = ModelChoice(self.model or None, self.provider, self.base_url)
        asked = apply_numbers(settings_with_model(invocation, named), self.numbers)
        if self.model is not None and not Summariser(asked).has_model:
            hint = "Name one with --model PROVIDER/MODEL or the setting summaryModel, and see `lcm model test`."
            raise failures.fail("no_model", "There is no model to write them.", failures.CONFIG, hint=hint)
        return asked

    @property
    def how(self) -> BackfillOptions:
        return BackfillOptions(self.model is not None, self.fresh_tail, self.recompact, self.single_root)

    @property
    def has_follow_up(self) -> bool:
        """Whether a title or a copy is wanted after the folding."""
        return self.title is not None or self.transplant_to is not None

    def plan(self, engine: Engine, target: ConversationTarget | None, writer: str) -> tuple[Data, list[BackfillPlan]]:
        """What there is to do, for the envelope; and the conversations in which there is something to do."""
        ids = engine.browse.active_ids() if target is None else [target.need_id(engine)]
        exact = not self.how.may_ask_model and not self.is_real
        found, remaining = [], self.limit if exact else None
        for id_ in ids:
            one = plan_backfill(engine.loop, engine.browse.get(id_), self.how, extracts=exact, limit=remaining)
            remaining = None if remaining is None else remaining - len(one.passes)
            found.append(one)
        after = {}
        if self.has_follow_up:  # refused before anything is written when it could not be done
            after = {"title": self._title(found[0].conversation), "transplant": self._transplant(engine, found[0])}
        planned = found if self.has_follow_up else [one for one in found if not one.is_idle]
        data = {
            "conversations": len(ids),
            "dryRun": not self.is_real,
            "backup": None,
            "writer": writer,
            "exact": exact,
            "summaries": sum(len(one.passes) for one in planned),
            "items": [
                _named(one)
                | {
                    "summaries": len(one.passes),
                    "tokens": sum(w.tokens for w in one.passes if w.kind == "leaf")
                    or sum(w.tokens for w in one.passes),
                    "unfolded": 0 if one.unfolded is None else len(one.unfolded.summary_ids),
                    "roots": one.roots,
                }
                for one in planned
            ],
            "title": None,
            "transplant": None,
        }
        return data | after, planned

    def carry_out(self, invocation: Invocation, asked: Settings, planned: list[BackfillPlan], writer: str) -> Data:
        """Ask, fold, then what follows; for the envelope."""
        count = sum(len(one.passes) for one in planned)
        count = count if self.limit is None else min(count, self.limit)
        made = f"about {count} summaries in {plural(len(planned), 'conversation')}"
        gone = sum(len(one.unfolded.summary_ids) for one in planned if one.unfolded is not None)
        instead = f" instead of the {gone} that are there" if gone else ""
        price = f", with {count} or more calls of {writer}" if self.how.may_ask_model else ""
        copied = "" if self.transplant_to is None else f", and copy to conversation {self.transplant_to}"
        confirm(f"Make {made}{instead}{price}{copied}?", self.yes)
        items: list[Data] = []
        after: Data = {}
        with invocation.engine(asked, Summariser(asked, prompt_folder=self.prompt_dir)) as engine:
            copy = cache(lambda: engine.admin.copy("backfill").path)
            if any(not one.is_idle for one in planned):
                copy()
            try:
                with invocation.progress("Folding", count) as advance:
                    self._fold_all(engine, planned, items, advance)
            except KeyboardInterrupt:
                hint = "What was folded so far is in place; `lcm backfill` goes on from there, without --recompact."
                raise failures.fail("interrupted", "Interrupted.", failures.INTERRUPTED, hint=hint) from None
            if self.has_follow_up and all(item["ok"] for item in items):
                after = self._follow_up(engine, planned[0].conversation, lambda _label: copy())
            backup = str(copy()) if copy.cache_info().currsize else None
        return {"items": items, "summaries": sum(item["summaries"] for item in items), "backup": backup} | after

    def _fold_all(
        self, engine: Engine, planned: list[BackfillPlan], items: list[Data], advance: Callable[[int], None] | None
    ) -> None:
        remaining = self.limit
        progress = (lambda _work, _written: advance(1)) if advance else None
        for one in planned:
            if remaining == 0:
                return
            made = backfill_history(engine.loop, one.conversation, self.how, limit=remaining, progress=progress)
            remaining = None if remaining is None else remaining - len(made.summary_ids)
            plain = to_json(made) | {"summaries": len(made.summary_ids), "ok": made.ok and made.failure is None}
            items.append(_named(one) | plain)

    def _follow_up(self, engine: Engine, conversation: Conversation, backup: Callable[[str], Path]) -> Data:
        title, copied, id_ = self._title(conversation), None, conversation.id
        if self.title is not None and title == "given":
            backup("backfill")
            engine.admin.set_title(id_, self.title)
        if (to := self.transplant_to) is not None:
            copied = _transplant_json(to, "there")
            if engine.surgery.earlier_transplant(id_, to) != _roots(engine, id_):
                work = engine.surgery.plan_transplant(id_, to)
                copied = _transplant_json(to, "copied", work.text, engine.surgery.apply(work, backup))
        return {"title": title, "transplant": copied}

    def _title(self, conversation: Conversation) -> str | None:
        if self.title is None:
            return None
        if conversation.title and conversation.title != self.title:
            message = f"Conversation {conversation.id} is called {conversation.title!r} already."
            hint = "A title is given once; leave --title out."
            raise failures.fail("bad_input", message, hint=hint, title=conversation.title)
        return "there" if conversation.title else "given"

    def _transplant(self, engine: Engine, outlook: BackfillPlan) -> Data | None:
        if self.transplant_to is None:
            return None
        source_id, target_id = outlook.conversation.id, self.transplant_to
        engine.browse.get(target_id)
        before = engine.surgery.earlier_transplant(source_id, target_id)
        roots = _roots(engine, source_id)
        if before is not None and (before != roots or not outlook.is_idle):
            message = f"Conversation {target_id} has summaries of conversation {source_id} already."
            hint = f"`lcm undo --conversation-id {target_id}` takes that transplant back, if it was the last change."
            raise failures.fail("bad_input", message, hint=hint, conversationId=target_id)
        if before is not None:
            return _transplant_json(target_id, "there")
        may_plan = outlook.is_idle or (bool(roots) and not self.how.recompact) or source_id == target_id
        work = engine.surgery.plan_transplant(source_id, target_id) if may_plan else None
        return _transplant_json(target_id, "planned", work.text if work is not None and outlook.is_idle else "")


@command("backfill")
@target_options(required=False)
@gathered(
    "run",
    _BackfillRun,
    click.option("--single-root", is_flag=True, help="Continue until one summary covers all except the newest part."),
    click.option("--recompact", is_flag=True, help="Fold again: summaries are first replaced by their messages."),
    click.option(
        "--transplant-to", metavar="ID", type=id_type, help="Copy the summaries to this conversation afterwards."
    ),
    text_option("--title", help="Give the conversation this title, if it has none."),
    number_options,
    number_option(
        "--fresh-tail", help="Keep this many of the newest messages; else the newest bootstrapMaxTokens tokens stay."
    ),
    prompt_dir_option,
    click.option(
        "--model",
        metavar="[NAME]",
        is_flag=False,
        flag_value="",
        help="Let the configured model write them, or PROVIDER/MODEL; else they are extracted.",
    ),
    provider_option,
    base_url_option,
    click.option("--max-summaries", "limit", metavar="N", type=click.IntRange(1), help="Make at most this many."),
    apply_options,
)
def backfill(invocation: Invocation, target: ConversationTarget | None, run: _BackfillRun) -> None:
    """Fold the older history of one conversation, or of all, into summaries.

    The plan shows how many summaries there would be; the number is exact when they are extracted. The newest part of
    each conversation is not folded. The archive is copied first. Each summary is stored as soon as it is written, so
    the same command continues after an interruption (with --recompact it starts again), and a second run finds nothing
    to do. `lcm summary undo` takes back the last summary, `lcm restore` all of them. A model is asked as often as
    needed, even above the spending limit; when it fails, the rest is extracted, and the exit code is 1.
    """
    asked = run.settings(invocation)
    if target is None and run.has_follow_up:
        raise usage_error("--title and --transplant-to are for one conversation: name it with -s.")
    if run.transplant_to is not None and run.limit is not None:
        raise usage_error("--transplant-to copies what was folded to its end: leave --max-summaries out.")
    writer = EXTRACTIVE_MODEL if run.model is None else writer_name(asked)
    with invocation.reader(asked) as engine, with_hints(), engine.browse.reading():
        data, planned = run.plan(engine, target, writer)
    if run.is_real and (planned or run.has_follow_up):
        data |= run.carry_out(invocation, asked, planned, writer)
    is_well = all(item.get("ok", True) for item in data["items"])
    invocation.emit("backfill", _print_plan if data["dryRun"] else _print_done, data, ok=is_well)


def _transplant_json(to: int, status: str, text: str = "", report: OperationReport | None = None) -> Data:
    return {"to": to, "status": status, "text": text, **result_json(report)}


def _named(one: BackfillPlan) -> Data:
    return {"conversationId": one.conversation.id, "sessionKey": one.conversation.session_key}


def _print_plan(screen: Screen, data: Data) -> None:
    about = "" if data["exact"] else "about "
    for item in data["items"]:
        name, made = item["sessionKey"] or item["conversationId"], plural(item["summaries"], "summary", "summaries")
        gone = plural(item["unfolded"], "summary gives", "summaries give") if item["unfolded"] else ""
        screen.line(f"{name}: ", f"{gone} way, then " if gone else "", f"{about}{made} of {item['tokens']:,} tokens")
        if item["roots"] is not None and item["roots"] != 1:
            screen.line(styled(f"  {plural(item['roots'], 'root')} would be left", "yellow"))
    if not data["summaries"]:
        screen.line("There is nothing to fold.")
    _print_follow_up(screen, data)
    if data["summaries"] or data["title"] or data["transplant"]:
        screen.line(styled(f"Written by: {data['writer']}.", "dim"))
        screen.unchanged()


def _print_done(screen: Screen, data: Data) -> None:

    def end(item: Data) -> str:
        roots = "" if item["roots"] is None else f"; {plural(item['roots'], 'root')}"
        gone = f"{plural(item['unfolded'], 'summary', 'summaries')} gave way; " if item["unfolded"] else ""
        return f"{gone}{item['reason']}{roots}"

    screen.items(
        data["items"],
        "conversation:key, summaries:count, tokens=tokensBefore:count, after=tokensAfter:count, how it ended=end:rest",
        conversation=lambda item: item["sessionKey"] or item["conversationId"],
        end=end,
    )
    made = plural(data["summaries"], "summary", "summaries")
    screen.line(styled(made, "bold"), f" in {plural(data['conversations'], 'conversation')}")
    for failure in dict.fromkeys(item["failure"] for item in data["items"] if item["failure"]):
        helps = "`lcm rewrite --extractive` has a model write what was extracted instead."
        screen.line(styled(f"The model failed ({failure}). {helps}", "yellow"))
    _print_follow_up(screen, data)
    if data["backup"]:
        back = "`lcm undo` takes back the last one, `lcm restore` all of it."
        screen.line(styled(f"The copy from before is {data['backup']}; {back}", "dim"))


def _print_follow_up(screen: Screen, data: Data) -> None:
    if data["title"] is not None:
        given = {"there": "It has this title already.", "given": "The title is given."}[data["title"]]
        screen.line(given if data["title"] == "there" or not data["dryRun"] else "Then the title would be given.")
    copied = data["transplant"]
    if copied is None:
        return
    for line in copied["text"].splitlines():
        screen.line(styled(line, "green" if line.startswith("+") else ""))
    where = f"conversation {copied['to']}"
    outcomes = {
        "there": f"The summaries are in {where} already.",
        "planned": f"Then the summaries would be copied to {where}.",
        "copied": f"The summaries were copied to {where}; `lcm undo --conversation-id {copied['to']}` removes them.",
    }
    screen.line(outcomes[copied["status"]])
