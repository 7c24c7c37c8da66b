"""The slash commands `/lossless` and `/lcm` (and `/lossless doctor …`): what a person types into the host's chat,
answered with a text; and the session action `lcm-control`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lossless import __version__
from lossless.compaction.summariser import compaction_scope
from lossless.errors import BadInput, LosslessError
from lossless.hosts.openclaw.context_engine import MODEL_HELP, reason_text
from lossless.hosts.openclaw.rpc import MARGIN_SECONDS, PluginCall
from lossless.maintenance import repair

if TYPE_CHECKING:
    from lossless.hosts.openclaw.bridge import Bridge
    from lossless.model.conversations import Session
    from lossless.model.records import ConversationRow


def run_command(bridge: Bridge, call: PluginCall) -> dict[str, Any]:
    """The text for what a person typed; a refusal is one, too."""
    typed = call.params.get("args")
    verb, _, rest = (typed if isinstance(typed, str) else "").strip().partition(" ")
    name = verb.lower() or "status"
    if name not in SLASH_COMMANDS:
        return {"text": f"There is no `{verb[:40]}`.\n\n{help_text()}"}
    if not call.lane:
        return {"text": "This needs a session; type it where the conversation is."}
    try:
        return {"text": _perform(bridge, call, call.session, name, rest.strip())}
    except LosslessError as error:
        return {"text": f"Not done: {error}"}


def help_text() -> str:
    rows = [f"/lossless {name}{takes and f' {takes}'}: {does}" for name, (takes, does) in SLASH_COMMANDS.items()]
    return "\n".join(["`/lcm` is the same as `/lossless`.", *rows])


def _rotate(bridge: Bridge, call: PluginCall, session: Session) -> str:
    file = call.transcript_path
    if file is None:
        return "This host keeps transcripts in its own database: there is no file to shorten."
    report = bridge.engine.rotate(session, file)
    if not report.rotated:
        return f"Not rotated: {report.reason or 'there is nothing to remove'}."
    kept, gone = report.kept_messages, report.dropped_messages
    return f"Rotated: {kept} messages stay in the transcript, {gone} are in the archive alone. Backup: {report.backup}."


def _compact(bridge: Bridge, call: PluginCall, session: Session, rest: str) -> str:
    budget, seconds = call.number("tokenBudget"), call.left(MARGIN_SECONDS)
    report = bridge.engine.compact(
        session, budget=budget, force=True, instructions=rest, seconds=seconds, progress=lambda *_: call.check()
    )
    written = f"{_many(len(report.summary_ids), 'summary', 'summaries')} written"
    made = written if report.compacted else "nothing folded"
    return f"{made}: {report.tokens_before:,} → {report.tokens_after:,} tokens ({reason_text(report)})."


def _focus(bridge: Bridge, call: PluginCall, session: Session, question: str | None) -> str:
    """Write a brief for a question, None for the active one's; without words, show the brief."""
    engine, found = bridge.engine, None
    if question != "":
        engine.compact(session, force=True, progress=lambda *_: call.check())
        found = engine.surgery.focus(session, question)
    elif (conversation := engine.browse.find(session)) is not None:
        found = engine.surgery.focus_status(conversation.id)
    if found is None:
        return "There is no brief. `/lossless focus <question>` writes one."
    brief, stale = found.brief, "; `/lossless refocus` brings it up to date" if found.is_stale else ""
    if brief.status == "failed":
        return f"The brief could not be written: {brief.error or 'no reason is known'}."
    return f"Brief {brief.id} ({brief.status}, {brief.tokens:,} tokens) on: {brief.prompt}{stale}"


def _perform(bridge: Bridge, call: PluginCall, session: Session, verb: str, rest: str) -> str:
    engine = bridge.engine
    match verb:
        case "backup":
            copy = engine.backup()
            return f"Backed up to {copy.path} ({copy.bytes:,} bytes)."
        case "unfocus" | "undo":
            done = engine.undo(session) if verb == "undo" else engine.surgery.unfocus(session)
            what = "Taken back" if verb == "undo" else "The brief is put away"
            return f"{what}: {done.tokens_before:,} → {done.tokens_after:,} tokens."
        case "pin":
            pinned: str | int = int(rest[4:]) if rest.startswith("msg#") and rest[4:].isdigit() else rest
            return f"Pinned as {engine.pin(session, pinned)}."
        case "unpin":
            if not rest.isdigit():
                raise BadInput("name the number of a pin")
            engine.unpin(session, int(rest))
            return "Taken away."
        case "rotate":
            return _rotate(bridge, call, session)
        case "compact":
            return _compact(bridge, call, session, rest)
        case "focus" | "refocus":
            return _focus(bridge, call, session, rest if verb == "focus" else None)
        case "doctor":
            return run_doctor(bridge, session, rest.split())
    return help_text() if verb == "help" else status_text(bridge, session)


