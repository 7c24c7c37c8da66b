"""Search inside of stored files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.files.vault import Vault
from lossless.model.identity import file_id
from lossless.model.messages import StoredFile
from lossless.recall.search import MAX_MATCHES, file_hits, searchable_text, spans_with_all

from .searching import NOW

if TYPE_CHECKING:
    import lossless
    from lossless.recall.results import SearchHit

FILE = StoredFile("file_0123456789abcdef", 1, "read.txt", "text/plain", 9, None, "/x", None, NOW)


def stored(vault: Vault, data: bytes, mime: str | None = "text/plain") -> StoredFile:
    id_ = file_id(1, data)
    place = vault.write(1, id_, "txt", data)
    return StoredFile(id_, 1, "read.txt", mime, len(data), None, str(place), None, NOW)


def matches(text: str, pattern: str) -> list[SearchHit]:
    return list(file_hits(FILE, text, (match.span() for match in re.finditer(pattern, text))))


def marked(hit: SearchHit) -> str:
    ((start, end),) = hit.matches
    return hit.snippet[start:end]


def test_matches_say_where_they_are() -> None:
    rows = "\n".join(
        f"2026-01-05T09:{n % 60:02d}:00Z ERROR worker-{n % 13} failed code={n * 31 % 1000}" for n in range(800)
    )
    found = matches(rows, "worker-7")
    assert len(found) == MAX_MATCHES
    assert (found[0].line, found[0].offset, marked(found[0])) == (8, rows.index("worker-7"), "worker-7")
    assert found[0].snippet == (
        "...2026-01-05T09:06:00Z ERROR worker-6 failed code=186 2026-01-05T09:07:00Z ERROR worker-7 failed code=217 "
        "2026-01-05T09:08:00Z ERROR worker-8 failed code=248 2026-01-05T..."
    )
    assert [hit.line for hit in found] == [8 + 13 * n for n in range(10)]


def test_offsets_count_bytes() -> None:
    (hit,) = matches("你好\nå wörld", "w.rld")
    assert (hit.line, hit.offset, marked(hit)) == (2, 10, "wörld")


@given(st.text(alphabet="aé你😀\n", max_size=80))
def test_offsets_and_lines_are_right(text: str) -> None:
    for hit in matches(text, "[a你]+"):
        assert text.encode()[hit.offset :].decode().startswith(marked(hit))
        assert hit.line == text.encode()[: hit.offset].count(b"\n") + 1


def test_all_terms_must_be_there() -> None:
    text = "the Ferry leaves\nat nine; ferry two at ten"
    assert [text[slice(*span)] for span in spans_with_all(text, ["ferry", "NINE"])] == ["Ferry", "ferry"]
    for terms in (["ferry", "eleven"], [], [""]):
        assert list(spans_with_all(text, terms)) == []
    assert list(spans_with_all("a.*b (c+", [".*", "(c+"])) == [(1, 3)]


def test_empty_matches_are_none() -> None:
    assert matches("aaa", "x*") == []


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
def test_only_text_is_searched(engine: lossless.Engine, tmp_path: Path, mime: str | None, is_searched: bool) -> None:
    vault = Vault(tmp_path / "files")
    found = searchable_text(engine.archive, stored(vault, b"words", mime), vault)
    assert found == ("words" if is_searched else "", False)


def test_only_the_beginning_is_searched(engine: lossless.Engine, tmp_path: Path) -> None:
    vault = Vault(tmp_path / "files")
    data = b"x" + "å".encode() * 256_000 + b" needle"
    text, is_cut = searchable_text(engine.archive, stored(vault, data), vault)
    assert (text, is_cut) == ("x" + "å" * 255_999, True)


def test_a_missing_file_has_no_text(engine: lossless.Engine, tmp_path: Path) -> None:
    vault = Vault(tmp_path / "files")
    file = stored(vault, b"words")
    Path(file.storage_uri).unlink()
    assert searchable_text(engine.archive, file, vault) == ("", False)
    assert searchable_text(engine.archive, file, None) == ("", True)
