"""A program against the message types of the OpenAI and Anthropic SDKs. Nothing runs it: the type checker reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lossless

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic
    from anthropic.types import Message, MessageParam
    from openai import OpenAI
    from openai.types.chat import ChatCompletionMessageParam
    from openai.types.responses import ResponseInputItemParam


def ask_openai(client: OpenAI, said: list[ChatCompletionMessageParam]) -> str:
    with lossless.open("lcm.db") as engine:
        report: lossless.AppendReport = engine.append("agent:main", said)
        assert report.stored == len(said)
        made = engine.assemble("agent:main", budget=128_000)
        reply = client.chat.completions.create(model="gpt", messages=made.messages)
        message = reply.choices[0].message
        turn = engine.after_turn("agent:main", new_messages=[message.to_dict()], budget=128_000)
        assert turn.compaction is None or turn.compaction.ok
        return message.content or ""


def ask_anthropic(client: Anthropic, said: list[MessageParam]) -> Message:
    with lossless.open("lcm.db") as engine:
        engine.sync(lossless.Session(key="agent:main"), said)
        made = engine.assemble("agent:main", budget=200_000, format="anthropic")
        reply = client.messages.create(model="claude", max_tokens=1_000, system=made.system, messages=made.messages)
        engine.append("agent:main", [lossless.Incoming(reply.to_dict(), entry_id=reply.id)])
        return reply


async def ask_later(client: AsyncAnthropic, said: list[MessageParam]) -> str:
    async with lossless.open_async("lcm.db") as engine:
        await engine.append("agent:main", said)
        made = await engine.assemble("agent:main", budget=200_000, format="anthropic")
        await client.messages.create(model="claude", max_tokens=1_000, messages=made.messages)
        found = await engine.recall("What was decided?", session="agent:main")
        return str(found)


def keep_responses(items: list[ResponseInputItemParam]) -> int:
    with lossless.open("lcm.db") as engine:
        return engine.append("agent:main", items).stored
