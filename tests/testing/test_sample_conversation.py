"""The readable sample: its facts can be found, and strict providers would accept it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from lossless.testing import PLANTED, SAMPLE_COUNT, Fact, openai_chat, sample_conversation

MESSAGES = list(sample_conversation())


def _holds(message: dict[str, Any], words: str) -> bool:
    return any(words in block.get("text", "") for block in message["content"])


@pytest.mark.parametrize("fact", PLANTED, ids=lambda fact: fact.question)
def test_a_fact_is_said_where_it_is_planted_and_in_few_places(fact: Fact) -> None:
    assert fact.question.endswith("?")
    places = [seq for seq, message in enumerate(MESSAGES, start=1) if _holds(message, fact.answer)]
    assert fact.seq in places
    assert len(places) <= 3


def test_the_facts_are_spread_over_the_sample() -> None:
    assert len(PLANTED) >= 30
    assert len({fact.question for fact in PLANTED}) == len(PLANTED)
    assert PLANTED[0].seq < 20
    assert 300 < PLANTED[-1].seq <= SAMPLE_COUNT == len(MESSAGES)


def test_a_shorter_sample_begins_a_longer_one_without_end() -> None:
    longer = list(sample_conversation(1500))
    assert longer[:SAMPLE_COUNT] == MESSAGES
    assert len(longer) == 1500
    assert all(one["timestamp"] < other["timestamp"] for one, other in pairwise(longer))


def test_time_only_moves_forward() -> None:
    assert all(one["timestamp"] < other["timestamp"] for one, other in pairwise(MESSAGES))


def test_it_has_the_size_of_a_real_conversation() -> None:
    assert sum(len(block.get("text", "")) for message in MESSAGES for block in message["content"]) > 60_000
    assert {message["role"] for message in MESSAGES} == {"user", "assistant", "toolResult"}
    assert any(message.get("isError") for message in MESSAGES)


def test_as_openai_chat_every_call_is_answered_at_once() -> None:
    chat: list[dict[str, Any]] = list(openai_chat(MESSAGES))
    assert len(chat) == len(MESSAGES)
    waiting: list[str] = []
    for before, message in pairwise([{"role": "system"}, *chat]):
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert not waiting
        assert not (before["role"] == message["role"] == "user")
        assert message["content"] or message["tool_calls"]
        waiting = [call["id"] for call in message.get("tool_calls", ())]
    ids = [call["id"] for message in chat for call in message.get("tool_calls", ())]
    assert len(set(ids)) == len(ids) > 50
