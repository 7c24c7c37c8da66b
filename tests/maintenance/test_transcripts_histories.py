"""Histories that part, repeat themselves, end and begin again: each message once, in the order of the host's path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lossless import Session
from tests.faults import SESSION, contents, problems
from tests.maintenance.transcript_files import FIRST, TranscriptFile

if TYPE_CHECKING:
    from pathlib import Path

    import lossless


@pytest.fixture
def file(tmp_path: Path) -> TranscriptFile:
    return TranscriptFile(tmp_path / "run.jsonl")


def shown(engine: lossless.Engine, session: Session = SESSION) -> list[str | None]:
    """The entry ids of the context, in its order."""
    found = engine.archive.conversations.find(session)
    assert found is not None
    ids = [item.message_id for item in engine.archive.context.items(found.id) if hasattr(item, "message_id")]
    return [stored.entry_id for stored in engine.archive.messages.many(ids)]


def count(engine: lossless.Engine) -> int:
    return engine.archive.listings.counts().messages


def result(file: TranscriptFile, id_: str, parent: str, call: str) -> None:
    answer = {"role": "toolResult", "toolCallId": call, "toolName": "read", "content": "ok", "timestamp": FIRST + 9}
    file.write({"type": "message", "id": id_, "parentId": parent, "message": answer})


def test_answers_of_one_millisecond_that_say_the_same_are_two(engine: lossless.Engine, file: TranscriptFile) -> None:
    file.say("go", "e1")
    calls = [{"type": "toolCall", "id": name, "name": "read", "arguments": {"path": name}} for name in ("c1", "c2")]
    asked: dict[str, Any] = {"role": "assistant", "content": calls, "timestamp": FIRST + 5}
    file.write({"type": "message", "id": "e2", "parentId": "e1", "message": asked})
    result(file, "e3", "e2", "c1")
    engine.bootstrap(SESSION, file.path)
    result(file, "e4", "e3", "c2")
    engine.bootstrap(SESSION, file.path)
    assert contents(engine) == ["go", "", "ok", "ok"]
    result(file, "again", "e4", "c2")  # the host has written it once more under another id
    engine.bootstrap(SESSION, file.path)
    assert contents(engine) == ["go", "", "ok", "ok"]
    assert problems(engine) == []


def test_another_branch_that_says_the_same_words_is_another_one(engine: lossless.Engine, file: TranscriptFile) -> None:
    for text, id_ in (("one", "a1"), ("two", "a2"), ("ok", "x1"), ("only here", "x2"), ("ok", "x3"), ("yes", "x4")):
        file.say(text, id_)
    engine.bootstrap(SESSION, file.path)
    file.leaf = "a2"
    for text, id_ in (("ok", "n1"), ("yes", "n2"), ("only there", "n3"), ("ok", "n4"), ("yes", "n5")):
        file.say(text, id_)
    engine.bootstrap(SESSION, file.path)
    assert shown(engine) == ["a1", "a2", "n1", "n2", "n3", "n4", "n5"]
    assert count(engine) == 11
    assert problems(engine) == []


@pytest.mark.parametrize("has_file", [True, False], ids=["with transcripts", "without"])
def test_runs_of_a_cron_job_that_take_turns(engine: lossless.Engine, tmp_path: Path, has_file: bool) -> None:
    files = {run: TranscriptFile(tmp_path / f"{run}.jsonl", run) for run in "ab"}
    for turn in range(3):
        for run, file in files.items():
            session = Session(key="agent:main:cron:job", id=run)
            if has_file:
                file.say(f"{run} {turn}", f"{run}{turn}")
                engine.after_turn(session, transcript=file.path)
            else:
                engine.after_turn(session, new_messages=[{"role": "user", "content": f"{run} {turn}"}])
    assert (engine.archive.listings.counts().conversations, count(engine)) == (2, 6)
    runs = {row.session_id: row.active for row in map(engine.archive.conversations.get, (1, 2))}
    assert runs == {"a": False, "b": True}, "a late call of a run that is over changes nothing for the one that goes on"
    assert problems(engine) == []


@pytest.mark.parametrize("has_ids", [True, False], ids=["ids", "no ids"])
def test_a_reset_conversation_goes_on_in_the_same_file(
    engine: lossless.Engine, file: TranscriptFile, has_ids: bool
) -> None:
    def say(text: str) -> None:
        if has_ids:
            file.say(text, text)
        else:
            file.write({"role": "user", "content": text})

    for n in range(6):
        say(f"old {n}")
    engine.bootstrap(SESSION, file.path)
    engine.reset(SESSION)
    say("new")
    engine.after_turn(SESSION, new_messages=[{"role": "user", "content": "new"}], transcript=file.path)
    file.touch()
    engine.bootstrap(SESSION, file.path)
    assert len(shown(engine)) == 1
    engine.reset(SESSION)
    say("newer")
    engine.bootstrap(SESSION, file.path)
    assert len(shown(engine)) == 1
    assert count(engine) == 8
    assert problems(engine) == []


@pytest.mark.parametrize("looks", [True, False], ids=["looked at in between", "at once"])
def test_a_file_that_was_cut_back_goes_on_from_there(
    engine: lossless.Engine, file: TranscriptFile, looks: bool
) -> None:
    file.say_all("a", "b", "c", "d")
    engine.bootstrap(SESSION, file.path)
    lines = file.path.read_text().splitlines(keepends=True)
    file.path.write_text("".join(lines[:3]))
    file.touch()
    if looks:
        engine.bootstrap(SESSION, file.path)
        assert shown(engine) == ["e-a", "e-b", "e-c", "e-d"], "it may be cut for another reason"
    file.leaf = "e-b"
    file.say_all("x", "y")
    engine.bootstrap(SESSION, file.path)
    assert shown(engine) == ["e-a", "e-b", "e-x", "e-y"]
    file.say_all("z")
    engine.bootstrap(SESSION, file.path)
    assert shown(engine) == ["e-a", "e-b", "e-x", "e-y", "e-z"]
    assert count(engine) == 7
    assert problems(engine) == []


@pytest.mark.parametrize("junk", [b"\0" * 300, b'{"type": "mess', b'{"type": "session", "id": "header-1"}\n'])
def test_a_followed_file_that_was_overwritten_says_so(
    engine: lossless.Engine, file: TranscriptFile, junk: bytes
) -> None:
    file.say_all("a", "b")
    engine.bootstrap(SESSION, file.path)
    file.path.write_bytes(junk)
    for _ in range(2):
        file.touch()
        report = engine.bootstrap(SESSION, file.path)
        assert report.reason is not None
        assert "stored messages stay" in report.reason
    assert engine.after_turn(SESSION, new_messages=[{"role": "user", "content": "c"}]).append.stored == 1
    assert contents(engine) == ["a", "b", "c"]
    assert problems(engine) == []
