"""A transcript against the archive: what both have, and what only one of them has."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding

from lossless.tui import comparing, reads
from lossless.tui.reads import Detail
from lossless.tui.screens.scrolled import Scrolled
from lossless.tui.words import NOTICE, cell, number, plural, right, role

if TYPE_CHECKING:
    from pathlib import Path

    from textual.binding import BindingType

    from lossless.tui.comparing import Comparison, Pair
    from lossless.tui.scrolls import Scroll

_MARKS = {"=": "dim", "·": "dim", "~": NOTICE, "+": "green", "-": "red"}
_WORDS = {
    "=": "Both have it.",
    "·": "It is never stored.",
    "~": "Both have it, with another text.",
    "+": "Only the transcript has it.",
    "-": "Only the archive has it.",
}


class Compare(Scrolled["Comparison"]):
    """Lines of a file beside the seqs of a conversation; Enter opens the conversation there."""

    COLUMNS = ("", "line", "seq", "role", "said", "text")
    BINDINGS: ClassVar[list[BindingType]] = [Binding("n", "next_difference", "Next difference")]

    def __init__(self, path: Path, conversation_id: int) -> None:
        super().__init__(path)
        self.conversation_id: int = conversation_id
        self._pairs: dict[str, Pair] = {}

    def read_window(self, scroll: Scroll, first: int, size: int) -> Comparison:
        return comparing.compared(self.room.archive, self.conversation_id, scroll, first, size)

    def show_window(self, found: Comparison, choose: str | None) -> None:
        self._pairs = {pair.key: pair for pair in found.pairs}
        keys = list(self._pairs)
        differing = [key for key, pair in self._pairs.items() if pair.is_difference]
        wanted = {"first": keys[:1], "last": keys[-1:], "differing": differing[:1]}.get(choose or "")
        self.rows.fill([(key, self._cells(pair)) for key, pair in self._pairs.items()], wanted[0] if wanted else None)
        self.where(f"{self.name_of_file} ↔ conversation {self.conversation_id}", self.span())
        counts = [(found.count(mark), _MARKS[mark], words) for mark, words in _COUNTED]
        text = Text("   ", end="").join(Text(f"{number(n)} {words}", style) for n, style, words in counts if n)
        self.about(text or Text("There is nothing to compare."))
        if not keys:
            self.pane.show(Detail("Nothing was said in this file."))

    def _cells(self, pair: Pair) -> tuple[Text, ...]:
        said, row, mark = pair.said, pair.row, cell(pair.mark, _MARKS[pair.mark])
        if pair.seqs is not None:
            first, last = pair.seqs
            text = cell(f"… seq {number(first)} … {number(last)} stand only in the archive", "red")
            return mark, cell(""), right(str(first), 5), cell(""), cell(""), text
        at = said.at if said is not None else row.created_at if row is not None else None
        who = said.role if said is not None else row.role if row is not None else ""
        words = said.text if said is not None else row.content or ", ".join(row.tools) if row is not None else ""
        return (
            mark,
            right("" if said is None else str(said.line), 5),
            right("" if row is None else str(row.seq), 5),
            role(who),
            cell(self.lcm.times.short(at), "dim"),
            cell(words, _MARKS[pair.mark]),
        )

    def highlighted(self, key: str) -> None:
        pair, archive, times = self._pairs[key], self.room.archive, self.lcm.times
        if pair.row is not None and pair.mark != "=":
            id_, said = pair.row.message_id, pair.said
            beside = f"\n\n--- in the transcript, line {said.line} ---\n\n{said.detail(times).text}" if said else ""
            self.open_detail(lambda: _noted(reads.message(archive, id_, times), pair, beside))
        elif pair.said is not None:
            self.pane.show(_noted(pair.said.detail(times), pair))
        else:
            first, last = pair.seqs or (0, 0)
            self.pane.show(Detail(plural(last - first + 1, "message"), (), _WORDS["-"]))

    def selected(self, key: str) -> None:
        from lossless.tui.screens.conversation import Conversation

        row = self._pairs[key].row
        if row is not None:
            self.app.push_screen(Conversation(self.conversation_id, row.message_id))
        else:
            self.action_whole()

    def action_next_difference(self) -> None:
        """In this window below the cursor, else in one of those that follow."""
        keys = list(self._pairs)
        later = [key for key in keys[self.rows.cursor_row + 1 :] if self._pairs[key].is_difference]
        if later:
            self.rows.choose(keys.index(later[0]))
        elif self._scroll is not None and self._first is not None:
            archive, id_, scroll = self.room.archive, self.conversation_id, self._scroll
            start, size = self._first + self._most, self._most
            self.fetch(lambda: comparing.next_difference(archive, id_, scroll, start, size), self._go, "plan")

    def _go(self, found: Comparison | None) -> None:
        if found is None:
            self.tell("There is no difference below.")
        else:
            self._turn(found.first, "differing")


_COUNTED: tuple[tuple[comparing.Mark, str], ...] = (
    ("=", "the same"),
    ("·", "never kept"),
    ("~", "with another text"),
    ("+", "only in the transcript"),
    ("-", "only in the archive"),
)


def _noted(detail: Detail, pair: Pair, beside: str = "") -> Detail:
    return Detail(detail.title, (("compare", _WORDS[pair.mark]), *detail.facts), detail.text + beside)
