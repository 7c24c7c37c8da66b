"""One real call of each of the four verbs runs through few files: what a reader has to open to follow it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.formats import decode
from lossless.model.messages import Message

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

PACKAGE = Path(lossless.__file__).parent
#: Values, settings and errors are words that every file uses; they are not on the way.
SHARED = ("model/", "settings/", "errors")
MAX_FILES = 16
SESSION = lossless.Session(key="agent:main:main")


def turn(number: int) -> list[dict[str, Any]]:
    question = f"question {number} about the database migration " + "word " * 60
    answer = f"answer {number}: use alembic revision {number} " + "text " * 80
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def files_of(call: Callable[[], object]) -> list[str]:
    """The files of the package in which a call runs anything."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            seen.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    own = (Path(name).relative_to(PACKAGE).as_posix() for name in seen if name.startswith(f"{PACKAGE}/"))
    return sorted(name for name in own if not name.startswith(SHARED))


VERBS: dict[str, Callable[[lossless.Engine], object]] = {
    "after_turn": lambda engine: engine.after_turn(SESSION, new_messages=turn(99), budget=128_000),
    "assemble": lambda engine: engine.assemble(SESSION, budget=4_000),
    "compact": lambda engine: engine.compact(SESSION, budget=4_000, force=True),
    "recall": lambda engine: engine.recall("alembic revision 7", session=SESSION),
}


#: Whether a call was a real one, not an early return.
DONE: dict[str, Callable[[Any], bool]] = {
    "after_turn": lambda report: bool(report.append.stored == 2),
    "assemble": lambda prompt: any("summary" in str(message["content"]) for message in prompt.messages),
    "compact": lambda report: bool(report.summary_ids),
    "recall": lambda found: "alembic revision 7" in str(found),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_runs_through_few_files(tmp_path: Path, verb: str) -> None:
    settings = lossless.Settings(evidence=False)  # which is found the way that `recall` goes
    with lossless.open(tmp_path / "lcm.db", settings, background=False) as engine:
        for number in range(60):
            engine.append(SESSION, turn(number))
        if verb == "assemble":
            assert engine.compact(SESSION, budget=4_000, force=True).summary_ids
        if verb in ("assemble", "recall"):  # the first call loads modules
            VERBS[verb](engine)
        found: list[object] = []
        files = files_of(lambda: found.append(VERBS[verb](engine)))
    sys.stdout.write("\n  ".join([f"{verb}: {len(files)} files", *files, ""]))
    assert DONE[verb](found[0])
    assert 0 < len(files) <= MAX_FILES, "\n".join([f"{verb} runs through {len(files)} files:", *files])


def test_a_call_is_seen_in_every_file_that_it_runs_through() -> None:
    assert files_of(lambda: Message("user", "Hello")) == []
    assert files_of(lambda: decode({"role": "user", "content": "Hello"})) == ["formats/__init__.py"]
