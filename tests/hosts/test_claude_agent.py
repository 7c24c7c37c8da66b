"""Claude Agent SDK with the real package (`make test-host HOST=claude-agent-sdk`): its own conformance suite."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.errors import BadInput
from lossless.hosts.claude_agent import LosslessSessionStore
from tests.hosts.examples import run_example

if TYPE_CHECKING:
    from pathlib import Path

KEY: Any = {"project_key": "-home-me", "session_id": "s1"}


def test_the_suite_of_the_sdk_passes(tmp_path: Path) -> None:
    testing = pytest.importorskip("claude_agent_sdk.testing", reason="its own environment has it")
    numbers = count()
    opened: list[lossless.Engine] = []

    def make() -> LosslessSessionStore:
        opened.append(lossless.open(tmp_path / f"{next(numbers)}.db", background=False))
        return LosslessSessionStore(opened[-1])

    asyncio.run(testing.run_session_store_conformance(make))
    assert len(opened) > 8
    for engine in opened:
        assert engine.verify().ok
        engine.close()


def test_odd_names_stay_inside_the_folder(engine: lossless.Engine, tmp_path: Path) -> None:
    store = LosslessSessionStore(engine, tmp_path / "lines")
    keys: list[Any] = [
        {"project_key": "../../x", "session_id": ".."},
        {"project_key": "a/b", "session_id": "ä" * 300, "subpath": "../up"},
        {"project_key": "x-1", "session_id": "s", "subpath": "subagents/agent-1"},
    ]

    async def steps() -> None:
        for n, key in enumerate(keys):
            await store.append(key, [{"type": "custom", "n": n}])
        for n, key in enumerate(keys):
            assert await store.load(key) == [{"type": "custom", "n": n}]
        assert await store.list_subkeys(keys[2]) == ["subagents/agent-1"]
        assert await store.list_sessions("../../x") != []

    asyncio.run(steps())
    assert all(path.resolve().is_relative_to(tmp_path) for path in tmp_path.rglob("*"))
    assert not (tmp_path.parent / "x").exists()


def test_what_is_said_is_in_the_archive_once(engine: lossless.Engine) -> None:
    store = LosslessSessionStore(engine)
    lines: list[Any] = [
        {"type": "summary", "summary": "no message"},
        {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": "hello"}},
        {"type": "assistant", "uuid": "u2", "parentUuid": "u1",
         "message": {"role": "assistant", "content": [{"type": "text", "text": "hi"}]}},
    ]  # fmt: skip

    async def steps() -> None:
        await store.append(KEY, lines[:2])
        await store.append(KEY, lines[1:])
        await store.append(KEY, lines[1:])
        assert await store.load(KEY) == lines

    asyncio.run(steps())
    rows = engine.archive.database.rows("SELECT role, content FROM messages ORDER BY message_id", ())
    assert [tuple(row) for row in rows] == [("user", "hello"), ("assistant", "hi")]


def test_an_archive_in_memory_needs_a_folder() -> None:
    with lossless.open(":memory:") as engine, pytest.raises(BadInput, match="folder"):
        LosslessSessionStore(engine)


def test_the_example(tmp_path: Path) -> None:
    pytest.importorskip("claude_agent_sdk", reason="its own environment has it")
    assert "20 lines kept once" in run_example("agents_claude", tmp_path)
