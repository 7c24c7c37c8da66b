"""`expand`: the messages and sources below summaries, in order, within a token cap, with cursors in both directions."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lossless.errors import BadInput
from lossless.model.tokens import estimate_tokens
from lossless.recall import results
from lossless.recall import scope as recall_scope
from lossless.recall.results import Reference, TextBudget, format_span, message_header, message_text, parse_references
from lossless.recall.scope import require_readable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from lossless.recall.scope import Scope
    from lossless.store.archive import Archive
    from lossless.store.views import LineageNode


@dataclass(frozen=True, slots=True)
class ExpandedPiece:
    """A summary or a message, or a part of one: its characters from `start` up to, without, `end`."""

    kind: Literal["summary", "message"]
    id: str
    text: str
    start: int
    end: int
    total: int
    level: int
    #: For a message the leaf over it, for a summary what it is a source of.
    under: str | None
    #: The piece as it is returned, its title over it, and what that takes.
    block: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Expansion:
    """What was opened; `tokens` is what it takes and what a grant is charged."""

    opened: tuple[str, ...]
    pieces: tuple[ExpandedPiece, ...]
    #: Where it goes on, when it does.
    cursor: str | None = None
    #: What stands before it, when it was centred on a message.
    previous: str | None = None
    token_cap: int = 0

    @property
    def tokens(self) -> int:
        return sum(piece.tokens for piece in self.pieces)

    @property
    def text(self) -> str:
        return "".join(piece.block for piece in self.pieces)

    @property
    def truncated(self) -> bool:
        return self.cursor is not None or self.previous is not None

    @property
    def ids(self) -> tuple[str, ...]:
        """What can be cited from it."""
        return tuple(dict.fromkeys(piece.id for piece in self.pieces))

    def __str__(self) -> str:
        lines = [self.text.rstrip("\n")] if self.pieces else []
        if not self.pieces:
            too_small = f"The token cap of {self.token_cap:,} is too small for the next piece; ask for more."
            lines.append(too_small if self.cursor else "There is nothing below.")
        if self.previous:
            lines.append(f'(there is more before; cursor="{self.previous}")')
        if self.cursor:
            lines.append(f'(truncated at {self.tokens:,} tokens; go on with cursor="{self.cursor}")')
        return "\n\n".join(lines)

    @property
    def details(self) -> dict[str, Any]:
        return {
            "expandedIds": list(self.opened),
            "citedIds": list(self.ids),
            "summaryCount": sum(piece.kind == "summary" for piece in self.pieces),
            "messageCount": sum(piece.kind == "message" for piece in self.pieces),
            "totalTokens": self.tokens,
            "tokenCap": self.token_cap,
            "truncated": self.truncated,
            "cursor": self.cursor,
            "previousCursor": self.previous,
            "pieces": [
                {"id": piece.id, "type": piece.kind, "level": piece.level, "under": piece.under,
                 "tokens": piece.tokens, "start": piece.start, "end": piece.end, "total": piece.total}
                for piece in self.pieces
            ],
        }  # fmt: skip


#: How many messages before and after a message belong to its surroundings.
NEIGHBOUR_COUNT = 100
#: The most summaries that one expansion walks.
_MOST = 20_000
_AHEAD = 8
_BATCH, _LARGEST_BATCH = 4, 64


#: Where one is: the index of the stop, and of the message in it.
WalkPlace: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class WalkStep:
    """A stop on the way: a summary, or messages in a row; then, of these, one message. Its text is read when it is
    come to.
    """

    kind: Literal["summary", "messages"]
    #: The summary; for messages, the leaf that they were folded into, or empty.
    id: str
    level: int
    #: What a summary is a source of.
    source_of: str | None = None
    message_ids: tuple[int, ...] = ()
    message_id: int | None = None
    title: str = ""
    text: str = ""

    @property
    def name(self) -> str:
        return self.id if self.message_id is None else f"msg#{self.message_id}"

    def edge(self, offset: int, *, backwards: bool = False) -> _Edge:
        """A place in its text."""
        return self.name, "" if self.message_id is None else self.id, offset, backwards

    def piece(self, start: int = 0, end: int | None = None) -> ExpandedPiece:
        total = len(self.text)
        end = total if end is None else end
        kind: Literal["summary", "message"] = "summary" if self.message_id is None else "message"
        under = self.source_of if kind == "summary" else self.id or None
        text = self.text[start:end]
        block = f"{self._head(start, end) if end - start < total else f'[{self.title}]'}\n{text}\n\n"
        tokens = estimate_tokens(block)
        return ExpandedPiece(kind, self.name, text, start, end, total, self.level, under, block, tokens)

    def cut(self, start: int, end: int, budget: TextBudget, *, at_end: bool = False) -> ExpandedPiece | None:
        """As much as fits from `start` on, or up to `end`; None when nothing does."""
        frame = f"{self._head(len(self.text), len(self.text))}\n\n\n"
        inside = budget.less(len(frame), estimate_tokens(frame))
        if at_end:
            text = inside.tail(self.text[:end])
            return self.piece(end - len(text), end) if text else None
        text = inside.head(self.text[start:])
        return self.piece(start, start + len(text)) if text else None

    def _head(self, start: int, end: int) -> str:
        return f"[{self.title} | characters {start:,} to {end:,} of {len(self.text):,}]"


class ExpansionWalk:
    """The stops of an expansion. The messages of leaves, and texts, are looked up when they are come to."""

    def __init__(self, archive: Archive, scope: Scope, stops: Sequence[WalkStep]) -> None:
        self._archive, self._scope, self.stops = archive, scope, stops
        self._messages: dict[str, tuple[int, ...]] = {}

    def forward(self, start: WalkPlace) -> Iterator[WalkStep]:
        """From a place on."""
        after = ((index, self._ids(index)) for index in range(start[0], len(self.stops)))
        return self._load(
            replace(self.stops[index], message_id=id_)
            for index, ids in after
            for id_ in ids[start[1] if index == start[0] else 0 :]
        )

    def backward(self, end: WalkPlace) -> Iterator[WalkStep]:
        """From just before a place back to the beginning."""
        before = ((index, self._ids(index)) for index in range(min(end[0], len(self.stops) - 1), -1, -1))
        return self._load(
            replace(self.stops[index], message_id=id_)
            for index, ids in before
            for id_ in reversed(ids[: end[1]] if index == end[0] else ids)
        )

    def _load(self, steps: Iterator[WalkStep]) -> Iterator[WalkStep]:
        """Steps with their texts, read some at a time; what is gone or out of scope is passed over."""
        size = _BATCH
        while batch := list(islice(steps, size)):
            ids = [step.message_id for step in batch if step.message_id is not None]
            messages = {stored.id: stored for stored in self._archive.messages.many(ids)}
            summaries = {
                found.id: found
                for found in self._archive.summaries.many([step.id for step in batch if step.message_id is None])
            }
            for step in batch:
                if step.message_id is None:
                    if summary := summaries.get(step.id):
                        when = format_span(summary.earliest_at, summary.latest_at)
                        title = f"{summary.id} | {summary.kind}, depth {summary.depth} | {when}"
                        yield replace(step, title=title, text=summary.content)
                elif (stored := messages.get(step.message_id)) and self._scope.allows(stored.conversation_id):
                    yield replace(step, title=message_header(stored)[1:-1], text=message_text(stored.message))
            size = min(2 * size, _LARGEST_BATCH)

    def find(self, name: str, leaf: str) -> WalkPlace | None:
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
            found = self._archive.listings.leaf_messages(leaves)
            self._messages |= {leaf: tuple(found.get(leaf, ())) for leaf in leaves}
        return self._messages[stop.id]


def walk_below(
    archive: Archive, scope: Scope, roots: Sequence[LineageNode], depth: int, *, messages: bool
) -> list[WalkStep]:
    """The stops below some summaries, `depth` layers down, sources right behind what they were folded into.

    Messages are a layer. A leaf that is a root itself is opened; others only with `messages`.
    """
    sources = _sources(archive, scope, roots, depth)
    stops: list[WalkStep] = []
    shown: set[str] = set()
    opened: set[str] = set()
    todo: list[tuple[LineageNode, int, str | None]] = [(root, 0, None) for root in reversed(roots)]
    while todo:
        node, level, source_of = todo.pop()
        if level and node.id not in shown:
            shown.add(node.id)
            stops.append(WalkStep("summary", node.id, level, source_of))
        if node.id in opened or level >= depth or not (node.source_count or messages or not level):
            continue
        opened.add(node.id)
        if node.source_count:
            todo += [(source, level + 1, node.id) for source in reversed(sources.get(node.id, []))]
        else:
            stops.append(WalkStep("messages", node.id, level + 1))
    return stops


def _sources(archive: Archive, scope: Scope, roots: Sequence[LineageNode], depth: int) -> dict[str, list[LineageNode]]:
    """The sources of every summary on the way, read layer by layer; what is out of scope is left out."""
    found: dict[str, list[LineageNode]] = {}
    layer = [root.id for root in roots if root.source_count]
    for _ in range(depth):
        if not layer:
            break
        if len(found) + len(layer) > _MOST:
            raise BadInput("there are too many summaries below; expand a branch of it, or fewer layers")
        read = archive.listings.nodes_below(layer)
        got = {id_: [node for node in nodes if scope.allows(node.conversation_id)] for id_, nodes in read.items()}
        found |= got
        nodes = chain.from_iterable(got.values())
        layer = list(dict.fromkeys(node.id for node in nodes if node.source_count and node.id not in found))
    return found


_MOST_IDS = 64


@dataclass(frozen=True, slots=True)
class ExpandRequest:
    """What to open and how far down. One layer: a condensed summary's sources, a leaf's messages."""

    references: tuple[Reference, ...] = ()
    max_depth: int = 1
    token_cap: int = recall_scope.GRANT_TOKEN_CAP
    #: Whether to go down to the messages of leaves that are not named themselves.
    include_messages: bool = False
    #: A message to be in the middle, with what was said before and after it.
    around: int | None = None


def expand(
    archive: Archive, request: ExpandRequest, scope: Scope, now: datetime, cursor: str | None = None
) -> Expansion:
    """Open summaries and messages, or go on where a cursor points. A grant is charged for what is returned.

    `NotFound` for an id that is not there or not in scope, `GrantError` beyond the grant.
    """
    archive = archive.within(scope.conversation_ids)
    start: _Edge | None = None
    if cursor is not None:
        request, start = _from_cursor(cursor, request)
    grant = scope.grant
    if grant is not None:
        recall_scope.check_grant(grant, now)
        if grant.max_depth < 1:
            raise recall_scope.grant_refused("the grant allows no expansion below what is named")
        request = replace(request, max_depth=min(request.max_depth, grant.max_depth))

    def read(remaining: int | None) -> Expansion:
        cap = request.token_cap if remaining is None else min(request.token_cap, remaining)
        with archive.reading():
            walk, centre = _plan(archive, scope, request)
            return _page(replace(request, token_cap=cap), walk, start, centre)

    return recall_scope.read_and_charge(archive, grant, now, read, lambda found: found.tokens)


def _plan(archive: Archive, scope: Scope, request: ExpandRequest) -> tuple[ExpansionWalk, WalkPlace | None]:
    """The way through what was asked for, and the place to be centred on."""
    references = request.references
    if not references and request.around is None:
        raise BadInput("nothing to expand: pass ids, a message to look around, or a cursor")
    if len(references) > _MOST_IDS:
        raise BadInput(f"pass at most {_MOST_IDS} ids, not {len(references)}")
    roots, message_ids = _roots(archive, scope, references)
    around = request.around
    if around is None and len(references) == 1 and message_ids:
        around, message_ids = message_ids[0], []
    if around is not None:
        return _centred(archive, scope, around, roots)
    stops = walk_below(archive, scope, roots, request.max_depth, messages=request.include_messages)
    if message_ids:
        stops.append(WalkStep("messages", "", 0, message_ids=tuple(message_ids)))
    return ExpansionWalk(archive, scope, stops), None


def _roots(archive: Archive, scope: Scope, references: Sequence[Reference]) -> tuple[list[LineageNode], list[int]]:
    nodes = archive.listings.summary_nodes(named.id for named in references if named.kind == "summary")
    message_ids = [named.message_id for named in references if named.kind == "message"]
    places = archive.listings.message_places(message_ids)
    for named in references:
        node, place = nodes.get(named.id), places.get(named.message_id)
        require_readable(archive, scope, node.conversation_id if node else place[0] if place else None, named.id)
    return [nodes[named.id] for named in references if named.kind == "summary"], message_ids


def _centred(
    archive: Archive, scope: Scope, message_id: int, roots: Sequence[LineageNode]
) -> tuple[ExpansionWalk, WalkPlace]:
    """A message in its leaf when that is below what was named, else among its neighbours."""
    places, name = archive.listings.message_places([message_id]), f"msg#{message_id}"
    require_readable(archive, scope, places[message_id][0] if places else None, name)
    leaf = archive.summaries.covering([message_id]).get(message_id)
    if roots and (leaf is None or not archive.listings.is_below(leaf, [root.id for root in roots])):
        raise BadInput(f"{name} is not below {', '.join(root.id for root in roots[:3])}")
    if leaf is not None and (roots or (scope.grant is not None and scope.grant.summary_ids)):
        walk = ExpansionWalk(archive, scope, [WalkStep("messages", leaf, 1)])
    else:
        before = archive.listings.ids_before(*places[message_id], NEIGHBOUR_COUNT)
        after = archive.listings.ids_after(*places[message_id], NEIGHBOUR_COUNT)
        around = WalkStep("messages", "", 0, message_ids=(*before, message_id, *after))
        leaf, walk = "", ExpansionWalk(archive, scope, [around])
    found = walk.find(name, leaf)
    assert found is not None
    return walk, found


#: Where a page begins, or ends when it is read backwards: a name on the way, its leaf, an offset in its text, and
#: whether it is read backwards.
_Edge: TypeAlias = tuple[str, str, int, bool]


def _page(request: ExpandRequest, walk: ExpansionWalk, start: _Edge | None, centre: WalkPlace | None) -> Expansion:
    budget = TextBudget(request.token_cap)
    opened = tuple(named.id for named in request.references) or (f"msg#{request.around}",)

    def result(pieces: Sequence[ExpandedPiece], after: _Edge | None, before: _Edge | None = None) -> Expansion:
        words = [None if place is None else _to_cursor(request, place) for place in (after, before)]
        return Expansion(opened, tuple(pieces), words[0], words[1], request.token_cap)

    if start is None:
        return result(*(_both_ways(walk, centre, budget) if centre else _forward(walk.forward((0, 0)), budget, 0)))
    name, leaf, offset, backwards = start
    place = walk.find(name, leaf)
    if place is None:
        raise results.bad_cursor()
    if not backwards:
        return result(*_forward(walk.forward(place), budget, offset))
    pieces, before = _backward(walk, place, start, budget)
    return result(pieces, None, before)


def _forward(items: Iterator[WalkStep], budget: TextBudget, offset: int) -> tuple[list[ExpandedPiece], _Edge | None]:
    """Pieces in order as long as there is room; only the first may be cut."""
    pieces: list[ExpandedPiece] = []
    for item in items:
        start, offset = min(offset, len(item.text)), 0
        if start == len(item.text) and start:
            continue
        piece = item.piece(start)
        if not budget.holds(len(piece.block), piece.tokens):
            part = None if pieces else item.cut(start, len(item.text), budget)
            return [*pieces, *filter(None, [part])], item.edge(part.end if part else start)
        pieces.append(piece)
        budget = budget.less(len(piece.block), piece.tokens)
    return pieces, None


def _backward(
    walk: ExpansionWalk, place: WalkPlace, edge: _Edge, budget: TextBudget
) -> tuple[list[ExpandedPiece], _Edge | None]:
    """Pieces before an edge, the nearest taken first, given in order; only the nearest may be cut."""
    pieces: deque[ExpandedPiece] = deque()
    cut: int | None = edge[2] or None
    for item in walk.backward((place[0], place[1] + 1) if cut else place):
        piece = item.piece(0, None if cut is None else min(cut, len(item.text)))
        cut = None
        if not budget.holds(len(piece.block), piece.tokens):
            part = None if pieces else item.cut(0, piece.end, budget, at_end=True)
            return [*filter(None, [part]), *pieces], item.edge(part.start, backwards=True) if part else edge
        pieces.appendleft(piece)
        edge, budget = item.edge(0, backwards=True), budget.less(len(piece.block), piece.tokens)
    return list(pieces), None


def _both_ways(
    walk: ExpansionWalk, centre: WalkPlace, budget: TextBudget
) -> tuple[list[ExpandedPiece], _Edge | None, _Edge | None]:
    """The piece in the middle, then one after and one before it in turns, as long as they fit."""
    index, place = centre
    middle = next(walk.forward(centre), None)
    if middle is None:
        raise results.bad_cursor()
    edge, piece = middle.edge(0, backwards=True), middle.piece()
    if not budget.holds(len(piece.block), piece.tokens):
        pieces, after = _forward(iter([middle]), budget, 0)
        return pieces, after, edge if next(walk.backward(centre), None) else None
    found, budget = deque([piece]), budget.less(len(piece.block), piece.tokens)
    later = walk.forward((index, place + 1))
    after = before = None
    ways = deque([later, walk.backward(centre)])
    while ways:
        way = ways.popleft()
        item = next(way, None)
        if item is None:
            continue
        piece = item.piece()
        if not budget.holds(len(piece.block), piece.tokens):
            after, before = (item.edge(0), before) if way is later else (after, edge)
            continue
        budget = budget.less(len(piece.block), piece.tokens)
        if way is later:
            found.append(piece)
        else:
            found.appendleft(piece)
            edge = item.edge(0, backwards=True)
        ways.append(way)
    return list(found), after, before


def _to_cursor(request: ExpandRequest, start: _Edge) -> str:
    ids = [named.id for named in request.references]
    fields = {"ids": ids, "d": request.max_depth, "m": int(request.include_messages), "a": request.around or 0}
    place = dict(zip(("at", "in", "o", "b"), start, strict=True))
    return results.encode_cursor("expand", fields | place | {"b": int(start[3])})


def _from_cursor(cursor: str, request: ExpandRequest) -> tuple[ExpandRequest, _Edge]:
    kinds: dict[str, type] = {"ids": list, "d": int, "m": int, "a": int, "at": str, "in": str, "o": int, "b": int}
    fields = results.decode_cursor("expand", cursor, kinds)
    if not all(isinstance(id_, str) for id_ in fields["ids"]) or fields["o"] < 0 or not 0 <= fields["a"] < 1 << 62:
        raise results.bad_cursor()
    around = fields["a"] or None
    references = parse_references(fields["ids"], kinds=("summary", "message"))
    known = ExpandRequest(references, max(0, fields["d"]), request.token_cap, bool(fields["m"]), around)
    return known, (fields["at"], fields["in"], fields["o"], bool(fields["b"]))
