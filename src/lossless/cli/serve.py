"""`lcm mcp` and `lcm proxy`: serve tools over MCP, and model providers' APIs with the archive in between."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from lossless.cli import failures, options
from lossless.cli.commands import Invocation, command
from lossless.cli.screen import Data, Screen, pick_json
from lossless.serve.access import ANTHROPIC_URL, OPENAI_URL, Access, listen, load_proxy_token

if TYPE_CHECKING:
    from lossless.engine import Engine
    from lossless.serve.proxy import ProxyOptions

_MCP_PORT = 4878


@command("mcp")
@options.text(
    "--session-key",
    metavar="KEY",
    envvar="LCM_MCP_SESSION_KEY",
    help="Look at this session and its earlier ones by default; else LCM_MCP_SESSION_KEY, else all conversations.",
)
@options.flag("--http", "over_http", help="Serve HTTP on this machine instead of standard input.")
@options.number("--port", minimum=0, maximum=65535, help=f"The port for --http; 0 for a free one.  [{_MCP_PORT}]")
@options.file(
    "--token-file", "The token for --http; else LCM_MCP_TOKEN, else a file that is made, readable by its owner only."
)
def mcp(
    invocation: Invocation, session_key: str | None, over_http: bool, port: int | None, token_file: Path | None
) -> None:
    """Serve the tools for agents over MCP."""
    if not over_http and (port is not None or token_file is not None):
        raise options.usage_error("--port and --token-file go with --http.")
    failures.need_extra("mcp", "The MCP server needs the package mcp.", "mcp")
    from lossless.serve.archive_tools import ArchiveTools, host_session

    tools = ArchiveTools(lambda: _open_engine(invocation), session_key, None if over_http else host_session())
    if not over_http:
        from lossless.serve.mcp import serve_stdio

        serve_stdio(tools)
        return
    from lossless.serve.access import load_token
    from lossless.serve.mcp import serve_http

    secret, source = load_token(token_file)

    def ready(url: str) -> None:
        click.echo(f"Listening on {url}; the token is in {source}.", err=True)

    serve_http(tools, secret, _MCP_PORT if port is None else port, ready=ready)


def _open_engine(invocation: Invocation) -> Engine:
    """The person's archive. Hosts start us in folders of others: settings that lie there are not read."""
    from lossless.serve.archive_tools import open_existing
    from lossless.settings import load

    settings = load(
        invocation.config, cwd=Path.home(), database=invocation.db, openclaw_dir=invocation.openclaw_dir
    ).settings
    return open_existing(settings.database_path or "lcm.db", settings)


_PROXY_PORT = 4879
_HISTORIES = {
    "window": "every request brings it, or says x-lossless-history: append",
    "append": "the archive has it, and a request brings what is new",
}


@command("proxy")
@options.number(
    "--port", minimum=0, maximum=65535, default=_PROXY_PORT, help="The port on 127.0.0.1; 0 for a free one."
)
@options.text("--openai-url", metavar="URL", default=OPENAI_URL, help="The address of OpenAI's API.")
@options.text("--anthropic-url", metavar="URL", default=ANTHROPIC_URL, help="The address of Anthropic's API.")
@options.text("--openai-key-env", metavar="NAME", help="The variable with a key for clients that send none.")
@options.text("--anthropic-key-env", metavar="NAME", help="The same for Anthropic.")
@options.choice(
    "--session-by",
    choices=("prefix", "key"),
    help="How requests belong to a conversation, without the header x-lossless-session: by history, or by API key.",
)
@options.choice(
    "--history",
    choices=("window", "append"),
    help="What requests contain, without the header x-lossless-history: the whole window, or only what is new.",
)
@click.option("--window", metavar="TOKENS", type=click.IntRange(1_000), help="The model's window; else by its name.")
@options.choice(
    "--tools",
    choices=("auto", "always", "never"),
    help="When models get the recall tools: auto is when the prompt does not show everything.",
)
@options.file(
    "--token-file", "The proxy's token; else LCM_PROXY_TOKEN, else a file that is made, readable by its owner only."
)
@options.text("--allow-origin", "origins", metavar="ORIGIN", multiple=True, help="Allow requests from this web page.")
@options.flag("--check", help="Show how it would serve, and do not serve.")
def proxy(invocation: Invocation, /, port: int, check: bool, token_file: Path | None, **given: Any) -> None:
    """Serve OpenAI's and Anthropic's APIs on 127.0.0.1; store conversations, and keep them within the window."""
    needs = ("httpx2", "starlette", "uvicorn")
    failures.need_extra("proxy", "The proxy needs httpx2, starlette and uvicorn.", *needs)
    from lossless.serve.proxy import ProxyOptions

    keys = {}
    for name in ("openai", "anthropic"):
        if variable := given[f"{name}_key_env"]:
            keys[name] = os.environ.get(variable, "").strip()
            if not keys[name]:
                raise options.usage_error(f"The variable {variable} is not set.")
    urls = _url(given["openai_url"]), _url(given["anthropic_url"])
    by, window, tools, history = (given[name] for name in ("session_by", "window", "tools", "history"))
    chosen = ProxyOptions(*urls, keys, by, window, tools, history=history)
    token, source = load_proxy_token(token_file)
    announced = {
        **pick_json(chosen, "openai_url", "anthropic_url", "session_by=by", "history", "window", "tools"),
        "ownKeys": sorted(keys),
        "tokenSource": source,
        "allowedOrigins": sorted(given["origins"]),
    }
    if check:
        invocation.answer("proxy", {"serving": False, "url": f"http://127.0.0.1:{port}", **announced}, view=print_proxy)
    else:
        _serve(invocation, Access(token, frozenset(given["origins"])), chosen, port, announced)


def _serve(invocation: Invocation, access: Access, chosen: ProxyOptions, port: int, announced: Data) -> None:
    import uvicorn

    from lossless.engine import open_engine
    from lossless.serve.proxy import http_protocol, proxy_app

    with open_engine(invocation.file_path, invocation.loaded.settings) as engine, listen(port) as listening:
        app = proxy_app(engine, access, chosen)
        quiet: Data = {"log_level": "critical", "access_log": False, "server_header": False}
        server = uvicorn.Server(uvicorn.Config(app, http=http_protocol(), ws="none", date_header=False, **quiet))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        invocation.answer("proxy", {"serving": True, "url": url, **announced}, view=print_proxy)
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listening])


def _url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise options.usage_error(f"{url!r:.80} is no address: it begins with http:// or https:// and names a host.")
    return url.rstrip("/")


def print_proxy(screen: Screen, data: Data) -> None:
    from lossless.cli.screen import styled

    verb = "Listening on" if data["serving"] else "It would listen on"
    screen.line(f"{verb} ", styled(data["url"], "bold"))
    screen.gap()
    clients = {
        "openaiClients": f"base URL {data['url']}/v1",
        "anthropicClients": f"base URL {data['url']}",
        "apiKey": "TOKEN:KEY, or TOKEN alone for a key of the proxy's own",
        "window": f"{data['window']:,} tokens" if data["window"] else "by the model's name",
        "history": _HISTORIES[data["history"]],
        "sessionBy": f"x-lossless-session, else {'how it begins' if data['sessionBy'] == 'prefix' else 'its key'}",
    }
    screen.record({**data, **clients}, "serving", "url")
