"""What the search index holds of a message."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.model.search_text import (
    MAX_PASSAGES,
    PASSAGE_CHARS,
    camel_parts,
    emoji_tokens,
    extra_tokens,
    index_text_of,
    letter_pairs,
    passages,
)

if TYPE_CHECKING:
    from lossless.model.messages import Json

PROSE = "The deploy failed because the migration lock was held. We rolled back and tried again! Did it work? "
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=4000)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        pytest.param("We rolled back. It's fine, isn't it?", "", id="prose has none"),
        pytest.param("It’s “fine” – naïve café, Größe, снова", "", id="accents and curly quotes have none"),
        pytest.param("call getUserName()", "get user name", id="camelCase"),
        pytest.param("the HTTPServer, parseJSON", "http server parse json", id="acronyms"),
        pytest.param("base64Encode", "base64 encode", id="digits stay with the piece before them"),
        pytest.param("LLMs and APIs and PDFs", "", id="a plural is no hump"),
        pytest.param("getUserName getUserName", "get user name", id="an identifier counts once"),
        pytest.param("aGVsBG8Gd29YbGQhIQ", "", id="base64 is no identifier"),
        pytest.param("C++, C# and F#", "cplusplus csharp fsharp", id="signs of languages"),
        pytest.param("a+b #1 issue#3", "", id="other signs are none"),
        pytest.param("数据库", "数据 据库 库", id="Chinese"),
        pytest.param("サーバーを再起動", "サー ーバ バー ーを を再 再起 起動 動", id="Japanese"),
        pytest.param("오류 나", "오류 류 나", id="Korean"),
        pytest.param("done ✅ 🎉🎉", "u2705 u1f389", id="emoji"),
        pytest.param("├── src → ●", "", id="boxes and arrows of a terminal are not emoji"),
        pytest.param("مُحَمَّد", "محمد", id="Arabic vowel signs"),
        pytest.param("ещё раз", "еще", id="ё"),
        pytest.param("στην Ελλάδα", "ελλαδα", id="Greek accents"),
        pytest.param("ＡＢＣ", "ABC", id="full-width letters"),
        pytest.param("ﬁle", "file", id="ligatures"),
        pytest.param("\ud800 x", "", id="a lone surrogate"),
    ],
)
def test_extra_tokens(text: str, tokens: str) -> None:
    assert extra_tokens(text) == tokens


@given(st.one_of(ANY_TEXT, st.text(st.characters(min_codepoint=0x590, max_codepoint=0x1800), max_size=200)))
def test_extra_tokens_are_words_that_sqlite_can_take(text: str) -> None:
    tokens = extra_tokens(text)
    assert "\0" not in tokens
    tokens.encode()
    assert tokens == " ".join(tokens.split())


@given(st.text("abcdefABCDEF0123456789", max_size=60))
def test_humps_keep_every_letter(word: str) -> None:
    assert "".join(camel_parts(word)) in ("", word.lower())


@given(st.text("数据库迁移失败", min_size=2, max_size=20))
def test_a_word_is_found_as_the_row_of_its_pairs(word: str) -> None:
    assert " ".join(letter_pairs(word)[:-1]) in extra_tokens(f"请看{word}。")


def test_an_emoji_sequence_is_found_as_a_row() -> None:
    assert " ".join(emoji_tokens("👩‍💻")) in extra_tokens("hi 👩‍💻 there")


def test_sqlite_finds_what_its_tokenizer_alone_would_miss() -> None:
    archive = apsw.Connection(":memory:")
    archive.execute(
        "CREATE VIRTUAL TABLE f USING fts5(body, extra, content='', contentless_delete=1, "
        "tokenize='porter unicode61 remove_diacritics 2')"
    )
    texts = ["see getUserName", "written in C++", "数据库迁移失败", "done 🎉", "هذا مُحَمَّد"]
    for rowid, text in enumerate(texts):
        archive.execute("INSERT INTO f(rowid, body, extra) VALUES (?, ?, ?)", (rowid, text, extra_tokens(text)))

    def found(match: str) -> list[int]:
        return [row[0] for row in archive.execute("SELECT rowid FROM f WHERE f MATCH ?", (match,))]

    assert found('"user name"') == [0]
    assert found("cplusplus") == [1]
    assert found('"数据 据库"') == found("库*") == found("数*") == [2]
    assert found("u1f389") == [3]
    assert found('"محمد"') == [4]


@given(st.one_of(ANY_TEXT, st.lists(st.sampled_from([PROSE, "\n", " " * 900, "数据库。", "x" * 700])).map("".join)))
def test_passages_cover_the_text_without_gaps_or_blanks(text: str) -> None:
    spans = passages(text)
    assert "".join(text[start:end] for start, end in spans) == text
    assert [end for _, end in spans[:-1]] == [start for start, _ in spans[1:]]
    assert all(not text[start:end].isspace() for start, end in spans) or text.isspace()
    assert bool(spans) == bool(text)


def test_a_normal_message_is_one_passage() -> None:
    assert passages(PROSE * 10) == [(0, len(PROSE) * 10)]


def test_a_long_message_is_cut_after_sentences() -> None:
    text = PROSE * 100
    spans = passages(text)
    assert len(spans) > 5
    assert all(PASSAGE_CHARS // 2 <= end - start <= PASSAGE_CHARS * 3 // 2 for start, end in spans)
    assert all(text[:end].endswith((". ", "! ", "? ")) for _, end in spans)


def test_lines_are_better_borders_than_sentences() -> None:
    text = "\n".join(PROSE * 3 for _ in range(20))
    assert all(text[end - 1] == "\n" for _, end in passages(text)[:-1])


def test_chinese_passages_hold_about_as_many_words() -> None:
    text = "数据库迁移失败，需要回滚配置。" * 200
    spans = passages(text)
    assert all(end - start <= 600 for start, end in spans)
    assert all(text[end - 1] == "。" for _, end in spans)


@pytest.mark.parametrize("text", ["x" * 5_000_000, PROSE * 50_000, " \n" * 2_000_000, "数" * 3_000_000])
def test_a_huge_text_is_cut_into_so_many_passages_at_most(text: str) -> None:
    """Work that grows with the square of the length would run into the limit of a test."""
    assert 0 < len(passages(text)) <= MAX_PASSAGES


@pytest.mark.parametrize("piece", ["aA", "A", "a", "+", "#", "C++", "é", "ـُ", "数", "ﬁ", "🎉", "0A"])
def test_the_extra_tokens_of_a_huge_text(piece: str) -> None:
    """Work that grows with the square of the length would run into the limit of a test."""
    assert len(extra_tokens(piece * 600_000)) <= 3 * 600_000


class TestIndexTextOf:
    def test_content_is_taken_as_it_is(self) -> None:
        assert index_text_of("  We rolled\n back ") == "  We rolled\n back "

    def test_a_blank_message_has_no_text(self) -> None:
        assert index_text_of(" \n\t") == ""

    def test_strings_of_tool_inputs_follow_in_order(self) -> None:
        tool_input: Json = {
            "path": "src/a.py",
            "n": 3,
            "edits": [{"old": "x = 1", "new": "x = 2"}],
            "ok": True,
        }
        assert index_text_of("Editing.", [tool_input]) == "Editing.\nsrc/a.py\nx = 1\nx = 2"

    def test_arguments_as_json_text_are_read(self) -> None:
        assert index_text_of("", [json.dumps({"command": "grep -r\nfoo"})]) == "grep -r\nfoo"

    @pytest.mark.parametrize("text", ["{broken", "[" * 100_000, "plain words"])
    def test_what_is_not_json_is_taken_as_it_stands(self, text: str) -> None:
        assert index_text_of("", [text]) == ("" if len(text) > 1000 else text)

    def test_data_in_a_tool_input_is_not_words(self) -> None:
        assert index_text_of("", [{"data": "QUJD" * 1000, "name": "a.png"}]) == "a.png"

    def test_a_reference_keeps_its_header_and_exploration_summary(self) -> None:
        content = (
            "[LCM File: file_0123 | report.csv | text/csv | 90000 bytes]\n\n"
            "Some preamble\nExploration Summary:\nCSV with 12 columns\n\nUse lcm_describe to open it.\n"
        )
        assert index_text_of(content) == (
            "[LCM File: file_0123 | report.csv | text/csv | 90000 bytes]\n\nCSV with 12 columns"
        )

    def test_a_reference_without_a_summary_keeps_its_header(self) -> None:
        content = "[LCM Tool Output: file_0123 | exec.txt | text/plain | 9 bytes]\nCall lcm_describe to read."
        assert index_text_of(content) == "[LCM Tool Output: file_0123 | exec.txt | text/plain | 9 bytes]"
