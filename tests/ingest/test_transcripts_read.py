"""A transcript is opened, recognised, read in file order or along its path, and gone on with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lossless.errors import BadInput
from lossless.ingest.transcripts import KINDS, BadLine, TranscriptEntry, TranscriptHeader, open_transcript
from tests.ingest.transcripts_kit import Nodes, entries, ids, plain_walk, transcript, written

if TYPE_CHECKING:
    from pathlib import Path

HEAD = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-01-02T03:04:05.000Z", "cwd": "/home/user"}


def said(id: str, parent: str | None, **more: Any) -> dict[str, Any]:
    return {"type": "message", "id": id, "parentId": parent, "message": {"role": "user", "content": id}, **more}


def test_file_order_and_path(tmp_path: Path) -> None:
    found = transcript(tmp_path, [HEAD, said("a", None), said("b", "a"), said("c", "a")])
    assert (found.kind, found.is_array, found.header.id) == ("openclaw", False, "s1")
    assert ids(found.appended()) == "-abc".replace("-", "s1")
    assert ids(found.path()) == "s1ac"


def test_opaque_entries_and_bad_lines_stand_where_they_stood(tmp_path: Path) -> None:
    change = {"type": "model_change", "id": "m", "parentId": "a", "modelId": "x"}
    found = transcript(tmp_path, [said("a", None), b"nonsense", change, said("x", "a"), said("b", "m")])
    assert ids(found.path()) == "a!mb"
    assert found.counts() == {"message": 3, "model_change": 1}
    assert found.bad_lines == 1


def test_reading_goes_on_where_it_ended(tmp_path: Path) -> None:
    records = [HEAD, said("a", None), b"nonsense", said("b", "a"), said("c", "b")]
    path = written(tmp_path, records)
    whole = list(open_transcript(path).appended())
    data = path.read_bytes()
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        first = list(open_transcript(path, "openclaw").appended())
        path.write_bytes(data)
        after = first[-1].line if first else None
        where = (after.end, after.number + 1) if after else (0, 1)
        rest = list(open_transcript(path).appended(*where))
        assert [_told(entry) for entry in first + rest] == [_told(entry) for entry in whole]


def _told(entry: TranscriptEntry | BadLine) -> object:
    return entry.reason if isinstance(entry, BadLine) else (entry.line.number, entry.id, entry.message)


def test_what_is_appended_after_opening_is_not_read(tmp_path: Path) -> None:
    path = written(tmp_path, [HEAD, said("a", None)])
    found = open_transcript(path)
    with path.open("ab") as file:
        file.write(json.dumps(said("b", "a")).encode() + b"\n")
    assert ids(found.appended()) == ids(found.path()) == "s1a"
    assert found.state.size < path.stat().st_size
    assert ids(open_transcript(path).path()) == "s1ab"


def test_a_path_that_is_not_in_file_order_is_walked_from_its_root(tmp_path: Path) -> None:
    found = transcript(tmp_path, [HEAD, said("a", None), b"nonsense", said("b", "a"), said("a", None), said("c", "b")])
    assert ids(found.path()) == "s1!abc"
    assert [entry.line.number for entry in found.path()] == [1, 3, 5, 4, 6]


def test_a_file_that_is_rewritten_meanwhile_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, [said("a", None), said("b", "a")])
    found = open_transcript(path)
    assert ids(found.path()) == "ab"
    written(tmp_path, [said("x", None), said("y", "x")])
    with pytest.raises(BadInput, match="rewritten"):
        list(found.path())
    written(tmp_path, [said("a", None)])
    with pytest.raises(BadInput, match="rewritten"):
        list(found.path())


def test_an_array_of_records_is_read(tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    path.write_text(json.dumps([HEAD, said("a", None), 3, said("b", "a"), said("c", "a")], indent=2))
    found = open_transcript(path)
    assert (found.kind, found.is_array) == ("openclaw", True)
    assert ids(found.appended()) == ids(found.appended(50, 9)) == "s1a!bc"
    assert ids(found.path()) == "s1a!c"


def line(id: str, parent: str | None, agent: str | None) -> dict[str, Any]:
    side = {"isSidechain": True, "agentId": agent} if agent else {"isSidechain": False}
    message = {"role": "user", "content": id}
    return {"type": "user", "uuid": id, "parentUuid": parent, "sessionId": "s", "message": message, **side}


def test_lanes_are_read_alone(tmp_path: Path) -> None:
    lines = [
        line("a", None, None),
        line("p", None, "one"),
        line("b", "a", None),
        b"",
        line("q", "p", "one"),
        line("x", None, "two"),
        b"nonsense",
        line("r", "p", "one"),
        line("c", "b", None),
    ]
    found = transcript(tmp_path, lines)
    assert found.lanes() == ["one", "two"]
    assert [ids(found.path(lane)) for lane in (None, "one", "two", "none")] == ["ab!c", "pr", "x", ""]
    assert [entry.line.number for entry in found.path("one")] == [2, 8]
    assert ids(found.appended()) == "apbqx!rc"
    assert (found.lane_header("one").parent, found.lane_header("none")) == ("s", TranscriptHeader())


LANES = (None, "one", "two")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(st.sampled_from(LANES), st.integers(1, 3), st.sampled_from([b"", b"!", None])), max_size=20))
def test_each_lane_is_walked_alone(tmp_path: Path, steps: list[tuple[str | None, int, bytes | None]]) -> None:
    """Lanes mixed in any way, with blank and bad lines between: each is what it would be in a file of its own."""
    own: dict[str | None, Nodes] = {lane: [] for lane in LANES}
    lines: list[Any] = [line("?", None, "other")]
    for number, (lane, back, between) in enumerate(steps):
        before = own[lane]
        parent = before[-back][0] if len(before) >= back else None
        before.append((f"<{number}>", parent))
        lines += [line(f"<{number}>", parent, lane), *([] if between is None else [between])]
    found = transcript(tmp_path, lines)
    for lane, nodes in own.items():
        expected = [nodes[place][0] for place in plain_walk(nodes)]
        assert [entry.id for entry in found.path(lane) if isinstance(entry, TranscriptEntry)] == expected
    bad = [entry for entry in found.path() if isinstance(entry, BadLine)]
    assert len(bad) == found.bad_lines == sum(between == b"!" for _, _, between in steps)


def test_an_unknown_file_says_which_kinds_there_are(tmp_path: Path) -> None:
    for records in ([{"some": "thing"}], [b"nonsense"], [b"[1]"]):
        with pytest.raises(
            BadInput, match=r"not a transcript.*chatgpt, claude-code, codex, gemini, jsonl, openclaw, opencode, pi"
        ) as bad:
            transcript(tmp_path, records)
        assert "transcript.jsonl" in str(bad.value)
        assert "nonsense" not in str(bad.value)
    with pytest.raises(BadInput, match=r"unknown kind of transcript 'word'.*openclaw"):
        open_transcript(tmp_path / "transcript.jsonl", "word")
    with pytest.raises(BadInput, match=r"nowhere\.jsonl"):
        open_transcript(tmp_path / "nowhere.jsonl")


@pytest.mark.parametrize("content", [b"", b"\n\n", b'{"type":"sess', b"["])
def test_a_file_without_a_record_yet_is_empty(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "new.jsonl"
    path.write_bytes(content)
    found = open_transcript(path)
    assert (list(found.appended()), list(found.path()), found.lanes()) == ([], [], [])


def test_a_kind_that_is_given_is_not_guessed(tmp_path: Path) -> None:
    path = written(tmp_path, [{"role": "user", "content": "hi"}])
    assert open_transcript(path).kind == "jsonl"
    for kind in KINDS:
        found = open_transcript(path, kind)
        assert found.kind == kind
        assert len(entries(found.appended())) == 1


def test_a_record_of_an_unseen_type_is_kept_and_counted(tmp_path: Path) -> None:
    odd = {"type": "never-seen", "id": "o", "parentId": "a", "deep": {"er": [1]}}
    found = transcript(tmp_path, [HEAD, said("a", None), odd])
    last = entries(found.path())[-1]
    assert (last.kind, last.message, last.record) == ("never-seen", None, odd)
    assert found.counts()["never-seen"] == 1
