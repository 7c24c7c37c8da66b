"""Grep: whatever was said is found, and no text makes it stumble."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lossless

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm


@pytest.fixture(autouse=True)
def patient(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found does not depend on how busy the machine is."""
    monkeypatch.setenv("LCM_REGEX_TIMEOUT_MS", "60000")


def say(archive: Path, key: str, *texts: str) -> None:
    with lossless.open(archive, background=False) as engine:
        engine.append(lossless.Session(key=key), [{"role": "user", "content": text} for text in texts])


def test_messages_and_summaries_newest_first(lcm: Lcm, archive: Path) -> None:
    answer = lcm("grep", "ferries")
    assert answer.envelope["command"] == "grep"
    ids = [item["id"] for item in answer.items]
    assert ids == [12, 11, 10, 9, 8, 7, 6, "sum_root", "sum_leaf1", 5, 4, 3, "sum_leaf0", 2, 1]
    assert answer.items[0] == {
        "id": 12, "type": "message", "conversationId": 1, "createdAt": "2026-07-01T11:00:00.000Z",
        "snippet": "assistant says the 11th thing about ferries", "match": [36, 43], "matches": [[36, 43]],
        "seq": 12, "role": "assistant", "summarizedIn": None,
    }  # fmt: skip
    root = next(item for item in answer.items if item["id"] == "sum_root")
    assert (root["type"], root["summaryId"], root["depth"], root["kind"]) == ("summary", "sum_root", 1, "condensed")
    assert next(item for item in answer.items if item["id"] == 5)["summarizedIn"] == "sum_leaf1"
    assert (answer.data["total"], answer.data["hint"]) == (15, None)


def test_scopes_and_limits(lcm: Lcm, archive: Path) -> None:
    assert lcm("grep", "ferries", "--conversation-id", 2).items == []
    assert len(lcm("grep", "ferries", "--session-key", "agent:main:ferry", "--limit", 4).items) == 4
    assert lcm("grep", "ferries", "--limit", 4).envelope["pagination"]["hasMore"] is True
    assert [item["id"] for item in lcm("grep", "the 3th thing").items] == [4]
    assert {item["type"] for item in lcm("grep", "ferries", "--in", "summaries").items} == {"summary"}
    assert {item["type"] for item in lcm("grep", "ferries", "--in", "messages").items} == {"message"}
    some = lcm("grep", "ferries", "--in", "messages", "--between", "2026-07-01T02:00:00Z..2026-07-01T04:00:00Z")
    assert [item["id"] for item in some.items] == [4, 3]


def test_tool_calls_are_searched(lcm: Lcm, archive: Path) -> None:
    (hit,) = lcm("grep", "three crates").items
    assert (hit["id"], hit["snippet"]) == (14, "three crates")


def test_some_of_the_words_will_do(lcm: Lcm, archive: Path) -> None:
    answer = lcm("grep", "Which crates should the submarine lift?", "--sort", "relevance")
    assert answer.items[0]["id"] in (13, 14)
    assert lcm("grep", "submarine").data["hint"]


def test_regular_expressions(lcm: Lcm, archive: Path) -> None:
    assert [item["id"] for item in lcm("grep", "-E", r"the [2-4]th").items] == [5, 4, 3]
    assert lcm("grep", "--regex", "USER says").items == []
    assert lcm("grep", "--regex", "-i", "USER says").items
    broken = lcm("grep", "-E", "(")
    assert (broken.code, broken.error["code"]) == (2, "bad_pattern")
    assert "position 1" in broken.error["message"]
    assert lcm("grep", "-E", "-F", "x").code == 2


@pytest.mark.parametrize(
    ("text", "pattern", "found"),
    [
        ("a\x00b", "\x00b", True),
        ("100% _sure_ 'quoted\" \\ [x] (y) *", "% _sure_ 'quoted\" \\ [x]", True),
        ("対不起，我晚了", "不起，我", True),
        ("Straße", "STRASSE", True),
        ("ΑΣ ας", "ΑΣ ΑΣ", True),
        ("👩‍👩‍👧 family", "👩‍👧 F", True),
        ("two\nlines", "two\nLines", True),
        ("two\nlines", "three lines", False),
    ],
)
def test_any_script_letter_by_letter(lcm: Lcm, archive: Path, text: str, pattern: str, found: bool) -> None:
    say(archive, "script", f"before {text} after")
    assert bool(lcm("grep", "--session-key", "script", "-F", "-i", "--", pattern).items) is found
    for letters in ((), ("--fixed",)):
        exact = lcm("grep", "--session-key", "script", *letters, "--", text[1:4]).items
        assert len(exact) == 1
        start, end = exact[0]["match"]
        assert exact[0]["snippet"][start:end].split() == text[1:4].split()


def test_a_snippet_is_short_and_on_one_line(lcm: Lcm, archive: Path) -> None:
    text = "left " * 200 + "needle\n\n\tin the " + "right " * 200
    say(archive, "hay", text)
    for how in ((), ("--fixed",)):
        (hit,) = lcm("grep", "needle", *how).items
        assert hit["snippet"].startswith("…")
        assert hit["snippet"].endswith("…")
        assert "needle in the right" in hit["snippet"]
        assert len(hit["snippet"]) <= 402
    for how in ((), ("--fixed",)):
        (long,) = lcm("grep", text[500:], *how).items
        assert len(long["snippet"]) <= 402
    shown = lcm("grep", "needle", "--format", "table").out
    assert "needle in the" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("grep",), 2),
        (("grep", ""), 2),
        (("grep", "x", "--role", "user"), 2),
        (("grep", "x", "--limit", 0), 2),
        (("grep", "x", "--sort", "best"), 2),
        (("grep", "x", "--after", "some day"), 2),
        (("grep", "x", "--session-key", "nobody"), 3),
        (("grep", "x", "--conversation-id", 1, "--session-key", "k"), 2),
    ],
)
def test_things_done_wrong(lcm: Lcm, archive: Path, arguments: tuple[str, ...], code: int) -> None:
    assert lcm(*arguments).code == code


def test_pages_of_ranked_hits(lcm: Lcm, archive: Path) -> None:
    whole = [item["id"] for item in lcm("grep", "ferries", "--sort", "relevance").items]
    first = lcm("grep", "ferries", "--sort", "relevance", "--limit", 9)
    cursor = first.envelope["pagination"]["nextCursor"]
    second = lcm("grep", "ferries", "--sort", "relevance", "--limit", 9, "--cursor", cursor)
    assert [item["id"] for item in (*first.items, *second.items)] == whole
    assert second.envelope["pagination"]["hasMore"] is False


@settings(deadline=None, max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pattern=st.text(st.characters(codec="utf-8"), min_size=1, max_size=20))
def test_no_text_makes_it_stumble(lcm: Lcm, archive: Path, pattern: str) -> None:
    for how in ((), ("-F",), ("--sort", "hybrid")):
        assert lcm("grep", *how, "--", pattern).code == 0
    assert lcm("grep", "-E", "--", pattern).code in (0, 2)


def test_bytes_that_are_no_text_find_nothing(lcm: Lcm, archive: Path) -> None:
    assert lcm("grep", "\udcff\udcfe").items == []


def test_files_are_searched(lcm: Lcm, archive: Path) -> None:
    assert lcm("grep", "crates", "--in", "files").items == []
