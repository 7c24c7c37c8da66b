"""A lease of a process that has ended is free at once; any other is held until it runs out."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lossless.store.archive import Archive
from lossless.store.state import holder_has_ended, new_holder

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
CHILD = """
import sys
from datetime import UTC, datetime, timedelta
from lossless.store.archive import Archive
from lossless.store.state import new_holder
holder = new_holder()
with Archive.open(sys.argv[1]) as archive, archive.writing():
    assert archive.guards.take_lease("compact:1", holder, datetime(2026, 1, 5, 9, tzinfo=UTC), timedelta(hours=1))
print(holder, flush=True)
if len(sys.argv) > 2:
    sys.stdin.read()
"""

#: Opens an engine, forks and ends; the fork compacts, and its model looks whether it counts as alive.
FORK = """
import os, sys, time
import lossless
from lossless.store.state import holder_has_ended
parent = os.getpid()

def look(_):
    (holder,), = engine.archive.database.rows("SELECT owner FROM leases")
    os.write(int(sys.argv[2]), b"gone" if holder_has_ended(holder) else b"alive")
    raise SystemExit(0)

settings = lossless.Settings(summary_model="m", summary_provider="p", leaf_chunk_tokens=500, fresh_tail_count=2)
engine = lossless.open(sys.argv[1], settings, look, background=False)
session = lossless.Session(key="a")
engine.append(session, [{"role": "user", "content": f"{n} words of a harbour at night " * 9} for n in range(60)])
if os.fork() == 0:
    while os.getppid() == parent:
        time.sleep(0.01)
    engine.compact(session, budget=2000)
os._exit(0)
"""


def child(path: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, str(path), *more]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def takes(archive: Archive, now: datetime = NOW) -> bool:
    with archive.writing():
        return archive.guards.take_lease("compact:1", new_holder(), now, HOUR)


def test_the_lease_of_a_killed_process_is_free(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    with child(path, "stay") as holder, Archive.open(path) as archive:
        assert holder.stdout is not None
        name = holder.stdout.readline().strip()
        assert not holder_has_ended(name)
        assert archive.guards.is_leased("compact:1", NOW)
        assert not takes(archive)
        holder.kill()
        holder.wait()
        assert holder_has_ended(name)
        assert not archive.guards.is_leased("compact:1", NOW)
        assert takes(archive)
        assert archive.guards.is_leased("compact:1", NOW)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_a_fork_holds_what_it_takes_in_its_own_name(tmp_path: Path) -> None:
    """The engine was opened by a process that may end before the fork does."""
    told, tell = os.pipe()
    done = subprocess.run(
        [sys.executable, "-c", FORK, str(tmp_path / "lcm.db"), str(tell)], pass_fds=[tell], check=True
    )
    assert done.returncode == 0
    os.close(tell)
    with os.fdopen(told) as heard:
        assert heard.read() == "alive"


def test_nobody_else_is_gone() -> None:
    assert not holder_has_ended(new_holder())
    assert new_holder() != new_holder()
    machine, rest = new_holder().split(":")
    assert not holder_has_ended(f"{'0' * 12}:{rest}"), "a process of another machine"
    for odd in ("worker", "", f"{machine}:", f"{machine}:x-1", f"{os.getpid()}-0a1b"):
        assert not holder_has_ended(odd)
