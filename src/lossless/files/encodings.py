"""Base64 as it is found in messages: read strictly, and written again in exactly the same form."""

from __future__ import annotations

import binascii
import re
from base64 import b64encode

_URL_TO_PLAIN = str.maketrans("-_", "+/")
_PLAIN_TO_URL = str.maketrans("+/", "-_")
#: `base64`, then `url` for its other alphabet, `bare` without padding, a line length and its line break.
_FORM = re.compile(r"base64(url)?( bare)?(?: (\d{1,6}) (lf|crlf))?")
_BREAKS = {"lf": "\n", "crlf": "\r\n"}


def decoded(text: str) -> bytes | None:
    """The bytes that base64 text stands for, in any of its usual forms; None when it is none."""
    packed = "".join(text.split())
    if not packed or not packed.isascii():
        return None
    if "-" in packed or "_" in packed:
        packed = packed.translate(_URL_TO_PLAIN)
    missing = -len(packed.rstrip("=")) % 4
    if missing == 3:
        return None
    try:
        return binascii.a2b_base64(packed.rstrip("=") + "=" * missing, strict_mode=True)
    except binascii.Error:
        return None


def form_of(text: str, data: bytes) -> str | None:
    """The name of the form in which `data` was written as `text`; None when no form gives it exactly."""
    first, newline, _ = text.partition("\n")
    lines = ""
    if newline:
        ending = "crlf" if first.endswith("\r") else "lf"
        lines = f" {len(first.rstrip(chr(13)))} {ending}"
    url = "url" if not {"-", "_"}.isdisjoint(text) else ""
    bare = " bare" if not text.rstrip().endswith("=") and len(data) % 3 else ""
    form = f"base64{url}{bare}{lines}"
    return form if _FORM.fullmatch(form) and encoded(data, form) == text else None


def encoded(data: bytes, form: str) -> str:
    """`data` in a form that `form_of` named; ValueError for any other."""
    found = _FORM.fullmatch(form)
    if found is None:
        raise ValueError(f"{form!r} is no form of base64")
    url, bare, width, ending = found.groups()
    text = b64encode(data).decode("ascii")
    if url:
        text = text.translate(_PLAIN_TO_URL)
    if bare:
        text = text.rstrip("=")
    if width is None or int(width) == 0:
        return text
    size = int(width)
    return _BREAKS[ending].join(text[at : at + size] for at in range(0, len(text), size))
