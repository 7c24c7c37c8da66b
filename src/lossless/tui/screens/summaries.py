"""The graph of summaries as a tree: each opens into its sources, down to the messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from rich.text import Text
from textual.widgets import Tree

from lossless.model.records import MessageRow, SummaryRow
from lossless.tui import actions, reads
from lossless.tui.screens.dialogs import ConversationDialog
from lossless.tui.screens.page import bindings, in_background
from lossless.tui.screens.surgery import SurgeryScreen
from lossless.tui.text import BLUE, GREEN, NOTICE, ROLES, one_line, plural, share_bar

if TYPE_CHECKING:
    from textual.widgets.tree import TreeNode

    from lossless.maintenance.browse import Browse

#: So many summaries stand side by side, or messages below a leaf, before a row offers more.
BATCH = 200
_BAR = 6
#: Summaries begin with a time that the row has already.
_TIME = re.compile(r"\A\[\d{4}-[^\]\n]{0,30}\]\s*")
_FULL_TOKENS = 2_000


#: A row of the tree: the id of a summary, the id of a message, or None for an offer of more.
RowId: TypeAlias = str | int | None
#: What stands below a row: summaries or messages, which of them are in the context, and how many there are in all.
SummaryBranch: TypeAlias = "tuple[Sequence[SummaryRow | MessageRow], frozenset[str], int]"


class SummaryTree(Tree[RowId]):
    """The tree itself; keys for expanding are the screen's."""

    BINDINGS = bindings("list")


