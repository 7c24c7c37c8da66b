"""Binary payloads: one line with the facts from their header."""

from __future__ import annotations

import re
import struct

from lossless.files.explore.phrases import list_item, plural
from lossless.files.media_types import plain_type

_SIGNATURES = (
    (b"%PDF-", "PDF"), (b"PK\x03\x04", "ZIP"), (b"\x1f\x8b", "GZIP"), (b"BZh", "BZIP2"), (b"\xfd7zXZ\x00", "XZ"),
    (b"7z\xbc\xaf\x27\x1c", "7Z"), (b"\x28\xb5\x2f\xfd", "ZSTD"), (b"SQLite format 3\x00", "SQLite database"),
    (b"\x7fELF", "ELF executable"), (b"MZ", "Windows executable"), (b"\xcf\xfa\xed\xfe", "Mach-O executable"),
    (b"\x00asm", "WebAssembly"), (b"ID3", "MP3"), (b"OggS", "OGG"), (b"fLaC", "FLAC"),
    (b"\x1aE\xdf\xa3", "Matroska/WebM"), (b"PAR1", "Parquet"), (b"\x93NUMPY", "NumPy array"),
)  # fmt: skip
_OFFICE = ((b"word/", "DOCX"), (b"xl/", "XLSX"), (b"ppt/", "PPTX"), (b"META-INF/", "JAR"), (b"epub", "EPUB"))
_SVG = re.compile(rb"<svg[^>]{0,2000}")
_SVG_SIZE = re.compile(rb"\s(width|height)\s{0,4}=\s{0,4}[\"']?([0-9]{1,9}(?:\.[0-9]{1,9})?)")
_PDF_PAGE = re.compile(rb"/Type\s{0,4}/Page(?![a-zA-Z])")


def image_summary(data: bytes, name: str | None, mime: str) -> str:
    """Type, size and, where the header has them, width and height.

    >>> image_summary(b"GIF89a\\x02\\x00\\x03\\x00", "a.gif", "image/gif")
    'Image file (GIF, 10 bytes) — a.gif, 2 × 3 pixels'
    """
    kind = mime.partition("/")[2].partition("+")[0].removeprefix("x-").upper() or "unknown"
    kind = {"JPG": "JPEG", "ICON": "ICO"}.get(kind, kind)
    size = dimensions(data)
    pixels = f", {size[0]:,} × {size[1]:,} pixels" if size else ""
    return f"Image file ({kind}, {len(data):,} bytes) — {list_item(name or 'unnamed')}{pixels}"


def binary_summary(data: bytes, name: str | None, mime: str | None) -> str:
    """The type by the first bytes, and the size."""
    kind = next((kind for magic, kind in _SIGNATURES if data.startswith(magic)), None)
    if kind == "ZIP":
        kind = next((inner for mark, inner in _OFFICE if mark in data[:4096]), kind)
    elif kind is None and data[:4] == b"RIFF":
        kind = {b"WAVE": "WAV", b"AVI ": "AVI"}.get(data[8:12])
    elif kind is None:
        kind = "MP4" if data[4:8] == b"ftyp" else "TAR" if data[257:262] == b"ustar" else None
    kind = kind or plain_type(mime).partition("/")[2].upper() or "unknown type"
    pages = len(_PDF_PAGE.findall(data)) if kind == "PDF" else 0
    more = f", {plural(pages, 'page')}" if pages else ""
    return f"Binary file ({list_item(kind)}, {len(data):,} bytes{more}) — {list_item(name or 'unnamed')}"


def dimensions(data: bytes) -> tuple[int, int] | None:
    """Width and height of an image from its header, or None."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
            return struct.unpack(">II", data[16:24])
        if data.startswith((b"GIF87a", b"GIF89a")):
            return struct.unpack("<HH", data[6:10])
        if data.startswith(b"BM"):
            width, height = struct.unpack("<ii", data[18:26])
            return width, abs(height)
        if data.startswith(b"\xff\xd8"):
            at = 2
            while at + 9 < len(data) and data[at] == 0xFF:
                if 0xC0 <= data[at + 1] <= 0xCF and data[at + 1] not in (0xC4, 0xC8, 0xCC):
                    height, width = struct.unpack(">HH", data[at + 5 : at + 9])
                    return width, height
                at += 2 + max(struct.unpack(">H", data[at + 2 : at + 4])[0], 2)
            return None
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp_size(data)
    except struct.error:
        return None
    svg = _SVG.search(data[:4096])
    sides = {side: round(float(number)) for side, number in _SVG_SIZE.findall(svg[0])} if svg else {}
    return (sides[b"width"], sides[b"height"]) if len(sides) == 2 else None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    chunk = data[12:16]
    if chunk == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if chunk == b"VP8 ":
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    if chunk == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return None
