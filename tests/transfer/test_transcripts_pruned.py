"""Importing history that was deleted for good: it stays away and is counted, until somebody asks for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.maintenance.prune import PruneFilter
from tests.faults import problems
from tests.maintenance.transcript_files import TranscriptFile
from tests.transfer.test_transcripts import claude, export, stored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lossless.transfer.transcripts import ImportOutcome


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[lossless.Engine]:
    quiet = lossless.Settings(independent_log_file_enabled=False)
    with lossless.open(tmp_path / "lcm.db", quiet, background=False) as opened:
        yield opened


def prune(engine: lossless.Engine, pattern: str = "**") -> None:
    engine.admin.prune(engine.admin.prune_plan(PruneFilter(patterns=(pattern,), include_active=True)), backup=False)


def both(engine: lossless.Engine, kind: str, path: Path, *, again: bool = False) -> list[tuple[str, int, int]]:
    """Status, messages and what is left out of each conversation, once it is shown that trying says the same."""

    def told(outcomes: list[ImportOutcome]) -> list[tuple[str, int, int]]:
        return [(one.status.replace("would-import", "imported"), one.messages, one.pruned) for one in outcomes]

    before = engine.archive.listings.counts()
    tried = told(engine.transfer.import_transcripts(kind, [path], again=again, dry_run=True))
    assert engine.archive.listings.counts() == before
    done = told(engine.transfer.import_transcripts(kind, [path], again=again))
    assert tried == done
    assert not problems(engine)
    return done


def conversations(engine: lossless.Engine) -> int:
    return engine.archive.listings.counts().conversations


def openclaw(path: Path) -> Path:
    file = TranscriptFile(path, "run-1")
    file.say_all("a", "b", "c")
    return path


def plain(path: Path) -> Path:
    path.write_text("".join(json.dumps({"role": "user", "content": text}) + "\n" for text in "abc"))
    return path


def of_claude(path: Path) -> Path:
    lines = [claude("a", None, "user"), claude("b", "a", "assistant"), claude("c", "b", "user")]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("kind", "write"), [("openclaw", openclaw), ("pi", openclaw), ("jsonl", plain), ("claude-code", of_claude)]
)
def test_a_file_that_was_all_pruned_makes_no_conversation(
    engine: lossless.Engine, tmp_path: Path, kind: str, write: Any
) -> None:
    path = write(tmp_path / "run-1.jsonl")
    assert both(engine, kind, path) == [("imported", 3, 0)]
    texts = stored(engine)
    prune(engine)
    for _ in range(2):
        assert both(engine, kind, path) == [("skipped", 0, 3)]
        assert conversations(engine) == 0
    (outcome,) = engine.transfer.import_transcripts(kind, [path])
    assert "--again" in (outcome.reason or "")
    assert both(engine, kind, path, again=True) == [("imported", 3, 0)]
    assert stored(engine) == texts
    assert both(engine, kind, path, again=True) == both(engine, kind, path) == [("up-to-date", 0, 0)]


def test_what_is_new_in_a_pruned_file_is_stored(engine: lossless.Engine, tmp_path: Path) -> None:
    file = TranscriptFile(tmp_path / "run-1.jsonl", "run-1")
    file.say_all("a", "b", "c")
    both(engine, "openclaw", file.path)
    prune(engine)
    file.say_all("d")
    assert both(engine, "openclaw", file.path) == [("imported", 1, 3)]
    assert both(engine, "openclaw", file.path, again=True) == [("imported", 3, 0)]
    assert sorted(stored(engine)) == ["a", "b", "c", "d"]


def test_one_conversation_of_an_export_was_pruned(engine: lossless.Engine, tmp_path: Path) -> None:
    path = export(tmp_path / "conversations.json", 3)
    both(engine, "chatgpt", path)
    texts = stored(engine)
    prune(engine, "chatgpt:conv-0")
    there = ("up-to-date", 0, 0)
    assert both(engine, "chatgpt", path) == [("skipped", 0, 3), there, there]
    assert conversations(engine) == 2
    assert both(engine, "chatgpt", path, again=True) == [("imported", 3, 0), there, there]
    assert both(engine, "chatgpt", path) == [there] * 3
    assert sorted(stored(engine)) == sorted(texts)


def test_all_conversations_of_an_export_were_pruned(engine: lossless.Engine, tmp_path: Path) -> None:
    path = export(tmp_path / "conversations.json", 3)
    both(engine, "chatgpt", path)
    texts = stored(engine)
    prune(engine)
    assert both(engine, "chatgpt", path) == [("skipped", 0, 3)] * 3
    assert both(engine, "chatgpt", path, again=True) == [("imported", 3, 0)] * 3
    assert stored(engine) == texts


def test_a_later_conversation_with_the_same_file_is_pruned(engine: lossless.Engine, tmp_path: Path) -> None:
    """The order of numbers does not decide what is a conversation's own and what was another's."""
    file = TranscriptFile(tmp_path / "run-1.jsonl", "run-1")
    file.say_all("a", "b")
    here, other = lossless.Session(key="here"), lossless.Session(key="other")
    engine.append(here, [{"role": "user", "content": "before"}])
    engine.bootstrap(other, file.path)
    prune(engine, "other")
    report = engine.bootstrap(here, file.path)
    assert (report.stored, report.pruned) == (0, 2)
    assert stored(engine) == ["before"]


def test_what_comes_back_of_a_file_without_ids_is_not_stored_twice(engine: lossless.Engine, tmp_path: Path) -> None:
    path = plain(tmp_path / "plain.jsonl")
    both(engine, "jsonl", path)
    prune(engine)
    with path.open("a") as file:
        file.write(json.dumps({"role": "user", "content": "d"}) + "\n")
    assert both(engine, "jsonl", path) == [("imported", 1, 3)]
    assert both(engine, "jsonl", path, again=True) == [("imported", 3, 0)]
    assert sorted(stored(engine)) == ["a", "b", "c", "d"]
    assert both(engine, "jsonl", path, again=True) == [("up-to-date", 0, 0)]


def test_a_session_that_has_only_a_key_begins_no_conversation(engine: lossless.Engine, tmp_path: Path) -> None:
    session, path = lossless.Session(key="agent:main:main"), openclaw(tmp_path / "run-1.jsonl")
    engine.bootstrap(session, path)
    prune(engine)
    report = engine.bootstrap(session, path)
    assert (report.status, report.conversation_id, report.pruned) == ("excluded", None, 3)
    assert conversations(engine) == 0
    assert engine.after_turn(session, transcript=path).transcript == report
    engine.after_turn(session, new_messages=[{"role": "user", "content": "d"}], transcript=path)
    assert stored(engine) == ["d"]
