"""Pages, cursors and stretches of time."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lossless
from lossless.cli import options
from lossless.cli.options import parse_span
from lossless.model.context import MessageItem, NewSummary, SummaryItem, fresh_tail_start
from lossless.model.records import PageStart, TimeRange

from .conftest import START, fold, said

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm

NOW = datetime(2026, 7, 10, 12, tzinfo=UTC)
LISTS = (
    ("conversations", "list"),
    ("messages", "list", "--conversation-id", 1),
    ("summaries", "list"),
    ("grep", "ferries"),
)


def walk(lcm: Lcm, command: tuple[Any, ...], limit: int) -> list[dict[str, Any]]:
    """All rows of a list, page by page."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        answer = lcm(*command, "--limit", limit, *(("--cursor", cursor) if cursor else ()))
        page = answer.envelope["pagination"]
        assert page["returned"] == len(answer.items) <= limit
        assert page["hasMore"] == (page["nextCursor"] is not None)
        found += answer.items
        cursor = page["nextCursor"]
        if cursor is None:
            return found


@pytest.mark.parametrize("command", LISTS, ids=lambda command: command[0])
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_have_no_gap_and_no_repeat(lcm: Lcm, archive: Path, command: tuple[Any, ...], limit: int) -> None:
    assert walk(lcm, command, limit) == lcm(*command, "--limit", 500).items


def test_pages_hold_when_all_times_are_the_same(lcm: Lcm, archive: Path) -> None:
    with lossless.open(archive, background=False) as engine:
        same = [lossless.Incoming(said(n), f"s{n}", START) for n in range(7)]
        engine.append(lossless.Session(key="same"), same)
        fold(engine.archive, 3, 0, 2, NewSummary("sum_a", 0, "ferries a", 1, "m"))
        fold(engine.archive, 3, 1, 3, NewSummary("sum_b", 0, "ferries b", 1, "m"))
    rows = walk(lcm, ("messages", "list", "--session-key", "same"), 2)
    assert [row["seq"] for row in rows] == [7, 6, 5, 4, 3, 2, 1]
    hits = walk(lcm, ("grep", "ferries", "--session-key", "same"), 2)
    assert [hit["id"] for hit in hits] == [21, 20, 19, 18, 17, 16, 15, "sum_b", "sum_a"]


def test_a_row_that_arrives_meanwhile_does_not_shift_the_pages(lcm: Lcm, archive: Path) -> None:
    first = lcm("messages", "list", "--conversation-id", 1, "--limit", 5)
    with lossless.open(archive, background=False) as engine:
        engine.append(lossless.Session(key="agent:main:ferry"), [{"role": "user", "content": "newest"}])
    cursor = first.envelope["pagination"]["nextCursor"]
    rest = lcm("messages", "list", "--conversation-id", 1, "--cursor", cursor)
    assert [item["seq"] for item in rest.items] == [7, 6, 5, 4, 3, 2, 1]


def test_a_cursor_is_good_for_its_own_list_only(lcm: Lcm, archive: Path) -> None:
    words = {command[0]: lcm(*command, "--limit", 1).envelope["pagination"]["nextCursor"] for command in LISTS}
    for command in LISTS:
        for name, word in words.items():
            answer = lcm(*command, "--cursor", word)
            assert answer.code == (0 if name == command[0] else 2)
            if answer.code:
                assert "another list" in answer.error["message"]


def word_of(**fields: Any) -> str:
    whole = {"v": 1, "resource": "messages", "timestamp": "2026-07-01T00:00:00.000Z", "id": 3} | fields
    return base64.urlsafe_b64encode(json.dumps(whole).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "word",
    [
        "", "x", "!!!", "e30", "[]", "AAAA", "é", word_of(v=2), word_of(v="1"), word_of(id="3"), word_of(id=True),
        word_of(id=0), word_of(id=2**63), word_of(id=None), word_of(timestamp="yesterday"), word_of(timestamp=5),
        word_of(extra=1), word_of(timestamp="2026-07-01"), word_of(resource=["messages"]), word_of()[:-4],
    ],
)  # fmt: skip
def test_a_changed_cursor_is_refused(lcm: Lcm, archive: Path, word: str) -> None:
    answer = lcm("messages", "list", "--conversation-id", 1, "--cursor", word)
    assert (answer.code, answer.error["code"]) == (2, "bad_arguments")
    assert "--cursor" in answer.error["message"]
    assert lcm("messages", "list", "--conversation-id", 1, "--cursor", word_of()).code == 0


@pytest.mark.parametrize("id_", ["message:x", "message:", "file:1", "message:-1", "message:" + "9" * 30, "summary:"])
def test_a_changed_grep_cursor_is_refused(lcm: Lcm, archive: Path, id_: str) -> None:
    answer = lcm("grep", "ferries", "--cursor", word_of(resource="grep", id=id_))
    assert (answer.code, answer.error["code"]) == (2, "bad_arguments")


times = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))


@given(
    at=times, id_=st.one_of(st.integers(1, 2**63 - 1), st.text(st.characters(categories=["L", "N", "P"]), min_size=1))
)
def test_cursors_round_trip(at: datetime, id_: int | str) -> None:
    place = PageStart(f"{at:%Y}".rjust(4, "0") + f"{at:-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z", id_)
    word = options.encode_cursor("things", place)
    assert word.isascii()
    assert not set(word) - set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert options.decode_cursor("things", type(id_), word) == place


@given(st.text())
def test_no_word_is_taken_for_a_cursor_by_accident(word: str) -> None:
    with pytest.raises(ValueError, match=r"cursor|another"):
        options.decode_cursor("messages", int, word)


