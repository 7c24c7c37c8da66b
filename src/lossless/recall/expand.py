"""`expand`: the messages and sources below summaries, in order, within a token cap, with cursors in both directions."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from lossless.errors import BadInput
from lossless.model.tokens import estimate_tokens
from lossless.recall import results
from lossless.recall import scope as recall_scope
from lossless.recall.results import Reference, TextBudget, format_span, message_header, message_text, parse_references
from lossless.recall.scope import require_readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
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
_BATCH, _LARGEST_BATCH = 4, 64


class WalkStep(NamedTuple):
    """A summary or a message on the way. Its title and text are read when it is come to."""

    name: str
    level: int
    #: For a message the leaf over it, for a summary what it is a source of.
    under: str | None
    #: None for a summary.
    message_id: int | None = None
    title: str = ""
    text: str = ""

    def edge(self, offset: int, *, backwards: bool = False) -> _Edge:
        """A place in its text."""
        return self.name, "" if self.message_id is None else self.under or "", offset, backwards

    def piece(self, start: int, end: int) -> ExpandedPiece:
        total, text = len(self.text), self.text[start:end]
        block = f"{self._head(start, end) if end - start < total else f'[{self.title}]'}\n{text}\n\n"
        kind: Literal["summary", "message"] = "summary" if self.message_id is None else "message"
        tokens = estimate_tokens(block)
        return ExpandedPiece(kind, self.name, text, start, end, total, self.level, self.under, block, tokens)

    def cut(self, start: int, end: int, budget: TextBudget, *, at_end: bool) -> ExpandedPiece | None:
        """As much as fits from `start` on, or up to `end`; None when nothing does."""
        frame = f"{self._head(len(self.text), len(self.text))}\n\n\n"
        inside = budget.less(len(frame), estimate_tokens(frame))
        text = (inside.tail if at_end else inside.head)(self.text[start:end])
        ends = (end - len(text), end) if at_end else (start, start + len(text))
        return self.piece(*ends) if text else None

    def _head(self, start: int, end: int) -> str:
        return f"[{self.title} | characters {start:,} to {end:,} of {len(self.text):,}]"


def _load(archive: Archive, scope: Scope, steps: Iterable[WalkStep]) -> Iterator[WalkStep]:
    """Steps with their texts, read some at a time; what is gone or out of scope is passed over."""
    todo, size = iter(steps), _BATCH
    while batch := list(islice(todo, size)):
        messages = {stored.id: stored for stored in archive.messages.many([one.message_id or 0 for one in batch])}
        summaries = {found.id: found for found in archive.summaries.many([one.name for one in batch])}
        for step in batch:
            if summary := summaries.get(step.name):
                when = format_span(summary.earliest_at, summary.latest_at)
                title = f"{summary.id} | {summary.kind}, depth {summary.depth} | {when}"
                yield step._replace(title=title, text=summary.content)
            elif (stored := messages.get(step.message_id or 0)) and scope.allows(stored.conversation_id):
                yield step._replace(title=message_header(stored)[1:-1], text=message_text(stored.message))
        size = min(2 * size, _LARGEST_BATCH)


def _message_steps(message_ids: Iterable[int], level: int = 0, leaf: str | None = None) -> list[WalkStep]:
    return [WalkStep(f"msg#{id_}", level, leaf, id_) for id_ in message_ids]


def walk_below(
    archive: Archive, scope: Scope, roots: Sequence[LineageNode], depth: int, *, messages: bool
) -> list[WalkStep]:
    """The steps below some summaries, `depth` layers down, sources right behind what they were folded into.

    Messages are a layer. A leaf that is a root itself is opened; others only with `messages`.
    """
    sources = _sources(archive, scope, roots, depth)
    found: list[WalkStep | tuple[str, int]] = []
    shown: set[str] = set()
    opened: dict[str, bool] = {}
    todo: list[tuple[LineageNode, int, str | None]] = [(root, 0, None) for root in reversed(roots)]
    while todo:
        node, level, source_of = todo.pop()
        if level and node.id not in shown:
            shown.add(node.id)
            found.append(WalkStep(node.id, level, source_of))
        if node.id in opened or level >= depth or not (node.source_count or messages or not level):
            continue
        opened[node.id] = not node.source_count
        todo += [(source, level + 1, node.id) for source in reversed(sources.get(node.id, []))]
        found += [] if node.source_count else [(node.id, level + 1)]
    under = archive.listings.leaf_messages([id_ for id_, is_leaf in opened.items() if is_leaf])
    steps: list[WalkStep] = []
    for one in found:
        steps += [one] if isinstance(one, WalkStep) else _message_steps(under.get(one[0], ()), one[1], one[0])
    return steps


def _sources(archive: Archive, scope: Scope, roots: Sequence[LineageNode], depth: int) -> dict[str, list[LineageNode]]:
    """The sources of every summary on the way, read layer by layer; what is out of scope is left out."""
    found: dict[str, list[LineageNode]] = {}
    layer = [root.id for root in roots if root.source_count]
    for _ in range(depth if layer else 0):
        if len(found) + len(layer) > _MOST:
            raise BadInput("there are too many summaries below; expand a branch of it, or fewer layers")
        read = archive.listings.nodes_below(layer)
        found |= {id_: [node for node in nodes if scope.allows(node.conversation_id)] for id_, nodes in read.items()}
        below = (node for id_ in read for node in found[id_])
        layer = list(dict.fromkeys(node.id for node in below if node.source_count and node.id not in found))
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
            steps, centre = _plan(archive, scope, request)
            return _page(replace(request, token_cap=cap), partial(_load, archive, scope), steps, start, centre)

    return recall_scope.read_and_charge(archive, grant, now, read, lambda found: found.tokens)


def _plan(archive: Archive, scope: Scope, request: ExpandRequest) -> tuple[list[WalkStep], int | None]:
    """The way through what was asked for, and the index of the message to be centred on."""
    references = request.references
    if not references and request.around is None:
        raise BadInput("nothing to expand: pass ids, a message to look around, or a cursor")
    if len(references) > _MOST_IDS:
        raise BadInput(f"pass at most {_MOST_IDS} ids, not {len(references)}")
    roots, message_ids = _roots(archive, scope, references)
    if request.around is not None:
        return _centred(archive, scope, request.around, roots)
    if len(references) == 1 and message_ids:
        return _centred(archive, scope, message_ids[0], roots)
    steps = walk_below(archive, scope, roots, request.max_depth, messages=request.include_messages)
    return steps + _message_steps(message_ids), None


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
) -> tuple[list[WalkStep], int]:
    """A message in its leaf when that is below what was named, else among its neighbours."""
    places, name = archive.listings.message_places([message_id]), f"msg#{message_id}"
    require_readable(archive, scope, places[message_id][0] if places else None, name)
    leaf = archive.summaries.covering([message_id]).get(message_id)
    if roots and (leaf is None or not archive.listings.is_below(leaf, [root.id for root in roots])):
        raise BadInput(f"{name} is not below {', '.join(root.id for root in roots[:3])}")
    if leaf is not None and (roots or (scope.grant is not None and scope.grant.summary_ids)):
        steps = _message_steps(archive.listings.leaf_messages([leaf])[leaf], 1, leaf)
    else:
        before = archive.listings.ids_before(*places[message_id], NEIGHBOUR_COUNT)
        after = archive.listings.ids_after(*places[message_id], NEIGHBOUR_COUNT)
        steps = _message_steps((*before, message_id, *after))
    return steps, [step.name for step in steps].index(name)


#: Where a page begins, or ends when it is read backwards: a name on the way, its leaf, an offset in its text, and
#: whether it is read backwards.
_Edge: TypeAlias = tuple[str, str, int, bool]


def _page(
    request: ExpandRequest,
    load: Callable[[Iterable[WalkStep]], Iterator[WalkStep]],
    steps: Sequence[WalkStep],
    start: _Edge | None,
    centre: int | None,
) -> Expansion:
    budget, before, after = TextBudget(request.token_cap), None, None
    if start is not None:
        places = (n for n, step in enumerate(steps) if step.edge(0)[:2] == start[:2])
        place, is_backwards = next(places, None), start[3]
        if place is None:
            raise results.bad_cursor()
        way = reversed(steps[: place + bool(start[2])]) if is_backwards else steps[place:]
        pieces, edge = _fill(load(way), budget, start)
        before, after = (edge, None) if is_backwards else (None, edge)
    elif centre is None:
        pieces, after = _fill(load(steps), budget, ("", "", 0, False))
    else:
        middle = next(load(steps[centre : centre + 1]), None)
        if middle is None:
            raise results.bad_cursor()
        ways = load(steps[centre + 1 :]), load(reversed(steps[:centre]))
        pieces, after, before = _both_ways(middle, *ways, budget)
    opened = tuple(named.id for named in request.references) or (f"msg#{request.around}",)
    words = [None if edge is None else _to_cursor(request, edge) for edge in (after, before)]
    return Expansion(opened, tuple(pieces), words[0], words[1], request.token_cap)


def _fill(items: Iterable[WalkStep], budget: TextBudget, edge: _Edge) -> tuple[list[ExpandedPiece], _Edge | None]:
    """Pieces from an edge on, in order, as long as there is room, and where the next page begins; only the piece at the
    edge may be cut.
    """
    pieces: list[ExpandedPiece] = []
    _, _, offset, backwards = edge
    for item in items:
        total = len(item.text)
        start, end = (0, min(offset or total, total)) if backwards else (min(offset, total), total)
        offset = 0
        if start == end and start:
            continue
        piece = item.piece(start, end)
        if not budget.holds(len(piece.block), piece.tokens):
            part = None if pieces else item.cut(start, end, budget, at_end=backwards)
            pieces += filter(None, [part])
            if not backwards:
                edge = item.edge(part.end if part else start)
            elif part:
                edge = item.edge(part.start, backwards=True)
            return pieces[::-1] if backwards else pieces, edge
        pieces.append(piece)
        edge, budget = item.edge(0, backwards=backwards), budget.less(len(piece.block), piece.tokens)
    return pieces[::-1] if backwards else pieces, None


def _both_ways(
    middle: WalkStep, later: Iterator[WalkStep], earlier: Iterator[WalkStep], budget: TextBudget
) -> tuple[list[ExpandedPiece], _Edge | None, _Edge | None]:
    """The piece in the middle, then one after and one before it in turns, as long as they fit."""
    edge, piece = middle.edge(0, backwards=True), middle.piece(0, len(middle.text))
    if not budget.holds(len(piece.block), piece.tokens):
        pieces, after = _fill([middle], budget, middle.edge(0))
        return pieces, after, edge if next(earlier, None) else None
    found, budget = deque([piece]), budget.less(len(piece.block), piece.tokens)
    after = before = None
    ways = deque([later, earlier])
    while ways:
        way = ways.popleft()
        if (item := next(way, None)) is None:
            continue
        piece = item.piece(0, len(item.text))
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
