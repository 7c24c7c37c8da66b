"""Messages of every format, as hypothesis draws them: any text, any extra field, any key order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

Body = dict[str, Any]

GOLDEN = Path(__file__).parent.parent / "golden"

#: Every code point, lone surrogates and NUL included, with the troublemakers drawn often.
texts = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=12),
    st.sampled_from(
        ["", " ", "\ufeff", "{}", "[1]", '{"text":"in"}', "\ud83d", "\u2028", "a\x00b", "العربية", "👩‍💻", "NaN"]
    ),
)
words = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)
ids = st.one_of(st.from_regex(r"(call_|toolu_)[A-Za-z0-9]{12,16}", fullmatch=True), texts)
numbers = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([1.0, -0.0, 1e-7])
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def golden(name: str) -> dict[str, Body]:
    """The golden messages of one format, by what they show."""
    found: dict[str, Body] = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return found


def vectors(topic: str) -> list[Any]:
    """What the reference's own functions answered."""
    found: list[Any] = golden("vectors")[topic]  # type: ignore[assignment]
    return found


@st.composite
def messages(draw: st.DrawFn, fixed: Body, optional: dict[str, st.SearchStrategy[Any]]) -> Body:
    """`fixed` with drawn values, some of the optional fields and some that nobody knows, in any order."""
    body = {key: draw(value) if isinstance(value, st.SearchStrategy) else value for key, value in fixed.items()}
    for key in draw(st.lists(st.sampled_from(sorted(optional)), unique=True) if optional else st.just([])):
        body[key] = draw(optional[key])
    body |= draw(st.dictionaries(words.map(lambda word: f"x_{word}"), values, max_size=2))
    return {key: body[key] for key in draw(st.permutations(list(body)))}


def block(**fields: Any) -> st.SearchStrategy[Body]:
    return messages(fields, {})


text_block = block(type="text", text=texts)
unknown_block = block(type=words.map(lambda word: f"x_{word}"))

_function = st.fixed_dictionaries({"name": words, "arguments": texts | values})
_tool_calls = st.lists(
    st.fixed_dictionaries({"id": ids, "type": st.just("function"), "function": _function}), max_size=2
)
_chat_parts = st.lists(
    text_block
    | unknown_block
    | block(type="image_url", image_url=st.fixed_dictionaries({"url": texts}))
    | block(type="refusal", refusal=texts),
    max_size=3,
)
chat = st.one_of(
    messages(
        {"role": st.sampled_from(["system", "developer", "user"]), "content": texts | _chat_parts}, {"name": words}
    ),
    messages(
        {"role": "assistant", "content": st.none() | texts | _chat_parts},
        {
            "tool_calls": st.none() | _tool_calls,
            "refusal": st.none() | texts,
            "reasoning_content": texts,
            "function_call": _function,
            "audio": st.none() | st.fixed_dictionaries({"id": texts}),
        },
    ),
    messages(
        {"role": "tool", "tool_call_id": ids, "content": texts | st.lists(text_block, max_size=2)}, {"name": words}
    ),
    messages({"role": "function", "name": words, "content": texts}, {}),
)

_input_parts = st.lists(
    block(type="input_text", text=texts) | block(type="input_image", image_url=texts) | unknown_block, max_size=3
)
_output_parts = st.lists(block(type="output_text", text=texts, annotations=st.just([])), max_size=2)
responses = st.one_of(
    messages({"type": "message", "role": "user", "content": texts | _input_parts}, {}),
    messages({"type": "message", "role": "assistant", "content": _output_parts, "status": "completed"}, {"id": texts}),
    messages({"type": "function_call", "call_id": ids, "name": words, "arguments": texts}, {"id": texts}),
    messages({"type": "function_call_output", "call_id": ids, "output": texts | _input_parts}, {"id": texts}),
    messages(
        {"type": "reasoning", "summary": st.lists(block(type="summary_text", text=texts), max_size=2)}, {"id": texts}
    ),
    messages({"type": st.sampled_from(["web_search_call", "mcp_call", "computer_call_output"])}, {"output": values}),
)

_claude_blocks = st.one_of(
    text_block,
    unknown_block,
    block(type="thinking", thinking=texts, signature=texts),
    block(type="redacted_thinking", data=texts),
    block(type="tool_use", id=ids, name=words, input=st.dictionaries(words, values, max_size=2)),
    block(type="tool_result", tool_use_id=ids, content=texts | st.lists(text_block, max_size=2)),
    block(type="image", source=st.fixed_dictionaries({"type": st.just("base64"), "data": texts})),
)
claude = messages(
    {"role": st.sampled_from(["user", "assistant"]), "content": texts | st.lists(_claude_blocks, max_size=4)},
    {"stop_reason": st.none() | texts},
)

_claw_blocks = st.one_of(
    text_block,
    unknown_block,
    values,
    block(type="thinking", thinking=texts, thinkingSignature=texts),
    block(type="toolCall", id=ids, name=words, arguments=values),
    block(type="image", data=texts, mimeType=texts),
    block(type="tool_result", content=values),
)
openclaw = messages(
    {"role": st.sampled_from(["user", "assistant", "toolResult", "system"])},
    {
        "content": texts | values | st.lists(_claw_blocks, max_size=4),
        "timestamp": values | st.integers(0, 2**44),
        "provider": texts,
        "api": texts,
        "model": texts,
        "stopReason": texts | values,
        "responseId": texts | values,
        "toolCallId": ids,
        "command": values,
        "output": values,
    },
)
plain = messages({"role": st.sampled_from(["user", "assistant", "system", "tool"]), "content": texts}, {})

by_format = {
    "plain": plain,
    "openai-chat": chat,
    "openai-responses": responses,
    "anthropic": claude,
    "openclaw": openclaw,
}

_KNOWN_KEYS = st.sampled_from(
    ["role", "content", "type", "tool_calls", "call_id", "output", "timestamp", "provider", "status", "refusal", "name"]
)
_KNOWN_VALUES = st.sampled_from(
    ["user", "assistant", "tool", "toolResult", "message", "function_call", "reasoning", "text", "tool_use", "image"]
)
#: Objects that look a little like messages and are wrong in every possible way.
wrong = st.recursive(
    values | _KNOWN_VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KNOWN_KEYS | texts, inner, max_size=5),
    max_leaves=15,
)
