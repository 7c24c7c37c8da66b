"""Text for terminals: control characters made visible, long texts clipped, numbers, sizes and times formatted.

`lcm` starts without rich, so it is imported where it is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from rich.text import Text

#: The most characters of one text that are drawn at once, and of one line in a list.
MAX_CHARS = 20_000
LINE_CHARS = 300
#: A terminal of so many columns has room for two panes side by side.
WIDE_COLUMNS = 120

_MARKS = (*range(0x200E, 0x2010), 0x061C, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF, 0x200B, 0x2060)
_VISIBLE: dict[int, str] = (
    {code: chr(0x2400 + code) for code in range(32)}
    | {0x09: "    ", 0x0A: "\n", 0x7F: "␡", 0x2028: "\n", 0x2029: "\n"}
    | dict.fromkeys([*range(0x80, 0xA0), *_MARKS, *range(0xD800, 0xE000)], "\ufffd")
)

#: Colours of medium lightness: each has a contrast of at least 4 to 1 on the dark and on the light background.
BLUE, GREEN, NOTICE, PURPLE, RED = "#2f7cca", "#2a8a55", "#a56c18", "#9a5fb5", "#cf4b45"
ROLES = {"user": BLUE, "assistant": GREEN, "tool": NOTICE, "system": PURPLE}


def make_visible(text: str) -> str:
    """The text with everything that would steer a terminal made visible; line breaks stay.

    >>> make_visible("a\\x1b[31mb\\u202ec")
    'a␛[31mb\ufffdc'
    """
    return text.replace("\r\n", "\n").translate(_VISIBLE)


def one_line(text: str, limit: int = LINE_CHARS) -> str:
    """The beginning of a text on one line.

    >>> one_line("a\\n  b", 10), one_line("abcdef", 4)
    ('a b', 'abc…')
    """
    words = make_visible(" ".join(text[: 4 * limit].split()))
    return words if len(words) <= limit else words[: limit - 1] + "…"


def shorten_middle(name: str, limit: int) -> str:
    """A name without its middle where it is too long.

    >>> shorten_middle("abcdefgh", 5), shorten_middle("abc", 5)
    ('ab…gh', 'abc')
    """
    keep = (limit - 1) // 2
    return name if len(name) <= limit else f"{name[:keep]}…{name[-(limit - 1 - keep) :]}"


def home_path(path: str) -> str:
    """A path as people write it: `~` for their own folder."""
    home = str(Path.home())
    return f"~{path[len(home) :]}" if path.startswith(home + os.sep) else path


def clip_text(text: str, limit: int = MAX_CHARS) -> str:
    """As much of a text as is drawn at once, and how much that leaves out."""
    if len(text) <= limit:
        return make_visible(text)
    return f"{make_visible(text[:limit])}\n\n… {len(text) - limit:,} more characters"


def text_cell(text: str, style: str = "") -> Text:
    """A text for a table or a tree; brackets in it are brackets."""
    from rich.text import Text

    return Text(one_line(text), style, no_wrap=True, overflow="ellipsis", end="")


def role_cell(name: str) -> Text:
    """A role in its colour."""
    return text_cell(name, ROLES.get(name, ""))


def right_cell(value: int | str, width: int) -> Text:
    """A number at the right edge of a column."""
    from rich.text import Text

    return Text((f"{value:,}" if isinstance(value, int) else value).rjust(width), end="")


def share_bar(share: float, width: int, style: str = BLUE) -> Text:
    """A bar that is full at 1; what is there is never invisible.

    >>> share_bar(0.5, 4).plain, share_bar(0.001, 4).plain
    ('━━──', '━───')
    """
    from rich.text import Text

    full = min(width, max(1 if share > 0 else 0, round(width * share)))
    return Text.assemble(("━" * full, style), ("─" * (width - full), "dim"), end="")


def plural(count: int, noun: str) -> str:
    """`1 message`, `2 messages`, `3 summaries`, `4 days`."""
    nouns = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{count:,} {noun if count == 1 else nouns}"


def format_bytes(count: int | None) -> str:
    """A number of bytes that is easy to read.

    >>> format_bytes(1_536), format_bytes(12)
    ('1.5 kB', '12 B')
    """
    if count is None:
        return "–"
    if count < 1024:
        return f"{count} B"
    power = next((power for power in (1, 2) if count < 1000 * 1024**power), 3)
    return f"{count / 1024**power:.1f} {('kB', 'MB', 'GB')[power - 1]}"


class LocalTimes:
    """Times in a person's zone; a year is named where it is not the one that it is now."""

    def __init__(self, zone: str | None, clock: Callable[[], datetime]) -> None:
        self._zone, self._clock = ZoneInfo(zone) if zone else None, clock

    def minute(self, moment: datetime | None) -> str:
        """A time to the minute, with its year."""
        return "–" if moment is None else f"{moment.astimezone(self._zone):%Y-%m-%d %H:%M}"

    def short(self, moment: datetime | None) -> str:
        """A time for a column: `16 Nov 08:12`, of another year ` 3 May  2024`."""
        if moment is None:
            return "–"
        local = moment.astimezone(self._zone)
        rest = f"{local:%H:%M}" if local.year == self._year else f" {local:%Y}"
        return f"{local.day:>2} {local:%b} {rest}"

    def clock_time(self, moment: datetime | None) -> str:
        """The time of day."""
        return "" if moment is None else f"{moment.astimezone(self._zone):%H:%M}"

    def day(self, moment: datetime | None) -> str:
        """The day: `Monday 16 November`, of another year `Friday 3 May 2024`."""
        if moment is None:
            return ""
        local = moment.astimezone(self._zone)
        year = "" if local.year == self._year else f" {local.year}"
        return f"{local:%A} {local.day} {local:%B}{year}"

    @property
    def _year(self) -> int:
        return self._clock().astimezone(self._zone).year
