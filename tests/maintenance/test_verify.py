"""Verify finds what is wrong: one row of each table is damaged, and the table is named."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import apsw
import pytest

import lossless
from lossless import formats
from lossless.maintenance.verify import verify_archive
from lossless.model.context import MessageItem, NewSummary
from lossless.model.identity import file_id, words_digest
from lossless.model.records import ContextChange
from lossless.store.archive import Archive
from lossless.store.database import load_schema
from lossless.testing import VirtualClock
from tests.faults import SESSION, TURN, open_engine, problems
from tests.maintenance import surgery_kit
from tests.transfer import claws

if TYPE_CHECKING:
    from pathlib import Path

CLOCK = VirtualClock()
#: Rows of tables that rooms above the archive write.
OTHERS = """
INSERT INTO conversation_bootstrap_state (conversation_id, session_file_path, last_seen_size, last_seen_mtime_ms,
  last_processed_offset) VALUES (1, '/home/user/s.jsonl', 100, 1, 90);
INSERT INTO conversation_compaction_telemetry (conversation_id) VALUES (1);
INSERT INTO conversation_compaction_maintenance (conversation_id, pending) VALUES (1, 1);
INSERT INTO focus_briefs (brief_id, conversation_id, prompt, content, status) VALUES ('focus_1', 1, 'p', 'c', 'active');
INSERT INTO focus_brief_sources (brief_id, summary_id, role) VALUES ('focus_1', 'sum_a', 'cited');
INSERT INTO tombstones (round, digest, length, roll) VALUES (1, x'0102', 4, 9);
INSERT INTO leases VALUES ('sweep 1', 'me', '2026-01-05T09:00:00.000Z');
INSERT INTO spend_ledger (scope, kind, at) VALUES ('all', 'call', '2026-01-05T09:00:00.000Z');
INSERT INTO breakers VALUES ('key', 1, NULL, '2026-01-05T09:00:00.000Z');
INSERT INTO expansion_grants (grant_id, issuer, conversation_ids, token_cap, max_depth, created_at, expires_at)
  VALUES ('grant_1', 'me', '[1]', 100, 1, '2026-01-05T09:00:00.000Z', '2026-01-05T09:00:00.000Z');
INSERT INTO pins (conversation_id, message_id, at) VALUES (1, 1, '2026-01-05 09:00:00');
INSERT INTO token_factors (model, ratio, spread, observations, updated_at)
  VALUES ('m', 1.2, 0.1, 3, '2026-01-05 09:00:00');
INSERT INTO stubborn_chunks (conversation_id, chunk, kind, at) VALUES (1, '1-2', 'blank', '2026-01-05 09:00:00');
INSERT INTO history_budgets VALUES (1, 128000, 0, 0, 0, 1.0, 0, NULL, 0, '2026-01-05 09:00:00');
INSERT INTO prompt_evidence (conversation_id, message_id, after_id, fold, quotes, tokens, digest, at)
  VALUES (1, 2, 1, 0, '[[1, 0, 4, 1.0, []]]', 40, zeroblob(12), '2026-01-05 09:00:00');
INSERT INTO prompt_receipts (conversation_id, at, tokens, capacity, detail)
  VALUES (1, '2026-01-05 09:00:00', 900, 8000, '{}');
INSERT INTO transcript_state (conversation_id, read_to, lines, front) VALUES (1, 90, 3, '[]');
INSERT INTO transcript_epochs (conversation_id, path, size, mtime_ms, decision, reason, messages, at)
  VALUES (1, '/home/user/s.jsonl', 100, 1, 'first', 'nothing was stored before', 3, '2026-01-05 09:00:00');
