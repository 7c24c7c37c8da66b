"""Kill the process at any moment: what it acknowledged is there, and sending everything again stores nothing twice."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import lossless
from bench.agent_conversation import agent_conversation
from tests.faults import open_engine, problems
from tests.forking import Fork

if TYPE_CHECKING:
    from pathlib import Path

COUNT, TURN, WINDOW, KILLS = 360, 12, 48, 3
APPENDED, SYNCED = lossless.Session(key="agent:main:appended"), lossless.Session(key="agent:main:synced")


def be_a_host(path: Path, messages: list[dict[str, Any]], start: int) -> None:
    """Send the messages from some turn on, as turns with keys and as windows, and say what was acknowledged."""
    with lossless.open(path, lossless.Settings(), background=False) as engine:
        for end in range(start + TURN, COUNT + 1, TURN):
            engine.append(APPENDED, messages[end - TURN : end], key=f"turn {end}")
            engine.sync(SYNCED, messages[max(0, end - WINDOW) : end])
            os.write(1, f"{end}\n".encode())


def run_host(path: Path, messages: list[dict[str, Any]], start: int, kill_after: int | None) -> int:
    """Run the host, killed after so many acknowledged turns; returns the messages that it has acknowledged."""
    with Fork(lambda: be_a_host(path, messages, start)) as host:
        acknowledged = 0
        for lines, line in enumerate(host.stdout, 1):
            acknowledged = int(line)
            if lines == kill_after:
                host.kill()
        assert host.wait() in (0, -9), host.communicate()
    return acknowledged


def originals(engine: lossless.Engine, session: lossless.Session) -> list[dict[str, Any]]:
    conversation = engine.archive.conversations.find(session)
    if conversation is None:
        return []
    return [stored.message.original for stored in engine.archive.messages.in_order(conversation.id, limit=COUNT * 2)]


def test_a_host_that_is_killed_again_and_again_keeps_everything_once(path: Path) -> None:
    messages: list[dict[str, Any]] = [dict(message) for message in agent_conversation(COUNT)]
    dice = random.Random(4017)
    acknowledged = 0
    for _ in range(KILLS):
        start = max(0, acknowledged - TURN * dice.randint(0, 10))  # a host does not know what its last words were
        ahead = COUNT // TURN // (KILLS + 1)
        acknowledged = max(acknowledged, run_host(path, messages, start, ahead + dice.randint(0, 5)))
        with open_engine(path) as engine:
            for session in (APPENDED, SYNCED):
                stored = originals(engine, session)
                assert len(stored) >= acknowledged
                assert len(stored) % TURN == 0
                assert stored == messages[: len(stored)]
    assert run_host(path, messages, acknowledged, None) == COUNT
    assert run_host(path, messages, 0, None) == COUNT
    with open_engine(path) as engine:
        assert originals(engine, APPENDED) == originals(engine, SYNCED) == messages
        assert problems(engine) == []
        assert engine.archive.listings.liveness().ambiguous == 0
