"""Into a Remnic database: the right tree, the right turns, nothing twice, nothing of the source touched."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lossless.cli.screen import to_json
from lossless.errors import NotAnArchive
from lossless.store.bundles.other_programs import open_claw
from lossless.transfer.lossless_claw import TransferOptions
from lossless.transfer.remnic import export_remnic
from tests.store import older

from . import claws
from .claws import Line, Talk, bytes_of, real, rows, run, toy

if TYPE_CHECKING:
    from pathlib import Path

    from lossless import RemnicReport

NODES = "SELECT id, session_id, depth, parent_id, msg_start, msg_end FROM lcm_summary_nodes ORDER BY id"
TURNS = "SELECT content FROM lcm_messages WHERE session_id = ? ORDER BY turn_index"
FIELDS = {
    "conversationsScanned", "sessionsTouched", "messagesInserted", "messagesSkipped", "messagePartsInserted",
    "messagePartsSkipped", "summariesInserted", "summariesSkipped", "summariesMultiParentCollapsed",
    "summariesSkippedNoMessages", "summariesSkippedMultiSession", "compactionEventsInserted", "dryRun", "warnings",
}  # fmt: skip


def put(source: Path, target: Path, **options: Any) -> RemnicReport:
    """An export of a database, after a dry run that must say the same and leave everything as it is."""
    before, there = bytes_of(source), bytes_of(target)
    with open_claw(source) as archive:
        looked = export_remnic(archive, None, target, TransferOptions(dry_run=True, **options))
        assert bytes_of(target) == there
        report = export_remnic(archive, None, target, TransferOptions(**options))
    assert bytes_of(source)[source.name] == before[source.name]
    assert replace(looked, dry_run=False) == report
    assert set(to_json(report)) == FIELDS
    sound(target)
    return report


def sound(path: Path) -> None:
    """References hold, both search tables are right, the version is Remnic's."""
    assert rows(path, "PRAGMA foreign_key_check") == []
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    run(
        path,
        *(
            f"INSERT INTO {t} ({t}, rank) VALUES ('integrity-check', 1)"
            for t in ("lcm_messages_fts", "lcm_summaries_fts")
        ),
    )
    assert rows(path, "SELECT value FROM lcm_meta WHERE key = 'schema_version'") == [("2",)]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "memory" / "state" / "lcm.sqlite"


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A session with a name and one without."""
    return toy(
        tmp_path / "toy.db",
        {"conv-A": "sess-A", "conv-B": None},
        [("conv-A", 0, "hello", 2, "t1"), ("conv-A", 1, "hello to you", 3, "t2"), ("conv-B", 0, "alone", 2, "t3")],
        {"sum-A": ["conv-A:0", "conv-A:1"]},
    )


@pytest.mark.parametrize("compat", [False, True])
def test_two_conversations(two: Path, target: Path, compat: bool) -> None:
    first = put(two, target, compat=compat)
    assert (first.messages_inserted, first.summaries_inserted) == (3, 1)
    assert first.sessions_touched == ["conv-B", "sess-A"]
    events = "SELECT session_id, msg_before, tokens_before, tokens_after FROM lcm_compaction_events ORDER BY 1"
    assert rows(target, events) == [("conv-B", 1, 2, 2), ("sess-A", 2, 5, 5)]
    assert rows(target, "SELECT content FROM lcm_messages_fts WHERE lcm_messages_fts MATCH 'alone'") == [("alone",)]
    again = put(two, target, compat=compat)
    assert (again.messages_inserted, again.messages_skipped) == (0, 3)
    assert (again.summaries_inserted, again.summaries_skipped) == (0, 1)
    assert (again.compaction_events_inserted, again.sessions_touched) == (0, [])


def test_metadata_has_the_five_keys_in_order(two: Path, target: Path) -> None:
    put(two, target)
    ((text,),) = rows(target, "SELECT metadata FROM lcm_messages WHERE content = 'alone'")
    expected = {"conversation_id": "conv-B", "identity_hash": None, "source": "lossless-claw", "source_seq": 0}
    assert list(json.loads(text).items()) == [*expected.items(), ("title", None)]


def shared(path: Path, times: dict[str, tuple[str, ...]]) -> Path:
    """Conversations of one session with these times."""
    messages = [(id_, seq, f"{id_}:{seq}", 1, at) for id_, some in times.items() for seq, at in enumerate(some)]
    return toy(path, dict.fromkeys(times, "sess"), messages)


@pytest.mark.parametrize(
    ("times", "order"),
    [
        pytest.param({"A": ("1", "1"), "B": ("1", "1")}, "A:0 A:1 B:0 B:1", id="all at once"),
        pytest.param(
            {
                "A": ("2026-01-01T00:00:00Z", "2026-01-01T00:00:10Z"),
                "B": ("2026-01-01T00:00:05Z", "2026-01-01T00:00:06Z"),
            },
            "A:0 B:0 B:1 A:1",
            id="in turns",
        ),
        pytest.param(
            {"aaaa": ("2026-01-01T00:00:09Z",), "zzzz": ("2026-01-01T00:00:01Z",)},
            "zzzz:0 aaaa:0",
            id="ids against time",
        ),
    ],
)
@pytest.mark.parametrize("compat", [False, True])
def test_order_in_a_shared_session(
    tmp_path: Path, target: Path, times: dict[str, tuple[str, ...]], order: str, compat: bool
) -> None:
    put(shared(tmp_path / "toy.db", times), target, compat=compat)
    assert [row[0] for row in rows(target, TURNS, "sess")] == order.split()
    assert [row[0] for row in rows(target, "SELECT turn_index FROM lcm_messages ORDER BY 1")] == [
        *range(len(order.split()))
    ]


@pytest.mark.parametrize(("ordinals", "parent"), [((5, 0), "p2"), ((1, 1), "p1")])
def test_as_remnic_collapses_parents(tmp_path: Path, target: Path, ordinals: tuple[int, int], parent: str) -> None:
    source = toy(
        tmp_path / "toy.db", {"A": "s"}, [("A", n, f"m{n}", 1, f"t{n}") for n in range(3)],
        {"p1": ["A:0"], "p2": ["A:1"], "child": ["A:2"]},
        [("child", "p1", ordinals[0]), ("child", "p2", ordinals[1]), ("child", "gone", 9)], {"p1": 1, "p2": 1},
    )  # fmt: skip
    for _ in range(2):
        report = put(source, target, compat=True)
        assert report.summaries_multi_parent_collapsed == 1
        assert any("dropped 1 parent link" in warning for warning in report.warnings)
    assert rows(target, "SELECT parent_id FROM lcm_summary_nodes WHERE id = 'child'") == [(parent,)]


@pytest.mark.parametrize("compat", [False, True])
def test_summaries_that_stand_on_nothing_are_counted(tmp_path: Path, target: Path, compat: bool) -> None:
    source = toy(
        tmp_path / "toy.db", {"A": "s", "B": "t"}, [("A", 0, "x", 1, "1"), ("B", 0, "y", 1, "2")],
        {"empty": [], "dangling": ["A:0", "gone"], "across": ["A:0", "B:0"], "good": ["A:0"]},
    )  # fmt: skip
    report = put(source, target, compat=compat)
    assert (report.summaries_skipped_no_messages, report.summaries_skipped_multi_session) == (1, 2)
    assert [row[0] for row in rows(target, NODES)] == ["good"]
    assert len(report.warnings) == 3


def test_a_real_database_keeps_its_tree(tmp_path: Path, target: Path) -> None:
    report = put(real(tmp_path / "lcm.db", [claws.tree_of_24()]), target)
    assert (report.messages_inserted, report.summaries_inserted, report.message_parts_inserted) == (24, 4, 4)
    texts = [f"line {n}" for n in range(24)]
    texts[3], texts[4] = "", "port 8443"
    assert [row[0] for row in rows(target, TURNS, "run-1")] == texts
    assert rows(target, NODES) == [
        *((f"sum_{n}", "run-1", 0, "sum_top", 8 * n, 8 * n + 7) for n in range(3)),
        ("sum_top", "run-1", 1, None, 0, 23),
    ]
    kinds = rows(
        target, "SELECT kind, tool_name, file_path, payload FROM lcm_message_parts ORDER BY message_id, ordinal"
    )
    assert [row[:3] for row in kinds] == [
        ("reasoning", None, None), ("tool_call", "read", None), ("tool_result", "read", None),
        ("file_read", None, "a.txt"),
    ]  # fmt: skip
    assert json.loads(kinds[1][3])["tool_input"] == '{"path":"a.txt"}'
    assert rows(target, "SELECT DISTINCT created_at FROM lcm_messages ORDER BY 1")[0] == ("2026-03-01T10:00:00.000Z",)


def test_as_remnic_loses_condensed_summaries(tmp_path: Path, target: Path) -> None:
    report = put(real(tmp_path / "lcm.db", [claws.tree_of_24()]), target, compat=True)
    assert (report.summaries_inserted, report.summaries_skipped_no_messages) == (3, 1)
    assert not rows(target, "SELECT 1 FROM sqlite_master WHERE name LIKE 'lcm_x_%'")


def deep() -> Talk:
    """16 leaves, 4 summaries of them, 1 of those, and a tail."""
    leaves = {f"sum_l{n:02d}": [2 * n, 2 * n + 1] for n in range(16)}
    middle = {f"sum_m{n}": [f"sum_l{4 * n + k:02d}" for k in range(4)] for n in range(4)}
    lines = [Line(f"line {n}", at=f"2026-03-01 10:{n:02d}:00") for n in range(40)]
    context: list[int | str] = ["sum_top", *range(32, 40)]
    return Talk("run-1", lines, None, leaves, {**middle, "sum_top": list(middle)}, context)


def test_a_deep_tree_needs_no_new_rollups(tmp_path: Path, target: Path) -> None:
    put(real(tmp_path / "lcm.db", [deep()]), target)
    orphans = rows(target, "SELECT depth, count(*) FROM lcm_summary_nodes WHERE parent_id IS NULL GROUP BY depth")
    assert orphans == [(2, 1)]
    unsummarised = rows(
        target,
        "SELECT count(*) FROM lcm_messages "
        "WHERE turn_index > (SELECT max(msg_end) FROM lcm_summary_nodes WHERE depth = 0)",
    )
    assert unsummarised == [(8,)]
    assert rows(target, NODES + " LIMIT 1 OFFSET 20") == [("sum_top", "run-1", 2, None, 0, 31)]


@pytest.mark.parametrize("age", older.AGES.values(), ids=older.AGES)
def test_databases_of_every_age(tmp_path: Path, target: Path, age: older.Age) -> None:
    older.make(tmp_path / "old.db", age)
    report = put(tmp_path / "old.db", target)
    assert (report.messages_inserted, report.summaries_inserted) == (6, 3)
    assert rows(target, "SELECT max(depth) FROM lcm_summary_nodes") == [(1,)]


def test_live_rows_keep_their_turns(tmp_path: Path, target: Path) -> None:
    source = real(tmp_path / "lcm.db", [Talk("s", [Line("one"), Line("two")])])
    put(real(tmp_path / "other.db", [Talk("s", [])]), target)
    run(
        target,
        "INSERT INTO lcm_messages (session_id, turn_index, role, content, token_count, created_at) "
        "VALUES ('s', 7, 'user', 'live', 5, '2026-09-01T00:00:00Z')",
        "INSERT INTO lcm_messages_fts (rowid, content) SELECT id, content FROM lcm_messages",
    )
    report = put(source, target)
    assert rows(target, "SELECT turn_index, content FROM lcm_messages ORDER BY 1") == [
        (7, "live"),
        (8, "one"),
        (9, "two"),
    ]
    assert rows(target, "SELECT msg_before, tokens_before FROM lcm_compaction_events") == [(10, 25)]
    assert report.sessions_touched == ["s"]
    run(source, "INSERT INTO messages (conversation_id, seq, role, content, token_count, created_at) "
                "VALUES (1, 3, 'user', 'late', 1, '2025-01-01 00:00:00')")  # fmt: skip
    assert put(source, target).messages_inserted == 1
    assert rows(target, "SELECT turn_index FROM lcm_messages WHERE content = 'late'") == [(10,)]


def test_a_destination_of_the_first_version_gets_its_parts(tmp_path: Path, target: Path) -> None:
    source = real(tmp_path / "lcm.db", [claws.tree_of_24()])
    put(source, target)
    run(target, "DROP TABLE lcm_message_parts", "UPDATE lcm_meta SET value = '1' WHERE key = 'schema_version'")
    report = put(source, target)
    assert (report.message_parts_inserted, report.messages_inserted) == (4, 0)


def test_strange_texts_and_times(tmp_path: Path, target: Path) -> None:
    lines = [
        Line("日本語 👩‍💻 \x01\x1b[31m", "system", "2026-03-01 10:00:00"),
        Line("x" * 1_000_000, "user", "2026-03-01T10:00:00.500Z"),
        Line("", "assistant", "2026-03-01 10:00:00"),
        Line("out", "tool", "2026-03-01T10:00:01.250+00:00"),
    ]
    put(real(tmp_path / "lcm.db", [Talk("s", lines)]), target)
    found = rows(target, "SELECT role, content, created_at FROM lcm_messages ORDER BY turn_index")
    assert [row[:2] for row in found] == [(line.role, line.content) for line in lines]
    assert found[3][2] == "2026-03-01T10:00:01.250Z"


def test_a_summary_used_twice(tmp_path: Path, target: Path) -> None:
    talk = Talk(
        "s", [Line(f"m{n}") for n in range(4)], None, {"sum_a": [0, 1], "sum_b": [2, 3]},
        {"sum_x": ["sum_a", "sum_b"], "sum_y": ["sum_a"]}, ["sum_x"],
    )  # fmt: skip
    report = put(real(tmp_path / "lcm.db", [talk]), target)
    assert report.summaries_multi_parent_collapsed == 1
    assert rows(target, "SELECT parent_id FROM lcm_summary_nodes WHERE id = 'sum_a'") == [("sum_x",)]
    assert rows(target, "SELECT summary_id, source_id FROM lcm_x_edges ORDER BY 1, ordinal") == [
        ("sum_x", "sum_a"), ("sum_x", "sum_b"), ("sum_y", "sum_a"),
    ]  # fmt: skip


def test_a_summary_of_very_many_messages(tmp_path: Path, target: Path) -> None:
    lines = [Line("m") for _ in range(33_000)]
    source = real(tmp_path / "lcm.db", [Talk("s", lines, None, {"sum_all": range(33_000)}, {}, ["sum_all"])])
    with open_claw(source) as archive:
        assert export_remnic(archive, None, target).messages_inserted == 33_000
    assert rows(target, "SELECT msg_start, msg_end FROM lcm_summary_nodes") == [(0, 32_999)]


@pytest.mark.parametrize(
    ("by", "sessions"),
    [("session_id", ["run-1", "run-2"]), ("session_key", ["key"]), ("conversation", ["1", "2"])],
)
def test_what_a_session_is(tmp_path: Path, target: Path, by: Any, sessions: list[str]) -> None:
    talks = [Talk("run-1", [Line("a")], "key", active=0), Talk("run-2", [Line("b")], "key")]
    report = put(real(tmp_path / "lcm.db", talks), target, session_by=by)
    assert report.sessions_touched == sessions


def test_new_summaries_take_earlier_ones_in(tmp_path: Path, target: Path) -> None:
    source = real(tmp_path / "lcm.db", [Talk("s", [Line("a"), Line("b")], None, {"sum_a": [0], "sum_b": [1]})])
    put(source, target)
    run(
        source,
        "INSERT INTO summaries (summary_id, conversation_id, kind, depth, content, token_count) "
        "VALUES ('sum_c', 1, 'condensed', 1, 'both', 1)",
        "INSERT INTO summary_parents VALUES ('sum_c', 'sum_a', 0), ('sum_c', 'sum_b', 1)",
    )
    assert put(source, target).summaries_inserted == 1
    assert rows(target, "SELECT DISTINCT parent_id FROM lcm_summary_nodes WHERE depth = 0") == [("sum_c",)]


@pytest.mark.parametrize("compat", [False, True])
def test_sessions_can_be_chosen(two: Path, target: Path, compat: bool) -> None:
    report = put(two, target, sessions=frozenset(["sess-A", "nobody"]), compat=compat)
    assert (report.messages_inserted, report.sessions_touched, report.conversations_scanned) == (2, ["sess-A"], 2)
    assert "no session 'nobody' in the source" in report.warnings
    rest = put(two, target, sessions=frozenset(["conv-B"]), compat=compat)
    assert (rest.messages_inserted, rest.sessions_touched) == (1, ["conv-B"])


@pytest.mark.parametrize("by", ["session_id", "session_key", "conversation"])
@pytest.mark.parametrize("compat", [False, True])
@pytest.mark.parametrize("name", ["run-1", "key"])
def test_a_session_is_found_by_its_id_and_by_its_key(
    tmp_path: Path, target: Path, by: Any, compat: bool, name: str
) -> None:
    talks = [Talk("run-1", [Line("a"), Line("b")], "key", {"sum_a": [0, 1]}), Talk("run-2", [Line("c")], "other")]
    source = real(tmp_path / "lcm.db", talks)
    report = put(source, target, sessions=frozenset([name]), session_by=by, compat=compat)
    assert (report.messages_inserted, report.summaries_inserted, report.warnings) == (2, 1, [])
    called = {"session_id": "run-1", "session_key": "key", "conversation": "1"}[by]
    assert report.sessions_touched == [called]


def test_what_remnics_own_importer_wrote_is_not_written_again(two: Path, target: Path) -> None:
    put(two, target, compat=True)
    report = put(two, target)
    assert (report.messages_inserted, report.summaries_inserted, report.compaction_events_inserted) == (0, 0, 0)


def test_a_missing_boundary_is_made_up_for(two: Path, target: Path) -> None:
    put(two, target)
    run(target, "DELETE FROM lcm_compaction_events", "DELETE FROM lcm_meta WHERE key LIKE 'import_boundary:%'")
    assert put(two, target).compaction_events_inserted == 2


def test_parts_as_remnic_believes_them(tmp_path: Path, target: Path, two: Path) -> None:
    run(
        two,
        "INSERT INTO message_parts VALUES ('conv-A:0', 0, 'text', '{\"text\":\"hi\"}', NULL, NULL, NULL), "
        "('conv-A:0', 1, 'odd', '[1]', 'tool', 'a.txt', '2026'), ('conv-A:1', 0, NULL, NULL, NULL, NULL, NULL)",
    )
    assert put(two, target).message_parts_inserted == 3
    found = rows(target, "SELECT kind, payload, tool_name, file_path FROM lcm_message_parts ORDER BY id")
    assert found == [
        ("text", '{"text":"hi"}', None, None), ("odd", '{"value":[1]}', "tool", "a.txt"),
        ("tool_call", "{}", None, None),
    ]  # fmt: skip
    assert put(two, target).message_parts_skipped == 3


def test_a_wrong_source_makes_nothing(tmp_path: Path) -> None:
    source = tmp_path / "bad.db"
    run(source, "CREATE TABLE conversations (x)", "CREATE TABLE messages (x)")
    with pytest.raises(
        NotAnArchive, match="missing lossless-claw tables: summaries, summary_messages, summary_parents"
    ):
        open_claw(source)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.db"]
