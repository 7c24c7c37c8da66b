"""LangChain with the real package (`make test-host HOST=langchain`): threads, checkpoints, async."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from tests.hosts.examples import run_example
from tests.loop.kit import settings, talk

pytest.importorskip("langchain", reason="its own environment has it")

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver

from lossless.hosts.langchain import LosslessMiddleware

if TYPE_CHECKING:
    from pathlib import Path


class Parrot(BaseChatModel):
    """Calls a tool once for each question with a question mark."""

    seen: list[Any] = []  # noqa: RUF012

    @property
    def _llm_type(self) -> str:
        return "parrot"

    def bind_tools(self, tools: Any, **_: Any) -> Any:  # noqa: ARG002
        return self

    def _generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatResult:
        self.seen.append(messages)
        last = messages[-1]
        reply = AIMessage(f"Reply {len(self.seen)}.")
        if last.type == "human" and last.content.endswith("?"):
            call = {"name": "lcm_recall", "args": {"question": last.content}, "id": f"call_{len(self.seen):012d}"}
            reply = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=reply)])


def ask(agent: Any, text: str, thread: str) -> list[Any]:
    config = {"configurable": {"thread_id": thread}}
    state = agent.invoke({"messages": [{"role": "user", "content": text}]}, config)
    messages: list[Any] = state["messages"]
    return messages


def test_threads_are_sessions_and_the_state_keeps_everything(path: Path) -> None:
    model = Parrot()
    with lossless.open(path, settings(), background=False) as engine:
        middleware = LosslessMiddleware(engine, budget=4_000)
        agent = create_agent(model, system_prompt="Be brief.", middleware=[middleware], checkpointer=InMemorySaver())
        ask(agent, "The key is in the vault.", "one")
        state = ask(agent, "Where is the key?", "one")
        assert "vault" in state[-2].content
        for message in talk(60):
            state = ask(agent, message["content"], "one")
        assert len(state) == 126
        assert len(model.seen[-1]) < 60
        assert "<summary" in str(model.seen[-1])
        assert "Be brief." in model.seen[-1][0].content
        ask(agent, "other thread", "two")
        counts = engine.archive.database.rows(
            "SELECT session_key, count(*) FROM conversations JOIN messages USING (conversation_id) GROUP BY 1", ()
        )
        assert [tuple(row) for row in counts] == [("one", 127), ("two", 3)]
        assert engine.verify().ok


def test_async_agents(path: Path) -> None:
    with lossless.open(path, background=False) as engine:
        agent = create_agent(Parrot(), middleware=[LosslessMiddleware(engine)], checkpointer=InMemorySaver())

        async def run() -> Any:
            config: Any = {"configurable": {"thread_id": "t"}}
            return await agent.ainvoke({"messages": [{"role": "user", "content": "Anything?"}]}, config)

        assert len(asyncio.run(run())["messages"]) == 4
        assert engine.verify().messages == 4


def test_the_example(tmp_path: Path) -> None:
    assert run_example("agents_langchain", tmp_path).startswith("At quay seventeen.")
