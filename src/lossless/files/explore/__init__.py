"""What is said about a payload without opening it: its kind, its shape, its outline. No model is needed.

Small inputs get exactly the lines that lossless-claw writes; larger ones may get more. Every summary is made in
one walk over the text and stays short, whatever is in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.files.explore.binary import binary_summary, image_summary
from lossless.files.explore.code import LANGUAGES, code_summary
from lossless.files.explore.markup import html_summary, xml_summary
from lossless.files.explore.model import Ask, asked
from lossless.files.explore.shapes import json_lines_summary, json_summary
from lossless.files.explore.tables import settings_summary, table_summary, yaml_summary
from lossless.files.explore.text import decoded_text, is_binary, text_summary
from lossless.files.explore.words import clipped
from lossless.files.kinds import image_type, kind, plain_type

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Ask", "summarise"]

#: No summary is longer: it stands in the context in place of the payload.
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
    """A summary of a payload, at most `MAX_CHARS` long; `ask` is a model that describes prose, when given."""
    picture = image_type(data)
    if picture not in (None, "image/svg+xml", "image/bmp") or plain_type(mime).startswith("image/"):
        return clipped(image_summary(data, name, picture or plain_type(mime)), MAX_CHARS)
    if is_binary(data):
        return clipped(binary_summary(data, name, mime), MAX_CHARS)
    text = decoded_text(data)
    what = kind(name, mime)
    if what in _STRUCTURED:
        return clipped(_STRUCTURED[what](text), MAX_CHARS)
    if what in LANGUAGES:
        return clipped(code_summary(text, name, LANGUAGES[what]), MAX_CHARS)
    told = asked(text, name, mime, ask) if ask is not None else None
    return clipped(told or text_summary(text, name), MAX_CHARS)
