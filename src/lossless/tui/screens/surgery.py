"""Screens that change the archive: plan, preview, confirm, apply; the review of drafts; and the doctor."""

from __future__ import annotations

from functools import partial
from queue import SimpleQueue
from threading import Event
from typing import TYPE_CHECKING, ClassVar, Literal

from rich.text import Text
from textual.binding import Binding, BindingType

from lossless.tui import actions
from lossless.tui.reads import DetailView
from lossless.tui.screens.dialogs import ConfirmDialog, Dialog, diff_text
from lossless.tui.screens.page import Cell, PaneScreen
from lossless.tui.text import NOTICE, RED, clip_text, make_visible, plural, text_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.maintenance.doctor import DoctorFinding, Examination
    from lossless.maintenance.surgery.rewriting import SummaryDraft
    from lossless.tui.actions import PlannedChange, PlannedRewrite

_NOTHING = ("Nothing was changed.", False)
_STOPPING = ("Stopping after the current text; what was accepted is kept.", False)


class DraftReviewDialog(Dialog["tuple[str, bool]"]):
    """Preview, then draft after draft; ends with what came of it, and whether anything was changed.

    The thread that writes drafts waits for a person's word about each.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "yes", "Send, apply", priority=True),
        Binding("y", "yes", "Apply"),
        Binding("n", "no", "Discard, skip"),
        Binding("d", "diff", "Diff or whole text"),
        Binding("A", "all", "Accept this and all that follow"),
        Binding("escape,q", "stop", "Cancel, stop"),
    ]

    def __init__(self, rewriting: PlannedRewrite) -> None:
        self._title, text, self._plan = rewriting
        self._state: Literal["preview", "writing", "draft", "stopping"] = "preview"
        self._draft: SummaryDraft | None = None
        self._shows_diff, self._done, self._count = True, 0, len(self._plan.targets)
        self._answers = SimpleQueue[Literal["yes", "no", "all", "stop"]]()
        self._accepts_all = self._is_over = False
        super().__init__(self._title, diff_text(text), "Enter send   Esc cancel")

    def on_unmount(self) -> None:
        self._stop()

    def _accept(self, draft: SummaryDraft) -> bool:
        """Wait for the word about a draft; raises KeyboardInterrupt when there are to be no more."""
        self._go_on()
        if self._accepts_all:
            return True
        self.app.call_from_thread(self._show, draft)
        word = self._answers.get()
        self._go_on()
        self._accepts_all = word == "all"
        return word != "no"

    def _draft_done(self, _draft: SummaryDraft) -> None:
        def count() -> None:
            self._done += 1
            if self._state != "stopping":
                self._wait()

        self._go_on()
        self.app.call_from_thread(count)

    def _go_on(self) -> None:
        if self._is_over:
            raise KeyboardInterrupt

    def _stop(self) -> None:
        self._is_over = True
        self._answers.put("stop")

    def _end(self, outcome: tuple[str, bool]) -> None:
        """Leave with what came of it; when the window was closed before, say it all the same."""
        if self.is_attached:
            self.dismiss(outcome)
        else:
            self.tell(outcome[0])

    def complain(self, message: str) -> None:
        super().complain(message)
        if self.is_attached:
            self.dismiss(_NOTHING)

    def _wait(self) -> None:
        self._state, self._draft = "writing", None
        place = f"{min(self._done + 1, self._count)} of {plural(self._count, 'summary')}"
        self.draw(self._title, Text(f"Writing {place} …"), "Esc stop; what was accepted is kept")

    def _show(self, draft: SummaryDraft) -> None:
        self._state, self._draft = "draft", draft
        sizes = f"{draft.tokens_before:,} → {draft.tokens:,} tokens by {draft.model}"
        shown = diff_text(draft.diff) if self._shows_diff else Text(clip_text(draft.text))
        is_many = self._count > 1
        keys = f"y/Enter {'accept' if is_many else 'apply'}   n {'skip' if is_many else 'discard'}"
        keys += f"   d {'whole text' if self._shows_diff else 'diff'}{'   A accept all' if is_many else ''}   Esc stop"
        self.draw(f"{draft.summary_id}  {self._done + 1}/{self._count}  {sizes}", shown, keys)

    def action_yes(self) -> None:
        if self._state == "preview":
            self._wait()
            access = self.access  # the window may be closed before the thread is done
            write = partial(actions.write_drafts, access, self._plan, self._accept, self._draft_done)
            self.fetch(write, self._end, "work", stays=True)
        else:
            self._answer("yes")

    def action_no(self) -> None:
        if self._state == "preview":
            self.dismiss(_NOTHING)
        else:
            self._answer("no")

    def action_all(self) -> None:
        if self._count > 1:
            self._answer("all")

    def action_diff(self) -> None:
        if self._draft is not None:
            self._shows_diff = not self._shows_diff
            self._show(self._draft)

    def action_stop(self) -> None:
        if self._state in ("preview", "stopping"):
            self.dismiss(_NOTHING if self._state == "preview" else _STOPPING)
            return
        self._state = "stopping"
        self._stop()
        self.draw(self._title, Text(_STOPPING[0]), "Esc close at once")

    def _answer(self, word: Literal["yes", "no", "all"]) -> None:
        if self._state == "draft":
            self._state = "writing"
            self._answers.put(word)


_LONG_SECONDS = 1.0


class SurgeryScreen(PaneScreen):
    """A screen from which a conversation can be operated on."""

    def changed(self) -> None:
        """The archive is another one: show it."""
        self._shown = None
        self.load()

    def propose(self, plan: Callable[[], PlannedChange], other: tuple[str, Callable[[], None]] | None = None) -> None:
        """Plan, show the preview, and carry it out when it is confirmed."""

        def ask(change: PlannedChange) -> None:
            def answered(word: str | None) -> None:
                if word == "yes":
                    self._apply(change)
                elif word == "other" and other:
                    other[1]()

            label = other[0] if other else ""
            self.app.push_screen(ConfirmDialog(change.title, change.text, change.question, label), answered)

        self.fetch(plan, ask, "plan")

    def _apply(self, change: PlannedChange) -> None:
        """Carry a change out, after a backup, and say what was done; what takes long is said to go on."""
        access, app, is_over = self.access, self.app, Event()

        def apply() -> str:
            try:
                with access.working() as engine:
                    done = change.apply(engine)
                access.refresh()
                return done
            finally:
                is_over.set()

        def applied(done: str) -> None:
            self.tell(done)
            if self.is_attached:
                self.changed()

        def still_working() -> None:
            if not is_over.is_set():
                app.notify(make_visible(f"{change.title} …"), markup=False)

        app.set_timer(_LONG_SECONDS, still_working)
        self.fetch(apply, applied, "work", stays=True)

    def propose_dissolving(self, summary_id: str, *, purge: bool = False) -> None:
        again = partial(self.propose_dissolving, summary_id, purge=not purge)
        label = "keep the summary" if purge else "delete the summary, too"
        self.propose(lambda: actions.plan_dissolve(self.access.engine, summary_id, purge=purge), (label, again))

    def action_undo(self) -> None:
        if (id_ := self.conversation_id) is not None:
            self.propose(lambda: actions.plan_undo(self.access.engine, id_))

    def propose_rewriting(self, plan: Callable[[], PlannedRewrite]) -> None:
        """Plan, show what would be asked, then draft after draft."""

        def review(found: PlannedRewrite) -> None:
            if found[2].targets:
                self.app.push_screen(DraftReviewDialog(found), reviewed)
            else:
                self.tell("There is nothing to rewrite.")

        def reviewed(outcome: tuple[str, bool] | None) -> None:
            if outcome is not None:
                self.tell(outcome[0])
                if outcome[1]:
                    self.changed()

        self.fetch(plan, review, "plan")


_MARKS = {"problem": ("✗", RED), "warning": ("!", NOTICE), "note": ("·", "dim")}


class DoctorScreen(SurgeryScreen):
    """Findings with their remedies; broken summaries can be repaired from here."""

    COLUMNS = ("", "conv", "kind", "what")
    LIST_TITLE = "Findings"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("R", "repair", "Repair")]

    listed: dict[str, DoctorFinding]

    def load(self) -> None:
        self.reading(self.access.engine.admin.examine, self._show)

    def tick(self) -> None:
        """An examination is not repeated by itself."""

    def _show(self, found: Examination) -> None:
        state = "healthy" if found.healthy else "something is wrong"
        versions = f"schema {found.schema}, SQLite {found.sqlite}"
        self.where("Doctor", state, plural(len(found.findings), "finding"), versions)
        self.show_rows({str(n): one for n, one in enumerate(found.findings)}, "The archive is healthy.")

    def cells(self, one: DoctorFinding) -> tuple[Cell, ...]:
        about = "" if one.conversation_id is None else str(one.conversation_id)
        return text_cell(*_MARKS[one.severity]), about, text_cell(one.kind, "bold"), one.message

    def highlighted(self, key: str) -> None:
        finding = self.listed[key]
        facts = (("helps", finding.remedy), ("about", ", ".join(finding.ids)))
        self.pane.show(DetailView(f"{finding.severity}: {finding.kind}", facts, finding.message))

    def action_repair(self) -> None:
        finding = self.listed.get(self.rows.chosen or "")
        id_ = None if finding is None else finding.conversation_id
        if id_ is None:
            self.tell("Choose a finding about the summaries of a conversation.")
        else:
            self.propose_rewriting(lambda: actions.plan_repair(self.access, id_))
