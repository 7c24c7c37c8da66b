"""`expand`: the words behind a summary. Text in order, within a cap, with cursors to what is left."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Literal

from lossless.errors import BadInput
from lossless.model.tokens import estimate_tokens
from lossless.recall import cursors, grants, trail
from lossless.recall.expanded import Expansion, Piece
from lossless.recall.references import Reference, message_reference, parse_all
from lossless.recall.room import Room
from lossless.recall.said import header, said, span
from lossless.recall.scope import must_see, not_in_scope
from lossless.recall.trail import Step, Stop, Trail

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from lossless.recall.scope import Scope
    from lossless.store.archive import Archive
    from lossless.store.lineage import Node

_MOST_IDS = 64
_BATCH, _LARGEST_BATCH = 4, 64


@dataclass(frozen=True, slots=True)
class ExpandRequest:
    """What to open and how far down. One layer: a condensed summary's sources, a leaf's messages."""

    references: tuple[Reference, ...] = ()
    max_depth: int = 1
    token_cap: int = grants.TOKEN_CAP
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
    start: _Start | None = None
    if cursor is not None:
        request, start = _from_cursor(cursor, request)
    grant = scope.grant
    if grant is not None:
        grants.check(grant, now)
        if grant.max_depth < 1:
            raise grants.refused("the grant allows no expansion below what is named")
        request = replace(request, max_depth=min(request.max_depth, grant.max_depth))

    def read(left: int | None) -> Expansion:
        cap = request.token_cap if left is None else min(request.token_cap, left)
        with archive.reading():
            walk, centre = _plan(archive, scope, request)
            return _page(archive, scope, replace(request, token_cap=cap), walk, start, centre)

    return grants.charged(archive, grant, now, read, lambda found: found.tokens)


# --- what is opened -------------------------------------------------------------------------------


def _plan(archive: Archive, scope: Scope, request: ExpandRequest) -> tuple[Trail, trail.Place | None]:
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
    stops = trail.below(archive, scope, roots, request.max_depth, messages=request.include_messages)
    if message_ids:
        stops.append(Stop("messages", "", 0, message_ids=tuple(message_ids)))
    return Trail(archive, stops), None


def _roots(archive: Archive, scope: Scope, references: Sequence[Reference]) -> tuple[list[Node], list[int]]:
    """The named summaries and messages, each checked against scope and grant."""
    nodes = archive.lineage.nodes(named.id for named in references if named.kind == "summary")
    message_ids = [named.message_id for named in references if named.kind == "message"]
    places = archive.lineage.places(message_ids)
    for named in references:
        node, place = nodes.get(named.id), places.get(named.message_id)
        if node is None and place is None:
            raise not_in_scope(scope, named.id)
        must_see(scope, node.conversation_id if node else place[0] if place else 0, named.id)
        if scope.grant is not None:
            if node is not None:
                grants.check_summary(archive, scope.grant, node.id)
            else:
                grants.check_message(archive, scope.grant, named.message_id)
    return [nodes[named.id] for named in references if named.kind == "summary"], message_ids


def _centred(archive: Archive, scope: Scope, message_id: int, roots: Sequence[Node]) -> tuple[Trail, trail.Place]:
    """A message in its leaf when that is below what was named, else among its neighbours."""
    place = archive.lineage.places([message_id]).get(message_id)
    name = message_reference(message_id).id
    if place is None:
        raise not_in_scope(scope, name)
    must_see(scope, place[0], name)
    if scope.grant is not None:
        grants.check_message(archive, scope.grant, message_id)
    leaf = archive.summaries.covering([message_id]).get(message_id)
    if roots and (leaf is None or not archive.lineage.is_below(leaf, [root.id for root in roots])):
        raise BadInput(f"{name} is not below {', '.join(root.id for root in roots[:3])}")
    if leaf is not None and (roots or (scope.grant is not None and scope.grant.summary_ids)):
        walk = Trail(archive, [Stop("messages", leaf, 1)])
    else:
        leaf, walk = "", Trail(archive, trail.around(archive, message_id, *place))
    found = walk.find(name, leaf)
    assert found is not None
    return walk, found


# --- pages ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Start:
    """Where a page begins, or ends when it is read backwards: a name on the way and an offset in its text."""

    name: str
    leaf: str
    offset: int
    backwards: bool = False


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A step with its text."""

    step: Step
    title: str
    text: str

    def piece(self, start: int = 0, end: int | None = None) -> Piece:
        stop, total = self.step.stop, len(self.text)
        end = total if end is None else end
        kind: Literal["summary", "message"] = "summary" if self.step.message_id is None else "message"
        under = stop.source_of if kind == "summary" else stop.id or None
        text = self.text[start:end]
        block = f"[{self.title}{_part(start, end, total) if end - start < total else ''}]\n{text}\n\n"
        tokens = estimate_tokens(block)
        return Piece(kind, self.step.name, text, start, end, total, stop.level, under, block, tokens)

    def head(self, start: int, room: Room) -> Piece | None:
        """As much as fits from `start` on; None when nothing does."""
        text = self._inside(room).head(self.text[start:])
        return self.piece(start, start + len(text)) if text else None

    def tail(self, end: int, room: Room) -> Piece | None:
        """As much as fits up to `end`; None when nothing does."""
        text = self._inside(room).tail(self.text[:end])
        return self.piece(end - len(text), end) if text else None

    def _inside(self, room: Room) -> Room:
        """The room that is left for a part of the text when its title is there."""
        total = len(self.text)
        frame = f"[{self.title}{_part(total, total, total)}]\n\n\n"
        return room.less(len(frame), estimate_tokens(frame))


