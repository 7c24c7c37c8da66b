"""Where terms stand in a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.recall.query import PREFIX_STRENGTH, TermFinder, parse_query

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=300)


def found(question: str, text: str) -> list[tuple[str, float]]:
    finder = TermFinder(parse_query(question).terms)
    return [(text[hit.start : hit.end], hit.strength) for hit in finder.find(text)]


@pytest.mark.parametrize(
    ("question", "text", "words"),
    [
        ("deploy", "Deployed, deploying. Redeploy!", ["Deployed", "deploying"]),
        ("hoping", "hope hops hoped", ["hope", "hoped"]),
        ("study", "a student studies in a studio", ["studies"]),
        ("cafe", "Café, cafe\u0301", ["Café", "cafe\u0301"]),
        ("name", "userName and user_name, rename", ["Name", "name"]),
        ("user", "userName", ["user"]),
        ('"retry queue"', "retry-queues; retry the queue", ["retry-queues"]),
        ("数据", "看数据库", ["数据"]),
        ("C++", "abc++ C++ c++17", ["C++", "c++"]),
        ("👍", "ok 👍🏽", ["👍"]),
        ("مُحَمَّد", "محمد مُحَمَّد", ["محمد", "مُحَمَّد"]),
        ("базы", "база, базу", ["база", "базу"]),
    ],
)
def test_words_as_asked(question: str, text: str, words: list[str]) -> None:
    assert found(question, text) == [(word, 1.0) for word in words]


def test_a_longer_word_counts_less() -> None:
    assert found("deploy", "the deployment") == [("deployment", PREFIX_STRENGTH)]


def test_an_identifier_is_found_whole_and_in_pieces() -> None:
    assert [word for word, _ in found("get_user", "get_user")] == ["get_user", "user"]


@given(ANY_TEXT, ANY_TEXT)
def test_places_are_inside_the_text_and_in_order(question: str, text: str) -> None:
    terms = parse_query(question).terms
    hits = TermFinder(terms).find(text)
    assert all(0 <= hit.start < hit.end <= len(text) and 0 < hit.strength <= 1 for hit in hits)
    assert [hit.start for hit in hits] == sorted(hit.start for hit in hits)


@given(st.lists(st.sampled_from(["deploy", "queue", "naïve", "数据库", "🎉", "x"]), min_size=1, max_size=20))
def test_every_word_of_a_text_is_found_in_it(words: list[str]) -> None:
    text = " ".join(words)
    assert {word for word, _ in found(text, text)} >= set(words) - {"x"}


@pytest.mark.parametrize(
    ("text", "count"),
    [("deploy" * 150_000, 1), ("deploy " * 150_000, 150_000), ("a" * 1_000_000, 0), ("d" * 1_000_000, 0)],
)
def test_a_huge_text_is_looked_through(text: str, count: int) -> None:
    """Work that grows with the square of the length would run into the limit of a test."""
    assert len(TermFinder(parse_query("deploy d a").terms).find(text)) == count


def test_the_first_few_can_be_enough() -> None:
    assert len(TermFinder(parse_query("deploy").terms).find("deploy " * 50, 12)) == 12
