"""What was read while its host still wrote it: the whole of it is taken over, and no rotation loses a word."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

import lossless
from tests.lifecycle.keeping import dumped, entry, open_engine, problems
from tests.lifecycle.transcript_files import TranscriptFile

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SESSION = lossless.Session(key="agent:main:main", id="run-1")
WHOLE = "partial answer, now whole: 42"


def context(engine: lossless.Engine) -> list[str]:
    """What is in the context, oldest first."""
    items = engine.archive.context.items(1)
    return [engine.archive.messages.get(item.message_id).message.content for item in items]  # type: ignore[union-attr]


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
        assert engine.bootstrap(SESSION, file.path).stored == 2
        assert context(engine) == ["question", WHOLE, "thanks"]
        assert engine.grep("now whole: 42", mode="regex", session=SESSION).total == 1
        file.touch()
        assert engine.bootstrap(SESSION, file.path).stored == 0
        file.say("more", "m")
        assert engine.bootstrap(SESSION, file.path).stored == 1
        assert context(engine) == ["question", WHOLE, "thanks", "more"]
        assert problems(engine) == []


@given(texts=st.lists(st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=3), min_size=1, max_size=4))
@settings(max_examples=25, deadline=None)
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
        records[3]["message"] = {"role": "user", "content": "other words than were read"}
        file.write_bytes(dumped(records))
        assert engine.rotate(SESSION).rotated
        assert "other words" not in file.read_text()
        kept = [record for _, _, record in engine.archive.transcripts.records(1)]
        assert sum("other words than were read" in json.dumps(record) for record in kept) == 1
        assert len(kept) == 2, "the header, and this one"
