"""Opening what was kept: describe, expand, ask, files, stub."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

import lossless

from .conftest import CRANE, FERRY
from .loop import bytes_of

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm

BUILD = lossless.Session(key="agent:main:build", id="run-3")
LOG = "\n".join(f"line {n}: compiled module {n}" for n in range(1, 401))


@pytest.fixture
def vault(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The archive with a large answer of a tool in its third conversation; returns the folder for its files."""
    folder = tmp_path / "payloads"
    monkeypatch.setenv("LCM_LARGE_FILES_DIR", str(folder))
    call = {"id": "b1", "type": "function", "function": {"name": "make", "arguments": '{"target": "all"}'}}
    said: list[dict[str, Any]] = [
        {"role": "user", "content": "Build it"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "b1", "content": LOG},
    ]
    with lossless.open(archive, background=False) as engine:
        engine.append(BUILD, said)
    return folder


def age(folder: Path) -> None:
    """Let two hours pass for every file."""
    for path in folder.rglob("*.*"):
        os.utime(path, (time.time() - 7200,) * 2)


# --- describe ---------------------------------------------------------------------------------------------------


def test_summaries_and_messages_are_opened_and_nothing_is_written(archive: Path, lcm: Lcm) -> None:
    before = bytes_of(archive)
    root = lcm("describe", "sum_root").data
    assert (root["type"], root["summary"]["parentIds"]) == ("summary", ["sum_leaf0", "sum_leaf1"])
    assert "root: ferries, again" in root["text"]
    for name in ("msg#1", "1", "LCM_MESSAGE msg#1"):
        assert "the 0th thing" in lcm("describe", name).data["text"]
    assert "the 0th thing" in lcm("describe", "msg#1", "--session-key", FERRY.key, "--format", "table").out
    assert "the 0th thing" in lcm("describe", "msg#1", "--session-id", FERRY.id).data["text"]
    assert bytes_of(archive) == before


def test_a_long_text_goes_on_behind_its_cursor(archive: Path, lcm: Lcm, vault: Path) -> None:
    name = "msg#17"
    first = lcm("describe", name, "--token-cap", 50).data
    second = lcm("describe", name, "--token-cap", 50, "--cursor", first["cursor"]).data
    assert first["text"] != second["text"]
    assert "line 1: compiled" in first["text"]


def test_an_owner_may_look_into_the_session_of_a_sub_agent(archive: Path, lcm: Lcm) -> None:
    key = "agent:main:subagent:7f"
    with lossless.open(archive, background=False) as engine:
        engine.append(lossless.Session(key=key), [{"role": "user", "content": "count the crates"}])
    assert "count the crates" in lcm("describe", "msg#15", "--session-key", key).data["text"]


# --- expand -----------------------------------------------------------------------------------------------------


def test_summaries_are_read_down_to_their_messages(archive: Path, lcm: Lcm) -> None:
    data = lcm("expand", "sum_root", "--messages").data
    assert {"sum_leaf0", "sum_leaf1", "msg#1", "msg#6"} <= set(data["citedIds"])
    assert not data["truncated"]
    assert "the 0th thing" in lcm("expand", "sum_leaf0", "--format", "table").out
    assert "the 3th thing" in lcm("expand", "--around", "msg#4").data["text"]
    assert lcm("expand", "--query", "ferries").data["messageCount"] > 0


