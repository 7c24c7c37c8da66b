"""A hand-written loop around an OpenAI or Anthropic client, kept inside the model's window.

with lossless.chat(client, "support:42"):
    reply = client.chat.completions.create(model="gpt-4o", messages=messages)
"""

from __future__ import annotations

import asyncio
import inspect
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

from lossless.engine import Engine, open_engine
from lossless.errors import BadInput
from lossless.exchange.chat_completions import ChatCompletions
from lossless.exchange.messages_api import MessagesApi
from lossless.exchange.responses_api import ResponsesApi
from lossless.exchange.turn import Keeping, Turn
from lossless.hosts.replies import AsyncManaged, AsyncReplies, Managed, Replies, plain, rebuilt
from lossless.model.conversations import Session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from lossless.exchange.dialect import Dialect, Raw
    from lossless.exchange.turn import Tools
    from lossless.settings import Settings

#: Where clients have a `create`, how its requests are spelled, and whose they are.
_PLACES: tuple[tuple[str, type[Dialect], str], ...] = (
    ("chat.completions", ChatCompletions, "openai"),
    ("responses", ResponsesApi, "openai"),
    ("messages", MessagesApi, "anthropic"),
)


class Chat:
    """Keeps every call of a client's `create()` while it is open. Also for `async with`.

    What is said goes to the archive before it is sent, the reply when it is there. Messages that do not fit are
    replaced by summaries of them on their way out; your own list stays as it is.
    """

    def __init__(
        self,
        client: Any,
        session: str | Session = "chat",
        *,
        archive: str | Path | Engine | None = None,
        settings: Settings | None = None,
        window: int | None = None,
        tools: Tools = "never",
    ) -> None:
        self.client, self.window, self.tools = client, window, tools
        self.session = session if isinstance(session, Session) else Session(key=session)
        self._archive, self._settings = archive, settings
        self._engine = archive if isinstance(archive, Engine) else None
        self._patched: list[tuple[Any, str]] = []

    @property
    def engine(self) -> Engine:
        """The engine that keeps the calls, while the `with` lasts."""
        if self._engine is None:
            raise BadInput("this chat is not open: use it in `with`")
        return self._engine

    def __enter__(self) -> Chat:
        if self._engine is None:
            assert not isinstance(self._archive, Engine)
            self._engine = open_engine(self._archive, self._settings)
        if not self._patched:
            for place, dialect, provider in _PLACES:
                if (resource := _at(self.client, place)) is not None:
                    self._patch(resource, dialect(), provider)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for resource, name in self._patched:
            delattr(resource, name)
        self._patched.clear()
        if self._engine is not None and not isinstance(self._archive, Engine):
            self._engine.close()
            self._engine = None

    async def __aenter__(self) -> Chat:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def _patch(self, resource: Any, dialect: Dialect, provider: str) -> None:
        original = resource.create
        keep = partial(self._turn, dialect, provider, self.tools)
        is_async = inspect.iscoroutinefunction(inspect.unwrap(original))
        resource.create = partial(_acreate if is_async else _create, original, keep)
        self._patched.append((resource, "create"))
        if provider == "anthropic" and callable(getattr(resource, "stream", None)):  # which does not use `create`
            managed = AsyncManaged if is_async else Managed
            keep = partial(self._turn, dialect, provider, "never")
            resource.stream = partial(_stream, resource.stream, managed, keep)
            self._patched.append((resource, "stream"))

    def _turn(self, dialect: Dialect, provider: str, tools: Tools, request: Raw) -> Turn:
        keeping = Keeping(self.engine, self.session, dialect, provider, self.window, tools)
        turn = keeping.turn(plain(request))
        if turn.not_kept is not None:
            warnings.warn(f"this call is not kept: {turn.not_kept}", RuntimeWarning, stacklevel=4)
        return turn


def _create(original: Callable[..., Any], keep: Callable[[Raw], Turn], **request: Any) -> Any:
    turn = keep(request)
    while True:
        result = original(**_changed(request, turn))
        if request.get("stream") is True:
            return Replies(turn, result, lambda: original(**_changed(request, turn)))
        reply = plain(result)
        if not isinstance(reply, dict):
            return result
        if (final := turn.take(reply)) is not None:
            return rebuilt(result, reply, final)


async def _acreate(original: Callable[..., Any], keep: Callable[[Raw], Turn], **request: Any) -> Any:
    turn = await asyncio.to_thread(keep, request)
    while True:
        result = await original(**_changed(request, turn))
        if request.get("stream") is True:
            return AsyncReplies(turn, result, lambda: original(**_changed(request, turn)))
        reply = plain(result)
        if not isinstance(reply, dict):
            return result
        if (final := await asyncio.to_thread(turn.take, reply)) is not None:
            return rebuilt(result, reply, final)


def _stream(original: Callable[..., Any], managed: Any, keep: Callable[[Raw], Turn], **request: Any) -> Any:
    turn = keep(request)
    return managed(turn, original(**_changed(request, turn)))


def _changed(request: Raw, turn: Turn) -> Raw:
    """The caller's own arguments, but for those that the turn has changed."""
    if not turn.is_assembled and not turn.hidden:
        return request
    ours = {key: turn.body[key] for key in ("messages", "input", "system", "instructions", "tools") if key in turn.body}
    return request | ours


def _at(client: Any, place: str) -> Any:
    for name in place.split("."):
        client = getattr(client, name, None)
    return client if callable(getattr(client, "create", None)) else None


def chat(
    client: Any,
    session: str | Session = "chat",
    *,
    archive: str | Path | Engine | None = None,
    settings: Settings | None = None,
    window: int | None = None,
    tools: Tools = "never",
) -> Chat:
    """Keep what a client's `create()` sends and gets, and keep it inside the model's window, as long as it is open.

    `archive` is a path or an engine; without it, the archive of this machine. `window` is the model's in tokens; else
    it is known by the model's name. With `tools="auto"` the model may look into its past, and we answer.
    """
    return Chat(client, session, archive=archive, settings=settings, window=window, tools=tools)
