"""Remnic's tree read as the graph that it stands for, and the context that follows from it. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lossless.transfer.summaries import below, sources_first

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lossless.store.bundles import Key, MessageId, Values


@dataclass(slots=True)
class Graph:
    """The nodes of each conversation, with `members` and `below`; and those that belong to none alone."""

    owned: dict[int, list[Values]] = field(default_factory=dict)
    mixed: list[str] = field(default_factory=list)


def graph(nodes: Sequence[Values], owner: Mapping[int, int], turns: Mapping[int, Sequence[tuple[int, int]]]) -> Graph:
    """Give each node its conversation, its messages and its sources.

    A leaf belongs to the conversation whose messages its range begins and ends with. A link from a shallow node to
    a deep one is read as it is meant, whichever way it was written.
    """
    found = Graph()
    sources = _sources(nodes)
    edges = {node["id"]: {"sources": sources[node["id"]]} for node in nodes}
    by_id = {node["id"]: node for node in nodes}
    belongs: dict[str, int] = {}
    for id_ in sources_first(edges):
        node = by_id[id_]
        made_of = [source for source in sources[id_] if source in belongs]
        owners = {belongs[source] for source in made_of}
        members: list[int] = []
        if not made_of:
            members = _members(node, owner, turns)
            owners = {owner[number] for number in members if number in owner}
        if len(owners) != 1:
            found.mixed.append(id_)
            continue
        (belongs[id_],) = owners
        found.owned.setdefault(belongs[id_], []).append(node | {"members": members, "below": made_of})
    return found


def _sources(nodes: Sequence[Values]) -> dict[str, list[str]]:
    """The sources of each node, as they were noted, else by the links of the tree in the order of their turns."""
    depths = {node["id"]: node["depth"] for node in nodes}
    linked: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    starts = {node["id"]: node["start"] for node in nodes}
    for node in nodes:
        other = node["parent_id"]
        if other in depths and depths[other] != node["depth"]:
            above, source = (other, node["id"]) if depths[other] > node["depth"] else (node["id"], other)
            linked[above].append((starts[source], source))
    return {
        node["id"]: [source for source in node["sources"] if source in depths]
        if node["sources"]
        else [source for _, source in sorted(linked[node["id"]])]
        for node in nodes
    }


def _members(node: Values, owner: Mapping[int, int], turns: Mapping[int, Sequence[tuple[int, int]]]) -> list[int]:
    """The messages of a leaf: as they were noted, else those of its range in the conversation at both its ends."""
    if node["messages"]:
        return [number for number in node["messages"] if number in owner]
    best: list[int] = []
    at_both_ends = False
    for rows in turns.values():
        ordered = sorted(rows)
        first = bisect_left(ordered, (node["start"],))
        last = bisect_right(ordered, (node["end"], float("inf")))
        inside = [number for _, number in ordered[first:last]]
        ends = bool(inside) and ordered[first][0] == node["start"] and ordered[last - 1][0] == node["end"]
        if (ends, len(inside)) > (at_both_ends, len(best)):
            best, at_both_ends = inside, ends
    return best


def context_of(
    keys: Sequence[Key], summaries: Sequence[Values], hidden: Collection[object], kept: Sequence[Values] | None
) -> list[Values]:
    """A context in which each message is once: as it was kept with what came since, else made anew.

    Made anew it is the summaries that are used in no other, and the messages that none of them covers, in order.
    """
    order = {key.id: n for n, key in enumerate(keys)}
    given = {one["summary_id"]: one for one in summaries}
    covered = below([given[id_] for id_ in sources_first(given)])
    if kept is not None:
        items: list[MessageId | str] = [item["summary_id"] or item["message_id"] for item in kept]
        shown = {id_ for item in items for id_ in covered.get(str(item), [item])}
        behind = {key.id for key in keys if str(key.entry_id or "").startswith("remnic:")}
        later = [key.id for key in keys if key.id not in shown and key.id not in hidden and key.id in behind]
        return [*kept, *_items(later, given, start=max((item["ordinal"] for item in kept), default=-1) + 1)]
    used = {source for one in summaries for source in one["sources"]}
    places: list[tuple[int, MessageId | str]] = []
    seen: set[MessageId] = set()
    tops = [id_ for id_ in covered if id_ not in used and id_ not in hidden and covered[id_]]
    for id_ in sorted(tops, key=lambda id_: (min(order[m] for m in covered[id_]), -given[id_]["depth"], id_)):
        if seen.isdisjoint(covered[id_]):
            places.append((min(order[message] for message in covered[id_]), id_))
            seen.update(covered[id_])
    places += [(order[key.id], key.id) for key in keys if key.id not in seen and key.id not in hidden]
    return _items([id_ for _, id_ in sorted(places, key=lambda place: place[0])], given)


def _items(ids: Sequence[MessageId | str], summaries: Collection[str], start: int = 0) -> list[Values]:
    return [
        {
            "ordinal": n,
            "item_type": "summary" if id_ in summaries else "message",
            "message_id": None if id_ in summaries else id_,
            "summary_id": id_ if id_ in summaries else None,
            "created_at": None,
        }
        for n, id_ in enumerate(ids, start)
    ]
