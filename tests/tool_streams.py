"""Conversations with tools in OpenClaw's form, whole and damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from lossless.testing.strategies import JsonDict


@st.composite
def tool_streams(draw: DrawFn, max_turns: int = 4, max_damage: int = 4) -> tuple[list[JsonDict], list[JsonDict]]:
    """Turns with calls and results, in OpenClaw's form; then with messages dropped, doubled or moved."""
    reuse = draw(st.booleans())
    clean: list[JsonDict] = []
    for turn in range(draw(st.integers(1, max_turns))):
        ids = [f"call_{0 if reuse else turn}_{number}" for number in range(draw(st.integers(0, 3)))]
        clean += _turn(turn, ids, draw(st.booleans()))
    damaged = list(clean)
    for _ in range(draw(st.integers(0, max_damage))):
        if damaged:
            kind = draw(st.sampled_from(("drop", "double", "move")))
            place = draw(st.integers(0, len(damaged) - 1))
            message = damaged[place] if kind == "double" else damaged.pop(place)
            if kind != "drop":
                damaged.insert(draw(st.integers(0, len(damaged))), message)
    return clean, damaged


def _turn(turn: int, ids: list[str], speaks: bool) -> list[JsonDict]:
    at = 1_767_603_600_000 + turn * 60_000

    def message(role: str, text: str, later: int, **fields: Any) -> JsonDict:
        content = [{"type": "text", "text": text}] if text else []
        return {"role": role, "content": content, **fields, "timestamp": at + later}

    first = message("assistant", f"looking {turn}" if speaks or not ids else "", 1000, stopReason="stop")
    if ids:
        first["stopReason"] = "toolUse"
    first["content"] += [{"type": "toolCall", "id": id, "name": "exec", "arguments": {"n": turn}} for id in ids]
    results = []
    for place, id in enumerate(ids):
        known = {"toolCallId": id, "toolName": "exec", "isError": False}
        results.append(message("toolResult", f"result {turn} of {id}", 2000 + place, **known))
    answer = [message("assistant", f"answer {turn}", 3000, stopReason="stop")] if ids else []
    return [message("user", f"question {turn}", 0), first, *results, *answer]
