"""A transcript and the archive are one history, whatever happens to the file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless import Incoming, Session
from lossless.errors import BadInput, NotFound
from tests.faults import SESSION, contents, problems
from tests.maintenance.transcript_files import FIRST, TranscriptFile

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> TranscriptFile:
    return TranscriptFile(tmp_path / "run.jsonl")


def visible(engine: lossless.Engine, session: Session = SESSION) -> list[str]:
    """What is in the context, oldest first."""
    found = engine.archive.conversations.find(session)
    assert found is not None
    items = engine.archive.context.items(found.id)
    ids = [item.message_id for item in items if hasattr(item, "message_id")]
    return [stored.message.content for stored in engine.archive.messages.many(ids)]


def entry_ids(engine: lossless.Engine) -> list[str | None]:
    return [stored.entry_id for stored in engine.archive.messages.in_order(1)]


def test_everything_is_stored_once(engine: lossless.Engine, file: TranscriptFile) -> None:
    file.note("model_change", "m1")
    file.say_all("a", "b", "a ", "c")
    report = engine.bootstrap(SESSION, file.path)
    assert (report.status, report.change, report.stored, report.opaque) == ("stored", "first", 4, 2)
    assert contents(engine) == ["a", "b", "a ", "c"]
    assert entry_ids(engine) == ["e-a", "e-b", "e-a ", "e-c"]
    assert engine.bootstrap(SESSION, file.path).status == "up to date"
    file.touch()
    assert engine.bootstrap(SESSION, file.path).stored == 0
    assert contents(engine) == ["a", "b", "a ", "c"]
    assert problems(engine) == []


def test_only_new_bytes_are_read(engine: lossless.Engine, file: TranscriptFile) -> None:
    file.say_all("a", "b")
    engine.bootstrap(SESSION, file.path)
    before = file.path.read_bytes()
    file.path.write_bytes(b"#" * 20 + before[20:])  # a beginning that could not be read again
    file.say_all("c")
    report = engine.bootstrap(SESSION, file.path)
    assert (report.stored, report.bad_lines, report.change) == (1, 0, "same")
    assert contents(engine) == ["a", "b", "c"]


def test_a_half_written_line_waits(engine: lossless.Engine, file: TranscriptFile) -> None:
    file.say_all("a")
    whole = json.dumps(
        {"type": "message", "id": "h", "parentId": "e-a", "message": {"role": "user", "content": "half"}}
    )
    file.raw(whole[:40])
    assert engine.bootstrap(SESSION, file.path).stored == 1
    file.raw(whole[40:60])
    assert engine.bootstrap(SESSION, file.path).stored == 0
    file.raw(whole[60:] + "\n")
    file.leaf = "h"
    assert engine.bootstrap(SESSION, file.path).stored == 1
    file.say_all("b")
    assert engine.bootstrap(SESSION, file.path).stored == 1
    assert contents(engine) == ["a", "half", "b"]


def test_a_bad_line_is_named_and_the_others_are_stored(engine: lossless.Engine, file: TranscriptFile) -> None:
    file.say_all("a")
    file.raw("{nonsense\n")
    broken = {"role": "assistant", "content": [{"type": "toolCall", "id": "\ud800", "name": "t", "arguments": {}}]}
    file.raw(json.dumps({"type": "message", "id": "x", "parentId": "e-a", "message": broken}) + "\n")
    file.leaf = "x"
    file.say_all("b")
    report = engine.bootstrap(SESSION, file.path)
    assert contents(engine) == ["a", "b"]
    assert report.bad_lines == 2
    assert [problem.split(":")[0] for problem in report.problems] == ["line 4", "line 3"]
    kept = engine.archive.transcripts.records(1)
    assert broken in [record for _, _, record in kept]


def test_the_runtime_and_the_transcript_bring_the_same_turn(engine: lossless.Engine, file: TranscriptFile) -> None:
    for turn in range(4):
        question, answer = f"question {turn}", f"answer {turn}"
        spoken = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        if turn % 2:  # the transcript is late
            engine.after_turn(SESSION, new_messages=spoken)
        for body in spoken:
            file.at += 1000
            file.write({"type": "message", "id": f"{body['content']}", "parentId": file.leaf, "message": body})
            file.leaf = body["content"]
        if turn % 2:
            engine.after_turn(SESSION, transcript=file.path)
        else:
            engine.after_turn(SESSION, new_messages=spoken, transcript=file.path)
    expected = [text for turn in range(4) for text in (f"question {turn}", f"answer {turn}")]
    assert contents(engine) == expected
    assert entry_ids(engine) == expected
    assert problems(engine) == []


@pytest.mark.parametrize("whole", [True, False], ids=["laid over what is stored", "behind what is stored"])
def test_the_note_of_a_delivery_is_skipped(engine: lossless.Engine, file: TranscriptFile, whole: bool) -> None:
    file.say("hello", "e1")
    engine.bootstrap(SESSION, file.path)
    thought = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "It is 8443."}]
    note = {"role": "assistant", "content": "It is 8443.", "model": "delivery-mirror", "stopReason": "stop"}
    answers = {"e2": {"role": "assistant", "content": thought}, "e3": note}
    for id_, answer in answers.items():
        file.write({"type": "message", "id": id_, "parentId": f"e{int(id_[1]) - 1}", "message": answer})
    if whole:
        file.path.write_bytes(file.path.read_bytes().replace(b"header-1", b"header-2"))
        file.touch()
    report = engine.bootstrap(SESSION, file.path)
    assert (report.stored, report.opaque) == (1, 1)
    assert report.replayed == (1 if whole else 0)
    assert contents(engine) == ["hello", "It is 8443."]
    assert problems(engine) == []


def test_a_branch_hides_what_was_abandoned(engine: lossless.Engine, file: TranscriptFile) -> None:
    file.say_all("a", "b", "c", "d")
    engine.bootstrap(SESSION, file.path)
    file.say("other", "o", parent="e-b")
    report = engine.bootstrap(SESSION, file.path)
    assert (report.stored, report.abandoned) == (1, 2)
    assert visible(engine) == ["a", "b", "other"]
    assert contents(engine) == ["a", "b", "c", "d", "other"]
    file.say("back", "k", parent="e-d")
    engine.bootstrap(SESSION, file.path)
    assert visible(engine) == ["a", "b", "c", "d", "back"]
    assert problems(engine) == []


def test_a_rewritten_history_keeps_its_rows(engine: lossless.Engine, file: TranscriptFile, tmp_path: Path) -> None:
    file.say_all("a", "b", "c")
    engine.bootstrap(SESSION, file.path)
    again = TranscriptFile(tmp_path / "copy.jsonl", "header-1")
    again.say_all("a", "b", "c", "d", prefix="new")
    again.path.replace(file.path)
    report = engine.bootstrap(SESSION, file.path)
    assert (report.stored, report.stamped) == (1, 3)
    assert contents(engine) == ["a", "b", "c", "d"]
    assert entry_ids(engine) == ["new-a", "new-b", "new-c", "new-d"]


def test_history_written_again_under_new_ids_is_not_stored_again(engine: lossless.Engine, file: TranscriptFile) -> None:
    file.say_all("a", "b", "c")
    engine.bootstrap(SESSION, file.path)
    file.at = FIRST
    file.say_all("a", "b", "c", prefix="twin")
    file.at += 60_000
    file.say_all("a", prefix="later")
    engine.bootstrap(SESSION, file.path)
    assert contents(engine) == ["a", "b", "c", "a"]


def test_a_file_that_was_cut_goes_on(engine: lossless.Engine, file: TranscriptFile, tmp_path: Path) -> None:
    file.say_all("a", "b", "c", "d")
    engine.bootstrap(SESSION, file.path)
    cut = TranscriptFile(tmp_path / "cut.jsonl", "header-1", at=FIRST + 2000)
    cut.say_all("c", "d")
    cut.path.replace(file.path)
    assert engine.bootstrap(SESSION, file.path).stored == 0
    cut.path = file.path
    cut.say_all("e")
    assert engine.bootstrap(SESSION, file.path).stored == 1
    assert contents(engine) == ["a", "b", "c", "d", "e"]
    assert visible(engine) == ["a", "b", "c", "d", "e"]


def test_a_new_file_that_is_later_continues_the_conversation(
    engine: lossless.Engine, file: TranscriptFile, tmp_path: Path
) -> None:
    file.say_all("a", "b")
    engine.bootstrap(SESSION, file.path)
    later = TranscriptFile(tmp_path / "later.jsonl", "header-2", at=FIRST + 3_600_000)
    later.say_all(*(f"m{n}" for n in range(200)))
    report = engine.bootstrap(SESSION, later.path)
    assert (report.change, report.stored) == ("new path", 200)
    assert len(contents(engine)) == 202
    decisions = [epoch.decision for epoch in engine.archive.transcripts.decisions(1)]
    assert decisions == ["first", "fresh"]


def held(engine: lossless.Engine, file: TranscriptFile, tmp_path: Path, count: int = 200) -> TranscriptFile:
    file.say_all("a", "b")
    engine.bootstrap(SESSION, file.path)
    other = TranscriptFile(tmp_path / "other.jsonl", "header-9", at=FIRST - 3_600_000)
    other.say_all(*(f"m{n}" for n in range(count)))
    return other


def test_an_unrelated_file_is_held_back_visibly(engine: lossless.Engine, file: TranscriptFile, tmp_path: Path) -> None:
    other = held(engine, file, tmp_path)
    report = engine.bootstrap(SESSION, other.path)
    assert (report.status, report.stored) == ("held", 0)
    assert "nothing in common" in (report.reason or "")
    assert engine.bootstrap(SESSION, other.path).status == "held"
    (waiting,) = engine.transcripts.held()
    assert (waiting.path, waiting.messages) == (str(other.path), 200)
    file.say_all("c")
    assert engine.bootstrap(SESSION, file.path).stored == 1
    assert len(engine.transcripts.held()) == 1
    assert contents(engine) == ["a", "b", "c"]


def test_a_held_file_can_be_accepted(engine: lossless.Engine, file: TranscriptFile, tmp_path: Path) -> None:
    other = held(engine, file, tmp_path)
    engine.bootstrap(SESSION, other.path)
    conversation = engine.archive.conversations.get(1)
    assert engine.transcripts.accept(conversation, str(other.path)).stored == 200
    assert engine.transcripts.held() == []
    assert len(contents(engine)) == 200
    assert not engine.archive.conversations.get(1).active
    assert problems(engine) == []
    with pytest.raises(NotFound, match="held back"):
        engine.transcripts.accept(conversation, str(other.path))


def test_a_held_file_can_be_refused(engine: lossless.Engine, file: TranscriptFile, tmp_path: Path) -> None:
    other = held(engine, file, tmp_path)
    engine.bootstrap(SESSION, other.path)
    engine.transcripts.refuse(engine.archive.conversations.get(1), str(other.path))
    other.say_all("more")
    assert engine.bootstrap(SESSION, other.path).status == "refused"
    assert engine.transcripts.held() == []


def test_a_small_unrelated_file_is_taken_over(engine: lossless.Engine, file: TranscriptFile, tmp_path: Path) -> None:
    other = held(engine, file, tmp_path, count=50)
    assert engine.bootstrap(SESSION, other.path).stored == 50
    assert engine.archive.transcripts.decisions(1)[-1].decision == "small"


def test_a_fork_of_a_stored_transcript_keeps_its_newest_part(
    engine: lossless.Engine, file: TranscriptFile, tmp_path: Path
) -> None:
    file.say_all(*(f"{n} " + "long text " * 400 for n in range(20)))
    engine.bootstrap(SESSION, file.path)
    fork = TranscriptFile(tmp_path / "fork.jsonl", None)
    fork.write({"type": "session", "version": 3, "id": "fork", "parentSession": str(file.path)})
    fork.say_all(*(f"{n} " + "long text " * 400 for n in range(20)), "newest")
    child = Session(key="fork")
    report = engine.bootstrap(child, fork.path)
    assert 0 < report.stored < 21
    assert contents(engine, child)[-1] == "newest"
    checkpoint = engine.archive.transcripts.checkpoint(2)
    assert checkpoint is not None
    assert checkpoint.fork_bounded


def test_the_older_part_of_a_long_history_is_folded_at_once(engine: lossless.Engine, file: TranscriptFile) -> None:
    file.say_all(*(f"message {n}: " + f"word{n % 97} and more words " * 30 for n in range(1200)))
    report = engine.bootstrap(SESSION, file.path)
    assert report.stored == 1200
    items = engine.archive.context.items(1)
    leaves = [item for item in items if not hasattr(item, "message_id")]
    assert leaves
    assert len(items) < 400
    assert problems(engine) == []
    assert engine.grep("word42", session=SESSION).hits


def test_an_import_goes_on_where_it_was_stopped(tmp_path: Path, file: TranscriptFile) -> None:
    file.say_all(*(f"m{n}" for n in range(2500)))

    class StopHere(Exception):
        pass

    def stop(offset: int) -> None:
        raise StopHere

    with lossless.open(tmp_path / "lcm.db", background=False) as engine, pytest.raises(StopHere):
        engine.bootstrap(SESSION, file.path, progress=stop)
    with lossless.open(tmp_path / "lcm.db", background=False) as engine:
        assert len(contents(engine)) == 999  # and the header
        report = engine.bootstrap(SESSION, file.path)
        assert (report.stored, report.change) == (1501, "same")
        assert contents(engine) == [f"m{n}" for n in range(2500)]


def test_pages_of_a_host_go_on_after_their_cursor(engine: lossless.Engine) -> None:
    def item(n: int) -> dict[str, Any]:
        message = {"role": "user" if n % 2 else "assistant", "content": f"m{n}", "timestamp": FIRST + n}
        return {"entryId": f"e{n}", "parentId": f"e{n - 1}", "seq": n, "message": message}

    assert engine.bootstrap(SESSION, [item(n) for n in range(10)], cursor="c1").stored == 10
    assert engine.transcripts.cursor(SESSION) == "c1"
    assert engine.bootstrap(SESSION, [item(n) for n in range(10, 80)], after="c1", cursor="c2").stored == 70
    assert engine.transcripts.cursor(SESSION) == "c2"
    assert engine.bootstrap(SESSION, [item(n) for n in range(80)], cursor="c2").stored == 0
    assert engine.bootstrap(SESSION, [item(n) for n in range(82)], cursor="c3").stored == 2
    assert contents(engine) == [f"m{n}" for n in range(82)]


def test_a_file_that_is_not_there_fails_clearly_and_the_turn_is_stored(engine: lossless.Engine, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nowhere\.jsonl"):
        engine.bootstrap(SESSION, tmp_path / "nowhere.jsonl")
    hello = [Incoming({"role": "user", "content": "hello"})]
    report = engine.after_turn(SESSION, new_messages=hello, transcript=tmp_path / "nowhere.jsonl")
    assert report.transcript is not None
    assert report.transcript.status == "failed"
    assert contents(engine) == ["hello"]


def test_excluded_sessions_are_left_alone(tmp_path: Path, file: TranscriptFile) -> None:
    file.say_all("a")
    settings = lossless.Settings(ignore_session_patterns=("agent:**",))
    with lossless.open(tmp_path / "lcm.db", settings) as engine:
        report = engine.bootstrap(Session(key="agent:main:main"), file.path)
        assert (report.status, report.reason) == ("excluded", "session excluded")
        assert engine.archive.listings.counts().conversations == 0


@pytest.mark.parametrize(
    ("reason", "causes"),
    [
        ("restart", [None]),
        ("deleted", ["session-deleted"]),
        ("reset", ["manual-reset", None]),
        ("idle", ["session-end", None]),
    ],
)
def test_the_end_of_a_session(engine: lossless.Engine, reason: str, causes: list[str | None]) -> None:
    engine.append(SESSION, [{"role": "user", "content": "hello"}])
    engine.host.end(SESSION, reason)
    rows = engine.archive.database.rows("SELECT archive_cause FROM conversations ORDER BY conversation_id")
    assert [cause for (cause,) in rows] == causes


def test_a_turn_and_a_transcript_that_neither_has_ids_are_one(engine: lossless.Engine, tmp_path: Path) -> None:
    path = tmp_path / "plain.jsonl"
    path.touch()
    for turn in range(5):
        spoken = [{"role": "user", "content": "go on"}, {"role": "assistant", "content": f"step {turn % 2}"}]
        with path.open("a") as file:
            file.writelines(json.dumps(body) + "\n" for body in spoken)
        engine.after_turn(SESSION, new_messages=spoken, transcript=path)
        assert len(contents(engine)) == 2 * turn + 2
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[4:]))  # the host has cut it
    engine.bootstrap(SESSION, path)
    assert contents(engine) == [text for n in range(5) for text in ("go on", f"step {n % 2}")]


def test_a_framed_or_redacted_copy_of_a_turn_is_a_version_of_it(engine: lossless.Engine, file: TranscriptFile) -> None:
    told = [
        {"role": "user", "content": "Read the deploy key from the vault and check who may see it."},
        {"role": "assistant", "content": "The key is 4711-ABCD, and only ops may read it; Ada asked for access."},
        {"role": "user", "content": "Thanks, that is all."},
    ]
    engine.after_turn(SESSION, new_messages=told)
    frame = 'Conversation info (untrusted metadata):\n```json\n{"chat_id": "7", "message_id": "m1"}\n```\n\n'
    written = [
        told[0] | {"content": frame + told[0]["content"]},
        told[1] | {"content": told[1]["content"].replace("4711-ABCD", "[redacted]")},
        told[2],
    ]
    for n, body in enumerate(written):
        file.write({"type": "message", "id": f"t{n}", "parentId": f"t{n - 1}" if n else None, "message": body})
    report = engine.after_turn(SESSION, transcript=file.path)
    assert report.transcript is not None
    assert (report.transcript.stored, report.transcript.stamped, report.transcript.revised) == (0, 3, 1)
    assert contents(engine) == [written[0]["content"], told[1]["content"], told[2]["content"]]
    kept = [(one.kind, one.message.content) for row in (1, 2, 3) for one in engine.archive.versions.of(row)]
    assert kept == [("earlier", told[0]["content"]), ("lesser", written[1]["content"])]
