"""File types: by name, declared MIME type, or first bytes."""

from __future__ import annotations

import os
import re

IMAGE_EXTENSIONS = {
    "image/png": "png", "image/jpeg": "jpg", "image/jpg": "jpg", "image/gif": "gif", "image/webp": "webp",
    "image/svg+xml": "svg", "image/bmp": "bmp", "image/tiff": "tiff", "image/avif": "avif", "image/heic": "heic",
    "image/x-icon": "ico",
}  # fmt: skip
_EXTENSIONS = IMAGE_EXTENSIONS | {
    "application/json": "json", "application/x-ndjson": "jsonl", "application/jsonl": "jsonl",
    "application/xml": "xml", "text/xml": "xml", "text/csv": "csv", "text/tab-separated-values": "tsv",
    "application/yaml": "yaml", "application/x-yaml": "yaml", "text/yaml": "yaml", "text/x-yaml": "yaml",
    "application/toml": "toml", "text/markdown": "md", "text/html": "html", "text/css": "css", "text/plain": "txt",
    "text/x-log": "log", "application/sql": "sql", "text/x-sql": "sql", "text/javascript": "js",
    "application/javascript": "js", "text/typescript": "ts", "application/typescript": "ts", "text/x-python": "py",
    "application/x-python-code": "py", "text/x-go": "go", "text/x-rust": "rs", "text/x-java": "java",
    "text/x-java-source": "java", "text/x-c": "c", "text/x-c++": "cpp", "text/x-csharp": "cs", "text/x-ruby": "rb",
    "application/x-ruby": "rb", "text/x-php": "php", "application/x-php": "php", "application/x-httpd-php": "php",
    "application/x-sh": "sh", "text/x-shellscript": "sh", "application/pdf": "pdf", "application/zip": "zip",
    "application/gzip": "gz", "audio/mpeg": "mp3", "audio/wav": "wav", "video/mp4": "mp4",
}  # fmt: skip
_VALID_EXTENSION = re.compile(r"[a-z0-9]{1,10}")
_TEXT_TYPES = re.compile(
    r"text/.*|.*\+(?:json|xml|yaml)"
    r"|application/(?:json|x-ndjson|jsonl|xml|yaml|x-yaml|toml|sql|javascript|typescript|x-sh|x-python-code"
    r"|x-ruby|x-php|x-httpd-php|graphql|x-tex|x-subrip)"
)
_IMAGE_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"), (b"BM", "image/bmp"), (b"II*\x00", "image/tiff"), (b"MM\x00*", "image/tiff"),
    (b"\x00\x00\x01\x00", "image/x-icon"),
)  # fmt: skip
_FTYP_BRANDS = {b"avif": "image/avif", b"avis": "image/avif", b"heic": "image/heic", b"mif1": "image/heic"}
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
    for magic, mime in _IMAGE_MAGIC:
        if data.startswith(magic):
            return mime
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[4:8] == b"ftyp":
        return _FTYP_BRANDS.get(data[8:12])
    return "image/svg+xml" if _SVG_HEAD.match(data[:2048]) else None


def reference_name(name: str | None, otherwise: str) -> str:
    """A name for use inside a reference: one line, no brackets or bars, truncated."""
    kept = "".join("_" if letter in '[]|"<>' or not letter.isprintable() else letter for letter in name or "").strip()
    return kept[:120] or otherwise
