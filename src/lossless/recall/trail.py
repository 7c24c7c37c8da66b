"""The way that `expand` goes: summaries and messages in order, each once, walked in either direction."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lossless.recall.scope import Scope
    from lossless.store.archive import Archive
    from lossless.store.lineage import Node

#: How many messages before and after a message belong to its surroundings.
NEIGHBOURS = 100
#: The most summaries that one expansion walks.
_MOST = 20_000
_AHEAD = 8


@dataclass(frozen=True, slots=True)
class Stop:
    """One thing on the way: the text of a summary, or messages in a row."""

    kind: Literal["summary", "messages"]
    #: The summary; for messages, the leaf that they were folded into, or empty.
    id: str
    level: int
    #: What a summary is a source of.
    source_of: str | None = None
    message_ids: tuple[int, ...] = ()


#: Where one is: the index of the stop, and of the message in it.
Place: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Step:
    """A summary or a message on the way."""

    place: Place
    stop: Stop
    message_id: int | None

    @property
    def name(self) -> str:
        return self.stop.id if self.message_id is None else f"msg#{self.message_id}"


class Trail:
    """The stops of an expansion. The messages of leaves are looked up when they are come to."""

    def __init__(self, archive: Archive, stops: Sequence[Stop]) -> None:
        self._archive, self.stops = archive, stops
        self._messages: dict[str, tuple[int, ...]] = {}

    def forward(self, start: Place) -> Iterator[Step]:
        """From a place on."""
        for index in range(start[0], len(self.stops)):
            ids = self._ids(index)
            for place in range(start[1] if index == start[0] else 0, len(ids)):
                yield Step((index, place), self.stops[index], ids[place])

    def backward(self, end: Place) -> Iterator[Step]:
        """From just before a place back to the beginning."""
        for index in range(min(end[0], len(self.stops) - 1), -1, -1):
            ids = self._ids(index)
            for place in range((end[1] if index == end[0] else len(ids)) - 1, -1, -1):
                yield Step((index, place), self.stops[index], ids[place])

    def find(self, name: str, leaf: str) -> Place | None:
        """Where a summary stands, or a message (`msg#…`) of a leaf."""
        for index, stop in enumerate(self.stops):
            if stop.kind == "summary":
                if stop.id == name:
                    return index, 0
            elif stop.id == leaf:
                places = (place for place, id_ in enumerate(self._ids(index)) if f"msg#{id_}" == name)
                if (found := next(places, None)) is not None:
                    return index, found
        return None

    def _ids(self, index: int) -> tuple[int | None, ...]:
        stop = self.stops[index]
        if stop.kind == "summary":
            return (None,)
        if stop.message_ids:
            return stop.message_ids
        if stop.id not in self._messages:
            near = self.stops[max(0, index - _AHEAD) : index + _AHEAD]
            leaves = [other.id for other in near if other.kind == "messages" and not other.message_ids]
            found = self._archive.lineage.leaf_messages(leaves)
            self._messages |= {leaf: tuple(found.get(leaf, ())) for leaf in leaves}
        return self._messages[stop.id]


def below(archive: Archive, scope: Scope, roots: Sequence[Node], depth: int, *, messages: bool) -> list[Stop]:
    """The stops below some summaries, `depth` layers down, sources right behind what they were folded into.

    Messages are a layer. A leaf that is a root itself is opened; others only with `messages`.
    """
    sources = _sources(archive, scope, roots, depth)
    stops: list[Stop] = []
    shown: set[str] = set()
    opened: set[str] = set()
    todo: list[tuple[Node, int, str | None]] = [(root, 0, None) for root in reversed(roots)]
    while todo:
        node, level, source_of = todo.pop()
        if level and node.id not in shown:
            shown.add(node.id)
            stops.append(Stop("summary", node.id, level, source_of))
        if node.id in opened or level >= depth or not (node.source_count or messages or not level):
            continue
        opened.add(node.id)
        if node.source_count:
            todo += [(source, level + 1, node.id) for source in reversed(sources.get(node.id, []))]
        else:
            stops.append(Stop("messages", node.id, level + 1))
    return stops


def _sources(archive: Archive, scope: Scope, roots: Sequence[Node], depth: int) -> dict[str, list[Node]]:
    """The sources of every summary on the way, read layer by layer; what is out of scope is left out."""
    found: dict[str, list[Node]] = {}
    layer = [root.id for root in roots if root.source_count]
    for _ in range(depth):
        if not layer:
            break
        if len(found) + len(layer) > _MOST:
            raise BadInput("there are too many summaries below; expand a branch of it, or fewer layers")
        read = archive.lineage.sources(layer)
        got = {id_: [node for node in nodes if scope.allows(node.conversation_id)] for id_, nodes in read.items()}
        found |= got
        nodes = chain.from_iterable(got.values())
        layer = list(dict.fromkeys(node.id for node in nodes if node.source_count and node.id not in found))
    return found


def around(archive: Archive, message_id: int, conversation_id: int, seq: int) -> list[Stop]:
    """A message among its neighbours in the conversation."""
    before = archive.lineage.before(conversation_id, seq, NEIGHBOURS)
    after = archive.lineage.after(conversation_id, seq, NEIGHBOURS)
    return [Stop("messages", "", 0, message_ids=(*before, message_id, *after))]
