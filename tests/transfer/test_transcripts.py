"""Importing transcripts: whatever stops it, all of a file comes in; and what is only tried says what would happen."""

from __future__ import annotations

import json
import os
import shutil
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lossless
from lossless.errors import BadInput
from lossless.ingest.sessions import transcript_session
from lossless.transfer.transcripts import TranscriptImporter, find_files
from tests.maintenance.transcript_files import TranscriptFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "agent:main:main"
SESSION = lossless.Session(key=KEY, id="run-1")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[lossless.Engine]:
    quiet = lossless.Settings(independent_log_file_enabled=False)
    with lossless.open(tmp_path / "lcm.db", quiet, background=False) as opened:
        yield opened


def export(path: Path, conversations: int, nodes: int = 3) -> Path:
    """A ChatGPT export with so many conversations."""
    found = []
    for c in range(conversations):
        mapping: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None}}
        for n in range(nodes):
            author = {"role": ("user", "assistant")[n % 2]}
            content = {"content_type": "text", "parts": [f"conversation {c}, word {n}"]}
            mapping[f"n{n}"] = {
                "id": f"n{n}", "parent": f"n{n - 1}" if n else "root",
                "message": {"author": author, "create_time": 1_700_000_000 + c * 100 + n, "content": content},
            }  # fmt: skip
        found.append({"id": f"conv-{c}", "title": f"T{c}", "mapping": mapping, "current_node": f"n{nodes - 1}"})
    path.write_text(json.dumps(found))
    return path


def totals(outcomes: list[Any]) -> tuple[dict[str, int], int]:
    counts: dict[str, int] = {}
    for outcome in outcomes:
        counts[outcome.status] = counts.get(outcome.status, 0) + 1
    return counts, sum(outcome.messages for outcome in outcomes)


def stored(engine: lossless.Engine) -> list[str]:
    conversations = [item.conversation_id for item in engine.archive.listings.conversations(limit=500).rows]
    return [item.message.content for id_ in sorted(conversations) for item in engine.archive.messages.in_order(id_)]


# --- a file of several conversations ---


@given(stops=st.lists(st.integers(1, 4), max_size=4))
@settings(max_examples=10, deadline=None)
def test_an_import_that_was_stopped_goes_on(tmp_path_factory: pytest.TempPathFactory, stops: list[int]) -> None:
    folder = tmp_path_factory.mktemp("stopped")
    path = export(folder / "conversations.json", 5)
    with lossless.open(":memory:", lossless.Settings(), background=False) as engine:
        for stop in stops:
            assert len(list(islice(TranscriptImporter(engine._parts, "chatgpt").import_file(path), stop))) == stop
        assert {outcome.status for outcome in engine.transfer.import_transcripts("chatgpt", [path])} <= {
            "imported",
            "up-to-date",
        }
        assert sorted(stored(engine)) == sorted(f"conversation {c}, word {n}" for c in range(5) for n in range(3))
        assert totals(engine.transfer.import_transcripts("chatgpt", [path])) == ({"up-to-date": 5}, 0)


def test_a_file_that_is_read_to_its_end_is_not_read_again(engine: lossless.Engine, tmp_path: Path) -> None:
    path = export(tmp_path / "conversations.json", 3)
    engine.transfer.import_transcripts("chatgpt", [path])
    state = path.stat()
    path.write_bytes(b"#" * state.st_size)  # nothing that could be read again
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert totals(engine.transfer.import_transcripts("chatgpt", [path])) == ({"up-to-date": 3}, 0)
    path.write_bytes(b"#" * state.st_size + b"\n")
    assert totals(engine.transfer.import_transcripts("chatgpt", [path])) == ({"error": 1}, 0)


def claude(uuid: str, parent: str | None, role: str, agent: str | None = None) -> dict[str, Any]:
    line: dict[str, Any] = {
        "type": role, "uuid": uuid, "parentUuid": parent, "sessionId": "S", "isSidechain": agent is not None,
        "timestamp": "2026-03-01T10:00:00Z", "message": {"role": role, "content": f"says {uuid}"},
    }  # fmt: skip
    return line | ({"agentId": agent} if agent else {})


def test_sub_agents_come_in_after_a_host_has_read_the_main_line(engine: lossless.Engine, tmp_path: Path) -> None:
    lines = [claude("a", None, "user"), claude("b", "a", "assistant")]
    lines += [claude("s1", None, "user", "ag1"), claude("s2", "s1", "assistant", "ag1")]
    path = tmp_path / "proj" / "S.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    engine.bootstrap(transcript_session("claude-code", path, "S", None), path, fold=False)
    assert totals(engine.transfer.import_transcripts("claude-code", [path])) == ({"up-to-date": 1, "imported": 1}, 2)


# --- a first import is folded by its tokens ---


def long_file(path: Path, messages: int) -> TranscriptFile:
    file = TranscriptFile(path, "run-1")
    for n in range(messages):
        file.say(f"{n} " + "lorem ipsum dolor " * 220, f"e{n}")
    return file


