"""`lcm graph` and `lcm tui`, and the charts of other commands: the graph of summaries as SVG or DOT, the archive on the
whole screen or as a picture of it, and columns over time for a terminal.
"""

from __future__ import annotations

import errno
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, TypeAlias
from unicodedata import east_asian_width

import click

from lossless.cli import failures, options
from lossless.cli.commands import Invocation, command, read_text
from lossless.cli.screen import Data, Screen, preview, styled
from lossless.errors import ArchiveError
from lossless.transfer.files import check_free, resolve_target, writing_file
from lossless.tui.text import plural

if TYPE_CHECKING:
    from lossless.cli.options import ConversationTarget
    from lossless.model.records import SummaryShape

_STEPS = " ▁▂▃▄▅▆▇█"


def column_chart(values: Sequence[float], height: int = 5) -> list[str]:
    """One column for each value, the largest as high as the chart; the top line first.

    >>> column_chart([1, 2, 4], 1)
    ['▂▄█']
    >>> column_chart([0, 8, 16], 2)
    ['  █', ' ██']
    """
    highest = max(values, default=0)
    # what is there is never invisible
    eighths = [max(1, round(value / highest * height * 8)) if value > 0 < highest else 0 for value in values]
    return [
        "".join(_STEPS[min(8, max(0, eighth - 8 * below))] for eighth in eighths) for below in reversed(range(height))
    ]


def downsample(values: Sequence[float], width: int) -> list[float]:
    """At most `width` values: neighbours become one, the largest of them.

    >>> downsample([1, 5, 2, 3], 2)
    [5, 3]
    """
    if len(values) <= width:
        return list(values)
    edges = [round(n * len(values) / width) for n in range(width + 1)]
    return [max(values[first:last]) for first, last in pairwise(edges)]


#: Pixels: how wide all leaves together would like to be, how narrow one may get, and what lies between neighbours.
_WANTED_WIDTH = 1_100
_LEAST_WIDTH = 9
_GAP = 3


@dataclass(frozen=True, slots=True)
class SummaryBox:
    """A summary's place: its left edge and its width, in pixels from the left edge of the graph."""

    shape: SummaryShape
    x: float
    width: float

    @property
    def end(self) -> float:
        return self.x + self.width


#: Rows of boxes by depth, from the deepest down to the leaves.
BoxRows: TypeAlias = "Mapping[int, tuple[SummaryBox, ...]]"


def layout_graph(
    shapes: Sequence[SummaryShape], edges: Iterable[tuple[str, str]]
) -> tuple[BoxRows, list[tuple[SummaryBox, SummaryBox]], float]:
    """Rows of boxes, pairs of a box and one that it was made of, and the width of all.

    Leaves are in their order in time, everything else over the middle of what it was made of; no two overlap.
    """
    sources: defaultdict[str, list[str]] = defaultdict(list)
    for user, source in edges:
        sources[user].append(source)
    by_depth: defaultdict[int, list[SummaryShape]] = defaultdict(list)
    for shape in _in_order(shapes, sources):
        by_depth[shape.depth].append(shape)
    first = by_depth.get(min(by_depth, default=0), [])
    scale = _WANTED_WIDTH / max(1, sum(shape.tokens for shape in first))
    placed: dict[str, SummaryBox] = {}
    rows: dict[int, tuple[SummaryBox, ...]] = {}
    for depth in sorted(by_depth):
        row = _row(by_depth[depth], sources, placed, scale)
        placed |= {box.shape.id: box for box in row}
        rows[depth] = tuple(row)
    lines = [
        (placed[user], placed[source])
        for user, found in sources.items()
        for source in found
        if user in placed and source in placed
    ]
    width = max((box.end for box in placed.values()), default=0.0)
    return {depth: rows[depth] for depth in sorted(rows, reverse=True)}, lines, width


