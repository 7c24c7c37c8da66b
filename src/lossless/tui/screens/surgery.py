"""Screens that change the archive: plan, preview, confirm, apply; the review of drafts; and the doctor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING

from rich.text import Text

from lossless.errors import LosslessError
from lossless.tui import actions
from lossless.tui.reads import DetailView
from lossless.tui.screens.dialogs import ConfirmDialog, Dialog, diff_text
from lossless.tui.screens.page import Cell, PaneScreen, in_background
from lossless.tui.text import NOTICE, RED, clip_text, make_visible, plural, text_cell

if TYPE_CHECKING:
    from lossless.maintenance.doctor import DoctorFinding
    from lossless.maintenance.surgery.rewriting import RewritePlan, SummaryDraft
    from lossless.tui.actions import PlannedChange, PlannedRewrite

_NOTHING = ("Nothing was changed.", False)
_STOPPING = ("Stopping after the current text; what was accepted is kept.", False)


class DraftReviewDialog(Dialog["tuple[str, bool]"]):
    """Draft after draft; ends with what came of it, and whether anything was changed.

    The thread that writes drafts waits for a person's word about each.
    """

    def __init__(self, title: str, plan: RewritePlan) -> None:
        super().__init__(title, Text(), "")
        self._plan, self._count, self._done = plan, len(plan.targets), 0
        #: The draft that waits for a word.
        self._draft: SummaryDraft | None = None
        self._words = SimpleQueue[str]()
        self._shows_diff, self._accepts_all, self._is_over = True, False, False

    def on_mount(self) -> None:
        self._wait()
        self.app.run_worker(self._write(), group="work", exit_on_error=False)

    def on_unmount(self) -> None:
        self._stop()

    async def _write(self) -> None:
        """Leave with what came of it; when the window was closed before, say it all the same."""
        access, outcome = self.access, _NOTHING
        try:
            outcome = await asyncio.to_thread(actions.write_drafts, access, self._plan, self._accept, self._draft_done)
        except (LosslessError, OSError) as error:
            self.complain(str(error))
        if self.is_attached:
            self.dismiss(outcome)
        else:
            self.tell(outcome[0])

    def _accept(self, draft: SummaryDraft) -> bool:
        """Wait for the word about a draft; raises KeyboardInterrupt when there are to be no more."""
        self._go_on()
        if self._accepts_all:
            return True
        self.app.call_from_thread(self._show, draft)
        word = self._words.get()
        self._go_on()
        self._accepts_all = word == "all"
        return word != "no"

    def _draft_done(self, _draft: SummaryDraft) -> None:
        self._go_on()
        self._done += 1
        self.app.call_from_thread(self._wait)

    def _go_on(self) -> None:
        if self._is_over:
            raise KeyboardInterrupt

    def _stop(self) -> None:
        self._is_over = True
        self._words.put("stop")

    def _wait(self) -> None:
        if not self._is_over:
            place = f"{min(self._done + 1, self._count)} of {plural(self._count, 'summary')}"
            self.draw(self._title, Text(f"Writing {place} …"), "Esc stop; what was accepted is kept")

    def _show(self, draft: SummaryDraft) -> None:
        self._draft = draft
        sizes = f"{draft.tokens_before:,} → {draft.tokens:,} tokens by {draft.model}"
        shown = diff_text(draft.diff) if self._shows_diff else Text(clip_text(draft.text))
        is_many = self._count > 1
        keys = f"y/Enter {'accept' if is_many else 'apply'}   n {'skip' if is_many else 'discard'}"
        keys += f"   d {'whole text' if self._shows_diff else 'diff'}{'   A accept all' if is_many else ''}   Esc stop"
        self.draw(f"{draft.summary_id}  {self._done + 1}/{self._count}  {sizes}", shown, keys)

    def action_answer(self, word: str) -> None:
        if self._draft is not None:
            self._draft = None
            self._words.put(word)

    def action_diff(self) -> None:
        if self._draft is not None:
            self._shows_diff = not self._shows_diff
            self._show(self._draft)

    def action_stop(self) -> None:
        if self._is_over:
            self.dismiss(_STOPPING)
        else:
            self._stop()
            self.draw(self._title, Text(_STOPPING[0]), "Esc close at once")


_LONG_SECONDS = 1.0


class SurgeryScreen(PaneScreen):
    """A screen from which a conversation can be operated on."""

    def changed(self) -> None:
        """The archive is another one: show it."""
        self._shown = None
        self.load()

    async def ask(self, title: str, text: str, question: str, other: str = "") -> str:
        """Show a preview and wait for the answer: `yes`, `no` or `other`."""
        return await self.app.push_screen_wait(ConfirmDialog(title, text, question, other))

    @in_background("work")
    async def propose(self, plan: Callable[[], PlannedChange]) -> None:
        """Plan, show the preview, and carry it out when it is confirmed."""
        await self.confirm(await self.read(plan))

    async def confirm(self, change: PlannedChange, other: str = "") -> str:
        """Show a preview, and carry the change out when it is confirmed; the answer."""
        answer = await self.ask(change.title, change.text, change.question, other)
        if answer == "yes":
            self.app.run_worker(self._apply(change), group="work", exit_on_error=False)
        return answer

    async def _apply(self, change: PlannedChange) -> None:
        """Carry a change out, after a backup, and say what was done; what takes long is said to go on."""
        access, app = self.access, self.app

        def apply() -> str:
            with access.working() as engine:
                done = change.apply(engine)
            access.refresh()
            return done

        hint = app.set_timer(_LONG_SECONDS, lambda: app.notify(make_visible(f"{change.title} …"), markup=False))
        try:
            self.tell(await asyncio.to_thread(apply))
        finally:
            hint.stop()
        if self.is_attached:
            self.changed()

    def action_undo(self) -> None:
        if (id_ := self.conversation_id) is not None:
            self.propose(lambda: actions.plan_undo(self.access.engine, id_))

    @in_background("work")
    async def propose_rewriting(self, plan: Callable[[], PlannedRewrite]) -> None:
        """Plan, show what would be asked, then draft after draft."""
        title, text, rewriting = await self.read(plan)
        if not rewriting.targets:
            self.tell("There is nothing to rewrite.")
        elif await self.ask(title, text, "Write the texts?") == "yes":
            done, is_changed = await self.app.push_screen_wait(DraftReviewDialog(title, rewriting))
            self.tell(done)
            if is_changed:
                self.changed()


_MARKS = {"problem": ("✗", RED), "warning": ("!", NOTICE), "note": ("·", "dim")}


class DoctorScreen(SurgeryScreen):
    """Findings with their remedies; broken summaries can be repaired from here."""

    COLUMNS = ("", "conv", "kind", "what")
    LIST_TITLE = "Findings"

    def tick(self) -> None:
        """An examination is not repeated by itself."""

    @in_background("read")
    async def load(self) -> None:
        found = await self.read_list(self.access.engine.admin.examine)
        state = "healthy" if found.healthy else "something is wrong"
        versions = f"schema {found.schema}, SQLite {found.sqlite}"
        self.where("Doctor", state, plural(len(found.findings), "finding"), versions)
        self.show_rows({str(n): one for n, one in enumerate(found.findings)}, "The archive is healthy.")

    def cells(self, one: DoctorFinding) -> tuple[Cell, ...]:
        about = "" if one.conversation_id is None else str(one.conversation_id)
        return text_cell(*_MARKS[one.severity]), about, text_cell(one.kind, "bold"), one.message

    def detail(self, one: DoctorFinding) -> DetailView:
        facts = (("helps", one.remedy), ("about", ", ".join(one.ids)))
        return DetailView(f"{one.severity}: {one.kind}", facts, one.message)

    def action_repair(self) -> None:
        id_ = None if self.chosen is None else self.chosen.conversation_id
        if id_ is None:
            self.tell("Choose a finding about the summaries of a conversation.")
        else:
            self.propose_rewriting(lambda: actions.plan_repair(self.access, id_))
