"""Paying debts beside the host's turns: one thread for an engine, started when there is something to pay."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from lossless.errors import LosslessError

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("lossless.background")


class Background:
    """Runs `pay(conversation_id)` in a thread of its own, one conversation at a time."""

    def __init__(self, pay: Callable[[int], object]) -> None:
        self._pay = pay
        #: Conversations that wait, in order; the first one is being paid.
        self._waiting: dict[int, None] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def owe(self, conversation_id: int) -> None:
        """Pay this conversation's debt soon; asking twice while it waits is once."""
        with self._changed:
            if self._closed:
                return
            self._waiting[conversation_id] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="lossless-background", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _work(self) -> None:
        try:
            while (conversation_id := self._next()) is not None:
                try:
                    self._pay(conversation_id)
                except LosslessError as error:  # the debt stays as a row; the next turn or `lcm worker` pays it
                    if not self._closed:
                        _log.warning("conversation %d: %s", conversation_id, error.code)
                with self._changed:
                    self._waiting.pop(conversation_id, None)
                    self._changed.notify_all()
        finally:  # whatever ends the thread, nobody waits for it, and the next debt starts another one
            with self._changed:
                self._waiting.clear()
                self._thread = None
                self._changed.notify_all()

    def _next(self) -> int | None:
        """The conversation to pay now; None when it is time to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            return None if self._closed else next(iter(self._waiting))

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is left to pay; False when that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting or self._closed, seconds)

    def close(self, seconds: float) -> list[int]:
        """Stop after what is being paid, or after `seconds`; returns who was waiting, first the one being paid."""
        with self._changed:
            self._closed = True
            thread, waiting = self._thread, list(self._waiting)
            self._changed.notify_all()
        if thread is not None:
            thread.join(seconds)
        return waiting
