"""A client's calls on their way: kept, made to fit, sent, and their replies kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from lossless.hosts.replies import plain, rebuilt
from lossless.hosts.streams import AsyncManaged, AsyncReplies, Managed, Replies

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.exchange.dialect import Raw
    from lossless.exchange.turn import Tools, Turn
    from lossless.hosts.calls import Calls, Place
    from lossless.hosts.chat import Chat

#: With this header a client asks itself for raw responses; those that are read bit by bit are a `stream`.
_RAW_HEADER = "x-stainless-raw-response"
#: What of a request a turn may change.
_OURS = ("messages", "input", "system", "instructions", "tools")


def send(calls: Calls, place: Place, original: Callable[..., Any], **request: Any) -> Any:
    """One call of `create` or `parse`."""
    if (chat := calls.current()) is None:
        return original(**request)
    request = _read(request)
    turn = chat.turn(place, _tools(chat, original, request), request)
    while True:
        result = original(**_changed(request, turn))
        if request.get("stream") is True and not _raw(request):
            return Replies(chat, turn, result, lambda: original(**_changed(request, turn)))
        reply = plain(_read_whole(result, request))
        if not isinstance(reply, dict):
            return result
        if (final := turn.take(reply)) is not None:
            return rebuilt(result, reply, final)


async def asend(calls: Calls, place: Place, original: Callable[..., Any], **request: Any) -> Any:
    """The same for async clients."""
    if (chat := calls.current()) is None:
        return await original(**request)
    request = _read(request)
    turn = await asyncio.to_thread(chat.turn, place, _tools(chat, original, request), request)
    while True:
        result = await original(**_changed(request, turn))
        if request.get("stream") is True and not _raw(request):
            return AsyncReplies(chat, turn, result, lambda: original(**_changed(request, turn)))
        parsed = _read_whole(result, request)
        reply = plain(await parsed if isawaitable(parsed) else parsed)
        if not isinstance(reply, dict):
            return result
        if (final := await asyncio.to_thread(turn.take, reply)) is not None:
            return rebuilt(result, reply, final)


def stream(calls: Calls, place: Place, original: Callable[..., Any], is_async: bool, **request: Any) -> Any:
    """One call of Anthropic's `stream`."""
    if (chat := calls.current()) is None:
        return original(**request)
    request = _read(request)
    managed = AsyncManaged if is_async else Managed
    return managed(partial(chat.turn, place, "never", request), lambda turn: original(**_changed(request, turn)))


def _read(request: Raw) -> Raw:
    """The arguments, with lists for what can be read only once."""
    return {name: list(value) if isinstance(value, Iterator) else value for name, value in request.items()}


def _tools(chat: Chat, original: Callable[..., Any], request: Raw) -> Tools:
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
    """The caller's own arguments, but for those that the turn has changed."""
    if not turn.is_assembled and not turn.hidden:
        return request
    return request | {name: turn.body[name] for name in _OURS if name in turn.body}
