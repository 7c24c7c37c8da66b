"""What was deleted for good stays so where an archive goes, and forks go on relying on those they were forked from."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.errors import BadInput
from lossless.maintenance.prune import PruneFilter
from lossless.store.archive import Archive
from lossless.transfer.archive_file import check_archive
from tests.maintenance.transcript_files import TranscriptFile

from .claws import rows, run
from .moves import bring, nothing_new, said, to_claw, to_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lossless.transfer.lossless_claw import ExportReport

PRUNED = "SELECT * FROM pruned_histories ORDER BY number"
FORKS = "SELECT * FROM fork_sources ORDER BY 1, 2"
SEND: dict[str, Callable[..., ExportReport]] = {"claw": to_claw, "archive": to_file}


@pytest.fixture(params=sorted(SEND))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    file = TranscriptFile(tmp_path / "run-1.jsonl", "run-1")
    file.say_all("a", "b", "c")
    return file.path


def opened(path: Path) -> lossless.Engine:
    return lossless.open(path, lossless.Settings(independent_log_file_enabled=False), background=False)


@pytest.fixture
def pruned(tmp_path: Path, transcript: Path) -> Path:
    """An archive whose second conversation was deleted for good, and whose fourth relies on the third."""
    path = tmp_path / "lcm.db"
    with opened(path) as engine:
        engine.append(lossless.Session(key="first"), [{"role": "user", "content": "hello"}])
        engine.transfer.import_transcripts("openclaw", [transcript])
        (key,) = rows(path, "SELECT session_key FROM conversations WHERE conversation_id = 2")[0]
        engine.admin.prune(
            engine.admin.prune_plan(PruneFilter(patterns=(key or "**run-1**",), include_active=True)), backup=False
        )
        engine.append(lossless.Session(key="parent"), [{"role": "user", "content": "of both"}])
        engine.append(lossless.Session(key="fork"), [{"role": "user", "content": "of one"}])
        with engine.archive.writing():
            engine.archive.transcripts.rely(4, [3])
        assert engine.verify().problems == ()
    assert [row[0] for row in rows(path, PRUNED)] == [2]
    return path


def test_it_is_still_deleted_in_a_new_archive(tmp_path: Path, pruned: Path, transcript: Path, kind: str) -> None:
    file, back = tmp_path / "file", tmp_path / "back" / "lcm.db"
    SEND[kind](pruned, file)
    assert bring(kind, file, back).pruned_inserted == 1
    assert rows(back, PRUNED) == rows(pruned, PRUNED)
    assert rows(back, FORKS) == rows(pruned, FORKS) == [(4, 3)]
    again = bring(kind, file, back)
    assert (again.pruned_inserted, nothing_new(again)) == (0, True)
    assert rows(back, PRUNED) == rows(pruned, PRUNED)
    with opened(back) as engine:
        (outcome,) = engine.transfer.import_transcripts("openclaw", [transcript])
        assert outcome.messages == 0
        assert engine.append(lossless.Session(key="next"), [{"role": "user", "content": "x"}])
    assert max(rows(back, "SELECT conversation_id FROM conversations"))[0] > 4


def test_a_database_of_lossless_claw_has_it_unless_it_is_plain(tmp_path: Path, pruned: Path, transcript: Path) -> None:
    to_claw(pruned, tmp_path / "claw.db")
    with opened(tmp_path / "claw.db") as engine:
        assert engine.verify().ok
        (outcome,) = engine.transfer.import_transcripts("openclaw", [transcript])
        assert outcome.messages == 0
    to_claw(pruned, tmp_path / "plain.db", plain=True)
    assert bring("claw", tmp_path / "plain.db", tmp_path / "back" / "lcm.db").pruned_inserted == 0
    assert said(tmp_path / "back" / "lcm.db") == said(pruned)


def test_the_number_of_a_deleted_conversation_is_not_given_again(tmp_path: Path, pruned: Path, kind: str) -> None:
    with opened(pruned) as engine:
        engine.admin.prune(engine.admin.prune_plan(PruneFilter(patterns=("**",), include_active=True)), backup=False)
    before = rows(pruned, PRUNED)
    file, back = tmp_path / "file", tmp_path / "back" / "lcm.db"
    SEND[kind](pruned, file)
    assert bring(kind, file, back).pruned_inserted == len(before)
    with opened(back) as engine:
        engine.append(lossless.Session(key="new"), [{"role": "user", "content": "new"}])
        assert rows(back, "SELECT conversation_id FROM conversations") == [(5,)]
        engine.admin.prune(engine.admin.prune_plan(PruneFilter(patterns=("new",), include_active=True)), backup=False)
    assert rows(back, PRUNED)[:-1] == before


def test_where_numbers_are_taken_others_are_given(tmp_path: Path, pruned: Path, kind: str) -> None:
    file, here = tmp_path / "file", tmp_path / "here" / "lcm.db"
    here.parent.mkdir()
    with opened(here) as engine:
        for n in range(3):
            engine.append(lossless.Session(key=f"mine {n}"), [{"role": "user", "content": f"mine {n}"}])
    SEND[kind](pruned, file)
    bring(kind, file, here)
    assert [row[0] for row in rows(here, PRUNED)] == [-1]
    assert [row[1:] for row in rows(here, PRUNED)] == [row[1:] for row in rows(pruned, PRUNED)]
    names = dict(rows(here, "SELECT conversation_id, session_key FROM conversations"))
    assert [(names[fork], names[source]) for fork, source in rows(here, FORKS)] == [("fork", "parent")]
    assert nothing_new(bring(kind, file, here))
    assert len(rows(here, PRUNED)) == 1


def test_one_session_takes_only_what_is_its_own(tmp_path: Path, pruned: Path, kind: str) -> None:
    SEND[kind](pruned, tmp_path / "file", sessions=frozenset(["fork"]))
    assert bring(kind, tmp_path / "file", tmp_path / "a" / "lcm.db").pruned_inserted == 0
    assert rows(tmp_path / "a" / "lcm.db", FORKS) == []
    SEND[kind](pruned, tmp_path / "all")
    assert bring(kind, tmp_path / "all", tmp_path / "b" / "lcm.db", sessions=frozenset(["fork"])).pruned_inserted == 0
    ((name,),) = rows(pruned, "SELECT coalesce(session_key, header_id) FROM pruned_histories")
    assert bring(kind, tmp_path / "all", tmp_path / "c" / "lcm.db", sessions=frozenset([name])).pruned_inserted == 1


def rewritten(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """The file with other lines, and a last line that is right about them."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    counts: dict[str, int] = {}
    for line in lines[1:-1]:
        counts[line["type"]] = counts.get(line["type"], 0) + 1
    body = "".join(json.dumps(line) + "\n" for line in lines[:-1])
    end = {"type": "end", "counts": counts, "sha256": hashlib.sha256(body.encode()).hexdigest()}
    path.write_text(body + json.dumps(end) + "\n")