def _in_order(shapes: Sequence[SummaryShape], sources: Mapping[str, Sequence[str]]) -> list[SummaryShape]:
    """What belongs to one summary stands together; those at the top are in the order of time."""
    known = {shape.id: shape for shape in shapes}
    below = {source for found in sources.values() for source in found}
    tops = [shape for shape in shapes if shape.id not in below]
    tops.sort(key=lambda shape: (shape.earliest_at is None, shape.earliest_at or shape.id))
    order: dict[str, SummaryShape] = {}
    todo = [shape.id for shape in reversed([*tops, *shapes])]
    while todo:
        id_ = todo.pop()
        if id_ in known and id_ not in order:
            order[id_] = known[id_]
            todo += reversed(sources.get(id_, ()))
    return list(order.values())


def _row(
    shapes: Sequence[SummaryShape], sources: Mapping[str, Sequence[str]], placed: Mapping[str, SummaryBox], scale: float
) -> list[SummaryBox]:
    """The boxes of one depth: each where it would like to be, or to the right of its neighbour."""
    wishes = []
    for place, shape in enumerate(shapes):
        below = [placed[id_] for id_ in sources.get(shape.id, ()) if id_ in placed]
        middle = (min(box.x for box in below) + max(box.end for box in below)) / 2 if below else None
        wishes.append((middle if middle is not None else float("inf") if placed else 0.0, place, shape))
    boxes: list[SummaryBox] = []
    at = 0.0
    for middle, _, shape in sorted(wishes, key=lambda wish: wish[:2]):
        width = max(_LEAST_WIDTH, shape.tokens * scale)
        x = at if middle == float("inf") else max(at, middle - width / 2)
        boxes.append(SummaryBox(shape, x, width))
        at = x + width + _GAP
    return boxes


_EDGE, _LEFT, _TOP, _RIGHT, _BOTTOM = 24, 170, 84, 30, 44
_ROW, _BOX = 74, 30
#: A box of this width has room for its tokens.
_LABELLED = 36
#: How wide a letter is at most, on average, and one of a script that needs twice the room; headings are larger.
_LETTER, _WIDE, _HEAD = 7.2, 12.6, 1.4
#: Inches in Graphviz: a box that has room for its words, and the box of the most tokens.
_DOT_LEAST, _DOT_MOST = 2.2, 6.0
#: What XML cannot hold, and what would turn the order of letters around.
_UNWRITABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


@dataclass(frozen=True, slots=True)
class SummaryGraph:
    """The summaries of a conversation, who was made of whom, and their first words."""

    title: str
    shapes: tuple[SummaryShape, ...]
    edges: tuple[tuple[str, str], ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)


def graph_svg(graph: SummaryGraph) -> str:
    """The graph as an SVG document: depths as rows, width by tokens, in colour what stands in the context."""
    rows, edges, full_width = layout_graph(graph.shapes, graph.edges)
    heading = _heading(graph)
    margin = round(max([_LEFT, *(2 * _EDGE + text_width(_total(row)) for row in rows.values())]))
    words = max(_HEAD * text_width(graph.title), text_width(heading))
    width = round(max(margin + full_width + _RIGHT, 640, 2 * _EDGE + words))
    height = _TOP + _ROW * max(0, len(rows) - 1) + _BOX + _BOTTOM
    tops = {depth: _TOP + _ROW * place for place, depth in enumerate(rows)}
    pieces = []
    for user, source in edges:
        x, y = margin + (user.x + user.end) / 2, tops[user.shape.depth] + _BOX
        to_x, to_y = margin + (source.x + source.end) / 2, tops[source.shape.depth]
        bend = (y + to_y) / 2
        bow = f"C{x:.1f} {bend:.1f} {to_x:.1f} {bend:.1f} {to_x:.1f} {to_y:.1f}"
        pieces.append(f'<path class="edge" d="M{x:.1f} {y:.1f} {bow}"/>')
    for depth, row in rows.items():
        top = tops[depth]
        name = "leaves" if depth == 0 else f"depth {depth}"
        pieces += [_text(_EDGE, top + 13, name), _text(_EDGE, top + 28, _total(row), "dim")]
        for box in row:
            pieces += _box(box, margin + box.x, tops[depth], graph.words.get(box.shape.id, ""))
    pieces += _axis(rows, margin, width, height - 20)
    texts = {"title": _safe(graph.title), "heading": _safe(heading), "pieces": "\n".join(pieces)}
    legend = {"legend": width - 250, "legend_words": width - 230, "folded": width - 120, "folded_words": width - 100}
    return Template(read_text("graph.svg")).substitute(texts, **legend, width=width, height=height)


