"""Times that a text speaks of, on a clock that stands still."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.recall.query import find_times, narrowest_time

#: A Friday afternoon.
NOW = datetime(2026, 1, 9, 15, 30, tzinfo=UTC)
CASES = [
    ("last Friday", "2026-01-02", "2026-01-03"),
    ("What did we decide on Monday?", "2026-01-05", "2026-01-06"),
    ("two Fridays ago", "2025-12-26", "2025-12-27"),
    ("today", "2026-01-09", "2026-01-10"),
    ("yesterday", "2026-01-08", "2026-01-09"),
    ("the day before yesterday", "2026-01-07", "2026-01-08"),
    ("last night", "2026-01-08", "2026-01-09"),
    ("3 days ago", "2026-01-06", "2026-01-07"),
    ("a couple of days ago", "2026-01-07", "2026-01-08"),
    ("two weeks ago", "2025-12-23", "2025-12-30"),
    ("a month ago", "2025-11-25", "2025-12-26"),
    ("last week", "2025-12-29", "2026-01-05"),
    ("this week", "2026-01-05", "2026-01-12"),
    ("last weekend", "2026-01-03", "2026-01-05"),
    ("last month", "2025-12-01", "2026-01-01"),
    ("last year", "2025-01-01", "2026-01-01"),
    ("in the past 3 days", "2026-01-06", "2026-01-10"),
    ("in March", "2025-03-01", "2025-04-01"),
    ("in January", "2026-01-01", "2026-02-01"),
    ("in May 2023", "2023-05-01", "2023-06-01"),
    ("December 2024", "2024-12-01", "2025-01-01"),
    ("on May 3, 2023", "2023-05-03", "2023-05-04"),
    ("on 3rd of May", "2025-05-03", "2025-05-04"),
    ("on 2026-01-05", "2026-01-05", "2026-01-06"),
    ("in 2024", "2024-01-01", "2025-01-01"),
    ("since Monday", "2026-01-05", "2026-01-10"),
    ("after May 3", "2025-05-04", "2026-01-10"),
    ("before March 2025", "1970-01-01", "2025-03-01"),
    ("since 2024", "2024-01-01", "2026-01-10"),
    ("letzten Freitag", "2026-01-02", "2026-01-03"),
    ("gestern", "2026-01-08", "2026-01-09"),
    ("vor zwei Wochen", "2025-12-23", "2025-12-30"),
    ("am 3. Mai 2023", "2023-05-03", "2023-05-04"),
    ("im März", "2025-03-01", "2025-04-01"),
    ("vendredi dernier", "2026-01-02", "2026-01-03"),
    ("il y a deux semaines", "2025-12-23", "2025-12-30"),
    ("ce que j'ai dit hier", "2026-01-08", "2026-01-09"),
    ("la semaine dernière", "2025-12-29", "2026-01-05"),
    ("el viernes pasado", "2026-01-02", "2026-01-03"),
    ("hace dos semanas", "2025-12-23", "2025-12-30"),
    ("el 3 de mayo de 2023", "2023-05-03", "2023-05-04"),
]


@pytest.mark.parametrize(("question", "since", "before"), CASES)
def test_what_a_question_speaks_of(question: str, since: str, before: str) -> None:
    spoken = narrowest_time(question, NOW)
    assert spoken is not None
    assert (str(spoken.since.date()), str(spoken.before.date())) == (since, before)


@pytest.mark.parametrize(
    "question",
    [
        *("you may go", "march on", "we sat in the sun", "hier ist es", "the 31st"),
        *("port 2024", "version 1.2", "9999-12", "the last one", "the week", ""),
    ],
)
def test_what_is_no_time(question: str) -> None:
    assert narrowest_time(question, NOW) is None


def test_hours_ago_is_about_then() -> None:
    spoken = narrowest_time("3 hours ago", NOW)
    assert spoken is not None
    assert spoken.since < NOW - timedelta(hours=3) < spoken.before


def test_in_evidence_words_are_relative_to_when_they_were_said() -> None:
    said = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    (spoken,) = find_times("I went to a support group yesterday and it was so powerful.", said)
    assert str(spoken.since.date()) == "2023-05-07"


def test_places_are_those_of_the_text() -> None:
    text = "Zürich, letzten Freitag: gestern"
    assert [text[spoken.start : spoken.end] for spoken in find_times(text, NOW)] == ["letzten Freitag", "gestern"]


def test_the_narrowest_time_wins() -> None:
    spoken = narrowest_time("in 2023, on May 3, 2023", NOW)
    assert spoken is not None
    assert spoken.before - spoken.since == timedelta(days=1)


def test_days_begin_at_midnight_of_the_clock() -> None:
    zone = timezone(timedelta(hours=9))
    spoken = narrowest_time("today", datetime(2026, 1, 10, 0, 30, tzinfo=zone))
    assert spoken is not None
    assert spoken.since == datetime(2026, 1, 9, 15, 0, tzinfo=UTC)


PIECES = [case[0] for case in CASES] + [
    "99",
    "999",
    " ",
    "of",
    "ago",
    "February 30",
    "31.",
    "vor",
    "0000-00-00",
    "\u0301",
]


@given(
    st.one_of(st.text(max_size=80), st.lists(st.sampled_from(PIECES), max_size=6).map(" ".join)),
    st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
)
def test_any_text_at_any_time_gives_spans_that_begin_before_they_end(text: str, now: datetime) -> None:
    found = find_times(text, now)
    assert all(spoken.since < spoken.before for spoken in found)
    assert all(one.end <= two.start for one, two in pairwise(found))
