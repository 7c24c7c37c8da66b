"""Token budgets: an upper estimate of tokens, and the conversation's share of a model window."""

from __future__ import annotations

import math
from binascii import unhexlify
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any
from zlib import adler32

from lossless.model.js_json import stringify_js
from lossless.model.messages import File, Json, Message, Opaque, Part, ToolCall, ToolResult

#: Tokens of an image, regardless of its size in bytes.
PICTURE_TOKENS = 1_600
#: Characters of base64 per token for other binary data; documents are billed per page.
_BINARY_CHARS = 32
#: In unknown blocks, a string without spaces of at least this length is treated as data.
_DATA_CHARS = 4_096
#: Id, name and quotes around a call or its result.
_CALL_TOKENS = 12
#: Text with at least this share of capitals, digits and punctuation is dense: code, logs, data. Other text with at
#: least this share of spaces is prose; the rest is letters without end.
_DENSE_SHARE, _SPACED_SHARE = 0.11, 0.08

#: Classes of bytes: vowels, frequent and rare consonants, capitals, digits, space, other white space, line end,
#: punctuation; the first is anything else.
_CLASSES: Mapping[str, Iterable[int]] = {
    "x": (), "v": b"aeiouy", "c": b"bcdfghlmnprst", "k": b"jkqvwxz", "U": range(65, 91), "d": range(48, 58), "s": b" ",
    "t": b"\t\r\v\f", "n": b"\n", "p": [byte for byte in range(33, 127) if not chr(byte).isalnum()],
}  # fmt: skip
_CODES = {name: code for code, name in enumerate(_CLASSES)}
#: First bytes of UTF-8 by script.
_FIRST_BYTES: Mapping[str, Iterable[int]] = {
    "L": range(0xC0, 0xCC), "M": range(0xCC, 0xCE), "G": range(0xCE, 0xD0), "C": range(0xD0, 0xD4),
    "H": range(0xD4, 0xE0), "I": range(0xE0, 0xE2), "S": range(0xE2, 0xE3), "K": range(0xE3, 0xE4),
    "Z": range(0xE4, 0xEA), "Y": range(0xEA, 0xEE), "F": range(0xEE, 0xF0), "E": range(0xF0, 0x100),
}  # fmt: skip
_NOT_FIRST = bytes(range(0xC0))


def _table(classes: Mapping[int, Iterable[int]], rest: int = 0) -> bytes:
    table = bytearray([rest]) * 256
    for code, members in classes.items():
        for byte in members:
            table[byte] = code
    return bytes(table)


def _pair_table(text: str) -> bytes:
    pairs, weights = text.split()[1::2], text.split()[2::2]
    by_pair = {_CODES[pair[0]] << 4 | _CODES[pair[1]]: int(n) for pair, n in zip(pairs, weights, strict=True)}
    return bytes(by_pair.get(pair, 0) for pair in range(256))


#: Each class is a hexadecimal digit, so that two adjacent ones are one byte.
_BY_CLASS = _table({ord(f"{code:x}"): _CLASSES[name] for name, code in _CODES.items()}, rest=ord("0"))
_BY_SCRIPT = _table({ord(name): members for name, members in _FIRST_BYTES.items()})
_TIGHT = b"".join(b"%x" % _CODES[name] for name in "Udp")
#: The low half of adler32 is one more than the sum of so many bytes; of twice as many, if all are below 128.
_SUMMED_BYTES = 256

#: Tokens for each pair of adjacent classes, in hundredths, at most 255: fitted to the counts of cl100k and o200k.
_PROSE, _UNSPACED, _DENSE = (
    _pair_table(table)
    for table in files(__package__).joinpath("token_weights.txt").read_text(encoding="utf-8").split("\n\n")
)
#: Beyond ASCII: Latin, marks, Greek, Cyrillic, Hebrew and Arabic, Indic and Thai, symbols, kana, Han, Hangul, full
#: width, emoji.
_SCRIPTS = {
    "L": 170, "M": 120, "G": 110, "C": 58, "H": 120, "I": 120, "S": 150, "K": 87, "Z": 120, "Y": 110, "F": 120,
    "E": 320,
}  # fmt: skip
#: A text has at most one token per byte, and here at least one token per this many bytes.
_MOST_BYTES = 8


