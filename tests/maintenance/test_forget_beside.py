"""Forgetting beside everything else: prepared and stale summaries, quarantine, versions, digests to guess from."""

from __future__ import annotations

import json
from hashlib import blake2b, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless import formats
from lossless.ingest import sessions
from lossless.ingest.window import window_prints
from lossless.maintenance.forget import prove_absence
from lossless.model.identity import checkpoint_hash, fingerprint, identity_hash, words_digest
from lossless.model.masking import FORGOTTEN
from lossless.testing import VirtualClock
from tests.compaction import loop_kit as loop
from tests.maintenance.keeping import NOW, open_engine, words
from tests.maintenance.test_forget import contents, rows, sound

if TYPE_CHECKING:
    from lossless.llm.completion import Prompt

WORD = "quaggahunter"
SESSION = lossless.Session(key="agent:main:main", id="run-1")
SECRET = {"role": "user", "content": f"pin {WORD}"}
Raw = dict[str, Any]


def gone(engine: lossless.Engine, *phrases: str) -> None:
    """The words are in no file of the archive, and it is sound."""
    found = prove_absence(engine.archive.path, engine.vault, phrases or (WORD,))
    assert [f"{trace['file']}: {trace['place']}" for trace in found.traces] == []
    assert found.ok
    sound(engine)


def digests_of(message: Raw) -> dict[str, bytes]:
    """Everything that is worked out from a message without a key: who holds it can try words until they fit."""
    decoded = formats.decode(message)
    role, content = decoded.role, decoded.content
    print_ = fingerprint(decoded)
    body = json.dumps(message, ensure_ascii=False).encode()
    record = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    return {
        "fingerprint": print_,
        "words": words_digest(decoded),
        "print": window_prints([message]),
        "identity": bytes.fromhex(identity_hash(role, content)),
        "checkpoint": bytes.fromhex(checkpoint_hash(role, content)),
        "payload hash": sha256(print_).digest(),
        "second key": sha256(print_).digest()[:16],
        "line": blake2b(body, digest_size=8).digest(),
        "record": blake2b(record, digest_size=16).digest(),
    }


def guessable(engine: lossless.Engine, message: Raw) -> list[str]:
    """Which of these digests are in the file, as bytes or as hex."""
    engine.archive.database.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    data = Path(engine.archive.path).read_bytes()
    return [name for name, one in digests_of(message).items() if one in data or one.hex().encode() in data]


# --- digests -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [{"phrases": [WORD]}, {"message_ids": [2]}])
def test_no_digest_stays_that_the_words_could_be_guessed_from(tmp_path: Path, asked: Raw) -> None:
    claw = (
        "CREATE TABLE turn_advancements (advancement_key TEXT PRIMARY KEY, payload_hash TEXT NOT NULL, session_id TEXT,"
        " session_key TEXT, admission_entry_id TEXT, terminal_entry_id TEXT, message_count INTEGER, created_at TEXT)"
    )
    with open_engine(tmp_path / "lcm.db") as engine:
        with engine.archive.writing():
            engine.archive.database.run(claw)
        engine.append(SESSION, [{"role": "user", "content": "hello"}], key="turn-1")
        engine.append(SESSION, [SECRET], key="turn-2")
        engine.append(SESSION, [{"role": "user", "content": "another"}], key="turn-3")
        engine.append(SESSION, [SECRET], key="turn-3")
        engine.sync(SESSION, [{"role": "user", "content": text} for text in ("hello", SECRET["content"], "another")])
        before = set(guessable(engine, SECRET))
        assert {"fingerprint", "identity", "payload hash", "second key"} <= before
        engine.admin.forget(**asked)
        assert guessable(engine, SECRET) == []
        assert {row[0] for row in rows(engine, "SELECT length(payload_hash) FROM turn_advancements")} == {64}
        count = len(contents(engine))
        for key in ("turn-2", "turn-3"):
            assert engine.append(SESSION, [SECRET], key=key).stored == 0
        assert len(contents(engine)) == count
        assert guessable(engine, SECRET) == []
        sound(engine)


