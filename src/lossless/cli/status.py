"""`lcm status`: how much is kept, and whether anything is lost on the way."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless import __version__
from lossless.cli.commands import Command
from lossless.cli.options import depths_json
from lossless.cli.output import pick_json

if TYPE_CHECKING:
    from lossless.cli.commands import Invocation
    from lossless.engine import Engine
    from lossless.model.budget import HistoryBudget
    from lossless.model.records import DepthTotals, IngestHealth

#: Up to this size, what takes the room is always worked out.
_CHEAP_BYTES = 200 * 1024 * 1024
#: Of so many conversations, those whose budget changed last, the history budget is shown.
_BUDGETS = 3


@click.command("status", cls=Command)
@click.option("--room", is_flag=True, help="Say what takes up space, however large the archive is.")
@click.pass_obj
def status(invocation: Invocation, room: bool) -> None:
    """Show how much is kept, and whether anything was lost on the way.

    Last stored and last compacted, seen versus stored, what is refused and why, and what takes up space (for
    archives over 200 MB only with --room, as every page is read for it).
    """
    settings = invocation.loaded.settings
    with invocation.reader() as engine, engine.browse.reading():
        browse = engine.browse
        size, free = browse.size()
        data = {
            "version": __version__,
            "databasePath": browse.path,
            "databaseSizeBytes": size,
            "freeBytes": free,
            "walBytes": _wal_bytes(browse.path),
            "freshTail": {"count": settings.fresh_tail_count, "maxTokens": settings.fresh_tail_max_tokens},
            "historyBudgets": [_budget(id_, budget) for id_, budget in browse.newest_history_budgets(_BUDGETS)],
            "status": _totals_json(engine),
            "withoutModel": _without_model_json(engine),
            "liveness": _liveness_json(browse.health(), datetime.now(UTC))
            | {
                "heldTranscripts": len(engine.transcripts.held()),
                "refusedTranscripts": len(engine.transcripts.refused()),
            },
            "room": browse.bytes_by_kind() if room or size < _CHEAP_BYTES else None,
        }
    invocation.emit("status", data)


def _budget(conversation_id: int, budget: HistoryBudget) -> dict[str, Any]:
    """What of a window is a conversation's, and what it follows from."""
    return {
        "conversationId": conversation_id,
        "tokens": budget.tokens,
        "window": budget.window,
        "beside": budget.beside + budget.frame,
        "reply": budget.reply,
        "factor": round(budget.factor, 3),
    }


def _totals_json(engine: Engine) -> dict[str, Any]:
    totals, depths = engine.browse.totals(), engine.browse.depths()
    return {
        "conversations": {"total": totals.counts.conversations, "active": totals.counts.active},
        "messages": {
            "count": totals.counts.messages,
            "tokens": totals.message_tokens,
            "earliestAt": totals.earliest_at,
            "latestAt": totals.latest_at,
            "undated": totals.undated,
        },
        "summaries": {
            "count": totals.counts.summaries,
            "tokens": sum(depth.tokens for depth in totals.depths),
            "sourceMessageTokens": sum(depth.source_tokens for depth in depths if depth.kind == "leaf"),
            "earliestAt": _edge(totals.depths, "earliest_at", min),
            "latestAt": _edge(totals.depths, "latest_at", max),
            "byDepth": depths_json(depths),
        },
        "context": {"items": totals.context_items, "tokens": totals.context_tokens},
        "maintenance": {"pending": totals.pending, "running": totals.running, "failed": totals.failed},
        "largeFiles": {"count": totals.counts.files},
    }


def _without_model_json(engine: Engine) -> dict[str, Any] | None:
    """What a model would have cost for the summaries, when none is configured to write them."""
    from lossless.llm.estimate import estimate_model

    if engine.loop.summariser.has_model:
        return None
    estimate = estimate_model(engine.browse.depths())
    if estimate is None:
        return None
    counts = pick_json(estimate, "summaries", "input_tokens", "output_tokens", "as_of")
    return {**counts, "costs": {model: float(cost) for model, cost in estimate.costs}, "text": str(estimate)}


def _edge(depths: tuple[DepthTotals, ...], name: str, choose: Any) -> datetime | None:
    times = [at for depth in depths if (at := getattr(depth, name)) is not None]
    return choose(times) if times else None


def _liveness_json(liveness: IngestHealth, now: datetime) -> dict[str, Any]:
    last = liveness.last_stored_at
    counts = pick_json(
        liveness, "last_compacted_at", "seen", "stored", "replayed", "skipped", "ambiguous", "revised", "likely"
    )
    return {
        "lastStoredAt": last,
        "secondsSinceStored": None if last is None else max(0, int((now - last).total_seconds())),
        **counts,
        "quarantined": list(liveness.quarantined),
        "blocked": [
            {"conversationId": id_, "since": since, "reason": reason} for id_, since, reason in liveness.blocked
        ],
    }


def _wal_bytes(path: str) -> int:
    """What is written but not yet moved into the file."""
    wal = Path(f"{path}-wal")
    return wal.stat().st_size if wal.exists() else 0
