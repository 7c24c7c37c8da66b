"""Changes that can be made from the screens: surgery, rewriting, focus briefs and imports.

Each is planned and previewed first, then applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from lossless.errors import BadInput
from lossless.ingest.sessions import transcript_session
from lossless.ingest.transcripts import open_transcript
from lossless.maintenance.surgery.rewriting import INTERRUPTED, RewritePlan, SummaryDraft
from lossless.model.context import EXTRACTIVE_MODEL
from lossless.tui.text import format_bytes, plural

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.engine import Engine
    from lossless.ingest.transcripts.following import TranscriptReport
    from lossless.maintenance.surgery.common import OperationReport
    from lossless.maintenance.surgery.focus import FocusDraft, FocusPlan
    from lossless.maintenance.surgery.group import OperationPlan
    from lossless.tui.archive import ArchiveAccess

#: So many reasons why a draft was of no use are told.
_REASONS = 3

#: Summaries that are to be rewritten: a title, a preview, and the plan.
PlannedRewrite: TypeAlias = "tuple[str, str, RewritePlan]"


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A change that is planned: its preview, and how it is carried out."""

    title: str
    text: str
    question: str
    #: Does it, and says what was done.
    apply: Callable[[Engine], str]


def plan_operation(title: str, plan: OperationPlan, question: str) -> PlannedChange:
    """A surgery as its plan says it."""
    return PlannedChange(title, plan.text, question, lambda engine: describe_operation(engine.surgery.apply(plan)))


def plan_undo(engine: Engine, conversation_id: int) -> PlannedChange:
    """The last fold, surgery or focus is taken back."""
    plan = engine.surgery.plan_undo(conversation_id)
    return plan_operation(f"Undo {plan.entry.action}", plan, f"Undo this {plan.entry.action}?")


def plan_rewrite(access: ArchiveAccess, summary_id: str, conversation_id: int, *, subtree: bool) -> PlannedRewrite:
    """One summary, or all below it as well, from its sources."""
    one, all_below = (None, summary_id) if subtree else (summary_id, None)
    by = next(iter(_model_names(access)), EXTRACTIVE_MODEL)
    plan = access.engine.surgery.plan_rewrite(conversation_id, summary_id=one, subtree=all_below, by=by)
    title = f"Rewrite {summary_id}{' and all below it' if subtree else ''}"
    return title, _rewrite_preview(access, plan), plan


def plan_repair(access: ArchiveAccess, conversation_id: int) -> PlannedRewrite:
    """The broken summaries of a conversation."""
    plan, blocked = access.engine.surgery.plan_repair(conversation_id)
    return f"Repair conversation {conversation_id}", _rewrite_preview(access, plan, blocked), plan


def _rewrite_preview(access: ArchiveAccess, plan: RewritePlan, blocked: Iterable[str] = ()) -> str:
    return "\n".join([f"written by: {writer_names(access)}", plan.text, *(f"! {reason}" for reason in blocked)])


def write_drafts(
    access: ArchiveAccess,
    plan: RewritePlan,
    accept: Callable[[SummaryDraft], bool],
    decided: Callable[[SummaryDraft], None],
) -> tuple[str, bool]:
    """Write drafts, one after the other, and put those that were accepted in place together.

    Says what was done, and whether anything was changed. However it ends, what was accepted and goes together is kept,
    and the same work again goes on with the rest.
    """
    with access.working() as engine:
        made = engine.surgery.write_drafts(plan, accept, decided)
        done = engine.surgery.place_drafts(made)
    access.refresh()
    nothing = "Nothing was changed." if made.stop == INTERRUPTED else "Nothing was written."
    lines = [nothing if done is None else describe_operation(done)]
    lines += [f"{draft.summary_id}: {draft.refusal}" for draft in made.refused[:_REASONS]]
    more = len(made.refused) - _REASONS
    lines += [f"and {more} more"] if more > 0 else []
    is_begun = made.stop is not None and done is not None
    lines += [f"Stopped: {made.stop}; {made.left} to go. Press the same key to continue."] if is_begun else []
    return "\n".join(lines), done is not None


def describe_operation(done: OperationReport) -> str:
    """What a surgery did, in a sentence or two; an undo is taken back only by the backup that came before it."""
    what = plural(len(done.summary_ids), "summary")
    sizes = f"{done.tokens_before:,} → {done.tokens_after:,} tokens"
    copy = "" if done.backup is None else f"\nBackup: {done.backup.name}"
    back = "u undoes the step before it, lcm restore takes it back" if done.action == "undo" else "u takes it back"
    return f"Done: {done.action}, {what}, context {sizes}; {back}.{copy}"


