"""What the model sees: the next prompt item by item with its sizes, and the focus briefs of a conversation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding

from lossless.context.choose import SHARE_TARGETS
from lossless.tui import reads
from lossless.tui.reads import DetailView
from lossless.tui.screens.dialogs import ConfirmDialog, InputDialog, TextDialog, diff_text
from lossless.tui.screens.page import TableScreen
from lossless.tui.screens.surgery import SurgeryScreen
from lossless.tui.text import NOTICE, format_count, plural, right_cell, role_cell, share_bar, text_cell

if TYPE_CHECKING:
    from datetime import datetime

    from textual.binding import BindingType

    from lossless.context.run import Receipt
    from lossless.engine import Engine
    from lossless.maintenance.surgery.common import ContextDiff
    from lossless.maintenance.surgery.focus import FocusDraft, FocusPlan, FocusStatus
    from lossless.model.records import StoredBrief
    from lossless.store.archive import Archive

#: What a receipt calls the pins and the focus brief.
PINS_AND_FOCUS = "pins and focus"


@dataclass(frozen=True, slots=True)
class PromptItem:
    """One item of the prompt: a message or a summary, in its form, or what stands beside them."""

    id: str
    form: str
    #: A role, or `depth 1`.
    what: str
    tokens: int
    at: datetime | None
    text: str

    @property
    def is_summary(self) -> bool:
        return self.id.startswith("sum_")


@dataclass(frozen=True, slots=True)
class LaneShare:
    """A lane's share of what there was to give, and what it aims at."""

    name: str
    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PromptView:
    """The next prompt of a conversation."""

    tokens: int
    capacity: int
    fits: bool
    #: Tokens of everything that stands in the context, and those from which on it is folded.
    stored_tokens: int
    threshold: int
    items: tuple[PromptItem, ...]
    lanes: tuple[LaneShare, ...]
    #: Why items stay out, and how many for that reason.
    left_out: tuple[tuple[str, int], ...]


def read_prompt(engine: Engine, conversation_id: int) -> PromptView:
    """What the model would see now; reads only."""
    from lossless.compaction.compactor import CompactionRequest

    archive = engine.archive
    with archive.reading():
        conversation = archive.conversations.get(conversation_id)
        receipt = engine.assemble(conversation, record=False).receipt
        decision = engine.loop.evaluate(CompactionRequest(conversation, engine.settings.default_token_budget))
        items = [*_pins_and_focus(archive, conversation_id, receipt), *_items(archive, receipt)]
        stored = archive.details.context_count(conversation_id)
    known = len(receipt.included) + sum(not id_.startswith("pin_") for id_, _ in receipt.left_out)
    reasons = Counter(reason for _, reason in receipt.left_out)
    if stored > known:
        reasons["older than anything that fits"] += stored - known
    lanes = [LaneShare(name, share, *SHARE_TARGETS.get(name, (0.0, 0.0))) for name, share in receipt.shares.items()]
    return PromptView(
        receipt.tokens,
        receipt.capacity,
        receipt.fits,
        decision.stored_tokens,
        decision.target_tokens,
        tuple(items),
        tuple(lanes),
        tuple(reasons.most_common()),
    )


def _pins_and_focus(archive: Archive, conversation_id: int, receipt: Receipt) -> list[PromptItem]:
    """Pins and the focus brief, which stand before everything else."""
    tokens = receipt.tokens_by_kind.get(PINS_AND_FOCUS, 0)
    if not tokens:
        return []
    brief, pins = archive.beside.active_brief(conversation_id), archive.beside.pins(conversation_id)
    pieces = [f"focus: {brief.prompt}\n\n{brief.content}"] if brief is not None else []
    pieces += [f"pinned: {pin.content or f'msg#{pin.message_id}'}" for pin in pins]
    return [
        PromptItem(
            PINS_AND_FOCUS, "verbatim", PINS_AND_FOCUS, tokens, brief.created_at if brief else None, "\n\n".join(pieces)
        )
    ]


