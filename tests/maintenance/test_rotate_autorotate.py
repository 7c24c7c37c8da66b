"""Transcripts that grow too large are shortened without being asked, at the right moment, and each decision is told."""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.maintenance.rotate import decide_rotation, indexed_sessions
from tests.maintenance.keeping import dumped, open_engine, parsed, problems, transcript

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUMMARY = [
    "phase", "action", "scanned", "eligible", "rotated", "warned", "skipped", "durationMs", "bytesRemoved",
]  # fmt: skip
DETAIL = [
    "phase", "action", "sessionId", "sessionKey", "sessionFile", "sizeBytes", "thresholdBytes", "durationMs",
    "bytesRemoved", "preservedTailMessageCount", "checkpointSize",
]  # fmt: skip


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A host's folder: agent main with a large, a small and an unknown session, and one agent whose index is broken."""
    folder = tmp_path / "state" / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    (folder / "large.jsonl").write_bytes(dumped(transcript(60, "large")))
    (folder / "odd-name.jsonl").write_bytes(dumped(transcript(60, "named")))
    (folder / "small.jsonl").write_bytes(dumped(transcript(3, "small")))
    (folder / "stranger.jsonl").write_bytes(dumped(transcript(60, "stranger")))
    index = {
        "agent:main:large": {"sessionId": "large"},
        "agent:main:named": {"sessionId": "named", "sessionFile": str(folder / "odd-name.jsonl")},
        "agent:main:small": {"sessionId": "small"},
        "agent:main:stranger": {"sessionId": "stranger"},
        "agent:main:gone": {"sessionId": "gone"},
        "agent:main:broken": {"sessionId": 7},
        "agent:main:nul": {"sessionId": "x", "sessionFile": "a\0b"},
    }
    (folder / "sessions.json").write_text(json.dumps(index))
    broken = tmp_path / "state" / "agents" / "other" / "sessions"
    broken.mkdir(parents=True)
    (broken / "sessions.json").write_text("{")
    return tmp_path / "state"


def sessions(state: Path) -> dict[str, Path]:
    folder = state / "agents" / "main" / "sessions"
    return {name: folder / f"{file}.jsonl" for name, file in
            (("large", "large"), ("named", "odd-name"), ("small", "small"))}  # fmt: skip


def known(engine: lossless.Engine, state: Path) -> None:
    for name, file in sessions(state).items():
        engine.bootstrap(lossless.Session(key=f"agent:main:{name}", id=name), file)


def open_it(path: Path, log: Path, **changed: Any) -> lossless.Engine:
    more = {"auto_rotate_session_files_size_bytes": 4_000, "independent_log_file_enabled": True}
    return open_engine(path, independent_log_file_file=str(log), **more | changed)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log" / "lossless.log"


@pytest.fixture
def engine(path: Path, state: Path, log: Path) -> Iterator[lossless.Engine]:
    with open_it(path, log) as opened:
        known(opened, state)
        yield opened


def lines(log: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in log.read_text().splitlines()]
    return [line for line in found if line["event"] == "auto-rotate"]


def fields(line: dict[str, Any]) -> list[str]:
    """The names in the text of a line, in order."""
    assert line["message"].startswith("[lcm] auto-rotate: phase=")
    return re.findall(r"(\w+)=", line["message"])


def test_the_indexes_of_all_agents_are_read(state: Path, tmp_path: Path) -> None:
    found = indexed_sessions(state)
    assert {key.split(":")[-1] for key, _, _ in found} == {"large", "named", "small", "stranger", "gone"}
    assert {path.name for key, _, path in found if key.endswith("named")} == {"odd-name.jsonl"}
    assert indexed_sessions(tmp_path / "nowhere") == []


def test_at_start_large_transcripts_are_rotated(engine: lossless.Engine, state: Path, log: Path) -> None:
    small = sessions(state)["small"].read_bytes()
    stranger = state / "agents" / "main" / "sessions" / "stranger.jsonl"
    before = stranger.read_bytes()
    report = engine.rotation.at_start(state)
    assert (report.scanned, report.eligible, report.rotated, report.warned, report.skipped) == (5, 2, 2, 0, 3)
    assert report.bytes_removed > 0
    for name in ("large", "named"):
        assert len(parsed(sessions(state)[name].read_bytes())) == 6
    assert sessions(state)["small"].read_bytes() == small
    assert stranger.read_bytes() == before, "nobody follows it"
    told = lines(log)
    assert [fields(line) for line in told] == [DETAIL, DETAIL, SUMMARY]
    assert [line["action"] for line in told] == ["rotate", "rotate", "summary"]
    assert (told[0]["sessionId"], told[0]["sessionKey"]) == ("large", "agent:main:large")
    assert told[0]["preservedTailMessageCount"] == 4
    assert told[0]["checkpointSize"] == sessions(state)["large"].stat().st_size
    assert problems(engine) == []
    again = engine.rotation.at_start(state)
    assert (again.eligible, again.rotated) == (0, 0)


