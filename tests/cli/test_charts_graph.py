"""Pictures of graphs: nothing overlaps, nothing is missing, and no text breaks them."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from lossless.cli.charts import SummaryGraph, column_chart, downsample, graph_dot, graph_svg, layout_graph, text_width
from lossless.model.records import SummaryShape

START = datetime(2026, 1, 5, tzinfo=UTC)
SPACE = "{http://www.w3.org/2000/svg}"


@st.composite
def graphs(draw: st.DrawFn) -> SummaryGraph:
    """Summaries of several depths; each condensed one is made of some of the depth below."""
    shapes: list[SummaryShape] = []
    edges: list[tuple[str, str]] = []
    below: list[str] = []
    for depth in range(draw(st.integers(0, 4))):
        here = []
        for n in range(draw(st.integers(1, 8 if depth == 0 else 4))):
            id_, tokens = f"sum_{depth}_{n}", draw(st.integers(0, 5_000))
            at = draw(st.none() | st.integers(0, 100).map(lambda hours: START + timedelta(hours=hours)))
            shapes.append(SummaryShape(id_, depth, tokens, 2 * tokens, at, at, draw(st.booleans())))
            here.append(id_)
            edges += [
                (id_, source)
                for source in draw(st.lists(st.sampled_from(below), unique=True) if below else st.just([]))
            ]
        below = here
    words = (
        st.dictionaries(st.sampled_from([shape.id for shape in shapes]), st.text(max_size=40))
        if shapes
        else st.just({})
    )
    return SummaryGraph(draw(st.text(max_size=30)), tuple(shapes), tuple(edges), draw(words))


@given(graphs())
def test_boxes_of_a_row_do_not_overlap(graph: SummaryGraph) -> None:
    rows, edges, width = layout_graph(graph.shapes, graph.edges)
    assert sorted(box.shape.id for row in rows.values() for box in row) == sorted(s.id for s in graph.shapes)
    assert len(edges) == len(graph.edges)
    for depth, row in rows.items():
        assert {box.shape.depth for box in row} <= {depth}
        assert all(left.end < right.x for left, right in pairwise(row))
        assert all(box.x >= 0 and box.end <= width for box in row)


@given(graphs())
def test_a_wider_box_never_has_fewer_tokens(graph: SummaryGraph) -> None:
    boxes = [box for row in layout_graph(graph.shapes, graph.edges)[0].values() for box in row]
    for one, other in pairwise(sorted(boxes, key=lambda box: box.shape.tokens)):
        assert one.width <= other.width + 1e-6


@given(graphs())
def test_the_picture_is_a_document_with_every_summary(graph: SummaryGraph) -> None:
    root = ElementTree.fromstring(graph_svg(graph))
    titles = [element.text or "" for element in root.iter(f"{SPACE}title")][1:]
    assert sorted(title.split(":")[0] for title in titles) == sorted(shape.id for shape in graph.shapes)
    boxes = [box for group in root.iter(f"{SPACE}g") for box in group.iter(f"{SPACE}rect")]
    standing = sum(box.get("class") == "in" for box in boxes)
    assert standing == sum(shape.in_context for shape in graph.shapes)
    assert len(list(root.iter(f"{SPACE}path"))) == len(graph.edges)


def _rooms(root: ElementTree.Element) -> list[tuple[float, float, float, float]]:
    """The room that each text takes: left, right, top, bottom."""
    found = []
    for text in root.iter(f"{SPACE}text"):
        x, y, wide = float(text.get("x", 0)), float(text.get("y", 0)), text_width(text.text or "")
        wide *= 1.4 if text.get("class") == "head" else 1
        left = x - wide / 2 if text.get("text-anchor") == "middle" else x
        found.append((left, left + wide, y - 11, y + 3))
    return found


@given(graphs(), st.sampled_from(["", "agent:main:main " * 20, "日本語の会話 " * 12]))
def test_words_lie_inside_the_picture_and_not_on_each_other(graph: SummaryGraph, title: str) -> None:
    root = ElementTree.fromstring(graph_svg(replace(graph, title=title or graph.title)))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    rooms = _rooms(root)
    assert all(left >= 0 and right <= width and bottom <= height for left, right, _, bottom in rooms)
    for one, other in combinations(rooms, 2):
        assert one[1] <= other[0] or other[1] <= one[0] or one[3] <= other[2] or other[3] <= one[2]


@given(graphs())
def test_row_labels_do_not_reach_the_boxes(graph: SummaryGraph) -> None:
    many = tuple(replace(shape, tokens=shape.tokens * 10_000_000) for shape in graph.shapes)
    root = ElementTree.fromstring(graph_svg(replace(graph, shapes=many)))
    boxes = [float(box.get("x", 0)) for group in root.iter(f"{SPACE}g") for box in group.iter(f"{SPACE}rect")]
    labels = [24 + text_width(text.text or "") for text in root.iter(f"{SPACE}text") if " · " in (text.text or "")]
    assert not boxes or max(labels) < min(boxes)


def _contrast(one: str, other: str) -> float:
    """How well one colour is seen on another, from 1 to 21."""

    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, bright = sorted((light(one), light(other)))
    return (bright + 0.05) / (dark + 0.05)


def test_words_and_lines_can_be_seen_by_day_and_by_night() -> None:
    style = ElementTree.fromstring(graph_svg(SummaryGraph("x", ()))).find(f"{SPACE}style")
    assert style is not None
    for rules in (style.text or "").split("@media"):
        colours = dict(re.findall(r"([\w.+ ]+?) \{[^}]*?(?:fill|background): (#[0-9a-f]{6})", rules))
        lines = dict(re.findall(r"(\.[a-z]+) \{[^}]*?stroke: (#[0-9a-f]{6})", rules))
        found = {name.strip(): colour for name, colour in colours.items()}
        page = found["svg"]
        assert _contrast(found["text"], page) >= 4.5
        assert _contrast(found[".dim"], page) >= 4.5
        assert _contrast(found["text"], found[".folded"]) >= 4.5
        assert _contrast(found["g .in + text"], found[".in"]) >= 4.5
        assert _contrast(found[".in"], page) >= 3
        assert _contrast(found[".in"], found[".folded"]) >= 3
        assert _contrast(lines[".edge"], page) >= 3
        assert _contrast(lines[".folded"], page) >= 3


def test_a_legend_says_what_the_colours_are() -> None:
    root = ElementTree.fromstring(graph_svg(SummaryGraph("x", ())))
    assert [text.text for text in root.iter(f"{SPACE}text")][-2:] == ["in the context", "folded"]


@given(graphs())
def test_dot_names_every_summary_and_edge(graph: SummaryGraph) -> None:
    text = graph_dot(graph)
    assert len(re.findall(r"^    \"sum_\w+\" \[", text, re.MULTILINE)) == len(graph.shapes)
    assert len(re.findall(r"^  \"sum_\w+\" -> \"sum_\w+\";$", text, re.MULTILINE)) == len(graph.edges)
    widths = dict(re.findall(r"^    \"(sum_\w+)\" \[.*?width=([\d.]+)", text, re.MULTILINE))
    for one, other in pairwise(sorted(graph.shapes, key=lambda shape: shape.tokens)):
        assert float(widths[one.id]) <= float(widths[other.id])


def test_parents_stand_over_what_they_were_made_of() -> None:
    leaves = [SummaryShape(f"sum_{n}", 0, 100, 900, START + timedelta(hours=n), None, False) for n in range(4)]
    roots = [
        SummaryShape("sum_a", 1, 50, 1800, START, None, True),
        SummaryShape("sum_b", 1, 50, 1800, leaves[2].earliest_at, None, True),
    ]
    edges = [("sum_a", "sum_0"), ("sum_a", "sum_1"), ("sum_b", "sum_2"), ("sum_b", "sum_3")]
    rows, _, _ = layout_graph([*leaves, *roots], edges)
    first, second = rows[1]
    below = rows[0]
    assert [box.shape.id for box in below] == ["sum_0", "sum_1", "sum_2", "sum_3"]
    assert below[0].x < first.x
    assert first.end < below[1].end < second.x < second.end < below[3].end


def test_an_empty_graph_says_so() -> None:
    assert "nothing was summarised yet" in graph_svg(SummaryGraph("empty", ()))
    assert graph_dot(SummaryGraph("empty", ())).startswith("digraph")


@given(st.lists(st.floats(0, 1e9), max_size=60), st.integers(1, 8))
def test_columns_grow_with_values(values: list[float], height: int) -> None:
    rows = column_chart(values, height)
    assert [len(row) for row in rows] == [len(values)] * height
    heights = [sum(" ▁▂▃▄▅▆▇█".index(row[n]) for row in rows) for n in range(len(values))]
    assert all((tall > 0) == (value > 0) for tall, value in zip(heights, values, strict=True))
    ordered = sorted(zip(values, heights, strict=True))
    assert all(one[1] <= other[1] for one, other in pairwise(ordered))
    assert not any(values) or max(heights) == 8 * height


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=300), st.integers(1, 80))
def test_thinning_keeps_the_largest(values: list[float], width: int) -> None:
    thin = downsample(values, width)
    assert len(thin) == min(width, len(values))
    assert max(thin) == max(values)
