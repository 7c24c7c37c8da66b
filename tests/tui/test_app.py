"""Leafing through an archive by keys: nothing of it is changed, whatever is pressed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from threading import Event
from typing import TYPE_CHECKING

import pytest

import lossless
from lossless.tui.app import TerminalApp, is_light
from lossless.tui.reads import DetailView
from lossless.tui.screens.context import read_prompt
from lossless.tui.screens.reader import ReadingPane
from tests.maintenance.surgery_kit import HERE, talk
from tests.tui.kit import HOSTILE, STEERING, Person, at, room_of

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.tui.screens.page import PaneScreen


def test_sessions_lead_to_a_conversation_and_back_and_out(archive: Path) -> None:
    """A look that is due while the program ends finds no screen."""
    ended = list[TerminalApp]()

    async def do(person: Person) -> None:
        ended.append(person.app)
        assert person.screen == "SessionsScreen"
        assert "2 conversations" in person.where
        await person.press("x", "v")
        assert sum("No transcript" in told for told in person.told) == 2
        assert person.screen == "SessionsScreen"
        await person.press("j")
        assert "agent:main:here" in person.detail
        await person.press("enter")
        assert person.screen == "ConversationScreen"
        assert "1 … 120" in person.where
        assert (person.rows.chosen, person.reading.startswith("Assistant")) == ("120", True)
        blocks = person.app.screen.query_one(ReadingPane)._blocks  # only what is in sight is read and drawn
        assert len(blocks) == 120
        assert 0 < sum(bool(block.look) for block in blocks) < 40
        assert blocks[-1].look
        await person.press("g")
        assert blocks[0].look
        assert person.reading
        assert not all(bool(block.look) for block in blocks)
        for key in ("q", "enter"):
            await person.press(key)
        assert person.screen == "ConversationScreen"
        await person.press("backspace", "enter", "b", "enter", "escape")
        assert person.screen == "SessionsScreen"
        await person.press("q")
        assert not person.app.is_running or person.app._exit

    at(room_of(archive), do)
    assert ended[0].screen_stack == []
    ended[0]._look()


def test_windows_of_a_conversation(archive: Path) -> None:
    async def do(person: Person) -> None:
        await person.press("j", "enter")
        assert (person.where.count("older"), person.where.count("newer")) == (1, 0)
        assert len(person.rows.keys) == 50
        assert person.rows.chosen == "120"
        await person.press("left_square_bracket")
        assert "21 … 70" in person.where
        assert person.rows.chosen == "70"
        await person.press("left_square_bracket")
        assert "1 … 50" in person.where
        assert person.rows.chosen == "20"
        await person.press("left_square_bracket")
        assert "1 … 50" in person.where
        await person.press("right_square_bracket")
        assert "51 … 100" in person.where
        assert person.rows.chosen == "51"
        await person.press("G", "G")
        assert "71 … 120" in person.where
        await person.press("g", "g")
        assert ("1 … 50" in person.where, person.rows.chosen) == (True, "1")
        await person.press("j", "pagedown", "k")
        assert person.reading
        await person.press("G", "j")
        assert person.rows.chosen == "51"
        await person.press("k", "k")
        assert "1 … 50" in person.where

    at(room_of(archive, changed={"tui_conversation_window_size": 50}), do)


def test_summaries_open_down_to_the_messages(archive: Path) -> None:
    async def do(person: Person) -> None:
        await person.press("j", "s")
        assert person.screen == "SummariesScreen"
        assert "in the context" in person.where
        before = person.seen.count("○")
        await person.press("enter")
        assert person.seen.count("○") > before
        for _ in range(8):  # as deep as the graph is
            if "msg#" not in person.seen:
                await person.press("j", "l")
        assert "msg#" in person.seen
        await person.press(*["h"] * 20, "left")
        assert person.seen.count("○") == before
        await person.press("space")
        assert person.seen.count("○") > before
        await person.press("G", "g", "J", "K", "question_mark")
        for words in ("Rewrite", "Dissolve", "Repair", "Transplant", "Previous", "Undo"):
            assert words in person.text
        assert "⏎ l → Space" in person.text
        await person.press("escape", "ctrl+p", *"previous")
        await person.until(lambda: "key p" in person.seen)
        await person.press("enter")
        await person.until(lambda: "Previous context of" in person.seen)
        await person.press("p", "c")
        assert person.screen == "ContextScreen"

    at(room_of(archive), do)


def test_what_the_model_sees_and_would_have_cost(archive: Path) -> None:
    async def do(person: Person) -> None:
        assert not person.told
        await person.app.tell_estimate().wait()
        assert [("No model is configured" in told, "$" in told) for told in person.told] == [(True, True)]
        await person.press("j", "c")
        assert "Context of conversation 1" in person.where
        assert "of 128,000 tokens" in person.seen
        assert "━" in person.seen
        assert person.detail.startswith("sum_")
        await person.press("v")
        assert "What the last change did" in person.seen
        await person.press("q", "enter")
        assert person.screen == "SummariesScreen"
        await person.press("q", "G", "enter")
        assert person.screen == "ConversationScreen"
        assert person.rows.chosen == "120"

    at(room_of(archive), do)
    room = room_of(archive, changed={"summary_model": "ollama/qwen3:8b"})
    assert room.model_estimate() is None
    room.close()


def test_a_long_message_is_read_whole(archive: Path) -> None:
    words = " ".join(f"word{n}" for n in range(9_000))
    with lossless.open(archive, background=False) as engine:
        engine.append(HERE, [{"role": "user", "content": words}])

    async def do(person: Person) -> None:
        await person.press("enter")
        assert "more characters" in person.reading
        await person.press("enter")
        assert person.screen == "DetailDialog"
        assert person.text.partition("\n\n")[2] == words
        assert "word8999" not in person.seen
        await person.press("G")
        assert "word8999" in person.seen
        await person.press("g")
        assert "role      user" in person.seen
        await person.press("z", "z", "escape")
        assert person.screen == "ConversationScreen"

    at(room_of(archive), do)


def test_pins_and_focus_are_among_what_the_model_sees(archive: Path) -> None:
    with lossless.open(archive, background=False) as engine:
        engine.surgery.focus(HERE, "Where is the lighthouse?")
        engine.pin(HERE, "The harbour is closed.")

    async def do(person: Person) -> None:
        await person.press("j", "c", "g")
        assert "left out: covered by" in person.seen
        assert person.detail.startswith("Pins and focus")
        assert "Where is the lighthouse?" in person.detail
        assert "pinned: The harbour is closed." in person.detail
        await person.press("enter")
        assert person.screen == "DetailDialog"

    at(room_of(archive), do)


def test_token_bars_are_of_what_is_sent(archive: Path) -> None:
    room = room_of(archive)
    found = read_prompt(room.engine, 1)
    sent = room.engine.assemble(HERE).receipt
    room.close()
    beside = sent.tokens_by_kind.get("pins and focus", 0)
    assert sum(item.tokens for item in found.items) + beside == sum(sent.tokens_by_kind.values())


def test_a_summary_that_is_folded_away_is_opened_where_it_stands(archive: Path) -> None:
    with lossless.open(archive, background=False) as engine:
        leaf = engine.archive.listings.summaries(1, conversation_id=1, depth=0).rows[0].summary_id

    async def do(person: Person) -> None:
        from lossless.tui.screens.summaries import SummariesScreen

        person.app.push_screen(SummariesScreen(1, leaf))
        await person.until(lambda: person.detail.startswith(leaf))
        node = person.app.screen.query_one("SummaryTree").cursor_node  # type: ignore[attr-defined]
        assert node.data == leaf
        await person.press("p")
        assert f"Previous context of {leaf}" in person.seen
        assert "nothing about what came before" not in person.seen
        await person.press("p")
        assert person.screen == "SummariesScreen"

    at(room_of(archive), do)


def test_search_finds_and_opens(archive: Path) -> None:
    async def do(person: Person) -> None:
        await person.press("slash")
        assert person.screen == "SearchScreen"
        await person.press(*"tide", "enter")
        assert "all conversations" in person.where
        assert person.rows.keys
        await person.press("enter")
        assert person.screen in ("ConversationScreen", "SummariesScreen")
        await person.press("escape", "slash", "ctrl+r", *"[", "enter")
        assert any("pattern" in told.lower() or "regular" in told.lower() for told in person.told), person.told
        await person.press("escape")
        assert person.screen == "SessionsScreen"
        await person.press("j", "enter", "slash", *"rope", "enter")
        assert "conversation 1" in person.where
        await person.press("ctrl+a")
        assert "all conversations" in person.where

    at(room_of(archive), do)


def test_files_and_briefs(archive: Path) -> None:
    with lossless.open(archive, background=False) as engine:
        engine.append(HERE, [{"role": "user", "content": "line of a log\n" * 20_000}])
        engine.surgery.focus(HERE, "Where is the lighthouse?")

    async def do(person: Person) -> None:
        await person.press("enter", "f")
        assert "1 file," in person.where
        await person.until(lambda: "line of a log" in person.detail)
        await person.press("enter")
        await person.until(lambda: person.text.count("line of a log") == 20_000)
        await person.press("q", "q", "o")
        assert "1 brief" in person.where
        assert "Where is the lighthouse?" in person.detail
        await person.press("q", "q", "D")
        assert person.screen == "DoctorScreen"
        assert "Doctor" in person.where
        await person.press("r", "q")

    at(room_of(archive), do)


def test_session_files_of_agents_are_found(archive: Path, tmp_path: Path) -> None:
    from lossless.tui.session_files import find_session_folders

    folder = tmp_path / "state" / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    for name in ("run-here", "elsewhere"):
        (folder / f"{name}.jsonl").write_text("{}\n")
    (folder / "sessions.json").write_text("{}")

    async def do(person: Person) -> None:
        await person.press("a")
        assert "main" in person.seen
        await person.press("enter")
        assert "2 of 2" in person.where
        row = person.rows.keys.index("elsewhere.jsonl")
        person.rows.choose(row)
        await person.settled()
        assert "Press Enter to read it" in person.detail
        person.rows.choose(1 - row)
        await person.press("enter")
        assert (person.screen, "Conversation 1" in person.where) == ("ConversationScreen", True)

    assert find_session_folders(tmp_path / "state") == (folder,)
    at(room_of(archive, folders=find_session_folders(tmp_path / "state")), do)


def test_every_screen_fits_every_terminal(archive: Path) -> None:
    async def do(person: Person) -> None:
        for keys in (("enter",), ("s", "enter"), ("c",), ("question_mark",)):
            await person.press(*keys)
            for width, height in ((200, 50), (40, 10), (80, 24)):
                await person.resize(width, height)
                assert {len(row) for row in person.seen.split("\n")} == {width}

    at(room_of(archive), do)


def test_conversations_come_in_batches(tmp_path: Path) -> None:
    path = tmp_path / "many.db"
    with lossless.open(path, background=False) as engine:
        for n in range(120):
            engine.append(lossless.Session(key=f"agent:main:{n}"), talk(1, seed=n, words=3))

    async def do(person: Person) -> None:
        assert "50 conversations and more" in person.where
        await person.press("G")
        assert "100 conversations and more" in person.where
        await person.press("G")
        assert "120 conversations" in person.where
        assert "more" not in person.where
        assert sorted(map(int, person.rows.keys)) == list(range(1, 121))
        await person.press("r")
        assert "50 conversations and more" in person.where

    at(room_of(path), do)


def test_an_empty_archive_says_so(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    lossless.open(path, background=False).close()

    async def do(person: Person) -> None:
        assert "empty" in person.detail
        await person.press("enter", "s", "c", "D", "q", "a", "q", "slash", "enter", "escape")
        assert person.screen == "SessionsScreen"

    at(room_of(path), do)


def test_an_error_is_a_message(archive: Path) -> None:
    async def do(person: Person) -> None:
        screen: PaneScreen = person.app.screen  # type: ignore[assignment]
        go_on = Event()  # what takes long is said to be loading
        screen.open_detail(lambda: DetailView(str(go_on.wait())))
        assert "Loading" not in person.seen
        await person.until(lambda: "Loading …" in person.seen)
        go_on.set()
        await person.until(lambda: "Loading" not in person.seen)
        screen.open_detail(lambda: 1 // 0)  # type: ignore[arg-type, return-value]
        await person.until(lambda: any("Unexpected ZeroDivisionError" in told for told in person.told))
        screen.complain(HOSTILE)
        await person.until(lambda: "[bold]" in person.seen)
        assert not STEERING.search(person.seen.replace("\n", ""))
        person.app.access.engine.close()
        await person.press("r")
        assert any("closed" in told for told in person.told)
        assert person.app.is_running

    at(room_of(archive), do)


_CRASH = """
import sys
from lossless.settings import Settings
from lossless.tui.app import TerminalApp
from lossless.tui.archive import ArchiveAccess

