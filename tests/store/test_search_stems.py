"""Stems of words are those of the index."""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import pytest

from lossless.model.search_text import WORD, fold_text
from lossless.store.search import stem


@pytest.mark.parametrize("name", ["json/__init__.py", "json/decoder.py", "json/encoder.py"])
def test_stems_are_those_of_the_index(name: str) -> None:
    tokenizer = apsw.Connection(":memory:").fts5_tokenizer("porter", ["unicode61"])
    source = (Path(json.__file__).parent.parent / name).read_text()
    for word in sorted(set(WORD.findall(fold_text(source)))):
        tokens = tokenizer(
            word.encode(), apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False, include_colocated=False
        )
        assert tokens == [stem(word)]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *(("relational", "relat"), ("hopping", "hop"), ("hoping", "hope"), ("flies", "fli")),
        *(("миграциями", "миграц"), ("базы", "баз"), ("он", "он"), ("größen", "größen"), ("x86", "x86")),
    ],
)
def test_stem(word: str, expected: str) -> None:
    assert stem(word) == expected
