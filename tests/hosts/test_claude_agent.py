"""Claude Agent SDK with the real package (`make test-host HOST=claude-agent-sdk`): its own conformance suite."""

from __future__ import annotations

import asyncio
import shutil
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.hosts.claude_agent import LosslessSessionStore
from lossless.testing.provider import Provider, Request, Say, Status, whole
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


def test_odd_names_are_sessions_of_their_own(engine: lossless.Engine) -> None:
    store = LosslessSessionStore(engine)
    keys: list[Any] = [
        {"project_key": "../../x", "session_id": ".."},
        {"project_key": "a/b", "session_id": "ä" * 300, "subpath": "../up"},
        {"project_key": "a:b", "session_id": "c"},
        {"project_key": "a", "session_id": "b:c"},
        {"project_key": "a", "session_id": "b", "subpath": "c"},
        {"project_key": "x-1", "session_id": "s", "subpath": "subagents/agent-1"},
    ]

    async def steps() -> None:
        for n, key in enumerate(keys):
            await store.append(key, [{"type": "custom", "n": n}])
        for n, key in enumerate(keys):
            assert await store.load(key) == [{"type": "custom", "n": n}]
        assert await store.list_subkeys(keys[-1]) == ["subagents/agent-1"]
        assert [one["session_id"] for one in await store.list_sessions("../../x")] == [".."]
        assert [one["session_id"] for one in await store.list_sessions("a")] == ["b:c"]

    asyncio.run(steps())
    assert engine.verify().ok


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
    assert said(engine) == [("user", "hello"), ("assistant", "hi")]
    found = engine.grep("hello", all_conversations=True).hits
    assert {hit.snippet for hit in found} <= {"hello", "hi"}


def said(engine: lossless.Engine) -> list[tuple[str, str]]:
    rows = engine.archive.database.rows(
        "SELECT role, content FROM messages WHERE content <> '' ORDER BY message_id", ()
    )
    return [(str(role), str(content)) for role, content in rows]


def test_one_file_holds_everything(tmp_path: Path) -> None:
    lines = [{"type": "file-history-snapshot", "n": n, "none": None} for n in range(1_200)]
    with lossless.open(tmp_path / "lcm.db", background=False) as engine:
        asyncio.run(LosslessSessionStore(engine).append(KEY, lines))
        engine.backup(tmp_path / "copy.db")
    with lossless.open(tmp_path / "copy.db", background=False) as engine:
        assert asyncio.run(LosslessSessionStore(engine).load(KEY)) == lines
        assert asyncio.run(LosslessSessionStore(engine).load({**KEY, "session_id": "other"})) is None


def test_lines_of_sub_agents_and_lines_that_make_no_sense(engine: lossless.Engine) -> None:
    store, sub = LosslessSessionStore(engine), {**KEY, "subpath": "subagents/agent-7"}
    aside: Any = {"isSidechain": True, "agentId": "7", "message": {"role": "user", "content": "search"}}
    lines: list[Any] = [
        {"type": "user", "uuid": "u1", "message": {"role": "user", "content": {"odd": 1}}},
        {"type": "user", "uuid": "u2", **aside},
    ]

    async def steps() -> None:
        await store.append(KEY, lines)
        await store.append(sub, [{"type": "user", "uuid": "u3", **aside}])
        assert await store.load(KEY) == lines

    asyncio.run(steps())
    keys = engine.archive.database.rows(
        "SELECT session_key FROM conversations JOIN messages USING (conversation_id) WHERE content = 'search'", ()
    )
    assert sorted(str(key) for (key,) in keys) == ["claude:-home-me:s1:7", "claude:-home-me:s1:subagents/agent-7"]


def test_two_programs_write_one_session(path: Path) -> None:
    lines: list[Any] = [
        {"type": "user", "uuid": f"u{n}", "message": {"role": "user", "content": f"line {n}"}} for n in range(40)
    ]

    async def write(store: LosslessSessionStore) -> None:
        for line in lines:
            await store.append(KEY, [line])

    async def both(*stores: LosslessSessionStore) -> None:
        await asyncio.gather(*map(write, stores))

    with lossless.open(path, background=False) as one, lossless.open(path, background=False) as two:
        asyncio.run(both(LosslessSessionStore(one), LosslessSessionStore(two)))
        assert asyncio.run(LosslessSessionStore(one).load(KEY)) == lines
        assert [content for _, content in said(two)] == [f"line {n}" for n in range(40)]
        assert one.verify().ok


def test_the_program_itself(tmp_path: Path) -> None:
    """Claude Code as the SDK runs it, with a provider that plays a part; then its session goes on from the archive."""
    sdk = pytest.importorskip("claude_agent_sdk", reason="its own environment has it")

    def script(request: Request) -> Status:
        text = "The vault." if "Where is the key?" in str(request.body["messages"][-1]) else "Noted."
        return Status(200, whole("/v1/messages", Say(text), request.body))

    async def ask(text: str, session: str | None, store: LosslessSessionStore, env: dict[str, str]) -> Any:
        options = sdk.ClaudeAgentOptions(
            session_store=store, session_store_flush="eager", env=env, cwd=tmp_path, setting_sources=[], resume=session
        )
        return [message async for message in sdk.query(prompt=text, options=options)][-1]

    with Provider(script) as provider, lossless.open(tmp_path / "lcm.db", background=False) as engine:
        env = {
            "ANTHROPIC_BASE_URL": provider.url, "ANTHROPIC_API_KEY": "none", "HOME": str(tmp_path),
            "CLAUDE_CONFIG_DIR": str(tmp_path / "config"), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }  # fmt: skip
        first = asyncio.run(ask("The key is in the vault.", None, LosslessSessionStore(engine), env))
        shutil.rmtree(tmp_path / "config")
        last = asyncio.run(ask("Where is the key?", first.session_id, LosslessSessionStore(engine), env))
        assert (last.result, last.session_id) == ("The vault.", first.session_id)
        assert "The key is in the vault." in str(provider.requests[-1].body["messages"])
        assert said(engine) == [
            ("user", "The key is in the vault."), ("assistant", "Noted."),
            ("user", "Where is the key?"), ("assistant", "The vault."),
        ]  # fmt: skip
        assert engine.verify().ok


def test_the_example(tmp_path: Path) -> None:
    pytest.importorskip("claude_agent_sdk", reason="its own environment has it")
    assert "20 lines kept once" in run_example("agents_claude", tmp_path)