def summaries(engine: lossless.Engine) -> int:
    return engine.archive.listings.counts().summaries


def test_few_long_messages_are_folded_too(engine: lossless.Engine, tmp_path: Path) -> None:
    file = long_file(tmp_path / "run-1.jsonl", 60)
    engine.transfer.import_transcripts("openclaw", [file.path])
    assert summaries(engine) > 0
    file.say("a turn " + "lorem ipsum dolor " * 2200, "late")
    before = summaries(engine)
    engine.transfer.import_transcripts("openclaw", [file.path])
    assert summaries(engine) == before, "a turn is folded when it is time to"


def test_an_import_that_ended_before_it_was_folded_is_folded(engine: lossless.Engine, tmp_path: Path) -> None:
    file = long_file(tmp_path / "run-1.jsonl", 60)
    session = transcript_session("openclaw", file.path, "run-1", None)
    engine.bootstrap(session, file.path, fold=False)
    assert summaries(engine) == 0
    assert totals(engine.transfer.import_transcripts("openclaw", [file.path])) == ({"up-to-date": 1}, 0)
    made = summaries(engine)
    assert made > 0
    engine.transfer.import_transcripts("openclaw", [file.path])
    assert summaries(engine) == made


def test_the_first_turn_of_a_session_is_not_folded(engine: lossless.Engine, tmp_path: Path) -> None:
    file = long_file(tmp_path / "run-1.jsonl", 20)
    engine.after_turn(SESSION, transcript=file.path, budget=10_000_000)
    assert summaries(engine) == 0


# --- only tried ---


def both(engine: lossless.Engine, kind: str, path: Path) -> tuple[dict[str, int], int]:
    """What an import says that it would do, once it is shown that it does so."""
    archive = engine.archive
    before = archive.listings.counts()
    tried = engine.transfer.import_transcripts(kind, [path], dry_run=True)
    assert archive.listings.counts() == before
    done = engine.transfer.import_transcripts(kind, [path])
    assert [(o.status.replace("would-import", "imported"), o.messages, o.problems) for o in tried] == [
        (o.status, o.messages, o.problems) for o in done
    ]
    return totals(tried)


def test_what_is_tried_is_what_happens(engine: lossless.Engine, tmp_path: Path) -> None:
    file = TranscriptFile(tmp_path / "run-1.jsonl", "run-1")
    (tmp_path / "sessions.json").write_text(json.dumps({KEY: {"sessionId": "run-1"}}))
    file.say_all(*(f"m{n}" for n in range(80)))
    assert both(engine, "openclaw", file.path) == ({"would-import": 1}, 80)
    assert both(engine, "openclaw", file.path) == ({"up-to-date": 1}, 0)
    engine.reset(SESSION)
    file.say("after the reset", "late")
    assert both(engine, "openclaw", file.path) == ({"would-import": 1}, 1)
    file.raw("no line\n")
    file.say("once", "twice")
    file.say("once more", "twice", parent="late")
    assert both(engine, "openclaw", file.path) == ({"would-import": 1}, 1)
    text = file.path.read_text().replace('"e-m', '"x-m')
    file.path.write_text(text)
    file.touch()
    both(engine, "openclaw", file.path)


def test_a_fork_is_tried_upon_its_parent(engine: lossless.Engine, tmp_path: Path) -> None:
    parent = TranscriptFile(tmp_path / "a.jsonl", "parent")
    parent.say_all("one", "two")
    child = TranscriptFile(tmp_path / "b.jsonl", None)
    child.write({"type": "session", "version": 3, "id": "child", "parentSession": "parent"})
    child.say_all("one", "two", "three")
    files = [parent.path, child.path]
    tried = [one.messages for one in engine.transfer.import_transcripts("openclaw", files, dry_run=True)]
    assert tried == [one.messages for one in engine.transfer.import_transcripts("openclaw", files)]


