"""`lcm doctor`: exit codes for scripts, remedies for people, nothing changed without a word."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import lossless
from lossless.model.tokens import estimate_tokens
from lossless.store.maintenance.surgery import SurgeryWrites
from tests.built import built
from tests.maintenance.surgery_kit import HERE, open_engine, talk, told

from .conftest import sql
from .loop import bytes_of

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm


@pytest.fixture
def folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A conversation that is folded."""
    path = tmp_path / "lcm.db"
    monkeypatch.setenv("LCM_DATABASE_PATH", str(path))
    return built(path, _build_folded)


def _build_folded(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)


def test_a_healthy_archive_is_zero(lcm: Lcm, folded: Path) -> None:
    before = bytes_of(folded)
    for command in (("doctor",), ("doctor", "--offline"), ("doctor", "examine")):
        answer = lcm(*command)
        assert answer.code == 0
        assert (answer.data["healthy"], answer.data["findings"]) == (True, [])
        assert answer.data["version"] == lossless.__version__
    assert bytes_of(folded) == before


def test_a_sick_one_is_one_and_says_what_helps(lcm: Lcm, folded: Path) -> None:
    sql(folded, "UPDATE summaries SET content = 'a [Truncated from 90 tokens]' WHERE depth = 0")
    sick = lcm("doctor")
    assert sick.code == 1
    assert sick.envelope["ok"] is False
    found = {finding["kind"]: finding for finding in sick.envelope["data"]["findings"]}
    assert found["summary.new"]["remedy"] == "lcm summary repair -s 1"
    before = bytes_of(folded)
    planned = lcm("repair", "--all").data
    assert planned["targets"] == planned["kinds"]["new"]
    assert bytes_of(folded) == before
    done = lcm("repair", "-s", 1, "--apply", "--confirm").data
    assert done["items"][0]["applied"] is True
    assert lcm("doctor").code == 0
    assert lcm("verify").data["problems"] == []
    assert lcm("repair", "-s", 77).code == 3


def test_an_index_that_lost_rows_is_made_again(lcm: Lcm, folded: Path) -> None:
    sql(folded, "INSERT INTO message_index (message_index) VALUES ('delete-all')")
    (found,) = lcm("doctor").envelope["data"]["findings"]
    assert (found["message"], found["remedy"]) == (
        "the search index disagrees with 60 rows",
        "lcm doctor reindex --apply",
    )
    before = bytes_of(folded)
    planned = lcm("doctor", "reindex").data
    assert (planned["lostMessages"], planned["applied"], planned["done"]) == (60, False, None)
    assert "Lost messages  60" in lcm("doctor", "reindex", "--format", "table").out
    assert bytes_of(folded) == before
    done = lcm("doctor", "reindex", "--apply").data["done"]
    assert (done["messages"], done["unreadable"]) == (60, [])
    assert lcm("doctor").code == 0
    assert lcm("verify").data["problems"] == []
    assert lcm("doctor", "reindex", "--all", "--apply").data["done"]["messages"] == 60
    assert "messages 60" in lcm("doctor", "reindex", "--all", "--apply", "--format", "table").out
    sql(folded, "UPDATE messages SET content = x'ff' WHERE message_id = 3")
    sick = lcm("doctor", "reindex", "--all", "--apply")
    assert (sick.code, sick.envelope["data"]["done"]["unreadable"]) == (1, ["msg#3"])


