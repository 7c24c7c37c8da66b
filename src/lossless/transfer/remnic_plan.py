"""Where messages and summaries go in a Remnic database. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.model.times import parse_time
from lossless.transfer.summaries import sources_first

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lossless.store.bundles import Key, MessageId, Values
    from lossless.store.remnic import Standing

SessionBy: TypeAlias = Literal["session_id", "session_key", "conversation"]
#: The entry id of a message that came from a Remnic database: its turn there, and its number.
_CAME_AT = re.compile(r"remnic:(\d+)\.\d+")


def entry_id(turn: int, number: int) -> str:
    """How a message of a Remnic session is remembered."""
    return f"remnic:{turn}.{number}"


def session_of(conversation: Values, by: SessionBy) -> str:
    """The session that a conversation belongs to in Remnic."""
    number = str(conversation["conversation_id"])
    run = str(conversation["session_id"] or "").strip() or number
    if by == "session_key":
        return str(conversation["session_key"] or "").strip() or run
    return number if by == "conversation" else run


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message stands in a Remnic session; `known` is its id there when it is there already."""

    session: str
    turn: int
    known: int | None = None


def source_key(conversation_id: MessageId, seq: int) -> str:
    """What a message is known by in Remnic: numbers and texts that look alike are the same."""
    return f"{conversation_id}|{seq}"


def places(
    conversations: Sequence[tuple[Values, Sequence[Key]]],
    session_by: SessionBy,
    standing: Callable[[str], Standing],
    *,
    compat: bool = False,
) -> dict[tuple[MessageId, MessageId], Place]:
    """A turn for each message, by conversation and id: in the order of time, never changing what is there."""
    sessions: defaultdict[str, list[tuple[object, object, int, MessageId, Key]]] = defaultdict(list)
    for conversation, keys in conversations:
        id_ = conversation["conversation_id"]
        times = [key.created_at for key in keys] if compat else _growing(keys)
        rows = sessions[session_of(conversation, session_by)]
        rows += [(at, _order(id_), key.seq, id_, key) for at, key in zip(times, keys, strict=True)]
    found: dict[tuple[MessageId, MessageId], Place] = {}
    for session, rows in sessions.items():
        there = standing(session)
        turn = there.newest_turn
        for _, _, seq, id_, key in sorted(rows, key=lambda row: row[:3]):
            known = there.known.get(source_key(id_, seq))
            if known is not None:
                found[id_, key.id] = Place(session, known[1], known[0])
                continue
            turn = max(turn + 1, _came_at(key) if there.newest_turn < 0 else 0)
            found[id_, key.id] = Place(session, turn)
    return found


def _came_at(key: Key) -> int:
    match = _CAME_AT.fullmatch(key.entry_id or "")
    return int(match[1]) if match else 0


def _growing(keys: Sequence[Key]) -> list[float]:
    """Times that never go back: within a conversation its own order holds."""
    found: list[float] = []
    latest = float("-inf")
    for key in keys:
        with suppress(ValueError, OverflowError):
            latest = max(latest, parse_time(key.created_at).timestamp())
        found.append(latest)
    return found


def _order(id_: MessageId) -> tuple[int, int, str]:
    """Numbers in their order, texts behind them in theirs."""
    return (0, id_, "") if isinstance(id_, int) else (1, 0, id_)


@dataclass(frozen=True, slots=True)
class Node:
    """A summary as Remnic keeps it."""

    id: str
    session: str
    depth: int
    parent: str | None
    start: int
    end: int
    summary: Values
    is_there: bool = False


@dataclass(slots=True)
class NodePlan:
    """The summaries that go over, and why others do not."""

    nodes: list[Node] = field(default_factory=list)
    #: Summaries that were there without one above them, and the one that is above them now.
    adopted: list[tuple[str, str]] = field(default_factory=list)
    no_messages: int = 0
    multi_session: int = 0
    collapsed: int = 0
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Span:
    session: str
    start: int
    end: int
    depth: int