INSERT INTO transcript_records VALUES (1, 'r1', 0, 'model_change', x'789cabae05000175');
INSERT INTO pruned_histories (number, at, marks) VALUES (7, '2026-01-05 09:00:00', zeroblob(40));
INSERT INTO fork_sources VALUES (1, 1);
INSERT INTO conversation_extras VALUES (1, '/home/me/ferry');
INSERT INTO message_vectors VALUES (1, zeroblob(8), x'0102'), (2, zeroblob(8), x'0102');
INSERT INTO former_summaries (log_id, summary_id, state) SELECT max(log_id), 'sum_a', '{}' FROM context_log;
"""

#: What is done to a row, and the table that verify must name.
DAMAGE: dict[str, tuple[str, ...]] = {
    "conversations": (
        "UPDATE conversations SET active = 7 WHERE conversation_id = 1",
        "UPDATE conversations SET updated_at = 'yesterday' WHERE conversation_id = 1",
        "DROP INDEX conversations_active_session_key_idx; UPDATE conversations SET session_key = 'k'",
    ),
    "messages": (
        "UPDATE messages SET content = content || '!' WHERE message_id = 1",
        "UPDATE messages SET content = 'x' WHERE message_id = 3",
        "UPDATE messages SET role = 'wizard' WHERE message_id = 1",
        "UPDATE messages SET role = 'assistant' WHERE message_id = 1",
        "UPDATE messages SET token_count = -1 WHERE message_id = 1",
        "UPDATE messages SET created_at = 'noon' WHERE message_id = 1",
        "UPDATE messages SET seq = 100 - seq WHERE conversation_id = 2",
        "UPDATE messages SET conversation_id = 99 WHERE message_id = 1",
        "DELETE FROM context_items WHERE message_id = (SELECT max(message_id) FROM context_items)",
    ),
    "message_parts": (
        "UPDATE message_parts SET tool_call_id = 'other' WHERE tool_call_id IS NOT NULL",
        "UPDATE message_parts SET tool_name = 'other' WHERE tool_input IS NOT NULL",
        "UPDATE message_parts SET tool_input = '{}' WHERE tool_input IS NOT NULL",
        "UPDATE message_parts SET metadata = '{' WHERE ordinal = 0",
        "UPDATE message_parts SET ordinal = 5 WHERE ordinal = 0",
        "UPDATE message_parts SET part_type = 'odd' WHERE ordinal = 0",
        "UPDATE message_parts SET message_id = 99 WHERE message_id = 3",
        "DELETE FROM message_parts WHERE tool_input IS NOT NULL",
    ),
    "summaries": (
        "UPDATE summaries SET content = 'something else' WHERE summary_id = 'sum_a'",
        "UPDATE summaries SET depth = 4 WHERE summary_id = 'sum_top'",
        "UPDATE summaries SET descendant_count = 9 WHERE summary_id = 'sum_top'",
        "UPDATE summaries SET source_message_token_count = 9 WHERE summary_id = 'sum_a'",
        "UPDATE summaries SET file_ids = 'none' WHERE summary_id = 'sum_a'",
        "UPDATE summaries SET earliest_at = 'once' WHERE summary_id = 'sum_a'",
        "UPDATE summaries SET kind = 'poem' WHERE summary_id = 'sum_a'",
        "UPDATE summaries SET token_count = 100000 WHERE summary_id = 'sum_a'",
        "DELETE FROM summary_messages WHERE summary_id = 'sum_a'",
    ),
    "summary_messages": (
        "UPDATE summary_messages SET message_id = (SELECT max(message_id) FROM messages) WHERE ordinal = 0",
        "UPDATE summary_messages SET ordinal = 0 WHERE summary_id = 'sum_a'",
        "UPDATE summary_messages SET message_id = 999 WHERE ordinal = 0",
    ),
    "summary_parents": (
        "UPDATE summary_parents SET ordinal = 0",
        "UPDATE summary_parents SET parent_summary_id = 'sum_gone' WHERE ordinal = 0",
        "UPDATE summary_parents SET parent_summary_id = summary_id WHERE ordinal = 0",
        "UPDATE summary_parents SET parent_summary_id = x'' WHERE ordinal = 0",
    ),
    "context_items": (
        "UPDATE context_items SET created_at = '20:6-01-05 09:00:00' WHERE ordinal = 0",
        "UPDATE context_items SET message_id = (SELECT min(message_id) FROM messages WHERE conversation_id = 2)"
        " WHERE conversation_id = 1 AND message_id IS NOT NULL",
        "INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id)"
        " VALUES (1, 900, 'summary', 'sum_top')",
        "INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id)"
        " VALUES (1, 901, 'summary', 'sum_a')",
        "UPDATE context_items SET summary_id = 'sum_gone' WHERE summary_id IS NOT NULL",
        "UPDATE context_items SET item_type = 'message' WHERE summary_id IS NOT NULL",
    ),
    "large_files": (
        "UPDATE large_files SET byte_size = 4",
        "UPDATE large_files SET storage_uri = '/nowhere'",
        "UPDATE large_files SET storage_uri = ''",
        "UPDATE large_files SET created_at = 'noon'",
    ),
    "conversation_bootstrap_state": ("UPDATE conversation_bootstrap_state SET last_processed_offset = 101",),
    "conversation_compaction_telemetry": (
        "UPDATE conversation_compaction_telemetry SET consecutive_cold_observations = -1",
        "UPDATE conversation_compaction_telemetry SET cache_state = 'lukewarm'",
    ),
    "conversation_compaction_maintenance": (
        "UPDATE conversation_compaction_maintenance SET pending = 2",
        "UPDATE conversation_compaction_maintenance SET requested_at = 'soon'",
    ),
    "focus_briefs": ("UPDATE focus_briefs SET token_count = -1", "UPDATE focus_briefs SET status = 'odd'"),
    "focus_brief_sources": (
        "UPDATE focus_brief_sources SET summary_id = 'sum_gone'",
        "UPDATE focus_brief_sources SET brief_id = 'focus_gone'",
    ),
    "lcm_migration_state": ("UPDATE lcm_migration_state SET completed_at = 'noon'",),
    "transcript_state": (
        "UPDATE transcript_state SET read_to = -1",
        "UPDATE transcript_state SET front = '[['",
    ),
    "transcript_epochs": (
        "UPDATE transcript_epochs SET decision = 'perhaps'",
        "UPDATE transcript_epochs SET at = 'noon'",
    ),
    "transcript_records": (
        "UPDATE transcript_records SET record = x'00'",
        "UPDATE transcript_records SET conversation_id = 99",
    ),
    "pruned_histories": (
        "UPDATE pruned_histories SET marks = x'00'",
        "UPDATE pruned_histories SET at = 'noon'",
    ),
    "message_vectors": (
        "UPDATE message_vectors SET digest = x'01'",
        "UPDATE message_vectors SET vector = x'01' WHERE message_id = 2",
        "UPDATE message_vectors SET vector = ''",
    ),
    "conversation_extras": (
        "UPDATE conversation_extras SET project = '/home/me/other'",
        "UPDATE conversation_extras SET project = ''",
        "DELETE FROM conversation_extras",
    ),
    "fork_sources": (
        "UPDATE fork_sources SET source_id = 99",
        "UPDATE fork_sources SET conversation_id = 99",
    ),
    "former_summaries": (
        "UPDATE former_summaries SET state = '{'",
        "UPDATE former_summaries SET log_id = 999",
    ),
    "message_extras": (
        "UPDATE message_extras SET skeleton = x'31ff' WHERE skeleton IS NOT NULL",
        "UPDATE message_extras SET skeleton = x'00' WHERE skeleton IS NOT NULL",
        "UPDATE message_extras SET digest = x'00' WHERE message_id = 1",
        "UPDATE message_extras SET fingerprint = x'00' WHERE message_id = 1",
        "UPDATE message_extras SET message_id = 999 WHERE message_id = 1",
        "UPDATE message_extras SET format = 'telegram' WHERE skeleton IS NOT NULL",
        "DELETE FROM message_extras WHERE message_id = 1",
    ),
    "message_passages": (
        "UPDATE message_passages SET start = start + 1",
        "UPDATE message_passages SET length = 0",
        "UPDATE message_passages SET message_id = 999",
        "DELETE FROM message_passages",
    ),
    "message_index": (
        "DELETE FROM message_index WHERE rowid = 1",
        "DELETE FROM message_index WHERE rowid > 1000",
        "UPDATE message_index SET body = 'one two three', extra = '' WHERE rowid = 1",
        "INSERT INTO message_index (rowid, body, extra) VALUES (900, 'ghost', '')",
        "UPDATE message_index_data SET block = zeroblob(40) WHERE id > 10",
        "DELETE FROM message_index_docsize WHERE id = 1",
    ),
    "summary_extras": (
        "DELETE FROM summary_extras WHERE summary_id = 'sum_a'",
        "UPDATE summary_extras SET summary_id = 'x' WHERE summary_id = 'sum_a'",
    ),
    "summary_index": (
        "DELETE FROM summary_index WHERE rowid = 1",
        "UPDATE summary_index SET body = 'one two', extra = '' WHERE rowid = 1",
        "INSERT INTO summary_index (rowid, body, extra) VALUES (900, 'ghost', '')",
    ),
    "context_log": (
        "UPDATE context_log SET removed = 'all'",
        "UPDATE context_log SET at = 'noon'",
        "UPDATE context_log SET conversation_id = 99",
    ),
    "hidden_items": (
        "UPDATE hidden_items SET item = 999",
        "UPDATE hidden_items SET item = (SELECT min(message_id) FROM messages WHERE conversation_id = 2)",
        "UPDATE hidden_items SET cause = ''",
        "INSERT INTO hidden_items SELECT conversation_id, max(message_id), 'branch', created_at FROM context_items",
        "INSERT INTO hidden_items SELECT conversation_id, max(summary_id), 'new', created_at FROM context_items",
    ),
    "turn_keys": ("UPDATE turn_keys SET message_count = -1", "UPDATE turn_keys SET conversation_id = 99"),
    "last_windows": (
        "UPDATE last_windows SET first_message_id = 999",
        "UPDATE last_windows SET length = -1",
        "UPDATE last_windows SET chain = x'00'",
    ),
    "ingest_state": (
        "UPDATE ingest_state SET stored = stored + 1",
        "UPDATE ingest_state SET blocked_reason = 'why'",
        "UPDATE ingest_state SET context_tokens = context_tokens + 5",
    ),
    "leases": ("UPDATE leases SET expires_at = 'soon'", "UPDATE leases SET owner = ''"),
    "spend_ledger": ("UPDATE spend_ledger SET at = 'noon'", "UPDATE spend_ledger SET kind = 'gift'"),
    "breakers": ("UPDATE breakers SET failures = -1",),
    "expansion_grants": (
        "UPDATE expansion_grants SET conversation_ids = '1,2'",
        "UPDATE expansion_grants SET tokens_used = -1",
    ),
    "pins": (
        "UPDATE pins SET message_id = 999",
        "UPDATE pins SET message_id = NULL",
        "UPDATE pins SET at = 'noon'",
        "INSERT INTO pins (conversation_id, content, at) VALUES (1, 'forged', '2026-01-05 09:00:00')",
    ),
    "row_digests": (
        "UPDATE row_digests SET digest = x'00'",
        "UPDATE row_digests SET name = 'nothing' WHERE name = 'pins'",
    ),
    "token_factors": ("UPDATE token_factors SET ratio = -1",),
    "history_budgets": ("UPDATE history_budgets SET window = 0", "UPDATE history_budgets SET factor = -1"),
    "prompt_evidence": (
        "UPDATE prompt_evidence SET quotes = 'none'",
        "UPDATE prompt_evidence SET digest = NULL",
        "UPDATE prompt_evidence SET message_id = 999",
        "UPDATE prompt_evidence SET fold = 'late'",
    ),
    "prompt_receipts": ("UPDATE prompt_receipts SET detail = '{'", "UPDATE prompt_receipts SET tokens = -1"),
    "stubborn_chunks": ("UPDATE stubborn_chunks SET chunk = ''", "UPDATE stubborn_chunks SET kind = 'odd'"),
    "message_versions": (
        "UPDATE message_versions SET body = NULL",
        "UPDATE message_versions SET body = zeroblob(9)",
        "UPDATE message_versions SET digest = zeroblob(16)",
        "UPDATE message_versions SET digest = x'00'",
        "UPDATE message_versions SET message_id = 999",
        "UPDATE message_versions SET at = at + 1",
        "UPDATE message_versions SET lesser = 1 - lesser",
        "DELETE FROM message_versions",
    ),
    "version_index": (
        "DELETE FROM version_index",
        "DELETE FROM message_versions",
        "INSERT INTO version_index (rowid, body, extra) VALUES (900, 'forged', '')",
        "UPDATE version_index SET body = 'other words', extra = ''",
    ),
    "stale_summaries": (
        "UPDATE stale_summaries SET message_id = 999 WHERE message_id = 2",
        "DELETE FROM stale_summaries WHERE message_id = 2",
    ),
    "tombstones": (
        "DELETE FROM tombstones",
        "UPDATE tombstones SET length = length + 1",
        "UPDATE tombstones SET digest = x'00'",
    ),
    "archive_state": ("UPDATE archive_state SET value = 'newest' WHERE name = 'schema'",),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive with a row in every table, in which nothing is wrong."""
    path = tmp_path_factory.mktemp("verify") / "lcm.db"
    payload = path.with_name("payload.txt")
    payload.write_text("12345")
    with open_engine(path) as engine:
        window = [
            {"role": "system", "content": "Be exact."},
            *TURN,
            *({"role": "user", "content": f"m {n}"} for n in range(6)),
        ]
        engine.sync(SESSION, window, key="turn-1")
        engine.sync(SESSION, [*window[:-1], {"role": "user", "content": "something else"}])
        engine.append(lossless.Session(key="agent:main:other"), [*TURN, {"role": "user", "content": "hello"}])
        fold(engine.archive, "sum_a", 1, 3)
        fold(engine.archive, "sum_b", 2, 4)
        fold(engine.archive, "sum_top", 1, 3, depth=1)
        lesser = formats.decode({"role": "user", "content": "[message cleared]"})
        with engine.archive.writing():
            engine.archive.versions.keep(2, lesser, words_digest(lesser), "lesser", CLOCK())
            engine.archive.summaries.mark_stale([2, 3], CLOCK())
        database = engine.archive.database
        for statement in OTHERS.split(";\n"):
            database.run(statement)
        database.run(
            "INSERT INTO large_files (file_id, conversation_id, byte_size, storage_uri) VALUES (?, 1, 5, ?)",
            [file_id(1, b"12345"), str(payload)],
        )
        engine.archive.ingest.set_context_tokens(1, engine.archive.context.tokens(1))
        assert problems(engine) == []
    return path


