"""`lcm worker`: pays what conversations owe, once or again and again."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from lossless.cli.commands import Command
from lossless.cli.compact import outcome
from lossless.cli.failures import printable
from lossless.compaction.summariser import Summariser
from lossless.errors import ArchiveLocked
from lossless.store.symptoms import Symptoms

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from lossless.cli.invocation import Invocation
    from lossless.compaction.run import CompactionReport
    from lossless.engine import Engine


@click.command("worker", cls=Command)
@click.option(
    "--watch",
    metavar="SECONDS",
    type=click.FloatRange(0.05, 86_400),
    help="Look again every so many seconds, until interrupted.",
)
@click.option("--no-model", is_flag=True, help="Ask no model: extract all summaries.")
@click.pass_obj
def worker(invocation: Invocation, watch: float | None, no_model: bool) -> None:
    """Pay the debts that are due in all conversations: sweeps that were put off. Then, describe stored files.

    With the setting prepareSummaries, the summaries that the next sweeps will need are written as well.
    Before that, a file that lossless-claw has written is brought up to date, and its rows are indexed.

    A debt that cannot be paid stays, with its reason; `lcm debt` shows it. With --watch there is an answer for
    every round that did something, and an interrupt or a termination signal counts as success. Several workers may
    run at the same time: one conversation is worked on by one of them.
    """
    with invocation.archive() as archive:
        owed = len(archive.debts.pending())
        has_files = not no_model and bool(Summariser(invocation.loaded.settings).describers)
        has_files = has_files and archive.files.count_plain() > 0
        prepares = _prepares(invocation, may_ask_model=not no_model)
        is_behind = any(archive.index.unindexed(1)) or Symptoms(archive.database).schema() is None
    if watch is not None:
        if invocation.shows_progress:
            click.echo("Waiting for debts; end with Ctrl-C.", err=True)
        with _endings(), invocation.engine() as engine:
            engine.archive.catch_up()
            _watch(invocation, engine, watch, may_ask_model=not no_model)
        return
    items: list[dict[str, Any]] = []
    prepared = 0
    if owed or has_files or is_behind or prepares:
        with _progress(invocation, owed) as advance, invocation.engine() as engine:
            engine.archive.catch_up()
            items = _round(engine, advance, may_ask_model=not no_model)
            prepared = engine.admin.prepare_summaries() if prepares else 0
    invocation.emit("worker", _data(items, prepared if prepares else None))


def _prepares(invocation: Invocation, *, may_ask_model: bool) -> bool:
    settings = invocation.loaded.settings
    return may_ask_model and settings.prepare_summaries and Summariser(settings).has_model


def _watch(invocation: Invocation, engine: Engine, seconds: float, *, may_ask_model: bool) -> None:
    """Rounds for ever; a file that others hold for long is tried again next time."""
    prepares = _prepares(invocation, may_ask_model=may_ask_model)
    while True:
        items, prepared = [], 0
        try:
            items = _round(engine, None, may_ask_model=may_ask_model)
            prepared = engine.admin.prepare_summaries() if prepares else 0
        except ArchiveLocked as error:
            click.secho(printable(f"Warning: {error}"), fg="yellow", err=True)
        if items or prepared:
            invocation.emit("worker", _data(items, prepared if prepares else None))
        time.sleep(seconds)


def _round(engine: Engine, advance: Any, *, may_ask_model: bool) -> list[dict[str, Any]]:
    """Pay what is due now, and say what came of each debt; those that are not due yet are left out."""
    paid = engine.admin.run_pending(may_ask_model=may_ask_model, progress=lambda *_: advance and advance(1))
    return [_item(engine, id_, report) for id_, report in paid if report is not None]


def _progress(invocation: Invocation, owed: int) -> Any:
    if not invocation.shows_progress:
        return nullcontext()
    from lossless.cli.progress import counting

    return counting("Paying", owed)


def _item(engine: Engine, conversation_id: int, report: CompactionReport) -> dict[str, Any]:
    conversation, left = engine.archive.conversations.get(conversation_id), engine.loop.debt(conversation_id)
    return {
        "conversationId": conversation_id,
        "sessionKey": conversation.session_key,
        "sessionId": conversation.session_id,
        **outcome(report),
        "isPaid": not left.pending,
        "nextAttemptAfter": left.next_attempt_after,
    }


def _data(items: list[dict[str, Any]], prepared: int | None) -> dict[str, Any]:
    """What came of a round; `prepared` only where summaries are written ahead."""
    data: dict[str, Any] = {"items": items, "paid": sum(item["isPaid"] for item in items)}
    return data if prepared is None else data | {"prepared": prepared}


@contextmanager
def _endings() -> Iterator[None]:
    """An interrupt and the signal to end are the way a watch ends, not a failure."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
