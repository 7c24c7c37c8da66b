"""`lcm rewrite` and `lcm repair` over many summaries: what a plan takes, and runs that are stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.maintenance.surgery_kit import HERE
from tests.waiting import is_gone, wait_for

from .conftest import sound, sql

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Lcm

NAMED = ("--session-key", HERE.key)


DYING = """#!/bin/sh
cat > /dev/null
n=$(cat {count} 2> /dev/null || echo 0)
echo $((n + 1)) > {count}
[ $n -ge {lives} ] && exit 1
{pause}
echo "ferry $n crane $n berth $n pilot $n storm $n ledger $n."
echo "The crew of ship $n waits."
echo 'Expand for details about: all'
"""


@pytest.fixture
def dying(tmp_path: Path) -> Callable[..., tuple[str, str]]:
    """Makes a model, as options, that answers so many times from now on, and then no more."""

    def make(lives: int, pause: str = "") -> tuple[str, str]:
        place, count = tmp_path / "dying", tmp_path / "count"
        count.unlink(missing_ok=True)
        place.write_text(DYING.format(count=count, lives=lives, pause=pause))
        place.chmod(0o755)
        return ("--model", f"command/{place}")

    return make


def test_a_plan_says_what_it_takes_and_all_of_it_is_done(
    lcm: Lcm, folded: Path, dying: Callable[..., tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LCM_SUMMARY_MAX_CALLS_PER_WINDOW", "2")
    everything = ("rewrite", *NAMED, "--all", *dying(1000))
    planned = lcm(*everything).data
    assert (planned["calls"], planned["callLimit"]) == (planned["targets"], 2)
    assert lcm("rewrite", *NAMED, "--all").data["calls"] == 0
    shown = " ".join(lcm(*everything, "--format", "table").out.split())
    assert f"takes {planned['calls']} calls" in shown
    assert "the limit of 2 (summaryMaxCallsPerWindow)" in shown
    (done,) = lcm(*everything, "--apply").items
    assert (len(done["done"]["summaryIds"]), done["left"], done["stop"]) == (planned["targets"], 0, None)
    sql(folded, "UPDATE summaries SET content = ''")
    assert lcm("repair", "--all").data["targets"] == planned["targets"]
    (repaired,) = lcm("repair", "--all", "--apply", "--confirm", *dying(1000)).items
    assert len(repaired["done"]["summaryIds"]) == planned["targets"]
    sound(lcm)


def test_a_run_that_was_stopped_is_gone_on_with(lcm: Lcm, folded: Path, dying: Callable[..., tuple[str, str]]) -> None:
    everything = ("rewrite", *NAMED, "--all")
    count = lcm(*everything).data["targets"]
    stopped = lcm(*everything, *dying(4), "--apply")
    (item,) = stopped.envelope["data"]["items"]
    assert (stopped.code, item["reached"], item["left"], "exit code 1" in item["stop"]) == (1, 7, count - 4, True)
    assert sql(folded, "SELECT count(*) FROM summaries WHERE model = 'command/dying'") == [(4,)]
    sound(lcm)
    rest = lcm(*everything, *dying(3)).data
    assert (rest["targets"], rest["items"][0]["plan"]["kept"]) == (count - 4, 4)
    assert lcm(*everything, *dying(3), "--afresh").data["targets"] == count
    told_ = " ".join(lcm(*everything, *dying(3), "--apply", "--format", "table").out.split())
    assert f"Stopped after 6 of {count - 4}" in told_
    assert f"{count - 7} to go; the same command goes on with these" in told_
    assert lcm(*everything, *dying(1000), "--apply").items[0]["left"] == 0
    assert sql(folded, "SELECT DISTINCT model FROM summaries") == [("command/dying",)]
    assert lcm(*everything, *dying(1000)).data["targets"] == count
    sound(lcm)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_run_that_is_interrupted_keeps_what_is_written(
    lcm: Lcm, folded: Path, tmp_path: Path, dying: Callable[..., tuple[str, str]], number: signal.Signals
) -> None:
    child = tmp_path / "child"
    named = dying(1000, f"[ $n -ge 5 ] && echo $$ > '{child}' && exec sleep 600")
    command = [
        sys.executable,
        "-m",
        "lossless.cli.main",
        "rewrite",
        "--conversation-id",
        "1",
        "--all",
        "--apply",
        *named,
    ]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True) as process:
        wait_for(lambda: child.exists() and child.read_text().endswith("\n"))
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    wait_for(lambda: is_gone(int(child.read_text())))
    (item,) = json.loads(out)["data"]["items"]
    assert (process.returncode, item["stop"], item["reached"]) == (130, "interrupted", 5)
    assert sql(folded, "SELECT count(*) FROM summaries WHERE model = 'command/dying'") == [(5,)]
    sound(lcm)
