"""The calls of an OpenAI or Anthropic client while a chat is open on it: patched, recorded, sent, and their replies
and streams passed on.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput
from lossless.providers.chat_completions import ChatCompletions
from lossless.providers.messages_api import MessagesApi
from lossless.providers.responses_api import ResponsesApi

if TYPE_CHECKING:
    from lossless.hosts.chat import Chat
    from lossless.providers.api import ProviderAPI, Raw
    from lossless.providers.turn import RecallTools, Turn


def client_json(value: Any) -> Any:
    """JSON values for whatever a client takes or gives; what is no JSON (a sentinel, a handle) is left out."""
    if isinstance(value, dict):
        made = {str(key): client_json(item) for key, item in value.items()}
        return {key: item for key, item in made.items() if item is not _NOTHING}
    if isinstance(value, list | tuple):
        return [item for item in map(client_json, value) if item is not _NOTHING]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json", exclude_unset=True, warnings=False)
    return _NOTHING


_NOTHING = object()


class ClientEvents:
    """A turn's events as the client's objects."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.is_over = False
        self._kinds: dict[object, Any] = {}
        #: Events that are not shown yet, by the identity of their plain form, which each entry keeps alive.
        self._held: dict[int, tuple[Any, Any]] = {}

    def feed(self, event: Any) -> list[Any]:
        """The objects to hand out for one that came."""
        raw = client_json(event)
        if not isinstance(raw, dict):
            return [event]
        self._kinds[raw.get("type")] = type(event)
        self._held[id(raw)] = (raw, event)
        shown = [self._object(one) for one in self._turn.stream.feed(raw)]
        if shown:
            del self._held[id(raw)]
        return shown

    def end(self) -> list[Any] | None:
        """The last objects; None when there is another round."""
        last = self._turn.end()
        made = None if last is None else [self._object(raw) for raw in last]
        self._held.clear()
        self.is_over = made is not None
        return made

    def broken(self) -> None:
        """Keep what had come, if the stream is not over."""
        if not self.is_over:
            self.is_over = True
            self._turn.broken()

    def _object(self, raw: Any) -> Any:
        held = self._held.get(id(raw))
        return held[1] if held else self._kinds[raw.get("type")].construct(**raw)


class KeptStream:
    """A client's stream whose events are kept; what else it has is the client's own."""

    _iterate: Callable[[], Any]

    def __init__(self, chat: Chat, turn: Turn, stream: Any, again: Callable[[], Any]) -> None:
        self._kept, self._stream, self._again = ClientEvents(turn), stream, again
        chat.streams.add(self._kept)
        self._events = self._iterate()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class ReplyStream(KeptStream):
    """A stream of a client's events. Like the client's own it can be iterated once, closed, and used in `with`."""

    def __iter__(self) -> Any:
        return self._events

    def __next__(self) -> Any:
        return next(self._events)

    def __enter__(self) -> ReplyStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; what had come is kept."""
        self._events.close()
        self._stream.close()

    def _iterate(self) -> Generator[Any, None, None]:
        try:
            while True:
                for event in self._stream:
                    yield from self._kept.feed(event)
                if (last := self._kept.end()) is not None:
                    yield from last
                    return
                self._stream = self._again()
        finally:
            self._kept.broken()


class AsyncReplyStream(KeptStream):
    """The same for `async for`."""

    def __aiter__(self) -> Any:
        return self._events

    async def __anext__(self) -> Any:
        return await anext(self._events)

    async def __aenter__(self) -> AsyncReplyStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; what had come is kept."""
        await self._events.aclose()
        await self._stream.close()

    async def _iterate(self) -> AsyncGenerator[Any, None]:
        try:
            while True:
                async for event in self._stream:
                    for shown in self._kept.feed(event):
                        yield shown
                if (last := await asyncio.to_thread(self._kept.end)) is not None:
                    for shown in last:
                        yield shown
                    return
                self._stream = await self._again()
        finally:
            self._kept.broken()


