from __future__ import annotations

import pytest

from lossless.model.messages import remove_reasoning


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>a</think>b", "b"),
        ("a <THINK>x</THINK> b <reasoning>y</reasoning>c", "a  b c"),
        ("<think>never closed", ""),
        ("kept\n <thinking>never closed", "kept"),
        ("use <think> to think", "use <think> to think"),
        ("`<think>` and `</think>`", "`<think>` and `</think>`"),
        ("a <think> b\n<think>c", "a <think> b"),
        ("a <think> b</think> c <think>", "a  c <think>"),
        ("no tags", "no tags"),
    ],
)
def test_thinking_tags(text: str, expected: str) -> None:
    assert remove_reasoning(text) == expected
