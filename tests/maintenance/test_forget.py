"""Forgetting on purpose: gone from every file, provably; and it does not come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import lossless
from lossless.errors import ArchiveLocked, BadInput, NotFound
from lossless.maintenance.forget import prove_absence
from lossless.model.context import EXTRACTIVE_MODEL
from lossless.model.masking import FORGOTTEN
from lossless.testing.strategies import anthropic_messages, openai_chat_messages, openclaw_messages
from lossless.transfer.lossless_claw import import_lossless_claw
from tests.faults import Fault, dump, failing_at, statements_of
from tests.maintenance.keeping import open_engine, words
from tests.maintenance.transcript_files import TranscriptFile

WORD = "quaggahunter"
PHRASE = f'the code is "{WORD}" so'
SESSION = lossless.Session(key="agent:main:main", id="run-1")
OTHER = lossless.Session(key="agent:main:other", id="run-2")
Raw = dict[str, Any]


def window() -> list[Raw]:
    """A talk that has the phrase in every place where words can be."""
    call = {"id": "call_0123456789ab", "name": "read", "input": {"path": f"/x/{PHRASE}", PHRASE: 1}}
    talk: list[Raw] = [{"role": "user", "content": f"{n}: {words(n)} {PHRASE if n == 3 else ''}"} for n in range(6)]
    talk += [
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": f"I see {PHRASE}", "signature": "c2lnbmVk"},
            {"type": "text", "text": f"Reading. {PHRASE}"}, {"type": "tool_use", **call}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call["id"], "content": f"{PHRASE}\n" + words("r", 3000)}]},
        {"role": "assistant", "content": "done, and nothing else"},
        {"role": "user", "content": "thanks"},
    ]  # fmt: skip
    return talk


def absent(engine: lossless.Engine, *phrases: str) -> list[str]:
    """Where words still are."""
    found = prove_absence(engine.archive.path, engine.vault, phrases or (PHRASE, WORD))
    assert not found.unreadable
    return [f"{trace['file']}: {trace['place']}" for trace in found.traces]


def contents(engine: lossless.Engine, session: lossless.Session = SESSION) -> list[str]:
    conversation = engine.archive.conversations.find(session)
    assert conversation is not None
    return [one.message.content for one in engine.archive.messages.in_order(conversation.id, limit=10_000)]


def sound(engine: lossless.Engine) -> None:
    assert [str(problem) for problem in engine.verify().problems] == []


def rows(engine: lossless.Engine, sql: str) -> list[Any]:
    return engine.archive.database.rows(sql)


@pytest.fixture
def engine(tmp_path: Path) -> lossless.Engine:
    """An archive that holds the phrase everywhere."""
    engine = open_engine(tmp_path / "lcm.db", fresh_tail_count=2)
    with engine.archive.writing():
        for statement in (
            "CREATE VIRTUAL TABLE messages_fts USING fts5 (content, tokenize='porter unicode61')",
            "CREATE VIRTUAL TABLE summaries_fts USING fts5 (summary_id UNINDEXED, content)",
            "CREATE TABLE notes_of_others (id INTEGER PRIMARY KEY, note TEXT)",
        ):
            engine.archive.database.run(statement)
        engine.archive.database.run("INSERT INTO notes_of_others (note) VALUES (?)", (f"so: {PHRASE}",))
    vars(engine.archive.index).pop("upstream", None)
    engine.sync(SESSION, window())
    edited = window()
    edited[1]["content"] = f"1: {words(1)} {PHRASE} more"
    engine.sync(SESSION, edited)
    engine.sync(SESSION, window())
    engine.compact(SESSION, force=True)
    engine.pin(SESSION, f"never forget {PHRASE}")
    (conversation,) = [engine.archive.conversations.find(SESSION)]
    assert conversation is not None
    with engine.archive.writing():
        engine.archive.conversations.give_title(conversation.id, f"About {PHRASE}")
        engine.archive.transcripts.keep_records(conversation.id, [("r1", "note", {"type": "note", "text": PHRASE})])
    engine.backup()
    return engine


def test_a_phrase_is_gone_from_every_file(engine: lossless.Engine) -> None:
    places = " ".join(absent(engine))
    for place in (
        "messages.content", "message_parts.metadata", "message_parts.tool_input", "message_versions.body", "summaries",
        "pins.content", "conversations.title", "transcript_records.record", "messages_fts_content", "large_files",
        "notes_of_others.note", ".bak:", "lcm-files",
    ):  # fmt: skip
        assert place in places, place
    plan = engine.admin.forget_plan([PHRASE, WORD])
    before = dump(engine.archive.path)
    assert dump(engine.archive.path) == before
    report = engine.admin.forget([PHRASE, WORD])
    assert report.left == ()
    assert report.archive.message_ids == plan.archive.message_ids
    assert (report.archive.files, report.archive.elsewhere) == (plan.archive.files, plan.archive.elsewhere)
    assert len(report.backups) == 1
    assert absent(engine) == []
    sound(engine)
    assert any(FORGOTTEN in text for text in contents(engine))
    assert rows(engine, "SELECT note FROM notes_of_others") == [(f"so: {FORGOTTEN}",)]
    engine.close()


def test_backups_are_sound_and_restored_without_it(engine: lossless.Engine) -> None:
    report = engine.admin.forget([PHRASE, WORD])
    ((path, _),) = report.backups
    with lossless.open(path, background=False) as backup:
        assert [str(problem) for problem in backup.verify().problems if problem.severity == "error"] == []
        assert not any(WORD in text for text in contents(backup))
    assert engine.admin.forget_plan([PHRASE]).is_nothing


def test_who_shows_it_again_does_not_bring_it_back(engine: lossless.Engine) -> None:
    count = len(contents(engine))
    engine.admin.forget([PHRASE, WORD])
    again = engine.sync(SESSION, window())
    assert (again.stored, again.revised, again.replayed) == (0, 0, len(window()))
    longer = [*window(), {"role": "assistant", "content": f"as I said: {PHRASE}"}]
    assert engine.sync(SESSION, longer).stored == 1
    assert engine.sync(SESSION, longer).stored == 0
    assert engine.sync(OTHER, window()).stored == len(window())
    assert len(contents(engine)) == count + 1
    assert absent(engine) == []
    sound(engine)


def test_a_batch_with_the_same_key_is_still_the_same_batch(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        turn = [{"role": "user", "content": f"psst: {PHRASE}"}]
        assert engine.append(SESSION, turn, key="turn-1").stored == 1
        engine.admin.forget([PHRASE])
        assert engine.append(SESSION, turn, key="turn-1").stored == 0
        assert contents(engine) == [f"psst: {FORGOTTEN}"]


def test_a_transcript_that_is_read_again_does_not_bring_it_back(tmp_path: Path) -> None:
    file = TranscriptFile(tmp_path / "t.jsonl")
    file.say_all("one", f"two {PHRASE}", "three")
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.bootstrap(SESSION, file.path)
        engine.admin.forget([PHRASE, WORD])
        file.say(f"four {PHRASE}", "e-4")
        file.write({"type": "custom", "id": "n1", "parentId": "e-4", "data": PHRASE})
        engine.bootstrap(SESSION, file.path)
        engine.archive.database.run(
            "UPDATE conversation_bootstrap_state SET last_processed_offset = 0, last_seen_size = 0"
        )
        engine.bootstrap(SESSION, file.path)
        engine.bootstrap(OTHER, file.path)
        assert contents(engine) == ["one", f"two {FORGOTTEN}", "three", f"four {FORGOTTEN}"]
        names = rows(engine, "SELECT 1 FROM messages WHERE transcript_entry_id LIKE '%quagga%'")
        assert len(names) == 2  # the host's own name of an entry stays what it is
        assert {place.partition(": ")[2].partition(",")[0] for place in absent(engine)} <= {
            "messages.transcript_entry_id", "transcript_state.front", "bytes",
            "conversation_bootstrap_state.last_processed_entry_id",
        }  # fmt: skip
        sound(engine)


def test_summaries_are_written_anew_from_what_is_left(engine: lossless.Engine) -> None:
    with engine.archive.writing():
        engine.archive.database.run("UPDATE summaries SET model = 'm' WHERE rowid = (SELECT max(rowid) FROM summaries)")
    before = dict(rows(engine, "SELECT summary_id, model FROM summaries"))
    report = engine.admin.forget([PHRASE, WORD])
    after = dict(rows(engine, "SELECT summary_id, model FROM summaries"))
    assert before == after
    assert "m" in after.values()
    assert EXTRACTIVE_MODEL in after.values()
    assert report.archive.rewritten or report.archive.cut
    assert rows(
        engine, "SELECT count(*) FROM stale_summaries JOIN summaries USING (summary_id) WHERE model <> 'm'"
    ) == [(0,)]
    assert not any(WORD in text for (text,) in rows(engine, "SELECT content FROM summaries"))
    sound(engine)


def test_a_message_loses_all_its_words(engine: lossless.Engine) -> None:
    (id_,) = [row[0] for row in rows(engine, "SELECT message_id FROM messages WHERE content LIKE 'Reading.%'")]
    plan = engine.admin.forget_plan(message_ids=[id_])
    assert plan.archive.message_ids == (id_,)
    engine.admin.forget(message_ids=[id_])
    left = engine.archive.messages.get(id_).message
    assert (left.content, [call.name for call in left.tool_calls]) == (FORGOTTEN, ["read"])
    assert "c2lnbmVk" not in str(dump(engine.archive.path))
    sound(engine)
    again = engine.sync(SESSION, window())
    assert (again.stored, again.revised) == (0, 0)
    assert engine.archive.messages.get(id_).message == left
    assert engine.archive.versions.of(id_) == ()


def test_a_short_text_is_forgotten_where_it_stood_and_a_long_one_everywhere(tmp_path: Path) -> None:
    long = "a long text about the harbour that nobody else would say"
    with open_engine(tmp_path / "lcm.db") as engine:
        for session in (SESSION, OTHER):
            engine.append(session, [{"role": "user", "content": text} for text in ("yes", long)])
        engine.admin.forget(message_ids=[1, 2])
        assert (contents(engine), contents(engine, OTHER)) == ([FORGOTTEN] * 2, ["yes", FORGOTTEN])
        third = lossless.Session(key="agent:main:third")
        engine.append(third, [{"role": "user", "content": text} for text in ("yes", long)])
        assert contents(engine, third) == ["yes", FORGOTTEN]
        sound(engine)


def test_its_payload_goes_with_a_message(engine: lossless.Engine) -> None:
    (id_,) = [
        row[0] for row in rows(engine, "SELECT message_id FROM messages WHERE content LIKE '%file\\_%' ESCAPE '\\'")
    ]
    assert engine.vault is not None
    assert [path for path in engine.vault.root.rglob("file_*") if path.is_file()]
    engine.admin.forget(message_ids=[id_])
    assert [path for path in engine.vault.root.rglob("file_*") if path.is_file()] == []
    assert rows(engine, "SELECT count(*) FROM large_files") == [(0,)]
    assert absent(engine, words("r", 3000)[200:260]) == []
    sound(engine)


def test_a_session_is_forgotten_and_others_stay(engine: lossless.Engine) -> None:
    engine.append(OTHER, [{"role": "user", "content": "thanks"}, {"role": "user", "content": words(1)}])
    report = engine.admin.forget(sessions=[SESSION])
    assert report.archive.emptied == len(contents(engine))
    assert set(contents(engine)) == {FORGOTTEN}
    assert contents(engine, OTHER) == ["thanks", words(1)]
    assert rows(engine, "SELECT DISTINCT title FROM conversations WHERE title IS NOT NULL") == [(FORGOTTEN,)]
    assert engine.sync(SESSION, window()).stored == 0
    sound(engine)


def test_tombstones_have_no_words_and_cost_nothing_where_there_are_none(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(SESSION, [{"role": "user", "content": f"so {PHRASE}"}])
        database = engine.archive.database
        turn = [{"role": "user", "content": "more"}]
        seen = statements_of(database, lambda: engine.append(SESSION, turn))
        assert sum("tombstones" in statement for statement in seen) == 1
        engine.admin.forget([PHRASE])
        found = rows(engine, "SELECT * FROM tombstones")
        assert len(found) == 3  # as it is, inside of JSON, and inside of JSON in JSON
        assert not any(isinstance(value, str) for row in found for value in row)


@pytest.mark.parametrize("asked", [{"phrases": [PHRASE]}, {"message_ids": [4]}])
def test_a_fault_leaves_the_old_archive_or_the_new_one(tmp_path: Path, asked: dict[str, Any]) -> None:
    def make(name: str) -> lossless.Engine:
        engine = open_engine(tmp_path / name, fresh_tail_count=2)
        engine.sync(SESSION, window())
        engine.compact(SESSION, force=True)
        return engine

    whole = make("whole.db")
    steps = len(statements_of(whole.archive.database, lambda: whole.admin.forget(**asked)))
    engine = make("lcm.db")
    old = dump(engine.archive.path)
    done = 0
    for number in [*range(0, steps // 2, 12), *range(steps // 2, steps, 3)]:
        try:
            with failing_at(engine.archive.database, number):
                engine.admin.forget(**asked)
        except Fault:
            now = dump(engine.archive.path)
            if now != old:  # all rows are rewritten: what is left to do is done by the next one
                assert not any(WORD in str(row) for table in now.values() for row in table) or "message_ids" in asked
                done += 1
                break
    assert done
    (warning,) = engine.verify().problems
    assert (warning.check, warning.severity) == ("forgetting", "warning")
    engine.admin.forget(**asked)
    if "phrases" in asked:
        assert absent(engine) == []
    sound(engine)
    assert rows(engine, "SELECT 1 FROM archive_state WHERE name = 'forgetting'") == []


def test_names_that_a_format_needs_stay_and_are_told(engine: lossless.Engine) -> None:
    report = engine.admin.forget(["tool_use", "agent:main"])
    assert [reason.partition(" ")[2] for reason in report.left if "messages have it" in reason]
    assert any(reason.startswith("conversations.session_key") for reason in report.left)
    sound(engine)


def test_a_reader_keeps_the_log_and_is_named(engine: lossless.Engine) -> None:
    other = apsw.Connection(engine.archive.path)
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM messages").fetchall()
    engine.archive.database.connection().set_busy_timeout(50)
    report = engine.admin.forget([PHRASE, WORD])
    assert any("database" in reason for reason in report.left)
    other.execute("COMMIT")
    other.close()
    assert engine.admin.forget([PHRASE, WORD]).left == ()
    assert absent(engine) == []


def test_no_backup_is_touched_when_the_archive_cannot_be_written(engine: lossless.Engine) -> None:
    (backup,) = Path(engine.archive.path).parent.glob("*.bak")
    before = backup.read_bytes()
    other = apsw.Connection(engine.archive.path)
    other.execute("BEGIN IMMEDIATE")
    engine.archive.database.connection().set_busy_timeout(50)
    with pytest.raises(ArchiveLocked):
        engine.admin.forget([PHRASE, WORD])
    other.execute("ROLLBACK")
    other.close()
    assert backup.read_bytes() == before
    assert engine.admin.forget([PHRASE, WORD]).left == ()


def test_a_backup_in_which_it_was_stopped_is_finished(engine: lossless.Engine) -> None:
    engine.admin.forget([PHRASE, WORD])
    (backup,) = Path(engine.archive.path).parent.glob("*.bak")
    connection = apsw.Connection(str(backup))
    connection.execute("INSERT INTO archive_state (name, value) VALUES ('forgetting', '[]')")
    connection.close()
    engine.admin.forget([PHRASE, WORD])
    with lossless.open(backup, background=False) as opened:
        assert "forgetting" not in {problem.check for problem in opened.verify().problems}
    with engine.archive.writing():
        engine.archive.database.run("INSERT INTO archive_state (name, value) VALUES ('forgetting', x'00ff')")
    assert [problem.check for problem in engine.verify().problems] == ["forgetting"]
    assert engine.admin.forget([PHRASE, WORD]).resumed
    sound(engine)


def test_bad_asks_are_refused(engine: lossless.Engine) -> None:
    for phrases in ([], ["ab"]):
        with pytest.raises(BadInput):
            engine.admin.forget(phrases)
    with pytest.raises(NotFound):
        engine.admin.forget(message_ids=[999])
    with pytest.raises(NotFound):
        engine.admin.forget(sessions=[lossless.Session(key="nobody")])


@hypothesis_settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.lists(openai_chat_messages(), min_size=1, max_size=5),
        st.lists(anthropic_messages(), min_size=1, max_size=5),
        st.lists(openclaw_messages(), min_size=1, max_size=5),
    ),
    st.data(),
)
def test_whatever_was_said_a_forgotten_piece_is_gone_and_stays_gone(
    tmp_path_factory: pytest.TempPathFactory, said: list[Raw], data: st.DataObject
) -> None:
    with open_engine(tmp_path_factory.mktemp("forget") / "lcm.db") as engine:
        engine.sync(SESSION, said)
        texts = [text for text in contents(engine) if len(text) > 6 and text.isprintable()] if _is_there(engine) else []
        if not texts:
            return
        text = data.draw(st.sampled_from(texts))
        start = data.draw(st.integers(0, len(text) - 6))
        phrase = text[start : start + data.draw(st.integers(6, 20))]
        try:
            engine.admin.forget([phrase])
        except BadInput:
            return
        sound(engine)
        assert not any(phrase in text for text in contents(engine))
        count = len(contents(engine))
        report = engine.sync(SESSION, said)
        assert (report.stored, report.revised, len(contents(engine))) == (0, 0, count)
        sound(engine)


def _is_there(engine: lossless.Engine) -> bool:
    return engine.archive.conversations.find(SESSION) is not None


def test_an_archive_that_is_imported_does_not_bring_it_back(engine: lossless.Engine, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    copy = tmp_path / "elsewhere" / "copy.db"
    engine.backup(copy)
    engine.admin.forget([PHRASE, WORD])
    (id_,) = [row[0] for row in rows(engine, "SELECT message_id FROM messages WHERE content LIKE 'done, and%'")]
    engine.admin.forget(message_ids=[id_])
    before = contents(engine)
    report = import_lossless_claw(copy, engine.archive, engine.vault)
    assert report.messages_inserted == 0
    assert contents(engine) == before
    assert absent(engine) == []
    with open_engine(tmp_path / "fresh.db") as fresh:
        fresh.admin.forget([WORD])
        import_lossless_claw(copy, fresh.archive, fresh.vault)
        assert len(contents(fresh)) == len(before)
        assert not any(WORD in text for text in contents(fresh))
        assert [trace["place"] for trace in prove_absence(fresh.archive.path, None, [WORD]).traces] == []
