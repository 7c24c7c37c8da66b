"""Looking through an archive: status, conversations, messages, summaries; and that looking changes nothing."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.llm.completion import list_prices

from .conftest import FERRY, START, sql

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm

READS = (
    ("status",),
    ("status", "--room"),
    ("conversations", "list"),
    ("conversations", "show", "--conversation-id", 1),
    ("messages", "list", "--session-key", "agent:main:ferry", "--include-content"),
    ("messages", "tail", "--conversation-id", 1),
    ("messages", "show", 3),
    ("summaries", "list"),
    ("summaries", "show", "sum_root"),
    ("grep", "ferries"),
    ("verify",),
    ("adopt",),
    ("config", "show"),
)


@pytest.mark.parametrize("command", READS, ids=lambda command: " ".join(map(str, command)))
def test_reading_leaves_every_byte_as_it_is(lcm: Lcm, archive: Path, command: tuple[Any, ...]) -> None:
    before = hashlib.sha256(archive.read_bytes()).digest()
    assert lcm(*command).code == 0
    assert lcm(*command, "--format", "table").code == 0
    assert hashlib.sha256(archive.read_bytes()).digest() == before


@pytest.mark.parametrize("command", READS[:-1], ids=lambda command: " ".join(map(str, command)))
def test_a_missing_archive_is_not_made(lcm: Lcm, tmp_path: Path, command: tuple[Any, ...]) -> None:
    nowhere = tmp_path / "nowhere" / "lcm.db"
    answer = lcm(*command, "--db", nowhere)
    assert answer.code == 3
    assert answer.error["code"] == "not_found"
    assert answer.error["details"]["databasePath"] == str(nowhere)
    assert "lcm init" in answer.error["details"]["hint"]
    assert not nowhere.parent.exists()


def test_conversations_are_listed_by_their_newest_message(lcm: Lcm, archive: Path) -> None:
    with lossless.open(archive, background=False) as engine:
        for name, year in (("old", 2019), ("older", 2018)):  # stored last, as an import does
            said = lossless.Incoming({"role": "user", "content": "hello"}, name, datetime(year, 5, 3, tzinfo=UTC))
            engine.append(lossless.Session(key=name), [said])

    def listed(*options: str) -> list[str]:
        return [item["sessionKey"] for item in lcm("list", "--json", *options).data["items"]]

    everything = listed()
    assert (everything[-2:], everything[0]) == (
        ["old", "older"],
        lcm("show", "@last", "--details", "--json").data["conversation"]["sessionKey"],
    )
    assert listed("--before", "2020-01-01", "--limit", "1") == ["old"]
    assert listed("--since", "2018-06-01", "--before", "2020-01-01") == ["old"]
    assert lcm("conversations", "list").data["items"][0]["sessionKey"] == "older", "by change, as ever"


def test_status(lcm: Lcm, archive: Path) -> None:
    answer = lcm("status")
    assert answer.envelope["meta"] == {"databasePath": str(archive), "configPath": None}
    data = answer.data
    assert data["version"] == lossless.__version__
    assert data["databaseSizeBytes"] == archive.stat().st_size
    assert data["freshTail"] == {"count": 64, "maxTokens": None}
    assert data["status"]["conversations"] == {"total": 2, "active": 2}
    messages = data["status"]["messages"]
    assert messages["count"] == 14
    assert messages["earliestAt"] == "2026-07-01T00:00:00.000Z"
    summaries = data["status"]["summaries"]
    assert (summaries["count"], summaries["tokens"]) == (3, 11)
    assert summaries["byDepth"] == [
        {"kind": "leaf", "depth": 0, "count": 2, "tokens": 8},
        {"kind": "condensed", "depth": 1, "count": 1, "tokens": 3},
    ]
    assert data["status"]["context"]["items"] == 9
    assert data["status"]["maintenance"] == {"pending": 0, "running": 0, "failed": 0}
    assert sum(data["room"].values()) <= data["databaseSizeBytes"]


def test_status_says_whether_anything_is_lost(lcm: Lcm, archive: Path) -> None:
    live = lcm("status").data["liveness"]
    assert (live["seen"], live["stored"], live["replayed"], live["skipped"], live["ambiguous"]) == (14, 14, 0, 0, 0)
    assert 0 <= live["secondsSinceStored"] < 600
    assert live["lastCompactedAt"] == "2026-07-31T00:00:00.000Z"
    assert live["blocked"] == []
    with lossless.open(archive, background=False) as engine:
        blocked = engine.sync(FERRY, [{"role": "user", "content": f"stranger {n}"} for n in range(80)])
        assert blocked.blocked
    live = lcm("status").data["liveness"]
    assert (live["quarantined"], live["blocked"]) == ([blocked.quarantine_id], [])
    assert "1 conversation quarantined" in lcm("status", "--format", "table").out
    with lossless.open(archive, background=False) as engine, engine.archive.writing():
        engine.archive.ingest.block(1, "a page is missing", datetime(2026, 7, 31, tzinfo=UTC))
    shown = lcm("status", "--format", "table").out
    assert "Conversation 1 is blocked" in shown
    assert "a page is missing" in " ".join(shown.split())


def test_status_says_what_a_model_would_have_cost_when_there_is_none(
    lcm: Lcm, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = lcm("status").data["withoutModel"]
    assert (told["summaries"], told["outputTokens"]) == (3, 11)
    prices, day = list_prices()
    for model, cost in told["costs"].items():
        read, written = prices[model]["input"] * told["inputTokens"], prices[model]["output"] * 11
        assert cost == pytest.approx((read + written) / 1_000_000)
    assert told["costs"]
    assert f"list prices of {day}" in " ".join(lcm("status", "--format", "table").out.split())
    monkeypatch.setenv("LCM_SUMMARY_MODEL", "ollama/qwen3:8b")
    assert lcm("status").data["withoutModel"] is None
    assert "No model" not in lcm("status", "--format", "table").out


def test_conversations_list(lcm: Lcm, archive: Path) -> None:
    answer = lcm("conversations", "list")
    assert answer.envelope["command"] == "conversations.list"
    assert answer.envelope["pagination"] == {"limit": 50, "returned": 2, "hasMore": False, "nextCursor": None}
    crane, ferry = answer.items
    assert (crane["conversationId"], ferry["conversationId"]) == (2, 1)
    expected = {
        "sessionId": "run-1", "sessionKey": "agent:main:ferry", "active": True, "archivedAt": None, "title": None,
        "messageCount": 12, "earliestMessageAt": "2026-07-01T00:00:00.000Z",
        "latestMessageAt": "2026-07-01T11:00:00.000Z", "summaryCount": 3, "summaryTokens": 11, "maxSummaryDepth": 1,
        "contextItems": 7, "freshTailMessages": 6,
    }  # fmt: skip
    assert {name: ferry[name] for name in expected} == expected


def test_conversations_show(lcm: Lcm, archive: Path) -> None:
    by_key = lcm("conversations", "show", "--session-key", "agent:main:ferry").data
    assert by_key == lcm("conversations", "show", "--conversation-id", 1).data
    assert by_key["conversation"]["conversationId"] == 1
    assert by_key["summaryDepths"][1] == {"kind": "condensed", "depth": 1, "count": 1, "tokens": 3}
    assert [(part["itemType"], part["count"]) for part in by_key["context"]] == [("summary", 1), ("message", 6)]
    assert by_key["telemetry"] is by_key["maintenance"] is by_key["bootstrap"] is None
    assert by_key["focusBriefs"] == {"count": 0, "activeBrief": None}
    assert by_key["largeFiles"] == {"count": 0, "bytes": 0, "latestAt": None}
    assert (by_key["ingest"]["seen"], by_key["hidden"]) == (12, {})


def test_records_of_other_programs_are_shown(lcm: Lcm, archive: Path) -> None:
    sql(
        archive,
        "INSERT INTO conversation_compaction_maintenance (conversation_id, pending, reason)"
        " VALUES (1, 1, 'budget');"
        "INSERT INTO conversation_compaction_telemetry (conversation_id, cache_state) VALUES (1, 'hot');"
        "INSERT INTO conversation_bootstrap_state (conversation_id, session_file_path, last_seen_size,"
        " last_seen_mtime_ms, last_processed_offset) VALUES (1, '/s.jsonl', 5, 6, 7);"
        "INSERT INTO focus_briefs (brief_id, conversation_id, prompt, content, status) VALUES"
        " ('b1', 1, 'why', 'so', 'active')",
    )
    data = lcm("conversations", "show", "--conversation-id", 1).data
    assert (data["maintenance"]["pending"], data["maintenance"]["running"]) == (True, False)
    assert data["maintenance"]["reason"] == "budget"
    assert data["telemetry"]["cacheState"] == "hot"
    assert (data["bootstrap"]["sessionFilePath"], data["bootstrap"]["forkBounded"]) == ("/s.jsonl", False)
    assert data["focusBriefs"]["activeBrief"]["briefId"] == "b1"
    assert "reason budget" in lcm("conversations", "show", "--conversation-id", 1, "--format", "table").out


def test_a_session_key_means_the_active_conversation_else_the_newest(lcm: Lcm, archive: Path) -> None:
    with lossless.open(archive, background=False) as engine, engine.archive.writing():
        engine.archive.conversations.archive(2, "manual-reset", START)
        newer = engine.archive.conversations.open(lossless.Session(key="agent:main:crane", id="run-3"), START)
    shown = lcm("conversations", "show", "--session-key", "agent:main:crane").data
    assert shown["conversation"]["conversationId"] == newer.id
    with lossless.open(archive, background=False) as engine, engine.archive.writing():
        engine.archive.conversations.archive(newer.id, "manual-reset", START + timedelta(days=1))
    shown = lcm("conversations", "show", "--session-key", "agent:main:crane").data
    assert shown["conversation"]["conversationId"] in (2, newer.id)
    assert shown["conversation"]["archiveCause"] == "manual-reset"


def test_messages_list(lcm: Lcm, archive: Path) -> None:
    answer = lcm("messages", "list", "--conversation-id", 1, "--limit", 2)
    assert answer.envelope["command"] == "messages.list"
    assert answer.items[0] == {
        "messageId": 12, "conversationId": 1, "seq": 12, "role": "assistant", "tokenCount": 11,
        "createdAt": "2026-07-01T11:00:00.000Z", "largeContent": None, "tools": [],
        "preview": "assistant says the 11th thing about ferries",
    }  # fmt: skip
    whole = lcm("messages", "list", "--conversation-id", 1, "--include-content").items
    assert all(item["content"] == item["preview"] for item in whole)
    assert [item["messageId"] for item in whole] == list(range(12, 0, -1))


def test_a_preview_is_one_short_line(lcm: Lcm, archive: Path) -> None:
    text = "first\x00 line\n\n\tsecond\n" + "長" * 3000
    with lossless.open(archive, background=False) as engine:
        engine.append(lossless.Session(key="long"), [{"role": "user", "content": text}])
    preview = lcm("messages", "list", "--session-key", "long").items[0]["preview"]
    assert preview.startswith("first\x00 line second 長長")
    assert len(preview) == 160
    assert lcm("messages", "list", "--session-key", "long", "--include-content").items[0]["content"] == text


def test_messages_tail_is_the_fresh_tail(lcm: Lcm, archive: Path) -> None:
    data = lcm("messages", "tail", "--conversation-id", 1, "--count", 3).data
    assert data["limits"] == {"count": 3, "maxTokens": 38_400}
    assert data["selected"] == {"messages": 3, "tokens": 32, "firstSeq": 10, "lastSeq": 12}
    assert data["conversation"]["messages"] == 12
    assert [message["seq"] for message in data["messages"]] == [10, 11, 12]
    assert data["messages"][0]["content"].endswith("9th thing about ferries")
    whole = lcm("messages", "tail", "--conversation-id", 1).data
    assert [message["seq"] for message in whole["messages"]] == [7, 8, 9, 10, 11, 12]


def test_the_newest_user_message_is_in_the_tail_whatever_the_caps_say(
    lcm: Lcm, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LCM_FRESH_TAIL_MAX_TOKENS", "1")
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "1")
    data = lcm("messages", "tail", "--conversation-id", 1).data
    assert data["limits"] == {"count": 1, "maxTokens": 1}
    assert [message["role"] for message in data["messages"]] == ["user", "assistant"]


def test_messages_show(lcm: Lcm, archive: Path) -> None:
    below = lcm("messages", "show", 2).data
    assert below["message"]["content"] == "assistant says the 1th thing about ferries"
    assert below["standing"] == {"contextOrdinal": None, "summarizedIn": "sum_leaf0", "hiddenCause": None}
    assert (below["entryId"], below["format"]) == ("e1", "plain")
    call = lcm("messages", "show", 14).data
    assert call["message"]["tools"] == ["lift"]
    assert call["toolCalls"] == [{"id": "c1", "name": "lift", "input": '{"cargo": "three crates"}'}]
    assert call["original"]["tool_calls"][0]["function"]["name"] == "lift"
    assert call["standing"]["contextOrdinal"] == 1
    assert "three crates" in lcm("messages", "show", 14, "--format", "table").out


def test_summaries_list(lcm: Lcm, archive: Path) -> None:
    items = lcm("summaries", "list").items
    assert [item["summaryId"] for item in items] == ["sum_root", "sum_leaf1", "sum_leaf0"]
    root = items[0]
    expected = {
        "conversationId": 1, "kind": "condensed", "depth": 1, "tokenCount": 3, "model": "model-b",
        "earliestAt": "2026-07-01T00:00:00.000Z", "latestAt": "2026-07-01T05:00:00.000Z",
        "coverageAt": "2026-07-01T05:00:00.000Z", "descendantCount": 2, "fileIds": [], "parentCount": 0,
        "childCount": 2, "sourceMessageCount": 0, "preview": "root: ferries, again",
    }  # fmt: skip
    assert {name: root[name] for name in expected} == expected
    assert (items[1]["parentCount"], items[1]["childCount"], items[1]["sourceMessageCount"]) == (1, 0, 3)
    assert [item["summaryId"] for item in lcm("summaries", "list", "--depth", 0).items] == ["sum_leaf1", "sum_leaf0"]
    assert [item["summaryId"] for item in lcm("summaries", "list", "--kind", "condensed").items] == ["sum_root"]
    assert lcm("summaries", "list", "--conversation-id", 2).items == []


def test_summaries_show_names_both_directions(lcm: Lcm, archive: Path) -> None:
    root = lcm("summaries", "show", "sum_root").data
    assert root["summary"]["content"] == "root: ferries, again"
    assert root["parents"] == root["usedIn"] == root["sourceMessages"] == []
    assert [child["summaryId"] for child in root["children"]] == root["sources"] == ["sum_leaf0", "sum_leaf1"]
    leaf = lcm("summaries", "show", "sum_leaf1").data
    assert [parent["summaryId"] for parent in leaf["parents"]] == leaf["usedIn"] == ["sum_root"]
    assert leaf["children"] == leaf["sources"] == []
    assert leaf["sourceMessages"][0] == {
        "messageId": 4, "seq": 4, "role": "assistant", "tokenCount": 11, "createdAt": "2026-07-01T03:00:00.000Z",
        "content": "assistant says the 3th thing about ferries",
    }  # fmt: skip
    assert [message["messageId"] for message in leaf["sourceMessages"]] == [4, 5, 6]


def test_relatives_of_another_conversation_are_not_shown(lcm: Lcm, archive: Path) -> None:
    sql(
        archive,
        "INSERT INTO summaries (summary_id, conversation_id, kind, content, token_count)"
        " VALUES ('sum_other', 2, 'leaf', 'other', 1);"
        "INSERT INTO summary_parents VALUES ('sum_root', 'sum_other', 2);"
        "INSERT INTO summary_messages VALUES ('sum_leaf0', 13, 3)",
    )
    assert lcm("summaries", "show", "sum_root").data["sources"] == ["sum_leaf0", "sum_leaf1"]
    assert lcm("summaries", "show", "sum_other").data["usedIn"] == []
    assert [row["messageId"] for row in lcm("summaries", "show", "sum_leaf0").data["sourceMessages"]] == [1, 2, 3]
    counts = {item["summaryId"]: item for item in lcm("summaries", "list").items}
    assert (counts["sum_root"]["childCount"], counts["sum_leaf0"]["sourceMessageCount"]) == (2, 3)


@pytest.mark.parametrize(
    ("arguments", "code", "name"),
    [
        (("status", "--limit", 3), 2, "bad_arguments"),
        (("status", "surplus"), 2, "bad_arguments"),
        (("conversations", "show"), 2, "bad_arguments"),
        (("conversations", "show", "--conversation-id", 9), 3, "not_found"),
        (("conversations", "show", "--conversation-id", "9" * 30), 3, "not_found"),
        (("conversations", "show", "--conversation-id", 0), 2, "bad_arguments"),
        (("conversations", "show", "--conversation-id", "²"), 2, "bad_arguments"),
        (("conversations", "show", "--conversation-id", 1, "--session-key", "x"), 2, "bad_arguments"),
        (("conversations", "list", "--limit", 0), 2, "bad_arguments"),
        (("conversations", "list", "--limit", 501), 2, "bad_arguments"),
        (("messages", "list"), 2, "bad_arguments"),
        (("messages", "list", "--session-key", " "), 2, "bad_arguments"),
        (("messages", "list", "--session-key", "nobody"), 3, "not_found"),
        (("messages", "list", "--session-key", "half\ud800"), 2, "bad_arguments"),
        (("messages", "list", "--conversation-id", 1, "--role", "robot"), 2, "bad_arguments"),
        (("messages", "list", "--conversation-id", 1, "--depth", 1), 2, "bad_arguments"),
        (("messages", "tail", "--conversation-id", 1, "--count", 501), 2, "bad_arguments"),
        (("messages", "tail", "--conversation-id", 1, "--limit", 5), 2, "bad_arguments"),
        (("messages", "show", 99), 3, "not_found"),
        (("messages", "show", "-1"), 2, "bad_arguments"),
        (("summaries", "list", "--depth", "-1"), 2, "bad_arguments"),
        (("summaries", "list", "--kind", "root"), 2, "bad_arguments"),
        (("summaries", "show"), 2, "bad_arguments"),
        (("summaries", "show", "sum_none"), 3, "not_found"),
        (("summaries", "show", "sum_\udcff"), 2, "bad_arguments"),
    ],
)
def test_things_done_wrong(lcm: Lcm, archive: Path, arguments: tuple[Any, ...], code: int, name: str) -> None:
    answer = lcm(*arguments)
    assert (answer.code, answer.error["code"]) == (code, name)
    at_a_terminal = lcm(*arguments, "--format", "table")
    assert at_a_terminal.code == code
    assert at_a_terminal.err.startswith("Error: ")


def test_no_foreign_row_makes_a_list_fail(lcm: Lcm, archive: Path) -> None:
    sql(
        archive,
        "UPDATE messages SET content = CAST(x'ff41' AS TEXT), created_at = 'yesterday' WHERE message_id = 12;"
        "UPDATE messages SET created_at = '12345' WHERE message_id = 11;"
        "UPDATE conversations SET title = CAST(x'fe' AS TEXT), updated_at = '' WHERE conversation_id = 1;"
        "UPDATE summaries SET file_ids = 'no list', latest_at = NULL, created_at = 'never' WHERE depth = 1",
    )
    items = lcm("messages", "list", "--conversation-id", 1, "--include-content").items
    assert len(items) == 12
    assert {item["messageId"]: item["createdAt"] for item in items}[12] is None
    assert {item["messageId"]: item["content"] for item in items}[12] == "\ufffdA"
    assert lcm("conversations", "list").items[-1]["title"] == "\ufffd"
    assert lcm("summaries", "list").items[-1]["summaryId"] == "sum_root"
    assert len(lcm("grep", "--fixed", "A").items) == 1
    cursor = lcm("messages", "list", "--conversation-id", 1, "--limit", 11).envelope["pagination"]["nextCursor"]
    rest = lcm("messages", "list", "--conversation-id", 1, "--cursor", cursor).items
    assert [item["messageId"] for item in rest] == [1]
    said = lcm("status").data["status"]["messages"]
    assert (said["undated"], said["earliestAt"]) == (2, "2026-07-01T00:00:00.000Z")
    assert "2 messages: their time cannot be read" in lcm("status", "--format", "table").out
