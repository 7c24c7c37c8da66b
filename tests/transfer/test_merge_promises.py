"""What holds for any conversations: there and back is the same, twice is once, a kill loses nothing."""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossless.store.archive import Archive
from lossless.store.bundles.other_programs import RemnicFile, open_claw
from lossless.transfer import remnic
from lossless.transfer.lossless_claw import TransferOptions
from lossless.transfer.merge_plan import align_messages
from lossless.transfer.remnic import export_remnic
from tests.faults import Fault, failing_at, statements_of

from . import claws
from .claws import Line, Talk, real, rows, run
from .moves import IMPORTS, bring, nothing_new, said, to_claw, to_file, to_remnic

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
    key, active = f"key {number}", 1
    if draw(st.booleans()):  # one key over several conversations: the last of them is active
        session, key, active = "reset", "key", int(number == 2)
    return Talk(session, lines, key, leaves, condensed, context, draw(st.none() | TEXTS), active)


def place() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


@settings(max_examples=6)
@given(given_talks=talks())
def test_through_remnic_and_back_is_the_same(given_talks: list[Talk]) -> None:
    with place() as name:
        folder = Path(name)
        source = real(folder / "source.db", given_talks)
        looked = to_remnic(source, folder / "memory.sqlite", dry_run=True)
        assert not (folder / "memory.sqlite").exists()
        put = to_remnic(source, folder / "memory.sqlite")
        assert replace(looked, dry_run=False) == put
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


DROP = [f"DROP TABLE lcm_x_{name}" for name in ("edges", "summary_messages", "source_rows")]
#: The graph with messages by their places: which leaf covers what, which summary was made of which, in order.
GRAPH = ("leaves", "sources", "summaries")


@settings(max_examples=6)
@given(given_talks=talks())
def test_remnics_own_tables_are_enough_for_the_graph(given_talks: list[Talk]) -> None:
    """Where conversations do not take turns in one session, and no summary is used twice."""
    alone = [replace(talk, session_id=f"run {n}") for n, talk in enumerate(given_talks)]
    with place() as name:
        folder = Path(name)
        source = real(folder / "source.db", alone)
        to_remnic(source, folder / "memory.sqlite")
        run(folder / "memory.sqlite", *DROP)
        bring("remnic", folder / "memory.sqlite", folder / "lcm.db")
        back, was = said(folder / "lcm.db"), said(source)
        assert [back[name] for name in GRAPH] == [was[name] for name in GRAPH]
        assert back["messages"] == was["messages"]
        assert nothing_new(bring("remnic", folder / "memory.sqlite", folder / "lcm.db"))


