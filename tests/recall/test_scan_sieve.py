"""Many texts in one search: what a pattern matches is never passed over."""

from __future__ import annotations

import pytest
import regex  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from lossless.recall.scan import Regex, RegexPrefilter

PIECES = (
    *("a", "b1", ".", ".*", ".+?", r"\d", r"\d{2}", r"\w+", r"\s", r"\S*", r"\b", "[ab]+", "[^a]", r"[\d-]", r"[^\w]"),
    *("(?:a|b1|)", "(x|1)+", "x?", r"(a)\D", r"[\s\S]*", r"\.", r"\n", "é", r"\W", "[]a]", r"\\d"),
)
LOOKING_AROUND = (
    *("^a", "a$", r"\Aa", r"a\Z", r"\Ba", "(?=a)b", "(?<!a)b", r"(a)\1", "(?>a+)b", "a++b", "(?i:a)b", "(?x) a b"),
    *("(?m)^a$", "(a)(?(1)b|c)", "ab{e<=1}", "ab{1<=e<=2}", "[[:alpha:]]b", r"\p{L}"),
)
_pieces = st.sampled_from(PIECES)
_flags = st.sampled_from(["", "", "(?i)", "(?s)", "(?is)"])
_texts = st.text("ab1x .\n-éΣſK_\\d\u2028\x1c", max_size=12)


@settings(max_examples=60, deadline=None)
@given(flags=_flags, pieces=st.lists(_pieces, min_size=1, max_size=4), texts=st.lists(_texts, max_size=6))
def test_nothing_that_matches_is_passed_over(flags: str, pieces: list[str], texts: list[str]) -> None:
    pattern = Regex(flags + "".join(pieces))
    sieve = pattern.sieve()
    assert sieve is not None
    for shown in (texts, [text.encode("ascii", "ignore").decode() for text in texts]):
        passing = list(sieve.passing(shown))
        assert passing == sorted(set(passing))
        assert {n for n, text in enumerate(shown) if pattern.find(text, 1.0) is not None} <= set(passing)


@pytest.mark.parametrize("pattern", LOOKING_AROUND)
def test_patterns_that_look_around_are_tried_on_each_text(pattern: str) -> None:
    assert Regex(pattern).sieve() is None


def test_what_takes_too_long_passes_and_is_remembered() -> None:
    pattern = Regex("(a|aa)+[bc]")
    sieve = pattern.sieve()
    assert sieve is not None
    assert list(sieve.passing(["one", "a" * 60, "two"])) == [0, 1, 2]
    assert sieve.is_slow


def test_a_sieve_goes_no_further_than_it_is_asked_to() -> None:
    class Counting:
        calls = 0

        def search(self, text: str, start: int, **_watched: object) -> object:
            Counting.calls += 1
            return compiled.search(text, start)

    compiled = regex.compile("a")
    passing = RegexPrefilter("a", Counting()).passing(["a"] * 1000)
    assert [next(passing) for _ in range(3)] == [0, 1, 2]
    assert Counting.calls == 3
