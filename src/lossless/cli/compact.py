"""`lcm compact`: fold older history now."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.commands import Command
from lossless.cli.options import wrong
from lossless.cli.target import budget_option, targeted
from lossless.compaction.loop import Situation
from lossless.compaction.plan import expected_tokens
from lossless.engine import Engine
from lossless.model.context import MessageItem

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.cli.invocation import Invocation
    from lossless.cli.target import Target
    from lossless.compaction.escalate import Written
    from lossless.compaction.plan import Pass
    from lossless.compaction.run import CompactionReport
    from lossless.compaction.trigger import Decision
    from lossless.model.conversations import Conversation


@click.command("compact", cls=Command)
@targeted()
@budget_option
@click.option("--dry-run", is_flag=True, help="Only say which summaries would be written.")
@click.option(
    "--until",
    metavar="N",
    type=click.IntRange(1, 1_000_000_000),
    help="Continue until the context has at most this many tokens.",
)
@click.option("--if-needed", is_flag=True, help="Do nothing unless the context is over its threshold.")
@click.pass_context
def compact(
    ctx: click.Context, target: Target, budget: int | None, dry_run: bool, until: int | None, if_needed: bool
) -> None:
    """Fold older history into summaries now, whether or not the context is over its threshold.

    What is folded stays in the archive, below its summary. The fresh tail stays as it is. A configured model
    writes the summaries; without one, or where it fails, they are extracted. Each summary is in place when it is
    written: interrupting loses nothing. Exit code 1 when the context is still larger than it should be.
    """
    if until is not None and if_needed:
        raise wrong("--until and --if-needed both say when to stop; give one of them.")
    invocation: Invocation = ctx.obj
    with invocation.archive() as archive, archive.reading():
        reader = Engine(archive, invocation.loaded.settings, background=False)
        conversation = target.need_active(archive)
        situation = Situation(conversation, budget or reader.settings.default_token_budget)
        decision = reader.loop.evaluate(situation)
        force = not if_needed and until is None
        passes = reader.loop.dry_run(situation, force=force, until=until)
        before = archive.context_tokens(conversation.id)
    if dry_run:
        invocation.emit("compact", _planned(conversation, decision, passes, before))
        return
    done: list[dict[str, Any]] = []
    with _progress(invocation, len(passes) if until is None else None) as advance, invocation.engine() as engine:
        record = _recorder(done, advance)
        try:
            report = engine.compact(conversation, budget=budget, force=force, until=until, progress=record)
        except KeyboardInterrupt:
            hint = f"What was folded so far ({len(done)}) is in place; `lcm compact` goes on from there."
            raise failures.fail("interrupted", "Interrupted.", failures.INTERRUPTED, hint=hint) from None
        size = engine.archive.context_budget(conversation.id)
    data = _data(conversation, decision, done) | outcome(report, before)
    is_small = report.ok and decision.is_under(size)
    invocation.emit("compact", data, ok=is_small)
    ctx.exit(failures.OK if is_small else failures.INTERNAL)


def _recorder(
    done: list[dict[str, Any]], advance: Callable[[int], None] | None
) -> Callable[[Pass, Written | None], None]:
    """Keeps in `done` what each pass came to, and moves the bar."""

    def record(work: Pass, written: Written | None) -> None:
        done.append(_pass(work) | _written(written))
        if advance:
            advance(1)

    return record


def _progress(invocation: Invocation, expected: int | None) -> Any:
    if not invocation.shows_progress:
        return nullcontext()
    from lossless.cli.progress import counting

    return counting("Folding", expected)


def _planned(conversation: Conversation, decision: Decision, passes: list[Pass], before: int) -> dict[str, Any]:
    planned = [_pass(work) | {"expectedTokens": expected_tokens(work)} for work in passes]
    after = before - sum(item["tokens"] - item["expectedTokens"] for item in planned)
    return _data(conversation, decision, planned) | {
        "dryRun": True,
        "tokensBefore": before,
        "tokensAfter": after,
    }


def _data(conversation: Conversation, decision: Decision, passes: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "conversationId": conversation.id,
        "sessionKey": conversation.session_key,
        "dryRun": False,
        "budget": decision.budget,
        "threshold": decision.target_tokens,
        "passes": passes,
    }


def _pass(work: Pass) -> dict[str, Any]:
    first, last = (
        f"msg#{item.message_id}" if isinstance(item, MessageItem) else item.summary_id
        for item in (work.items[0], work.items[-1])
    )
    return {
        "kind": work.kind,
        "depth": work.depth,
        "sources": len(work.items),
        "firstSource": first,
        "lastSource": last,
        "tokens": work.tokens,
    }


def _written(written: Written | None) -> dict[str, Any]:
    """What a pass came to; a source that nothing makes smaller stays as it is."""
    if written is None:
        return {"summaryTokens": None, "level": None, "model": None, "calls": 0, "failure": None}
    return {
        "summaryTokens": written.tokens,
        "level": written.level,
        "model": written.model,
        "calls": written.calls,
        "failure": written.failure,
    }


def outcome(report: CompactionReport, stored_tokens: int = 0) -> dict[str, Any]:
    """What a compaction came to; one that did not begin leaves the context as it is stored."""
    return {
        "ok": report.ok,
        "compacted": report.compacted,
        "reason": report.reason,
        "tokensBefore": report.tokens_before or stored_tokens,
        "tokensAfter": report.tokens_after or stored_tokens,
        "summaryIds": list(report.summary_ids),
        "calls": report.calls,
        "exhausted": report.exhausted,
        "stop": report.stop,
        "until": report.until,
    }
