"""`lcm expand`: the words behind summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lossless.cli.commands import Command, text
from lossless.cli.describe import TOKENS
from lossless.cli.options import wrong
from lossless.cli.toolbox import reaching, use

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.cli.toolbox import Reach


@click.command("expand", cls=Command)
@click.argument("ids", nargs=-1, metavar="[IDS]...", type=text)
@reaching
@click.option("--query", metavar="WORDS", type=text, help="Also open the summaries that match these words best.")
@click.option(
    "--max-depth",
    metavar="N",
    type=click.IntRange(1, 10),
    default=3,
    show_default=True,
    help="How many layers to go down.",
)
@click.option("--token-cap", metavar="N", type=TOKENS, help="The most tokens; else the setting maxExpandTokens.")
@click.option("--messages", "include_messages", is_flag=True, help="Go down to the messages.")
@click.option("--around", metavar="ID", type=text, help="Centre on this message (msg#12).")
@click.option("--cursor", metavar="CURSOR", type=text, help="Continue where an earlier answer stopped.")
@click.pass_obj
def expand(
    invocation: Invocation,
    ids: tuple[str, ...],
    reach: Reach,
    query: str | None,
    max_depth: int,
    token_cap: int | None,
    include_messages: bool,
    around: str | None,
    cursor: str | None,
) -> None:
    """Read what the summaries IDS were made of, in order and within a budget.

    Of a leaf that is named, the messages are always read; --messages reads those below deeper summaries, too. To go
    on, repeat the command with --cursor.
    """
    if not ids and (query, around, cursor) == (None, None, None):
        raise wrong("Name a summary (sum_…), or give --query or --around.")
    args = {
        "summaryIds": list(ids),
        "query": query,
        "maxDepth": max_depth,
        "tokenCap": token_cap,
        "includeMessages": include_messages,
        "around": around,
        "cursor": cursor,
    }
    with invocation.archive() as archive:
        result = use(invocation, archive, "lcm_expand", reach, args)
    invocation.emit("expand", result.details | {"text": result.text})
