"""Hosts that save room: they leave old words out, and the archive keeps them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.hosts_fuzz.host import Host, newest_user

if TYPE_CHECKING:
    from tests.hosts_fuzz.calls import Shown
    from tests.hosts_fuzz.world import Event


class LeavesOutToolRounds(Host):
    """Leaves out the tool rounds before its newest user message as it goes: they stay in the context."""

    kind = "leaves out tool rounds"
    tools = 0.6

    def view(self, path: list[Event]) -> list[Shown]:
        window = self.plain(path)
        newest = newest_user(window)
        return [one for place, one in enumerate(window) if place > newest or not _is_tool(one)]


class LeavesOutOnce(Host):
    """Leaves out some old tool rounds at one moment, for good: they stay in the context."""

    kind = "leaves out once"
    tools = 0.6

    def begin(self) -> None:
        super().begin()
        self.turn, self.gone = self.random.randint(1, 4), set[str]()

    def before(self, turn: int) -> None:
        if turn == self.turn:
            self.gone = {one.atoms[0] for one in self.plain(self.world.path) if _is_tool(one)}

    def view(self, path: list[Event]) -> list[Shown]:
        return [one for one in self.plain(path) if one.atoms[0] not in self.gone]


class StripsThinking(Host):
    """Shows thinking of its newest turn only: the row keeps it, as with every reduction."""

    kind = "strips thinking"

    def view(self, path: list[Event]) -> list[Shown]:
        window = self.plain(path)
        newest = newest_user(window)
        return [one if place > newest else _thoughtless(one) for place, one in enumerate(window)]


class CutsResults(Host):
    """Cuts old results, with a mark that hosts are known to write: a version, and the row stays whole."""

    kind = "cuts results"
    tools = 0.6

    def begin(self) -> None:
        super().begin()
        self.mark = self.random.choice(
            ("[... {} more characters truncated]", "[truncated]", "\n...[{} characters truncated]...")
        )
        self.size = self.random.choice((20, 60, 200))

    def view(self, path: list[Event]) -> list[Shown]:
        window = self.plain(path)
        newest = newest_user(window)
        return [one if place > newest else self._cut(one) for place, one in enumerate(window)]

    def _cut(self, one: Shown) -> Shown:
        text = one.words.text
        if one.words.role != "tool" or len(text) <= self.size + 40:
            return one
        cut = text[: self.size] + "\n" + self.mark.format(len(text) - self.size)
        return one.saying(replace(one.words, text=cut), reduced=True)


class ClearsResults(Host):
    """Shows a placeholder for each old result, one that hosts are known to write: a version, the row stays whole."""

    kind = "clears results"
    tools = 0.6
    text = "[Old tool result content cleared]"

    def view(self, path: list[Event]) -> list[Shown]:
        window = self.plain(path)
        old = [place for place in range(newest_user(window)) if window[place].words.role == "tool"]
        for place in self.cleared(old, window):
            window[place] = window[place].saying(replace(window[place].words, text=self.text), reduced=True)
        return window

    def cleared(self, old: list[int], window: list[Shown]) -> list[int]:
        return old


class OwnPlaceholder(ClearsResults):
    """Shows one text of its own for several different results: that is evidence enough for a reduction."""

    kind = "own placeholder"
    text = "(left out by the agent)"

    def cleared(self, old: list[int], window: list[Shown]) -> list[int]:
        return old if len({window[place].words.text for place in old}) > 1 else []


def _is_tool(one: Shown) -> bool:
    return bool(one.words.calls) or one.words.role == "tool"


def _thoughtless(one: Shown) -> Shown:
    return one.saying(replace(one.words, thinking=""), reduced=True) if one.words.thinking else one
