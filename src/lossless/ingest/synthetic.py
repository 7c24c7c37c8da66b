"""Recognises text that lossless or lossless-claw put into messages: summaries, cues, stubs and pins that a host sends
back, and file references in place of payloads.

Only existing ids with matching texts count.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lossless.formats import synthetic
from lossless.formats.synthetic import has_content, render_summary, rendered_summary_id
from lossless.model.messages import File, Opaque

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from lossless.ingest.events import Event
    from lossless.model.messages import Message
    from lossless.model.records import TailRow
    from lossless.store.archive import Archive

_MARKS = ("<", "[", synthetic.PINNED_TEXT[:6])


def identify_synthetic(archive: Archive, conversation_id: int, message: Message, timezone: tzinfo | None) -> str | None:
    """What this message of a window is, if we made it: a summary, a cue, evidence, a stub, pins; else None.

    A pasted text that only looks like ours has an unknown id, or different content.
    """
    text = message.content
    if (short := synthetic.parse_shortened(text)) is not None and _is_part_of(archive, conversation_id, short):
        return "a message that we shortened"
    if not text.startswith(_MARKS) or message.role not in ("user", "tool"):
        return None
    if message.role == "tool":
        return _stub_of_ours(archive, conversation_id, message)
    if text == synthetic.OPENING_TEXT:
        return "an opening of ours"
    if (summary_id := rendered_summary_id(text)) is not None:
        is_ours = _is_summary(archive, conversation_id, summary_id, text, timezone)
        return "a summary of ours" if is_ours else None
    if (quotes := synthetic.cue_quotes(text)) is not None:
        what = "evidence of ours" if text.startswith(synthetic.EVIDENCE_OPEN) else "a recall cue of ours"
        return what if _are_quoted(archive, quotes) else None
    if (pins := synthetic.pinned_texts(text)) is not None:
        known = {pin.id: pin.content for pin in archive.prompts.pins(conversation_id)}
        return "pins of ours" if all(known.get(id_) == pinned for id_, pinned in pins) else None
    if (brief_id := synthetic.focus_brief_id(text)) is not None:
        brief = archive.prompts.active_brief(conversation_id)
        is_ours = brief is not None and brief.id == brief_id and brief.content in synthetic.unescape_quoted(text)
        return "a focus brief of ours" if is_ours else None
    ids, summary_ids = synthetic.stub_names(text) or ([], [])
    named = archive.messages.many(ids[:1], exact=False) if ids else archive.summaries.many(summary_ids)
    return "a stub of ours" if named else None


def _is_summary(archive: Archive, conversation_id: int, id_: str, text: str, timezone: tzinfo | None) -> bool:
    """Whether a text is a summary as it was shown: current or earlier, whole or in part, perhaps with a correction.

    A correction must name messages of this conversation and quote their current or earlier text.
    """

    def changes(message_id: int) -> list[str]:
        texts = {version.message.content for version in archive.versions.of(message_id)} if messages(message_id) else ()
        return [
            synthetic.change_text(message_id, kind, words)
            for words in (*messages(message_id), *texts)
            for kind in ("revised", "removed", "added")
        ]

    def messages(message_id: int) -> list[str]:
        stored = archive.messages.many([message_id], exact=False)
        return [one.message.content for one in stored if one.conversation_id == conversation_id]

    body, line = synthetic.split_correction(text)
    if line and not synthetic.is_correction(line, changes):
        return False
    for summary in archive.summaries.many([id_]):
        whole = render_summary(summary, timezone)
        if body == whole or synthetic.is_shortened(body, whole):
            return True
    return any(has_content(body, former) for former in archive.summaries.former_texts(id_))


def _stub_of_ours(archive: Archive, conversation_id: int, message: Message) -> str | None:
    """A stubbed result names the message with the real one; a synthetic one has the fixed text."""
    if message.content == synthetic.MISSING_RESULT:
        return "a missing result of ours"
    ids, _ = synthetic.stub_names(message.content) or ([], [])
    stored = archive.messages.many(ids[:1], exact=False)
    if not stored or stored[0].conversation_id != conversation_id:
        return None
    calls = [part.call_id for part in message.tool_results]
    return "a stub of ours" if calls == [part.call_id for part in stored[0].message.tool_results] else None


def _is_part_of(archive: Archive, conversation_id: int, short: tuple[int, str, str, int]) -> bool:
    """Whether a shortened text is the beginning and the end of a stored one."""
    message_id, head, tail, chars = short
    for stored in archive.messages.many([message_id], exact=False):
        texts = [stored.message.content, *(part.text for part in stored.message.tool_results)]
        here = stored.conversation_id == conversation_id
        return here and any(len(text) == chars and text.startswith(head) and text.endswith(tail) for text in texts)
    return False


def _are_quoted(archive: Archive, quotes: list[tuple[int, str]]) -> bool:
    """Whether each quoted sentence is or was in the message named for it, ignoring white space."""
    texts = {
        stored.id: stored.message.content for stored in archive.messages.many([id_ for id_, _ in quotes], exact=False)
    }

    def is_quoted(id_: int, sentence: str) -> bool:
        words = sentence.strip("…")
        if id_ not in texts or words in " ".join(texts[id_].split()):
            return id_ in texts
        return any(words in " ".join(version.message.content.split()) for version in archive.versions.of(id_))

    return all(is_quoted(id_, sentence) for id_, sentence in quotes)


_REFERENCE = re.compile(
    r"\[LCM (?:File|Tool Output|Raw Payload): file_\w+[^\]\n]*?\|\s*([\d,]+) bytes\]"
    r"|\[[^\[\]\n]*?([\d,]+) bytes\)\s*\| LCM file: file_\w+\]"
)
_FILE_BLOCK = re.compile(r"<file\b[^>]*>(.*?)</file>", re.DOTALL)
#: A shorter text is never moved into a file by itself.
_LARGE = 2_048
#: How many rows with references are checked, newest first.
_MOST_ROWS = 64


def match_referenced_rows(
    archive: Archive, conversation_id: int, events: Sequence[Event], rows: Sequence[TailRow]
) -> dict[int, bytes]:
    """Rows that equal messages of a window except for their references, each with the fingerprint of that message."""
    if not rows:
        return {}
    there = {row.fingerprint for row in rows}
    large = [
        event for event in reversed(events) if event.fingerprint not in there and _may_be_referenced(event.message)
    ]
    if not large:
        return {}
    ids = {row.id for row in rows}
    found: dict[int, bytes] = {}
    for id_ in archive.messages.referring(conversation_id, rows[0].seq, _MOST_ROWS):
        if id_ not in ids:
            continue
        stored = archive.messages.get(id_).message
        same = next((n for n, event in enumerate(large) if is_referenced(stored, event.message)), None)
        if same is not None:
            found[id_] = large.pop(same).fingerprint
    return found


def is_referenced(stored: Message, shown: Message) -> bool:
    """Whether a message equals a row, with payloads where the row has references to files of the same size."""
    references = list(_REFERENCE.finditer(stored.content))
    if not references or stored.role != shown.role or not _are_results_of_one(stored, shown):
        return False
    if not shown.content.strip().startswith(stored.content[: references[0].start()].strip()):
        return False
    sizes = set(_sizes(shown))
    return all(int((one[1] or one[2]).replace(",", "")) in sizes for one in references)


def _may_be_referenced(message: Message) -> bool:
    is_large = len(message.content) >= _LARGE or "<file" in message.content
    return is_large or any(isinstance(part, File | Opaque) for part in message.parts)


def _are_results_of_one(stored: Message, shown: Message) -> bool:
    mine, theirs = ({part.call_id for part in one.tool_results} - {None} for one in (stored, shown))
    return not mine or not theirs or bool(mine & theirs)


def _sizes(message: Message) -> Iterator[int]:
    """The possible sizes of a message's payloads in bytes: its text, its file blocks, and base64 data."""
    for text in (message.content, *_FILE_BLOCK.findall(message.content)):
        for one in (text, text.strip(), text.removeprefix("\n"), text.removesuffix("\n")):
            yield len(one.encode("utf-8", "replace"))
    for part in message.parts:
        if isinstance(part, File | Opaque):
            for text in _texts(part.raw):
                bare = text.partition(";base64,")[2] or text
                yield len(bare) * 3 // 4 - bare[-2:].count("=")
                yield len(text.encode("utf-8", "replace"))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
