"""Summaries of payloads by kind: text, structured data, code, binary. No model is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.files.explore.binary import binary_summary, image_summary
from lossless.files.explore.code import LANGUAGES, code_summary
from lossless.files.explore.phrases import clip
from lossless.files.explore.text import (
    Ask,
    ask_model,
    decoded_text,
    html_summary,
    is_binary,
    json_lines_summary,
    json_summary,
    settings_summary,
    table_summary,
    text_summary,
    xml_summary,
    yaml_summary,
)
from lossless.files.media_types import exploration_kind, image_type, plain_type

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Ask", "summarise"]

#: The maximum length: the summary replaces the payload in the context.
MAX_CHARS = 3000

_STRUCTURED: dict[str, Callable[[str], str]] = {
    "json": json_summary,
    "geojson": json_summary,
    "ipynb": json_summary,
    "jsonl": json_lines_summary,
    "ndjson": json_lines_summary,
    "csv": lambda text: table_summary(text, ",", "CSV"),
    "tsv": lambda text: table_summary(text, "\t", "TSV"),
    "yaml": yaml_summary,
    "yml": yaml_summary,
    "xml": xml_summary,
    "xsd": xml_summary,
    "plist": xml_summary,
    "html": html_summary,
    "htm": html_summary,
    "toml": lambda text: settings_summary(text, "TOML"),
    "ini": lambda text: settings_summary(text, "INI"),
    "cfg": lambda text: settings_summary(text, "INI"),
    "conf": lambda text: settings_summary(text, "INI"),
    "env": lambda text: settings_summary(text, "ENV"),
}


def summarise(data: bytes, name: str | None, mime: str | None, *, ask: Ask | None = None) -> str:
    """A summary of a payload of at most `MAX_CHARS`; `ask` is an optional model that describes prose."""
    picture = image_type(data)
    if picture not in (None, "image/svg+xml", "image/bmp") or plain_type(mime).startswith("image/"):
        return clip(image_summary(data, name, picture or plain_type(mime)), MAX_CHARS)
    if is_binary(data):
        return clip(binary_summary(data, name, mime), MAX_CHARS)
    text = decoded_text(data)
    what = exploration_kind(name, mime)
    if what in _STRUCTURED:
        return clip(_STRUCTURED[what](text), MAX_CHARS)
    if what in LANGUAGES:
        return clip(code_summary(text, name, LANGUAGES[what]), MAX_CHARS)
    told = ask_model(text, name, mime, ask) if ask is not None else None
    return clip(told or text_summary(text, name), MAX_CHARS)
