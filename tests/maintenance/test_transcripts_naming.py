"""Every transcript has one session: no two files share it, and a file keeps it however its path is written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lossless.ingest.sessions import imported_from, kind_by_folder, lane_session, place_name, transcript_session
from lossless.model.conversations import Session

WITHOUT_IDS = ("jsonl", "pi", "codex", "chatgpt", "openclaw")


def made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


@pytest.mark.parametrize("kind", WITHOUT_IDS)
def test_files_of_one_name_in_different_folders_are_different_sessions(tmp_path: Path, kind: str) -> None:
    places = ("a/messages.jsonl", "b/messages.jsonl", "c/a/messages.jsonl", "a/messages.json", "messages.jsonl")
    sessions = [transcript_session(kind, made(tmp_path / place), None, None) for place in places]
    assert len({session.name for session in sessions}) == len({session.id for session in sessions}) == len(places)
    lanes = [lane_session(kind, session, "1") for session in sessions]
    assert len({lane.name for lane in lanes}) == len({lane.id for lane in lanes}) == len(places)


def test_a_name_can_be_read(tmp_path: Path) -> None:
    session = transcript_session("jsonl", made(tmp_path / "support" / "messages.jsonl"), None, None)
    kind, _, rest = str(session.key).partition(":")
    assert (kind, rest.rpartition("-")[0], rest) == ("jsonl", "support/messages", session.id)


@pytest.mark.parametrize("kind", [*WITHOUT_IDS, "claude-code"])
def test_a_file_has_one_session_however_its_path_is_written(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = made(tmp_path / "a" / "messages.jsonl")
    expected = transcript_session(kind, file, None, None)
    monkeypatch.chdir(tmp_path)
    assert transcript_session(kind, Path("a/messages.jsonl"), None, None) == expected
    assert transcript_session(kind, Path("a/../a/./messages.jsonl"), None, None) == expected
    monkeypatch.chdir(tmp_path / "a")
    assert transcript_session(kind, Path("messages.jsonl"), None, None) == expected


def test_a_link_to_a_folder_leads_to_the_same_session(tmp_path: Path) -> None:
    file = made(tmp_path / "a" / "messages.jsonl")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert transcript_session("jsonl", tmp_path / "link" / file.name, None, None) == transcript_session(
        "jsonl", file, None, None
    )


def test_ids_of_their_own_stay_the_names(tmp_path: Path) -> None:
    file = made(tmp_path / "-home-ferry" / "s1.jsonl")
    assert transcript_session("codex", file, "t1", "/home/ferry") == Session(key="codex:ferry:t1", id="t1")
    assert transcript_session("pi", file, "p1", None) == Session(key="pi:p1", id="p1")
    assert transcript_session("claude-code", file, "s0", "/x") == Session(key="claude-code:-home-ferry:s1", id="s1")
    assert transcript_session("openclaw", file, "run-1", "/x") == Session(id="run-1")
    export = transcript_session("chatgpt", made(tmp_path / "conversations.json"), None, None)
    assert lane_session("chatgpt", export, "6a-b") == Session(key="chatgpt:6a-b", id="6a-b")


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.text(st.characters(blacklist_characters="/\0"), min_size=1, max_size=12), min_size=2))
def test_no_name_of_a_file_is_too_odd(tmp_path: Path, names: list[str]) -> None:
    text = "/".join(names)
    try:
        path = tmp_path / os.fsdecode(text.encode("utf-8", "surrogatepass"))
    except UnicodeDecodeError:
        return
    name = place_name(path)
    name.encode()
    assert ":" not in name
    assert name == place_name(path)


def test_bytes_that_are_no_text_in_a_name(tmp_path: Path) -> None:
    one, two = (place_name(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff%d:x.jsonl" % n))) for n in (1, 2))
    assert one != two
    assert ":" not in one
    one.encode()


# --- OpenClaw's own index ---


def index(folder: Path, **runs: str) -> Path:
    path = folder / "sessions.json"
    path.write_text(json.dumps({key.replace("_", ":"): {"sessionId": run} for key, run in runs.items()}))
    return path


def test_the_index_names_the_runs_and_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index(tmp_path, **{f"agent_main_s{n}": f"run-{n}" for n in range(40)}, agent_main_other="run-0")
    reads: list[Path] = []
    read_bytes = Path.read_bytes

    def counted(path: Path) -> bytes:
        reads.append(path)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    sessions = [transcript_session("openclaw", tmp_path / f"run-{n}.jsonl", f"run-{n}", None) for n in range(40)]
    assert sessions == [Session(key=f"agent:main:s{n}", id=f"run-{n}") for n in range(40)]
    assert len(reads) == 1
    assert transcript_session("openclaw", tmp_path / "run-3.jsonl", None, None) == sessions[3], (
        "the file's name is the run"
    )
    assert transcript_session("openclaw", tmp_path / "x.jsonl", "run-x", None) == Session(id="run-x")


def test_an_index_that_changed_is_read_again(tmp_path: Path) -> None:
    path, file = index(tmp_path, agent_main_one="run-1"), tmp_path / "run-1.jsonl"
    assert transcript_session("openclaw", file, "run-1", None).key == "agent:main:one"
    index(tmp_path, agent_main_two="run-1")
    os.utime(path, (1, 1))
    assert transcript_session("openclaw", file, "run-1", None).key == "agent:main:two"
    path.unlink()
    assert transcript_session("openclaw", file, "run-1", None).key is None


@pytest.mark.parametrize("text", ["", "[1]", '{"a": 1, "b": {"sessionId": []}}', "[" * 99_999])
def test_an_index_that_is_none_names_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "sessions.json").write_text(text)
    assert transcript_session("openclaw", tmp_path / "run-1.jsonl", "run-1", None) == Session(id="run-1")


# --- whose transcripts they are ---


def test_names_and_places_tell_whose_a_transcript_is(tmp_path: Path) -> None:
    for kind in ("claude-code", "codex", "pi", "jsonl"):
        assert imported_from(transcript_session(kind, tmp_path / "a.jsonl", "id", "/w")) == kind
    for session in (Session(key="agent:main:main"), Session(id="codex:x"), Session(key="pilot:1", id="x")):
        assert imported_from(session) is None
    assert kind_by_folder(tmp_path / ".pi" / "agent" / "sessions" / "a.jsonl") == "pi"
    assert kind_by_folder(tmp_path / ".openclaw" / "agents" / "main" / "sessions" / "a.jsonl") is None