def test_a_model_that_does_not_answer(lcm: Lcm, folded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "model"
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("LCM_SUMMARY_MODEL", f"command/{script}")
    sick = lcm("doctor")
    assert [(finding["kind"], finding["severity"]) for finding in sick.data["findings"]] == [("model", "warning")]
    assert "Nothing is damaged; 1 warning." in lcm("doctor", "--format", "table").out
    assert lcm("doctor", "--offline").data["findings"] == []


def test_cleaning(lcm: Lcm, folded: Path) -> None:
    with lossless.open(folded, background=False) as engine:
        engine.append(lossless.Session(key="agent:main:subagent:x"), talk(4, "x"))
    sql(folded, "UPDATE conversations SET active = 0 WHERE session_key LIKE '%subagent%'")
    before = bytes_of(folded)
    shown = {item["filter"]: item["count"] for item in lcm("doctor", "clean").items}
    assert shown == {"archived_subagents": 1, "cron_sessions": 0, "null_subagent_context": 0}
    assert bytes_of(folded) == before
    assert lcm("doctor").data["findings"][0]["kind"] == "clean.archived_subagents"
    listed = lcm("doctor", "clean", "--format", "table").out
    assert "agent:main:subagent:x" in listed
    assert bytes_of(folded) == before
    done = lcm("doctor", "clean", "--apply", "all", "--vacuum").data["done"]
    assert (done["conversations"], done["messages"], done["vacuumed"]) == (1, 4, True)
    assert lcm("verify").data["problems"] == []
    assert lcm("doctor", "clean", "--apply", "everything").code == 2


def test_debts_of_closed_conversations(lcm: Lcm, folded: Path) -> None:
    assert lcm("doctor", "maintenance").items == []
    sql(folded, "INSERT INTO conversation_compaction_maintenance (conversation_id, pending, reason) VALUES (1, 1, 'x')")
    assert lcm("doctor", "maintenance", "--apply", 1).code == 2
    sql(folded, "UPDATE conversations SET active = 0")
    (item,) = lcm("doctor", "maintenance").items
    assert (item["active"], item["isStuck"]) == (False, True)
    assert lcm("doctor", "maintenance", "--apply", 1).data["closed"] == 1
    assert lcm("doctor", "maintenance").items == []
    assert lcm("doctor").code == 0


def test_split_sessions(lcm: Lcm, folded: Path) -> None:
    assert lcm("doctor", "rollover-splits").items == []
    sql(folded, "UPDATE conversations SET active = 0, archive_cause = 'rollover-fallback'")
    with lossless.open(folded, background=False) as engine:
        engine.append(HERE, talk(2, "later"))
    assert [(one["kind"], one["severity"]) for one in lcm("doctor").data["findings"]] == [("split", "warning")]
    (item,) = lcm("doctor", "rollover-splits").items
    assert (item["sourceIds"], item["review"]) == ([1], None)
    assert len(lcm("doctor", "rollover-splits", "--apply").data["done"]) == 1
    assert lcm("doctor", "rollover-splits").items == []
    assert lcm("verify").data["problems"] == []


def test_a_person_sees_tables(lcm: Lcm, folded: Path) -> None:
    sql(folded, "UPDATE summaries SET content = '' WHERE depth = 1")
    sql(folded, "INSERT INTO conversation_compaction_maintenance (conversation_id, pending, reason) VALUES (1, 1, 'x')")
    shown = lcm("doctor", "--format", "table")
    assert "Not healthy." in shown.out
    assert "lcm summary repair -s 1" in shown.out
    for command in (("clean",), ("maintenance",), ("rollover-splits",)):
        answer = lcm("doctor", *command, "--format", "table")
        assert (answer.code, answer.err) == (0, "")
        assert answer.out.strip()
    assert "--apply" in lcm("repair", "--all", "--format", "table").out


def test_what_the_doctor_recommends_for_a_file_of_lossless_claw_helps(lcm: Lcm, folded: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "claw.db"
    lcm("export", "lossless-claw", theirs, "--plain")
    found = {one["kind"]: one["remedy"] for one in lcm("--db", theirs, "doctor").envelope["data"]["findings"]}
    assert found == {"index.behind": "lcm doctor reindex --apply", "schema": "lcm worker"}
    other = tmp_path / "other.db"
    other.write_bytes(theirs.read_bytes())
    for path, remedy in ((theirs, ("worker",)), (other, ("doctor", "reindex", "--apply"))):
        assert lcm("--db", path, *remedy).code == 0
        assert lcm("--db", path, "doctor").envelope["data"]["findings"] == []
    shown = lcm("--db", theirs, "doctor", "reindex").data
    assert (shown["damaged"], shown["unindexed"], shown["losslessClawLost"]) == ([], 0, 0)


def test_fix_repairs_what_can_be_repaired(lcm: Lcm, folded: Path) -> None:
    sql(folded, "INSERT INTO message_index (message_index) VALUES ('delete-all')")
    before = bytes_of(folded)
    planned = lcm("doctor", "--fix", "--dry-run")
    assert (planned.code, planned.err) == (1, "To repair: make the search index again.\n")
    assert bytes_of(folded) == before
    fixed = lcm("doctor", "--fix")
    assert (fixed.code, json.loads(fixed.out)["data"]["findings"]) == (0, [])
    assert lcm("doctor", "--fix").err == "To repair: nothing.\n"
    assert lcm("doctor", "--yes").code == 2


def test_a_damaged_index_is_shown_and_made_anew(lcm: Lcm, folded: Path) -> None:
    sql(folded, "UPDATE message_index_data SET block = zeroblob(5) WHERE id = 10")
    (found,) = lcm("doctor").envelope["data"]["findings"]
    assert (found["kind"], found["remedy"]) == ("index.damaged", "lcm doctor reindex --apply")
    assert "Damaged  message_index" in lcm("doctor", "reindex", "--format", "table").out
    refused = lcm("append", "--session-key", "agent:main:new", input='{"role": "user", "content": "hello"}\n')
    assert (refused.code, refused.error["code"]) == (5, "corrupt")
    assert "lcm doctor reindex --apply" in refused.error["message"]
    assert lcm("doctor", "reindex", "--apply").data["done"]["messages"] == 60
    assert lcm("doctor").code == 0
    assert lcm("verify").data["problems"] == []


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("UPDATE conversation_compaction_maintenance SET pending = 1, running = 0", 0),
        ("INSERT INTO conversation_compaction_maintenance (conversation_id, pending, running) VALUES (1, 1, 1)", 0),
        ("INSERT INTO breakers VALUES ('provider:p;model:m', 5, '2999-01-01T00:00:00Z', '2026-01-01T00:00:00Z')", 0),
        ("UPDATE ingest_state SET blocked_at = '2026-01-01T00:00:00Z', blocked_reason = 'no'", 0),
        ("UPDATE conversations SET active = 0, archive_cause = 'rollover-fallback'", 0),
        ("UPDATE conversations SET title = 'Another one'", 0),
        ("UPDATE ingest_state SET seen = seen + 1", 1),
        ("UPDATE messages SET content = content || '.' WHERE message_id = 3", 1),
        ("DELETE FROM messages WHERE message_id = 60", 1),
        ("DELETE FROM context_items WHERE ordinal = 1", 1),
        ("DELETE FROM summary_messages WHERE rowid = 1", 1),
        ("UPDATE summaries SET content = 'a [Truncated from 90 tokens]' WHERE depth = 0", 1),
        ("UPDATE archive_state SET value = 99 WHERE name = 'schema'", 1),
        ("DELETE FROM message_index WHERE rowid = 3", 1),
    ],
)
def test_it_ends_as_verify_does(lcm: Lcm, folded: Path, statement: str, code: int) -> None:
    sql(folded, statement)
    assert (lcm("doctor", "--offline").code, lcm("verify").code) == (code, code)


def test_a_summary_that_was_written_broken_is_a_warning_and_can_be_written_anew(
    lcm: Lcm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "broken.db"
    monkeypatch.setenv("LCM_DATABASE_PATH", str(path))
    with open_engine(path) as engine:
        told(engine)
        with engine.archive.writing():
            (id_,) = engine.archive.database.rows("SELECT summary_id FROM summaries WHERE depth = 0 LIMIT 1")[0]
            text = "so [Truncated from 90 tokens]"
            operations = SurgeryWrites(engine.archive)
            operations.write(id_, text, estimate_tokens(text), "m", [])
            operations.recount([id_])
    answer = lcm("doctor", "--offline")
    assert answer.code == lcm("verify").code == 0
    assert [(one["kind"], one["severity"]) for one in answer.data["findings"]] == [("summary.new", "warning")]
    assert lcm("repair", "-s", 1, "--apply", "--confirm").data["items"][0]["applied"] is True
    assert lcm("doctor", "--offline").data["findings"] == []
