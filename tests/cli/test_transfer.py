"""`lcm import` and `lcm export` of archives: what they print, how they fail, that they are safe to repeat."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.transfer import claws
from tests.transfer.claws import Line, Talk, bytes_of, real, rows, run

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    return real(tmp_path / "theirs.db", [claws.tree_of_24(), Talk("run-2", [Line("b")])])


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place where an archive may come to be."""
    path = tmp_path / "new" / "lcm.db"
    monkeypatch.setenv("LCM_DATABASE_PATH", str(path))
    return path


def test_a_dry_run_makes_nothing(lcm: Lcm, theirs: Path, empty: Path) -> None:
    looked = lcm("import", "lossless-claw", theirs, "--dry-run").data
    assert (looked["dryRun"], looked["messagesInserted"]) == (True, 25)
    assert not empty.parent.exists()
    real_run = lcm("import", "lossless-claw", theirs, "--verify").data
    assert real_run["verified"] == {"ok": True, "problems": []}
    ignored = {"dryRun": None, "verified": None, "hint": None}
    assert looked | ignored == real_run | ignored
    before = bytes_of(empty)[empty.name]
    assert lcm("import", "lossless-claw", theirs, "--dry-run").data["messagesInserted"] == 0
    assert bytes_of(empty)[empty.name] == before


def test_there_and_back(lcm: Lcm, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command, target in (("lossless-claw", "claw.db"), ("remnic", "memory.sqlite"), ("archive", "all.jsonl")):
        lcm("export", command, tmp_path / target)
        monkeypatch.setenv("LCM_DATABASE_PATH", str(tmp_path / f"from-{command}.db"))
        assert lcm("import", command, tmp_path / target, "--verify").data["messagesInserted"] == 14
        assert lcm("import", command, tmp_path / target).data["messagesInserted"] == 0
        assert "ferries" in lcm("grep", "ferries").out
        monkeypatch.setenv("LCM_DATABASE_PATH", str(archive))


@pytest.mark.parametrize("kind", ["jsonl", "markdown", "html"])
def test_pages(lcm: Lcm, archive: Path, tmp_path: Path, kind: str) -> None:
    data = lcm("export", kind, tmp_path / "out").data
    assert (data["conversations"], data["messages"]) == (2, 14)
    assert all((tmp_path / "out" / name).exists() for name in data["files"])
    assert lcm("export", kind, tmp_path / "out").code == 2
    assert (
        lcm("export", kind, tmp_path / "out", "--overwrite", "--session", "agent:main:crane").data["conversations"] == 1
    )


def test_people_see_it(lcm: Lcm, theirs: Path, empty: Path, tmp_path: Path) -> None:
    looked = lcm("import", "lossless-claw", theirs, "--dry-run", "--format", "table").out
    assert looked.startswith("DRY RUN — no rows written.")
    done = lcm("import", "lossless-claw", theirs, "--session", "nobody", "--verify", "--format", "table").out
    assert "Import complete." in done
    assert "no session 'nobody' in the source" in done
    assert "verified: all is there" in done
    assert "plugins.slots" not in done
    done = lcm("import", "lossless-claw", theirs, "--format", "table").out
    assert 'drop contextEngine: "lossless-claw" from plugins.slots' in " ".join(done.split())
    assert "plugins.slots" not in lcm("import", "lossless-claw", theirs, "--format", "table").out
    assert "Export complete." in lcm("export", "archive", tmp_path / "a.jsonl", "--format", "table").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--src"], "--src requires a path"),
        (["--src", "--dry-run"], "--src requires a path"),
        (["--src", "x", "--session-filter"], "--session-filter requires a session id"),
        (["--src", "x", "--memory-dir", "--dry-run"], "--memory-dir requires a path"),
        (["--dry-run"], "--src is required"),
        (["--src", "x", "--odd"], "No such option"),
        (["--src", "x", "more"], "unexpected extra argument"),
        (["--src", "nowhere.db"], "there is no source database at 'nowhere.db'"),
    ],
)
def test_as_remnic_spells_it_errors(lcm: Lcm, empty: Path, arguments: list[str], message: str) -> None:
    answer = lcm("import-lossless-claw", *arguments)
    assert answer.code == 1
    assert message in answer.error["message"]


