from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.model.tokens import cut_to_tokens, estimate_tokens

_CJK = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0x2CEB0, 0x2EBEF),
    (0x3000, 0x303F),
    (0x3040, 0x30FF),
    (0xAC00, 0xD7AF),
    (0xFF00, 0xFFEF),
)
edges = st.sampled_from([chr(edge + by) for pair in _CJK for edge in pair for by in (-1, 0, 1)])
texts = st.lists(edges | st.characters(exclude_categories=()), max_size=30).map("".join)


def weight(character: str) -> float:
    point = ord(character)
    if any(low <= point <= high for low, high in _CJK):
        return 1.5
    return 2 if point > 0xFFFF else 0.25


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("abcd", 1),
        ("abcde", 2),
        ("你好", 3),
        ("こんにちは", 8),
        ("😀", 2),
        ("Привет, мир", 3),
        ("𠀀", 2),
        ("a你😀", 4),
    ],
)
def test_known_counts(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@given(text=texts)
def test_each_code_point_has_its_weight(text: str) -> None:
    assert estimate_tokens(text) == math.ceil(sum(map(weight, text)))


@given(left=texts, right=texts)
def test_counts_add_up_to_rounding(left: str, right: str) -> None:
    both = estimate_tokens(left + right)
    assert max(estimate_tokens(left), estimate_tokens(right)) <= both
    assert both <= estimate_tokens(left) + estimate_tokens(right) <= both + 1


@given(text=texts, limit=st.integers(-1, 40))
def test_a_cut_is_the_longest_that_fits(text: str, limit: int) -> None:
    cut = cut_to_tokens(text, limit)
    assert text.startswith(cut)
    assert estimate_tokens(cut) <= max(limit, 0)
    if len(cut) < len(text) and limit > 0:
        assert estimate_tokens(text[: len(cut) + 1]) > limit