def test_nothing_stays_of_what_was_tried(
    engine: lossless.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    (outcome,) = engine.transfer.import_transcripts(
        "openclaw", [long_file(tmp_path / "run-1.jsonl", 3).path], dry_run=True
    )
    assert (outcome.status, outcome.messages, outcome.conversation_id) == ("would-import", 3, None)
    assert list(place.iterdir()) == []
    assert not (tmp_path / "lcm-files").exists()


# --- a copy ---


def test_a_conversation_does_not_follow_a_copy_of_its_transcript(engine: lossless.Engine, tmp_path: Path) -> None:
    live = tmp_path / "live"
    live.mkdir()
    file = TranscriptFile(live / "run-1.jsonl", "run-1")
    (live / "sessions.json").write_text(json.dumps({KEY: {"sessionId": "run-1"}}))
    file.say_all("one", "two")
    engine.bootstrap(SESSION, file.path)
    copied = tmp_path / "copy"
    shutil.copytree(live, copied)
    again = TranscriptFile.__new__(TranscriptFile)
    again.path, again.leaf, again.at, again._mtime = copied / "run-1.jsonl", file.leaf, file.at, 2_000_000_000
    again.say("only in the copy", "e-three")
    assert totals(engine.transfer.import_transcripts("openclaw", [again.path])) == ({"imported": 1}, 1)
    point = engine.archive.transcripts.checkpoint(1)
    assert point is not None
    assert point.path == str(file.path)
    shutil.rmtree(live)
    engine.transfer.import_transcripts("openclaw", [again.path])
    moved = engine.archive.transcripts.checkpoint(1)
    assert moved is not None
    assert moved.path == str(again.path), "the folder was moved"


# --- ids of plain messages ---


@given(
    lines=st.lists(st.tuples(st.sampled_from(["s", "m1", "m2", 7, None]), st.sampled_from("abc")), max_size=8),
    cut=st.integers(0, 8),
    enveloped=st.booleans(),
)
@settings(max_examples=15, deadline=None)
def test_no_plain_message_is_lost_whatever_its_id_means(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[Any, str]], cut: int, enveloped: bool
) -> None:
    folder = tmp_path_factory.mktemp("plain")
    path, texts = folder / "plain.jsonl", []
    with lossless.open(":memory:", lossless.Settings(), background=False) as engine:
        for part in (lines[:cut], lines[cut:]):
            with path.open("a") as file:
                for id_, text in part:
                    said = {"role": "user", "content": f"says {text}"}
                    record = {"message": said} if enveloped else said
                    file.write(json.dumps(record | ({} if id_ is None else {"id": id_})) + "\n")
                    texts.append(said["content"])
            engine.transfer.import_transcripts("jsonl", [path])
        assert stored(engine) == texts


# --- files that cannot be read ---


@pytest.mark.parametrize("data", ['{"role": "user"}\n'.encode("utf-16"), b"\0" * 100, b"\0" * 100 + b"\n"])
def test_a_file_without_a_readable_line_is_an_error(engine: lossless.Engine, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "odd.jsonl").write_bytes(data)
    for _ in range(2):
        (outcome,) = engine.transfer.import_transcripts("openclaw", [tmp_path / "odd.jsonl"])
        assert (outcome.status, "no line of it can be read (line 1" in (outcome.reason or "")) == ("error", True)


@pytest.mark.parametrize("data", [b"", b"\n \n", b'{"type": "mess'])
def test_a_file_that_says_nothing_yet_is_skipped(engine: lossless.Engine, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "new.jsonl").write_bytes(data)
    assert [outcome.status for outcome in engine.transfer.import_transcripts("openclaw", [tmp_path / "new.jsonl"])] == [
        "skipped"
    ]


@pytest.mark.parametrize("name", [b"na\xffme.jsonl", b"fold\xffer/name.jsonl"])
def test_a_name_that_is_no_text_is_an_error(engine: lossless.Engine, tmp_path: Path, name: bytes) -> None:
    path = tmp_path / os.fsdecode(name)
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"role": "user", "content": "hi"}\n')
    except OSError:
        pytest.skip("the file system has no such names")
    for outcomes in (
        engine.transfer.import_transcripts("jsonl", [path], dry_run=True),
        engine.transfer.import_transcripts("jsonl", [path]),
    ):
        assert [(one.status, "its name is not UTF-8" in (one.reason or "")) for one in outcomes] == [("error", True)]


@pytest.mark.parametrize("time", [[1], {"at": 1}, True, None, "noon", -1, 1e300])
def test_a_time_that_is_none_does_no_harm(engine: lossless.Engine, tmp_path: Path, time: Any) -> None:
    path = tmp_path / "plain.jsonl"
    for text in ("one", "two", "three"):
        said = {"role": "user", "content": text, "timestamp": time}
        path.write_text("".join(json.dumps(said | {"content": word}) + "\n" for word in (text, "end")))
        assert {one.status for one in engine.transfer.import_transcripts("jsonl", [path])} == {"imported"}
    versions = engine.archive.versions.many([message.id for message in engine.archive.messages.in_order(1)])
    earlier = {version.message.content for some in versions.values() for version in some}
    assert {"one", "two", "three", "end"} == {*stored(engine), *earlier}


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="neither a file nor a folder"):
        find_files("jsonl", [tmp_path / "pipe"])
    assert find_files("jsonl", [tmp_path])[0] == []


def test_a_folder_that_cannot_be_listed_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir
    for name in ("closed", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jsonl").write_text("{}\n")

    def scandir(place: Any = ".") -> Any:
        if str(place).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(place))
        return real(place)

    monkeypatch.setattr(os, "scandir", scandir)
    files, unseen = find_files("jsonl", [tmp_path])
    assert [file.parent.name for file in files] == ["open"]
    assert unseen == [(tmp_path / "closed", "Permission denied")]
