"""Recall: one question, the evidence that answers it, within its tokens, the same every time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lossless
from lossless.model.context import NewSummary
from lossless.model.messages import sender_name
from lossless.model.tokens import estimate_tokens
from lossless.recall.evidence import mentioned_days, recall
from lossless.recall.results import find_references
from lossless.recall.scope import whole_archive
from lossless.testing import PLANTED, openai_chat, sample_conversation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lossless.recall.evidence import RecallResult

#: A Wednesday.
NOW = datetime(2026, 4, 1, 12, tzinfo=UTC)
TALK = lossless.Session(key="agent:main:talk")
OTHER = lossless.Session(key="agent:main:other")
DAYS = {
    2: ["Anna: I adopted a puppy yesterday!", "Ben: What is its name?", "Anna: We call it Biscuit."],
    9: ["Ben: The dentist moved my appointment.", "Anna: Oh no. To when?", "Ben: The 14th of May at 9:30."],
    27: [
        "Anna: The boiler is broken again.",
        "Ben: Call Mr. Okafor, he fixed it two weeks ago.",
        "Anna: He comes at 8.",
    ],
}


def said_on(day: int) -> datetime:
    return datetime(2026, 3, day, 10, tzinfo=UTC)


@pytest.fixture(scope="module")
def engine() -> Iterator[lossless.Engine]:
    with lossless.open(":memory:", background=False, clock=lambda: NOW) as engine:
        for day, texts in DAYS.items():
            engine.append(
                TALK,
                [
                    lossless.Incoming({"role": "user", "content": text}, created_at=said_on(day) + timedelta(minutes=n))
                    for n, text in enumerate(texts)
                ],
            )
        engine.append(OTHER, [{"role": "user", "content": "Our puppy is called Otto."}])
        sources = engine.archive.context.items(1)[0:3]
        with engine.archive.writing():
            summary = NewSummary("sum_00112233aabbccdd", 0, "Anna has a puppy.", 5, "m")
            engine.archive.summaries.insert(1, sources, summary, NOW)
            engine.archive.context.replace(1, sources, summary.id, NOW)
        yield engine


def test_the_answer_stands_beside_the_words_of_the_question(engine: lossless.Engine) -> None:
    found = engine.recall("What is the name of the puppy that Anna adopted?", session=TALK)
    assert [item.id for item in found.evidence][:3] == [1, 3, 2]
    assert "Biscuit" in str(found)
    assert "Otto" not in str(found)
    assert "Otto" in str(engine.recall("What is the name of the puppy?"))


def test_evidence_is_cited_dated_and_below_its_summary(engine: lossless.Engine) -> None:
    text = str(engine.recall("Who adopted a puppy?", conversation_id=1))
    lines = text.splitlines()
    assert "[2026-03-02, sum_00112233aabbccdd]" in lines
    assert "msg#1 user: Anna: I adopted a puppy yesterday! [yesterday = 2026-03-01]" in lines
    assert {reference.id for _, _, reference in find_references(text)} >= {"msg#1", "msg#2", "sum_00112233aabbccdd"}


def test_every_item_says_where_it_is_from(engine: lossless.Engine) -> None:
    first = engine.recall("When is the dentist?", session=TALK).evidence[0]
    assert (first.id, first.conversation_id, first.seq, first.role, first.reference) == (4, 1, 4, "user", "msg#4")
    assert first.created_at == said_on(9)
    assert first.score > 0
    assert first.summary_id is None


def test_times_in_the_question_are_relative_to_now(engine: lossless.Engine) -> None:
    found = engine.recall("What did Anna say last Friday?", session=TALK)
    assert found.evidence[0].created_at.date() == said_on(27).date()
    assert '"last Friday" was read as 2026-03-27' in str(found)


def test_times_in_evidence_are_relative_to_its_day(engine: lossless.Engine) -> None:
    found = str(engine.recall("Who fixed the boiler?", session=TALK))
    assert "[two weeks ago = 2026-03-10..2026-03-16]" in found


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("we met yesterday", "yesterday = 2026-04-01"),
        ("last week was hard", "last week = 2026-03-23..2026-03-29"),
        ("last month", "last month = 2026-03-01..2026-03-31"),
        ("gestern war es kalt", "gestern = 2026-04-01"),
        ("see you on Friday", ""),
        ("in 2024", ""),
        ("on 2026-01-05", ""),
        ("at last", ""),
        ("", ""),
    ],
)
def test_what_a_day_meant(text: str, days: str) -> None:
    assert mentioned_days(text, datetime(2026, 4, 2, 8, tzinfo=UTC)) == days


def test_days_are_those_of_the_time_zone(engine: lossless.Engine) -> None:
    late = datetime(2026, 3, 2, 9, tzinfo=ZoneInfo("Pacific/Kiritimati"))
    found = recall(engine.archive, whole_archive(), "puppy adopted", 2000, NOW.astimezone(late.tzinfo))
    assert "[2026-03-03, conversation 1" in str(found)


def test_nothing_to_be_found(engine: lossless.Engine) -> None:
    for question in ("zebra crossings?", "", "???", "\0"):
        found = engine.recall(question, session=TALK)
        assert not found.evidence
        assert "Nothing in scope" in str(found)
    nobody = engine.recall("puppy", session=lossless.Session(key="nobody"))
    assert not nobody.evidence


def test_letters_will_do(engine: lossless.Engine) -> None:
    assert engine.recall("kafo", session=TALK).evidence[0].id == 8


def test_long_messages_are_quoted_in_pieces() -> None:
    hay = " ".join(f"line {n} of the log says nothing at all." for n in range(400))
    with lossless.open(":memory:", background=False, clock=lambda: NOW) as engine:
        engine.append(
            TALK, [{"role": "assistant", "content": f"{hay} The needle lies in drawer 7. {hay}"} for _ in range(30)]
        )
        found = engine.recall("Where does the needle lie?", session=TALK)
        assert len(found.evidence) >= 15
        assert all("needle lies in drawer 7" in item.text for item in found.evidence)
        assert all(item.text.startswith("…") and item.text.endswith("…") for item in found.evidence)
        assert 1500 < estimate_tokens(str(found)) <= 2000


def test_the_sender_is_named() -> None:
    assert sender_name('{"name": "Aiko", "id": 7}') == "Aiko"
    assert sender_name('{"username": "emeka\\nlines"}') == "emeka lines"
    assert sender_name('{"senderId": "7", "senderName": "Ada"}') == "Ada"
    assert sender_name("Priya") == "Priya"
    assert sender_name(None) == sender_name("") == sender_name("{}") == ""


@pytest.fixture(scope="module")
def ferry() -> Iterator[lossless.Engine]:
    with lossless.open(":memory:", background=False, clock=lambda: NOW) as engine:
        chat: list[Any] = list(openai_chat(sample_conversation(400)))
        engine.append(TALK, chat)
        yield engine


def test_planted_facts_are_recalled(ferry: lossless.Engine) -> None:
    missed = [fact for fact in PLANTED if fact.answer.casefold() not in str(ferry.recall(fact.question)).casefold()]
    assert not missed


@settings(deadline=None, max_examples=20)
@given(
    question=st.text(max_size=40) | st.sampled_from([fact.question for fact in PLANTED]), tokens=st.integers(0, 3000)
)
def test_any_question_within_any_room(ferry: lossless.Engine, question: str, tokens: int) -> None:
    found: RecallResult = ferry.recall(question, max_tokens=tokens)
    assert estimate_tokens(str(found)) <= tokens
    assert str(found) == str(ferry.recall(question, max_tokens=tokens))
    assert len({item.id for item in found.evidence}) == len(found.evidence)
    for item in found.evidence:
        stored = " ".join(ferry.archive.search.messages([item.id])[0].indexed.split())
        assert item.text.strip("…").strip() in stored


# --- times, orders, corrections ----------------------------------------------------------------------------


COURSE = {
    2: ["The launch of the harbour app is on 3 May.", "Noted: launch on 3 May."],
    9: ["I like the blue theme for the harbour app.", "Blue it is."],
    20: ["Actually the launch of the harbour app moved to 17 May.", "Launch on 17 May, then."],
    31: ["The crane at pier four was repaired by Otis.", "Good news about the crane."],
}


def talk(engine: lossless.Engine, day: int, texts: Iterable[str]) -> None:
    """A question and its answer, on a day."""
    rows: list[Any] = [
        lossless.Incoming({"role": role, "content": text}, created_at=said_on(day) + timedelta(minutes=n))
        for n, (role, text) in enumerate(zip(("user", "assistant"), texts, strict=True))
    ]
    engine.append(TALK, rows)


@pytest.fixture(scope="module")
def course() -> Iterator[lossless.Engine]:
    with lossless.open(":memory:", background=False, clock=lambda: NOW) as engine:
        for day, texts in COURSE.items():
            talk(engine, day, texts)
        yield engine


def test_a_correction_stands_before_what_it_corrects(course: lossless.Engine) -> None:
    found = course.recall("When is the launch of the harbour app?")
    ids = [item.id for item in found.evidence]
    assert ids.index(5) < ids.index(1)
    assert found.lines[1] == found.note == "msg#5 is newer than msg#1 on the same matter."


def test_how_something_changed_is_told_in_order_after_its_newest_word(course: lossless.Engine) -> None:
    found = course.recall("How has the launch of the harbour app changed?")
    newest, rest = found.evidence[0].place, [item for item in found.evidence if item.place != found.evidence[0].place]
    assert newest[1] == max(item.place[1] for item in found.evidence)
    assert [item.created_at for item in rest] == sorted(item.created_at for item in rest)
    assert [line for line in found.lines if line.endswith("in order of time:")] == [
        f"[{newest[1]}, conversation 1] newest word on it; the rest in order of time:"
    ]


def test_a_question_about_the_order_is_answered_in_it(course: lossless.Engine) -> None:
    found = course.recall("In which order did things about the harbour app happen?")
    times = [item.created_at for item in found.evidence]
    assert len(times) > 3
    assert times == sorted(times)
    assert found.note.startswith("In order of time.")
    assert "newest word" not in str(found)


@pytest.mark.parametrize("max_tokens", [200, 2_000])
def test_the_text_keeps_the_order_of_two_sessions_of_one_day(max_tokens: int) -> None:
    with lossless.open(":memory:", background=False, clock=lambda: NOW) as engine:
        for n in range(8):
            text = {"role": "user", "content": f"Ferry plan {n}: the harbour office moved ferry {n}."}
            at = said_on(3) + timedelta(minutes=10 * n)
            engine.append((TALK, OTHER)[n % 2], [lossless.Incoming(text, created_at=at)])
        found = engine.recall(
            "In which order did we talk of the ferry plan?", all_conversations=True, max_tokens=max_tokens
        )
    shown = [line.split()[0] for line in str(found).splitlines() if line.startswith("msg#")]
    assert shown == [item.reference for item in found.evidence] == sorted(shown)
    assert len(shown) >= 3
    assert max_tokens == 200 or len(shown) == 8


def test_the_text_has_the_order_of_the_evidence_under_its_headings(course: lossless.Engine) -> None:
    found = course.recall("harbour app launch noted")
    days = list(dict.fromkeys(item.place for item in found.evidence))
    by_day = [item.reference for day in days for item in found.evidence if item.place == day]
    assert [line.split()[0] for line in found.lines[2:] if line.startswith("msg#")] == by_day


def test_one_note_on_a_matter_and_none_on_words_that_are_said_again_and_again() -> None:
    standing = "The deploy of the ferry app is now automatic. Actually the deploy key is in the vault."
    moved = ["The deploy of the ferry app is on Monday.", "Actually the deploy of the ferry app moved to Tuesday."]
    with lossless.open(":memory:", background=False, clock=lambda: NOW) as engine:
        rows = [{"role": "system", "content": standing}, {"role": "user", "content": moved[0]}]
        engine.append(TALK, [*rows, *({"role": "user", "content": f"{standing}\nRound {n}."} for n in range(4))])
        assert not engine.recall("When is the deploy of the ferry app?").note
        engine.append(TALK, [{"role": "user", "content": text} for text in (moved[1], f"{moved[1]} No longer Monday.")])
        assert (
            engine.recall("When is the deploy of the ferry app?").note
            == "msg#8 is newer than msg#2 on the same matter."
        )


@pytest.mark.parametrize("question", ["What happened yesterday?", "What did we talk about on 31 March?"])
def test_a_question_about_nothing_but_a_time_is_answered_from_it(course: lossless.Engine, question: str) -> None:
    found = course.recall(question)
    assert {item.id for item in found.evidence} == {7, 8}
    assert "2026-03-31" in found.note
    assert course.recall("What did we say about the app on 9 March?").evidence[0].id == 3


# --- questions about what the asker said --------------------------------------------------------------------


@pytest.fixture(scope="module")
def wishes() -> Iterator[lossless.Engine]:
    texts = [
        ("Which charts suit a report about harbour traffic?", "Bar charts suit a report about harbour traffic well."),
        (
            "Always put a table below the charts of a report, please.",
            "Tables below the charts of a report, I see.",
        ),
        ("The report about harbour traffic has 40 pages.", "Charts in a report of 40 pages need captions."),
        ("From now on number the charts.", "The charts are numbered."),
    ]
    with lossless.open(":memory:", background=False, clock=lambda: NOW) as engine:
        for day, pair in enumerate(texts, 1):
            talk(engine, day, pair)
        yield engine


def test_what_the_asker_wants_is_in_his_own_words(wishes: lossless.Engine) -> None:
    found = wishes.recall("What instructions did I give you about the charts of a report?").evidence
    assert found[0].id == 3
    assert next(item.id for item in found if item.role == "user" and item.id != 3) in (1, 7)
    assert wishes.recall("What did you tell me about the charts of a report?").evidence[0].role == "assistant"


def test_a_course_of_events_has_a_message_of_every_day(wishes: lossless.Engine) -> None:
    found = wishes.recall("Summarise how my charts developed").evidence
    assert {item.created_at.date() for item in found} == {said_on(day).date() for day in range(1, 5)}
    assert found[0].created_at.date() == said_on(4).date()


def test_a_request_is_answered_with_what_the_asker_always_wants(wishes: lossless.Engine) -> None:
    assert 7 in {item.id for item in wishes.recall("Could you draft 40 pages on the harbour?").evidence}
    assert 7 not in {hit.id for hit in wishes.grep("harbour pages").hits if hit.matches}
    assert wishes.recall("Could you draft a memo on tides?").evidence == ()


def test_the_first_word_on_something_counts_when_the_order_is_asked_for(wishes: lossless.Engine) -> None:
    hits = wishes.grep("In which order did I bring up the charts and the pages?").hits
    assert {hit.id for hit in [hit for hit in hits if hit.role == "user"][:2]} == {1, 5}