def fold(archive: Archive, id_: str, first: int, last: int, depth: int = 0) -> None:
    """Put a summary in the place of some items of the first conversation's context."""
    sources = archive.context.items(1)[first:last]
    new = NewSummary(id_, depth, f"what {id_} says", 2, "test")
    with archive.writing():
        archive.summaries.insert(1, sources, new, CLOCK())
        ordinal = archive.context.replace(1, sources, id_, CLOCK())
        ids = tuple(item.message_id if isinstance(item, MessageItem) else item.summary_id for item in sources)
        archive.context.log(1, ContextChange("fold", "test", None, ids, (id_,), ordinal), CLOCK())


def tables() -> set[str]:
    ddl = load_schema("base") + load_schema("additions")
    return set(re.findall(r"CREATE (?:VIRTUAL )?TABLE IF NOT EXISTS (\w+)", ddl))


def test_every_table_has_a_damage() -> None:
    assert set(DAMAGE) == tables()


def test_every_table_has_a_row(whole: Path) -> None:
    with Archive.open(whole, read_only=True) as archive:
        for table in tables():
            assert archive.database.rows(f"SELECT count(*) FROM {table}") > [(0,)], table


@pytest.mark.parametrize(("table", "damage"), [(table, damage) for table in DAMAGE for damage in DAMAGE[table]])
def test_a_damaged_row_is_found_and_its_table_named(table: str, damage: str, whole: Path, path: Path) -> None:
    shutil.copy(whole, path)
    connection = apsw.Connection(str(path))
    for pragma in ("PRAGMA foreign_keys = OFF", "PRAGMA ignore_check_constraints = ON"):
        connection.execute(pragma)
    connection.execute(damage)
    assert connection.total_changes() > 0
    connection.close()
    with Archive.open(path, read_only=True) as archive:
        found = verify_archive(archive).problems
    assert table in {problem.table for problem in found}, [str(problem) for problem in found]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE summary_parents SET parent_summary_id = x'' WHERE ordinal = 0",
        "UPDATE focus_briefs SET created_at = 'noon'",
        "UPDATE prompt_evidence SET quotes = '{'",
    ],
)
def test_a_damaged_row_of_a_prompt_is_no_crash(damage: str, whole: Path, path: Path) -> None:
    shutil.copy(whole, path)
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute(damage)
    connection.close()
    with open_engine(path) as engine:
        assert engine.assemble(SESSION, budget=8_000).messages


