"""Recognising our own words when a host shows them back: by ids that exist and texts that agree, never by looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.formats import synthetic
from lossless.formats.summary_xml import render_summary, says, summary_id_of

if TYPE_CHECKING:
    from datetime import tzinfo

    from lossless.model.messages import Message
    from lossless.store.archive import Archive

_MARKS = ("<", "[", synthetic.PINNED_TEXT[:6])


def what_of_ours(archive: Archive, conversation_id: int, message: Message, timezone: tzinfo | None) -> str | None:
    """What this message of a window is, when we made it: a summary, a cue, a stub, pins; else None.

    A pasted text that only looks like ours names an id that is not there, or says something else.
    """
    text = message.content
    if (short := synthetic.shortened_in(text)) is not None and _is_part_of(archive, conversation_id, short):
        return "a message that we shortened"
    if not text.startswith(_MARKS) or message.role not in ("user", "tool"):
        return None
    if message.role == "tool":
        return _stub_of_ours(archive, conversation_id, message)
    if text == synthetic.OPENING_TEXT:
        return "an opening of ours"
    if (summary_id := summary_id_of(text)) is not None:
        is_ours = _is_summary(archive, conversation_id, summary_id, text, timezone)
        return "a summary of ours" if is_ours else None
    if (quotes := synthetic.cue_quotes(text)) is not None:
        return "a recall cue of ours" if _said(archive, quotes) else None
    if (pins := synthetic.pinned_texts(text)) is not None:
        known = {pin.id: pin.content for pin in archive.beside.pins(conversation_id)}
        return "pins of ours" if all(known.get(id_) == pinned for id_, pinned in pins) else None
    if (brief_id := synthetic.brief_id(text)) is not None:
        brief = archive.beside.active_brief(conversation_id)
        is_ours = brief is not None and brief.id == brief_id and brief.content in synthetic.unescape(text)
        return "a focus brief of ours" if is_ours else None
    id_ = synthetic.stub_message_id(text)
    return "a stub of ours" if id_ is not None and archive.messages.many([id_], exact=False) else None


def _is_summary(archive: Archive, conversation_id: int, id_: str, text: str, timezone: tzinfo | None) -> bool:
    """Whether a text is a summary as it was shown: as it is, or was before it was rewritten, perhaps with a correction.

    A correction names messages of this conversation and has words that they have or had.
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

    body, line = synthetic.without_correction(text)
    if line and not synthetic.is_correction(line, changes):
        return False
    if any(render_summary(summary, timezone) == body for summary in archive.summaries.many([id_])):
        return True
    return any(says(body, former) for former in archive.summaries.former_texts(id_))


def _stub_of_ours(archive: Archive, conversation_id: int, message: Message) -> str | None:
    """A stubbed result names the message that holds the real one; a made-up one has the fixed text."""
    if message.content == synthetic.MISSING_RESULT:
        return "a missing result of ours"
    id_ = synthetic.stub_message_id(message.content)
    stored = archive.messages.many([id_], exact=False) if id_ is not None else []
    if not stored or stored[0].conversation_id != conversation_id:
        return None
    calls = [part.call_id for part in message.tool_results]
    return "a stub of ours" if calls == [part.call_id for part in stored[0].message.tool_results] else None


def _is_part_of(archive: Archive, conversation_id: int, short: synthetic.Shortened) -> bool:
    """Whether a text that is shown in part is the beginning and the end of a stored one."""
    for stored in archive.messages.many([short.message_id], exact=False):
        texts = [stored.message.content, *(part.text for part in stored.message.tool_results)]
        here = stored.conversation_id == conversation_id
        return here and any(
            len(text) == short.chars and text.startswith(short.head) and text.endswith(short.tail) for text in texts
        )
    return False


def _said(archive: Archive, quotes: list[tuple[int, str]]) -> bool:
    """Whether each quoted sentence stands in the message that is named for it, white space aside."""
    texts = {
        stored.id: stored.message.content for stored in archive.messages.many([id_ for id_, _ in quotes], exact=False)
    }
    return all(sentence in " ".join(texts.get(id_, "").split()) for id_, sentence in quotes)
