"""The order of hits."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lossless
from lossless.model.times import from_epoch
from lossless.recall.query import MentionedTime, TermFinder, parse_query
from lossless.recall.rank import (
    PIECE_WEIGHT,
    Hit,
    Passage,
    WeighedPassages,
    corrections_first,
    missing_places,
    rank,
    weigh,
)
from lossless.store.search import MessageText

if TYPE_CHECKING:
    from lossless.recall.scope import SortOrder

HOUR = 3600.0
DAY = 24 * HOUR
NOTHING = "Nothing of note was said here."


def said(id_: int | str, seq: int | None, at: float, *texts: str, speaker: str = "") -> Hit:
    """A message or a summary of one conversation, by its passages."""
    passages = [Passage(text, number) for number, text in enumerate(texts)]
    return Hit(id_, 1, seq, at, speaker=speaker, passages=passages)


def weighed(question: str, texts: list[str], *, rows: int = 1000, pace: float = 60.0) -> WeighedPassages:
    """Texts as the messages of one conversation, id and seq from 0, one a minute."""
    query = parse_query(question)
    candidates = [said(at, at, at * pace, text) for at, text in enumerate(texts)]
    return weigh(query, candidates, rows, (0,) * len(query.terms))


def order(question: str, texts: list[str], *, sort: SortOrder = "relevance", now: float = 0.0) -> list[int | str]:
    return [hit.id for hit in rank(weighed(question, texts, pace=DAY), sort=sort, now=now)]


def test_more_of_the_question_comes_first() -> None:
    texts = ["the lock", "the migration lock was held", NOTHING, "a migration"]
    assert order("why was the migration lock held", texts)[0] == 1


def test_a_rare_word_weighs_more_than_a_frequent_one() -> None:
    texts = ["deploy one", "deploy two", "deploy three", "deploy four", "zebra", "deploy five"]
    assert order("deploy zebra", texts)[0] == 4


def test_a_text_with_all_words_comes_before_one_with_many_of_some() -> None:
    texts = ["deploy deploy deploy deploy", "pipeline pipeline pipeline", f"deploy {NOTHING * 20} pipeline"]
    assert order("deploy pipeline", texts)[0] == 2


def test_a_quoted_phrase_comes_first() -> None:
    texts = ["queue of retry, retry queues failed, queue failed", "the failed retry queue", "retry, then queue, failed"]
    assert order('failed "retry queue" yesterday', texts)[:2] in ([0, 1], [1, 0])
    assert order('"then queue" retry failed zebra', [*texts, "zebra"])[0] == 2


def test_an_identifier_comes_first() -> None:
    texts = ["error error 1234 and ERR again and again", "ERR-12345", "it said ERR-1234 once"]
    assert order("error ERR-1234", texts)[0] == 2


def test_of_two_texts_the_shorter_comes_first() -> None:
    assert order("zebra", ["a zebra", f"a zebra {NOTHING}"]) == [0, 1]


def test_words_side_by_side_come_first() -> None:
    close = f"{NOTHING} a charity race, far away from all of us here"
    apart = f"The charity was far from here, {NOTHING} a race"
    assert order("charity race", [close, apart]) == [0, 1]


def test_an_answer_borrows_from_the_question_before_it() -> None:
    query = parse_query("what did Anna adopt")
    texts = {4: "Anna, did you adopt anything?", 5: "Yes, Anna here: a puppy!", 90: "Anna is here"}
    rows = [said(seq, seq, seq * 60.0, text) for seq, text in texts.items()]
    hits = rank(weigh(query, rows, 100, (40, 1)))
    assert [hit.id for hit in hits] == [4, 5, 90]


def test_a_message_without_a_word_of_the_question_is_a_hit_beside_a_good_one() -> None:
    found = weighed("zebra", [NOTHING] * 5 + ["the zebra"] + [NOTHING] * 5)
    assert sorted(missing_places(found)) == [(1, 2), (1, 3), (1, 4), (1, 6), (1, 7), (1, 8)]
    near = [Hit(seq, 1, seq, seq * 60.0, tokens=8) for _, seq in missing_places(found)]
    hits = rank(found, near)
    assert hits[0].id == 5
    assert {hit.id for hit in hits[1:3]} == {4, 6}
    assert hits[1].passages == []
    assert hits[1].matched == ()


def test_nothing_is_borrowed_across_a_pause() -> None:
    found = weighed("zebra", [NOTHING, "the zebra"])
    late = Hit(2, 1, 2, 60.0 + HOUR, tokens=8)
    soon = Hit(2, 1, 2, 60.0 + HOUR - 1, tokens=8)
    assert [hit.id for hit in rank(found, [late])] == [1]
    assert [hit.id for hit in rank(found, [soon])] == [1, 2]


def test_a_long_text_borrows_little() -> None:
    found = weighed("zebra", [NOTHING, "the zebra"])
    short, long = (rank(found, [Hit(2, 1, 2, 120.0, tokens=tokens)])[1].score for tokens in (20, 2000))
    assert long < short


def test_a_good_hit_lifts_its_session() -> None:
    query = parse_query("zebra crossing party")
    rows = [
        said(1, 1, 0.0, "the zebra crossing party"),
        said(2, 20, HOUR / 2, "a party"),
        said(3, 300, 9 * DAY, "a party"),
    ]
    hits = rank(weigh(query, rows, 100, (1, 1, 5)))
    assert [hit.id for hit in hits] == [1, 2, 3]


def test_the_best_passage_speaks_for_a_long_message() -> None:
    query = parse_query("zebra crossing")
    rows = [said(1, 1, 0.0, NOTHING, "a zebra", "zebra crossing", "a")]
    (hit,) = rank(weigh(query, rows, 10, (2, 1)))
    assert hit.matched == ("zebra", "crossing")


def test_words_in_different_passages_of_a_message_are_all_there() -> None:
    query = parse_query("zebra crossing")
    rows = [said(1, 1, 0.0, "a zebra", *[NOTHING] * 8, "a crossing")]
    assert rank(weigh(query, rows, 10, (1, 1)))[0].tier == 0


def test_summaries_are_ranked_by_themselves() -> None:
    query = parse_query("zebra crossing")
    rows = [said("sum_a", None, 0.0, "a zebra"), said("sum_b", None, 0.0, "a zebra crossing")]
    found = weigh(query, rows, 10, (2, 1))
    assert missing_places(found) == []
    assert [hit.id for hit in rank(found)] == ["sum_b", "sum_a"]


def test_the_time_that_is_asked_about_lifts_and_never_excludes() -> None:
    texts = ["the zebra party", "a zebra party"]
    found = weighed("zebra party", texts, pace=DAY)
    assert [hit.id for hit in rank(found, spoken=MentionedTime(0, 0, from_epoch(0), from_epoch(1)))] == [0, 1]
    assert [hit.id for hit in rank(found, spoken=MentionedTime(0, 0, from_epoch(DAY), from_epoch(DAY + 1)))] == [1, 0]


def test_a_message_by_the_one_whom_the_question_names_comes_first() -> None:
    query = parse_query("Where does Ada keep her kayak?")
    texts = [("bob", "Ada, you keep a kayak?"), ("ada", "A kayak, Ada says, is what I keep"), ("ada", "We met.")]
    rows = [said(at, at, at * DAY, text, speaker=speaker) for at, (speaker, text) in enumerate(texts)]
    found = weigh(query, rows, 100, (0,) * len(query.terms))
    assert rank(found)[0].id == 1
    assert found.speaker == "ada"
    both = parse_query("Do Ada and Bob keep a kayak?")
    assert weigh(both, rows, 100, (0,) * len(both.terms)).speaker is None


def test_the_places_of_a_question_for_several_things_are_not_all_taken_by_one_session() -> None:
    texts = ["I read a book, a good book"] * 9 + ["We read it, the third book"]
    for question, others in (("Which books did we read?", 9), ("Which book did we read?", 0)):
        query = parse_query(question)
        rows = [said(at, at, at * 60.0 + (at > 8) * DAY, text) for at, text in enumerate(texts)]
        hits = rank(weigh(query, rows, 100, (0,) * len(query.terms)))
        alone = next(place for place, hit in enumerate(hits) if hit.id == 9)
        assert (alone < 9) == (others == 9)


def test_recency_is_newest_first_among_full_matches() -> None:
    texts = ["zebra crossing", "zebra crossing zebra crossing", "zebra"]
    assert order("zebra crossing", texts, sort="recency") == [1, 0]
    assert order("zebra lion", texts, sort="recency") == [2, 1, 0]


def test_hybrid_prefers_the_newer_of_two_equals() -> None:
    assert order("zebra", ["a zebra", "a zebra"], sort="hybrid", now=2 * DAY) == [1, 0]


def test_hybrid_takes_a_tenth_of_a_percent_an_hour() -> None:
    found = weighed("zebra", ["zebra zebra", "zebra"], pace=DAY)
    (best, second) = rank(found)
    assert best.id == 0
    ratio = best.score / second.score
    hours = (ratio - 1) * 1000
    late = weighed("zebra", ["zebra zebra", "zebra"], pace=(hours + 1) * HOUR)
    soon = weighed("zebra", ["zebra zebra", "zebra"], pace=(hours - 1) * HOUR)
    assert rank(late, sort="hybrid", now=(hours + 1) * HOUR)[0].id == 1
    assert rank(soon, sort="hybrid", now=(hours - 1) * HOUR)[0].id == 0


def test_a_piece_of_an_identifier_that_is_nowhere_whole_counts_in_full() -> None:
    whole = weighed("zebra-crossing", ["zebra-crossing", "a zebra"])
    pieces = weighed("zebra-crossing", ["the zebra", "a zebra"])
    assert whole.weights[1] == pytest.approx(PIECE_WEIGHT * pieces.weights[1])


@pytest.mark.parametrize("question", ["", "???", "zebra"])
def test_no_candidates_no_hits(question: str) -> None:
    assert rank(weighed(question, [])) == []


WORDS = st.sampled_from(["deploy", "pipeline", "lock", "zebra", "数据", "it", "was"])
SORTS: tuple[SortOrder, ...] = ("relevance", "recency", "hybrid")


@given(st.lists(WORDS, max_size=4), st.lists(st.lists(WORDS, max_size=6), max_size=12), st.sampled_from(SORTS))
def test_any_rows_have_an_order(asked: list[str], said: list[list[str]], sort: SortOrder) -> None:
    texts = [" ".join(words) for words in said]
    found = weighed(" ".join(asked), texts)
    hits = rank(found, [], sort=sort, now=1000.0)
    assert len({hit.id for hit in hits}) == len(hits)
    assert all(hit.score > 0 for hit in hits)
    if sort == "relevance":
        assert [(hit.tier, -hit.score) for hit in hits] == sorted((hit.tier, -hit.score) for hit in hits)


@given(st.lists(WORDS, min_size=1, max_size=3), st.lists(st.lists(WORDS, max_size=6), min_size=1, max_size=12))
def test_texts_with_all_words_always_come_first(asked: list[str], said: list[list[str]]) -> None:
    def has_all(hit: Hit) -> bool:
        return content <= set(said[int(hit.id)])

    content = {word for word in asked if word not in ("it", "was")} or set(asked)
    full = [has_all(hit) for hit in rank(weighed(" ".join(asked), [" ".join(words) for words in said]))]
    if any(full):
        assert full == sorted(full, reverse=True)


def test_the_message_after_a_question_is_what_answers_it() -> None:
    texts = ["Which name did the puppy get?", "We call it Biscuit.", NOTHING, "A brown bag."]
    hits = rank(weighed("What name did the new brown puppy get?", texts), [Hit(1, 1, 1, 60.0, tokens=5)])
    assert hits[0].id == 1
    told = ["The puppy got a name.", "We call it Biscuit."]
    hits = rank(weighed("What name did the new brown puppy get?", told), [Hit(1, 1, 1, 60.0, tokens=5)])
    assert hits[0].id == 0


def test_words_for_kinds_of_things_weigh_less() -> None:
    texts = ["which kinds of screws", "the pottery class", "which kinds of nails", "a pottery wheel"]
    assert order("what kinds of pottery", texts)[0] in (1, 3)
    assert order("kinds zebra", ["kinds", "a zebra"])[0] == 1


@pytest.mark.parametrize(
    ("later", "is_first"),
    [("Actually the port is 9090 instead.", True), ("The port is open.", False), ("Actually the crane is red.", False)],
)
def test_a_later_correction_comes_before_what_it_corrects(later: str, is_first: bool) -> None:
    query = parse_query("Which port is it?")
    finder = TermFinder(query.terms)
    ranked = [
        (MessageText(id_, 1, id_, "user", 1000 * id_, 5, text, (), None), score)
        for id_, text, score in ((1, "The port is 8080.", 2.0), (2, later, 1.0))
    ]
    found, newer = corrections_first(ranked, finder, (1.0,) * len(query.terms))
    assert [text.id for text, _ in found] == ([2, 1] if is_first else [1, 2])
    assert newer == ({2: 1} if is_first else {})
    assert corrections_first(ranked[::-1], finder, (1.0,) * len(query.terms)) == (ranked[::-1], newer)


def test_who_speaks_is_how_a_message_begins_or_what_the_host_reports() -> None:
    said = [
        "Ada: I have a kayak that I like.",
        "Well: I hear that we and Ada like a kayak.",
        "Bob: me and Ada like a kayak.",
    ]
    with lossless.open(":memory:", background=False) as engine:
        for at, text in enumerate(said):
            said_at = lossless.Incoming({"role": "user", "content": text}, None, datetime(2026, 1, 5 + at, tzinfo=UTC))
            engine.append(lossless.Session(key="k"), [said_at])
        shown = [hit.snippet for hit in engine.grep("Does Ada like a kayak?").hits]
    assert shown[0] == said[0]
    assert {shown[1], shown[2]} == {*said[1:]}
