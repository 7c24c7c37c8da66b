"""Focus briefs of a conversation, the newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.tui.reads import Detail
from lossless.tui.screens.page import TablePage
from lossless.tui.words import cell, number, plural, right

if TYPE_CHECKING:
    from lossless.doctor.focus import FocusStatus
    from lossless.store.archive import Archive
    from lossless.store.briefs import Brief

_MOST = 200


class FocusBriefs(TablePage):
    """What was written for which question, and whether it stands in prompts."""

    COLUMNS = ("state", "tokens", "written", "question")

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
            self.pane.show(Detail("There are no briefs.", text="`lcm focus QUESTION` writes one."))

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


def _read(archive: Archive, conversation_id: int) -> tuple[list[Brief], FocusStatus | None]:
    from lossless.doctor import focus
    from lossless.store.briefs import Briefs

    with archive.reading():
        briefs = Briefs(archive.database).newest(conversation_id, _MOST)
        return briefs, focus.status(archive, conversation_id) if briefs else None
