"""`lcm messages`: what was said, page by page, one by one, and the fresh tail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.commands import Group, number
from lossless.cli.options import (
    MAX_LIMIT,
    all_listed,
    listed,
    pagination,
    paging,
    selector,
    time_filters,
)
from lossless.cli.output import shape
from lossless.compaction.policy import tail_cap
from lossless.model.messages import ROLES

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.cli.options import Selection
    from lossless.store.archive import Archive
    from lossless.store.listings import Place, Span


@click.group("messages", cls=Group)
def messages() -> None:
    """List messages, show one, or show the fresh tail."""


@messages.command("list")
@selector(required=True)
@click.option("--role", "roles", type=click.Choice(ROLES), multiple=True, help="Only this role; may be repeated.")
@time_filters
@paging("messages", int)
@click.option("--include-content", is_flag=True, help="Give the whole text, too.")
@click.pass_obj
def list_command(
    invocation: Invocation,
    selection: Selection,
    roles: tuple[str, ...],
    span: Span | None,
    limit: int,
    start: Place | None,
    include_content: bool,
) -> None:
    """List the messages of a conversation, newest first."""
    with invocation.archive() as archive, archive.reading():
        id_ = selection.need(archive)
        page = archive.listings.messages(id_, limit, start, roles=roles, span=span, whole=include_content)
    items = all_listed(page.rows, whole=include_content)
    invocation.emit("messages.list", {"items": items}, pagination("messages", limit, page))


@messages.command("tail")
@selector(required=True)
@click.option(
    "--count",
    metavar="N",
    type=click.IntRange(1, MAX_LIMIT),
    help="As if this many were protected, instead of the setting.",
)
@click.pass_obj
def tail_command(invocation: Invocation, selection: Selection, count: int | None) -> None:
    """Show the fresh tail: the messages that are never summarised.

    The newest user message and all after it are always inside, whatever the limits say.
    """
    settings = invocation.loaded.settings
    limits = {"count": count or settings.fresh_tail_count, "maxTokens": tail_cap(settings)}
    with invocation.archive() as archive, archive.reading():
        id_ = selection.need(archive)
        tail = archive.listings.tail(id_, count or settings.fresh_tail_count, tail_cap(settings))
        rows = archive.listings.messages_by_id([item.message_id for item in tail])
        count_of_all, tokens_of_all = archive.listings.message_totals(id_)
    data = {
        "conversationId": id_,
        "limits": limits,
        "selected": {
            "messages": len(rows),
            "tokens": sum(item.tokens for item in tail),
            "firstSeq": min((row.seq for row in rows), default=None),
            "lastSeq": max((row.seq for row in rows), default=None),
        },
        "conversation": {"messages": count_of_all, "tokens": tokens_of_all},
        "messages": all_listed(rows, whole=True),
    }
    invocation.emit("messages.tail", data)


@messages.command("show")
@click.argument("message_id", type=number)
@click.pass_obj
def show_command(invocation: Invocation, message_id: int) -> None:
    """Show one message in full, as it came in, and where it is now."""
    with invocation.archive() as archive, archive.reading():
        rows = archive.listings.messages_by_id([message_id])
        if not rows:
            raise failures.fail(
                "not_found",
                f"No message has number {message_id}.",
                failures.NOT_FOUND,
                kind="message",
                id=message_id,
            )
        data = {"message": listed(rows[0], whole=True), **_more(archive, message_id)}
    invocation.emit("messages.show", data)


def _more(archive: Archive, message_id: int) -> dict[str, Any]:
    stored, standing = archive.messages.get(message_id), archive.details.standing(message_id)
    return {
        "format": stored.message.format,
        "entryId": stored.entry_id,
        "eventKey": stored.message.event_key,
        "toolCalls": [shape(call) for call in stored.message.tool_calls],
        "original": stored.message.original,
        "standing": {
            "contextOrdinal": standing.ordinal,
            "summarizedIn": standing.leaf_id,
            "hiddenCause": standing.hidden_cause,
        },
        "versions": [
            {
                "kind": version.kind,
                "at": version.at,
                "content": version.message.content,
                "original": version.message.original,
            }
            for version in archive.versions.of(message_id)
        ],
    }
