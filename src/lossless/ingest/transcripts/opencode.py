"""Reads sessions of OpenCode: its database, the folders of JSON files of older versions, and `opencode export`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless.errors import BadInput
from lossless.ingest.transcripts import fields
from lossless.ingest.transcripts.entries import (
    BadLine,
    FileState,
    Reader,
    RecordPosition,
    TranscriptEntry,
    TranscriptHeader,
    TranscriptLine,
    WholeTranscript,
)
from lossless.ingest.transcripts.records import file_state, is_sqlite, parse_object, read_document
from lossless.store.bundles.other_programs import is_opencode, opencode_messages, opencode_sessions

if TYPE_CHECKING:
    from pathlib import Path

    #: A message and its parts, as dictionaries; or why one of them cannot be read.
    Stored: TypeAlias = tuple[dict[str, Any] | str, Sequence[dict[str, Any] | str]]


KIND = "opencode"

#: Fields of a message that are kept with it.
_KEPT = ("agent", "mode", "cost", "tokens", "finish", "error")
#: What OpenCode calls a session that has no title yet.
_UNTITLED = ("New session - ", "Child session - ")


def recognises(records: list[dict[str, Any]]) -> bool:
    """A session's own record, alone or with its messages."""
    return any(_is_session(fields.object(record, "info") or record) for record in records)


def _is_session(info: dict[str, Any]) -> bool:
    id = fields.text(info, "id") or ""
    return id.startswith("ses") and "/" not in id and id.isprintable() and "projectID" in info  # it names a folder


def is_database(path: Path) -> bool:
    return is_sqlite(path) and is_opencode(path)


def read_transcripts(path: Path) -> list[WholeTranscript]:
    """The sessions in a file; their messages are read when they are needed."""
    if is_sqlite(path):
        return [
            _transcript(FileState(path, size, changed), info, partial(_read_rows, path, info["id"]))
            for text, size, changed in opencode_sessions(path)
            if isinstance(info := parse_object(text), dict)
        ]
    state, document = file_state(path), read_document(path) or {}
    if "info" in document:
        messages = fields.objects(document, "messages")
        stored: list[Stored] = [(fields.object(one, "info"), fields.objects(one, "parts")) for one in messages]
        return [_transcript(state, fields.object(document, "info"), lambda: stored)]
    if not _is_session(document):
        if state.size:
            raise BadInput("it is no session of OpenCode, or it is being written")
        return []
    storage = path.absolute().parent.parent.parent
    files = [
        (file, sorted((storage / "part" / file.stem).glob("prt*.json")))
        for file in sorted((storage / "message" / document["id"]).glob("msg*.json"))
    ]
    states = [state]
    for file in (file for message, parts in files for file in (message, *parts)):
        with suppress(BadInput):  # reading it will report that
            states.append(file_state(file))
    state = FileState(path, sum(one.size for one in states), max(one.mtime_ms for one in states))
    return [_transcript(state, document, partial(_read_files, files))]


def _read_rows(path: Path, session_id: str) -> list[Stored]:
    def read(id: str, text: str) -> dict[str, Any] | str:
        found = parse_object(text)
        return f"{id}: {found}" if isinstance(found, str) else found | {"id": id}

    rows = opencode_messages(path, session_id)
    return [(read(id, text), [read(*part) for part in parts]) for id, text, parts in rows]


def _read_files(files: list[tuple[Path, list[Path]]]) -> list[Stored]:
    def read(file: Path) -> dict[str, Any] | str:
        try:
            file_state(file)  # a pipe may never end
            return read_document(file) or f"{file.name}: not JSON"
        except BadInput as error:
            return str(error)

    return [(read(message), [read(part) for part in parts]) for message, parts in files]


def _transcript(state: FileState, info: dict[str, Any], read: Callable[[], list[Stored]]) -> WholeTranscript:
    title = fields.text(info, "title")
    header = TranscriptHeader(
        id=fields.text(info, "id"),
        started_at=fields.time(fields.object(info, "time").get("created")),
        cwd=fields.text(info, "directory"),
        title=None if title and title.startswith(_UNTITLED) else title,
    )
    reverted = info.get("revert")
    revert = parse_object(reverted) if isinstance(reverted, str) else reverted
    read_all = partial(_read_entries, read, revert if isinstance(revert, dict) else {})
    return WholeTranscript(state, header, read_all, fields.text(info, "parentID"))


