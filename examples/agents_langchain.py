"""LangChain with an agent that never forgets; the model plays a script, so no key is needed."""

from __future__ import annotations

import sys
import tempfile
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver

import lossless
from lossless.hosts.langchain import LosslessMiddleware
from lossless.testing import openai_chat, sample_conversation

SETTINGS = lossless.Settings(fresh_tail_count=8, leaf_chunk_tokens=1_000)
seen: list[int] = []


class Clerk(BaseChatModel):
    """Notes everything; asked where, it looks into the past."""

    @property
    def _llm_type(self) -> str:
        return "clerk"

    def bind_tools(self, tools: Any, **_: Any) -> Any:  # noqa: ARG002
        """Takes any tools."""
        return self

    def _generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatResult:
        seen.append(len(messages))
        reply = AIMessage("At quay seventeen." if messages[-1].type == "tool" else "Noted.")
        if "Where did the Aurora" in str(messages[-1].content) and messages[-1].type == "human":
            call = {"name": "lcm_grep", "args": {"pattern": "quay seventeen"}, "id": "call_000000000001"}
            reply = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=reply)])


def main(folder: str) -> None:
    """Sixty turns in a small window, then a question about the first of them."""
    told = (str(message["content"]) for message in openai_chat(sample_conversation(400)))
    said = [text for text in told if len(text) > 120][:60]
    config: Any = {"configurable": {"thread_id": "ferry"}}
    with lossless.open(f"{folder}/lcm.db", SETTINGS) as engine:
        keeping = LosslessMiddleware(engine, budget=4_000)
        agent = create_agent(Clerk(), middleware=[keeping], checkpointer=InMemorySaver())
        for text in ["The Aurora lies at quay seventeen.", *said, "Where did the Aurora lie?"]:
            state: Any = agent.invoke({"messages": [{"role": "user", "content": text}]}, config)
        found = engine.grep("Aurora", session=lossless.Session(key="ferry"))
    history = state["messages"]
    assert history[-1].content == "At quay seventeen."
    assert max(seen) < len(history) // 2
    print(f"{history[-1].content} Found in {found.total} messages; the model saw {seen[-1]} of {len(history)}.")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