def write(path: Path, *texts: str) -> None:
    lines = [json.dumps({"role": "user", "content": text}) for text in texts]
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("asked", [{"phrases": [WORD]}, {"message_ids": [3]}])
def test_a_transcript_without_ids_is_known_by_its_lines(tmp_path: Path, asked: Raw) -> None:
    path, said = tmp_path / "chat.jsonl", ["one", "two", str(SECRET["content"]), "four"]
    write(path, *said[:3])
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.bootstrap(SESSION, path)
        assert {"line", "checkpoint"} <= set(guessable(engine, SECRET))
        engine.admin.forget(**asked)
        assert guessable(engine, SECRET) == []
        kept = contents(engine)
        assert kept[2] in (FORGOTTEN, f"pin {FORGOTTEN}")
        assert engine.bootstrap(SESSION, path).stored == 0
        write(path, *said)
        assert engine.bootstrap(SESSION, path).stored == 1
        engine.archive.database.run("UPDATE conversation_bootstrap_state SET last_processed_offset = 0")
        assert engine.bootstrap(SESSION, path).stored == 0
        assert contents(engine) == [*kept, "four"]
        write(path, *said, *said[2:3])
        engine.bootstrap(SESSION, path)
        assert len(contents(engine)) == 5
        assert guessable(engine, SECRET) == []
        gone(engine)


