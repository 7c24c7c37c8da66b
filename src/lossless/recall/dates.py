"""Times that a text speaks of: "last Friday", "two weeks ago", "in March", "2026-01-05".

Read against a clock that is passed in: now for a question, the time of the message for evidence.
English, with the everyday words of German, French and Spanish.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

from lossless.model.stopwords import FRENCH, stop_words
from lossless.model.words import WORD, fold

if TYPE_CHECKING:
    from collections.abc import Callable

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_Span: TypeAlias = tuple[datetime, datetime]
_Meaning: TypeAlias = "Callable[[re.Match[str], datetime], _Span | None]"


@dataclass(frozen=True, slots=True)
class SpokenTime:
    """Words about a time and what they mean: from `since` up to, without, `before`."""

    start: int
    end: int
    since: datetime
    before: datetime


def time_asked_about(question: str, now: datetime) -> SpokenTime | None:
    """The narrowest time that a question speaks of, None when it speaks of none."""
    return min(spoken_times(question, now), key=lambda spoken: spoken.before - spoken.since, default=None)


def spoken_times(text: str, now: datetime) -> list[SpokenTime]:
    """All times that `text` speaks of, in order and without overlaps. Any text will do.

    >>> friday = datetime(2026, 1, 9, 12, tzinfo=UTC)
    >>> [str(spoken.since.date()) for spoken in spoken_times("from last Monday until yesterday", friday)]
    ['2026-01-05', '1970-01-01']
    """
    folded = fold(text)
    if len(folded) != len(text):
        folded = text.lower()
    if len(folded) != len(text):
        return []
    is_french = stop_words(WORD.findall(folded)) is FRENCH
    found: list[SpokenTime] = []
    for pattern, meaning in _PATTERNS:
        for match in pattern.finditer(folded):
            if match.group() == "hier" and not is_french:
                continue
            if any(match.start() < other.end and other.start < match.end() for other in found):
                continue
            span = _safely(meaning, match, now)
            if span is not None:
                found.append(SpokenTime(match.start(), match.end(), *_turned(folded, match.start(), span, now)))
    return sorted(found, key=lambda spoken: spoken.start)


def _safely(meaning: _Meaning, match: re.Match[str], now: datetime) -> _Span | None:
    """What a match means; None for a day that does not exist, or a time beyond the calendar."""
    try:
        return meaning(match, now)
    except (ValueError, OverflowError):
        return None


def _turned(folded: str, start: int, span: _Span, now: datetime) -> _Span:
    """A span after "since", "after" or "before"."""
    word = _PREPOSITION.search(folded, max(0, start - 24), start)
    if word is None:
        return span
    end_of_today = _midnight(now) + _DAY
    if word.group(1) in _SINCE_WORDS:
        return span[0], max(end_of_today, span[1])
    if word.group(1) in _AFTER_WORDS:
        return span[1], max(end_of_today, span[1] + _DAY)
    return min(_BEGINNING.astimezone(now.tzinfo), span[0]), span[0]


# --- words --------------------------------------------------------------------------------------


def _table(*rows: str) -> dict[str, int]:
    """Each word of a row by the row's number, from 1."""
    return {word: number for number, row in enumerate(rows, 1) for word in row.split()}


def _choice(words: dict[str, int]) -> str:
    return "(?:" + "|".join(sorted(words, key=len, reverse=True)) + ")"


