"""Extracting in processes: the same summaries in the same order, whatever becomes of the processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lossless.compaction.source_text import SourceMessage
from lossless.compaction.summarise import (
    ExtractionPool,
    SummarySource,
    SummaryStyle,
    available_cores,
    summarise,
)
from lossless.model.messages import ToolCall, ToolResult
from tests.waiting import is_gone, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
STYLE = SummaryStyle(leaf_target_tokens=200, timezone="Europe/Berlin")


def source(number: int) -> SummarySource:
    """Talk about one berth; every source is another one, and one is without words."""
    if number == 3:
        return SummarySource((SourceMessage("user", START, ""),))
    lines = [
        SourceMessage(
            "user" if n % 2 else "assistant",
            START + timedelta(minutes=n),
            f"Berth {number}-{n} was moved to {n * 7} because of the storm. 明天回滚。 Lucía agreed on Friday.",
            '{"name": "Aiko"}',
            (ToolCall(f"call-{n}", "edit", {"path": f"src/berth_{n}.py"}),),
            (ToolResult(f"call-{n}", "edit", f"written {n} rows\nerror: none"),),
        )
        for n in range(40)
    ]
    return SummarySource(tuple(lines), tokens=4_000 + number)


SOURCES = [source(number) for number in range(9)]
ALONE = [summarise(one, style=STYLE) for one in SOURCES]


def test_a_crew_writes_what_one_process_writes() -> None:
    with ExtractionPool(2) as few:
        assert list(few.extracted(SOURCES, STYLE)) == ALONE
        assert list(few.extracted(SOURCES[:1], STYLE)) == ALONE[:1]
    assert ALONE[3] is None
    assert all(one is not None for place, one in enumerate(ALONE) if place != 3)


def test_sources_are_read_only_a_little_ahead() -> None:
    read: list[int] = []

    def sources() -> Iterator[SummarySource]:
        for number, one in enumerate(SOURCES):
            read.append(number)
            yield one

    with ExtractionPool(2) as few:
        written = few.extracted(sources(), STYLE)
        assert next(written) == ALONE[0]
        assert len(read) <= 4


@pytest.mark.skipif(sys.platform == "win32", reason="a script with a first line")
@pytest.mark.parametrize(
    "body",
    ["exit 1", "echo hello; cat > /dev/null", "exec sleep 60", "exec 0<&- 1>&-; exec sleep 60"],
)
def test_processes_that_break_are_done_without(tmp_path: Path, body: str) -> None:
    program = tmp_path / "python-broken"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    with ExtractionPool(2, program=str(program), patience_seconds=0.5) as few:
        assert list(few.extracted(SOURCES, STYLE)) == ALONE


@pytest.mark.parametrize("program", ["", "/nowhere/python3", "/usr/sbin/a-server-that-carries-python"])
def test_without_an_interpreter_everything_is_extracted_here(program: str) -> None:
    with ExtractionPool(3, program=program) as few:
        assert list(few.extracted(SOURCES, STYLE)) == ALONE


HOST = """
import os, sys, time
sys.path[:0] = {path!r}
from tests.compaction.test_summarise_crew import ALONE, SOURCES, STYLE
from lossless.compaction.summarise import ExtractionPool

print("main", flush=True)  # a host without a guard: its module must not be run again
forever = (SOURCES[n % 9] for n in range({count}))
try:
    with ExtractionPool(2) as crew:
        for number, written in enumerate(crew.extracted(forever, STYLE)):
            assert written == ALONE[number % 9]
            if number == 4:
                print("working", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("no child left", flush=True)
"""


def host(count: int) -> subprocess.Popen[str]:
    script = HOST.format(path=sys.path, count=count)
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)


@pytest.mark.skipif(sys.platform == "win32", reason="asks for children as POSIX does")
def test_no_process_is_left_and_the_main_module_runs_once() -> None:
    with host(12) as process:
        said, _ = process.communicate(timeout=60)
    assert said.split("\n")[:3] == ["main", "working", "no child left"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_interrupt_ends_the_processes_too() -> None:
    with host(1_000_000) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["main\n", "working\n"]
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert said == "interrupted\nno child left\n"


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="looks for processes in /proc")
def test_processes_end_when_their_parent_is_killed() -> None:
    with host(1_000_000) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["main\n", "working\n"]
        lists = Path(f"/proc/{process.pid}/task").glob("*/children")
        children = [int(child) for listed in lists for child in listed.read_text().split()]
        process.kill()
    assert len(children) == 2
    wait_for(lambda: all(map(is_gone, children)))


def test_there_is_a_core() -> None:
    assert available_cores() >= 1