def _load(archive: Archive, scope: Scope, steps: Iterator[Step]) -> Iterator[_Loaded]:
    """Steps with their texts, read some at a time; what is gone or out of scope is passed over."""
    size = _BATCH
    while batch := list(islice(steps, size)):
        ids = [step.message_id for step in batch if step.message_id is not None]
        messages = {stored.id: stored for stored in archive.messages.many(ids)}
        summaries = {
            found.id: found
            for found in archive.summaries.many([step.stop.id for step in batch if step.message_id is None])
        }
        for step in batch:
            if step.message_id is None:
                if summary := summaries.get(step.stop.id):
                    when = span(summary.earliest_at, summary.latest_at)
                    title = f"{summary.id} | {summary.kind}, depth {summary.depth} | {when}"
                    yield _Loaded(step, title, summary.content)
            elif (stored := messages.get(step.message_id)) and scope.allows(stored.conversation_id):
                yield _Loaded(step, header(stored)[1:-1], said(stored.message))
        size = min(2 * size, _LARGEST_BATCH)


def _page(
    archive: Archive,
    scope: Scope,
    request: ExpandRequest,
    walk: Trail,
    start: _Start | None,
    centre: trail.Place | None,
) -> Expansion:
    room = Room(request.token_cap)
    opened = tuple(named.id for named in request.references) or (f"msg#{request.around}",)

    def result(pieces: Sequence[Piece], after: _Start | None, before: _Start | None = None) -> Expansion:
        words = [None if place is None else _to_cursor(request, place) for place in (after, before)]
        return Expansion(opened, tuple(pieces), words[0], words[1], request.token_cap)

    if start is not None:
        place = walk.find(start.name, start.leaf)
        if place is None:
            raise cursors.spoilt()
        if start.backwards:
            pieces, before = _backward(archive, scope, walk, place, start, room)
            return result(pieces, None, before)
        pieces, after = _forward(_load(archive, scope, walk.forward(place)), room, start.offset)
        return result(pieces, after)
    if centre is not None:
        return result(*_both_ways(archive, scope, walk, centre, room))
    pieces, after = _forward(_load(archive, scope, walk.forward((0, 0))), room, 0)
    return result(pieces, after)


def _forward(items: Iterator[_Loaded], room: Room, offset: int) -> tuple[list[Piece], _Start | None]:
    """Pieces in order as long as there is room; only the first may be cut."""
    pieces: list[Piece] = []
    for item in items:
        start, offset = min(offset, len(item.text)), 0
        if start == len(item.text) and start:
            continue
        piece = item.piece(start)
        if not _fits(piece, room):
            part = None if pieces else item.head(start, room)
            return [*pieces, *filter(None, [part])], _at(item.step, part.end if part else start)
        pieces.append(piece)
        room = _after(piece, room)
    return pieces, None


