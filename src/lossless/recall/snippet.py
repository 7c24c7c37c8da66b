"""The part of a text that shows best why it was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.recall.matching import Finder, Found

SNIPPET_CHARS = 400
ELLIPSIS = "…"
#: How far an end of the window may move to stand between words or sentences.
_SLACK = 40
_MOST = 200
#: What another occurrence of a term adds; a different term adds its weight.
_REPEAT = 0.01


@dataclass(frozen=True, slots=True)
class Window:
    """A piece of a text, `text[start:end]`, and the matches inside of it as offsets into the whole text."""

    start: int
    end: int
    matches: tuple[tuple[int, int], ...]


def best_window(text: str, finder: Finder, size: int = SNIPPET_CHARS, weights: Sequence[float] | None = None) -> Window:
    """The window of at most `size` characters with the most different terms (by weight), then the most matches.

    Without any match, the beginning. Linear in the text.
    """
    found = finder.find(text, _MOST)
    first, last = _densest(found, size, weights)
    matches = found[first : last + 1]
    if matches:
        middle = (matches[0].start + max(hit.end for hit in matches)) // 2
        start = max(0, min(middle - size // 2, len(text) - size, matches[0].start))
    else:
        start = max(0, len(text) - len(text.lstrip()))
    start, end = _settle(text, start, size, matches)
    inside = dict.fromkeys((hit.start, hit.end) for hit in found if start <= hit.start and hit.end <= end)
    return Window(start, end, tuple(inside))


def snippet(text: str, finder: Finder, size: int = SNIPPET_CHARS, weights: Sequence[float] | None = None) -> str:
    """The best window on one line, with an ellipsis where text was left out."""
    window = best_window(text, finder, size, weights)
    shown = " ".join(text[window.start : window.end].split())
    before = ELLIPSIS if text[: window.start].strip() else ""
    after = ELLIPSIS if text[window.end :].strip() else ""
    return f"{before}{shown}{after}"


def _densest(found: Sequence[Found], size: int, weights: Sequence[float] | None) -> tuple[int, int]:
    """The first and last index of the best run of matches that fits into `size` characters."""
    best, best_value = (0, -1), 0.0
    times: dict[int, int] = {}
    value, first = 0.0, 0
    for last, hit in enumerate(found):
        times[hit.term] = times.get(hit.term, 0) + 1
        value += (weights[hit.term] if weights else 1.0) if times[hit.term] == 1 else _REPEAT
        while first < last and found[first].start < hit.end - size:
            gone = found[first].term
            times[gone] -= 1
            value -= _REPEAT if times[gone] else weights[gone] if weights else 1.0
            first += 1
        if value > best_value + _REPEAT / 2:
            best, best_value = (first, last), value
    return best


def _settle(text: str, start: int, size: int, matches: Sequence[Found]) -> tuple[int, int]:
    """Move the ends of a window to places between words, without losing what it shows."""
    if len(text) <= size:
        return 0, len(text)
    latest = matches[0].start if matches else start
    for mark in ("\n", ". ", " "):
        at = text.find(mark, max(0, start - 1), min(start + _SLACK, latest))
        if start > 0 and at >= 0:
            start = at + len(mark)
            break
    start = min(start, latest)
    end = min(len(text), start + size)
    earliest = max((hit.end for hit in matches), default=start)
    if end < len(text) and not text[end].isspace():
        at = text.rfind(" ", max(earliest, end - _SLACK), end)
        end = at if at >= 0 else end
    return start, end
