"""Where the answer to a question may be: summaries and messages, gathered by conversation and ranked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.recall.scope import GrepRequest, Scope, not_in_scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from lossless.recall.scope import Grep, SearchIn
    from lossless.store.archive import Archive

MAX_BUCKETS = 3
#: How many hits of a search are looked at.
_HITS = 50


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something to open: a summary, or a message that no summary covers yet."""

    id: str
    conversation_id: int
    matched_at: datetime
    #: Whether the caller named it.
    is_explicit: bool = False
    #: Whether it is here because of a message below it.
    is_message_backed: bool = False


@dataclass(frozen=True, slots=True)
class Bucket:
    """The candidates of one conversation, in the order in which they were found."""

    conversation_id: int
    candidates: tuple[Candidate, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(candidate.id for candidate in self.candidates)

    @property
    def message_backed_ids(self) -> tuple[str, ...]:
        return tuple(candidate.id for candidate in self.candidates if candidate.is_message_backed)

    @property
    def explicit_ids(self) -> tuple[str, ...]:
        return tuple(candidate.id for candidate in self.candidates if candidate.is_explicit)


def find(
    archive: Archive, grep: Grep, scope: Scope, summary_ids: Sequence[str], query: str | None, now: datetime
) -> list[Candidate]:
    """What the caller named, then what its query finds.

    Summaries are searched; where none is found, messages, each for the leaf above it or, when it is not
    folded yet, for itself. `NotFound` for a named summary that is not in scope.
    """
    found = {candidate.id: candidate for candidate in _named(archive, scope, summary_ids)}
    if query and query.strip():
        hits = grep(archive, scope, _search(query, "summaries"), now).hits
        searched = [Candidate(str(hit.id), hit.conversation_id, hit.created_at) for hit in hits]
        for candidate in searched or _message_backed(archive, grep, scope, query, now):
            found.setdefault(candidate.id, candidate)
    return list(found.values())


def _search(query: str, search_in: SearchIn) -> GrepRequest:
    return GrepRequest(query, "full_text", search_in, limit=_HITS, sort="relevance")


def _named(archive: Archive, scope: Scope, summary_ids: Sequence[str]) -> Iterable[Candidate]:
    nodes = {node.id: node for node in archive.summaries.many(summary_ids)}
    for id_ in summary_ids:
        summary = nodes.get(id_)
        if summary is None or not scope.allows(summary.conversation_id):
            raise not_in_scope(scope, id_)
        yield Candidate(id_, summary.conversation_id, summary.latest_at or summary.created_at, is_explicit=True)


def _message_backed(archive: Archive, grep: Grep, scope: Scope, query: str, now: datetime) -> list[Candidate]:
    hits = grep(archive, scope, _search(query, "messages"), now).hits
    echoes = archive.search.echoes(hit.id for hit in hits if isinstance(hit.id, int))
    message_ids = [hit.id for hit in hits if isinstance(hit.id, int) and hit.id not in echoes]
    leaves = archive.summaries.covering(message_ids)
    return [
        Candidate(
            leaves.get(hit.id, f"msg#{hit.id}"),
            hit.conversation_id,
            hit.created_at,
            is_message_backed=hit.id in leaves,
        )
        for hit in hits
        if isinstance(hit.id, int) and hit.id not in echoes
    ]


def buckets(candidates: Iterable[Candidate]) -> list[Bucket]:
    """The candidates by conversation, the likeliest conversation first.

    More named ones win, then more candidates, then the newest match, then more that messages back, then
    the older conversation.
    """
    by_conversation: dict[int, list[Candidate]] = {}
    for candidate in candidates:
        by_conversation.setdefault(candidate.conversation_id, []).append(candidate)
    found = [Bucket(id_, tuple(members)) for id_, members in by_conversation.items()]
    return sorted(found, key=_rank)


def _rank(bucket: Bucket) -> tuple[int, int, float, int, int]:
    newest = max(candidate.matched_at.timestamp() for candidate in bucket.candidates)
    return (
        -len(bucket.explicit_ids),
        -len(bucket.candidates),
        -newest,
        -len(bucket.message_backed_ids),
        bucket.conversation_id,
    )


def shares(token_cap: int, count: int) -> list[int]:
    """A cap split evenly; the first ones get what does not divide.

    >>> shares(4000, 3)
    [1334, 1333, 1333]
    """
    share, rest = divmod(max(0, token_cap), count)
    return [share + (1 if n < rest else 0) for n in range(count)]
