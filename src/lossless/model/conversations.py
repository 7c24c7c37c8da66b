"""Conversations (our record) and sessions (the host's ids)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from lossless.errors import BadInput

#: Hosts whose session keys begin with their name.
HOST_KINDS = frozenset(("claude-code", "codex", "gemini", "opencode", "pi"))


@dataclass(frozen=True, slots=True)
class Session:
    """The host's name for a conversation: `key` is stable, `id` belongs to one run."""

    key: str | None = None
    id: str | None = None
    #: The host's working folder, where it is known; it says which conversations belong together, and names none.
    project: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name in (self.key, self.id):
            if name is not None and (not isinstance(name, str) or not name.strip()):
                raise BadInput(f"a session's key and id are texts that are not blank, not {name!r}")
        if not (self.key or self.id):
            raise BadInput("a session needs a key or an id")

    @property
    def name(self) -> str:
        """What patterns are matched against: the key, else the id."""
        return self.key or self.id or ""

    @property
    def agent(self) -> str | None:
        """How the keys of its agent's sessions begin: `agent:<agent>:`, or the name of a host that has one agent."""
        first, _, rest = (self.key or "").partition(":")
        if first == "agent" and ":" in rest:
            return f"agent:{rest.partition(':')[0]}:"
        return f"{first}:" if first in HOST_KINDS and rest else None

    @property
    def is_cron(self) -> bool:
        """Whether the key is `agent:<agent>:cron:<job>…`: each run of such a job is its own conversation."""
        segments = (self.key or "").split(":")
        return len(segments) >= 4 and segments[0] == "agent" and segments[2] == "cron"


@dataclass(frozen=True, slots=True)
class Conversation:
    """Our record of a session."""

    id: int
    session_id: str
    session_key: str | None
    active: bool
    created_at: datetime
    updated_at: datetime
    archived_at: datetime | None = None
    archive_cause: str | None = None
    title: str | None = None
    bootstrapped_at: datetime | None = None

    @property
    def session(self) -> Session:
        return Session(key=self.session_key, id=self.session_id)


@lru_cache(maxsize=256)
def _glob(pattern: str) -> re.Pattern[str]:
    pieces = re.split(r"(\*\*|\*)", pattern)
    wild = {"**": ".*", "*": "[^:]*"}
    return re.compile("".join(wild.get(piece) or re.escape(piece) for piece in pieces), re.DOTALL)


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether a session's name matches one of the globs: `*` stops at `:`, `**` does not.

    >>> matches_any("agent:main:cron:job:1", ["agent:*:cron:*"]), matches_any("agent:main:x", ["agent:**"])
    (False, True)
    """
    return any(_glob(pattern).fullmatch(name) for pattern in patterns)


#: How callers name a session: by the host's names, by our record, or by its key alone.
SessionRef = Session | Conversation | str


def as_session(who: SessionRef) -> Session:
    """The host's names for a session; a plain string is its key."""
    if isinstance(who, str):
        return Session(key=who)
    if isinstance(who, Conversation):
        return who.session
    if not isinstance(who, Session):
        raise BadInput(f"a session is its name or a Session, not {type(who).__name__}")
    return who
