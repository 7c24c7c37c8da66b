"""Focus briefs of a conversation, the newest first."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding

from lossless.tui.reads import Detail
from lossless.tui.screens.dialogs import Ask, Write
from lossless.tui.screens.page import TablePage
from lossless.tui.screens.surgery import Operating
from lossless.tui.words import cell, number, plural, right

if TYPE_CHECKING:
    from textual.binding import BindingType

    from lossless.revising.focus import FocusDraft, FocusPlan, FocusStatus
    from lossless.store.archive import Archive
    from lossless.store.briefs import Brief

_MOST = 200


class FocusBriefs(TablePage, Operating):
    """What was written for which question, and whether it stands in prompts."""

    COLUMNS = ("state", "tokens", "written", "question")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "focus_on", "New focus"),
        Binding("R", "refocus", "Refocus"),
        Binding("d", "unfocus", "Unfocus"),
        Binding("u", "undo", "Undo"),
    ]

    def __init__(self, conversation_id: int) -> None:
        super().__init__()
        self.conversation_id: int = conversation_id
        self._found: dict[str, Brief] = {}
        self._status: FocusStatus | None = None

    def load(self) -> None:
        archive, id_ = self.room.archive, self.conversation_id
        self.reading(lambda: _read(archive, id_), self._show)

    def _show(self, read: tuple[list[Brief], FocusStatus | None]) -> None:
        briefs, self._status = read
        self._found = {brief.id: brief for brief in briefs}
        self.where(f"Focus of conversation {self.conversation_id}", plural(len(briefs), "brief"))
        self.rows.fill(
            [
                (
                    brief.id,
                    (
                        cell(brief.status, "green" if brief.status == "active" else "dim"),
                        right(brief.tokens, 6),
                        cell(self.lcm.times.short(brief.created_at), "dim"),
                        cell(brief.prompt),
                    ),
                )
                for brief in briefs
            ]
        )
        if not briefs:
            self.pane.show(
                Detail("There are no briefs.", text="n writes one for a question; it stands for older summaries.")
            )

    def highlighted(self, key: str) -> None:
        brief, status = self._found[key], self._status
        facts = [
            ("question", brief.prompt),
            ("tokens", f"{number(brief.tokens)}, aimed at {number(brief.target_tokens)}"),
            ("covers", f"up to {self.lcm.times.minute(brief.covered_latest_at)}"),
        ]
        if status is not None and status.brief.id == key:
            since = f"{plural(status.messages_since, 'message')}, {number(status.tokens_since)} tokens"
            facts.append(("since", f"{since}{'; it is out of date' if status.is_stale else ''}"))
        if brief.error:
            facts.append(("failed", brief.error))
        self.pane.show(Detail(f"{brief.id}  {brief.status}", tuple(facts), brief.content))

    # --- keys ---

    def action_focus_on(self) -> None:
        self.app.push_screen(Write("A brief for which question?", "what is to be kept in mind"), self._asked)

    def _asked(self, question: str | None) -> None:
        if question is not None:
            self._propose(question)

    def action_refocus(self) -> None:
        self._propose(None)

    def _propose(self, question: str | None) -> None:
        """Show what a brief would stand for; write it when that is wanted; use it when it was read."""
        from lossless.tui import briefs

        room, id_ = self.room, self.conversation_id

        def planned() -> tuple[FocusPlan, str]:
            plan = briefs.planned(room, id_, question)
            return plan, briefs.preview(room, plan)

        def ask(found: tuple[FocusPlan, str]) -> None:
            plan, text = found
            self.app.push_screen(Ask(f"Focus: {plan.prompt}", text, "Write the brief?"), partial(answered, plan))

        def answered(plan: FocusPlan, word: str | None) -> None:
            if word == "yes":
                self.tell("The brief is being written …")
                self.fetch(lambda: briefs.drafted(room, plan), partial(self._drafted, plan), "work")

        self.fetch(planned, ask, "plan")

    def _drafted(self, plan: FocusPlan, made: FocusDraft) -> None:
        from lossless.tui import briefs

        self.propose(lambda: briefs.using(plan, made))

    def action_unfocus(self) -> None:
        from lossless.tui import briefs

        archive, id_ = self.room.archive, self.conversation_id
        self.propose(lambda: briefs.putting_away(archive, id_))

    def action_undo(self) -> None:
        self.propose_undo(self.conversation_id)


def _read(archive: Archive, conversation_id: int) -> tuple[list[Brief], FocusStatus | None]:
    from lossless.revising import focus
    from lossless.store.briefs import Briefs

    with archive.reading():
        briefs = Briefs(archive.database).newest(conversation_id, _MOST)
        return briefs, focus.status(archive, conversation_id) if briefs else None