def _backward(
    archive: Archive, scope: Scope, walk: Trail, place: trail.Place, edge: _Start, room: Room
) -> tuple[list[Piece], _Start | None]:
    """Pieces before an edge, the nearest taken first, given in order; only the nearest may be cut."""
    pieces: deque[Piece] = deque()
    cut: int | None = edge.offset or None
    for item in _load(archive, scope, walk.backward((place[0], place[1] + 1) if cut else place)):
        piece = item.piece(0, None if cut is None else min(cut, len(item.text)))
        cut = None
        if not _fits(piece, room):
            part = None if pieces else item.tail(piece.end, room)
            return [*filter(None, [part]), *pieces], _at(item.step, part.start, backwards=True) if part else edge
        pieces.appendleft(piece)
        edge, room = _at(item.step, 0, backwards=True), _after(piece, room)
    return list(pieces), None


def _both_ways(
    archive: Archive, scope: Scope, walk: Trail, centre: trail.Place, room: Room
) -> tuple[list[Piece], _Start | None, _Start | None]:
    """The piece in the middle, then one after and one before it in turns, as long as there is room."""
    index, place = centre
    middle = next(_load(archive, scope, walk.forward(centre)), None)
    if middle is None:
        raise cursors.spoilt()
    edge, piece = _at(middle.step, 0, backwards=True), middle.piece()
    if not _fits(piece, room):
        pieces, after = _forward(iter([middle]), room, 0)
        return pieces, after, edge if next(walk.backward(centre), None) else None
    found, room = deque([piece]), _after(piece, room)
    later = _load(archive, scope, walk.forward((index, place + 1)))
    earlier = _load(archive, scope, walk.backward(centre))
    after = before = None
    ways = deque([later, earlier])
    while ways:
        way = ways.popleft()
        item = next(way, None)
        if item is None:
            continue
        piece = item.piece()
        if not _fits(piece, room):
            after, before = (_at(item.step, 0), before) if way is later else (after, edge)
            continue
        room = _after(piece, room)
        if way is later:
            found.append(piece)
        else:
            found.appendleft(piece)
            edge = _at(item.step, 0, backwards=True)
        ways.append(way)
    return list(found), after, before


def _fits(piece: Piece, room: Room) -> bool:
    return room.holds(len(piece.block), piece.tokens)


def _after(piece: Piece, room: Room) -> Room:
    return room.less(len(piece.block), piece.tokens)


def _at(step: Step, offset: int, *, backwards: bool = False) -> _Start:
    leaf = "" if step.message_id is None else step.stop.id
    return _Start(step.name, leaf, offset, backwards)


def _to_cursor(request: ExpandRequest, start: _Start) -> str:
    ids = [named.id for named in request.references]
    fields = {"ids": ids, "d": request.max_depth, "m": int(request.include_messages), "a": request.around or 0}
    place = {"at": start.name, "in": start.leaf, "o": start.offset, "b": int(start.backwards)}
    return cursors.encode("expand", fields | place)


def _from_cursor(cursor: str, request: ExpandRequest) -> tuple[ExpandRequest, _Start]:
    kinds: dict[str, type] = {"ids": list, "d": int, "m": int, "a": int, "at": str, "in": str, "o": int, "b": int}
    fields = cursors.decode("expand", cursor, kinds)
    if not all(isinstance(id_, str) for id_ in fields["ids"]) or fields["o"] < 0 or not 0 <= fields["a"] < 1 << 62:
        raise cursors.spoilt()
    around = fields["a"] or None
    references = parse_all(fields["ids"], kinds=("summary", "message"))
    known = ExpandRequest(references, max(0, fields["d"]), request.token_cap, bool(fields["m"]), around)
    return known, _Start(fields["at"], fields["in"], fields["o"], bool(fields["b"]))


def _part(start: int, end: int, total: int) -> str:
    return f" | characters {start:,} to {end:,} of {total:,}"