@contextmanager
def managed_stream(keep: Callable[[], Turn], start: Callable[[Turn], Any]) -> Iterator[Any]:
    """What Anthropic's `messages.stream()` returns: the message is kept when the `with` ends, as far as it came."""
    turn = keep()
    with start(turn) as stream:
        try:
            yield stream
        finally:
            _keep(turn, stream)


@asynccontextmanager
async def managed_stream_async(keep: Callable[[], Turn], start: Callable[[Turn], Any]) -> AsyncIterator[Any]:
    turn = await asyncio.to_thread(keep)
    async with start(turn) as stream:
        try:
            yield stream
        finally:
            await asyncio.to_thread(_keep, turn, stream)


def _keep(turn: Turn, stream: Any) -> None:
    """Keep the message that a stream has so far; calls that were cut off are not."""
    try:
        reply = client_json(stream.current_message_snapshot)
    except AssertionError:  # nothing came
        return
    dialect = turn.keeping.dialect
    if not reply.get("stop_reason"):
        reply = dialect.without_calls(reply, {call.name for call in dialect.calls(reply)})
    turn.take(reply)


#: With this header a client asks itself for raw responses; those that are read bit by bit are a `stream`.
_RAW_HEADER = "x-stainless-raw-response"
#: What of a request a turn may change.
_OURS = ("messages", "input", "system", "instructions", "tools")


def send_request(calls: PatchedClient, dialect: ProviderAPI, original: Callable[..., Any], **request: Any) -> Any:
    if (chat := calls.current()) is None:
        return original(**request)
    request = _read(request)
    turn = chat.turn(dialect, _tools(chat, original, request), request)
    while True:
        result = original(**_changed(request, turn))
        if request.get("stream") is True and not _raw(request):
            return ReplyStream(chat, turn, result, lambda: original(**_changed(request, turn)))
        reply = client_json(_read_whole(result, request))
        if not isinstance(reply, dict):
            return result
        if (final := turn.take(reply)) is not None:
            return result if final is reply else type(result).construct(**final)


async def send_request_async(
    calls: PatchedClient, dialect: ProviderAPI, original: Callable[..., Any], **request: Any
) -> Any:
    if (chat := calls.current()) is None:
        return await original(**request)
    request = _read(request)
    turn = await asyncio.to_thread(chat.turn, dialect, _tools(chat, original, request), request)
    while True:
        result = await original(**_changed(request, turn))
        if request.get("stream") is True and not _raw(request):
            return AsyncReplyStream(chat, turn, result, lambda: original(**_changed(request, turn)))
        parsed = _read_whole(result, request)
        reply = client_json(await parsed if isawaitable(parsed) else parsed)
        if not isinstance(reply, dict):
            return result
        if (final := await asyncio.to_thread(turn.take, reply)) is not None:
            return result if final is reply else type(result).construct(**final)


def open_stream(
    calls: PatchedClient, dialect: ProviderAPI, original: Callable[..., Any], is_async: bool, **request: Any
) -> Any:
    if (chat := calls.current()) is None:
        return original(**request)
    request = _read(request)
    managed: Any = managed_stream_async if is_async else managed_stream
    return managed(partial(chat.turn, dialect, "never", request), lambda turn: original(**_changed(request, turn)))


def _read(request: Raw) -> Raw:
    return {name: list(value) if isinstance(value, Iterator) else value for name, value in request.items()}


def _tools(chat: Chat, original: Callable[..., Any], request: Raw) -> RecallTools:
    """Recall is answered only where the reply can be put together again."""
    return "never" if original.__name__ == "parse" or _raw(request) else chat.tools


def _raw(request: Raw) -> str | None:
    headers = request.get("extra_headers") or {}
    return next((str(value) for name, value in headers.items() if name.lower() == _RAW_HEADER), None)


def _read_whole(result: Any, request: Raw) -> Any:
    """The reply; of a raw response only when it has been read whole."""
    is_whole = _raw(request) not in (None, "stream") and request.get("stream") is not True
    return result.parse() if is_whole else result


