"""Forwards a request to its provider and streams the response back; recall calls are answered on the way."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
from anyio import to_thread
from starlette.responses import JSONResponse, Response

from lossless.errors import LosslessError
from lossless.serve.proxy_bodies import COMPRESSED_ENCODINGS, rewrite_body

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Receive, Scope, Send

    from lossless.providers.turn import Turn
    from lossless.serve.proxy_bodies import RequestBody
    from lossless.serve.proxy_sessions import SessionFinder

_BLANK = re.compile(rb"\r\n\r\n|\n\n|\r\r")
#: The last bytes of the buffer may be the start of a blank line.
_OPEN = 3


class SSEReader:
    """Bytes in, complete events out, wherever the bytes were split; each byte is searched once."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._searched = 0

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
        """Events: the original bytes of each, and its data when that is a JSON object."""
        return ((raw, _data(raw)) for raw in self._complete(chunk))

    def rest(self) -> bytes:
        rest, self._held, self._searched = bytes(self._held), bytearray(), 0
        return rest

    def _complete(self, chunk: bytes) -> list[bytes]:
        self._held += chunk
        whole, start = [], 0
        while found := _BLANK.search(self._held, max(start, self._searched)):
            whole.append(bytes(self._held[start : found.end()]))
            start = found.end()
        del self._held[:start]
        self._searched = max(0, len(self._held) - _OPEN)
        return whole


def encode_sse(data: dict[str, Any], *, named: bool) -> bytes:
    """An event as bytes; with its type on a separate line where events are `named`."""
    name = f"event: {data.get('type')}\n" if named else ""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"{name}data: {text}\n\n".encode("utf-8", "backslashreplace")


def _data(raw: bytes) -> dict[str, Any] | None:
    lines = [line[5:].lstrip() for line in raw.splitlines() if line.startswith(b"data:")]
    if not lines:
        return None
    try:
        data = json.loads(b"\n".join(lines))
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


