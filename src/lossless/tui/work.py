"""What can be done to an archive from the screens: a plan to look at first, then the deed, which can be undone."""

from __future__ import annotations

from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.model.summaries import EXTRACTIVE_MODEL
from lossless.revising import run as rewrite_run
from lossless.surgery import dissolve as dissolving
from lossless.surgery import transplant as transplanting
from lossless.surgery import undo as undoing
from lossless.tui.words import number, plural

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from lossless.engine import Engine
    from lossless.revising.rewriting import Draft, RewritePlan
    from lossless.revising.run import Drafted
    from lossless.store.archive import Archive
    from lossless.surgery.outcome import Operated
    from lossless.tui.room import Room

#: So many reasons why a draft was of no use are told.
_REASONS = 3

Answer: TypeAlias = Literal["yes", "no", "all", "stop"]


@dataclass(frozen=True, slots=True)
class Surgery:
    """A change that is planned: its preview, and how it is carried out."""

    title: str
    text: str
    question: str
    #: Does it, and says what was done.
    apply: Callable[[Engine], str]


@dataclass(frozen=True, slots=True)
class Rewriting:
    """Summaries that are to be written anew: its preview, what speaks against it, and who writes."""

    title: str
    plan: RewritePlan
    writer: str
    blocked: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The preview."""
        warnings = [f"! {reason}" for reason in self.blocked]
        return "\n".join([f"written by: {self.writer}", self.plan.text, *warnings])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a piece of work, in words."""

    text: str
    is_changed: bool = True


class Decisions:
    """Where the thread that writes drafts waits for a person's word about each."""

    def __init__(self, ask: Callable[[Draft], None], decided: Callable[[], None]) -> None:
        self._ask, self._decided, self._answers = ask, decided, SimpleQueue[Answer]()
        self._accepts_all = self._is_over = False

    def answer(self, word: Answer) -> None:
        """What the person says."""
        self._is_over = self._is_over or word == "stop"
        self._answers.put(word)

    def accept(self, draft: Draft) -> bool:
        """Wait for the word about a draft; `Stopped` when there are to be no more."""
        self._go_on()
        if self._accepts_all:
            return True
        self._ask(draft)
        word = self._answers.get()
        self._go_on()
        self._accepts_all = word == "all"
        return word != "no"

    def heard(self, _draft: Draft) -> None:
        """A draft is done with."""
        self._go_on()
        self._decided()

    def _go_on(self) -> None:
        if self._is_over:
            raise rewrite_run.Stopped


# --- plans ---------------------------------------------------------------------------------------------------


def dissolve(archive: Archive, summary_id: str, *, purge: bool) -> Surgery:
    """What a summary was made of goes back into the context."""
    plan = dissolving.plan(archive, summary_id, purge=purge)
    return Surgery(
        f"Dissolve {summary_id}",
        plan.text,
        "Put them back into the context?",
        lambda engine: told(dissolving.apply(engine.archive, plan, now(engine), _backups(engine))),
    )


def transplant(archive: Archive, source_id: int, target_id: int) -> Surgery:
    """The summaries of a context, with all below them, are copied to the head of another one."""
    plan = transplanting.plan(archive, source_id, target_id)
    return Surgery(
        f"Transplant conversation {source_id} → {target_id}",
        plan.text,
        f"Copy them to conversation {target_id}?",
        lambda engine: told(transplanting.apply(engine.archive, engine.vault, plan, now(engine), _backups(engine))),
    )


def undo(archive: Archive, conversation_id: int) -> Surgery:
    """The last fold, surgery or focus is taken back."""
    plan = undoing.plan(archive, conversation_id)
    return Surgery(
        f"Undo {plan.entry.action}",
        plan.text,
        f"Take the {plan.entry.action} back?",
        lambda engine: told(undoing.apply(engine.archive, plan, now(engine), _backups(engine))),
    )


