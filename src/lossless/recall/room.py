"""How much of a text may be returned, and where to cut it."""

from __future__ import annotations

from dataclasses import dataclass

from lossless.model.tokens import cut_to_tokens, estimate_tokens

#: The longest text that a tool returns, and what of it is left for everything but the content.
MAX_CHARS = 40_000
CONTENT_CHARS = 36_000
#: A cut moves back to the end of a line when at most this share of the text is lost to the next page.
_SLACK = 0.2
_WORD = 32


@dataclass(frozen=True, slots=True)
class Room:
    """Tokens and characters that are left."""

    tokens: int
    chars: int = CONTENT_CHARS

    def holds(self, chars: int, tokens: int) -> bool:
        """Whether a text of this size fits."""
        return chars <= self.chars and tokens <= self.tokens

    def less(self, chars: int, tokens: int) -> Room:
        """What is left after a text of this size."""
        return Room(self.tokens - tokens, self.chars - chars)

    def head(self, text: str) -> str:
        """The beginning of a text that fits, up to the end of a line or of a word where that costs little."""
        fitting = cut_to_tokens(text[: max(0, self.chars)], self.tokens)
        if len(fitting) == len(text):
            return fitting
        line = fitting.rfind("\n") + 1
        if line > len(fitting) * (1 - _SLACK):
            return fitting[:line]
        return fitting[: fitting.rfind(" ", -_WORD) + 1] or fitting

    def tail(self, text: str) -> str:
        """The end of a text that fits."""
        start = max(0, len(text) - max(0, self.chars), len(text) - 4 * max(0, self.tokens))
        low, high = start, len(text)
        while low < high:
            middle = (low + high) // 2
            if estimate_tokens(text[middle:]) <= self.tokens:
                high = middle
            else:
                low = middle + 1
        return text[low:]
