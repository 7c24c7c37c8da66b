"""`lcm summaries`: what stands for older history, and what it was made of.

The reference's JSON calls what was made of a summary its `parents` and what it was made of its `children`;
these names appear here and nowhere else. `usedIn` and `sources` say the same in our words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import click

from lossless.cli import failures
from lossless.cli.commands import Group, text
from lossless.cli.options import all_listed, listed, pagination, paging, selector, time_filters
from lossless.cli.output import shape
from lossless.model.summaries import Kind

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.cli.options import Selection
    from lossless.store.listings import Place, Span


@click.group("summaries", cls=Group)
def summaries() -> None:
    """List summaries, or show one with its sources."""


@summaries.command("list")
@selector(required=False)
@click.option("--depth", metavar="N", type=click.IntRange(0, 1_000_000), help="Only this depth; leaves have 0.")
@click.option("--kind", type=click.Choice(get_args(Kind)), help="Made of messages, or of summaries.")
@time_filters
@paging("summaries", str)
@click.option("--include-content", is_flag=True, help="Give the whole text, too.")
@click.pass_obj
def list_command(
    invocation: Invocation,
    selection: Selection,
    depth: int | None,
    kind: str | None,
    span: Span | None,
    limit: int,
    start: Place | None,
    include_content: bool,
) -> None:
    """List summaries, newest first, of one conversation or of all.

    The time of a summary is that of the newest message below it.
    """
    with invocation.archive() as archive, archive.reading():
        id_ = selection.find(archive)
        page = archive.listings.summaries(
            limit, start, conversation_id=id_, depth=depth, kind=kind, span=span, whole=include_content
        )
    items = all_listed(page.rows, whole=include_content)
    invocation.emit("summaries.list", {"items": items}, pagination("summaries", limit, page))


@summaries.command("show")
@click.argument("summary_id", type=text)
@click.pass_obj
def show_command(invocation: Invocation, summary_id: str) -> None:
    """Show a summary in full, with what it was made of and what was made of it."""
    with invocation.archive() as archive, archive.reading():
        found = archive.listings.summaries_by_id([summary_id])
        if not found:
            raise failures.fail(
                "not_found",
                f"No summary has id {summary_id!r}.",
                failures.NOT_FOUND,
                hint="`lcm summaries list` shows what is there.",
                kind="summary",
                id=summary_id,
            )
        sources, used_in = archive.details.sources(summary_id), archive.details.used_in(summary_id)
        messages = archive.listings.messages_by_id(archive.details.source_messages(summary_id))
        data = {
            "summary": listed(found[0], whole=True),
            "parents": all_listed(archive.listings.summaries_by_id(used_in, whole=False)),
            "children": all_listed(archive.listings.summaries_by_id(sources, whole=False)),
            "usedIn": used_in,
            "sources": sources,
            "sourceMessages": [
                {name: shape(row)[name] for name in ("messageId", "seq", "role", "tokenCount", "createdAt", "content")}
                for row in messages
            ],
        }
    invocation.emit("summaries.show", data)
