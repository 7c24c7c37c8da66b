"""Transcripts at the shell: importing folders, following one file, deciding about what is held back."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.maintenance.transcript_files import FIRST, TranscriptFile

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
    assert "--since" in lcm("import", "claude-code", str(projects), "--since", "noonish").error["message"]


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


def test_a_decision_is_told_as_it_was_made(lcm: Lcm, tmp_path: Path) -> None:
    ours = TranscriptFile(tmp_path / "ours.jsonl", at=FIRST)
    ours.say_all("a", "b")
    key = ("--session-key", "agent:main:main")
    lcm("bootstrap", str(ours.path), *key)
    for name, verb in (("first", "refuse"), ("second", "accept")):
        other = TranscriptFile(tmp_path / f"{name}.jsonl", name, at=FIRST - 3_600_000)
        other.say_all(*(f"{name} {n}" for n in range(120)), prefix=name)
        lcm("bootstrap", str(other.path), *key)
        (waiting,) = (item for item in lcm("transcripts").items if item["decision"] == "held")
        done = lcm("transcripts", verb, str(waiting["id"])).envelope
        assert done["command"] == f"transcripts {verb}"
        assert done["data"].get("decision", done["data"].get("status")) == {"refuse": "refused"}.get(verb, "stored")


def test_what_is_no_file_is_refused(lcm: Lcm, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    answer = lcm("import", "jsonl", str(tmp_path / "pipe"), "--apply")
    assert (answer.code, "neither a file nor a folder" in answer.error["message"]) == (2, True)


@pytest.mark.parametrize("options", [(), ("--apply",)])
def test_a_file_without_a_readable_line_ends_with_1(lcm: Lcm, tmp_path: Path, options: tuple[str, ...]) -> None:
    path = plain(tmp_path / "odd.jsonl", "hello")
    path.write_bytes(path.read_text().encode("utf-16"))
    answer = lcm("import", "jsonl", str(path), *options)
    (item,) = json.loads(answer.out)["data"]["items"]
    assert (answer.code, item["status"]) == (1, "error")
    assert item["reason"].startswith("no line of it can be read (line 1: not UTF-8")


@pytest.mark.parametrize("options", [(), ("--apply",)])
def test_bad_lines_are_named_before_anything_is_stored(lcm: Lcm, tmp_path: Path, options: tuple[str, ...]) -> None:
    path = plain(tmp_path / "odd.jsonl", "hello", "there")
    path.write_text(path.read_text() + "no line\n")
    (item,) = lcm("import", "jsonl", str(path), *options).items
    assert (item["messages"], item["problems"]) == (2, ["line 3: not JSON"])


def test_a_folder_without_transcripts_is_told_as_such(lcm: Lcm, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert lcm("import", "jsonl", str(tmp_path / "empty")).data["files"] == 0
    seen = lcm("--format", "table", "import", "jsonl", str(tmp_path / "empty")).out
    assert seen.strip() == "There are no transcripts of kind jsonl there."


def test_a_whole_archive_is_json_lines_too(lcm: Lcm, archive: Path, tmp_path: Path) -> None:
    before = lcm("status").data["status"]
    lcm("export", "jsonl", str(tmp_path / "all.jsonl"))
    other = ("--db", str(tmp_path / "other.db"), "--create")
    assert lcm("import", "jsonl", str(tmp_path / "all.jsonl"), *other).code == 0
    assert not (tmp_path / "other.db").exists()
    assert lcm("import", "jsonl", str(tmp_path / "all.jsonl"), "--apply", *other).data["verified"]["ok"]
    assert lcm("status", *other).data["status"]["messages"] == before["messages"]
    assert lcm("status", *other).data["status"]["summaries"] == before["summaries"]


def plain(path: Path, *said: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    roles = ("user", "assistant")
    path.write_text("".join(json.dumps({"role": roles[n % 2], "content": s}) + "\n" for n, s in enumerate(said)))
    return path


def test_files_of_one_name_are_conversations_of_their_own(
    lcm: Lcm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "deep/a"):
        plain(tmp_path / "plain" / name / "messages.jsonl", f"question of {name}", f"answer of {name}")
    found = lcm("import", "jsonl", str(tmp_path / "plain"), "--apply").data
    assert (found["messages"], found["conversations"]) == (6, {"imported": 3})
    assert len(lcm("conversations", "list").items) == 3
    monkeypatch.chdir(tmp_path / "plain")
    again = lcm("import", "jsonl", "a/messages.jsonl", "b", "--apply").data
    assert (again["messages"], again["conversations"]) == (0, {"up-to-date": 2})
    plain(tmp_path / "plain" / "b" / "messages.jsonl", "question of b", "answer of b", "more of b")
    assert lcm("import", "jsonl", "b/messages.jsonl", "--apply").data["messages"] == 1
    assert len(lcm("conversations", "list").items) == 3


@pytest.mark.parametrize("options", [(), ("--apply",)])
def test_a_file_of_another_kind_is_an_error_when_it_is_named(
    lcm: Lcm, projects: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    file = projects / "-home-user-ferry" / "aaa.jsonl"
    for kind in ("codex", "openclaw", "pi", "chatgpt", "jsonl"):
        answer = lcm("import", kind, str(file), *options)
        found = json.loads(answer.out)
        (item,) = found["data"]["items"]
        assert (answer.code, found["ok"], item["status"]) == (1, False, "error")
        assert "`lcm import claude-code`" in item["reason"]
    talk = plain(tmp_path / "talk.jsonl", "hello", "yes?")
    assert lcm("import", "codex", str(talk), *options).code == 1
    assert lcm("import", "openclaw", str(talk), *options).data["messages"] == 2, "bare messages are OpenClaw's, too"


def test_a_folder_may_hold_other_kinds(lcm: Lcm, projects: Path) -> None:
    plain(projects / "notes.jsonl", "hello", "yes?")
    answer = lcm("import", "claude-code", str(projects), "--apply")
    assert answer.code == 0
    assert (answer.data["messages"], answer.data["otherKinds"]) == (16, {"jsonl": 1})
    assert answer.data["conversations"] == {"imported": 3, "skipped": 1}
    (skipped,) = (item for item in answer.data["items"] if item["status"] == "skipped")
    assert (skipped["sessionId"], "`lcm import jsonl`" in skipped["reason"]) == ("notes.jsonl", True)


def test_sessions_without_a_title_are_named_after_what_was_asked(lcm: Lcm, projects: Path) -> None:
    lcm("import", "claude-code", str(projects), "--apply")
    titles = {item["sessionKey"].rpartition(":")[2]: item["title"] for item in lcm("conversations", "list").items}
    assert titles == {"aaa": "Payments of the ferry", "bbb": "message 0 of bbb", "x1": "message 0 of side"}


def test_small_files_are_stored_together(lcm: Lcm, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    for n in range(120):
        plain(folder / f"{n:03}.jsonl", f"question {n}", f"answer {n}")
    plain(folder / "long.jsonl", *(f"{n} " + "word " * 200 for n in range(40)))
    found = lcm("import", "jsonl", str(folder), "--apply").data
    assert (found["messages"], found["conversations"]) == (280, {"imported": 121})
    again = lcm("import", "jsonl", str(folder), "--apply").data
    assert (again["messages"], again["conversations"]) == (0, {"up-to-date": 121})
    assert lcm("verify").data["ok"]


def test_a_file_that_fails_among_small_ones_fails_alone(lcm: Lcm, projects: Path) -> None:
    (projects / "-home-user-ferry" / "aaa" / "subagents" / "agent-gone.jsonl").symlink_to("nowhere")
    answer = lcm("import", "claude-code", str(projects), "--apply")
    found = json.loads(answer.out)["data"]
    assert (answer.code, found["messages"]) == (1, 16)
    assert found["conversations"] == {"imported": 3, "error": 1}
    assert found["items"][0]["path"].endswith("agent-gone.jsonl")
    assert lcm("verify").data["ok"]


def test_what_was_pruned_comes_back_only_when_asked(lcm: Lcm, projects: Path) -> None:
    lcm("import", "claude-code", str(projects), "--apply")
    lcm("prune", "--session", "claude-code:**", "--include-active", "--apply")
    for options in ((), ("--apply",)):
        found = lcm("import", "claude-code", str(projects), *options).data
        assert (found["messages"], found["pruned"], found["conversations"]) == (0, 16, {"skipped": 3})
        seen = lcm("--format", "table", "import", "claude-code", str(projects), *options).out
        assert "16 messages left out, deleted with `lcm prune`; --again brings them back." in seen
    assert lcm("conversations", "list").items == []
    tried = lcm("import", "claude-code", str(projects), "--again").data
    assert (tried["messages"], tried["pruned"], tried["conversations"]) == (16, 0, {"would-import": 3})
    done = lcm("import", "claude-code", str(projects), "--again", "--apply").data
    assert (done["messages"], done["pruned"], done["conversations"]) == (16, 0, {"imported": 3})
    assert lcm("verify").data["ok"]
