"""What holds for any conversations: there and back is the same, twice is once, a kill loses nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossless.store.archive import Archive
from lossless.store.remnic import RemnicFile
from lossless.store.sources import open_claw
from lossless.transfer import remnic_out
from lossless.transfer.align import align
from lossless.transfer.lossless_claw import ImportOptions, import_lossless_claw
from lossless.transfer.remnic_out import RemnicOptions, export_remnic
from tests.faults import Fault, failing_at, statements_of

from . import claws
from .claws import Line, Talk, real, rows
from .moves import bring, nothing_new, said, to_claw, to_file, to_remnic

TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
BETWEEN = st.integers(0, 2)


@st.composite
def talks(draw: st.DrawFn) -> list[Talk]:
    """Conversations of up to three sessions, some in turns in one session, folded to any depth."""
    found = []
    for number in range(draw(st.integers(1, 3))):
        at, lines = 0, []
        for _ in range(draw(st.integers(0, 9))):
            at += draw(BETWEEN)
            role = draw(st.sampled_from(["user", "assistant", "system", "tool"]))
            lines.append(
                Line(draw(TEXTS), role, f"2026-03-01 10:{at // 60:02d}:{at % 60:02d}", draw(st.integers(5, 30)))
            )
        found.append(_folded(draw, number, lines))
    return found


def _folded(draw: st.DrawFn, number: int, lines: list[Line]) -> Talk:
    context: list[int | str] = list(range(len(lines)))
    leaves: dict[str, list[int]] = {}
    condensed: dict[str, list[str]] = {}
    for n in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, max(0, len(context) - 1)))
        chosen = context[start : start + draw(st.integers(1, 4))]
        messages = [item for item in chosen if isinstance(item, int)]
        summaries = [item for item in chosen if isinstance(item, str)]
        id_ = f"sum_{number}_{n}"
        if messages and not summaries:
            leaves[id_] = messages
        elif summaries and not messages:
            condensed[id_] = summaries
        else:
            continue
        context[start : start + len(chosen)] = [id_]
    session = draw(st.sampled_from(["one", "two", f"own {number}"]))
    return Talk(session, lines, f"key {number}", leaves, condensed, context, draw(st.none() | TEXTS))


def place() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


@settings(max_examples=12)
@given(given_talks=talks())
def test_through_remnic_and_back_is_the_same(given_talks: list[Talk]) -> None:
    with place() as name:
        folder = Path(name)
        source = real(folder / "source.db", given_talks)
        put = to_remnic(source, folder / "memory.sqlite")
        assert put.messages_inserted == sum(len(talk.lines) for talk in given_talks)
        assert to_remnic(source, folder / "memory.sqlite").sessions_touched == []
        assert rows(folder / "memory.sqlite", "PRAGMA foreign_key_check") == []
        bring("remnic", folder / "memory.sqlite", folder / "lcm.db")
        with_messages = [talk for talk in given_talks if talk.lines]
        if len(with_messages) == len(given_talks):  # Remnic knows no session without turns
            assert said(folder / "lcm.db") == said(source)
        assert said(folder / "lcm.db")["messages"] == said(source)["messages"]
        assert nothing_new(bring("remnic", folder / "memory.sqlite", folder / "lcm.db"))
        to_claw(folder / "lcm.db", folder / "back.db")
        assert said(folder / "back.db") == said(folder / "lcm.db")


@settings(max_examples=12)
@given(given_talks=talks())
def test_every_way_into_an_archive_is_exact(given_talks: list[Talk]) -> None:
    with place() as name:
        folder = Path(name)
        source = real(folder / "source.db", given_talks)
        bring("claw", source, folder / "lcm.db")
        assert said(folder / "lcm.db") == said(source)
        assert nothing_new(bring("claw", source, folder / "lcm.db"))
        to_file(folder / "lcm.db", folder / "all.jsonl")
        bring("archive", folder / "all.jsonl", folder / "again.db")
        assert said(folder / "again.db") == said(source)
        assert nothing_new(bring("archive", folder / "all.jsonl", folder / "lcm.db"))


@settings(max_examples=12)
@given(given_talks=talks(), data=st.data())
def test_a_part_and_then_the_rest_is_all(given_talks: list[Talk], data: Any) -> None:
    names = sorted({talk.session_id or "" for talk in given_talks})
    first = frozenset(data.draw(st.sets(st.sampled_from(names), min_size=1)))
    rest = frozenset(names) - first
    with place() as name:
        folder = Path(name)
        source = real(folder / "source.db", given_talks)
        for some in filter(None, (first, rest)):
            bring("claw", source, folder / "lcm.db", sessions=some)
            to_remnic(source, folder / "memory.sqlite", sessions=some)
        assert said(folder / "lcm.db") == said(source)
        to_remnic(source, folder / "whole.sqlite")
        for table in ("lcm_messages", "lcm_summary_nodes"):
            columns = (
                "session_id, turn_index, content" if table == "lcm_messages" else "id, parent_id, msg_start, msg_end"
            )
            sql = f"SELECT {columns} FROM {table} ORDER BY 1, 2"
            assert rows(folder / "memory.sqlite", sql) == rows(folder / "whole.sqlite", sql)


@settings(max_examples=12)
@given(given_talks=talks(), data=st.data())
def test_a_conversation_that_grows_is_never_doubled(given_talks: list[Talk], data: Any) -> None:
    with place() as name:
        folder = Path(name)
        early = [
            Talk(talk.session_id, talk.lines[: data.draw(st.integers(0, len(talk.lines)))], talk.session_key)
            for talk in given_talks
        ]
        bring("claw", real(folder / "early.db", early), folder / "lcm.db")
        later = real(folder / "later.db", given_talks)
        bring("claw", later, folder / "lcm.db")
        assert said(folder / "lcm.db")["messages"] == said(later)["messages"]
        assert nothing_new(bring("claw", later, folder / "lcm.db"))
        assert nothing_new(bring("claw", folder / "early.db", folder / "lcm.db"))


def test_an_import_that_is_stopped_anywhere_is_finished_by_the_next(tmp_path: Path) -> None:
    source = real(tmp_path / "source.db", [claws.tree_of_24(), Talk("run-2", [Line("b")])])
    with Archive.open(tmp_path / "whole.db") as archive:
        steps = len(statements_of(archive.database, lambda: import_lossless_claw(source, archive, None)))
    for n in range(0, steps, 7):
        target = tmp_path / f"{n}.db"
        with Archive.open(target) as archive, failing_at(archive.database, n), pytest.raises(Fault):
            import_lossless_claw(source, archive, None, ImportOptions())
        bring("claw", source, target)
        assert said(target) == said(tmp_path / "whole.db")


def test_an_export_that_is_stopped_anywhere_leaves_nothing_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = real(tmp_path / "source.db", [claws.tree_of_24()])
    target = tmp_path / "memory.sqlite"

    class Failing(RemnicFile):
        """Fails at a statement."""

        def __enter__(self) -> RemnicFile:
            self.failing = failing_at(self._db, steps[0])
            self.failing.__enter__()
            return super().__enter__()

        def __exit__(self, *_: object) -> None:
            self.failing.__exit__(None, None, None)
            super().__exit__()

    monkeypatch.setattr(remnic_out, "RemnicFile", Failing)
    with open_claw(source) as archive:
        for n in range(3, 60, 9):
            steps = [n]
            with pytest.raises(Fault):
                export_remnic(archive, None, target, RemnicOptions())
            assert rows(target, "SELECT count(*) FROM sqlite_master") == [(0,)]
        monkeypatch.undo()
        assert export_remnic(archive, None, target).messages_inserted == 24


@given(texts=st.lists(st.sampled_from("abc"), max_size=8), cut=st.integers(0, 8))
def test_the_kth_of_equals_is_the_kth(texts: list[str], cut: int) -> None:
    from lossless.store.bundles import Key

    keys = [Key(n + 1, n + 1, text, "2026-01-01 00:00:00", None, None, 1) for n, text in enumerate(texts)]
    found = align(keys, keys[:cut])
    assert found.known == {key.id: key.id for key in keys[:cut]}
