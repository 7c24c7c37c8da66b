"""An agent of Google's ADK whose sessions are in a file; Gemini's interface is served by the scripted model."""

from __future__ import annotations

import asyncio
import os

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.google_llm import Gemini
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

import lossless
from bench.hosts.programs.talk import SYSTEM, given, run, serve
from lossless.hosts.google_adk import LosslessPlugin


def shell(command: str) -> str:
    """Run a command."""
    return run(command)


def main() -> None:
    start = given()
    os.environ |= {"GOOGLE_GEMINI_BASE_URL": start.url, "GOOGLE_API_KEY": "none", "GOOGLE_GENAI_USE_VERTEXAI": "0"}
    loop = asyncio.new_event_loop()
    with lossless.open(start.archive) as engine:
        model = Gemini(model="gemini-2.5-flash", retry_options=types.HttpRetryOptions(attempts=3, initial_delay=0.2))
        clerk = LlmAgent(name="clerk", model=model, instruction=SYSTEM, tools=[shell])
        app = App(name="harbour", root_agent=clerk, plugins=[LosslessPlugin(engine, budget=start.budget)])
        service = SqliteSessionService(f"{start.archive}.sessions")
        runner = Runner(app=app, session_service=service, auto_create_session=True)

        async def turn(text: str) -> str:
            answer = ""
            asked = types.Content(role="user", parts=[types.Part(text=text)])
            async for event in runner.run_async(user_id="me", session_id="one", new_message=asked):
                parts = (event.content.parts or []) if event.content else []
                answer = "".join(part.text or "" for part in parts) or answer
                if event.error_message:
                    raise RuntimeError(event.error_message)
            return answer

        serve(lambda text: loop.run_until_complete(turn(text)))


if __name__ == "__main__":
    main()
