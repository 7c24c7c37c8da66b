"""Focus from the screens: the plan first, then the brief to read, then its use, and all of it can be undone."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

import lossless
from lossless.testing import Scripted, say
from tests.maintenance.surgery_kit import HERE
from tests.tui.kit import Person, at, room_of

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.llm.completion import Prompt


def states_of(path: Path) -> list[tuple[str, str]]:
    """Questions and what became of their briefs, newest first."""
    with lossless.open(path, background=False) as engine:
        return [(brief.prompt, brief.status) for brief in engine.archive.prompts.newest_briefs(1, 10)]


def test_a_brief_is_written_brought_up_to_date_and_put_away(archive: Path) -> None:
    async def do(person: Person) -> None:
        await person.press("j", "enter", "o")
        assert "no briefs" in person.detail
        await person.press("n", "escape", "n", "enter")
        assert person.screen == "FocusScreen"
        await person.press("n", *"ebb", "enter")
        assert "focus: ebb" in person.text
        assert "the text is extracted" in person.text
        await person.press("n")
        assert states_of(archive) == []
        await person.press("n", *"ebb", "enter", "y")
        await person.until(lambda: "Use it in prompts?" in person.seen)
        assert "Narrative" in person.text
        await person.press("n")
        assert states_of(archive) == []
        await person.press("n", *"ebb", "enter", "y")
        await person.until(lambda: "Use it in prompts?" in person.seen)
        await person.press("enter")
        await person.until(lambda: any("Done: focus" in told for told in person.told))
        assert "1 brief" in person.where
        await person.press("R")
        assert "focus: ebb" in person.text
        await person.press("y")
        await person.until(lambda: "Use it in prompts?" in person.seen)
        await person.press("y")
        await person.until(lambda: "2 briefs" in person.where)
        await person.press("d")
        assert "+ sum_" in person.text
        await person.press("y")
        await person.until(lambda: any("Done: unfocus" in told for told in person.told))
        assert states_of(archive)[0] == ("ebb", "inactive")
        await person.press("u")
        assert "unfocus" in person.seen
        await person.press("y")
        await person.until(lambda: any("Done: undo" in told for told in person.told))

    at(room_of(archive), do)
    assert states_of(archive) == [("ebb", "active"), ("ebb", "superseded")]


def test_a_model_writes_the_brief_and_what_it_cannot_write_is_recorded(archive: Path) -> None:
    async def do(person: Person) -> None:
        await person.press("j", "enter", "o", "n", *"ebb", "enter")
        assert "the host's model" in person.text
        await person.press("y")
        await person.until(lambda: "The brief itself." in person.text)
        assert "! section" in person.text
        await person.press("y")
        await person.until(lambda: "The brief itself." in person.detail)
        await person.press("n", *"tide", "enter", "y")
        await person.until(lambda: any("could not be written" in told for told in person.told))

    at(room_of(archive, complete=Scripted(say("A dossier."), say("The brief itself."), then="auth")), do)
    assert states_of(archive) == [("tide", "failed"), ("ebb", "active")]


def test_a_brief_that_is_being_written_is_not_lost_to_other_keys(archive: Path) -> None:
    answers, asked, go_on = Scripted(say("A dossier."), say("The brief itself.")), Event(), Event()

    def complete(prompt: Prompt) -> object:
        asked.set()
        assert go_on.wait(60)
        return answers(prompt)

    async def do(person: Person) -> None:
        await person.press("j", "enter", "o", "n", *"ebb", "enter", "y")
        await person.until(asked.is_set)
        await person.press("n", "escape", "u", "escape")
        go_on.set()
        await person.until(lambda: "Use it in prompts?" in person.seen)
        await person.press("y")
        await person.until(lambda: "The brief itself." in person.detail)

    at(room_of(archive, complete=complete), do)
    assert states_of(archive) == [("ebb", "active")]


def test_nothing_is_written_where_that_is_forbidden_or_there_is_nothing_to_focus(archive: Path) -> None:
    with lossless.open(archive, background=False) as engine:
        engine.surgery.focus(HERE, "tide")
    before = archive.read_bytes()

    async def do(person: Person) -> None:
        await person.press("enter", "o", "R", "d", "n", *"ebb", "enter")
        for words in ("no active focus to update", "no active focus", "no summaries in its context"):
            assert any(words in told for told in person.told), person.told
        await person.press("q", "q", "j", "enter", "o", "d", "y")
        await person.until(lambda: any("--read-only" in told for told in person.told))

    at(room_of(archive, read_only=True), do)
    assert archive.read_bytes() == before
