"""For tests, demos and benchmarks, ours and yours: made-up conversations, a scripted model, a virtual clock.

`lossless.testing.strategies` holds generators for property tests; it needs hypothesis. `lossless.testing.contract`
holds the tests that every store must pass.
"""

from __future__ import annotations

from lossless.testing.sample import (
    PLANTED,
    SAMPLE_COUNT,
    AgentMessage,
    Fact,
    openai_chat,
    sample_conversation,
    session_jsonl,
)
from lossless.testing.scripted import DIRECTIVES, Call, Mode, Scripted, Step, VirtualClock, hang, say

__all__ = [
    "DIRECTIVES", "PLANTED", "SAMPLE_COUNT", "AgentMessage", "Call", "Fact", "Mode", "Scripted", "Step",
    "VirtualClock", "hang", "openai_chat", "sample_conversation", "say", "session_jsonl",
]  # fmt: skip
