"""Out of a Remnic database: conversations, graph and context come back; what Remnic heard itself comes along."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lossless.errors import NotAnArchive
from lossless.store.archive import Archive
from lossless.transfer.lossless_claw import TransferOptions
from lossless.transfer.remnic import import_remnic

from . import claws
from .claws import Line, Talk, real, rows, run
from .moves import bring, nothing_new, said, to_remnic

if TYPE_CHECKING:
    from pathlib import Path

ADD = "INSERT INTO lcm_messages (session_id, turn_index, role, content, token_count, created_at) VALUES "
ADD_NODE = (
    "INSERT INTO lcm_summary_nodes (id, session_id, depth, parent_id, summary_text, token_count, msg_start, msg_end, "
    "escalation, created_at) VALUES "
)
DROP = [f"DROP TABLE lcm_x_{name}" for name in ("edges", "summary_messages", "source_rows")]


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return tmp_path / "memory.sqlite"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "here" / "lcm.db"


def live(memory: Path, tmp_path: Path) -> Path:
    """A database that Remnic filled itself: 12 turns, two leaves, one of them alone under a rollup."""
    to_remnic(real(tmp_path / "empty.db", []), memory)
    turns = ", ".join(
        f"('s', {n}, '{('user', 'toolResult')[n == 5]}', 'turn {n}', 4, '2026-05-01T10:00:{n:02d}.5Z')"
        for n in range(12)
    )
    run(
        memory, ADD + turns,
        ADD_NODE + "('n-top', 's', 1, NULL, 'top', 2, 0, 7, 0, '2026-05-01T11:00:00Z')",
        ADD_NODE + "('n-a', 's', 0, 'n-top', 'a', 2, 0, 3, 2, '2026-05-01T11:00:00Z'), "
        "('n-b', 's', 0, 'n-top', 'b', 2, 4, 7, 0, '2026-05-01T11:00:00Z')",
        "INSERT INTO lcm_compaction_events (session_id, fired_at, msg_before, tokens_before, tokens_after) "
        "VALUES ('s', 'now', 7, 100, 20), ('s', 'now', 7, 5, 5)",
        *DROP,
    )  # fmt: skip
    return memory


def test_what_remnic_heard_becomes_a_conversation(tmp_path: Path, memory: Path, target: Path) -> None:
    report = bring("remnic", live(memory, tmp_path), target)
    assert (report.conversations_inserted, report.messages_inserted, report.summaries_inserted) == (1, 12, 3)
    assert report.events_dropped == 1
    assert report.compaction_events_inserted == 1
    assert rows(target, "SELECT action, tokens_before = tokens_after FROM context_log") == [("import", 1)]
    found = rows(target, "SELECT seq, role, content, created_at FROM messages ORDER BY seq")
    assert found[0] == (1, "user", "turn 0", "2026-05-01 10:00:00")
    assert found[5][1] == "tool"
    assert rows(target, "SELECT summary_id, parent_summary_id FROM summary_parents ORDER BY ordinal") == [
        ("n-top", "n-a"), ("n-top", "n-b"),
    ]  # fmt: skip
    assert rows(target, "SELECT source_message_token_count, descendant_count FROM summaries WHERE depth = 1") == [
        (32, 2)
    ]
    assert rows(target, "SELECT ordinal, coalesce(summary_id, message_id) FROM context_items ORDER BY 1") == [
        (0, "n-top"), (1, 9), (2, 10), (3, 11), (4, 12),
    ]  # fmt: skip
    assert nothing_new(bring("remnic", memory, target))


def test_there_and_back_for_remnic(tmp_path: Path, memory: Path, target: Path) -> None:
    source = live(memory, tmp_path)
    run(source, "UPDATE lcm_messages SET turn_index = turn_index + 3 WHERE turn_index > 7")
    bring("remnic", source, target)
    again = tmp_path / "again.sqlite"
    to_remnic(target, again)
    for sql in (
        "SELECT session_id, turn_index, role, content FROM lcm_messages ORDER BY turn_index",
        "SELECT id, depth, summary_text, msg_start, msg_end, parent_id, escalation FROM lcm_summary_nodes ORDER BY id",
    ):
        assert rows(again, sql) == rows(source, sql)


@pytest.mark.parametrize("beside", [True, False])
def test_there_and_back_for_us(tmp_path: Path, memory: Path, target: Path, beside: bool) -> None:
    source = real(tmp_path / "lcm.db", [claws.tree_of_24(), Talk("run-2", [Line("b")], title="T")])
    to_remnic(source, memory)
    if not beside:
        run(memory, *DROP)
    bring("remnic", memory, target)
    but = () if beside else ("conversations",)
    assert said(target, *but) == said(source, *but)
    assert nothing_new(bring("remnic", memory, target))
    assert nothing_new(bring("claw", source, target))


def test_conversations_that_took_turns(tmp_path: Path, memory: Path, target: Path) -> None:
    """Ranges of one conversation hold messages of the other."""
    talks = [
        Talk(
            "s", [Line(f"{name}{n}", at=f"2026-03-01 10:00:{2 * n + k:02d}") for n in range(4)], None,
            {f"sum_{name}": [0, 1, 2]}, {}, [f"sum_{name}", 3],
        )
        for k, name in enumerate("ab")
    ]  # fmt: skip
    source = real(tmp_path / "lcm.db", talks)
    to_remnic(source, memory)
    run(memory, *DROP)
    bring("remnic", memory, target)
    assert said(target)["leaves"] == said(source)["leaves"]


def test_a_summary_used_twice_comes_back(tmp_path: Path, memory: Path, target: Path) -> None:
    talk = Talk(
        "s",
        [Line("a"), Line("b")],
        None,
        {"sum_a": [0], "sum_b": [1]},
        {"sum_x": ["sum_a", "sum_b"], "sum_y": ["sum_a"]},
        ["sum_x"],
    )
    source = real(tmp_path / "lcm.db", [talk])
    to_remnic(source, memory)
    bring("remnic", memory, target)
    assert said(target) == said(source)


def test_links_that_were_written_upside_down(tmp_path: Path, memory: Path, target: Path) -> None:
    source = live(memory, tmp_path)
    run(
        source,
        "UPDATE lcm_summary_nodes SET parent_id = NULL",
        "UPDATE lcm_summary_nodes SET parent_id = 'n-a' WHERE id = 'n-top'",
    )
    bring("remnic", source, target)
    assert rows(target, "SELECT summary_id, parent_summary_id FROM summary_parents") == [("n-top", "n-a")]


def test_what_remnic_heard_since_goes_on_in_the_same_conversation(tmp_path: Path, memory: Path, target: Path) -> None:
    source = real(tmp_path / "lcm.db", [claws.tree_of_24()])
    to_remnic(source, memory)
    run(memory, ADD + "('run-1', 24, 'user', 'since then', 3, '2026-06-01T00:00:00Z')",
        ADD_NODE + "('n-live', 'run-1', 0, NULL, 'live', 1, 24, 24, 0, '2026-06-01T00:00:00Z')")  # fmt: skip
    report = bring("remnic", memory, target)
    assert (report.conversations_inserted, report.messages_inserted, report.summaries_inserted) == (1, 25, 5)
    assert rows(target, "SELECT summary_id FROM context_items ORDER BY ordinal") == [("sum_top",), ("n-live",)]
    assert rows(target, "SELECT seq FROM messages WHERE content = 'since then'") == [(25,)]


def test_more_turns_of_a_known_session(tmp_path: Path, memory: Path, target: Path) -> None:
    source = live(memory, tmp_path)
    bring("remnic", source, target)
    run(source, ADD + "('s', 12, 'user', 'one more', 3, '2026-06-01T00:00:00Z')")
    report = bring("remnic", source, target)
    assert (report.conversations_joined, report.messages_inserted, report.messages_skipped) == (1, 1, 12)


def test_turns_that_were_pruned(tmp_path: Path, memory: Path, target: Path) -> None:
    source = live(memory, tmp_path)
    run(source, "DELETE FROM lcm_messages WHERE turn_index < 4")
    report = bring("remnic", source, target)
    assert report.messages_inserted == 8
    assert rows(target, "SELECT summary_id FROM summaries ORDER BY 1") == [("n-b",), ("n-top",)]


def test_wrong_sources(tmp_path: Path, target: Path) -> None:
    run(tmp_path / "bad.db", "CREATE TABLE lcm_meta (x)")
    with (
        Archive.open(target) as archive,
        pytest.raises(NotAnArchive, match="missing Remnic tables: lcm_messages, lcm_s"),
    ):
        import_remnic(tmp_path / "bad.db", archive, None, TransferOptions())


def test_a_memory_folder_is_enough(tmp_path: Path, target: Path) -> None:
    place = tmp_path / "memory" / "state" / "lcm.sqlite"
    to_remnic(real(tmp_path / "lcm.db", [Talk("s", [Line("a")])]), place)
    with Archive.open(target) as archive:
        assert import_remnic(tmp_path / "memory", archive, None, TransferOptions()).messages_inserted == 1


def test_sessions_can_be_chosen(tmp_path: Path, memory: Path, target: Path) -> None:
    to_remnic(real(tmp_path / "lcm.db", [Talk("s", [Line("a")]), Talk("t", [Line("b")])]), memory)
    report = bring("remnic", memory, target, sessions=frozenset(["t", "nobody"]))
    assert (report.messages_inserted, report.sessions_touched) == (1, {"t"})
    assert report.warnings == ["no session 'nobody' in the source"]


def test_a_session_is_found_by_its_key_too(tmp_path: Path, memory: Path, target: Path) -> None:
    to_remnic(real(tmp_path / "lcm.db", [Talk("s", [Line("a")], "key"), Talk("t", [Line("b")], "other")]), memory)
    report = bring("remnic", memory, target, sessions=frozenset(["key"]))
    assert (report.messages_inserted, report.sessions_touched, report.warnings) == (1, {"s"}, [])
