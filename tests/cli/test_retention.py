"""Backups, restores, sizes, pruning and rotation at a shell."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

import lossless
from lossless.model.paths import file_size

from .conftest import FERRY, sql
from .test_screen import ESCAPE, at_a_terminal

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm


def messages(lcm: Lcm) -> int:
    found: int = lcm("status").data["status"]["messages"]["count"]
    return found


@pytest.fixture
def closed(archive: Path) -> Path:
    """The archive with its longer conversation closed."""
    with lossless.open(archive, background=False) as engine:
        engine.reset(FERRY)
    return archive


def test_a_backup_is_made_listed_and_put_back(lcm: Lcm, archive: Path) -> None:
    assert "0 backups" not in lcm("backup", "--list", "--format", "table").out
    made = lcm("backup").data
    assert made["path"].startswith(f"{archive}.backup-")
    assert lcm("backup", "--rolling").data["rolling"]
    copy = archive.parent / "copy.db"
    assert lcm("backup", copy).data["path"] == str(copy)
    listed = lcm("backups").data
    assert {item["label"] for item in listed["items"]} == {"backup", "rotate-latest"}
    shown = lcm("backup", "--list", "--format", "table").out
    assert f"  {archive.name}.rotate-latest.bak" in shown  # the name that restore takes
    assert listed["bytes"] == sum(item["bytes"] for item in listed["items"])
    before = messages(lcm)
    lcm("append", "--session-key", "k", input='{"role": "user", "content": "later"}\n')
    looked = lcm("restore", made["path"]).data
    assert (looked["applied"], looked["counts"]["messages"]) == (False, before)
    assert messages(lcm) == before + 1
    done = lcm("restore", f"{archive.name}.rotate-latest.bak", "--yes").data
    assert (done["applied"], done["before"]["messages"], done["counts"]["messages"]) == (True, before + 1, before)
    assert messages(lcm) == before
    assert lcm("verify").code == 0
    assert lcm("restore", done["previous"], "--yes").data["counts"]["messages"] == before + 1


def test_what_cannot_be_backed_up_or_restored_is_said(lcm: Lcm, archive: Path, tmp_path: Path) -> None:
    assert lcm("backup", archive).error["code"] == "bad_input"
    assert lcm("backup", "x.db", "--rolling").code == 2
    assert lcm("restore", "none.bak", "--yes").error["code"] == "not_found"
    bad = tmp_path / "bad.bak"
    bad.write_bytes(b"nothing of the kind")
    assert lcm("restore", bad, "--yes").error["code"] == "not_an_archive"
    assert lcm("--db", tmp_path / "nowhere.db", "backup").error["code"] == "not_found"
    assert lcm("--db", tmp_path / "nowhere.db", "backups").data["items"] == []


def test_a_restore_makes_an_archive_that_is_not_there(lcm: Lcm, archive: Path, tmp_path: Path) -> None:
    made = lcm("backup").data["path"]
    there = tmp_path / "new" / "lcm.db"
    assert lcm("--db", there, "restore", made, "--yes").data["previous"] is None
    assert lcm("--db", there, "verify").code == 0


def test_a_restore_warns_only_of_what_is_wrong_afterwards(lcm: Lcm, archive: Path, tmp_path: Path) -> None:
    long = "\n".join(f"line {n} of the harbour" for n in range(20_000))
    with lossless.open(archive, background=False) as engine:
        session = lossless.Session(key="agent:main:log", id="run-3")
        engine.append(session, [{"role": "tool", "tool_call_id": "c1", "content": long}])
        (file,) = engine.archive.files.listed()
    lcm("backup", str(tmp_path / "copy.db"))
    os.unlink(file.storage_uri)
    assert lcm("restore", str(tmp_path / "copy.db")).data["warnings"] > 0
    done = lcm("restore", str(tmp_path / "copy.db"), "--yes").data
    assert (done["files"], done["warnings"], lcm("verify").data["warnings"]) == (1, 0, 0)


def test_sizes_add_up(lcm: Lcm, archive: Path) -> None:
    data = lcm("size").data
    assert sum(row["bytes"] for row in data["rows"]) == data["databaseBytes"] + data["fileBytes"]
    names = [row["name"] for row in data["rows"]]
    assert names[:5] == ["messages", "leaf summaries", "condensed summaries", "full-text index", "trigram index"]
    assert data["isExact"]


def test_pruning_is_a_dry_run_until_it_is_not(lcm: Lcm, closed: Path) -> None:
    before = messages(lcm)
    looked = lcm("prune", "--session", "agent:*:ferry").data
    assert (looked["applied"], looked["conversations"], looked["messages"]) == (False, 1, 12)
    assert messages(lcm) == before
    done = lcm("prune", "--session", "agent:*:ferry", "--apply").data
    assert (done["applied"], done["conversations"], done["messages"], done["summaries"]) == (True, 1, 12, 3)
    assert done["backupPath"]
    assert messages(lcm) == before - 12
    assert lcm("verify").data["errors"] == 0
    assert lcm("grep", "ferries").data["items"] == []
    lcm("restore", done["backupPath"], "--yes")
    assert messages(lcm) == before
    more = lcm("prune", "--to", "1kB", "--include-active", "--no-backup", "--no-vacuum", "--apply").data
    assert (more["backupPath"], more["vacuumed"]) == (None, False)
    assert messages(lcm) == 0


def test_room_can_be_given_back_alone(lcm: Lcm, archive: Path) -> None:
    sql(archive, "CREATE TABLE big AS SELECT randomblob(900000) AS x", "DROP TABLE big")
    before = lcm("prune", "--vacuum").data
    assert (before["conversations"], before["freeBytes"] >= 900_000) == (0, True)
    done = lcm("prune", "--vacuum", "--apply").data
    assert (done["vacuumed"], done["freeBytes"], done["backupPath"]) == (True, 0, None)
    assert file_size(archive) == done["databaseSizeBytes"] < before["databaseSizeBytes"]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--older-than", "soon"),
        ("--to", "much"),
        ("--older-than", "0d"),
        ("--older-than", "2500y"),
        ("--session", " "),
    ],
)
def test_what_may_go_must_be_said(lcm: Lcm, archive: Path, arguments: tuple[str, ...]) -> None:
    answer = lcm("prune", *arguments, "--apply")
    assert answer.code == 2
    assert answer.error["code"] == "bad_arguments"


@pytest.fixture
def transcript(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A transcript that a conversation follows."""
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "4")
    monkeypatch.setenv("LCM_LOG_FILE_ENABLED", "false")
    records = [{"type": "session", "version": 3, "id": "run-9"}]
    for n in range(20):
        message = {"role": ("user", "assistant")[n % 2], "content": f"{n}: wind and weather " * 20}
        records.append({"type": "message", "id": f"t{n}", "parentId": f"t{n - 1}" if n else None, "message": message})
    path = tmp_path / "run-9.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    with lossless.open(archive, background=False) as engine:
        engine.bootstrap(lossless.Session(key="agent:main:wind", id="run-9"), path)
    return path