def _read_entries(
    read: Callable[[], list[Stored]], revert: dict[str, Any]
) -> tuple[list[TranscriptLine], frozenset[str]]:
    """All entries in order, and the ids of those that the user has reverted: from a message or a part on."""
    stored = read()
    problems = [text for info, parts in stored for text in (info, *parts) if isinstance(text, str)]
    messages = [
        (info, [part for part in parts if isinstance(part, dict)]) for info, parts in stored if isinstance(info, dict)
    ]
    messages.sort(key=lambda message: (_created(message[0]) or 0, str(message[0].get("id"))))
    found: list[TranscriptLine] = []
    reverted: set[str] = set()
    message_id, part_id = fields.text(revert, "messageID"), fields.text(revert, "partID") or ""
    is_reverted = False
    for number, (info, parts) in enumerate(messages, 1):
        entries = list(_entries_of(info, parts, RecordPosition(number, 0, 0)))
        if is_reverted:
            reverted.update(entry.id for entry in entries if entry.id)
        elif info.get("id") == message_id:
            is_reverted = True
            whole = not part_id
            reverted.update(e.id for e in entries if e.id and (whole or (e.id != message_id and e.id >= part_id)))
        found += entries
    found += [BadLine(RecordPosition(len(messages) + n, 0, 0), text) for n, text in enumerate(problems, 1)]
    return found, frozenset(reverted)


def _created(info: dict[str, Any]) -> Any:
    created = fields.object(info, "time").get("created")
    return created if isinstance(created, int | float) else None


def _entries_of(info: dict[str, Any], parts: list[dict[str, Any]], line: RecordPosition) -> Iterator[TranscriptEntry]:
    """The entries of a message: what was said and called, the results, and what the next steps said and called.

    The first one has the id of the message, each other one that of its part.
    """
    id, role, written = fields.text(info, "id"), fields.text(info, "role"), fields.time(_created(info))
    blocks: list[dict[str, Any]] = []
    results: list[TranscriptEntry] = []
    has_spoken = False

    def take_step() -> Iterator[TranscriptEntry]:
        nonlocal id, has_spoken
        if blocks:
            has_spoken = True
            yield TranscriptEntry(line, "message", id, None, written, None, _message(info, role, blocks[:]))
        yield from results
        blocks.clear()
        results.clear()

    for part in parts:
        kind, part_id = fields.kind(part), fields.text(part, "id")
        block = _block(part, kind)
        if block is None:
            yield TranscriptEntry(line, kind, part_id, None, written, None, None, part)
            continue
        if kind != "tool" and results:
            yield from take_step()
            id = part_id
        blocks.append(block)
        if kind == "tool" and (result := _result(part)) is not None:
            at = fields.time(fields.object(fields.object(part, "state"), "time").get("end")) or written
            results.append(TranscriptEntry(line, "tool", part_id, None, at, None, result))
    yield from take_step()
    if not has_spoken:
        yield TranscriptEntry(line, "message", id, None, written, None, None, info)


def _block(part: dict[str, Any], kind: str) -> dict[str, Any] | None:
    """What a part adds to its message; None for what is no part of the conversation (steps, snapshots, patches)."""
    text = fields.text(part, "text")
    if kind == "text":
        return {"type": "text", "text": text} if text else None
    if kind == "reasoning":
        return {"type": "thinking", "thinking": text} if text else None
    if kind == "tool":
        called = fields.object(fields.object(part, "state"), "input")
        return {"type": "toolCall", "id": part.get("callID"), "name": part.get("tool"), "arguments": called}
    if kind == "subtask":
        return {"type": "text", "text": fields.text(part, "prompt", "description") or ""}
    return {key: part[key] for key in ("type", "mime", "filename", "url") if key in part} if kind == "file" else None


def _message(info: dict[str, Any], role: str | None, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    if role == "user":
        is_text = len(blocks) == 1 and blocks[0]["type"] == "text"
        return {"role": "user", "content": blocks[0]["text"] if is_text else blocks}
    message = {"role": role, "content": blocks, "api": KIND}
    about = {"provider": fields.text(info, "providerID"), "model": fields.text(info, "modelID")}
    kept = {key: info[key] for key in _KEPT if info.get(key) is not None}
    return message | {key: value for key, value in about.items() if value} | ({KIND: kept} if kept else {})


def _result(part: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a call as a message; None while it is running."""
    state = fields.object(part, "state")
    is_error = state.get("status") == "error"
    words = fields.text(state, "error" if is_error else "output")
    if state.get("status") not in ("completed", "error"):
        return None
    files = [block for file in fields.objects(state, "attachments") if (block := _block(file, "file"))]
    result = {"role": "toolResult", "toolCallId": part.get("callID"), "toolName": part.get("tool")}
    details = {key: state[key] for key in ("title", "metadata") if state.get(key)}
    content = [{"type": "text", "text": words or ""}, *files]
    return result | {"content": content, "isError": is_error} | ({"details": details} if details else {})


READER = Reader(KIND, recognises, sessions=read_transcripts)
