"""`lcm rotate`: a host's transcript, shortened to its tail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.commands import Command, text
from lossless.cli.target import targeted
from lossless.engine import Engine
from lossless.lifecycle.rotate import NOTHING
from lossless.paths import expanded

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.cli.target import Target
    from lossless.lifecycle.rotate import RotateReport
    from lossless.model.conversations import Conversation


@click.command("rotate", cls=Command)
@targeted()
@click.option("--file", "path", metavar="PATH", type=text, help="The transcript; else the one that is followed.")
@click.option("--apply", "is_real", is_flag=True, help="Rewrite it; without this, only say what would stay.")
@click.pass_context
def rotate(ctx: click.Context, target: Target, path: str | None, is_real: bool) -> None:
    """Shorten a session's transcript to its newest messages, once all of it is in the archive.

    The transcript is read into the archive, everything outside the tail is folded, the archive is backed up as
    rotate-latest, and then the file is replaced as a whole. The conversation stays as it is. Exit code 1 when it is
    refused; nothing was rewritten then. Stop the host first, or do it between turns.
    """
    invocation: Invocation = ctx.obj
    with invocation.archive() as archive:
        conversation = target.need_active(archive)
        followed = archive.transcripts.checkpoint(conversation.id)
    place = path or (followed.path if followed is not None else "")
    if not place:
        raise failures.fail(
            "not_found",
            f"No transcript is known for conversation {conversation.id}.",
            failures.NOT_FOUND,
            hint="Name it with --file.",
            conversationId=conversation.id,
        )
    file = expanded(place).absolute()
    if is_real:
        with invocation.engine() as engine:
            report = engine.rotate(conversation, file)
    else:
        with invocation.archive() as archive:
            report = Engine(archive, invocation.loaded.settings, background=False).rotate(
                conversation, file, dry_run=True
            )
    is_fine = report.rotated or report.reason in (None, NOTHING) or not is_real
    invocation.emit("rotate", _shown(conversation, report, is_real=is_real), ok=is_fine)
    ctx.exit(failures.OK if is_fine else failures.INTERNAL)


def _shown(conversation: Conversation, report: RotateReport, *, is_real: bool) -> dict[str, Any]:
    return {
        "conversationId": conversation.id,
        "sessionKey": conversation.session_key,
        "sessionFile": str(report.path),
        "applied": is_real,
        "rotated": report.rotated,
        "reason": report.reason,
        "sizeBefore": report.size_before,
        "sizeAfter": report.size_after,
        "keptMessages": report.kept_messages,
        "droppedMessages": report.dropped_messages,
        "backupPath": None if report.backup is None else str(report.backup),
        "checkpointSize": report.checkpoint_size,
    }
