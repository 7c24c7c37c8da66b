"""Options that several commands share: which conversation, which stretch of time, which page; the codec of page
cursors; and how a change is confirmed.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lossless.cli import failures
from lossless.cli.commands import F, Invocation, text_type
from lossless.cli.failures import printable
from lossless.cli.screen import Data, preview, to_json
from lossless.model import records
from lossless.model.conversations import Conversation, Session
from lossless.model.times import state_time

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from lossless.engine import Engine
    from lossless.maintenance.surgery.common import OperationReport


_VERSION = 1
_TIME = re.compile(r"-?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z|", re.ASCII)
_HIGHEST_ID = 2**63 - 1


def encode_cursor(resource: str, place: records.PageStart) -> str:
    return records.pack_cursor({"v": _VERSION, "resource": resource, "timestamp": place.at, "id": place.id})


def decode_cursor(resource: str, kind: type[int] | type[str], word: str) -> records.PageStart:
    """The place that a word means; ValueError with the reason when it is none of this list's."""
    fields = records.unpack_cursor(word) or {}
    check_list(resource, fields.get("resource", fields.get("r", resource)))
    at, id_ = fields.get("timestamp"), fields.get("id", 0)
    is_id = type(id_) is kind and (0 < id_ <= _HIGHEST_ID if isinstance(id_, int) else str(id_).isprintable())
    is_whole = fields.keys() == {"v", "resource", "timestamp", "id"} and fields["v"] == _VERSION
    if not (is_whole and is_id and isinstance(at, str) and _TIME.fullmatch(at)):
        raise ValueError("it is not a cursor; take one from `pagination.nextCursor`")
    return records.PageStart(at, id_)


def check_list(resource: str, found: object) -> None:
    if found != resource:
        raise ValueError(f"it is for another list ({found!r:.40}), not for {resource}")


def id_type(value: str) -> int:
    """The number of a conversation or a message (`12`, `msg#12`); one that no row can have is the highest there is."""
    value = value.removeprefix("msg#")
    if not (value.isascii() and value.isdigit() and value.strip("0")):
        raise click.BadParameter(f"{value!r:.40} is not a number from 1 on")
    return int(value) if len(value) < 19 else 2**63 - 1


def words(
    name: str, metavar: str, *, required: bool = True, kind: Callable[[str], str] = text_type
) -> Callable[[F], F]:
    """An argument that is a text, which needs no quotes; None when it may be left out and is."""
    return click.argument(
        name,
        metavar=metavar,
        nargs=-1,
        required=required,
        type=kind,
        callback=lambda ctx, param, words: " ".join(words) if words else None,  # noqa: ARG005
    )


def text(*names: str, **more: Any) -> Callable[[F], F]:
    return click.option(*names, **{"type": text_type, "show_default": "default" in more, **more})


def number(*names: str, minimum: int = 1, maximum: int = 1_000_000_000, **more: Any) -> Callable[[F], F]:
    return text(*names, **{"metavar": "N", "type": click.IntRange(minimum, maximum), **more})


def row_id(*names: str, **more: Any) -> Callable[[F], F]:
    return text(*names, **{"metavar": "ID", "type": id_type, **more})


def flag(*names: str, **more: Any) -> Callable[[F], F]:
    return click.option(*names, is_flag=True, **more)


def folder(name: str, help: str, *, exists: bool = True) -> Callable[[F], F]:
    from pathlib import Path

    kind = click.Path(exists=exists, file_okay=False, path_type=Path)
    return click.option(name, metavar="DIR", type=kind, help=help)


def file(name: str, help: str, metavar: str = "PATH") -> Callable[[F], F]:
    from pathlib import Path

    return click.option(name, metavar=metavar, type=click.Path(dir_okay=False, path_type=Path), help=help)


def choice(*names: str, choices: Sequence[str], **more: Any) -> Callable[[F], F]:
    return text(*names, type=click.Choice(choices), default=choices[0], **more)


#: For commands that do at once what they are asked to; the command gets `dry_run`.
dry_run = flag("--dry-run", help="Show what would be done; change nothing.")
#: For commands that ask at a terminal; the command gets `yes`.
yes = flag("--yes", help="Do not ask at a terminal.")
overwrite = flag("--overwrite", help="Replace what is there.")
MAX_LIMIT = 500
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def bad_option(option: str, why: str) -> click.BadParameter:
    return click.BadParameter(why, ctx=click.get_current_context(silent=True), param_hint=repr(option))


def usage_error(why: str) -> click.UsageError:
    return click.UsageError(why, ctx=click.get_current_context(silent=True))


