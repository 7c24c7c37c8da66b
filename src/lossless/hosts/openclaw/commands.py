"""`/lossless` and `/lcm`: what a person types into the host's chat, answered with a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput, LosslessError
from lossless.hosts.openclaw.calls import MARGIN_SECONDS
from lossless.hosts.openclaw.folding import reason_of
from lossless.hosts.openclaw.reading import lane_of, number, session_of, transcript_file
from lossless.hosts.openclaw.status import status_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.hosts.openclaw.bridge import Bridge
    from lossless.hosts.openclaw.calls import Call
    from lossless.model.conversations import Session
    from lossless.revising.focus import FocusStatus


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing that can be typed, what it takes, and what it does."""

    takes: str
    help: str
    run: Callable[[Bridge, Call, Session, str], str]


def answer(bridge: Bridge, call: Call) -> dict[str, Any]:
    """The text for what a person typed; a refusal is one, too."""
    typed = call.params.get("args")
    verb, _, rest = (typed if isinstance(typed, str) else "").strip().partition(" ")
    found = VERBS.get(verb.lower() or "status")
    if found is None:
        return {"text": f"There is no `{verb[:40]}`.\n\n{help_text()}"}
    if not lane_of(call.params):
        return {"text": "This needs a session; type it where the conversation is."}
    try:
        return {"text": found.run(bridge, call, session_of(call.params), rest.strip())}
    except LosslessError as error:
        return {"text": f"Not done: {error}"}


def help_text() -> str:
    """What can be typed."""
    rows = [f"/lossless {name}{f' {verb.takes}' if verb.takes else ''}: {verb.help}" for name, verb in VERBS.items()]
    return "\n".join(["`/lcm` is the same as `/lossless`.", *rows])


def _status(bridge: Bridge, call: Call, session: Session, rest: str) -> str:  # noqa: ARG001
    return status_text(bridge, session)


def _help(bridge: Bridge, call: Call, session: Session, rest: str) -> str:  # noqa: ARG001
    return help_text()


def _backup(bridge: Bridge, call: Call, session: Session, rest: str) -> str:  # noqa: ARG001
    copy = bridge.engine.backup()
    return f"Backed up to {copy.path} ({copy.bytes:,} bytes)."


def _rotate(bridge: Bridge, call: Call, session: Session, rest: str) -> str:  # noqa: ARG001
    file = transcript_file(call.params)
    if file is None:
        return "This host keeps transcripts in its own database: there is no file to shorten."
    report = bridge.engine.rotate(session, file)
    if not report.rotated:
        return f"Not rotated: {report.reason or 'there is nothing to remove'}."
    kept, gone = report.kept_messages, report.dropped_messages
    return f"Rotated: {kept} messages stay in the transcript, {gone} are in the archive alone. Backup: {report.backup}."


def _compact(bridge: Bridge, call: Call, session: Session, rest: str) -> str:
    budget, seconds = number(call.params, "tokenBudget"), call.left(MARGIN_SECONDS)
    report = bridge.engine.compact(
        session, budget=budget, force=True, instructions=rest, seconds=seconds, progress=lambda *_: call.check()
    )
    count = len(report.summary_ids)
    written = "1 summary written" if count == 1 else f"{count} summaries written"
    made = written if report.compacted else "nothing folded"
    return f"{made}: {report.tokens_before:,} → {report.tokens_after:,} tokens ({reason_of(report)})."


def _focus(bridge: Bridge, call: Call, session: Session, rest: str) -> str:
    from lossless.revising import focus

    conversation = bridge.engine.archive.conversations.find(session)
    if not rest:
        found = None if conversation is None else focus.status(bridge.engine.archive, conversation.id)
        return _told(found)
    bridge.engine.compact(session, force=True, progress=lambda *_: call.check())
    return _told(bridge.engine.surgery.focus(session, rest))


def _refocus(bridge: Bridge, call: Call, session: Session, rest: str) -> str:  # noqa: ARG001
    bridge.engine.compact(session, force=True, progress=lambda *_: call.check())
    return _told(bridge.engine.surgery.focus(session))


def _unfocus(bridge: Bridge, call: Call, session: Session, rest: str) -> str:  # noqa: ARG001
    done = bridge.engine.surgery.unfocus(session)
    return f"The brief is put away: {done.tokens_before:,} → {done.tokens_after:,} tokens."


def _told(found: FocusStatus | None) -> str:
    if found is None:
        return "There is no brief. `/lossless focus <question>` writes one."
    brief, stale = found.brief, "; `/lossless refocus` brings it up to date" if found.is_stale else ""
    if brief.status == "failed":
        return f"The brief could not be written: {brief.error or 'no reason is known'}."
    return f"Brief {brief.id} ({brief.status}, {brief.tokens:,} tokens) on: {brief.prompt}{stale}"


def _undo(bridge: Bridge, call: Call, session: Session, rest: str) -> str:  # noqa: ARG001
    done = bridge.engine.undo(session)
    return f"Taken back: {done.tokens_before:,} → {done.tokens_after:,} tokens."


def _pin(bridge: Bridge, call: Call, session: Session, rest: str) -> str:  # noqa: ARG001
    what: str | int = int(rest[4:]) if rest.startswith("msg#") and rest[4:].isdigit() else rest
    return f"Pinned as {bridge.engine.pin(session, what)}."


def _unpin(bridge: Bridge, call: Call, session: Session, rest: str) -> str:  # noqa: ARG001
    if not rest.isdigit():
        raise BadInput("name the number of a pin")
    bridge.engine.unpin(session, int(rest))
    return "Taken away."


def _doctor(bridge: Bridge, call: Call, session: Session, rest: str) -> str:  # noqa: ARG001
    from lossless.hosts.openclaw import doctoring

    return doctoring.answer(bridge, session, rest.split())


VERBS: dict[str, Verb] = {
    "status": Verb("", "how much is kept, and how this conversation is", _status),
    "help": Verb("", "this list", _help),
    "backup": Verb("", "copy the archive", _backup),
    "rotate": Verb("", "shorten the transcript to its newest messages", _rotate),
    "compact": Verb("[what matters]", "fold older history now", _compact),
    "focus": Verb("[question]", "show the brief, or write one for a question", _focus),
    "refocus": Verb("", "bring the brief up to date", _refocus),
    "unfocus": Verb("", "put the brief away", _unfocus),
    "undo": Verb("", "take back the last fold, surgery or focus", _undo),
    "pin": Verb("<text or msg#…>", "keep words in every prompt", _pin),
    "unpin": Verb("<number>", "take a pin away", _unpin),
    "doctor": Verb("[apply | clean | rollover-splits | maintenance]", "find what is wrong, and repair it", _doctor),
}
