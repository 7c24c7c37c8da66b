"""From one format to another, through the parts."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.formats import FORMATS, decode, encode
from lossless.formats.anthropic import tool_id
from lossless.model.messages import Message, Reasoning, Text, ToolCall, ToolResult
from tests.formats.shapes import Body, golden, words

TURN: list[Body] = [
    {"role": "user", "content": "Weather in Oslo and Rome?"},
    {
        "role": "assistant",
        "content": "I ask.",
        "tool_calls": [
            {
                "id": "call_oslo00000001",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city":"Oslo"}'},
            },
            {
                "id": "call_rome00000001",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city":"Rome"}'},
            },
        ],
    },
    {"role": "tool", "tool_call_id": "call_oslo00000001", "content": "-3"},
    {"role": "tool", "tool_call_id": "call_rome00000001", "content": "14"},
    {"role": "assistant", "content": "Cold, and mild."},
]
CLAUDE: list[Body] = [
    {"role": "user", "content": "Weather in Oslo and Rome?"},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I ask."},
            {"type": "tool_use", "id": "call_oslo00000001", "name": "weather", "input": {"city": "Oslo"}},
            {"type": "tool_use", "id": "call_rome00000001", "name": "weather", "input": {"city": "Rome"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "call_oslo00000001", "content": "-3"},
            {"type": "tool_result", "tool_use_id": "call_rome00000001", "content": "14"},
        ],
    },
    {"role": "assistant", "content": "Cold, and mild."},
]
RESPONSES: list[Body] = [
    {"role": "user", "content": "Weather in Oslo and Rome?"},
    {"role": "assistant", "content": "I ask."},
    {"type": "function_call", "call_id": "call_oslo00000001", "name": "weather", "arguments": '{"city":"Oslo"}'},
    {"type": "function_call", "call_id": "call_rome00000001", "name": "weather", "arguments": '{"city":"Rome"}'},
    {"type": "function_call_output", "call_id": "call_oslo00000001", "output": "-3"},
    {"type": "function_call_output", "call_id": "call_rome00000001", "output": "14"},
    {"role": "assistant", "content": "Cold, and mild."},
]
ITEMS = [
    {
        "type": "message",
        "role": item["role"],
        "status": "completed",
        "content": [{"type": "output_text", "text": item["content"]}],
    }
    if item.get("role") == "assistant"
    else item
    for item in RESPONSES
]
SOURCES = {"openai-chat": TURN, "anthropic": CLAUDE, "openai-responses": ITEMS}
TARGETS = {"openai-chat": TURN, "anthropic": CLAUDE, "openai-responses": RESPONSES}


def converted(bodies: list[Body], format: str) -> list[Body]:
    return encode([decode(body) for body in bodies], format)


@pytest.mark.parametrize(("source", "target"), list(permutations(SOURCES, 2)))
def test_a_turn_with_parallel_calls(source: str, target: str) -> None:
    assert json.dumps(converted(SOURCES[source], target)) == json.dumps(TARGETS[target])


def test_a_turn_for_openclaw() -> None:
    user, answer, oslo, rome, last = converted(ITEMS, "openclaw")
    assert user == {"role": "user", "content": "Weather in Oslo and Rome?"}
    assert [block["type"] for block in answer["content"]] == ["text", "toolCall", "toolCall"]
    assert answer["content"][1]["arguments"] == {"city": "Oslo"}
    assert answer["usage"]["output"] == answer["usage"]["totalTokens"] > 0
    assert oslo == {
        "role": "toolResult",
        "content": [{"type": "text", "text": "-3"}],
        "toolCallId": "call_oslo00000001",
        "toolName": "unknown",
        "isError": False,
    }
    assert rome["toolCallId"] == "call_rome00000001"
    assert last["content"] == [{"type": "text", "text": "Cold, and mild."}]
    assert converted([user, answer, oslo, rome, last], "anthropic") == CLAUDE


def test_a_turn_as_plain_text() -> None:
    assert converted(TURN, "plain")[1:3] == [
        {"role": "assistant", "content": "I ask."},
        {"role": "tool", "content": "-3"},
    ]
    assert converted([{"role": "assistant", "content": None, "tool_calls": TURN[1]["tool_calls"][:1]}], "plain") == [
        {"role": "assistant", "content": '[tool call: weather {"city":"Oslo"}]'}
    ]


def test_thinking_stays_where_it_came_from() -> None:
    answer = decode(golden("anthropic")["answer"])
    for target in set(FORMATS) - {"anthropic"}:
        assert "I should read" not in json.dumps(encode([answer], target))
    assert encode([decode(golden("openai-responses")["reasoning"])], "anthropic") == []


@pytest.mark.parametrize("format", ["anthropic", "openclaw", "openai-chat"])
def test_a_message_whose_parts_were_changed_is_built_anew_with_its_thinking(format: str) -> None:
    parts = (Reasoning("why", "sig"), Text("so"), ToolCall("call_a", "f", {"n": 1}))
    message = Message("assistant", "so", parts, format)
    (wire,) = encode([message], format)
    again = decode(wire, format)
    assert again.tool_calls[0].name == "f"
    assert [part.text for part in again.parts if isinstance(part, Reasoning)] == ["why"]


def test_changed_results_are_built_anew() -> None:
    message = decode(golden("openclaw")["tool result"])
    stub = replace(message, body=None, content="gone", parts=(replace(message.tool_results[0], text="gone"),))
    (wire,) = encode([stub], "openclaw")
    assert wire["content"] == [{"type": "text", "text": "gone"}]
    assert wire["toolName"] == "exec"


def test_unknown_blocks_and_files_of_a_changed_message_stay_as_they_came() -> None:
    message = decode(golden("anthropic")["user with files"])
    changed = replace(message, body=None, parts=message.parts[1:])
    (wire,) = encode([changed], "anthropic")
    assert wire["content"] == golden("anthropic")["user with files"]["content"][1:]
    answer = decode(golden("anthropic")["answer"])
    (wire,) = encode([replace(answer, body=None)], "anthropic")
    assert wire["content"][-1] == golden("anthropic")["answer"]["content"][-1]


@pytest.mark.parametrize(
    ("source", "target"),
    [("openai-chat", "anthropic"), ("anthropic", "openai-responses"), ("openai-responses", "openclaw")],
)
def test_an_image_finds_its_way(source: str, target: str) -> None:
    body = golden(source)["user with files"]
    (wire,) = converted([body], target)
    (back,) = converted([wire], source)
    image = next(block for block in body["content"] if "image" in block["type"])
    assert json.dumps(image).split("base64,")[-1][:40] in json.dumps(back)


def test_a_text_document_becomes_its_text() -> None:
    (wire,) = converted([golden("anthropic")["user with files"]], "openai-chat")
    assert wire["content"][2] == {"type": "text", "text": "Line one."}


def test_a_file_that_a_format_cannot_carry_is_named() -> None:
    (wire,) = converted([golden("openai-chat")["user with files"]], "openclaw")
    assert wire["content"][3] == {"type": "text", "text": "[attached file: a.pdf, application/pdf]"}


def test_an_image_in_a_tool_result_stays_in_it() -> None:
    image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    body = {"role": "toolResult", "toolCallId": "call_0aB1cD2eF3gH", "toolName": "shot", "content": [image]}
    (claude,) = converted([body], "anthropic")
    assert claude["content"][0]["content"][-1]["source"]["data"] == "iVBORw0KGgo="
    (item,) = converted([body], "openai-responses")
    assert item["output"][-1]["image_url"] == "data:image/png;base64,iVBORw0KGgo="


def test_a_result_of_json_is_passed_on_whole() -> None:
    body = {"role": "tool", "tool_call_id": "call_0aB1cD2eF3gH", "content": '{"message": "ok", "status": 3}'}
    message = decode(body)
    assert message.content == body["content"]
    (wire,) = encode([message], "anthropic")
    assert wire["content"][0]["content"] == body["content"]


def test_a_result_whose_words_lie_inside_json_is_passed_on_whole() -> None:
    body = {"role": "toolResult", "toolCallId": "call_a", "content": '{"message": "ok", "status": 3}'}
    message = decode(body)
    assert message.content == "ok"
    (wire,) = encode([message], "anthropic")
    assert wire["content"][0]["content"] == body["content"]


def test_ids_fit_the_format_and_still_pair() -> None:
    call = Message("assistant", "", (ToolCall("call_1|fc_2", "f", "{}"),))
    result = Message("tool", "x", (ToolResult("call_1|fc_2", "f", "x"),))
    answer, back = encode([call, result], "anthropic")
    assert answer["content"][0]["id"] == back["content"][0]["tool_use_id"] == tool_id("call_1|fc_2")


@pytest.mark.parametrize(
    ("given_input", "as_object", "as_text"),
    [
        ({"n": 1.0}, {"n": 1.0}, '{"n":1.0}'),
        ('{"n": 2}', {"n": 2}, '{"n": 2}'),
        ("", {}, '{"input":""}'),
        ("SELECT 1", {"input": "SELECT 1"}, '{"input":"SELECT 1"}'),
        ([1], {"input": [1]}, "[1]"),
        (None, {}, "{}"),
        ('{"n":' * 300 + "1" + "}" * 300, {"input": '{"n":' * 300 + "1" + "}" * 300}, '{"n":' * 300 + "1" + "}" * 300),
        ("[NaN]", {"input": "[NaN]"}, '{"input":"[NaN]"}'),
    ],
)
def test_arguments_take_the_form_that_is_wanted(given_input: Any, as_object: Body, as_text: str) -> None:
    message = Message("assistant", "", (ToolCall("call_a", "f", given_input),))
    assert encode([message], "anthropic")[0]["content"][0]["input"] == as_object
    assert encode([message], "openai-chat")[0]["tool_calls"][0]["function"]["arguments"] == as_text


def test_unknown_fields_of_a_plain_message_stay_its_own() -> None:
    body = {"role": "user", "content": "hi", "x_mark": [1]}
    assert encode([decode(body)], "plain") == [body]
    for format in ("openai-chat", "anthropic"):
        assert encode([decode(body)], format) == [{"role": "user", "content": "hi"}]


def test_fields_of_one_host_do_not_reach_another_provider() -> None:
    body = {"role": "user", "content": "hi", "timestamp": 1767604939538}
    assert converted([body], "openai-chat") == [{"role": "user", "content": "hi"}]


@given(texts=st.lists(words, min_size=1, max_size=4), target=st.sampled_from(sorted(FORMATS)))
def test_words_are_never_lost(texts: list[str], target: str) -> None:
    results = tuple(ToolResult(f"call_{index}", "f", text) for index, text in enumerate(texts))
    message = Message("tool", "\n".join(texts), results)
    shown = json.dumps(encode([message], target), ensure_ascii=False)
    assert all(json.dumps(text, ensure_ascii=False)[1:-1] in shown for text in texts)