@st.composite
def memories(draw: st.DrawFn) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Turns and nodes as Remnic itself writes them: roles of any name, gaps between turns, trees of any depth."""
    turns: list[tuple[Any, ...]] = []
    nodes: list[tuple[Any, ...]] = []
    for session in draw(st.lists(st.sampled_from(["s", "ns:s", "t"]), min_size=1, unique=True)):
        turn, mine = -1, []
        for n in range(draw(st.integers(1, 12))):
            turn += draw(st.integers(1, 3))
            mine.append(turn)
            role = draw(st.sampled_from(["user", "assistant", "tool", "system", "toolResult", "developer", "custom"]))
            at = f"2026-05-01T10:00:{n:02d}.{draw(st.integers(0, 999)):03d}Z"
            turns.append((session, turn, role, draw(TEXTS), draw(st.integers(0, 99)), at))
        nodes += _tree(draw, session, mine)
    return turns, nodes


def _tree(draw: st.DrawFn, session: str, turns: list[int]) -> list[tuple[Any, ...]]:
    """Leaves over some turns from the first on, and rollups over neighbours; those above come first."""
    row: list[tuple[str, int, int]] = []
    at = 0
    while at < len(turns) and draw(st.booleans()):
        size = draw(st.integers(1, 4))
        chosen = turns[at : at + size]
        row.append((f"lcm-{session}-0-{len(row)}", chosen[0], chosen[-1]))
        at += size
    found: list[tuple[Any, ...]] = []
    parents: dict[str, str] = {}
    levels = [row]
    while len(levels[-1]) > 1 and draw(st.booleans()):
        below = levels[-1]
        above: list[tuple[str, int, int]] = []
        while draw(st.booleans()) and below:
            size = draw(st.integers(1, 4))
            group, below = below[:size], below[size:]
            id_ = f"lcm-{session}-{len(levels)}-{len(above)}"
            above.append((id_, group[0][1], group[-1][2]))
            parents |= {child[0]: id_ for child in group}
        if not above:
            break
        levels.append(above)
    for depth, level in enumerate(levels):
        for id_, start, end in level:
            made = (draw(TEXTS), draw(st.integers(0, 9)), start, end, draw(st.integers(0, 2)))
            found.append((id_, session, depth, parents.get(id_), *made, "2026-05-01T11:00:00.000Z"))
    return found[::-1]


@settings(max_examples=6)
@given(memory=memories())
def test_what_remnic_heard_goes_there_and_back(memory: tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]) -> None:
    with place() as name:
        folder = Path(name)
        there, again = folder / "memory.sqlite", folder / "again.sqlite"
        to_remnic(real(folder / "empty.db", []), there)
        run(there, *DROP)
        with closing(apsw.Connection(str(there))) as connection:
            connection.executemany(
                "INSERT INTO lcm_messages (session_id, turn_index, role, content, token_count, created_at) "
                "VALUES (?, ?, ?, ?, ?, ?)", memory[0],
            )  # fmt: skip
            connection.executemany("INSERT INTO lcm_summary_nodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", memory[1])
        bring("remnic", there, folder / "lcm.db")
        assert nothing_new(bring("remnic", there, folder / "lcm.db"))
        to_remnic(folder / "lcm.db", again)
        for sql in (
            "SELECT session_id, turn_index, role, content, token_count FROM lcm_messages ORDER BY 1, 2",
            "SELECT id, session_id, depth, summary_text, msg_start, msg_end, parent_id, escalation "
            "FROM lcm_summary_nodes ORDER BY id",
        ):
            assert rows(again, sql) == rows(there, sql)
        assert to_remnic(folder / "lcm.db", again).sessions_touched == []


@settings(max_examples=6)
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


@settings(max_examples=6)
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


@settings(max_examples=6)
@given(given_talks=talks(), data=st.data())
def test_a_conversation_that_grows_is_never_doubled(given_talks: list[Talk], data: Any) -> None:
    with place() as name:
        folder = Path(name)
        early = [
            Talk(
                talk.session_id, talk.lines[: data.draw(st.integers(0, len(talk.lines)))], talk.session_key,
                active=talk.active,
            )
            for talk in given_talks
        ]  # fmt: skip
        bring("claw", real(folder / "early.db", early), folder / "lcm.db")
        later = real(folder / "later.db", given_talks)
        bring("claw", later, folder / "lcm.db")
        assert said(folder / "lcm.db")["messages"] == said(later)["messages"]
        assert nothing_new(bring("claw", later, folder / "lcm.db"))
        assert nothing_new(bring("claw", folder / "early.db", folder / "lcm.db"))


@pytest.mark.parametrize("kind", IMPORTS)
def test_an_import_that_is_stopped_anywhere_is_finished_by_the_next(tmp_path: Path, kind: str) -> None:
    source = real(tmp_path / "source.db", [claws.tree_of_24(), Talk("run-2", [Line("b")])])
    if kind != "claw":
        there, source = source, tmp_path / f"source.{kind}"
        (to_remnic if kind == "remnic" else to_file)(there, source)
    make: Any = IMPORTS[kind]
    with Archive.open(tmp_path / "whole.db") as archive:
        steps = len(statements_of(archive.database, lambda: make(source, archive, None, TransferOptions())))
    for n in range(0, steps, 21):
        target = tmp_path / f"{n}.db"
        with Archive.open(target) as archive, failing_at(archive.database, n), pytest.raises(Fault):
            make(source, archive, None, TransferOptions())
        bring(kind, source, target)
        assert said(target) == said(tmp_path / "whole.db")


def test_an_export_that_is_stopped_anywhere_leaves_nothing_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = real(tmp_path / "source.db", [claws.tree_of_24()])
    target = tmp_path / "memory.sqlite"

    class Failing(RemnicFile):
        """Fails at a statement."""

        def __enter__(self) -> Self:
            self.failing = failing_at(self._db, steps[0])
            self.failing.__enter__()
            return super().__enter__()

        def __exit__(self, *_: object) -> None:
            self.failing.__exit__(None, None, None)
            super().__exit__()

    monkeypatch.setattr(remnic, "RemnicFile", Failing)
    with open_claw(source) as archive:
        for n in range(3, 60, 9):
            steps = [n]
            with pytest.raises(Fault):
                export_remnic(archive, None, target, TransferOptions())
            assert [path.name for path in tmp_path.iterdir()] == ["source.db"]
        monkeypatch.undo()
        assert export_remnic(archive, None, target).messages_inserted == 24


@given(texts=st.lists(st.sampled_from("abc"), max_size=8), cut=st.integers(0, 8))
def test_the_kth_of_equals_is_the_kth(texts: list[str], cut: int) -> None:
    from lossless.store.bundles import MessageKey

    keys = [MessageKey(n + 1, n + 1, text, "2026-01-01 00:00:00", None, None, 1) for n, text in enumerate(texts)]
    found = align_messages(keys, keys[:cut])
    assert found[0] == {key.id: key.id for key in keys[:cut]}
