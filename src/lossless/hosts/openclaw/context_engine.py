"""The methods of OpenClaw's context engine that change the archive: bootstrap, ingest, after_turn, compact,
maintain, and the ends of sessions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lossless.compaction.compactor import parse_usage
from lossless.compaction.plan import CompactionReason
from lossless.errors import BadInput, LosslessError, NotFound
from lossless.hosts.openclaw.bridge import (
    Bridge,
    is_ignored,
)
from lossless.hosts.openclaw.rpc import MARGIN_SECONDS, HostError, Peer, PluginCall
from lossless.ingest.transcripts.following import TranscriptReport
from lossless.model.conversations import Session
from lossless.model.messages import Incoming

if TYPE_CHECKING:
    from lossless.compaction.run import CompactionReport
    from lossless.engine import Engine
    from lossless.ingest.run import AppendReport
    from lossless.maintenance.surgery.tool_outputs import EntryReplacement

#: How many tokens the host counts in its whole prompt, frame and tools included.
_COUNTED = "currentTokenCount"
_PAGE_SECONDS = 60.0
#: Pages of one reading; a host that never comes to an end is left alone until the next turn.
_MOST_PAGES = 10_000


def read_transcript(bridge: Bridge, call: PluginCall) -> TranscriptReport:
    """Store what the transcript has that the archive does not; again changes nothing."""
    if call.transcript is not None:
        return bridge.engine.bootstrap(call.session, call.transcript)
    if target := call.transcript_target:
        return _read_pages(bridge.engine, bridge.peer, call.session, target)
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
    pages = list(_pages(peer, target, None))
    entries, mark = [entry for page in pages for entry in page["entries"]], pages[-1]["cursor"]
    if pages[-1]["kind"] != "page":
        return replace(total, reason=f"the host's transcript is {pages[-1]['kind']}")
    done = engine.bootstrap(session, entries, cursor=mark) if entries or mark else total
    return replace(done, stored=total.stored + done.stored)


def _pages(peer: Peer, target: dict[str, str], cursor: str | None) -> Iterator[dict[str, Any]]:
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


def carry_cursor(engine: Engine, session: Session, cursor: str | None) -> None:
    """After a reset the host goes on in the same transcript: what was read before it is not read again."""
    if cursor is not None and engine.transcripts.cursor(session) is None:
        engine.bootstrap(session, [], cursor=cursor)


def bootstrap(bridge: Bridge, call: PluginCall) -> dict[str, Any]:
    """A turn begins: bring the archive up to date with the host's transcript."""
    session = call.session
    bridge.begin_turn(session)
    report = read_transcript(bridge, call)
    is_done = report.status in ("stored", "up to date")
    reason = report.reason or ("" if is_done else report.status)
    return {"bootstrapped": is_done, "importedMessages": report.stored} | ({"reason": reason} if reason else {})


def ingest(bridge: Bridge, call: PluginCall) -> dict[str, Any]:
    message = call.params.get("message")
    if not isinstance(message, dict):
        raise BadInput("message must be an object")
    report = _append(bridge, call, [message])
    return {"ingested": report.stored + report.replayed > 0}


def ingest_batch(bridge: Bridge, call: PluginCall) -> dict[str, Any]:
    report = _append(bridge, call, call.messages)
    return {"ingestedCount": report.stored + report.replayed}


def _append(bridge: Bridge, call: PluginCall, messages: Sequence[dict[str, Any]]) -> AppendReport:
    session, key = call.session, call.text("key")
    if not call.flag("isHeartbeat"):
        return bridge.engine.append(session, messages, key=key)
    return bridge.engine.after_turn(session, new_messages=messages, key=key, heartbeat=True).append


def after_turn(bridge: Bridge, call: PluginCall) -> dict[str, Any]:
    """Part of a turn is over (OpenClaw up to 2026.7.1); the plugin sends what is new in it."""
    report = bridge.engine.after_turn(
        call.session,
        new_messages=call.messages,
        transcript=call.transcript,
        observed_tokens=call.number(_COUNTED),
        **bridge.limits(call),
        key=call.text("key"),
        heartbeat=call.flag("isHeartbeat"),
    )
    bridge.take_sent(call.session)  # which of its prompts a usage counts is not said there
    return {"stored": report.append.stored + (report.transcript.stored if report.transcript else 0)}


