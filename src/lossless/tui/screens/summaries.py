"""The graph of summaries as a tree: each opens into its sources, down to the messages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding
from textual.widgets import Tree

from lossless.tui import actions, reads
from lossless.tui.screens.dialogs import DetailDialog
from lossless.tui.screens.surgery import SurgeryScreen
from lossless.tui.text import BLUE, GREEN, NOTICE, ROLES, clip_text, format_count, one_line, plural, share_bar

if TYPE_CHECKING:
    from textual.binding import BindingType
    from textual.widgets.tree import TreeNode

    from lossless.maintenance.browse import Browse
    from lossless.model.records import MessageRow, SummaryRow
    from lossless.tui.text import LocalTimes

#: So many summaries stand side by side, or messages below a leaf, before a row offers more.
BATCH = 200
_BAR = 6
#: Summaries begin with a time that the row has already.
_TIME = re.compile(r"\A\[\d{4}-[^\]\n]{0,30}\]\s*")
_FULL_TOKENS = 2_000


@dataclass(frozen=True, slots=True)
class SummaryNode:
    """A row of the tree: a summary, a message, or an offer of more at an offset."""

    summary_id: str | None = None
    message_id: int | None = None
    more_from: int | None = None


@dataclass(frozen=True, slots=True)
class SummaryBranch:
    """What stands below a row: summaries or messages, and how many more there are."""

    summaries: tuple[SummaryRow, ...] = ()
    messages: tuple[MessageRow, ...] = ()
    in_context: frozenset[str] = frozenset()
    total: int = 0
    offset: int = 0


class SummaryTree(Tree[SummaryNode]):
    """The tree itself; keys for expanding are the screen's."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", "Down", show=False),
        Binding("k", "cursor_up", "Up", show=False),
    ]