def test_as_remnic_spells_it(lcm: Lcm, theirs: Path, empty: Path, tmp_path: Path) -> None:
    usage = lcm("import-lossless-claw")
    assert usage.code == 0
    assert "--session-filter" in usage.out
    data = lcm("import-lossless-claw", "--src", theirs, "--session-filter", "run-2", "--session-filter", "run-1").data
    assert data["messagesInserted"] == 25
    assert "plugins.slots" in data["hint"]
    memory = tmp_path / "memory"
    looked = lcm("import-lossless-claw", "--src", theirs, "--memory-dir", memory, "--dry-run")
    assert looked.data["messagesInserted"] == 25
    assert not memory.exists()
    lcm("import-lossless-claw", "--src", theirs, "--memory-dir", memory, "--compat")
    assert rows(memory / "state" / "lcm.sqlite", "SELECT count(*) FROM lcm_messages") == [(25,)]


def test_a_filter_takes_keys_and_ids(lcm: Lcm, archive: Path, tmp_path: Path) -> None:
    lcm("export", "lossless-claw", tmp_path / "claw.db")
    one = lcm("export", "remnic", tmp_path / "one.sqlite", "--session", "agent:main:crane").data
    assert one["messagesInserted"] > 0
    assert one["warnings"] == []
    arguments = ("import-lossless-claw", "--src", tmp_path / "claw.db", "--memory-dir", tmp_path / "memory")
    other = lcm(*arguments, "--session-filter", "agent:main:crane").data
    assert other["messagesInserted"] == one["messagesInserted"]
    assert "plugins.slots" in other["hint"]
    assert "hint" not in lcm(*arguments, "--session-filter", "nobody").data
    assert "hint" not in lcm(*arguments, "--session-filter", "agent:main:crane").data


def test_lines_are_only_looked_at_unless_they_are_to_be_stored(lcm: Lcm, empty: Path, tmp_path: Path) -> None:
    lines = tmp_path / "messages.jsonl"
    lines.write_text('{"role":"user","content":"hello"}\n')
    looked = lcm("import", "jsonl", lines, "--dry-run").data
    assert looked == lcm("import", "jsonl", lines).data
    assert (looked["applied"], looked["messages"]) == (False, 1)
    assert not empty.exists()
    both = lcm("import", "jsonl", lines, "--apply", "--dry-run")
    assert both.code == 2
    assert "contradict" in both.error["message"]


def test_a_bad_source_names_every_table_and_makes_nothing(lcm: Lcm, empty: Path, tmp_path: Path) -> None:
    run(tmp_path / "bad.db", "CREATE TABLE conversations (x)")
    answer = lcm("import-lossless-claw", "--src", tmp_path / "bad.db", "--memory-dir", tmp_path / "memory")
    assert "messages, summaries, summary_messages, summary_parents" in answer.error["message"]
    assert not (tmp_path / "memory").exists()
    (tmp_path / "file").write_text("x")
    answer = lcm("import-lossless-claw", "--src", tmp_path / "bad.db", "--memory-dir", tmp_path / "file")
    assert "is not a folder" in answer.error["message"]


@pytest.mark.parametrize("kind", ["lossless-claw", "remnic", "archive"])
def test_a_bad_source_makes_no_archive(lcm: Lcm, empty: Path, tmp_path: Path, kind: str) -> None:
    run(tmp_path / "bad.db", "CREATE TABLE conversations (x)")
    for source in (tmp_path / "bad.db", tmp_path / "nowhere.db", tmp_path):
        assert lcm("import", kind, source).code in (2, 5)
        assert not empty.parent.exists()


def test_the_report_has_the_fields_that_are_promised(lcm: Lcm, theirs: Path, empty: Path, tmp_path: Path) -> None:
    promised = {
        "conversationsScanned", "sessionsTouched", "messagesInserted", "messagesSkipped", "messagePartsInserted",
        "messagePartsSkipped", "summariesInserted", "summariesSkipped", "summariesMultiParentCollapsed",
        "summariesSkippedNoMessages", "summariesSkippedMultiSession", "compactionEventsInserted", "dryRun", "warnings",
    }  # fmt: skip
    data = lcm("import-lossless-claw", "--src", theirs).data
    assert promised <= set(data)
    assert (data["compactionEventsInserted"], data["sessionsTouched"]) == (2, ["run-1", "run-2"])
    assert promised <= set(lcm("export", "remnic", tmp_path / "r.sqlite").data)
    assert promised <= set(lcm("import", "remnic", tmp_path / "r.sqlite").data)


