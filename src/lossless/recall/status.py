"""`lcm_status`: what an agent may know about the archive itself, and where earlier conversations are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lossless.errors import GrantError
from lossless.model.times import state_time
from lossless.recall.calls import ToolResult

if TYPE_CHECKING:
    from datetime import datetime

    from lossless.recall.arguments import Arguments
    from lossless.recall.scope import Caller
    from lossless.recall.tools import Toolbox
    from lossless.store.care import Liveness, Totals
    from lossless.store.listings import ConversationRow

#: A title or a session key is shown up to so many characters.
_NAME_CHARS = 80


def call_status(box: Toolbox, args: Arguments, caller: Caller) -> ToolResult:
    """How much is kept, whether anything is held up, and the newest conversations with their numbers.

    Raises GrantError for a sub-agent: it sees what its grant names, and this names everything.
    """
    if caller.is_delegated:
        raise GrantError("the status of the archive is not for sub-agents")
    archive, now = box.archive, box.clock()
    with archive.reading():
        totals, live = archive.care.totals(), archive.care.liveness()
        held = len(archive.transcripts.held())
        newest = archive.listings.conversations(args["limit"]).rows
        own = None if caller.session is None else archive.conversations.find(caller.session)
    details: dict[str, Any] = {
        "conversations": totals.counts.conversations,
        "messages": totals.counts.messages,
        "messageTokens": totals.message_tokens,
        "summaries": totals.counts.summaries,
        "files": totals.counts.files,
        "lastStoredAt": _time(live.last_stored_at),
        "lastCompactedAt": _time(live.last_compacted_at),
        "seen": live.seen,
        "stored": live.stored,
        "ambiguous": live.ambiguous,
        "revised": live.revised,
        "likely": live.likely,
        "blocked": len(live.blocked),
        "quarantined": len(live.quarantined),
        "heldTranscripts": held,
        "sweepsPutOff": totals.pending,
        "conversationId": None if own is None else own.id,
        "newest": [_row_details(row) for row in newest],
    }
    lines = [*_lines(totals, live, held, now)]
    if own is not None:
        lines.append(f"This session is conversation {own.id}.")
    lines += ["", "Newest conversations (pass conversationId to look at one):"] if newest else []
    lines += [_row(row) for row in newest]
    return ToolResult("\n".join(lines), details)


def _lines(totals: Totals, live: Liveness, held: int, now: datetime) -> list[str]:
    counts = totals.counts
    return [
        f"Kept: {counts.conversations:,} conversations, {counts.messages:,} messages "
        f"({totals.message_tokens:,} tokens), {counts.summaries:,} summaries, {counts.files:,} files.",
        f"Last stored: {_ago(live.last_stored_at, now)}. Last compacted: {_ago(live.last_compacted_at, now)}.",
        f"Seen {live.seen:,}, stored {live.stored:,}, ambiguous {live.ambiguous:,}, revised {live.revised:,}, "
        f"likely {live.likely:,}. Blocked conversations: "
        f"{len(live.blocked)}. Transcripts held back: {held}. Quarantined conversations: {len(live.quarantined)}. "
        f"Sweeps put off: {totals.pending}.",
    ]


def _row(row: ConversationRow) -> str:
    name = (row.title or row.session_key or row.session_id)[:_NAME_CHARS]
    name = " ".join(name.split())
    span = _time(row.latest_message_at) or "undated"
    return (
        f"{row.conversation_id}: {name}; {row.message_count:,} messages, {row.summary_count:,} summaries, last {span}"
    )


def _row_details(row: ConversationRow) -> dict[str, Any]:
    return {
        "conversationId": row.conversation_id,
        "sessionKey": row.session_key,
        "title": row.title,
        "messages": row.message_count,
        "summaries": row.summary_count,
        "latestAt": _time(row.latest_message_at),
    }


def _ago(at: datetime | None, now: datetime) -> str:
    if at is None:
        return "never"
    seconds = max(0, int((now - at).total_seconds()))
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count:,} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def _time(at: datetime | None) -> str | None:
    return None if at is None else state_time(at)
