"""The first screen: all conversations of the archive, the last changed first."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding

from lossless.tui.reads import Detail
from lossless.tui.screens.located import Located
from lossless.tui.words import cell, number, plural, right, shortened

if TYPE_CHECKING:
    from rich.text import Text
    from textual.binding import BindingType

    from lossless.store.listings import ConversationRow, Page, Place

BATCH = 50
_NAME_CHARS = 30


class Sessions(Located):
    """Conversations, in batches of fifty; the next batch comes when the cursor reaches the end."""

    COLUMNS = ("id", "session", "messages", "sums", "context", "changed", "")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s,l", "summaries", "Summaries", key_display="s"),
        Binding("c", "context", "Context"),
        Binding("a", "agents", "Session files"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[str, ConversationRow] = {}
        self._next: Place | None = None
        self._is_anew = False

    @property
    def about_id(self) -> int | None:
        return None if self.rows.chosen is None else int(self.rows.chosen)

    def load(self) -> None:
        """The first batch: what changes comes to the top."""
        archive = self.room.archive
        self.reading(lambda: archive.listings.conversations(BATCH), self._show_first)

    def action_reload(self) -> None:
        self._is_anew = True
        super().action_reload()

    def _show_first(self, page: Page[ConversationRow]) -> None:
        first = {str(row.conversation_id): row for row in page.rows}
        known = {} if self._is_anew else self._found
        if len(known) <= len(first):
            self._next = page.next
        self._is_anew = False
        self._show(first | {key: row for key, row in known.items() if key not in first})

    def _show_more(self, page: Page[ConversationRow]) -> None:
        self._next = page.next
        self._show(self._found | {str(row.conversation_id): row for row in page.rows})

    def _show(self, found: dict[str, ConversationRow]) -> None:
        self._found = found
        self.rows.fill([(key, self._cells(row)) for key, row in self._found.items()])
        more = " and more" if self._next else ""
        self.where("lcm", self.room.path, plural(len(self._found), "conversation") + more)
        if not self._found:
            self.pane.show(Detail("The archive is empty.", text="a lists session files that can be stored."))

    def _cells(self, row: ConversationRow) -> tuple[Text, ...]:
        name = row.session_key or row.session_id
        return (
            right(str(row.conversation_id), 3),
            cell(shortened(name, _NAME_CHARS)),
            right(row.message_count, 8),
            right(row.summary_count, 5),
            right(row.context_tokens, 8),
            cell(self.lcm.times.short(row.updated_at)),
            cell("" if row.active else "closed", "dim"),
        )

    def highlighted(self, key: str) -> None:
        row, times = self._found[key], self.lcm.times
        sums = f"{number(row.summary_count)}, {number(row.summary_tokens)} tokens, depth {row.max_summary_depth}"
        facts = (
            ("session", row.session_key or ""),
            ("run", row.session_id),
            ("messages", f"{number(row.message_count)}, {number(row.message_tokens)} tokens"),
            ("said", f"{times.minute(row.earliest_message_at)} … {times.minute(row.latest_message_at)}"),
            ("sums", sums if row.summary_count else ""),
            ("context", f"{plural(row.context_items, 'item')}, {number(row.context_tokens)} tokens"),
            ("state", "active" if row.active else f"closed: {row.archive_cause or 'archived'}"),
        )
        title = f"Conversation {row.conversation_id}  {row.title or ''}"
        self.pane.show(Detail(title, tuple(fact for fact in facts if fact[1])))
        if self._next is not None and self.rows.is_at_end:
            archive, place = self.room.archive, self._next
            self.reading(lambda: archive.listings.conversations(BATCH, place), self._show_more)

    def selected(self, key: str) -> None:
        from lossless.tui.screens.conversation import Conversation

        self.app.push_screen(Conversation(int(key)))

    def action_summaries(self) -> None:
        from lossless.tui.screens.dag import Dag

        if (key := self.rows.chosen) is not None:
            self.app.push_screen(Dag(int(key)))

    def action_context(self) -> None:
        from lossless.tui.screens.context import Context

        if (key := self.rows.chosen) is not None:
            self.app.push_screen(Context(int(key)))

    def action_agents(self) -> None:
        from lossless.tui.screens.agents import Agents

        self.app.push_screen(Agents())
