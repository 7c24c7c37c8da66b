"""Old answers of tools in a host's transcript give way to the short form that the archive keeps, if the host agrees."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lossless.errors import NotFound
from lossless.files.references import tool_reference
from lossless.store.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lossless.lifecycle.tail import Said
    from lossless.model.messages import Json, JsonObject
    from lossless.store.archive import Archive
    from lossless.store.retention import Answer

#: So many entries are replaced at once.
MOST = 12


@dataclass(frozen=True, slots=True)
class Replacement:
    """An entry of a transcript and the message that takes its place."""

    entry_id: str
    message: JsonObject
    bytes_freed: int


@dataclass(frozen=True, slots=True)
class CollectReport:
    """What was asked of the host, and how many entries it changed."""

    asked: int = 0
    changed: int = 0
    bytes_freed: int = 0
    reason: str | None = None


def plan(archive: Archive, conversation_id: int, messages: Iterable[Said], most: int = MOST) -> list[Replacement]:
    """The oldest answers that lie in a file, below a leaf and in no context, where one entry has their call id."""
    entries = _answers_by_call(messages)
    found: list[Replacement] = []
    with archive.reading():
        answers = Retention(archive.database).collectable(conversation_id)
        calls = Counter(answer.call_id for answer in answers)
        for answer in answers:
            said = entries.get(answer.call_id)
            if len(found) == most:
                break
            if said is None or said.entry_id is None or calls[answer.call_id] > 1:
                continue
            replacement = _replacement(said.entry_id, said.message, _short_form(archive, answer))
            if replacement is not None:
                found.append(replacement)
    return found


def collect(
    archive: Archive,
    conversation_id: int,
    messages: Iterable[Said],
    rewrite_entries: Callable[[Sequence[Replacement]], int],
    *,
    enabled: bool,
    approved: bool,
) -> CollectReport:
    """Hand replacements to the host; nothing happens unless the setting and the host both allow it."""
    if not enabled or not approved:
        return CollectReport(reason="transcriptGcEnabled is off" if not enabled else "the host did not agree")
    work = plan(archive, conversation_id, messages)
    if not work:
        return CollectReport(reason="nothing to replace")
    changed = rewrite_entries(work)
    freed = sum(item.bytes_freed for item in work) if changed == len(work) else 0
    return CollectReport(len(work), changed, freed)


def _answers_by_call(messages: Iterable[Said]) -> dict[str, Said]:
    """Entries that answer a call, by its id; an id that two entries have is nobody's."""
    found: dict[str, Said] = {}
    twice: set[str] = set()
    for said in messages:
        if said.message.get("role") not in ("toolResult", "tool"):
            continue
        call_id = said.message.get("toolCallId") or said.message.get("tool_call_id")
        if isinstance(call_id, str):
            twice |= {call_id} & found.keys()
            found[call_id] = said
    return {call_id: said for call_id, said in found.items() if call_id not in twice}


def _short_form(archive: Archive, answer: Answer) -> str | None:
    """The text that stands for an answer: what the archive shows for it, or the reference to its file."""
    if f": {answer.file_id}" in answer.content[:200]:
        return answer.content
    try:
        stored = archive.files.get(answer.file_id)
    except NotFound:
        return None
    tool = next((part.name for part in archive.messages.get(answer.message_id).message.tool_results), None)
    size = stored.byte_size or len(answer.content.encode("utf-8", "replace"))
    return tool_reference(stored.id, tool, size, stored.exploration_summary or "")


def _replacement(entry_id: str, message: JsonObject, short: str | None) -> Replacement | None:
    """The entry with its text replaced, when that makes it shorter."""
    if short is None:
        return None
    freed = _text_size(message.get("content")) - len(short.encode("utf-8", "replace"))
    if freed <= 0:
        return None
    changed: dict[str, Any] = {**message, "content": [{"type": "text", "text": short}]}
    return Replacement(entry_id, changed, freed)


def _text_size(content: Json) -> int:
    if isinstance(content, str):
        return len(content.encode("utf-8", "replace"))
    if not isinstance(content, list):
        return 0
    texts = [block.get("text") or block.get("data") for block in content if isinstance(block, dict)]
    return sum(len(text.encode("utf-8", "replace")) for text in texts if isinstance(text, str))
