from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lossless.errors import BadMessage
from lossless.formats import detect

if TYPE_CHECKING:
    from tests.formats.shapes import Body

TEXT = {"type": "text", "text": "hi"}


@pytest.mark.parametrize(
    ("body", "format"),
    [
        ({"role": "user", "content": "hi"}, "plain"),
        ({"role": "user", "content": [TEXT]}, "plain"),
        ({"role": "user", "content": "hi", "x_unknown": {"a": 1}}, "plain"),
        ({"role": "user", "content": [{"type": "x_new", "a": 1}]}, "plain"),
        ({"role": "user", "content": []}, "plain"),
        ({"role": "toolResult", "content": "hi"}, "openclaw"),
        ({"role": "user", "content": "hi", "timestamp": 1}, "openclaw"),
        ({"role": "assistant", "content": [TEXT], "usage": {}}, "openclaw"),
        ({"role": "assistant", "content": [{"type": "tool_use"}], "api": "a"}, "openclaw"),
        ({"role": "assistant", "content": [TEXT, {"type": "toolCall"}]}, "openclaw"),
        ({"role": "assistant", "content": [{"type": "thinking", "thinkingSignature": "s"}]}, "openclaw"),
        ({"role": "user", "content": [{"type": "image", "data": "AA"}]}, "openclaw"),
        ({"role": "user", "content": {"text": "hi"}}, "openclaw"),
        ({"role": "user"}, "openclaw"),
        ({"role": "developer", "content": "hi"}, "openai-chat"),
        ({"role": "assistant", "content": None}, "openai-chat"),
        ({"role": "assistant", "content": "hi", "tool_calls": None}, "openai-chat"),
        ({"role": "assistant", "content": None, "tool_calls": [], "timestamp": 1}, "openai-chat"),
        ({"role": "user", "content": "hi", "name": "ada", "timestamp": 1}, "openai-chat"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "openai-chat"),
        ({"role": "user", "content": [{"type": "file", "file": {}}]}, "openai-chat"),
        ({"role": "assistant", "content": [{"type": "tool_use"}]}, "anthropic"),
        ({"role": "user", "content": [TEXT | {"cache_control": None}]}, "anthropic"),
        ({"role": "user", "content": [{"type": "image", "source": {}}]}, "anthropic"),
        ({"role": "assistant", "content": [{"type": "web_fetch_tool_result"}]}, "anthropic"),
        ({"role": "assistant", "content": [TEXT], "stop_reason": "end_turn", "usage": {}}, "anthropic"),
        ({"role": "user", "content": [{"type": "tool_result"}], "timestamp": 1}, "anthropic"),
        ({"type": "message", "role": "assistant", "content": [TEXT]}, "anthropic"),
        ({"type": "message", "role": "user", "content": "hi"}, "openai-responses"),
        ({"type": "message", "role": "assistant", "content": [], "status": "completed"}, "openai-responses"),
        ({"role": "developer", "content": [{"type": "input_text"}]}, "openai-responses"),
        ({"type": "reasoning", "summary": []}, "openai-responses"),
        ({"type": "x_new_call", "id": "1"}, "openai-responses"),
        ({"type": "additional_tools", "role": "developer", "tools": []}, "openai-responses"),
    ],
)
def test_the_shape_tells(body: Body, format: str) -> None:
    assert detect(body) == format


def test_what_is_no_object_has_no_format() -> None:
    with pytest.raises(BadMessage, match="an object"):
        detect(["role"])
