"""`lcm conversations`: which there are, and everything about one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lossless.cli.commands import Group
from lossless.cli.options import by_depth, listed, pagination, paging, selector
from lossless.cli.output import shape, shape_if_there
from lossless.compaction.policy import tail_cap

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.cli.options import Selection
    from lossless.model.context import MessageItem
    from lossless.store.archive import Archive
    from lossless.store.listings import ConversationRow, Place


@click.group("conversations", cls=Group)
def conversations() -> None:
    """List conversations, or show one."""


@conversations.command("list")
@paging("conversations", int)
@click.pass_obj
def list_command(invocation: Invocation, limit: int, start: Place | None) -> None:
    """List conversations, most recently changed first."""
    settings = invocation.loaded.settings
    with invocation.archive() as archive, archive.reading():
        page = archive.listings.conversations(limit, start)
        ids = [row.conversation_id for row in page.rows]
        tails = archive.listings.tails(ids, settings.fresh_tail_count, tail_cap(settings))
    items = [_with_tail(row, tails[row.conversation_id]) for row in page.rows]
    invocation.emit("conversations.list", {"items": items}, pagination("conversations", limit, page))


@conversations.command("show")
@selector(required=True)
@click.pass_obj
def show_command(invocation: Invocation, selection: Selection) -> None:
    """Show one conversation: counts, context, debt, what was refused."""
    settings = invocation.loaded.settings
    with invocation.archive() as archive, archive.reading():
        id_ = selection.need(archive)
        row = archive.listings.conversation(id_)
        assert row is not None
        tail = archive.listings.tail(id_, settings.fresh_tail_count, tail_cap(settings))
        details = archive.details.conversation(id_)
        data = {
            "conversation": _with_tail(row, tail),
            "summaryDepths": by_depth(archive.details.depths(id_)),
            "context": [shape(share) for share in details.context],
            "telemetry": shape_if_there(details.telemetry),
            "historyBudget": None if (kept := archive.guards.history(id_)) is None else str(kept.budget),
            "maintenance": shape_if_there(details.debt),
            "bootstrap": shape_if_there(details.frontier),
            "focusBriefs": {"count": details.brief_count, "activeBrief": shape_if_there(details.active_brief)},
            "largeFiles": shape(details.files),
            "ingest": _ingest(archive, id_),
            "hidden": details.hidden,
        }
    invocation.emit("conversations.show", data)


def _with_tail(row: ConversationRow, tail: list[MessageItem]) -> dict[str, Any]:
    return listed(row) | {
        "freshTailMessages": len(tail),
        "freshTailTokens": sum(item.tokens for item in tail),
    }


def _ingest(archive: Archive, conversation_id: int) -> dict[str, Any]:
    state = shape(archive.ingest.state(conversation_id))
    del state["producers"]
    return state
