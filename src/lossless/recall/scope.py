"""Who may see what: the conversations of a caller, and the small values that recall's verbs share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from lossless.errors import BadInput, GrantError, NotFound
from lossless.model.conversations import Session
from lossless.recall.grants import check, held_grant

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lossless.model.conversations import Conversation
    from lossless.recall.found import Findings
    from lossless.store.archive import Archive
    from lossless.store.grants import Grant

NO_CONVERSATION = "No LCM conversation found for this session. Provide conversationId or set allConversations=true."

#: `kind` of the error for an id that a caller cannot see.
OUT_OF_SCOPE = "item"

ScopeKind: TypeAlias = Literal["conversation", "all", "family", "grant"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who uses a tool. Without a session there is no family: it sees what it names."""

    session: Session | None = None
    #: The grant that it reads under; found by its session when not given.
    grant_id: str | None = None
    #: Whether its host can send sub-agents, so that it need not read large texts itself.
    host_has_subagents: bool = False
    #: Whether it asks on behalf of its session's turn, whose newest user message then is the one that asks.
    in_turn: bool = True

    @property
    def name(self) -> str:
        return self.session.name if self.session else "anonymous"

    @property
    def is_delegated(self) -> bool:
        """Whether it works on behalf of another session: it holds a grant, or its key is a sub-agent's."""
        return self.grant_id is not None or is_subagent_key(self.session.key if self.session else None)


@dataclass(frozen=True, slots=True)
class Scope:
    """The conversations that a call may look at, the likeliest first."""

    kind: ScopeKind
    #: None means all of the archive.
    conversation_ids: tuple[int, ...] | None
    #: What the caller should know about how the scope was found.
    warning: str | None = None
    grant: Grant | None = None

    def allows(self, conversation_id: int) -> bool:
        """Whether a conversation is inside."""
        return self.conversation_ids is None or conversation_id in self.conversation_ids

    @property
    def is_single(self) -> bool:
        return self.conversation_ids is not None and len(self.conversation_ids) == 1

    def __str__(self) -> str:
        if self.conversation_ids is None:
            return "all conversations"
        ids = ", ".join(map(str, self.conversation_ids[:8]))
        more = f" and {len(self.conversation_ids) - 8} more" if len(self.conversation_ids) > 8 else ""
        words = {"conversation": "conversation", "family": "session family", "grant": "granted"}
        return f"{words.get(self.kind, 'conversations')} {ids}{more}"


def everything() -> Scope:
    """The whole archive, for the person who owns it."""
    return Scope("all", None)


def is_subagent_key(key: str | None) -> bool:
    """Whether a session key is a sub-agent's: `agent:<agent>:subagent:<id>`.

    >>> is_subagent_key("agent:main:subagent:7f"), is_subagent_key("agent:main:main")
    (True, False)
    """
    segments = (key or "").split(":")
    return len(segments) >= 4 and segments[0] == "agent" and segments[2] == "subagent"


def resolve(
    archive: Archive,
    caller: Caller,
    now: datetime,
    *,
    conversation_id: int | None = None,
    all_conversations: bool = False,
) -> Scope:
    """The scope of one call: an explicit conversation, else all when asked for, else the session's family.

    A delegated caller sees its grant's conversations and no others, whatever it asks for. Raises `GrantError`
    without a valid grant, `NotFound` for an unknown conversation, `BadInput` when there is none to look at.
    """
    holder = caller.session.name if caller.session else None
    grant = held_grant(archive, holder, caller.grant_id, now)
    if caller.is_delegated or grant is not None:
        return _granted(check(grant, now), conversation_id)
    if conversation_id is not None:
        archive.conversations.get(conversation_id)
        return Scope("conversation", (conversation_id,))
    if all_conversations:
        return everything()
    family, warning = _family(archive, caller.session)
    if not family:
        raise BadInput(NO_CONVERSATION)
    return Scope("family", tuple(conversation.id for conversation in family), warning)


def _granted(grant: Grant, conversation_id: int | None) -> Scope:
    if conversation_id is None:
        return Scope("grant", grant.conversation_ids, grant=grant)
    if conversation_id not in grant.conversation_ids:
        allowed = ", ".join(map(str, grant.conversation_ids)) or "none"
        raise GrantError(f"Conversation {conversation_id} is not in the delegated scope (allowed: {allowed}).")
    return Scope("grant", (conversation_id,), grant=grant)


def _family(archive: Archive, session: Session | None) -> tuple[Sequence[Conversation], str | None]:
    """A session's conversations. A key that is stale loses against the run that is going on."""
    if session is None:
        return (), None
    family = archive.conversations.family(session)
    running = archive.conversations.find(Session(id=session.id)) if session.id else None
    if session.key is None or running is None or running.id in {known.id for known in family}:
        return family, None
    warning = (
        f"The session key {session.key!r} belongs to another conversation than the running session; "
        f"conversation {running.id} of the running session is used."
    )
    return archive.conversations.family(running.session), warning if family else None


def must_see(scope: Scope, conversation_id: int, name: str) -> None:
    """Raises `NotFound` unless the conversation is in scope; what is outside is as if it were not there."""
    if not scope.allows(conversation_id):
        raise not_in_scope(scope, name)


def not_in_scope(scope: Scope, name: str) -> NotFound:
    """The error for an id that this caller cannot see."""
    error = NotFound(OUT_OF_SCOPE, name)
    where = "the delegated conversation scope" if scope.kind == "grant" else "this session scope"
    error.args = (f"Not found in {where}: {name}",)
    return error


# --- grep, as other verbs use it ------------------------------------------------------------------

GrepMode: TypeAlias = Literal["regex", "full_text"]
SearchIn: TypeAlias = Literal["messages", "summaries", "both", "files"]
Sort: TypeAlias = Literal["recency", "relevance", "hybrid"]
HitKind: TypeAlias = Literal["message", "summary", "file"]


@dataclass(frozen=True, slots=True)
class GrepRequest:
    """What to look for and where; `since` is inside, `before` is not."""

    pattern: str
    mode: GrepMode = "full_text"
    search_in: SearchIn = "both"
    file_ids: tuple[str, ...] = ()
    since: datetime | None = None
    before: datetime | None = None
    limit: int = 50
    sort: Sort = "relevance"


class Grep(Protocol):
    """A search within a scope; raises `BadInput` for a pattern or a cursor that cannot be used."""

    def __call__(
        self, archive: Archive, scope: Scope, request: GrepRequest, now: datetime, /, *, cursor: str | None = None
    ) -> Findings: ...
