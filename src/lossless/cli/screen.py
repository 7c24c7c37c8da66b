"""Answers on standard output: JSON for programs; tables, fields and prose of the same data for people.

Text from the archive cannot control the terminal.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import zip_longest
from operator import attrgetter
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeAlias, overload
from zoneinfo import ZoneInfo

import click

from lossless.cli.failures import printable
from lossless.model.times import state_time
from lossless.settings.setting import camel_case
from lossless.tui.text import format_bytes, plural, share_bar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from rich.console import Console, JustifyMethod
    from rich.text import Text

    from lossless.cli.commands import Rule

#: What an answer holds, as programs read it.
Data: TypeAlias = dict[str, Any]
_STEPS = ((60, 1, "second"), (3600, 60, "minute"), (86_400, 3600, "hour"), (float("inf"), 86_400, "day"))
#: So wide are tables in pipes.
_PIPE_WIDTH = 200
#: The width of a bar in a table.
_BAR = 16
#: So narrow may the column become that takes what remains.
_MIN_REST = 12
#: A preview is one line of at most this many characters.
PREVIEW_CHARS = 160
_ROLES = {"user": "cyan", "assistant": "green", "tool": "yellow", "system": "magenta"}


def write_json(envelope: Data, *, pretty: bool = False) -> None:
    """One JSON document; what UTF-8 cannot hold is escaped."""
    shape: Data = {"default": state_time, "indent": 2 if pretty else None}
    try:
        document = json.dumps(envelope, ensure_ascii=False, **shape).encode()
    except UnicodeEncodeError:
        document = json.dumps(envelope, **shape).encode()
    click.echo(document)


@overload
def to_json(value: DataclassInstance) -> Data: ...


@overload
def to_json(value: Any) -> Any: ...


def to_json(value: Any) -> Any:
    """A value with all values inside it, fields under JSON's names."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {camel_case(field.name): to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, set):
        return sorted(value)
    return str(value) if isinstance(value, PurePath) else value


def pick_json(value: object, *names: str) -> Data:
    """Some fields and properties of a value under JSON's names, in this order; `new=old` gives one another name.

    >>> pick_json(datetime(2026, 3, 1), "this_year=year", "day")
    {'thisYear': 2026, 'day': 1}
    """
    parts = [name.partition("=") for name in names]
    return {camel_case(new): to_json(attrgetter(old or new)(value)) for new, _, old in parts}


def preview(text: str, length: int = PREVIEW_CHARS) -> str:
    """The beginning of a text on one line.

    >>> preview("two\\n  lines")
    'two lines'
    """
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"