def _changed(request: Raw, turn: Turn) -> Raw:
    if not turn.is_assembled and not turn.hidden:
        return request
    return request | {name: turn.body[name] for name in _OURS if name in turn.body}


#: Where clients have a `create`: how its requests are spelled.
ENDPOINTS: dict[str, ProviderAPI] = {
    "chat.completions": ChatCompletions(),
    "responses": ResponsesApi(),
    "messages": MessagesApi(),
    "beta.messages": MessagesApi(),
}
#: What clients make once from their calls, and remember.
_REMEMBERED = ("with_raw_response", "with_streaming_response")
_COPIES = ("copy", "with_options")

_here: ContextVar[tuple[Chat, ...]] = ContextVar("chats", default=())
_open: dict[int, PatchedClient] = {}
_lock = threading.Lock()


def check_client(client: Any) -> None:
    if isinstance(client, type) or not any(_at(client, path) for path in ENDPOINTS):
        raise BadInput(
            f"{getattr(client, '__name__', type(client).__name__)} has no chat.completions.create, responses.create or "
            "messages.create: pass a client, such as openai.OpenAI() or anthropic.Anthropic()"
        )


class PatchedClient:
    """The calls of one client, and the chats that are open on it."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.chats: list[Chat] = []
        self._changed: list[tuple[Any, str]] = []
        self._take(client)

    @classmethod
    def open(cls, chat: Chat) -> PatchedClient:
        """Take the calls of the chat's client over, unless another chat has."""
        with _lock:
            calls = _open.get(id(chat.client)) or cls(chat.client)
            calls.chats.append(chat)
            _open[id(chat.client)] = calls
        _here.set((*_here.get(), chat))
        return calls

    def close(self, chat: Chat) -> None:
        """The chat is over; with the last one, the client is as it was."""
        _here.set(tuple(one for one in _here.get() if one is not chat))
        with _lock:
            self.chats.remove(chat)
            if not self.chats:
                for owner, name in self._changed:
                    vars(owner).pop(name, None)
                del _open[id(self.client)]

    def current(self) -> Chat | None:
        """The innermost chat of this thread or task; where there is none, the only one that is open."""
        chats = list(self.chats)
        if mine := [chat for chat in _here.get() if chat in chats]:
            return mine[-1]
        if len(chats) > 1:
            warnings.warn("this call is not kept: open a chat in the thread that calls", RuntimeWarning, stacklevel=4)
        return chats[0] if len(chats) == 1 else None

    def _take(self, client: Any) -> None:
        for path, dialect in ENDPOINTS.items():
            if (resource := _at(client, path)) is None:
                continue
            self._forget(resource)
            is_async = inspect.iscoroutinefunction(inspect.unwrap(resource.create))
            send: Any = send_request_async if is_async else send_request
            for name in ("create", "parse"):
                if callable(original := getattr(resource, name, None)):
                    self._change(resource, name, partial(send, self, dialect, original))
            stream = getattr(resource, "stream", None)
            if isinstance(dialect, MessagesApi) and callable(stream):  # which goes around `create`
                self._change(resource, "stream", partial(open_stream, self, dialect, stream, is_async))
        for name in _COPIES:
            if callable(original := getattr(client, name, None)):
                self._change(client, name, partial(self._copied, original))
        for owner in (client, getattr(client, "chat", None), getattr(client, "beta", None)):
            self._forget(owner)

    def _copied(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        made = original(*args, **options)
        with _lock:
            if self.chats:
                self._take(made)
        return made

    def _change(self, owner: Any, name: str, call: Callable[..., Any]) -> None:
        setattr(owner, name, call)
        self._changed.append((owner, name))

    def _forget(self, owner: Any) -> None:
        """Have the client's cached calls created again, now and when it is left."""
        for name in _REMEMBERED if hasattr(owner, "__dict__") else ():
            vars(owner).pop(name, None)
            self._changed.append((owner, name))


def _at(client: Any, path: str) -> Any:
    for name in path.split("."):
        client = getattr(client, name, None)
    return client if callable(getattr(client, "create", None)) else None
