"""What `describe` returns: a summary, a message or a file, as values, as text and as JSON.

The text keeps the reference's words, which agents know: `parents` are the sources that a summary was
made of, `children` the summaries that it was used in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from lossless.model.times import state_time
from lossless.recall.said import moment, part_line, span

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lossless.model.files import StoredFile
    from lossless.model.messages import StoredMessage
    from lossless.model.summaries import Summary
    from lossless.recall.file_page import FilePage
    from lossless.store.lineage import Node
    from lossless.store.versions import Version

#: How many ids or parts are listed before they are only counted.
_MOST_LISTED, _MOST_LINES, _MOST_SUMMARY_CHARS = 64, 40, 8_000
_VERSION_CHARS = 400

BudgetSource: TypeAlias = Literal["request", "delegated_grant_remaining", "config_default"]


class Branch(NamedTuple):
    """A summary of the subtree, so many layers below the one that is described."""

    node: Node
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
class Manifest:
    """The subtree below a summary with the cost of each branch, whole layers from the top."""

    branches: tuple[Branch, ...]
    token_cap: int
    budget_source: BudgetSource
    #: Summaries below that are not listed.
    omitted: int = 0

    def fits(self, cost: int) -> str:
        return "in" if cost <= self.token_cap else "over"


@dataclass(frozen=True, slots=True)
class TextPage:
    """A piece of a text: its characters from `start` up to, without, `end`."""

    text: str
    start: int
    end: int
    total: int
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class SummaryDescription:
    """A summary: what it says, what it was made of, where it was used, and what opening it would cost."""

    summary: Summary
    used_in: tuple[str, ...]
    #: The messages of a leaf, in order.
    message_ids: tuple[int, ...]
    manifest: Manifest
    page: TextPage

    @property
    def id(self) -> str:
        return self.summary.id

    def __str__(self) -> str:
        summary = self.summary
        lines = [
            f"LCM_SUMMARY {summary.id}",
            f"meta conv={summary.conversation_id} kind={summary.kind} depth={summary.depth} tok={summary.tokens} "
            f"descTok={summary.descendant_tokens} srcTok={summary.source_message_tokens} "
            f"desc={summary.descendant_count} range={span(summary.earliest_at, summary.latest_at)} "
            f"budgetCap={self.manifest.token_cap}",
            f"parents {_listed(summary.source_ids)} (sources: what it was made of)",
            f"children {_listed(self.used_in)} (used in: what was made of it)",
        ]
        if self.message_ids:
            lines.append(f"messages {runs(self.message_ids)}")
        if summary.file_ids:
            lines.append(f"files {_listed(summary.file_ids)}")
        lines.append("manifest")
        lines += [_branch_line(branch, self.manifest) for branch in self.manifest.branches]
        if self.manifest.omitted:
            lines.append(f"... {self.manifest.omitted:,} more below; describe a branch to see them")
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
                "earliestAt": time_or_none(summary.earliest_at),
                "latestAt": time_or_none(summary.latest_at),
                "createdAt": state_time(summary.created_at),
                "model": summary.model,
            },
            "manifest": {
                "tokenCap": self.manifest.token_cap,
                "budgetSource": self.manifest.budget_source,
                "omitted": self.manifest.omitted,
                "nodes": [_branch_details(branch, self.manifest) for branch in self.manifest.branches],
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
            f"at={moment(stored.created_at)}",
            f"leaf {self.leaf or 'none (not folded)'}",
            f"neighbours before={_ref(self.before)} after={_ref(self.after)}",
        ]
        if stored.file_id:
            lines.append(f"file {stored.file_id}")
        if message.parts:
            lines.append("parts")
            lines += [f"- {part_line(part)}" for part in message.parts[:_MOST_LINES]]
            if len(message.parts) > _MOST_LINES:
                lines.append(f"- and {len(message.parts) - _MOST_LINES} more")
        if self.versions:
            lines.append("versions (no longer what it says)")
            lines += [_version_line(version) for version in self.versions[-_MOST_LINES:]]
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
                "parts": [part_line(part) for part in stored.message.parts],
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
    page: FilePage
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
            f"**Created:** {moment(stored.created_at)}",
            "",
            "## Exploration Summary",
            "",
            (stored.exploration_summary or "none").strip()[:_MOST_SUMMARY_CHARS],
            "",
            "## Content",
            "",
        ]
        if page.text:
            fence = _fence(page.text)
            lines += [f"{fence}text", page.text.removesuffix("\n"), fence]
        if self.from_message:
            lines.append("The file cannot be read; this is the text of its message.")
        if page.note:
            lines.append(f"Content unavailable: {page.note}." if not page.text else page.note)
        if page.cursor:
            size = "" if stored.byte_size is None else f" of {stored.byte_size:,}"
            lines.append(f"(truncated: bytes {page.start:,} to {page.end:,}{size}; go on with {_next(page.cursor)})")
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


def runs(message_ids: Sequence[int]) -> str:
    """Message ids as a person writes them.

    >>> runs([1, 2, 3, 7])
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


def time_or_none(at: datetime | None) -> str | None:
    """A time for JSON."""
    return None if at is None else state_time(at)


def _branch_line(branch: Branch, manifest: Manifest) -> str:
    node, small = branch.node, branch.summary_cost
    large = small + node.source_message_tokens
    return (
        f"d{branch.level} {node.id} k={node.kind} tok={node.tokens} descTok={node.descendant_tokens} "
        f"srcTok={node.source_message_tokens} desc={node.descendant_count} child={node.source_count} "
        f"range={span(node.earliest_at, node.latest_at)} cost[s={small},m={large}] "
        f"budget[s={manifest.fits(small)},m={manifest.fits(large)}]"
    )


def _branch_details(branch: Branch, manifest: Manifest) -> dict[str, Any]:
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
        "earliestAt": time_or_none(node.earliest_at),
        "latestAt": time_or_none(node.latest_at),
        "costs": {"summariesOnly": small, "withMessages": large},
        "budget": {"summariesOnly": manifest.fits(small), "withMessages": manifest.fits(large)},
    }


def _listed(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _MOST_LISTED} more" if len(ids) > _MOST_LISTED else ""
    return (" ".join(ids[:_MOST_LISTED]) or "none") + more


def _rest(page: TextPage) -> list[str]:
    if page.cursor is None:
        return []
    return [
        f"(truncated: characters {page.start:,} to {page.end:,} of {page.total:,}; go on with {_next(page.cursor)})"
    ]


def _next(cursor: str) -> str:
    return f'cursor="{cursor}"'


def _version_line(version: Version) -> str:
    return f"- {version.kind} {moment(version.at)}: {' '.join(_cut(version.message.content).split())}"


def _cut(text: str) -> str:
    return text if len(text) <= _VERSION_CHARS else text[:_VERSION_CHARS] + "…"


def _ref(message_id: int | None) -> str:
    return "none" if message_id is None else f"msg#{message_id}"


def _fence(text: str) -> str:
    """A fence that the text does not have."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    return "`" * (longest + 1)
