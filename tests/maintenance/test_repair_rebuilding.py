"""What messages and summaries tell is made again, and a backup is named only where words are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw
import pytest

from lossless.maintenance import repair
from lossless.maintenance.doctor import examine
from lossless.maintenance.verify import verify_archive
from lossless.store.archive import Archive
from lossless.testing import VirtualClock
from tests.maintenance.surgery_kit import HERE, open_engine, roots, told

if TYPE_CHECKING:
    from pathlib import Path

_TOP = "(SELECT summary_id FROM context_items WHERE summary_id IS NOT NULL ORDER BY ordinal LIMIT 1)"
_LEAF = "(SELECT summary_id FROM summaries WHERE kind = 'leaf' ORDER BY summary_id LIMIT 1)"


@pytest.fixture
def archive_path(path: Path) -> Path:
    with open_engine(path) as engine:
        assert roots(engine, told(engine))
    return path


def damage(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON")
    for statement in statements:
        connection.execute(statement)
    connection.close()


def errors(path: Path) -> list[str]:
    with Archive.open(path, read_only=True) as archive:
        return [str(one) for one in verify_archive(archive).problems if one.severity == "error"]


def is_healthy(path: Path) -> bool:
    with Archive.open(path, read_only=True) as archive:
        return examine(archive, VirtualClock()()).healthy


def remedies(path: Path) -> set[str]:
    with Archive.open(path, read_only=True) as archive:
        return {one.remedy for one in examine(archive, VirtualClock()()).findings if one.severity == "problem"}


DERIVED = {
    "a place is gone": f"DELETE FROM context_items WHERE summary_id = {_TOP}",
    "all places are gone": "DELETE FROM context_items",
    "a place is there twice": "INSERT INTO context_items SELECT conversation_id, 900, item_type, message_id, "
    "summary_id, created_at FROM context_items ORDER BY ordinal DESC LIMIT 1",
    "a place of nothing": "INSERT INTO context_items VALUES (1, 901, 'message', 4711, NULL, '2026-01-05 09:00:00')",
    "sources are gone": f"DELETE FROM summary_messages WHERE summary_id = {_LEAF}",
    "counts": "UPDATE summaries SET descendant_count = 77, source_message_token_count = 1 WHERE kind = 'condensed'",
    "a leaf's count": f"UPDATE summaries SET source_message_token_count = 1 WHERE summary_id = {_LEAF}",
    "times": f"UPDATE summaries SET earliest_at = '2020-01-01T00:00:00.000Z' WHERE summary_id = {_TOP}",
    "counters": "UPDATE ingest_state SET seen = seen + 3",
    "a context's size": "UPDATE ingest_state SET context_tokens = 1, context_seq = (SELECT max(seq) FROM messages)",
}


@pytest.mark.parametrize("kind", DERIVED)
def test_what_can_be_derived_is_made_again(kind: str, archive_path: Path) -> None:
    with open_engine(archive_path) as engine:
        before = engine.assemble(HERE, budget=100_000).messages
    damage(archive_path, DERIVED[kind])
    assert errors(archive_path)
    assert not is_healthy(archive_path)
    assert not any("restore" in remedy for remedy in remedies(archive_path)), remedies(archive_path)
    with open_engine(archive_path) as engine:
        assert not repair.plan_rebuild(engine.archive).is_none
        engine.admin.rebuild()
        assert repair.plan_rebuild(engine.archive).is_none
        assert engine.assemble(HERE, budget=100_000).messages == before
    assert errors(archive_path) == []
    assert is_healthy(archive_path)


def test_a_summary_that_is_gone_gives_its_messages_back(archive_path: Path) -> None:
    damage(
        archive_path,
        f"CREATE TEMP TABLE top AS SELECT {_TOP} AS id",
        "DELETE FROM summaries WHERE summary_id = (SELECT id FROM top)",
        "DELETE FROM summary_parents WHERE summary_id = (SELECT id FROM top)",
        "DELETE FROM summary_messages WHERE summary_id = (SELECT id FROM top)",
    )
    with open_engine(archive_path) as engine:
        engine.admin.rebuild()
        assert engine.archive.checks.unreachable(1) == []
        assert engine.assemble(HERE).messages


def test_counts_that_are_made_again_do_not_hide_other_damage(archive_path: Path) -> None:
    damage(archive_path, f"UPDATE summaries SET content = 'forged', descendant_count = 9 WHERE summary_id = {_TOP}")
    with open_engine(archive_path) as engine:
        engine.admin.rebuild()
    assert any("summaries" in error for error in errors(archive_path))
    assert any("restore" in remedy for remedy in remedies(archive_path))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE messages SET content = content || '!' WHERE message_id = 5",
        "DELETE FROM messages WHERE message_id = 60",
        "UPDATE message_extras SET skeleton = x'31' WHERE message_id = 5",
        f"UPDATE summaries SET content = 'forged' WHERE summary_id = {_TOP}",
    ],
)
def test_where_words_are_gone_a_backup_is_named(statement: str, archive_path: Path) -> None:
    damage(archive_path, statement)
    assert errors(archive_path)
    assert any("restore" in remedy for remedy in remedies(archive_path))


def test_a_summary_that_lossless_claw_wrote_anew_is_no_damage(archive_path: Path) -> None:
    """Its doctor gives the row another text, and its own search table the same."""
    damage(
        archive_path,
        "CREATE VIRTUAL TABLE summaries_fts USING fts5 (summary_id UNINDEXED, content)",
        "INSERT INTO summaries_fts SELECT summary_id, content FROM summaries",
        f"UPDATE summaries_fts SET content = 'Said anew.' WHERE summary_id = {_TOP}",
        f"UPDATE summaries SET content = 'Said anew.', token_count = 3 WHERE summary_id = {_TOP}",
    )
    assert not [error for error in errors(archive_path) if "summaries" in error and "counts" not in error]
    with open_engine(archive_path) as engine:
        engine.admin.rebuild()
        repair.apply_reindex(engine.archive)
        assert not [one for one in engine.verify().problems if one.check in ("digests", "index")]
