"""The doctor on an archive that does not hold together: all damage is found, named, and told without a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw
import pytest

from lossless.errors import ArchiveCorrupt
from lossless.maintenance.doctor import examine
from lossless.store.archive import Archive
from lossless.testing import VirtualClock
from tests.maintenance.surgery_kit import HERE, open_engine, roots, rows, told

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.maintenance.doctor import DoctorFinding, Examination

_TOP = "(SELECT summary_id FROM context_items WHERE summary_id IS NOT NULL ORDER BY ordinal LIMIT 1)"
_SOURCE = f"(SELECT parent_summary_id FROM summary_parents WHERE summary_id = {_TOP} ORDER BY ordinal LIMIT 1)"
_NEWEST = "(SELECT max(message_id) FROM messages)"


@pytest.fixture
def archive_path(path: Path) -> Path:
    with open_engine(path) as engine:
        here = told(engine)
        assert roots(engine, here)
        assert rows(engine, f"SELECT {_SOURCE}")[0][0]
    return path


def damage(path: Path, statement: str) -> None:
    """What happens to a file when its rules are not asked."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute(statement)
    connection.close()


def looked_at(path: Path) -> Examination:
    with Archive.open(path, read_only=True) as archive:
        return examine(archive, VirtualClock()())


def finding(path: Path, kind: str, remedy: str = "restore") -> DoctorFinding:
    found = looked_at(path)
    assert not found.healthy
    (one,) = [finding for finding in found.findings if finding.kind == kind]
    assert remedy in one.remedy
    return one


def test_a_context_item_without_its_summary_is_found_and_named(archive_path: Path) -> None:
    with open_engine(archive_path) as engine:
        top = roots(engine, 1)[0]
    damage(archive_path, f"DELETE FROM summaries WHERE summary_id = '{top}'")
    assert finding(archive_path, "context.hanging", "rebuild").ids == (top,)
    with open_engine(archive_path) as engine, pytest.raises(ArchiveCorrupt, match=f"holds {top}, which.*lcm doctor"):
        engine.assemble(HERE)


def test_a_context_item_without_its_message_is_found_and_named(archive_path: Path) -> None:
    damage(archive_path, f"DELETE FROM messages WHERE message_id = {_NEWEST}")
    assert finding(archive_path, "context.hanging").ids == ("msg#60",)
    assert any(one.kind == "references" for one in looked_at(archive_path).findings)
    with open_engine(archive_path) as engine, pytest.raises(ArchiveCorrupt, match="msg#60"):
        engine.assemble(HERE)


def test_an_old_summary_that_is_gone_is_missed_in_a_small_prompt_as_well(archive_path: Path) -> None:
    """Only the newest of a context is read for a small budget, but no summary is ever left out."""
    with open_engine(archive_path) as engine:
        top = roots(engine, 1)[0]
    damage(archive_path, f"DELETE FROM summaries WHERE summary_id = '{top}'")
    with open_engine(archive_path) as engine, pytest.raises(ArchiveCorrupt, match=top):
        engine.assemble(HERE, budget=200)


def test_messages_that_nothing_leads_to_are_counted(archive_path: Path) -> None:
    damage(archive_path, f"DELETE FROM context_items WHERE summary_id = {_TOP}")
    one = finding(archive_path, "context.uncovered", "rebuild")
    with Archive.open(archive_path, read_only=True) as archive:
        lost = archive.checks.unreachable(1)
    assert one.message.endswith(f"nor hidden: {len(lost)}")
    assert one.ids == (f"msg#{lost[0]}", f"msg#{lost[-1]}")


def test_a_circle_of_sources_is_found(archive_path: Path) -> None:
    damage(archive_path, f"INSERT INTO summary_parents VALUES ({_SOURCE}, {_TOP}, 99)")
    with Archive.open(archive_path, read_only=True) as archive:
        pair = {row[0] for row in archive.database.rows(f"SELECT {_TOP} UNION SELECT {_SOURCE}")}
    assert set(finding(archive_path, "sources.cycle").ids) == pair


def test_a_table_that_is_gone_is_named(archive_path: Path) -> None:
    damage(archive_path, "DROP TABLE summary_parents")
    assert finding(archive_path, "tables").ids == ("summary_parents",)
    with open_engine(archive_path) as engine:  # which makes the table anew, without what was in it
        kinds = {one.kind for one in engine.admin.examine().findings}
    assert {"context.uncovered", "sources.missing"} <= kinds


def test_a_table_of_ours_that_is_gone_is_noted(archive_path: Path) -> None:
    damage(archive_path, "DROP TABLE pins")
    found = looked_at(archive_path)
    assert [(one.kind, one.severity, one.ids) for one in found.findings] == [("tables", "note", ("pins",))]


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        (f"UPDATE summaries SET content = x'ff00fe' WHERE summary_id = {_TOP}", "sum_"),
        (f"UPDATE messages SET content = x'ff00fe' WHERE message_id = {_NEWEST}", "message 60"),
    ],
)
def test_bytes_for_words_are_damage_and_no_crash(archive_path: Path, statement: str, named: str) -> None:
    damage(archive_path, statement)
    finding(archive_path, "content")
    with open_engine(archive_path) as engine:
        assert [problem for problem in engine.verify().problems if "is not text" in problem.detail]
        with pytest.raises(ArchiveCorrupt, match=f"{named}.*is not text"):
            engine.assemble(HERE)


@pytest.mark.parametrize("column", ["text_content", "tool_call_id", "tool_name", "tool_output", "metadata"])
def test_bytes_in_a_part_are_damage_and_no_crash(path: Path, column: str) -> None:
    with open_engine(path) as engine:
        parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
        engine.append(HERE, [{"role": "user", "content": parts}])
    damage(path, f"UPDATE message_parts SET {column} = x'ff00fe' WHERE ordinal = 1")
    with open_engine(path) as engine:
        details = [problem.detail for problem in engine.verify().problems if problem.check == "original"]
        assert len(details) == 1
        assert "its part 1 is not text" in details[0]
        with pytest.raises(ArchiveCorrupt, match="its part 1 is not text"):
            engine.assemble(HERE)