class Screen:
    """Prints for a person, with times in their zone."""

    def __init__(
        self, zone: str | None, rule: Rule | None = None, now: datetime | None = None, *, is_dry_run: bool = False
    ) -> None:
        self._is_dry_run = is_dry_run
        self._zone = ZoneInfo(zone) if zone else None
        self._rule = rule
        self._now = now or datetime.now(UTC)
        from rich.console import Console

        #: A pipe has no width: what new spellings write into one is not wrapped.
        self._is_piped = rule is not None and not sys.stdout.isatty()
        width = _PIPE_WIDTH if self._is_piped else None
        self._console = Console(
            file=sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=self._is_piped, width=width
        )

    @property
    def width(self) -> int:
        return self._console.width

    def time(self, moment: datetime | None) -> str:
        """A time to the minute, in the person's zone."""
        return "–" if moment is None else f"{moment.astimezone(self._zone):%Y-%m-%d %H:%M}"

    def date(self, moment: datetime | None) -> str:
        return self.time(moment)[:10]

    def ago(self, moment: datetime | None) -> str:
        """How long it is since then."""
        if moment is None:
            return "never"
        seconds = int((self._now - moment).total_seconds())
        if seconds < 1:
            return "just now"
        size, unit = next((size, unit) for below, size, unit in _STEPS if seconds < below)
        return f"{plural(seconds // size, unit)} ago"

    def line(self, *pieces: str | Text) -> None:
        """A line; texts from the archive may stand in it."""
        self._console.print(joined(*(safe_text(piece) for piece in pieces)))

    def unchanged(self, old: str = "--apply does it, after a backup.", done: str = "Nothing was changed.") -> None:
        """Nothing was done, and how it is done: `old` by the old spelling."""
        new = {"read": "Leave --dry-run out to do it.", "now": "Leave --dry-run out to do it.", "ask": "--yes does it."}
        how = new.get(self._rule or "", old) if old else ""
        self.note(f"{done} {how}".rstrip())

    def outcome(
        self,
        data: Data,
        *,
        none: str = "",
        done: str = "",
        how: str = "--apply does it, after a backup.",
        hidden: Sequence[str] = (),
    ) -> None:
        """What a change found, and whether it was made; `none` alone where there was nothing to change."""
        if none:
            self.line(none)
            return
        self.record(data, *hidden)
        if not data["applied"] and not data.get("isAsked"):
            self.unchanged(how)
        elif done and data["applied"]:
            self.line(styled(done, "bold green"))

    def undo(self, command: str, what: str = "this") -> None:
        """How something that was done is taken back."""
        if not self._is_dry_run:
            self.note(f"`{command}` takes {what} back.")

    def note(self, text: str) -> None:
        """A line of less weight."""
        self.line(styled(text, "dim"))

    def warn(self, text: str) -> None:
        """A line that should not be overlooked."""
        self.line(styled(text, "yellow"))

    def counts(self, data: Data, meanings: Mapping[str, str], noun: str = "", style: str = "") -> None:
        """A line for each of these counts that is not 0: the number, of what, and what it means."""
        for name, meaning in meanings.items():
            if count := data.get(name):
                self.line(styled(f"  {plural(count, noun) if noun else f'{count:,}'} {meaning}", style))

    def title(self, text: str, *more: str | None) -> None:
        """What the answer is about."""
        self._console.print(joined((printable(text), "bold"), *(f"  {printable(piece)}" for piece in more if piece)))

    def prose(self, text: str | Text, indent: int = 2) -> None:
        """A text from the archive, wrapped; in a pipe its lines stay as they are."""
        if self._is_piped:
            for line in safe_text(text).split(allow_blank=True):
                self._console.print(joined(" " * indent, line))
            return
        from rich.padding import Padding

        self._console.print(Padding(safe_text(text), (0, 0, 0, indent)))

    def fields(self, rows: Iterable[tuple[str, Any]]) -> None:
        """Names and values below each other; what has a name and no value is left out."""
        from rich.table import Column, Table

        grid = Table.grid(Column(style="dim", no_wrap=True), Column(overflow="fold"), padding=(0, 2))
        for name, value in rows:
            if not name or value not in ("", None):
                grid.add_row(f"  {name}", safe_text(value))
        self._console.print(grid)

    def table(self, columns: Sequence[str | tuple[str, str]], rows: Iterable[Sequence[Any]]) -> None:
        """A table; a column is a name, alone or with its kind.

        `right` is for numbers; `rest` may be cut, and several share the space; `key`, and the first column, are what
        other commands take: they are never cut. Where a terminal is too narrow, columns of other kinds are left out,
        the last ones first. In a pipe everything is there.
        """
        from rich.cells import cell_len

        titles, kinds = zip(*((one, "") if isinstance(one, str) else one for one in columns), strict=True)
        cells = [[styled(name, "dim") for name in titles], *([safe_text(cell) for cell in row] for row in rows)]
        widths = [max(cell_len(line) for row in cells for line in row[n].plain.split("\n")) for n in range(len(titles))]
        if sys.stdout.isatty():
            widths = _fit([kinds[0] if kinds[0] == "rest" else "key", *kinds[1:]], widths, self.width)
            indents = [len(name) - len(name.lstrip()) for name in titles]
            rules = zip(indents, widths, strict=True)
            cells.insert(1, [styled(" " * indent + "─" * (width - indent), "dim") for indent, width in rules])
        shown = [n for n, width in enumerate(widths) if width]
        for row in cells:
            parts = [_wrapped(self._console, row[n], kinds[n], widths[n]) for n in shown]
            for line in zip_longest(*parts):
                texts = (text or safe_text(" " * widths[n]) for n, text in zip(shown, line, strict=True))
                whole = safe_text("  ").join(texts)
                whole.rstrip()
                self._console.print(whole, soft_wrap=True)

    def items(self, items: Sequence[Data], columns: str, none: str = "", **values: Callable[[Data], Any]) -> None:
        """A table of items, or `none` when there are none. `columns` are `title=key:kind, …`; the key may be left out.

        A function takes the place of the key that it is named after. Kinds are `count`, `bytes`, `share`, `time`,
        `date`, and those of `table`; what is None is blank in a column of the kind `count`, `share` or `rest`.
        """
        if not items:
            if none:
                self.line(none)
            return
        named = [column.partition(":") for column in columns.split(", ")]
        parts = [(name.partition("=")[0], name.rpartition("=")[2], kind) for name, _, kind in named]
        shown: dict[str, Callable[[Any], Any]] = {
            "bytes": format_bytes,
            "count": lambda value: "" if value is None else f"{value:,}",
            "date": self.date,
            "rest": lambda value: value or "",
            "share": self._share,
            "time": self.time,
        }

        def cell(item: Data, key: str, kind: str) -> Any:
            value = values[key](item) if key in values else item[key]
            return shown[kind](value) if kind in shown else value

        titles = [(title, "right" if kind in ("count", "bytes", "share") else kind) for title, _, kind in parts]
        self.table(titles, [[cell(item, key, kind) for _, key, kind in parts] for item in items])

    def _share(self, share: float | None) -> str | Text:
        """A share as a number, at a terminal with a bar."""
        if share is None or not sys.stdout.isatty():
            return "" if share is None else percent(share)
        return joined(share_bar(share, _BAR), f" {percent(share):>4}")

    def record(self, data: Data, *hidden: str) -> None:
        """What an answer holds, under the names that programs read: values, then lists of items as tables.

        What is None, False, 0 or empty is left out.
        """
        shown = {key: value for key, value in data.items() if value and key not in (*hidden, "applied", "dryRun")}
        tables = {key: value for key, value in shown.items() if isinstance(value, list) and isinstance(value[0], dict)}
        for items in tables.values():
            names = [name for name, value in items[0].items() if not isinstance(value, list | dict)]
            kinds = ["right" if isinstance(items[0][name], int | float) else "" for name in names]
            titles = [(words_of(name).lower(), kind) for name, kind in zip(names, kinds, strict=True)]
            self.table(
                [*titles[:-1], (titles[-1][0], titles[-1][1] or "rest")],
                [[self._value(name, item[name]) for name in names] for item in items],
            )
        self.fields((words_of(key), self._value(key, value)) for key, value in shown.items() if key not in tables)

    def _value(self, name: str, value: Any) -> str:
        if isinstance(value, datetime):
            return self.time(value)
        if isinstance(value, dict):
            return ", ".join(f"{words_of(key).lower()} {self._value(key, one)}" for key, one in value.items() if one)
        if isinstance(value, list):
            return ", ".join(self._value("", one) for one in value)
        if isinstance(value, bool):
            return "yes" if value else "no"
        if not isinstance(value, int):
            return "" if value is None else str(value)
        is_size = re.search("[bB]yte|^size", name) is not None
        return format_bytes(value) if is_size else str(value) if name.endswith("Id") else f"{value:,}"

    def speaker(self, message_id: object, role: str, about: str, *tools: str) -> None:
        """The line above a message."""
        used, said = f"  {', '.join(tools)}" if tools else "", styled(f"  {about}" if about else "", "dim")
        self.line(styled(f"#{message_id} ", "bold"), role_text(role), said, used)

    def gap(self) -> None:
        self._console.print()

    def footer(self, pagination: Data) -> None:
        """How many were shown, and how to go on."""
        if pagination["hasMore"]:
            text = f"{pagination['returned']} shown; for more: --cursor {pagination['nextCursor']}"
            self._console.print(styled(text, "dim"), soft_wrap=True)
        elif not pagination["returned"]:
            self.note("Nothing found.")