def _items(archive: Archive, receipt: Receipt) -> list[PromptItem]:
    included = receipt.included
    numbers = [int(id_.removeprefix("msg#")) for id_, _ in included if id_.startswith("msg#")]
    names = [id_ for id_, _ in included if not id_.startswith("msg#")]
    found: dict[str, PromptItem] = {}
    for row in archive.listings.messages_by_id(numbers, whole=False):
        id_, text = f"msg#{row.message_id}", row.content or ", ".join(row.tools)
        found[id_] = PromptItem(id_, "", row.role, row.token_count, row.created_at, text)
    for summary in archive.listings.summaries_by_id(names, whole=False):
        id_, what = summary.summary_id, f"depth {summary.depth}"
        found[id_] = PromptItem(id_, "", what, summary.token_count, summary.earliest_at, summary.content)
    items = []
    for (id_, form), tokens in zip(included, receipt.sizes, strict=True):
        item = found.get(id_) or PromptItem(id_, "", "", 0, None, "")
        items.append(PromptItem(id_, form, item.what, tokens, item.at, item.text))
    return items


_BAR = 20
_ITEM_BAR = 10
_REASONS = 3


class ContextScreen(TableScreen, SurgeryScreen):
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
        self.reading(lambda: read_prompt(room.engine, id_), self._show)

    def _show(self, found: PromptView) -> None:
        count = sum(item.id != PINS_AND_FOCUS for item in found.items)
        self.where(f"Context of conversation {self.conversation_id}", plural(count, "item"))
        self.about(_figures(found))
        self._beside = "".join(item.text for item in found.items if item.id == PINS_AND_FOCUS)
        most = max((item.tokens for item in found.items), default=1) or 1
        self.rows.fill([(item.id, self._cells(item, most)) for item in found.items])

    def _cells(self, item: PromptItem, most: int) -> tuple[Text, ...]:
        form = "" if item.form == "verbatim" else f"({item.form}) "
        what = text_cell("beside", "magenta") if item.id == PINS_AND_FOCUS else role_cell(item.what)
        what = text_cell(item.what, "blue") if item.is_summary else what
        return (
            what,
            right_cell(item.tokens, 6),
            share_bar(item.tokens / most, _ITEM_BAR, "blue" if item.is_summary else "cyan"),
            text_cell(self.lcm.times.short(item.at), "dim"),
            text_cell(f"{form}{item.text}"),
        )

    def highlighted(self, key: str) -> None:
        archive, times = self.room.archive, self.lcm.times
        if key.startswith("msg#"):
            self.open_detail(lambda: reads.message_detail(archive, int(key.removeprefix("msg#")), times))
        elif key == PINS_AND_FOCUS:
            self.pane.show(reads.DetailView("Pins and focus", text=self._beside))
        else:
            self.open_detail(lambda: reads.summary_detail(archive, key, times))

    def selected(self, key: str) -> None:
        from lossless.tui.screens.conversations import ConversationScreen
        from lossless.tui.screens.summaries import SummariesScreen

        if key.startswith("msg#"):
            self.app.push_screen(ConversationScreen(self.conversation_id, int(key.removeprefix("msg#"))))
        elif key == PINS_AND_FOCUS:
            self.action_whole()
        else:
            self.app.push_screen(SummariesScreen(self.conversation_id, key))

    def action_summaries(self) -> None:
        from lossless.tui.screens.summaries import SummariesScreen

        self.app.push_screen(SummariesScreen(self.conversation_id))

    def action_undo(self) -> None:
        self.propose_undo(self.conversation_id)

    def action_last_change(self) -> None:
        from lossless.maintenance.surgery import common

        archive, id_ = self.room.archive, self.conversation_id
        self.fetch(lambda: common.diff_context(archive, id_), self._show_change, "plan")

    def _show_change(self, found: ContextDiff) -> None:
        text = diff_text(found.text) if found.entries else Text("This context was never folded or operated on.")
        self.app.push_screen(TextDialog("What the last change did", text))


def _figures(found: PromptView) -> Text:
    """The prompt against its room, the context against its threshold, and the lanes."""
    full, kept = found.tokens / max(1, found.capacity), found.stored_tokens / max(1, found.threshold)
    over = "" if found.fits else ": too much"
    text = Text.assemble(
        "prompt   ",
        share_bar(full, _BAR, "cyan" if found.fits else "red"),
        f" {full:6.1%}  {format_count(found.tokens)} of {format_count(found.capacity)} tokens{over}\n",
        "context  ",
        share_bar(kept, _BAR, NOTICE if kept >= 1 else "cyan"),
        f" {kept:6.1%}  {format_count(found.stored_tokens)} of {format_count(found.threshold)} until a fold",
    )
    lanes = "   ".join(f"{lane.name} {lane.share:.0%}{_aim(lane.low, lane.high)}" for lane in found.lanes)
    text.append(f"\n{lanes}", "dim")
    for reason, count in found.left_out[:_REASONS]:
        text.append(f"\n{plural(count, 'item')} left out: ", NOTICE).append(text_cell(reason))
    return text


