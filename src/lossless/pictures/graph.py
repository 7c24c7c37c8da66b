"""A graph of summaries as a picture that a person can read: SVG for eyes, DOT for other programs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

from lossless.pictures.layout import lay_out

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from lossless.pictures.layout import Box, Layout
    from lossless.store.outline import Shape

_EDGE, _LEFT, _TOP, _RIGHT, _BOTTOM = 24, 170, 84, 30, 44
_ROW, _BOX = 74, 30
#: A box of this width has room for its tokens.
_LABELLED = 36
_WORDS = 160
#: How wide a letter is at most, on average, and one of a script that needs twice the room; headings are larger.
_LETTER, _WIDE, _HEAD = 7.2, 12.6, 1.4
#: Inches in Graphviz: a box that has room for its words, and the box of the most tokens.
_DOT_LEAST, _DOT_MOST = 2.2, 6.0
#: What XML cannot hold, and what would turn the order of letters around.
_UNWRITABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)

_STYLE = """\
svg { background: #ffffff; font: 12px ui-sans-serif, system-ui, sans-serif; }
text { fill: #1f2430; } .dim { fill: #667085; } h1, .head { font-size: 16px; font-weight: 600; }
.in { fill: #2470d8; } .folded { fill: #cfd6e2; stroke: #8490a4; } g .in + text { fill: #ffffff; }
.edge { fill: none; stroke: #8490a4; }
@media (prefers-color-scheme: dark) {
  svg { background: #14171f; } text { fill: #e6e9f0; } .dim { fill: #97a1b3; }
  .in { fill: #4c97f5; } .folded { fill: #39414f; stroke: #6b778d; } g .in + text { fill: #0b0d12; }
  .edge { stroke: #6b778d; }
}
"""


@dataclass(frozen=True, slots=True)
class Graph:
    """The summaries of a conversation, who was made of whom, and their first words."""

    title: str
    shapes: tuple[Shape, ...]
    edges: tuple[tuple[str, str], ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)


def svg(graph: Graph) -> str:
    """The graph as an SVG document: depths as rows, width by tokens, in colour what stands in the context."""
    layout = lay_out(graph.shapes, graph.edges)
    heading = _heading(graph)
    left = round(max([_LEFT, *(2 * _EDGE + room(_total(row)) for row in layout.rows.values())]))
    words = max(_HEAD * room(graph.title), room(heading))
    width = round(max(left + layout.width + _RIGHT, 640, 2 * _EDGE + words))
    height = _TOP + _ROW * max(0, len(layout.rows) - 1) + _BOX + _BOTTOM
    tops = {depth: _TOP + _ROW * place for place, depth in enumerate(layout.rows)}
    pieces = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{_safe(graph.title)}">',
        f"<title>{_safe(graph.title)}</title>",
        f"<style>{_STYLE}</style>",
        _text(_EDGE, 30, graph.title, "head"),
        _text(_EDGE, 50, heading, "dim"),
        *_legend(width),
        *_edges(layout, tops, left),
    ]
    for depth, row in layout.rows.items():
        pieces += _row_label(depth, row, tops[depth])
        for box in row:
            pieces += _box(box, left + box.x, tops[depth], graph.words.get(box.shape.id, ""))
    pieces += _axis(layout, left, width, height - 20)
    return "\n".join([*pieces, "</svg>", ""])


def dot(graph: Graph) -> str:
    """The graph in the language of Graphviz."""
    lines = ["digraph summaries {", "  rankdir=TB; node [shape=box, style=filled, fontname=sans];"]
    lines.append(f"  label={_quoted(graph.title)}; labelloc=t;")
    most = max((shape.tokens for shape in graph.shapes), default=1) or 1
    for depth in sorted({shape.depth for shape in graph.shapes}, reverse=True):
        lines.append("  { rank=same;")
        for shape in graph.shapes:
            if shape.depth == depth:
                label = f"{shape.id}\ndepth {depth}, {shape.tokens:,} tokens"
                colour = "#8fbdf5" if shape.in_context else "#e3e7ee"
                tip = _quoted(_words(graph.words.get(shape.id, "")))
                size = _DOT_LEAST + (_DOT_MOST - _DOT_LEAST) * shape.tokens / most
                look = f"fillcolor={_quoted(colour)}, width={size:.2f}, tooltip={tip}"
                lines.append(f"    {_quoted(shape.id)} [label={_quoted(label)}, {look}];")
        lines.append("  }")
    lines += [f"  {_quoted(user)} -> {_quoted(source)};" for user, source in graph.edges]
    return "\n".join([*lines, "}", ""])


# --- pieces ------------------------------------------------------------------------------------------------------


def _heading(graph: Graph) -> str:
    if not graph.shapes:
        return "nothing was summarised yet"
    standing = [shape for shape in graph.shapes if shape.in_context]
    below = sum(shape.source_tokens for shape in graph.shapes if shape.depth == 0)
    noun = "summary" if len(graph.shapes) == 1 else "summaries"
    return (
        f"{len(graph.shapes):,} {noun} of {below:,} tokens of messages; {len(standing):,} in the context "
        f"with {sum(shape.tokens for shape in standing):,} tokens"
    )


def _legend(width: int) -> Iterator[str]:
    for at, kind, about in ((width - 250, "in", "in the context"), (width - 120, "folded", "folded")):
        yield f'<rect class="{kind}" x="{at}" y="60" width="14" height="12" rx="2"/>'
        yield _text(at + 20, 70, about, "dim")


def _row_label(depth: int, row: tuple[Box, ...], top: float) -> list[str]:
    name = "leaves" if depth == 0 else f"depth {depth}"
    return [_text(_EDGE, top + 13, name), _text(_EDGE, top + 28, _total(row), "dim")]


def _total(row: tuple[Box, ...]) -> str:
    return f"{len(row):,} · {sum(box.shape.tokens for box in row):,} tokens"


def _box(box: Box, x: float, top: float, words: str) -> list[str]:
    shape = box.shape
    span = f"{_minute(shape.earliest_at)} … {_minute(shape.latest_at)}"
    about = f"{shape.id}: depth {shape.depth}, {shape.tokens:,} tokens, {span}\n{_words(words)}"
    kind = "in" if shape.in_context else "folded"
    pieces = [
        "<g>",
        f"<title>{_safe(about)}</title>",
        f'<rect class="{kind}" x="{x:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{_BOX}" rx="3"/>',
    ]
    if box.width >= max(_LABELLED, room(f"{shape.tokens:,}")):
        pieces.append(
            f'<text x="{x + box.width / 2:.1f}" y="{top + 19:.1f}" text-anchor="middle">{shape.tokens:,}</text>'
        )
    return [*pieces, "</g>"]


def _edges(layout: Layout, tops: Mapping[int, float], left: float) -> Iterator[str]:
    for user, source in layout.edges:
        x, y = left + user.middle, tops[user.shape.depth] + _BOX
        to_x, to_y = left + source.middle, tops[source.shape.depth]
        bend = (y + to_y) / 2
        bow = f"C{x:.1f} {bend:.1f} {to_x:.1f} {bend:.1f} {to_x:.1f} {to_y:.1f}"
        yield f'<path class="edge" d="M{x:.1f} {y:.1f} {bow}"/>'


def _axis(layout: Layout, left: float, width: float, y: float) -> Iterator[str]:
    """When the first of the leaves was said, and some of the others: as many as there is room for."""
    row = list(layout.rows.values())[-1] if layout.rows else ()
    free = 0.0
    for box in row:
        x, words = left + box.x, _minute(box.shape.earliest_at)
        if box.shape.earliest_at is not None and free <= x <= width - room(words):
            yield _text(x, y, words, "dim")
            free = x + 190


def room(words: str) -> float:
    """How wide words are at most, in the letters of a picture."""
    return sum(_WIDE if east_asian_width(letter) in "WF" else _LETTER for letter in words)


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    name = f' class="{kind}"' if kind else ""
    return f'<text{name} x="{x:.0f}" y="{y:.0f}">{_safe(words)}</text>'


def _minute(moment: datetime | None) -> str:
    return "–" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def _words(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WORDS else line[: _WORDS - 1] + "…"


def _safe(text: str) -> str:
    return escape(_UNWRITABLE.sub("\ufffd", text))


def _quoted(text: str) -> str:
    plain = _UNWRITABLE.sub("\ufffd", text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{plain}"'