def budget_tokens(text: str) -> int:
    """An upper estimate of how many tokens current tokenizers count in `text`.

    >>> [budget_tokens(t) for t in ("", "The door is open.", "9f86d081884c7d65", "你好")]
    [0, 6, 15, 3]
    """
    raw = text.encode("utf-8", "surrogatepass")
    size = len(raw)
    if not size:
        return 0
    classes = raw.translate(_BY_CLASS)
    is_dense = size - len(classes.translate(None, _TIGHT)) >= _DENSE_SHARE * size
    is_spaced = is_dense or raw.count(b" ") >= _SPACED_SHARE * size
    digits = classes + b"0" + classes[1:] if size % 2 else classes + classes[1:] + b"0"
    pairs = unhexlify(digits)  # of each byte and the next one, in any order
    weighed = pairs.translate(_DENSE if is_dense else _PROSE if is_spaced else _UNSPACED)
    step = 2 * _SUMMED_BYTES if weighed.isascii() else _SUMMED_BYTES
    total = 0
    for start in range(0, size, step):
        total += (adler32(weighed[start : start + step]) & 0xFFFF) - 1
    if len(text) < size:
        scripts = raw.translate(_BY_SCRIPT, _NOT_FIRST)
        total += sum([_SCRIPTS[chr(script)] * scripts.count(script) for script in set(scripts)])
    return min(max(-(-total // 100), -(-size // _MOST_BYTES)), size)


#: The same for a summary, which each step of a fold asks for.
summary_budget_tokens = lru_cache(maxsize=16)(budget_tokens)


def json_budget_tokens(value: Json) -> int:
    """The budget tokens of a value serialised as JSON; binary strings have their own price."""
    data: list[str] = []
    kept = _without_data(value, data)
    return budget_tokens(stringify_js(kept)) + sum(max(PICTURE_TOKENS, len(one) // _BINARY_CHARS) for one in data)


def message_budget_tokens(message: Message) -> int:
    """The budget tokens of a message in a prompt, without the per-message frame."""
    return budget_tokens(message.content) if not message.parts else sum(map(_part_tokens, message.parts))


def _part_tokens(part: Part) -> int:
    match part:
        case ToolCall():
            given = part.input if isinstance(part.input, str) else stringify_js(part.input)
            return _CALL_TOKENS + budget_tokens(part.name) + budget_tokens(given)
        case ToolResult():
            return _CALL_TOKENS + budget_tokens(part.text)
        case File():
            return PICTURE_TOKENS if (part.mime or "image/").startswith("image/") else json_budget_tokens(part.raw)
        case Opaque():
            return json_budget_tokens(part.raw)
        case _:
            return budget_tokens(part.text)


def _without_data(value: Any, data: list[str]) -> Any:
    if isinstance(value, str):
        if len(value) < _DATA_CHARS or (" " in value[:_DATA_CHARS] and not value.startswith("data:")):
            return value
        data.append(value)
        return ""
    if isinstance(value, dict):
        return {name: _without_data(item, data) for name, item in value.items()}
    return [_without_data(item, data) for item in value] if isinstance(value, list | tuple) else value


#: The conversation gets at least this fraction (one in N) of a window.
MINIMUM_SHARE = 16
#: The factor changes in steps of one in N, so that small corrections do not change the budget.
_FACTOR_STEPS = 20


@dataclass(frozen=True, slots=True)
class HistoryBudget:
    """What is known about a model window; `tokens` is the part that the conversation may use, by our estimate."""

    #: Tokens that the host or the caller allows for the whole prompt, by the provider's count.
    window: int
    #: Tokens sent in addition to the conversation (system prompt, tools), by our estimate.
    overhead: int = 0
    #: Further tokens that the provider counts beyond the conversation and `overhead`.
    frame: int = 0
    #: Tokens reserved for the reply, by the provider's count.
    reply: int = 0
    #: The provider's tokens per estimated token.
    factor: float = 1.0

    @property
    def left(self) -> int:
        """The estimated tokens left for the conversation; negative when the rest of the prompt exceeds the window."""
        if self.factor == 1.0:
            return self.window - self.reply - self.frame - self.overhead
        steps = max(1, math.ceil(round(self.factor * _FACTOR_STEPS, 6)))
        return int((self.window - self.reply - self.frame) * _FACTOR_STEPS / steps) - self.overhead

    @property
    def least(self) -> int:
        """The minimum that the conversation gets."""
        return max(1, self.window // MINIMUM_SHARE)

    @property
    def tokens(self) -> int:
        """The history budget; the whole window when nothing else is known."""
        return max(self.left, self.least)

    @property
    def over(self) -> int:
        """By how many tokens the rest of the prompt exceeds the window."""
        return self.tokens - self.left

    @property
    def why_over(self) -> str:
        """Which parts of the prompt use up the window when less than the minimum is left; else empty."""
        if not self.over:
            return ""
        rest, reply = self.overhead + self.frame, self.reply
        return f"tools and system prompt take {rest:,} and the reply is given {reply:,} of {self.window:,} tokens"

    def __str__(self) -> str:
        return (
            f"{self.tokens:,} of {self.window:,} (beside {self.overhead + self.frame:,}, reply {self.reply:,}, "
            f"factor {self.factor:.2f})"
        )

    def in_history(self, tokens: int) -> int:
        """The conversation's share of a whole prompt of so many tokens by the provider's count; at least 1."""
        return max(1, HistoryBudget(tokens, self.overhead, self.frame, 0, self.factor).left)


def choose_budget(known: HistoryBudget | None, fresh: HistoryBudget, size: int, threshold: float) -> HistoryBudget:
    """The budget for a context of this size: the previous one until a fold is due or it is exceeded.

    So what is learned between two folds does not change prompts; a different window applies at once.
    """
    if known is None or known.window != fresh.window:
        return fresh
    return fresh if size > min(fresh.tokens, int(threshold * known.tokens)) else known


@dataclass(frozen=True, slots=True)
class BudgetMemory:
    """What is remembered of a conversation's prompts: the current budget, and what providers have counted."""

    budget: HistoryBudget
    #: The newest measurement of tokens sent beyond what we count, and the size of the prompt in which it was made.
    frame: int = 0
    frame_at: int | None = None
    #: The largest reply so far, in tokens.
    longest_reply: int = 0


def learn_frame(kept: BudgetMemory, sent: int, ratio: float | None, reported: int) -> BudgetMemory:
    """Estimates the tokens outside the conversation from a provider's count.

    `sent` tokens by our estimate, with `overhead`, were counted as `reported`; `ratio` is the known tokenizer ratio.
    Small conversations give the best estimate; without a ratio, or when the window was exceeded, every prompt counts.
    """
    surplus = max(0, reported - int((ratio or 1.0) * sent))
    history = sent - kept.budget.overhead
    tells = history <= reported // 4 and (kept.frame_at is None or history <= kept.frame_at)
    if ratio is None or tells or reported > kept.budget.window:
        return BudgetMemory(kept.budget, surplus, history, kept.longest_reply)
    return BudgetMemory(kept.budget, min(kept.frame, surplus), kept.frame_at, kept.longest_reply)


#: The fresh tail's share of the history budget unless `freshTailMaxTokens` is set.
TAIL_SHARE = 0.30


def fresh_tail_cap(max_tokens: int | None, history: int) -> int | None:
    """The maximum tokens of the fresh tail for a history budget; None when there is no cap."""
    if max_tokens is None:
        return int(TAIL_SHARE * history)
    return max_tokens if max_tokens >= 0 else None
