"""Conversations that are long enough to be folded, for the commands of the loop."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import lossless
from lossless.testing import openai_chat, sample_conversation

if TYPE_CHECKING:
    from pathlib import Path

LONG = lossless.Session(key="agent:main:long", id="run-long")
OTHER = lossless.Session(key="agent:main:other", id="run-other")
#: The context of LONG is over the threshold of this budget, and below the budget.
BUDGET = 20_000
CHAT: list[dict[str, Any]] = list(openai_chat(sample_conversation(220)))


def settings() -> lossless.Settings:
    return lossless.Settings(fresh_tail_count=8, fresh_tail_max_tokens=-1, leaf_chunk_tokens=2_000)


def open_engine(path: Path) -> lossless.Engine:
    return lossless.open(path, settings(), background=False)


def owe(path: Path, session: lossless.Session = LONG) -> int:
    """Store a turn that puts a sweep off; returns the conversation."""
    with open_engine(path) as engine:
        report = engine.after_turn(session, new_messages=[{"role": "user", "content": "go on"}], budget=BUDGET)
        assert report.outcome is not None
        assert report.outcome.owes
        assert report.append.conversation_id is not None
        return report.append.conversation_id


def bytes_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
