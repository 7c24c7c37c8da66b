"""Images and other files between formats: what a block carries, and the same as another format's block."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from lossless.formats.codec import file_note
from lossless.formats.text import extract

if TYPE_CHECKING:
    from lossless.formats.shape import Raw
    from lossless.model.messages import File

_DATA_URL = re.compile(r"data:([^;,]{1,129});base64,")
_IMAGE_TYPES = frozenset(("image", "image_url", "input_image"))


@dataclass(frozen=True, slots=True)
class Media:
    """A file as all formats know it: base64 data or an address."""

    is_image: bool
    mime: str
    data: str | None
    url: str | None
    name: str | None

    @property
    def address(self) -> str | None:
        """Where it lies, as one URL."""
        return self.url if self.data is None else f"data:{self.mime};base64,{self.data}"


def document_text(part: File) -> str | None:
    """The words of a document that carries text rather than data."""
    raw: Any = part.raw
    source = raw.get("source")
    if not isinstance(source, dict) or source.get("type") not in ("text", "content"):
        return None
    return extract(source, 1)


def media_of(part: File) -> Media | None:
    """What the block of a file carries; None when it is only known to its own provider."""
    if document_text(part) is not None:
        return None
    raw: Any = part.raw
    kind = raw.get("type")
    is_image = kind in _IMAGE_TYPES or (part.mime or "").startswith("image/")
    for box in (raw, raw.get("source"), raw.get("image_url"), raw.get("file"), raw.get("input_audio")):
        found = _carried(box)
        if found is None:
            continue
        url = None if found.startswith("data:") or _is_base64(box, found) else found
        inline = _DATA_URL.match(found)
        data = None if url is not None else found[inline.end() :] if inline else found
        mime = (inline[1] if inline else part.mime) or ("image/png" if is_image else "application/octet-stream")
        return Media(is_image, mime, data, url, part.name)
    return None


def chat_block(part: File) -> Raw:
    """The file as a content part of a chat message."""
    if part.raw.get("type") in ("image_url", "input_audio") or "file" in part.raw:
        return cast("Raw", part.raw)
    media = media_of(part)
    if media is not None and media.is_image:
        return {"type": "image_url", "image_url": {"url": media.address}}
    if media is not None and media.data is not None:
        return {"type": "file", "file": {"filename": media.name or "file", "file_data": media.address}}
    return {"type": "text", "text": words_for(part)}


def responses_block(part: File) -> Raw:
    """The file as input content of a Responses item."""
    if part.raw.get("type") in ("input_image", "input_file"):
        return cast("Raw", part.raw)
    media = media_of(part)
    if media is not None and media.is_image:
        return {"type": "input_image", "detail": "auto", "image_url": media.address}
    if media is not None and media.data is not None:
        return {"type": "input_file", "filename": media.name or "file", "file_data": media.address}
    if media is not None:
        return {"type": "input_file", "file_url": media.url}
    return {"type": "input_text", "text": words_for(part)}


def anthropic_block(part: File) -> Raw:
    """The file as an image or document block."""
    if "source" in part.raw:
        return cast("Raw", part.raw)
    media = media_of(part)
    if media is None or not (media.is_image or media.mime == "application/pdf" or media.url):
        return {"type": "text", "text": words_for(part)}
    kind = "image" if media.is_image else "document"
    if media.data is None:
        return {"type": kind, "source": {"type": "url", "url": media.url}}
    return {"type": kind, "source": {"type": "base64", "media_type": media.mime, "data": media.data}}


def openclaw_block(part: File) -> Raw:
    """The file as an image block with its data."""
    if "data" in part.raw:
        return cast("Raw", part.raw)
    media = media_of(part)
    if media is not None and media.is_image and media.data is not None:
        return {"type": "image", "data": media.data, "mimeType": media.mime}
    return {"type": "text", "text": words_for(part)}


def words_for(part: File) -> str:
    """The words that stand for a file where the format cannot carry it."""
    return document_text(part) or file_note(part)


def _carried(box: Any) -> str | None:
    """The data or the address in one level of a block."""
    if isinstance(box, str):
        return box or None
    if not isinstance(box, dict):
        return None
    for key in ("data", "file_data", "url", "image_url", "file_url"):
        value = box.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def _is_base64(box: Any, found: str) -> bool:
    return isinstance(box, dict) and found in (box.get("data"), box.get("file_data"))
