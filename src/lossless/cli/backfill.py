"""`lcm backfill`: the summaries of what was imported."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from lossless.cli.commands import Command
from lossless.cli.compact import outcome
from lossless.cli.options import selector
from lossless.cli.plain import backups, looking, open_engine
from lossless.cli.writer import Named, reachable, writer_of
from lossless.compaction import plan
from lossless.compaction.loop import Situation
from lossless.compaction.policy import first_import_policy
from lossless.engine import Engine
from lossless.model.summaries import EXTRACTIVE_MODEL

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.cli.options import Selection
    from lossless.compaction.plan import Pass
    from lossless.model.conversations import Conversation
    from lossless.store.archive import Archive


@click.command("backfill", cls=Command)
@selector(required=False)
@click.option(
    "--model",
    metavar="[NAME]",
    is_flag=False,
    flag_value="",
    help="Have the configured model write them, or PROVIDER/MODEL; else they are extracted.",
)
@click.option("--max-summaries", "most", metavar="N", type=click.IntRange(1), help="Make at most so many in all.")
@click.option("--dry-run", is_flag=True, help="Only say how many summaries would be made.")
@click.pass_obj
def backfill(invocation: Invocation, selection: Selection, model: str | None, most: int | None, dry_run: bool) -> None:
    """Fold the older history of one conversation, or of all, so that everything is below summaries.

    The newest part of each stays as it is (the setting bootstrapMaxTokens). A copy of the archive is made first; each
    summary is in place when it is written, and `lcm undo` takes the last one back. Extraction uses all cores for long
    histories; a model is asked within its spending limit (summaryMaxCallsPerWindow), and what is left over then is
    folded when the command runs again.
    """
    asked = reachable(invocation, Named(model or None))
    with looking(invocation) as archive, archive.reading():
        reader = Engine(archive, asked, background=False)
        chosen = selection.find(archive)
        ids = [chosen] if chosen is not None else archive.conversations.active_ids()
        planned = [
            (conversation, _passes(reader, conversation)) for conversation in map(archive.conversations.get, ids)
        ]
    planned = [(conversation, passes[:most]) for conversation, passes in planned if passes]
    count = sum(len(passes) for _, passes in planned)
    data: dict[str, Any] = {
        "conversations": len(ids),
        "dryRun": dry_run,
        "backup": None,
        "writer": EXTRACTIVE_MODEL if model is None else writer_of(asked),
        "summaries": count if most is None else min(count, most),
        "items": [_plan(conversation, passes) for conversation, passes in planned],
    }
    if not dry_run and planned:
        with open_engine(invocation, asked=asked) as engine, _progress(invocation, len(planned)) as advance:
            data["backup"] = str(backups(engine)("backfill"))
            may_ask = model is not None
            items = _fold_all(engine, [known for known, _ in planned], may_ask=may_ask, most=most, advance=advance)
        data |= {"items": items, "summaries": sum(item["summaries"] for item in items)}
    invocation.emit("backfill", data)


def _passes(reader: Engine, conversation: Conversation) -> list[Pass]:
    """The summaries that would be made of a history, if each has its expected size."""
    archive: Archive = reader.archive
    if archive.context_tokens(conversation.id) <= reader.settings.bootstrap_max_tokens:
        return []
    situation = Situation(conversation, reader.settings.default_token_budget)
    policy = first_import_policy(reader.loop.policy(situation))
    context, calls = archive.context.items(conversation.id), archive.context.call_ids(conversation.id)
    state = plan.begin_sweep(context, policy, reader.loop.evaluate(situation))
    return plan.dry_run(context, policy, state, call_ids=calls)


def _plan(conversation: Conversation, passes: list[Pass]) -> dict[str, Any]:
    before = sum(work.tokens for work in passes if work.kind == "leaf")
    return {
        "conversationId": conversation.id,
        "sessionKey": conversation.session_key,
        "summaries": len(passes),
        "tokens": before,
    }


def _fold_all(
    engine: Engine, conversations: list[Conversation], *, may_ask: bool, most: int | None, advance: Any
) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    left = most
    for conversation in conversations:
        report = None if left == 0 else engine.fold_import(conversation, may_ask_model=may_ask, most=left)
        if report is not None:
            made = len(report.summary_ids)
            left = None if left is None else max(0, left - made)
            session = {"conversationId": conversation.id, "sessionKey": conversation.session_key}
            items.append(session | outcome(report) | {"summaries": made})
        if advance:
            advance(1)
    return items


def _progress(invocation: Invocation, total: int) -> Any:
    if not invocation.shows_progress:
        return nullcontext()
    from lossless.cli.progress import counting

    return counting("Folding", total)
