"""The token estimate: the reference's code-point weights, so that stored counts agree.

CJK code points weigh 1.5, other code points beyond the Basic Multilingual Plane 2, everything
else 0.25; the sum is rounded up.
"""

from __future__ import annotations

import re

_CJK_RANGES = (
    "\u4e00-\u9fff\u3400-\u4dbf\u3000-\u303f\u3040-\u30ff\uac00-\ud7af\uff00-\uffef"
    "\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    "\U0002b820-\U0002ceaf\U0002ceb0-\U0002ebef"
)
_CJK = re.compile(f"[{_CJK_RANGES}]+")
_ASTRAL = re.compile(r"[\U00010000-\U0010ffff]+")
#: UTF-8 of code points below U+3000 has only these bytes; they all weigh 0.25.
_LIGHT_BYTES = bytes(range(0xE3))


def estimate_tokens(text: str) -> int:
    """The estimated number of tokens in `text`.

    >>> [estimate_tokens(t) for t in ("", "abcde", "你好", "a你😀")]
    [0, 2, 3, 4]
    """
    if text.isascii():
        return (len(text) + 3) // 4
    if not text.encode("utf-8", "surrogatepass").translate(None, _LIGHT_BYTES):
        return (len(text) + 3) // 4
    cjk = astral = 0
    for run in _CJK.findall(text):
        cjk += len(run)
        astral -= sum(map(len, _ASTRAL.findall(run)))
    astral += sum(map(len, _ASTRAL.findall(text)))
    return ((6 * cjk + 8 * astral + (len(text) - cjk - astral)) + 3) // 4


def cut_to_tokens(text: str, limit: int) -> str:
    """The longest prefix of `text`, cut between code points, of at most `limit` tokens."""
    if limit <= 0:
        return ""
    if text.isascii():
        return text[: 4 * limit]
    if estimate_tokens(text) <= limit:
        return text
    low, high = 0, min(len(text), 4 * limit)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(text[:middle]) <= limit:
            low = middle
        else:
            high = middle - 1
    return text[:low]
