"""The host's window beside what was assembled: what of it the archive does not know yet, and what of it fits."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lossless.formats import synthetic
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

#: How many messages at the end of what was assembled are looked for in the window.
_ANCHORS = 8
#: How far back two lists are compared to tell equal places apart.
_DEPTH = 32
_OURS = ('<summary id="sum_', "<focus_brief id=", synthetic.CUE_OPEN, synthetic.PINNED_TEXT, synthetic.OPENING_TEXT)
_DEFAULT_BUDGET = 128_000
#: What stands in the archive's prompts for a message that is a file there, and how long that is.
_REFERENCE = re.compile(r"\[LCM (?:Raw Payload|Tool Output): file_[^\]\n]*\| ([\d,]+) bytes\]")
#: By so many bytes, or a tenth, a host's text may differ: it puts times before words.
_SLACK_BYTES = 256


@dataclass(frozen=True, slots=True)
class Said:
    """A message as far as it can be told from others: hosts rewrite ids and times on the way."""

    role: str
    text: str
    calls: tuple[str, ...] = ()

    @property
    def is_ours(self) -> bool:
        return self.role == "user" and self.text.startswith(_OURS)

    def agrees(self, other: Said) -> bool:
        """Whether both are the same event. Hosts put a line or a time before a user's words."""
        if self.role != other.role or self.calls != other.calls:
            return False
        if self.text == other.text:
            return True
        short, long = sorted((self.text, other.text), key=len)
        return self.role == "user" and bool(short) and long.endswith((f"\n{short}", f"] {short}"))

    def refers_to(self, other: Said) -> bool:
        """Whether this only stands for the other, which is in a file here and a message there."""
        found = _REFERENCE.match(self.text)
        if found is None or self.role != other.role or _REFERENCE.match(other.text):
            return False
        size, shown = int(found[1].replace(",", "")), len(other.text.encode("utf-8", "surrogatepass"))
        return abs(size - shown) <= max(_SLACK_BYTES, size // 10)


def said(message: dict[str, Any]) -> Said:
    """What a message says, whatever it looks like."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    texts = [block if isinstance(block, str) else _text(block) for block in blocks]
    calls = [
        f"{block.get('name')}{json.dumps(block.get('arguments'), sort_keys=True)}"
        for block in blocks
        if isinstance(block, dict) and block.get("type") == "toolCall"
    ]
    return Said(str(message.get("role")), "\n".join(text for text in texts if text).strip(), tuple(calls))


def _text(block: object) -> str:
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else ""


def unknown_from(window: Sequence[dict[str, Any]], assembled: Sequence[dict[str, Any]]) -> int | None:
    """Where in the window the messages begin that are behind what was assembled; None when nothing lines up.

    Both end with the newest messages. The place where they agree over the longest stretch counts; of equal
    ones the last, so that nothing is shown twice.
    """
    known = [one for one in map(said, assembled[-_DEPTH - _ANCHORS :]) if not one.is_ours]
    if not window or not known:
        return 0
    shown = [said(message) for message in window]
    if all(one.is_ours for one in shown):
        return len(window)
    for end in range(len(known), max(0, len(known) - _ANCHORS), -1):
        places = [at for at in range(len(shown)) if shown[at].agrees(known[end - 1])]
        if places:
            return 1 + max(places, key=lambda at: (_run(shown[: at + 1], known[:end]), at))
    return None


def stand_ins(assembled: Sequence[dict[str, Any]], more: Sequence[dict[str, Any]]) -> int:
    """How many messages at the end of what was assembled only refer to those with which the window goes on."""
    for count in range(min(len(assembled), len(more), _ANCHORS), 0, -1):
        pairs = zip(assembled[-count:], more[:count], strict=True)
        if all(said(one).refers_to(said(other)) for one, other in pairs):
            return count
    return 0


def _run(shown: Sequence[Said], known: Sequence[Said]) -> int:
    """How many messages at the end of both agree."""
    count = 0
    for one, other in zip(reversed(shown[-_DEPTH:]), reversed(known[-_DEPTH:]), strict=False):
        if not one.agrees(other):
            break
        count += 1
    return count


def tokens_of(messages: Sequence[dict[str, Any]]) -> int:
    """An estimate of what messages take in a prompt."""
    return sum(estimate_tokens(json.dumps(message.get("content"), ensure_ascii=False)) + 10 for message in messages)


def fits_from(window: Sequence[dict[str, Any]], budget: int | None) -> int:
    """Where the newest part of a window begins that fits the budget: at a user's message, and never after the last."""
    left, users = budget or _DEFAULT_BUDGET, [n for n, message in enumerate(window) if message.get("role") == "user"]
    start = len(window)
    for start in range(len(window), 0, -1):
        left -= tokens_of(window[start - 1 : start])
        if left < 0:
            break
    else:
        return 0
    return next((n for n in users if n >= start), users[-1] if users else 0)
