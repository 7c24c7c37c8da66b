"""JSON-RPC 2.0 with the plugin in both directions over one pair of pipes: frames, calls that can be cancelled or
time out, and lanes that keep their order.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from lossless.errors import BadInput, LosslessError
from lossless.model.conversations import Session
from lossless.model.js_json import compact_json


def encode_frame(frame: object) -> bytes:
    """A frame as one line of UTF-8. Half a surrogate pair, which UTF-8 cannot carry, is written as an escape."""
    return compact_json(frame).encode() + b"\n"


def decode_frame(line: bytes) -> Any:
    """What a line holds; raises ValueError when it is no JSON."""
    return json.loads(line.decode("utf-8", "surrogatepass"))


#: Before a call's time is over its work ends, so that what was done is told and not lost.
MARGIN_SECONDS = 2.0


class CallCancelled(Exception):
    """The host has given a call up, or its time is over. What was written until then stays valid."""

    code = "cancelled"


_TARGET_NAMES = ("agentId", "sessionKey", "sessionId")


@dataclass(frozen=True, slots=True, eq=False)
class PluginCall:
    """One call of the plugin."""

    id: object
    method: str
    params: Mapping[str, Any]
    #: On the clock of `time.monotonic`; None when the host waits for as long as it takes.
    deadline: float | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def session(self) -> Session:
        return Session(key=self.text("sessionKey"), id=self.text("sessionId"))

    @property
    def lane(self) -> str:
        """The name by which a session's calls are kept in order; the key, which outlives runs, goes before the id."""
        return self.text("sessionKey") or self.text("sessionId") or ""

    def text(self, name: str) -> str | None:
        """A parameter that is a text and not blank, else None."""
        value = self.params.get(name)
        return value if isinstance(value, str) and value.strip() else None

    def number(self, name: str) -> int | None:
        """A parameter that is a positive whole number, else None."""
        value = self.params.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        return int(value) if value >= 1 else None

    def flag(self, name: str) -> bool:
        return self.params.get(name) is True

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages; BadInput when the call has none to offer."""
        found = self.params.get("messages")
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            raise BadInput("messages must be a list of messages")
        return found

    @property
    def transcript_path(self) -> Path | None:
        """Where the transcript is a file, as in OpenClaw up to 2026.7.1; later ones give a marker that is no path."""
        name = self.text("sessionFile")
        return Path(name) if name is not None and os.path.isabs(name) else None

    @property
    def transcript(self) -> Path | None:
        """The transcript when it is a file that is there."""
        path = self.transcript_path
        return path if path is not None and path.is_file() else None

    @property
    def transcript_target(self) -> dict[str, str] | None:
        """Where the host keeps the transcript when it is no file: what its reader wants to know."""
        found = self.params.get("sessionTarget")
        if not isinstance(found, dict):
            return None
        target = replace(self, params={**self.params, **found})
        return {name: value for name in _TARGET_NAMES if (value := target.text(name) or self.text(name))}

    def left(self, margin: float = 0.0) -> float | None:
        """How much time is left for work whose result still has to be told; None when there is no hurry."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic() - margin)

    def check(self) -> None:
        """Raises `CallCancelled` once the caller does not wait any more."""
        if self.cancelled.is_set():
            raise CallCancelled("the host has cancelled the call")
        if self.left() == 0.0:
            raise CallCancelled("the host's time for the call is over")


#: The call that a thread works on; threads that the engine starts for it see it, too.
current_call: ContextVar[PluginCall | None] = ContextVar("lossless_openclaw_call", default=None)


class CallLanes:
    """Runs work in threads: what shares a lane in the order in which it came, everything else at once."""

    def __init__(self) -> None:
        self._running: dict[threading.Thread, str | None] = {}

    def run(self, lane: str | None, work: Callable[[], None]) -> None:
        """Start the work, or let it wait for its turn; returns at once. All calls come from one thread."""
        self._running = {thread: of for thread, of in self._running.items() if thread.is_alive()}
        before = [thread for thread, of in self._running.items() if lane is not None and of == lane]

        def wait_and_work() -> None:
            for thread in before[-1:]:
                thread.join()
            work()

        thread = threading.Thread(target=wait_and_work, name="lossless-call", daemon=True)
        self._running[thread] = lane
        thread.start()

    def settle(self, seconds: float) -> bool:
        """Wait until nothing runs; False when that takes longer."""
        until = time.monotonic() + seconds
        for thread in self._running:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._running)


_log = logging.getLogger("lossless.openclaw")

REFUSED, INTERNAL, UNKNOWN_METHOD, NO_REQUEST, NO_JSON = -32000, -32603, -32601, -32600, -32700
#: How long the plugin may take to answer when nothing else is said.
_ANSWER_SECONDS = 30.0
#: How often a wait looks whether its call was cancelled.
_TICK_SECONDS = 0.05
#: A day: no caller waits for longer.
_LONGEST_MS = 86_400_000


class HostError(Exception):
    """The plugin, or the host behind it, refused what it was asked for; `kind` is the error's own name there.

    With the code `not_found`: the plugin asked for a method that is not there.
    """

    def __init__(self, text: str, kind: str = "", code: str = "host") -> None:
        super().__init__(text)
        self.kind, self.code = kind, code


