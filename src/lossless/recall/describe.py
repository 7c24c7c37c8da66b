"""`describe`: open one thing by its id. A summary, a message in full, or a stored file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.model.tokens import estimate_tokens
from lossless.recall import cursors, grants
from lossless.recall.described import (
    Branch,
    BudgetSource,
    Description,
    FileDescription,
    Manifest,
    MessageDescription,
    SummaryDescription,
    TextPage,
)
from lossless.recall.file_page import (
    DEFAULT_BYTES,
    MAX_BYTES,
    MIN_BYTES,
    FilePage,
    OpenFile,
    ReadAt,
    Wanted,
    read_page,
    wanted_at,
)
from lossless.recall.references import Reference, parse
from lossless.recall.room import MAX_CHARS, Room
from lossless.recall.said import said
from lossless.recall.scope import must_see, not_in_scope

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lossless.model.files import StoredFile
    from lossless.recall.scope import Scope
    from lossless.store.archive import Archive
    from lossless.store.lineage import Node

#: The most summaries that a manifest lists.
_MOST_BRANCHES = 100
_NO_CAP = 1 << 40
#: The longest description, with a note before it; and content so short that it need not be measured.
_LONGEST = MAX_CHARS - 800
_SURELY_FITS = 12_000
_REFERENCE_HEAD = "[LCM "


@dataclass(frozen=True, slots=True)
class DescribeRequest:
    """How much of a thing to show, and which part of it."""

    token_cap: int | None = None
    #: The budget that branches are held against when neither the caller nor a grant says one.
    default_cap: int = grants.TOKEN_CAP
    max_bytes: int = DEFAULT_BYTES
    start_line: int | None = None
    end_line: int | None = None
    cursor: str | None = None


def describe(
    archive: Archive,
    reference: Reference | str,
    scope: Scope,
    now: datetime,
    request: DescribeRequest | None = None,
    open_file: OpenFile | None = None,
) -> Description:
    """Open a summary, a message or a file. Source text that a grant's holder reads is charged to the grant.

    `NotFound` for an id that is not there or not in scope, `GrantError` beyond the grant.
    """
    named = parse(reference) if isinstance(reference, str) else reference
    request = request or DescribeRequest()
    if scope.grant is not None:
        grants.check(scope.grant, now)

    def read(room: Room) -> Description:
        if named.kind == "summary":
            return _summary(archive, named.id, scope, request, room)
        if named.kind == "message":
            return _message(archive, named.message_id, scope, request, room)
        return _file(archive, named.id, scope, request, room, open_file)

    def fitted(cap: int | None) -> Description:
        with archive.reading():
            return _fitted(read, Room(min(cap or _NO_CAP, request.token_cap or _NO_CAP)))

    if named.kind == "summary":
        with archive.reading():
            return _fitted(read, Room(_NO_CAP))
    return grants.charged(archive, scope.grant, now, fitted, lambda found: estimate_tokens(found.page.text))


def _fitted(read: Callable[[Room], Description], room: Room) -> Description:
    """What is read, with less content when all of it together would be longer than a tool may return."""
    found = read(room)
    over = len(str(found)) - _LONGEST if len(found.page.text) > _SURELY_FITS else 0
    return found if over <= 0 else read(Room(room.tokens, len(found.page.text) - over))


# --- summaries ------------------------------------------------------------------------------------


def _summary(
    archive: Archive, summary_id: str, scope: Scope, request: DescribeRequest, room: Room
) -> SummaryDescription:
    found = archive.summaries.many([summary_id])
    if not found:
        raise not_in_scope(scope, summary_id)
    summary = found[0]
    must_see(scope, summary.conversation_id, summary_id)
    if scope.grant is not None:
        grants.check_summary(archive, scope.grant, summary_id)
    messages = archive.summaries.message_ids(summary_id) if summary.depth == 0 else []
    page = _text_page(summary_id, summary.content, request.cursor, room)
    used_in = tuple(archive.summaries.used_in(summary_id))
    return SummaryDescription(summary, used_in, tuple(messages), _manifest(archive, summary_id, scope, request), page)


def _manifest(archive: Archive, summary_id: str, scope: Scope, request: DescribeRequest) -> Manifest:
    """The subtree below a summary, layer by layer as long as whole layers can be listed."""
    root = archive.lineage.nodes([summary_id])[summary_id]
    below: dict[str, list[Node]] = {}
    listed, layer = {summary_id}, [summary_id] if root.source_count else []
    while layer:
        sources = archive.lineage.sources(layer)
        fresh = {node.id for nodes in sources.values() for node in nodes} - listed
        if not fresh or (below and len(listed) + len(fresh) > _MOST_BRANCHES):
            break
        below |= sources
        listed |= fresh
        layer = [node.id for nodes in sources.values() for node in nodes if node.id in fresh and node.source_count]
    branches = _preorder(root, below)
    cap, source = _budget(archive, scope, request)
    shown = tuple(branches[:_MOST_BRANCHES])
    return Manifest(shown, cap, source, max(0, root.descendant_count + 1 - len(shown)))


def _preorder(root: Node, below: dict[str, list[Node]]) -> list[Branch]:
    """The nodes with what each was made of right behind it, each once."""
    branches: list[Branch] = []
    seen: set[str] = set()
    todo: list[tuple[Node, int, str | None]] = [(root, 0, None)]
    while todo:
        node, level, source_of = todo.pop()
        if node.id not in seen:
            seen.add(node.id)
            branches.append(Branch(node, level, source_of))
            todo += [(source, level + 1, node.id) for source in reversed(below.get(node.id, []))]
    return branches


def _budget(archive: Archive, scope: Scope, request: DescribeRequest) -> tuple[int, BudgetSource]:
    if scope.grant is not None:
        left = (archive.grants.get(scope.grant.id) or scope.grant).remaining
        if request.token_cap is None:
            return left, "delegated_grant_remaining"
        return min(request.token_cap, left), "request"
    if request.token_cap is not None:
        return request.token_cap, "request"
    return request.default_cap, "config_default"


# --- messages -------------------------------------------------------------------------------------


def _message(
    archive: Archive, message_id: int, scope: Scope, request: DescribeRequest, room: Room
) -> MessageDescription:
    found = archive.messages.many([message_id])
    name = f"msg#{message_id}"
    if not found:
        raise not_in_scope(scope, name)
    stored = found[0]
    must_see(scope, stored.conversation_id, name)
    if scope.grant is not None:
        grants.check_message(archive, scope.grant, message_id)
    before = archive.lineage.before(stored.conversation_id, stored.seq)
    after = archive.lineage.after(stored.conversation_id, stored.seq)
    return MessageDescription(
        stored,
        archive.summaries.covering([message_id]).get(message_id),
        before[0] if before else None,
        after[0] if after else None,
        _text_page(name, said(stored.message), request.cursor, room),
        archive.versions.of(message_id),
    )


def _text_page(name: str, text: str, cursor: str | None, room: Room) -> TextPage:
    """A page of a text from where a cursor points, the beginning without one."""
    start = 0
    if cursor is not None:
        fields = cursors.decode("text", cursor, {"id": str, "o": int})
        start = fields["o"]
        if fields["id"] != name or not 0 <= start <= len(text):
            raise cursors.spoilt()
    piece = room.head(text[start:])
    end = start + len(piece)
    rest = cursors.encode("text", {"id": name, "o": end}) if end < len(text) else None
    return TextPage(piece, start, end, len(text), rest)


# --- files ----------------------------------------------------------------------------------------


def _file(
    archive: Archive, file_id: str, scope: Scope, request: DescribeRequest, room: Room, open_file: OpenFile | None
) -> FileDescription:
    stored = archive.files.many([file_id]).get(file_id)
    if stored is None:
        raise not_in_scope(scope, file_id)
    must_see(scope, stored.conversation_id, file_id)
    size = min(MAX_BYTES, max(MIN_BYTES, request.max_bytes))
    wanted = Wanted(request.start_line, request.end_line, size)
    if request.cursor is not None:
        wanted = wanted_at(file_id, request.cursor, size)
    read = open_file(stored) if open_file is not None else None
    from_message = read is None
    if read is None:
        read = _from_message(archive, stored)
    if read is None:
        return FileDescription(stored, FilePage("", 0, 0, note="its bytes cannot be read"))
    return FileDescription(stored, read_page(file_id, read, wanted, room), from_message)


def _from_message(archive: Archive, stored: StoredFile) -> ReadAt | None:
    """The text of the message whose payload the file holds, unless that is a reference to the file again."""
    text = archive.files.text_of(stored)
    if text is None or (text.startswith(_REFERENCE_HEAD) and stored.id in text[:200]):
        return None
    data = text.encode("utf-8", "surrogateescape")
    return lambda offset, most: data[offset : offset + most]