def _aim(low: float, high: float) -> str:
    return f" (aims at {low:.0%}–{high:.0%})" if high else ""


_MOST = 200


class FocusScreen(TableScreen, SurgeryScreen):
    """What was written for which question, and whether it stands in prompts."""

    COLUMNS = ("state", "tokens", "written", "question")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "focus_on", "New focus"),
        Binding("R", "refocus", "Refocus"),
        Binding("d", "unfocus", "Unfocus"),
        Binding("u", "undo", "Undo"),
    ]

    def __init__(self, conversation_id: int) -> None:
        super().__init__()
        self.conversation_id: int = conversation_id
        self._found: dict[str, StoredBrief] = {}
        self._status: FocusStatus | None = None

    def load(self) -> None:
        archive, id_ = self.room.archive, self.conversation_id
        self.reading(lambda: _read_briefs(archive, id_), self._show)

    def _show(self, read: tuple[list[StoredBrief], FocusStatus | None]) -> None:
        briefs, self._status = read
        self._found = {brief.id: brief for brief in briefs}
        self.where(f"Focus of conversation {self.conversation_id}", plural(len(briefs), "brief"))
        self.rows.fill(
            [
                (
                    brief.id,
                    (
                        text_cell(brief.status, "green" if brief.status == "active" else "dim"),
                        right_cell(brief.tokens, 6),
                        text_cell(self.lcm.times.short(brief.created_at), "dim"),
                        text_cell(brief.prompt),
                    ),
                )
                for brief in briefs
            ]
        )
        if not briefs:
            self.pane.show(
                DetailView("There are no briefs.", text="n writes one for a question; it stands for older summaries.")
            )

    def highlighted(self, key: str) -> None:
        brief, status = self._found[key], self._status
        facts = [
            ("question", brief.prompt),
            ("tokens", f"{format_count(brief.tokens)}, aimed at {format_count(brief.target_tokens)}"),
            ("covers", f"up to {self.lcm.times.minute(brief.covered_latest_at)}"),
        ]
        if status is not None and status.brief.id == key:
            since = f"{plural(status.messages_since, 'message')}, {format_count(status.tokens_since)} tokens"
            facts.append(("since", f"{since}{'; it is out of date' if status.is_stale else ''}"))
        if brief.error:
            facts.append(("failed", brief.error))
        self.pane.show(DetailView(f"{brief.id}  {brief.status}", tuple(facts), brief.content))

    # --- keys ---

    def action_focus_on(self) -> None:
        self.app.push_screen(InputDialog("A brief for which question?", "what is to be kept in mind"), self._asked)

    def _asked(self, question: str | None) -> None:
        if question is not None:
            self._propose(question)

    def action_refocus(self) -> None:
        self._propose(None)

    def _propose(self, question: str | None) -> None:
        """Show what a brief would stand for; write it when that is wanted; use it when it was read."""
        from lossless.tui import actions

        room, id_ = self.room, self.conversation_id

        def planned() -> tuple[FocusPlan, str]:
            plan = actions.plan_focus(room, id_, question)
            return plan, actions.focus_preview(room, plan)

        def ask(found: tuple[FocusPlan, str]) -> None:
            plan, text = found
            self.app.push_screen(
                ConfirmDialog(f"Focus: {plan.prompt}", text, "Write the brief?"), partial(answered, plan)
            )

        def answered(plan: FocusPlan, word: str | None) -> None:
            if word == "yes":
                self.tell("The brief is being written …")
                self.fetch(lambda: actions.write_brief(room, plan), partial(self._drafted, plan), "work")

        self.fetch(planned, ask, "plan")

    def _drafted(self, plan: FocusPlan, made: FocusDraft) -> None:
        from lossless.tui import actions

        self.propose(lambda: actions.plan_brief_use(plan, made))

    def action_unfocus(self) -> None:
        from lossless.tui import actions

        archive, id_ = self.room.archive, self.conversation_id
        self.propose(lambda: actions.plan_unfocus(archive, id_))

    def action_undo(self) -> None:
        self.propose_undo(self.conversation_id)


def _read_briefs(archive: Archive, conversation_id: int) -> tuple[list[StoredBrief], FocusStatus | None]:
    from lossless.maintenance.surgery import focus
    from lossless.store.conversations import BriefRows

    with archive.reading():
        briefs = BriefRows(archive.database).newest(conversation_id, _MOST)
        return briefs, focus.focus_status(archive, conversation_id) if briefs else None
