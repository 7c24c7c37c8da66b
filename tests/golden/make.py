"""Write the golden payloads that the SDKs of OpenAI and Anthropic serialise.

Run `python tests/golden/make.py` after an upgrade of the SDKs and look at the difference.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anthropic.types as claude
import openai.types.chat as chat
import openai.types.responses as responses

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).parent
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def chat_params() -> dict[str, Mapping[str, Any]]:
    system: chat.ChatCompletionSystemMessageParam = {"role": "system", "content": "Answer in one line."}
    developer: chat.ChatCompletionDeveloperMessageParam = {"role": "developer", "content": "No emoji."}
    user: chat.ChatCompletionUserMessageParam = {"role": "user", "name": "ada", "content": "Where is the log?"}
    picture: chat.ChatCompletionUserMessageParam = {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is in this picture?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"}},
            {"type": "input_audio", "input_audio": {"data": "UklGRiQAAABXQVZF", "format": "wav"}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a.pdf"}},
        ],
    }
    calls: chat.ChatCompletionAssistantMessageParam = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_0aB1cD2eF3gH4iJ5",
                "type": "function",
                "function": {"name": "read", "arguments": '{"path":"/var/log/app.log","lines":20}'},
            },
            {"id": "call_custom000001", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}},
        ],
    }
    legacy: chat.ChatCompletionAssistantMessageParam = {
        "role": "assistant",
        "content": "",
        "function_call": {"name": "lookup", "arguments": "{}"},
    }
    function: chat.ChatCompletionFunctionMessageParam = {"role": "function", "name": "lookup", "content": "42"}
    tool: chat.ChatCompletionToolMessageParam = {
        "role": "tool",
        "tool_call_id": "call_0aB1cD2eF3gH4iJ5",
        "content": "ERROR disk full",
    }
    parts: chat.ChatCompletionToolMessageParam = {
        "role": "tool",
        "tool_call_id": "call_custom000001",
        "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "row"}],
    }
    refused: chat.ChatCompletionAssistantMessageParam = {
        "role": "assistant",
        "content": [{"type": "refusal", "refusal": "I cannot help with that."}],
    }
    return {
        "system": system,
        "developer": developer,
        "user with a name": user,
        "user with files": picture,
        "assistant with calls": calls,
        "assistant with a legacy call": legacy,
        "legacy function result": function,
        "tool result": tool,
        "tool result in parts": parts,
        "assistant refusal part": refused,
    }


def chat_answers() -> dict[str, Mapping[str, Any]]:
    function = {"name": "read", "arguments": '{"path": "a"}'}
    spoken = chat.ChatCompletionMessage.model_validate(
        {
            "role": "assistant",
            "content": None,
            "audio": {"id": "audio_1", "data": "UklGRg==", "expires_at": 1767604939, "transcript": "Good morning."},
        }
    )
    answer = chat.ChatCompletionMessage.model_validate(
        {
            "role": "assistant",
            "content": "I will look.",
            "tool_calls": [{"id": "call_0aB1cD2eF3gH4iJ5", "type": "function", "function": function}],
            "reasoning_content": "The user wants the file.",
        }
    )
    refusal = chat.ChatCompletionMessage(role="assistant", content=None, refusal="No.")
    return {
        "answer": answer.model_dump(mode="json"),
        "answer without empty fields": answer.model_dump(mode="json", exclude_none=True),
        "answer as the SDK writes it": answer.to_dict(mode="json"),
        "refusal": refusal.model_dump(mode="json"),
        "audio": spoken.model_dump(mode="json", exclude_none=True),
    }


def response_items() -> dict[str, Mapping[str, Any]]:
    user: responses.EasyInputMessageParam = {"type": "message", "role": "user", "content": "List the open ports."}
    picture: responses.response_input_item_param.Message = {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_text", "text": "And this?"},
            {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PIXEL}"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
        ],
    }
    output: responses.response_input_item_param.FunctionCallOutput = {
        "type": "function_call_output",
        "call_id": "call_9zY8xW7vU6tS5rQ4",
        "output": '{"ports": [22, 443]}',
    }
    listed: responses.response_input_item_param.FunctionCallOutput = {
        "type": "function_call_output",
        "call_id": "call_9zY8xW7vU6tS5rQ5",
        "output": [{"type": "input_text", "text": "22"}, {"type": "input_text", "text": "443"}],
    }
    reference: responses.response_input_item_param.ItemReference = {"type": "item_reference", "id": "msg_0"}
    return {
        "user": user,
        "user with files": picture,
        **response_outputs(),
        "function output": output,
        "function output in parts": listed,
        "item reference": reference,
    }


def response_outputs() -> dict[str, Mapping[str, Any]]:
    message = responses.ResponseOutputMessage.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Two ports are open.", "annotations": [], "logprobs": None}],
        }
    )
    call = responses.ResponseFunctionToolCall(
        type="function_call", call_id="call_9zY8xW7vU6tS5rQ4", name="ports", arguments='{"host":"a"}', id="fc_1"
    )
    custom = responses.ResponseCustomToolCall(
        type="custom_tool_call", call_id="call_9zY8xW7vU6tS5rQ6", name="sql", input="SELECT 1"
    )
    thought = responses.ResponseReasoningItem.model_validate(
        {
            "id": "rs_1",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "Check the firewall."}],
            "encrypted_content": "gAAAAAB",
        }
    )
    search = responses.ResponseFunctionWebSearch.model_validate(
        {
            "id": "ws_1",
            "type": "web_search_call",
            "status": "completed",
            "action": {"type": "search", "query": "open ports"},
        }
    )
    return {
        "output message": message.model_dump(mode="json"),
        "function call": call.model_dump(mode="json"),
        "function call without empty fields": call.to_dict(mode="json"),
        "custom call": custom.to_dict(mode="json"),
        "reasoning": thought.model_dump(mode="json"),
        "web search": search.model_dump(mode="json"),
    }


def claude_messages() -> dict[str, Mapping[str, Any]]:
    text: claude.TextBlockParam = {"type": "text", "text": "Read it.", "cache_control": {"type": "ephemeral"}}
    image: claude.ImageBlockParam = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
    }
    document: claude.DocumentBlockParam = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "Line one."},
        "title": "notes.txt",
        "citations": {"enabled": True},
    }
    result: claude.ToolResultBlockParam = {
        "type": "tool_result",
        "tool_use_id": "toolu_01A09q90qw90lq917835lq9",
        "content": [{"type": "text", "text": "ok"}, image],
    }
    failed: claude.ToolResultBlockParam = {
        "type": "tool_result",
        "tool_use_id": "toolu_01B09q90qw90lq917835lq9",
        "content": "no such file",
        "is_error": True,
    }
    answer = claude.Message.model_validate(
        {
            "id": "msg_01",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": [
                {"type": "thinking", "thinking": "I should read the file.", "signature": "EqQBCgIYAhIM"},
                {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"},
                {"type": "text", "text": "Reading.", "citations": None},
                {
                    "type": "tool_use",
                    "id": "toolu_01A09q90qw90lq917835lq9",
                    "name": "read",
                    "input": {"path": "notes.txt", "limit": 1.0},
                },
                {
                    "type": "server_tool_use",
                    "id": "srvtoolu_01",
                    "name": "web_search",
                    "input": {"query": "ports"},
                },
            ],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 12, "output_tokens": 34},
        }
    )
    return {
        "user text blocks": {"role": "user", "content": [text]},
        "user with files": {"role": "user", "content": [text, image, document]},
        "answer": answer.model_dump(mode="json"),
        "answer as the SDK writes it": answer.to_dict(mode="json"),
        "tool results": {"role": "user", "content": [result, failed]},
        "one tool result": {"role": "user", "content": [failed]},
        "result and words": {"role": "user", "content": [failed, {"type": "text", "text": "Try again."}]},
    }


def main() -> None:
    payloads = {
        "openai-chat": chat_params() | chat_answers(),
        "openai-responses": response_items(),
        "anthropic": claude_messages(),
    }
    for name, messages in payloads.items():
        text = json.dumps(messages, indent=1, ensure_ascii=False)
        (HERE / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
