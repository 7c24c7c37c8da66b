"""Words as search sees them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.model import search_text
from lossless.model.search_text import WORD, fold_offsets, fold_text, strip_marks


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("CAFÉ", "cafe"),
        ("cafe\u0301", "cafe"),
        ("Ёлка, май", "елка, май"),
        ("Ελλάδα", "ελλαδα"),
        ("İstanbul", "istanbul"),
        ("ＡＢＣ", "abc"),
        ("が ガ 한국", "が ガ 한국"),
        ("مُحَمَّد", "محمد"),
        ("Straße", "straße"),
    ],
)
def test_fold(text: str, folded: str) -> None:
    assert fold_text(text) == folded


@given(st.text(st.characters(exclude_categories=())))
def test_folding_keeps_places_or_says_where_they_went(text: str) -> None:
    folded = fold_text(text)
    offsets = fold_offsets(text, folded)
    if offsets is None:
        assert len(folded) == len(text)
    else:
        assert len(offsets) == len(folded) + 1
        assert offsets == sorted(offsets)


@given(st.text())
def test_folding_twice_changes_nothing(text: str) -> None:
    assert fold_text(fold_text(text)) == fold_text(text)


def test_words_are_parted_by_underscores() -> None:
    assert WORD.findall(fold_text("foo_bar.Baz")) == ["foo", "bar", "baz"]


def test_unmark_keeps_case() -> None:
    assert strip_marks("Cafe\u0301") == "Cafe"


def test_stop_words_are_folded() -> None:
    assert all(fold_text(word) == word for language in search_text.STOP_WORDS.values() for word in language)


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("What was the war about?", "en"),
        ("deploy pipeline", "en"),
        ("die hard hat", "en"),
        ("Wann hat Anna das Auto gekauft?", "de"),
        ("Quand est-ce que Marie a mangé ?", "fr"),
        ("¿Dónde vive Juan?", "es"),
        ("Quando foi a reunião?", "pt"),
        ("Quando è arrivato il pacco?", "it"),
        ("Wanneer was de vergadering?", "nl"),
        ("Когда был запуск?", "ru"),
    ],
)
def test_the_language_of_a_question(question: str, language: str) -> None:
    assert search_text.stop_words(WORD.findall(fold_text(question))) is search_text.STOP_WORDS[language]
