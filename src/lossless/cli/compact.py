"""`lcm compact`, `worker`, `debt`, `cost` and `backfill`: fold older history, now or when it is due, one conversation
or all that was imported, and show what it costs.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING

import click

from lossless.cli import failures, options
from lossless.cli.charts import print_cost_days
from lossless.cli.commands import Invocation, command, ignore_progress
from lossless.cli.config import ModelChoice, base_url_option, provider_option, settings_with_model, writer_name
from lossless.cli.failures import printable
from lossless.cli.screen import Data, Screen, pick_json, session_name, styled, to_json
from lossless.cli.surgery import apply_options, print_diff_lines, prompt_dir_option
from lossless.compaction.compactor import CompactionRequest
from lossless.compaction.plan import Pass, expected_tokens
from lossless.compaction.summariser import Summariser
from lossless.errors import ArchiveLocked
from lossless.llm.completion import format_total
from lossless.maintenance.surgery.backfill import BackfillOptions, BackfillPlan, backfill_history, plan_backfill
from lossless.model.context import EXTRACTIVE_MODEL, MessageItem, SummaryItem
from lossless.model.records import DailyCalls, DailyFolds, ModelSpend, TokensSaved
from lossless.model.times import parse_time
from lossless.settings.setting import camel_case
from lossless.tui.text import plural

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.cli.options import ConversationTarget
    from lossless.compaction.run import CompactionReport
    from lossless.compaction.summarise import WrittenSummary
    from lossless.engine import Engine
    from lossless.maintenance.surgery.common import OperationReport
    from lossless.model.conversations import Conversation
    from lossless.settings import Settings


@command("compact")
@options.target_options()
@options.budget_option
@options.flag("--dry-run", help="Only list the summaries that would be written.")
@options.number("--until", help="Continue until the context has at most this many tokens.")
@options.flag("--if-needed", help="Do nothing unless the context is over its threshold.")
def compact(
    invocation: Invocation,
    target: ConversationTarget,
    budget: int | None,
    dry_run: bool,
    until: int | None,
    if_needed: bool,
) -> None:
    """Fold older history into summaries now, whether or not the context is over its threshold."""
    if until is not None and if_needed:
        raise options.usage_error("--until and --if-needed both say when to stop; give one of them.")
    with invocation.reader() as reader, reader.browse.reading():
        conversation = target.need_active(reader)
        request = CompactionRequest(conversation, budget or reader.settings.default_token_budget)
        decision = reader.loop.evaluate(request)
        force = not if_needed and until is None
        passes = reader.loop.dry_run(request, force=force, until=until)
        before = reader.browse.context_tokens(conversation.id)
    done: list[Data] = []
    data: Data = {
        **pick_json(conversation, "conversation_id=id", "session_key"),
        "dryRun": dry_run,
        **pick_json(decision, "budget", "threshold=target_tokens"),
        "passes": done,
    }
    if dry_run:
        done += [_pass_json(work) | {"expectedTokens": expected_tokens(work)} for work in passes]
        after = before - sum(item["tokens"] - item["expectedTokens"] for item in done)
        invocation.answer("compact", data | {"tokensBefore": before, "tokensAfter": after}, view=print_compaction)
        return
    count = len(passes) if until is None else None
    with invocation.progress("Folding", count) as advance, invocation.engine() as engine:

        def record(work: Pass, written: WrittenSummary | None) -> None:
            # a source that nothing makes smaller stays as it is, and has no summary
            empty = {"summaryTokens": None, "level": None, "model": None, "calls": 0, "failure": None}
            names = ("summary_tokens=tokens", "level", "model", "calls", "failure")
            done.append(_pass_json(work) | (empty if written is None else pick_json(written, *names)))
            advance(1)

        try:
            report = engine.compact(conversation, budget=budget, force=force, until=until, progress=record)
        except KeyboardInterrupt:
            hint = f"What was folded so far ({len(done)}) is in place; `lcm compact` goes on from there."
            raise failures.fail("interrupted", "Interrupted.", failures.INTERRUPTED, hint=hint) from None
        size = engine.browse.context_budget(conversation.id)
    is_small = report.ok and decision.is_under(size)
    data |= report_json(report, before)
    if not is_small and not invocation.as_json:
        has_model = Summariser(invocation.loaded.settings).has_model
        data["advice"] = _advice(data, conversation, size, until or decision.target_tokens, has_model=has_model)
    invocation.answer("compact", data, view=print_compaction, ok=is_small)


def _advice(data: Data, conversation: Conversation, size: int, target: int, *, has_model: bool) -> str:
    """What helps when a context is still larger than it should be; its size is that of a prompt with it."""
    over = f"{size:,} tokens are more than the {target:,} that it should have."
    if data["until"]:
        return f"{over} Run it again after {data['until']}."
    if data["exhausted"] or not data["compacted"]:
        return (
            f"{over} What is left is the newest part, which is never summarised: lower freshTailCount or "
            f"freshTailMaxTokens (`lcm config set`), or empty the context with `lcm session new -s {conversation.id}`."
        )
    model = "" if has_model else " A model writes shorter summaries: see `lcm model`."
    return f"{over} `lcm compact -s {conversation.id}` folds more.{model}"


def _pass_json(work: Pass) -> Data:
    first, last = (
        f"msg#{item.message_id}" if isinstance(item, MessageItem) else item.summary_id
        for item in (work.items[0], work.items[-1])
    )
    sources = {"sources": len(work.items), "firstSource": first, "lastSource": last}
    return pick_json(work, "kind", "depth", "tokens") | sources


def report_json(report: CompactionReport, stored_tokens: int = 0) -> Data:
    """What a compaction came to; one that did not begin leaves the context as it is stored."""
    return {
        **pick_json(report, "ok", "compacted", "reason"),
        "tokensBefore": report.tokens_before or stored_tokens,
        "tokensAfter": report.tokens_after or stored_tokens,
        **pick_json(report, "summary_ids", "calls", "exhausted", "stop", "until"),
    }


@command("worker")
@click.option(
    "--watch",
    metavar="SECONDS",
    type=click.FloatRange(0.05, 86_400),
    help="Look again after this many seconds, until interrupted.",
)
@options.flag("--no-model", help="Ask no model; extract all summaries.")
@options.flag("--dry-run", help="Only list pending compactions, and why they wait.")
def worker(invocation: Invocation, watch: float | None, no_model: bool, dry_run: bool) -> None:
    """Run pending compactions of all conversations, then describe stored files."""
    if dry_run:
        click.get_current_context().invoke(debt)
        return
    settings = invocation.loaded.settings
    summariser, may_ask_model = Summariser(settings), not no_model
    prepares = may_ask_model and settings.prepare_summaries and summariser.has_model
    with invocation.reader() as reader:
        pending, is_behind = len(reader.admin.pending()), reader.admin.is_behind
        has_files = may_ask_model and bool(summariser.describers) and reader.browse.undescribed_files() > 0
    answer: Data = {"items": [], "paid": 0} | ({"prepared": 0} if prepares else {})
    if watch is not None:
        if invocation.shows_progress:
            click.echo("Waiting for compactions to run; end with Ctrl-C.", err=True)
        # an interrupt and the signal to end are the way a watch ends, not a failure
        with suppress(KeyboardInterrupt), options.ended_by_signals(), invocation.engine() as engine:
            engine.admin.catch_up()
            while True:
                data = dict(answer)
                try:
                    _run_pending(engine, data, ignore_progress, may_ask_model=may_ask_model)
                except ArchiveLocked as error:  # a file that others hold for long is tried again next time
                    click.secho(printable(f"Warning: {error}"), fg="yellow", err=True)
                if data["items"] or data.get("prepared"):
                    invocation.answer("worker", data, view=print_worker)
                time.sleep(watch)
        return
    if pending or has_files or is_behind or prepares or (may_ask_model and settings.embedder):
        with invocation.progress("Compacting", pending) as advance, invocation.engine() as engine:
            engine.admin.catch_up()
            _run_pending(engine, answer, advance, may_ask_model=may_ask_model)
    invocation.answer("worker", answer, view=print_worker)


def _run_pending(engine: Engine, data: Data, advance: Callable[[int], None], *, may_ask_model: bool) -> None:
    """Run what is due now, and say what came of each compaction; those that are not due yet are left out."""
    done = engine.admin.run_pending(may_ask_model=may_ask_model, progress=lambda *_: advance(1))
    data["items"] = items = [
        {
            **pick_json(engine.browse.get(id_), "conversation_id=id", "session_key", "session_id"),
            **report_json(report),
            "isPaid": not (debt := engine.loop.debt(id_)).pending,
            "nextAttemptAfter": debt.next_attempt_after,
        }
        for id_, report in done
        if report is not None
    ]
    data["paid"] = sum(item["isPaid"] for item in items)
    if "prepared" in data:
        data["prepared"] = engine.admin.prepare_summaries()


@command("debt")
@options.target_options(required=False)
def debt(invocation: Invocation, target: ConversationTarget | None) -> None:
    """List pending compactions, the longest waiting first, with the reason why they still wait."""
    with invocation.reader() as engine, engine.browse.reading():
        owing = engine.admin.pending(archived=True)
        if target is not None:
            owing = [id_ for id_ in owing if id_ == target.need_id(engine)]
        items = []
        for id_ in owing:
            named = pick_json(engine.browse.get(id_), "conversation_id=id", "session_key", "session_id", "active")
            owed, state = engine.admin.debt(id_)
            items.append(named | {"state": state} | pick_json(owed, *_DEBT_FIELDS))
    due = sum(item["state"] == "due" for item in items)
    data: Data = {"items": items, "due": due}
    if screen := invocation.answer("debt", data):
        if not items:
            screen.line(styled("No compaction is pending.", "green"))
        for one in items:
            screen.title(f"{one['conversationId']} {session_name(one)}", one["state"])
            screen.record(one, "conversationId", "sessionKey", "sessionId", "state")


_DEBT_FIELDS = (
    "reason", "requested_at", "next_attempt_after", "retry_attempts", "last_started_at", "last_finished_at",
    "last_failure_summary", "token_budget", "current_token_count", "context_threshold",
)  # fmt: skip
_EVER = datetime(1, 1, 1, tzinfo=UTC)
_SPEND_FIELDS = ("model", "purpose", "calls", "done", "failed", "input_tokens", "output_tokens")


@command("cost")
@options.target_options(required=False)
@click.option("--after", metavar="TIME", help="From this time on: ISO-8601 with a zone, such as 2026-07-01T00:00:00Z.")
@click.option("--recency", metavar="N(s|m|h|d|w)", help="The last seconds, minutes, hours, days or weeks.")
def cost(invocation: Invocation, target: ConversationTarget | None, after: str | None, recency: str | None) -> None:
    """Show what model calls cost, by model, and how many tokens each turn is smaller for it."""
    span = options.parse_span(after, None, None, recency, datetime.now(UTC))
    emit_cost(invocation, target, None if span is None or span.since is None else parse_time(span.since))


def emit_cost(invocation: Invocation, target: ConversationTarget | None, start: datetime | None) -> None:
    """Print what model calls cost from a time on."""
    since = start or _EVER
    with invocation.reader() as engine, engine.browse.reading():
        id_, browse = options.id_or_none(target, engine), engine.browse
        spent, saved = browse.spent(since, id_), browse.saved(since, id_)
        days = _days(browse.calls_by_day(since, id_), browse.folds_by_day(since, id_))
    data: Data = {
        "conversationId": id_,
        "since": start,
        "spent": [pick_json(row, *_SPEND_FIELDS) | _cost_json([row]) for row in spent],
        "saved": [
            {"model": model, **_savings([row for row in saved if row.model == model])}
            for model in sorted({row.model for row in saved})
        ],
        "days": days,
        "totals": {
            "calls": sum(row.calls for row in spent),
            "inputTokens": sum(row.input_tokens for row in spent),
            "outputTokens": sum(row.output_tokens for row in spent),
            **_cost_json(spent),
            **_savings(saved),
        },
    }
    invocation.answer("cost", data, view=print_cost)


def _days(calls: list[DailyCalls], folds: list[DailyFolds]) -> list[Data]:
    asked, folded = {row.day: row for row in calls}, {row.day: row for row in folds}
    known = []
    for day in {*asked, *folded}:
        with suppress(ValueError):
            known.append(date.fromisoformat(day))
    days = range((max(known) - min(known)).days + 1 if known else 0)
    rows = []
    for day in ((min(known) + timedelta(days=number)).isoformat() for number in days):
        call, fold = asked.get(day, DailyCalls(day, 0, 0, 0, (), 0)), folded.get(day, DailyFolds(day, 0, 0))
        counts = pick_json(call, "day", "calls", "input_tokens", "output_tokens")
        rows.append(counts | _cost_json([call]) | {"folds": fold.folds, "savedTokens": fold.tokens})
    return rows


def _savings(saved: list[TokensSaved]) -> Data:
    """What folds took out of contexts: in all, and on average from each later turn of a conversation."""
    tokens, conversations = sum(row.tokens for row in saved), len({row.conversation_id for row in saved})
    return {
        "folds": sum(row.folds for row in saved),
        "conversations": conversations,
        "savedTokens": tokens,
        "savedTokensPerTurn": round(tokens / conversations) if conversations else 0,
    }


def _cost_json(rows: Sequence[ModelSpend] | Sequence[DailyCalls]) -> Data:
    """What the calls of some lines cost in all: dollars as exact text, and how many calls have no known cost."""
    known = sum((Decimal(cost) for row in rows for cost in row.costs), Decimal(0))
    unpriced = sum(row.unpriced for row in rows)
    return {
        "cost": "unknown" if unpriced and not known else str(known),
        "costText": format_total(known, unpriced),
        "callsOfUnknownCost": unpriced,
    }


def print_compaction(screen: Screen, data: Data) -> None:
    before, after, count = data["tokensBefore"], data["tokensAfter"], len(data["passes"])
    if data["dryRun"] and not count:
        screen.line(f"Nothing would be folded: the context has {before:,} tokens.")
    elif data["dryRun"]:
        screen.title(f"{plural(count, 'summary')} would be written", f"{before:,} → about {after:,} tokens")
    elif data["compacted"]:
        screen.title(f"{plural(len(data['summaryIds']), 'summary')} written", f"{before:,} → {after:,} tokens")
    else:
        reason = styled(f"Nothing was folded: {data['reason']}", "" if data["ok"] else "red")
        screen.line(reason, f" ({before:,} tokens).")
    columns = "depth:right, sources=of:rest, tokens:count, summary=size:right, by"
    screen.items(list(map(_pass_row, data["passes"])), columns)
    is_done = not data["dryRun"] and data["compacted"]
    if is_done:
        if not data["ok"] or data["reason"] != "compacted":
            until = f" Until {data['until']}." if data["until"] else ""
            screen.line(styled(data["reason"].capitalize() + ".", "yellow" if data["ok"] else "red"), until)
        screen.counts(data, {"calls": "made"}, "model call")
    if data.get("advice"):
        screen.line(styled("Next: ", "yellow"), data["advice"])
    if is_done:
        screen.undo(f"lcm summary undo -s {data['conversationId']}", "the last one")


def _pass_row(item: Data) -> Data:
    """A pass as a person sees it: what it folds, how large its summary is, and who wrote that."""
    what = plural(item["sources"], "summary" if item["depth"] else "message")
    row = {**item, "of": f"{what}, {item['firstSource']} … {item['lastSource']}"}
    if "expectedTokens" in item:
        return row | {"size": f"~{item['expectedTokens']:,}", "by": ""}
    if item["summaryTokens"] is None:
        return row | {"size": "", "by": styled("left as it is", "dim")}
    failure = "" if item["failure"] is None else f" ({item['failure']})"
    return row | {"size": f"{item['summaryTokens']:,}", "by": f"{_writer_name(item['model'])}{failure}"}


def print_worker(screen: Screen, data: Data) -> None:
    if not data["items"]:
        screen.line("No compaction is due.")
    if data.get("prepared"):
        screen.line(styled(f"{plural(data['prepared'], 'summary')} written ahead.", "green"))
    for item in data["items"]:
        state = styled("done ", "green") if item["isPaid"] else styled("pending ", "yellow")
        sizes = f", {item['tokensBefore']:,} → {item['tokensAfter']:,} tokens" if item["compacted"] else ""
        again = item["nextAttemptAfter"]
        later = "" if again is None else f"; again after {screen.time(again)}"
        screen.line(state, f"{item['conversationId']} {session_name(item)}: {item['reason']}{sizes}{later}")


def _writer_name(model: str) -> str:
    return "extracted" if model == EXTRACTIVE_MODEL else model


def print_cost(screen: Screen, data: Data) -> None:
    totals = data["totals"]
    since = "ever" if data["since"] is None else f"since {screen.time(data['since'])}"
    screen.title("Summaries", since, "" if data["conversationId"] is None else f"#{data['conversationId']}")
    whole = f"{plural(totals['folds'], 'fold')} in {plural(totals['conversations'], 'conversation')}"
    fields = {
        "spent": totals["costText"] if totals["calls"] else "nothing: no model was called",
        "calls": totals["calls"],
        "tokens": f"{totals['inputTokens']:,} read, {totals['outputTokens']:,} written" if totals["calls"] else "",
        "eachTurnSaves": f"{totals['savedTokensPerTurn']:,} tokens on average, by {whole}",
    }
    screen.gap()
    screen.record(fields)
    screen.gap()
    # a cost leaves room for the name of its model; what is left out stands in the total
    costs: Data = {"cost": lambda row: re.sub(r"(.+) \+ .*", r"at least \1", row["costText"])}
    columns = "model:rest, for=purpose, calls:count, failed:count, read=inputTokens:count, written=outputTokens:count"
    screen.items(data["spent"], f"{columns}, cost:right", **costs)
    if data["spent"] and data["saved"]:
        screen.gap()
    columns = "written by=model:rest, folds:count, tokens saved a turn=savedTokensPerTurn:count"
    screen.items(data["saved"], columns, model=lambda row: _writer_name(row["model"]))
    print_cost_days(screen, data["days"])


#: Settings that options give for this time: the option, the least value, and what it says.
_NUMBERS = {
    "leaf_chunk_tokens": ("--leaf-chunk-tokens", 1, "The most that one summary is made of"),
    "leaf_target_tokens": ("--leaf-target-tokens", 1, "How long a leaf should be"),
    "condensed_target_tokens": ("--condensed-target-tokens", 1, "How long a summary of summaries should be"),
    "leaf_min_fanout": ("--leaf-fanout", 2, "The fewest leaves that are condensed together"),
    "condensed_min_fanout": ("--condensed-fanout", 2, "The fewest summaries above leaves that are condensed together"),
    "condensed_min_fanout_hard": (
        "--hard-fanout", 2, "The fewest that are condensed together when too many tokens are left",
    ),
}  # fmt: skip
number_options = options.gathered(
    "numbers",
    dict,
    *(
        options.number(option, name, minimum=minimum, help=f"{about}; else the setting {camel_case(name)}.")
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
            raise options.bad_option(option, f"such a summary would not be smaller than {chunk}")
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
        if self.model is None and (self.provider, self.base_url, self.prompt_dir) != (None, None, None):
            raise options.usage_error("--provider, --base-url and --prompt-dir are about a model: say --model, too.")
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
        items = []
        for one in planned:
            leaves = sum(work.tokens for work in one.passes if work.kind == "leaf")
            sizes = {"summaries": len(one.passes), "tokens": leaves or sum(work.tokens for work in one.passes)}
            items.append(_named(one) | sizes | {"unfolded": _unfolded(one), "roots": one.roots})
        data: Data = {
            "conversations": len(ids),
            "dryRun": not self.is_real,
            "backup": None,
            "writer": writer,
            "exact": exact,
        }
        data |= {"summaries": sum(item["summaries"] for item in items), "items": items}
        return data | {"title": None, "transplant": None} | after, planned

    def carry_out(self, invocation: Invocation, asked: Settings, planned: list[BackfillPlan], writer: str) -> Data:
        """Ask, fold, then what follows; for the envelope."""
        remaining = self.limit or sys.maxsize
        count = min(sum(len(one.passes) for one in planned), remaining)
        made = f"about {count} summaries in {plural(len(planned), 'conversation')}"
        gone = sum(map(_unfolded, planned))
        instead = f" instead of the {gone} that are there" if gone else ""
        price = f", with {count} or more calls of {writer}" if self.how.may_ask_model else ""
        copied = "" if self.transplant_to is None else f", and copy to conversation {self.transplant_to}"
        options.confirm(f"Make {made}{instead}{price}{copied}?", self.yes)
        items: list[Data] = []
        after: Data = {}
        with invocation.engine(asked, Summariser(asked, prompt_folder=self.prompt_dir)) as engine:
            copy = cache(lambda: engine.admin.copy("backfill").path)
            if any(not one.is_idle for one in planned):
                copy()
            try:
                with invocation.progress("Folding", count) as advance:
                    for one in planned:
                        if remaining > 0:
                            report = backfill_history(
                                engine.loop, one.conversation, self.how, limit=remaining, progress=lambda *_: advance(1)
                            )
                            written = len(report.summary_ids)
                            remaining -= written
                            is_well = report.ok and report.failure is None
                            items.append(_named(one) | to_json(report) | {"summaries": written, "ok": is_well})
            except KeyboardInterrupt:
                hint = "What was folded so far is in place; `lcm backfill` goes on from there, without --recompact."
                raise failures.fail("interrupted", "Interrupted.", failures.INTERRUPTED, hint=hint) from None
            if self.has_follow_up and all(item["ok"] for item in items):
                after = self._follow_up(engine, planned[0].conversation, lambda _label: copy())
            backup = str(copy()) if copy.cache_info().currsize else None
        return {"items": items, "summaries": sum(item["summaries"] for item in items), "backup": backup} | after

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
@options.target_options(required=False)
@options.gathered(
    "run",
    _BackfillRun,
    options.flag("--single-root", help="Continue until one summary covers all except the newest part."),
    options.flag("--recompact", help="Fold again: summaries are first replaced by their messages."),
    options.row_id("--transplant-to", help="Copy the summaries to this conversation afterwards."),
    options.text("--title", help="Give the conversation this title, if it has none."),
    number_options,
    options.number(
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
    options.number("--max-summaries", "limit", help="Make at most this many."),
    apply_options,
)
def backfill(invocation: Invocation, target: ConversationTarget | None, run: _BackfillRun) -> None:
    """Fold the older history of one conversation, or of all, into summaries."""
    asked = run.settings(invocation)
    if target is None and run.has_follow_up:
        raise options.usage_error("--title and --transplant-to are for one conversation: name it with -s.")
    if run.transplant_to is not None and run.limit is not None:
        raise options.usage_error("--transplant-to copies what was folded to its end: leave --max-summaries out.")
    writer = EXTRACTIVE_MODEL if run.model is None else writer_name(asked)
    with invocation.reader(asked) as engine, engine.browse.reading():
        data, planned = run.plan(engine, target, writer)
    if run.is_real and (planned or run.has_follow_up):
        data |= run.carry_out(invocation, asked, planned, writer)
    if screen := invocation.answer("backfill", data, ok=all(item.get("ok", True) for item in data["items"])):
        screen.record({"items": data["items"]})
        if data["dryRun"] and not data["summaries"]:
            screen.line("There is nothing to fold.")
        elif not data["dryRun"]:
            counted = plural(data["conversations"], "conversation")
            screen.line(styled(plural(data["summaries"], "summary"), "bold"), f" in {counted}")
            for failure in dict.fromkeys(item["failure"] for item in data["items"] if item["failure"]):
                helps = "`lcm rewrite --extractive` has a model write what was extracted instead."
                screen.warn(f"The model failed ({failure}). {helps}")
        _print_follow_up(screen, data)
        if data["backup"]:
            back = "`lcm undo` takes back the last one, `lcm restore` all of it."
            screen.note(f"The copy from before is {data['backup']}; {back}")
        if data["dryRun"] and (data["summaries"] or data["title"] or data["transplant"]):
            screen.note(f"Written by: {data['writer']}.")
            screen.unchanged()


def _transplant_json(to: int, status: str, text: str = "", report: OperationReport | None = None) -> Data:
    return {"to": to, "status": status, "text": text, **options.result_json(report)}


def _unfolded(one: BackfillPlan) -> int:
    return 0 if one.unfolded is None else len(one.unfolded.summary_ids)


def _named(one: BackfillPlan) -> Data:
    return pick_json(one.conversation, "conversation_id=id", "session_key")


def _print_follow_up(screen: Screen, data: Data) -> None:
    if data["title"] is not None:
        done = "Then the title would be given." if data["dryRun"] else "The title is given."
        screen.line("It has this title already." if data["title"] == "there" else done)
    if (copied := data["transplant"]) is None:
        return
    print_diff_lines(screen, copied["text"])
    where = f"conversation {copied['to']}"
    outcomes = {
        "there": f"The summaries are in {where} already.",
        "planned": f"Then the summaries would be copied to {where}.",
        "copied": f"The summaries were copied to {where}; `lcm undo --conversation-id {copied['to']}` removes them.",
    }
    screen.line(outcomes[copied["status"]])