def test_a_rule_for_main_agents_does_not_bind_the_owner(
    archive: Path, lcm: Lcm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LCM_EXPAND_FOR_MAIN_AGENTS", "refuse")
    assert lcm("expand", "sum_leaf0").data["messageCount"] == 3


# --- ask --------------------------------------------------------------------------------------------------------


def test_without_a_model_the_answer_is_the_evidence(archive: Path, lcm: Lcm) -> None:
    before = bytes_of(archive)
    data = lcm("ask", "What happened to the ferries?", "--session-key", FERRY.key).data
    assert data["answer"].splitlines()[2] == "No model is configured; this is the evidence itself."
    assert "about ferries (msg#" in data["answer"].splitlines()[0]
    assert data["models"] == []
    assert data["citedIds"]
    assert data["sourceConversationIds"] == [1]
    shown = lcm("ask", "What happened?", "--ids", "sum_leaf0, sum_leaf1", "--timeout", 5, "--format", "table").out
    assert "leaf 0: ferries went" in shown
    assert re.search(r"Read +[\d,]+ tokens", shown)
    assert re.search(r"Asked +no model", shown)
    for where in ((), ("--conversation-id", 2)):
        nothing = lcm("ask", "Anything?", "--query", "zeppelin", *where).data
        assert nothing["citedIds"] == []
        assert "No matching" in nothing["answer"]
    assert "No matching" in lcm("ask", "Anything?", "--query", "zeppelin", "--format", "table").out
    assert bytes_of(archive) == before


@pytest.mark.parametrize("setting", ["LCM_SUMMARY_MODEL", "LCM_EXPANSION_MODEL"])
def test_a_configured_model_answers_and_is_counted(
    archive: Path, lcm: Lcm, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    reply = '{"answer": "They went.", "citedIds": ["msg#1", "msg#999"]}'
    monkeypatch.setenv(setting, f"command/echo {shlex.quote(reply)}")
    data = lcm("ask", "What", "happened", "to", "the", "ferries?").data
    assert (data["answer"], data["citedIds"], data["droppedIds"]) == ("They went.", ["msg#1"], ["msg#999"])
    assert len(data["models"]) == 1
    (spent,) = lcm("cost").data["spent"]
    assert (spent["purpose"], spent["done"]) == ("answer", 1)
    assert lcm("ask", "What happened to the ferries?", "--no-model").data["models"] == []


def test_a_model_that_gives_no_answer_is_a_failure(archive: Path, lcm: Lcm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_SUMMARY_MODEL", "command/false")
    answer = lcm("ask", "What happened to the ferries?", "--session-key", FERRY.key)
    assert (answer.code, answer.error["code"]) == (1, "no_answer")
    assert answer.error["details"]["errorCode"].startswith("DELEGATED_EXPANSION_")


# --- stub and files ---------------------------------------------------------------------------------------------


def test_stubs_are_planned_made_and_taken_back(archive: Path, lcm: Lcm, vault: Path) -> None:
    before = bytes_of(archive)
    planned = lcm("stub").data
    assert (planned["applied"], planned["count"], planned["items"][0]["tool"]) == (False, 1, "make")
    assert "--apply" in lcm("stub", "--format", "table").out
    assert lcm("stub", "--session-key", CRANE.key).data["count"] == 0
    assert (bytes_of(archive), vault.exists()) == (before, False)

    assert lcm("stub", "--apply").data["count"] == 1
    assert lcm("stub", "--apply").data["count"] == 0
    assert "that large" in lcm("stub", "--format", "table").out
    (item,) = lcm("files", "list").items
    assert (item["fileName"], item["byteSize"], item["isThere"]) == ("make.txt", len(LOG), True)
    assert LOG in lcm("messages", "show", 17).data["message"]["content"]

    assert "takes the marks away" in lcm("stub", "--revert", "--format", "table").out
    reverted = lcm("stub", "--revert", "--apply").data
    assert (reverted["count"], reverted["rows"]) == (1, 1)
    assert lcm("files", "list").items == []
    assert "No message" in lcm("stub", "--revert", "--format", "table").out
    assert lcm("verify").code == 0


def test_files_are_listed_page_by_page(archive: Path, lcm: Lcm, vault: Path) -> None:
    lcm("stub", "--apply", "--min-bytes", 20)
    with lossless.open(archive, background=False) as engine:
        call = {"id": "b2", "type": "function", "function": {"name": "make", "arguments": "{}"}}
        again: list[dict[str, Any]] = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "b2", "content": LOG.upper()},
        ]
        engine.append(BUILD, again)
    lcm("stub", "--apply")
    first = lcm("files", "list", "--limit", 1).envelope
    second = lcm("files", "list", "--limit", 1, "--cursor", first["pagination"]["nextCursor"]).envelope
    ids = {page["data"]["items"][0]["fileId"] for page in (first, second)}
    assert len(ids) == 2
    assert second["pagination"]["hasMore"] is False
    assert first["data"]["total"] == {"count": 2, "bytes": 2 * len(LOG)}
    assert lcm("files", "list", "--before", "2020-01-01T00:00:00Z").items == []
    assert lcm("files", "list", "--session-key", FERRY.key).items == []
    assert "make.txt" in lcm("files", "list", "--format", "table").out


def test_a_file_is_shown_by_lines_and_raw_and_without_its_bytes(archive: Path, lcm: Lcm, vault: Path) -> None:
    lcm("stub", "--apply")
    (item,) = lcm("files", "list").items
    lines = lcm("files", "show", item["fileId"], "--start-line", 7, "--end-line", 8).data
    assert "line 7: compiled" in lines["text"]
    assert "line 200: compiled" not in lines["text"]
    assert lines["isThere"] is True
    assert lcm("files", "show", item["fileId"], "--raw").out == LOG
    for path in vault.rglob("file_*"):
        path.unlink()
    gone = lcm("files", "show", item["fileId"]).data
    assert (gone["isThere"], gone["content"]["fromMessage"]) == (False, True)
    assert "missing" in lcm("files", "show", item["fileId"], "--format", "table").out
    assert "missing" in lcm("files", "list", "--format", "table").out
    assert lcm("files", "show", item["fileId"], "--raw").code == 3


def test_a_model_describes_files_when_asked_to(
    archive: Path, lcm: Lcm, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lcm("stub", "--min-bytes", 1000, "--apply")
    before = bytes_of(archive)
    waiting = lcm("files", "explore", "--dry-run").data
    assert (waiting["left"], waiting["models"]) == (1, [])
    assert "1 file of prose would be described by no" in lcm("files", "explore", "--dry-run", "--format", "table").out
    refused = lcm("files", "explore")
    assert (refused.code, refused.error["code"]) == (4, "no_model")
    assert bytes_of(archive) == before
    monkeypatch.setenv("LCM_LARGE_FILE_SUMMARY_PROVIDER", "command")
    monkeypatch.setenv("LCM_LARGE_FILE_SUMMARY_MODEL", "false")
    failed = lcm("files", "explore", "--conversation-id", 3)
    told = failed.envelope["data"]
    assert (failed.code, told["described"], told["left"]) == (1, 0, 1)
    assert told["stop"]["code"]
    assert "Stopped: " in lcm("files", "explore", "--format", "table").out
    monkeypatch.setenv("LCM_LARGE_FILE_SUMMARY_MODEL", "echo It is the log of a build.")
    done = lcm("files", "explore").data
    assert (done["described"], done["left"], done["stop"]) == (1, 0, None)
    assert "log of a build" in lcm("files", "list").items[0]["preview"]
    assert lcm("files", "explore").data["described"] == 0
    assert [row["purpose"] for row in lcm("cost").data["spent"]] == ["file", "file"]


def test_a_worker_describes_files(archive: Path, lcm: Lcm, vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lcm("stub", "--min-bytes", 1000, "--apply")
    monkeypatch.setenv("LCM_LARGE_FILE_SUMMARY_PROVIDER", "command")
    monkeypatch.setenv("LCM_LARGE_FILE_SUMMARY_MODEL", "echo It is the log of a build.")
    assert lcm("worker", "--no-model").code == 0
    assert lcm("files", "explore", "--dry-run").data["left"] == 1
    assert lcm("worker").data == {"items": [], "paid": 0}
    assert lcm("files", "explore", "--dry-run").data["left"] == 0


def test_only_old_files_without_a_row_are_collected(archive: Path, lcm: Lcm, vault: Path) -> None:
    lcm("stub", "--apply")
    (kept,) = vault.rglob("file_*")
    orphan = kept.with_name("file_00000000000000aa.txt")
    orphan.write_text("left by a crash")
    assert lcm("files", "gc").items == []
    age(vault)
    listed = lcm("files", "gc").data
    assert (listed["applied"], [item["fileId"] for item in listed["items"]]) == (False, ["file_00000000000000aa"])
    assert "--apply deletes" in lcm("files", "gc", "--format", "table").out
    assert orphan.exists()
    assert "They are deleted." in lcm("files", "gc", "--apply", "--format", "table").out
    assert (orphan.exists(), kept.exists()) == (False, True)
    assert "younger than" in lcm("files", "gc", "--apply", "--format", "table").out


def test_a_folder_without_a_list_of_its_archives_is_collected_when_somebody_names_them(
    archive: Path, lcm: Lcm, vault: Path
) -> None:
    lcm("stub", "--apply")
    shutil.rmtree(vault / "archives")
    (kept,) = vault.rglob("file_*")
    orphan = kept.with_name("file_00000000000000aa.txt")
    orphan.write_text("left by a crash")
    age(vault)
    refused = lcm("files", "gc", "--apply")
    assert (refused.code, refused.error["code"]) == (2, "bad_input")
    assert "--used-by" in refused.error["message"]
    assert lcm("doctor", "--offline").code in (0, 1)
    assert lcm("files", "gc", "--apply", "--used-by", archive).data["count"] == 1
    assert not orphan.exists()
    assert lcm("files", "gc").items == []


def test_the_files_of_another_archive_are_not_deleted(archive: Path, lcm: Lcm, home: Path) -> None:
    """Nobody named a folder, so it is the one beside this archive."""
    other = home / ".openclaw" / "lcm-files" / "1" / "file_00000000000000aa.txt"
    other.parent.mkdir(parents=True)
    other.write_text("of the archive in ~/.openclaw")
    age(other.parent)
    assert lcm("files", "gc").items == []
    assert lcm("files", "gc", "--apply").code == 0
    assert other.exists()


# --- mistakes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("describe",), 2),
        (("describe", "what"), 2),
        (("describe", "msg#999"), 3),
        (("describe", "sum_root", "--session-key", CRANE.key), 3),
        (("describe", "sum_root", "--session-key", "nobody"), 3),
        (("describe", "sum_root", "--session-id", "nobody"), 3),
        (("describe", "sum_root", "--all", "--conversation-id", 1), 2),
        (("describe", "file_0123456789abcdef", "--start-line", 3, "--end-line", 2), 2),
        (("describe", "msg#1", "--cursor", "spoilt"), 2),
        (("expand",), 2),
        (("expand", "file_0123456789abcdef"), 2),
        (("expand", "sum_nothing"), 3),
        (("expand", "sum_root", "--max-depth", 0), 2),
        (("expand", "sum_root", "--around", "sum_root"), 2),
        (("ask",), 2),
        (("ask", " "), 2),
        (("ask", "Why?", "--ids", "sum_nothing"), 3),
        (("ask", "Why?", "--ids", "nonsense"), 2),
        (("ask", "Why?", "--timeout", 0), 2),
        (("files", "list", "--session-key", "nobody"), 3),
        (("files", "list", "--cursor", "spoilt"), 2),
        (("files", "show", "sum_root"), 2),
        (("files", "show", "file_0123456789abcdef"), 3),
        (("files", "show", "file_0123456789abcdef", "--start-line", 3, "--end-line", 2), 2),
        (("files", "gc", "everything"), 2),
        (("files", "gc", "--db", "nowhere.db"), 3),
        (("stub", "--min-bytes", 0), 2),
        (("stub", "--revert", "--limit", 3), 2),
        (("stub", "--conversation-id", 99), 3),
    ],
)
def test_mistakes_say_what_is_wrong(archive: Path, lcm: Lcm, arguments: tuple[object, ...], code: int) -> None:
    before = bytes_of(archive)
    answer = lcm(*arguments)
    assert (answer.code, bool(answer.error["message"])) == (code, True), answer.err
    assert bytes_of(archive) == before
