"""Kill the process at any moment: what it acknowledged is there, and sending everything again stores nothing twice."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import lossless
from lossless.testing import agent_conversation, messages_jsonl
from tests.faults import ROOT, open_engine, problems

if TYPE_CHECKING:
    from pathlib import Path

COUNT, TURN, WINDOW, KILLS = 2_400, 12, 48, 10
APPENDED, SYNCED = lossless.Session(key="agent:main:appended"), lossless.Session(key="agent:main:synced")
#: Sends the conversation from some turn on, as turns with keys and as windows, and says what was acknowledged.
HOST = f"""
import json
import sys
import lossless

with open(sys.argv[1] + ".jsonl", encoding="utf-8") as lines:
    messages = list(map(json.loads, lines))
with lossless.open(sys.argv[1], lossless.Settings(), background=False) as engine:
    for end in range(int(sys.argv[2]) + {TURN}, {COUNT} + 1, {TURN}):
        engine.append(lossless.Session(key="agent:main:appended"), messages[end - {TURN} : end], key=f"turn {{end}}")
        engine.sync(lossless.Session(key="agent:main:synced"), messages[max(0, end - {WINDOW}) : end])
        print(end, flush=True)
"""


def run_host(path: Path, start: int, kill_after: int | None) -> int:
    """Run the host, killed after so many acknowledged turns; returns the messages that it has acknowledged."""
    command = [sys.executable, "-c", HOST, str(path), str(start)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        acknowledged = 0
        for lines, line in enumerate(host.stdout, 1):
            acknowledged = int(line)
            if lines == kill_after:
                host.kill()
        assert host.wait(60) in (0, -9)
    return acknowledged


def originals(engine: lossless.Engine, session: lossless.Session) -> list[dict[str, Any]]:
    conversation = engine.archive.conversations.find(session)
    if conversation is None:
        return []
    return [stored.message.original for stored in engine.archive.messages.in_order(conversation.id, limit=COUNT * 2)]


def test_a_host_that_is_killed_again_and_again_keeps_everything_once(path: Path) -> None:
    messages = list(agent_conversation(COUNT))
    path.with_name(path.name + ".jsonl").write_text(messages_jsonl(messages), encoding="utf-8")
    dice = random.Random(4017)
    acknowledged = 0
    for _ in range(KILLS):
        start = max(0, acknowledged - TURN * dice.randint(0, 10))  # a host does not know what its last words were
        ahead = COUNT // TURN // (KILLS + 1)
        acknowledged = max(acknowledged, run_host(path, start, ahead + dice.randint(0, 5)))
        with open_engine(path) as engine:
            for session in (APPENDED, SYNCED):
                stored = originals(engine, session)
                assert len(stored) >= acknowledged
                assert len(stored) % TURN == 0
                assert stored == messages[: len(stored)]
    assert run_host(path, acknowledged, None) == COUNT
    assert run_host(path, 0, None) == COUNT
    with open_engine(path) as engine:
        assert originals(engine, APPENDED) == originals(engine, SYNCED) == messages
        assert problems(engine) == []
        assert engine.archive.listings.liveness().ambiguous == 0
