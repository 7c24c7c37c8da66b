"""File types: by name, declared MIME type, or first bytes."""

from __future__ import annotations

import json
import os
import re
from importlib.resources import files
from typing import Any

_TABLES: dict[str, Any] = json.loads(files("lossless.files").joinpath("media_types.json").read_text("utf-8"))
IMAGE_EXTENSIONS: dict[str, str] = _TABLES["images"]
_EXTENSIONS: dict[str, str] = IMAGE_EXTENSIONS | _TABLES["others"]
_VALID_EXTENSION = re.compile(r"[a-z0-9]{1,10}")
_TEXT_TYPES = re.compile(rf"text/.*|.*\+(?:json|xml|yaml)|application/(?:{'|'.join(_TABLES['textApplications'])})")


def signatures(name: str) -> list[tuple[bytes, str]]:
    """A table of what files of a type begin with, or hold."""
    return [(mark.encode("latin-1"), kind) for mark, kind in _TABLES[name].items()]


_IMAGES_BEGIN, _IMAGE_BRANDS = signatures("imagesBegin"), dict(signatures("imageBrands"))
_SVG_HEAD = re.compile(rb"\s*(?:<\?xml[^>]{0,400}>\s*)?(?:<!--.{0,400}?-->\s*)?<svg[\s>]", re.DOTALL)


def named_extension(name: str | None) -> str:
    """The extension of a name, with its dot and in lower case; '' when it has none."""
    base = (name or "").replace("\\", "/").rsplit("/", 1)[-1]
    return os.path.splitext(base)[1].lower()


def storage_extension(name: str | None, mime: str | None) -> str:
    """The extension under which a payload is stored: from its name, else its type, else `txt`.

    >>> (storage_extension("a.PY", None), storage_extension("noext", "text/csv"),
    ...  storage_extension("x.verylongextension", "image/png"))
    ('py', 'csv', 'txt')
    """
    found = named_extension(name)
    if found:
        return found[1:] if _VALID_EXTENSION.fullmatch(found[1:]) else "txt"
    return _EXTENSIONS.get(plain_type(mime), "txt")


def exploration_kind(name: str | None, mime: str | None) -> str:
    """The extension that selects how a payload is explored: from its name, or from its type."""
    found = named_extension(name)[1:]
    declared = _EXTENSIONS.get(plain_type(mime), "")
    if not found or (found == "txt" and declared):
        found = declared or found
    if not found or found == "txt":
        suffix = plain_type(mime).rpartition("+")[2]
        return suffix if suffix in ("json", "xml", "yaml") else found
    return found


def plain_type(mime: str | None) -> str:
    """A MIME type without parameters, in lower case."""
    return (mime or "").partition(";")[0].strip().lower()


def is_text_type(mime: str | None) -> bool:
    """Whether a payload of this type can be searched as text; true without a type."""
    return not mime or _TEXT_TYPES.fullmatch(plain_type(mime)) is not None


def image_type(data: bytes) -> str | None:
    """The image type by the first bytes of `data`, or None."""
    for beginning, mime in _IMAGES_BEGIN:
        if data.startswith(beginning):
            return mime
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[4:8] == b"ftyp":
        return _IMAGE_BRANDS.get(data[8:12])
    return "image/svg+xml" if _SVG_HEAD.match(data[:2048]) else None


def reference_name(name: str | None, otherwise: str) -> str:
    """A name for use inside a reference: one line, no brackets or bars, truncated."""
    kept = "".join("_" if letter in '[]|"<>' or not letter.isprintable() else letter for letter in name or "").strip()
    return kept[:120] or otherwise
