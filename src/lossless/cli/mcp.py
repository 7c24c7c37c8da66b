"""`lcm mcp`: the tools for agents, over MCP."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lossless.cli import failures
from lossless.cli.commands import Command, text
from lossless.cli.options import wrong

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.engine import Engine

_PORT = 4878


@click.command("mcp", cls=Command)
@click.option(
    "--session-key",
    metavar="KEY",
    type=text,
    envvar="LCM_MCP_SESSION_KEY",
    help="Look at this session and its earlier ones by default; else LCM_MCP_SESSION_KEY, else all conversations.",
)
@click.option("--http", "over_http", is_flag=True, help="Serve HTTP on this machine instead of standard input.")
@click.option(
    "--port", metavar="N", type=click.IntRange(0, 65535), help=f"The port for --http; 0 for a free one.  [{_PORT}]"
)
@click.option(
    "--token-file",
    metavar="PATH",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The token for --http; else LCM_MCP_TOKEN, else a file that is made, readable by its owner only.",
)
@click.pass_obj
def mcp(
    invocation: Invocation, session_key: str | None, over_http: bool, port: int | None, token_file: Path | None
) -> None:
    """Serve the tools for agents over MCP.

    On standard input and output, as hosts start it; with --http on 127.0.0.1, for those who send the bearer token.
    The archive is opened with the first question.
    """
    if not over_http and (port is not None or token_file is not None):
        raise wrong("--port and --token-file go with --http.")
    if find_spec("mcp") is None:
        raise failures.fail(
            "missing_extra",
            "The MCP server needs the package mcp.",
            failures.CONFIG,
            hint="Install it with `pip install 'lossless[mcp]'`.",
        )
    from lossless.serve.room import ReadingRoom

    room = ReadingRoom(lambda: _open(invocation), session_key)
    if not over_http:
        from lossless.serve.mcp import serve_stdio

        serve_stdio(room)
        return
    from lossless.serve.mcp_http import serve_http
    from lossless.serve.tokens import token

    secret, source = token(token_file)
    serve_http(room, secret, _PORT if port is None else port, ready=lambda url: _ready(url, source))


def _ready(url: str, source: str) -> None:
    click.echo(f"Listening on {url}; the token is in {source}.", err=True)


def _open(invocation: Invocation) -> Engine:
    """The person's archive. Hosts start us in folders of others: settings that lie there are not read."""
    from lossless.errors import BadInput
    from lossless.serve.room import open_for_questions
    from lossless.settings import load

    settings = load(
        invocation.config, cwd=Path.home(), database=invocation.db, openclaw_dir=invocation.openclaw_dir
    ).settings
    path = settings.database_path or "lcm.db"
    if "://" in path:
        raise BadInput("only an archive that is a file can be served")
    return open_for_questions(path, settings)
