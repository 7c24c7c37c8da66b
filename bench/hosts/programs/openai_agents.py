"""An agent of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio

from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, function_tool
from openai import AsyncOpenAI

import lossless
from bench.hosts.programs.talk import SYSTEM, given, run, serve
from lossless.hosts.openai_agents import LosslessSession


@function_tool
def shell(command: str) -> str:
    """Run a command."""
    return run(command)


def main() -> None:
    start = given()
    model = OpenAIResponsesModel("gpt-4o", AsyncOpenAI(base_url=f"{start.url}/v1", api_key="none"))
    with lossless.open(start.archive) as engine:
        session = LosslessSession("harbour", engine, budget=start.budget)
        agent = Agent(name="clerk", instructions=SYSTEM, model=model, tools=[shell, *session.tools()])
        config = RunConfig(call_model_input_filter=session.fit, tracing_disabled=True)
        loop = asyncio.new_event_loop()

        def ask(text: str) -> str:
            asked = Runner.run(agent, text, session=session, run_config=config, hooks=session.hooks, max_turns=20)
            return str(loop.run_until_complete(asked).final_output)

        serve(ask)


if __name__ == "__main__":
    main()
