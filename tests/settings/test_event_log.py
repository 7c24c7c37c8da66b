"""The log tells what was done, never what was said; and it never gets in the way."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lossless
from lossless.settings import event_log
from lossless.settings.event_log import EventLog, format_line, loggable_fields

DAY = datetime(2026, 7, 10, 12, tzinfo=UTC)
BIG = 1 << 20
WRITER = """
import sys
from lossless.settings.event_log import EventLog
book = EventLog(sys.argv[1], int(sys.argv[2]))
for n in range(300):
    book.log("turn", count=n, sessionId=sys.argv[3] * 40)
"""


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def book(file: Path | None, size: int = BIG, at: datetime = DAY, *, enabled: bool = True) -> EventLog:
    return EventLog(None if file is None else str(file), size, enabled=enabled, clock=lambda: at)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_has_time_level_event_and_fields(tmp_path: Path) -> None:
    file = tmp_path / "own.log"
    book(file).log(
        "compaction", conversationId=7, tokensBefore=900, tokensAfter=300, reason="compacted", durationMs=1.5
    )
    book(file).log("ingest", "warning", conversationId=7, reason="blocked")
    first, second = lines(file)
    assert first == {
        "time": "2026-07-10T12:00:00.000Z", "level": "info", "event": "compaction", "pid": os.getpid(),
        "conversationId": 7, "tokensBefore": 900, "tokensAfter": 300, "reason": "compacted", "durationMs": 1.5,
    }  # fmt: skip
    assert (second["level"], second["reason"]) == ("warning", "blocked")


def test_by_default_it_lies_in_a_private_folder_under_a_dated_name(temp: Path) -> None:
    mine = book(None)
    assert mine.path == temp / "lossless" / "lossless-2026-07-10.log"
    assert not mine.path.parent.exists(), "nothing is made before the first line"
    mine.log("start")
    assert stat.S_IMODE(mine.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(mine.path.parent.stat().st_mode) == 0o700


def test_it_costs_nothing_while_it_is_off(temp: Path) -> None:
    off = book(None, enabled=False)
    off.log("start", conversationId=1)
    assert off.say("auto-rotate", phase="startup") == "[lcm] auto-rotate: phase=startup"
    assert list(temp.iterdir()) == []


def test_a_date_in_the_name_is_always_today(tmp_path: Path) -> None:
    file = tmp_path / "mine-2020-01-01.log"
    assert book(file).path.name == "mine-2026-07-10.log"
    assert book(tmp_path / "plain.log").path.name == "plain.log"


def test_dated_logs_go_after_three_days(tmp_path: Path) -> None:
    names = [f"lossless-{date(2026, 7, 10) - timedelta(days=n)}.log" for n in range(7)]
    others = ["lossless-2026-01-01.txt", "other-2026-01-01.log", "lossless-2026-99-99.log", "plain.log"]
    aside = ["lossless-2026-07-01.3.log", ".lossless-2026-07-01.log.lock"]
    for name in (*names, *others, *aside):
        (tmp_path / name).write_text("x")
    book(tmp_path / "lossless-2020-01-01.log").log("start")
    assert {path.name for path in tmp_path.iterdir()} == {*names[:4], *others}


def test_a_full_file_is_put_aside_and_five_stay(tmp_path: Path) -> None:
    file, mine = tmp_path / "own.log", book(tmp_path / "own.log", 400)
    for n in range(60):
        mine.log("turn", count=n)
    found = sorted(path.name for path in tmp_path.glob("own*"))
    assert found == ["own.1.log", "own.2.log", "own.3.log", "own.4.log", "own.5.log", "own.log"]
    assert all(path.stat().st_size <= 400 for path in tmp_path.glob("own*"))
    numbers = [line["count"] for n in (5, 4, 3, 2, 1) for line in lines(tmp_path / f"own.{n}.log")]
    numbers += [line["count"] for line in lines(file)]
    assert numbers == list(range(numbers[0], 60)), "the newest, in order, without a gap"


def test_lines_of_several_processes_do_not_mix(tmp_path: Path) -> None:
    file = tmp_path / "own.log"
    command = [sys.executable, "-c", WRITER, str(file), str(200_000)]
    writers = [subprocess.Popen([*command, name]) for name in "abc"]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    found = [line for path in tmp_path.glob("own*.log") for line in lines(path)]
    for name in "abc":
        mine = sorted(line["count"] for line in found if line["sessionId"] == name * 40)
        assert mine == list(range(300))


@pytest.mark.parametrize("place", ["folder", "no rights", "file as folder", "link"])
def test_what_goes_wrong_is_not_noticed(tmp_path: Path, place: str) -> None:
    file = tmp_path / "x.log"
    if place == "folder":
        file.mkdir()
    elif place == "file as folder":
        (tmp_path / "file").write_text("x")
        file = tmp_path / "file" / "x.log"
    elif place == "link":
        file.symlink_to(tmp_path / "elsewhere")
    else:
        file = Path("/proc/nowhere/x.log")
    book(file).log("start", conversationId=1)
    assert not (tmp_path / "elsewhere").exists()


def test_somebody_elses_folder_is_not_used(temp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (temp / "lossless").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    book(None).log("start")
    assert list((temp / "lossless").iterdir()) == []


# --- what may be said ---


def test_words_that_are_not_known_to_be_harmless_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "own.log"
    said: dict[str, Any] = {"content": "my password is hunter2", "text": "hello", "messages": ["a", "b"], "prompt": "x"}
    book(file).log("turn", conversationId=3, reason=None, **said)
    (line,) = lines(file)
    assert (line["conversationId"], line["leftOut"]) == (3, 4)
    assert not {"content", "text", "prompt", "messages", "reason"} & set(line)
    assert "hunter2" not in file.read_text()


def test_secrets_are_blotted_out_wherever_they_stand() -> None:
    fields = loggable_fields({
        "reason": "401 for sk-ant-REDACTED and Bearer abc.def",
        "path": "postgresql://me:secret@host/db",
        "error": lossless.LosslessError("the text of a message"),
        "sessionFile": Path("/home/me/a b.jsonl"),
    })  # fmt: skip
    assert fields == {
        "reason": "401 for [secret] and [secret]",
        "path": "postgresql://me:***@host/db",
        "error": "internal",
        "sessionFile": "/home/me/a b.jsonl",
    }


def test_the_text_of_a_line_is_easy_to_grep() -> None:
    fields = {"phase": "startup", "action": "summary", "scanned": 3, "reason": 'say "no"', "backupPath": None, "x": 1}
    assert format_line("auto-rotate", fields) == (
        '[lcm] auto-rotate: phase=startup action=summary scanned=3 reason="say \\"no\\""'
    )


@given(
    st.dictionaries(
        st.sampled_from(["reason", "path", "count", "content"]), st.one_of(st.text(), st.integers(), st.none())
    )
)
def test_a_line_is_one_line_whatever_is_in_it(fields: dict[str, Any]) -> None:
    text = format_line("event", fields)
    assert text.isprintable() or not any(ord(character) < 32 for character in text)
    assert "\n" not in text
    assert "content" not in loggable_fields(fields)
    json.dumps(loggable_fields(fields))


def test_an_engine_has_the_log_of_its_settings(tmp_path: Path) -> None:
    file = tmp_path / "own.log"
    settings = lossless.Settings(independent_log_file_file=str(file))
    with lossless.open(tmp_path / "lcm.db", settings, background=False) as engine:
        assert engine.admin.log.enabled
        engine.admin.log.log("start", conversationId=1)
    assert lines(file)[0]["event"] == "start"
    off = lossless.Settings(independent_log_file_enabled=False)
    with lossless.open(tmp_path / "lcm.db", off, background=False) as engine:
        assert not engine.admin.log.enabled
    assert event_log.KEPT_FILES == 5
