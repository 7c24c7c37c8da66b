"""Search and recall: words, a regular expression, or a question in plain words, in one conversation or in all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rich.text import Text
from textual.widgets import Input

from lossless.recall.results import SearchHit
from lossless.tui import reads, screens
from lossless.tui.screens.page import Cell, PaneScreen, in_background
from lossless.tui.text import BLUE, LINE_CHARS, NOTICE, make_visible, plural, role_cell, text_cell

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from lossless.engine import Engine
    from lossless.recall.scope import GrepMode

_LIMIT = 100
#: So many characters before a match are shown.
_BEFORE = 12
_QUESTION_TOKENS = 4_000

SearchMode: TypeAlias = Literal["words", "regex", "question"]
_MODES: tuple[SearchMode, ...] = ("words", "regex", "question")
_HINTS = {
    "words": "Words to search for",
    "regex": "A regular expression to search for",
    "question": "A question in plain words, such as: which port does the proxy use?",
}


class SearchScreen(PaneScreen):
    """A line to write in, and what was found; Enter on a hit opens it where it stands."""

    COLUMNS = ("conv", "what", "time", "text")
    LIST_TITLE = "Results"

    def __init__(self, conversation_id: int | None, mode: SearchMode = "words") -> None:
        super().__init__(conversation_id)
        self._mode, self._is_all = mode, conversation_id is None

    def top_panes(self) -> ComposeResult:
        yield Input(id="search", select_on_focus=False)

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(Input).focus()

    def _say(self, count: str = "") -> None:
        place = "all conversations" if self._is_all else f"conversation {self.conversation_id}"
        self.query_one(Input).placeholder = _HINTS[self._mode]
        self.where("Recall" if self._mode == "question" else "Search", f"{self._mode} in {place}", count)

    def load(self) -> None:
        """What was found stays until something else is asked for."""
        self._mark = self.mark
        self._say()

    def tick(self) -> None:
        """A search is not repeated by itself."""

    @in_background("read")
    async def on_input_submitted(self) -> None:
        pattern, engine = self.query_one(Input).value, self.access.engine
        if not pattern.strip():
            return
        id_, mode = None if self._is_all else self.conversation_id, self._mode
        hits, count, hint = await self.read_list(lambda: _find(engine, pattern, id_, mode))
        self._shown = None
        self._say(count)
        self.show_rows({hit.reference: hit for hit in hits})
        self.about(text_cell(hint, NOTICE) if hint else None)
        self.pane.show(None)
        if hits:
            self.rows.focus()

    def cells(self, hit: SearchHit) -> tuple[Cell, ...]:
        what = text_cell(f"depth {hit.depth}", BLUE) if hit.kind == "summary" else role_cell(hit.role or hit.kind)
        return str(hit.conversation_id), what, hit.created_at, highlight_matches(hit)

    def detail(self, one: SearchHit) -> reads.DetailView:
        if one.kind in ("message", "summary"):
            return self.reference_detail(one.id)
        return reads.DetailView(f"{one.id}  {one.name or ''}", (("line", str(one.line)),), one.snippet)

    def selected(self, one: SearchHit) -> None:
        if one.kind in ("message", "summary"):
            self.go_to(one.conversation_id, one.id)
        else:
            self.app.push_screen(screens.files.LargeFilesScreen(one.conversation_id))

    def action_recall(self) -> None:
        self._mode = "question"
        self._say()
        self.query_one(Input).focus()

    def action_next_mode(self) -> None:
        self._mode = _MODES[(_MODES.index(self._mode) + 1) % len(_MODES)]
        self._say()

    def action_toggle_all(self) -> None:
        self._is_all = self.conversation_id is None or not self._is_all
        self._say()


def highlight_matches(hit: SearchHit) -> Text:
    """A hit on one line, from a little before the first match on; matches stand out."""
    first = max(0, hit.matches[0][0] - _BEFORE) if hit.matches else 0
    text, at = Text("…" if first else "", no_wrap=True, overflow="ellipsis", end=""), first
    for start, end in hit.matches:
        text.append(_one_line(hit.snippet[at:start])).append(_one_line(hit.snippet[start:end]), "bold reverse")
        at = end
    return text.append(_one_line(hit.snippet[at : at + LINE_CHARS]))


def _one_line(text: str) -> str:
    return make_visible(text).replace("\n", " ")


def _find(
    engine: Engine, pattern: str, conversation_id: int | None, mode: SearchMode
) -> tuple[tuple[SearchHit, ...], str, str]:
    """What was found, how much that is, and what one should know about it."""
    if mode == "question":
        scope: dict[str, Any] = {"conversation_id": conversation_id, "all_conversations": conversation_id is None}
        answer = engine.recall(pattern, **scope, max_tokens=_QUESTION_TOKENS)
        hits = tuple(
            SearchHit(one.id, "message", one.conversation_id, one.seq, one.score, one.text, one.created_at, one.role)
            for one in answer.evidence
        )
        return hits, plural(len(hits), "quotation"), answer.note
    grep_mode: GrepMode = "regex" if mode == "regex" else "full_text"
    found = engine.grep(pattern, mode=grep_mode, conversation_id=conversation_id, limit=_LIMIT)
    return found.hits, plural(found.total, "hit") + (" and more" if found.truncated else ""), found.hint or ""