def commit_turn(bridge: Bridge, call: PluginCall) -> dict[str, Any]:
    """A turn is accepted (OpenClaw from 2026.7.2): it is durable when this returns, and stored once for each key.

    The host's transcript has it already, with an id for each message: it is read to its end. A turn that is not found
    there, or a heartbeat, is taken as it was handed over, in one transaction with its key.
    """
    engine, session, key = bridge.engine, call.session, call.text("advancementKey")
    if key is None:
        raise BadInput("advancementKey must be a text")
    messages = call.messages
    if engine.host.has_key(session, key):
        return {"status": "duplicate"}
    if call.transcript_target and not call.flag("isHeartbeat"):
        with suppress(LosslessError, OSError, HostError):  # the turn itself is at hand
            read_transcript(bridge, call)
    ends = [replace(call, params=call.params.get(name) or {}).text("entryId") for name in ("admission", "terminal")]
    ids = [entry_id for entry_id in ends if entry_id]
    is_stored = len(ids) == len(ends) and {*ids} <= engine.host.known_entries(session, sorted({*ids}))
    numbered = {0: ends[0], len(messages) - 1: ends[1]}  # of a single message, the last
    rest = [] if is_stored else [Incoming(one, entry_id=numbered.get(n)) for n, one in enumerate(messages)]
    # What was counted for the first answer of the turn: the provider's usage, and our estimate of the prompt then.
    usages = (one["usage"] for one in messages if isinstance(one.get("usage"), dict))
    engine.after_turn(
        session,
        new_messages=rest,
        observed_tokens=call.number(_COUNTED),
        **bridge.limits(call),
        key=key,
        heartbeat=call.flag("isHeartbeat"),
        usage=next((usage for usage in usages if parse_usage(usage, None).prompt_tokens), None),
        sent=bridge.take_sent(session),
    )
    return {"status": "committed"}


def before_reset(bridge: Bridge, call: PluginCall) -> dict[str, Any]:
    """The user says /new or /reset: read the rest of the transcript, then start a new conversation."""
    engine, session = bridge.engine, call.session
    if is_ignored(engine.settings, session):
        return {"done": False}
    # A transcript that cannot be read is no reason to go on as before.
    with suppress(LosslessError, OSError, HostError):
        read_transcript(bridge, call)
    cursor = engine.transcripts.cursor(session)
    try:
        if call.text("reason") == "new":
            engine.new(session)
        else:
            engine.reset(session)
            carry_cursor(engine, session, cursor)
    except NotFound:
        return {"done": False}
    return {"done": True}


def session_end(bridge: Bridge, call: PluginCall) -> dict[str, Any]:
    session, engine = call.session, bridge.engine
    cursor = engine.transcripts.cursor(session)
    engine.host.end(session, call.text("reason") or "unknown")
    if call.text("reason") == "reset":
        carry_cursor(engine, session, cursor)
    return {"done": True}


def subagent_starts(bridge: Bridge, call: PluginCall) -> dict[str, Any]:
    """A sub-agent is about to be sent: it may read what its parent may read."""
    parent, child = call.text("parentSessionKey"), call.text("childSessionKey")
    if parent is None or child is None:
        raise BadInput("parentSessionKey and childSessionKey must be texts")
    grant = bridge.engine.host.subagent_starts(Session(key=parent), child)
    return {"granted": grant is not None}


def subagent_ended(bridge: Bridge, call: PluginCall) -> dict[str, Any]:
    """A sub-agent is done, or was never sent."""
    child = call.text("childSessionKey")
    if child is not None:
        bridge.engine.host.subagent_ended(child, deleted=call.text("reason") == "deleted")
    return {}


#: What helps when the model could not be asked.
MODEL_HELP = "see that OpenClaw's model answers, or name another one in summaryModel; nothing is lost meanwhile"
_REWRITE_SECONDS = 60.0
_IN_USE = "the host may be writing to it"
#: Why the host asks when its transcript is longer than the window; that is no overflow, and no prompt was counted.
_OF_TRANSCRIPT = "cli_budget"


