"""Into an archive and out of it: copies are exact, nothing is doubled, what went its own way stays."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.errors import ArchiveCorrupt, BadInput, NotAnArchive
from lossless.model.identity import file_id
from tests.store import older

from . import claws
from .claws import Line, Talk, real, rows, run, toy
from .moves import bring, nothing_new, said, to_claw, vault

if TYPE_CHECKING:
    from lossless import ImportReport

FIXTURES = os.environ.get("LOSSLESS_FIXTURES")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "here" / "lcm.db"


def test_a_copy_says_the_same_and_twice_adds_nothing(tmp_path: Path, target: Path) -> None:
    source = real(tmp_path / "lcm.db", [claws.tree_of_24(), Talk("run-2", [Line("hi")], title="Second")])
    report = bring("claw", source, target)
    assert (report.conversations_inserted, report.messages_inserted, report.summaries_inserted) == (2, 25, 4)
    assert report.message_parts_inserted == 4
    assert said(target) == said(source)
    assert nothing_new(bring("claw", source, target))
    assert said(target) == said(source)


@pytest.mark.parametrize("age", older.AGES.values(), ids=older.AGES)
def test_databases_of_every_age(tmp_path: Path, target: Path, age: older.Age) -> None:
    older.make(tmp_path / "old.db", age)
    report = bring("claw", tmp_path / "old.db", target)
    assert (report.messages_inserted, report.summaries_inserted) == (6, 3)
    assert nothing_new(bring("claw", tmp_path / "old.db", target))


def test_ids_that_are_texts(tmp_path: Path, target: Path) -> None:
    source = toy(
        tmp_path / "toy.db", {"conv-A": "sess-A", "conv-B": None},
        [("conv-A", 0, "a", 2, "2026-01-01"), ("conv-A", 1, "b", 3, "no time"), ("conv-B", 0, "c", 2, "2026-01-02")],
        {"sum-A": ["conv-A:0", "conv-A:1"], "lost": []},
    )  # fmt: skip
    run(source, "INSERT INTO message_parts VALUES ('conv-A:0', 0, 'tool_call', '{\"id\":\"c1\"}', 'read', NULL, NULL)")
    report = bring("claw", source, target)
    assert (report.messages_inserted, report.summaries_inserted) == (3, 1)
    assert rows(target, "SELECT summary_id, message_id FROM context_items ORDER BY 1") == [(None, 3), ("sum-A", None)]
    assert report.sessions_touched == {"conv-B", "sess-A"}
    assert nothing_new(bring("claw", source, target))


def test_a_conversation_that_went_on(tmp_path: Path, target: Path) -> None:
    lines = [Line(f"m{n}", at=f"2026-03-01 10:00:{n:02d}") for n in range(6)]
    bring("claw", real(tmp_path / "1.db", [Talk("run", lines[:4], "key")]), target)
    later = real(tmp_path / "2.db", [Talk("run", lines, "key", {"sum_a": [0, 1, 2]}, {}, ["sum_a", 3, 4, 5])])
    report = bring("claw", later, target)
    assert (report.conversations_joined, report.messages_inserted, report.messages_skipped) == (1, 2, 4)
    assert said(target) == said(later)
    assert rows(target, "SELECT action, tokens_before, tokens_after FROM context_log ORDER BY log_id") == [
        ("import", 40, 40), ("import", 40, 33),
    ]  # fmt: skip
    assert nothing_new(bring("claw", tmp_path / "1.db", target))
    assert nothing_new(bring("claw", later, target))


def test_both_went_on(tmp_path: Path, target: Path) -> None:
    lines = [Line(f"m{n}", at=f"2026-03-01 10:00:{n:02d}") for n in range(4)]
    bring("claw", real(tmp_path / "1.db", [Talk("run", lines[:2], "key")]), target)
    with lossless.open(target, background=False) as engine:
        engine.append(lossless.Session(key="key", id="run"), [{"role": "user", "content": "mine"}])
    source = real(tmp_path / "2.db", [Talk("run", lines, "key", {"sum_a": [2, 3]}, {}, [0, 1, "sum_a"])])
    assert bring("claw", source, target).messages_inserted == 2
    assert [row[0] for row in rows(target, "SELECT content FROM messages ORDER BY seq")] == [
        "m0",
        "m1",
        "mine",
        "m2",
        "m3",
    ]
    assert rows(target, "SELECT count(*) FROM context_items WHERE message_id IS NOT NULL") == [(5,)]
    assert nothing_new(bring("claw", source, target))


def test_repeats_stay_repeats(tmp_path: Path, target: Path) -> None:
    lines = [Line("ok") for _ in range(5)]
    bring("claw", real(tmp_path / "1.db", [Talk("run", lines[:2])]), target)
    assert bring("claw", real(tmp_path / "2.db", [Talk("run", lines)]), target).messages_inserted == 3
    assert rows(target, "SELECT count(*) FROM messages") == [(5,)]


def test_conversations_of_one_key_are_told_apart(tmp_path: Path, target: Path) -> None:
    talks = [
        Talk("run-1", [Line("hello", at="2026-03-01 10:00:00")], "key", active=0),
        Talk("run-2", [Line("hello", at="2026-03-02 10:00:00")], "key"),
    ]
    source = real(tmp_path / "lcm.db", talks)
    assert bring("claw", source, target).conversations_inserted == 2
    assert nothing_new(bring("claw", source, target))


def test_an_active_key_stays_active_here(tmp_path: Path, target: Path) -> None:
    with lossless.open(target, background=False) as engine:
        engine.append(lossless.Session(key="key", id="mine"), [{"role": "user", "content": "here first"}])
    source = real(tmp_path / "lcm.db", [Talk("theirs", [Line("there first")], "key")])
    report = bring("claw", source, target)
    assert rows(target, "SELECT session_id, active FROM conversations ORDER BY 1") == [("mine", 1), ("theirs", 0)]
    assert any("already active here" in warning for warning in report.warnings)
    assert nothing_new(bring("claw", source, target))


def test_a_summary_id_that_is_taken(tmp_path: Path, target: Path) -> None:
    talk = Talk("other", [Line("x"), Line("y")], None, {"sum_a": [0, 1]}, {"sum_b": ["sum_a"]}, ["sum_b"])
    bring("claw", real(tmp_path / "1.db", [talk]), target)
    same = Talk("run", [Line("p"), Line("q")], None, {"sum_a": [0, 1]}, {"sum_b": ["sum_a"]}, ["sum_b"])
    source = real(tmp_path / "2.db", [same])
    assert bring("claw", source, target).summaries_inserted == 2
    assert rows(target, "SELECT count(*) FROM summaries") == [(4,)]
    assert nothing_new(bring("claw", source, target))


def test_what_stood_in_no_context_is_hidden_with_a_cause(tmp_path: Path, target: Path) -> None:
    source = real(tmp_path / "lcm.db", [Talk("run", [Line("pruned"), Line("kept")], context=[1])])
    assert bring("claw", source, target).messages_hidden == 1
    assert rows(target, "SELECT cause FROM hidden_items") == [("imported",)]


def test_sessions_can_be_chosen(tmp_path: Path, target: Path) -> None:
    talks = [Talk("run-1", [Line("a")], "key-1"), Talk("run-2", [Line("b")]), Talk("run-3", [Line("c")])]
    source = real(tmp_path / "lcm.db", talks)
    report = bring("claw", source, target, sessions=frozenset(["key-1", "run-3", "nobody"]))
    assert report.sessions_touched == {"run-1", "run-3"}
    assert report.warnings == ["no session 'nobody' in the source"]
    assert bring("claw", source, target, sessions=frozenset(["run-2"])).messages_inserted == 1
    assert said(target, "conversations") == said(source, "conversations")


def file_in(folder: Path, source: Path, data: bytes) -> str:
    """A stored file of conversation 1, its row and its bytes."""
    id_ = file_id(1, data)
    place = folder / "1" / f"{id_}.txt"
    place.parent.mkdir(parents=True)
    place.write_bytes(data)
    run(
        source,
        "INSERT INTO large_files (file_id, conversation_id, byte_size, storage_uri) "
        f"VALUES ('{id_}', 1, {len(data)}, '{place}')",
    )
    return id_


def test_files_come_along(tmp_path: Path, target: Path) -> None:
    source = real(tmp_path / "lcm.db", [Talk("run", [Line("see file")])])
    id_ = file_in(tmp_path / "lcm-files", source, b"payload")
    assert bring("claw", source, target).files_copied == 1
    shutil.rmtree(tmp_path / "lcm-files")
    assert (vault(target).root / "1" / f"{id_}.txt").read_bytes() == b"payload"
    again = bring("claw", source, target)
    assert (again.files_copied, again.files_skipped) == (0, 1)


def test_a_file_without_bytes_keeps_its_row(tmp_path: Path, target: Path) -> None:
    source = real(tmp_path / "lcm.db", [Talk("run", [Line("see file")])])
    file_in(tmp_path / "gone", source, b"payload")
    shutil.rmtree(tmp_path / "gone")
    assert bring("claw", source, target).files_missing == 1
    assert rows(target, "SELECT count(*) FROM large_files") == [(1,)]


@pytest.mark.parametrize("name", ["/etc/passwd", "../../etc/hostname", "1/file_0123456789abcdef.txt\0", ""])
def test_no_row_makes_another_file_be_read(tmp_path: Path, target: Path, name: str) -> None:
    source = real(tmp_path / "lcm.db", [Talk("run", [Line("x")])])
    sql = "INSERT INTO large_files (file_id, conversation_id, storage_uri) VALUES ('file_0123456789abcdef', 1, '{}')"
    run(source, sql.format(name.replace("\0", "") or "nowhere"))
    assert bring("claw", source, target).files_missing == 1
    assert not vault(target).root.exists()


def test_our_own_archives_come_back_exactly(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "ours.db"
    session = lossless.Session(key="key", id="run")
    call: dict[str, Any] = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
    with lossless.open(source, background=False) as engine:
        engine.append(
            session, [{"role": "user", "content": "q"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
        )
        result = {"role": "tool", "tool_call_id": "c1", "content": "answer " * 50}
        engine.append(session, [result], key="batch")
        engine.pin(session, "never forget")
        before = engine.assemble(session, budget=8_000).messages
    bring("claw", source, target)
    assert said(target) == said(source)
    with lossless.open(target, background=False) as engine:
        assert engine.assemble(session, budget=8_000).messages == before
        assert engine.append(session, [result], key="batch").stored == 0
    assert rows(target, "SELECT count(*) FROM pins") == [(1,)]


def test_wrong_sources(tmp_path: Path, target: Path) -> None:
    for bad, error in ((tmp_path / "nope.db", BadInput), (tmp_path, BadInput)):
        with pytest.raises(error):
            bring_or_raise(bad, target)
    (tmp_path / "text.db").write_text("no database" * 100)
    with pytest.raises(NotAnArchive):
        bring_or_raise(tmp_path / "text.db", target)
    run(tmp_path / "other.db", "CREATE TABLE messages (x)")
    with pytest.raises(NotAnArchive, match="missing lossless-claw tables: conversations, summaries,"):
        bring_or_raise(tmp_path / "other.db", target)


def bring_or_raise(source: Path, target: Path) -> ImportReport:
    from lossless.store.archive import Archive
    from lossless.transfer.lossless_claw import import_lossless_claw

    with Archive.open(target) as archive:
        return import_lossless_claw(source, archive, None)


def test_text_that_is_none_is_named(tmp_path: Path, target: Path) -> None:
    source = real(tmp_path / "lcm.db", [Talk("run", [Line("x")])])
    run(source, "UPDATE messages SET content = CAST(x'ff41' AS TEXT)")
    with pytest.raises(ArchiveCorrupt, match="not valid UTF-8"):
        bring_or_raise(source, target)


def test_an_archive_is_not_brought_into_itself(target: Path) -> None:
    with lossless.open(target, background=False):
        pass
    with pytest.raises(BadInput, match="is the archive itself"):
        bring_or_raise(target, target)


def test_out_again_as_lossless_claw_has_it(tmp_path: Path, target: Path) -> None:
    source = real(tmp_path / "lcm.db", [claws.tree_of_24()])
    file_in(tmp_path / "lcm-files", source, b"payload")
    bring("claw", source, target)
    report = to_claw(target, tmp_path / "out" / "lcm.db", plain=True)
    out = tmp_path / "out" / "lcm.db"
    assert (report.messages, report.summaries, report.files_copied) == (24, 4, 1)
    assert said(out) == said(source)
    tables = {row[0] for row in rows(out, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {"messages_fts", "summaries_fts", "summaries_fts_cjk"} <= tables
    assert not tables & {"message_extras", "message_index", "pins", "archive_state"}
    assert rows(out, "SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'port'") == [(1,)]
    assert rows(out, "SELECT count(*) FROM summaries_fts WHERE summaries_fts MATCH 'words'") == [(4,)]
    assert len(rows(out, "SELECT * FROM lcm_migration_state")) == 4
    assert rows(out, "SELECT storage_uri FROM large_files")[0][0].startswith(str(tmp_path / "out" / "lcm-files"))
    with pytest.raises(BadInput, match="already exists"):
        to_claw(target, out)
    assert to_claw(target, out, overwrite=True).messages == 24
    assert rows(out, "SELECT count(*) FROM message_extras WHERE digest IS NULL") == [(24,)]


def test_one_boundary_a_session_that_gained_something(tmp_path: Path, target: Path) -> None:
    talks = [
        Talk("run-1", [Line("a")], "key", active=0),
        Talk("run-1", [Line("b")], "key"),
        Talk("run-2", [Line("c")]),
    ]
    source = real(tmp_path / "lcm.db", talks)
    report = bring("claw", source, target)
    assert (report.compaction_events_inserted, report.sessions_touched) == (2, {"run-1", "run-2"})
    assert bring("claw", source, target).compaction_events_inserted == 0
    run(source, "INSERT INTO messages (conversation_id, seq, role, content, token_count, created_at) "
                "VALUES (3, 2, 'user', 'late', 1, '2026-03-02 00:00:00')")  # fmt: skip
    assert bring("claw", source, target).compaction_events_inserted == 1
    assert rows(target, "SELECT conversation_id FROM context_log ORDER BY log_id") == [(1,), (3,), (3,)]


def test_two_conversations_of_a_source_stay_two(tmp_path: Path, target: Path) -> None:
    """Of one key, one run and one second: the second was begun when the first was put away, and is still empty."""
    source = real(tmp_path / "lcm.db", [Talk("run", [Line("hi")], "key", active=0), Talk("run", [], "key")])
    assert bring("claw", source, target).conversations_inserted == 2
    assert nothing_new(bring("claw", source, target))
    same = real(tmp_path / "2.db", [Talk("r", [Line("hi")], "k", active=0), Talk("r", [Line("hi")], "k")])
    assert bring("claw", same, target).messages_inserted == 2
    assert nothing_new(bring("claw", same, target))
    assert nothing_new(bring("claw", source, target))


def test_all_fields_of_the_report(tmp_path: Path, target: Path) -> None:
    source = real(tmp_path / "lcm.db", [claws.tree_of_24()])
    run(
        source,
        "PRAGMA foreign_keys = OFF",
        "INSERT INTO summaries (summary_id, conversation_id, kind, depth, content, token_count) VALUES "
        "('sum_none', 1, 'leaf', 0, 'x', 1), ('sum_gone', 1, 'condensed', 1, 'x', 1)",
        "INSERT INTO summary_parents (summary_id, parent_summary_id, ordinal) VALUES ('sum_gone', 'nobody', 0)",
    )
    done = bring("claw", source, target)
    assert (done.summaries_skipped_no_messages, done.summaries_skipped_multi_session) == (1, 1)
    assert (done.summaries_without_sources, done.summaries_multi_parent_collapsed) == (2, 0)
    assert bring("claw", source, target).message_parts_skipped == 4


def test_bytes_that_were_missing_come_with_the_next_import(tmp_path: Path, target: Path) -> None:
    source = real(tmp_path / "lcm.db", [Talk("run", [Line("see file")])])
    id_ = file_in(tmp_path / "moved", source, b"payload")
    (tmp_path / "moved").rename(tmp_path / "elsewhere")
    assert bring("claw", source, target).files_missing == 1
    report = bring("claw", source, target, files_dir=str(tmp_path / "elsewhere"))
    assert (report.files_copied, report.files_skipped) == (1, 0)
    assert (vault(target).root / "1" / f"{id_}.txt").read_bytes() == b"payload"
    assert nothing_new(bring("claw", source, target))


@pytest.mark.skipif(not FIXTURES, reason="LOSSLESS_FIXTURES names no folder")
@pytest.mark.parametrize(
    "name",
    ["small-0.15.3", "small-1.0.0-beta.4", "host-2026.7.1-0.15.3", "host-2026.9.6-1.0.0-beta.4", "bootstrap56/lcm"],
)
def test_databases_that_the_reference_wrote(tmp_path: Path, target: Path, name: str) -> None:
    folder = Path(FIXTURES or "")
    source = Path(shutil.copy(folder / f"{name}.db", tmp_path / "lcm.db"))
    files = str(folder / ("bootstrap56/files" if name.startswith("bootstrap") else "lcm-files"))
    bring("claw", source, target, files_dir=files)
    assert said(target) == said(source)
    assert nothing_new(bring("claw", source, target, files_dir=files))
    out = tmp_path / "out.db"
    to_claw(target, out)
    for table in ("messages_fts", "summaries_fts", "summaries_fts_cjk") if name.startswith("small") else ():
        assert sorted(rows(out, f"SELECT * FROM {table}")) == sorted(rows(source, f"SELECT * FROM {table}"))