def test_one_backup_for_the_whole_batch(path: Path, state: Path, log: Path) -> None:
    with open_it(path, log, auto_rotate_session_files_create_backups=True) as engine:
        known(engine, state)
        report = engine.rotation.at_start(state)
    assert report.backup is not None
    assert list(path.parent.glob("*.bak")) == [report.backup]
    told = lines(log)
    assert {line["backupPath"] for line in told} == {str(report.backup)}
    assert fields(told[-1]) == [*SUMMARY, "backupPath"]


def test_at_start_one_may_only_be_warned(path: Path, state: Path, log: Path) -> None:
    with open_it(path, log, auto_rotate_session_files_startup="warn") as engine:
        known(engine, state)
        before = sessions(state)["large"].read_bytes()
        report = engine.rotation.at_start(state)
        assert (report.rotated, report.warned) == (0, 2)
        assert sessions(state)["large"].read_bytes() == before
    assert [(line["action"], line["level"]) for line in lines(log)] == [("warn", "warning")] * 2 + [("summary", "info")]
    assert all("reason=" in line["message"] for line in lines(log)[:2])


@pytest.mark.parametrize(
    "changed",
    [
        {"auto_rotate_session_files_startup": "off", "auto_rotate_session_files_runtime": "off"},
        {"auto_rotate_session_files_enabled": False},
        {"ignore_session_patterns": ("agent:**",)},
        {"stateless_session_patterns": ("agent:**",)},
    ],
)
def test_it_can_be_off_and_never_touches_excluded_sessions(
    path: Path, state: Path, log: Path, changed: dict[str, Any]
) -> None:
    with open_it(path, log) as engine:
        known(engine, state)
    before = sessions(state)["large"].read_bytes()
    with open_it(path, log, **changed) as engine:
        assert engine.rotation.at_start(state).rotated == 0
        session = lossless.Session(key="agent:main:large", id="large")
        assert engine.rotation.between_turns(session, sessions(state)["large"]) == "off"
    assert sessions(state)["large"].read_bytes() == before


def test_a_transcript_that_is_refused_is_warned_of(engine: lossless.Engine, state: Path, log: Path) -> None:
    large = sessions(state)["large"]
    large.write_bytes(large.read_bytes() + b'{"half')
    report = engine.rotation.at_start(state)
    assert (report.rotated, report.warned) == (1, 1)
    (warning,) = [line for line in lines(log) if line["action"] == "warn"]
    assert (warning["reason"], warning["level"]) == ("its last line is not finished", "warning")


# --- between turns ---


@pytest.mark.parametrize(
    ("size", "mode", "unsafe", "action"),
    [
        (100, "rotate", None, "skip"),
        (101, "rotate", None, "rotate"),
        (101, "rotate", "a turn is in progress", "defer"),
        (101, "warn", None, "warn"),
        (101, "warn", "a turn is in progress", "warn"),
        (10**9, "off", None, "off"),
    ],
)
def test_decisions(size: int, mode: Any, unsafe: str | None, action: str) -> None:
    assert decide_rotation(size, 100, mode, unsafe) == action


def test_between_turns_it_waits_for_a_safe_moment(
    engine: lossless.Engine, state: Path, log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session, file = lossless.Session(key="agent:main:large", id="large"), sessions(state)["large"]
    before = file.read_bytes()
    with caplog.at_level(logging.INFO, "lossless"):
        assert engine.rotation.between_turns(session, file, unsafe="a turn is in progress") == "defer"
        assert file.read_bytes() == before
        assert engine.rotation.between_turns(session, file) == "rotate"
        assert engine.rotation.between_turns(session, file) == "skip"
    assert len(parsed(file.read_bytes())) == 6
    told = lines(log)
    assert [line["action"] for line in told] == ["defer", "rotate"]
    assert told[0]["reason"] == "a turn is in progress"
    assert told[1]["phase"] == "runtime"
    assert [record.getMessage() for record in caplog.records] == [line["message"] for line in told]
    small = lossless.Session(key="agent:main:small", id="small")
    assert engine.rotation.between_turns(small, sessions(state)["small"]) == "skip"
    assert engine.rotation.between_turns(lossless.Session(key="nobody"), file) == "off"
    assert engine.rotation.between_turns(session, file.with_name("none")) == "off"


def test_the_rolling_backup_comes_first_when_it_is_wanted(path: Path, state: Path, log: Path) -> None:
    with open_it(path, log, auto_rotate_session_files_create_backups=True) as engine:
        known(engine, state)
        session = lossless.Session(key="agent:main:large", id="large")
        assert engine.rotation.between_turns(session, sessions(state)["large"]) == "rotate"
    assert list(path.parent.glob("*.bak")) == [path.with_name("lcm.db.rotate-latest.bak")]
