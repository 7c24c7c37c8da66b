"""Replaces old tool outputs by their short forms: in the archive, reversibly, and in a host's transcript."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lossless.errors import NotFound
from lossless.files.document import StubPlan, stub_payload, tool_reference
from lossless.files.document import plan_stubs as choose_outputs
from lossless.files.vault import Vault, write_payloads
from lossless.store.maintenance.deletion import ArchiveRemover

if TYPE_CHECKING:
    from lossless.maintenance.engine_parts import EngineParts
    from lossless.maintenance.rotate import RecordedMessage
    from lossless.model.conversations import SessionRef
    from lossless.model.messages import Json, JsonObject, StoredToolOutput
    from lossless.store.archive import Archive
    from lossless.store.files import LargeFileRows

#: Messages per transaction: others may write in between.
_BATCH = 50


@dataclass(frozen=True, slots=True)
class StubReport:
    stubbed: int
    bytes: int
    #: Messages that got a mark or were deleted since the plan was made.
    passed_over: int = 0


def plan_stubs(
    parts: EngineParts, minimum_bytes: int, session: SessionRef | int | None = None, limit: int | None = None
) -> StubPlan:
    """Which large tool results would get a file."""
    files, id_ = parts.archive.files, None if session is None else parts.conversation_id(session)
    with parts.archive.reading():
        found = files.large_outputs(minimum_bytes, id_)
        named = (row if row.tool else replace(row, tool=_call(files, row)[0]) for row in found)
        return choose_outputs(named, limit)


def apply_stubs(parts: EngineParts, plan: StubPlan, progress: Callable[[int], None] | None = None) -> StubReport:
    """Move them to files; idempotent."""
    archive, vault, now = parts.archive, parts.files, parts.clock()
    stubbed = size = 0
    for start in range(0, len(plan.outputs), _BATCH):
        batch = plan.outputs[start : start + _BATCH]
        with archive.writing():
            done = [output for output in batch if _stub(archive, vault, output, now)]
        stubbed += len(done)
        size += sum(output.byte_size for output in done)
        if progress:
            progress(len(batch))
    return StubReport(stubbed, size, len(plan.outputs) - stubbed)


def plan_revert(parts: EngineParts, session: SessionRef | int | None = None) -> dict[int, str]:
    """The messages, of a session or of all, whose text is also in a file, with the file's id."""
    return parts.archive.files.stubs(None if session is None else parts.conversation_id(session))


def revert_stubs(archive: Archive, marks: dict[int, str]) -> tuple[int, int]:
    """Remove the marks of messages, and rows of files without other references; returns how many of each."""
    with archive.writing():
        archive.files.clear_stubs(marks)
        unused = set(marks.values()) - archive.files.referenced_ids()
        archive.files.remove(unused)
    return len(marks), len(unused)


def _call(files: LargeFileRows, row: StoredToolOutput) -> tuple[str | None, str | None]:
    call = None if row.call_id is None else files.call(row.conversation_id, row.call_id, row.seq)
    return call or (None, None)


def _stub(archive: Archive, vault: Vault, output: StoredToolOutput, now: datetime) -> bool:
    """Store one message's file; False when it already has one or is gone."""
    stored = archive.messages.many([output.message_id])
    if not stored or stored[0].file_id is not None:
        return False
    payload = stub_payload(output, stored[0].message.content, _call(archive.files, output)[1])
    archive.files.add(write_payloads(archive.files.many, vault, output.conversation_id, [payload], now))
    archive.files.set_stub(output.message_id, payload.file_id)
    return True


MAX_REPLACEMENTS = 12


@dataclass(frozen=True, slots=True)
class EntryReplacement:
    """An entry of a transcript and its replacement."""

    entry_id: str
    message: JsonObject
    bytes_freed: int


@dataclass(frozen=True, slots=True)
class TranscriptGcReport:
    """What was requested from the host, and how many entries it changed."""

    asked: int = 0
    changed: int = 0
    bytes_freed: int = 0
    reason: str | None = None


def plan_replacements(
    archive: Archive, conversation_id: int, messages: Iterable[RecordedMessage], limit: int = MAX_REPLACEMENTS
) -> list[EntryReplacement]:
    """The oldest results that are in a file, under a leaf and in no context, where one entry has their call id."""
    entries = _answers_by_call(messages)
    found: list[EntryReplacement] = []
    with archive.reading():
        answers = ArchiveRemover(archive).collectable(conversation_id)
        calls = Counter(call_id for _, call_id, _, _ in answers)
        for message_id, call_id, content, file_id in answers:
            if len(found) == limit:
                break
            entry_id, message = entries.get(call_id, (None, {}))
            if entry_id is None or calls[call_id] > 1:
                continue
            short = _short_form(archive, message_id, content, file_id)
            freed = 0 if short is None else _text_size(message.get("content")) - _text_size(short)
            if freed > 0:  # else it would be no shorter
                changed: dict[str, Any] = {**message, "content": [{"type": "text", "text": short}]}
                found.append(EntryReplacement(entry_id, changed, freed))
    return found


def _answers_by_call(messages: Iterable[RecordedMessage]) -> dict[str, RecordedMessage]:
    """Entries with results, by call id; ids that two entries share are skipped."""
    found: defaultdict[str, list[RecordedMessage]] = defaultdict(list)
    for entry_id, message in messages:
        call_id = message.get("toolCallId") or message.get("tool_call_id")
        if message.get("role") in ("toolResult", "tool") and isinstance(call_id, str):
            found[call_id].append((entry_id, message))
    return {call_id: entries[0] for call_id, entries in found.items() if len(entries) == 1}


def _short_form(archive: Archive, message_id: int, content: str, file_id: str) -> str | None:
    if f": {file_id}" in content[:200]:
        return content
    try:
        stored = archive.files.get(file_id)
    except NotFound:
        return None
    tool = next((part.name for part in archive.messages.get(message_id).message.tool_results), None)
    size = stored.byte_size or len(content.encode("utf-8", "replace"))
    return tool_reference(stored.id, tool, size, stored.exploration_summary or "")


def _text_size(content: Json) -> int:
    if isinstance(content, str):
        return len(content.encode("utf-8", "replace"))
    if not isinstance(content, list):
        return 0
    texts = [block.get("text") or block.get("data") for block in content if isinstance(block, dict)]
    return sum(len(text.encode("utf-8", "replace")) for text in texts if isinstance(text, str))
