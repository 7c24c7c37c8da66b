"""An agent of LangChain whose checkpoints are in a file."""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite import SqliteSaver

import lossless
from bench.hosts.programs.talk import SYSTEM, given, run, serve
from lossless.hosts.langchain import LosslessMiddleware


def shell(command: str) -> str:
    """Run a command."""
    return run(command)


def main() -> None:
    start = given()
    model = ChatOpenAI(model="gpt-4o", base_url=f"{start.url}/v1", api_key="none")
    config: Any = {"configurable": {"thread_id": "harbour"}, "recursion_limit": 60}
    with lossless.open(start.archive) as engine, SqliteSaver.from_conn_string(f"{start.archive}.checkpoints") as saver:
        keeping = LosslessMiddleware(engine, budget=start.budget)
        agent = create_agent(model, tools=[shell], system_prompt=SYSTEM, middleware=[keeping], checkpointer=saver)

        def ask(text: str) -> str:
            state: Any = agent.invoke({"messages": [{"role": "user", "content": text}]}, config)
            return str(state["messages"][-1].content)

        serve(ask)


if __name__ == "__main__":
    main()
