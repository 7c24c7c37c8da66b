"""`describe`: open one summary, message or stored file by its id, page by page, as text and as JSON."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless.errors import ArchiveError, BadInput, NotFound
from lossless.model.records import DEFAULT_PAGE_BYTES, MAX_PAGE_BYTES, MIN_PAGE_BYTES
from lossless.model.times import state_time
from lossless.model.tokens import estimate_tokens
from lossless.recall import results
from lossless.recall import scope as recall_scope
from lossless.recall.scope import Scope, require_readable

if TYPE_CHECKING:
    from lossless.files.vault import Vault
    from lossless.model.context import Summary
    from lossless.model.messages import StoredFile
    from lossless.recall.results import TextBudget
    from lossless.store.archive import Archive
    from lossless.store.views import LineageNode

_TEXTS = tomllib.loads(Path(__file__).with_name("templates").joinpath("describe.toml").read_text(encoding="utf-8"))
#: How many ids or parts are listed before they are only counted.
_MOST_LISTED, _MOST_LINES, _MOST_SUMMARY_CHARS = 64, 40, 8_000
_VERSION_CHARS = 400


@dataclass(frozen=True, slots=True)
class TextPage:
    """A piece of a text or a file: its characters, or its bytes, from `start` up to, without, `end`."""

    text: str
    start: int
    end: int
    cursor: str | None = None
    #: Why there is nothing, or less than asked for.
    note: str | None = None
    total: int = 0


@dataclass(frozen=True, slots=True)
class Description:
    """A summary, a message or a stored file with as much of its content as was asked for; `str()` of it is the text."""

    id: str
    page: TextPage
    #: For programs: `type` is `summary`, `message` or `file`.
    details: dict[str, Any]
    text: str

    def __str__(self) -> str:
        return self.text


def format_id_ranges(message_ids: Sequence[int]) -> str:
    """Message ids as a person writes them.

    >>> format_id_ranges([1, 2, 3, 7])
    'msg#1..msg#3 msg#7 (4)'
    """
    numbered = groupby(enumerate(message_ids), key=lambda pair: pair[1] - pair[0])
    pieces = [[id_ for _, id_ in run] for _, run in numbered]
    shown = [f"msg#{run[0]}" if len(run) == 1 else f"msg#{run[0]}..msg#{run[-1]}" for run in pieces[:20]]
    more = [f"and {len(pieces) - 20} more runs"] if len(pieces) > 20 else []
    return " ".join([*shown, *more, f"({len(message_ids)})"])


def _listed(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _MOST_LISTED} more" if len(ids) > _MOST_LISTED else ""
    return (" ".join(ids[:_MOST_LISTED]) or "none") + more


def _with_content(lines: Sequence[str], page: TextPage) -> str:
    where = f"characters {page.start:,} to {page.end:,} of {page.total:,}"
    rest = [f'(truncated: {where}; go on with cursor="{page.cursor}")'] if page.cursor else []
    return "\n".join([*lines, "content", page.text, *rest])


_CHUNK = 1 << 16
_SNIFFED = 4096
_LARGEST = 1 << 50
#: The share of bytes that are no UTF-8 from which on a file is no text.
_BINARY_SHARE = 0.12
#: Bytes of an opened file: from an offset on, at most so many.
ReadAt: TypeAlias = "Callable[[int, int], bytes]"


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


def read_file_page(file_id: str, read: ReadAt, request: DescribeRequest, budget: TextBudget) -> TextPage:
    """The wanted part of a file, as much of it as fits. Bytes that are no UTF-8 become U+FFFD."""
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
        starts = list(islice(_line_starts(read), first))
        start, count = starts[-1], len(starts) - (not read(starts[-1], 1))  # nothing may follow the last end of a line
        if count < first and first > 1:
            return TextPage("", start, start, note=f"it has {count:,} lines")
        lines = None if request.end_line is None else request.end_line - first + 1
    whole = read(start, request.max_bytes + 4)
    if lines is not None and len(parts := whole.split(b"\n", lines)) > lines:
        whole = whole[: len(whole) - len(parts[-1])]
    end = request.max_bytes
    while len(whole) > request.max_bytes and end > request.max_bytes - 4 and whole[end] & 0xC0 == 0x80:
        end -= 1  # back to where a letter begins
    kept = whole[:end]
    text = budget.head(kept.decode("utf-8", "surrogateescape"))
    end = start + len(text.encode("utf-8", "surrogateescape"))
    shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if end == start + len(whole):
        return TextPage(shown, start, end)
    remaining = -1 if lines is None else lines - text.count("\n")
    cursor = results.encode_cursor("file", {"id": file_id, "o": end, "n": remaining})
    return TextPage(shown, start, end, cursor, None if text else "the cap is too small to show anything")


def is_binary(head: bytes) -> bool:
    """Whether a file that begins like this is no text: NUL in it, or much that is no UTF-8.

    >>> is_binary(bytes(range(128, 256))), is_binary("Größe".encode("latin-1") + b" is not all of it")
    (True, False)
    """
    strange = head.decode("utf-8", "replace").count("\ufffd") - head.count(b"\xef\xbf\xbd")
    return b"\0" in head or strange > len(head) * _BINARY_SHARE


def _line_starts(read: ReadAt) -> Iterator[int]:
    yield 0
    offset = 0
    while chunk := read(offset, _CHUNK):
        yield from (offset + found.end() for found in re.finditer(b"\n", chunk))
        offset += len(chunk)


#: The most summaries that a manifest lists.
_MOST_BRANCHES = 100
_NO_CAP = 1 << 40
#: The longest description, with a note before it; and content so short that it need not be measured.
_LONGEST = results.MAX_RESULT_CHARS - 800
_SURELY_FITS = 12_000


def describe(
    archive: Archive,
    reference: results.Reference | str,
    scope: Scope,
    now: datetime,
    request: DescribeRequest | None = None,
    vault: Vault | None = None,
) -> Description:
    """Open a summary, a message or a file. Source text that a grant's holder reads is charged to the grant.

    `NotFound` for an id that is not there or not in scope, `GrantError` beyond the grant.
    """
    named = results.parse_reference(reference) if isinstance(reference, str) else reference
    request = request or DescribeRequest()
    archive = archive.within(scope.conversation_ids)
    if scope.grant is not None:
        recall_scope.check_grant(scope.grant, now)

    def read(budget: TextBudget) -> Description:
        if named.kind == "summary":
            return _describe_summary(archive, named.id, scope, request, budget)
        if named.kind == "message":
            return _describe_message(archive, named.message_id, scope, request, budget)
        return _describe_file(archive, named.id, scope, request, budget, vault)

    def fitted(cap: int | None) -> Description:
        """With less content when all of it together would be longer than a tool may return."""
        limit = min(cap or _NO_CAP, request.token_cap or _NO_CAP) if named.kind != "summary" else _NO_CAP
        with archive.reading():
            found = read(results.TextBudget(limit))
            over = len(str(found)) - _LONGEST if len(found.page.text) > _SURELY_FITS else 0
            return found if over <= 0 else read(results.TextBudget(limit, len(found.page.text) - over))

    grant = None if named.kind == "summary" else scope.grant
    return recall_scope.read_and_charge(archive, grant, now, fitted, lambda found: estimate_tokens(found.page.text))


#: What is told of every summary.
_NODE = (
    "kind depth tokens=tokenCount descendant_count descendant_tokens=descendantTokenCount "
    "source_message_tokens=sourceMessageTokenCount earliest_at latest_at"
)


def _describe_summary(
    archive: Archive, summary_id: str, scope: Scope, request: DescribeRequest, budget: TextBudget
) -> Description:
    found = archive.summaries.many([summary_id])
    require_readable(archive, scope, found[0].conversation_id if found else None, summary_id)
    summary = found[0]
    messages = archive.summaries.message_ids(summary_id) if summary.depth == 0 else []
    page = _text_page(summary_id, summary.content, request.cursor, budget)
    used_in = archive.summaries.used_in(summary_id)
    root = archive.listings.summary_nodes([summary_id])[summary_id]
    cap, source = request.token_cap or request.default_cap, "request" if request.token_cap else "config_default"
    if scope.grant is not None:
        remaining = (archive.guards.grant(scope.grant.id) or scope.grant).remaining
        cap = min(request.token_cap or remaining, remaining)
        source = "request" if request.token_cap else "delegated_grant_remaining"
    branches = [_branch(*branch, cap) for branch in _branches(archive, root)[:_MOST_BRANCHES]]
    omitted = max(0, root.descendant_count + 1 - len(branches))
    fields = results.json_fields(summary, f"conversation_id {_NODE} file_ids source_ids=parentIds")
    span, parents, children = _span(summary), _listed(summary.source_ids), _listed(used_in)
    lines = [
        _TEXTS["summary"].format(**fields, id=summary.id, range=span, cap=cap, parents=parents, children=children),
        *([f"messages {format_id_ranges(messages)}"] if messages else []),
        *([f"files {_listed(summary.file_ids)}"] if summary.file_ids else []),
        "manifest",
        *(line for line, _ in branches),
        *([f"... {omitted:,} more below; describe a branch to see them"] if omitted else []),
    ]
    details = {
        "id": summary.id,
        "type": "summary",
        "summary": {
            **fields,
            "childIds": list(used_in),
            "messageIds": list(messages),
            **results.json_fields(summary, "created_at model"),
        },
        "manifest": {
            "tokenCap": cap,
            "budgetSource": source,
            "omitted": omitted,
            "nodes": [node for _, node in branches],
        },
        "cursor": page.cursor,
    }
    return Description(summary.id, page, details, _with_content(lines, page))


def _branch(node: LineageNode, level: int, source_of: str | None, cap: int) -> tuple[str, dict[str, Any]]:
    """A summary of the subtree, so many layers down, with what opening all below it costs: a line, and details."""
    small = node.tokens + node.descendant_tokens
    costs = {"summariesOnly": small, "withMessages": small + node.source_message_tokens}
    details = {
        "summaryId": node.id,
        "parentSummaryId": source_of,
        "depthFromRoot": level,
        **results.json_fields(node, f"{_NODE} source_count=childCount"),
        "costs": costs,
        "budget": {name: "in" if cost <= cap else "over" for name, cost in costs.items()},
    }
    return _TEXTS["branch"].format(**details, range=_span(node)), details


def _span(node: Summary | LineageNode) -> str:
    return results.format_span(node.earliest_at, node.latest_at)


def _branches(archive: Archive, root: LineageNode) -> list[tuple[LineageNode, int, str | None]]:
    """The subtree below a summary, with levels and what each is a source of, as long as whole layers can be listed.

    What each was made of is right behind it, and each is there once.
    """
    below: dict[str, list[LineageNode]] = {}
    listed, layer = {root.id}, [root.id] if root.source_count else []
    while layer:
        sources = archive.listings.nodes_below(layer)
        fresh = {node.id for nodes in sources.values() for node in nodes} - listed
        if not fresh or (below and len(listed) + len(fresh) > _MOST_BRANCHES):
            break
        below |= sources
        listed |= fresh
        layer = [node.id for nodes in sources.values() for node in nodes if node.id in fresh and node.source_count]
    branches: dict[str, tuple[LineageNode, int, str | None]] = {}
    todo: list[tuple[LineageNode, int, str | None]] = [(root, 0, None)]
    while todo:
        node, level, source_of = todo.pop()
        if node.id not in branches:
            branches[node.id] = node, level, source_of
            todo += [(source, level + 1, node.id) for source in reversed(below.get(node.id, []))]
    return list(branches.values())


def _describe_message(
    archive: Archive, message_id: int, scope: Scope, request: DescribeRequest, budget: TextBudget
) -> Description:
    found = archive.messages.many([message_id])
    name = f"msg#{message_id}"
    require_readable(archive, scope, found[0].conversation_id if found else None, name)
    stored, message, views = found[0], found[0].message, archive.listings
    place = stored.conversation_id, stored.seq
    before, after = (next(iter(side(*place)), None) for side in (views.ids_before, views.ids_after))
    leaf = archive.summaries.covering([message_id]).get(message_id)
    page = _text_page(name, results.message_text(message), request.cursor, budget)
    versions, parts = archive.versions.of(message_id), [results.part_label(part) for part in message.parts]
    shown = [
        {"kind": version.kind, "at": state_time(version.at), "content": _cut(version.message.content)}
        for version in versions[-_MOST_LINES:]
    ]
    fields = results.json_fields(
        stored, "id=messageId conversation_id seq message.role=role message.tokens=tokenCount created_at"
    )
    at, previous, following = results.format_moment(stored.created_at), _ref(before), _ref(after)
    lines = [
        _TEXTS["message"].format(
            **fields, id=name, at=at, leaf=leaf or "none (not folded)", previous=previous, following=following
        ),
        *([f"file {stored.file_id}"] if stored.file_id else []),
        *(["parts"] if parts else []),
        *(f"- {part}" for part in parts[:_MOST_LINES]),
        *([f"- and {len(parts) - _MOST_LINES} more"] if len(parts) > _MOST_LINES else []),
        *(["versions (no longer what it says)"] if versions else []),
        *(
            f"- {one['kind']} {results.format_moment(version.at)}: {' '.join(one['content'].split())}"
            for one, version in zip(shown, versions[-_MOST_LINES:], strict=True)
        ),
        *([f"- and {len(versions) - _MOST_LINES} older ones"] if len(versions) > _MOST_LINES else []),
    ]
    details = {
        "id": name,
        "type": "message",
        "message": {
            **fields,
            "parts": parts,
            "fileId": stored.file_id,
            "summaryId": leaf,
            "before": before,
            "after": after,
            "versions": shown,
            "versionCount": len(versions),
        },
        "cursor": page.cursor,
    }
    return Description(name, page, details, _with_content(lines, page))


def _ref(message_id: int | None) -> str:
    return "none" if message_id is None else f"msg#{message_id}"


def _cut(text: str) -> str:
    return text if len(text) <= _VERSION_CHARS else text[:_VERSION_CHARS] + "…"


def _text_page(name: str, text: str, cursor: str | None, budget: TextBudget) -> TextPage:
    """A page of a text from where a cursor points, the beginning without one."""
    start = 0
    if cursor is not None:
        fields = results.decode_cursor("text", cursor, {"id": str, "o": int})
        start = fields["o"]
        if fields["id"] != name or not 0 <= start <= len(text):
            raise results.bad_cursor()
    piece = budget.head(text[start:])
    end = start + len(piece)
    rest = results.encode_cursor("text", {"id": name, "o": end}) if end < len(text) else None
    return TextPage(piece, start, end, rest, total=len(text))


def _describe_file(
    archive: Archive, file_id: str, scope: Scope, request: DescribeRequest, budget: TextBudget, vault: Vault | None
) -> Description:
    found = archive.files.many([file_id])
    require_readable(archive, scope, found[file_id].conversation_id if found else None, file_id)
    stored, first, last = found[file_id], request.start_line, request.end_line
    if first is not None and last is not None and last < first:
        raise BadInput(f"endLine ({last}) is before startLine ({first})")
    request = replace(request, max_bytes=min(MAX_PAGE_BYTES, max(MIN_PAGE_BYTES, request.max_bytes)))
    page, from_message = TextPage("", 0, 0, note="its bytes cannot be read"), False
    try:
        if vault is None:
            raise NotFound("file", file_id)
        page = read_file_page(file_id, lambda *part: vault.read(stored, *part).data, request, budget)
    except (NotFound, ArchiveError):
        if (text := archive.files.text_of(stored)) is not None:
            data, from_message = text.encode("utf-8", "surrogateescape"), True
            page = read_file_page(file_id, lambda start, length: data[start : start + length], request, budget)
    details = {
        "id": stored.id,
        "type": "file",
        "file": results.json_fields(
            stored,
            "conversation_id name=fileName mime=mimeType byte_size line_count exploration_summary created_at",
        ),
        "content": {
            "start": page.start,
            "end": page.end,
            "truncated": page.cursor is not None,
            "available": page.note is None,
            "fromMessage": from_message,
        },
        "cursor": page.cursor,
    }
    return Description(stored.id, page, details, _file_text(stored, page, from_message=from_message))


def _file_text(stored: StoredFile, page: TextPage, *, from_message: bool) -> str:
    head = _TEXTS["file"].format(
        id=stored.id,
        conversationId=stored.conversation_id,
        name=stored.name or "unnamed",
        type=stored.mime or "unknown",
        size="unknown" if stored.byte_size is None else f"{stored.byte_size:,} bytes",
        created=results.format_moment(stored.created_at),
        summary=(stored.exploration_summary or "none").strip()[:_MOST_SUMMARY_CHARS],
    )
    lines = [head]
    if page.text:
        fence = "`" * (max(map(len, re.findall(r"`{3,}", page.text)), default=2) + 1)
        lines += [f"{fence}text", page.text.removesuffix("\n"), fence]
    if from_message:
        lines.append("The file cannot be read; this is the text of its message.")
    if page.note:
        lines.append(f"Content unavailable: {page.note}." if not page.text else page.note)
    if page.cursor:
        size = "" if stored.byte_size is None else f" of {stored.byte_size:,}"
        where = f"bytes {page.start:,} to {page.end:,}{size}"
        lines.append(f'(truncated: {where}; go on with cursor="{page.cursor}")')
    return "\n".join(lines)
