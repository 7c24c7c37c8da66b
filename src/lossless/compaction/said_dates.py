"""What "yesterday" and "two weeks ago" meant on the day they were said: later, nobody can tell any more."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import date

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAYS = {name: number for number, name in enumerate(("mon", "tue", "wed", "thu", "fri", "sat", "sun"))}
_NUMBERS = {name: number for number, name in enumerate(("one", "two", "three", "four", "five", "six", "seven"), 1)}
_NUMBERS |= {"a": 1, "an": 1, "eight": 8, "nine": 9, "ten": 10}
_DAYS = {"yesterday": -1, "last night": -1, "tomorrow": 1, "tomorrow night": 1}
_WEEKDAY = r"(?:mon|tue|wed|thu|fri|sat|sun)(?:s|rs|urs|nes|ur)?(?:day)?"
_SAID = re.compile(
    r"\b(?<!like )(?<!like just )(?<!like only )(?:(?P<day>yesterday|tomorrow|last night)"
    rf"|(?P<way>last|next) (?P<what>week(?:end)?|month|year|{_WEEKDAY})"
    r"|(?P<count>an?|one|two|three|four|five|six|seven|eight|nine|ten|\d{1,2}) (?P<unit>day|week|month|year)s? ago)\b"
    r"(?! (?:of|in) )",
    re.IGNORECASE,
)


def speaks_of_days(text: str) -> bool:
    """Whether `date_words` may find something; quick."""
    return "esterday" in text or "omorrow" in text or "ast " in text or "ext " in text or " ago" in text


def date_words(text: str, said_on: date) -> str:
    """A text in which words for a day are followed by the date that they meant.

    >>> from datetime import date
    >>> date_words("We met last Friday, and a month ago.", date(2023, 5, 8))
    'We met last Friday (5 May 2023), and a month ago (April 2023).'
    """
    return _SAID.sub(lambda found: f"{found[0]} ({meant})" if (meant := _meaning(found, said_on)) else found[0], text)


def _meaning(found: re.Match[str], today: date) -> str:
    """The date that words meant; '' when there is none in the calendar."""
    try:
        if found["day"]:
            return _named_day(today + timedelta(days=_DAYS[found["day"].lower()]))
        if found["unit"]:
            count = found["count"].lower()
            return _back(found["unit"].lower(), -(int(count) if count.isdigit() else _NUMBERS[count]), today)
        step = -1 if found["way"].lower() == "last" else 1
        return _back(found["what"].lower(), step, today)
    except (OverflowError, ValueError):
        return ""


def _back(unit: str, step: int, today: date) -> str:
    """So many units from a day, as exactly as the words say it."""
    match unit:
        case "day":
            return _named_day(today + timedelta(days=step))
        case "week":
            monday = today - timedelta(days=today.weekday()) + timedelta(weeks=step)
            return f"week of {_named_day(monday)}"
        case "weekend":
            saturday = today - timedelta(days=today.weekday() - 5) + timedelta(weeks=min(step, 0))
            return f"weekend of {_named_day(saturday)}"
        case "month":
            months = today.year * 12 + today.month - 1 + step
            return f"{_MONTHS[months % 12]} {months // 12}" if months >= 12 else ""
        case "year":
            return str(today.year + step) if today.year + step > 0 else ""
    day = _WEEKDAYS[unit[:3]]
    away = (today.weekday() - day - 1) % 7 + 1 if step < 0 else -((day - today.weekday() - 1) % 7 + 1)
    return _named_day(today - timedelta(days=away))


def _named_day(day: date) -> str:
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"
