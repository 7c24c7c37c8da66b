"""Questions become terms and valid expressions, whatever they are."""

from __future__ import annotations

import random
from collections.abc import Callable

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.model.search_text import extra_tokens
from lossless.recall.query import EMPTY_HINT, MAX_TERMS, REGEX_HINT, ROW_BUDGET, candidate_expressions, parse_query

Search = Callable[[str], list[int]]

TEXTS = (
    "The deployment of the retry queue failed with ERR-1234.",
    "Please call getUserName() in src/store/session.ts before lunch.",
    "数据库迁移失败，需要回滚配置。",
    "サーバーを再起動する",
    "데이터베이스를 복구했다",
    "All good 🎉 written in C++ and F#.",
    "Die Verträge wurden gestern unterschrieben.",
    "Ещё одна миграция базы данных.",
    "Der Café-Besitzer heißt Müller.",
    "هذا مُحَمَّد",
    "हिन्दी में लिखा",
)


@pytest.fixture(scope="module")
def search() -> Search:
    archive = apsw.Connection(":memory:")
    archive.execute(
        "CREATE VIRTUAL TABLE f USING fts5(body, extra, content='', contentless_delete=1, "
        "tokenize='porter unicode61 remove_diacritics 2')"
    )
    for rowid, text in enumerate(TEXTS):
        archive.execute("INSERT INTO f(rowid, body, extra) VALUES (?, ?, ?)", (rowid, text, extra_tokens(text)))

    def found(match: str) -> list[int]:
        return [row[0] for row in archive.execute("SELECT rowid FROM f WHERE f MATCH ? ORDER BY rank", (match,))]

    return found


@pytest.mark.parametrize(
    ("question", "row"),
    [
        pytest.param("Why did the deploy fail?", 0, id="a longer word that begins like the asked one"),
        pytest.param("what about retrying queues", 0, id="inflected words"),
        pytest.param("ERR-1234", 0, id="an error code"),
        pytest.param("err_1234?", 0, id="an error code written otherwise"),
        pytest.param("get_user_name", 1, id="snake case finds camel case"),
        pytest.param("user", 1, id="a piece of camel case"),
        pytest.param("session.ts", 1, id="the end of a path"),
        pytest.param("数据库迁移为什么失败了？", 2, id="a Chinese question"),
        pytest.param("库", 2, id="one Chinese letter"),
        pytest.param("サーバーの再起動", 3, id="Japanese"),
        pytest.param("데이터베이스", 4, id="Korean without its particle"),
        pytest.param("🎉", 5, id="emoji"),
        pytest.param("is it C++?", 5, id="C++"),
        pytest.param("Wann wurde der Vertrag unterschrieben?", 6, id="German"),
        pytest.param("VERTRAGE", 6, id="without accents"),
        pytest.param("еще миграции баз", 7, id="Russian endings and ё"),
        pytest.param("cafe muller", 8, id="without accents, two words"),
        pytest.param("محمد", 9, id="Arabic without vowel signs"),
        pytest.param("हिन्दी", 10, id="Hindi"),
        pytest.param('"retry queue"', 0, id="a quoted phrase"),
        pytest.param("“retry queue”", 0, id="curly quotes"),
    ],
)
def test_a_question_finds_its_text_first(search: Search, question: str, row: int) -> None:
    assert search(parse_query(question).match_any)[0] == row
    assert search(parse_query(question).match_all)[:1] in ([row], [])


@pytest.mark.parametrize(
    ("question", "terms"),
    [
        ("What is the status of the migration?", ["status", "migration"]),
        ("What's Caroline's plan?", ["caroline", "plan"]),
        ("what is it", ["what", "is", "it"]),
        ("running runs run", ["running"]),
        ("the AND of OR and NOT", ["the", "and", "of", "or", "not"]),
        ("NEAR(deploy queue)", ["near", "deploy", "queue"]),
        ("follow-up", ["follow-up", "follow"]),
        ("plan b", ["plan"]),
        ("  \t\n ", []),
        ("?!…", []),
    ],
)
def test_terms(question: str, terms: list[str]) -> None:
    assert [term.text for term in parse_query(question).terms] == terms


@pytest.mark.parametrize(
    ("question", "required"),
    [
        ('the "retry queue" failed', ["retry queue"]),
        ("ERR-1234 in src/a.py", ["ERR-1234", "src/a.py"]),
        ("a well-known YouTube channel", []),
    ],
)
def test_phrases_and_identifiers_are_required(question: str, required: list[str]) -> None:
    assert [term.text for term in parse_query(question).terms if term.required] == required


@pytest.mark.parametrize("question", ["foo.*bar", r"\bfoo\w+", "^start", "end$", "(?:a)", "a|b", "x{2,3}", "[a-z]+"])
def test_what_looks_like_a_regex_is_searched_as_words_with_a_hint(question: str) -> None:
    query = parse_query(question)
    assert query.hint == REGEX_HINT
    assert query.terms


@pytest.mark.parametrize(
    "question", ["What? Really?", r"C:\dev\src\main.py", "list[int]", '"foo.*bar"', "costs $5 (or 6)", "a.b.c"]
)
def test_what_does_not_look_like_a_regex_has_no_hint(question: str) -> None:
    assert parse_query(question).hint is None


