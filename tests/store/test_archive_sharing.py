"""One file, many threads and processes: no row is lost, no call fails for a lock, each session keeps its order."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

import lossless
from lossless import errors
from lossless.store.archive import Archive
from tests.faults import ROOT, TURN, contents, open_engine, problems

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

WRITER = """
import sys
from tests.faults import open_engine
import lossless

path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open_engine(path) as engine:
    for n in range(count):
        for key in (f"own {name}", "shared"):
            engine.append(lossless.Session(key=key), [{"role": "user", "content": f"{name} {n}"}])
"""
#: A parent that forks while its archive is open, and closes it before the child has finished.
FORK = """
import os, sys
from tests.faults import open_engine
import lossless

def say(engine, key, text):
    engine.append(lossless.Session(key=key), [{"role": "user", "content": text}])

engine = open_engine(sys.argv[1])
say(engine, "parent", "0")
ready, done = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    say(engine, "child", "0")
    os.write(ready[1], b".")
    os.read(done[0], 1)
    for n in range(1, 6):
        say(engine, "child", str(n))
    os._exit(0)
os.read(ready[0], 1)
say(engine, "parent", "1")
engine.close()
os.write(done[1], b".")
assert os.waitpid(child, 0)[1] == 0
"""


def start(program: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)], cwd=ROOT)


def say(engine: lossless.Engine, key: str, text: str) -> None:
    engine.append(lossless.Session(key=key), [{"role": "user", "content": text}])


def said(engine: lossless.Engine, key: str) -> list[str]:
    return contents(engine, lossless.Session(key=key))


def seqs(engine: lossless.Engine) -> list[tuple[int, int]]:
    rows = engine.archive.database.rows("SELECT conversation_id, seq FROM messages ORDER BY conversation_id, seq")
    return [(row[0], row[1]) for row in rows]


def test_threads_share_an_engine(path: Path) -> None:
    """Oracle: every thread's messages are there in its order, in its own session and in the shared one."""
    names, rounds = [f"thread {n}" for n in range(8)], 12
    with open_engine(path) as engine:

        def work(name: str) -> None:
            for n in range(rounds):
                say(engine, name, f"{name} {n}")
                say(engine, "shared", f"{name} {n}")
                assert said(engine, name)[-1] == f"{name} {n}"

        with ThreadPoolExecutor(len(names)) as pool:
            list(pool.map(work, names))
        for name in names:
            expected = [f"{name} {n}" for n in range(rounds)]
            assert said(engine, name) == expected
            assert [text for text in said(engine, "shared") if text.startswith(name)] == expected
        assert len(said(engine, "shared")) == len(names) * rounds
        _check_seqs(engine)
        assert problems(engine) == []


def _check_seqs(engine: lossless.Engine) -> None:
    """Seqs of each conversation count up from 1 without a gap."""
    found: dict[int, list[int]] = {}
    for conversation_id, seq in seqs(engine):
        found.setdefault(conversation_id, []).append(seq)
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in found.values())


