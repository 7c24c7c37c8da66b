"""The token estimate: the reference's code-point weights, so that stored counts agree.

CJK code points weigh 1.5, other code points beyond the Basic Multilingual Plane 2, everything
else 0.25; the sum is rounded up.
"""

from __future__ import annotations

import re
from bisect import bisect_right

_CJK = re.compile(
    "[\u4e00-\u9fff\u3400-\u4dbf\u3000-\u303f\u3040-\u30ff\uac00-\ud7af\uff00-\uffef"
    "\U00020000-\U0002a6df\U0002a700-\U0002ebef]+"
)
_ASTRAL = re.compile("[\U00010000-\U0001ffff\U0002a6e0-\U0002a6ff\U0002ebf0-\U0010ffff]+")
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
    cjk, astral = (sum(map(len, runs.findall(text))) for runs in (_CJK, _ASTRAL))
    return ((6 * cjk + 8 * astral + (len(text) - cjk - astral)) + 3) // 4


def cut_to_tokens(text: str, limit: int) -> str:
    """The longest prefix of `text`, cut between code points, of at most `limit` tokens."""
    if limit <= 0:
        return ""
    if text.isascii():
        return text[: 4 * limit]
    if estimate_tokens(text) <= limit:
        return text
    sizes = range(min(len(text), 4 * limit) + 1)
    return text[: bisect_right(sizes, limit, key=lambda size: estimate_tokens(text[:size])) - 1]


def one_line(text: str, limit: int = 100) -> str:
    """The beginning of a text, on one line of at most so many characters."""
    words = " ".join(text[: 4 * limit].split())
    return words if len(words) <= limit else words[: limit - 1] + "…"
