"""`lcm describe`: open one thing by its id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lossless.cli.commands import Command, text
from lossless.cli.options import wrong
from lossless.cli.toolbox import reaching, use
from lossless.recall.file_page import DEFAULT_BYTES, MAX_BYTES, MIN_BYTES

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.cli.toolbox import Reach

LINE = click.IntRange(1, 1_000_000_000)
TOKENS = click.IntRange(1, 1_000_000_000)


@click.command("describe", cls=Command)
@click.argument("name", metavar="ID", type=text)
@reaching
@click.option("--token-cap", metavar="N", type=TOKENS, help="The budget to compare branches with; else the most.")
@click.option("--start-line", metavar="N", type=LINE, help="The first line of a file to show.")
@click.option("--end-line", metavar="N", type=LINE, help="The last line of a file to show.")
@click.option(
    "--max-bytes",
    metavar="N",
    type=click.IntRange(MIN_BYTES, MAX_BYTES),
    default=DEFAULT_BYTES,
    show_default=True,
    help="The most bytes of a file to show at once.",
)
@click.option("--cursor", metavar="CURSOR", type=text, help="Continue where an earlier answer stopped.")
@click.pass_obj
def describe(
    invocation: Invocation,
    name: str,
    reach: Reach,
    token_cap: int | None,
    start_line: int | None,
    end_line: int | None,
    max_bytes: int,
    cursor: str | None,
) -> None:
    """Open ID: a summary (sum_…), a message (msg#12, or its number) or a stored file (file_…).

    A summary is shown with what it was made of and what opening that would cost; a message whole, with its
    neighbours; a file with its content. A reference copied from a prompt works, too.
    """
    if start_line is not None and end_line is not None and end_line < start_line:
        raise wrong("--end-line is before --start-line.")
    args = {
        "id": name,
        "tokenCap": token_cap,
        "expandFileMaxBytes": max_bytes,
        "startLine": start_line,
        "endLine": end_line,
        "cursor": cursor,
    }
    with invocation.archive() as archive:
        result = use(invocation, archive, "lcm_describe", reach, args)
    invocation.emit("describe", result.details | {"text": result.text})
