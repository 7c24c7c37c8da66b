"""Screens from which the transcript behind a conversation can be opened, and compared with the archive."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding

from lossless.tui import locating
from lossless.tui.screens.page import TablePage

if TYPE_CHECKING:
    from pathlib import Path

    from textual.binding import BindingType


class Located(TablePage):
    """`x` shows the transcript on disk, `v` lays it over the archive."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "transcript", "Transcript", show=False),
        Binding("v", "compare", "Compare", show=False),
    ]

    @property
    def about_id(self) -> int | None:
        """The conversation that is meant, if any."""
        return self.conversation_id

    def action_transcript(self) -> None:
        self._find(compare=False)

    def action_compare(self) -> None:
        self._find(compare=True)

    def _find(self, *, compare: bool) -> None:
        room, id_ = self.room, self.about_id
        if id_ is not None:
            found = partial(self._open, id_, compare=compare)
            self.fetch(lambda: locating.transcript_of(room, id_), found, "plan")

    def _open(self, conversation_id: int, path: Path | None, *, compare: bool) -> None:
        from lossless.tui.screens.compare import Compare
        from lossless.tui.screens.transcript import Transcript

        if path is None:
            self.tell("No transcript of this session was found on this machine.")
        else:
            self.app.push_screen((Compare if compare else Transcript)(path, conversation_id))
