"""Options that several commands share: which conversation, which time, which page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lossless.cli import cursors, failures
from lossless.cli.commands import number, text
from lossless.cli.output import preview, shape
from lossless.model.times import state_time
from lossless.store.listings import ConversationRow, MessageRow, Page, Span, SummaryRow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lossless.store.archive import Archive
    from lossless.store.details import Depth

F = TypeVar("F", bound="Callable[..., Any]")

MAX_LIMIT = 500
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def bad(option: str, why: str) -> click.BadParameter:
    """The error for an option whose value cannot be used."""
    return click.BadParameter(why, ctx=click.get_current_context(silent=True), param_hint=repr(option))


def wrong(why: str) -> click.UsageError:
    """The error for options that do not go together."""
    return click.UsageError(why, ctx=click.get_current_context(silent=True))


@dataclass(frozen=True, slots=True)
class Selection:
    """The conversation that a person means, or all of them."""

    conversation_id: int | None = None
    session_key: str | None = None

    def find(self, archive: Archive) -> int | None:
        """The number of the conversation, None for all; it must be there."""
        if self.conversation_id is None and self.session_key is None:
            return None
        return self.need(archive)

    def need(self, archive: Archive) -> int:
        """The number of the one conversation that is meant."""
        found = archive.listings.find(self.conversation_id, self.session_key)
        if found is not None:
            return found
        by_number = self.session_key is None
        what = f"number {self.conversation_id}" if by_number else f"session key {self.session_key!r}"
        raise failures.fail(
            "not_found",
            f"No conversation has {what}.",
            failures.NOT_FOUND,
            hint="`lcm conversations list` shows what is there.",
            kind="conversation",
            id=self.conversation_id if by_number else self.session_key,
        )


def selector(*, required: bool) -> Callable[[F], F]:
    """Options that name one conversation; the command gets `selection`."""

    def decorate(function: F) -> F:
        @wraps(function)
        def with_selection(*args: Any, conversation_id: int | None, session_key: str | None, **more: Any) -> Any:
            if conversation_id is not None and session_key is not None:
                raise wrong("Give --conversation-id or --session-key, not both.")
            if required and conversation_id is None and session_key is None:
                raise wrong("Name a conversation (--conversation-id or --session-key); see `lcm conversations list`.")
            return function(*args, selection=Selection(conversation_id, session_key), **more)

        by_key = click.option(
            "--session-key", type=text, help="The conversation of this key: the active one, else the newest."
        )
        by_number = click.option(
            "--conversation-id", type=number, metavar="ID", help="The conversation with this number."
        )
        return by_number(by_key(with_selection))  # type: ignore[return-value]

    return decorate


def time_filters(function: F) -> F:
    """Options for a stretch of time; the command gets it as `span`."""

    @wraps(function)
    def with_span(
        *args: Any, after: str | None, before: str | None, between: str | None, recency: str | None, **more: Any
    ) -> Any:
        return function(*args, span=span_of(after, before, between, recency, datetime.now(UTC)), **more)

    wrapped: Any = with_span
    for name, metavar, about in reversed(
        (
            ("--after", "TIME", "From this time on: ISO-8601 with a zone, such as 2026-07-01T00:00:00Z."),
            ("--before", "TIME", "Before this time."),
            ("--between", "TIME..TIME", "From the first time on, before the second."),
            ("--recency", "N(s|m|h|d|w)", "The last seconds, minutes, hours, days or weeks."),
        )
    ):
        wrapped = click.option(name, metavar=metavar, help=about)(wrapped)
    return wrapped  # type: ignore[no-any-return]


def span_of(
    after: str | None, before: str | None, between: str | None, recency: str | None, now: datetime
) -> Span | None:
    """The stretch of time that the options mean, None when none is given."""
    if between is not None and (after, before, recency) != (None, None, None):
        raise wrong("--between goes with no other time option.")
    if recency is not None and after is not None:
        raise wrong("--recency and --after both say where to begin; give one of them.")
    since: datetime | None
    until: datetime | None
    if between is not None:
        first, dots, second = between.partition("..")
        if not dots:
            raise bad("--between", "write two times with .. between them")
        since, until = _moment("--between", first), _moment("--between", second)
    else:
        since = _moment("--after", after) if after is not None else None
        until = _moment("--before", before) if before is not None else None
        if recency is not None:
            since = _ago(recency, now)
    if since is not None and until is not None and since >= until:
        raise wrong("The stretch of time is empty: it ends before it begins.")
    if since is None and until is None:
        return None
    return Span(None if since is None else state_time(since), None if until is None else state_time(until))


def _moment(option: str, text: str) -> datetime:
    """A time; a fraction below the millisecond is rounded up, as rows are never finer."""
    if not _MOMENT.fullmatch(text):
        raise bad(option, f"{text!r} is not a time; write ISO-8601 with a zone, such as 2026-07-01T00:00:00Z")
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
        rest = moment.microsecond % 1000
        return moment + timedelta(microseconds=1000 - rest) if rest else moment
    except (ValueError, OverflowError) as error:
        raise bad(option, f"{text!r} is not a time: {error}") from None


def since_of(option: str, text: str, now: datetime) -> datetime:
    """A time from which on: ISO-8601 with a zone, a date (in UTC), or a duration before now."""
    if re.fullmatch(r"\d+[smhdw]", text, re.ASCII):
        return _ago(text, now, option)
    return _moment(option, f"{text}T00:00:00Z" if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) else text)


def _ago(text: str, now: datetime, option: str = "--recency") -> datetime:
    found = re.fullmatch(r"([1-9]\d{0,8})([smhdw])", text, re.ASCII)
    if not found:
        raise bad(option, f"{text!r} is not a duration; write a number and s, m, h, d or w, such as 6h")
    try:
        return now - timedelta(**{_UNITS[found[2]]: int(found[1])})
    except OverflowError:
        raise bad(option, f"{text!r} goes back too far") from None


def paging(resource: str, kind: type[int] | type[str]) -> Callable[[F], F]:
    """Options for a page of a list; the command gets `limit` and `start`."""

    def decorate(function: F) -> F:
        @wraps(function)
        def with_start(*args: Any, cursor: str | None, **more: Any) -> Any:
            try:
                start = None if cursor is None else cursors.decode(resource, kind, cursor)
            except ValueError as error:
                raise bad("--cursor", str(error)) from None
            return function(*args, start=start, **more)

        wrapped: Any = click.option("--cursor", metavar="CURSOR", help="Continue after an earlier page.")(with_start)
        limit = click.option(
            "--limit",
            metavar="N",
            type=click.IntRange(1, MAX_LIMIT),
            default=50,
            show_default=True,
            help="At most this many.",
        )
        return limit(wrapped)  # type: ignore[no-any-return]

    return decorate


def pagination(resource: str, limit: int, page: Page[Any]) -> dict[str, Any]:
    """The part of an envelope that leads to the next page."""
    return {
        "limit": limit,
        "returned": len(page.rows),
        "hasMore": page.next is not None,
        "nextCursor": None if page.next is None else cursors.encode(resource, page.next),
    }


def listed(row: MessageRow | SummaryRow | ConversationRow, *, whole: bool = False) -> dict[str, Any]:
    """A row as a list shows it: with a preview, and with its text when that was asked for."""
    item = shape(row)
    if isinstance(row, SummaryRow):
        item["parentCount"], item["childCount"] = item.pop("usedInCount"), item.pop("sourceCount")
    if not isinstance(row, ConversationRow):
        text = item.pop("content")
        item |= {"preview": preview(text)} | ({"content": text} if whole else {})
    return item


def all_listed(rows: Sequence[MessageRow | SummaryRow], *, whole: bool = False) -> list[dict[str, Any]]:
    """Rows as a list shows them."""
    return [listed(row, whole=whole) for row in rows]


def by_depth(depths: Sequence[Depth]) -> list[dict[str, Any]]:
    """How many summaries there are of each depth, and their tokens."""
    return [{name: getattr(depth, name) for name in ("kind", "depth", "count", "tokens")} for depth in depths]