def test_a_finding_names_the_row_and_what_is_wrong(whole: Path, path: Path) -> None:
    shutil.copy(whole, path)
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE messages SET content = 'forged' WHERE message_id = 2")
    connection.close()
    with Archive.open(path, read_only=True) as archive:
        verification = verify_archive(archive)
    assert not verification.ok
    assert "error: messages 2: its indexed text differs from its text (index)" in map(str, verification.problems)


def test_a_reference_to_a_table_that_is_not_there_is_found(whole: Path, path: Path) -> None:
    old, new = b"INTEGER NOT NULL REFERENCES conversations", b"INTEGER NOT NULL REFERENCES konversations"
    data = whole.read_bytes()
    at = data.index(old, data.index(b"CREATE TABLE prompt_evidence"))
    path.write_bytes(data[:at] + new + data[at + len(old) :])
    with Archive.open(path, read_only=True) as archive:
        found = [str(problem) for problem in verify_archive(archive).problems]
    assert "error: database prompt_evidence: it refers to a table or column that is not there (rows)" in found


def test_verify_only_reads(whole: Path) -> None:
    before = whole.read_bytes()
    with Archive.open(whole, read_only=True) as archive:
        verification = verify_archive(archive)
    assert (verification.ok, verification.problems) == (True, ())
    assert (verification.messages, verification.summaries) == (archive_counts(whole))
    assert whole.read_bytes() == before


