"""What the host tells: transcripts, turns, and the ends of sessions. All of it goes to the archive, exactly once."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lossless.compaction.observed import observation
from lossless.errors import BadInput, LosslessError, NotFound
from lossless.hosts.openclaw.peer import HostError
from lossless.hosts.openclaw.reading import (
    is_ignored,
    messages_of,
    model_of,
    number,
    observed_of,
    session_of,
    target_of,
    transcript_file,
    words,
)
from lossless.hosts.openclaw.transcript import carry_over, read_transcript
from lossless.model.messages import Incoming

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.hosts.openclaw.bridge import Bridge
    from lossless.hosts.openclaw.calls import Call
    from lossless.ingest.run import AppendReport
    from lossless.model.conversations import Session


def bootstrap(bridge: Bridge, call: Call) -> dict[str, Any]:
    """A turn begins: bring the archive up to date with the host's transcript."""
    session = session_of(call.params)
    bridge.budgets.begin(session)
    report = read_transcript(bridge.engine, bridge.peer, session, call.params)
    result: dict[str, Any] = {"bootstrapped": report.status in ("stored", "up to date")}
    result["importedMessages"] = report.stored
    reason = report.reason or (None if result["bootstrapped"] else report.status)
    return result | ({"reason": reason} if reason else {})


def ingest(bridge: Bridge, call: Call) -> dict[str, Any]:
    """One message that is new."""
    message = call.params.get("message")
    if not isinstance(message, dict):
        raise BadInput("message must be an object")
    report = _append(bridge, call, [message])
    return {"ingested": report.stored + report.replayed > 0}


def ingest_batch(bridge: Bridge, call: Call) -> dict[str, Any]:
    """Messages that are new."""
    report = _append(bridge, call, messages_of(call.params))
    return {"ingestedCount": report.stored + report.replayed}


def _append(bridge: Bridge, call: Call, messages: Sequence[dict[str, Any]]) -> AppendReport:
    session, key = session_of(call.params), words(call.params, "key")
    if not _is_heartbeat(call):
        return bridge.engine.append(session, messages, key=key)
    return bridge.engine.after_turn(session, new_messages=messages, key=key, heartbeat=True).append


def _is_heartbeat(call: Call) -> bool:
    """Whether the host itself has asked, to see whether there is anything to do."""
    return call.params.get("isHeartbeat") is True


def after_turn(bridge: Bridge, call: Call) -> dict[str, Any]:
    """Part of a turn is over (OpenClaw up to 2026.7.1); the plugin sends what is new in it."""
    params, session = call.params, session_of(call.params)
    file, model = transcript_file(params), bridge.models.of(session, model_of(params))
    budget = bridge.budgets.of(session, number(params, "tokenBudget"))
    report = bridge.engine.after_turn(
        session,
        new_messages=messages_of(params),
        transcript=file if file is not None and file.is_file() else None,
        budget=budget.window,
        beside=budget.beside,
        observed_tokens=observed_of(params),
        model=model.name,
        context_window=model.window,
        key=words(params, "key"),
        heartbeat=_is_heartbeat(call),
    )
    bridge.sent.pop(session.name, None)  # which of its prompts a usage counts is not said there
    return {"stored": report.append.stored + (report.transcript.stored if report.transcript else 0)}


def commit_turn(bridge: Bridge, call: Call) -> dict[str, Any]:
    """A turn is accepted (OpenClaw from 2026.7.2): it is durable when this returns, and stored once for each key.

    The host's transcript has it already, with an id for each message: it is read to its end. A turn that is not found
    there, or a heartbeat, is taken as it was handed over, in one transaction with its key.
    """
    params, engine = call.params, bridge.engine
    key, session = words(params, "advancementKey"), session_of(call.params)
    if key is None:
        raise BadInput("advancementKey must be a text")
    messages = messages_of(params)
    found = engine.archive.conversations.find(session)
    if found is not None and engine.archive.ingest.has_key(found.id, key):
        return {"status": "duplicate"}
    if target_of(params) and not _is_heartbeat(call):
        with suppress(LosslessError, OSError, HostError):  # the turn itself is at hand
            read_transcript(engine, bridge.peer, session, params)
    ends = [words(params.get(name) or {}, "entryId") for name in ("admission", "terminal")]
    rest = [] if _has_entries(bridge, session, ends) else _with_ends(messages, *ends)
    model, budget = (
        bridge.models.of(session, model_of(params)),
        bridge.budgets.of(session, number(params, "tokenBudget")),
    )
    engine.after_turn(
        session,
        new_messages=rest,
        budget=budget.window,
        beside=budget.beside,
        observed_tokens=observed_of(params),
        model=model.name,
        context_window=model.window,
        key=key,
        heartbeat=_is_heartbeat(call),
        **_counted(bridge, session, messages),
    )
    return {"status": "committed"}


