"""Files inside messages: base64 in blocks of every format, and pictures pasted into text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lossless.files.encodings import decoded
from lossless.files.kinds import image_type, named_extension, plain_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lossless.files.recipe import Path

#: How base64 of JPEG, PNG, GIF, WebP and SVG begins.
MAGIC = ("/9j/", "iVBOR", "R0lGOD", "UklGR", "PHN2Zy")
#: Shorter runs of base64 in a text stay, unless a header announces a picture.
MIN_INLINE_CHARS = 397
_MIN_ANNOUNCED_CHARS = 16
#: Every run of at least MIN_INLINE_CHARS covers one of these windows.
_WINDOW = MIN_INLINE_CHARS // 2

_IMAGE_BLOCKS = frozenset(("image", "image_url", "input_image"))
_DATA_URL = re.compile(r"data:([\w.+-]{1,64}/[\w.+-]{1,64})?(?:;[\w.+-]{1,64}=[\w.+-]{0,64}){0,4};base64,")
_RUN = re.compile(
    r"(?<![A-Za-z0-9+/=_-])(?:data:image/[\w.+-]{1,40};base64,)?"
    r"((?:" + "|".join(re.escape(magic) for magic in MAGIC) + r")[A-Za-z0-9+/]*={0,2})"
)
_LINE = re.compile(r"(\r?\n)([A-Za-z0-9+/]+={0,2})(?![^\s\"'<>)\]])")
_MIN_LINE = 32
_HEADER = re.compile(r"\[media attached(?: \d{1,4}/\d{1,4})?: ([^\]|\n]{1,1000})")
_HEADER_TYPE = re.compile(r"\s\(([\w.+-]{1,64}/[\w.+-]{1,64})\)\s*$")
_IMAGE_NAMES = frozenset((".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".bmp", ".tiff", ".avif", ".heic", ""))
_MIME_KEYS = ("mimeType", "media_type", "mime_type", "mime")
_NAME_KEYS = ("filename", "file_name", "fileName", "name", "title")


@dataclass(frozen=True, slots=True)
class Carried:
    """What the block of a file carries: where its text stands, and what that text means."""

    hole: Path
    #: What stands before the base64 in the same text, such as `data:image/png;base64,`.
    prefix: str
    text: str
    #: None when the text is the file itself.
    data: bytes | None
    is_image: bool
    mime: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class Inline:
    """A picture as base64 inside a text."""

    start: int
    end: int
    prefix: str
    text: str
    data: bytes
    mime: str


def carried(block: dict[str, Any]) -> Carried | None:
    """The file in a block, when the block holds it whole and in a form that can be read."""
    for hole, box in _boxes(block):
        for key in ("data", "file_data", "url", "image_url"):
            text = box.get(key)
            if not isinstance(text, str) or not text:
                continue
            url = _DATA_URL.match(text)
            if url is None and key in ("url", "image_url"):
                continue
            return _carried(block, box, (*hole, key), text, url)
    return None


def _carried(
    block: dict[str, Any], box: dict[str, Any], hole: Path, text: str, url: re.Match[str] | None
) -> Carried | None:
    found = [box, block, *(inner for _, inner in _boxes(block))]
    name = _first(found, _NAME_KEYS)
    declared = (url[1] if url else None) or _first(found, _MIME_KEYS)
    if box.get("type") == "text":
        return Carried(hole, "", text, None, False, declared or "text/plain", name)
    prefix = url[0] if url else ""
    data = decoded(text[len(prefix) :])
    if not data:
        return None
    mime = declared if plain_type(declared).startswith("image/") else image_type(data) or declared
    is_image = plain_type(mime).startswith("image/")
    if not is_image and block.get("type") in _IMAGE_BLOCKS:
        return None
    return Carried(hole, prefix, text[len(prefix) :], data, is_image, mime, name)


def _boxes(block: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The objects in which formats put the data of a file: the block itself, then what is inside."""
    yield (), block
    for key in ("source", "image_url", "file", "input_audio"):
        if isinstance(box := block.get(key), dict):
            yield (key,), box
    if isinstance(raw := block.get("raw"), dict):
        for path, box in _boxes(raw):
            yield ("raw", *path), box


def _first(boxes: Iterable[dict[str, Any]], keys: tuple[str, ...]) -> str | None:
    return next((box[key] for box in boxes for key in keys if isinstance(box.get(key), str) and box[key]), None)


def may_hold_image(text: str) -> bool:
    """Whether a text may hold a picture in base64; cheap, as prose has a blank in every window of some length."""
    if "[media attached" not in text:
        for start in range(0, len(text) - _WINDOW + 1, _WINDOW):
            if " " not in text[start : start + _WINDOW]:
                break
        else:
            return False
    return any(magic in text for magic in MAGIC)


def inline_images(text: str) -> list[Inline]:
    """The pictures that a text holds as base64, in order."""
    if not may_hold_image(text):
        return []
    header = _HEADER.search(text)
    found: list[Inline] = []
    for run in _RUN.finditer(text):
        least = _MIN_ANNOUNCED_CHARS if header and header.end() <= run.start() else MIN_INLINE_CHARS
        start, end = run.start(1), _end_of_lines(text, run.start(1), run.end(1))
        if end - start < least or (found and start < found[-1].end):
            continue
        data = decoded(text[start:end])
        mime = image_type(data) if data else None
        if data and mime:
            found.append(Inline(run.start(), end, text[run.start() : start], text[start:end], data, mime))
    return found


def _end_of_lines(text: str, start: int, end: int) -> int:
    """Where base64 that is wrapped into lines of one length ends; `end` when it is not."""
    width = end - start
    if width < _MIN_LINE or text[end - 1] == "=":
        return end
    count = width
    while (line := _LINE.match(text, end)) is not None:
        size = len(line[2])
        if size > width or (size < width and (count + size) % 4):
            break
        end, count = line.end(), count + size
        if size < width or line[2].endswith("="):
            break
    return end


def attached_names(texts: Iterable[str]) -> list[str]:
    """The names of pictures that `[media attached: …]` headers announce, in order."""
    names: list[str] = []
    for text in texts:
        for header in _HEADER.finditer(text) if "[media attached" in text else ():
            place = header[1].strip()
            declared = _HEADER_TYPE.search(place)
            place = (place[: declared.start()] if declared else place).strip().strip("\"'")
            name = place.replace("\\", "/").rsplit("/", 1)[-1]
            is_image = declared[1].startswith("image/") if declared else named_extension(name) in _IMAGE_NAMES
            if is_image and name:
                names.append(name)
    return names
