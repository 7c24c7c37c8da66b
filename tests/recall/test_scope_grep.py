"""Search: whatever was said is found, in scope, in order, and no text makes it fail."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lossless
from lossless.errors import BadInput, BadPattern
from lossless.model.context import NewSummary
from lossless.recall.results import parse_reference
from lossless.recall.scope import GrepRequest, Scope, whole_archive
from lossless.recall.search import SearchLimits, grep
from tests.recall.searching import ANNA, BEN, NOW, SAID, START, ids, say

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def engine() -> Iterator[lossless.Engine]:
    with lossless.open(":memory:", background=False, clock=lambda: NOW) as engine:
        say(engine, ANNA, SAID)
        yield engine


# --- words ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Why did the billing worker drop a batch?", 1),
        ("billing batches dropping", 1),
        ('"retry queue"', 2),
        ("ERR-4711", 2),
        ("retry.py", 2),
        ("src/billing/retry.py", 2),
        ("user name", 2),
        ("数据库", 3),
        ("库", 3),
        ("日志", 3),
        ("cafe zurich", 4),
        ("CAFÉ", 4),
        ("🎉", 4),
        ("C++", 5),
        ("postgres", 5),
        ("what about the ledger, and: the (engine)?", 5),
        ("ploy", 1),
        ("ling wor", 1),
        ("711 in s", 2),
        (": ERR-4711 in", 2),
        ("  ", 0),
        ("...", 0),
        ("移失", 3),
        ("hließt", 4),
        ("deploy.*batch", 1),
    ],
)
def test_the_best_hit(engine: lossless.Engine, question: str, first: int) -> None:
    found = engine.grep(question)
    assert (ids(found) or [0])[0] == first
    if not found.hits:
        assert found.hint


def test_a_hit_says_what_it_is(engine: lossless.Engine) -> None:
    hit = engine.grep("retry queue").hits[0]
    assert (hit.id, hit.kind, hit.conversation_id, hit.seq, hit.role) == (2, "message", 1, 2, "assistant")
    assert hit.created_at == START + timedelta(minutes=1)
    assert hit.snippet[slice(*hit.matches[0])] == "retry queue"
    assert hit.score > 0
    assert (hit.depth, hit.summary_id) == (None, None)


def test_messages_beside_a_hit_are_hits(engine: lossless.Engine) -> None:
    beside = [hit for hit in engine.grep("PostgreSQL").hits if not hit.matches]
    assert {hit.id for hit in beside} >= {4, 6}


def test_regex_looking_text_is_words_with_a_hint(engine: lossless.Engine) -> None:
    found = engine.grep(r"deploy.*batch")
    assert found.hint
    assert 'mode="regex"' in found.hint


def test_newest_first_needs_all_words_or_takes_some(engine: lossless.Engine) -> None:
    say(engine, ANNA, ["the worker again", "a batch again", "the worker and its batch"], START + timedelta(days=1))
    assert ids(engine.grep("worker batch", sort="recency")) == [9, 1]
    assert ids(engine.grep("worker zebra", sort="recency")) == [9, 7, 1]


def test_hybrid_prefers_the_newer_of_two_alike(engine: lossless.Engine) -> None:
    say(engine, ANNA, [SAID[4]], START + timedelta(days=29))
    assert ids(engine.grep("postgresql ledger", sort="hybrid"))[0] == 7


def test_times_of_the_question_lift(engine: lossless.Engine) -> None:
    for days in (10, 24, 29):
        say(engine, ANNA, ["The meeting was moved again."], START + timedelta(days=days))
    assert ids(engine.grep("what was said about the meeting last week?"))[0] == 8


# --- scope ------------------------------------------------------------------------------------------


def test_scopes(engine: lossless.Engine) -> None:
    say(engine, BEN, ["Another worker, another batch"])
    assert ids(engine.grep("worker", session=ANNA))[0] == 1
    assert ids(engine.grep("worker", session=BEN)) == [7]
    assert ids(engine.grep("worker", conversation_id=2)) == [7]
    assert {1, 7} <= set(ids(engine.grep("worker", session=ANNA, all_conversations=True)))
    assert {1, 7} <= set(ids(engine.grep("worker")))
    nobody = engine.grep("worker", session=lossless.Session(key="nobody"))
    assert not nobody.hits
    assert "No LCM conversation" in str(nobody)
    with pytest.raises(lossless.LosslessError):
        engine.grep("worker", conversation_id=99)


def test_a_conversation_sees_its_family(engine: lossless.Engine) -> None:
    engine.reset(ANNA)
    say(engine, ANNA, ["A new worker"], START + timedelta(days=2))
    assert {1, 7} <= set(ids(engine.grep("worker", session=ANNA)))


@pytest.mark.parametrize("sort", ["relevance", "recency", "hybrid"])
@pytest.mark.parametrize("mode", ["full_text", "regex"])
def test_since_is_inside_and_before_is_not(engine: lossless.Engine, mode: Any, sort: Any) -> None:
    say(engine, BEN, ["tick"] * 5, START + timedelta(days=3))
    at = [START + timedelta(days=3, minutes=n) for n in range(5)]
    found = engine.grep("tick", mode=mode, sort=sort, since=at[1], before=at[3].isoformat())
    assert sorted(map(int, ids(found))) == [8, 9]
    assert "Time:" in str(found)


def test_times_that_make_no_sense(engine: lossless.Engine) -> None:
    for times in ({"since": NOW, "before": NOW}, {"since": "yesterday"}, {"before": "2026-13-01"}):
        with pytest.raises(BadInput):
            engine.grep("worker", **times)
    assert engine.grep("worker", since="2026-03-02").hits


def test_limits_are_clamped(engine: lossless.Engine) -> None:
    say(engine, BEN, [f"tock {n}" for n in range(230)])
    assert len(engine.grep("tock", limit=0).hits) == 1
    assert len(engine.grep("tock", limit=-5, mode="regex").hits) == 1
    assert len(engine.grep("tock", limit=10_000).hits) == 200
    for more in ({"mode": "sql"}, {"sort": "best"}, {"scope": "all"}):
        with pytest.raises(BadInput):
            engine.grep("tock", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{}, {"sort": "recency"}, {"sort": "hybrid"}, {"mode": "regex"}])
def test_pages_have_no_gap_and_no_repeat(engine: lossless.Engine, options: dict[str, Any]) -> None:
    say(engine, BEN, [f"tock {n}" for n in range(40)])
    engine.append(ANNA, [lossless.Incoming({"role": "user", "content": "tock"}, created_at=START)])
    whole = ids(engine.grep("tock", limit=200, **options))
    pages: list[int | str] = []
    cursor = None
    while True:
        found = engine.grep("tock", limit=7, cursor=cursor, **options)
        pages += ids(found)
        if not found.truncated:
            break
        cursor = found.cursor
    assert pages == whole
    with pytest.raises(BadInput):
        engine.grep("tock", cursor="AAAA", **options)


# --- summaries --------------------------------------------------------------------------------------


def fold(engine: lossless.Engine, first: int, last: int, summary: NewSummary) -> None:
    sources = engine.archive.context.items(1)[first : last + 1]
    with engine.archive.writing():
        engine.archive.summaries.insert(1, sources, summary, NOW)
        engine.archive.context.replace(1, sources, summary.id, NOW)


def test_summaries_are_found_and_gather_their_messages(engine: lossless.Engine) -> None:
    fold(
        engine,
        0,
        1,
        NewSummary("sum_0123456789abcdef", 0, "The worker lost a batch; the retry queue was full.", 9, "m"),
    )
    found = engine.grep("retry queue batch")
    assert {hit.kind for hit in found.hits} == {"message", "summary"}
    summary = next(hit for hit in found.hits if hit.kind == "summary")
    assert (summary.id, summary.depth, summary.seq) == ("sum_0123456789abcdef", 0, None)
    assert next(hit for hit in found.hits if hit.id == 2).summary_id == summary.id
    text = str(found)
    assert text.index("### sum_0123456789abcdef") < text.index("[conv=1 msg#2]")
    assert ids(engine.grep("lost", scope="summaries")) == [summary.id]
    assert summary.id not in ids(engine.grep("queue", scope="messages"))
    assert ids(engine.grep(r"lost \w batch", mode="regex")) == [summary.id]
    lines = [line for line in text.splitlines() if line.startswith("- [conv=")]
    assert len(lines) == len(found.hits)
    assert {str(parse_reference(line)) for line in lines} == {hit.reference for hit in found.hits}


# --- regular expressions ----------------------------------------------------------------------------


def test_regexes_are_exact_and_newest_first(engine: lossless.Engine) -> None:
    assert ids(engine.grep(r"ERR-\d+", mode="regex")) == [2]
    assert ids(engine.grep(r"^(The|Can) ", mode="regex")) == [2, 1]
    assert ids(engine.grep("the LEDGER", mode="regex")) == []
    assert ids(engine.grep("(?i)the LEDGER", mode="regex")) == [5]
    assert ids(engine.grep("败，请", mode="regex")) == [3]
    with pytest.raises(BadPattern) as caught:
        engine.grep("worker (", mode="regex")
    assert caught.value.position == 8


def test_a_catastrophe_stops_in_time_with_what_was_found(engine: lossless.Engine) -> None:
    means = SearchLimits(60.0, share=0.002)  # much time in all, and little for one text
    say(engine, BEN, ["a" * 5000 + "!", "aaab found", "a" * 5000 + "?"])
    found = grep(engine.archive, whole_archive(), GrepRequest("(a|a)+(b|$)", "regex"), NOW, means=means)
    assert 8 in ids(found)
    assert found.truncated
    assert found.hint
    assert "took too long" in found.hint or "in time" in found.hint


def test_tool_calls_are_searched(engine: lossless.Engine) -> None:
    arguments = '{"path": "deep/\\"quoted\\"/naïve.py", "n": 3}'
    call: dict[str, Any] = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": arguments}}
    engine.append(BEN, [{"role": "assistant", "content": None, "tool_calls": [call]}])
    for pattern in ("naive.py", 'deep/"quoted"', "/naïv"):
        assert ids(engine.grep(pattern))[0] == 7
    assert ids(engine.grep(r'deep/"\w+"/na', mode="regex")) == [7]
    assert ids(engine.grep("naïve", mode="regex")) == [7]


# --- promises ---------------------------------------------------------------------------------------

_letters = st.characters(codec="utf-8") | st.sampled_from("abcdeé 数据库.,\n\"'-_*()[]{}\\|^$%0\x00")
_texts = st.text(_letters, max_size=80)


@settings(deadline=None, max_examples=20)
@given(contents=st.lists(_texts, min_size=1, max_size=6), data=st.data())
def test_every_piece_of_what_was_said_is_found(contents: list[str], data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(contents))
    start = data.draw(st.integers(0, len(chosen)))
    piece = chosen[start : data.draw(st.integers(start, len(chosen)))]
    with lossless.open(":memory:", background=False) as engine:
        engine.append(ANNA, [{"role": "user", "content": content} for content in contents])
        wanted = {n for n, content in enumerate(contents, 1) if piece in content}
        stored = {stored.id for stored in engine.archive.messages.in_order(1)}
        if len(piece) < 3 or len(stored) != len(contents):
            return
        for sort in ("relevance", "recency"):
            found = set(ids(engine.grep(piece, sort=sort)))
            assert wanted <= found
        literally = "".join(f"\\x{{{ord(letter):x}}}" if letter == "\0" else letter for letter in _escaped(piece))
        assert set(ids(engine.grep(literally, mode="regex"))) == wanted


def _escaped(text: str) -> str:
    return "".join(f"\\{letter}" if not letter.isalnum() and letter != "\0" else letter for letter in text)


@pytest.fixture(scope="module")
def crowd() -> Iterator[lossless.Engine]:
    with lossless.open(":memory:", background=False, clock=lambda: NOW) as engine:
        say(engine, ANNA, [*SAID, *(f"{text} {n}" for n, text in enumerate(SAID))])
        yield engine


_odd = st.text(max_size=30) | st.text("\"'()*:^-+{}[]|\\.?ANDORNEAR \0\ud800数é", max_size=20)


@settings(deadline=None, max_examples=35)
@given(
    pattern=_odd,
    sort=st.sampled_from(["relevance", "recency", "hybrid"]),
    scope=st.sampled_from(["both", "messages", "summaries", "files"]),
)
def test_no_text_raises(crowd: lossless.Engine, pattern: str, sort: Any, scope: Any) -> None:
    found = crowd.grep(pattern, sort=sort, scope=scope)
    assert found.hits or found.hint
    assert all(0 <= start <= end <= len(hit.snippet) for hit in found.hits for start, end in hit.matches)
    assert len(str(found)) <= 40_000
    try:
        crowd.grep(pattern, mode="regex", scope=scope)
    except BadPattern as error:
        assert error.pattern == pattern or "…" in error.pattern or "\ud800" in pattern  # noqa: PT017


def test_the_same_search_gives_the_same_answer(crowd: lossless.Engine) -> None:
    assert str(crowd.grep("billing worker batch")) == str(crowd.grep("billing worker batch"))


def test_a_long_result_is_cut_and_says_so(engine: lossless.Engine) -> None:
    say(engine, BEN, [f"needle {n} " + "hay " * 120 for n in range(150)])
    found = engine.grep("needle hay", limit=200)
    assert len(str(found)) <= 40_000
    assert "(truncated:" in str(found)
    assert Scope("all", None) == found.scope
