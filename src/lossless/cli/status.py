"""`lcm status`: how much is kept, and whether anything is lost on the way."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless import __version__
from lossless.cli.commands import Invocation, command
from lossless.cli.conversations import ago_and_time, depth_rows, ingest_rows
from lossless.cli.options import ConversationTarget, depths_json, target_options, usage_error, when_option
from lossless.cli.output import pick_json, to_json
from lossless.cli.screen import Data, Screen, styled
from lossless.tui.text import format_bytes, plural

if TYPE_CHECKING:
    from lossless.engine import Engine

#: Up to this size, what takes the room is always worked out.
_CHEAP_BYTES = 200 * 1024 * 1024
#: Of so many conversations, those that changed last, the history budget and the prompt cache are shown.
_BUDGETS = 3


@command("status")
@click.option("--room", is_flag=True, help="Say what takes up space, however large the archive is.")
@click.option("--size", "wants_size", is_flag=True, help="Only what takes up space, and what could be deleted.")
@click.option("--cost", "wants_cost", is_flag=True, help="Only what summaries cost, and what they save.")
@target_options(required=False)
@when_option("--since", "With --cost: from this time on: 2026-07-01, yesterday, 30d.")
def status(
    invocation: Invocation,
    room: bool,
    wants_size: bool,
    wants_cost: bool,
    target: ConversationTarget | None,
    since: datetime | None,
) -> None:
    """Show how much is stored, whether anything was lost, and what takes up space.

    Sizes are shown for archives of up to 200 MB, and with --room for larger ones: every page is read for them. With
    --cost, -s and --since limit what is counted.
    """
    if wants_cost:
        from lossless.cli.compact import emit_cost

        emit_cost(invocation, target, since)
        return
    if target is not None or since is not None:
        raise usage_error("-s and --since go with --cost; `lcm show --details` is about one conversation.")
    if wants_size:
        from lossless.cli.retention import size as show_size

        click.get_current_context().invoke(show_size)
        return
    settings = invocation.loaded.settings
    with invocation.reader() as engine, engine.browse.reading():
        browse = engine.browse
        size, free = browse.size()
        wal = Path(f"{browse.path}-wal")
        data = {
            "version": __version__,
            "databasePath": browse.path,
            "databaseSizeBytes": size,
            "freeBytes": free,
            "walBytes": wal.stat().st_size if wal.exists() else 0,
            "freshTail": {"count": settings.fresh_tail_count, "maxTokens": settings.fresh_tail_max_tokens},
            "historyBudgets": [
                {
                    "conversationId": id_,
                    **pick_json(budget, "tokens", "window"),
                    "beside": budget.overhead + budget.frame,
                    "reply": budget.reply,
                    "factor": round(budget.factor, 3),
                }
                for id_, budget in browse.newest_history_budgets(_BUDGETS)
            ],
            "promptCaches": [
                {"conversationId": id_, **to_json(seen)} for id_, seen in browse.newest_cache_telemetry(_BUDGETS)
            ],
            "status": _totals_json(engine),
            "withoutModel": _without_model_json(engine),
            "liveness": _liveness_json(engine),
            "room": browse.bytes_by_kind() if room or size < _CHEAP_BYTES else None,
        }
    invocation.emit("status", print_status, data)


def _totals_json(engine: Engine) -> Data:
    totals, depths = engine.browse.totals(), engine.browse.depths()
    return {
        "conversations": {"total": totals.counts.conversations, "active": totals.counts.active},
        "messages": {
            "count": totals.counts.messages,
            "tokens": totals.message_tokens,
            **pick_json(totals, "earliest_at", "latest_at", "undated"),
        },
        "summaries": {
            "count": totals.counts.summaries,
            "tokens": sum(depth.tokens for depth in totals.depths),
            "sourceMessageTokens": sum(depth.source_tokens for depth in depths if depth.kind == "leaf"),
            "earliestAt": min((at for depth in totals.depths if (at := depth.earliest_at)), default=None),
            "latestAt": max((at for depth in totals.depths if (at := depth.latest_at)), default=None),
            "byDepth": depths_json(depths),
        },
        "context": {"items": totals.context_items, "tokens": totals.context_tokens},
        "maintenance": pick_json(totals, "pending", "running", "failed"),
        "largeFiles": {"count": totals.counts.files},
    }


def _without_model_json(engine: Engine) -> Data | None:
    from lossless.llm.completion import estimate_model

    estimate = None if engine.loop.summariser.has_model else estimate_model(engine.browse.depths())
    if estimate is None:
        return None
    counts = pick_json(estimate, "summaries", "input_tokens", "output_tokens", "as_of")
    return {**counts, "costs": {model: float(cost) for model, cost in estimate.costs}, "text": str(estimate)}


def _liveness_json(engine: Engine) -> Data:
    liveness, now = engine.browse.health(), datetime.now(UTC)
    last, counts = liveness.last_stored_at, ("seen", "stored", "replayed", "skipped", "ambiguous", "revised", "likely")
    return {
        "lastStoredAt": last,
        "secondsSinceStored": None if last is None else max(0, int((now - last).total_seconds())),
        **pick_json(liveness, "last_compacted_at", *counts, "quarantined"),
        "blocked": [
            {"conversationId": id_, "since": since, "reason": reason} for id_, since, reason in liveness.blocked
        ],
        "heldTranscripts": len(engine.transcripts.held()),
        "refusedTranscripts": len(engine.transcripts.refused()),
    }


def print_status(screen: Screen, data: Data) -> None:
    totals, live = data["status"], data["liveness"]
    size = f"{format_bytes(data['databaseSizeBytes'])}, {format_bytes(data['freeBytes'])} free"
    screen.title(f"lossless {data['version']}", data["databasePath"], size)
    screen.gap()
    last, compacted, blocks = live["lastStoredAt"], live["lastCompactedAt"], len(live["blocked"])
    messages, summaries, held = totals["messages"], totals["summaries"], totals["conversations"]
    below = f" for {summaries['sourceMessageTokens']:,}" if summaries["count"] else ""
    tail, cap = data["freshTail"], data["freshTail"]["maxTokens"]
    debts = [f"{count:,} {name}" for name, count in totals["maintenance"].items() if count]
    span = f"{screen.time(messages['earliestAt'])} … {screen.time(messages['latestAt'])}"
    span = "none yet" if messages["earliestAt"] is None else span
    undated = f"{plural(messages['undated'], 'message')}: their time cannot be read"
    screen.fields(
        (
            ("Last stored", ago_and_time(screen, last)),
            ("Last compacted", ago_and_time(screen, compacted)),
            *ingest_rows(live),
            ("Blocked", styled(f"{blocks:,}", "bold red") if blocks else styled("none", "green")),
            *_held_rows(live["heldTranscripts"], "transcript", "held back", "bold red"),
            *_held_rows(live["refusedTranscripts"], "transcript", "refused", "dim"),
            *_held_rows(len(live["quarantined"]), "conversation", "quarantined", "bold red"),
            ("Compaction", f"{', '.join(debts)}; `lcm worker` runs them" if debts else "none pending"),
            ("", ""),
            ("Conversations", f"{held['total']:,}, {held['active']:,} active"),
            ("Messages", f"{messages['count']:,}, {messages['tokens']:,} tokens"),
            ("  from", span),
            *([("  undated", styled(undated, "yellow"))] if messages["undated"] else []),
            ("Summaries", f"{summaries['count']:,}, {summaries['tokens']:,} tokens{below}"),
            *depth_rows(summaries["byDepth"]),
            ("Context", f"{plural(totals['context']['items'], 'item')}, {totals['context']['tokens']:,} tokens"),
            ("Fresh tail", f"{plural(tail['count'], 'message')}{'' if cap is None else f', {cap:,} tokens'}"),
            *_budget_rows(data["historyBudgets"]),
            *_cache_rows(screen, data["promptCaches"]),
        )
    )
    for blocked in live["blocked"]:
        screen.gap()
        since = screen.time(blocked["since"])
        screen.line(styled(f"Conversation {blocked['conversationId']} is blocked since {since}:", "red"))
        screen.prose(blocked["reason"])
    if data["withoutModel"]:
        screen.gap()
        screen.prose(data["withoutModel"]["text"])
    if data["room"]:
        screen.gap()
        screen.bars(list(data["room"].items()))


def _budget_rows(known: list[Data]) -> list[tuple[str, str]]:
    rows = []
    for n, one in enumerate(known):
        rest = f"other {one['beside']:,}, reply {one['reply']:,}, factor {one['factor']:.2f}"
        text = f"conversation {one['conversationId']}: {one['tokens']:,} of {one['window']:,} tokens ({rest})"
        rows.append(("" if n else "History budget", text))
    return rows


def _cache_rows(screen: Screen, known: list[Data]) -> list[tuple[str, str]]:
    rows = []
    for n, one in enumerate(known):
        prompt, read = one["lastObservedPromptTokenCount"], one["lastObservedCacheRead"]
        share = f", {read:,} of {prompt:,} tokens read from it" if prompt and read else ""
        cold = one["consecutiveColdObservations"]
        streak = f"; cold {plural(cold, 'time')} in a row" if cold > 1 else ""
        when = f", {screen.ago(one['lastApiCallAt'])}" if one["lastApiCallAt"] else ""
        text = f"conversation {one['conversationId']}: {one['cacheState']}{share}{streak}{when}"
        rows.append(("" if n else "Prompt cache", text))
    return rows


def _held_rows(count: int, noun: str, what: str, style: str) -> list[tuple[str, Any]]:
    text = f"{plural(count, noun)} {what}; see `lcm session {'transcripts' if noun == 'transcript' else 'quarantine'}`"
    return [("", styled(text, style))] if count else []
