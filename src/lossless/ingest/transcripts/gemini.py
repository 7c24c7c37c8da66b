"""Reads sessions of Gemini CLI: one JSON object, or JSON lines that add, replace and take back messages by id."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput
from lossless.ingest.transcripts import fields
from lossless.ingest.transcripts.entries import (
    BadLine,
    Reader,
    RecordPosition,
    TranscriptEntry,
    TranscriptHeader,
    WholeTranscript,
)
from lossless.ingest.transcripts.records import file_state, read_document, read_lines

if TYPE_CHECKING:
    from pathlib import Path


KIND = "gemini"

#: Next to the chats of a project: the folder that Gemini CLI worked in.
_PROJECT_FILE = ".project_root"


def recognises(records: list[dict[str, Any]]) -> bool:
    """The head of a session."""
    return any(fields.text(record, "sessionId") and "projectHash" in record for record in records)


def read_transcripts(path: Path) -> list[WholeTranscript]:
    """The session in a file."""
    state = file_state(path)
    document = read_document(path)
    records = read_lines(path, state.size) if document is None else [(RecordPosition(1, 0, 0), document)]
    about: dict[str, Any] = {}
    messages: dict[str, dict[str, Any]] = {}
    gone: set[str] = set()
    bad: list[BadLine] = []
    for record in records:
        if isinstance(record, BadLine):
            bad.append(record)
        else:
            _apply(record[1], about, messages, gone)
    if bad and not about:
        raise BadInput("it is no session of Gemini CLI, or it is being written")
    header = TranscriptHeader(
        id=fields.text(about, "sessionId"),
        started_at=fields.time(about.get("startTime")),
        cwd=_project_folder(path),
        title=fields.text(about, "summary"),
    )
    entries, taken_back = _entries(messages, gone)
    parent = path.parent.name if about.get("kind") == "subagent" else None
    return [WholeTranscript(state, header, lambda: ([*bad, *entries], taken_back), parent)]


def _apply(record: dict[str, Any], about: dict[str, Any], messages: dict[str, dict[str, Any]], gone: set[str]) -> None:
    """Apply one record: a message, the id from which on all messages are taken back, or fields of the session."""
    if "$rewindTo" in record:
        ids = [id for id in messages if id not in gone]
        target = record["$rewindTo"]
        gone.update(ids[ids.index(target) if target in ids else 0 :])
        return
    changed = fields.object(record, "$set") or record
    listed = [record] if fields.text(record, "id") else fields.objects(changed, "messages")
    for message in listed:
        if (id := fields.text(message, "id")) is not None:
            messages[id] = message
            gone.discard(id)
    if listed != [record]:
        about.update((key, value) for key, value in changed.items() if key != "messages")


def _project_folder(path: Path) -> str | None:
    for folder in path.parents[1:3]:
        file = folder / _PROJECT_FILE
        with suppress(OSError, ValueError):
            if file.is_file():  # not a pipe, which may never end
                return file.read_text(encoding="utf-8").strip() or None
    return None


def _entries(messages: dict[str, dict[str, Any]], gone: set[str]) -> tuple[list[TranscriptEntry], frozenset[str]]:
    """All entries, and the ids of those that were taken back.

    The result of a call is recorded with the call, and in newer files again as a prompt: it is read once, by the id of
    its call.
    """
    entries: dict[str, TranscriptEntry] = {}
    taken_back: set[str] = set()
    for number, (id, record) in enumerate(messages.items(), 1):
        line, kind, written = RecordPosition(number, 0, 0), fields.kind(record), fields.time(record.get("timestamp"))
        found: list[tuple[str, dict[str, Any]]] = []
        if kind == "user":
            parts = _parts(record.get("content"))
            results = [fields.object(part, "functionResponse") for part in parts if "functionResponse" in part]
            found = [(_result_id(result, id, n), _result(result, [result])) for n, result in enumerate(results)]
            if blocks := _blocks([part for part in parts if "functionResponse" not in part]):
                words = blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks
                found.append((id, {"role": "user", "content": words}))
        elif kind == "gemini":
            parts, calls = _parts(record.get("content")), fields.objects(record, "toolCalls")
            known = {fields.text(call, "id") for call in calls}
            written_calls = [fields.object(part, "functionCall") for part in parts if "functionCall" in part]
            all_calls = [*(call for call in written_calls if fields.text(call, "id") not in known), *calls]
            words = _blocks([part for part in parts if "functionCall" not in part and part.get("thought") is not True])
            if blocks := [*_thoughts(record, parts), *words, *map(_call, all_calls)]:
                found = [(id, _answer(record, blocks))]
            for n, call in enumerate(calls):
                if results := [fields.object(part, "functionResponse") or part for part in _parts(call.get("result"))]:
                    found.append((_result_id(call, id, n), _result(call, results)))
        if not found:
            entries[id] = TranscriptEntry(line, kind, id, created_at=written, record=record)
        for entry_id, message in found:
            entries.setdefault(entry_id, TranscriptEntry(line, kind, entry_id, None, written, None, message))
            if id in gone:
                taken_back.add(entry_id)
    return list(entries.values()), frozenset(taken_back)


def _result_id(call: dict[str, Any], message_id: str, number: int) -> str:
    """The id of a call is that of its result; without one, its place in its message."""
    return fields.text(call, "id") or f"{message_id}:result:{number}"


def _parts(content: Any) -> list[dict[str, Any]]:
    """The parts of a content; a text alone is one part."""
    items = content if isinstance(content, list) else [content]
    return [
        {"text": item} if isinstance(item, str) else item for item in items if item and isinstance(item, str | dict)
    ]


def _blocks(content: Any) -> list[dict[str, Any]]:
    """Text and images as blocks; any other part as a block of its own name."""
    blocks: list[dict[str, Any]] = []
    for part in _parts(content):
        data = fields.object(part, "inlineData")
        if isinstance(text := part.get("text"), str):
            blocks += [{"type": "text", "text": text}] if text else []
        elif str(data.get("mimeType")).startswith("image/"):
            blocks.append({"type": "image", **data})
        else:
            blocks.append({**part, "type": next(iter(part), "unknown")})
    return blocks


def _thoughts(record: dict[str, Any], parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the model thought, as listed; else the thoughts among its words, as files that were converted have them."""
    texts = [
        "\n".join(filter(None, (fields.text(thought, "subject"), fields.text(thought, "description"))))
        for thought in fields.objects(record, "thoughts")
    ] or [fields.text(part, "text") or "" for part in parts if part.get("thought") is True]
    return [{"type": "thinking", "thinking": text} for text in texts if text]


