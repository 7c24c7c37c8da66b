"""Reads Claude Code sessions: lines with a uuid and the uuid of the previous line; sub-agents have their own lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lossless.ingest.transcripts import fields
from lossless.ingest.transcripts.entries import ANSWER, Reader, RecordPosition, TranscriptEntry, TranscriptHeader

if TYPE_CHECKING:
    from pathlib import Path


KIND = "claude-code"
#: The lane of sub-agents in files that do not identify them.
SIDE_LINE = "sidechain"

_HOOK_CONTEXT = "hook_additional_context"
_SPOKEN = frozenset(("user", "assistant"))
_TITLES = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}


def recognises(records: list[dict[str, Any]]) -> bool:
    """A line of a session, or one of those that Claude Code writes between them."""
    return any(_is_own(record) for record in records)


def header(records: list[dict[str, Any]]) -> TranscriptHeader:
    """The session, its folder, and its title if there is one, from the first lines."""
    first = next((record for record in records if fields.text(record, "sessionId")), {})
    titles = [found for record in records if (found := title(record))]
    return TranscriptHeader(
        id=fields.text(first, "sessionId"),
        started_at=fields.time(first.get("timestamp")),
        cwd=next((found for record in records if (found := fields.text(record, "cwd"))), None),
        title=titles[-1] if titles else None,
    )


def entries(record: dict[str, Any], line: RecordPosition) -> list[TranscriptEntry]:
    """Messages of `user` and `assistant` lines; all other lines are opaque, those without a uuid outside the tree."""
    kind, message = fields.kind(record), fields.object(record, "message")
    id, written = fields.text(record, "uuid"), fields.time(record.get("timestamp"))
    parent = fields.text(record, "parentUuid", "logicalParentUuid")
    lane = _lane(record)
    attached = fields.object(record, "attachment")
    if fields.text(attached, "type") == _HOOK_CONTEXT and "content" in attached:  # without our own evidence
        record = record | {"attachment": attached | {"content": fields.strip_evidence(attached["content"])}}
    is_message = kind in _SPOKEN and fields.text(message, "role") in _SPOKEN and "content" in message
    return [
        TranscriptEntry(
            line,
            kind,
            id,
            parent,
            written,
            lane,
            message if is_message else None,
            {} if is_message else record,
            is_loose=lane == SIDE_LINE or (id is None and not is_message),
            tie=_tie(message) if is_message else None,
        )
    ]


def lane_header(record: dict[str, Any], lane: str) -> TranscriptHeader:
    """A sub-agent's lane: its id, its parent session, when and where it began."""
    return TranscriptHeader(
        id=lane,
        parent=fields.text(record, "sessionId"),
        started_at=fields.time(record.get("timestamp")),
        cwd=fields.text(record, "cwd"),
    )


def title(record: dict[str, Any]) -> str | None:
    key = _TITLES.get(fields.kind(record))
    return fields.text(record, key) if key else None


def opening(record: dict[str, Any]) -> str | None:
    """The first prompt of a person, or of the agent that started a sub-agent; not commands and internal lines."""
    is_own = record.get("isMeta") is True or record.get("isCompactSummary") is True
    is_prompt = fields.kind(record) == "user" and not is_own
    return fields.title(fields.object(record, "message").get("content")) if is_prompt else None


def side_files(path: Path) -> list[Path]:
    return sorted((path.parent / path.stem / "subagents").glob("agent-*.jsonl"))


def _is_own(record: dict[str, Any]) -> bool:
    if record.get("type") == "file-history-snapshot" or "leafUuid" in record:
        return True
    is_line = isinstance(record.get("type"), str) and "role" not in record
    return is_line and ("sessionId" in record or "uuid" in record)


def _lane(record: dict[str, Any]) -> str | None:
    if record.get("isSidechain") is not True:
        return None
    return fields.text(record, "agentId") or SIDE_LINE


def _tie(message: dict[str, Any]) -> str | None:
    """Lines of one answer share its id; results of parallel tools belong to their calls."""
    if message.get("role") == "assistant":
        return fields.text(message, "id")
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    is_answer = bool(blocks) and all(isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks)
    return ANSWER if is_answer else None


READER = Reader(KIND, recognises, entries, header, lane_header, title, opening, side_files)
