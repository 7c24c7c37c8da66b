"""Search inside of payloads."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.errors import NotFound
from lossless.files.vault import MAX_MATCHES, Vault, find_all_terms, grep_file, matches_in
from lossless.model.identity import file_id
from lossless.model.messages import StoredFile

if TYPE_CHECKING:
    from lossless.files.vault import FindSpans

NOW = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path)


def stored(vault: Vault, data: bytes, mime: str | None = "text/plain") -> StoredFile:
    id_ = file_id(1, data)
    place = vault.write(1, id_, "txt", data)
    return StoredFile(id_, 1, "read.txt", mime, len(data), None, str(place), None, NOW)


def pattern(text: str) -> FindSpans:
    compiled = re.compile(text)
    return lambda text: (match.span() for match in compiled.finditer(text))


def test_matches_say_where_they_are(vault: Vault) -> None:
    rows = "\n".join(
        f"2026-01-05T09:{n % 60:02d}:00Z ERROR worker-{n % 13} failed code={n * 31 % 1000}" for n in range(800)
    )
    scan = grep_file(vault, stored(vault, rows.encode()), pattern("worker-7"))
    assert scan is not None
    matches, is_cut = scan
    assert len(matches) == MAX_MATCHES
    *place, snippet = matches[0]
    assert place == [8, rows.index("worker-7"), "worker-7"]
    assert snippet == (
        "...2026-01-05T09:06:00Z ERROR worker-6 failed code=186 2026-01-05T09:07:00Z ERROR worker-7 failed code=217 "
        "2026-01-05T09:08:00Z ERROR worker-8 failed code=248 2026-01-05T..."
    )
    assert [line for line, *_ in matches] == [8 + 13 * n for n in range(10)]
    assert not is_cut


def test_offsets_count_bytes() -> None:
    ((*place, _),) = matches_in("你好\nå wörld", pattern("w.rld"))
    assert place == [2, 10, "wörld"]


@given(st.text(alphabet="aé你😀\n", max_size=80))
def test_offsets_and_lines_are_right(text: str) -> None:
    for line, offset, matched, _ in matches_in(text, pattern("[a你]+")):
        data = text.encode()[offset:]
        assert data.decode().startswith(matched)
        assert line == text.encode()[:offset].count(b"\n") + 1


def test_all_terms_must_be_there() -> None:
    text = "the Ferry leaves\nat nine; ferry two at ten"
    assert [matched for _, _, matched, _ in matches_in(text, find_all_terms(["ferry", "NINE"]))] == ["Ferry", "ferry"]
    assert matches_in(text, find_all_terms(["ferry", "eleven"])) == []
    assert matches_in(text, find_all_terms([])) == []
    assert matches_in(text, find_all_terms([""])) == []
    assert [matched for _, _, matched, _ in matches_in("a.*b (c+", find_all_terms([".*", "(c+"]))] == [".*"]


def test_empty_matches_are_none() -> None:
    assert matches_in("aaa", pattern("x*")) == []


@pytest.mark.parametrize(
    ("mime", "is_searched"),
    [
        ("text/plain", True),
        (None, True),
        ("application/json", True),
        ("text/csv; charset=utf-8", True),
        ("application/ld+json", True),
        ("image/png", False),
        ("application/pdf", False),
    ],
)
def test_only_text_is_searched(vault: Vault, mime: str | None, is_searched: bool) -> None:
    scan = grep_file(vault, stored(vault, b"words", mime), find_all_terms(["words"]))
    assert (scan is not None) == is_searched


def test_only_the_beginning_is_searched(vault: Vault) -> None:
    data = "å".encode() * 255_999 + b"\xc3\xa5" + b" needle"
    scan = grep_file(vault, stored(vault, b"x" + data), find_all_terms(["needle"]))
    assert scan == ([], True)


def test_a_missing_file_is_said(vault: Vault) -> None:
    file = stored(vault, b"words")
    Path(file.storage_uri).unlink()
    with pytest.raises(NotFound):
        grep_file(vault, file, find_all_terms(["words"]))