class SummariesScreen(SurgeryScreen):
    """Summaries of a conversation, oldest first: ● stands in the context, ○ is folded into another or out of it."""

    LIST_TITLE = "Summaries"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", show=False),
        Binding("e", "recall", "Recall", show=False),
        Binding("y", "copy", "Copy", show=False),
        Binding("enter,l,right,space", "expand", "Open", key_display="⏎"),
        Binding("h,left", "collapse", "Close", show=False),
        Binding("r,w", "rewrite(False)", "Rewrite", key_display="r"),
        Binding("W", "rewrite(True)", "Rewrite all below", show=False),
        Binding("d", "dissolve", "Dissolve"),
        Binding("R", "repair", "Repair"),
        Binding("t", "transplant", "Transplant"),
        Binding("p", "previous", "Previous"),
        Binding("u", "undo", "Undo", show=False),
        Binding("c", "context", "Context", show=False),
        Binding("f5", "reload", "Reload", show=False),
    ]

    def __init__(self, conversation_id: int, summary_id: str | None = None) -> None:
        super().__init__()
        self.conversation_id: int = conversation_id
        #: Summaries to open on the way down to one that is to be chosen.
        self._path: list[str] = []
        self._aim = summary_id

    def listing(self) -> SummaryTree:
        tree = SummaryTree("summaries", classes="list")
        tree.show_root, tree.auto_expand, tree.guide_depth = False, False, 2
        return tree

    @property
    def summaries(self) -> SummaryTree:
        return self.query_one(SummaryTree)

    # --- the top ---

    def load(self) -> None:
        browse, id_ = self.access.browse, self.conversation_id
        count = max(BATCH, len(self._tops()))
        self.reading(lambda: read_top(browse, id_, count), self._show)

    def _tops(self) -> dict[str, TreeNode[SummaryNode]]:
        nodes = [(node.data, node) for node in self.summaries.root.children]
        return {data.summary_id: node for data, node in nodes if data is not None and data.summary_id is not None}

    def _show(self, branch: SummaryBranch) -> None:
        """Rows that are gone go, new ones come; the others stay as they are, open or not."""
        there, wanted = self._tops(), {row.summary_id for row in branch.summaries}
        for node in list(self.summaries.root.children):
            if node.data is None or node.data.summary_id not in wanted:
                node.remove()
        for place, row in enumerate(branch.summaries):
            label = self._label(row, branch.in_context)
            if (known := there.get(row.summary_id)) is not None:
                known.set_label(label)
            else:
                self.summaries.root.add(label, SummaryNode(row.summary_id), before=place, allow_expand=True)
        self._offer_more(self.summaries.root, branch)
        self.summaries.root.expand()
        standing = sum(row.summary_id in branch.in_context for row in branch.summaries)
        counted = f"{plural(branch.total, 'top summary', 'top summaries')}, {format_count(standing)} in the context"
        self.where(f"Summaries of conversation {self.conversation_id}", counted)
        if not branch.summaries:
            self.pane.show(reads.DetailView("Nothing of this conversation was summarised yet."))
        elif self._aim is not None:
            browse, aim, self._aim = self.access.browse, self._aim, None
            self.fetch(lambda: path_to(browse, aim, wanted), self._follow, "path")
        elif self.summaries.cursor_line < 0:
            self.summaries.cursor_line = 0

    def _follow(self, path: list[str]) -> None:
        self._path = path
        self._go_down(self.summaries.root)

    def _go_down(self, node: TreeNode[SummaryNode]) -> None:
        """Open row after row on the path; the last one is chosen."""
        below_it = {child.data.summary_id: child for child in node.children if child.data is not None}
        child = below_it.get(self._path[0]) if self._path else None
        if child is None:
            return
        self._path.pop(0)
        if not self._path:
            self.call_after_refresh(self.summaries.move_cursor, child)
        elif child.children:
            child.expand()
            self._go_down(child)
        else:
            child.expand()

    # --- branches ---

    def on_tree_node_expanded(self, event: SummaryTree.NodeExpanded[SummaryNode]) -> None:
        node = event.node
        if node.data is not None and node.data.summary_id is not None and not node.children:
            browse, id_, name = self.access.browse, self.conversation_id, node.data.summary_id
            self.fetch(lambda: read_below(browse, id_, name), partial(self._grow, node), f"below {name}")

    def _grow(self, node: TreeNode[SummaryNode], branch: SummaryBranch) -> None:
        for row in branch.summaries:
            node.add(self._label(row, branch.in_context), SummaryNode(row.summary_id), allow_expand=True)
        for message in branch.messages:
            node.add_leaf(_message_label(message, self.lcm.times), SummaryNode(message_id=message.message_id))
        self._offer_more(node, branch)
        self._go_down(node)

    def _offer_more(self, node: TreeNode[SummaryNode], branch: SummaryBranch) -> None:
        shown = branch.offset + len(branch.summaries) + len(branch.messages)
        if shown < branch.total:
            node.add_leaf(Text(f"… {branch.total - shown:,} more", NOTICE), SummaryNode(more_from=shown))

    def _more(self, node: TreeNode[SummaryNode], offset: int) -> None:
        """Put the next rows where the offer of more stands."""
        parent = node.parent
        if parent is None:
            return
        node.remove()
        browse, id_, name = self.access.browse, self.conversation_id, parent.data.summary_id if parent.data else None
        if name is None:
            self.fetch(lambda: read_top(browse, id_, BATCH, offset), partial(self._grow, parent), "more")
        else:
            self.fetch(lambda: read_below(browse, id_, name, offset), partial(self._grow, parent), "more")

    def _label(self, row: SummaryRow, in_context: frozenset[str]) -> Text:
        stands = row.summary_id in in_context
        style = "" if stands else "dim"
        return Text.assemble(
            ("● " if stands else "○ ", GREEN if stands else "dim"),
            (f"d{row.depth} ", BLUE),
            share_bar(row.token_count / _FULL_TOKENS, _BAR, BLUE if stands else "dim"),
            (f" {format_count(row.token_count)} ", style),
            (f"{self.lcm.times.short(row.earliest_at)} ", "dim"),
            (one_line(_TIME.sub("", row.content), 120), style),
            end="",
        )

    # --- the pane ---

    def on_tree_node_highlighted(self, event: SummaryTree.NodeHighlighted[SummaryNode]) -> None:
        if event.node.data is not None:
            self._detail(event.node.data)

    def _detail(self, node: SummaryNode) -> None:
        browse, times, name, number_ = self.access.browse, self.lcm.times, node.summary_id, node.message_id
        if name is not None:
            self.open_detail(lambda: reads.summary_detail(browse, name, times))
        elif number_ is not None:
            self.open_detail(lambda: reads.message_detail(browse, number_, times))

    # --- keys ---

    @property
    def _chosen(self) -> str | None:
        node = self.summaries.cursor_node
        return None if node is None or node.data is None else node.data.summary_id

    def _need(self) -> str | None:
        if self._chosen is None:
            self.tell("Choose a summary first.")
        return self._chosen

    def on_tree_node_selected(self, event: SummaryTree.NodeSelected[SummaryNode]) -> None:
        self._open(event.node)

    def action_expand(self) -> None:
        node = self.summaries.cursor_node
        if node is not None and node.data is not None and node.data.message_id is None:
            self._open(node)

    def _open(self, node: TreeNode[SummaryNode]) -> None:
        from lossless.tui.screens.conversations import ConversationScreen

        if node.data is None:
            return
        if node.data.more_from is not None:
            self._more(node, node.data.more_from)
        elif node.data.message_id is not None:
            self.app.push_screen(ConversationScreen(self.conversation_id, node.data.message_id))
        else:
            node.expand()

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

    def action_dissolve(self) -> None:
        if (name := self._need()) is not None:
            self.propose_dissolving(name)

    def action_rewrite(self, subtree: bool) -> None:
        if (name := self._need()) is not None:
            room, id_ = self.access, self.conversation_id
            self.propose_rewriting(lambda: actions.plan_rewrite(room, name, id_, subtree=subtree))

    def action_repair(self) -> None:
        room, id_ = self.access, self.conversation_id
        self.propose_rewriting(lambda: actions.plan_repair(room, id_))

    def action_transplant(self) -> None:
        self.propose_transplant(self.conversation_id)

    def action_previous(self) -> None:
        if (name := self._need()) is not None:
            room = self.access
            self.fetch(lambda: actions.previous_context(room, name), partial(self._show_previous, name), "plan")

    def _show_previous(self, name: str, text: str) -> None:
        shown = clip_text(text) if text else "Nothing came before: the model is told about this part alone."
        self.app.push_screen(DetailDialog(reads.DetailView(f"Previous context of {name}"), Text(shown)))

    def changed(self) -> None:
        """Texts and sources may be others: rows are read again."""
        self.summaries.clear()
        super().changed()


