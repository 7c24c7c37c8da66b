"""Transcripts on disk: read in windows, found behind a session, laid over the archive, stored after a preview."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

import lossless
from lossless.testing import VirtualClock
from lossless.tui import session_files
from lossless.tui.screens import compare
from lossless.tui.screens.transcript import TranscriptReader
from lossless.tui.session_files import find_session_folders
from lossless.tui.text import LocalTimes
from tests.maintenance.surgery_kit import talk
from tests.tui.kit import Person, at, room_of
from tests.tui.rollouts import THREAD, item, rollout, session_file, write

if TYPE_CHECKING:
    from pathlib import Path

CODEX = lossless.Session(key=f"codex:ferry:{THREAD}", id=THREAD)
WINDOW = {"changed": {"tui_conversation_window_size": 50}}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "codex"


@pytest.fixture
def stored(tmp_path: Path, home: Path) -> Path:
    """An archive that has a rollout of a hundred and twenty messages."""
    path = tmp_path / "stored.db"
    with lossless.open(path, background=False) as engine:
        engine.bootstrap(CODEX, rollout(home, 120), fold=False)
    return path


# --- windows of a file ---


def test_windows_of_a_file_show_each_message_once(home: Path) -> None:
    scroll = TranscriptReader(rollout(home, 23))
    assert (len(scroll), scroll.bad_lines, scroll.others) == (23, 1, 1)
    said = [one for first in range(0, 23, 5) for one in scroll.window(first, 5)]
    assert [one.text for one in said] == [f"Thing {n} was said." for n in range(23)]
    assert [one.place for one in said] == list(range(23))
    assert scroll.window(23, 5) == []
    assert scroll.is_current
    write(scroll.path, [item(23)])
    assert not scroll.is_current


def test_a_branch_that_was_left_is_left_out(tmp_path: Path) -> None:
    path = session_file(tmp_path, "run-x", ["one", "two", "three"])
    message = {"role": "assistant", "content": [{"type": "text", "text": "another two"}]}
    write(path, [{"type": "message", "id": "other", "parentId": "run-x-0", "message": message}])
    assert [one.text for one in TranscriptReader(path).window(0, 9)] == ["one", "another two"]


def test_what_is_no_message_says_why(tmp_path: Path) -> None:
    path = session_file(tmp_path, "run-x", ["plain"])
    odd = {"role": "assistant", "content": [], "stopReason": "error"}
    write(path, [{"type": "message", "id": "other", "parentId": "run-x-0", "message": odd}])
    plain, other = TranscriptReader(path).window(0, 9)
    assert (plain.text, plain.problem) == ("plain", "")
    assert other.message is None
    assert "an empty answer" in other.text
    assert other.problem in other.detail(LocalTimes("UTC", VirtualClock())).text
    with lossless.open(tmp_path / "lcm.db", background=False) as engine:
        engine.bootstrap(lossless.Session(id="run-x"), path)
        found = compare.compare_window(engine.browse, 1, TranscriptReader(path), 0, 10)
    assert [pair.mark for pair in found] == ["=", "·"]
    assert not any(pair.is_difference for pair in found)


def test_a_file_that_is_not_stored_is_read_and_imported(archive: Path, home: Path) -> None:
    rollout(home, 120)
    before = archive.read_bytes()

    async def do(person: Person) -> None:
        await person.press("a")
        assert "1 folder" in person.where
        assert "codex" in person.seen
        await person.press("enter")
        assert THREAD in person.seen
        await person.press("s", "v")
        assert sum("does not have this session" in told for told in person.told) == 2
        await person.press("enter")
        assert person.screen == "TranscriptScreen"
        assert "71 … 120 of 120" in person.where
        assert "1 line that cannot be read" in person.seen
        assert "lcm import codex" in person.seen
        assert "Thing 119 was said." in person.detail
        await person.press("left_square_bracket")
        assert "21 … 70 of 120" in person.where
        await person.press("g", "g")
        assert ("1 … 50 of 120" in person.where, person.rows.chosen) == (True, "0")
        await person.press("right_square_bracket", "G", "G", "v")
        assert "71 … 120" in person.where
        assert person.screen == "TranscriptScreen"
        await person.press("i")
        assert "+ 120 messages" in person.text
        assert "a new conversation" in person.text
        await person.press("n")
        assert archive.read_bytes() == before
        await person.press("i", "y")
        await person.until(lambda: any("120 messages stored in conversation 3" in told for told in person.told))
        await person.until(lambda: "It is conversation 3" in person.seen)
        await person.press("i")
        assert any("all of it is stored" in told for told in person.told)

    at(room_of(archive, folders=find_session_folders(home, home), codex=home, **WINDOW), do)


def test_a_file_that_grows_is_followed(archive: Path, home: Path) -> None:
    path = rollout(home, 30)

    async def do(person: Person) -> None:
        await person.press("a", "enter", "enter")
        write(path, [item(30, "The newest thing.")])
        await person.until(lambda: "The newest thing." in person.detail)
        assert "31 of 31" in person.where

    at(room_of(archive, folders=find_session_folders(home, home)), do)


def test_a_file_that_is_no_transcript_is_a_message(archive: Path, tmp_path: Path) -> None:
    write(tmp_path / "files" / "other.jsonl", [{"what": "is this"}])

    async def do(person: Person) -> None:
        await person.press("enter")
        await person.until(lambda: any("not a transcript of a known kind" in told for told in person.told))
        assert "it cannot be read" in person.where
        await person.press("q")
        assert person.screen == "SessionFilesScreen"
        await person.press("i")
        await person.until(lambda: person.screen == "SessionFilesScreen")

    at(room_of(archive, folders=(tmp_path / "files",)), do, folder=tmp_path / "files")


def test_an_import_goes_on_when_the_screen_is_left(archive: Path, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    session_file(folder, "run-d", ["one", "two"])

    async def do(person: Person) -> None:
        await person.press("enter", "i")
        with lossless.open(archive, background=False) as engine, engine.archive.writing():
            await person.press("y", "q")
            assert person.screen == "SessionFilesScreen"
            await person.until(lambda: any("Import run-d.jsonl …" in told for told in person.told))
        await person.until(lambda: any("2 messages stored" in told for told in person.told))
        await person.until(lambda: "It is conversation 3" in person.detail)

    at(room_of(archive, folders=(folder,)), do, folder=folder)


# --- the file behind a conversation ---


def test_the_transcript_behind_a_conversation(stored: Path, home: Path) -> None:
    async def do(person: Person) -> None:
        await person.press("x")
        assert person.screen == "TranscriptScreen"
        assert "It is conversation 1" in person.seen
        await person.press("v")
        assert person.screen == "CompareScreen"
        await person.press("q", "q", "enter", "x")
        assert person.screen == "TranscriptScreen"

    at(room_of(stored, codex=home), do)


@pytest.mark.parametrize("way", ["index", "beside", "none"])
def test_the_rollout_behind_a_session_of_openclaw(archive: Path, home: Path, tmp_path: Path, way: str) -> None:
    path, folder = rollout(home, 4), tmp_path / "agents" / "main" / "sessions"
    file = session_file(folder, "run-here", ["one", "two"])
    if way == "index":
        entry = {"sessionId": "run-here", "cliSessionIds": {"codex-cli": THREAD, "other": "x"}}
        (folder / "sessions.json").write_text(json.dumps({"agent:main:here": entry, "bad": 1}))
    elif way == "beside":
        (folder / "run-here.jsonl.codex-thread.json").write_text(json.dumps({"ids": [{"threadId": THREAD}]}))
    room = room_of(archive, folders=(folder,), codex=home)
    wanted = file if way == "none" else path
    assert session_files.find_transcript(room, 1) == wanted
    assert session_files.backend_session_id(room, file, "run-here") == wanted
    room.close()


def test_keys_of_session_files(archive: Path, home: Path, tmp_path: Path) -> None:
    rollout(home, 4)
    folder = tmp_path / "agents" / "main" / "sessions"
    session_file(folder, "run-here", ["one", "two"])
    entry = {"sessionId": "run-here", "cliSessionIds": {"codex-cli": THREAD}}
    (folder / "sessions.json").write_text(json.dumps({"agent:main:here": entry}))

    async def do(person: Person) -> None:
        await person.press("x")
        assert person.screen == "TranscriptScreen"
        assert "4 of 4" in person.where
        await person.press("q", "v")
        assert person.screen == "CompareScreen"
        await person.press("q", "c")
        assert person.screen == "ContextScreen"
        await person.press("q", "s")
        assert person.screen == "SummariesScreen"
        await person.press("q", "q")
        assert person.screen == "SessionsScreen"

    at(room_of(archive, folders=(folder,), codex=home), do, folder=folder)


# --- compared ---


def test_what_both_have_and_what_only_one_has(stored: Path, home: Path) -> None:
    path = next(home.glob("sessions/*/*/*/*.jsonl"))
    write(path, [item(120), item(121)])
    with lossless.open(stored, background=False) as engine:
        engine.append(CODEX, [{"role": "user", "content": "Only here."}])

    async def do(person: Person) -> None:
        await person.press("v")
        assert "of 122" in person.where
        assert "48 the same" in person.seen
        assert "2 only in the transcript" in person.seen
        assert "1 only in the archive" in person.seen
        assert "Only here." in person.detail
        await person.press("g", "g")
        assert "1 … 50 of 122" in person.where
        assert "only" not in person.seen.replace("Only", "")
        await person.press("n")
        assert person.detail.startswith("line")
        assert "Only the transcript has it" in person.detail
        await person.press("n", "n")
        assert "Only the archive has it" in person.detail
        await person.press("n")
        assert any("no more differences below" in told for told in person.told)
        await person.press("enter")
        assert (person.screen, "Only here." in person.reading) == ("ConversationScreen", True)

    at(room_of(stored, codex=home, **WINDOW), do)


def test_a_text_that_was_changed_is_seen(tmp_path: Path) -> None:
    path = session_file(tmp_path, "run-a", ["one", "two", "three"])
    with lossless.open(tmp_path / "lcm.db", background=False) as engine:
        engine.bootstrap(lossless.Session(id="run-a"), path)
        path.write_text(path.read_text().replace('"two"', '"second"'))
        found = compare.compare_window(engine.browse, 1, TranscriptReader(path), 0, 10)
    assert [pair.mark for pair in found] == ["=", "~", "="]


def test_long_stretches_of_the_archive_are_counted(tmp_path: Path) -> None:
    path = session_file(tmp_path, "run-b", ["the first", "the last"])
    with lossless.open(tmp_path / "lcm.db", background=False) as engine:
        session = lossless.Session(id="run-b")
        said = [{"role": "user", "content": "the first"}, *talk(80), {"role": "assistant", "content": "the last"}]
        engine.append(session, said)
        found = compare.compare_window(engine.browse, 1, TranscriptReader(path), 0, 10)
    assert [compare.count_pairs(found, mark) for mark in ("=", "~", "+", "-")] == [2, 0, 0, 80]
    assert len(found) == 2 + compare.GAP + 1
    assert any(pair.is_difference for pair in found)


def test_what_is_said_again_is_not_taken_for_what_came_before(tmp_path: Path) -> None:
    path = session_file(tmp_path, "run-c", ["yes", "no", "a", "yes", "no", "b"])
    with lossless.open(tmp_path / "lcm.db", background=False) as engine:
        said = ["yes", "no", "a"]
        engine.append(
            lossless.Session(id="run-c"),
            [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(said)],
        )
        found = compare.compare_window(engine.browse, 1, TranscriptReader(path), 0, 10)
    assert [pair.mark for pair in found] == ["=", "=", "=", "+", "+", "+"]


def test_windows_of_a_comparison_agree(stored: Path, home: Path) -> None:
    scroll = TranscriptReader(next(home.glob("sessions/*/*/*/*.jsonl")))
    with lossless.open(stored, background=False) as engine:
        for size in (7, 50, 200):
            found = [compare.compare_window(engine.browse, 1, scroll, at, size) for at in range(0, 120, size)]
            assert not any(pair.is_difference for part in found for pair in part)
            assert sum(compare.count_pairs(part, "=") for part in found) == 120
        assert compare.next_difference(engine.browse, 1, scroll, 0, 50) is None


def test_looking_writes_nothing_and_draws_at_once(stored: Path, home: Path) -> None:
    room, statements = room_of(stored, folders=find_session_folders(home, home), codex=home), list[str]()
    before = stored.read_bytes()

    def noted(_cursor: object, sql: str, _values: object) -> bool:
        statements.append(sql)
        return True

    room.engine.archive.database.connection().set_exec_trace(noted)  # this thread's own; others get theirs

    async def do(person: Person) -> None:
        for keys in (("v",), ("n",), ("q", "x"), ("z",), ("q", "i"), ("q", "a"), ("enter", "x"), ("q", "v")):
            await person.press(*keys)
            for width, height in ((40, 10), (120, 30)):
                await person.resize(width, height)
                assert {cell_len(row) for row in person.seen.split("\n")} == {width}
        assert person.screen == "CompareScreen"

    at(room, do)
    assert statements == []
    assert stored.read_bytes() == before
