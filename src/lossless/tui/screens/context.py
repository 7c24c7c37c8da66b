"""What the model sees: the next prompt, item by item, with bars of their tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding

from lossless.tui import reads, seen
from lossless.tui.screens.dialogs import Read, coloured
from lossless.tui.screens.page import TablePage
from lossless.tui.screens.surgery import Operating
from lossless.tui.words import NOTICE, bar, cell, number, plural, right, role

if TYPE_CHECKING:
    from textual.binding import BindingType

    from lossless.surgery.history import ContextDiff
    from lossless.tui.seen import Item, Seen

_BAR = 20
_ITEM_BAR = 10
_REASONS = 3


class Context(TablePage, Operating):
    """The prompt as it would be sent now, and how its room is shared."""

    COLUMNS = ("what", "tokens", "", "from", "text")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s,l", "summaries", "Summaries", key_display="s"),
        Binding("v", "last_change", "Last change"),
        Binding("u", "undo", "Undo"),
    ]

    def __init__(self, conversation_id: int) -> None:
        super().__init__()
        self.conversation_id: int = conversation_id
        self._beside = ""

    def load(self) -> None:
        room, id_ = self.room, self.conversation_id
        self.reading(lambda: seen.seen(room.engine, id_), self._show)

    def _show(self, found: Seen) -> None:
        count = sum(item.id != seen.BESIDE for item in found.items)
        self.where(f"Context of conversation {self.conversation_id}", plural(count, "item"))
        self.about(_figures(found))
        self._beside = "".join(item.text for item in found.items if item.id == seen.BESIDE)
        most = max((item.tokens for item in found.items), default=1) or 1
        self.rows.fill([(item.id, self._cells(item, most)) for item in found.items])

    def _cells(self, item: Item, most: int) -> tuple[Text, ...]:
        form = "" if item.form == "verbatim" else f"({item.form}) "
        what = cell("beside", "magenta") if item.id == seen.BESIDE else role(item.what)
        what = cell(item.what, "blue") if item.is_summary else what
        return (
            what,
            right(item.tokens, 6),
            bar(item.tokens / most, _ITEM_BAR, "blue" if item.is_summary else "cyan"),
            cell(self.lcm.times.short(item.at), "dim"),
            cell(f"{form}{item.text}"),
        )

    def highlighted(self, key: str) -> None:
        archive, times = self.room.archive, self.lcm.times
        if key.startswith("msg#"):
            self.open_detail(lambda: reads.message(archive, int(key.removeprefix("msg#")), times))
        elif key == seen.BESIDE:
            self.pane.show(reads.Detail("Pins and focus", text=self._beside))
        else:
            self.open_detail(lambda: reads.summary(archive, key, times))

    def selected(self, key: str) -> None:
        from lossless.tui.screens.conversation import Conversation
        from lossless.tui.screens.dag import Dag

        if key.startswith("msg#"):
            self.app.push_screen(Conversation(self.conversation_id, int(key.removeprefix("msg#"))))
        elif key == seen.BESIDE:
            self.action_whole()
        else:
            self.app.push_screen(Dag(self.conversation_id, key))

    def action_summaries(self) -> None:
        from lossless.tui.screens.dag import Dag

        self.app.push_screen(Dag(self.conversation_id))

    def action_undo(self) -> None:
        self.propose_undo(self.conversation_id)

    def action_last_change(self) -> None:
        from lossless.surgery import history

        archive, id_ = self.room.archive, self.conversation_id
        self.fetch(lambda: history.between(archive, id_), self._show_change, "plan")

    def _show_change(self, found: ContextDiff) -> None:
        text = coloured(found.text) if found.entries else Text("This context was never folded or operated on.")
        self.app.push_screen(Read("What the last change did", text))


def _figures(found: Seen) -> Text:
    """The prompt against its room, the context against its threshold, and the lanes."""
    full, kept = found.tokens / max(1, found.capacity), found.stored_tokens / max(1, found.threshold)
    over = "" if found.fits else ": too much"
    text = Text.assemble(
        "prompt   ",
        bar(full, _BAR, "cyan" if found.fits else "red"),
        f" {full:6.1%}  {number(found.tokens)} of {number(found.capacity)} tokens{over}\n",
        "context  ",
        bar(kept, _BAR, NOTICE if kept >= 1 else "cyan"),
        f" {kept:6.1%}  {number(found.stored_tokens)} of {number(found.threshold)} until a fold",
    )
    lanes = "   ".join(f"{lane.name} {lane.share:.0%}{_aim(lane.low, lane.high)}" for lane in found.lanes)
    text.append(f"\n{lanes}", "dim")
    for reason, count in found.left_out[:_REASONS]:
        text.append(f"\n{plural(count, 'item')} left out: ", NOTICE).append(cell(reason))
    return text


def _aim(low: float, high: float) -> str:
    return f" (aims at {low:.0%}–{high:.0%})" if high else ""
