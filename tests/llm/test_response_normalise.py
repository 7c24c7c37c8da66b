"""Text out of every shape, thinking out of every text."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.llm import response as llm_response
from lossless.llm.completion import Usage

TEXT = {"type": "text", "text": "Kept."}
THINKING = {"type": "thinking", "thinking": "secret"}


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        pytest.param("Plain.", "Plain.", id="a text"),
        pytest.param({"content": [THINKING, TEXT]}, "Kept.", id="anthropic blocks"),
        pytest.param({"content": "Kept."}, "Kept.", id="content as a text"),
        pytest.param({"choices": [{"message": {"content": "Kept."}}]}, "Kept.", id="openai chat"),
        pytest.param({"choices": [{"message": {"content": [TEXT]}}]}, "Kept.", id="chat with blocks"),
        pytest.param({"choices": [{"text": "Kept."}]}, "Kept.", id="old completions"),
        pytest.param({"choices": [{"delta": {"content": "Kept."}}]}, "Kept.", id="a streamed chunk"),
        pytest.param({"choices": [{"text": "Kept."}, {"text": "Other."}]}, "Kept.", id="the first choice"),
        pytest.param({"output_text": "Kept.", "output": [{"content": [TEXT]}]}, "Kept.", id="said twice"),
        pytest.param(
            {"output": [{"type": "reasoning", "summary": [TEXT]}, {"type": "message", "content": [TEXT]}]},
            "Kept.",
            id="responses, with a summary of the thinking",
        ),
        pytest.param({"message": {"role": "assistant", "content": [TEXT]}}, "Kept.", id="message"),
        pytest.param({"response": {"output": {"text": "Kept."}}}, "Kept.", id="response and output"),
        pytest.param({"summary": "Kept."}, "Kept.", id="summary"),
        pytest.param({"content": [{"type": "text", "text": {"value": "Kept."}}]}, "Kept.", id="text value"),
        pytest.param({"content": [TEXT, TEXT]}, "Kept.", id="a repeated fragment"),
        pytest.param({"content": ["One.", "Two."]}, "One.\nTwo.", id="two fragments"),
        pytest.param({"content": [], "summary": "Kept."}, "Kept.", id="an empty key gives way"),
        pytest.param({"content": [{"thought": True, "text": "x"}, TEXT]}, "Kept.", id="a thought part"),
        pytest.param({"content": [{"type": "tool_use", "content": "x"}, TEXT]}, "Kept.", id="a tool call"),
        pytest.param({"content": "<think>x</think>", "reasoning": "x"}, "", id="nothing but thinking"),
        pytest.param({"choices": [{"message": {"content": None, "reasoning_content": "x"}}]}, "", id="none"),
        pytest.param({"content": [THINKING, {"type": "redacted_thinking", "data": "x"}]}, "", id="thinking"),
        pytest.param(None, "", id="nothing"),
        pytest.param(42, "", id="a number"),
        pytest.param({"text": b"bytes"}, "", id="bytes are not words"),
    ],
)
def test_answer_text(response: object, expected: str) -> None:
    assert llm_response.answer_text(response) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>a</think> b", "b"),
        ("<THINKING mode='x'>a\nb</THINKING>\n\nc", "c"),
        ("a <reasoning>b</reasoning> c", "a  c"),
        ("<think>a</think>b<think>c</think>d", "bd"),
        ("<think>a <think> b</think> c", "c"),
        ("<think>never closed", ""),
        ("weighing\n</think>\n\nThe answer.", "The answer."),
        ("A model may write <think> in its text.", "A model may write <think> in its text."),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ("<thinker>kept</thinker>", "<thinker>kept</thinker>"),
        ("  spaces  ", "spaces"),
    ],
)
def test_strip_reasoning(text: str, expected: str) -> None:
    assert llm_response.strip_reasoning(text) == expected


@given(st.text(alphabet="ab <>/think", max_size=80))
def test_stripping_a_text_never_adds_to_it(text: str) -> None:
    stripped = llm_response.strip_reasoning(text)
    assert len(stripped) <= len(text)
    assert stripped == stripped.strip()


def test_stripping_stays_fast_on_a_flood_of_tags() -> None:
    assert llm_response.strip_reasoning("x" + "<think>" * 50_000).startswith("x<think>")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "content", "choices", "usage", "status", "finish_reason", "cost"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_no_answer_raises(response: object) -> None:
    answer = llm_response.parse_completion(response, "x/y")
    assert answer.text == answer.text.strip()
    assert answer.usage.input_tokens >= 0


def test_deep_nesting_ends() -> None:
    response: Any = "deep"
    for _ in range(5000):
        response = {"content": [response]}
    assert llm_response.parse_completion(response, "x/y").text == ""


@pytest.mark.parametrize(
    ("response", "reason", "incomplete"),
    [
        ({"choices": [{"finish_reason": "length"}]}, "length", True),
        ({"choices": [{"finish_reason": "stop"}]}, "stop", False),
        ({"stop_reason": "max_tokens"}, "max_tokens", True),
        ({"stopReason": "model_length"}, "model_length", True),
        ({"status": "incomplete"}, "incomplete", True),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "max_output_tokens",
            True,
        ),
        ({"response": {"stop_reason": "end_turn"}}, "end_turn", False),
        ({"message": {"stopReason": "length"}}, "length", True),
        ({"text": "x"}, None, False),
        ("text", None, False),
    ],
)
def test_incomplete_answers_are_seen(response: object, reason: str | None, incomplete: bool) -> None:
    answer = llm_response.parse_completion(response, "x/y")
    assert (answer.stop_reason, answer.incomplete) == (reason, incomplete)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 7, "completion_tokens": 2}, Usage(7, 2)),
        (
            {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
            Usage(7, 2, cache_read=4),
        ),
        (
            {
                "input_tokens": 7,
                "output_tokens": 2,
                "cache_read_input_tokens": 30,
                "cache_creation_input_tokens": 3,
            },
            Usage(40, 2, 30, 3),
        ),
        (
            {"input": 7, "output": 2, "cacheRead": 10, "cacheWrite": 1, "cost": {"total": 0.25}},
            Usage(18, 2, 10, 1, Decimal("0.25")),
        ),
        ({"prompt_tokens": 1, "cost": "0.5"}, Usage(1, cost=Decimal("0.5"))),
        ({"prompt_tokens": -1, "cost": -1}, Usage()),
        ({"prompt_tokens": True, "cost": True}, Usage()),
        ({"cost": "NaN"}, Usage()),
        ({"cost": "much"}, Usage()),
    ],
)
def test_usage_in_every_spelling(usage: dict[str, Any], expected: Usage) -> None:
    assert llm_response.parse_usage({"usage": usage}) == expected


def test_block_types_are_named_once() -> None:
    response = {"content": [THINKING, THINKING, {"type": "tool_use", "input": {"type": "x"}}]}
    assert llm_response.parse_completion(response, "m").blocks == ("thinking", "tool_use", "x")