def writer_names(access: ArchiveAccess) -> str:
    """Who would write, by name; without a model texts are extracted."""
    if access.engine.loop.summariser.complete is not None:
        return "the host's model"
    return ", then ".join(_model_names(access)) or "no model is configured, so the text is extracted"


def _model_names(access: ArchiveAccess) -> list[str]:
    from lossless.compaction.summariser import Summariser

    hosts = access.engine.loop.summariser.complete
    return [candidate.name for candidate in Summariser(access.work_settings, hosts).candidates()]


def write_brief(access: ArchiveAccess, plan: FocusPlan) -> FocusDraft:
    """Write the brief; nothing is in use yet. One that cannot be written is recorded, and its reason is BadInput."""
    with access.working() as engine:
        made = engine.surgery.write_focus(plan)
        if made.error:
            engine.surgery.apply_focus(plan, made)
    access.refresh()
    if made.error:
        raise BadInput(f"the brief could not be written: {made.error}")
    return made


def plan_brief_use(plan: FocusPlan, made: FocusDraft) -> PlannedChange:
    """A brief as it was written, and its use."""
    warnings = "".join(f"\n! {warning}" for warning in made.warnings)
    head = f"{made.tokens:,} tokens by {made.model}, for {plural(len(plan.covered), 'summary')}"

    def apply(engine: Engine) -> str:
        done = engine.surgery.apply_focus(plan, made)
        return f"Done: {done.action}. The brief is now used in prompts; u takes it back."

    return PlannedChange(f"Focus: {plan.prompt}", f"{head}{warnings}\n\n{made.content}", "Use it in prompts?", apply)


def plan_unfocus(engine: Engine, conversation_id: int) -> PlannedChange:
    """The summaries that the active brief stands for are shown again."""
    active, covered = engine.surgery.plan_unfocus(conversation_id)
    back = [f"+ {summary}" for summary in covered]
    text = "\n".join([f"- {active.id}, {active.tokens:,} tokens: {active.prompt}", *back])

    def apply(engine: Engine) -> str:
        done = engine.surgery.unfocus(engine.browse.get(conversation_id))
        return f"Done: {done.action}. The brief is no longer used; u takes it back."

    return PlannedChange("Remove the focus", text, "Show the summaries again?", apply)


def plan_import(access: ArchiveAccess, path: Path) -> PlannedChange:
    """What storing a file would do; raises BadInput when nothing was said in it, or all of it is stored."""
    place = path.absolute()
    transcript = open_transcript(place)
    session = transcript_session(transcript.kind, place, transcript.header.id, transcript.header.cwd)
    found, looked = access.browse.find(session), access.engine.transcripts.survey(session, transcript)
    new, bad, lanes = looked.messages - looked.known, transcript.bad_lines, transcript.lanes()
    if not new:
        reason = "all of it is stored" if looked.messages else "nothing was said in it"
        raise BadInput(f"{path.name}: {reason}")
    lines = [
        f"file       {place}",
        f"kind       {transcript.kind}, {format_bytes(transcript.state.size)}",
        f"session    {session.key or '–'}  (run {session.id})",
        f"goes to    {'a new conversation' if found is None else f'conversation {found.id}'}",
        f"+ {plural(new, 'message')}{f', {looked.known:,} are stored' if looked.known else ''}",
    ]
    lines += [f"! {plural(bad, 'line')} cannot be read and will be left out"] if bad else []
    if lanes:
        lines.append(f"! {plural(len(lanes), 'side line')} stay out; `lcm import {transcript.kind}` stores them, too")
    lines += ["", "Recent messages are not folded; older ones are summarised at once, without a model."]
    return PlannedChange(
        f"Import {path.name}",
        "\n".join(lines),
        f"Store {plural(new, 'message')}?",
        lambda engine: describe_import(engine.bootstrap(session, place)),
    )


def describe_import(report: TranscriptReport) -> str:
    """What an import did, in a sentence or two."""
    if report.status in ("stored", "up to date"):
        return f"Done: {plural(report.stored, 'message')} stored in conversation {report.conversation_id}."
    reason = f": {report.reason}" if report.reason else ""
    hint = "\n`lcm transcripts` decides about it." if report.status == "held" else ""
    kept = f"It is kept outside the context, in conversation {report.quarantine_id}"
    done = "Nothing was stored" if report.quarantine_id is None else kept
    return f"{done}; the file is {report.status}{reason}.{hint}"
