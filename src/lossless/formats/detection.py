"""Which format a message is in, from its own shape.

In this order, the first that fits:

1. a `type` that only Responses items have, without a role                → openai-responses
2. `type: "message"`: a `status`, a string or `input_…`/`output_…` blocks → openai-responses, else anthropic
3. role `toolResult`                                                      → openclaw
4. calls beside the content, or a `tool_call_id`                          → openai-chat
5. a key that only OpenClaw writes                                        → openclaw
6. a list of blocks with one whose type or fields tell                    → its format
7. a key or a role that only chat has, or an assistant's null content     → openai-chat
8. a key that only Anthropic's answers have                               → anthropic
9. a key that OpenClaw writes and others may (time, usage, provider)      → openclaw
10. a string or a list                                                    → plain
11. anything else (an object, nothing at all)                             → openclaw, which keeps it as it is

What is left as `plain` is valid in most formats and is given back to them as it came. Fields that nobody
knows never decide anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lossless.errors import BadMessage

if TYPE_CHECKING:
    from lossless.formats.shape import Raw

_CALL_KEYS = frozenset(("tool_calls", "tool_call_id", "function_call"))
_OPENCLAW_KEYS = frozenset(("api", "stopReason", "responseId", "toolCallId", "toolName", "isError", "__openclaw"))
_CHAT_KEYS = frozenset(("refusal", "audio", "name", "annotations", "reasoning_content"))
_ANTHROPIC_KEYS = frozenset(("stop_reason", "stop_sequence", "stop_details"))
_HOST_KEYS = frozenset(("timestamp", "usage", "provider", "idempotencyKey"))
_ITEM_TYPES = frozenset(("message", "reasoning", "function_call", "function_call_output", "item_reference")) | {
    "compaction",
    "compaction_trigger",
    "configuration_update",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_list_tools",
    "program",
    "program_output",
    "tool_search_output",
}
_BLOCK_FORMATS = {
    **dict.fromkeys(("input_text", "output_text", "input_image", "input_file"), "openai-responses"),
    **dict.fromkeys(("image_url", "input_audio", "refusal"), "openai-chat"),
    **dict.fromkeys(("toolCall", "toolUse", "tool-use", "functionCall"), "openclaw"),
    **dict.fromkeys(("tool_use", "tool_result", "redacted_thinking", "document"), "anthropic"),
    **dict.fromkeys(("server_tool_use", "mcp_tool_use", "search_result", "container_upload"), "anthropic"),
}


def detect(body: Any) -> str:
    """The name of the format that `body` is in; a message that is wrong in every format gets the nearest."""
    if not isinstance(body, dict):
        raise BadMessage(f"a message is an object (a dict), not {type(body).__name__}")
    content = body.get("content")
    if len(body) == 2 and type(content) is str and body.get("role") in ("user", "assistant", "system", "tool"):
        return "plain"
    kind, role = body.get("type"), body.get("role")
    if isinstance(kind, str) and (role is None or kind == "additional_tools") and _is_item(kind):
        return "openai-responses"
    if kind == "message" and role != "toolResult":
        is_item = "status" in body or isinstance(content, str) or _told_by_blocks(content) == "openai-responses"
        return "openai-responses" if is_item else "anthropic"
    if role == "toolResult":
        return "openclaw"
    if not _CALL_KEYS.isdisjoint(body):
        return "openai-chat"
    if not _OPENCLAW_KEYS.isdisjoint(body):
        return "openclaw"
    return _told_by_blocks(content) or _told_by_keys(body, role, content)


def _told_by_keys(body: Raw, role: Any, content: Any) -> str:
    if not _CHAT_KEYS.isdisjoint(body) or role in ("developer", "function"):
        return "openai-chat"
    if content is None and "content" in body and role == "assistant":
        return "openai-chat"
    if not _ANTHROPIC_KEYS.isdisjoint(body):
        return "anthropic"
    if not _HOST_KEYS.isdisjoint(body):
        return "openclaw"
    return "plain" if isinstance(content, str | list) else "openclaw"


def _is_item(kind: str) -> bool:
    return kind in _ITEM_TYPES or kind == "additional_tools" or kind.endswith(("_call", "_call_output"))


def _told_by_blocks(content: Any) -> str | None:
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict):
            continue
        kind = block.get("type")
        told = _told_by_block(kind, block) if isinstance(kind, str) else None
        if told is not None:
            return told
    return None


def _told_by_block(kind: str, block: Raw) -> str | None:
    if kind == "text":
        return "anthropic" if "cache_control" in block or "citations" in block else None
    if kind == "thinking":
        return "openclaw" if "thinkingSignature" in block else "anthropic"
    if kind == "image":
        return "anthropic" if "source" in block else "openclaw"
    if kind == "file":
        return "openai-chat" if "file" in block else "openclaw"
    if kind.endswith("_tool_result"):
        return "anthropic"
    return _BLOCK_FORMATS.get(kind)
