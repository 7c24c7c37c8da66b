"""OpenAI Agents with the real package: what its runner does to a session, and what stays in the archive."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from agents import Agent, RunConfig, Runner
from agents.memory import Session, SessionABC
from agents.testing import ScriptedModel, assistant_message, function_call

from lossless.hosts.openai_agents import LosslessSession
from tests.hosts.examples import run_example

if TYPE_CHECKING:
    from pathlib import Path

    import lossless

CONFIG = RunConfig(tracing_disabled=True)
Item = dict[str, Any]


def said(engine: lossless.Engine) -> list[str]:
    rows = engine.archive.database.rows("SELECT content FROM messages ORDER BY message_id", ())
    return [str(content) for (content,) in rows]


def test_it_is_a_session(engine: lossless.Engine) -> None:
    assert isinstance(LosslessSession("s", engine), Session)
    assert SessionABC.__abstractmethods__ <= set(dir(LosslessSession))


def test_items_come_back_as_they_went_in(engine: lossless.Engine) -> None:
    items: list[Any] = [
        {"role": "user", "content": "hello"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "README.md"},
        {"id": "m", "type": "message", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "One file.", "annotations": []}]},
    ]  # fmt: skip

    async def steps() -> None:
        session = LosslessSession("s", engine)
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.add_items(items[:1])
        await session.add_items([])
        await session.add_items(items[1:])
        assert await session.get_items() == items
        assert await session.get_items(2) == items[-2:]
        assert await session.get_items(0) == []
        assert await LosslessSession("other", engine).get_items() == []

    asyncio.run(steps())
    assert engine.verify().ok


def test_what_is_popped_or_cleared_stays_in_the_archive(engine: lossless.Engine) -> None:
    async def steps() -> None:
        session = LosslessSession("s", engine)
        first: Any = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
        await session.add_items(first)
        assert await session.pop_item() == first[1]
        assert await session.get_items() == first[:1]
        await session.add_items(first[1:])
        assert await session.get_items() == first
        await session.clear_session()
        assert await session.get_items() == []
        await session.add_items([{"role": "user", "content": "three"}])
        assert await session.get_items() == [{"role": "user", "content": "three"}]

    asyncio.run(steps())
    assert said(engine) == ["one", "two", "two", "three"]
    assert engine.verify().ok


def test_a_run_with_tools(engine: lossless.Engine) -> None:
    model = ScriptedModel(
        [
            [function_call("lcm_recall", {"question": "Where is the key?"}, call_id="call_000000000001")],
            [assistant_message("In the vault.")],
            [assistant_message("Welcome.")],
        ]
    )

    async def steps() -> tuple[str, list[Any]]:
        session = LosslessSession("s", engine)
        await session.add_items([{"role": "user", "content": "The key is in the vault."}])
        agent = Agent(name="a", model=model, tools=list(session.tools()))
        result = await Runner.run(agent, "Where is the key?", session=session, run_config=CONFIG)
        await Runner.run(agent, "Thanks.", session=session, run_config=CONFIG)
        return str(result.final_output), list(await session.get_items())

    answer, items = asyncio.run(steps())
    assert answer == "In the vault."
    assert [item.get("type", item.get("role")) for item in items] == [
        "user", "user", "function_call", "function_call_output", "message", "user", "message",
    ]  # fmt: skip
    assert "The key is in the vault." in items[3]["output"]
    assert engine.verify().ok


def test_the_example(tmp_path: Path) -> None:
    assert run_example("agents_openai", tmp_path).startswith("At quay seventeen.")
