"""The doctor: what is wrong with the archive, and what helps."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding

from lossless.tui import work
from lossless.tui.reads import Detail
from lossless.tui.screens.page import TablePage
from lossless.tui.screens.surgery import Operating
from lossless.tui.words import NOTICE, cell, plural

if TYPE_CHECKING:
    from textual.binding import BindingType

    from lossless.doctor.examine import Examination
    from lossless.doctor.finding import Finding

_MARKS = {"problem": ("✗", "red"), "warning": ("!", NOTICE), "note": ("·", "dim")}


class Doctor(TablePage, Operating):
    """Findings with their remedies; broken summaries can be repaired from here."""

    COLUMNS = ("", "conv", "kind", "what")
    BINDINGS: ClassVar[list[BindingType]] = [Binding("R", "repair", "Repair")]

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[str, Finding] = {}

    def load(self) -> None:
        room = self.room
        self.reading(lambda: room.engine.admin.examine(), self._show)

    def tick(self) -> None:
        """An examination is not repeated by itself."""

    def _show(self, found: Examination) -> None:
        self._found = {str(n): finding for n, finding in enumerate(found.findings)}
        state = "healthy" if found.healthy else "something is wrong"
        versions = f"schema {found.schema}, SQLite {found.sqlite}"
        self.where("Doctor", state, plural(len(self._found), "finding"), versions)
        rows = [
            (
                key,
                (
                    cell(*_MARKS[finding.severity]),
                    cell("" if finding.conversation_id is None else str(finding.conversation_id)),
                    cell(finding.kind, "bold"),
                    cell(finding.message),
                ),
            )
            for key, finding in self._found.items()
        ]
        self.rows.fill(rows)
        if not rows:
            self.pane.show(Detail("The archive is healthy."))

    def highlighted(self, key: str) -> None:
        finding = self._found[key]
        facts = (("helps", finding.remedy), ("about", ", ".join(finding.ids)))
        known = tuple(fact for fact in facts if fact[1])
        self.pane.show(Detail(f"{finding.severity}: {finding.kind}", known, finding.message))

    def action_repair(self) -> None:
        finding = self._found.get(self.rows.chosen or "")
        id_ = None if finding is None else finding.conversation_id
        if id_ is None:
            self.tell("Choose a finding about the summaries of a conversation.")
        else:
            room = self.room
            self.propose_rewriting(lambda: work.repair(room, id_))
