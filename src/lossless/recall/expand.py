"""`expand`: the messages and sources below summaries, in order, within a token cap, with cursors in both directions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lossless.errors import BadInput
from lossless.model.tokens import estimate_tokens
from lossless.recall import results
from lossless.recall import scope as recall_scope
from lossless.recall.results import Reference, TextBudget, format_span, message_header, message_text, parse_references
from lossless.recall.scope import Scope, require_readable

if TYPE_CHECKING:
    from lossless.store.archive import Archive
    from lossless.store.views import LineageNode


#: Where a page begins, or ends when it is read backwards: a name on the way, its leaf, an offset in its text, and
#: whether it is read backwards.
_Edge: TypeAlias = tuple[str, str, int, bool]


@dataclass(frozen=True)
class ExpandedPiece:
    """A summary or a message, or a part of one: its characters from `start` up to, without, `end`."""

    id: str
    level: int
    #: For a message the leaf over it, for a summary what it is a source of.
    under: str | None
    title: str
    whole: str
    start: int
    end: int

    @property
    def kind(self) -> Literal["summary", "message"]:
        return "message" if self.id.startswith("msg#") else "summary"

    @property
    def text(self) -> str:
        return self.whole[self.start : self.end]

    @property
    def total(self) -> int:
        return len(self.whole)

    @cached_property
    def block(self) -> str:
        """The piece as it is returned, its title over it."""
        is_whole = self.end - self.start == self.total
        return f"{f'[{self.title}]' if is_whole else self._head(self.start, self.end)}\n{self.text}\n\n"

    @cached_property
    def tokens(self) -> int:
        """What the block takes."""
        return estimate_tokens(self.block)

    def _head(self, start: int, end: int) -> str:
        return f"[{self.title} | characters {start:,} to {end:,} of {self.total:,}]"

    def edge(self, offset: int, *, backwards: bool = False) -> _Edge:
        """A place in its text."""
        return self.id, (self.under or "") if self.kind == "message" else "", offset, backwards

    def cut(self, budget: TextBudget, *, at_end: bool) -> ExpandedPiece | None:
        """As much as fits of its beginning or its end; None when nothing does."""
        frame = f"{self._head(self.total, self.total)}\n\n\n"
        inside = budget.less(frame)
        text = inside.tail(self.text) if at_end else inside.head(self.text)
        start, end = (self.end - len(text), self.end) if at_end else (self.start, self.start + len(text))
        return replace(self, start=start, end=end) if text else None


@dataclass(frozen=True, slots=True)
class Expansion:
    """What was opened; `tokens` is what it takes and what a grant is charged."""

    opened: tuple[str, ...]
    pieces: tuple[ExpandedPiece, ...]
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
            **results.json_fields(self, "tokens=totalTokens token_cap truncated cursor previous=previousCursor"),
            "pieces": [results.json_fields(piece, _PIECE) for piece in self.pieces],
        }


_PIECE = "id kind=type level under tokens start end total"
#: How many messages before and after a message belong to its surroundings.
NEIGHBOUR_COUNT = 100
#: The most summaries that one expansion walks.
_MOST = 20_000
_AHEAD = 8
_BATCH, _LARGEST_BATCH = 4, 64


#: Where one is: the index of the stop, and of the message in it.
WalkPlace: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class WalkStop:
    """A stop on the way: a summary, or messages in a row."""

    #: The summary; for messages, the leaf that they were folded into, or empty.
    id: str
    level: int
    is_summary: bool = False
    #: What a summary is a source of.
    source_of: str | None = None
    #: Those of a leaf are looked up when they are come to.
    message_ids: tuple[int, ...] = ()


class ExpansionWalk:
    """The stops of an expansion. The messages of leaves, and texts, are looked up when they are come to."""

    def __init__(self, archive: Archive, scope: Scope, stops: Sequence[WalkStop]) -> None:
        self._archive, self._scope, self._stops = archive, scope, stops
        self._messages: dict[str, tuple[int, ...]] = {}

    def pieces(self, start: WalkPlace, *, backwards: bool = False) -> Iterator[ExpandedPiece]:
        """From a place on, or from just before it back to the beginning."""
        first, place = start
        way = range(min(first, len(self._stops) - 1), -1, -1) if backwards else range(first, len(self._stops))

        def names() -> Iterator[tuple[WalkStop, int | None]]:
            for index in way:
                ids = self._ids(index)
                if index == first:
                    ids = ids[:place] if backwards else ids[place:]
                for id_ in reversed(ids) if backwards else ids:
                    yield self._stops[index], id_

        return self._read(names())

    def _read(self, names: Iterator[tuple[WalkStop, int | None]]) -> Iterator[ExpandedPiece]:
        """Whole pieces, read some at a time; what is gone or out of scope is passed over."""
        size = _BATCH
        while batch := list(islice(names, size)):
            stored = self._archive.messages.many([id_ for _, id_ in batch if id_ is not None])
            messages = {message.id: message for message in stored if self._scope.allows(message.conversation_id)}
            known = self._archive.summaries.many([stop.id for stop, id_ in batch if id_ is None])
            summaries = {summary.id: summary for summary in known}
            for stop, id_ in batch:
                if id_ is None and (summary := summaries.get(stop.id)):
                    when, text = format_span(summary.earliest_at, summary.latest_at), summary.content
                    title = f"{summary.id} | {summary.kind}, depth {summary.depth} | {when}"
                    yield ExpandedPiece(stop.id, stop.level, stop.source_of, title, text, 0, len(text))
                elif id_ is not None and (message := messages.get(id_)):
                    title, text = message_header(message)[1:-1], message_text(message.message)
                    yield ExpandedPiece(f"msg#{id_}", stop.level, stop.id or None, title, text, 0, len(text))
            size = min(2 * size, _LARGEST_BATCH)

    def find(self, name: str, leaf: str) -> WalkPlace:
        """Where a summary stands, or a message (`msg#…`) of a leaf; `BadInput` when it is not on the way."""
        for index, stop in enumerate(self._stops):
            if stop.is_summary and stop.id == name:
                return index, 0
            if not stop.is_summary and stop.id == leaf:
                places = (place for place, id_ in enumerate(self._ids(index)) if f"msg#{id_}" == name)
                if (found := next(places, None)) is not None:
                    return index, found
        raise results.bad_cursor()

    def _ids(self, index: int) -> tuple[int | None, ...]:
        stop = self._stops[index]
        if stop.is_summary:
            return (None,)
        if stop.message_ids:
            return stop.message_ids
        if stop.id not in self._messages:
            near = self._stops[max(0, index - _AHEAD) : index + _AHEAD]
            leaves = [other.id for other in near if not (other.is_summary or other.message_ids)]
            found = self._archive.listings.leaf_messages(leaves)
            self._messages |= {leaf: tuple(found.get(leaf, ())) for leaf in leaves}
        return self._messages[stop.id]


def walk_below(
    archive: Archive, scope: Scope, roots: Sequence[LineageNode], depth: int, *, messages: bool
) -> list[WalkStop]:
    """The stops below some summaries, `depth` layers down, sources right behind what they were folded into.

    Messages are a layer. A leaf that is a root itself is opened; others only with `messages`.
    """
    sources = _sources(archive, scope, roots, depth)
    stops: list[WalkStop] = []
    shown: set[str] = set()
    opened: set[str] = set()
    todo: list[tuple[LineageNode, int, str | None]] = [(root, 0, None) for root in reversed(roots)]
    while todo:
        node, level, source_of = todo.pop()
        if level and node.id not in shown:
            shown.add(node.id)
            stops.append(WalkStop(node.id, level, True, source_of))
        if node.id in opened or level >= depth or not (node.source_count or messages or not level):
            continue
        opened.add(node.id)
        if node.source_count:
            todo += [(source, level + 1, node.id) for source in reversed(sources.get(node.id, []))]
        else:
            stops.append(WalkStop(node.id, level + 1))
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
        stops.append(WalkStop("", 0, message_ids=tuple(message_ids)))
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
        walk = ExpansionWalk(archive, scope, [WalkStop(leaf, 1)])
    else:
        before = archive.listings.ids_before(*places[message_id], NEIGHBOUR_COUNT)
        after = archive.listings.ids_after(*places[message_id], NEIGHBOUR_COUNT)
        around = WalkStop("", 0, message_ids=(*before, message_id, *after))
        leaf, walk = "", ExpansionWalk(archive, scope, [around])
    return walk, walk.find(name, leaf)


def _page(request: ExpandRequest, walk: ExpansionWalk, start: _Edge | None, centre: WalkPlace | None) -> Expansion:
    budget = TextBudget(request.token_cap)
    nothing: Iterator[ExpandedPiece] = iter(())
    if start is None:
        earlier = walk.pieces(centre, backwards=True) if centre else nothing
        found = _taken(walk.pieces(centre or (0, 0)), earlier, budget)
    else:
        name, leaf, offset, backwards = start
        index, place = walk.find(name, leaf)
        if backwards:
            earlier = walk.pieces((index, place + 1 if offset else place), backwards=True)
            found = _taken(nothing, _first_cut(earlier, 0, offset or None), budget, start)
        else:
            found = _taken(_first_cut(walk.pieces((index, place)), offset, None), nothing, budget)
    pieces, *ends = found
    after, before = (None if end is None else _to_cursor(request, end) for end in ends)
    opened = tuple(named.id for named in request.references) or (f"msg#{request.around}",)
    return Expansion(opened, tuple(pieces), after, before, request.token_cap)


def _first_cut(pieces: Iterator[ExpandedPiece], start: int, end: int | None) -> Iterator[ExpandedPiece]:
    """Pieces of which the first is read in part; one that was read to its end is left out."""
    for piece in islice(pieces, 1):
        if not start or start < piece.total:
            yield replace(piece, start=start, end=piece.total if end is None else min(end, piece.total))
    yield from pieces


def _taken(
    later: Iterator[ExpandedPiece], earlier: Iterator[ExpandedPiece], budget: TextBudget, edge: _Edge | None = None
) -> tuple[Iterable[ExpandedPiece], _Edge | None, _Edge | None]:
    """Pieces as long as they fit, and where they go on in both directions: the first one later, then one later and one
    earlier in turns. Only the first may be cut. `edge` is where earlier ones end.
    """
    pieces: deque[ExpandedPiece] = deque()
    after = before = None
    ways = deque([later, earlier])
    while ways:
        way = ways.popleft()
        piece = next(way, None)
        if piece is None:
            continue
        is_later = way is later
        if (rest := budget.less(piece.block, piece.tokens)).is_kept:
            budget = rest
            (pieces.append if is_later else pieces.appendleft)(piece)
            if not is_later or len(pieces) == 1:
                edge = piece.edge(0, backwards=True)
            (ways.append if len(pieces) > 1 else ways.appendleft)(way)
            continue
        part = None if pieces else piece.cut(budget, at_end=not is_later)
        if is_later:
            after = piece.edge(part.end if part else piece.start)
        else:
            before = piece.edge(part.start, backwards=True) if part else edge
        if not pieces:  # one that is cut, or does not fit at all, stands alone
            before = piece.edge(0, backwards=True) if is_later and next(earlier, None) else before
            return filter(None, [part]), after, before
    return pieces, after, before


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