def _fit(kinds: Sequence[str], widths: Sequence[int], space: int) -> list[int]:
    """How wide each column is so that a row fits; 0 for those that are left out."""
    fitted = [min(width, _MIN_REST) if kind == "rest" else width for kind, width in zip(kinds, widths, strict=True)]

    def remaining() -> int:
        return space - sum(width + 2 for width in fitted if width) + 2

    droppable = sorted((n for n, kind in enumerate(kinds) if kind != "key"), key=lambda n: (kinds[n] != "rest", n))
    while remaining() < 0 and droppable:
        fitted[droppable.pop()] = 0
    if remaining() < 0:
        widest = fitted.index(max(fitted))
        fitted[widest] = max(_MIN_REST, fitted[widest] + remaining())
    growing = sorted((n for n, kind in enumerate(kinds) if kind == "rest" and fitted[n]), key=lambda n: widths[n])
    for index, n in enumerate(growing):
        fitted[n] = min(widths[n], fitted[n] + remaining() // (len(growing) - index))
    return fitted


def _wrapped(console: Console, text: Text, kind: str, width: int) -> Iterable[Text]:
    """The lines of a cell, as wide as its column: what is too long is cut, or goes on in the next line."""
    is_cut = kind == "rest"
    justify: JustifyMethod = "right" if kind == "right" else "left"
    return text.wrap(console, width, justify=justify, overflow="ellipsis" if is_cut else "fold", no_wrap=is_cut)


def safe_text(value: Any) -> Text:
    """A cell whose text cannot steer the terminal."""
    from rich.text import Text

    if isinstance(value, Text):
        return value
    return Text(printable("–" if value is None else str(value)))


def styled(text: str, style: str) -> Text:
    """A text in a style, which cannot steer the terminal either."""
    from rich.text import Text

    return Text(printable(text), style)


def joined(*pieces: str | Text | tuple[str, str]) -> Text:
    """Pieces in a row: texts, and texts with their styles."""
    from rich.text import Text

    return Text.assemble(*pieces)


#: What people call some fields; the names of the others say it.
_LABELS = {
    "conversationId": "Conversation", "seq": "Position", "tokenCount": "Tokens", "createdAt": "Written",
    "earliestAt": "From", "latestAt": "To", "coverageAt": "Covers until", "descendantCount": "Summaries below",
    "descendantTokenCount": "Tokens below", "sourceMessageTokenCount": "Tokens of messages",
    "childCount": "Made of", "openaiUrl": "OpenAI's API", "anthropicUrl": "Anthropic's API",
    "openaiClients": "OpenAI clients", "apiKey": "API key",
}  # fmt: skip


def words_of(name: str) -> str:
    """A name of JSON as words.

    >>> words_of("messagesInserted"), words_of("tokenCount")
    ('Messages inserted', 'Tokens')
    """
    return _LABELS.get(name) or re.sub("[A-Z]", lambda capital: f" {capital[0].lower()}", name).capitalize()


def percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 or not share else f"{share:.1%}"


def message_counts(counts: Data) -> str:
    return f"{plural(counts['messages'], 'message')}, {plural(counts['summaries'], 'summary')}"


def session_name(item: Data) -> str:
    return str(item["sessionKey"] or item["sessionId"])


def role_text(name: str) -> Text:
    return styled(name, _ROLES.get(name, ""))


@contextmanager
def progress_bar(what: str, total: int | None, *, in_bytes: bool) -> Iterator[Callable[[int], None]]:
    """A bar that counts things or bytes; call it with how many more are done. It is gone when all is done."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    count = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda more: progress.advance(task, more)
