"""What a strict provider says about a request: plain dicts in, complaints out; nothing of the package."""

from __future__ import annotations

from itertools import groupby
from typing import Any

Raw = dict[str, Any]


def _pairs(calls: list[str], results: list[str], at: str) -> list[str]:
    found = [f"{at}: call {id} has no result right after it" for id in calls if id not in results]
    found += [f"{at}: result {id} without its call right before it" for id in results if id not in calls]
    found += [f"{at}: {id} answered {results.count(id)} times" for id in set(results) if results.count(id) > 1]
    return found


def _unique(ids: list[str]) -> list[str]:
    return [f"call id {id!r} is used {ids.count(id)} times" for id in set(ids) if ids.count(id) > 1 or not id]


def check_openai_chat(messages: list[Raw]) -> list[str]:
    """Complaints about a list of chat-completions messages."""
    found: list[str] = []
    ids: list[str] = []
    if not any(m["role"] == "user" for m in messages):
        found.append("no user message")
    if messages and messages[-1]["role"] == "assistant":
        found.append("ends with an assistant message")
    index = 0
    while index < len(messages):
        message, at = messages[index], f"message {index}"
        calls = [call["id"] for call in message.get("tool_calls", [])]
        ids += calls
        content = message.get("content")
        if message["role"] != "tool" and not calls and not (content and str(content).strip()):
            found.append(f"{at}: empty content")
        if isinstance(content, list) and any(b["type"] == "text" and not b["text"].strip() for b in content):
            found.append(f"{at}: blank text block")
        index += 1
        results = []
        while index < len(messages) and messages[index]["role"] == "tool":
            results.append(messages[index]["tool_call_id"])
            index += 1
        found += _pairs(calls, results, at)
    return found + _unique(ids)


def check_openai_responses(items: list[Raw]) -> list[str]:
    """Complaints about the input items of a Responses request."""
    found: list[str] = []
    kinds = [_kind(item) for item in items]
    if "user" not in kinds:
        found.append("no user message")
    if kinds and kinds[-1] in ("assistant", "call", "reasoning"):
        found.append("ends with an item of the assistant")
    ids = [item["call_id"] for item in items if item.get("type") == "function_call"]
    for index, item in enumerate(items):
        if item.get("type", "message") == "message" and not item["content"].strip():
            found.append(f"item {index}: empty content")
        if kinds[index] == "reasoning" and kinds[index + 1 : index + 2] not in (
            ["assistant"],
            ["call"],
            ["reasoning"],
        ):
            found.append(f"item {index}: reasoning without the item that it led to")
    position = 0
    calls: list[str] = []
    for is_mine, run in groupby(kinds, key=lambda kind: kind in ("assistant", "call", "reasoning")):
        size = len(list(run))
        part = items[position : position + size]
        position += size
        if is_mine:
            calls = [item["call_id"] for item in part if item.get("type") == "function_call"]
            if position == len(items):
                found += _pairs(calls, [], f"item {position}")
            continue
        leading = [i for i, item in enumerate(part) if item.get("type") == "function_call_output"]
        if leading != list(range(len(leading))):
            found.append(f"item {position}: an output stands apart from its call")
        found += _pairs(calls, [part[i]["call_id"] for i in leading], f"item {position}")
        calls = []
    return found + _unique(ids)


def _kind(item: Raw) -> str:
    kinds = {"function_call": "call", "function_call_output": "output", "reasoning": "reasoning"}
    return kinds.get(item.get("type", "message")) or str(item["role"])


def check_anthropic(payload: Raw) -> list[str]:
    """Complaints about a messages request; neighbours of one role are one turn, as the service joins them."""
    found: list[str] = []
    for index, message in enumerate(payload["messages"]):
        if message["role"] not in ("user", "assistant"):
            found.append(f"message {index}: role {message['role']}")
        if not message["content"]:
            found.append(f"message {index}: empty content")
    turns = [
        (role, [block for message in group for block in message["content"]])
        for role, group in groupby(payload["messages"], key=lambda message: message["role"])
    ]
    if not turns or turns[0][0] != "user":
        found.append("does not begin with a user message")
    if turns and turns[-1][0] == "assistant":
        found.append("ends with an assistant message")
    ids = [block["id"] for _, blocks in turns for block in blocks if block["type"] == "tool_use"]
    calls: list[str] = []
    for index, (role, blocks) in enumerate(turns):
        found += _blocks(role, blocks, f"turn {index}")
        results = [i for i, block in enumerate(blocks) if block["type"] == "tool_result"]
        if results != list(range(len(results))):
            found.append(f"turn {index}: tool results are not first")
        found += _pairs(calls, [blocks[i]["tool_use_id"] for i in results], f"turn {index}")
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"] if role == "assistant" else []
    found += _pairs(calls, [], "end")
    return found + _unique(ids)


def _blocks(role: str, blocks: list[Raw], at: str) -> list[str]:
    found = [f"{at}: blank text" for block in blocks if block["type"] == "text" and not block["text"].strip()]
    thinking = [block for block in blocks if block["type"] == "thinking"]
    found += [f"{at}: thinking without signature" for block in thinking if not block.get("signature")]
    if thinking and len(thinking) == len(blocks):
        found.append(f"{at}: only thinking")
    if role == "user" and any(block["type"] in ("thinking", "tool_use") for block in blocks):
        found.append(f"{at}: an assistant's block under the user's role")
    return found
