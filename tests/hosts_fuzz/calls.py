"""What a host does: the calls it makes, and which events the messages in them are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.hosts_fuzz.words import Words
    from tests.hosts_fuzz.world import Event


@dataclass(frozen=True, slots=True)
class Shown:
    """A message as a host shows it: `atoms` is the truth about it, which the archive does not get."""

    atoms: tuple[str, ...]
    words: Words
    entry_id: str | None = None
    #: The host has left words out and says so by a mark that hosts are known to write.
    reduced: bool = False
    #: Several events shown as one message, or a part of one event.
    regrouped: bool = False
    #: Its calls have other ids in every window.
    has_new_ids: bool = False
    #: It comes and goes: retrieved context, a reminder of the host's own.
    transient: bool = False

    def saying(self, words: Words, *, reduced: bool = False) -> Shown:
        return replace(self, words=words, reduced=reduced)


@dataclass(frozen=True, slots=True)
class Call:
    """One call: `sync`, `append`, `bootstrap`, or `restart` (the process ends and another one begins)."""

    verb: str
    shown: tuple[Shown, ...] = ()
    key: str | None = None
    #: Which of several windows on the same session this is.
    tab: int = 0


def shown(event: Event, *, with_id: bool) -> Shown:
    """The event, word for word."""
    return Shown((event.atom,), event.words, f"entry-{event.atom}" if with_id else None)


def sync(messages: Iterable[Shown], tab: int = 0) -> Call:
    return Call("sync", tuple(messages), tab=tab)