def test_counts_have_the_names_that_programs_read(lcm: Lcm, theirs: Path, empty: Path) -> None:
    lcm("import", "lossless-claw", theirs)
    seen = [line.split() for line in lcm("import", "lossless-claw", theirs, "--format", "table").out.splitlines()]
    assert ["Message", "parts", "skipped", "4"] in seen
    assert ["Conversations", "scanned", "2"] in seen
    assert "Pins" not in {words[0] for words in seen if words}


def test_an_export_to_lossless_claw_can_be_plain(lcm: Lcm, archive: Path, tmp_path: Path) -> None:
    has_ours = "SELECT count(*) FROM sqlite_master WHERE name = 'message_extras'"
    lcm("export", "lossless-claw", tmp_path / "claw.db")
    assert rows(tmp_path / "claw.db", has_ours) == [(1,)]
    lcm("export", "lossless-claw", tmp_path / "claw.db", "--overwrite", "--plain")
    assert rows(tmp_path / "claw.db", has_ours) == [(0,)]
    assert lcm("export", "lossless-claw", archive, "--overwrite").error["code"] == "bad_input"


def test_another_database_can_be_taken_to_remnic(lcm: Lcm, theirs: Path, tmp_path: Path, empty: Path) -> None:
    data = lcm("export", "remnic", tmp_path / "r.sqlite", "--from", theirs, "--session-by", "conversation").data
    assert data["sessionsTouched"] == ["1", "2"]
    assert not empty.exists()


def test_nothing_is_overwritten_by_accident(lcm: Lcm, archive: Path, tmp_path: Path) -> None:
    target = tmp_path / "all.jsonl"
    target.write_text("mine")
    assert lcm("export", "archive", target).code == 2
    assert target.read_text() == "mine"
    assert lcm("export", "remnic", archive).code == 2
    assert lcm("export", "archive", tmp_path / "x" / "y" / "all.jsonl").data["messages"] == 14


def test_a_file_that_is_none(lcm: Lcm, archive: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.jsonl").write_text(json.dumps({"role": "user", "content": "hi"}) + "\n")
    answer = lcm("import", "archive", tmp_path / "odd.jsonl")
    assert (answer.code, answer.error["code"]) == (2, "bad_input")
    assert lcm("import", "archive", tmp_path / "nowhere.jsonl").code == 2
    assert lcm("import", "remnic", tmp_path / "odd.jsonl").code == 5


@pytest.mark.parametrize("kind", ["archive", "lossless-claw", "remnic", "jsonl", "markdown", "html"])
def test_standard_output_is_no_place_for_an_export(lcm: Lcm, archive: Path, home: Path, kind: str) -> None:
    refused = lcm("export", kind, "-")
    assert refused.code == 2
    assert "name a place" in refused.error["message"]
    assert not (home / "-").exists()


def test_options_as_remnic_spells_them(lcm: Lcm, archive: Path, tmp_path: Path) -> None:
    assert lcm("import-lossless-claw", "-h").out == lcm("import-lossless-claw", "--help").out
    assert lcm("import-lossless-claw", "-h").code == 0
    refused = lcm("import-lossless-claw", "--src", tmp_path / "claw.db", "--compat")
    assert (refused.code, refused.error["message"]) == (1, "--compat goes with --memory-dir")


def test_parts_come_back_from_remnic_as_they_were(lcm: Lcm, archive: Path, tmp_path: Path) -> None:
    parts = "SELECT part_id, session_id, part_type FROM message_parts ORDER BY part_id"
    lcm("export", "remnic", tmp_path / "r.sqlite")
    assert lcm("--db", tmp_path / "back.db", "--create", "import", "remnic", tmp_path / "r.sqlite").code == 0
    assert rows(tmp_path / "back.db", parts) == rows(archive, parts) != []