def read_top(browse: Browse, conversation_id: int, count: int, offset: int = 0) -> SummaryBranch:
    """Summaries in the context, and those that nothing was made of."""
    with browse.reading():
        tops = browse.top_summaries(conversation_id, count, offset)
        rows = browse.summaries_by_id(tops.ids, whole=False)
    return SummaryBranch(tuple(rows), (), tops.in_context, tops.total, offset)


def path_to(browse: Browse, summary_id: str, tops: set[str]) -> list[str]:
    """The summaries from one at the top down to one that was folded into it."""
    path = [summary_id]
    with browse.reading():
        while path[0] not in tops and (users := browse.used_in(path[0])) and users[0] not in path:
            path.insert(0, users[0])
    return path


def read_below(browse: Browse, conversation_id: int, summary_id: str, offset: int = 0) -> SummaryBranch:
    """What a summary was made of."""
    with browse.reading():
        sources = browse.sources(summary_id)
        if sources:
            rows = browse.summaries_by_id(sources[offset : offset + BATCH], whole=False)
            standing = browse.summaries_in_context(conversation_id, sources)
            return SummaryBranch(tuple(rows), (), standing, len(sources), offset)
        ids = browse.source_messages(summary_id)
        messages = browse.messages_by_id(ids[offset : offset + BATCH], whole=False)
    return SummaryBranch((), tuple(messages), frozenset(), len(ids), offset)


def _message_label(row: MessageRow, times: LocalTimes) -> Text:
    said = row.content or ", ".join(row.tools)
    return Text.assemble(
        (f"msg#{row.message_id} ", "dim"),
        (f"{row.role} ", ROLES.get(row.role, "")),
        (f"{times.short(row.created_at)} ", "dim"),
        one_line(said, 120),
        end="",
    )
