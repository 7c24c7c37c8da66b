"""What the model sees: the next prompt item by item with its sizes, and the focus briefs of a conversation."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from rich.text import Text

from lossless.context.choose import SHARE_TARGETS
from lossless.model.records import StoredBrief, SummaryRow
from lossless.tui import actions
from lossless.tui.reads import DetailView
from lossless.tui.screens.dialogs import DetailDialog, InputDialog, diff_text
from lossless.tui.screens.page import Cell, in_background
from lossless.tui.screens.surgery import SurgeryScreen
from lossless.tui.text import BLUE, GREEN, NOTICE, PURPLE, RED, plural, right_cell, role_cell, share_bar, text_cell

if TYPE_CHECKING:
    from lossless.engine import Engine
    from lossless.maintenance.browse import PromptItem, PromptReport
    from lossless.maintenance.surgery.focus import FocusPlan, FocusStatus

#: What a receipt calls the pins and the focus brief.
PINS_AND_FOCUS = "pins and focus"


def read_prompt(engine: Engine, conversation_id: int) -> PromptReport:
    """What the model would see now; reads only."""
    with engine.browse.reading():
        conversation = engine.browse.get(conversation_id)
        return engine.browse.prompt_report(conversation, engine.assemble(conversation, record=False).receipt)


#: Of an item: its id, its tokens, what it is, when, and its words.
_PromptRow: TypeAlias = "tuple[str, int, Text, datetime | None, str]"
_BAR = 20
_ITEM_BAR = 6
_REASONS = 3


class ContextScreen(SurgeryScreen):
    """The prompt as it would be sent now, and how its room is shared."""

    COLUMNS = ("what", "tokens", "", "from", "text")
    LIST_TITLE = "Prompt"

    conversation_id: int
    #: Pins and the focus brief, which stand before everything else.
    _pinned, _largest = "", 1

    @in_background("read")
    async def load(self) -> None:
        found = await self.read_list(lambda: read_prompt(self.access.engine, self.conversation_id))
        self.where(f"Context of conversation {self.conversation_id}", plural(len(found.items), "item"))
        self.about(_figures(found))
        brief, tokens = found.brief, found.receipt.tokens_by_kind.get(PINS_AND_FOCUS, 0)
        pieces = [f"focus: {brief.prompt}\n\n{brief.content}"] if brief is not None else []
        pieces += [f"pinned: {pin.content or f'msg#{pin.message_id}'}" for pin in found.pins]
        self._pinned = "\n\n".join(pieces)
        self._largest = max([tokens, *(item.tokens for item in found.items)]) or 1
        at = None if brief is None else brief.created_at
        extra = [(PINS_AND_FOCUS, tokens, text_cell("extra", PURPLE), at, self._pinned)] if tokens else []
        rows = [*extra, *((item.id, item.tokens, *_columns(item)) for item in found.items)]
        self.show_rows({row[0]: row for row in rows})

    def cells(self, one: _PromptRow) -> tuple[Cell, ...]:
        _, tokens, what, at, text = one
        return what, right_cell(tokens, 6), share_bar(tokens / self._largest, _ITEM_BAR, BLUE), at, text

    def detail(self, one: _PromptRow) -> DetailView:
        if one[0] == PINS_AND_FOCUS:
            return DetailView("Pins and focus", text=self._pinned)
        return self.reference_detail(one[0])

    def selected(self, one: _PromptRow) -> None:
        if one[0] == PINS_AND_FOCUS:
            self.action_whole()
        else:
            self.go_to(self.conversation_id, one[0])

    @in_background("plan")
    async def action_last_change(self) -> None:
        engine = self.access.engine
        found = await self.read(lambda: engine.surgery.diff(engine.browse.get(self.conversation_id)))
        text = diff_text(found.text) if found.entries else Text("This context was never compacted or changed.")
        self.app.push_screen(DetailDialog(DetailView("What the last change did"), text))


def _columns(item: PromptItem) -> tuple[Text, datetime | None, str]:
    row, form = item.row, "" if item.form == "verbatim" else f"({item.form}) "
    if isinstance(row, SummaryRow):
        return text_cell(f"depth {row.depth}", BLUE), row.earliest_at, f"{form}{row.content}"
    if row is None:
        return role_cell(""), None, form
    return role_cell(row.role), row.created_at, f"{form}{row.content or ', '.join(row.tools)}"


def _figures(found: PromptReport) -> Text:
    receipt, stored, threshold = found.receipt, found.decision.stored_tokens, found.decision.target_tokens
    full, kept = receipt.tokens / max(1, receipt.capacity), stored / max(1, threshold)
    over = "" if receipt.fits else ": too much"
    text = Text.assemble(
        "prompt   ",
        share_bar(full, _BAR, BLUE if receipt.fits else RED),
        f" {full:6.1%}  {receipt.tokens:,} of {receipt.capacity:,} tokens{over}\n",
        "context  ",
        share_bar(kept, _BAR, NOTICE if kept >= 1 else BLUE),
        f" {kept:6.1%}  {stored:,} of {threshold:,} until compaction",
    )
    lanes = []
    for name, share in receipt.shares.items():
        low, high = SHARE_TARGETS.get(name, (0.0, 0.0))
        target = f" (target {100 * low:.0f}–{high:.0%})" if high else ""
        lanes.append(f"{name} {share:.0%}{target}")
    text.append(f"\n{'   '.join(lanes)}", "dim")
    reasons = Counter(reason for _, reason in receipt.left_out)
    if found.not_read:
        reasons["older than anything that fits"] += found.not_read
    for reason, count in reasons.most_common(_REASONS):
        text.append(f"\n{plural(count, 'item')} left out: ", NOTICE).append(text_cell(reason))
    return text


_MAX_BRIEFS = 200


class FocusScreen(SurgeryScreen):
    """What was written for which question, and whether prompts have it."""

    COLUMNS = ("state", "tokens", "written", "question")
    LIST_TITLE = "Briefs"

    conversation_id: int
    _status: FocusStatus | None = None

    @in_background("read")
    async def load(self) -> None:
        def read() -> tuple[list[StoredBrief], FocusStatus | None]:
            engine, id_ = self.access.engine, self.conversation_id
            with engine.browse.reading():
                briefs = engine.browse.briefs(id_, _MAX_BRIEFS)
                return briefs, engine.surgery.focus_status(id_) if briefs else None

        briefs, self._status = await self.read_list(read)
        self.where(f"Focus of conversation {self.conversation_id}", plural(len(briefs), "brief"))
        hint = "Press n to write one; it replaces older summaries in prompts."
        self.show_rows({brief.id: brief for brief in briefs}, "There are no briefs.", hint)

    def cells(self, brief: StoredBrief) -> tuple[Cell, ...]:
        state = text_cell(brief.status, GREEN if brief.status == "active" else "dim")
        return state, right_cell(brief.tokens, 6), brief.created_at, brief.prompt

    def detail(self, brief: StoredBrief) -> DetailView:
        status = self._status
        facts = [
            ("question", brief.prompt),
            ("tokens", f"{brief.tokens:,}, aimed at {brief.target_tokens:,}"),
            ("covers", f"up to {self.lcm.times.minute(brief.covered_latest_at)}"),
        ]
        if status is not None and status.brief.id == brief.id:
            since = f"{plural(status.messages_since, 'message')}, {status.tokens_since:,} tokens"
            facts.append(("since", f"{since}{'; it is out of date' if status.is_stale else ''}"))
        if brief.error:
            facts.append(("failed", brief.error))
        return DetailView(f"{brief.id}  {brief.status}", tuple(facts), brief.content)

    @in_background("work")
    async def action_focus_on(self) -> None:
        dialog = InputDialog("A brief for which question?", "what is to be kept in mind")
        if (question := await self.app.push_screen_wait(dialog)) is not None:
            await self._propose_brief(question)

    @in_background("work")
    async def action_refocus(self) -> None:
        await self._propose_brief(None)

    async def _propose_brief(self, question: str | None) -> None:
        """Show what a brief would stand for; write it when that is wanted."""
        access = self.access
        plan = await self.read(lambda: access.engine.surgery.plan_focus(self.conversation_id, question))
        text = f"written by: {actions.writer_names(access)}\n{plan.text}"
        if await self.ask(f"Focus: {plan.prompt}", text, "Write the brief?") == "yes":
            self.tell("The brief is being written …")
            self._write_brief(plan)

    @in_background("brief")
    async def _write_brief(self, plan: FocusPlan) -> None:
        """Write a brief, also while something else is done here; use it when it was read."""
        made = await asyncio.to_thread(actions.write_brief, self.access, plan)
        await self.confirm(actions.plan_brief_use(plan, made))

    def action_unfocus(self) -> None:
        self.propose(lambda: actions.plan_unfocus(self.access.engine, self.conversation_id))