class Peer:
    """One end of the pipes. Calls are answered from threads, so that one that waits holds up no other."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes]) -> None:
        self._reader, self._writer = reader, writer
        self._lanes = CallLanes()
        self._calls: dict[object, PluginCall] = {}
        #: What was asked of the plugin, until it answers.
        self._questions: dict[str, Future[dict[str, Any]]] = {}
        self._numbers = itertools.count(1)
        self._lock, self._writing = threading.Lock(), threading.Lock()

    def serve(self, answer: Callable[[PluginCall], object], lane_of: Callable[[PluginCall], str | None]) -> None:
        for line in self._reader:
            if line.isspace():
                continue
            try:
                frame = decode_frame(line)
            except (ValueError, RecursionError):
                self.send(_failure(None, NO_JSON, "the line is not JSON"))
                continue
            if isinstance(frame, dict):
                self._take(frame, answer, lane_of)

    def send(self, frame: object) -> None:
        """Write one frame as a whole, from any thread; when the other end is closed, nothing happens."""
        data = encode_frame(frame)
        try:
            with self._writing:
                self._writer.write(data)
                self._writer.flush()
        except (BrokenPipeError, ValueError):  # the plugin is gone; the reader of its lines ends this process
            pass

    def settle(self, seconds: float) -> bool:
        """Cancel what still runs and wait for its end; False when that takes longer."""
        with self._lock:
            for call in self._calls.values():
                call.cancelled.set()
        return self._lanes.settle(seconds)

    def _take(
        self, frame: dict[str, Any], answer: Callable[[PluginCall], object], lane_of: Callable[[PluginCall], str | None]
    ) -> None:
        method, id_ = frame.get("method"), frame.get("id")
        if not _is_id(id_):
            self.send(_failure(None, NO_REQUEST, "an id is a text or a number"))
        elif not isinstance(method, str):
            with self._lock:
                question = self._questions.pop(str(id_), None)
            if question is not None:
                question.set_result(frame)
        elif method == "$/cancel":
            cancelled = _call_of(frame, method).params.get("id")
            with self._lock:
                found = self._calls.get(cancelled) if _is_id(cancelled) else None
            if found is not None:
                found.cancelled.set()
        else:
            call = _call_of(frame, method)
            with self._lock:
                self._calls[id_] = call
            self._lanes.run(lane_of(call), lambda: self._answer(call, answer))

    def _answer(self, call: PluginCall, answer: Callable[[PluginCall], object]) -> None:
        token = current_call.set(call)
        try:
            call.check()
            frame = {"jsonrpc": "2.0", "id": call.id, "result": answer(call)}
        except (LosslessError, HostError, CallCancelled) as error:
            is_unknown = isinstance(error, HostError) and error.code == "not_found"
            frame = _failure(call.id, UNKNOWN_METHOD if is_unknown else REFUSED, str(error), code=error.code)
        except TimeoutError as error:
            frame = _failure(call.id, REFUSED, str(error), code="timeout")
        except Exception as error:  # noqa: BLE001  the host must get an answer, whatever went wrong
            _log.exception("%s failed", call.method)
            frame = _failure(call.id, INTERNAL, f"unexpected {type(error).__name__}", code="internal")
        finally:
            current_call.reset(token)
            with self._lock:
                self._calls.pop(call.id, None)
        if call.id is not None:
            self.send(frame)

    def ask(self, method: str, params: dict[str, Any], seconds: float = _ANSWER_SECONDS) -> Any:
        """What the plugin answers. Raises `HostError` when it refuses, `TimeoutError`, or `CallCancelled`."""
        id_, call = f"p{next(self._numbers)}", current_call.get()
        question: Future[dict[str, Any]] = Future()
        with self._lock:
            self._questions[id_] = question
        try:
            named = params if call is None else {**params, "call": call.id}
            self.send({"jsonrpc": "2.0", "id": id_, "method": method, "params": named})
            reply = _wait(question, call, seconds)
        except (CallCancelled, TimeoutError):
            self.send({"jsonrpc": "2.0", "method": "$/cancel", "params": {"id": id_}})
            raise
        finally:
            with self._lock:
                self._questions.pop(id_, None)
        if (error := reply.get("error")) is not None:
            data = error.get("data") or {}
            raise HostError(str(error.get("message") or "refused"), str(data.get("name") or ""))
        return reply.get("result")


def _wait(question: Future[dict[str, Any]], call: PluginCall | None, seconds: float) -> dict[str, Any]:
    until = time.monotonic() + seconds
    while True:
        try:
            return question.result(min(_TICK_SECONDS, max(0.0, until - time.monotonic())))
        except TimeoutError:
            if call is not None:
                call.check()
            if time.monotonic() >= until:
                raise TimeoutError(f"no answer within {seconds:g} s") from None


def _is_id(id_: object) -> bool:
    """Whether calls can be told apart by it; None stands for no id."""
    return id_ is None or isinstance(id_, str | int | float)


def _call_of(frame: dict[str, Any], method: str) -> PluginCall:
    params = frame.get("params")
    params = params if isinstance(params, dict) else {}
    millis = params.get("deadlineMs")
    given = min(millis, _LONGEST_MS) if isinstance(millis, int | float) and millis > 0 else None
    deadline = None if given is None else time.monotonic() + given / 1000
    return PluginCall(frame.get("id"), method, params, deadline)


def _failure(id_: object, number: int, text: str, **data: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "error": {"code": number, "message": text, "data": data}}
