"""Transcripts that are held back or refused, pages that leave a gap, files without ids, hosts that go back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lossless.errors import NotFound
from tests.faults import SESSION, contents, context, problems
from tests.maintenance.transcript_files import FIRST, TranscriptFile

if TYPE_CHECKING:
    from pathlib import Path

    import lossless

MANY = 60


@pytest.fixture
def file(tmp_path: Path) -> TranscriptFile:
    found = TranscriptFile(tmp_path / "run.jsonl", at=FIRST + 10**9)
    found.say_all(*(f"own {n}" for n in range(MANY)))
    return found


def strange(path: Path) -> TranscriptFile:
    """Something else in a file: older, and nothing in common."""
    path.unlink(missing_ok=True)
    found = TranscriptFile(path)
    for n in range(2 * MANY):
        at = "2025-01-01T00:00:00.000Z"
        message = {"role": "user", "content": f"strange {n}", "timestamp": FIRST - 10**10 + n}
        found.write({"type": "message", "id": f"z{n}", "parentId": found.leaf, "timestamp": at, "message": message})
        found.leaf = f"z{n}"
    return found


def held(engine: lossless.Engine) -> list[str]:
    return [epoch.decision for epoch in (*engine.transcripts.held(), *engine.transcripts.refused())]


# --- held back, refused, accepted ---


def test_a_hold_ends_when_the_files_own_words_are_back(engine: lossless.Engine, file: TranscriptFile) -> None:
    engine.bootstrap(SESSION, file.path)
    good = file.path.read_bytes()
    strange(file.path)
    assert engine.bootstrap(SESSION, file.path).status == "held"
    assert engine.bootstrap(SESSION, file.path).status == "held"
    file.path.write_bytes(good)
    file.say_all("goes on")
    engine.after_turn(SESSION, transcript=file.path)
    assert held(engine) == []
    assert engine.status(SESSION).is_healthy
    assert contents(engine)[-1] == "goes on"
    file.say_all("and on")
    assert engine.bootstrap(SESSION, file.path).stored == 1


def test_a_hold_ends_when_the_very_same_file_is_back(engine: lossless.Engine, file: TranscriptFile) -> None:
    engine.bootstrap(SESSION, file.path)
    good = file.path.read_bytes()
    strange(file.path)
    assert engine.bootstrap(SESSION, file.path).status == "held"
    file.path.write_bytes(good)
    engine.bootstrap(SESSION, file.path)
    assert held(engine) == []


def test_a_refusal_is_seen_and_can_be_taken_back(engine: lossless.Engine, file: TranscriptFile, tmp_path: Path) -> None:
    engine.bootstrap(SESSION, file.path)
    other = strange(tmp_path / "other.jsonl").path
    assert engine.bootstrap(SESSION, other).status == "held"
    (conversation,) = engine.archive.conversations.family(SESSION)
    engine.transcripts.refuse(conversation, str(other))
    assert [epoch.path for epoch in engine.status(SESSION).refused] == [str(other)]
    assert engine.bootstrap(SESSION, other).status == "refused"
    assert engine.transcripts.accept(conversation, str(other)).stored == 2 * MANY
    assert held(engine) == []
    with pytest.raises(NotFound):
        engine.transcripts.accept(conversation, str(other))


def test_a_followed_file_that_was_refused_goes_on_with_its_own_words(
    engine: lossless.Engine, file: TranscriptFile
) -> None:
    engine.bootstrap(SESSION, file.path)
    good = file.path.read_bytes()
    strange(file.path)
    engine.bootstrap(SESSION, file.path)
    (conversation,) = engine.archive.conversations.family(SESSION)
    engine.transcripts.refuse(conversation, str(file.path))
    assert engine.bootstrap(SESSION, file.path).status == "refused"
    file.path.write_bytes(good)
    file.say_all("goes on")
    assert engine.bootstrap(SESSION, file.path).stored == 1
    assert held(engine) == []


def test_what_was_held_before_a_reset_is_accepted_beside_what_goes_on(
    engine: lossless.Engine, file: TranscriptFile, tmp_path: Path
) -> None:
    engine.bootstrap(SESSION, file.path)
    other = strange(tmp_path / "other.jsonl").path
    apart = engine.bootstrap(SESSION, other).quarantine_id
    (before,) = engine.archive.conversations.family(SESSION)
    after = engine.reset(SESSION)
    report = engine.transcripts.accept(before, str(other))
    assert (report.conversation_id, report.stored) == (apart, 2 * MANY)
    assert engine.archive.messages.newest_id(after.id) is None
    assert [one.id for one in engine.archive.conversations.family(SESSION) if one.active] == [after.id]
    assert apart in [one.id for one in engine.archive.conversations.family(SESSION)]
    assert (held(engine), engine.transcripts.quarantined()) == ([], [])
    assert not problems(engine)


# --- words that are kept apart ---


def stored(engine: lossless.Engine, conversation_id: int | None) -> list[str]:
    assert conversation_id is not None
    ids = (row.id for row in engine.archive.messages.run_from(conversation_id, 1))
    return [engine.archive.messages.get(id_).message.content for id_ in ids]


def test_what_is_held_back_is_kept_outside_the_context(
    engine: lossless.Engine, file: TranscriptFile, tmp_path: Path
) -> None:
    engine.bootstrap(SESSION, file.path)
    before = context(engine)
    other = strange(tmp_path / "other.jsonl")
    words = [f"strange {n}" for n in range(2 * MANY)]
    report = engine.bootstrap(SESSION, other.path)
    assert (report.status, report.stored) == ("held", 0)
    assert stored(engine, report.quarantine_id) == words
    assert engine.grep("strange 17", session=None).hits
    (waiting,) = engine.transcripts.quarantined()
    assert (waiting.conversation_id, waiting.decision, waiting.messages) == (report.quarantine_id, "quarantined", 120)
    other.say_all("it goes on", "and on")
    assert engine.bootstrap(SESSION, other.path).quarantine_id == report.quarantine_id
    assert stored(engine, report.quarantine_id) == [*words, "it goes on", "and on"]
    assert context(engine) == before
    other.path.unlink()
    (conversation,) = engine.archive.conversations.family(SESSION)
    accepted = engine.transcripts.accept(conversation, str(other.path))
    assert (accepted.conversation_id, accepted.stored) == (report.quarantine_id, 122)
    assert not problems(engine)


@pytest.mark.parametrize("by", ["transcripts", "quarantine", "bootstrap"])
def test_an_accepted_transcript_goes_on_where_it_is_kept_and_is_stored_once(
    engine: lossless.Engine, file: TranscriptFile, tmp_path: Path, by: str
) -> None:
    engine.bootstrap(SESSION, file.path)
    other = strange(tmp_path / "other.jsonl")
    apart = engine.bootstrap(SESSION, other.path).quarantine_id
    assert apart is not None
    (conversation,) = engine.archive.conversations.family(SESSION)
    if by == "transcripts":
        engine.transcripts.accept(conversation, str(other.path))
    elif by == "quarantine":
        engine.transcripts.accept_quarantined(apart)
    else:
        engine.bootstrap(SESSION, other.path, accept=True)
    assert (held(engine), engine.transcripts.quarantined()) == ([], [])
    found = engine.archive.conversations.find(SESSION)
    assert found is not None
    assert found.id == apart
    other.say_all("it goes on")
    report = engine.bootstrap(SESSION, other.path)
    assert (report.conversation_id, report.status, report.stored) == (apart, "stored", 1)
    assert stored(engine, apart) == [*(f"strange {n}" for n in range(2 * MANY)), "it goes on"]
    assert len(stored(engine, conversation.id)) == MANY
    assert not problems(engine)


@pytest.mark.parametrize("by", ["transcripts", "quarantine"])
def test_a_refused_transcript_stays_out_of_the_context_with_what_it_says_later(
    engine: lossless.Engine, file: TranscriptFile, tmp_path: Path, by: str
) -> None:
    engine.bootstrap(SESSION, file.path)
    before = context(engine)
    other = strange(tmp_path / "other.jsonl")
    apart = engine.bootstrap(SESSION, other.path).quarantine_id
    assert apart is not None
    (conversation,) = engine.archive.conversations.family(SESSION)
    if by == "transcripts":
        engine.transcripts.refuse(conversation, str(other.path))
    else:
        engine.transcripts.refuse_quarantined(apart)
    assert held(engine) == [one.decision for one in engine.transcripts.quarantined()] == ["refused"]
    other.say_all("it goes on")
    report = engine.bootstrap(SESSION, other.path)
    assert (report.status, report.quarantine_id) == ("refused", apart)
    assert stored(engine, apart)[-1] == "it goes on"
    assert context(engine) == before
    assert not problems(engine)


def test_pages_that_have_nothing_in_common_are_kept_apart(engine: lossless.Engine) -> None:
    engine.bootstrap(SESSION, page(*range(60)))
    other = [{"entryId": f"z{n}", "message": {"role": "user", "content": f"strange {n}"}} for n in range(120)]
    report = engine.bootstrap(SESSION, other)
    assert (report.status, len(stored(engine, report.quarantine_id))) == ("held", 120)
    assert engine.bootstrap(SESSION, other).quarantine_id == report.quarantine_id
    assert len(stored(engine, report.quarantine_id)) == 120
    accepted = engine.bootstrap(SESSION, other, accept=True)
    assert (accepted.conversation_id, accepted.stored) == (report.quarantine_id, 120)
    assert (held(engine), engine.transcripts.quarantined()) == ([], [])
    assert not problems(engine)


# --- pages ---


def page(*numbers: int, parents: bool = True) -> list[dict[str, Any]]:
    return [
        {
            "entryId": f"e{n}",
            "parentId": f"e{n - 1}" if parents and n else None,
            "message": {"role": "user", "content": f"w{n}"},
        }
        for n in numbers
    ]


@pytest.mark.parametrize("parents", [True, False])
def test_a_page_that_leaves_a_gap_is_not_taken(engine: lossless.Engine, parents: bool) -> None:
    engine.bootstrap(SESSION, page(0, 1, parents=parents), cursor="c2")
    report = engine.bootstrap(SESSION, page(4, 5, parents=parents), after="c4", cursor="c6")
    assert (report.status, report.stored) == ("failed", 0)
    assert "'c2'" in (report.reason or "")
    assert engine.transcripts.cursor(SESSION) == "c2"
    assert engine.status(SESSION).ingest.blocked_reason == report.reason
    assert engine.bootstrap(SESSION, page(0, 1, parents=parents), after="c0", cursor="c2").status != "failed"
    assert engine.bootstrap(SESSION, page(2, 3, 4, 5, parents=parents), after="c2", cursor="c6").stored == 4
    assert contents(engine) == [f"w{n}" for n in range(6)]
    assert engine.status(SESSION).ingest.blocked_reason is None


# --- files without ids ---


def write(path: Path, *texts: str, anew: bool = False) -> None:
    lines = "".join(json.dumps({"role": "user", "content": text}) + "\n" for text in texts)
    path.write_text(lines if anew else path.read_text() + lines)


def test_a_file_without_ids_that_is_cut_and_goes_on_with_the_same_words(
    engine: lossless.Engine, tmp_path: Path
) -> None:
    path = tmp_path / "chat.jsonl"
    said = [f"w{n}" if n % 2 else "same" for n in range(20)]
    write(path, *said, anew=True)
    engine.bootstrap(SESSION, path)
    write(path, *said[-7:], anew=True)
    engine.bootstrap(SESSION, path)
    for _ in range(10):
        write(path, "same")
        assert engine.bootstrap(SESSION, path).stored == 1
    assert contents(engine) == [*said, *["same"] * 10]
    assert not problems(engine)


def test_a_file_without_ids_that_we_shorten_ourselves_goes_on_with_the_same_words(
    engine: lossless.Engine, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(json.dumps({"type": "session", "version": 3, "id": "run"}) + "\n")
    write(path, *["ok"] * 200)
    engine.bootstrap(SESSION, path)
    for round_ in range(3):
        report = engine.rotate(SESSION)
        assert (report.rotated, report.reason) == (True, None)
        write(path, *["ok"] * 100)
        assert engine.bootstrap(SESSION, path).stored == 100
        assert len(contents(engine)) == 300 + 100 * round_
    assert not problems(engine)


def test_a_file_that_begins_again_with_the_same_short_words_and_goes_on_otherwise_is_stored(
    engine: lossless.Engine, tmp_path: Path
) -> None:
    path = tmp_path / "chat.jsonl"
    write(path, "hi", "hello", "fix it", "done", anew=True)
    engine.bootstrap(SESSION, path)
    write(path, anew=True)
    engine.bootstrap(SESSION, path)
    write(path, "hi", "hello", "paint it", "painted")
    assert engine.bootstrap(SESSION, path).stored == 4
    assert engine.status(SESSION).ingest.ambiguous == 0
    write(path, "hello")
    assert engine.bootstrap(SESSION, path).stored == 1


# --- branches that were left before anybody read them ---


def claude_lines(*said: tuple[str, str | None]) -> str:
    """Lines of Claude Code: each says its own uuid."""
    lines = []
    for uuid, parent in said:
        role = "user" if uuid.startswith("u") else "assistant"
        message = {"role": role, "content": f"{uuid} says so"}
        lines.append({"type": role, "uuid": uuid, "parentUuid": parent, "sessionId": "S", "message": message})
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_a_branch_that_claude_code_left_is_stored_hidden_and_counted(engine: lossless.Engine, tmp_path: Path) -> None:
    path = tmp_path / "S.jsonl"
    path.write_text(claude_lines(("u1", None), ("a1", "u1"), ("u2", "a1"), ("a2", "u2"), ("u3", "a1"), ("a3", "u3")))
    report = engine.bootstrap(SESSION, path)
    assert (report.stored, report.abandoned) == (6, 2)
    assert context(engine) == ["u1 says so", "a1 says so", "u3 says so", "a3 says so"]
    causes = engine.archive.database.rows("SELECT cause, count(*) FROM hidden_items GROUP BY cause")
    assert causes == [("branch", 2)]
    assert engine.bootstrap(SESSION, path).stored == 0
    path.write_text(path.read_text() + claude_lines(("u4", "a2"), ("a4", "u4")))  # it returns to what it had left
    again = engine.bootstrap(SESSION, path)
    assert again.stored == 2
    assert context(engine) == [f"{uuid} says so" for uuid in ("u1", "a1", "u2", "a2", "u4", "a4")]
    path.write_text(path.read_text() + claude_lines(("u5", "a3"), ("a5", "u5"), ("u6", "a4"), ("a6", "u6")))
    last = engine.bootstrap(SESSION, path)
    assert (last.stored, last.abandoned) == (4, 2)
    assert context(engine)[-1] == "a6 says so"
    assert problems(engine) == []


# --- a host that returns to a branch without a word ---


def shown(engine: lossless.Engine) -> list[str]:
    found = engine.archive.conversations.find(SESSION)
    assert found is not None
    ids = [item.message_id for item in engine.archive.context.items(found.id) if hasattr(item, "message_id")]
    return [row.message.content for row in engine.archive.messages.many(ids)]


def test_a_leaf_that_moves_back_brings_its_branch_back(engine: lossless.Engine, tmp_path: Path) -> None:
    file = TranscriptFile(tmp_path / "tree.jsonl")
    file.say_all("m0", "m1", "m2", "m3")
    engine.bootstrap(SESSION, file.path)
    file.say("other", "other", parent="e-m1")
    engine.bootstrap(SESSION, file.path)
    assert shown(engine) == ["m0", "m1", "other"]
    file.leaf = "e-m3"
    file.note("leaf", "back")
    engine.bootstrap(SESSION, file.path)
    assert shown(engine) == ["m0", "m1", "m2", "m3"]
    file.say("next", "next")
    engine.after_turn(SESSION, transcript=file.path)
    assert shown(engine) == ["m0", "m1", "m2", "m3", "next"]
    assert not problems(engine)


def test_a_branch_that_the_host_takes_away_gives_way_to_what_was_before(
    engine: lossless.Engine, tmp_path: Path
) -> None:
    file = TranscriptFile(tmp_path / "tree.jsonl")
    file.say_all("m0", "m1", "m2", "m3")
    before = file.path.read_bytes()
    engine.bootstrap(SESSION, file.path)
    file.say("other", "other", parent="e-m1")
    engine.bootstrap(SESSION, file.path)
    file.path.write_bytes(before)
    file.touch()
    engine.bootstrap(SESSION, file.path)
    assert shown(engine) == ["m0", "m1", "m2", "m3"]
    assert not problems(engine)
