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
    **dict.fromkeys(("json", "geojson", "ipynb"), json_summary),
    **dict.fromkeys(("jsonl", "ndjson"), json_lines_summary),
    "csv": lambda text: table_summary(text, ",", "CSV"),
    "tsv": lambda text: table_summary(text, "\t", "TSV"),
    **dict.fromkeys(("yaml", "yml"), yaml_summary),
    **dict.fromkeys(("xml", "xsd", "plist"), xml_summary),
    **dict.fromkeys(("html", "htm"), html_summary),
    "toml": lambda text: settings_summary(text, "TOML"),
    **dict.fromkeys(("ini", "cfg", "conf"), lambda text: settings_summary(text, "INI")),
    "env": lambda text: settings_summary(text, "ENV"),
}


def summarise(data: bytes, name: str | None, mime: str | None, *, ask: Ask | None = None) -> str:
    """A summary of a payload of at most `MAX_CHARS`; `ask` is an optional model that describes prose."""
    picture = image_type(data)
    if picture not in (None, "image/svg+xml", "image/bmp") or plain_type(mime).startswith("image/"):
        return clip(image_summary(data, name, picture or plain_type(mime)), MAX_CHARS)
    if is_binary(data):
        return clip(binary_summary(data, name, mime), MAX_CHARS)
    text, what = decoded_text(data), exploration_kind(name, mime)
    if what in _STRUCTURED:
        found = _STRUCTURED[what](text)
    elif what in LANGUAGES:
        found = code_summary(text, name, LANGUAGES[what])
    else:
        described = ask_model(text, name, mime, ask) if ask is not None else None
        found = described or text_summary(text, name)
    return clip(found, MAX_CHARS)
