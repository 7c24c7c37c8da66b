"""Some runs of `bench/damage.py`: whatever is done to an archive is found, changes nothing, or is lawful."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import apsw
import pytest

from bench.damage import Change, Subject, change_payload, damage, judge, lawful, prepare, summary
from bench.damage_archives import Outputs, outputs
from bench.damage_lawful import LAWFUL, reason
from lossless.maintenance.verify import verify_archive
from lossless.store.archive import Archive

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> list[Subject]:
    return prepare(tmp_path_factory.mktemp("damage"))


def test_no_damage_is_missed(subjects: list[Subject]) -> None:
    results = list(damage(subjects, runs=6, seed=2027))
    wrong = [
        f"{one.archive}: {one.change}\n{one.detail}" for _, one in results if one.outcome in ("missed", "traceback")
    ]
    assert not wrong, "\n\n".join(wrong)
    assert summary(results)[-1]["runs"] == 12
    assert sum(one.outcome == "found" for _, one in results) > 3


def test_every_payload_that_is_gone_or_has_other_bytes_is_found(subjects: list[Subject]) -> None:
    for n, subject in enumerate(subjects * 2):
        path = subject.fresh()
        change = change_payload(path, Random(n))
        assert change is not None
        assert judge(subject, change, path).outcome == "found", change


def test_what_is_lawful_names_tables_and_columns_that_there_are(subjects: list[Subject]) -> None:
    connection = apsw.Connection(str(subjects[0].folder / "lcm.db"))
    for table, column in LAWFUL:
        columns = {row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}
        assert column in columns | {"*", "INSERT"}, (table, column)
    connection.close()
    assert not reason("messages", "UPDATE", "content")
    assert not reason("pins", "INSERT", "")


def test_what_was_lawful_is_listed_with_its_reason(subjects: list[Subject]) -> None:
    subject = next(one for one in subjects if one.name == "chat")
    title = "UPDATE conversations SET title = 'Another one' WHERE conversation_id = 1"
    results = [
        ("rows", judge(subject, Change("conversations", "UPDATE", "title"), broken(subject, title))),
        ("rows", judge(subject, Change("pins", "DELETE"), broken(subject, "DELETE FROM pins"))),
    ]
    assert [one.outcome for _, one in results] == ["lawful", "found"]
    why = LAWFUL["conversations", "title"]
    assert lawful(results) == [{"change": "UPDATE conversations.title", "runs": 1, "why": why}]


def broken(subject: Subject, *statements: str) -> Path:
    path = subject.fresh()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON")
    for statement in statements:
        connection.execute(statement)
    connection.close()
    return path


@pytest.mark.parametrize(
    ("table", "statement"),
    [
        ("messages", "UPDATE messages SET content = CAST(x'ff' || CAST(content AS BLOB) AS TEXT) WHERE message_id = 3"),
        ("messages", "UPDATE messages SET created_at = CAST(x'ff' AS TEXT) WHERE message_id = 3"),
        ("messages", "UPDATE message_parts SET metadata = CAST(x'7bff7d' AS TEXT) WHERE message_id = 3"),
        ("messages", "UPDATE message_extras SET skeleton = substr(skeleton, 1, 9) WHERE message_id = 3"),
        ("summaries", "UPDATE summaries SET content = CAST(x'41ff42' AS TEXT) WHERE rowid = 1"),
        ("pins", "UPDATE pins SET content = CAST(x'41ff42' AS TEXT) WHERE pin_id = 1"),
        ("focus_briefs", "UPDATE focus_briefs SET content = CAST(x'41ff42' AS TEXT)"),
    ],
)
def test_one_invalid_byte_names_its_row_and_spoils_nothing_else(
    table: str, statement: str, subjects: list[Subject]
) -> None:
    subject = subjects[0]
    path = broken(subject, statement)
    with Archive.open(path, read_only=True) as archive:
        named = [problem for problem in verify_archive(archive).problems if problem.severity == "error"]
    assert table in {problem.table for problem in named}, [str(problem) for problem in named]
    after: Outputs = outputs(path)
    assert after.errors == ()
    assert all(after.prompts)
    assert len(after.lines) == len(subject.before.lines)
    assert sum(a != b for a, b in zip(after.lines, subject.before.lines, strict=True)) <= 1


@pytest.mark.parametrize(
    ("archive", "table", "statement"),
    [
        ("chat", "history_budgets", "UPDATE history_budgets SET factor = '{}'"),
        ("chat", "history_budgets", "UPDATE history_budgets SET beside = 'words'"),
        ("foreign", "version_index", "UPDATE version_index_data SET block = 1 WHERE id = 1"),
    ],
)
def test_what_is_no_number_is_named_and_read_as_unknown(
    archive: str, table: str, statement: str, subjects: list[Subject]
) -> None:
    subject = next(one for one in subjects if one.name == archive)
    path = broken(subject, statement)
    with Archive.open(path, read_only=True) as opened:
        assert table in {problem.table for problem in verify_archive(opened).problems if problem.severity == "error"}
    assert outputs(path) == subject.before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE messages SET token_count = x'00ff' WHERE message_id = 9",
        "UPDATE message_extras SET budget_tokens = x'' WHERE message_id = 9",
        "UPDATE message_extras SET budget_tokens = budget_tokens + 1000 WHERE message_id = 9",
        "UPDATE summary_extras SET budget_tokens = budget_tokens + 1000 WHERE rowid = 1",
        "UPDATE summaries SET token_count = x'00ff' WHERE rowid = 1",
        "UPDATE message_extras SET digest = 2.5 WHERE message_id = 3",
        "UPDATE ingest_state SET context_tokens = x'00ff'",
    ],
)
def test_a_size_that_is_another_is_named_and_read_all_the_same(statement: str, subjects: list[Subject]) -> None:
    path = broken(subjects[0], statement)
    with Archive.open(path, read_only=True) as opened:
        named = {problem.table for problem in verify_archive(opened).problems if problem.severity == "error"}
    assert named & {"messages", "summaries", "ingest_state"}
    assert not outputs(path).errors


@pytest.mark.parametrize(
    ("archive", "statement"),
    [
        ("agent", "UPDATE summary_index_idx SET segid = segid + 1000"),
        ("foreign", "UPDATE summary_index_idx SET pgno = NULL"),
        ("agent", "UPDATE message_passages SET message_id = x'00ff' WHERE rowid = 1"),
        ("agent", "UPDATE message_parts SET part_type = x'00ff' WHERE rowid = (SELECT max(rowid) FROM message_parts)"),
        ("chat", "UPDATE context_items SET ordinal = 'words' WHERE rowid = (SELECT max(rowid) FROM context_items)"),
        ("chat", "UPDATE messages SET token_count = x'00ff' WHERE message_id = (SELECT max(message_id) FROM messages)"),
        ("foreign", "UPDATE summary_extras SET summary_id = x'00ff' WHERE rowid = 1"),
        ("foreign", "UPDATE summary_parents SET ordinal = 1000 WHERE rowid = 1"),
        ("foreign", "UPDATE summaries SET model = 'words' WHERE rowid = 8"),
        ("foreign", "UPDATE messages SET seq = 'words' WHERE message_id = (SELECT max(message_id) - 1 FROM messages)"),
    ],
)
def test_what_was_missed_once_is_found(archive: str, statement: str, subjects: list[Subject]) -> None:
    subject = next(one for one in subjects if one.name == archive)
    result = judge(subject, Change("some", "UPDATE"), broken(subject, statement))
    assert result.outcome == "found", result.detail