class SummariesScreen(SurgeryScreen):
    """Summaries of a conversation, oldest first: ● stands in the context, ○ is folded into another or out of it."""

    LIST_TITLE = "Summaries"
    conversation_id: int

    def __init__(self, conversation_id: int, summary_id: str | None = None) -> None:
        super().__init__(conversation_id)
        self._aim = summary_id

    def listing(self) -> SummaryTree:
        tree = SummaryTree("summaries", classes="list")
        tree.show_root, tree.auto_expand, tree.guide_depth = False, False, 2
        return tree

    @property
    def summaries(self) -> SummaryTree:
        return self.query_one(SummaryTree)

    def _tops(self) -> dict[str, TreeNode[RowId]]:
        return {node.data: node for node in self.summaries.root.children if isinstance(node.data, str)}

    @in_background("read")
    async def load(self) -> None:
        """Rows that are gone go, new ones come; the others stay as they are, open or not."""
        browse, here, count = self.access.browse, self.conversation_id, max(BATCH, len(self._tops()))
        rows, in_context, total = await self.read_list(lambda: read_top(browse, here, count))
        there, wanted = self._tops(), {row.summary_id: row for row in rows if isinstance(row, SummaryRow)}
        for node in list(self.summaries.root.children):
            if node.data not in wanted:
                node.remove()
        for place, (id_, row) in enumerate(wanted.items()):
            label = self._label(row, in_context)
            if (known := there.get(id_)) is not None:
                known.set_label(label)
            else:
                self.summaries.root.add(label, id_, before=place, allow_expand=True)
        self._offer_more(self.summaries.root, total)
        self.summaries.root.expand()
        shown = f"{len(in_context & wanted.keys()):,}"
        counted = f"{plural(total, 'top summary')}, {shown} in the context"
        self.where(f"Summaries of conversation {self.conversation_id}", counted)
        if not wanted:
            hint = f"`lcm compact -s {self.conversation_id}` folds its older messages now."
            self.pane.show(reads.DetailView("No summaries yet", text=hint))
        elif self._aim is not None:
            self._go_down(self._aim, set(wanted))
            self._aim = None
        elif self.summaries.cursor_line < 0:
            self.summaries.cursor_line = 0

    @in_background("path")
    async def _go_down(self, aim: str, tops: set[str]) -> None:
        browse, here = self.access.browse, self.conversation_id
        path = await self.read(lambda: read_path(browse, here, aim, tops))
        node = self.summaries.root
        for id_, branch in path:
            if node is not self.summaries.root:
                node.expand()
            if (child := next((child for child in node.children if child.data == id_), None)) is None:
                return
            node = child
            if id_ != path[-1][0] and not node.children:
                self._grow(node, branch)
        self.call_after_refresh(self.summaries.move_cursor, node)

    def on_tree_node_expanded(self, event: SummaryTree.NodeExpanded[RowId]) -> None:
        if isinstance(event.node.data, str) and not event.node.children:
            self._read_branch(event.node)

    @in_background("branch", exclusive=False)
    async def _read_branch(self, node: TreeNode[RowId]) -> None:
        browse, here, name, offset = self.access.browse, self.conversation_id, node.data, len(node.children)

        def read() -> SummaryBranch:
            if isinstance(name, str):
                return read_below(browse, here, name, offset)
            return read_top(browse, here, BATCH, offset)

        branch = await self.read(read)
        if len(node.children) == offset:  # it is read once, however often it was opened meanwhile
            self._grow(node, branch)

    def _grow(self, node: TreeNode[RowId], branch: SummaryBranch) -> None:
        rows, in_context, total = branch
        for row in rows:
            if isinstance(row, SummaryRow):
                node.add(self._label(row, in_context), row.summary_id, allow_expand=True)
            else:
                label = Text.assemble(
                    (f"msg#{row.message_id} ", "dim"),
                    (f"{row.role} ", ROLES.get(row.role, "")),
                    (f"{self.lcm.times.short(row.created_at)} ", "dim"),
                    one_line(row.content or ", ".join(row.tools), 120),
                    end="",
                )
                node.add_leaf(label, row.message_id)
        self._offer_more(node, total)

    def _offer_more(self, node: TreeNode[RowId], total: int) -> None:
        if (count := total - len(node.children)) > 0:
            node.add_leaf(Text(f"… {count:,} more", NOTICE), None)

    def _label(self, row: SummaryRow, in_context: frozenset[str]) -> Text:
        stands = row.summary_id in in_context
        style = "" if stands else "dim"
        return Text.assemble(
            ("● " if stands else "○ ", GREEN if stands else "dim"),
            (f"d{row.depth} ", BLUE),
            share_bar(row.token_count / _FULL_TOKENS, _BAR, BLUE if stands else "dim"),
            (f" {row.token_count:,} ", style),
            (f"{self.lcm.times.short(row.earliest_at)} ", "dim"),
            (one_line(_TIME.sub("", row.content), 120), style),
            end="",
        )

    def on_tree_node_highlighted(self, event: SummaryTree.NodeHighlighted[RowId]) -> None:
        if event.node.data is not None:
            self.open_detail(partial(self.reference_detail, event.node.data))

    def _need(self) -> str | None:
        node = self.summaries.cursor_node
        if node is not None and isinstance(node.data, str):
            return node.data
        self.tell("Choose a summary first.")
        return None

    def on_tree_node_selected(self, event: SummaryTree.NodeSelected[RowId]) -> None:
        if isinstance(event.node.data, int):
            self.go_to(self.conversation_id, event.node.data)
        else:
            self.action_expand()

    def action_expand(self) -> None:
        node = self.summaries.cursor_node
        if node is not None and isinstance(node.data, str):
            node.expand()
        elif node is not None and node.data is None and node.parent is not None:
            node.remove()  # the next rows take the place of the offer
            self._read_branch(node.parent)

    def action_collapse(self) -> None:
        """Close the row, or go to the one that it stands below."""
        node = self.summaries.cursor_node
        if node is not None and node.is_expanded and node.children:
            node.collapse()
        elif node is not None and node.parent is not None and node.parent is not self.summaries.root:
            self.summaries.move_cursor(node.parent)

    def action_top(self) -> None:
        self.summaries.cursor_line = 0

    def action_bottom(self) -> None:
        self.summaries.cursor_line = self.summaries.last_line

    @in_background("work")
    async def action_dissolve(self) -> None:
        engine, purge, answer = self.access.engine, False, "other"
        if (name := self._need()) is None:
            return
        while answer == "other":
            plan = await self.read(partial(engine.surgery.plan_dissolve, name, purge=purge))
            change = actions.plan_operation(f"Dissolve {name}", plan, "Put them back into the context?")
            answer = await self.confirm(change, "keep the summary" if purge else "delete the summary, too")
            purge = not purge

    def action_rewrite(self, subtree: bool) -> None:
        if (name := self._need()) is not None:
            id_ = self.conversation_id
            self.propose_rewriting(lambda: actions.plan_rewrite(self.access, name, id_, subtree=subtree))

    def action_repair(self) -> None:
        self.propose_rewriting(lambda: actions.plan_repair(self.access, self.conversation_id))

    @in_background("work")
    async def action_transplant(self) -> None:
        engine, source_id = self.access.engine, self.conversation_id
        dialog = ConversationDialog(f"Copy the summaries of conversation {source_id} to", source_id)
        if (target_id := await self.app.push_screen_wait(dialog)) is not None:
            plan = await self.read(partial(engine.surgery.plan_transplant, source_id, target_id))
            title = f"Transplant conversation {source_id} → {target_id}"
            question = f"Copy them to conversation {target_id}?"
            await self.confirm(actions.plan_operation(title, plan, question))

    def action_previous(self) -> None:
        if (name := self._need()) is None:
            return

        def read() -> reads.DetailView:
            text = self.access.engine.surgery.summary_source(name).previous_context
            nothing = "Nothing came before: the model gets only this part."
            return reads.DetailView(f"Previous context of {name}", text=text or nothing)

        self.open_dialog(read)

    def changed(self) -> None:
        """Texts and sources may be others: rows are read again."""
        self.summaries.clear()
        super().changed()


def read_top(browse: Browse, conversation_id: int, count: int, offset: int = 0) -> SummaryBranch:
    """Summaries in the context, and those that nothing was made of."""
    with browse.reading():
        tops = browse.top_summaries(conversation_id, count, offset)
        rows = browse.summaries_by_id(tops.ids, whole=False)
    return rows, tops.in_context, tops.total


def read_path(browse: Browse, conversation_id: int, summary_id: str, tops: set[str]) -> list[tuple[str, SummaryBranch]]:
    """The summaries from one at the top down to one that was folded into it, each with what it was made of."""
    path = [summary_id]
    with browse.reading():
        while path[0] not in tops and (users := browse.used_in(path[0])) and users[0] not in path:
            path.insert(0, users[0])
    return [(id_, read_below(browse, conversation_id, id_)) for id_ in path]


def read_below(browse: Browse, conversation_id: int, summary_id: str, offset: int = 0) -> SummaryBranch:
    """What a summary was made of."""
    with browse.reading():
        sources = browse.sources(summary_id)
        if sources:
            rows = browse.summaries_by_id(sources[offset : offset + BATCH], whole=False)
            return rows, browse.summaries_in_context(conversation_id, sources), len(sources)
        ids = browse.source_messages(summary_id)
        messages = browse.messages_by_id(ids[offset : offset + BATCH], whole=False)
    return messages, frozenset(), len(ids)