def compact(bridge: Bridge, call: PluginCall) -> dict[str, Any]:
    """Fold now. A session that is none of ours is left to the host (`delegate`)."""
    engine, session = bridge.engine, call.session
    if is_ignored(engine.settings, session):
        return {"delegate": True}
    budget = call.number("tokenBudget")
    if budget is None:
        return {"ok": False, "compacted": False, "reason": "missing token budget in compact params"}
    if engine.browse.find(session) is None:
        read_transcript(bridge, call)
    is_forced, is_of_prompt = call.flag("force"), call.text("trigger") != _OF_TRANSCRIPT
    has_target = is_forced and call.text("compactionTarget") == "budget" and not call.flag("manual")
    limits = bridge.limits(call)
    report = engine.compact(
        session,
        **limits,
        force=(is_forced and is_of_prompt) or call.flag("manual"),
        until=budget if has_target else None,
        observed_tokens=call.number(_COUNTED) if is_of_prompt else None,
        instructions=call.text("customInstructions"),
        seconds=call.left(MARGIN_SECONDS),
        progress=lambda *_: call.check(),
    )
    is_left_over = not report.ok and report.exhausted if is_of_prompt else not report.compacted
    if has_target and is_left_over:  # a turn that is too long is shown in part, so the next prompt may fit all the same
        made = engine.assemble(session, format="openclaw", allow_trailing_assistant=True, record=False, **limits)
        if made.receipt.fits:
            reason = report.reason if report.compacted else CompactionReason.ALREADY_UNDER
            why = f"the newest turn is shown in part; {report.why}" if report.why else ""
            report = replace(report, ok=True, reason=reason, why=why)
    result = {
        "tokensBefore": report.tokens_before,
        "tokensAfter": report.tokens_after,
        "details": {
            "historyBudget": None if report.history is None else report.history.tokens,
            "summaryIds": list(report.summary_ids),
            "modelCalls": report.calls,
            "modelFailure": report.failure,
            "stop": report.stop,
        },
    }
    return {"ok": report.ok, "compacted": report.compacted, "reason": reason_text(report), "result": result}


def reason_text(report: CompactionReport) -> str:
    """How it ended; when the model could not be asked also that, what it means, and what helps."""
    if report.failure is None:
        return f"{report.reason}: {report.why}" if report.why else report.reason
    so = "what was left was folded without it" if report.compacted else "nothing was folded"
    return f"{report.reason}; OpenClaw's model could not be asked ({report.failure}), so {so}: {MODEL_HELP}"


def maintain(bridge: Bridge, call: PluginCall) -> dict[str, Any]:
    """Between turns: run postponed work if the host allows it, and look after its transcript."""
    engine, session = bridge.engine, call.session
    nothing: dict[str, Any] = {"changed": False, "bytesFreed": 0, "rewrittenEntries": 0}
    conversation = None if is_ignored(engine.settings, session) else engine.browse.find(session)
    if conversation is None:
        return nothing
    allowed = call.flag("allowDeferredCompactionExecution")
    budget, seconds = call.number("tokenBudget"), call.left(MARGIN_SECONDS)
    report = engine.maintain(conversation, budget=budget, allow=True, seconds=seconds) if allowed else None
    details = {"reason": reason_text(report)} if report is not None else {}
    if (file := call.transcript) is None:
        return nothing | details
    # The transcript is a file; one in the host's database stays: a turn that begins while it is rebuilt would fail.
    approved = allowed and call.flag("canRewrite")

    def rewrite(replacements: Sequence[EntryReplacement]) -> int:
        wanted = [{"entryId": one.entry_id, "message": one.message} for one in replacements]
        done = bridge.peer.ask("transcript.rewrite", {"replacements": wanted}, _REWRITE_SECONDS)
        return int((done or {}).get("rewrittenEntries") or 0)

    collected = bridge.engine.rotation.collect(conversation, file, rewrite, approved=approved)
    engine.rotation.between_turns(conversation, file, unsafe=_IN_USE)
    changes = {"changed": collected.changed > 0, "bytesFreed": collected.bytes_freed}
    details = {"reason": collected.reason} if collected.reason else details
    return nothing | changes | {"rewrittenEntries": collected.changed} | details


def gateway_start(bridge: Bridge, call: PluginCall) -> dict[str, Any]:  # noqa: ARG001  every call has this shape
    """The host has started and does not write yet: shorten transcripts that grew too large, if the settings say so."""
    if bridge.state_dir is None:
        return {"rotated": 0}
    try:
        report = bridge.engine.rotation.at_start(bridge.state_dir)
    except (LosslessError, OSError) as error:
        return {"rotated": 0, "reason": str(error)}
    return {"rotated": report.rotated, "scanned": report.scanned}
