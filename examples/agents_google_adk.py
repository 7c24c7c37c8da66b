"""Google ADK with an agent that never forgets; the model plays a script, so no key is needed."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

import lossless
from lossless.hosts.google_adk import LosslessPlugin
from lossless.testing import openai_chat, sample_conversation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SETTINGS = lossless.Settings(fresh_tail_count=8, leaf_chunk_tokens=1_000)
seen: list[int] = []


class Clerk(BaseLlm):
    """Notes everything; asked where, it looks into the past."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[Any]:  # noqa: ARG002
        """One reply."""
        seen.append(len(llm_request.contents))
        last = llm_request.contents[-1].parts[-1]
        part = types.Part(text="At quay seventeen." if last.function_response else "Noted.")
        if "Where did the Aurora" in (last.text or ""):
            call = types.FunctionCall(id="call_000000000001", name="lcm_grep", args={"pattern": "quay seventeen"})
            part = types.Part(function_call=call)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def main(folder: str) -> None:
    """Sixty turns in a small window, then a question about the first of them."""
    told = (str(message["content"]) for message in openai_chat(sample_conversation(400)))
    said = [text for text in told if len(text) > 120][:60]
    texts = ["The Aurora lies at quay seventeen.", *said, "Where did the Aurora lie?"]
    with lossless.open(f"{folder}/lcm.db", SETTINGS) as engine:
        clerk = LlmAgent(name="clerk", model=Clerk(model="clerk"))
        app = App(name="port", root_agent=clerk, plugins=[LosslessPlugin(engine, budget=4_000)])
        runner = InMemoryRunner(app=app)
        session = await runner.session_service.create_session(app_name="port", user_id="me", session_id="ferry")
        answer = ""
        for text in texts:
            asked = types.Content(role="user", parts=[types.Part(text=text)])
            async for event in runner.run_async(user_id="me", session_id=session.id, new_message=asked):
                answer = event.content.parts[0].text or answer
        found = engine.grep("Aurora", session=lossless.Session(key="adk:port:me:ferry"))
        await runner.close()
    assert answer == "At quay seventeen."
    assert max(seen) < len(texts)
    print(f"{answer} Found in {found.total} messages; the model saw {seen[-1]} contents of {2 * len(texts) + 1}.")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))