def _call(call: dict[str, Any]) -> dict[str, Any]:
    arguments = fields.object(call, "args")
    return {"type": "toolCall", "id": call.get("id"), "name": call.get("name"), "arguments": arguments}


def _answer(record: dict[str, Any], blocks: list[dict[str, Any]]) -> dict[str, Any]:
    message = {"role": "assistant", "content": blocks, "provider": "google", "api": "google-generative-ai"}
    return message | {key: record[key] for key in ("model", "tokens") if key in record}


def _result(call: dict[str, Any], results: list[dict[str, Any]]) -> dict[str, Any]:
    """The result of a call, as one message: the words of its responses, and what the person was shown."""
    blocks: list[dict[str, Any]] = []
    is_error = call.get("status") == "error"
    for result in results:
        if "response" not in result:
            blocks += _blocks([result])
            continue
        response = result["response"]
        is_error = is_error or (isinstance(response, dict) and "error" in response and "output" not in response)
        words = response
        if isinstance(response, dict) and len(response) == 1:
            words = response.get("output", response.get("error", response))
        blocks.append({"type": "text", "text": words if isinstance(words, str) else json.dumps(words)})
    message = {"role": "toolResult", "toolCallId": call.get("id"), "toolName": call.get("name"), "content": blocks}
    details = {key: call[key] for key in ("status", "resultDisplay") if key in call}
    return message | {"isError": is_error} | ({"details": details} if details else {})


READER = Reader(KIND, recognises, sessions=read_transcripts)