def test_a_transcript_is_rotated(lcm: Lcm, transcript: Path, archive: Path) -> None:
    before = transcript.read_bytes()
    looked = lcm("rotate", "--session-key", "agent:main:wind").data
    assert (looked["rotated"], looked["keptMessages"], looked["droppedMessages"]) == (False, 4, 16)
    assert transcript.read_bytes() == before
    done = lcm("rotate", "--session-key", "agent:main:wind", "--apply").data
    assert (done["rotated"], done["sessionFile"], done["reason"]) == (True, str(transcript), None)
    assert done["backupPath"] == f"{archive}.rotate-latest.bak"
    assert transcript.stat().st_size == done["sizeAfter"] == done["checkpointSize"]
    assert lcm("verify").code == 0
    again = lcm("rotate", "--session-key", "agent:main:wind", "--apply")
    assert (again.code, again.data["reason"]) == (0, "nothing to remove")


def test_a_rotation_that_is_refused_ends_with_1(lcm: Lcm, transcript: Path) -> None:
    transcript.write_bytes(transcript.read_bytes() + b'{"half')
    answer = lcm("rotate", "--session-key", "agent:main:wind", "--apply")
    assert answer.code == 1
    assert not answer.envelope["ok"]
    assert answer.envelope["data"]["reason"] == "its last line is not finished"
    assert lcm("rotate", "--session-key", "agent:main:ferry").error["code"] == "not_found"


def test_a_person_sees_tables(lcm: Lcm, closed: Path, transcript: Path) -> None:
    lcm("backup", "--rolling")
    seen = {
        ("backups",): "1 backup",
        ("size",): "lcm backups",
        ("prune", "--session", "agent:**"): "would be deleted permanently",
        ("prune", "--session", "**:ferry", "--apply"): "Deleted",
        ("rotate", "--session-key", "agent:main:wind"): "--apply does it",
        ("rotate", "--session-key", "agent:main:wind", "--apply"): "Rotated",
        ("restore", f"{closed.name}.rotate-latest.bak", "--yes"): "Restored",
    }
    for arguments, words in seen.items():
        assert words in " ".join(ESCAPE.sub("", at_a_terminal(*arguments)).split()), arguments
