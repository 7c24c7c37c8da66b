"""Writing summaries anew under a person's eyes: each draft is shown, with its diff, before it counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from rich.text import Text
from textual.binding import Binding

from lossless.tui import work
from lossless.tui.screens.dialogs import Dialog, coloured
from lossless.tui.words import clipped, number, plural
from lossless.tui.work import Outcome

if TYPE_CHECKING:
    from textual.binding import BindingType

    from lossless.revising.rewriting import Draft
    from lossless.tui.work import Rewriting

_NOTHING = Outcome("Nothing was changed.", is_changed=False)
_STOPPING = Outcome("Stopping after the text that is being written; what was accepted is kept.", is_changed=False)


class Review(Dialog[Outcome]):
    """Preview, then draft after draft; ends with what came of it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "yes", "Send, apply", priority=True),
        Binding("y", "yes", "Apply"),
        Binding("n", "no", "Discard, skip"),
        Binding("d", "diff", "Diff or whole text"),
        Binding("A", "all", "Accept this and all that follow"),
        Binding("escape,q", "stop", "Cancel, stop"),
    ]

    def __init__(self, rewriting: Rewriting) -> None:
        self._work = rewriting
        self._state: Literal["preview", "writing", "draft", "stopping"] = "preview"
        self._draft: Draft | None = None
        self._shows_diff, self._done = True, 0
        self._decisions = work.Decisions(
            lambda draft: self.app.call_from_thread(self._show, draft),
            lambda: self.app.call_from_thread(self._count_one),
        )
        super().__init__(rewriting.title, coloured(rewriting.text), "Enter send   Esc cancel")

    @property
    def _count(self) -> int:
        return len(self._work.plan.targets)

    def on_unmount(self) -> None:
        self._decisions.answer("stop")

    # --- the thread that writes ---

    def _begin(self) -> None:
        self._wait()
        self.fetch(self._write, self._end, "work", stays=True)

    def _write(self) -> Outcome:
        return work.write_drafts(self.room, self._work, self._decisions)

    def _end(self, outcome: Outcome) -> None:
        """Leave with what came of it; when the window was closed before, say it all the same."""
        if self.is_attached:
            self.dismiss(outcome)
        else:
            self.tell(outcome.text)

    def complain(self, message: str) -> None:
        super().complain(message)
        if self.is_attached:
            self.dismiss(_NOTHING)

    # --- what is shown ---

    def _count_one(self) -> None:
        self._done += 1
        if self._state != "stopping":
            self._wait()

    def _wait(self) -> None:
        self._state, self._draft = "writing", None
        place = f"{min(self._done + 1, self._count)} of {plural(self._count, 'summary', 'summaries')}"
        self.draw(self._work.title, Text(f"Writing {place} …"), "Esc stop; what was accepted is kept")

    def _show(self, draft: Draft) -> None:
        self._state, self._draft = "draft", draft
        sizes = f"{number(draft.tokens_before)} → {number(draft.tokens)} tokens by {draft.model}"
        shown = coloured(draft.diff) if self._shows_diff else Text(clipped(draft.text))
        is_many = self._count > 1
        keys = f"y/Enter {'accept' if is_many else 'apply'}   n {'skip' if is_many else 'discard'}"
        keys += f"   d {'whole text' if self._shows_diff else 'diff'}{'   A accept all' if is_many else ''}   Esc stop"
        self.draw(f"{draft.summary_id}  {self._done + 1}/{self._count}  {sizes}", shown, keys)

    # --- keys ---

    def action_yes(self) -> None:
        if self._state == "preview":
            self._begin()
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
        self._decisions.answer("stop")
        self.draw(self._work.title, Text(_STOPPING.text), "Esc close at once")

    def _answer(self, word: Literal["yes", "no", "all"]) -> None:
        if self._state == "draft":
            self._state = "writing"
            self._decisions.answer(word)
