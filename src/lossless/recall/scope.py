"""Who may read what: the conversations a caller can see, and the grants that give sub-agents limited access."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, cast
from uuid import uuid4

from lossless.errors import BadInput, GrantError, NotFound
from lossless.model.conversations import Conversation, Session, matches_any
from lossless.store.state import Grant

if TYPE_CHECKING:
    from lossless.recall.results import SearchResult
    from lossless.settings import Settings
    from lossless.store.archive import Archive

GRANT_MAX_DEPTH = 3
GRANT_TOKEN_CAP = 4000
GRANT_TTL = timedelta(minutes=5)
#: How long an ended grant stays readable, so that its holder learns why it is refused.
ENDED_GRANT_TTL = timedelta(hours=1)

RECURSION_BLOCKED = "EXPANSION_RECURSION_BLOCKED"
CONCURRENCY_BLOCKED = "EXPANSION_CONCURRENCY_BLOCKED"
_MARKS = "expand_query:"
_TRIES = 3
T = TypeVar("T")


def issue_grant(
    archive: Archive,
    issuer: str,
    holder: str,
    now: datetime,
    conversation_ids: tuple[int, ...],
    *,
    token_cap: int = GRANT_TOKEN_CAP,
    max_depth: int = GRANT_MAX_DEPTH,
    ttl: timedelta = GRANT_TTL,
    summary_ids: tuple[str, ...] = (),
) -> Grant:
    """Give a session leave to read; what ended long ago is swept on the way.

    Only these summaries and what is below them; without any, all.
    """
    id_, cap, depth = f"grant_{uuid4().hex[:12]}", max(0, token_cap), max(0, max_depth)
    until = now + max(ttl, timedelta())
    grant = Grant(id_, issuer, holder, conversation_ids, summary_ids, cap, 0, depth, now, until)
    with archive.writing():
        archive.guards.sweep_grants(now - ENDED_GRANT_TTL, now, _MARKS)
        archive.guards.issue_grant(grant)
    return grant


def issue_for_child(
    archive: Archive, parent: str, child: str, conversation_ids: Sequence[int], max_tokens: int, now: datetime
) -> Grant:
    """The grant of a sub-agent that a host is about to start: never more than its parent has.

    A parent that reads under a grant itself hands on its conversations and summaries, the tokens that are
    left, and one layer less; `GrantError` when its own grant is over.
    """
    above = held_grant(archive, parent, None, now)
    if above is None:
        return issue_grant(archive, parent, child, now, tuple(conversation_ids), token_cap=max_tokens)
    check_grant(above, now)
    return issue_grant(
        archive, parent, child, now, above.conversation_ids,
        token_cap=min(above.remaining, max_tokens), max_depth=above.max_depth - 1,
        ttl=above.expires_at - now, summary_ids=above.summary_ids,
    )  # fmt: skip


def end_child_grants(archive: Archive, child: str, now: datetime, *, deleted: bool = False) -> None:
    """A sub-agent has ended: its grants are revoked, and taken off it when its session is gone, too."""
    with archive.writing():
        archive.guards.revoke_grants_of(child, now)
        if deleted:
            archive.guards.unbind_grants(child)


def held_grant(archive: Archive, holder: str | None, grant_id: str | None, now: datetime) -> Grant | None:
    """The grant that a session reads under, valid or not; None when it has none."""
    if grant_id is not None:
        grant = archive.guards.grant(grant_id)
        if grant is None:
            raise grant_refused("unknown grant")
        return grant
    return archive.guards.grant_of(holder, now) if holder else None


def check_grant(grant: Grant | None, now: datetime) -> Grant:
    """The grant itself while it is valid; `GrantError` says why it is not."""
    if grant is None:
        raise grant_refused("this delegated session has no grant")
    if grant.revoked_at is not None:
        raise grant_refused("the grant was revoked")
    if grant.expires_at <= now:
        raise grant_refused("the grant has expired")
    return grant


def read_and_charge(
    archive: Archive, grant: Grant | None, now: datetime, read: Callable[[int | None], T], tokens_of: Callable[[T], int]
) -> T:
    """What `read` returns for the tokens that are left, charged for what it returned; without a grant, uncharged.

    Another reader may use the same grant meanwhile: then it is read once more, for what is left by then.
    """
    if grant is None:
        return read(None)
    for _ in range(_TRIES):
        remaining = check_grant(archive.guards.grant(grant.id), now).remaining
        if remaining <= 0:
            raise grant_refused(f"the token budget of {grant.token_cap:,} is used up")
        found = read(remaining)
        tokens = tokens_of(found)
        if not tokens:
            return found
        with archive.writing():
            if archive.guards.charge_grant(grant.id, tokens, now):
                return found
    raise grant_refused("the grant ended, or others use it at the same time")


def grant_refused(reason: str) -> GrantError:
    """The error for a read that no grant allows."""
    return GrantError(f"Expansion authorization failed: {reason}")


def recursion_reason(archive: Archive, session: str, request: str, now: datetime) -> str:
    """Why a delegated session that asks a question in turn is refused.

    The same request again is told apart (`idempotent_reentry`), across processes, because it means that
    the agent did not read the first refusal.
    """
    mark = f"{_MARKS}again:{_digest(session, request)}"
    seen = False
    if not archive.read_only:
        with archive.writing():
            seen = not archive.guards.take_lease(mark, uuid4().hex, now, GRANT_TTL)
    return "idempotent_reentry" if seen else "depth_cap"


@contextmanager
def answer_slot(archive: Archive, session: str, now: Callable[[], datetime], length: timedelta) -> Iterator[bool]:
    """Whether this is the only question of a session that is being answered; the mark goes on every exit.

    A mark that a dead process left behind runs out after `length`.
    """
    if archive.read_only:
        yield True
        return
    name, owner = f"{_MARKS}origin:{_digest(session)}", uuid4().hex
    with archive.writing():
        free = archive.guards.take_lease(name, owner, now(), length)
    try:
        yield free
    finally:
        if free:
            with archive.writing():
                archive.guards.drop_lease(name, owner)


def _digest(*texts: str) -> str:
    return blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


NO_CONVERSATION = "No LCM conversation found for this session. Provide conversationId or set allConversations=true."

#: `kind` of the error for an id that a caller cannot see.
OUT_OF_SCOPE = "item"

ScopeKind: TypeAlias = Literal["conversation", "all", "family", "grant"]
RecallReach: TypeAlias = Literal["session", "project", "agent", "all"]


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
    #: Whether it is the person whose archive this is, who may see all of it.
    is_owner: bool = False

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
    #: Of all conversations, those of the running session: what they say goes before what others say.
    near: tuple[int, ...] = ()

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


def whole_archive() -> Scope:
    """The whole archive, for the person who owns it."""
    return Scope("all", None)


def is_subagent_key(key: str | None) -> bool:
    """Whether a session key is a sub-agent's: `agent:<agent>:subagent:<id>`.

    >>> is_subagent_key("agent:main:subagent:7f"), is_subagent_key("agent:main:main")
    (True, False)
    """
    segments = (key or "").split(":")
    return len(segments) >= 4 and segments[0] == "agent" and segments[2] == "subagent"


def resolve_scope(
    archive: Archive,
    caller: Caller,
    now: datetime,
    *,
    conversation_id: int | None = None,
    all_conversations: bool = False,
    settings: Settings | None = None,
) -> Scope:
    """The scope of one call: an explicit conversation, else all when asked for, else the session's family.

    What the settings do not let a caller see is as if it were not there. A delegated caller sees its grant's
    conversations and no others, whatever it asks for. Raises `GrantError` without a valid grant, `NotFound` for an
    unknown conversation, `BadInput` when there is none to look at.
    """
    holder = caller.session.name if caller.session else None
    grant = held_grant(archive, holder, caller.grant_id, now)
    if caller.is_delegated or grant is not None:
        grant = check_grant(grant, now)
        if conversation_id is None:
            return Scope("grant", grant.conversation_ids, grant=grant)
        if conversation_id not in grant.conversation_ids:
            allowed = ", ".join(map(str, grant.conversation_ids)) or "none"
            raise GrantError(f"Conversation {conversation_id} is not in the delegated scope (allowed: {allowed}).")
        return Scope("grant", (conversation_id,), grant=grant)
    family, warning = _family(archive, caller.session)
    own = tuple(conversation.id for conversation in family)
    if conversation_id is None and not all_conversations:
        if not own:
            raise BadInput(NO_CONVERSATION)
        return Scope("family", own, warning)
    reach = recall_reach(settings, caller, family)
    visible = _visible(archive, caller.session, family, reach)
    if conversation_id is not None:
        archive.conversations.get(conversation_id)
        if visible is not None and conversation_id not in visible:
            raise NotFound("conversation", conversation_id)
        return Scope("conversation", (conversation_id,))
    if visible is not None and not visible:
        raise BadInput(f"recallScope is {reach!r} here, and nothing that is kept is known to be of this {reach}.")
    return Scope("all", visible, near=own)


def visible_conversations(archive: Archive, caller: Caller, settings: Settings) -> tuple[int, ...] | None:
    """All that a caller may see by the settings, whatever it asks for; None for the whole archive."""
    family, _ = _family(archive, caller.session)
    return _visible(archive, caller.session, family, recall_reach(settings, caller, family))


def recall_reach(settings: Settings | None, caller: Caller, family: Sequence[Conversation] = ()) -> RecallReach:
    """How far a caller can look beyond its session: as a rule for its name says, else as for all."""
    if caller.is_owner or settings is None:
        return "all"
    names = [caller.session.name, *(known.session.name for known in family[:1])] if caller.session else []
    rules = (rule.rpartition("=") for rule in settings.recall_scope_overrides)
    for pattern, _, reach in rules:
        if any(matches_any(name, (pattern.strip(),)) for name in names):
            return cast(RecallReach, reach.strip())
    return settings.recall_scope


def _visible(
    archive: Archive, session: Session | None, family: Sequence[Conversation], reach: RecallReach
) -> tuple[int, ...] | None:
    """The conversations within reach, the session's own first; None for all. What is not known is not shared."""
    if reach == "all":
        return None
    own = tuple(conversation.id for conversation in family)
    known = family[0].session if family else session
    if reach == "session" or known is None:
        return own
    if reach == "agent":
        found = archive.conversations.of_agent(known.agent)
    else:
        project = archive.conversations.project(family[0].id) if family else None
        found = archive.conversations.in_project(project or (session.project if session else None), known.agent)
    return (*own, *(id_ for id_ in found if id_ not in own))


