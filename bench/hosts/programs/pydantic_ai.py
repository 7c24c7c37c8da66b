"""An agent of Pydantic AI. After a restart it has no history but the archive's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import lossless
from bench.hosts.programs.talk import SYSTEM, given, run, serve
from lossless.hosts.pydantic_ai import Lossless

if TYPE_CHECKING:
    from pydantic_ai import ModelMessage


def main() -> None:
    start = given()
    model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=f"{start.url}/v1", api_key="none"))
    history: list[ModelMessage] = []
    with lossless.open(start.archive) as engine:
        agent = Agent(model, instructions=SYSTEM, capabilities=[Lossless(engine, budget=start.budget)])

        @agent.tool_plain
        def shell(command: str) -> str:
            """Run a command."""
            return run(command)

        def ask(text: str) -> str:
            result = agent.run_sync(text, message_history=history or None, conversation_id="harbour")
            history[:] = result.all_messages()
            return result.output

        serve(ask)


if __name__ == "__main__":
    main()
