"""Which payloads leave a message, and what is shown instead."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from lossless import formats
from lossless.model.identity import file_id
from lossless.model.messages import File, Message, Text, ToolCall, ToolResult
from tests.files.payloads import LARGE, Body, assert_restores, b64, caught, given_back, png, untouched

PICTURE = png(noise=b"\x07" * 600)
ID = file_id(7, PICTURE)
REFERENCE = f"(image/png, {len(PICTURE):,} bytes) | LCM file: {ID}]"


# --- pictures in blocks -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "role"),
    [
        pytest.param({"type": "image", "data": b64(PICTURE), "mimeType": "image/png"}, "user", id="openclaw"),
        pytest.param(
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": b64(PICTURE)}},
            "user",
            id="anthropic",
        ),
        pytest.param(
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64(PICTURE)}", "detail": "low"}},
            "user",
            id="openai chat",
        ),
        pytest.param(
            {"type": "input_image", "image_url": f"data:image/png;base64,{b64(PICTURE)}"}, "user", id="openai responses"
        ),
        pytest.param({"type": "image", "data": b64(PICTURE)}, "assistant", id="type by the first bytes"),
    ],
)
def test_every_picture_in_a_block_leaves(block: Body, role: str) -> None:
    words = "input_text" if block["type"] == "input_image" else "text"
    body = {"role": role, "content": [{"type": words, "text": "look"}, block]}
    found = assert_restores(body, caught(body, threshold=1_000_000))
    assert found.message.content == f"look\n[{role.title()} image: {role}-image.png {REFERENCE}"
    assert [(p.file_id, p.data, p.name, p.mime, p.line_count) for p in found.payloads] == [
        (ID, PICTURE, f"{role}-image.png", "image/png", None)
    ]
    assert found.message.original["content"][1]["type"] == words  # type: ignore[index,call-overload]
    assert found.notes[1 if found.message.parts else 0] == {
        "externalizedFileId": ID,
        "originalByteSize": len(PICTURE),
        "imageExternalized": True,
        "externalizationReason": "native_image",
    }


def test_a_small_picture_leaves_too() -> None:
    body = {
        "role": "user",
        "content": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}],
        "timestamp": 1,
    }
    found = assert_restores(body)
    assert found.message.content.startswith("[User image: user-image.png (image/png, 8 bytes) | LCM file: file_")


def test_pictures_are_named_as_their_headers_say() -> None:
    first = "[media attached 1/2: /tmp/old photo.jpeg (image/jpeg) | x]"
    header = first + '\n[media attached 2/2: "media://in/b.png" (image/png)]'
    images = [{"type": "image", "data": b64(png(n)), "mimeType": "image/png"} for n in (1, 2, 3)]
    found = assert_restores({"role": "user", "content": [{"type": "text", "text": header}, *images], "timestamp": 1})
    assert [payload.name for payload in found.payloads] == ["old photo.jpeg", "b.png", "user-image.png"]


def test_a_header_for_another_file_names_no_picture() -> None:
    text = {"type": "text", "text": "[media attached: /tmp/report.pdf (application/pdf)]"}
    image = {"type": "image", "data": b64(PICTURE), "mimeType": "image/png"}
    assert caught({"role": "user", "content": [text, image], "timestamp": 1}).payloads[0].name == "user-image.png"


@pytest.mark.parametrize(
    "block",
    [
        pytest.param({"type": "image", "data": "not base64!", "mimeType": "image/png"}, id="no base64"),
        pytest.param({"type": "image", "data": b64(b"words" * 9), "mimeType": "text/plain"}, id="no picture"),
        pytest.param({"type": "image", "data": "", "mimeType": "image/png"}, id="empty"),
        pytest.param({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, id="an address"),
        pytest.param({"type": "input_image", "file_id": "file-1"}, id="an id of the provider"),
    ],
)
def test_what_holds_no_picture_stays(block: Body) -> None:
    assert untouched({"role": "user", "content": [block]})


def test_pictures_inside_of_answers_leave() -> None:
    inner = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": b64(PICTURE)}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "shot"}, inner]}
    found = assert_restores({"role": "user", "content": [result]})
    assert found.message.content == f"shot\n[Tool image: tool-image.png {REFERENCE}"
    assert found.message.role == "tool"


def test_base64_is_given_back_as_it_was_spelled() -> None:
    for spelled in (
        b64(PICTURE).rstrip("="),
        base64.urlsafe_b64encode(PICTURE).decode(),
        base64.encodebytes(PICTURE).decode(),
        b64(PICTURE)[:5] + "\n" + b64(PICTURE)[5:],
        "\n " + b64(PICTURE) + "  ",
    ):
        block = {"type": "image", "data": spelled, "mimeType": "image/png"}
        found = assert_restores({"role": "user", "content": [block], "timestamp": 1})
        assert found.payloads[0].data == PICTURE


def test_other_files_leave_from_the_threshold_on() -> None:
    pdf = b"%PDF-1.7\n" + b"\x00\xff" * 2000
    box = {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{b64(pdf)}"}
    body = {"role": "user", "content": [{"type": "file", "file": box}]}
    found = assert_restores(body)
    assert found.message.content.startswith(f"[LCM File: {file_id(7, pdf)} | a.pdf | application/pdf | 4,009 bytes]")
    assert untouched(body, threshold=2000)


def test_a_text_document_leaves_as_text() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": LARGE}
    found = assert_restores({"role": "user", "content": [{"type": "document", "title": "notes", "source": source}]})
    assert found.payloads[0].data == LARGE.encode()
    assert found.payloads[0].name == "notes"


# --- pictures in text ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "label"), [("user", "Image"), ("assistant", "Assistant image"), ("system", "System image")]
)
def test_a_pasted_picture_leaves_the_text_around_it(role: str, label: str) -> None:
    found = assert_restores({"role": role, "content": f"before\n{b64(PICTURE)}\nafter"})
    assert found.message.content == f"before\n[{label}: {role}-image.png {REFERENCE}\nafter"


def test_a_pasted_data_url_leaves_whole() -> None:
    found = assert_restores({"role": "user", "content": f"<img src='data:image/png;base64,{b64(PICTURE)}'>"})
    assert found.message.content == f"<img src='[Image: user-image.png {REFERENCE}'>"


def test_a_picture_in_the_json_of_an_answer_leaves() -> None:
    content = f'{{"ok": true, "screenshot": "{b64(PICTURE)}"}}'
    found = assert_restores({"role": "tool", "tool_call_id": "c1", "content": content})
    assert found.message.content == f'{{"ok": true, "screenshot": "[Tool image: tool-image.png {REFERENCE}"}}'


def test_wrapped_base64_leaves_as_one_picture() -> None:
    found = assert_restores({"role": "user", "content": f"see\n{base64.encodebytes(PICTURE).decode()}end of it"})
    assert found.message.content == f"see\n[Image: user-image.png {REFERENCE}\nend of it"


def test_a_short_picture_leaves_when_a_header_announces_it() -> None:
    small = b64(png())
    assert untouched({"role": "user", "content": f"see {small}, {'words ' * 100}"})
    found = assert_restores(
        {"role": "user", "content": f"[media attached: a.png (image/png)] {small}, {'words ' * 100}"}
    )
    assert "[Image: a.png (image/png, 33 bytes)" in found.message.content


def test_base64_that_is_no_picture_stays() -> None:
    assert untouched({"role": "user", "content": "key " + b64(b"\x01" * 900)})
    assert untouched({"role": "user", "content": "x" + b64(PICTURE)})
    assert untouched({"role": "user", "content": "iVBOR" + "w" * 500})


# --- files of users -----------------------------------------------------------------------------


def test_large_file_blocks_leave_and_small_ones_stay() -> None:
    text = f"a <file name='s.txt'>small</file> b <file name=\"l.csv\" mime='text/csv'>{LARGE}</file> c"
    found = assert_restores({"role": "user", "content": text})
    (payload,) = found.payloads
    reference = f"[LCM File: {payload.file_id} | l.csv | text/csv | {len(LARGE):,} bytes]\n\nExploration Summary:\n"
    assert found.message.content == f"a <file name='s.txt'>small</file> b {reference}{payload.summary} c"
    assert (payload.data, payload.name, payload.mime) == (LARGE.encode(), "l.csv", "text/csv")
    assert payload.line_count == LARGE.count("\n") + 1
    assert {key: value for key, value in found.notes[0].items() if key != "restore"} == {
        "externalizedFileIds": [payload.file_id],
        "fileBlocksExternalized": True,
        "externalizationReason": "large_file_block",
    }


def test_file_blocks_are_a_users_matter() -> None:
    text = f"<file name='a.txt'>{LARGE}</file>"
    found = caught({"role": "assistant", "content": text})
    assert found.message.content.startswith("[LCM Raw Payload: ")


def test_the_threshold_counts_the_file() -> None:
    inner = "x" * 4000
    assert caught({"role": "user", "content": f"<file name='a'>{inner}</file>"}).payloads[0].data == inner.encode()
    assert untouched({"role": "user", "content": f"<file name='a'>{inner[:3000]}</file>"})


# --- answers of tools ---------------------------------------------------------------------------

OPENCLAW: Body = {"role": "toolResult", "toolCallId": "c", "toolName": "exec"}
INNER = {"type": "tool_result", "tool_use_id": "c", "name": "exec", "output": LARGE, "is_error": True}
RESULT: Body = {"type": "tool_result", "tool_use_id": "c"}
OUTPUT: Body = {"type": "function_call_output", "call_id": "c"}
TEXT = {"type": "text", "text": LARGE}
ANSWERS = [
    pytest.param(OPENCLAW | {"content": [TEXT]}, id="openclaw"),
    pytest.param(OPENCLAW | {"content": LARGE}, id="openclaw, a string"),
    pytest.param(OPENCLAW | {"content": [INNER]}, id="openclaw, a result in a result"),
    pytest.param({"role": "tool", "tool_call_id": "c", "name": "exec", "content": LARGE}, id="openai chat"),
    pytest.param(OUTPUT | {"output": LARGE}, id="openai responses"),
    pytest.param(OUTPUT | {"output": [{"type": "input_text", "text": LARGE}]}, id="openai responses, a list"),
    pytest.param({"role": "user", "content": [RESULT | {"content": LARGE, "is_error": True}]}, id="anthropic"),
    pytest.param({"role": "user", "content": [RESULT | {"content": [TEXT]}]}, id="anthropic, a list"),
]


@pytest.mark.parametrize("body", ANSWERS)
def test_large_answers_leave(body: Body) -> None:
    before = formats.decode(body)
    found = assert_restores(body, caught(body, tools={"c": "exec"}))
    (payload,) = found.payloads
    head = f"[LCM Tool Output: {payload.file_id} | tool=exec | {len(LARGE):,} bytes]\n\nExploration Summary:\n"
    assert found.message.content.startswith(head)
    assert found.message.content.endswith("to fetch the full output content from disk.")
    assert (payload.data, payload.name, payload.mime, payload.reason) == (
        LARGE.encode(), "exec.txt", "text/plain", "large_tool_result",
    )  # fmt: skip
    assert found.message.tokens < 1000
    (result,) = found.message.tool_results
    (was,) = before.tool_results
    assert (result.call_id, result.name, result.is_error) == (was.call_id, was.name, was.is_error)
    assert result.text == found.message.content
    assert found.message.event_key == before.event_key
    assert found.notes[0]["toolOutputExternalized"] is True
    assert LARGE[:200] not in str(found.message.original)


def test_an_answer_counts_as_its_reference() -> None:
    body = {"role": "toolResult", "toolCallId": "c", "toolName": "exec", "content": [{"type": "text", "text": LARGE}]}
    message = caught(body).message
    blocks = [{"type": "text", "text": message.content}]
    assert message.tokens == formats.decode({"role": "toolResult", "content": blocks}).tokens


@pytest.mark.parametrize("body", ANSWERS)
def test_answers_of_our_own_tools_stay(body: Body) -> None:
    named: Any = {key: "lcm_describe" if value == "exec" else value for key, value in body.items()}
    if isinstance(named.get("content"), list):
        named["content"] = [block | ({"name": "lcm_describe"} if "name" in block else {}) for block in named["content"]]
    assert untouched(named, tools={"c": "mcp__lossless__lcm_describe"})


def test_of_several_blocks_the_large_ones_leave_first() -> None:
    content = [{"type": "text", "text": "short"}, {"type": "text", "text": LARGE}, {"type": "text", "text": "end"}]
    found = assert_restores({"role": "toolResult", "toolCallId": "c", "toolName": "exec", "content": content})
    assert found.message.content.startswith("short\n[LCM Tool Output: ")
    assert found.message.content.endswith("from disk.\nend")


def test_many_small_blocks_leave_together() -> None:
    image = {"type": "image", "data": b64(PICTURE), "mimeType": "image/png"}
    content = [{"type": "text", "text": f"row {n} " * 20, "n": n} for n in range(40)]
    body = {"role": "toolResult", "toolCallId": "c", "toolName": "exec", "content": [content[0], image, *content[1:]]}
    found = assert_restores(body)
    picture, text = found.payloads
    assert picture.data == PICTURE
    assert text.data.decode() == "\n".join(block["text"] for block in content)  # type: ignore[misc]
    assert found.message.content.startswith("[Tool image: ")
    assert found.message.content.count("[LCM Tool Output: ") == 1


def test_an_answer_of_another_shape_leaves_as_json() -> None:
    body = {
        "role": "toolResult",
        "toolCallId": "c",
        "toolName": "db",
        "content": {"rows": [[1.0, LARGE, None]], "n": 2**60},
    }
    found = assert_restores(body)
    assert (found.payloads[0].name, found.payloads[0].mime) == ("db.json", "application/json")
    assert found.message.content.startswith("[LCM Tool Output: ")


# --- the rest -----------------------------------------------------------------------------------


def test_any_other_large_message_leaves() -> None:
    found = assert_restores({"role": "user", "content": LARGE})
    (payload,) = found.payloads
    head = f"[LCM Raw Payload: {payload.file_id} | role=user | reason=large_raw_message | {len(LARGE):,} bytes]"
    assert found.message.content.startswith(head)
    assert (payload.name, payload.mime, payload.reason) == ("raw-user-payload.txt", "text/plain", "large_raw_message")
    assert found.notes[0]["rawPayloadExternalized"] is True


def test_large_content_of_another_shape_leaves_as_json() -> None:
    found = assert_restores({"role": "user", "content": {"b": LARGE, "a": [1.5, 10**30]}})
    assert found.payloads[0].name == "raw-user-payload.json"


def test_the_output_of_a_command_leaves() -> None:
    found = assert_restores({"role": "user", "command": "ls -R /", "output": LARGE})
    assert found.message.content.startswith("$ ls -R /\n[LCM Raw Payload: ")


def test_thinking_and_calls_stay_beside_a_large_text() -> None:
    thinking = {"type": "thinking", "thinking": LARGE, "signature": "s"}
    call = {"type": "tool_use", "id": "toolu_1", "name": "write", "input": {"text": LARGE}}
    body = {"role": "assistant", "content": [thinking, {"type": "text", "text": LARGE}, call]}
    found = assert_restores(body)
    assert found.message.parts[0] == formats.decode(body).parts[0]
    assert found.message.parts[2] == formats.decode(body).parts[2]
    assert found.message.content.startswith("[LCM Raw Payload: ")
    assert untouched({"role": "assistant", "content": [thinking, call]})


def test_instructions_stay_whatever_their_size() -> None:
    assert untouched({"role": "system", "content": LARGE})


def test_what_has_left_does_not_count_again() -> None:
    blocks = "".join(f"<file name='{n}.py'>{'def f(): pass' * 400}{n}</file>" for n in range(9))
    found = assert_restores({"role": "user", "content": blocks})
    assert len(found.payloads) == 9
    assert "Raw Payload" not in found.message.content


def test_all_looks_at_one_message() -> None:
    text = f"see {b64(PICTURE)} and <file name='a.txt'>{LARGE}</file> and {LARGE}"
    image = {"type": "image", "data": b64(png(9)), "mimeType": "image/png"}
    found = assert_restores({"role": "user", "content": [{"type": "text", "text": text}, image], "timestamp": 1})
    assert {payload.reason for payload in found.payloads} == {"native_image", "large_file_block", "large_raw_message"}


# --- ordinary messages, messages made from parts -------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        {"role": "user", "content": "hello"},
        {"role": "user", "content": "x " * 1000},
        {"role": "assistant", "content": [{"type": "text", "text": "ok"}], "api": "a", "provider": "p", "model": "m"},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "a"}]}],
        },
        {"role": "tool", "tool_call_id": "c", "content": ""},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "assistant", "foo": 1},
        {"type": "reasoning", "id": "rs_1", "summary": []},
    ],
)
def test_ordinary_messages_pass(body: Body) -> None:
    assert untouched(body)


def test_messages_made_from_parts() -> None:
    raw = {"type": "image", "data": b64(PICTURE), "mimeType": "image/png"}
    call = ToolCall("c2", "next", {})
    parts = (Text("look"), File(raw, "image/png", "a.png"), ToolResult("c", "exec", LARGE), call)
    message = Message("user", f"look\n{LARGE}", parts)
    found = caught(message)
    assert given_back(found) == message
    assert found.message.parts[0] == Text("look")
    assert found.message.parts[1] == Text(f"[User image: a.png {REFERENCE}")
    assert found.message.parts[3] is call
    assert found.message.content.startswith("look\n[User image: a.png")
    assert LARGE not in found.message.content


def test_a_message_made_from_parts_with_words_of_its_own() -> None:
    message = Message("tool", "said otherwise", (ToolResult("c", "exec", LARGE, is_error=True),))
    found = caught(message)
    assert given_back(found) == message
    assert found.message.content == "said otherwise"
    assert found.message.tool_results[0].is_error


def test_text_that_is_json_keeps_its_own_words() -> None:
    message = Message("user", '{"text": "' + "words " * 1000 + '"}')
    assert given_back(caught(message)) == message


def test_the_same_bytes_are_one_file() -> None:
    image = {"type": "image", "data": b64(PICTURE), "mimeType": "image/png"}
    found = assert_restores({"role": "user", "content": [image, image], "timestamp": 1})
    assert len(found.payloads) == 1
    assert found.message.content.count(ID) == 2
