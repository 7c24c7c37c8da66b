"""When the host wants its context smaller, or has time to spare."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lossless.compaction.trigger import Reason
from lossless.errors import LosslessError
from lossless.hosts.openclaw.calls import MARGIN_SECONDS
from lossless.hosts.openclaw.reading import (
    is_ignored,
    model_of,
    number,
    observed_of,
    session_of,
    transcript_file,
    words,
)
from lossless.hosts.openclaw.status import MODEL_HELP
from lossless.hosts.openclaw.transcript import read_transcript

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lossless.compaction.run import CompactionReport
    from lossless.hosts.openclaw.bridge import Bridge, Budget
    from lossless.hosts.openclaw.calls import Call
    from lossless.lifecycle.transcript_gc import CollectReport, Replacement
    from lossless.model.conversations import Conversation, Session

_REWRITE_SECONDS = 60.0
#: What became of asking the host's model, by the code of the error.
_FAILED = {
    "model_auth": "the credentials of OpenClaw's model were refused",
    "model_denied": "OpenClaw does not let its model be asked",
    "model_timeout": "OpenClaw's model did not answer in time",
    "model_rate_limit": "OpenClaw's model gets too many requests",
}
_IN_USE = "the host may be writing to it"
#: Why the host asks when its transcript is longer than the window; that is no overflow, and no prompt was counted.
_OF_TRANSCRIPT = "cli_budget"


def compact(bridge: Bridge, call: Call) -> dict[str, Any]:
    """Fold now. A session that is none of ours is left to the host (`delegate`)."""
    params, engine, session = call.params, bridge.engine, session_of(call.params)
    if is_ignored(engine.settings, session):
        return {"delegate": True}
    budget = number(params, "tokenBudget")
    if budget is None:
        return {"ok": False, "compacted": False, "reason": "missing token budget in compact params"}
    if engine.archive.conversations.find(session) is None:
        read_transcript(engine, bridge.peer, session, params)
    is_forced, is_of_prompt = params.get("force") is True, words(params, "trigger") != _OF_TRANSCRIPT
    has_target = is_forced and params.get("compactionTarget") == "budget" and params.get("manual") is not True
    model, known = bridge.models.of(session, model_of(params)), bridge.budgets.of(session, budget)
    report = engine.compact(
        session,
        budget=known.window,
        beside=known.beside,
        force=(is_forced and is_of_prompt) or params.get("manual") is True,
        until=budget if has_target else None,
        observed_tokens=observed_of(params) if is_of_prompt else None,
        model=model.name,
        context_window=model.window,
        instructions=words(params, "customInstructions"),
        seconds=call.left(MARGIN_SECONDS),
        progress=lambda *_: call.check(),
    )
    is_left_over = not report.ok and report.exhausted if is_of_prompt else not report.compacted
    if has_target and is_left_over and _fits(bridge, session, known, model.name):
        reason = report.reason if report.compacted else Reason.ALREADY_UNDER
        why = f"the newest turn is shown in part; {report.why}" if report.why else ""
        report = replace(report, ok=True, reason=reason, why=why)
    return _told(report)


def _fits(bridge: Bridge, session: Session, budget: Budget, model: str | None) -> bool:
    """Whether the next prompt is within the budget all the same: a turn that is too long is shown in part."""
    made = bridge.engine.assemble(
        session,
        budget=budget.window,
        beside=budget.beside,
        format="openclaw",
        model=model,
        allow_trailing_assistant=True,
    )
    return made.receipt.fits


def _told(report: CompactionReport) -> dict[str, Any]:
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
    return {"ok": report.ok, "compacted": report.compacted, "reason": reason_of(report), "result": result}


def reason_of(report: CompactionReport) -> str:
    """How it ended; when the model could not be asked also that, what it means, and what helps."""
    if report.failure is None:
        return f"{report.reason}: {report.why}" if report.why else report.reason
    what = _FAILED.get(report.failure, "OpenClaw's model cannot be reached")
    so = "what was left was folded without it" if report.compacted else "nothing was folded"
    return f"{report.reason}; {what}, so {so}: {MODEL_HELP}"


def maintain(bridge: Bridge, call: Call) -> dict[str, Any]:
    """Between turns: pay what is owed if the host allows it, and look after its transcript."""
    params, engine, session = call.params, bridge.engine, session_of(call.params)
    nothing: dict[str, Any] = {"changed": False, "bytesFreed": 0, "rewrittenEntries": 0}
    conversation = None if is_ignored(engine.settings, session) else engine.archive.conversations.find(session)
    if conversation is None:
        return nothing
    allowed = params.get("allowDeferredCompactionExecution") is True
    budget, seconds = number(params, "tokenBudget"), call.left(MARGIN_SECONDS)
    report = engine.maintain(conversation, budget=budget, allow=True, seconds=seconds) if allowed else None
    told = {"reason": reason_of(report)} if report is not None else {}
    file = transcript_file(params)
    if file is None or not file.is_file():
        return nothing | told
    collected = _collect(bridge, conversation, file, approved=allowed and params.get("canRewrite") is True)
    engine.rotation.between_turns(conversation, file, unsafe=_IN_USE)
    changes = {"changed": collected.changed > 0, "bytesFreed": collected.bytes_freed}
    told = {"reason": collected.reason} if collected.reason else told
    return nothing | changes | {"rewrittenEntries": collected.changed} | told


def _collect(bridge: Bridge, conversation: Conversation, file: Path, *, approved: bool) -> CollectReport:
    """Let the host replace old answers of tools in a transcript that is a file.

    Where it is in the host's own database it stays: a turn that begins while the host rebuilds it would fail.
    """

    def rewrite(replacements: Sequence[Replacement]) -> int:
        wanted = [{"entryId": one.entry_id, "message": one.message} for one in replacements]
        done = bridge.peer.ask("transcript.rewrite", {"replacements": wanted}, _REWRITE_SECONDS)
        return int((done or {}).get("rewrittenEntries") or 0)

    return bridge.engine.rotation.collect(conversation, file, rewrite, approved=approved)


def gateway_start(bridge: Bridge, call: Call) -> dict[str, Any]:  # noqa: ARG001  every call has this shape
    """The host has started and nobody writes yet: shorten transcripts that grew too large, if the settings say so."""
    if bridge.host.state_dir is None:
        return {"rotated": 0}
    try:
        report = bridge.engine.rotation.at_start(bridge.host.state_dir)
    except (LosslessError, OSError) as error:
        return {"rotated": 0, "reason": str(error)}
    return {"rotated": report.rotated, "scanned": report.scanned}