def combined(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def gathered(
    name: str, make: Callable[..., Any], *options: Callable[[Any], Any], names: Iterable[str] = ()
) -> Callable[[F], F]:
    """Options whose values become one argument of the command: what `make`, which takes them by name, returns."""
    names = tuple(names or signature(make).parameters)

    def decorate(function: F) -> Any:
        @wraps(function)
        def with_one(*args: Any, **given: Any) -> Any:
            values = {option: given.pop(option) for option in names if option in given}
            return function(*args, **given, **{name: make(**values)})

        return combined(*options)(with_one)

    return decorate


#: The hint when no conversation was named.
NAME_ONE = (
    "Name a conversation with -s: its session key or its number, @last (the newest) or @live (the newest open one). "
    "`lcm list` shows them."
)
LAST, LIVE = "@last", "@live"
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ConversationTarget:
    """One conversation, by its number, by its session, or by a word that may be either."""

    conversation_id: int | None = None
    session_key: str | None = None
    session_id: str | None = None
    #: What follows `-s`.
    name: str | None = None

    def settled(self, engine: Engine) -> ConversationTarget:
        """The same without a word that may be several things: a session where it names one, else a number."""
        name, browse = self.name, engine.browse
        if name is None:
            return self
        if name in (LAST, LIVE):
            return ConversationTarget(_newest(engine, is_open=name == LIVE))
        if (number := _number(name)) and browse.conversation_id(number) is not None:
            return ConversationTarget(number)
        if browse.conversation_id(None, name) is not None:
            return ConversationTarget(session_key=name)
        if browse.family(Session(id=name)):
            return ConversationTarget(session_id=name)
        from difflib import get_close_matches

        rows = browse.conversations(MAX_LIMIT, by_message=True).rows
        known = list(dict.fromkeys(each for row in rows for each in (row.session_key, row.session_id) if each))
        near = [one for one in known if name.lower() in one.lower()] or get_close_matches(name, known, 1)
        raise _no_conversation(f"No conversation is called {name!r}.", name, *near[:1])

    def need_id(self, engine: Engine) -> int:
        """The number of the conversation that is meant: of a session the active one, else the newest."""
        target = self.settled(engine)
        number, key, run = target.conversation_id, target.session_key, target.session_id
        if run is not None and key is None:
            found = next((one.id for one in engine.browse.family(Session(id=run))), None)
        else:
            found = engine.browse.conversation_id(number, key)
        if found is None:
            what = f"session key {key!r}" if key else f"session id {run!r}" if run else f"number {number}"
            raise _no_conversation(f"No conversation has {what}.", key or run or number)
        return found

    def need(self, engine: Engine) -> Conversation:
        return engine.browse.get(self.need_id(engine))

    def need_active(self, engine: Engine) -> Conversation:
        """The conversation that is meant; one that is closed does not change any more."""
        found, hint = self.need(engine), "Name the conversation that its session goes on in."
        if not found.active:
            message = f"Conversation {found.id} is closed ({found.archive_cause or 'archived'}) and no longer changes."
            raise failures.fail("closed", message, hint=hint, conversationId=found.id)
        return found


def _newest(engine: Engine, *, is_open: bool) -> int:
    start: records.PageStart | None = None
    while True:
        page = engine.browse.conversations(MAX_LIMIT, start, by_message=True)
        for row in page.rows:
            if row.active or not is_open:
                return row.conversation_id
        start = page.next
        if start is None:
            raise _no_conversation("There is no such conversation yet.", LIVE if is_open else LAST)


def _no_conversation(message: str, wanted: object, *near: str) -> failures.CommandFailed:
    meant = f"Did you mean {near[0]!r}? " if near else ""
    hint = f"{meant}`lcm list` shows what is there."
    return failures.not_found(message, hint=hint, kind="conversation", id=wanted)


def session_names(engine: Engine, names: Sequence[str]) -> tuple[str, ...]:
    """Names of sessions; a number, @last and @live become the name of the session that they mean."""
    return tuple(
        ConversationTarget(name=name).need(engine).session.name
        if name in (LAST, LIVE) or ((number := _number(name)) and engine.browse.conversation_id(number))
        else name
        for name in names
    )


def _number(name: str) -> int:
    return int(name) if name.isascii() and name.isdigit() and len(name) < 19 else 0


def complete_sessions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """What a shell offers after `-s`: the names of conversations, with their titles."""
    from click.shell_completion import CompletionItem

    from lossless.errors import LosslessError

    offered = [CompletionItem(LAST, help="the newest"), CompletionItem(LIVE, help="the newest open one")]
    try:
        with ctx.find_root().ensure_object(Invocation).reader() as engine:
            rows = engine.browse.conversations(MAX_LIMIT, by_message=True).rows
    except (LosslessError, failures.CommandFailed):
        rows = ()
    keys = {row.session_key or str(row.conversation_id): row.title or "" for row in reversed(rows)}
    offered += [CompletionItem(key, help=title) for key, title in reversed(keys.items())]
    return [item for item in offered if str(item.value).startswith(incomplete)]


def id_or_none(target: ConversationTarget | None, engine: Engine) -> int | None:
    """The number of the conversation that is meant, None for all of them."""
    return None if target is None else target.need_id(engine)


def find_active(invocation: Invocation, target: ConversationTarget) -> Conversation:
    """The conversation that may be changed, looked up without changing anything."""
    with invocation.reader() as engine:
        return target.need_active(engine)


def session_key_option(about: str, *, required: bool = False) -> Callable[[F], F]:
    """`-s` for commands that take a session key alone."""
    names = ("-s", "--session", "--session-key", "session_key")
    return text(*names, metavar="KEY", required=required, shell_complete=complete_sessions, help=about)


_BY_NAME = text(
    "-s",
    "--session",
    "session_name",
    metavar="NAME",
    shell_complete=complete_sessions,
    help="The conversation: its session key or number, @last (the newest), or @live (the newest open one).",
)
_BY_NUMBER = click.option("--conversation-id", type=id_type, hidden=True)
_BY_KEY = click.option("--session-key", type=text_type, hidden=True)
_BY_RUN = click.option("--session-id", type=text_type, hidden=True)


def target_options(*, required: bool = True) -> Callable[[F], F]:
    """Options that name one conversation; the command gets `target`, None when it need not name one and does not.

    `-s` takes every name; the longer options of earlier versions take one kind each.
    """

    def named(
        session_name: str | None, conversation_id: int | None, session_key: str | None, session_id: str | None
    ) -> ConversationTarget | None:
        is_session = session_key is not None or session_id is not None
        if conversation_id is not None and is_session:
            raise usage_error("Give --conversation-id or a session, not both.")
        is_named = conversation_id is not None or is_session
        if session_name is not None and is_named:
            raise usage_error("-s names the conversation; leave the other options for that out.")
        if is_named or session_name is not None:
            return ConversationTarget(conversation_id, session_key, session_id, session_name)
        if required:
            raise usage_error(NAME_ONE)
        return None

    return gathered("target", named, _BY_NAME, _BY_NUMBER, _BY_KEY, _BY_RUN)


_WHEN = "2026-07-01, yesterday, '3 March', 30d, or a time such as 2026-07-01T09:00:00Z"


def parse_span(
    after: str | None, before: str | None, between: str | None, recency: str | None, now: datetime
) -> records.TimeRange | None:
    """The stretch of time that the options mean, None when none is given."""
    first_option, last_option = "--after", "--before"
    if between is not None:
        if (after, before, recency) != (None, None, None):
            raise usage_error("--between goes with no other time option.")
        after, dots, before = between.partition("..")
        first_option = last_option = "--between"
        if not dots:
            raise bad_option(first_option, "write two times with .. between them")
    if recency is not None and after is not None:
        raise usage_error("--recency and --after both say where to begin; give one of them.")
    since = None if after is None else parse_when(first_option, after, now)
    since = since if recency is None else _parse_ago(recency, now)
    until = None if before is None else parse_when(last_option, before, now)
    if since is not None and until is not None and since >= until:
        raise usage_error("The stretch of time is empty: it ends before it begins.")
    if since is None and until is None:
        return None
    return records.TimeRange(None if since is None else state_time(since), None if until is None else state_time(until))


#: Options for a stretch of time; the command gets `span`.
time_options = gathered(
    "span",
    lambda after, before, between, recency: parse_span(after, before, between, recency, datetime.now().astimezone()),
    click.option("--after", "--since", "after", metavar="WHEN", help=f"From then on: {_WHEN}."),
    click.option("--before", metavar="WHEN", help="Before then."),
    click.option("--between", metavar="WHEN..WHEN", help="From the first time on, before the second."),
    click.option("--recency", metavar="N(s|m|h|d|w)", help="The last seconds, minutes, hours, days or weeks."),
)


def parse_when(option: str, text: str, now: datetime) -> datetime:
    """A time as people write it, in UTC: ISO-8601, a date in the zone of `now`, a duration before it, or words.

    >>> noon = datetime(2026, 7, 10, 12, tzinfo=UTC)
    >>> [f"{parse_when('--since', text, noon):%Y-%m-%d}" for text in ("yesterday", "3 March", "2w", "2023-01-01")]
    ['2026-07-09', '2026-03-03', '2026-06-26', '2023-01-01']
    """
    text = text.strip()
    if re.fullmatch(r"\d+[smhdw]", text, re.ASCII):
        return _parse_ago(text, now, option).astimezone(UTC)
    if _MOMENT.fullmatch(text):
        try:
            moment = datetime.fromisoformat(text).astimezone(UTC)
            return moment + timedelta(microseconds=-moment.microsecond % 1000)  # rows are never finer
        except (ValueError, OverflowError) as error:
            raise bad_option(option, f"{text!r} is not a time: {error}") from None
    from lossless.recall.query import find_times

    for words in (text, f"in {text}"):
        for found in find_times(words, now):
            if found.end == len(words) and found.start == len(words) - len(text):
                return found.since.astimezone(UTC)
    raise bad_option(option, f"{text!r:.60} is not a time; write {_WHEN}")


def when_option(name: str, help: str, metavar: str = "WHEN") -> Callable[[F], F]:
    return click.option(
        name, metavar=metavar, type=lambda text: parse_when(name, text, datetime.now().astimezone()), help=help
    )


def _parse_ago(text: str, now: datetime, option: str = "--recency") -> datetime:
    found = re.fullmatch(r"([1-9]\d{0,8})([smhdw])", text, re.ASCII)
    if not found:
        raise bad_option(option, f"{text!r} is not a duration; write a number and s, m, h, d or w, such as 6h")
    try:
        return now - timedelta(**{_UNITS[found[2]]: int(found[1])})
    except OverflowError:
        raise bad_option(option, f"{text!r} goes back too far") from None


cursor_option = click.option("--cursor", metavar="CURSOR", help="Continue after an earlier page.")
limit_option = number("--limit", maximum=MAX_LIMIT, default=50, help="At most this many.")


@dataclass(frozen=True, slots=True)
class Paging:
    resource: str
    limit: int
    start: records.PageStart | None

    def pagination(self, page: records.Page[Any]) -> Data:
        following = None if page.next is None else encode_cursor(self.resource, page.next)
        counts = {"limit": self.limit, "returned": len(page.rows)}
        return counts | {"hasMore": following is not None, "nextCursor": following}


def paging_options(resource: str, kind: type[int] | type[str]) -> Callable[[F], F]:
    def paging(limit: int, cursor: str | None) -> Paging:
        try:
            return Paging(resource, limit, None if cursor is None else decode_cursor(resource, kind, cursor))
        except ValueError as error:
            raise bad_option("--cursor", str(error)) from None

    return gathered("paging", paging, limit_option, cursor_option)


def row_json(row: records.MessageRow | records.SummaryRow | records.ConversationRow, *, whole: bool = False) -> Data:
    """A row as a list shows it: with a preview, and with its text when that was asked for."""
    item = to_json(row)
    if isinstance(row, records.SummaryRow):
        item["parentCount"], item["childCount"] = item.pop("usedInCount"), item.pop("sourceCount")
    if not isinstance(row, records.ConversationRow):
        text = item.pop("content")
        item |= {"preview": preview(text)} | ({"content": text} if whole else {})
    return item


def rows_json(rows: Sequence[records.MessageRow | records.SummaryRow], *, whole: bool = False) -> list[Data]:
    return [row_json(row, whole=whole) for row in rows]


budget_option = number("--budget", help="The tokens that a prompt may take; else the setting defaultTokenBudget.")


#: Signals that end a program: SIGHUP, which not every system has, and SIGTERM.
_ENDS = frozenset({1, int(signal.SIGTERM)})


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """The signals to end and of a terminal that was closed are an interrupt, too: what is written by then is kept."""

    def interrupt(*_signal: object) -> None:
        raise KeyboardInterrupt

    ends = [one for one in signal.valid_signals() if one in _ENDS and signal.getsignal(one) == signal.SIG_DFL]
    for one in ends:
        signal.signal(one, interrupt)
    try:
        yield
    finally:
        for one in ends:
            signal.signal(one, signal.SIG_DFL)


def result_json(report: OperationReport | None) -> Data:
    return {"applied": report is not None, "done": to_json(report)}


def ask_person(question: str) -> bool:
    """Ask a person at a terminal; a program has not agreed."""
    return sys.stdin.isatty() and click.confirm(printable(question), err=True)


def confirm(question: str, yes: bool, plan: str = "") -> None:
    """Ask a person at a terminal; a program that says `--apply` means it."""
    if yes or not sys.stdin.isatty():
        return
    if plan:
        click.echo(printable(plan), err=True)
    if not click.confirm(printable(question), err=True):
        click.echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(failures.INTERRUPTED)


def apply_confirmed(invocation: Invocation, question: str, yes: bool, plan: str, act: Callable[[Engine], R]) -> R:
    """Show a plan to a person at a terminal and ask, then do it with the engine for writing."""
    confirm(question, yes, plan)
    with invocation.engine() as engine:
        return act(engine)
