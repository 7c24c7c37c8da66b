"""Reads ChatGPT exports: an array of conversations, each a map of nodes with parents and a current node."""

from __future__ import annotations

from typing import Any

from lossless.ingest.transcripts import fields
from lossless.ingest.transcripts.entries import Reader, RecordPosition, TranscriptEntry, TranscriptHeader

KIND = "chatgpt"

_ROLES = frozenset(("user", "assistant", "system", "tool"))


def recognises(records: list[dict[str, Any]]) -> bool:
    """A conversation with a map of nodes."""
    return any(_is_conversation(record) for record in records)


def lane_header(record: dict[str, Any], lane: str) -> TranscriptHeader:
    """A conversation's id, title and start."""
    return TranscriptHeader(
        id=fields.text(record, "conversation_id", "id") or lane,
        started_at=fields.time(record.get("create_time")),
        title=fields.text(record, "title"),
    )


def entries(record: dict[str, Any], line: RecordPosition) -> list[TranscriptEntry]:
    """The nodes of a conversation, parents first and the current node last."""
    if not _is_conversation(record):
        return [TranscriptEntry(line, "unknown", record=record)]
    lane = fields.text(record, "conversation_id", "id") or str(line.number)
    nodes = {id: node for id, node in record["mapping"].items() if isinstance(node, dict)}
    return [_entry(id, nodes[id], line, lane) for id in _ordered(nodes, fields.text(record, "current_node"))]


def _entry(id: str, node: dict[str, Any], line: RecordPosition, lane: str) -> TranscriptEntry:
    parent, body = fields.text(node, "parent"), fields.object(node, "message")
    message = _message(body)
    if message is None:
        return TranscriptEntry(line, "node", id, parent, lane=lane, record=node)
    return TranscriptEntry(line, "message", id, parent, fields.time(body.get("create_time")), lane, message)


def _message(body: dict[str, Any]) -> dict[str, Any] | None:
    """A node's message as role and content; None for empty nodes that only connect the tree."""
    author, content = fields.object(body, "author"), fields.object(body, "content")
    if fields.text(author, "role") not in _ROLES or not content:
        return None
    built = _content(content)
    if not built:
        return None
    message: dict[str, Any] = {"role": author["role"], "content": built}
    about = {
        "model": fields.text(fields.object(body, "metadata"), "model_slug") if author["role"] == "assistant" else None,
        "toolName": fields.text(author, "name") if author["role"] == "tool" else None,
        "recipient": fields.text(body, "recipient"),
        "language": fields.text(content, "language"),
    }
    return message | {key: value for key, value in about.items() if value not in (None, "all", "unknown")}


def _content(content: dict[str, Any]) -> str | list[dict[str, Any]]:
    """Text verbatim; any other part or type as its original block."""
    kind, parts = content.get("content_type"), content.get("parts")
    if isinstance(parts, list) and kind in ("text", "multimodal_text"):
        if all(isinstance(part, str) for part in parts):
            return "\n".join(parts)
        return [_part(part) for part in parts if part != ""]
    words = content.get("text")
    if isinstance(words, str) and kind in ("code", "execution_output"):
        return words
    return [{**content, "type": str(kind or "unknown")}]


def _part(part: Any) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if isinstance(part, dict):
        return {**part, "type": fields.text(part, "type", "content_type") or "unknown"}
    return {"type": "unknown", "value": part}


def _ordered(nodes: dict[str, Any], current: str | None) -> list[str]:
    """All nodes, each after its parent, and the path to the current node after its branches."""
    children: dict[str | None, list[str]] = {}
    for id, node in nodes.items():
        parent = fields.text(node, "parent")
        children.setdefault(parent if parent in nodes else None, []).append(id)
    path = _path(nodes, current if current in nodes else next(reversed(nodes), None))
    on_path = set(path)
    ordered: list[str] = []
    steps: list[str | None] = [None, *path]
    for step in steps:
        branches = [child for child in children.get(step, []) if child not in on_path]
        own = [] if step is None else [step]
        below = _below(branches, children)
        ordered += below + own if own == path[-1:] else own + below
    missing = nodes.keys() - set(ordered)
    return [id for id in nodes if id in missing] + ordered


def _path(nodes: dict[str, Any], leaf: str | None) -> list[str]:
    path: dict[str, None] = {}
    while leaf in nodes and leaf not in path:
        path[leaf] = None
        leaf = fields.text(nodes[leaf], "parent")
    return list(reversed(path))


def _below(branches: list[str], children: dict[str | None, list[str]]) -> list[str]:
    found, todo = [], list(reversed(branches))
    while todo:
        id = todo.pop()
        found.append(id)
        todo += reversed(children.get(id, []))
    return found


def _is_conversation(record: dict[str, Any]) -> bool:
    return isinstance(record.get("mapping"), dict)


READER = Reader(KIND, recognises, entries, lane_header=lane_header)
