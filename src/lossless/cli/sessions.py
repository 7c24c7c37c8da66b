"""`lcm new` and `lcm reset`: beginning afresh, without losing a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lossless.cli.commands import Command
from lossless.cli.output import shape
from lossless.cli.plain import confirm
from lossless.cli.target import find, targeted

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.cli.target import Target

_yes = click.option("--yes", is_flag=True, help="Do not ask at a terminal.")


@click.command("new", cls=Command)
@targeted()
@click.option(
    "--retain-depth",
    metavar="N",
    type=click.IntRange(-1, 1_000_000),
    help="Keep summaries of at least this depth; -1 keeps everything. Else the setting newSessionRetainDepth.",
)
@_yes
@click.pass_obj
def new(invocation: Invocation, target: Target, retain_depth: int | None, yes: bool) -> None:
    """Start afresh in the same conversation: everything but the deeper summaries leaves the context.

    Everything stays in the archive and can be found.
    """
    conversation = find(invocation, target)
    confirm(f"Empty the context of conversation {conversation.id} ({conversation.session.name})?", yes)
    with invocation.engine() as engine:
        report = engine.new(conversation, retain_depth=retain_depth)
    invocation.emit("new", shape(report) | {"sessionKey": conversation.session_key})


@click.command("reset", cls=Command)
@targeted()
@_yes
@click.pass_obj
def reset(invocation: Invocation, target: Target, yes: bool) -> None:
    """Close a conversation and start another one under the same session.

    Everything stays in the archive and can be found. A conversation without messages is fresh and stays.
    """
    conversation = find(invocation, target)
    confirm(f"Close conversation {conversation.id} ({conversation.session.name}) and begin another?", yes)
    with invocation.engine() as engine:
        fresh = engine.reset(conversation)
    is_closed = fresh.id != conversation.id
    data = {
        "conversationId": fresh.id,
        "sessionKey": fresh.session_key,
        "sessionId": fresh.session_id,
        "closedConversationId": conversation.id if is_closed else None,
    }
    invocation.emit("reset", data)
