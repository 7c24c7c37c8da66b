"""`lcm pin` and `lcm unpin`: words that stand in every prompt as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lossless.cli.commands import Command, number, text
from lossless.cli.options import wrong
from lossless.cli.output import preview
from lossless.cli.target import find, targeted

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.cli.target import Target
    from lossless.store.archive import Archive


@click.command("pin", cls=Command)
@click.argument("words", metavar="[TEXT]", type=text, required=False)
@targeted()
@click.option("--message", "message_id", metavar="ID", type=number, help="Pin a message by its number.")
@click.pass_obj
def pin(invocation: Invocation, words: str | None, target: Target, message_id: int | None) -> None:
    """Pin TEXT, or a message: it is never summarised and stands word for word in every prompt.

    Without TEXT and --message, list the pins.
    """
    if words is not None and message_id is not None:
        raise wrong("Give a text or --message, not both.")
    what: str | int | None = words if message_id is None else message_id
    pinned: int | None = None
    if what is not None:
        conversation = find(invocation, target)
        with invocation.engine() as engine:
            pinned = engine.pin(conversation, what)
    with invocation.archive() as archive, archive.reading():
        conversation = target.need(archive)
        items = _pins(archive, conversation.id)
    invocation.emit("pin", {"conversationId": conversation.id, "pinned": pinned, "items": items})


@click.command("unpin", cls=Command)
@click.argument("pin_id", metavar="ID", type=number)
@targeted()
@click.pass_obj
def unpin(invocation: Invocation, pin_id: int, target: Target) -> None:
    """Remove the pin ID; what it pinned stays in the archive as it is. `lcm pin` lists the pins."""
    conversation = find(invocation, target)
    with invocation.engine() as engine:
        engine.unpin(conversation, pin_id)
        items = _pins(engine.archive, conversation.id)
    invocation.emit("unpin", {"conversationId": conversation.id, "unpinned": pin_id, "items": items})


def _pins(archive: Archive, conversation_id: int) -> list[dict[str, Any]]:
    return [
        {"pinId": row.id, "messageId": row.message_id, "pinnedAt": row.at, "preview": preview(row.content)}
        for row in archive.beside.pins(conversation_id)
    ]
