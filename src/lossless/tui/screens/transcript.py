"""A transcript as its host wrote it: a session file, or the rollout of a Codex backend."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding

from lossless.tui.reads import Detail
from lossless.tui.screens.scrolled import Scrolled
from lossless.tui.screens.surgery import Operating
from lossless.tui.words import cell, plural, right, role

if TYPE_CHECKING:
    from pathlib import Path

    from textual.binding import BindingType

    from lossless.tui.scrolls import Said, Scroll


class Transcript(Scrolled["tuple[list[Said], int | None]"], Operating):
    """What a file says, stored or not; nothing of it is stored before that is confirmed."""

    COLUMNS = ("line", "role", "said", "tokens", "text")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("i", "import", "Import"),
        Binding("v", "compare", "Compare"),
    ]

    def __init__(self, path: Path, conversation_id: int | None = None) -> None:
        super().__init__(path)
        self.conversation_id = self._given = conversation_id
        self._said: dict[str, Said] = {}

    def read_window(self, scroll: Scroll, first: int, size: int) -> tuple[list[Said], int | None]:
        from lossless.lifecycle.naming import session_of

        header = scroll.transcript.header
        session = session_of(scroll.transcript.kind, scroll.path.absolute(), header.id, header.cwd)
        stored = None if self._given is not None else self.room.archive.conversations.find(session)
        return scroll.window(first, size), self._given if stored is None else stored.id

    def show_window(self, found: tuple[list[Said], int | None], choose: str | None) -> None:
        said, self.conversation_id = found
        self._said = {str(one.place): one for one in said}
        keys = list(self._said)
        wanted = {"first": keys[:1], "last": keys[-1:]}.get(choose or "")
        self.rows.fill([(key, self._cells(one)) for key, one in self._said.items()], wanted[0] if wanted else None)
        self.where(self.name_of_file, self.span())
        self.about(self._figures())
        if not said:
            self.pane.show(Detail("Nothing was said in this file."))

    def _figures(self) -> Text | None:
        if (scroll := self._scroll) is None:
            return None
        pieces = [scroll.transcript.kind]
        pieces += [plural(scroll.others, "other record")] if scroll.others else []
        pieces += [f"{plural(scroll.bad_lines, 'line')} that cannot be read"] if scroll.bad_lines else []
        pieces += [plural(len(scroll.lanes), "side line")] if scroll.lanes else []
        text = Text(" · ".join(pieces), "dim", end="\n")
        if self.conversation_id is not None:
            return text.append(f"\nIt is conversation {self.conversation_id}; v compares the two.", "not dim")
        command = f"lcm import {scroll.transcript.kind} {shlex.quote(str(self.path))} --apply"
        return text.append("\nThe archive does not have it; i stores it, as does ", "not dim").append_text(
            cell(command)
        )

    def _cells(self, one: Said) -> tuple[Text, ...]:
        return (
            right(str(one.line), 5),
            role(one.role),
            cell(self.lcm.times.short(one.at), "dim"),
            right(one.message.tokens if one.message else "–", 6),
            cell(one.text),
        )

    def highlighted(self, key: str) -> None:
        self.pane.show(self._said[key].detail(self.lcm.times))

    # --- keys ---

    def action_import(self) -> None:
        from lossless.tui import bringing

        room, path = self.room, self.path
        self.propose(lambda: bringing.importing(room, path))

    def action_compare(self) -> None:
        from lossless.tui.screens.compare import Compare

        if self.conversation_id is None:
            self.tell("The archive does not have this session yet; i stores it.")
        else:
            self.app.push_screen(Compare(self.path, self.conversation_id))
