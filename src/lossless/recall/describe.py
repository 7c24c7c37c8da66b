"""`describe`: open one summary, message or stored file by its id, page by page, as text and as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from lossless.errors import ArchiveError, BadInput, NotFound
from lossless.model.times import state_time
from lossless.model.tokens import estimate_tokens
from lossless.recall import results
from lossless.recall import scope as recall_scope
from lossless.recall.results import (
    MAX_RESULT_CHARS,
    Reference,
    TextBudget,
    format_moment,
    format_span,
    message_text,
    parse_reference,
    part_label,
)
from lossless.recall.scope import not_in_scope, require_in_scope

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lossless.files.vault import Vault
    from lossless.model.context import Summary
    from lossless.model.messages import StoredFile, StoredMessage
    from lossless.recall.scope import Scope
    from lossless.store.archive import Archive
    from lossless.store.graph import LineageNode
    from lossless.store.versions import Version

#: How many ids or parts are listed before they are only counted.
_MOST_LISTED, _MOST_LINES, _MOST_SUMMARY_CHARS = 64, 40, 8_000
_VERSION_CHARS = 400
BudgetSource: TypeAlias = Literal["request", "delegated_grant_remaining", "config_default"]


class ManifestBranch(NamedTuple):
    """A summary of the subtree, so many layers below the one that is described."""

    node: LineageNode
    level: int
    #: What it is a source of; None for the described summary itself.
    source_of: str | None

    @property
    def summary_cost(self) -> int:
        """What opening it and every summary below it would return."""
        return self.node.tokens + self.node.descendant_tokens

    @property
    def message_cost(self) -> int:
        """The same with all messages."""
        return self.summary_cost + self.node.source_message_tokens


@dataclass(frozen=True, slots=True)
class TextPage:
    """A piece of a text or a file: its characters, or its bytes, from `start` up to, without, `end`."""

    text: str
    start: int
    end: int
    #: Where the rest is, when there is a rest.
    cursor: str | None = None
    #: Why there is nothing, or less than asked for.
    note: str | None = None
    #: How long the whole text is.
    total: int = 0


@dataclass(frozen=True, slots=True)
class SummaryDescription:
    """A summary: what it says, what it was made of, where it was used, and what opening it would cost."""

    summary: Summary
    used_in: tuple[str, ...]
    #: The messages of a leaf, in order.
    message_ids: tuple[int, ...]
    page: TextPage
    #: The subtree below it with the cost of each branch, whole layers from the top; and what costs are held against.
    branches: tuple[ManifestBranch, ...]
    token_cap: int
    budget_source: BudgetSource
    #: Summaries below that are not listed.
    omitted: int = 0

    def fits(self, cost: int) -> str:
        return "in" if cost <= self.token_cap else "over"

    @property
    def id(self) -> str:
        return self.summary.id

    def __str__(self) -> str:
        summary = self.summary
        lines = [
            f"LCM_SUMMARY {summary.id}",
            f"meta conv={summary.conversation_id} kind={summary.kind} depth={summary.depth} tok={summary.tokens} "
            f"descTok={summary.descendant_tokens} srcTok={summary.source_message_tokens} "
            f"desc={summary.descendant_count} range={format_span(summary.earliest_at, summary.latest_at)} "
            f"budgetCap={self.token_cap}",
            f"parents {_listed(summary.source_ids)} (sources: what it was made of)",
            f"children {_listed(self.used_in)} (used in: what was made of it)",
        ]
        if self.message_ids:
            lines.append(f"messages {format_id_ranges(self.message_ids)}")
        if summary.file_ids:
            lines.append(f"files {_listed(summary.file_ids)}")
        lines.append("manifest")
        lines += [_branch_line(branch, self) for branch in self.branches]
        if self.omitted:
            lines.append(f"... {self.omitted:,} more below; describe a branch to see them")
        return "\n".join([*lines, "content", self.page.text, *_rest(self.page)])

    @property
    def details(self) -> dict[str, Any]:
        summary = self.summary
        return {
            "id": summary.id,
            "type": "summary",
            "summary": {
                "conversationId": summary.conversation_id,
                "kind": summary.kind,
                "depth": summary.depth,
                "tokenCount": summary.tokens,
                "descendantCount": summary.descendant_count,
                "descendantTokenCount": summary.descendant_tokens,
                "sourceMessageTokenCount": summary.source_message_tokens,
                "fileIds": list(summary.file_ids),
                "parentIds": list(summary.source_ids),
                "childIds": list(self.used_in),
                "messageIds": list(self.message_ids),
                "earliestAt": json_time(summary.earliest_at),
                "latestAt": json_time(summary.latest_at),
                "createdAt": state_time(summary.created_at),
                "model": summary.model,
            },
            "manifest": {
                "tokenCap": self.token_cap,
                "budgetSource": self.budget_source,
                "omitted": self.omitted,
                "nodes": [_branch_details(branch, self) for branch in self.branches],
            },
            "cursor": self.page.cursor,
        }


@dataclass(frozen=True, slots=True)
class MessageDescription:
    """A message: who said what and when, in full, with the leaf above it and the messages beside it."""

    stored: StoredMessage
    leaf: str | None
    before: int | None
    after: int | None
    page: TextPage
    #: What it said before, or as a host shortened it, oldest first.
    versions: tuple[Version, ...] = ()

    @property
    def id(self) -> str:
        return f"msg#{self.stored.id}"

    def __str__(self) -> str:
        stored, message = self.stored, self.stored.message
        lines = [
            f"LCM_MESSAGE {self.id}",
            f"meta conv={stored.conversation_id} seq={stored.seq} role={message.role} tok={message.tokens} "
            f"at={format_moment(stored.created_at)}",
            f"leaf {self.leaf or 'none (not folded)'}",
            f"neighbours before={_ref(self.before)} after={_ref(self.after)}",
        ]
        if stored.file_id:
            lines.append(f"file {stored.file_id}")
        if message.parts:
            lines.append("parts")
            lines += [f"- {part_label(part)}" for part in message.parts[:_MOST_LINES]]
            if len(message.parts) > _MOST_LINES:
                lines.append(f"- and {len(message.parts) - _MOST_LINES} more")
        if self.versions:
            lines.append("versions (no longer what it says)")
            lines += [
                f"- {version.kind} {format_moment(version.at)}: {' '.join(_cut(version.message.content).split())}"
                for version in self.versions[-_MOST_LINES:]
            ]
            if len(self.versions) > _MOST_LINES:
                lines.append(f"- and {len(self.versions) - _MOST_LINES} older ones")
        return "\n".join([*lines, "content", self.page.text, *_rest(self.page)])

    @property
    def details(self) -> dict[str, Any]:
        stored = self.stored
        return {
            "id": self.id,
            "type": "message",
            "message": {
                "messageId": stored.id,
                "conversationId": stored.conversation_id,
                "seq": stored.seq,
                "role": stored.message.role,
                "tokenCount": stored.message.tokens,
                "createdAt": state_time(stored.created_at),
                "parts": [part_label(part) for part in stored.message.parts],
                "fileId": stored.file_id,
                "summaryId": self.leaf,
                "before": self.before,
                "after": self.after,
                "versions": [
                    {"kind": version.kind, "at": state_time(version.at), "content": _cut(version.message.content)}
                    for version in self.versions[-_MOST_LINES:]
                ],
                "versionCount": len(self.versions),
            },
            "cursor": self.page.cursor,
        }


@dataclass(frozen=True, slots=True)
class FileDescription:
    """A stored file: what is known of it, and as much of its content as was asked for."""

    stored: StoredFile
    page: TextPage
    #: Whether the content comes from the message, because the file itself cannot be read.
    from_message: bool = False

    @property
    def id(self) -> str:
        return self.stored.id

    def __str__(self) -> str:
        stored, page = self.stored, self.page
        lines = [
            f"## LCM File: {stored.id}",
            "",
            f"**Conversation:** {stored.conversation_id}",
            f"**Name:** {stored.name or 'unnamed'}",
            f"**Type:** {stored.mime or 'unknown'}",
            f"**Size:** {'unknown' if stored.byte_size is None else f'{stored.byte_size:,} bytes'}",
            f"**Created:** {format_moment(stored.created_at)}",
            "",
            "## Exploration Summary",
            "",
            (stored.exploration_summary or "none").strip()[:_MOST_SUMMARY_CHARS],
            "",
            "## Content",
            "",
        ]
        if page.text:
            fence = "`" * (max(map(len, re.findall(r"`{3,}", page.text)), default=2) + 1)
            lines += [f"{fence}text", page.text.removesuffix("\n"), fence]
        if self.from_message:
            lines.append("The file cannot be read; this is the text of its message.")
        if page.note:
            lines.append(f"Content unavailable: {page.note}." if not page.text else page.note)
        if page.cursor:
            size = "" if stored.byte_size is None else f" of {stored.byte_size:,}"
            where = f"bytes {page.start:,} to {page.end:,}{size}"
            lines.append(f'(truncated: {where}; go on with cursor="{page.cursor}")')
        return "\n".join(lines)

    @property
    def details(self) -> dict[str, Any]:
        stored, page = self.stored, self.page
        return {
            "id": stored.id,
            "type": "file",
            "file": {
                "conversationId": stored.conversation_id,
                "fileName": stored.name,
                "mimeType": stored.mime,
                "byteSize": stored.byte_size,
                "lineCount": stored.line_count,
                "explorationSummary": stored.exploration_summary,
                "createdAt": state_time(stored.created_at),
            },
            "content": {
                "start": page.start,
                "end": page.end,
                "truncated": page.cursor is not None,
                "available": page.note is None,
                "fromMessage": self.from_message,
            },
            "cursor": page.cursor,
        }


Description: TypeAlias = SummaryDescription | MessageDescription | FileDescription


def format_id_ranges(message_ids: Sequence[int]) -> str:
    """Message ids as a person writes them.

    >>> format_id_ranges([1, 2, 3, 7])
    'msg#1..msg#3 msg#7 (4)'
    """
    pieces: list[list[int]] = []
    for id_ in message_ids:
        if pieces and id_ == pieces[-1][1] + 1:
            pieces[-1][1] = id_
        else:
            pieces.append([id_, id_])
    shown = [f"msg#{first}" if first == last else f"msg#{first}..msg#{last}" for first, last in pieces[:20]]
    more = [f"and {len(pieces) - 20} more runs"] if len(pieces) > 20 else []
    return " ".join([*shown, *more, f"({len(message_ids)})"])


def json_time(at: datetime | None) -> str | None:
    """A time for JSON."""
    return None if at is None else state_time(at)


def _branch_line(branch: ManifestBranch, within: SummaryDescription) -> str:
    node, small, large = branch.node, branch.summary_cost, branch.message_cost
    return (
        f"d{branch.level} {node.id} k={node.kind} tok={node.tokens} descTok={node.descendant_tokens} "
        f"srcTok={node.source_message_tokens} desc={node.descendant_count} child={node.source_count} "
        f"range={format_span(node.earliest_at, node.latest_at)} cost[s={small},m={large}] "
        f"budget[s={within.fits(small)},m={within.fits(large)}]"
    )


def _branch_details(branch: ManifestBranch, within: SummaryDescription) -> dict[str, Any]:
    node, small, large = branch.node, branch.summary_cost, branch.message_cost
    return {
        "summaryId": node.id,
        "parentSummaryId": branch.source_of,
        "depthFromRoot": branch.level,
        "kind": node.kind,
        "depth": node.depth,
        "tokenCount": node.tokens,
        "descendantTokenCount": node.descendant_tokens,
        "sourceMessageTokenCount": node.source_message_tokens,
        "descendantCount": node.descendant_count,
        "childCount": node.source_count,
        "earliestAt": json_time(node.earliest_at),
        "latestAt": json_time(node.latest_at),
        "costs": {"summariesOnly": small, "withMessages": large},
        "budget": {"summariesOnly": within.fits(small), "withMessages": within.fits(large)},
    }


def _listed(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _MOST_LISTED} more" if len(ids) > _MOST_LISTED else ""
    return (" ".join(ids[:_MOST_LISTED]) or "none") + more


def _rest(page: TextPage) -> list[str]:
    if page.cursor is None:
        return []
    where = f"characters {page.start:,} to {page.end:,} of {page.total:,}"
    return [f'(truncated: {where}; go on with cursor="{page.cursor}")']


def _cut(text: str) -> str:
    return text if len(text) <= _VERSION_CHARS else text[:_VERSION_CHARS] + "…"


def _ref(message_id: int | None) -> str:
    return "none" if message_id is None else f"msg#{message_id}"


MIN_PAGE_BYTES, MAX_PAGE_BYTES, DEFAULT_PAGE_BYTES = 1024, 512_000, 32_768
_CHUNK = 1 << 16
_SNIFFED = 4096
_LARGEST = 1 << 50
#: The share of bytes that are no UTF-8 from which on a file is no text.
_BINARY_SHARE = 0.12
#: Bytes of an opened file: from an offset on, at most so many.
ReadAt: TypeAlias = Callable[[int, int], bytes]


#: Opens the bytes of a stored file where they may safely be read; None when they are not there.
OpenFile: TypeAlias = "Callable[[StoredFile], ReadAt | None]"


@dataclass(frozen=True, slots=True)
class DescribeRequest:
    """How much of a thing to show, and which part of it."""

    token_cap: int | None = None
    #: The budget that branches are held against when neither the caller nor a grant says one.
    default_cap: int = recall_scope.GRANT_TOKEN_CAP
    max_bytes: int = DEFAULT_PAGE_BYTES
    #: Of a file: the first and the last line.
    start_line: int | None = None
    end_line: int | None = None
    cursor: str | None = None


def read_file_page(file_id: str, read: ReadAt, request: DescribeRequest, room: TextBudget) -> TextPage:
    """The wanted part of a file, as much of it as there is room for. Bytes that are no UTF-8 become U+FFFD."""
    start, lines = 0, None
    if request.cursor is not None:
        fields = results.decode_cursor("file", request.cursor, {"id": str, "o": int, "n": int})
        start, lines = fields["o"], fields["n"] if fields["n"] >= 0 else None
        if fields["id"] != file_id or not 0 <= start < _LARGEST:
            raise results.bad_cursor()
    if is_binary(read(0, _SNIFFED)):
        return TextPage("", 0, 0, note="binary; its content is not shown")
    if request.cursor is None and (request.start_line is not None or request.end_line is not None):
        first = request.start_line or 1
        start, seen = _line_offset(read, first)
        if seen < first:
            return TextPage("", start, start, note=f"it has {seen:,} lines")
        lines = None if request.end_line is None else request.end_line - first + 1
    data = read(start, request.max_bytes + 4)
    whole = data[: _line_end(data, lines)]
    kept = whole if len(whole) <= request.max_bytes else whole[: _boundary(whole, request.max_bytes)]
    text = room.head(kept.decode("utf-8", "surrogateescape"))
    end = start + len(text.encode("utf-8", "surrogateescape"))
    shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if end == start + len(whole):
        return TextPage(shown, start, end)
    left = -1 if lines is None else lines - text.count("\n")
    cursor = results.encode_cursor("file", {"id": file_id, "o": end, "n": left})
    return TextPage(shown, start, end, cursor, None if text else "the cap is too small to show anything")


def is_binary(head: bytes) -> bool:
    """Whether a file that begins like this is no text: NUL in it, or much that is no UTF-8.

    >>> is_binary(bytes(range(128, 256))), is_binary("Größe".encode("latin-1") + b" is not all of it")
    (True, False)
    """
    strange = head.decode("utf-8", "replace").count("\ufffd") - head.count(b"\xef\xbf\xbd")
    return b"\0" in head or strange > len(head) * _BINARY_SHARE


def _line_offset(read: ReadAt, line: int) -> tuple[int, int]:
    """Where a line begins, counted from 1, and how many lines were seen; less than `line` when there are fewer."""
    offset, seen = 0, 1
    while seen < line:
        chunk = read(offset, _CHUNK)
        if not chunk:  # nothing may follow the last end of a line
            return offset, seen - 1 if offset == 0 or read(offset - 1, 1) == b"\n" else seen
        count = chunk.count(b"\n")
        if seen + count < line:
            seen, offset = seen + count, offset + len(chunk)
            continue
        at = -1
        for _ in range(line - seen):
            at = chunk.index(b"\n", at + 1)
        offset, seen = offset + at + 1, line
    return (offset, seen) if line == 1 or read(offset, 1) else (offset, line - 1)


def _line_end(data: bytes, lines: int | None) -> int:
    """Where the `lines`-th line of `data` ends, or all of it."""
    if lines is None:
        return len(data)
    at = 0
    for _ in range(lines):
        found = data.find(b"\n", at)
        if found < 0:
            return len(data)
        at = found + 1
    return at


def _boundary(data: bytes, most: int) -> int:
    """The last place up to `most` where a letter begins; `data` reaches beyond it."""
    for place in range(most, max(0, most - 4), -1):
        if data[place] & 0xC0 != 0x80:
            return place
    return most


def vault_opener(vault: Vault) -> OpenFile:
    """The files of a vault, for `describe`; one that is missing or must not be read is as if it were not there."""

    def open_file(stored: StoredFile, /) -> ReadAt | None:
        try:
            vault.read(stored, 0, 0)
        except (NotFound, ArchiveError):
            return None
        return lambda offset, most: vault.read(stored, offset, most).data

    return open_file


#: The most summaries that a manifest lists.
_MOST_BRANCHES = 100
_NO_CAP = 1 << 40
#: The longest description, with a note before it; and content so short that it need not be measured.
_LONGEST = MAX_RESULT_CHARS - 800
_SURELY_FITS = 12_000
_REFERENCE_HEAD = "[LCM "


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
    named = parse_reference(reference) if isinstance(reference, str) else reference
    request = request or DescribeRequest()
    archive = archive.within(scope.conversation_ids)
    if scope.grant is not None:
        recall_scope.check_grant(scope.grant, now)

    def read(room: TextBudget) -> Description:
        if named.kind == "summary":
            return _describe_summary(archive, named.id, scope, request, room)
        if named.kind == "message":
            return _describe_message(archive, named.message_id, scope, request, room)
        return _describe_file(archive, named.id, scope, request, room, open_file)

    def fitted(cap: int | None) -> Description:
        with archive.reading():
            return _fit_to_result(read, TextBudget(min(cap or _NO_CAP, request.token_cap or _NO_CAP)))

    if named.kind == "summary":
        with archive.reading():
            return _fit_to_result(read, TextBudget(_NO_CAP))
    return recall_scope.read_and_charge(
        archive, scope.grant, now, fitted, lambda found: estimate_tokens(found.page.text)
    )


def _fit_to_result(read: Callable[[TextBudget], Description], room: TextBudget) -> Description:
    """What is read, with less content when all of it together would be longer than a tool may return."""
    found = read(room)
    over = len(str(found)) - _LONGEST if len(found.page.text) > _SURELY_FITS else 0
    return found if over <= 0 else read(TextBudget(room.tokens, len(found.page.text) - over))


# --- summaries ------------------------------------------------------------------------------------


def _describe_summary(
    archive: Archive, summary_id: str, scope: Scope, request: DescribeRequest, room: TextBudget
) -> SummaryDescription:
    found = archive.summaries.many([summary_id])
    if not found:
        raise not_in_scope(scope, summary_id)
    summary = found[0]
    require_in_scope(scope, summary.conversation_id, summary_id)
    recall_scope.check_grant_summary(archive, scope.grant, summary_id)
    messages = archive.summaries.message_ids(summary_id) if summary.depth == 0 else []
    page = _text_page(summary_id, summary.content, request.cursor, room)
    used_in = tuple(archive.summaries.used_in(summary_id))
    root = archive.lineage.nodes([summary_id])[summary_id]
    branches = _branches(archive, root)[:_MOST_BRANCHES]
    omitted = max(0, root.descendant_count + 1 - len(branches))
    budget = _budget(archive, scope, request)
    return SummaryDescription(summary, used_in, tuple(messages), page, tuple(branches), *budget, omitted)


def _branches(archive: Archive, root: LineageNode) -> list[ManifestBranch]:
    """The subtree below a summary, layer by layer as long as whole layers can be listed.

    What each was made of is right behind it, and each is there once.
    """
    below: dict[str, list[LineageNode]] = {}
    listed, layer = {root.id}, [root.id] if root.source_count else []
    while layer:
        sources = archive.lineage.sources(layer)
        fresh = {node.id for nodes in sources.values() for node in nodes} - listed
        if not fresh or (below and len(listed) + len(fresh) > _MOST_BRANCHES):
            break
        below |= sources
        listed |= fresh
        layer = [node.id for nodes in sources.values() for node in nodes if node.id in fresh and node.source_count]
    branches: list[ManifestBranch] = []
    seen: set[str] = set()
    todo: list[tuple[LineageNode, int, str | None]] = [(root, 0, None)]
    while todo:
        node, level, source_of = todo.pop()
        if node.id not in seen:
            seen.add(node.id)
            branches.append(ManifestBranch(node, level, source_of))
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


def _describe_message(
    archive: Archive, message_id: int, scope: Scope, request: DescribeRequest, room: TextBudget
) -> MessageDescription:
    found = archive.messages.many([message_id])
    name = f"msg#{message_id}"
    if not found:
        raise not_in_scope(scope, name)
    stored = found[0]
    require_in_scope(scope, stored.conversation_id, name)
    recall_scope.check_grant_message(archive, scope.grant, message_id)
    before = archive.lineage.before(stored.conversation_id, stored.seq)
    after = archive.lineage.after(stored.conversation_id, stored.seq)
    return MessageDescription(
        stored,
        archive.summaries.covering([message_id]).get(message_id),
        before[0] if before else None,
        after[0] if after else None,
        _text_page(name, message_text(stored.message), request.cursor, room),
        archive.versions.of(message_id),
    )


def _text_page(name: str, text: str, cursor: str | None, room: TextBudget) -> TextPage:
    """A page of a text from where a cursor points, the beginning without one."""
    start = 0
    if cursor is not None:
        fields = results.decode_cursor("text", cursor, {"id": str, "o": int})
        start = fields["o"]
        if fields["id"] != name or not 0 <= start <= len(text):
            raise results.bad_cursor()
    piece = room.head(text[start:])
    end = start + len(piece)
    rest = results.encode_cursor("text", {"id": name, "o": end}) if end < len(text) else None
    return TextPage(piece, start, end, rest, total=len(text))


# --- files ----------------------------------------------------------------------------------------


def _describe_file(
    archive: Archive, file_id: str, scope: Scope, request: DescribeRequest, room: TextBudget, open_file: OpenFile | None
) -> FileDescription:
    stored = archive.files.many([file_id]).get(file_id)
    if stored is None:
        raise not_in_scope(scope, file_id)
    require_in_scope(scope, stored.conversation_id, file_id)
    first, last = request.start_line, request.end_line
    if first is not None and last is not None and last < first:
        raise BadInput(f"endLine ({last}) is before startLine ({first})")
    request = replace(request, max_bytes=min(MAX_PAGE_BYTES, max(MIN_PAGE_BYTES, request.max_bytes)))
    read = open_file(stored) if open_file is not None else None
    from_message = read is None
    if read is None:
        read = _from_message(archive, stored)
    if read is None:
        return FileDescription(stored, TextPage("", 0, 0, note="its bytes cannot be read"))
    return FileDescription(stored, read_file_page(file_id, read, request, room), from_message)


def _from_message(archive: Archive, stored: StoredFile) -> ReadAt | None:
    """The text of the message whose payload the file holds, unless that is a reference to the file again."""
    text = archive.files.text_of(stored)
    if text is None or (text.startswith(_REFERENCE_HEAD) and stored.id in text[:200]):
        return None
    data = text.encode("utf-8", "surrogateescape")
    return lambda offset, most: data[offset : offset + most]
