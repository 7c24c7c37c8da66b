"""LangGraph with a graph of your own that never forgets; the model is a function, so no key is needed."""

from __future__ import annotations

import sys
import tempfile
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

import lossless
from lossless.hosts.langgraph import LosslessSaver
from lossless.testing import openai_chat, sample_conversation

SETTINGS = lossless.Settings(fresh_tail_count=8, leaf_chunk_tokens=1_000)
seen: list[int] = []


def main(folder: str) -> None:
    """Sixty turns in a small window; the graph's state keeps them, and so does the archive."""
    told = (str(message["content"]) for message in openai_chat(sample_conversation(400)))
    said = [text for text in told if len(text) > 120][:60]
    config: Any = {"configurable": {"thread_id": "ferry"}}
    with lossless.open(f"{folder}/lcm.db", SETTINGS) as engine:
        saver = LosslessSaver(InMemorySaver(), engine, budget=3_000)

        def clerk(state: MessagesState) -> Any:
            fitting = saver.fit(state["messages"])  # your model is called with these
            seen.append(len(fitting))
            return {"messages": [AIMessage("Noted.")]}

        builder = StateGraph(MessagesState)
        builder.add_node("clerk", clerk)
        builder.add_edge(START, "clerk")
        graph = builder.compile(checkpointer=saver)
        for text in ["The Aurora lies at quay seventeen.", *said]:
            state = graph.invoke({"messages": [{"role": "user", "content": text}]}, config)
        found = engine.recall("Where does the Aurora lie?", session=lossless.Session(key="ferry"))
        kept = engine.verify().messages
    assert "quay seventeen" in str(found)
    assert max(seen) < len(state["messages"]) // 2
    print(f"{kept} messages kept; the model saw {seen[-1]} of {len(state['messages'])}.")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
