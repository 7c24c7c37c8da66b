"""`lcm verify`: the proof that everything stored is there and reachable."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from lossless.cli import failures
from lossless.cli.commands import Command
from lossless.cli.output import shape
from lossless.cli.toolbox import vault_of
from lossless.verify import verify as verify_archive

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation


@click.command("verify", cls=Command)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 100_000),
    default=100,
    show_default=True,
    help="List this many.",
)
@click.pass_context
def verify(ctx: click.Context, limit: int) -> None:
    """Prove that everything stored is there, findable and reachable.

    Reads only. Exit code 1 when something is wrong; each offender is listed with its table and id. Warnings
    concern rows that other programs wrote, and do not count as wrong.
    """
    invocation: Invocation = ctx.obj
    vault = vault_of(invocation)
    with invocation.archive() as archive, archive.reading():
        if invocation.shows_progress:
            from lossless.cli.progress import counting

            with counting("Checking messages", archive.care.counts().messages) as advance:
                found = verify_archive(archive, advance, vault)
        else:
            found = verify_archive(archive, vault=vault)
    problems = sorted(found.problems, key=lambda problem: problem.severity)
    data = {
        "ok": found.ok,
        "messages": found.messages,
        "summaries": found.summaries,
        "errors": sum(problem.severity == "error" for problem in problems),
        "warnings": sum(problem.severity == "warning" for problem in problems),
        "byCheck": dict(Counter(problem.check for problem in problems)),
        "problems": [shape(problem) for problem in problems[:limit]],
    }
    invocation.emit("verify", data, ok=found.ok)
    ctx.exit(failures.OK if found.ok else failures.INTERNAL)
