"""The text of a message, by the reference's rules."""

from __future__ import annotations

from typing import Any

import pytest

from lossless.formats import decode
from lossless.formats.reading import content_text


def nested(depth: int, inner: Any) -> Any:
    for _ in range(depth):
        inner = {"value": inner}
    return inner


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("hello", "hello"),
        ("  ", "  "),
        (None, ""),
        ([], ""),
        ({"text": "a", "transcript": "b"}, "a"),
        ({"text": "  ", "summary": "b"}, "b"),
        ({"segments": [{"text": "a"}, {"text": ""}, "b"]}, "a\nb"),
        ({"words": [], "content": [{"text": "deep"}]}, "deep"),
        ({"data": {"payload": {"result": "x"}}}, "x"),
        ({"text": {"value": "a"}, "content": "b"}, "a"),
        ({"segments": {"text": "a"}, "value": "b"}, "b"),
        ({"results": ["a"], "data": "b"}, "a"),
        (5, "5"),
        ('{"text": "inside"}', "inside"),
        ('{"message": "ok", "status": 3}', "ok"),
        ('{"status": 3, "ports": [22, 443]}', '{"status": 3, "ports": [22, 443]}'),
        ('[{"type": "thinking", "text": "a"}]', '[{"type": "thinking", "text": "a"}]'),
        ('{"text": "a"} and more', '{"text": "a"} and more'),
        ('"text"', '"text"'),
        ('["[\\"kept\\"]"]', '["kept"]'),
        ('{"value": ' * 7 + '"lost"' + "}" * 7, '{"value": ' * 7 + '"lost"' + "}" * 7),
        (['{"text": "kept"}'], '{"text": "kept"}'),
        ('  [{"text": "a"}, "b"]\n', "a\nb"),
        ('{"a": 1}', '{"a": 1}'),
        ('{"text": NaN}', '{"text": NaN}'),
        ("{not json}", "{not json}"),
        ("[" * 5000 + "]" * 5000, "[" * 5000 + "]" * 5000),
        ([{"type": "text", "text": '{"text": "kept"}'}], '{"text": "kept"}'),
        ([{"type": "thinking", "thinking": "a"}, {"type": "toolCall", "name": "b"}], ""),
        ([{"type": "tool_result", "content": "a"}], ""),
        ([{"type": "tool", "output": "a"}], ""),
        ([{"type": "tool_result", "content": "[LCM …]", "toolOutputExternalized": True}], "[LCM …]"),
        ([{"type": "text", "text": "say"}, {"type": "reasoning", "summary": "no"}], "say"),
        ([{"type": "text", "text": ""}], '[{"type":"text","text":""}]'),
        ([{"type": "chart", "n": 1.0}], '[{"type":"chart","n":1}]'),
        ([1, True, None], "[1,true,null]"),
        (nested(6, "found"), "found"),
        (nested(7, "lost"), '{"value":' * 7 + '"lost"' + "}" * 7),
    ],
)
def test_the_words_inside(content: Any, text: str) -> None:
    assert content_text(content) == text
    assert decode({"role": "user", "content": content}, "openclaw").content == text


@pytest.mark.parametrize("format", ["anthropic", "openai-chat", "openai-responses"])
def test_a_string_of_json_is_only_opened_for_hosts_that_do_so(format: str) -> None:
    assert decode({"role": "user", "content": '{"text": "inside"}'}, format).content == '{"text": "inside"}'
    assert decode({"role": "user", "content": '{"text": "inside"}'}, "plain").content == "inside"


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ({"role": "user", "content": "abcde"}, 2),
        ({"role": "user", "content": [{"type": "text", "text": "abcde"}]}, 2),
        ({"role": "assistant", "content": [{"type": "text", "text": "abcde"}]}, 8),
        ({"role": "assistant", "content": "abcde", "reasoning_content": "abcde"}, 4),
        ({"role": "user", "content": {"n": 1.0}}, 3),
        ({"role": "user", "content": []}, 0),
    ],
)
def test_the_stored_token_count(body: dict[str, Any], tokens: int) -> None:
    assert decode(body).tokens == tokens


def test_data_of_an_image_is_not_text() -> None:
    block = {"type": "image", "data": "iVBOR" + "A" * 10_000, "mimeType": "image/png"}
    message = decode({"role": "user", "content": [block]})
    assert message.content == ""
    assert message.tokens == 1600 + 13
