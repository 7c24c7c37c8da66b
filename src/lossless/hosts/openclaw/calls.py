"""What the plugin asks for: a call that can be cancelled, may run out of time, and waits its turn in a lane."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


#: Before a call's time is over its work ends, so that what was done is told and not lost.
MARGIN_SECONDS = 2.0


class Cancelled(Exception):
    """The host has given a call up, or its time is over. What was written until then stays valid."""

    code = "cancelled"


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call of the plugin."""

    id: object
    method: str
    params: Mapping[str, Any]
    #: On the clock of `time.monotonic`; None when the host waits for as long as it takes.
    deadline: float | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def seconds(self) -> float | None:
        """How much time is left."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def left(self, margin: float) -> float | None:
        """How much time is left for work whose result still has to be told; None when there is no hurry."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic() - margin)

    def check(self) -> None:
        """Raises `Cancelled` once nobody waits for the result any more."""
        if self.cancelled.is_set():
            raise Cancelled("the host has cancelled the call")
        if self.seconds == 0.0:
            raise Cancelled("the host's time for the call is over")


#: The call that a thread works on; threads that the engine starts for it see it, too.
current: ContextVar[Call | None] = ContextVar("lossless_openclaw_call", default=None)


class Lanes:
    """Runs work in threads: what shares a lane in the order in which it came, everything else at once."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Callable[[], None]]] = {}
        self._changed = threading.Condition()
        self._running = 0

    def run(self, lane: str | None, work: Callable[[], None]) -> None:
        """Start the work, or let it wait for its turn; returns at once."""
        with self._changed:
            self._running += 1
            if lane is not None:
                if lane in self._waiting:
                    self._waiting[lane].append(work)
                    return
                self._waiting[lane] = deque()
        threading.Thread(target=self._work, args=(lane, work), name="lossless-call", daemon=True).start()

    def _work(self, lane: str | None, work: Callable[[], None] | None) -> None:
        while work is not None:
            try:
                work()
            finally:
                work = self._next(lane)

    def _next(self, lane: str | None) -> Callable[[], None] | None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()
            if lane is None:
                return None
            if self._waiting[lane]:
                return self._waiting[lane].popleft()
            del self._waiting[lane]
            return None

    def settle(self, seconds: float) -> bool:
        """Wait until nothing runs; False when that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: self._running == 0, seconds)
