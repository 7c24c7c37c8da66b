"""The calls of a client, taken over while chats are open on it; each thread or task speaks for its own chat."""

from __future__ import annotations

import inspect
import threading
import warnings
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lossless.errors import BadInput
from lossless.exchange.chat_completions import ChatCompletions
from lossless.exchange.messages_api import MessagesApi
from lossless.exchange.responses_api import ResponsesApi
from lossless.hosts.sending import asend, send, stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.exchange.dialect import Dialect
    from lossless.hosts.chat import Chat


class Place(NamedTuple):
    """Where clients have a `create`, how its requests are spelled, and whose they are."""

    path: str
    dialect: type[Dialect]
    provider: str


PLACES = (
    Place("chat.completions", ChatCompletions, "openai"),
    Place("responses", ResponsesApi, "openai"),
    Place("messages", MessagesApi, "anthropic"),
    Place("beta.messages", MessagesApi, "anthropic"),
)
#: What clients make once from their calls, and remember.
_REMEMBERED = ("with_raw_response", "with_streaming_response")
_COPIES = ("copy", "with_options")

_here: ContextVar[tuple[Chat, ...]] = ContextVar("chats", default=())
_open: dict[int, Calls] = {}
_lock = threading.Lock()


def check(client: Any) -> None:
    """Raises BadInput for what is no client."""
    if isinstance(client, type) or not any(_at(client, place.path) for place in PLACES):
        raise BadInput(
            f"{getattr(client, '__name__', type(client).__name__)} has no chat.completions.create, responses.create or "
            "messages.create: pass a client, such as openai.OpenAI() or anthropic.Anthropic()"
        )


class Calls:
    """The calls of one client, and the chats that are open on it."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.chats: list[Chat] = []
        self._changed: list[tuple[Any, str]] = []
        self._take(client)

    @classmethod
    def open(cls, chat: Chat) -> Calls:
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
        for place in PLACES:
            if (resource := _at(client, place.path)) is not None:
                self._take_resource(resource, place)
        for name in _COPIES:
            if callable(original := getattr(client, name, None)):
                self._change(client, name, partial(self._copied, original))
        for owner in (client, getattr(client, "chat", None), getattr(client, "beta", None)):
            self._forget(owner)

    def _take_resource(self, resource: Any, place: Place) -> None:
        self._forget(resource)
        is_async = inspect.iscoroutinefunction(inspect.unwrap(resource.create))
        for name in ("create", "parse"):
            if callable(original := getattr(resource, name, None)):
                self._change(resource, name, partial(asend if is_async else send, self, place, original))
        if place.provider == "anthropic" and callable(getattr(resource, "stream", None)):  # which goes around `create`
            self._change(resource, "stream", partial(stream, self, place, resource.stream, is_async))

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
        """Have what the client remembers of its calls made anew, now and when it is left."""
        for name in _REMEMBERED if hasattr(owner, "__dict__") else ():
            vars(owner).pop(name, None)
            self._changed.append((owner, name))


def _at(client: Any, path: str) -> Any:
    for name in path.split("."):
        client = getattr(client, name, None)
    return client if callable(getattr(client, "create", None)) else None
