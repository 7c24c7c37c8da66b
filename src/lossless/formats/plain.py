"""`{"role", "content"}`: what every format understands, and what fits no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.formats.codec import Codec, arguments_text
from lossless.formats.loose import read_loose
from lossless.formats.shape import role_in
from lossless.formats.text import is_plain
from lossless.model.messages import ROLES, Message

if TYPE_CHECKING:
    from lossless.formats.shape import Raw
    from lossless.model.messages import Role

_ROLES: dict[str, Role] = {role: role for role in ROLES}


def decode(body: Raw) -> Message:
    """Read `{"role", "content"}`; more fields and odd content are kept."""
    content = body.get("content")
    if type(content) is str and is_plain(content) and tuple(body) == ("role", "content"):
        role = body["role"]
        if role in ("user", "assistant", "system"):
            return Message(role, content)
    return read_loose(body, "plain", role_in(body, _ROLES))


def encode(message: Message) -> list[Raw]:
    """The text of a message; a call without words is named in brackets."""
    text = message.content or "\n".join(
        f"[tool call: {call.name} {arguments_text(call)}]" for call in message.tool_calls
    )
    return [{"role": message.role, "content": text}] if text else []


CODEC = Codec(decode, encode, takes_plain=lambda _message: True)
