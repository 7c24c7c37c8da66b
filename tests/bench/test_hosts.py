"""The instrument that measures hosts sees what it must see; a run that misses an aim does not pass."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.hosts import wire
from bench.hosts.figures import Archive, Run, cut_by_host, markdown, prefix_share
from bench.hosts.host import wait_for_workers
from bench.hosts.model import Seen
from bench.hosts.picture import draw
from bench.hosts.script import SECRET, output, turns
from bench.hosts.wire import Piece, Reply, Use

GOOD = Run(
    host="a", budget=1000, fits=True, turns=9, failed=0, error="", requests=20, left_out=10, with_summary=10,
    with_evidence=0, folds=1, largest=900, over=0, prefix=0.9, texts=5, lost=0, doubled=0, answered=True, seconds=1.0,
    points=[(900, True, False, True)],
)  # fmt: skip


def seen(**more: Any) -> Seen:
    plain = Seen(turn=0, tokens=10, size=100, same=90, summaries=frozenset(), evidence=False, missing=0)
    return replace(plain, **more)


def test_a_run_that_holds_all_aims_has_no_faults() -> None:
    assert GOOD.faults() == []


@pytest.mark.parametrize(
    "worse",
    [{"failed": 1}, {"left_out": 0}, {"with_summary": 9}, {"over": 1}, {"lost": 1}, {"doubled": 1},
     {"answered": False}, {"prefix": 0.79}],
)  # fmt: skip
def test_each_aim_can_be_missed(worse: dict[str, Any]) -> None:
    assert replace(GOOD, **worse).faults()


def test_a_host_that_folds_its_own_history_answers_for_its_own_size() -> None:
    assert replace(GOOD, fits=False, over=3, prefix=0.2).faults() == []


def test_what_was_sent_at_a_fold_does_not_count_against_the_prefix() -> None:
    folded = seen(summaries=frozenset({"sum_1"}), same=0)
    assert prefix_share([seen(), seen(), folded, replace(folded, same=50)]) == pytest.approx(0.7)
    assert prefix_share([seen()]) is None


def test_the_archive_is_read_as_it_is(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "lcm.db")
    database.executescript(
        "CREATE TABLE messages (role, content, large_content);"
        "CREATE TABLE message_parts (text_content, tool_input, tool_output);"
        "CREATE TABLE large_files (storage_uri)"
    )
    (tmp_path / "a.txt").write_text("the whole output\n")
    rows = [("user", "[T000] one"), ("user", "[T001] two"), ("user", '<summary id="sum_1">[T000] one</summary>')]
    database.executemany("INSERT INTO messages VALUES (?, ?, NULL)", rows)
    database.execute("INSERT INTO message_parts VALUES (NULL, ?, NULL)", (json.dumps({"command": 'say "x"'}),))
    database.execute("INSERT INTO large_files VALUES (?)", (str(tmp_path / "a.txt"),))
    database.commit()
    archive = Archive(tmp_path / "lcm.db")
    assert all(map(archive.has, ("[T001] two", "the whole output", 'say "x"')))
    assert not archive.has("[T002] three")
    assert archive.doubled() == 0
    database.execute("INSERT INTO messages VALUES ('user', 'again [T001] two', NULL)")
    database.commit()
    database.close()
    assert Archive(tmp_path / "lcm.db").doubled() == 1
    assert not Archive(tmp_path / "missing.db").has("[T001] two")


def test_only_what_the_host_itself_cut_is_not_counted_as_lost() -> None:
    outputs = ["  a1\na2\na3\na4\n", "b1\nb2\n", "c1\nc2\n"]
    mark = "[... 20 more characters truncated; rerun with narrower args if needed]"
    kept = [f"a1\na4{mark}", f"b1\nb2{mark}", "c1"]
    # a2: cut; a4 and b2: the host has them; c2: the host has no mark there; "said": no line of an output
    assert cut_by_host({"a2", "a4", "b2", "c2", "said"}, outputs, kept) == {"a2"}
    assert cut_by_host({"a2"}, outputs, [*kept, "a1\na2\na3\na4"]) == set()
    assert cut_by_host({"a2"}, outputs, []) == set()


def test_the_table_says_what_the_host_cut() -> None:
    assert "cut" not in str(GOOD.row()["archive"])
    assert replace(GOOD, cut=7).row()["archive"] == "whole, 7 lines cut by the host"
    assert replace(GOOD, cut=7).faults() == []


REQUESTS: dict[str, dict[str, Any]] = {
    "chat": {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"text": "u"}]}]},
    "messages": {"system": "s", "messages": [{"role": "user", "content": "u"}]},
    "responses": {"instructions": "s", "input": [{"role": "user", "content": [{"type": "input_text", "text": "u"}]}]},
    "gemini": {
        "systemInstruction": {"parts": [{"text": "s"}]},
        "contents": [{"role": "user", "parts": [{"text": "u"}]}],
    },
}


@given(st.sampled_from(sorted(REQUESTS)), st.text(max_size=900), st.booleans())
def test_a_reply_that_is_sent_back_is_read_as_it_was_said(kind: str, text: str, calls: bool) -> None:
    prompt = wire.read(kind, REQUESTS[kind])
    assert prompt.pieces == [Piece("system", "s"), Piece("user", "u")]
    made = wire.whole(prompt, Reply(text, (Use("shell", {"command": "ls"}),) if calls else ()), 7, 100, 5)
    assert b"".join(wire.events(prompt, made))
    pieces = wire.read(kind, sent_back(kind, made)).pieces
    assert [piece.text for piece in pieces if piece.role == "assistant"] == ([text] if text else [])
    assert [("shell" in piece.text, "ls" in piece.text) for piece in pieces if piece.role == "call"] == [
        (True, True)
    ] * calls


def sent_back(kind: str, made: dict[str, Any]) -> dict[str, Any]:
    if kind == "chat":
        return {"messages": [made["choices"][0]["message"]]}
    if kind == "messages":
        return {"messages": [{"role": "assistant", "content": made["content"]}]}
    return {"input": made["output"]} if kind == "responses" else {"contents": [made["candidates"][0]["content"]]}


def test_a_conversation_says_its_detail_early_and_each_line_once(tmp_path: Path) -> None:
    made = turns(14, 16_000, tmp_path)
    said = [text for turn in made for text in turn.outputs.values()]
    assert [number for number, text in enumerate(said) if SECRET in text] == [1]
    assert made[-1].asks_back
    lines = [line for text in said for line in text.splitlines()]
    assert len(lines) == len(set(lines))
    assert len(output("x", 40_000, random.Random(1))) > 40_000


def test_the_picture_has_a_point_for_each_request() -> None:
    drawn = draw([GOOD, replace(GOOD, host="<b>", points=[(5, False, False, True)] * 3)])
    assert drawn.count('r="2"') == 4
    assert "&lt;b&gt;" in drawn


def test_a_host_that_was_not_run_again_stays_as_it_was() -> None:
    runs = [GOOD, replace(GOOD, host="b"), replace(GOOD, host="a", budget=9000)]
    again = [replace(GOOD, host="b", requests=21, points=[(5, False, False, True)] * 3)]
    whole = [runs[0], runs[2], again[0]]
    assert draw(again, draw(runs), "ab") == draw(whole)
    assert markdown(again, markdown(runs), "ab") == markdown(whole)


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked up in /proc")
def test_what_hooks_have_started_is_waited_for(tmp_path: Path) -> None:
    done, event = tmp_path / "done", json.dumps({"transcript_path": str(tmp_path / "a.jsonl")})
    code = f"import sys, pathlib; sys.stdin.read(); pathlib.Path({str(done)!r}).write_text('x') # claude_code.worker"
    worker = subprocess.Popen([sys.executable, "-c", code, event], stdin=subprocess.PIPE)
    with worker:
        wait_for_workers(tmp_path, 0.3)
        assert not done.exists()
        assert worker.stdin is not None
        threading.Timer(0.2, worker.stdin.close).start()
        threading.Thread(target=worker.wait).start()
        wait_for_workers(tmp_path)
        assert done.exists()