_MONTHS = _table(
    *("january jan januar janvier enero", "february feb februar fevrier febrero", "march mar marz mars marzo"),
    *("april apr avril abril", "may mai mayo", "june jun juni juin junio", "july jul juli juillet julio"),
    *("august aug aout agosto", "september sept sep septembre septiembre", "october oct oktober octobre octubre"),
    *("november nov novembre noviembre", "december dec dezember decembre diciembre"),
)
#: Months that are other words too: they count after a word like "in".
_AMBIGUOUS_MONTHS = {"may", "march", "mar", "mars", "mai", "jan", "jun", "jul", "sep", "dec"}
_WEEKDAYS = _table(
    *("monday montag lundi lunes", "tuesday dienstag mardi martes", "wednesday mittwoch mercredi miercoles"),
    *("thursday donnerstag jeudi jueves", "friday freitag vendredi viernes", "saturday samstag samedi sabado"),
    "sunday sonntag dimanche domingo",
)
_NUMBERS = _table(
    *("a an one ein eine einem einer einen un une una", "two couple zwei deux dos", "three few drei trois tres"),
    *("four vier quatre cuatro", "five funf cinq cinco", "six sechs seis", "seven sieben sept siete"),
    *("eight acht huit ocho", "nine neun neuf nueve", "ten zehn dix diez"),
)
#: Days, weeks, months, years, hours.
_UNITS = _table(
    *("day days tag tage tagen jour jours dia dias", "week weeks woche wochen semaine semaines semana semanas"),
    *("month months monat monate monaten mois mes meses", "year years jahr jahre jahren an ans annee ano anos"),
    "hour hours stunde stunden heure heures hora horas",
)
_DAY_WORDS = {
    **dict.fromkeys(("today", "tonight", "this morning", "this afternoon", "this evening"), 0),
    **dict.fromkeys(("heute", "aujourd'hui", "aujourd’hui", "hoy"), 0),
    **dict.fromkeys(("yesterday", "last night", "gestern", "hier", "ayer"), 1),
    **dict.fromkeys(("the day before yesterday", "day before yesterday", "vorgestern", "avant-hier", "anteayer"), 2),
}
_SINCE_WORDS = {"since", "from", "seit", "depuis", "desde"}
_AFTER_WORDS = {"after", "nach", "apres", "despues de", "despues del"}
_BEFORE_WORDS = {"before", "until", "till", "bis", "avant", "antes de", "antes del", "hasta"}
_PREPOSITION = re.compile(
    r"\b("
    + "|".join(sorted(_SINCE_WORDS | _AFTER_WORDS | _BEFORE_WORDS, key=len, reverse=True))
    + r")(?: the| le| el| dem)? $"
)
_NUMBER = rf"(\d{{1,3}}|{_choice(_NUMBERS)})(?: of)?"
_UNIT, _WEEKDAY, _MONTH = f"({_choice(_UNITS)})", f"({_choice(_WEEKDAYS)})", f"({_choice(_MONTHS)})"
_LAST = r"(?:last|past|previous|letzte[nrsm]?|vergangene[nrsm]?|vorige[nrsm]?)"
_LATIN_LAST = r"(?:dernier|derniere|passee?|pasad[oa])"


# --- meanings -----------------------------------------------------------------------------------


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _days(first: datetime, count: int = 1) -> _Span:
    return first, first + count * _DAY


