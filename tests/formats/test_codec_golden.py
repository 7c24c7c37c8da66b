"""Payloads that SDKs and hosts write: what is read from them, and that they come back unchanged."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lossless.formats import decode, detect, encode
from lossless.model.messages import File, ModelIdentity, Opaque, Part, Reasoning, Text, ToolCall, ToolResult
from tests.formats.shapes import Body, golden, vectors

FILES = ("plain", "openai-chat", "openai-responses", "anthropic", "openclaw")
CASES = [pytest.param(file, body, id=f"{file}: {name}") for file in FILES for name, body in golden(file).items()]


@pytest.mark.parametrize(("file", "body"), CASES)
def test_comes_back_unchanged(file: str, body: Body) -> None:
    for message in (decode(body), decode(body, file)):
        assert json.dumps(encode([message], message.format)) == json.dumps([body])
        assert json.dumps(encode([message], file)) == json.dumps([body])


@pytest.mark.parametrize(("file", "body"), CASES)
def test_is_detected_as_its_format_or_as_plain(file: str, body: Body) -> None:
    assert detect(body) in (file, "plain")


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in vectors("stored")])
def test_is_stored_as_the_reference_stores_it(case: dict[str, Any]) -> None:
    message = decode(case["message"])
    stored = case["stored"]
    assert (message.role, message.content, message.tokens) == (stored["role"], stored["content"], stored["tokenCount"])
    assert message.event_key == case["eventKey"]


READ: list[tuple[str, str, str, str, tuple[Part, ...]]] = [
    ("plain", "user", "user", "hello", ()),
    ("plain", "one text block", "user", "hello", ()),
    ("plain", "two text blocks", "assistant", "one\ntwo", (Text("one"), Text("two"))),
    ("plain", "a string of JSON", "user", "inside", (Text('{"text": "inside", "n": 1}'),)),
    ("plain", "tool without an id", "tool", "42", (ToolResult(None, None, "42"),)),
    ("openai-chat", "developer", "system", "No emoji.", ()),
    (
        "openai-chat",
        "assistant with calls",
        "assistant",
        "",
        (
            ToolCall("call_0aB1cD2eF3gH4iJ5", "read", '{"path":"/var/log/app.log","lines":20}'),
            ToolCall("call_custom000001", "sql", "SELECT 1"),
        ),
    ),
    ("openai-chat", "assistant with a legacy call", "assistant", "", (ToolCall(None, "lookup", "{}"),)),
    ("openai-chat", "legacy function result", "tool", "42", (ToolResult(None, "lookup", "42"),)),
    (
        "openai-chat",
        "tool result in parts",
        "tool",
        "one\nrow",
        (ToolResult("call_custom000001", None, "one\nrow"),),
    ),
    ("openai-chat", "refusal", "assistant", "No.", ()),
    (
        "openai-chat",
        "answer",
        "assistant",
        "I will look.",
        (
            Reasoning("The user wants the file."),
            Text("I will look."),
            ToolCall("call_0aB1cD2eF3gH4iJ5", "read", '{"path": "a"}'),
        ),
    ),
    (
        "openai-responses",
        "function call",
        "assistant",
        "",
        (ToolCall("call_9zY8xW7vU6tS5rQ4", "ports", '{"host":"a"}'),),
    ),
    (
        "openai-responses",
        "function output",
        "tool",
        '{"ports": [22, 443]}',
        (ToolResult("call_9zY8xW7vU6tS5rQ4", None, '{"ports": [22, 443]}'),),
    ),
    ("openai-responses", "reasoning", "assistant", "", (Reasoning("Check the firewall.", "gAAAAAB"),)),
    ("openai-responses", "output message", "assistant", "Two ports are open.", ()),
    (
        "anthropic",
        "tool results",
        "tool",
        "ok\nno such file",
        (
            ToolResult("toolu_01A09q90qw90lq917835lq9", None, "ok"),
            ToolResult("toolu_01B09q90qw90lq917835lq9", None, "no such file", is_error=True),
        ),
    ),
    (
        "anthropic",
        "result and words",
        "user",
        "no such file\nTry again.",
        (
            ToolResult("toolu_01B09q90qw90lq917835lq9", None, "no such file", is_error=True),
            Text("Try again."),
        ),
    ),
    (
        "openclaw",
        "tool result",
        "tool",
        "03:00 start\n03:04 done",
        (ToolResult("call_0aB1cD2eF3gH", "exec", "03:00 start\n03:04 done"),),
    ),
    ("openclaw", "shell command", "user", "$ ls\na\nb", ()),
    (
        "openclaw",
        "object content",
        "user",
        "inner",
        (Opaque({"text": "inner", "lang": "en"}, "non-array-content"),),
    ),
]


@pytest.mark.parametrize(("file", "name", "role", "content", "parts"), READ)
def test_reads(file: str, name: str, role: str, content: str, parts: tuple[Part, ...]) -> None:
    message = decode(golden(file)[name])
    assert (message.role, message.content, message.parts) == (role, content, parts)


def test_reads_the_blocks_of_an_anthropic_answer() -> None:
    message = decode(golden("anthropic")["answer"])
    assert [type(part) for part in message.parts] == [Reasoning, Reasoning, Text, ToolCall, Opaque]
    assert message.parts[0] == Reasoning("I should read the file.", "EqQBCgIYAhIM")
    assert message.parts[1] == Reasoning("", "EmwKAhgBEgy3va3pzix")
    assert message.stop_reason == "tool_use"


def test_reads_an_openclaw_answer() -> None:
    message = decode(golden("openclaw")["answer with thinking and a call"])
    assert message.content == "Looking."
    assert message.event_key == "assistant-response:chatcmpl-1"
    assert message.identity == ModelIdentity("local", "openai-completions", "small-1", "small-1-2026")
    assert message.created_at == datetime(2026, 1, 5, 9, 22, 23, tzinfo=UTC)
    assert message.stop_reason == "toolUse"
    assert message.tool_calls[0].input == {"command": "tail -n 3 backup.log", "timeout": 1.5}


def test_a_spoken_answer_is_its_transcript() -> None:
    assert decode(golden("openai-chat")["audio"]).content == "Good morning."


def test_files_say_what_they_are() -> None:
    parts = decode(golden("openai-chat")["user with files"]).parts
    assert [(part.mime, part.name) for part in parts if isinstance(part, File)] == [
        ("image/png", None),
        ("audio/wav", None),
        ("application/pdf", "a.pdf"),
    ]
    document = decode(golden("anthropic")["user with files"]).parts[2]
    assert isinstance(document, File)
    assert (document.mime, document.name) == ("text/plain", "notes.txt")


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ({"role": "tool", "tool_call_id": "call_0aB1cD2eF3gH", "content": "x"}, "tool-result:call_0aB1cD2eF3gH"),
        ({"role": "tool", "tool_call_id": "call_short", "content": "x"}, None),
        ({"role": "toolResult", "toolCallId": "exec:1", "content": "x"}, None),
        (
            {
                "role": "toolResult",
                "toolCallId": "call_0aB1cD2eF3gH",
                "content": [{"type": "tool_result", "tool_use_id": "call_1aB1cD2eF3gH", "text": "x"}],
            },
            None,
        ),
        ({"role": "assistant", "content": "x", "response_id": "r"}, "assistant-response:r"),
        ({"role": "assistant", "content": "x", "responseId": " "}, None),
        ({"role": "user", "content": "x", "responseId": "r"}, None),
    ],
)
def test_the_event_key_is_the_id_that_a_provider_minted(body: Body, key: str | None) -> None:
    assert decode(body).event_key == key


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1767604939538, "2026-01-05T09:22:19.538000+00:00"),
        (1767604939, "2026-01-05T09:22:19+00:00"),
        ("2026-01-05T10:22:19.538+01:00", "2026-01-05T09:22:19.538000+00:00"),
        ("yesterday", None),
        (True, None),
        (10**400, None),
        ({}, None),
    ],
)
def test_the_time_is_read_in_either_form(value: object, expected: str | None) -> None:
    moment = decode({"role": "user", "content": "x", "created_at": value}).created_at
    assert (moment.isoformat() if moment else None) == expected


def test_thinking_whose_signature_is_an_openai_item_costs_what_the_item_costs() -> None:
    item = {"id": "rs_1", "type": "reasoning", "summary": []}
    block = {"type": "thinking", "thinking": "long " * 100, "thinkingSignature": json.dumps(item)}
    body = {"role": "assistant", "content": [block], "timestamp": 1}
    assert decode(body).tokens == len(json.dumps([item], separators=(",", ":"))) // 4 + 1
