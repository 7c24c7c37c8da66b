"""Pydantic AI with an agent that never forgets; the model is a function, so no key is needed."""

from __future__ import annotations

import sys
import tempfile

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import lossless
from lossless.hosts.pydantic_ai import Lossless
from lossless.testing import openai_chat, sample_conversation

SETTINGS = lossless.Settings(fresh_tail_count=8, leaf_chunk_tokens=1_000)
seen: list[int] = []


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:  # noqa: ARG001
    """Notes everything; asked where, it looks into the past."""
    seen.append(len(messages))
    last = str(messages[-1].parts[-1])
    if "Where did the Aurora" in last and "UserPromptPart" in last:
        return ModelResponse([ToolCallPart("lcm_grep", {"pattern": "quay seventeen"}, "call_000000000001")])
    return ModelResponse([TextPart("At quay seventeen." if "ToolReturnPart" in last else "Noted.")])


def main(folder: str) -> None:
    """Sixty turns in a small window, then a question about the first of them."""
    told = (str(message["content"]) for message in openai_chat(sample_conversation(400)))
    said = [text for text in told if len(text) > 120][:60]
    history: list[ModelMessage] = []
    with lossless.open(f"{folder}/lcm.db", SETTINGS) as engine:
        agent = Agent(FunctionModel(model), capabilities=[Lossless(engine, budget=4_000)])
        for text in ["The Aurora lies at quay seventeen.", *said, "Where did the Aurora lie?"]:
            result = agent.run_sync(text, message_history=history, conversation_id="ferry")
            history = result.all_messages()
        found = engine.grep("Aurora", session=lossless.Session(key="ferry"))
    assert result.output == "At quay seventeen."
    assert max(seen) < len(history) // 2
    print(f"{result.output} Found in {found.total} messages; the model saw {seen[-1]} messages of {len(history)}.")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
