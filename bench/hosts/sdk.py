"""OpenAI's and Anthropic's own clients through the proxy: a loop of an agent as people write it."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import anthropic
import openai

from bench.hosts.host import TOKEN, Host
from bench.hosts.programs.talk import run

_SYSTEM = "You are the clerk of a harbour. " + "Answer from what tools say, and be brief. " * 20
_PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


class OpenAISDK(Host):
    """The client holds its whole history and sends it each time."""

    name: ClassVar[str] = "openai-sdk"
    default_budget: ClassVar[int] = 128_000
    shows_all: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.history: list[Any] = [{"role": "system", "content": _SYSTEM}]

    def start(self) -> None:
        self.client = openai.OpenAI(base_url=f"{self.proxy()}/v1", api_key=f"{TOKEN}:none", max_retries=2)

    def ask(self, text: str) -> str:
        self.history.append({"role": "user", "content": text})
        tool: Any = {"type": "function", "function": {"name": "shell", "parameters": _PARAMETERS}}
        while True:
            made = self.client.chat.completions.create(model="gpt-4o", messages=self.history, tools=[tool])
            said = made.choices[0].message
            self.history.append(said.model_dump(exclude_none=True))
            if not said.tool_calls:
                return said.content or ""
            for call in said.tool_calls:
                arguments = json.loads(call.function.arguments)  # type: ignore[union-attr]
                self.history.append({"role": "tool", "tool_call_id": call.id, "content": run(arguments["command"])})


class AnthropicSDK(Host):
    """The same with Anthropic's client, streamed."""

    name: ClassVar[str] = "anthropic-sdk"
    default_budget: ClassVar[int] = 64_000
    shows_all: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.history: list[Any] = []

    def start(self) -> None:
        self.client = anthropic.Anthropic(base_url=self.proxy(), api_key=f"{TOKEN}:none", max_retries=2)

    def ask(self, text: str) -> str:
        self.history.append({"role": "user", "content": text})
        tools: Any = [{"name": "shell", "input_schema": _PARAMETERS}]
        while True:
            with self.client.messages.stream(
                model="claude-haiku-4-5", max_tokens=4096, system=_SYSTEM, messages=self.history, tools=tools
            ) as stream:
                made = stream.get_final_message()
            self.history.append({"role": "assistant", "content": [block.model_dump() for block in made.content]})
            uses = [block for block in made.content if block.type == "tool_use"]
            if not uses:
                return "".join(block.text for block in made.content if block.type == "text")
            results = [
                {"type": "tool_result", "tool_use_id": use.id, "content": run(str(use.input["command"]))}
                for use in uses
            ]
            self.history.append({"role": "user", "content": results})
