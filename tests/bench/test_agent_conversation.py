"""The generator behind the speed figures: the same bytes on every machine and in every version."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.agent_conversation import agent_conversation
from lossless.model.js_json import stringify_js
from lossless.testing import session_jsonl


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("count", "unicode", "digest"),
    [
        pytest.param(3, False, "60c13edabb564570", id="the first three messages"),
        pytest.param(1000, False, "b981aa383de7de15", id="a thousand messages"),
        pytest.param(1000, True, "9f350c32cf01f846", id="a thousand messages with CJK and emoji"),
    ],
)
def test_the_bytes_never_change(count: int, unicode: bool, digest: str) -> None:
    lines = [stringify_js(message) + "\n" for message in agent_conversation(count, unicode=unicode)]
    assert _digest("".join(lines)) == digest


def test_the_bytes_of_a_transcript_never_change() -> None:
    assert _digest(session_jsonl(agent_conversation(777, unicode=True))) == "66c2475c14cb5626"


@settings(max_examples=20)
@given(count=st.integers(0, 40), more=st.integers(0, 20), seed=st.integers(0, 2**32 - 1))
def test_a_shorter_conversation_begins_a_longer_one(count: int, more: int, seed: int) -> None:
    short = list(agent_conversation(count, seed=seed))
    assert len(short) == count
    assert short == list(agent_conversation(count + more, seed=seed))[:count]


def test_every_result_follows_its_call() -> None:
    waiting: list[str] = []
    for message in agent_conversation(400):
        if message["role"] == "toolResult":
            assert message["toolCallId"] == waiting.pop(0)
            continue
        assert not waiting
        waiting = [block["id"] for block in message["content"] if block["type"] == "toolCall"]


def test_seed_and_start_are_honoured() -> None:
    start = datetime(2020, 2, 2, tzinfo=UTC)
    first = next(agent_conversation(1, start=start))
    assert 20_000 <= first["timestamp"] - start.timestamp() * 1000 < 80_000
    assert next(agent_conversation(1, seed=1)) != next(agent_conversation(1, seed=2))


def test_a_transcript_is_one_chain_of_entries() -> None:
    messages = list(agent_conversation(5))
    header, *entries = [json.loads(line) for line in session_jsonl(messages, session_id="s-1").splitlines()]
    assert (header["type"], header["version"], header["id"]) == ("session", 3, "s-1")
    assert [entry["message"] for entry in entries] == messages
    assert [entry["parentId"] for entry in entries] == [None, *(entry["id"] for entry in entries[:-1])]


def test_a_transcript_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one message"):
        session_jsonl([])
