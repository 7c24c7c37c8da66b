"""One session through several doors: what came in by one is seen through the others, in their own words."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import openai
import pytest
from agents import Agent as OpenAIAgent
from agents import RunConfig, Runner
from agents.testing import ScriptedModel, assistant_message, function_call
from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import lossless
from lossless.errors import BadInput
from lossless.hosts.adapter import WindowSync, required_session
from lossless.hosts.openai_agents import LosslessSession
from lossless.hosts.pydantic_ai import Lossless
from lossless.testing.provider import Provider, Request, Say, last_text

if TYPE_CHECKING:
    from pathlib import Path

KEY = "support:42"
TOOLS: Any = [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object", "properties": {}}}}]


def looking(request: Request) -> Say:
    return Say("", (("ls", {"path": "."}),)) if last_text(request.body) == "look" else Say("One file.")


def by_hand(provider: Provider, engine: lossless.Engine) -> None:
    """A loop with a tool call."""
    messages: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "look"}]
    with (
        openai.OpenAI(base_url=f"{provider.url}/v1", api_key="k") as client,
        lossless.chat(client, KEY, archive=engine),
    ):
        reply = client.chat.completions.create(model="m", messages=messages, tools=TOOLS).choices[0].message
        messages += [reply, {"role": "tool", "tool_call_id": (reply.tool_calls or [])[0].id, "content": "README"}]
        client.chat.completions.create(model="m", messages=messages, tools=TOOLS)


def by_pydantic(engine: lossless.Engine, text: str) -> list[ModelMessage]:
    """A run without a history of its own; what its model saw."""
    seen: list[list[ModelMessage]] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(messages)
        return ModelResponse([TextPart("Noted.")])

    agent = Agent(FunctionModel(model), capabilities=[Lossless(engine)])
    asyncio.run(agent.run(text, conversation_id=KEY))
    return seen[-1]


def by_agents(engine: lossless.Engine, text: str) -> list[Any]:
    """A run of the Agents SDK; what its model saw."""
    model = ScriptedModel(
        [[function_call("lcm_recall", {"question": "README"}, call_id="call_1")], [assistant_message("Bye.")]]
    )

    async def run() -> None:
        session = LosslessSession(KEY, engine)
        agent = OpenAIAgent(name="a", model=model, tools=session.tools())
        config = RunConfig(tracing_disabled=True, call_model_input_filter=session.fit)
        await Runner.run(agent, text, session=session, run_config=config)

    asyncio.run(run())
    return list(model.calls[0].input)


def test_each_door_shows_what_came_in_by_the_others(engine: lossless.Engine) -> None:
    with Provider(looking) as provider:
        by_hand(provider, engine)
        parts = [part for message in by_pydantic(engine, "hello") for part in message.parts]
        kinds = [type(part).__name__ for part in parts]
        assert kinds == ["UserPromptPart", "ToolCallPart", "ToolReturnPart", "TextPart", "UserPromptPart"]
        call = next(part for part in parts if isinstance(part, ToolCallPart))
        assert (call.tool_name, call.args_as_dict()) == ("ls", {"path": "."})
        assert isinstance(parts[-1], UserPromptPart)
        items = by_agents(engine, "and you?")
        assert [item.get("type", item.get("role")) for item in items][-3:] == ["user", "assistant", "user"]
        assert "carried" not in json.dumps(items)
        provider.script = lambda _: Say("Hello again.")
        with (
            openai.OpenAI(base_url=f"{provider.url}/v1", api_key="k") as client,
            lossless.chat(client, KEY, archive=engine),
        ):
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "back again"}])
        sent = provider.requests[-1].body["messages"]
        assert "carried" not in json.dumps(sent)
        assert [one["content"] for one in sent if one["role"] == "user"] == ["look", "hello", "and you?", "back again"]
        assert engine.verify().ok


def test_a_session_goes_on_after_a_restart(path: Path) -> None:
    for n in range(3):
        with lossless.open(path, background=False) as engine:
            seen = by_pydantic(engine, f"turn {n}")
            users = [part.content for one in seen for part in one.parts if isinstance(part, UserPromptPart)]
            assert users == [f"turn {k}" for k in range(n + 1)]


@pytest.mark.parametrize("budget", [0, -5, "128k", 1.5, True])
def test_a_wrong_budget_is_said_at_once(engine: lossless.Engine, budget: Any) -> None:
    for door in (partial(LosslessSession, "s", engine), partial(Lossless, engine), partial(WindowSync, engine, "any")):
        with pytest.raises(BadInput, match="budget is a number of tokens above 0"):
            door(budget=budget)


@pytest.mark.parametrize("name", [None, "", "  "])
def test_a_session_without_a_name_is_said_at_once(engine: lossless.Engine, name: Any) -> None:
    with pytest.raises(BadInput, match="which session this is: pass a session id"):
        LosslessSession(name, engine)
    with pytest.raises(BadInput, match="pass thread_id"):
        required_session(name, "thread_id")
