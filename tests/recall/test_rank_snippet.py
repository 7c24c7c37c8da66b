"""The window that shows why a text was found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.recall.query import TermFinder, parse_query
from lossless.recall.results import SNIPPET_CHARS, best_snippet, best_window

FILLER = "Nothing of note was said here. "
NEWS = "The deploy pipeline failed because of the migration lock. "


def make_snippet(text: str, finder: TermFinder) -> str:
    return best_snippet(text, finder)[0]


def finder(question: str) -> TermFinder:
    return TermFinder(parse_query(question).terms)


@pytest.mark.parametrize("at", [0, 3, 50, 99])
def test_the_window_holds_the_densest_matches(at: int) -> None:
    text = "deploy " + FILLER * at + NEWS + FILLER * (100 - at) + "deploy"
    shown = make_snippet(text, finder("why did the deploy fail on the migration lock"))
    assert NEWS.strip() in shown


def test_a_short_text_is_shown_whole() -> None:
    assert make_snippet("The deploy\nfailed.", finder("deploy")) == "The deploy failed."


def test_ellipses_stand_where_text_was_left_out() -> None:
    shown = make_snippet(FILLER * 50 + NEWS + FILLER * 50, finder("deploy"))
    assert shown.startswith("…")
    assert shown.endswith("…")


def test_without_a_match_the_beginning_is_shown() -> None:
    assert make_snippet("\n  " + FILLER * 50, finder("zebra")).startswith("Nothing of note")


def test_rare_terms_win() -> None:
    text = "deploy queue " + FILLER * 50 + "zebra"
    query = parse_query("deploy queue zebra")
    start, end, _ = best_window(text, TermFinder(query.terms), weights=[0.1, 0.1, 5.0])
    assert "zebra" in text[start:end]


def test_scripts_without_blanks() -> None:
    text = "其他内容" * 200 + "数据库迁移失败" + "其他内容" * 200
    start, end, _ = best_window(text, finder("迁移失败"), 60)
    assert "迁移失败" in text[start:end]
    assert end - start <= 60


@given(
    st.text(st.characters(exclude_categories=()), max_size=2000),
    st.text(st.characters(exclude_categories=()), max_size=40),
    st.integers(1, 500),
)
def test_any_text_has_a_window(text: str, question: str, size: int) -> None:
    first, last, matches = best_window(text, finder(question), size)
    assert 0 <= first <= last <= len(text)
    assert last - first <= size
    assert all(first <= start < end <= last for start, end in matches)


@given(st.lists(st.sampled_from([FILLER, NEWS, "deploy", "\n", "x" * 50]), max_size=60))
def test_a_text_with_a_match_shows_one(pieces: list[str]) -> None:
    text = "".join(pieces)
    asked = finder("deploy")
    assert bool(asked.find(text)) == bool(best_window(text, asked, SNIPPET_CHARS)[2])


def test_a_huge_text_full_of_matches_has_a_window() -> None:
    """Work that grows with the square of the length would run into the limit of a test."""
    assert "deploy migration lock" in make_snippet("deploy migration lock " * 50_000, finder("deploy migration lock"))
