"""Focus from the screens: what a brief would stand for, the brief itself to read first, then its use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.errors import BadInput
from lossless.revising import focus
from lossless.store.briefs import Briefs
from lossless.surgery.outcome import shown
from lossless.tui.words import number, plural
from lossless.tui.work import Surgery, now, writer

if TYPE_CHECKING:
    from lossless.revising.focus import FocusDraft, FocusPlan
    from lossless.store.archive import Archive
    from lossless.surgery.outcome import Operated
    from lossless.tui.room import Room


def planned(room: Room, conversation_id: int, question: str | None) -> FocusPlan:
    """What a brief for a question would cover; without one, the active brief is brought up to date."""
    settings = room.settings
    seconds = settings.delegation_timeout_ms / 1000
    return focus.plan(room.archive, conversation_id, question, settings.max_expand_tokens, seconds)


def preview(room: Room, plan: FocusPlan) -> str:
    """A plan for a person's eyes, and who would be asked."""
    return f"written by: {writer(room)}\n{plan.text}"


def drafted(room: Room, plan: FocusPlan) -> FocusDraft:
    """Write the brief; nothing is in use yet. One that cannot be written is recorded, and its reason is BadInput."""
    with room.working() as engine:
        summariser = engine.loop.summariser
        gate = summariser.gate(engine.archive, plan.conversation_id, engine.surgery.writer.clock)
        chain = summariser.chain(gate) if summariser.has_model else None
        made = focus.write(engine.archive, plan, summariser, now(engine), chain)
        if made.error:
            focus.apply(engine.archive, plan, made, now(engine))
    room.refresh()
    if made.error:
        raise BadInput(f"the brief could not be written: {made.error}")
    return made


def using(plan: FocusPlan, made: FocusDraft) -> Surgery:
    """A brief as it was written, and its use."""
    warnings = "".join(f"\n! {warning}" for warning in made.warnings)
    head = f"{number(made.tokens)} tokens by {made.model}, for {plural(len(plan.covered), 'summary', 'summaries')}"
    return Surgery(
        f"Focus: {plan.prompt}",
        f"{head}{warnings}\n\n{made.content}",
        "Let it stand in prompts?",
        lambda engine: _told(focus.apply(engine.archive, plan, made, now(engine)), "The brief stands in prompts"),
    )


def putting_away(archive: Archive, conversation_id: int) -> Surgery:
    """The summaries that the active brief stands for are shown again."""
    with archive.reading():
        active = archive.beside.active_brief(conversation_id)
        if active is None:
            raise BadInput(f"conversation {conversation_id} has no active focus")
        covered = shown(archive, Briefs(archive.database).sources(active.id).get("active_input", ()))
    back = [f"+ {summary}" for summary in covered]
    return Surgery(
        "Put the focus away",
        "\n".join([f"- {active.id}, {number(active.tokens)} tokens: {active.prompt}", *back]),
        "Show the summaries again?",
        lambda engine: _told(focus.unfocus(engine.archive, conversation_id, now(engine)), "The brief is put away"),
    )


def _told(done: Operated, what: str) -> str:
    return f"Done: {done.action}. {what}; u takes it back."
