"""Leave to read for sub-agents: who may open what, how much of it, and until when.

A grant is a row. It outlives a restart, not its time, and it is revoked when its task ends, however it ends.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from lossless.errors import GrantError
from lossless.store.grants import Grant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from lossless.store.archive import Archive

MAX_DEPTH = 3
TOKEN_CAP = 4000
TTL = timedelta(minutes=5)
#: How long an ended grant stays readable, so that its holder learns why it is refused.
KEPT = timedelta(hours=1)

RECURSION_BLOCKED = "EXPANSION_RECURSION_BLOCKED"
CONCURRENCY_BLOCKED = "EXPANSION_CONCURRENCY_BLOCKED"
_MARKS = "expand_query:"
_TRIES = 3
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Terms:
    """What a grant is to allow."""

    conversation_ids: tuple[int, ...]
    token_cap: int = TOKEN_CAP
    max_depth: int = MAX_DEPTH
    ttl: timedelta = TTL
    #: Only these summaries and what is below them; empty means all.
    summary_ids: tuple[str, ...] = ()


def issue(archive: Archive, issuer: str, holder: str, terms: Terms, now: datetime) -> Grant:
    """Give a session leave to read; what ended long ago is swept on the way."""
    grant = Grant(
        f"grant_{uuid4().hex[:12]}",
        issuer,
        holder,
        terms.conversation_ids,
        terms.summary_ids,
        max(0, terms.token_cap),
        0,
        max(0, terms.max_depth),
        now,
        now + max(terms.ttl, timedelta()),
    )
    with archive.writing():
        archive.grants.sweep(now - KEPT, now, _MARKS)
        archive.grants.issue(grant)
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
        return issue(archive, parent, child, Terms(tuple(conversation_ids), max_tokens), now)
    check(above, now)
    terms = Terms(
        above.conversation_ids,
        min(above.remaining, max_tokens),
        above.max_depth - 1,
        above.expires_at - now,
        above.summary_ids,
    )
    return issue(archive, parent, child, terms, now)


def end_child(archive: Archive, child: str, now: datetime, *, deleted: bool = False) -> None:
    """A sub-agent has ended: its grants are revoked, and taken off it when its session is gone, too."""
    with archive.writing():
        archive.grants.revoke_held_by(child, now)
        if deleted:
            archive.grants.unbind(child)


def held_grant(archive: Archive, holder: str | None, grant_id: str | None, now: datetime) -> Grant | None:
    """The grant that a session reads under, valid or not; None when it has none."""
    if grant_id is not None:
        grant = archive.grants.get(grant_id)
        if grant is None:
            raise refused("unknown grant")
        return grant
    return archive.grants.held_by(holder, now) if holder else None


def check(grant: Grant | None, now: datetime) -> Grant:
    """The grant itself while it is valid; `GrantError` says why it is not."""
    if grant is None:
        raise refused("this delegated session has no grant")
    if grant.revoked_at is not None:
        raise refused("the grant was revoked")
    if grant.expires_at <= now:
        raise refused("the grant has expired")
    return grant


def check_summary(archive: Archive, grant: Grant, summary_id: str) -> None:
    """Raises unless a summary is one of the grant's, or below one; a grant that names none covers all."""
    if grant.summary_ids and not archive.lineage.is_below(summary_id, grant.summary_ids):
        raise refused(f"summary {summary_id} is not in the grant")


def check_message(archive: Archive, grant: Grant, message_id: int) -> None:
    """Raises unless a message is below one of the grant's summaries; a grant that names none covers all."""
    if grant.summary_ids:
        leaf = archive.summaries.covering([message_id]).get(message_id)
        if leaf is None or not archive.lineage.is_below(leaf, grant.summary_ids):
            raise refused(f"message msg#{message_id} is not in the grant")


def charged(
    archive: Archive,
    grant: Grant | None,
    now: datetime,
    read: Callable[[int | None], T],
    tokens_of: Callable[[T], int],
) -> T:
    """What `read` returns for the tokens that are left, charged for what it returned; without a grant, uncharged.

    Somebody else may use the same grant meanwhile: then it is read once more, for what is left by then.
    """
    if grant is None:
        return read(None)
    for _ in range(_TRIES):
        left = check(archive.grants.get(grant.id), now).remaining
        if left <= 0:
            raise refused(f"the token budget of {grant.token_cap:,} is used up")
        found = read(left)
        tokens = tokens_of(found)
        if not tokens:
            return found
        with archive.writing():
            if archive.grants.charge(grant.id, tokens, now):
                return found
    raise refused("the grant ended, or others use it at the same time")


def refused(reason: str) -> GrantError:
    """The error for a read that no grant allows."""
    return GrantError(f"Expansion authorization failed: {reason}")


# --- not in circles, not twice at once ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why a question is not taken: a code and a reason for programs, a sentence for the agent."""

    code: str
    reason: str
    text: str


def recursion_block(archive: Archive, session: str, request: str, now: datetime) -> Blocked:
    """The refusal for a delegated session that asks a question in turn.

    The same request again is told apart (`idempotent_reentry`), across processes, because it means that
    the agent did not read the first refusal.
    """
    mark = f"{_MARKS}again:{_digest(session, request)}"
    seen = False
    if not archive.read_only:
        with archive.writing():
            seen = not archive.guards.take_lease(mark, uuid4().hex, now, TTL)
    text = (
        "A delegated session cannot call lcm_expand_query. Use lcm_describe, lcm_grep and lcm_expand, "
        "and answer with what they return."
    )
    return Blocked(RECURSION_BLOCKED, "idempotent_reentry" if seen else "depth_cap", text)


@contextmanager
def one_at_a_time(archive: Archive, session: str, now: Callable[[], datetime], length: timedelta) -> Iterator[bool]:
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


def concurrency_block() -> Blocked:
    """The refusal while another question of the same session is being answered."""
    text = "Another lcm_expand_query of this session is still running. Wait for its answer, then ask again."
    return Blocked(CONCURRENCY_BLOCKED, "origin_session_in_flight", text)


def _digest(*texts: str) -> str:
    return blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
