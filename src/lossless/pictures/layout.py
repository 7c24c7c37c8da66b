"""Where summaries stand in a picture: depths are rows, widths are tokens, each stands over what it was made of."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lossless.store.outline import Shape

#: Pixels: how wide all leaves together would like to be, how narrow one may get, and what lies between neighbours.
_WANTED_WIDTH = 1_100
_LEAST_WIDTH = 9
_GAP = 3


@dataclass(frozen=True, slots=True)
class Box:
    """A summary's place: its left edge and its width, in pixels from the left edge of the graph."""

    shape: Shape
    x: float
    width: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def end(self) -> float:
        return self.x + self.width


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows of boxes by depth, from the deepest down to the leaves, and who was made of whom."""

    rows: Mapping[int, tuple[Box, ...]]
    edges: tuple[tuple[Box, Box], ...]
    width: float


def lay_out(shapes: Sequence[Shape], edges: Iterable[tuple[str, str]]) -> Layout:
    """Leaves stand in their order in time, everything else over the middle of what it was made of; no two overlap."""
    sources: defaultdict[str, list[str]] = defaultdict(list)
    for user, source in edges:
        sources[user].append(source)
    by_depth: defaultdict[int, list[Shape]] = defaultdict(list)
    for shape in _in_order(shapes, sources):
        by_depth[shape.depth].append(shape)
    first = by_depth.get(min(by_depth, default=0), [])
    scale = _WANTED_WIDTH / max(1, sum(shape.tokens for shape in first))
    placed: dict[str, Box] = {}
    rows: dict[int, tuple[Box, ...]] = {}
    for depth in sorted(by_depth):
        row = _row(by_depth[depth], sources, placed, scale)
        placed |= {box.shape.id: box for box in row}
        rows[depth] = tuple(row)
    lines = [
        (placed[user], placed[source])
        for user, found in sources.items()
        for source in found
        if user in placed and source in placed
    ]
    width = max((box.end for box in placed.values()), default=0.0)
    return Layout({depth: rows[depth] for depth in sorted(rows, reverse=True)}, tuple(lines), width)


def _in_order(shapes: Sequence[Shape], sources: Mapping[str, Sequence[str]]) -> list[Shape]:
    """What belongs to one summary stands together; those at the top are in the order of time."""
    known = {shape.id: shape for shape in shapes}
    below = {source for found in sources.values() for source in found}
    tops = [shape for shape in shapes if shape.id not in below]
    tops.sort(key=lambda shape: (shape.earliest_at is None, shape.earliest_at or shape.id))
    order: dict[str, Shape] = {}
    todo = [shape.id for shape in reversed([*tops, *shapes])]
    while todo:
        id_ = todo.pop()
        if id_ in known and id_ not in order:
            order[id_] = known[id_]
            todo += reversed(sources.get(id_, ()))
    return list(order.values())


def _row(
    shapes: Sequence[Shape], sources: Mapping[str, Sequence[str]], placed: Mapping[str, Box], scale: float
) -> list[Box]:
    """The boxes of one depth: each where it would like to be, or to the right of its neighbour."""
    wishes = []
    for place, shape in enumerate(shapes):
        below = [placed[id_] for id_ in sources.get(shape.id, ()) if id_ in placed]
        middle = (min(box.x for box in below) + max(box.end for box in below)) / 2 if below else None
        wishes.append((middle if middle is not None else float("inf") if placed else 0.0, place, shape))
    boxes: list[Box] = []
    at = 0.0
    for middle, _, shape in sorted(wishes, key=lambda wish: wish[:2]):
        width = max(_LEAST_WIDTH, shape.tokens * scale)
        x = at if middle == float("inf") else max(at, middle - width / 2)
        boxes.append(Box(shape, x, width))
        at = x + width + _GAP
    return boxes