def test_a_question_without_words_says_so() -> None:
    query = parse_query("→ ??")
    assert (query.terms, query.hint) == ((), EMPTY_HINT)


@given(st.text(st.characters(exclude_categories=()), max_size=300))
def test_no_string_raises(search: Search, question: str) -> None:
    query = parse_query(question)
    search(query.match_any)
    search(query.match_all)
    assert len(query.terms) <= MAX_TERMS


def test_no_row_of_odd_pieces_raises(search: Search) -> None:
    pieces = ['"', "'", "*", "(", ")", "AND", "OR", "NOT", "NEAR", "^", "-", "+", ":", "body:", "\0", "\ud800", "数"]
    pieces += ["ß", "é", "🎉", "\u200d", "a", "1", " ", "\n", "\\", "\\b", "{", "}", "\u0301", "ـُ", "C++", "aB", "“"]
    rng = random.Random(7)
    for _ in range(3000):
        query = parse_query("".join(rng.choices(pieces, k=rng.randrange(12))))
        search(query.match_any)
        search(query.match_all)


@pytest.mark.parametrize(
    "text", ['"' * 1_000_000, "a" * 1_000_000, "a." * 500_000, "数" * 1_000_000, "\\b" * 500_000, "[" * 999_999]
)
def test_a_huge_question_is_cut(text: str) -> None:
    assert len(parse_query(text).terms) <= MAX_TERMS


def test_candidates_are_any_of_the_terms() -> None:
    query = parse_query("deploy pipeline")
    assert candidate_expressions(query, [3, 4], 200) == [(query.match_any, None, 200)]


def test_texts_with_all_terms_are_candidates_of_their_own_when_there_are_many() -> None:
    query = parse_query("deploy pipeline")
    assert candidate_expressions(query, [300, 2000], 200)[1] == ('("deploy") AND ("pipeline")', None, 100)


def test_terms_that_are_everywhere_do_not_choose_candidates() -> None:
    query = parse_query("deploy pipeline zebra")
    rare, everywhere = 5, ROW_BUDGET
    (any_match, _, _), (all_match, _, _) = candidate_expressions(query, [everywhere, 100, rare], 200)
    assert "deploy" not in any_match
    assert "pipeline" in any_match
    assert "zebra" in any_match
    assert "deploy" in all_match


def test_a_term_that_is_nowhere_still_looks_for_longer_words() -> None:
    assert candidate_expressions(parse_query("confi"), [0], 200) == [('"confi" OR "conf"*', None, 200)]


def test_a_far_more_frequent_term_only_weighs_in_where_the_others_have_enough_rows() -> None:
    query = parse_query("deploy pipeline zebra")
    zebra_or_pipeline = '"pipeline" OR "pipelin"* OR "zebra" OR "zebra"*'
    assert candidate_expressions(query, [9_000, 700, 300], 200)[0] == (query.match_any, zebra_or_pipeline, 200)
    assert candidate_expressions(query, [7_000, 700, 300], 200)[0] == (query.match_any, None, 200)
    assert candidate_expressions(query, [9_000, 70, 30], 200)[0] == (query.match_any, None, 200)


def test_no_more_rows_are_scored_than_may_be() -> None:
    query = parse_query("deploy pipeline zebra")
    zebra_or_pipeline = '"pipeline" OR "pipelin"* OR "zebra" OR "zebra"*'
    assert candidate_expressions(query, [900, 70, 30], 200, 500)[0] == (query.match_any, zebra_or_pipeline, 200)
    assert candidate_expressions(query, [9_000, 70, 30], 200, 500)[0] == (zebra_or_pipeline, None, 200)
    assert [match for match, _, _ in candidate_expressions(query, [900, 800, 700], 200, 500)] == [
        '("deploy") AND ("pipeline") AND ("zebra")'
    ]


@pytest.mark.parametrize(
    ("question", "terms"),
    [
        ("In which order did I bring up the aspects of my adoption plans?", ["adoption", "plans"]),
        ("Can you summarise how my studio progressed throughout our chats?", ["studio"]),
        ("What instructions did I give you about code blocks?", ["code", "blocks"]),
        ("Which rules did you mention?", ["rules", "mention"]),
        ("What did I mention?", ["mention"]),
        ("Where is the order form of the shop?", ["order", "form", "shop"]),
        ("Which conversations share a summary row?", ["conversations", "share", "summary", "row"]),
        ("Who gave the tour?", ["gave", "tour"]),
    ],
)
def test_words_that_only_ask_about_the_talk_are_not_looked_for(question: str, terms: list[str]) -> None:
    assert [term.text for term in parse_query(question).terms] == terms


def test_whom_a_question_is_about() -> None:
    assert parse_query("Which colours do I prefer?").is_own
    assert parse_query("Which colours do I prefer?").asks_wishes
    assert not parse_query("What did you tell me about my car?").is_own
    assert not parse_query("Which colours does Ben prefer?").asks_wishes
    assert parse_query("What did I tell you to leave out of your answers?").is_own
    assert parse_query("How has the schema changed over time?").is_own
    assert parse_query("Could you draft a reply to Ben?").is_request
    assert not parse_query("Summarise what we did about the schema").is_request
