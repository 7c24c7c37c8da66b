"""The floor stores what it was given, and the measuring tools say what they measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    import bench.conversations
    import bench.floor
    import bench.measure

    return bench


def _rows(path: Path, sql: str) -> list[Any]:
    return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY).execute(sql).fetchall()


def test_a_turn_is_two_messages_of_1800_bytes(bench: Any) -> None:
    turns = list(bench.conversations.turns(50))
    assert all([message["role"] for message in turn] == ["user", "assistant"] for turn in turns)
    assert {sum(len(message["content"].encode()) for message in turn) for turn in turns} == {1800}
    assert len({turn[1]["content"] for turn in turns}) == 50
    assert turns == list(bench.conversations.turns(50))


@pytest.mark.parametrize("way", ["floor_turns", "floor_batch"])
def test_the_floor_stores_everything_and_finds_it(bench: Any, tmp_path: Path, way: str) -> None:
    messages = list(bench.conversations.agent_conversation(60))
    path = tmp_path / "floor.db"
    assert getattr(bench.floor, way)(messages, path) > 0
    stored = _rows(path, "SELECT seq, content FROM messages ORDER BY seq")
    assert stored == [(seq, bench.conversations.text_of(message["content"])) for seq, message in enumerate(messages, 1)]
    blocks = sum(len(message["content"]) for message in messages)
    assert _rows(path, "SELECT count(*) FROM message_parts") == [(blocks,)]
    assert _rows(path, "SELECT count(*) FROM context_items") == [(60,)]
    found = _rows(path, "SELECT rowid FROM floor_search WHERE floor_search MATCH 'reconciling' ORDER BY rowid")
    assert [id for (id,) in found] == [seq for seq, text in stored if "reconcile" in text]
    assert _rows(path, "PRAGMA journal_mode") == [("wal",)]


def test_turns_are_grouped_by_their_user_message(bench: Any) -> None:
    roles = ["assistant", "user", "assistant", "toolResult", "user"]
    turns = list(bench.conversations.by_turn({"role": role} for role in roles))
    assert [len(turn) for turn in turns] == [1, 3, 1]


def test_rivals_are_measured_in_turns(bench: Any) -> None:
    order: list[str] = []

    def case(name: str, seconds: float) -> float:
        order.append(name)
        return seconds

    runs = bench.measure.interleaved({"a": lambda: case("a", 3.0), "b": lambda: case("b", 1.5)}, repeat=3)
    assert "".join(order) == "ababab"
    assert runs["a"].median == runs["a"].min == 3.0
    assert bench.measure.ratio(runs["a"], runs["b"]) == 2.0
    assert bench.measure.cpu(lambda: sum(range(1000)), repeat=2).runs[0] >= 0
    assert runs["a"].each(3000) == 1.0


def test_a_table_is_aligned(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    bench.measure.table([{"case": "turns", "ms": 0.25}, {"case": "one batch", "ms": 1234.5}], "Speed")
    assert capsys.readouterr().out.splitlines() == [
        "",
        "Speed",
        "case          ms",
        "---------  -----",
        "turns       0.25",
        "one batch  1,234",
    ]


def test_results_name_their_input_and_seed(bench: Any, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    path = bench.measure.write("speed", [{"ms": 1}], {"input": "turns()", "seed": 7}, folder)
    assert path == folder / "speed.json"
    kept = json.loads(path.read_text())
    assert (kept["input"], kept["seed"], kept["rows"]) == ("turns()", 7, [{"ms": 1}])
    with pytest.raises(ValueError, match="input and seed"):
        bench.measure.write("speed", [], {}, folder)
