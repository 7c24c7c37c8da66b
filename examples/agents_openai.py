"""OpenAI Agents with a session that never forgets; the model plays a script, so no key is needed."""

from __future__ import annotations

import asyncio
import sys
import tempfile

from agents import Agent, RunConfig, Runner
from agents.testing import ScriptedModel, assistant_message, function_call

import lossless
from lossless.hosts.openai_agents import LosslessSession
from lossless.testing import openai_chat, sample_conversation

SETTINGS = lossless.Settings(fresh_tail_count=8, leaf_chunk_tokens=1_000)


async def main(folder: str) -> None:
    """Sixty turns in a small window, then a question about the first of them."""
    told = (str(message["content"]) for message in openai_chat(sample_conversation(400)))
    said = [text for text in told if len(text) > 120][:60]
    steps = [[assistant_message(f"Noted, number {n}.", item_id=f"msg_{n}")] for n in range(len(said) + 1)]
    asks = [function_call("lcm_grep", {"pattern": "quay seventeen"}, call_id="call_000000000001")]
    model = ScriptedModel([*steps, asks, [assistant_message("At quay seventeen.", item_id="msg_last")]])
    with lossless.open(f"{folder}/lcm.db", SETTINGS) as engine:
        session = LosslessSession("ferry", engine, budget=4_000)
        agent = Agent(name="clerk", model=model, tools=session.tools())
        config = RunConfig(tracing_disabled=True, call_model_input_filter=session.fit)
        for text in ["The Aurora lies at quay seventeen.", *said]:
            await Runner.run(agent, text, session=session, run_config=config)
        result = await Runner.run(agent, "Where did the Aurora lie?", session=session, run_config=config)
        stored, items = engine.grep("Aurora", session=session.session), await session.get_items()
        answer = next(str(item) for item in model.calls[-1].input if "function_call_output" in str(item))
    assert "quay seventeen" in answer
    assert len(items) < 60
    print(f"{result.final_output} Found in {stored.total} messages; the next prompt has {len(items)} items of 126.")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))
