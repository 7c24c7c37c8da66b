"""The examination: each thing that goes wrong is found, nothing else is, and each remedy helps."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.errors import BadInput, ModelAuth, Stale
from lossless.maintenance import repair
from lossless.maintenance.doctor import examine
from lossless.store.archive import Archive
from lossless.testing import Scripted, VirtualClock
from tests.maintenance.surgery_kit import HERE, copies, open_engine, prove, rows, talk, told

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from lossless.maintenance.doctor import Examination


def kinds(found: Examination, severity: str = "problem") -> list[str]:
    return [finding.kind for finding in found.findings if finding.severity == severity]


def sql(engine: lossless.Engine, statement: str, *params: object) -> None:
    """What another program does to the file."""
    with engine.archive.writing():
        engine.archive.database.run(statement, params)


def test_a_good_archive_is_healthy(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
        found = engine.admin.examine()
        assert found.healthy
        assert found.findings == ()
        assert found.text == "healthy"
        assert (found.schema, found.version) == (found.schema_expected, lossless.__version__)


def test_it_reads_only(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
    before = path.read_bytes()
    with Archive.open(path, read_only=True) as archive:
        assert examine(archive, VirtualClock()()).healthy
    assert path.read_bytes() == before


def test_an_index_that_drifts_is_found(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
        sql(engine, "DELETE FROM message_index WHERE rowid = 7")
        sql(engine, "UPDATE summaries SET content = content || '.' WHERE depth = 2")
        found = engine.admin.examine()
        assert kinds(found) == ["index.drift"]
        assert "msg#7" in found.findings[0].ids


def test_files_without_rows_and_rows_without_files(path: Path) -> None:
    with open_engine(path, large_file_threshold_tokens=1000) as engine:
        call: dict[str, Any] = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        engine.append(HERE, [talk(1)[0], {"role": "assistant", "content": None, "tool_calls": [call]}])
        engine.append(HERE, [{"role": "tool", "tool_call_id": "call_1", "content": "line\n" * 3000}])
        assert engine.admin.examine().healthy
        ((place,),) = rows(engine, "SELECT storage_uri FROM large_files")
        sql(engine, "UPDATE large_files SET storage_uri = storage_uri || '.gone'")
        assert kinds(engine.admin.examine()) == ["files.missing"]
        assert str(path.parent) in place


def test_debts_that_nobody_pays(path: Path) -> None:
    with open_engine(path) as engine:
        here = told(engine)
        sql(
            engine,
            "INSERT INTO conversation_compaction_maintenance (conversation_id, pending, reason, requested_at)"
            " VALUES (?, 1, 'threshold', '2026-01-01T00:00:00Z')",
            here,
        )
        assert kinds(engine.admin.examine(), "note") == ["debt.pending"]
        sql(engine, "UPDATE conversation_compaction_maintenance SET running = 1")
        assert kinds(engine.admin.examine(), "warning") == ["debt.stuck"]
        sql(engine, "UPDATE conversation_compaction_maintenance SET running = 0, last_failure_summary = 'no'")
        assert kinds(engine.admin.examine(), "warning") == ["debt.failing"]
        with pytest.raises(BadInput, match="is active"):
            engine.admin.close_debt_plan(here)
        engine.reset(HERE)
        assert kinds(engine.admin.examine(), "warning") == ["debt.inactive"]
        work = engine.admin.close_debt_plan(here)
        sql(engine, "UPDATE conversation_compaction_maintenance SET maintenance_revision = maintenance_revision + 1")
        with pytest.raises(Stale):
            engine.admin.close_debt(work)
        work = engine.admin.close_debt_plan(here)
        engine.admin.close_debt(work)
        assert engine.admin.examine().findings == ()
        assert copies(path) == ["maintenance", "maintenance"]
        debt = engine.archive.guards.debt(here)
        assert debt is not None
        assert (debt.pending, debt.resolution_reason) == (False, "operator-ignored")
        with pytest.raises(BadInput, match="no pending compaction"):
            engine.admin.close_debt_plan(here)
        prove(engine)


def test_splits_are_found_and_merging_helps(path: Path) -> None:
    with open_engine(path) as engine:
        here = told(engine, 30)
        with engine.archive.writing():
            engine.archive.conversations.archive(here, "rollover-fallback", engine.clock())
        engine.append(HERE, talk(4, "later"))
        found = engine.admin.examine()
        assert (kinds(found, "warning"), found.healthy) == (["split"], True)
        assert found.findings[0].remedy == "lcm doctor rollover-splits --apply"
        engine.surgery.merge(str(HERE.key))
        assert kinds(engine.admin.examine(), "warning") == []


def test_blocked_input_and_open_breakers(path: Path) -> None:
    with open_engine(path) as engine:
        here = told(engine, 4)
        with engine.archive.writing():
            engine.archive.ingest.block(here, "nothing in common", engine.clock())
            until = engine.clock() + timedelta(minutes=5)
            engine.archive.guards.set_breaker("provider:p;model:m", 5, until, engine.clock())
        assert kinds(engine.admin.examine(), "warning") == ["blocked", "breaker"]


def test_rows_that_were_stored_twice_are_noted(path: Path) -> None:
    with open_engine(path) as engine:
        engine.append(HERE, [talk(1)[0], talk(1)[0], talk(1)[0]])
        found = engine.admin.examine()
        assert kinds(found, "note") == ["duplicates"]
        assert found.healthy


def test_models_are_asked_only_when_configured_and_wanted(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine, 4)
        assert engine.admin.examine(ask_models=True).models == ()
    with open_engine(path, Scripted()) as engine:
        (check,) = engine.admin.examine(ask_models=True).models
        assert check["ok"]
        assert engine.admin.examine().models == ()
    with open_engine(path, Scripted(then=ModelAuth("no"))) as engine:
        found = engine.admin.examine(ask_models=True)
        assert kinds(found, "warning") == ["model"]
        assert rows(engine, "SELECT * FROM spend_ledger") == []


# --- clean -----------------------------------------------------------------------------------------------------


TASK = "[Subagent Context] You are running as a subagent."


def leftovers(engine: lossless.Engine) -> None:
    """One conversation for each filter, and some that stay."""
    told(engine, 20)
    for key in ("agent:main:subagent:a", "agent:main:cron:b"):
        session = lossless.Session(key=key, id=f"run-{key}")
        engine.append(session, talk(20, key))
        engine.compact(session, budget=4000, force=True)
        found = engine.archive.conversations.find(session)
        assert found is not None
        with engine.archive.writing():
            engine.archive.conversations.archive(found.id, "session-end", engine.clock())
    first = {"role": "user", "content": TASK}
    nameless = engine.append(lossless.Session(id="nameless"), [first, talk(2)[1]]).conversation_id
    assert nameless is not None
    with engine.archive.writing():
        engine.archive.conversations.archive(nameless, "session-end", engine.clock())
    engine.append(lossless.Session(id="at work"), [first])
    engine.append(lossless.Session(key="agent:main:subagent:alive"), talk(2))


def meant(engine: lossless.Engine, now: datetime) -> dict[str, list[int]]:
    """The conversations that each filter means at a moment."""
    return {
        id_: [held.id for held in repair.plan_clean(engine.archive, id_, now).conversations]
        for id_ in repair.CLEAN_FILTERS
    }


def test_the_filters_mean_what_they_say(path: Path) -> None:
    with open_engine(path) as engine:
        leftovers(engine)
        found = meant(engine, engine.clock())
        assert found == {"archived_subagents": [2], "cron_sessions": [3], "null_subagent_context": [4]}
        assert engine.admin.examine().healthy
        with pytest.raises(BadInput, match="no filter"):
            engine.admin.clean_plans("everything")


@pytest.mark.parametrize(
    ("session", "said", "filter_id"),
    [
        pytest.param({"id": "x"}, TASK, "null_subagent_context", id="bare"),
        pytest.param({"id": "x"}, f"[Fri 2026-04-24 15:31 GMT+8] {TASK}", "null_subagent_context", id="with the time"),
        pytest.param({"id": "x"}, f"What does {TASK!r} mean?", None, id="words of a person"),
        pytest.param({"id": "x"}, f"[a]{'x' * 90}[b] {TASK}", None, id="too late"),
        pytest.param({"key": "agent:main:main"}, TASK, None, id="with a key"),
        pytest.param({"key": "agent:main:cron:b"}, "Check the mail.", "cron_sessions", id="a job"),
        pytest.param({"key": "agent:main:telegram:cron:b"}, "Hello.", None, id="a group of that name"),
        pytest.param({"key": "agent:main:subagent:b"}, TASK, None, id="an open sub-agent"),
    ],
)
def test_open_conversations_are_left_until_they_are_silent_for_a_day(
    path: Path, session: dict[str, str], said: str, filter_id: str | None
) -> None:
    with open_engine(path) as engine:
        engine.append(lossless.Session(**session), [{"role": "system", "content": "Be brief."}])
        id_ = engine.append(lossless.Session(**session), [{"role": "user", "content": said}]).conversation_id
        soon, later = engine.clock() + timedelta(hours=23), engine.clock() + timedelta(hours=25)
        assert not any(meant(engine, soon).values())
        assert [name for name, ids in meant(engine, later).items() if ids == [id_]] == (
            [filter_id] if filter_id else []
        )
        with engine.archive.writing():
            engine.archive.guards.take_lease(f"compact:{id_}", "worker", later, timedelta(minutes=1))
        assert not any(meant(engine, later).values())


def test_what_another_one_needs_stays_and_what_that_one_needs(path: Path) -> None:
    with open_engine(path) as engine:
        for n in range(3):
            engine.append(lossless.Session(id=f"run-{n}"), [{"role": "user", "content": TASK}, *talk(2, n)])
        engine.append(HERE, talk(2))
        sql(
            engine,
            "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id) VALUES (4, 90, 'message', 1)",
        )
        sql(
            engine,
            "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id) VALUES (1, 90, 'message', 4)",
        )
        assert meant(engine, engine.clock() + timedelta(days=2))["null_subagent_context"] == [3]


@pytest.mark.parametrize("filter_id", [*repair.CLEAN_FILTERS, repair.ALL_FILTERS])
def test_cleaning_deletes_what_the_filter_means_and_nothing_else(path: Path, filter_id: str) -> None:
    with open_engine(path) as engine:
        leftovers(engine)
        work = repair.plan_clean(engine.archive, filter_id, engine.clock())
        kept = {row[0] for row in rows(engine, "SELECT conversation_id FROM conversations")}
        kept -= {held.id for held in work.conversations}
        done = engine.admin.clean(work, vacuum=True)
        assert (done.conversations, done.vacuumed, done.refusal) == (
            3 if filter_id == repair.ALL_FILTERS else 1,
            True,
            None,
        )
        assert {row[0] for row in rows(engine, "SELECT conversation_id FROM conversations")} == kept
        assert copies(path) == ["doctor-clean"]
        prove(engine)
        assert repair.plan_clean(engine.archive, filter_id, engine.clock()).conversations == ()


def test_cleaning_stops_when_something_came_in_between(path: Path) -> None:
    with open_engine(path) as engine:
        leftovers(engine)
        work = repair.plan_clean(engine.archive, "null_subagent_context", engine.clock())
        with engine.archive.writing():
            engine.archive.database.run(
                "INSERT INTO messages (conversation_id, seq, role, content, token_count) VALUES (4, 9, 'user', 'm', 1)"
            )
        with pytest.raises(Stale):
            engine.admin.clean(work)
        assert rows(engine, "SELECT count(*) FROM conversations") == [(6,)]


def test_what_is_extracted_without_a_model_is_never_a_broken_summary(path: Path) -> None:
    with open_engine(path, fresh_tail_count=2, leaf_chunk_tokens=1500) as engine:
        engine.append(HERE, [{"role": "user", "content": text} for text in ("a 77 " * 20, "now", "ok")])
        engine.compact(HERE, budget=50, force=True)
        assert engine.admin.examine().findings == ()
        engine.append(HERE, [{"role": "user", "content": "yes and no and so on " * 300}, *talk(4)])
        engine.compact(HERE, budget=50, force=True)
        assert rows(engine, "SELECT count(*) FROM summaries")[0][0] > 0
        assert engine.admin.examine().findings == ()
        prove(engine)


def test_rows_of_other_programs_are_behind_until_they_are_indexed(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
        sql(engine, "DELETE FROM message_index WHERE rowid <= 3")
        sql(engine, "DELETE FROM message_extras WHERE message_id <= 3")
        (one,) = [finding for finding in engine.admin.examine().findings if finding.kind == "index.behind"]
        assert (one.severity, one.message) == ("note", "3 rows of other programs are not indexed yet")


def test_files_that_no_row_knows(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
        assert engine.vault is not None
        orphan = engine.vault.write(1, "file_0123456789abcdef", "txt", b"nobody's")
        assert engine.admin.examine().findings == ()  # it may be about to get its row
        os.utime(orphan, (0, 0))
        (one,) = engine.admin.examine().findings
        assert (one.kind, one.severity, one.ids) == ("files.orphaned", "note", ("file_0123456789abcdef",))
        assert one.remedy == "lcm files gc --apply"


def test_a_folder_of_files_that_was_moved_along_is_found(path: Path, tmp_path: Path) -> None:
    with open_engine(path, large_file_threshold_tokens=1000, large_files_dir=str(tmp_path / "one")) as engine:
        engine.append(HERE, [{"role": "user", "content": f'<file name="a.txt">{"line" * 3000}</file>'}])
        assert rows(engine, "SELECT count(*) FROM large_files") == [(1,)]
    (tmp_path / "one").rename(tmp_path / "two")
    with open_engine(path, large_files_dir=str(tmp_path / "two")) as engine:
        assert engine.admin.examine().findings == ()
        prove(engine)


def test_messages_that_were_seen_and_lost(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
        sql(engine, "UPDATE ingest_state SET seen = seen + 2")
        assert "lost" in kinds(engine.admin.examine())
        (one,) = [finding for finding in engine.admin.examine().findings if finding.kind == "lost"]
        assert one.message.startswith("2 messages were seen")


def test_a_file_of_another_version_is_said(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
        sql(engine, "UPDATE archive_state SET value = 0 WHERE name = 'schema'")
        assert kinds(engine.admin.examine(), "note") == ["schema"]
        sql(engine, "UPDATE archive_state SET value = 99 WHERE name = 'schema'")
        assert kinds(engine.admin.examine()) == ["schema"]
        sql(engine, "DELETE FROM archive_state WHERE name = 'schema'")
        (one,) = engine.admin.examine().findings
        assert (one.kind, one.severity, one.remedy) == ("schema", "note", "lcm worker")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE messages SET token_count = 999999 WHERE message_id = 3",
        "UPDATE summaries SET descendant_count = 0 WHERE depth = 1",
        "UPDATE summaries SET earliest_at = '2030-01-01T00:00:00.000Z' WHERE depth = 1",
        "UPDATE summaries SET file_ids = '{bad' WHERE depth = 0",
        "UPDATE context_items SET ordinal = ordinal + 5000 WHERE ordinal = (SELECT min(ordinal) FROM context_items)",
    ],
)
def test_rows_that_break_a_rule_are_found(path: Path, statement: str) -> None:
    with open_engine(path) as engine:
        told(engine)
        sql(engine, statement)
        found = engine.admin.examine()
        assert kinds(found) == ["rows"]
        assert "break a rule" in found.text
        assert not engine.verify().ok


def test_what_another_conversation_needs_is_not_offered_for_deletion(path: Path) -> None:
    cron = lossless.Session(key="agent:main:cron:nightly:run:1", id="run-cron")
    with open_engine(path) as engine:
        id_ = told(engine, session=cron)
        engine.append(HERE, talk(2))
        with engine.archive.writing():
            engine.archive.conversations.archive(id_, "cron-rotation", engine.clock())
        assert "clean.cron_sessions" in kinds(engine.admin.examine(), "note")
        borrow = (
            "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id) VALUES (2, 9, 'message', 5)"
        )
        sql(engine, borrow)
        assert "clean.cron_sessions" not in kinds(engine.admin.examine(), "note")
        assert repair.plan_clean(engine.archive, "cron_sessions", engine.clock()).conversations == ()
