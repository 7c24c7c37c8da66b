"""Going on with a transcript after a turn: the file is not looked at as a whole, only what was added is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.lifecycle import epochs
from lossless.lifecycle.bootstrap import Moved, Pass, begins_anew, is_untouched, store
from lossless.lifecycle.reports import TranscriptReport
from lossless.lifecycle.stream import of_lane, records_of
from lossless.transcripts.entries import Header
from lossless.transcripts.lines import file_state
from lossless.transcripts.read import known_transcript

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.lifecycle.bootstrap import Asked

#: More than this is not a turn, and is not read within a transaction.
_MOST_BYTES = 1 << 22


def resume(asked: Asked, path: Path) -> TranscriptReport | None:
    """Store what was added to a transcript that is stored up to a checkpoint; None when it must be read as a whole."""
    archive = asked.archive
    found = archive.conversations.find(asked.session)
    if found is None or begins_anew(asked.session, found):
        return None
    point = archive.transcripts.checkpoint(found.id)
    if point is None or point.kind is None or point.path != str(path):
        return None
    state = file_state(path)
    how = epochs.approach(point, state, point.header_id, asked.lane)
    if how.reading == "nothing":
        return TranscriptReport(found.id, "up to date", how.change, size=state.size)
    if how.reading != "appended" or not is_untouched(point):
        return None
    if state.size - point.offset > _MOST_BYTES:
        return None
    transcript = known_transcript(point.kind, state, Header(id=point.header_id))
    report = TranscriptReport(found.id, "up to date", how.change, size=state.size, conversation=found)
    work = Pass(archive, found, transcript, asked.lane, asked.now, asked.payloads, report, point, point)
    entries = list(of_lane(transcript.appended(point.offset, (point.lines or 0) + 1), asked.lane))
    if not entries or epochs.follow(work.front, records_of(entries)) is None:
        return None
    try:
        with archive.writing():
            if asked.session.id not in (None, found.session_id) or found.session_key != asked.session.key:
                work.conversation = archive.conversations.open(asked.session, asked.now)
            store(work, entries, is_last=True)
    except Moved:
        return None
    return work.report