@pytest.mark.parametrize(
    "wrong",
    [{"marks": "text"}, {"marks": {"base64": "AAAA"}}, {"at": "noon"}, {"number": "two"}, {"session_key": 7}],
)
def test_what_makes_no_sense_is_left_out_and_told(tmp_path: Path, pruned: Path, wrong: dict[str, Any]) -> None:
    file = tmp_path / "all.jsonl"
    to_file(pruned, file)
    rewritten(file, lambda lines: lines[-2].update(wrong))
    report = bring("archive", file, tmp_path / "back" / "lcm.db")
    assert (report.pruned_inserted, len(report.warnings)) == (0, 1)


def test_the_same_number_twice_is_two(tmp_path: Path, pruned: Path) -> None:
    file = tmp_path / "all.jsonl"
    to_file(pruned, file)
    rewritten(file, lambda lines: lines.insert(-1, lines[-2] | {"path": "/other"}))
    assert bring("archive", file, tmp_path / "back" / "lcm.db").pruned_inserted == 2


def test_nothing_but_it_comes_behind_it(tmp_path: Path, pruned: Path) -> None:
    file = tmp_path / "all.jsonl"
    to_file(pruned, file)
    rewritten(file, lambda lines: lines.insert(-1, lines[1]))
    with pytest.raises(BadInput, match="out of place"):
        check_archive(file)


def test_a_file_of_an_older_version_has_none_and_comes_in(tmp_path: Path, pruned: Path) -> None:
    file = tmp_path / "all.jsonl"
    to_file(pruned, file)

    def older(lines: list[dict[str, Any]]) -> None:
        lines[:] = [line for line in lines if line["type"] not in ("pruned_histories", "fork_sources")]

    rewritten(file, older)
    assert bring("archive", file, tmp_path / "back" / "lcm.db").pruned_inserted == 0
    assert said(tmp_path / "back" / "lcm.db") == said(pruned)
    run(pruned, "DROP TABLE pruned_histories", "DROP TABLE fork_sources")
    bring("claw", pruned, tmp_path / "other" / "lcm.db")
    with Archive.open(tmp_path / "other" / "lcm.db", read_only=True) as archive:
        assert archive.listings.counts().conversations == 3
