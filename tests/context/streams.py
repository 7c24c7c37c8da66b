"""Conversations with tool calls, and what goes wrong with them."""

from __future__ import annotations

from hypothesis import strategies as st

from lossless.model.messages import Message, ModelIdentity, Part, Reasoning, Text, ToolCall, ToolResult

IDENTITY = ModelIdentity("anthropic", "messages", "claude-x")
IDS = st.sampled_from(["c1", "c2", "c3", "c4", "c5", "c6"])
FORMATS = st.sampled_from(["openai-chat", "openai-responses", "anthropic", "openclaw"])


def user(text: str) -> Message:
    return Message(role="user", content=text)


def assistant(
    *parts: Part | str,
    stop_reason: str | None = None,
    format: str = "openclaw",
    identity: ModelIdentity | None = None,
) -> Message:
    """An assistant's message; a plain string is the id of a call."""
    made = tuple(ToolCall(part, "t", {"of": part}) if isinstance(part, str) else part for part in parts)
    content = "\n".join(part.text for part in made if isinstance(part, Text))
    return Message("assistant", content, made, format, {"raw": True}, stop_reason=stop_reason, identity=identity)


def tool(call_id: str | None, text: str = "r", format: str = "openclaw") -> Message:
    return Message("tool", text, (ToolResult(call_id, "t", text),), format, {"raw": True})


def results(*call_ids: str, text: str | None = None) -> Message:
    """Several results in one message under the user's role, with words after them."""
    parts: tuple[Part, ...] = tuple(ToolResult(id, "t", f"r {id}") for id in call_ids)
    parts = (*parts, Text(text)) if text is not None else parts
    return Message("user", text or "", parts, "anthropic", {"raw": True})


@st.composite
def _turn(draw: st.DrawFn) -> list[Message]:
    format = draw(FORMATS)
    parts: list[Part] = []
    if draw(st.booleans()):
        parts.append(Reasoning("hm", draw(st.sampled_from([None, "sig"]))))
    if draw(st.booleans()):
        parts.append(Text(draw(st.sampled_from(["doing", "", "  ", "和"]))))
    ids = draw(st.lists(IDS, max_size=3))
    parts += [ToolCall(id, "t", {"n": n}) for n, id in enumerate(ids)]
    draw(st.randoms(use_true_random=False)).shuffle(parts)
    stop = draw(st.sampled_from([None, None, None, "stop", "error", "aborted"]))
    identity = draw(st.sampled_from([None, IDENTITY]))
    if format == "openai-responses":
        made = [assistant(part, stop_reason=stop, format=format, identity=identity) for part in parts]
    else:
        made = [assistant(*parts, stop_reason=stop, format=format, identity=identity)] if parts else []
    if format == "anthropic" and ids:
        said = draw(st.sampled_from([None, "also this", " "]))
        return [*made, results(*dict.fromkeys(ids), text=said)]
    return [*made, *(tool(id, f"r {id} {n}", format) for n, id in enumerate(ids))]


_OTHERS = st.sampled_from(
    [
        user("hello"),
        user("数据库"),
        user(""),
        user(" "),
        tool(None, "nameless"),
        tool(None, ""),
        tool("zz", "orphan"),
        Message("system", "be brief"),
        Message("tool", "bare"),
        assistant(Text("words")),
        assistant(Reasoning("…")),
        Message("assistant", ""),
        assistant(ToolCall(None, "t", {})),
    ]
)


@st.composite
def broken_streams(draw: st.DrawFn) -> tuple[Message, ...]:
    """Turns with calls and results, some of them dropped, repeated or moved."""
    turns = draw(st.lists(st.one_of(_turn(), _OTHERS.map(lambda message: [message])), max_size=8))
    stream = [message for turn in turns for message in turn]
    for _ in range(draw(st.integers(0, 6))):
        if not stream:
            break
        at = draw(st.integers(0, len(stream) - 1))
        match draw(st.sampled_from(["drop", "repeat", "move"])):
            case "drop":
                del stream[at]
            case "repeat":
                stream.insert(draw(st.integers(0, len(stream))), stream[at])
            case _:
                message = stream.pop(at)
                stream.insert(draw(st.integers(0, len(stream))), message)
    return tuple(stream)
