"""Operating from the screens: every change is shown first, asked for, done off the UI's thread, and can be undone."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import lossless
from lossless.compaction.source_text import FALLBACK_MARKER
from lossless.store.maintenance.surgery import SurgeryWrites
from lossless.testing import Scripted, say
from lossless.tui import actions
from tests.maintenance.surgery_kit import talk
from tests.tui.kit import Person, at, room_of

if TYPE_CHECKING:
    from pathlib import Path


def context_of(path: Path, conversation_id: int = 1) -> list[Any]:
    with lossless.open(path, background=False) as engine:
        return [
            getattr(item, "summary_id", None) or getattr(item, "message_id", None)
            for item in engine.archive.context.items(conversation_id)
        ]


def texts_of(path: Path) -> dict[str, str]:
    with lossless.open(path, background=False) as engine:
        rows = engine.archive.listings.summaries(500, conversation_id=1, whole=True).rows
        return {row.summary_id: row.content for row in rows}


def spoil(path: Path, count: int = 2) -> list[str]:
    """Make some leaves look as a fallback leaves them."""
    with lossless.open(path, background=False) as engine:
        rows = engine.archive.listings.summaries(count, conversation_id=1, depth=0).rows
        with engine.archive.writing():
            for row in rows:
                text = f"{FALLBACK_MARKER}\n{row.content[:200]}"
                SurgeryWrites(engine.archive).write(row.summary_id, text, row.token_count, "emergency-fallback", ())
    return [row.summary_id for row in rows]


def test_dissolving_shows_what_moves_and_can_be_undone(archive: Path) -> None:
    before = context_of(archive)

    async def do(person: Person) -> None:
        await person.press("j", "s", "d")
        assert person.screen == "ConfirmDialog"
        assert "+ [" in person.seen
        assert "move up by" in person.seen or "no item moves" in person.seen
        await person.press("n")
        assert context_of(archive) == before
        await person.press("d", "x")
        assert "is deleted" in person.text
        await person.press("x")
        assert "kept in the archive" in person.text
        await person.press("y")
        await person.until(lambda: any("Done: dissolve" in told for told in person.told))
        assert context_of(archive) != before
        assert len(list(archive.parent.glob("*dissolve*"))) == 1
        await person.press("u")
        assert "undo dissolve" in person.seen
        await person.press("enter")
        await person.until(lambda: any("Done: undo" in told for told in person.told))
        (told,) = [told for told in person.told if "Done: undo" in told]
        assert "u undoes the step before it, lcm restore takes it back" in told
        await person.press("enter", "j", "d")
        assert any("is not in the context" in told for told in person.told)
        assert person.screen == "SummariesScreen"

    at(room_of(archive), do)
    assert context_of(archive) == before


def test_rewriting_one_summary_shows_its_diff(archive: Path) -> None:
    model = Scripted(say("A better text."), say("A still better text."))
    threads: list[threading.Thread] = []

    def complete(prompt: Any) -> Any:
        threads.append(threading.current_thread())
        return model(prompt)

    before = texts_of(archive)

    async def do(person: Person) -> None:
        await person.press("j", "s", "r")
        assert person.screen == "ConfirmDialog"
        assert "the host's model" in person.seen
        await person.press("escape")
        assert texts_of(archive) == before
        await person.press("w", "enter")
        await person.until(lambda: "+A better text." in person.text)
        await person.press("d")
        assert person.text.startswith("A better text.")
        assert "y/Enter apply" in person.seen
        await person.press("n")
        await person.until(lambda: person.screen == "SummariesScreen")
        assert texts_of(archive) == before
        await person.press("r", "enter")
        await person.until(lambda: "+A still better text." in person.text)
        await person.press("y")
        await person.until(lambda: any("Done: rewrite" in told for told in person.told))

    at(room_of(archive, complete=complete), do)
    after = texts_of(archive)
    changed = [text.splitlines()[0] for id_, text in after.items() if text != before[id_]]
    assert changed == ["A still better text."]
    assert threading.main_thread() not in threads


def test_rewriting_a_subtree_accepts_skips_and_accepts_all(archive: Path) -> None:
    before = texts_of(archive)
    model = Scripted(say("Stopped here."), *[say(f"Text {n}.") for n in range(60)])

    async def do(person: Person) -> None:
        await person.press("j", "s", "W", "enter")
        await person.until(lambda: "+Stopped here." in person.text)
        await person.press("escape")
        await person.until(lambda: person.screen == "SummariesScreen")
        assert any("Nothing was changed" in told for told in person.told)
        assert texts_of(archive) == before
        await person.press("W", "enter")
        await person.until(lambda: "+Text 0." in person.text)
        await person.press("n")
        await person.until(lambda: "+Text 1." in person.text)
        await person.press("enter")
        await person.until(lambda: "+Text 2." in person.text)
        await person.press("A")
        await person.until(lambda: person.screen == "SummariesScreen")

    at(room_of(archive, complete=model), do)
    changed = {text.splitlines()[0] for id_, text in texts_of(archive).items() if text != before[id_]}
    assert "Text 0." not in changed
    assert {"Text 1.", "Text 2.", "Text 3."} & changed


def changed_of(path: Path, before: dict[str, str]) -> set[str]:
    """The first lines of texts that are not what they were."""
    return {text.splitlines()[0] for id_, text in texts_of(path).items() if text != before[id_]}


def long_texts() -> Scripted:
    """A model whose texts are about as long as those they take the place of."""
    return Scripted(*[say(f"Text {n}. " + " ".join(f"ferry{n} berth{m}" for m in range(24))) for n in range(60)])


def test_a_stopped_rewriting_keeps_what_was_accepted_and_goes_on(archive: Path) -> None:
    before, model = texts_of(archive), long_texts()
    counts: list[str] = []

    async def do(person: Person) -> None:
        await person.press("j", "s", "W")
        counts.append(person.text)
        await person.press("enter")
        await person.until(lambda: "+Text 0." in person.text)
        await person.press("y")
        await person.until(lambda: "+Text 1." in person.text)
        await person.press("y")
        await person.until(lambda: "+Text 2." in person.text)
        await person.press("escape")
        await person.until(lambda: any("Press the same key to continue" in told for told in person.told))
        await person.until(lambda: person.screen == "SummariesScreen")
        assert {line.split()[1] for line in changed_of(archive, before) if line.startswith("Text")} >= {"0.", "1."}
        await person.press("W")
        await person.until(lambda: person.screen == "ConfirmDialog")
        assert "2 more were written by a run that was stopped" in person.text
        counts.append(person.text)
        await person.press("enter")
        await person.until(lambda: "+Text 3." in person.text)
        await person.press("A")
        await person.until(lambda: person.screen == "SummariesScreen")

    at(room_of(archive, complete=model), do)
    first, second = (text.count("\n~ ") for text in counts)
    assert second == first - 2
    with lossless.open(archive, background=False) as engine:
        assert engine.verify().ok


def test_closing_at_once_says_later_what_came_of_it(archive: Path) -> None:
    before, model, may_go_on = texts_of(archive), long_texts(), threading.Event()

    def complete(prompt: Any) -> Any:
        if model.started:
            may_go_on.wait(60)
        return model(prompt)

    async def do(person: Person) -> None:
        await person.press("j", "s", "W", "enter")
        await person.until(lambda: "+Text 0." in person.text)
        await person.press("y", "escape", "escape")
        assert person.screen == "SummariesScreen"
        assert any("what was accepted is kept" in told for told in person.told)
        may_go_on.set()
        await person.until(lambda: any("Done: rewrite" in told for told in person.told))

    at(room_of(archive, complete=complete), do)
    assert any(line.startswith("Text 0.") for line in changed_of(archive, before))


def test_leaving_keeps_what_was_accepted(archive: Path) -> None:
    before = texts_of(archive)

    async def do(person: Person) -> None:
        await person.press("j", "s", "W", "enter")
        await person.until(lambda: "+Text 0." in person.text)
        await person.press("y")
        await person.until(lambda: "+Text 1." in person.text)
        person.app.exit()

    at(room_of(archive, complete=long_texts()), do)
    assert any(line.startswith("Text 0.") for line in changed_of(archive, before))
    assert not any(line.startswith("Text 1.") for line in changed_of(archive, before))


def test_a_model_that_dies_leaves_what_was_accepted(archive: Path) -> None:
    spoil(archive, 3)
    words = " ".join(f"ferry{m} berth" for m in range(44))
    model = Scripted(say(f"Text 0. {words}"), "auth", "auth", "auth", "auth")

    async def do(person: Person) -> None:
        await person.press("j", "s", "R", "enter")
        await person.until(lambda: "+Text 0." in person.text)
        await person.press("y")
        await person.until(lambda: any("2 to go" in told for told in person.told))
        await person.press("R")
        await person.until(lambda: person.screen == "ConfirmDialog")
        assert person.text.count("\n~ ") == 2
        await person.press("enter")
        await person.until(lambda: any("Nothing was written" in told for told in person.told))
        assert person.screen == "SummariesScreen"

    at(room_of(archive, complete=model), do)


def test_repairing_broken_summaries(archive: Path) -> None:
    broken = spoil(archive)

    async def do(person: Person) -> None:
        await person.press("D")
        assert "1 finding" in person.where
        await person.press("R")
        assert "Repair conversation 1" in person.seen
        await person.press("escape", "q", "j", "s", "R", "enter")
        await person.until(lambda: "1/2" in person.seen)
        await person.press("A")
        await person.until(lambda: any("Done: repair" in told for told in person.told))
        await person.press("R")
        await person.until(lambda: any("nothing to rewrite" in told for told in person.told))

    at(room_of(archive, complete=Scripted()), do)
    after = texts_of(archive)
    assert [id_ for id_ in broken if FALLBACK_MARKER in after[id_]] == []


def test_transplanting_to_a_chosen_conversation(archive: Path) -> None:
    there = context_of(archive, 2)

    async def do(person: Person) -> None:
        await person.press("j", "s", "t")
        assert person.screen == "ConversationDialog"
        assert "agent:main:there" in person.seen
        await person.press("enter")
        assert "are copied from conversation 1" in person.seen
        await person.press("y")
        await person.until(lambda: any("Done: transplant" in told for told in person.told))

    at(room_of(archive), do)
    after = context_of(archive, 2)
    assert len(after) > len(there)
    assert after[-len(there) :] == there


def test_a_list_of_conversations_is_moved_through_by_pages(archive: Path) -> None:
    with lossless.open(archive, background=False) as engine:
        for n in range(14):
            engine.append(f"agent:main:other-{n}", talk(2, seed=n + 2))

    async def do(person: Person) -> None:
        await person.press("G", "s", "t", "J")
        assert person.screen == "ConversationDialog"
        assert person.rows.cursor_row == 10
        await person.press("K")
        assert person.rows.cursor_row == 0

    at(room_of(archive), do)


def test_an_archive_that_is_only_looked_at_is_not_changed(archive: Path) -> None:
    before = archive.read_bytes()

    async def do(person: Person) -> None:
        assert "(read only)" in person.where
        await person.press("j", "s")
        for keys in (("d", "y"), ("r", "enter"), ("u", "y")):
            person.told.clear()
            await person.press(*keys)
            await person.until(lambda: any("--read-only" in told for told in person.told))
            person.app.screen._complaint = ("", 0.0)  # type: ignore[attr-defined]  # the same may be said again

    at(room_of(archive, read_only=True), do)
    assert archive.read_bytes() == before


def test_the_model_for_the_terminal_goes_first(archive: Path) -> None:
    room = room_of(archive, changed={"summary_model": "a/b", "tui_summary_model": "c/d"})
    try:
        assert (room.settings.summary_model, room.work_settings.summary_model) == ("a/b", "c/d")
        _, preview, _ = actions.plan_rewrite(room, next(iter(texts_of(archive))), 1, subtree=False)
        assert preview.startswith("written by: c/d")
    finally:
        room.close()
