"""Going on with a transcript after a turn: the file is not looked at as a whole, only what was added is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.lifecycle import epochs
from lossless.lifecycle.bootstrap import begins_anew, is_begun
from lossless.lifecycle.readings import Reading, put
from lossless.lifecycle.reports import TranscriptReport
from lossless.lifecycle.stream import age_of, of_lane, records_of
from lossless.transcripts.entries import Header
from lossless.transcripts.growth import read_growth
from lossless.transcripts.lines import file_state
from lossless.transcripts.read import known_transcript

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.lifecycle.bootstrap import Asked
    from lossless.model.conversations import Conversation
    from lossless.store.transcripts import Checkpoint
    from lossless.transcripts.entries import FileState

#: More than this is not a turn, and is not read within a transaction.
_MOST_BYTES = 1 << 20


def resume(asked: Asked, path: Path) -> TranscriptReport | None:
    """Store what was added to a transcript that is stored up to a checkpoint; None when it must be read as a whole."""
    archive = asked.archive
    state = file_state(path)
    with archive.writing():
        found = archive.conversations.find(asked.session)
        if found is None or begins_anew(asked.session, found):
            return None
        point = archive.transcripts.checkpoint(found.id)
        if point is None or point.kind is None or point.path != str(path):
            return None
        how = epochs.approach(point, state, point.header_id, asked.lane)
        if how.reading == "nothing":
            return TranscriptReport(found.id, "up to date", how.change, size=state.size)
        if how.reading != "appended" or state.size - point.offset > _MOST_BYTES:
            return None
        return _go_on(asked, found, point, state, how.change)


def _go_on(
    asked: Asked, found: Conversation, point: Checkpoint, state: FileState, change: str
) -> TranscriptReport | None:
    """Store what stands behind the checkpoint, if the bytes before it are those that were read."""
    growth = read_growth(state.path, point.offset, state.size) if is_begun(point) else None
    if point.kind is None or growth is None or growth.tail(point.offset) != point.tail:
        return None
    transcript = known_transcript(point.kind, state, Header(id=point.header_id))
    entries = list(of_lane(transcript.grown(growth, point.offset, (point.lines or 0) + 1), asked.lane))
    report = TranscriptReport(found.id, "up to date", change, size=state.size, conversation=found)
    work = Reading(asked.archive, found, transcript, asked.lane, asked.now, asked.payloads, report, point, point)
    work.age = age_of(point.entry_id)
    front = epochs.follow(work.front, records_of(entries))
    if not entries or front is None:
        return None
    if asked.session.id not in (None, found.session_id) or found.session_key != asked.session.key:
        work.conversation = asked.archive.conversations.open(asked.session, asked.now)
    put(work, entries, front, growth.tail(entries[-1].line.end))
    return work.report
