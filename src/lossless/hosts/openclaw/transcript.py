"""Reading the host's transcript into the archive: a file, or pages that the plugin reads with the host's own reader."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lossless.hosts.openclaw.reading import target_of, transcript_file
from lossless.lifecycle.reports import TranscriptReport

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lossless.engine import Engine
    from lossless.hosts.openclaw.peer import Peer
    from lossless.model.conversations import Session

_PAGE_SECONDS = 60.0
#: Pages of one reading; a host that never comes to an end is left alone until the next turn.
_MOST_PAGES = 10_000


def read_transcript(engine: Engine, peer: Peer, session: Session, params: Mapping[str, Any]) -> TranscriptReport:
    """Store what the transcript has that the archive does not; again changes nothing."""
    file, target = transcript_file(params), target_of(params)
    if file is not None and file.is_file():
        return engine.bootstrap(session, file)
    if target:
        return _read_pages(engine, peer, session, target)
    return TranscriptReport(None, "up to date", reason="the host has no transcript yet")


def _read_pages(engine: Engine, peer: Peer, session: Session, target: dict[str, str]) -> TranscriptReport:
    """Go on after the stored mark, page by page; without one that the host knows, read the transcript as a whole."""
    total = TranscriptReport(None, "up to date")
    cursor = engine.transcripts.cursor(session)
    if cursor is not None:
        for page in _pages(peer, target, cursor):
            if page["kind"] == "reset":
                break
            if page["kind"] != "page":
                return replace(total, reason=f"the host's transcript is {page['kind']}")
            done = engine.bootstrap(session, page["entries"], after=cursor, cursor=page["cursor"])
            total = replace(done, stored=total.stored + done.stored, replayed=total.replayed + done.replayed)
            cursor = page["cursor"]
        else:
            return total
    entries: list[dict[str, Any]] = []
    mark: str | None = None
    for page in _pages(peer, target, None):
        if page["kind"] != "page":
            return replace(total, reason=f"the host's transcript is {page['kind']}")
        entries += page["entries"]
        mark = page["cursor"]
    done = engine.bootstrap(session, entries, cursor=mark) if entries or mark else total
    return replace(done, stored=total.stored + done.stored)


def _pages(peer: Peer, target: dict[str, str], cursor: str | None) -> Iterator[dict[str, Any]]:
    """The host's pages after a mark, each with the keys that are read here."""
    for _ in range(_MOST_PAGES):
        found = peer.ask("transcript.read", {**target, "cursor": cursor}, _PAGE_SECONDS)
        found = found if isinstance(found, dict) else {}
        page: dict[str, Any] = {
            "kind": found.get("kind") or "unavailable",
            "entries": [entry for entry in found.get("entries") or [] if isinstance(entry, dict)],
            "cursor": found.get("cursor") or cursor,
        }
        yield page
        if page["kind"] != "page" or not found.get("hasMore") or page["cursor"] == cursor:
            return
        cursor = page["cursor"]


def carry_over(engine: Engine, session: Session, cursor: str | None) -> None:
    """After a reset the host goes on in the same transcript: what was read before it is not read again."""
    if cursor is not None and engine.transcripts.cursor(session) is None:
        engine.bootstrap(session, [], cursor=cursor)