app = TerminalApp(ArchiveAccess(sys.argv[1], Settings()))

async def press(pilot):
    app.screen.action_reload = lambda: 1 // 0
    await pilot.press("r")

app.run(headless=True, auto_pilot=press)
sys.exit(app.return_code)
"""


@pytest.mark.parametrize(("debug", "has_story"), [("", False), ("1", True)])
def test_a_mistake_of_ours_ends_with_one_line(archive: Path, debug: str, has_story: bool) -> None:
    command = [sys.executable, "-c", _CRASH, str(archive)]
    environment = os.environ | {"LCM_DEBUG": debug}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)
    assert done.returncode == 1
    assert ("Traceback" in done.stdout + done.stderr) == has_story
    assert has_story or "LCM_DEBUG=1" in done.stdout + done.stderr


def test_looking_changes_no_byte_and_the_thread_that_draws_never_reads(archive: Path) -> None:
    before = hashlib.sha256(archive.read_bytes()).hexdigest()
    room, statements = room_of(archive), list[str]()

    def noted(_cursor: object, sql: str, _values: object) -> bool:
        statements.append(sql)
        return True

    room.engine.archive.database.connection().set_exec_trace(noted)  # this thread's own; others get theirs

    async def do(person: Person) -> None:
        await person.press(
            "j", "enter", "k", "s", "enter", "p", "q", "d", "n", "r", "escape", "c", "q", "q", "f", "q", "o"
        )
        await person.press("q", "q", "D", "q", "slash", "x", "enter")

    at(room, do)
    assert statements == []
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == before


def test_a_picture_needs_no_terminal_and_follows_its_theme(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORFGBG", "0;15")
    room = room_of(archive)
    app = TerminalApp(room)
    try:
        picture = app.pictured(["j", "s"])
    finally:
        room.close()
    assert app.theme == "lcm-light"
    assert is_light("0;default;15")
    assert not is_light("15;0")
    assert picture.startswith("<svg")
    assert "Summaries" in picture
    assert 'url("https' not in picture


def test_a_conversation_that_grows_is_followed(archive: Path) -> None:
    with lossless.open(archive, background=False) as engine:

        async def do(person: Person) -> None:
            await person.press("j", "enter")
            engine.append(HERE, talk(2, seed="new"))
            await person.until(lambda: person.rows.chosen == "128")
            assert "3 … 128" in person.where or "122" in person.where
            await person.press("k", "k")
            chosen = person.rows.chosen
            engine.append(HERE, talk(2, seed="newer"))
            await person.until(lambda: "124" in person.where)
            assert person.rows.chosen == chosen

        at(room_of(archive), do)