def archive_counts(path: Path) -> tuple[int, int]:
    with Archive.open(path, read_only=True) as archive:
        counts = archive.listings.counts()
    return counts.messages, counts.summaries


def test_rows_that_are_not_indexed_are_counted_not_listed(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    with lossless.open(path, background=False) as engine:
        engine.append(lossless.Session(key="k"), [{"role": "user", "content": f"said {n}"} for n in range(5)])
        engine.archive.database.run("DELETE FROM message_extras WHERE message_id > 1")
        verification = engine.verify()
    unindexed = [problem for problem in verification.problems if problem.severity == "warning"]
    assert list(map(str, unindexed)) == [
        "warning: message_extras 2 and 3 more: not indexed yet; `lcm doctor reindex --apply` does it (index)"
    ]


def _folded(path: Path) -> None:
    with surgery_kit.open_engine(
        path, sweep_max_depth=0, condensed_min_fanout=50, condensed_min_fanout_hard=50
    ) as engine:
        surgery_kit.told(engine)
        assert len(surgery_kit.roots(engine, 1)) > 2


@pytest.mark.parametrize(
    ("statement", "severity"),
    [
        ("UPDATE context_items SET ordinal = -1 - ordinal", "error"),
        ("UPDATE context_items SET ordinal = 9999 WHERE ordinal = (SELECT min(ordinal) FROM context_items)", "error"),
        (
            "UPDATE context_items SET ordinal = 9999 WHERE ordinal = (SELECT max(ordinal) - 1 FROM context_items)",
            "error",
        ),
        ("UPDATE context_items SET ordinal = -1 WHERE ordinal = 1", "warning"),
    ],
)
def test_a_context_that_is_out_of_order_is_found(path: Path, statement: str, severity: str) -> None:
    """Behind a message nothing older may stand; a summary may stand before an older one, as upstream's copies do."""
    _folded(path)
    with apsw.Connection(str(path)) as other:
        if "= 1" in statement:
            statement = statement.replace(
                "= 1", "= (SELECT ordinal FROM context_items ORDER BY ordinal LIMIT 1 OFFSET 1)"
            )
        other.execute(statement)
    with Archive.open(path, read_only=True) as archive:
        found = verify_archive(archive).problems
        assert {(problem.check, problem.table, problem.severity) for problem in found} == {
            ("order", "context_items", severity)
        }


def test_a_branch_may_put_messages_where_it_wants(path: Path) -> None:
    with surgery_kit.open_engine(path) as engine:
        window = surgery_kit.talk(12)
        engine.sync(surgery_kit.HERE, window)
        engine.sync(surgery_kit.HERE, [*window[:6], {"role": "user", "content": "an edit in the middle"}, *window[7:]])
        engine.sync(surgery_kit.HERE, window)
        surgery_kit.prove(engine)


@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_tools_output_that_was_changed_in_another_programs_part_is_found(path: Path, is_indexed: bool) -> None:
    said = claws.Line("port 8443", "tool", parts=(
        {"part_type": "text", "text_content": "port 8443", "metadata": '{"originalRole":"toolResult"}'},
    ))  # fmt: skip
    claws.real(path, [claws.Talk("run", (claws.Line("Which port?"), said))])
    if is_indexed:
        Archive.open(path).close()
    with Archive.open(path, read_only=True) as archive:
        assert not any(problem.check == "parts" for problem in verify_archive(archive).problems)
    with apsw.Connection(str(path)) as other:
        other.execute("UPDATE message_parts SET text_content = 'port 1'")
    with Archive.open(path, read_only=True) as archive:
        (found,) = [problem for problem in verify_archive(archive).problems if problem.check == "parts"]
        assert (found.table, found.severity) == ("message_parts", "error" if is_indexed else "warning")


@pytest.mark.parametrize("column", ["earliest_at", "latest_at"])
@pytest.mark.parametrize("depth", [0, 1])
def test_times_that_are_not_those_of_the_sources_are_found(path: Path, column: str, depth: int) -> None:
    with surgery_kit.open_engine(path) as engine:
        surgery_kit.told(engine)
        with engine.archive.writing():
            change = f"UPDATE summaries SET {column} = strftime('%Y-%m-%dT%H:%M:%fZ', {column}, '+1 seconds')"
            engine.archive.database.run(f"{change} WHERE depth = ?", (depth,))
        found = engine.verify().problems
        assert {(problem.check, problem.table) for problem in found} == {("rows", "summaries")}
        assert all("its times do not match" in problem.detail for problem in found)


def test_what_others_write_meanwhile_is_no_damage(path: Path) -> None:
    """A writer beside us changes rows, contexts and the index between two checks: all of them look at one state."""
    talk = [{"role": "user", "content": f"m {n} " * 30} for n in range(6)]
    with open_engine(path) as engine, open_engine(path) as other:
        engine.append(SESSION, talk)
        written: list[int] = []

        def meanwhile(checked: int) -> None:
            other.append(SESSION, [{"role": "user", "content": f"more {len(written)}"}])
            fold(other.archive, f"sum_{len(written)}", 0, 2)
            written.append(checked)

        assert engine.verify(meanwhile).problems == ()
        assert written
        assert problems(engine) == []


@pytest.mark.parametrize(
    ("statement", "is_damage"),
    [
        pytest.param("UPDATE large_files SET conversation_id = 2", True, id="only the file"),
        pytest.param("UPDATE messages SET conversation_id = 2", False, id="only messages, as others move them"),
        pytest.param(
            "UPDATE large_files SET conversation_id = 2; UPDATE messages SET conversation_id = 2", False, id="both"
        ),
        pytest.param(
            "UPDATE large_files SET conversation_id = 2; INSERT INTO messages (conversation_id, seq, role, content,"
            " token_count, large_content) SELECT 2, 9, role, content, token_count, file_id FROM messages, large_files"
            " WHERE seq = 1",
            False,
            id="one that a fork has, too",
        ),
    ],
)
def test_a_file_of_another_conversation_than_its_messages_is_found(path: Path, statement: str, is_damage: bool) -> None:
    with surgery_kit.open_engine(path, large_file_threshold_tokens=1000) as engine:
        engine.append(surgery_kit.HERE, [{"role": "user", "content": "port = 8443\n" * 1000}])
        engine.new(surgery_kit.HERE)
        engine.reset(surgery_kit.HERE)
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    connection.close()
    with Archive.open(path, read_only=True) as archive:
        found = [problem for problem in verify_archive(archive).problems if "and those of another" in str(problem)]
    assert [(problem.table, problem.severity) for problem in found] == [("large_files", "error")] * is_damage


def test_a_recipe_of_a_newer_version_is_a_finding_and_no_obstacle(path: Path) -> None:
    with surgery_kit.open_engine(path, large_file_threshold_tokens=1000) as engine:
        engine.append(SESSION, [{"role": "user", "content": "<file name='a.txt'>" + "words " * 2000 + "</file>"}])
        assert engine.verify().ok
    with apsw.Connection(str(path)) as database:
        database.execute(
            "UPDATE message_parts SET metadata = json_set(metadata, '$.restore', json('{\"version\": 2}'))"
        )
    with surgery_kit.open_engine(path, large_file_threshold_tokens=1000) as engine:
        found = [str(problem.detail) for problem in engine.verify().problems if problem.check == "files"]
        (message,) = engine.assemble(SESSION, budget=9_000).messages
    assert found == ["its original cannot be rebuilt: a recipe for an original that this version cannot read"]
    assert message["content"].startswith("[LCM File: file_")
