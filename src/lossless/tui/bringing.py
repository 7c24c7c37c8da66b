"""Session files into the archive: a plan to look at first, then the import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.errors import BadInput
from lossless.lifecycle.naming import session_of
from lossless.lifecycle.survey import survey
from lossless.transcripts import open_transcript
from lossless.tui.words import number, plural, size
from lossless.tui.work import Surgery

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.lifecycle.reports import TranscriptReport
    from lossless.tui.room import Room


def importing(room: Room, path: Path) -> Surgery:
    """What storing a file would do; raises BadInput when nothing was said in it, or all of it is stored."""
    place = path.absolute()
    transcript = open_transcript(place)
    session = session_of(transcript.kind, place, transcript.header.id, transcript.header.cwd)
    found = room.archive.conversations.find(session)
    looked = survey(room.archive, 0 if found is None else found.id, transcript.path())
    new, bad, lanes = looked.messages - looked.known, transcript.bad_lines, transcript.lanes()
    if not new:
        reason = "all of it is stored" if looked.messages else "nothing was said in it"
        raise BadInput(f"{path.name}: {reason}")
    lines = [
        f"file       {place}",
        f"kind       {transcript.kind}, {size(transcript.state.size)}",
        f"session    {session.key or '–'}  (run {session.id})",
        f"goes to    {'a new conversation' if found is None else f'conversation {found.id}'}",
        f"+ {plural(new, 'message')}{f', {number(looked.known)} are stored' if looked.known else ''}",
    ]
    lines += [f"! {plural(bad, 'line')} cannot be read and will be left out"] if bad else []
    if lanes:
        lines.append(f"! {plural(len(lanes), 'side line')} stay out; `lcm import {transcript.kind}` stores them, too")
    lines += ["", "The newest part stays as it is; the older part of a long one is folded at once, without a model."]
    return Surgery(
        f"Import {path.name}",
        "\n".join(lines),
        f"Store {plural(new, 'message')}?",
        lambda engine: told(engine.bootstrap(session, place)),
    )


def told(report: TranscriptReport) -> str:
    """What an import did, in a sentence or two."""
    if report.status in ("stored", "up to date"):
        return f"Done: {plural(report.stored, 'message')} stored in conversation {report.conversation_id}."
    reason = f": {report.reason}" if report.reason else ""
    hint = "\n`lcm transcripts` decides about it." if report.status == "held" else ""
    return f"Nothing was stored; the file is {report.status}{reason}.{hint}"
