"""Transcripts at the shell: importing folders, following one file, deciding about what is held back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.lifecycle.transcript_files import FIRST, TranscriptFile

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Lcm


def claude_line(n: int, session: str, **more: Any) -> str:
    role = "user" if n % 2 == 0 else "assistant"
    said = f"message {n} of {session}"
    content = said if role == "user" else [{"type": "text", "text": said}]
    record = {
        "type": role, "uuid": f"{session}-{n}", "parentUuid": f"{session}-{n - 1}" if n else None,
        "isSidechain": False, "sessionId": session, "cwd": "/home/user/ferry",
        "timestamp": f"2026-03-01T10:00:{n % 60:02}.000Z", "message": {"role": role, "content": content},
    }  # fmt: skip
    return json.dumps(record | more) + "\n"


@pytest.fixture
def projects(tmp_path: Path) -> Path:
    """Two sessions of one project, one of them with a sub-agent."""
    folder = tmp_path / "projects" / "-home-user-ferry"
    (folder / "aaa" / "subagents").mkdir(parents=True)
    title = json.dumps({"type": "summary", "summary": "Payments of the ferry", "leafUuid": "aaa-9"}) + "\n"
    (folder / "aaa.jsonl").write_text(title + "".join(claude_line(n, "aaa") for n in range(10)))
    (folder / "bbb.jsonl").write_text("".join(claude_line(n, "bbb") for n in range(4)) + "{half of a li")
    lines = "".join(claude_line(n, "side", isSidechain=True, agentId="x1") for n in range(2))
    (folder / "aaa" / "subagents" / "agent-x1.jsonl").write_text(lines)
    return tmp_path / "projects"


def statuses(data: dict[str, Any]) -> dict[str, tuple[str, int]]:
    return {item["sessionKey"]: (item["status"], item["messages"]) for item in data["items"]}


def test_a_folder_of_projects_becomes_conversations(lcm: Lcm, projects: Path) -> None:
    name = "claude-code:-home-user-ferry"
    dry = lcm("import", "claude-code", str(projects)).data
    expected = {f"{name}:aaa": 10, f"{name}:bbb": 4, f"{name}:aaa:subagent:x1": 2}
    assert statuses(dry) == {key: ("would-import", count) for key, count in expected.items()}
    assert lcm("conversations", "list").code == 3
    real = lcm("import", "claude-code", str(projects), "--apply").data
    assert statuses(real) == {key: ("imported", count) for key, count in expected.items()}
    assert real["messages"] == 16
    again = lcm("import", "claude-code", str(projects), "--apply").data
    assert (again["messages"], again["conversations"]) == (0, {"up-to-date": 3})
    titles = {item["title"] for item in lcm("conversations", "list").items}
    assert "Payments of the ferry" in titles
    assert lcm("verify").data["ok"]


def test_what_is_appended_later_is_added(lcm: Lcm, projects: Path) -> None:
    lcm("import", "claude-code", str(projects), "--apply")
    with (projects / "-home-user-ferry" / "aaa.jsonl").open("a") as file:
        file.write(claude_line(10, "aaa"))
    found = lcm("import", "claude-code", str(projects), "--apply").data
    assert found["messages"] == 1


def test_one_bad_file_does_not_stop_the_others(lcm: Lcm, projects: Path) -> None:
    (projects / "-home-user-ferry" / "photo.jsonl").write_bytes(b"\x89PNG\r\n\x1a\n" * 10)
    answer = lcm("import", "claude-code", str(projects), "--apply")
    found = json.loads(answer.out)
    assert found["data"]["messages"] == 16
    assert "Traceback" not in answer.err


def test_limit_and_since_choose_files(lcm: Lcm, projects: Path) -> None:
    assert lcm("import", "claude-code", str(projects), "--limit", "1").data["filesLeftOut"] == 1
    assert lcm("import", "claude-code", str(projects), "--since", "1d").data["files"] == 2
    assert lcm("import", "claude-code", str(projects), "--since", "2999-01-01").data["files"] == 0
    assert "--since" in lcm("import", "claude-code", str(projects), "--since", "yesterday").error["message"]


def test_a_path_that_is_not_there_is_said(lcm: Lcm) -> None:
    assert "nowhere" in lcm("import", "codex", "nowhere").error["message"]


def test_a_held_transcript_is_shown_and_decided(lcm: Lcm, tmp_path: Path) -> None:
    ours = TranscriptFile(tmp_path / "ours.jsonl", at=FIRST)
    ours.say_all("a", "b")
    other = TranscriptFile(tmp_path / "other.jsonl", "header-2", at=FIRST - 3_600_000)
    other.say_all(*(f"m{n}" for n in range(120)))
    key = ("--session-key", "agent:main:main")
    assert lcm("bootstrap", str(ours.path), *key).data["stored"] == 2
    refused = lcm("bootstrap", str(other.path), *key)
    assert refused.code != 0
    assert json.loads(refused.out)["data"]["status"] == "held"
    (waiting,) = lcm("transcripts").items
    assert waiting["path"] == str(other.path)
    assert lcm("status").data["liveness"]["heldTranscripts"] == 1
    assert lcm("transcripts", "accept", str(waiting["id"])).data["stored"] == 120
    assert lcm("transcripts").items == []
    assert [item["decision"] for item in lcm("transcripts", "list", "--all").items][-1] == "accepted"
    assert lcm("transcripts", "refuse", str(waiting["id"])).error["code"] == "not_found"


def test_a_whole_archive_is_json_lines_too(lcm: Lcm, archive: Path, tmp_path: Path) -> None:
    before = lcm("status").data["status"]
    lcm("export", "jsonl", str(tmp_path / "all.jsonl"))
    other = ("--db", str(tmp_path / "other.db"))
    assert lcm("import", "jsonl", str(tmp_path / "all.jsonl"), *other).code == 0
    assert not (tmp_path / "other.db").exists()
    assert lcm("import", "jsonl", str(tmp_path / "all.jsonl"), "--apply", *other).data["verified"]["ok"]
    assert lcm("status", *other).data["status"]["messages"] == before["messages"]
    assert lcm("status", *other).data["status"]["summaries"] == before["summaries"]