def graph_dot(graph: SummaryGraph) -> str:
    """The graph in the language of Graphviz."""
    lines = ["digraph summaries {", "  rankdir=TB; node [shape=box, style=filled, fontname=sans];"]
    lines.append(f"  label={_quoted(graph.title)}; labelloc=t;")
    largest = max((shape.tokens for shape in graph.shapes), default=1) or 1
    for depth in sorted({shape.depth for shape in graph.shapes}, reverse=True):
        lines.append("  { rank=same;")
        for shape in graph.shapes:
            if shape.depth == depth:
                label = f"{shape.id}\ndepth {depth}, {shape.tokens:,} tokens"
                colour = "#8fbdf5" if shape.in_context else "#e3e7ee"
                tip = _quoted(preview(graph.words.get(shape.id, "")))
                size = _DOT_LEAST + (_DOT_MOST - _DOT_LEAST) * shape.tokens / largest
                look = f"fillcolor={_quoted(colour)}, width={size:.2f}, tooltip={tip}"
                lines.append(f"    {_quoted(shape.id)} [label={_quoted(label)}, {look}];")
        lines.append("  }")
    lines += [f"  {_quoted(user)} -> {_quoted(source)};" for user, source in graph.edges]
    return "\n".join([*lines, "}", ""])


def _heading(graph: SummaryGraph) -> str:
    if not graph.shapes:
        return "nothing was summarised yet"
    in_context = [shape for shape in graph.shapes if shape.in_context]
    below = sum(shape.source_tokens for shape in graph.shapes if shape.depth == 0)
    counted = f"{plural(len(graph.shapes), 'summary')} of {below:,} tokens of messages"
    tokens = sum(shape.tokens for shape in in_context)
    return f"{counted}; {len(in_context):,} in the context with {tokens:,} tokens"


def _total(row: tuple[SummaryBox, ...]) -> str:
    return f"{len(row):,} · {sum(box.shape.tokens for box in row):,} tokens"


def _box(box: SummaryBox, x: float, top: float, words: str) -> list[str]:
    shape = box.shape
    span = f"{_minute(shape.earliest_at)} … {_minute(shape.latest_at)}"
    about = f"{shape.id}: depth {shape.depth}, {shape.tokens:,} tokens, {span}\n{preview(words)}"
    kind = "in" if shape.in_context else "folded"
    pieces = [
        "<g>",
        f"<title>{_safe(about)}</title>",
        f'<rect class="{kind}" x="{x:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{_BOX}" rx="3"/>',
    ]
    if box.width >= max(_LABELLED, text_width(f"{shape.tokens:,}")):
        pieces.append(
            f'<text x="{x + box.width / 2:.1f}" y="{top + 19:.1f}" text-anchor="middle">{shape.tokens:,}</text>'
        )
    return [*pieces, "</g>"]


def _axis(rows: BoxRows, margin: float, width: float, y: float) -> Iterator[str]:
    """When the first of the leaves was said, and some of the others: as many as there is room for."""
    row = list(rows.values())[-1] if rows else ()
    free = 0.0
    for box in row:
        x, words = margin + box.x, _minute(box.shape.earliest_at)
        if box.shape.earliest_at is not None and free <= x <= width - text_width(words):
            yield _text(x, y, words, "dim")
            free = x + 190


def text_width(words: str) -> float:
    """How wide words are at most, in the letters of a picture."""
    return sum(_WIDE if east_asian_width(letter) in "WF" else _LETTER for letter in words)


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    name = f' class="{kind}"' if kind else ""
    return f'<text{name} x="{x:.0f}" y="{y:.0f}">{_safe(words)}</text>'


