"""What each kind of transcript says: header, messages unchanged, the rest opaque."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from lossless.formats import decode, encode
from lossless.ingest.transcripts import TranscriptEntry, TranscriptHeader, open_transcript
from tests.ingest.transcripts_kit import entries, ids, only, transcript, written

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
ISO = "2026-01-02T12:00:00.000Z"
MILLISECONDS = 1767355200000


def messages(found: list[TranscriptEntry]) -> list[Any]:
    """What was said, after checking that each message comes back as it went in."""
    said = [entry.message for entry in found if entry.message is not None]
    for message in said:
        decoded = decode(message)
        assert encode([decoded], decoded.format) == [message]
    return said


# --- OpenClaw and pi ------------------------------------------------------------------------------------------


def test_an_openclaw_session(tmp_path: Path) -> None:
    head = {"type": "session", "version": 4, "id": "s1", "timestamp": ISO, "cwd": "/w", "parentSession": "s0"}
    user = {"role": "user", "content": "hi", "timestamp": MILLISECONDS}
    reply = {"role": "assistant", "content": [{"type": "text", "text": "yes"}], "api": "x", "stopReason": "stop"}
    result = {"role": "toolResult", "toolCallId": "c1", "toolName": "exec", "content": [], "isError": False}
    records = [
        head,
        {"type": "thinking_level_change", "id": "a", "parentId": None, "timestamp": ISO},
        {"type": "message", "id": "b", "parentId": "a", "timestamp": "2026-01-09T00:00:00Z", "message": user},
        {"type": "message", "id": "c", "parentId": "b", "timestamp": ISO, "message": reply},
        {"type": "message", "id": "d", "parentId": "c", "message": result},
        {"type": "message", "id": "e", "parentId": "d", "message": {"role": "bashExecution", "command": "ls"}},
    ]
    found = transcript(tmp_path, records)
    assert found.kind == "openclaw"
    assert found.header == TranscriptHeader("s1", 4, "s0", NOON, "/w")
    listed = entries(found.path())
    assert messages(listed) == [user, reply, result]
    assert [entry.created_at for entry in listed] == [NOON, NOON, NOON, NOON, None, None]
    assert listed[-1].record == records[-1]


def test_a_session_that_somebody_named(tmp_path: Path) -> None:
    head = {"type": "session", "version": 3, "id": "s1"}
    name = {"type": "session_info", "id": "a", "parentId": None, "name": "Launch"}
    found = transcript(tmp_path, [head, name])
    assert (found.header.title, found.lane_header().title) == (None, "Launch")


@pytest.mark.parametrize(
    ("message", "stamp", "expected"),
    [
        ({"timestamp": MILLISECONDS}, None, NOON),
        ({"timestamp": MILLISECONDS // 1000}, None, NOON),
        ({"createdAt": ISO}, None, NOON),
        ({"created_at": ISO}, "2020-01-01T00:00:00Z", NOON),
        ({"timestamp": "soon", "createdAt": True}, ISO, NOON),
        ({}, ISO, NOON),
        ({"timestamp": 1e300}, None, None),
        ({}, "soon", None),
    ],
)
def test_when_a_message_was_said(
    tmp_path: Path, message: dict[str, Any], stamp: str | None, expected: datetime | None
) -> None:
    body = {"role": "user", "content": "hi", **message}
    found = transcript(tmp_path, [{"type": "message", "id": "a", "timestamp": stamp, "message": body}], "openclaw")
    assert only(found.path()).created_at == expected


def test_bare_messages_of_openclaw(tmp_path: Path) -> None:
    bare = [{"role": "user", "content": "hi"}, {"role": "toolResult", "toolCallId": "c", "content": []}]
    assert messages(entries(transcript(tmp_path, bare, "openclaw").path())) == bare


def test_a_session_of_pi_without_ids(tmp_path: Path) -> None:
    head = {"type": "session", "id": "p1", "timestamp": ISO, "provider": "anthropic", "modelId": "m"}
    user = {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": MILLISECONDS}
    found = transcript(tmp_path, [head, {"type": "message", "timestamp": ISO, "message": user}, {"type": "leaf"}])
    assert (found.kind, found.header.id) == ("pi", "p1")
    assert messages(entries(found.path())) == [user]
    without = transcript(tmp_path, [{"type": "session", "id": "p1"}, {"type": "message", "message": user}])
    assert without.kind == "pi"


# --- Claude Code ----------------------------------------------------------------------------------------------


def spoken(id: str, parent: str | None, role: str = "user", content: Any = "hi", **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": content, **({"id": more.pop("said")} if "said" in more else {})}
    line = {"type": role, "uuid": id, "parentUuid": parent, "sessionId": "s1", "timestamp": ISO, "cwd": "/w"}
    return {**line, "isSidechain": False, "message": message, **more}


def test_a_session_of_claude_code(tmp_path: Path) -> None:
    snapshot = {"type": "file-history-snapshot", "messageId": "a", "snapshot": {}}
    meta = spoken("b", "a", isMeta=True)
    system = {"type": "system", "uuid": "c", "parentUuid": "b", "content": "note", "sessionId": "s1"}
    broken = {**spoken("e", "d"), "message": "error"}
    title = {"type": "summary", "summary": "A title", "leafUuid": "e"}
    lines = [snapshot, spoken("a", None), meta, system, spoken("d", "c", "assistant"), broken, title]
    found = transcript(tmp_path, lines)
    assert found.kind == "claude-code"
    assert found.lane_header() == TranscriptHeader("s1", started_at=NOON, cwd="/w", title="A title")
    listed = entries(found.path())
    assert ids(found.path()) == "-abcde-"
    assert messages(listed) == [line["message"] for line in (lines[1], meta, lines[4])]
    assert [entry.record for entry in listed if entry.message is None] == [snapshot, system, broken, title]


def test_a_compaction_is_bridged(tmp_path: Path) -> None:
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "c", "parentUuid": None}
    lines = [
        spoken("a", None),
        spoken("x", "a"),
        spoken("b", "a", "assistant"),
        {**boundary, "logicalParentUuid": "b"},
        spoken("d", "c", isCompactSummary=True),
    ]
    assert ids(transcript(tmp_path, lines).path()) == "abcd"


def test_lines_without_parents_are_in_order(tmp_path: Path) -> None:
    assert ids(transcript(tmp_path, [spoken("a", None), spoken("b", None), spoken("c", None)]).path()) == "abc"


def test_parallel_calls_keep_their_answers(tmp_path: Path) -> None:
    def answer(id: str, parent: str) -> dict[str, Any]:
        return spoken(id, parent, content=[{"type": "tool_result", "tool_use_id": id, "content": "ok"}])

    lines = [
        spoken("a", None),
        spoken("b", "a", "assistant", [{"type": "tool_use", "id": "1", "name": "n", "input": {}}], said="m"),
        spoken("c", "b", "assistant", [{"type": "tool_use", "id": "2", "name": "n", "input": {}}], said="m"),
        answer("d", "b"),
        answer("e", "c"),
        spoken("f", "e", "assistant", [{"type": "text", "text": "done"}], said="n"),
    ]
    assert ids(transcript(tmp_path, lines).path()) == "abcdef"
    assert ids(transcript(tmp_path, [*lines, spoken("g", "a")]).path()) == "ag"


def test_old_side_lines_are_kept_whole(tmp_path: Path) -> None:
    side: dict[str, Any] = {"isSidechain": True}
    lines = [spoken("a", None), spoken("p", None, **side), spoken("q", "p", **side), spoken("r", None, **side)]
    found = transcript(tmp_path, [*lines, spoken("b", "a")])
    assert found.lanes() == ["sidechain"]
    assert (ids(found.path()), ids(found.path("sidechain"))) == ("ab", "pqr")


def test_files_of_sub_agents_are_found(tmp_path: Path) -> None:
    found = transcript(tmp_path, [spoken("a", None)])
    assert found.side_files() == []
    folder = tmp_path / "transcript" / "subagents"
    folder.mkdir(parents=True)
    side = written(folder, [spoken("p", None, isSidechain=True, agentId="7")], "agent-7.jsonl")
    assert found.side_files() == [side]
    agent = open_transcript(side)
    assert (agent.kind, agent.lanes(), ids(agent.path("7"))) == ("claude-code", ["7"], "p")


# --- Codex ----------------------------------------------------------------------------------------------------

ITEMS: list[dict[str, Any]] = [
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "rules"}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "xyz"},
    {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"},
    {"type": "function_call_output", "call_id": "c1", "output": "ok"},
    {"type": "custom_tool_call", "name": "apply_patch", "input": "patch", "call_id": "c2", "status": "completed"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": "done"},
    {"type": "local_shell_call", "call_id": "c3", "status": "completed", "action": {"type": "exec", "command": []}},
    {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}},
    {"type": "message", "id": "m1", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]},
]


def test_a_rollout_of_codex(tmp_path: Path) -> None:
    def line(type: str, payload: dict[str, Any]) -> dict[str, Any]:
        return {"timestamp": ISO, "type": type, "payload": payload}

    meta = {"id": "c0", "timestamp": ISO, "cwd": "/w", "cli_version": "0.1", "forked_from_id": "b9"}
    opaque = [
        line("session_meta", meta),
        line("event_msg", {"type": "user_message", "message": "hi"}),
        line("turn_context", {"model": "m"}),
        line("compacted", {"message": "short", "replacement_history": []}),
        line("world_state", {"full": True}),
        line("inter_agent_communication", {"type": "message", "role": "user", "content": "no"}),
        line("response_item", {"type": "ghost_snapshot", "ghost_commit": {}}),
        line("response_item", {"type": "function_call_output", "call_id": "c9", "output": {"content": "odd"}}),
    ]
    found = transcript(tmp_path, [*opaque, *(line("response_item", item) for item in ITEMS)])
    assert found.kind == "codex"
    assert found.header == TranscriptHeader("c0", parent="b9", started_at=NOON, cwd="/w")
    listed = entries(found.path())
    assert messages(listed) == ITEMS
    assert [entry.record for entry in listed if entry.message is None] == opaque
    assert {entry.created_at for entry in listed} == {NOON}


def test_the_oldest_rollouts_have_bare_items(tmp_path: Path) -> None:
    head: dict[str, Any] = {"id": "c0", "timestamp": ISO, "instructions": None, "git": {}}
    found = transcript(tmp_path, [head, {"record_type": "state"}, *ITEMS])
    assert (found.kind, found.header) == ("codex", TranscriptHeader("c0", started_at=NOON))
    listed = entries(found.path())
    assert messages(listed) == ITEMS
    assert [entry.kind for entry in listed[:2]] == ["session_meta", "unknown"]


# --- plain messages -------------------------------------------------------------------------------------------

CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "rules"},
    {"role": "user", "content": "hi", "id": "u1", "created_at": ISO},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "n", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]},
]


def test_plain_messages(tmp_path: Path) -> None:
    found = transcript(tmp_path, [*CHAT, {"note": "odd"}])
    assert found.kind == "jsonl"
    listed = entries(found.path())
    assert messages(listed) == CHAT
    assert (listed[1].id, listed[1].created_at) == (None, NOON), "an id may be anything's"
    assert listed[-1].record == {"note": "odd"}


def test_messages_in_an_envelope(tmp_path: Path) -> None:
    found = transcript(tmp_path, [{"id": "e1", "timestamp": ISO, "message": CHAT[0]}])
    entry = only(found.path())
    assert (found.kind, entry.id, entry.created_at, entry.message) == ("jsonl", None, NOON, CHAT[0])


@pytest.mark.parametrize("key", ["traj", "messages"])
@pytest.mark.parametrize("is_array", [True, False])
def test_records_with_lists_are_conversations_of_their_own(tmp_path: Path, key: str, is_array: bool) -> None:
    records = [{"task_id": "7", key: CHAT}, {"title": "Second", key: [*CHAT[:2], "odd"]}, {key: []}]
    path = written(tmp_path, records)
    if is_array:
        path.write_text(json.dumps(records))
    found = open_transcript(path)
    assert (found.kind, found.is_array, found.lanes()) == ("jsonl", is_array, ["1", "2"])
    assert list(found.path()) == []
    assert messages(entries(found.path("1"))) == CHAT
    assert messages(entries(found.path("2"))) == CHAT[:2]
    assert found.lane_header("1").id == "7"
    assert found.lane_header("2").title == "Second"
