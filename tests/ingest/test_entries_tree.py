"""The leaf path is what a plain walk over parents gives, for trees of every shape."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lossless.ingest.transcripts.entries import ANSWER
from lossless.ingest.transcripts.reading import EntryTree
from tests.ingest.transcripts_kit import Nodes, plain_walk


def tree_of(nodes: Nodes, ties: dict[int, str] | None = None) -> EntryTree:
    tree = EntryTree()
    for place, (id, parent) in enumerate(nodes):
        tree.add(id, parent, (ties or {}).get(place))
    return tree


def path_of(tree: EntryTree) -> list[int]:
    found = tree.leaf_path()
    if found is None:
        return list(range(len(tree)))
    kept, order = found
    return [place for place, is_kept in enumerate(kept) if is_kept] if order is None else list(order)


def nodes(shape: str) -> Nodes:
    """`a. ba cb`: an id and its parent each, a point for a root, `?` for an entry without an id."""
    return [(None if pair[0] == "?" else pair[0], None if pair[1] == "." else pair[1]) for pair in shape.split()]


@pytest.mark.parametrize(
    ("shape", "path"),
    [
        pytest.param("a. ba cb", [0, 1, 2], id="a chain is all there is"),
        pytest.param("a. ba cb da", [0, 3], id="an abandoned branch is left out"),
        pytest.param("a. ba c. dc", [2, 3], id="a second root begins anew"),
        pytest.param("a. ba ?b", [0, 1, 2], id="an entry without an id keeps all"),
        pytest.param("a. bx cb", [0, 1, 2], id="a missing parent keeps all"),
        pytest.param("a. bx ca", [0, 2], id="a missing parent off the path does not matter"),
        pytest.param("ab ba", [0, 1], id="a cycle keeps all"),
        pytest.param("a. bb", [0, 1], id="an entry that is its own parent keeps all"),
        pytest.param("a. b. c.", [0, 1, 2], id="roots alone are in order"),
        pytest.param("a. ba a. cb", [2, 1, 3], id="of one id the last counts"),
        pytest.param("ba a. cb", [1, 0, 2], id="a parent may come later"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_leaf_path(shape: str, path: list[int]) -> None:
    assert path_of(tree_of(nodes(shape))) == plain_walk(nodes(shape)) == path


IDS = st.sampled_from("abcdefgh")


@given(st.lists(st.tuples(IDS, IDS | st.none()), max_size=14))
@example([("a", None), ("b", "a"), ("a", "b"), ("c", "b")])
def test_any_tree_is_walked_as_said(found: Nodes) -> None:
    assert path_of(tree_of(found)) == plain_walk(found)


@given(st.data(), st.integers(1, 60))
def test_any_real_history_is_walked_as_said(data: st.DataObject, length: int) -> None:
    """Ids of their own, parents among what came before: mostly the entry right before."""
    found: Nodes = []
    for place in range(length):
        back = data.draw(st.sampled_from([1, 1, 1, 1, 2, 3, 7, 99]))
        found.append((f"id{place}", f"id{place - back}" if place >= back else None))
    assert path_of(tree_of(found)) == plain_walk(found)


@pytest.mark.parametrize(
    ("shape", "ties", "path"),
    [
        pytest.param("a. ba ca db", {2: ANSWER}, [0, 1, 2, 3], id="an answer stays with its call"),
        pytest.param("a. ba cb da", {2: ANSWER}, [0, 3], id="an answer to an abandoned call is abandoned"),
        pytest.param("a. ba ca dc", {0: "m", 1: "m", 2: "m"}, [0, 1, 2, 3], id="one answer's lines stay together"),
        pytest.param("a. ba ca dc", {0: "m", 1: "n"}, [0, 2, 3], id="another answer's lines do not"),
        pytest.param("a. ba cb da", {0: "m", 1: "m", 2: ANSWER}, [0, 1, 2, 3], id="and so do their results"),
    ],
)
def test_what_was_said_together_stays_together(shape: str, ties: dict[int, str], path: list[int]) -> None:
    assert path_of(tree_of(nodes(shape), ties)) == path


def test_an_entry_costs_few_bytes() -> None:
    tracemalloc.start()
    tree = EntryTree()
    for place in range(50_000):
        tree.add(f"{place:036d}", f"{place - 1:036d}" if place else None)
    found = tree.leaf_path()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None
    assert sum(found[0]) == 50_000
    assert peak < 80 * 50_000
