"""`lcm backfill`: the summaries of what was imported."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from lossless.cli.commands import Command
from lossless.cli.compact import outcome
from lossless.cli.options import selector
from lossless.cli.plain import backups, looking, open_engine
from lossless.cli.writer import Named, reachable, writer_of
from lossless.compaction import plan
from lossless.compaction.escalate import Source, summarise
from lossless.compaction.loop import Situation
from lossless.compaction.policy import first_import_policy
from lossless.compaction.source_text import Line, Section, line_of, section_of
from lossless.engine import Engine
from lossless.model.context import MessageItem, SummaryItem
from lossless.model.summaries import EXTRACTIVE_MODEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lossless.cli.invocation import Invocation
    from lossless.cli.options import Selection
    from lossless.compaction.escalate import Written
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
        known = [archive.conversations.get(id_) for id_ in ids]
        planned = _planned(reader, known, extracts=model is None and dry_run, most=most if dry_run else None)
    data: dict[str, Any] = {
        "conversations": len(ids),
        "dryRun": dry_run,
        "backup": None,
        "writer": EXTRACTIVE_MODEL if model is None else writer_of(asked),
        "exact": model is None and dry_run,
        "summaries": sum(len(passes) for _, passes in planned),
        "items": [_plan(conversation, passes) for conversation, passes in planned],
    }
    if not dry_run and planned:
        with open_engine(invocation, asked=asked) as engine, _progress(invocation, len(planned)) as advance:
            data["backup"] = str(backups(engine)("backfill"))
            may_ask = model is not None
            items = _fold_all(engine, [one for one, _ in planned], may_ask=may_ask, most=most, advance=advance)
        data |= {"items": items, "summaries": sum(item["summaries"] for item in items)}
    invocation.emit("backfill", data)


def _planned(
    reader: Engine, conversations: list[Conversation], *, extracts: bool, most: int | None
) -> list[tuple[Conversation, list[Pass]]]:
    """The summaries that would be made, at most so many in all."""
    planned: list[tuple[Conversation, list[Pass]]] = []
    left = most
    for conversation in conversations:
        passes = list(islice(_passes(reader, conversation, extracts=extracts), left))
        left = None if left is None else left - len(passes)
        if passes:
            planned.append((conversation, passes))
    return planned


def _passes(reader: Engine, conversation: Conversation, *, extracts: bool) -> Iterator[Pass]:
    """The summaries that would be made of a history: if each has its expected size, or its real one when extracted."""
    archive: Archive = reader.archive
    if archive.context_tokens(conversation.id) <= reader.settings.bootstrap_max_tokens:
        return
    situation = Situation(conversation, reader.settings.default_token_budget)
    policy = first_import_policy(reader.loop.policy(situation))
    context, calls = archive.context.items(conversation.id), archive.context.call_ids(conversation.id)
    state = plan.begin_sweep(context, policy, reader.loop.evaluate(situation))
    if not extracts:
        yield from plan.dry_run(context, policy, state, call_ids=calls)
        return
    sizes, wording = reader.loop.summariser.sizes, reader.loop.summariser.wording
    made: dict[str, Section] = {}
    while work := plan.next_pass(context, policy, state, call_ids=calls):
        source = _source(reader, work, made)
        written = summarise(source, sizes=sizes, wording=wording)
        if written is None:
            is_blank = not any(part.is_meaningful for part in source.parts)
            state = (plan.after_blank if is_blank else plan.after_unshrinkable)(state, work)
            continue
        name = f"planned-{len(made) + 1}"
        made[name] = _section(source, written)
        context = list(plan.folded(context, work, name, written.tokens))
        state = plan.after_pass(state, work, name, written.tokens)
        yield work


def _source(reader: Engine, work: Pass, made: dict[str, Section]) -> Source:
    """What a pass is about; what only would be there is taken from `made`."""
    archive, tags = reader.archive, reader.settings.strip_injected_context_tags
    messages = archive.messages.many([item.message_id for item in work.items if isinstance(item, MessageItem)])
    ids = [item.summary_id for item in work.items if isinstance(item, SummaryItem)]
    there = {one.id: section_of(one) for one in archive.summaries.many([id_ for id_ in ids if id_ not in made])}
    lines = tuple(line_of(message, tags) for message in messages)
    return Source(lines or tuple((made | there)[id_] for id_ in ids), work.depth, work.tokens)


def _section(source: Source, written: Written) -> Section:
    spans = [
        (part.created_at, part.created_at) if isinstance(part, Line) else (part.earliest_at, part.latest_at)
        for part in source.parts
    ]
    first = min((at for at, _ in spans if at is not None), default=None)
    last = max((at for _, at in spans if at is not None), default=None)
    return Section(first, last, written.text, written.file_ids)


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
