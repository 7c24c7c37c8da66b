"""The MCP server: recall tools, resources `lcm://<kind>/<id>`, and the recall policy as a prompt.

The archive is not opened before the first question, so `initialize` is answered at once.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from contextlib import closing
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import unquote

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from lossless import __version__
from lossless.errors import BadInput, LosslessError, NoArchive
from lossless.model.conversations import Session
from lossless.model.records import PageStart, SummaryRow
from lossless.model.times import state_time
from lossless.recall.tools import TOOLS_BY_NAME, Tool, ToolCallResult, error_result
from lossless.serve.access import listen

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from starlette.types import ASGIApp, Receive, Scope, Send

    from lossless.serve.archive_tools import ArchiveTools

RESOURCE_TEMPLATES = {
    "summary": "A summary by its id (sum_…), with what it was made of.",
    "message": "A message by its number (12 for msg#12), in full, with its neighbours.",
    "file": "A stored file by its id (file_…), with its content.",
}
_ADDRESS = re.compile(r"lcm://(summary|message|file)/([^/?#]{1,200})")
_CURSOR = re.compile(r"([0-9T:.Z+-]{0,40})\|(sum_\w{1,80})", re.ASCII)
_PAGE = 50
_NAME_CHARS = 80


def resource_page(archive: ArchiveTools, cursor: str | None = None) -> types.ListResourcesResult:
    """Summaries, newest first; only the configured session's if there is one. Messages and files are opened by id.

    Empty when nothing is stored yet.
    """
    found = None if cursor is None else _CURSOR.fullmatch(cursor)
    if cursor is not None and found is None:
        raise BadInput("this cursor is not from this list")
    start = None if found is None else PageStart(found[1], found[2])
    nothing = types.ListResourcesResult(resources=[])
    try:
        with archive.engine() as engine:
            browse, only = engine.browse, None
            if archive.session_key is not None:
                conversation = browse.find(Session(key=archive.session_key))
                if conversation is None:
                    return nothing
                only = conversation.id
            within = engine.tools.visible(archive.caller)
            page = browse.summaries(_PAGE, start, conversation_id=only, within=within)
    except NoArchive:
        return nothing
    following = None if page.next is None else f"{page.next.at}|{page.next.id}"
    return types.ListResourcesResult(resources=[_listed(row) for row in page.rows], next_cursor=following)


def open_resource(archive: ArchiveTools, uri: str) -> ToolCallResult:
    """The content of a resource URI, as `lcm_describe` shows it; an error result for an invalid one."""
    found = _ADDRESS.fullmatch(uri)
    if found is None:
        return error_result(
            "this is not a resource address", hint="There are lcm://summary/…, lcm://message/…, lcm://file/…."
        )
    kind, name = found[1], unquote(found[2])
    wanted = f"msg#{name.removeprefix('msg#')}" if kind == "message" else name
    return archive.call("lcm_describe", {"id": wanted})


def _listed(row: SummaryRow) -> types.Resource:
    about = " ".join(row.content.split())[:_NAME_CHARS]
    span = " to ".join(state_time(at) for at in (row.earliest_at, row.latest_at) if at is not None)
    return types.Resource(
        uri=f"lcm://summary/{row.summary_id}",
        name=row.summary_id,
        description=f"conversation {row.conversation_id}, depth {row.depth}, {span or 'undated'}: {about}",
        mime_type="text/plain",
    )


T = TypeVar("T")
_Context: TypeAlias = "ServerRequestContext[Any]"
_Page: TypeAlias = types.PaginatedRequestParams

#: Concurrent calls; each thread has its own connection.
_AT_ONCE = 4
POLICY_PROMPT = "recall_policy"
_POLICY_HELP = "How to read summaries of compacted history, and how to get any detail back."
INSTRUCTIONS = files(__package__).joinpath("instructions.md").read_text("utf-8")
_EVERYWHERE = " Here all conversations are looked at unless conversationId names one."
_WITHIN = " Here that is the session {key}; allConversations=true looks further."
_RUNNING = " Here that is the running session, and all conversations where it has nothing or allConversations=true."


def make_server(archive: ArchiveTools) -> Server[Any]:
    """An MCP server over the archive's tools, for any transport."""
    limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def in_thread(function: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=limiter)

    async def list_tools(_ctx: _Context, _params: _Page | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(tool, archive) for tool in TOOLS_BY_NAME.values()])

    async def call_tool(_ctx: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        result = await in_thread(partial(archive.call, params.name, params.arguments))
        return types.CallToolResult(content=[types.TextContent(text=result.text)], is_error=result.is_error)

    async def list_resources(_ctx: _Context, params: _Page | None) -> types.ListResourcesResult:
        try:
            return await in_thread(partial(resource_page, archive, params.cursor if params else None))
        except LosslessError as error:
            code = types.INVALID_PARAMS if isinstance(error, BadInput) else types.INTERNAL_ERROR
            raise MCPError(code, str(error)) from None

    async def list_templates(_ctx: _Context, _params: _Page | None) -> types.ListResourceTemplatesResult:
        templates = [
            types.ResourceTemplate(
                uri_template=f"lcm://{kind}/{{id}}", name=kind, description=about, mime_type="text/plain"
            )
            for kind, about in RESOURCE_TEMPLATES.items()
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read_resource(_ctx: _Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        found = await in_thread(partial(open_resource, archive, str(params.uri)))
        if found.is_error:
            why = str(found.details.get("error", found.text))
            raise MCPError(types.INVALID_PARAMS, why, {"uri": str(params.uri)})
        content = types.TextResourceContents(uri=params.uri, text=found.text, mime_type="text/plain")
        return types.ReadResourceResult(contents=[content])

    return Server(
        "lossless",
        version=__version__,
        title="lossless",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=_list_prompts,
        on_get_prompt=_get_prompt,
    )


def serve_stdio(archive: ArchiveTools) -> None:
    """Serve on standard input and output until the client closes them."""

    async def serve() -> None:
        server = make_server(archive)
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    try:
        anyio.run(serve)
    finally:
        archive.close()


def _tool(tool: Tool, archive: ArchiveTools) -> types.Tool:
    where = ""
    if any(parameter.name == "allConversations" for parameter in tool.parameters):
        where = _EVERYWHERE if archive.host is None else _RUNNING
        where = where if archive.session_key is None else _WITHIN.format(key=archive.session_key)
    hints = types.ToolAnnotations(read_only_hint=True, open_world_hint=tool.name == "lcm_expand_query")
    return types.Tool(name=tool.name, description=tool.help + where, input_schema=tool.schema, annotations=hints)


async def _list_prompts(_ctx: _Context, _params: _Page | None) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=[types.Prompt(name=POLICY_PROMPT, description=_POLICY_HELP)])


async def _get_prompt(_ctx: _Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    from lossless.context.render import RECALL_POLICY

    if params.name != POLICY_PROMPT:
        raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name!r:.60}; there is {POLICY_PROMPT}")
    message = types.PromptMessage(role="user", content=types.TextContent(text=RECALL_POLICY))
    return types.GetPromptResult(description=_POLICY_HELP, messages=[message])


PATH = "/mcp"
#: How much of a request is read that is refused.
_READ_BYTES = 1 << 20


def require_token(app: ASGIApp, token: str) -> ASGIApp:
    """The application for requests with the token; all others get 401."""
    expected = f"Bearer {token}".encode()

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        is_http = scope["type"] == "http"
        given = [value for name, value in scope["headers"] if name == b"authorization"] if is_http else []
        if scope["type"] == "lifespan" or (len(given) == 1 and hmac.compare_digest(given[0], expected)):
            await app(scope, receive, send)
        elif is_http:
            size = 0  # what is sent and not read would reset the connection before the answer is read
            while size < _READ_BYTES and (part := await receive()).get("more_body"):
                size += len(part["body"])
            headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b"A bearer token is needed.\n"})

    return checked


def make_app(archive: ArchiveTools, token: str, port: int) -> ASGIApp:
    """The application: `/mcp` for requests with the token and one of this machine's loopback names."""
    from mcp.server.transport_security import TransportSecuritySettings

    names = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
    security = TransportSecuritySettings(allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names])
    app = make_server(archive).streamable_http_app(streamable_http_path=PATH, transport_security=security)
    return require_token(app, token)


def serve_http(archive: ArchiveTools, token: str, port: int, *, ready: Callable[[str], None]) -> None:
    """Serve until interrupted; port 0 takes a free one. `ready` gets the address."""
    import uvicorn

    with listen(port) as listening, closing(archive):
        number = int(listening.getsockname()[1])
        config = uvicorn.Config(make_app(archive, token, number), log_level="warning", access_log=False, ws="none")
        ready(f"http://127.0.0.1:{number}{PATH}")
        uvicorn.Server(config).run(sockets=[listening])
