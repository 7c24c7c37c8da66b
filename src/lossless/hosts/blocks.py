"""What frameworks say with more than words, as the blocks of a chat message: texts, pictures and files.

A message says with them what can be counted, searched and shown later; what it was it carries beside them.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

Raw = dict[str, Any]


def words(text: str) -> Raw:
    """A block of text."""
    return {"type": "text", "text": text}


def media(kind: str | None, data: bytes | str, name: str | None = None) -> Raw:
    """A block with the bytes of a picture, or of a file of another kind; a text is base64 already."""
    kind = kind or "application/octet-stream"
    address = f"data:{kind};base64,{data if isinstance(data, str) else b64encode(data).decode()}"
    if kind.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": address}}
    return {"type": "file", "file": {"file_data": address, "filename": name or kind.replace("/", ".")}}


def mentioned(what: str, *known: object) -> Raw:
    """A block of text in the place of something that lies elsewhere, or that nobody here can read.

    >>> mentioned("video", "https://example.org/a.mp4", None)
    {'type': 'text', 'text': '[video: https://example.org/a.mp4]'}
    """
    told = ", ".join(str(one) for one in known if one)
    return words(f"[{what}: {told}]" if told else f"[{what}]")


def content(blocks: Iterable[Raw]) -> str | list[Raw]:
    """The content of a chat message: one text where there is nothing else."""
    found = list(blocks)
    if all(block["type"] == "text" for block in found):
        return "\n".join(block["text"] for block in found)
    return found
