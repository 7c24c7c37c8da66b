"""Only OpenClaw's own transcripts are rewritten, and what leaves them is kept once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.maintenance import rotate as rotation
from lossless.maintenance.rotate import rotate_transcript
from tests.maintenance.keeping import dumped, header, open_engine, problems, transcript, words

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from lossless.maintenance.rotate import RecordedMessage

SESSION = lossless.Session(key="agent:main:main", id="run-1")
TAIL = 4


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sessions" / "run-1.jsonl"
    path.parent.mkdir()
    path.write_bytes(dumped(transcript(20)))
    return path


def all_stored(_: Iterable[RecordedMessage]) -> None:
    return None


# --- whose file it is ---


def test_a_file_that_may_not_be_written_is_left_alone(file: Path) -> None:
    before = file.read_bytes()
    file.chmod(0o444)
    for report in (rotation.plan_rotation(file, TAIL), rotate_transcript(file, TAIL, all_stored)):
        assert (report.rotated, report.reason) == (False, "it is read-only")
    file.chmod(0o600)
    os.link(file, file.with_name("second.jsonl"))
    for report in (rotation.plan_rotation(file, TAIL), rotate_transcript(file, TAIL, all_stored)):
        assert not report.rotated
        assert "hard link" in str(report.reason)
    assert file.read_bytes() == before
    assert sorted(os.listdir(file.parent)) == ["run-1.jsonl", "second.jsonl"]


def _claude(n: int) -> dict[str, Any]:
    said = {"role": "user" if n % 2 == 0 else "assistant", "content": f"{n}"}
    parent = f"u{n - 1}" if n else None
    return {"type": said["role"], "uuid": f"u{n}", "parentUuid": parent, "sessionId": "s", "message": said}


def _codex(n: int) -> dict[str, Any]:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"{n}"}]}
    return {"type": "response_item", "payload": item}


OTHERS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "claude-code": ("Claude Code", [_claude(n) for n in range(20)]),
    "codex": ("Codex", [{"type": "session_meta", "payload": {"id": "t"}}, *map(_codex, range(20))]),
    "pi": ("pi", [header() | {"provider": "fake", "modelId": "one"}, *transcript(20)[1:]]),
    "jsonl": ("a program that is not known", [{"role": "user", "content": f"{n}"} for n in range(20)]),
    "chatgpt": ("ChatGPT", [{"mapping": {"a": {"parent": None}}, "title": "x"}]),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_transcripts_of_other_programs_are_never_rewritten(tmp_path: Path, kind: str) -> None:
    owner, records = OTHERS[kind]
    file, session = tmp_path / "talk.jsonl", lossless.Session(key="agent:main:other", id="other")
    file.write_bytes(dumped(records))
    with open_engine(tmp_path / "lcm.db", auto_rotate_session_files_size_bytes=10) as engine:
        engine.bootstrap(session, file)
        for report in (engine.rotate(session, file, dry_run=True), engine.rotate(session, file)):
            assert (report.rotated, f"belongs to {owner} " in str(report.reason)) == (False, True)
        assert engine.rotation.between_turns(session, file) == "warn"
    assert file.read_bytes() == dumped(records)


def test_what_was_imported_from_another_program_is_never_rewritten(tmp_path: Path) -> None:
    """Newer files of pi look like OpenClaw's; the conversation's name and the folder tell."""
    file, kept = tmp_path / "talk.jsonl", tmp_path / ".pi" / "agent" / "talk.jsonl"
    kept.parent.mkdir(parents=True)
    for path in (file, kept):
        path.write_bytes(dumped(transcript(20)))
    imported, other = lossless.Session(key="pi:run-1", id="run-1"), lossless.Session(key="agent:main:x", id="x")
    with open_engine(tmp_path / "lcm.db") as engine:
        for session, path in ((imported, file), (other, kept)):
            engine.bootstrap(session, path)
            assert "belongs to pi" in str(engine.rotate(session, path).reason)
            assert path.read_bytes() == dumped(transcript(20))


# --- transcripts without ids ---


def test_messages_without_ids_are_not_kept_a_second_time(tmp_path: Path) -> None:
    file = tmp_path / "run-1.jsonl"
    note = {"role": "assistant", "content": "", "stopReason": "aborted"}

    def say(first: int, last: int) -> None:
        said = [{"role": ("user", "assistant")[n % 2], "content": f"{n} {words(n)}"} for n in range(first, last)]
        lines = [{"type": "message", "message": message} for message in said]
        with file.open("ab") as end:
            end.write(dumped([*lines[:2], {"type": "message", "message": note}, {"type": "custom"}, *lines[2:]]))

    file.write_bytes(dumped([header()]))
    say(0, 40)
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.bootstrap(SESSION, file)
        for round_ in (1, 2):
            before = engine.archive.transcripts.records(1)
            report = engine.rotate(SESSION, file)
            assert (report.rotated, report.reason) == (True, None)
            assert engine.archive.transcripts.records(1) == before
            assert engine.archive.listings.counts().messages == 40 * round_
            say(40 * round_, 40 * round_ + 40)
            assert engine.bootstrap(SESSION, file).stored == 40
        assert problems(engine) == []