def _minute(moment: datetime | None) -> str:
    return "–" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def _safe(text: str) -> str:
    return escape(_UNWRITABLE.sub("\ufffd", text))


def _quoted(text: str) -> str:
    plain = _UNWRITABLE.sub("\ufffd", text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{plain}"'


def check_chart_path(file: Path, archive: str, *, overwrite: bool) -> None:
    """Raises when a picture may not be written there; what is no file, such as a pipe, may be written to."""
    if not _is_special(file):
        check_free(resolve_target(file), overwrite=overwrite, source=archive)
        if not file.parent.is_dir():
            raise _not_written(file, FileNotFoundError(errno.ENOENT, "No such folder"))


def write_chart(file: Path, text: str, archive: str, *, overwrite: bool) -> None:
    """Put a picture in its place, whole or not at all; what is no file, such as a pipe, is written to."""
    try:
        if _is_special(file):
            file.write_text(text, encoding="utf-8")
            return
        with writing_file(file, overwrite=overwrite, source=archive, is_private=False) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except (OSError, ArchiveError) as error:
        raise _not_written(file, error) from None


def _is_special(file: Path) -> bool:
    return file.exists() and not file.is_file() and not file.is_dir()


def _not_written(file: Path, error: Exception) -> failures.CommandFailed:
    message = f"{file} cannot be written: {error.strerror}." if isinstance(error, OSError) else f"{error}."
    return failures.fail("not_written", message, path=str(file))


_LANGUAGES = {"svg": graph_svg, "dot": graph_dot}
_SUFFIXES = {".svg": "svg", ".dot": "dot", ".gv": "dot"}


@command("graph")
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@options.target_options()
@click.option("--as", "language", type=click.Choice(list(_LANGUAGES)), help="What to write; else by the file's name.")
@options.overwrite
def graph(
    invocation: Invocation, file: Path, target: ConversationTarget, language: str | None, overwrite: bool
) -> None:
    """Draw the summaries of a conversation as FILE: an SVG picture, or DOT for Graphviz; - is standard output."""
    suffix = file.suffix.lower()  # a name without an ending is an SVG picture's
    if not language and suffix and suffix not in _SUFFIXES:
        known = ", ".join(_SUFFIXES)
        raise options.bad_option("FILE", f"{suffix} is no ending of a picture here: end it in {known}, or give --as")
    language = language or _SUFFIXES.get(suffix, "svg")
    if str(file) != "-":
        check_chart_path(file, invocation.file_path, overwrite=overwrite)
    with invocation.reader() as engine, engine.browse.reading():
        conversation = target.need(engine)
        title = f"Conversation {conversation.id}: {conversation.session_key or conversation.session_id}"
        shapes, edges, beginnings = engine.browse.graph(conversation.id)
        drawn = SummaryGraph(title, tuple(shapes), tuple(edges), beginnings)
    text = _LANGUAGES[language](drawn)
    if str(file) == "-":
        click.echo(text.encode(), nl=False)
        return
    write_chart(file, text, invocation.file_path, overwrite=overwrite)
    data: Data = _graph_json(drawn, conversation.id, file, language)
    if screen := invocation.answer("graph", data):
        screen.line(f"{plural(data['summaries'], 'summary')} drawn into ", styled(data["path"], "bold"))
        screen.record({"depths": data["depths"]})


def _graph_json(drawn: SummaryGraph, conversation_id: int, file: Path, language: str) -> Data:
    rows = []
    for depth in sorted({shape.depth for shape in drawn.shapes}, reverse=True):
        here = [shape for shape in drawn.shapes if shape.depth == depth]
        in_context = [shape for shape in here if shape.in_context]
        rows.append(
            {
                "depth": depth,
                "summaries": len(here),
                "tokens": sum(shape.tokens for shape in here),
                "inContext": len(in_context),
                "tokensInContext": sum(shape.tokens for shape in in_context),
            }
        )
    counts = {"summaries": len(drawn.shapes), "edges": len(drawn.edges), "depths": rows}
    return {"conversationId": conversation_id, "path": str(file), "language": language, **counts}


_HEIGHT = 5
_MARGIN = 14
_LEAST = 2


def print_column_chart(screen: Screen, title: str, values: Sequence[float], ends: tuple[str, str]) -> None:
    if len(values) < _LEAST:
        return
    shown = downsample(values, max(8, screen.width - _MARGIN))
    screen.gap()
    screen.note(f"{title}, at most {round(max(values)):,} tokens")
    for place, row in enumerate(column_chart(shown, _HEIGHT)):
        mark = f"{round(max(values)):,}" if place == 0 else "0" if place == _HEIGHT - 1 else ""
        screen.line(styled(f"{mark:>10} ", "dim"), styled(row, "cyan"))
    gap = " " * max(1, len(shown) - len(ends[0]) - len(ends[1]))
    screen.note(f"{'':>10} {ends[0]}{gap}{ends[1]}")


def print_context_history(screen: Screen, history: Sequence[Data]) -> None:
    if len(history) < _LEAST:
        return
    values = [size for change in history for size in (change["tokensBefore"], change["tokensAfter"])]
    ends = (screen.date(history[0]["at"]), screen.date(history[-1]["at"]))
    print_column_chart(screen, f"Context before and after its last {plural(len(history), 'change')}", values, ends)


def print_cost_days(screen: Screen, days: Sequence[Data]) -> None:
    charts = {
        "Tokens read and written by models, by day": [day["inputTokens"] + day["outputTokens"] for day in days],
        "Tokens that folds took out of contexts, by day": [day["savedTokens"] for day in days],
    }
    for title, values in charts.items():
        if any(values):
            print_column_chart(screen, title, values, (days[0]["day"], days[-1]["day"]))


@command("tui")
@options.folder("--sessions", "A folder with a host's session files; else those of OpenClaw's agents are found.")
@options.file(
    "--screenshot", "Write a picture (SVG) of the screen instead of opening it; this needs no terminal.", "FILE"
)
@click.option("--press", metavar="KEYS", default="", help="With --screenshot: keys to press before, such as enter,s.")
@options.overwrite
@options.flag("--read-only", help="Allow no changes.")
def tui(
    invocation: Invocation, sessions: Path | None, screenshot: Path | None, press: str, overwrite: bool, read_only: bool
) -> None:
    """Browse conversations, summaries and contexts at a terminal, and change them after a preview."""
    if (press or overwrite) and screenshot is None:
        raise options.usage_error(f"{'--press' if press else '--overwrite'} goes with --screenshot.")
    failures.need_extra("tui", "The terminal interface needs the package textual.", "textual")
    invocation.reader().close()
    if screenshot is None and not failures.is_at_terminal():
        hint = "Programs read the same with `lcm conversations`, `lcm summaries` and `lcm context`."
        raise failures.fail("no_terminal", "This needs a terminal.", hint=hint)
    if screenshot is not None:
        check_chart_path(screenshot, invocation.file_path, overwrite=overwrite)
    from lossless.settings.load import ProcessEnvironment
    from lossless.tui.app import TerminalApp
    from lossless.tui.archive import ArchiveAccess
    from lossless.tui.session_files import find_session_folders

    places = ProcessEnvironment.of(openclaw_dir=invocation.openclaw_dir)
    codex = Path(places.variable("CODEX_HOME") or places.home / ".codex")
    folders = (sessions,) if sessions else find_session_folders(places.state_dir, codex)
    settings = invocation.loaded.settings
    access = ArchiveAccess(invocation.file_path, settings, folders=folders, codex=codex, read_only=read_only)
    with closing(access):
        app = TerminalApp(access, sessions)
        picture = app.run() or "" if screenshot is None else app.pictured([key for key in press.split(",") if key])
    if app.return_code:
        raise click.exceptions.Exit(failures.INTERNAL)
    if screenshot is not None:
        write_chart(screenshot, picture, invocation.file_path, overwrite=overwrite)
        invocation.answer("tui", {"path": str(screenshot)}, view="The screen is drawn into {path}")
