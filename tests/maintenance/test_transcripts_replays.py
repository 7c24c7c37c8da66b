"""Stories that the replay fuzzer told: each is a script that once stored too much, too little, or showed too much."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from lossless import Incoming
from lossless.ingest.transcripts.bootstrap import bootstrap
from lossless.ingest.transcripts.following import BootstrapRequest
from lossless.ingest.transcripts.reading import open_transcript
from tests.faults import SESSION, contents, context, open_engine, problems
from tests.maintenance.keeping import NOW
from tests.maintenance.transcript_files import FIRST, TranscriptFile

if TYPE_CHECKING:
    from pathlib import Path

    import lossless


@pytest.fixture
def file(tmp_path: Path) -> TranscriptFile:
    return TranscriptFile(tmp_path / "run.jsonl")


def item(n: int) -> dict[str, Any]:
    message = {"role": "user" if n % 2 else "assistant", "content": f"m{n}", "timestamp": FIRST + n}
    return {"entryId": f"e{n}", "parentId": f"e{n - 1}", "seq": n, "message": message}


def said(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": text} for text in texts]


def answer(file: TranscriptFile, text: str, parent: str | None, *, id_: str | None = None) -> None:
    """An answer without a time of its own."""
    body = {"role": "assistant", "content": text}
    file.write({"type": "message", "id": id_ or text, "parentId": parent, "message": body})


def test_two_processes_hand_over_the_same_page(engine: lossless.Engine, path: Path) -> None:
    engine.bootstrap(SESSION, [item(n) for n in range(5)], cursor="c0")
    with open_engine(path) as other, ThreadPoolExecutor(2) as pool:
        for n in range(1, 12):
            page = [item(k) for k in range(5 * n, 5 * n + 5)]
            marks = f"c{n - 1}", f"c{n}"
            calls = [
                pool.submit(one.bootstrap, SESSION, page, after=marks[0], cursor=marks[1]) for one in (engine, other)
            ]
            assert sum(call.result().stored for call in calls) == 5
    assert contents(engine) == [f"m{n}" for n in range(60)]


@pytest.mark.parametrize("with_ids", [False, True])
def test_a_branch_that_the_runtime_brought_first(engine: lossless.Engine, file: TranscriptFile, with_ids: bool) -> None:
    """What the transcript has left leaves the context, though everything on its path is stored already."""
    answer(file, "q", None)
    answer(file, "first", "q")
    engine.bootstrap(SESSION, file.path)
    engine.append(SESSION, [Incoming(body, "second" if with_ids else None) for body in said("second")])
    answer(file, "second", "q")
    assert engine.bootstrap(SESSION, file.path).abandoned == 1
    assert context(engine) == ["q", "second"]
    answer(file, "more", "second")
    engine.bootstrap(SESSION, file.path)
    assert context(engine) == ["q", "second", "more"]
    assert contents(engine) == ["q", "first", "second", "more"]
    assert problems(engine) == []


def test_a_new_file_that_says_what_was_said_before(
    engine: lossless.Engine, file: TranscriptFile, tmp_path: Path
) -> None:
    """All that is stored is said again in it, in order, but at other times: these are other messages."""
    file.say_all("hello", "ok")
    engine.bootstrap(SESSION, file.path)
    later = TranscriptFile(tmp_path / "later.jsonl", "header-2", at=FIRST + 3_600_000)
    later.say_all("again", "you", "hello", "see", "this", "ok", prefix="n")
    assert engine.bootstrap(SESSION, later.path).stored == 6
    assert contents(engine) == ["hello", "ok", "again", "you", "hello", "see", "this", "ok"]


def test_history_written_again_is_known_before_anything_is_adopted(
    engine: lossless.Engine, file: TranscriptFile
) -> None:
    file.say_all("yes", "b")
    engine.bootstrap(SESSION, file.path)
    engine.append(SESSION, [{"role": "user", "content": "yes"}, {"role": "user", "content": "c"}])
    at, file.at = file.at, FIRST
    file.say("yes", "twin")
    file.at = at
    file.say("yes", "later")
    file.say("c", "c")
    engine.bootstrap(SESSION, file.path)
    assert contents(engine)[:2] == ["yes", "b"]
    assert contents(engine).count("yes") == 2


def test_a_file_that_held_only_its_header(engine: lossless.Engine, file: TranscriptFile) -> None:
    """It begins with what is stored under other ids; without times only the whole of it tells."""
    engine.bootstrap(SESSION, file.path)
    engine.append(SESSION, [Incoming(body, f"old-{n}") for n, body in enumerate(said("a", "b", "a"))])
    parent = None
    for n, text in enumerate(("a", "b", "a", "c")):
        answer(file, text, parent, id_=f"new-{n}")
        parent = f"new-{n}"
    assert engine.bootstrap(SESSION, file.path).stored == 1
    assert contents(engine) == ["a", "b", "a", "c"]


@pytest.mark.parametrize("ids", [False, True])
def test_a_long_history_is_read_again_in_pieces(engine: lossless.Engine, tmp_path: Path, ids: bool) -> None:
    """Each piece goes on where the one before it ended; words that were said before are said again."""
    texts = ["ok", "go", "ok", "ok", "go", "no", "ok", "go", "ok", "ok"]

    def read(end: int, name: str, indent: str) -> None:
        lines = [json.dumps({"type": "session", "id": "h"})] if ids else []
        for n, body in enumerate(said(*texts[:end])):
            parent = f"{name}{n - 1}" if n else None
            record = {"type": "message", "id": f"{name}{n}", "parentId": parent, "message": body} if ids else body
            lines.append(json.dumps(record, separators=(f",{indent}", f":{indent}")))
        (tmp_path / "t.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        asked = BootstrapRequest(engine.archive, SESSION, None, False, 40_000, NOW, None, chunk=3)
        bootstrap(asked, open_transcript(tmp_path / "t.jsonl"))

    read(5, "a", "")
    read(10, "b", " ")
    assert contents(engine) == texts
    read(10, "c", "")
    assert contents(engine) == context(engine) == texts
