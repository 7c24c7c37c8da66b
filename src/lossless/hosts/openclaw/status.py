"""How the archive and one conversation are: for a person's eyes, and for programs that get no text of messages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lossless import __version__
from lossless.compaction.summariser import compaction_scope
from lossless.errors import BadInput
from lossless.hosts.openclaw.bridge import session_param, text_param, transcript_file

if TYPE_CHECKING:
    from lossless.hosts.openclaw.bridge import Bridge
    from lossless.hosts.openclaw.rpc import PluginCall
    from lossless.model.conversations import Session
    from lossless.model.records import ConversationRow

#: What helps when the model could not be asked.
MODEL_HELP = "see that OpenClaw's model answers, or name another one in summaryModel; nothing is lost meanwhile"
#: How long ago a call of the model may be to be told of.
_RECENT = timedelta(days=1)


def status_text(bridge: Bridge, session: Session) -> str:
    """The archive in a few lines, then the conversation."""
    browse = bridge.engine.browse
    with browse.reading():
        size, _ = browse.size()
        totals, live = browse.totals(), browse.health()
        row = _row(bridge, session)
    counts = totals.counts
    lines = [
        f"lossless {__version__} on OpenClaw {bridge.version or '(version unknown)'}",
        f"Archive: {browse.path}, {size:,} bytes",
        f"Kept: {_many(counts.conversations, 'conversation')}, {_many(counts.messages, 'message')}, "
        f"{_many(counts.summaries, 'summary', 'summaries')}",
        f"Last stored: {_at(live.last_stored_at)}; last compacted: {_at(live.last_compacted_at)}",
        f"Seen {live.seen}, stored {live.stored}, replayed {live.replayed}, skipped {live.skipped}, "
        f"ambiguous {live.ambiguous}, revised {live.revised}, likely {live.likely}",
    ]
    lines += [f"Blocked: conversation {id_}: {reason}" for id_, _, reason in live.blocked]
    lines += [f"Quarantined: conversation {id_}; see `lcm quarantine`" for id_ in live.quarantined]
    pending = f"{totals.pending} pending, {totals.running} running" if totals.pending + totals.running else "none"
    return "\n".join([*lines, f"Debt: {pending}", *_conversation_lines(bridge, row)])


def _row(bridge: Bridge, session: Session) -> ConversationRow | None:
    found = bridge.engine.browse.find(session)
    return None if found is None else bridge.engine.browse.conversation(found.id)


def _at(moment: datetime | None) -> str:
    return "never" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _many(count: int, noun: str, nouns: str = "") -> str:
    return f"1 {noun}" if count == 1 else f"{count:,} {nouns or noun + 's'}"


def _conversation_lines(bridge: Bridge, row: ConversationRow | None) -> list[str]:
    if row is None:
        return ["This conversation: nothing is stored of it yet."]
    ratio = f", 1:{round(row.message_tokens / row.context_tokens)}" if row.context_tokens else ""
    debt = bridge.engine.loop.debt(row.conversation_id)
    focus = bridge.engine.surgery.focus_status(row.conversation_id)
    lines = [
        f"This conversation: {row.conversation_id} ({row.session_key or row.session_id})",
        f"  {_many(row.message_count, 'message')}, {row.message_tokens:,} tokens; "
        f"{_many(row.summary_count, 'summary', 'summaries')}",
        f"  context: {_many(row.context_items, 'item')}, {row.context_tokens:,} tokens{ratio}",
    ]
    if (budget := bridge.engine.browse.history_budget(row.conversation_id)) is not None:
        lines.append(f"  history budget: {budget}")
    if debt.pending:
        lines.append(f"  a compaction is pending: {debt.reason or 'over the threshold'}")
    if debt.pending and debt.last_failure_summary:
        again = f"; the next attempt is after {debt.next_attempt_after:%H:%M} UTC" if debt.next_attempt_after else ""
        lines += [f"  the last one failed: {debt.last_failure_summary}{again}", f"  {MODEL_HELP}"]
    else:
        scope, since = compaction_scope(str(debt.conversation_id)), datetime.now(UTC) - _RECENT
        calls = [row for row in bridge.engine.browse.calls(scope, since) if row.kind == "call"]
        if calls and calls[-1].result in ("failed", "auth"):  # and it has not answered again since
            at = f"{calls[-1].at:%H:%M} UTC"
            lines += [
                f"  the model could not be asked at {at}; since then nothing was written by a model",
                f"  {MODEL_HELP}",
            ]
    if focus is not None and focus.brief.status == "active":
        lines.append(f"  focus: {focus.brief.prompt}{' (out of date)' if focus.is_stale else ''}")
    return lines


def control(bridge: Bridge, call: PluginCall) -> dict[str, Any]:
    """The session action `lcm-control`: figures and yes or no, never a path or a word that was said."""
    action = text_param(call.params, "action") or "status"
    session, engine = session_param(call.params), bridge.engine
    row = _row(bridge, session)
    if action == "status":
        return {"active": row is not None, "messageCount": 0 if row is None else row.message_count}
    if action == "doctor":
        examined = engine.admin.examine()
        return {"ok": examined.healthy, "warnings": [f"{one.severity}: {one.kind}" for one in examined.findings]}
    if action == "rotate":
        report = engine.rotate(session, transcript_file(call.params))
        at = datetime.now(UTC).isoformat() if report.rotated else None
        return {"messageCount": 0 if row is None else row.message_count, "lastRotatedAt": at}
    raise BadInput("the action must be status, doctor or rotate")