def rewrite(room: Room, summary_id: str, conversation_id: int, *, subtree: bool) -> Rewriting:
    """One summary, or all below it as well, from its sources."""
    from lossless.revising import rewriting

    one, all_below = (None, summary_id) if subtree else (summary_id, None)
    by = next(iter(_writers(room)), EXTRACTIVE_MODEL)
    plan = rewriting.plan(room.archive, conversation_id, summary_id=one, subtree=all_below, by=by)
    title = f"Rewrite {summary_id}{' and all below it' if subtree else ''}"
    return Rewriting(title, plan, writer(room))


def repair(room: Room, conversation_id: int) -> Rewriting:
    """The broken summaries of a conversation."""
    from lossless.doctor import repair as repairing

    found = repairing.plan(room.archive, conversation_id, room.settings.default_token_budget)
    return Rewriting(f"Repair conversation {conversation_id}", found.plan, writer(room), found.blocked)


def previous_context(room: Room, summary_id: str) -> str:
    """What a summary's writer is told about what came before."""
    from lossless.revising.rewriting import source_of

    return source_of(room.archive, room.engine.loop.summariser, summary_id, {}).previous_context


# --- deeds ---------------------------------------------------------------------------------------------------


def operate(room: Room, surgery: Surgery) -> str:
    """Carry a surgery out, after a backup; says what was done."""
    with room.working() as engine:
        done = surgery.apply(engine)
    room.refresh()
    return done


def write_drafts(room: Room, work: Rewriting, decisions: Decisions) -> Outcome:
    """Write drafts, one after the other, and put those that were accepted in place together; says what was done.

    However it ends, what was accepted and goes together is kept, and the same work again goes on with the rest.
    """
    with room.working() as engine:
        made = rewrite_run.write(engine.surgery.writer, work.plan, decisions.accept, decisions.heard)
        done = rewrite_run.place(engine.surgery.writer, made, _backups(engine))
    room.refresh()
    return Outcome(_came_of(made, done), is_changed=done is not None)


def _came_of(made: Drafted, done: Operated | None) -> str:
    """What drafts came to, and what is left to do."""
    nothing = "Nothing was changed." if made.stop == rewrite_run.INTERRUPTED else "Nothing was written."
    lines = [nothing if done is None else told(done)]
    lines += [f"{draft.summary_id}: {draft.refusal}" for draft in made.refused[:_REASONS]]
    more = len(made.refused) - _REASONS
    lines += [f"and {more} more"] if more > 0 else []
    is_begun = made.stop is not None and done is not None
    lines += [f"Stopped: {made.stop}; {made.left} to go. The same key goes on with these."] if is_begun else []
    return "\n".join(lines)


def told(done: Operated) -> str:
    """What a surgery did, in a sentence or two; an undo is taken back only by the backup that came before it."""
    what = plural(len(done.summary_ids), "summary", "summaries")
    sizes = f"{number(done.tokens_before)} → {number(done.tokens_after)} tokens"
    copy = "" if done.backup is None else f"\nBackup: {done.backup.name}"
    back = "u undoes the step before it, lcm restore takes it back" if done.action == "undo" else "u takes it back"
    return f"Done: {done.action}, {what}, context {sizes}; {back}.{copy}"


def writer(room: Room) -> str:
    """Who would write, by name; without a model texts are extracted."""
    if room.engine.loop.summariser.complete is not None:
        return "the host's model"
    return ", then ".join(_writers(room)) or "nobody: texts are extracted, no model is configured"


def _writers(room: Room) -> list[str]:
    """The models that would be asked, in order."""
    from lossless.compaction.summariser import Summariser

    hosts = room.engine.loop.summariser.complete
    return [candidate.name for candidate in Summariser(room.work_settings, hosts).candidates()]


def now(engine: Engine) -> datetime:
    """What an engine's clock says."""
    return engine.surgery.writer.clock()


def _backups(engine: Engine) -> Callable[[str], Path]:
    return lambda label: engine.admin.copy(label).path