def faithful(
    summaries: Mapping[str, Values],
    at: Mapping[MessageId, Place],
    there: Mapping[str, tuple[str, str | None]],
    sessions: Collection[str],
) -> NodePlan:
    """The graph as it is: a summary lies below the one that was made of it, and covers what is below it."""
    plan = NodePlan()
    spans: dict[str, _Span] = {}
    for id_ in sources_first(summaries):
        one = summaries[id_]
        parts = [spans[source] for source in one["sources"] if source in spans]
        if parts and one["kind"] != "leaf":
            reached = {part.session for part in parts}
            start, end = min(part.start for part in parts), max(part.end for part in parts)
            span = _Span(parts[0].session, start, end, 1 + max(part.depth for part in parts))
        else:
            span_or_none = _leaf_span(plan, one, at)
            if span_or_none is None:
                continue
            reached, span = {span_or_none.session}, span_or_none
        if len(reached) > 1:
            plan.multi_session += 1
            plan.warnings.append(f"summary {id_!r} covers several sessions: left out")
            continue
        spans[id_] = span
    above = _above(plan, summaries, spans, sessions)
    for id_, span in sorted(spans.items(), key=lambda item: (-item[1].depth, item[0])):
        if sessions and span.session not in sessions:
            continue
        node = Node(id_, span.session, span.depth, above.get(id_), span.start, span.end, summaries[id_], id_ in there)
        plan.nodes.append(node)
        if node.is_there and node.parent is not None and there[id_][1] is None:
            plan.adopted.append((id_, node.parent))
    return plan


def _leaf_span(plan: NodePlan, one: Values, at: Mapping[MessageId, Place]) -> _Span | None:
    """The turns of a leaf; None, and counted, when it has none or not all in one session."""
    if not one["messages"]:
        plan.no_messages += 1
        plan.warnings.append(f"summary {one['summary_id']!r} has no messages: left out")
        return None
    found = [at.get(id_) for id_ in one["messages"]]
    sessions = {place.session for place in found if place is not None}
    if None in found or len(sessions) != 1:
        plan.multi_session += 1
        why = "has messages that are missing or of several sessions"
        plan.warnings.append(f"summary {one['summary_id']!r} {why}: left out")
        return None
    turns = [place.turn for place in found if place is not None]
    return _Span(sessions.pop(), min(turns), max(turns), 0)


def _above(
    plan: NodePlan, summaries: Mapping[str, Values], spans: Mapping[str, _Span], sessions: Collection[str]
) -> dict[str, str]:
    """The one summary above each: of several, the shallowest, then the first by id."""
    users: defaultdict[str, list[str]] = defaultdict(list)
    for id_, span in spans.items():
        if span.depth:
            for source in summaries[id_]["sources"]:
                if source in spans and (not sessions or span.session in sessions):
                    users[source].append(id_)
    plan.collapsed = sum(len(above) > 1 for above in users.values())
    for source, above in users.items():
        if len(above) > 1:
            plan.warnings.append(f"summary {source!r} is used in {len(above)} others: the tree keeps one")
    return {source: min(above, key=lambda id_: (spans[id_].depth, id_)) for source, above in users.items()}


def compatible(
    summaries: Mapping[str, Values],
    at: Mapping[MessageId, Place],
    there: Mapping[str, tuple[str, str | None]],
    sessions: Collection[str],
) -> NodePlan:
    """What Remnic's own importer makes of the graph: summaries over messages, a "parent" as the column says."""
    plan = NodePlan()
    spans: dict[str, _Span] = {}
    for id_, one in sorted(summaries.items(), key=lambda item: (item[1]["depth"] or 0, item[0])):
        span = _leaf_span(plan, one, at)
        if span is not None and (not sessions or span.session in sessions):
            spans[id_] = span
    for id_, span in spans.items():
        given = summaries[id_]["sources"]
        valid = [
            source for source in given
            if (spans[source].session if source in spans else there.get(source, ("",))[0]) == span.session
        ]  # fmt: skip
        if len(valid) < len(given):
            plan.warnings.append(f"summary {id_!r}: dropped {len(given) - len(valid)} parent link(s)")
        if len(valid) > 1:
            plan.collapsed += 1
            plan.warnings.append(f"summary {id_!r} has {len(valid)} parents: kept {valid[0]!r}")
        depth = summaries[id_]["depth"] or 0
        parent = valid[0] if valid else None
        plan.nodes.append(Node(id_, span.session, depth, parent, span.start, span.end, summaries[id_], id_ in there))
    order = {node.id: node for node in plan.nodes}
    edges = {id_: {"sources": [node.parent] if node.parent else []} for id_, node in order.items()}
    plan.nodes = [order[id_] for id_ in sources_first(edges)]
    return plan
