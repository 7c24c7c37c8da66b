"""What a person sees of pictures: where one was written, and charts over time in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lossless.cli.screen import joined, number, plural, styled
from lossless.pictures.columns import columns, thinned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.cli.screen import Screen

Data = dict[str, Any]

_HEIGHT = 5
_BAR = 24
_MARGIN = 14
_LEAST = 2


def graph(screen: Screen, data: Data) -> None:
    """Where the picture is, and a small one of it."""
    screen.line(f"{plural(data['summaries'], 'summary', 'summaries')} drawn into ", styled(data["path"], "bold"))
    most = max((row["tokens"] for row in data["depths"]), default=1) or 1
    for row in data["depths"]:
        whole = max(1, round(_BAR * row["tokens"] / most))
        standing = min(whole, round(whole * row["tokensInContext"] / max(1, row["tokens"])))
        bars = joined(("█" * standing, "cyan"), ("█" * (whole - standing), "dim"))
        counts = f"{plural(row['summaries'], 'summary', 'summaries')}, {number(row['tokens'])} tokens"
        screen.line(f"  depth {row['depth']:<3} ", bars, f"  {counts}, {number(row['inContext'])} in the context")


def chart(screen: Screen, title: str, values: Sequence[float], ends: tuple[str, str], unit: str = "tokens") -> None:
    """Columns over time, with the largest value at the top of the axis; too few are no chart."""
    if len(values) < _LEAST:
        return
    shown = thinned(values, max(8, screen.width - _MARGIN))
    screen.gap()
    screen.line(styled(f"{title}, at most {number(round(max(values)))} {unit}", "dim"))
    for place, row in enumerate(columns(shown, _HEIGHT)):
        mark = number(round(max(values))) if place == 0 else "0" if place == _HEIGHT - 1 else ""
        screen.line(styled(f"{mark:>10} ", "dim"), styled(row, "cyan"))
    gap = " " * max(1, len(shown) - len(ends[0]) - len(ends[1]))
    screen.line(styled(f"{'':>10} {ends[0]}{gap}{ends[1]}", "dim"))


def context_history(screen: Screen, history: Sequence[Data]) -> None:
    """The size of a context before and after each change: how it grew, and how folds made it small again."""
    if len(history) < _LEAST:
        return
    values = [size for change in history for size in (change["tokensBefore"], change["tokensAfter"])]
    ends = (screen.date(history[0]["at"]), screen.date(history[-1]["at"]))
    chart(screen, f"Context before and after its last {plural(len(history), 'change')}", values, ends)


def cost_days(screen: Screen, days: Sequence[Data]) -> None:
    """What models read and wrote, and what folds took out of contexts, day by day."""
    if not days:
        return
    ends = (days[0]["day"], days[-1]["day"])
    used = [day["inputTokens"] + day["outputTokens"] for day in days]
    if any(used):
        chart(screen, "Tokens read and written by models, by day", used, ends)
    if any(day["savedTokens"] for day in days):
        chart(screen, "Tokens that folds took out of contexts, by day", [day["savedTokens"] for day in days], ends)


def screenshot(screen: Screen, data: Data) -> None:
    """Where the picture of the screen is."""
    screen.line("The screen is drawn into ", styled(data["path"], "bold"))
