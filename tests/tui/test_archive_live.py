"""Looking at a database of lossless-claw while its host writes: nothing is in its way, and what comes is seen."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from tests.store.older import AGES, make
from tests.tui.kit import Person, at, room_of

WRITER = Path(__file__).with_name("writing.py")
NEWEST = list(AGES)[-1]


def tables(path: Path) -> set[str]:
    connection = apsw.Connection(str(path))
    try:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    finally:
        connection.close()


@pytest.mark.parametrize("age", [next(iter(AGES)), NEWEST])
def test_a_database_of_any_age_is_looked_at_and_left_alone(tmp_path: Path, age: str) -> None:
    path = tmp_path / "lcm.db"
    make(path, AGES[age])
    before = hashlib.sha256(path.read_bytes()).hexdigest()

    async def do(person: Person) -> None:
        assert "1 conversation" in person.where
        await person.press("enter")
        assert "1 … 6" in person.where
        await person.press("s", "enter", "p", "q", "d", "n", "c", "q", "q", "f", "q", "o", "q", "q")
        await person.press("D", "q", "slash", *"proxy", "enter")
        assert person.rows.keys
        assert not any("Unexpected" in told for told in person.told)

    at(room_of(path), do)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before


def test_fifty_turns_a_second_are_followed_and_not_held_up(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    make(path, AGES[NEWEST])
    before = tables(path)
    seen: list[str] = []

    async def do(person: Person) -> None:
        await person.press("enter")
        command = [sys.executable, str(WRITER), str(path)]
        writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            for _ in range(3):
                seen.append(person.where)
                await person.press("c", "q", "G")
                await person.until(lambda: person.where != seen[-1])
            turns = int(writer.communicate()[0])
        finally:
            writer.kill()
            writer.wait()
        assert turns >= 3
        await person.until(lambda: f"{6 + 2 * turns:,}" in person.where)
        assert person.told == []

    at(room_of(path), do)
    assert len(set(seen)) == 3
    assert tables(path) == before


def test_a_database_that_is_operated_on_is_brought_up_to_date_first(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    make(path, AGES[NEWEST])

    async def do(person: Person) -> None:
        await person.press("s", "d", "y")
        await person.until(lambda: any("Done: dissolve" in told for told in person.told))
        await person.press("u", "y")
        await person.until(lambda: any("Done: undo" in told for told in person.told))
        assert not person.app.access.browse.is_of_older_shape

    at(room_of(path), do)
