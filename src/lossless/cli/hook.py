"""`lcm hook`: one event of a host's hook, as `lcm-hook` answers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lossless.cli.commands import Command

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation


@click.command("hook", cls=Command, context_settings={"ignore_unknown_options": True})
@click.argument("event", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def hook(invocation: Invocation, event: tuple[str, ...]) -> None:
    """Answer one event of a host's hook: EVENT as JSON, else read from standard input.

    Hosts call `lcm-hook`, which is the same and starts faster. It always ends with 0; what went wrong is said on
    standard error.
    """
    from lossless.hosts.claude_code.hook import main

    options = [("--db", invocation.db), ("--config", invocation.config)]
    main([part for name, value in options if value for part in (name, value)] + list(event))