def test_processes_share_a_file(path: Path) -> None:
    open_engine(path).close()
    writers = [start(WRITER, path, name, 25) for name in ("left", "right")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    with open_engine(path) as engine:
        for name in ("left", "right"):
            expected = [f"{name} {n}" for n in range(25)]
            assert said(engine, f"own {name}") == expected
            assert [text for text in said(engine, "shared") if text.startswith(name)] == expected
        _check_seqs(engine)
        assert problems(engine) == []


def test_processes_that_create_a_file_at_once_make_one_archive(path: Path) -> None:
    writers = [start(WRITER, path, name, 2) for name in ("left", "right")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    with open_engine(path) as engine:
        assert sorted(said(engine, "shared")) == ["left 0", "left 1", "right 0", "right 1"]
        assert problems(engine) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_forked_child_keeps_what_it_stored_when_its_parent_closes(path: Path) -> None:
    """SQLite's locks do not survive a fork: without care the child writes into a log that its parent has deleted."""
    assert start(FORK, path).wait(60) == 0
    with open_engine(path) as engine:
        assert said(engine, "parent") == ["0", "1"]
        assert said(engine, "child") == ["0", "1", "2", "3", "4", "5"]
        assert problems(engine) == []


def test_a_failing_session_takes_no_other_with_it(path: Path) -> None:
    """While one thread's transaction is open and then fails, another thread's message waits and is kept."""
    with open_engine(path) as engine:
        inside, go_on = threading.Event(), threading.Event()

        def fail() -> None:
            with suppress(ZeroDivisionError), engine.archive.writing():
                say(engine, "failing", "never")
                inside.set()
                go_on.wait(60)
                raise ZeroDivisionError

        thread = threading.Thread(target=fail)
        thread.start()
        assert inside.wait(60)
        other = threading.Thread(target=say, args=(engine, "other", "kept"))
        other.start()
        other.join(0.1)
        assert other.is_alive()
        go_on.set()
        thread.join()
        other.join()
        assert (said(engine, "failing"), said(engine, "other")) == ([], ["kept"])
        assert problems(engine) == []


def test_connections_end_with_their_threads(path: Path) -> None:
    with open_engine(path) as engine:
        for n in range(40):
            thread = threading.Thread(target=say, args=(engine, "k", str(n)))
            thread.start()
            thread.join()
        gc.collect()
        assert len(list(engine.archive.database._handles)) <= 2
        assert said(engine, "k") == [str(n) for n in range(40)]


def test_closing_waits_for_what_is_under_way(path: Path) -> None:
    """Oracle: the transaction that was open is stored; what comes later is refused clearly."""
    engine = open_engine(path)
    inside, go_on = threading.Event(), threading.Event()
    refused: list[errors.ArchiveError] = []

    def work() -> None:
        with engine.archive.writing():
            say(engine, "k", "in time")
            inside.set()
            go_on.wait(60)
        try:
            say(engine, "k", "too late")
        except errors.ArchiveError as error:
            refused.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    assert inside.wait(60)
    closer = threading.Thread(target=engine.close)
    closer.start()
    closer.join(0.05)
    go_on.set()
    worker.join()
    closer.join()
    with open_engine(path) as again:
        texts = said(again, "k")
        assert texts[0] == "in time"
        assert (texts == ["in time"]) == bool(refused)
        assert problems(again) == []


def test_threads_take_turns_in_memory() -> None:
    with open_engine(":memory:") as engine:

        def work(name: str) -> None:
            for n in range(10):
                say(engine, name, str(n))
                assert said(engine, name)[-1] == str(n)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, "abcd"))
        assert problems(engine) == []


def test_reads_see_one_state(path: Path) -> None:
    with open_engine(path) as engine, Archive.open(path) as other:
        say(engine, "k", "one")
        with other.reading():
            before = other.listings.counts()
            say(engine, "k", "two")
            assert other.listings.counts() == before
        assert other.listings.counts().messages == 2


def test_an_interrupt_at_the_end_of_a_transaction_undoes_it(path: Path) -> None:
    """What is written after it is committed, and other threads can write."""

    def interrupt(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == "__exit__":
            sys.settrace(None)
            raise KeyboardInterrupt

    with open_engine(path) as engine, Archive.open(path) as other:
        with suppress(KeyboardInterrupt), engine.archive.writing():
            engine.archive.conversations.open(lossless.Session(key="interrupted"), datetime.now(UTC))
            sys.settrace(interrupt)
        say(engine, "later", "one")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(say, engine, "thread", "two").result(timeout=60)
        assert {row.session_key for row in other.listings.conversations(9).rows} == {"later", "thread"}


def test_the_same_turn_from_many_threads_is_stored_once(path: Path) -> None:
    session = lossless.Session(key="k")
    with open_engine(path) as engine:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: engine.append(session, TURN, key="turn"), range(16)))
            list(pool.map(lambda _: engine.sync(session, TURN), range(16)))
        assert len(contents(engine, session)) == len(TURN)
        assert problems(engine) == []