#: What can be typed: what it takes, and what it is for.
SLASH_COMMANDS: dict[str, tuple[str, str]] = {
    "status": ("", "how much is kept, and how this conversation is"),
    "help": ("", "this list"),
    "backup": ("", "copy the archive"),
    "rotate": ("", "shorten the transcript to its newest messages"),
    "compact": ("[what matters]", "fold older history now"),
    "focus": ("[question]", "show the brief, or write one for a question"),
    "refocus": ("", "bring the brief up to date"),
    "unfocus": ("", "put the brief away"),
    "undo": ("", "take back the last fold, surgery or focus"),
    "pin": ("<text or msg#…>", "keep words in every prompt"),
    "unpin": ("<number>", "take a pin away"),
    "doctor": ("[apply | clean | rollover-splits | maintenance]", "find what is wrong, and repair it"),
}


#: Words by which a person says that the consequences are clear.
_SURE = frozenset(
    {"confirm", "confirm-offline", "confirm-large", "confirm-inactive", "offline", "--offline", "--confirm-large"}
)


def run_doctor(bridge: Bridge, session: Session, words: list[str]) -> str:
    """The text for what was typed behind `doctor`."""
    is_sure = any(word in _SURE for word in words)
    rest = [word for word in words if word not in _SURE]
    match rest:
        case []:
            found = bridge.engine.admin.examine()
            if not found.findings:
                return "The archive is healthy."
            head = "Nothing is damaged or lost." if found.healthy else "Something is damaged or lost:"
            return f"{head}\n{found.text}"
        case ["apply"]:
            return _repaired(bridge, session, is_sure=is_sure)
        case ["apply", number] if number.isdigit():
            return _repaired(bridge, bridge.engine.browse.get(int(number)).session, is_sure=is_sure)
        case ["clean"]:
            return "\n".join(plan.text for plan in bridge.engine.admin.clean_plans())
        case ["clean", "apply", *which] if len(which) <= 1 or which[1:] == ["vacuum"]:
            (plan,) = bridge.engine.admin.clean_plans(next((w for w in which if w != "vacuum"), repair.ALL_FILTERS))
            done = bridge.engine.admin.clean(plan, vacuum="vacuum" in which)
            backup = f" Backup: {done.backup}." if done.backup else ""
            more = " The room was given back." if done.vacuumed else f" {done.refusal}." if done.refusal else ""
            return f"{done.conversations} conversations with {done.messages} messages deleted.{backup}{more}"
        case ["rollover-splits"]:
            return "\n".join(split.text for split in bridge.engine.surgery.splits()) or "No session is split."
        case ["apply", "rollover-splits"]:
            return _merged(bridge, is_sure=is_sure)
        case ["maintenance"]:
            rows = [
                f"conversation {debt.conversation_id}: {debt.reason}{' (stuck)' if repair.is_stuck(debt) else ''}"
                for debt in bridge.engine.admin.open_debts()
            ]
            return "\n".join(rows) or "Nothing is pending."
        case ["apply", "maintenance", number] if number.isdigit():
            work = bridge.engine.admin.close_debt_plan(int(number))
            if not is_sure:
                return f"{repair.describe_close(work)}. Add `confirm-inactive` to close it."
            return f"Closed. Backup: {bridge.engine.admin.close_debt(work)}."
    raise BadInput(
        "doctor takes nothing, or: apply, clean, clean apply [FILTER] [vacuum], rollover-splits, maintenance"
    )


def _repaired(bridge: Bridge, session: Session, *, is_sure: bool) -> str:
    done, drafts = bridge.engine.surgery.repair(session, confirm=is_sure)
    refused = [draft for draft in drafts if draft.refusal is not None]
    if done is None and not refused:
        return "No summary of this conversation is broken."
    written = _many(0 if done is None else len(done.summary_ids), "summary", "summaries")
    return f"{written} rewritten, {len(refused)} left as they are."


