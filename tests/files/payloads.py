"""Payloads and messages for the tests of large files."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import TYPE_CHECKING, Any, TypeAlias

from hypothesis import strategies as st

from lossless import formats
from lossless.files.intercept import Intercepted, intercept, restore_message

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

    from lossless.model.messages import Message

Body: TypeAlias = dict[str, Any]

THRESHOLD = 1000
#: Just as many tokens as leave a message.
LARGE = "".join(f"line {number} of a large text\n" for number in range(200))


def png(width: int = 3, height: int = 2, noise: bytes = b"") -> bytes:
    """A picture that is valid as far as its header goes."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header)) + noise


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def caught(body: Body | Message, *, threshold: int = THRESHOLD, tools: dict[str, str] | None = None) -> Intercepted:
    """What interception makes of a message that holds a payload."""
    message = formats.decode(body) if isinstance(body, dict) else body
    tool_of = (tools or {}).get
    found = intercept(message, threshold_tokens=threshold, conversation_id=7, decode=formats.decode, tool_of=tool_of)
    assert found is not None
    return found


def untouched(body: Body | Message, *, threshold: int = THRESHOLD, tools: dict[str, str] | None = None) -> bool:
    message = formats.decode(body) if isinstance(body, dict) else body
    tool_of = (tools or {}).get
    return (
        intercept(message, threshold_tokens=threshold, conversation_id=7, decode=formats.decode, tool_of=tool_of)
        is None
    )


def given_back(found: Intercepted) -> Message:
    """The message again, from what is stored: the shown message, the recipe as JSON, the files."""
    files = {payload.file_id: payload.data for payload in found.payloads}
    recipe = json.loads(json.dumps(found.notes[0]["restore"]))
    return restore_message(found.message, recipe, files.__getitem__, formats.decode)


def assert_restores(body: Body, found: Intercepted | None = None) -> Intercepted:
    """The original comes back, its keys in their order; nothing of what left is shown."""
    found = found or caught(body)
    assert json.dumps(given_back(found).original) == json.dumps(body)
    assert given_back(found) == formats.decode(body)
    return found


def large_texts() -> SearchStrategy[str]:
    """Texts around the threshold, in hostile alphabets, lone surrogates included."""
    letters = st.text(alphabet=st.characters(codec=None), min_size=1, max_size=30)
    return st.builds(lambda text, times: text * times, letters, st.sampled_from((1, 40, 400, 2000)))


def _spellings() -> SearchStrategy[Callable[[bytes], str]]:
    """Ways in which base64 is written, usual and odd."""
    return st.sampled_from(
        (
            b64,
            lambda data: b64(data).rstrip("="),
            lambda data: base64.urlsafe_b64encode(data).decode(),
            lambda data: base64.encodebytes(data).decode(),
            lambda data: base64.encodebytes(data).decode().replace("\n", "\r\n"),
            lambda data: b64(data)[:7] + "\n" + b64(data)[7:],
            lambda data: " " + b64(data) + "\n",
        )
    )


def pictures() -> SearchStrategy[str]:
    """Pictures in base64."""
    return st.builds(lambda noise, spell: spell(png(noise=noise)), st.binary(max_size=400), _spellings())


def _words(kind: str = "text") -> SearchStrategy[Body]:
    """Blocks of text, some with a picture in it."""
    plain = st.builds(lambda said: {"type": kind, "text": said}, large_texts())
    around = (large_texts(), pictures(), large_texts())
    return plain | st.builds(lambda a, data, b: {"type": kind, "text": f"{a} {data} {b}"}, *around)


def _file_block() -> SearchStrategy[str]:
    return st.builds(
        lambda a, name, inner, b: f'{a}<file name="{name}" mime="text/csv">{inner}</file>{b}',
        large_texts(),
        st.sampled_from(("a.csv", "b", "x'y")),
        large_texts(),
        large_texts(),
    )


def _anthropic_image(data: str) -> Body:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}, "x": 1.0}


def _chat_image(data: str) -> Body:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}", "detail": "low"}}


def _some(blocks: SearchStrategy[Body]) -> SearchStrategy[list[Body]]:
    return st.lists(blocks, min_size=1, max_size=4)


def bodies() -> SearchStrategy[Body]:
    """Foreign messages of all formats that may hold payloads."""
    openclaw = _some(
        _words() | st.builds(lambda data: {"type": "image", "data": data, "mimeType": "image/png"}, pictures())
    )
    anthropic = _some(_words() | st.builds(_anthropic_image, pictures()))
    chat = _some(_words() | st.builds(_chat_image, pictures()))
    result = st.builds(
        lambda content: {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, "is_error": True},
        large_texts() | anthropic,
    )
    odd = st.builds(lambda text: {"type": "tool_result", "output": {"rows": [text, 1.5, None]}}, large_texts())
    thought: Body = {"type": "thinking", "thinking": "hm", "signature": "s"}
    answer: Body = {"role": "toolResult", "toolCallId": "c1", "toolName": "exec", "isError": False}
    shapes: list[tuple[Body, str, SearchStrategy[Any]]] = [
        ({"role": "user"}, "content", large_texts() | _file_block()),
        ({"role": "assistant"}, "content", large_texts()),
        ({"role": "user", "timestamp": 1767604939538}, "content", openclaw | _file_block()),
        (answer, "content", openclaw | large_texts() | _some(odd)),
        ({"role": "user"}, "content", anthropic | _some(result) | st.tuples(result, _words()).map(list)),
        ({"role": "user", "name": "n"}, "content", chat | large_texts()),
        ({"role": "tool", "tool_call_id": "c1"}, "content", large_texts()),
        ({"type": "function_call_output", "call_id": "c1"}, "output", large_texts() | _some(_words("input_text"))),
        ({"role": "assistant"}, "content", _words().map(lambda block: [thought, block])),
        ({"role": "user"}, "content", st.builds(lambda text: {"text": text, "n": 1.0}, large_texts())),
        ({"role": "user", "command": "ls"}, "output", large_texts()),
    ]
    return st.one_of([_with(head, key, values) for head, key, values in shapes])


def _with(head: Body, key: str, values: SearchStrategy[Any]) -> SearchStrategy[Body]:
    return values.map(lambda value: {**head, key: value})
