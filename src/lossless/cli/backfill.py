"""`lcm backfill`: the summaries of what was imported."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from lossless.cli.commands import Command
from lossless.cli.compact import outcome
from lossless.cli.options import selector

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.cli.options import Selection
    from lossless.engine import Engine


@click.command("backfill", cls=Command)
@selector(required=False)
@click.option("--model", "may_ask", is_flag=True, help="Have the configured model write them; else they are extracted.")
@click.option("--max-summaries", "most", metavar="N", type=click.IntRange(1), help="Make at most so many in all.")
@click.pass_obj
def backfill(invocation: Invocation, selection: Selection, may_ask: bool, most: int | None) -> None:
    """Fold the older history of one conversation, or of all, so that everything is below summaries.

    The newest part of each stays as it is (the setting bootstrapMaxTokens). Extraction uses all cores for long
    histories; a model is asked within its spending limit (summaryMaxCallsPerWindow), and what is left over then is
    folded when the command runs again.
    """
    with invocation.engine() as engine:
        chosen = selection.find(engine.archive)
        ids = [chosen] if chosen is not None else engine.archive.conversations.active_ids()
        with _progress(invocation, len(ids)) as advance:
            items = _fold_all(engine, ids, may_ask=may_ask, most=most, advance=advance)
    made = sum(item["summaries"] for item in items)
    invocation.emit("backfill", {"conversations": len(ids), "summaries": made, "items": items})


def _fold_all(engine: Engine, ids: list[int], *, may_ask: bool, most: int | None, advance: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    left = most
    for id_ in ids:
        conversation = engine.archive.conversations.get(id_)
        report = None if left == 0 else engine.fold_import(conversation, may_ask_model=may_ask, most=left)
        if report is not None:
            made = len(report.summary_ids)
            left = None if left is None else max(0, left - made)
            session = {"conversationId": id_, "sessionKey": conversation.session_key}
            items.append(session | outcome(report) | {"summaries": made})
        if advance:
            advance(1)
    return items


def _progress(invocation: Invocation, total: int) -> Any:
    if not invocation.shows_progress:
        return nullcontext()
    from lossless.cli.progress import counting

    return counting("Folding", total)
