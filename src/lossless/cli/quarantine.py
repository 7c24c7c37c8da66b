"""`lcm quarantine`: windows that had nothing in common with their sessions, and what becomes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lossless.cli.commands import Group, number
from lossless.cli.output import shape

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.store.conversations import Quarantined


@click.group("quarantine", cls=Group, invoke_without_command=True)
@click.pass_context
def quarantine(context: click.Context) -> None:
    """List what had nothing in common with its session, accept it as the session's conversation, or refuse it."""
    if context.invoked_subcommand is None:
        context.invoke(list_)


@quarantine.command("list")
@click.pass_obj
def list_(invocation: Invocation) -> None:
    """List quarantined conversations, and those that were refused."""
    with invocation.archive() as archive:
        found = archive.conversations.quarantined()
    invocation.emit("quarantine list", {"items": [_told(one) for one in found]})


@quarantine.command("accept")
@click.argument("number_", metavar="CONVERSATION", type=number)
@click.pass_obj
def accept(invocation: Invocation, number_: int) -> None:
    """Let a quarantined CONVERSATION be the active one of its session. The one that was it is closed and kept."""
    with invocation.engine() as engine:
        found = engine.transcripts.accept_quarantined(number_)
    invocation.emit("quarantine accept", shape(found))


@quarantine.command("refuse")
@click.argument("number_", metavar="CONVERSATION", type=number)
@click.pass_obj
def refuse(invocation: Invocation, number_: int) -> None:
    """Keep a quarantined CONVERSATION out of every prompt. It stays in the archive, and can be accepted later."""
    with invocation.engine() as engine:
        found = engine.transcripts.refuse_quarantined(number_)
    invocation.emit("quarantine refuse", _told(found))


def _told(found: Quarantined) -> dict[str, Any]:
    return {
        "conversationId": found.conversation_id,
        "sessionKey": found.session.key,
        "sessionId": found.session.id,
        "decision": found.decision,
        "at": found.at,
        "messages": found.messages,
        "beside": found.beside,
    }
