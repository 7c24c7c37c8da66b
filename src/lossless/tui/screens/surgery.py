"""Changing an archive from a screen: plan, preview, question, deed; none of it on the UI's thread but the question."""

from __future__ import annotations

from functools import partial
from threading import Event
from typing import TYPE_CHECKING

from lossless.tui import work
from lossless.tui.screens.dialogs import Ask, Choose
from lossless.tui.screens.page import Page
from lossless.tui.screens.review import Review
from lossless.tui.words import visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.tui.work import Outcome, Rewriting, Surgery


_LONG_SECONDS = 1.0


class Operating(Page):
    """A screen from which a conversation can be operated on."""

    def changed(self) -> None:
        """The archive is another one: show it."""
        self.action_reload()

    # --- one surgery ---

    def propose(self, plan: Callable[[], Surgery], other: tuple[str, Callable[[], None]] | None = None) -> None:
        """Plan, show the preview, and carry it out when it is confirmed."""

        def ask(surgery: Surgery) -> None:
            dialog = Ask(surgery.title, surgery.text, surgery.question, other[0] if other else "")
            self.app.push_screen(dialog, partial(answered, surgery))

        def answered(surgery: Surgery, word: str | None) -> None:
            if word == "yes":
                self._carry_out(surgery)
            elif word == "other" and other:
                other[1]()

        self.fetch(plan, ask, "plan")

    def _carry_out(self, surgery: Surgery) -> None:
        """Do it in a thread; what takes long says so, and goes on when the screen is left."""
        room, app, is_over = self.room, self.app, Event()

        def do() -> str:
            try:
                return work.operate(room, surgery)
            finally:
                is_over.set()

        def say() -> None:
            if not is_over.is_set():
                app.notify(visible(f"{surgery.title} …"), markup=False)

        app.set_timer(_LONG_SECONDS, say)
        self.fetch(do, self._operated, "work", stays=True)

    def _operated(self, told: str) -> None:
        self.tell(told)
        if self.is_attached:
            self.changed()

    def propose_dissolving(self, summary_id: str, *, purge: bool = False) -> None:
        archive = self.room.archive
        again = partial(self.propose_dissolving, summary_id, purge=not purge)
        label = "keep the summary" if purge else "delete the summary, too"
        self.propose(lambda: work.dissolve(archive, summary_id, purge=purge), (label, again))

    def propose_transplant(self, source_id: int) -> None:
        def chosen(target_id: int | None) -> None:
            if target_id is not None:
                archive = self.room.archive
                self.propose(lambda: work.transplant(archive, source_id, target_id))

        self.app.push_screen(Choose(f"Copy the summaries of conversation {source_id} to", source_id), chosen)

    def propose_undo(self, conversation_id: int) -> None:
        archive = self.room.archive
        self.propose(lambda: work.undo(archive, conversation_id))

    # --- writing anew ---

    def propose_rewriting(self, plan: Callable[[], Rewriting]) -> None:
        """Plan, show what would be asked, then draft after draft."""

        def review(found: Rewriting) -> None:
            if found.plan.targets:
                self.app.push_screen(Review(found), self._reviewed)
            else:
                self.tell("There is nothing to write anew.")

        self.fetch(plan, review, "plan")

    def _reviewed(self, outcome: Outcome | None) -> None:
        if outcome is not None:
            self.tell(outcome.text)
            if outcome.is_changed:
                self.changed()
