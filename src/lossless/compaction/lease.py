"""Leases: one worker at a time writes summaries of a conversation, in whichever process."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from lossless.store.holders import new_holder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from lossless.store.archive import Archive

#: How long a lease outlives the longest call.
_LONGER = timedelta(minutes=1)


def lease_name(conversation_id: int) -> str:
    """The lease that whoever summarises a conversation holds."""
    return f"compact:{conversation_id}"


def lease_length(call_ms: int) -> timedelta:
    """How long a lease is held when calls may take so long: a worker that died blocks others no longer."""
    return _LONGER + timedelta(milliseconds=call_ms)


@contextmanager
def lease(
    archive: Archive, name: str, clock: Callable[[], datetime], call_ms: int, *, takes_over: bool = False
) -> Iterator[Callable[[], bool]]:
    """Yields what takes a lease, and prolongs it for one more call: False while another worker has it.

    One that `takes_over` gets it at once; the other worker finds out when it wants to write. What is held at the end
    is let go of. Asked within a transaction, it belongs to it.
    """
    owner, length, is_taken = new_holder(), lease_length(call_ms), False

    def prolong() -> bool:
        nonlocal is_taken
        with archive.writing():
            if takes_over and not is_taken:
                archive.guards.break_lease(name)
            is_ours = archive.guards.take_lease(name, owner, clock(), length)
        is_taken = is_taken or is_ours
        return is_ours

    try:
        yield prolong
    finally:
        if is_taken:
            with archive.writing():
                archive.guards.drop_lease(name, owner)