def test_what_is_masked_at_ingest_leaves_no_digest_either(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    write(path, "one", str(SECRET["content"]))
    with open_engine(tmp_path / "lcm.db", redact_patterns=(WORD,)) as engine:
        engine.bootstrap(SESSION, path)
        assert guessable(engine, SECRET) == []
        assert engine.bootstrap(SESSION, path).stored == 0
        write(path, "one", str(SECRET["content"]), "three")
        assert engine.bootstrap(SESSION, path).stored == 1
        assert [WORD in text for text in contents(engine)] == [False] * 3
        gone(engine)


def test_records_without_ids_take_the_digest_of_what_is_left(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(SESSION, [{"role": "user", "content": "hello"}])
        record = {"role": "user", "content": f"pin {WORD}"}
        with engine.archive.writing():
            engine.archive.transcripts.keep_records(1, [(None, "note", record), (None, "note", {"content": "else"})])
        assert "record" in guessable(engine, SECRET)
        engine.admin.forget([WORD])
        assert guessable(engine, SECRET) == []
        assert len(engine.archive.transcripts.records(1)) == 2
        with engine.archive.writing():
            masked = {"role": "user", "content": f"pin {FORGOTTEN}"}
            engine.archive.transcripts.keep_records(1, [(None, "note", masked)])
        assert len(engine.archive.transcripts.records(1)) == 2
        gone(engine)


def test_event_keys_that_hold_it_are_named(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        message = lossless.Message("assistant", "hello", event_key=f"msg_{WORD}")
        engine.append(SESSION, [message])
        assert rows(engine, "SELECT stable_event_key FROM messages") == [(f"msg_{WORD}",)]
        report = engine.admin.forget([WORD])
        assert any(reason.startswith("messages.stable_event_key") for reason in report.left)


# --- summaries -----------------------------------------------------------------------------------------------


class Gossip:
    """A model that repeats the word in every summary, and never says the same twice."""

    calls = 0

    def __call__(self, _: Prompt) -> str:
        self.calls += 1
        return f"Note {self.calls}: they spoke of the {WORD}."


@pytest.mark.parametrize("asked", ["phrase", "message"])
def test_prepared_summaries_lose_it_too_and_are_not_placed_as_they_are(tmp_path: Path, asked: str) -> None:
    model, said = Gossip(), loop.talk(30)
    said[3] = {"role": said[3]["role"], "content": f"{said[3]['content']} {WORD}"}
    with loop.open_engine(tmp_path / "lcm.db", model, VirtualClock(), prepare_summaries=True) as engine:
        engine.after_turn(loop.SESSION, new_messages=said, budget=loop.BUDGET)
        assert engine.maintain(loop.SESSION, budget=loop.BUDGET, allow=True) is None
        prepared = rows(engine, "SELECT added ->> 0 FROM context_log WHERE action = 'prepare'")
        assert len(prepared) == model.calls > 1
        if asked == "phrase":
            engine.admin.forget([WORD])
            gone(engine)
        else:
            engine.admin.forget(message_ids=[4])
            (leaf,) = rows(engine, "SELECT summary_id FROM summary_messages WHERE message_id = 4")[0]
            assert WORD not in engine.archive.summaries.get(leaf).content
            sound(engine)
        more = loop.talk(loop.SOFT - 30, first=30)
        engine.after_turn(loop.SESSION, new_messages=more, budget=loop.BUDGET)
        engine.compact(loop.SESSION, budget=loop.BUDGET, force=True)
        sound(engine)


def test_stale_summaries_and_their_corrections(tmp_path: Path) -> None:
    model = Gossip()
    with loop.open_engine(tmp_path / "lcm.db", model, VirtualClock()) as engine:
        window = loop.talk(40)
        engine.sync(loop.SESSION, window)
        engine.compact(loop.SESSION, budget=loop.BUDGET, force=True)
        window[2] = {"role": window[2]["role"], "content": f"{window[2]['content']} No: {WORD}"}
        engine.sync(loop.SESSION, window)
        assert rows(engine, "SELECT count(*) FROM stale_summaries")[0][0] > 0
        assert WORD in shown(engine)
        engine.admin.forget([WORD])
        gone(engine)
        assert WORD not in shown(engine)
        assert engine.sync(loop.SESSION, window).stored == 0
        gone(engine)


def shown(engine: lossless.Engine) -> str:
    made = engine.assemble(loop.SESSION, budget=loop.BUDGET)
    return json.dumps([made.messages, made.system_prompt], default=str)


# --- conversations that wait for a decision ------------------------------------------------------------------


@pytest.mark.parametrize("decision", ["accept", "refuse", "wait"])
@pytest.mark.parametrize("asked", ["phrase", "session"])
def test_quarantined_conversations(tmp_path: Path, asked: str, decision: str) -> None:
    flood = [{"role": "user", "content": f"stranger {n} {WORD if n == 50 else ''}"} for n in range(99)]
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.sync(SESSION, [{"role": "user", "content": f"own {n} {WORD}"} for n in range(3)])
        assert engine.sync(SESSION, flood).stored == 99
        (found,) = engine.archive.conversations.quarantined()
        if asked == "phrase":
            engine.admin.forget([WORD])
        else:
            engine.admin.forget(sessions=[SESSION])
        gone(engine)
        assert [one.conversation_id for one in engine.archive.conversations.quarantined()] == [found.conversation_id]
        if decision != "wait":
            decide = sessions.accept_quarantined if decision == "accept" else sessions.refuse_quarantined
            decide(engine.archive, found.conversation_id, NOW)
        engine.sync(SESSION, flood)
        gone(engine)
        assert rows(engine, "SELECT count(*) FROM messages") == [(102,)]


def test_words_forgotten_in_a_session_do_not_return_in_a_window_that_is_quarantined(tmp_path: Path) -> None:
    own = [{"role": "user", "content": f"own {n} {WORD}"} for n in range(3)]
    strangers = [{"role": "user", "content": f"stranger {n}"} for n in range(99)]
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.sync(SESSION, own)
        engine.sync(SESSION, [*own, {"role": "assistant", "content": "a longer answer to all of it"}])
        engine.admin.forget(sessions=[SESSION])
        report = engine.sync(SESSION, [*strangers[:50], own[1], *strangers[50:]])
        assert (report.cause, report.quarantine_id is not None) == ("disjoint", True)
        gone(engine)


# --- versions ------------------------------------------------------------------------------------------------


def test_versions_of_a_revised_message(tmp_path: Path) -> None:
    long = words("long", 200)
    wordings = [f"{long} and {WORD}", f"{long} and nothing", f"{long} and {WORD} again", long[:600], f"{WORD} {long}"]
    with open_engine(tmp_path / "lcm.db") as engine:
        rest = [{"role": "assistant", "content": "so it is"}, {"role": "user", "content": "go on"}]
        for text in wordings:
            engine.sync(SESSION, [{"role": "user", "content": text}, *rest])
        before = rows(engine, "SELECT count(*) FROM message_versions")[0][0]
        assert before >= 3
        engine.admin.forget([WORD])
        gone(engine)
        for text in wordings:
            engine.sync(SESSION, [{"role": "user", "content": text}, *rest])
        gone(engine)
        assert rows(engine, "SELECT count(*) FROM messages") == [(3,)]
        (id_,) = rows(engine, "SELECT min(message_id) FROM messages")[0]
        engine.admin.forget(message_ids=[id_])
        assert rows(engine, "SELECT count(*) FROM message_versions") == [(0,)]
        gone(engine, WORD, long[:60])
