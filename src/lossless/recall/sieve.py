"""Many texts at once: those that cannot match a regular expression are passed over in one search for all of them.

Texts are set one under the other. What matches in a text on its own also matches there, as long as the pattern does
not look at where a text begins or ends; what matches besides is only looked at once more.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import regex  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: What one search of all may take before each text is looked at on its own.
_SECONDS = 0.1
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
#: Among the letters of ASCII these mean the same, and are tried much faster.
_IN_ASCII = {r"\d": "[0-9]", r"\w": "[0-9A-Z_a-z]", r"\s": r"[\t-\r ]"}


class Sieve:
    """Passes the texts that a pattern can match, and some more; for patterns whose matches depend on themselves alone.

    `harmless_chars` is how long a text may be for a search that nobody watches.
    """

    def __init__(self, pattern: str, compiled: Any, harmless_chars: int) -> None:
        self._any, self._ascii = compiled, _for_ascii(pattern, compiled)
        self._harmless = harmless_chars
        #: Whether it took so long that looking at each text is better.
        self.is_slow = False

    def passing(self, texts: Sequence[str]) -> Iterator[int]:
        """The indexes of the texts that can match, in order. Goes only as far as it is asked to."""
        joined = "\n".join(texts)
        starts = [0, *accumulate(len(text) + 1 for text in texts)]
        compiled = self._ascii if joined.isascii() else self._any
        row = 0
        while row < len(texts):
            try:
                found = self._search(compiled, joined, starts[row])
            except TimeoutError:
                self.is_slow = True
                yield from range(row, len(texts))
                return
            if found is None:
                return
            row = bisect_right(starts, found.start(), row) - 1
            if row < len(texts):
                yield row
            row += 1

    def _search(self, compiled: Any, joined: str, start: int) -> Any:
        if len(joined) <= self._harmless:
            return compiled.search(joined, start)
        began = time.monotonic()
        found = compiled.search(joined, start, timeout=_SECONDS, concurrent=True)
        self.is_slow |= time.monotonic() - began > _SECONDS
        return found


def _for_ascii(pattern: str, compiled: Any) -> Any:
    """The pattern with digits, word letters and blanks written out."""
    written = "".join(_IN_ASCII.get(token, token) for token in _TOKEN.findall(pattern))
    return compiled if written == pattern else regex.compile(written)
