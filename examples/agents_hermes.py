"""Hermes Agent's context engine, driven as the host drives it; no model and no key are needed."""

from __future__ import annotations

import json
import sys
import tempfile
from copy import deepcopy
from typing import Any

import lossless
from lossless.hosts.hermes import LosslessEngine
from lossless.testing import openai_chat, sample_conversation

SETTINGS = lossless.Settings(fresh_tail_count=8, leaf_chunk_tokens=1_000)


def main(folder: str) -> None:
    """A conversation grows, is compressed whenever the engine says so, and stays within reach."""
    with lossless.open(f"{folder}/lcm.db", SETTINGS) as archive:
        engine = deepcopy(LosslessEngine(archive))
        engine.on_session_start("run-1", conversation_id="ferry", model="scripted", context_length=6_000)
        window: list[dict[str, Any]] = [{"role": "user", "content": "The Aurora lies at quay seventeen."}]
        for message in openai_chat(sample_conversation(200)):
            window.append(dict(message))
            if message["role"] == "user" and engine.should_compress_preflight(window):
                window = engine.compress(window)
        engine.on_session_end("run-1", window)
        found = json.loads(engine.handle_tool_call("lcm_grep", {"pattern": "quay seventeen"}))
        checked = archive.verify()
    assert "quay seventeen" in found["result"]
    assert checked.ok
    print(
        f"{checked.messages} messages kept, {len(window)} in the window, compressed {engine.compression_count} times."
    )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
