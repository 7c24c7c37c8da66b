"""One picture of all runs: tokens of each request, and whether a summary stands in it for what it leaves out."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.hosts.figures import Run

#: Colours that can be told apart and read on white and on black.
WHOLE, SUMMARY, EVIDENCE, BARE, LIMIT, INK = "#8c959f", "#2da44e", "#8250df", "#e5534b", "#d4a72c", "#808890"
_LEGEND = (
    (WHOLE, "everything is shown"),
    (SUMMARY, "a summary stands for what is left out"),
    (EVIDENCE, "a summary and evidence"),
    (BARE, "turns are left out and nothing stands for them"),
)
_WIDTH, _HEIGHT, _COLUMNS, _TOP = 310, 170, 3, 70
_LEFT, _RIGHT, _UP, _DOWN = 44, 12, 34, 14


#: A panel of a picture: what is in it, its host and its budget.
_PANEL = re.compile(r'<g transform="[^"]*">\n((?s:.*?font-weight="600" font-size="12">(.*?)<.*?"end">(.*?)<.*?))\n</g>')


def draw(runs: Sequence[Run], before: str = "", order: Sequence[str] = ()) -> str:
    """The picture as SVG. What was not run anew stays as it was in the picture `before`."""
    panels = {(host, budget): panel for panel, host, budget in _PANEL.findall(before)}
    panels |= {(escape(run.host), thousands(run.budget)): draw_panel(run) for run in runs}
    if order:
        panels = dict(sorted(panels.items(), key=lambda item: order.index(item[0][0])))
    rows = -(-len(panels) // _COLUMNS)
    width, height = _COLUMNS * _WIDTH, _TOP + rows * _HEIGHT
    made = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'font-family="system-ui, sans-serif" font-size="11" fill="{INK}">',
        "<title>Tokens of each request that reached the model, host by host</title>",
        '<text x="10" y="18" font-size="14" font-weight="600">Tokens of each request that reached the model</text>',
    ]
    for n, (colour, text) in enumerate(_LEGEND):
        x, y = 14 + n % 2 * _WIDTH, 34 + n // 2 * 16
        made.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"/><text x="{x + 9}" y="{y + 4}">{text}</text>')
    x = 14 + 2 * _WIDTH
    made.append(f'<path d="M{x} 34h18" stroke="{LIMIT}" stroke-width="2"/><text x="{x + 24}" y="38">the budget</text>')
    for n, panel in enumerate(panels.values()):
        left, top = n % _COLUMNS * _WIDTH, _TOP + n // _COLUMNS * _HEIGHT
        made += [f'<g transform="translate({left} {top})">', panel, "</g>"]
    return "\n".join([*made, "</svg>\n"])


def thousands(tokens: int) -> str:
    return f"{tokens / 1000:.0f}k"


def draw_panel(run: Run) -> str:
    """One host."""
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _UP - _DOWN
    most = 1.08 * max(run.budget, run.largest, 1)

    def y(tokens: float) -> float:
        return round(_UP + high * (1 - tokens / most), 1)

    share = f"{run.with_summary} of {run.left_out} with a summary" if run.left_out else "nothing left out"
    made = [
        f'<text x="10" y="14" font-weight="600" font-size="12">{escape(run.host)}</text>',
        f'<text x="10" y="27">{escape(share)}, largest {run.largest / 1000:.1f}k</text>',
        f'<path d="M{_LEFT} {_UP}v{high}h{wide}" fill="none" stroke="{INK}" stroke-opacity=".5"/>',
        f'<path d="M{_LEFT} {y(run.budget)}h{wide}" stroke="{LIMIT}" stroke-width="1.5"/>',
        f'<text x="{_LEFT - 4}" y="{y(run.budget) + 4}" text-anchor="end">{thousands(run.budget)}</text>',
        f'<text x="{_LEFT - 4}" y="{_UP + high}" text-anchor="end">0</text>',
    ]
    step = wide / max(1, len(run.points))
    for n, (tokens, has_summary, has_evidence, left_out) in enumerate(run.points):
        colour = (EVIDENCE if has_evidence else SUMMARY) if has_summary else BARE if left_out else WHOLE
        made.append(f'<circle cx="{_LEFT + (n + 0.5) * step:.1f}" cy="{y(tokens)}" r="2" fill="{colour}"/>')
    return "\n".join(made)