def _family(archive: Archive, session: Session | None) -> tuple[Sequence[Conversation], str | None]:
    """A session's conversations. A key that is stale loses against the run that is going on."""
    if session is None:
        return (), None
    running = archive.conversations.find(Session(id=session.id)) if session.id else None
    if session.key is None and running is not None:
        return archive.conversations.family(running.session), None
    family = archive.conversations.family(session)
    if session.key is None or running is None or running.id in {known.id for known in family}:
        return family, None
    warning = (
        f"The session key {session.key!r} belongs to another conversation than the running session; "
        f"conversation {running.id} of the running session is used."
    )
    return archive.conversations.family(running.session), warning if family else None


def require_readable(archive: Archive, scope: Scope, conversation_id: int | None, name: str) -> None:
    """Raises unless a thing may be read: `NotFound` without a conversation that is in scope, `GrantError` for one that
    is not below the summaries that the grant names, if it names any.
    """
    if conversation_id is None or not scope.allows(conversation_id):
        error = NotFound(OUT_OF_SCOPE, name)
        where = "the delegated conversation scope" if scope.kind == "grant" else "this session scope"
        error.args = (f"Not found in {where}: {name}",)
        raise error
    if scope.grant is not None and scope.grant.summary_ids and not name.startswith("file_"):
        covering = archive.summaries.covering([int(name[4:])]) if name.startswith("msg#") else {0: name}
        if not any(archive.listings.is_below(summary, scope.grant.summary_ids) for summary in covering.values()):
            raise grant_refused(f"{name} is not in the grant")


GrepMode: TypeAlias = Literal["regex", "full_text"]
SearchIn: TypeAlias = Literal["messages", "summaries", "both", "files"]
SortOrder: TypeAlias = Literal["recency", "relevance", "hybrid"]
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
    sort: SortOrder = "relevance"


#: A search within a scope, of an archive by a request at a moment, from a `cursor` on if given; raises `BadInput` for a
#: pattern or a cursor that cannot be used.
Grep: TypeAlias = "Callable[..., SearchResult]"
