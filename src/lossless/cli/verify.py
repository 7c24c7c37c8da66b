"""`lcm verify`: the proof that everything stored is there and reachable."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from lossless.cli import failures
from lossless.cli.commands import Command, text
from lossless.cli.forget import phrases_in
from lossless.cli.output import shape
from lossless.cli.toolbox import vault_of
from lossless.verify import verify as verify_archive

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.files.vault import Vault


@click.command("verify", cls=Command)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 100_000),
    default=100,
    show_default=True,
    help="List this many.",
)
@click.option("--absent-from", "absent", metavar="FILE", type=text, help="Prove that these phrases are nowhere.")
@click.pass_context
def verify(ctx: click.Context, limit: int, absent: str | None) -> None:
    """Prove that everything stored is there, findable and reachable.

    Reads only. Exit code 1 when something is wrong; each offender is listed with its table and id. Warnings
    concern rows that other programs wrote, and do not count as wrong.

    With --absent-from it proves the opposite for the phrases in FILE (one a line; `-` reads standard input): that none
    of them is in any file of the archive, its payloads and its backups, in compressed columns and search indexes
    neither. Exit code 1 when one is; each place is listed.
    """
    invocation: Invocation = ctx.obj
    vault = vault_of(invocation)
    if absent is not None:
        ctx.exit(_absent(invocation, absent, vault, limit))
    with invocation.archive() as archive:
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


def _absent(invocation: Invocation, source: str, vault: Vault | None, limit: int) -> int:
    from lossless.lifecycle.absence import prove

    invocation.archive().close()  # it must be there
    found = prove(invocation.file_path, vault, phrases_in(source, "--absent-from"))
    data = {
        "ok": found.ok,
        "files": found.files,
        "bytes": found.bytes,
        "found": len(found.traces),
        "traces": [shape(trace) for trace in found.traces[:limit]],
        "unreadable": list(found.unreadable),
    }
    invocation.emit("verify absent", data, ok=found.ok)
    return failures.OK if found.ok else failures.INTERNAL
