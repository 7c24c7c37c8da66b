"""What was said in a time: by day and topic, in the user's zone, within its tokens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lossless
from lossless.errors import BadInput
from lossless.model.tokens import estimate_tokens
from lossless.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A Wednesday, shortly after midnight in Berlin, where clocks were moved on the Sunday before.
NOW = datetime(2026, 4, 1, 0, 30, tzinfo=ZoneInfo("Europe/Berlin"))
TALK, OTHER = "agent:main:talk", "agent:main:other"
SAID = {
    "2026-03-03T09:00": ["The dentist moved my appointment to the 14th of May.", "Noted: dentist, 14 May."],
    "2026-03-28T22:30": ["We chose SQLite for the ledger.", "SQLite suits one writer."],
    "2026-03-29T21:59": ["The ferry timetable goes online on Friday.", "I wrote the ferry timetable page."],
    "2026-03-31T21:50": ["The boiler is broken again.", "Call Mr. Okafor about the boiler."],
    "2026-03-31T22:10": ["Midnight has passed in Berlin; the plumber came for the boiler.", "Glad the boiler works."],
}


def fill(zone: str) -> lossless.Engine:
    settings = lossless.Settings(timezone=zone)
    engine = lossless.open(":memory:", settings, background=False, clock=VirtualClock(NOW.astimezone(UTC)))
    for begun, texts in SAID.items():
        at = datetime.fromisoformat(begun).replace(tzinfo=UTC)
        rows = [
            lossless.Incoming({"role": role, "content": text}, created_at=at + timedelta(seconds=number))
            for number, (role, text) in enumerate(zip(("user", "assistant"), texts, strict=True))
        ]
        engine.append(TALK, rows)
    engine.append(OTHER, [lossless.Incoming({"role": "user", "content": "Otto the puppy ran away."}, created_at=at)])
    return engine


@pytest.fixture(scope="module", params=["Europe/Berlin", "America/New_York", "UTC"])
def engine(request: pytest.FixtureRequest) -> Iterator[lossless.Engine]:
    with fill(request.param) as engine:
        yield engine


def ids(found: lossless.RecentResult) -> set[int]:
    return {item.id for topic in found.topics for item in topic.quotes}


@pytest.mark.parametrize(
    ("when", "berlin", "new_york", "utc"),
    [
        ("today", {9, 10}, {7, 8, 9, 10}, {7, 8, 9, 10}),
        ("yesterday", {7, 8}, set(), set()),
        ("what happened on 3 March?", {1, 2}, {1, 2}, {1, 2}),
        ("2026-03-28", {3, 4}, {3, 4}, {3, 4}),
        ("since Monday", {7, 8, 9, 10}, {7, 8, 9, 10}, {7, 8, 9, 10}),
        ("last week", {3, 4, 5, 6}, {3, 4, 5, 6}, {3, 4, 5, 6}),
        ("the last 2 hours", {7, 8, 9, 10}, {7, 8, 9, 10}, {7, 8, 9, 10}),
        ("from 28 March until yesterday", {3, 4, 5, 6}, {3, 4, 5, 6}, {3, 4, 5, 6}),
        ("between 3 March and 28 March", {1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}),
    ],
)
def test_days_are_those_of_the_users_zone(
    engine: lossless.Engine, when: str, berlin: set[int], new_york: set[int], utc: set[int]
) -> None:
    wanted = {"Europe/Berlin": berlin, "America/New_York": new_york, "UTC": utc}[engine.settings.timezone or ""]
    found = engine.recent(when, session=TALK)
    assert ids(found) == wanted
    assert all(found.since <= item.created_at < found.before for topic in found.topics for item in topic.quotes)
    assert bool(wanted) == ("nothing was said" not in str(found))


def test_it_reads_by_day_and_topic_with_ids() -> None:
    with fill("Europe/Berlin") as engine:
        lines = str(engine.recent("last week", conversation_id=1)).splitlines()
        assert lines[0] == "last week: 2026-03-23 00:00 up to 2026-03-30 00:00, 4 messages."
        assert lines[1] == "[Saturday 2026-03-28]"
        assert lines[2].startswith("23:30 · ")
        assert "SQLite" in lines[2]
        assert "- 23:30 msg#3 user: We chose SQLite for the ledger." in lines
        assert "[Sunday 2026-03-29]" in lines
        with pytest.raises(BadInput, match="no time is named"):
            engine.recent("the boiler")


def test_what_asks_is_left_out() -> None:
    with fill("UTC") as engine:
        question = {"role": "user", "content": "Which screwdriver did the plumber bring?"}
        engine.append(TALK, [lossless.Incoming(question, created_at=engine.clock())])
        assert 12 in ids(engine.recent("today", session=TALK))
        asked = engine.tools.run("lcm_recent", {"when": "today"}, session=TALK)
        shown = {quote["id"] for topic in asked.details["topics"] for quote in topic["quotes"]}
        assert shown == {"msg#7", "msg#8", "msg#9", "msg#10"}
        assert "msg#11" in engine.tools.run("lcm_recent", {"allConversations": True}).text
        assert engine.tools.run("lcm_recent", {"when": "never"}).is_error


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3_000), st.integers(1, 60))
def test_it_stays_within_its_tokens_and_its_time(tokens: int, minutes: int) -> None:
    with lossless.open(":memory:", background=False, clock=VirtualClock(NOW.astimezone(UTC))) as engine:
        begun = datetime(2026, 3, 20, tzinfo=UTC)
        words = ("ledger", "ferry", "boiler", "dentist", "harbour", "ticket")
        engine.append(
            TALK,
            [
                lossless.Incoming(
                    {"role": "user", "content": f"The {words[n // 9 % 6]} needs {n} {words[n % 6]} changes."},
                    created_at=begun + timedelta(minutes=minutes * n),
                )
                for n in range(60)
            ],
        )
        found = engine.recent("in March", session=TALK, max_tokens=tokens)
        assert estimate_tokens(str(found)) <= tokens
        assert str(found) == str(engine.recent("in March", session=TALK, max_tokens=tokens))
        starts = [topic.since for topic in found.topics]
        assert starts == sorted(starts)
        assert sum(topic.message_count for topic in found.topics) <= 60
