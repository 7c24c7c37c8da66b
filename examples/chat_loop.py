"""A hand-written loop that never forgets, in three lines; the provider plays a part, so no key is needed."""

from __future__ import annotations

import json
import sys
import tempfile
from typing import Any

import openai

import lossless
from lossless.testing import openai_chat, sample_conversation
from lossless.testing.provider import Provider, Request, Say, last_text

SETTINGS = lossless.Settings(fresh_tail_count=8, leaf_chunk_tokens=1_000)


def clerk(request: Request) -> Say:
    """Notes everything; asked where, it looks into the past."""
    text = last_text(request.body)
    if text == "Where did the Aurora lie?":
        return Say("Let me look. ", (("lcm_grep", {"pattern": "quay seventeen"}),))
    return Say("At quay seventeen." if "quay seventeen" in text and "lies" in text[20:] else "Noted.")


def main(folder: str) -> None:
    """Sixty turns in a small window, then a question about the first of them."""
    told = (str(message["content"]) for message in openai_chat(sample_conversation(400)))
    texts = ["The Aurora lies at quay seventeen.", *[text for text in told if len(text) > 120][:60]]
    messages: list[Any] = []
    with Provider(clerk) as provider, openai.OpenAI(base_url=f"{provider.url}/v1", api_key="none") as client:
        with lossless.chat(client, "ferry", archive=f"{folder}/lcm.db", settings=SETTINGS, window=8_000, tools="auto"):
            for text in [*texts, "Where did the Aurora lie?"]:
                messages.append({"role": "user", "content": text})
                reply = client.chat.completions.create(model="scripted", messages=messages)
                messages.append(reply.choices[0].message)
        sent = len(json.dumps(provider.requests[-1].body))
        mine = len(json.dumps([one if isinstance(one, dict) else one.to_dict() for one in messages]))
    assert messages[-1].content == "Let me look. At quay seventeen."
    print(f"{messages[-1].content} The loop holds {mine:,} bytes of messages; the last request had {sent:,}.")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
