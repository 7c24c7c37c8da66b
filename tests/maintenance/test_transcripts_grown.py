"""What was read while its host still wrote it: the whole of it is taken over, and no rotation loses a word."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lossless
from tests.maintenance.keeping import dumped, entry, open_engine, problems
from tests.maintenance.transcript_files import TranscriptFile

if TYPE_CHECKING:
    from pathlib import Path

SESSION = lossless.Session(key="agent:main:main", id="run-1")
WHOLE = "partial answer, now whole: 42"


def context(engine: lossless.Engine) -> list[str]:
    """What is in the context, oldest first."""
    items = engine.archive.context.items(1)
    return [engine.archive.messages.get(item.message_id).message.content for item in items]  # type: ignore[union-attr]


def earlier(engine: lossless.Engine) -> list[str]:
    """Wordings that rows had, or that their host made of them, in the order of the rows."""
    rows = engine.archive.messages.in_order(1, limit=5000)
    return [version.message.content for row in rows for version in engine.archive.versions.of(row.id)]


def half_written(path: Path) -> TranscriptFile:
    file = TranscriptFile(path, "run-1")
    file.say("question", "q")
    file.say("partial ans", "a")
    return file


def test_a_message_that_has_grown_is_taken_over(tmp_path: Path) -> None:
    file = half_written(tmp_path / "run-1.jsonl")
    with open_engine(tmp_path / "lcm.db") as engine:
        assert engine.bootstrap(SESSION, file.path).stored == 2
        file.at -= 1000  # the same one speaks
        file.say(WHOLE, "a", parent="q")
        file.say("thanks", "t")
        report = engine.bootstrap(SESSION, file.path)
        assert (report.stored, report.revised) == (1, 1)
        assert context(engine) == ["question", WHOLE, "thanks"]
        assert earlier(engine) == ["partial ans"]
        assert engine.grep("now whole: 42", mode="regex", session=SESSION).total == 1
        file.touch()
        assert engine.bootstrap(SESSION, file.path).stored == 0
        file.say("more", "m")
        assert engine.bootstrap(SESSION, file.path).stored == 1
        assert context(engine) == ["question", WHOLE, "thanks", "more"]
        assert problems(engine) == []


@given(texts=st.lists(st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=3), min_size=1, max_size=4))
@settings(max_examples=12, deadline=None)
def test_reading_line_by_line_is_reading_in_one_go(
    tmp_path_factory: pytest.TempPathFactory, texts: list[list[str]]
) -> None:
    folder = tmp_path_factory.mktemp("grown")
    file = TranscriptFile(folder / "run-1.jsonl", "run-1")
    with lossless.open(":memory:", background=False) as bit_by_bit, lossless.open(":memory:", background=False) as once:
        before: str | None = None
        for n, pieces in enumerate(texts):
            for upto in range(1, len(pieces) + 1):
                file.at = 1_767_225_600_000 + n * 1000
                file.say(f"{n}:" + "".join(pieces[:upto]), f"e{n}", parent=before)
                bit_by_bit.bootstrap(SESSION, file.path)
            before = f"e{n}"
        once.bootstrap(SESSION, file.path)
        assert context(bit_by_bit) == context(once)
        assert problems(bit_by_bit) == []


def test_a_turn_that_came_twice_has_not_grown(tmp_path: Path) -> None:
    file = TranscriptFile(tmp_path / "run-1.jsonl", "run-1")
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(SESSION, [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}])
        file.say("hello", "e1")
        file.say("hi", "e2")
        engine.bootstrap(SESSION, file.path)
        file.touch()
        engine.bootstrap(SESSION, file.path)
        assert context(engine) == ["hello", "hi"]


def test_a_rotation_keeps_what_is_written_differently_under_a_known_id(tmp_path: Path) -> None:
    file = tmp_path / "run-1.jsonl"
    records = [{"type": "session", "version": 3, "id": "run-1"}]
    parent: str | None = None
    for n in range(20):
        said = {"role": ("user", "assistant")[n % 2], "content": f"message {n}"}
        records.append(entry(f"e{n}", parent, said))
        parent = f"e{n}"
    file.write_bytes(dumped(records))
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.bootstrap(SESSION, file)
        records[3]["message"] = {"role": "user", "content": "message [redacted]"}
        records[4]["message"] = {"role": "assistant", "content": "other words than were read"}
        file.write_bytes(dumped(records))
        assert engine.rotate(SESSION).rotated
        assert "redacted" not in file.read_text()
        assert "other words" not in file.read_text()
        kept = [record for _, _, record in engine.archive.transcripts.records(1)]
        assert sum("message [redacted]" in json.dumps(record) for record in kept) == 1
        assert len(kept) == 2, "the header, and this one"
        assert words(engine).count("other words than were read") == 1


# --- an id that is known, and other words ---


def words(engine: lossless.Engine) -> list[str]:
    """All that is stored, in the order in which it came."""
    return [row.message.content for row in engine.archive.messages.in_order(1, limit=5000)]


def test_an_entry_that_its_host_has_edited_takes_its_place(tmp_path: Path) -> None:
    file = TranscriptFile(tmp_path / "run-1.jsonl", "run-1")
    file.say_all("question", "answer", "thanks")
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.bootstrap(SESSION, file.path)
        file.path.write_text(file.path.read_text().replace('"answer"', '"something else"'))
        file.touch()
        report = engine.bootstrap(SESSION, file.path)
        assert (report.stored, report.revised) == (0, 1)
        file.touch()
        report = engine.bootstrap(SESSION, file.path)
        assert (report.stored, report.revised) == (0, 0)
        assert words(engine) == context(engine) == ["question", "something else", "thanks"]
        assert earlier(engine) == ["answer"]
        assert problems(engine) == []


@pytest.mark.parametrize("apart", [1, 1200])
@pytest.mark.parametrize("steps", [1, 3])
def test_messages_that_share_an_id_are_all_stored(tmp_path: Path, apart: int, steps: int) -> None:
    """Read in one go or bit by bit, and again; also when more than a chunk lies between them.

    Another role is another message. With an odd number between them the last one has the role of the second.
    """
    names = [("one", "x"), ("two", "x"), *((f"between {n}", f"b{n}") for n in range(apart)), ("three", "x")]
    file = TranscriptFile(tmp_path / "run-1.jsonl", "run-1")
    with open_engine(tmp_path / "lcm.db") as engine:
        for n, (text, id_) in enumerate(names):
            file.say(text, id_, parent=None)
            if n * steps % len(names) < steps - 1:
                engine.bootstrap(SESSION, file.path)
        for _ in range(3):
            engine.bootstrap(SESSION, file.path)
            file.touch()
        old = [] if apart % 2 else ["one"]  # it has the role and the id of the last one: these are its words now
        assert sorted(words(engine)) == sorted(text for text, _ in names if text not in old)
        assert sorted(context(engine)) == sorted(words(engine))
        assert earlier(engine) == old
        assert problems(engine) == []


def test_entries_that_follow_each_other_under_one_id_are_one_row(tmp_path: Path) -> None:
    file = TranscriptFile(tmp_path / "run-1.jsonl", "run-1")
    for text in ("It", "It listens", "It listens on 8443.", "It is off."):
        file.at -= 1000  # the same one speaks
        file.say(text, "x", parent=None)
    with open_engine(tmp_path / "lcm.db") as engine:
        report = engine.bootstrap(SESSION, file.path)
        assert (report.stored, report.revised) == (1, 3)
        file.touch()
        assert engine.bootstrap(SESSION, file.path).revised == 0
        assert words(engine) == context(engine) == ["It is off."]
        assert sorted(earlier(engine)) == ["It", "It listens", "It listens on 8443."]
        assert problems(engine) == []


def test_a_batch_that_shares_an_id_with_another_role_is_stored_once(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(SESSION, [lossless.Incoming({"role": "user", "content": "question"}, "x")])
        answer = lossless.Incoming({"role": "assistant", "content": "answer"}, "x")
        assert [engine.append(SESSION, [answer]).stored for _ in range(3)] == [1, 0, 0]
        assert words(engine) == context(engine) == ["question", "answer"]
        assert problems(engine) == []


def test_another_file_that_counts_its_entries_in_the_same_way_loses_nothing(tmp_path: Path) -> None:
    """Ids name the place: what the second file says there is newer, and reading the first one again changes nothing."""
    first, second = (TranscriptFile(tmp_path / f"{name}.jsonl", "run-1") for name in ("one", "two"))
    for file, name in ((first, "here"), (second, "there")):
        for n in range(4):
            file.say(f"{name} {n}", str(n))
    with open_engine(tmp_path / "lcm.db") as engine:
        for _ in range(2):
            for file in (first, second):
                engine.bootstrap(SESSION, file.path)
        said = [f"there {n}" for n in range(4)]
        assert (context(engine), words(engine)) == (said, said)
        assert earlier(engine) == [f"here {n}" for n in range(4)]
        assert problems(engine) == []


@given(
    steps=st.lists(
        st.sampled_from(["turn", "turn with ids", "missed turn", "window", "read"]), min_size=2, max_size=10
    ),
    is_read_first=st.booleans(),
)
@example(steps=["missed turn", "turn", "window", "turn"], is_read_first=True)
@example(steps=["missed turn", "turn with ids"], is_read_first=True)
@settings(max_examples=30, deadline=None)
def test_turns_windows_and_the_transcript_are_one_history(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], is_read_first: bool
) -> None:
    file = TranscriptFile(tmp_path_factory.mktemp("mixed") / "run-1.jsonl", "run-1")
    words: list[str] = []

    def say_turn() -> list[lossless.Incoming]:
        said = []
        for role in ("user", "assistant"):
            words.append(f"{role} speaks of topic {len(words)}, which is {len(words) * 7919} miles away")
            file.say(words[-1], f"e{len(words)}")
            said.append(lossless.Incoming({"role": role, "content": words[-1]}, entry_id=f"e{len(words)}"))
        return said

    with lossless.open(":memory:", background=False) as engine:
        say_turn()
        if is_read_first:
            engine.bootstrap(SESSION, file.path)
        for step in [*steps, "read"]:
            if step == "turn":
                engine.append(SESSION, [one.message for one in say_turn()])
            elif step == "turn with ids":
                engine.append(SESSION, say_turn())
            elif step == "missed turn":
                say_turn()
            elif step == "window":
                roles = ("user", "assistant")
                engine.sync(SESSION, [{"role": roles[n % 2], "content": text} for n, text in enumerate(words)])
            else:
                engine.bootstrap(SESSION, file.path)
        assert context(engine) == words
        assert problems(engine) == []


@pytest.mark.parametrize("frame", ["[Thu 2026-11-19 05:50 UTC] {}", "{} Please answer in German."])
def test_the_first_reading_keeps_other_words_under_known_ids(tmp_path: Path, frame: str) -> None:
    file = TranscriptFile(tmp_path / "run-1.jsonl", "run-1")
    file.say("And the crane that loads the trucks?", "q")
    with open_engine(tmp_path / "lcm.db") as engine:
        live = frame.format("And the crane that loads the trucks?")
        engine.sync(SESSION, [lossless.Incoming({"role": "user", "content": live}, entry_id="q")])
        engine.bootstrap(SESSION, file.path)
        assert (context(engine), earlier(engine)) == ([live], ["And the crane that loads the trucks?"])
        assert problems(engine) == []


def test_a_batch_that_begins_with_a_decorated_message_is_known(tmp_path: Path) -> None:
    said = ["Where is the ferry to Ischia?", "In Naples.", "And the crane for trucks?", "Behind the gate.", "Thanks!"]
    plain = [{"role": "user" if n % 2 == 0 else "assistant", "content": text} for n, text in enumerate(said)]
    shown = [*plain[:2], {"role": "user", "content": f"[Thu 2026-11-19 05:50 UTC] {said[2]}"}, plain[3]]
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.sync(SESSION, shown)
        report = engine.append(SESSION, [lossless.Incoming(plain[n], entry_id=f"e{n}") for n in (2, 3, 4)])
        assert (report.stored, report.revised, report.likely) == (1, 1, 1)
        assert context(engine) == said