def test_roles_and_times_filter_exactly(lcm: Lcm, archive: Path) -> None:
    base = ("messages", "list", "--conversation-id", 1)

    def seqs(*options: str) -> list[int]:
        return [item["seq"] for item in lcm(*base, *options).items]

    assert seqs("--role", "user") == [11, 9, 7, 5, 3, 1]
    assert seqs("--role", "user", "--role", "assistant") == list(range(12, 0, -1))
    assert seqs("--role", "tool") == []
    assert seqs("--after", "2026-07-01T10:00:00Z") == [12, 11]
    assert seqs("--after", "2026-07-01T10:00:00.000001Z") == [12]
    assert len(seqs("--since", "2026-06-30")) == len(seqs("--after", "30 June 2026")) == len(seqs())
    assert seqs("--before", "2026-07-01T02:00:00Z") == [2, 1]
    assert seqs("--before", "2026-07-01T04:00:00+02:00") == [2, 1]
    assert seqs("--between", "2026-07-01T03:00:00Z..2026-07-01T05:00:00Z") == [5, 4]
    assert seqs("--after", "2026-07-01T03:00:00Z", "--before", "2026-07-01T05:00:00Z") == [5, 4]
    assert seqs("--recency", "1s", "--role", "user") == []
    assert seqs("--recency", "9999d", "--before", "2026-07-01T01:00:00Z") == [1]
    assert [item["summaryId"] for item in lcm("summaries", "list", "--after", "2026-07-01T05:00:00Z").items] == [
        "sum_root",
        "sum_leaf1",
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--after", "2026-07-01T00:00:00"), "is not a time"),
        (("--after", "2026-07-01 00:00:00Z"), "is not a time"),
        (("--before", "2026-13-01T00:00:00Z"), "not a time"),
        (("--before", "0001-01-01T00:00:00+14:00"), "not a time"),
        (("--before", "٢٠٢٦-07-01T00:00:00Z"), "not a time"),
        (("--between", "2026-07-01T00:00:00Z"), "two times"),
        (("--between", "2026-07-02T00:00:00Z..2026-07-01T00:00:00Z"), "empty"),
        (("--between", "2026-07-01T00:00:00Z..2026-07-02T00:00:00Z", "--after", "2026-07-01T00:00:00Z"), "no other"),
        (("--between", "2026-07-01T00:00:00Z..2026-07-02T00:00:00Z", "--recency", "1d"), "no other"),
        (("--recency", "1d", "--after", "2026-07-01T00:00:00Z"), "one of them"),
        (("--recency", "0d"), "duration"),
        (("--recency", "1.5h"), "duration"),
        (("--recency", "1y"), "duration"),
        (("--recency", "999999999w"), "too far"),
    ],
)
def test_times_that_cannot_be_meant(lcm: Lcm, archive: Path, options: tuple[str, ...], said: str) -> None:
    answer = lcm("messages", "list", "--conversation-id", 1, *options)
    assert (answer.code, answer.error["code"]) == (2, "bad_arguments")
    assert said in answer.error["message"]


def test_recency_counts_back_from_now() -> None:
    assert parse_span(None, None, None, "6h", NOW) == TimeRange("2026-07-10T06:00:00.000Z", None)
    assert parse_span(None, "2026-07-10T11:00:00Z", None, "2w", NOW) == TimeRange(
        "2026-06-26T12:00:00.000Z", "2026-07-10T11:00:00.000Z"
    )
    assert parse_span(None, None, None, None, NOW) is None


@given(st.text(max_size=40), st.sampled_from(["after", "before", "between", "recency"]))
def test_no_time_raises_anything_but_a_usage_error(text: str, option: str) -> None:
    values = dict.fromkeys(("after", "before", "between", "recency")) | {option: text}
    with suppress(click.UsageError):
        assert isinstance(parse_span(**values, now=NOW), TimeRange)


shapes = st.lists(st.sampled_from("us0at"), max_size=40)


@settings(max_examples=15, deadline=None)
@given(shape=shapes, count=st.integers(1, 12), cap=st.none() | st.integers(0, 80))
def test_a_tail_read_in_steps_is_the_tail_of_the_whole(shape: list[str], count: int, cap: int | None) -> None:
    with lossless.open(":memory:", background=False) as engine:
        roles = {"u": "user", "a": "assistant", "t": "tool", "s": "system"}
        messages = [{"role": roles.get(kind, "user"), "content": f"{n} {kind * 9}"} for n, kind in enumerate(shape)]
        engine.append(lossless.Session(key="k"), messages)
        for n in reversed([n for n, kind in enumerate(shape) if kind == "0"]):
            fold(engine.archive, 1, n, n, NewSummary(f"sum_{n}", 0, "s", 1, "m"))
        items = engine.archive.context.items(1) if messages else []
        start = fresh_tail_start(items, count, cap)
        expected = [item for item in items[start:] if isinstance(item, MessageItem)]
        assert engine.archive.listings.tails([1], count, cap)[1] == expected


def test_a_long_tail_is_read_to_its_beginning(archive: Path) -> None:
    with lossless.open(archive, background=False) as engine:
        long = [{"role": "user", "content": "go"}, *({"role": "assistant", "content": f"step {n}"} for n in range(700))]
        engine.append(lossless.Session(key="long"), long)
        tail = engine.archive.listings.tails([3], 8)[3]
        assert [item.seq for item in tail] == list(range(1, 702))
        items = engine.archive.context.items(1)
        assert isinstance(items[0], SummaryItem)
        assert engine.archive.listings.tails([1], 500)[1] == items[1:]
