"""`lcm cost`: what summaries cost, and what they save."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from lossless.cli.commands import Command
from lossless.cli.options import span_of
from lossless.cli.target import targeted
from lossless.llm.prices import Spend
from lossless.model.times import parse_time
from lossless.store.outline import Outline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.cli.invocation import Invocation
    from lossless.cli.target import Target
    from lossless.store.context import Saved
    from lossless.store.guards import Spent
    from lossless.store.outline import CallDay, FoldDay

_EVER = datetime(1, 1, 1, tzinfo=UTC)


@click.command("cost", cls=Command)
@targeted(required=False)
@click.option("--after", metavar="TIME", help="From this time on: ISO-8601 with a zone, such as 2026-07-01T00:00:00Z.")
@click.option("--recency", metavar="N(s|m|h|d|w)", help="The last seconds, minutes, hours, days or weeks.")
@click.pass_obj
def cost(invocation: Invocation, target: Target | None, after: str | None, recency: str | None) -> None:
    """Show what model calls cost, by model, and how many tokens each turn is smaller for it.

    A price that nobody stated is unknown, never 0. Savings are those of the folds in that time: what they took out
    of the context is missing from every prompt since.
    """
    span = span_of(after, None, None, recency, datetime.now(UTC))
    since = _EVER if span is None or span.since is None else parse_time(span.since)
    with invocation.archive() as archive, archive.reading():
        id_ = None if target is None else target.need(archive).id
        spent = archive.guards.spent(since, id_)
        saved = archive.context.saved(since, id_)
        outline = Outline(archive.database)
        days = _days(outline.calls_by_day(since, id_), outline.folds_by_day(since, id_))
    data = {
        "conversationId": id_,
        "since": None if since is _EVER else since,
        "spent": [_row(row) for row in spent],
        "saved": _by_model(saved),
        "days": days,
        "totals": {
            "calls": sum(row.calls for row in spent),
            "inputTokens": sum(row.input_tokens for row in spent),
            "outputTokens": sum(row.output_tokens for row in spent),
            **_money(_spend(spent)),
            **_savings(saved),
        },
    }
    invocation.emit("cost", data)


def _days(calls: list[CallDay], folds: list[FoldDay]) -> list[dict[str, Any]]:
    """Every day from the first to the last on which something happened; days in between are there, too."""
    asked, folded = {row.day: row for row in calls}, {row.day: row for row in folds}
    known = sorted(day for day in {*asked, *folded} if _is_day(day))
    if not known:
        return []
    first, last = date.fromisoformat(known[0]), date.fromisoformat(known[-1])
    rows = []
    for number in range((last - first).days + 1):
        day = (first + timedelta(days=number)).isoformat()
        call, fold = asked.get(day), folded.get(day)
        rows.append(
            {
                "day": day,
                "calls": call.calls if call else 0,
                "inputTokens": call.input_tokens if call else 0,
                "outputTokens": call.output_tokens if call else 0,
                **_money(_spend([call] if call else [])),
                "folds": fold.folds if fold else 0,
                "savedTokens": fold.tokens if fold else 0,
            }
        )
    return rows


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _by_model(saved: list[Saved]) -> list[dict[str, Any]]:
    models = sorted({row.model for row in saved})
    return [{"model": model, **_savings([row for row in saved if row.model == model])} for model in models]


def _savings(saved: list[Saved]) -> dict[str, Any]:
    """What folds took out of contexts: in all, and on average from each later turn of a conversation."""
    tokens, conversations = sum(row.tokens for row in saved), len({row.conversation_id for row in saved})
    return {
        "folds": sum(row.folds for row in saved),
        "conversations": conversations,
        "savedTokens": tokens,
        "savedTokensPerTurn": round(tokens / conversations) if conversations else 0,
    }


def _row(row: Spent) -> dict[str, Any]:
    return {
        "model": row.model,
        "purpose": row.purpose,
        "calls": row.calls,
        "done": row.done,
        "failed": row.failed,
        "inputTokens": row.input_tokens,
        "outputTokens": row.output_tokens,
        **_money(_spend([row])),
    }


def _money(spend: Spend) -> dict[str, Any]:
    """Dollars as exact text; None where nothing is known, and how many calls that leaves out."""
    is_unknown = spend.unknown_calls > 0 and not spend.known
    return {
        "cost": "unknown" if is_unknown else str(spend.known),
        "costText": str(spend),
        "callsOfUnknownCost": spend.unknown_calls,
    }


def _spend(rows: Sequence[Spent] | Sequence[CallDay]) -> Spend:
    """What the calls of some lines cost in all: the known costs, and how many calls have none."""
    known = (Decimal(cost) for row in rows for cost in row.costs)
    return Spend(sum(known, Decimal(0)), sum(row.unpriced for row in rows))