def _month(year: int, month: int, now: datetime) -> _Span:
    first = _midnight(now).replace(year=year, month=month, day=1)
    return first, first.replace(year=year + month // 12, month=month % 12 + 1)


def _recent_year(month: int, day: int, now: datetime) -> int:
    """The year of the latest such date that is not ahead."""
    return now.year if (month, day) <= (now.month, now.day) else now.year - 1


def _date(year: str | None, month: int, day: int, now: datetime) -> _Span:
    chosen = int(year) if year else _recent_year(month, day, now)
    return _days(_midnight(now).replace(year=chosen, month=month, day=day))


def _iso(match: re.Match[str], now: datetime) -> _Span:
    year, month, day = match.groups()
    return _date(year, int(month), int(day), now) if day else _month(int(year), int(month), now)


def _day_month(match: re.Match[str], now: datetime) -> _Span:
    return _date(match.group(3), _MONTHS[match.group(2)], int(match.group(1)), now)


def _month_day(match: re.Match[str], now: datetime) -> _Span:
    return _date(match.group(3), _MONTHS[match.group(1)], int(match.group(2)), now)


def _named_month(match: re.Match[str], now: datetime) -> _Span:
    month = _MONTHS[match.group(1)]
    year = match.group(2)
    return _month(int(year) if year else _recent_year(month, 1, now), month, now)


def _year(match: re.Match[str], now: datetime) -> _Span:
    first = _midnight(now).replace(year=int(match.group(1)), month=1, day=1)
    return first, first.replace(year=first.year + 1)


def _number(text: str) -> int:
    return int(text) if text.isdigit() else _NUMBERS[text]


def _ago(match: re.Match[str], now: datetime) -> _Span:
    """A unit ago, give or take half of one."""
    count, unit = _number(match.group(1)), _UNITS[match.group(2)]
    today = _midnight(now)
    if unit == 5:
        hour = now - timedelta(hours=count)
        return hour - timedelta(hours=1), hour + timedelta(hours=1)
    if unit == 1:
        return _days(today - count * _DAY)
    length, slack = {2: (7, 3), 3: (30, 15), 4: (365, 183)}[unit]
    middle = today - count * length * _DAY
    return middle - slack * _DAY, min(middle + (slack + 1) * _DAY, today + _DAY)


def _last_few(match: re.Match[str], now: datetime) -> _Span:
    count, unit = _number(match.group(1)), _UNITS[match.group(2)]
    back = {1: 1, 2: 7, 3: 30, 4: 365, 5: 1}[unit] * count
    return _midnight(now) - back * _DAY, _midnight(now) + _DAY


def _last_unit(match: re.Match[str], now: datetime) -> _Span | None:
    return _unit_back(_UNITS[match.group(1)], 1, now)


def _this_unit(match: re.Match[str], now: datetime) -> _Span | None:
    return _unit_back(_UNITS[match.group(1)], 0, now)


def _unit_back(unit: int, back: int, now: datetime) -> _Span | None:
    """The calendar's week, month or year, so many back from the one that holds `now`."""
    today = _midnight(now)
    if unit == 2:
        return _days(today - today.weekday() * _DAY - 7 * back * _DAY, 7)
    if unit == 3:
        months = today.year * 12 + today.month - 1 - back
        return _month(months // 12, months % 12 + 1, now)
    if unit == 4:
        first = today.replace(year=today.year - back, month=1, day=1)
        return first, first.replace(year=first.year + 1)
    return _days(today - back * _DAY) if unit == 1 else None


def _weekend(match: re.Match[str], now: datetime) -> _Span:
    """The latest weekend that has begun; "last" is one that is over."""
    today = _midnight(now)
    saturday = today - (today.weekday() - 5) % 7 * _DAY
    over = match.group(1) != "this" and saturday + 2 * _DAY > today
    return _days(saturday - (7 * _DAY if over else timedelta()), 2)


def _weekday(match: re.Match[str], now: datetime) -> _Span:
    """The latest such day before today."""
    today = _midnight(now)
    return _days(today - ((today.weekday() + 1 - _WEEKDAYS[match.group(1)] - 1) % 7 + 1) * _DAY)


def _weekdays_ago(match: re.Match[str], now: datetime) -> _Span:
    today = _midnight(now)
    latest = (today.weekday() + 1 - _WEEKDAYS[match.group(2)] - 1) % 7 + 1
    return _days(today - (latest + 7 * (_number(match.group(1)) - 1)) * _DAY)


def _day_word(match: re.Match[str], now: datetime) -> _Span:
    return _days(_midnight(now) - _DAY_WORDS[match.group()] * _DAY)


def _after(*words: str) -> str:
    """A place right after one of `words`."""
    return "(?:" + "|".join(rf"(?<=\b{word} )" for word in words) + ")"


_IN_TIME = ("in", "of", "during", "last", "this", "by", "im", "letzten", "en", "fin", "de")
_PREPOSITIONS = tuple(word for word in _SINCE_WORDS | _AFTER_WORDS | _BEFORE_WORDS)
_CLEAR_MONTH = f"({_choice({word: 0 for word in _MONTHS if word not in _AMBIGUOUS_MONTHS})})"
_PATTERNS: tuple[tuple[re.Pattern[str], _Meaning], ...] = tuple(
    (re.compile(rule), meaning)
    for rule, meaning in (
        (r"\b(\d{4})-(\d{2})(?:-(\d{2}))?(?!\d)", _iso),
        (rf"\b(\d{{1,2}})(?:st|nd|rd|th|\.)? (?:of |de )?{_MONTH}\b(?:,? (?:de )?(\d{{4}})\b)?", _day_month),
        (rf"\b{_MONTH}\.? (\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)(?:,? (\d{{4}})\b)?", _month_day),
        (rf"\b{_MONTH},? (?:of |de )?(\d{{4}})\b", _named_month),
        (rf"\b{_NUMBER} {_WEEKDAY}s? ago\b", _weekdays_ago),
        (rf"\b{_NUMBER} {_UNIT} ago\b", _ago),
        (rf"\b(?:vor|il y a|hace) {_NUMBER} {_UNIT}\b", _ago),
        (rf"\b{_LAST} {_NUMBER} {_UNIT}\b", _last_few),
        (r"\b(last|past|this|previous) weekend\b", _weekend),
        (rf"\b{_LAST} {_UNIT}\b", _last_unit),
        (rf"\b(?:la |le |el )?{_UNIT} {_LATIN_LAST}\b", _last_unit),
        (rf"\b(?:this|diese[nrsm]?|cette|ce|esta|este) {_UNIT}\b", _this_unit),
        (rf"\b(?:{_LAST} |on |this |am |le |el )?{_WEEKDAY}(?: {_LATIN_LAST})?\b", _weekday),
        (r"\b(?:" + "|".join(sorted(map(re.escape, _DAY_WORDS), key=len, reverse=True)) + r")\b", _day_word),
        (rf"\b{_CLEAR_MONTH}\b()", _named_month),
        (rf"{_after(*_IN_TIME, *_PREPOSITIONS)}{_MONTH}\b()", _named_month),
        (rf"{_after('in', 'during', 'year', 'jahr', 'en', *_PREPOSITIONS)}((?:19|20)\d{{2}})\b", _year),
    )
)