def _merged(bridge: Bridge, *, is_sure: bool) -> str:
    surgery = bridge.engine.surgery
    plans = [surgery.plan_merge(split.session_key) for split in surgery.splits() if not split.review]
    if not plans:
        return "No session is split, or a person has to look first (`/lossless doctor rollover-splits`)."
    if not is_sure:
        return "\n".join([*(plan.text for plan in plans), "Add `confirm` to merge them."])
    for plan in plans:
        surgery.apply(plan)
    return f"{len(plans)} sessions merged."


#: How long ago a call of the model may be to be told of.
_RECENT = timedelta(days=1)


def status_text(bridge: Bridge, session: Session) -> str:
    """The archive in a few lines, then the conversation."""
    browse = bridge.engine.browse
    with browse.reading():
        (size, _), live, row = browse.size(), browse.health(), _row(bridge, session)
    kept, _, _ = bridge.engine.tools.run("lcm_status", {"limit": 1}).text.partition("\n\n")
    lines = [
        f"lossless {__version__} on OpenClaw {bridge.version or '(version unknown)'}",
        f"Archive: {browse.path}, {size:,} bytes",
        kept,
    ]
    lines += [f"Blocked: conversation {id_}: {reason}" for id_, _, reason in live.blocked]
    lines += [f"Quarantined: conversation {id_}; see `lcm quarantine`" for id_ in live.quarantined]
    return "\n".join([*lines, *_conversation_lines(bridge, row)])


def _row(bridge: Bridge, session: Session) -> ConversationRow | None:
    found = bridge.engine.browse.find(session)
    return None if found is None else bridge.engine.browse.conversation(found.id)


def _many(count: int, noun: str, nouns: str = "") -> str:
    return f"1 {noun}" if count == 1 else f"{count:,} {nouns or noun + 's'}"


def _conversation_lines(bridge: Bridge, row: ConversationRow | None) -> list[str]:
    if row is None:
        return ["This conversation: nothing is stored of it yet."]
    ratio = f", 1:{round(row.message_tokens / row.context_tokens)}" if row.context_tokens else ""
    engine, id_ = bridge.engine, row.conversation_id
    debt, focus = engine.loop.debt(id_), engine.surgery.focus_status(id_)
    lines = [
        f"This conversation: {id_} ({row.session_key or row.session_id})",
        f"  {_many(row.message_count, 'message')}, {row.message_tokens:,} tokens; "
        f"{_many(row.summary_count, 'summary', 'summaries')}",
        f"  context: {_many(row.context_items, 'item')}, {row.context_tokens:,} tokens{ratio}",
    ]
    if (budget := engine.browse.history_budget(id_)) is not None:
        lines.append(f"  history budget: {budget}")
    if debt.pending:
        lines.append(f"  a compaction is pending: {debt.reason or 'over the threshold'}")
    if debt.pending and debt.last_failure_summary:
        again = f"; the next attempt is after {debt.next_attempt_after:%H:%M} UTC" if debt.next_attempt_after else ""
        lines += [f"  the last one failed: {debt.last_failure_summary}{again}", f"  {MODEL_HELP}"]
    else:
        calls = engine.browse.calls(compaction_scope(str(id_)), datetime.now(UTC) - _RECENT)
        last = next((call for call in reversed(calls) if call.kind == "call"), None)
        if last is not None and last.result in ("failed", "auth"):  # and it has not answered again since
            told = f"  the model could not be asked at {last.at:%H:%M} UTC; since then nothing was written by a model"
            lines += [told, f"  {MODEL_HELP}"]
    if focus is not None and focus.brief.status == "active":
        lines.append(f"  focus: {focus.brief.prompt}{' (out of date)' if focus.is_stale else ''}")
    return lines


def control(bridge: Bridge, call: PluginCall) -> dict[str, Any]:
    """The session action `lcm-control`: figures and yes or no, never a path or a word that was said."""
    action = call.text("action") or "status"
    session, engine = call.session, bridge.engine
    row = _row(bridge, session)
    if action == "status":
        return {"active": row is not None, "messageCount": 0 if row is None else row.message_count}
    if action == "doctor":
        examined = engine.admin.examine()
        return {"ok": examined.healthy, "warnings": [f"{one.severity}: {one.kind}" for one in examined.findings]}
    if action == "rotate":
        report = engine.rotate(session, call.transcript_path)
        at = datetime.now(UTC).isoformat() if report.rotated else None
        return {"messageCount": 0 if row is None else row.message_count, "lastRotatedAt": at}
    raise BadInput("the action must be status, doctor or rotate")