#: Says why a request, or its reply, is not stored.
NOT_KEPT_HEADER = "x-lossless-not-kept"
#: Name the messages that the model sees in part, and say by how much a request exceeds its window, and why.
SHORTENED_HEADER, OVER_HEADER = "x-lossless-shortened", "x-lossless-over"
#: Hop-by-hop response headers.
_HOPS = frozenset(("connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "proxy-authenticate"))


def error_response(provider: str, status: int, reason: str, not_kept: str | None = None) -> JSONResponse:
    """An error of the proxy in the shape that the provider's clients expect."""
    header = {} if not_kept is None else {NOT_KEPT_HEADER: _word(not_kept).decode()}
    return JSONResponse(_error(provider, reason), status, {"x-lossless-error": "1"} | header)


class RelayResponse(Response):
    """Sends a request to its provider and streams the response to the client."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        provider: str,
        request: httpx2.Request,
        sessions: SessionFinder,
        turn: Turn | None = None,
        body: RequestBody | None = None,
        not_kept: str | None = None,
    ) -> None:
        super().__init__()
        self._not_kept = not_kept
        self._client, self._provider, self._request = client, provider, request
        self._turn, self._sessions, self._asked = turn, sessions, body
        self._session = None if turn is None else turn.keeping.session
        self._begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Relay; when the client disconnects, the provider's response is ended, and what was received is stored."""
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            group.start_soon(watch)
            try:
                await self._relay(send)
            except httpx2.HTTPError as error:
                await self._broken(error, scope, receive, send)
            except anyio.get_cancelled_exc_class():
                await self._keep_rest()
                raise
            finally:
                self._sessions.release(self._session)
            group.cancel_scope.cancel()

    async def _relay(self, send: Send) -> None:
        while True:
            answer = await self._client.send(self._request, stream=True)
            try:
                is_stream = answer.headers.get("content-type", "").startswith("text/event-stream")
                encoding = answer.headers.get("content-encoding", "identity").strip().lower()
                if encoding not in ("", "identity", *COMPRESSED_ENCODINGS):
                    await self._keep_rest("the provider's response has an unknown compression")
                if self._turn is not None and await self._is_too_long(self._turn, answer):
                    self._request = self._again(self._turn)
                    continue
                if self._turn is None or answer.status_code != 200:
                    await self._pass(answer, send, is_stream=is_stream)
                    return
                if await (self._stream if is_stream else self._whole)(self._turn, answer, send):
                    return
            finally:
                with anyio.CancelScope(shield=True):
                    await answer.aclose()
            self._request = self._again(self._turn)

    async def _is_too_long(self, turn: Turn, answer: httpx2.Response) -> bool:
        """Whether the request was refused as too long and is sent again with less history."""
        is_packed = answer.headers.get("content-encoding", "identity") not in ("", "identity")
        if self._begun or is_packed or not 400 <= answer.status_code < 500:
            return False
        text = (await answer.aread()).decode("utf-8", "replace")
        try:
            return await to_thread.run_sync(turn.refused, answer.status_code, text)
        except LosslessError:
            return False

    async def _pass(self, answer: httpx2.Response, send: Send, *, is_stream: bool) -> None:
        """Forwards the response unchanged; an error in mid-stream becomes an event."""
        if self._begun:
            await answer.aread()
            await self._keep_rest()
            await self._send_error(
                send, f"the provider answered {answer.status_code} while recall was read; what was received is stored"
            )
            return
        await self._start(answer, send)
        if answer.is_stream_consumed:
            await _body(send, answer.content)
        else:
            async for chunk in answer.aiter_raw():
                await _body(send, chunk)
        await _body(send, b"", more=False)
        if is_stream:
            await self._keep_rest()

    async def _whole(self, turn: Turn, answer: httpx2.Response, send: Send) -> bool:
        """A non-streamed reply; false when there is another round."""
        content = await answer.aread()
        try:
            reply = json.loads(content)
        except (ValueError, RecursionError):
            reply = None
        if isinstance(reply, dict):
            final = await to_thread.run_sync(_taken, turn, reply)
            if final is None:
                return False
            self._sessions.remember(final.get("id"), turn.keeping.session, final.get("id"))
            if final is not reply:
                content = json.dumps(final, ensure_ascii=False).encode("utf-8", "backslashreplace")
        await self._start(answer, send, is_read=True, length=len(content))
        await _body(send, content, more=False)
        return True

    async def _stream(self, turn: Turn, answer: httpx2.Response, send: Send) -> bool:
        """A streamed reply; false when there is another round, which continues in the same response."""
        await self._start(answer, send, is_read=True)
        reader, done, named = SSEReader(), b"", turn.keeping.dialect.names_events
        held: dict[int, tuple[bytes, dict[str, Any]]] = {}
        async for chunk in answer.aiter_bytes():
            shown = b""
            for raw, data in reader.feed(chunk):
                if data is None:
                    done, shown = (raw, shown) if b"[DONE]" in raw else (done, shown + raw)
                    continue
                held[id(data)] = raw, data
                seen = turn.feed(data)
                shown += b"".join(_bytes(one, held, named=named) for one in seen)
                if seen:
                    del held[id(data)]
            await _body(send, shown)
        last = await to_thread.run_sync(_ended, turn)
        if last is None:
            return False
        shown_id = next((data["response"].get("id") for data in last if isinstance(data.get("response"), dict)), None)
        self._sessions.remember(shown_id, turn.keeping.session, turn.stream.reply().get("id"))
        ending = b"".join(_bytes(data, held, named=named) for data in last)
        await _body(send, ending + reader.rest() + done, more=False)
        self._turn = None
        return True

    async def _start(
        self, answer: httpx2.Response, send: Send, *, is_read: bool = False, length: int | None = None
    ) -> None:
        """Forwards the response head, once; the body is forwarded uncompressed."""
        if self._begun:
            return
        self._begun = True
        headers = [(name.lower(), value) for name, value in answer.headers.raw if name.lower().decode() not in _HOPS]
        if self._turn is not None:
            changed = (b"content-length", b"content-encoding") if is_read else (b"content-length",)
            headers = [(name, value) for name, value in headers if name not in changed]
            headers.append((b"x-lossless-session", _word(self._turn.keeping.session.name)))
            if self._turn.shortened:
                headers.append((SHORTENED_HEADER.encode(), _word(" ".join(self._turn.shortened))))
            if self._turn.over:
                headers.append((OVER_HEADER.encode(), _word(f"{self._turn.over} {self._turn.why_over}")))
            headers += [] if length is None else [(b"content-length", b"%d" % length)]
        if self._not_kept is not None:
            headers.append((NOT_KEPT_HEADER.encode(), _word(self._not_kept)))
        await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})

    async def _broken(self, error: httpx2.HTTPError, scope: Scope, receive: Receive, send: Send) -> None:
        """The provider failed: report it, and store what was received, if this turn is stored at all."""
        not_kept = self._not_kept or ("it is not a conversation" if self._session is None else None)
        await self._keep_rest()
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.UnsupportedProtocol):
            status, reason = 502, f"the provider cannot be reached at {self._request.url.host}"
        elif isinstance(error, httpx2.TimeoutException):
            status, reason = 504, "the provider did not respond in time"
        else:
            status, reason = 502, "the provider's response was cut off"
        if not self._begun:
            fate = "nothing of it is stored" if not_kept else "the messages are stored"
            await error_response(self._provider, status, f"{reason}; {fate}", not_kept)(scope, receive, send)
            return
        await self._send_error(send, reason if not_kept else f"{reason}; what was received is stored")

    async def _send_error(self, send: Send, reason: str) -> None:
        named = self._provider == "anthropic"
        await _body(send, encode_sse(_error(self._provider, reason), named=named), more=False)

    async def _keep_rest(self, not_kept: str | None = None) -> None:
        turn, self._turn = self._turn, None
        self._not_kept = self._not_kept or not_kept
        if turn is not None:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(turn.broken)

    def _again(self, turn: Turn) -> httpx2.Request:
        old = ("content-length", "content-encoding")
        headers = [(name, value) for name, value in self._request.headers.items() if name not in old]
        assert self._asked is not None
        content = rewrite_body(self._asked, turn.body)
        return self._client.build_request(self._request.method, self._request.url, headers=headers, content=content)


def _word(text: str) -> bytes:
    return " ".join(text.split()).encode("ascii", "backslashreplace")


def _taken(turn: Turn, reply: dict[str, Any]) -> dict[str, Any] | None:
    """The reply for the client. It has been paid for, so it is delivered even when the archive cannot store it."""
    try:
        return turn.take(reply)
    except LosslessError:
        return turn.keeping.dialect.without_calls(reply, turn.hidden)


def _ended(turn: Turn) -> list[dict[str, Any]] | None:
    try:
        return turn.end()
    except LosslessError:
        return turn.stream.ending()


def _bytes(data: dict[str, Any], held: dict[int, tuple[bytes, dict[str, Any]]], *, named: bool) -> bytes:
    """An event's original bytes when nothing changed, else new ones."""
    event = held.get(id(data))
    return encode_sse(data, named=named) if event is None else event[0]


def _error(provider: str, reason: str) -> dict[str, Any]:
    error: dict[str, Any] = {"type": "lossless_proxy", "message": reason}
    return {"type": "error", "error": error} if provider == "anthropic" else {"error": error | {"code": None}}


async def _body(send: Send, content: bytes, *, more: bool = True) -> None:
    if content or not more:
        await send({"type": "http.response.body", "body": content, "more_body": more})
