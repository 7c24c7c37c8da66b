"""OpenAI Agents with the real package: what its runner does to a session, and what stays in the archive."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, RunConfig, Runner, function_tool
from agents.mcp import MCPServerStdio, create_static_tool_filter
from agents.mcp import MCPServerStdioParams as StdioServer
from agents.memory import Session, SessionABC
from agents.testing import ScriptedModel, assistant_message, function_call

import lossless
from lossless.hosts.openai_agents import LosslessSession
from lossless.model.tokens import estimate_tokens
from lossless.providers.token_limits import overhead_tokens, window_tokens
from lossless.recall.tools import TOOLS
from tests.compaction.loop_kit import settings
from tests.hosts.examples import run_example

if TYPE_CHECKING:
    from pathlib import Path

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


@function_tool
def look(n: int) -> str:
    """A long answer."""
    return f"{n}: " + " ".join(f"word{n}x{k}" for k in range(120))


async def ran(agent: Agent, text: str, session: LosslessSession, *, streamed: bool) -> None:
    config = RunConfig(tracing_disabled=True, call_model_input_filter=session.fit)
    if not streamed:
        await Runner.run(agent, text, session=session, run_config=config, max_turns=99)
        return
    result = Runner.run_streamed(agent, text, session=session, run_config=config, max_turns=99)
    async for _ in result.stream_events():
        pass


@pytest.mark.parametrize("streamed", [False, True], ids=["at once", "streamed"])
def test_each_call_of_a_long_run_is_within_the_budget(path: Path, streamed: bool) -> None:
    calls = [[function_call("look", {"n": n}, call_id=f"call_{n:012d}")] for n in range(30)]
    model = ScriptedModel([*calls, [assistant_message("Done.")], [assistant_message("Bye.")]])

    async def steps(session: LosslessSession) -> None:
        agent = Agent(name="a", model=model, tools=[look])
        await ran(agent, "Look thirty times.", session, streamed=streamed)
        await ran(agent, "Thanks.", session, streamed=streamed)

    with lossless.open(path, settings(), background=False) as engine:
        asyncio.run(steps(LosslessSession("s", engine, budget=4_000)))
        sizes = [estimate_tokens(json.dumps(list(call.input))) for call in model.calls]
        assert max(sizes) <= 4_000
        assert "<summary" in json.dumps(list(model.calls[-2].input))
        for call in model.calls:
            items: Any = call.input
            asked = [item["call_id"] for item in items if item.get("type") == "function_call"]
            assert [item["call_id"] for item in items if item.get("type") == "function_call_output"] == asked
        assert len(said(engine)) == 64
        assert engine.verify().ok


@pytest.mark.parametrize("allowed", [None, ["lcm_recall"]], ids=["all", "one"])
def test_tools_of_mcp_servers_are_counted_as_far_as_they_are_sent(path: Path, allowed: list[str] | None) -> None:
    pytest.importorskip("mcp")
    calls = [[function_call("look", {"n": n}, call_id=f"call_{n:012d}")] for n in range(20)]
    model = ScriptedModel([*calls, [assistant_message("Done.")]])
    command = StdioServer(command=sys.executable, args=["-m", "lossless.cli.main", "--db", f"{path}-none", "mcp"])
    chosen = create_static_tool_filter(allowed_tool_names=allowed)

    async def steps(session: LosslessSession) -> None:
        async with MCPServerStdio(command, tool_filter=chosen, client_session_timeout_seconds=60) as server:
            agent = Agent(name="a", model=model, tools=[look], mcp_servers=[server])
            await ran(agent, "Look twenty times.", session, streamed=False)

    with lossless.open(path, settings(), background=False) as engine:
        asyncio.run(steps(LosslessSession("s", engine, budget=6_000)))
    sizes = [window_tokens(list(call.input)) + overhead_tokens(tools=definitions(call.tools)) for call in model.calls]
    assert 5_000 < max(sizes) <= 6_000
    assert all(len(call.tools) == 1 + (len(TOOLS) + 1 if allowed is None else len(allowed)) for call in model.calls)


def definitions(tools: Any) -> list[Item]:
    return [{"name": one.name, "description": one.description, "parameters": one.params_json_schema} for one in tools]


def test_large_items_are_whole_while_they_fit_and_then_references(path: Path) -> None:
    paste, huge = ("the ferry is late " * count for count in (560, 1_700))
    model = ScriptedModel([[assistant_message("ok")] for _ in range(4)])

    async def steps(session: LosslessSession) -> None:
        for text in ("hello", paste, huge, "and now?"):
            await ran(Agent(name="a", model=model), text, session, streamed=False)
        await session.add_items([{"role": "user", "content": huge}])
        assert await session.pop_item() == {"role": "user", "content": huge}

    with lossless.open(path, settings(large_file_threshold_tokens=1_000), background=False) as engine:
        asyncio.run(steps(LosslessSession("s", engine, budget=4_000)))
        sent = [json.dumps(list(call.input)) for call in model.calls]
        assert max(map(estimate_tokens, sent)) <= 4_000
        assert [paste in one for one in sent] == [False, True, False, False]
        assert [one.count("[LCM Raw Payload: file_") for one in sent] == [0, 0, 2, 2]
        assert engine.verify().ok


@pytest.mark.parametrize("streamed", [False, True], ids=["at once", "streamed"])
def test_a_call_that_fails_loses_nothing(engine: lossless.Engine, streamed: bool) -> None:
    model = ScriptedModel(
        [
            [function_call("look", {"n": 1}, call_id="call_000000000001")],
            RuntimeError("the provider is down"),
            [assistant_message("Here again.")],
        ]
    )

    async def steps() -> list[Any]:
        session, agent = LosslessSession("s", engine), Agent(name="a", model=model, tools=[look])
        with pytest.raises(RuntimeError, match="down"):
            await ran(agent, "Look.", session, streamed=streamed)
        await ran(agent, "Go on.", session, streamed=streamed)
        return list(await session.get_items())

    kinds = [item.get("type", item.get("role")) for item in asyncio.run(steps())]
    assert kinds == ["user", "function_call", "function_call_output", "user", "message"]
    assert engine.verify().ok


def test_sessions_at_once_and_what_is_popped_twice(engine: lossless.Engine) -> None:
    async def talk_in(name: str) -> list[Any]:
        session = LosslessSession(name, engine)
        agent = Agent(name="a", model=ScriptedModel([[assistant_message(f"{name} heard.")]]))
        await ran(agent, f"{name} speaks.", session, streamed=False)
        await session.pop_item()
        assert await session.pop_item() == {"role": "user", "content": f"{name} speaks."}
        assert await session.get_items() == []
        return [await session.pop_item()]

    async def all_of_them() -> list[Any]:
        return list(await asyncio.gather(*(talk_in(name) for name in "abcde")))

    assert asyncio.run(all_of_them()) == [[None]] * 5
    assert len(said(engine)) == 10


def test_the_example(tmp_path: Path) -> None:
    assert run_example("agents_openai", tmp_path).startswith("At quay seventeen.")


class Counted(ScriptedModel):
    """A model with a name, whose provider counts twice what we estimate."""

    model = "m-1"

    async def get_response(self, *args: Any, **given: Any) -> Any:
        made = await super().get_response(*args, **given)
        made.usage.input_tokens = 2 * estimate_tokens(json.dumps(list(self.calls[-1].input)))
        return made


def test_the_tokenizer_of_a_model_is_learned_from_its_usage(engine: lossless.Engine) -> None:
    model = Counted([[assistant_message("Noted.")] for _ in range(8)])

    async def steps() -> None:
        session = LosslessSession("s", engine, budget=40_000)
        config = RunConfig(tracing_disabled=True, call_model_input_filter=session.fit)
        for n in range(8):
            text = f"{n}: " + "the ferry is late " * 120
            await Runner.run(
                Agent(name="a", model=model), text, session=session, run_config=config, hooks=session.hooks
            )

    asyncio.run(steps())
    ratio, _, count = engine.archive.guards.factor("m-1") or (0.0, 0.0, 0)
    assert count == 8
    assert 1.5 < ratio < 2.1
