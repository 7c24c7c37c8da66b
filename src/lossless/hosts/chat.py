"""A hand-written loop around an OpenAI or Anthropic client, kept inside the model's window.

with lossless.chat(client, "support:42"):
    reply = client.chat.completions.create(model="gpt-4o", messages=messages)
"""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING, Any, get_args
from weakref import WeakSet

from lossless.engine import Engine, open_engine
from lossless.errors import BadInput
from lossless.hosts.adapter import check_budget, session_or_new
from lossless.hosts.client_calls import ClientEvents, PatchedClient, check_client, client_json
from lossless.providers.messages_api import MessagesApi
from lossless.providers.turn import RecallTools, Turn, TurnRecorder

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.model.conversations import Session
    from lossless.providers.api import ProviderAPI, Raw
    from lossless.settings import Settings


class Chat:
    """Keeps every call of a client's `create()` while it is open. Also for `async with`.

    What is said goes to the archive before it is sent, the reply when it is there. Messages that do not fit are
    replaced by summaries of them on their way out; your own list stays as it is. `last` is the newest call.
    """

    def __init__(
        self,
        client: Any,
        session: str | Session | None = None,
        *,
        archive: str | Path | Engine | None = None,
        settings: Settings | None = None,
        window: int | None = None,
        tools: RecallTools = "never",
    ) -> None:
        check_client(client)
        if tools not in get_args(RecallTools):
            raise BadInput(f"tools is one of {', '.join(get_args(RecallTools))}, not {tools!r}")
        self.client, self.window, self.tools = client, check_budget(window, "window"), tools
        self.session = session_or_new(session)
        self._archive, self._settings = archive, settings
        self._engine = archive if isinstance(archive, Engine) else None
        self._calls: PatchedClient | None = None
        self.streams: WeakSet[ClientEvents] = WeakSet()
        self.last: Turn | None = None

    @property
    def engine(self) -> Engine:
        """The engine that keeps the calls, while the `with` lasts."""
        if self._engine is None:
            raise BadInput("this chat is not open: use it in `with`")
        return self._engine

    def __enter__(self) -> Chat:
        if self._calls is not None:
            raise BadInput("this chat is open already: make another one")
        if not isinstance(self._archive, Engine):
            self._engine = open_engine(self._archive, self._settings)
        self._calls = PatchedClient.open(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()
        self._finish()

    async def __aenter__(self) -> Chat:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self._leave()
        await asyncio.to_thread(self._finish)

    def turn(self, dialect: ProviderAPI, tools: RecallTools, request: Raw) -> Turn:
        """Keep what a request says, and make it fit."""
        provider = "anthropic" if isinstance(dialect, MessagesApi) else "openai"
        keeping = TurnRecorder(self.engine, self.session, dialect, provider, self.window, tools)
        self.last = turn = keeping.turn(client_json(request))
        for notice in turn.notices:
            warnings.warn(f"this call is {notice}", RuntimeWarning, stacklevel=4)
        return turn

    def _leave(self) -> None:
        if self._calls is not None:
            self._calls.close(self)
            self._calls = None

    def _finish(self) -> None:
        """Keep what had come of streams that were not read to their end, then close the archive."""
        for events in list(self.streams):
            events.broken()
        if self._engine is not None and not isinstance(self._archive, Engine):
            self._engine.close()
            self._engine = None


def chat(
    client: Any,
    session: str | Session | None = None,
    *,
    archive: str | Path | Engine | None = None,
    settings: Settings | None = None,
    window: int | None = None,
    tools: RecallTools = "never",
) -> Chat:
    """Keep what a client's `create()` sends and gets, and keep it inside the model's window, as long as it is open.

    `archive` is a path or an engine, else this machine's; `window` is the model's in tokens, else known by its name.
    """
    return Chat(client, session, archive=archive, settings=settings, window=window, tools=tools)
