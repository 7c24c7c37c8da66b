"""`lcm stub`: files for older answers of tools, so that short references may stand for them in prompts."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from lossless.cli.commands import Command
from lossless.cli.options import selector, wrong
from lossless.cli.output import preview
from lossless.cli.toolbox import vault_of
from lossless.files.stub import DEFAULT_THRESHOLD_BYTES
from lossless.store.archive import Archive
from lossless.surgery import stub as surgery

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.cli.options import Selection
    from lossless.files.stub import StubPlan

#: How many messages are listed; the others are counted.
_SHOWN = 50
_COUNT = click.IntRange(1, 1_000_000_000)


@click.command("stub", cls=Command)
@selector(required=False)
@click.option(
    "--min-bytes",
    metavar="N",
    type=_COUNT,
    help=f"The smallest size to consider.  [default: {DEFAULT_THRESHOLD_BYTES}]",
)
@click.option("--limit", metavar="N", type=_COUNT, help="At most this many, the oldest first.")
@click.option("--revert", is_flag=True, help="Remove the marks again instead.")
@click.option("--apply", "is_real", is_flag=True, help="Do it; without this, only say what would be done.")
@click.pass_obj
def stub(
    invocation: Invocation,
    selection: Selection,
    min_bytes: int | None,
    limit: int | None,
    revert: bool,
    is_real: bool,
) -> None:
    """Give large tool results that are already stored files of their own.

    No message changes: each gets a mark that its text also lies in a file, and with the setting
    stubLargeToolPayloads prompts show a short reference in its place. --revert takes marks and rows away; `lcm files
    gc` then deletes the files.
    """
    if revert and (min_bytes, limit) != (None, None):
        raise wrong("--revert takes all marks away; --min-bytes and --limit do not go with it.")
    if revert:
        data = _revert(invocation, selection, is_real=is_real)
    else:
        data = _stub(invocation, selection, min_bytes or DEFAULT_THRESHOLD_BYTES, limit, is_real=is_real)
    invocation.emit("stub", {"applied": is_real, "reverted": revert} | data)


def _stub(
    invocation: Invocation, selection: Selection, least: int, limit: int | None, *, is_real: bool
) -> dict[str, Any]:
    with invocation.archive() as archive:
        id_ = selection.find(archive)
        work = surgery.plan(archive, threshold_bytes=least, conversation_id=id_, limit=limit)
    vault = vault_of(invocation)
    data = {
        "conversationId": id_,
        "folder": str(vault.root),
        "minBytes": least,
        "count": len(work.outputs),
        "bytes": work.bytes,
        "left": work.left,
        "items": _items(work),
    }
    if is_real and work.outputs:
        with _bar(invocation, len(work.outputs)) as advance, Archive.open(invocation.file_path) as archive:
            report = surgery.apply(archive, vault, work, datetime.now(UTC), advance)
        data |= {"count": report.stubbed, "bytes": report.bytes, "passedOver": report.passed_over}
    return data


def _items(work: StubPlan) -> list[dict[str, Any]]:
    return [
        {
            "messageId": output.message_id,
            "conversationId": output.conversation_id,
            "tool": output.tool,
            "byteSize": output.byte_size,
            "preview": preview(output.head),
        }
        for output in work.outputs[:_SHOWN]
    ]


def _revert(invocation: Invocation, selection: Selection, *, is_real: bool) -> dict[str, Any]:
    with invocation.archive() as archive:
        id_ = selection.find(archive)
        work = surgery.plan_revert(archive, id_)
    marks = list(work.marks.items())
    items = [{"messageId": message_id, "fileId": file_id} for message_id, file_id in marks[:_SHOWN]]
    data = {"conversationId": id_, "count": len(marks), "items": items}
    if is_real and marks:
        with Archive.open(invocation.file_path) as archive:
            report = surgery.revert(archive, work)
        data |= {"count": report.messages, "rows": report.rows}
    return data


def _bar(invocation: Invocation, total: int) -> Any:
    if not invocation.shows_progress:
        return nullcontext()
    from lossless.cli.progress import counting

    return counting("Storing", total)