def _counted(bridge: Bridge, session: Session, messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What was counted for the first answer of a turn: the provider's usage, and our estimate of the prompt then."""
    sent = bridge.sent.pop(session.name, None)
    usages = (one["usage"] for one in messages if isinstance(one.get("usage"), dict))
    usage = next((usage for usage in usages if observation(usage, None).prompt_tokens), None)
    return {"usage": usage, "sent": sent}


def _has_entries(bridge: Bridge, session: Session, entry_ids: Sequence[str | None]) -> bool:
    """Whether all of these entries of the transcript are stored."""
    found = bridge.engine.archive.conversations.find(session)
    wanted = {entry_id for entry_id in entry_ids if entry_id}
    if found is None or len(wanted) != len({*entry_ids}):
        return False
    return wanted <= bridge.engine.archive.messages.known_entries(found.id, sorted(wanted)).keys()


def _with_ends(
    messages: Sequence[dict[str, Any]], first: str | None, last: str | None
) -> list[dict[str, Any] | Incoming]:
    """The messages of a turn with the two ids that the host tells: that of the question and that of the last answer."""
    ids = (
        dict.fromkeys(range(len(messages)), None)
        | ({0: first} if len(messages) > 1 else {})
        | {len(messages) - 1: last}
    )
    return [message if ids[n] is None else Incoming(message, entry_id=ids[n]) for n, message in enumerate(messages)]


def before_reset(bridge: Bridge, call: Call) -> dict[str, Any]:
    """The user says /new or /reset: read the rest of the transcript, then begin afresh."""
    params, engine, session = call.params, bridge.engine, session_of(call.params)
    if is_ignored(engine.settings, session):
        return {"done": False}
    with suppress(
        LosslessError, OSError, HostError
    ):  # a transcript that cannot be read is no reason to go on as before
        read_transcript(engine, bridge.peer, session, params)
    cursor = engine.transcripts.cursor(session)
    try:
        if params.get("reason") == "new":
            engine.new(session)
        else:
            engine.reset(session)
            carry_over(engine, session, cursor)
    except NotFound:
        return {"done": False}
    return {"done": True}


def session_end(bridge: Bridge, call: Call) -> dict[str, Any]:
    """The host has closed a session."""
    session, engine = session_of(call.params), bridge.engine
    cursor = engine.transcripts.cursor(session)
    engine.host.end(session, words(call.params, "reason") or "unknown")
    if call.params.get("reason") == "reset":
        carry_over(engine, session, cursor)
    return {"done": True}


def subagent_starts(bridge: Bridge, call: Call) -> dict[str, Any]:
    """A sub-agent is about to be sent: it may read what its parent may read."""
    parent, child = words(call.params, "parentSessionKey"), words(call.params, "childSessionKey")
    if parent is None or child is None:
        raise BadInput("parentSessionKey and childSessionKey must be texts")
    grant = bridge.engine.host.subagent_starts(session_of({"sessionKey": parent}), child)
    return {"granted": grant is not None}


def subagent_ended(bridge: Bridge, call: Call) -> dict[str, Any]:
    """A sub-agent is done, or was never sent."""
    child = words(call.params, "childSessionKey")
    if child is not None:
        bridge.engine.host.subagent_ended(child, deleted=call.params.get("reason") == "deleted")
    return {}
