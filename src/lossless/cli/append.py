"""`lcm append`, `sync` and `bootstrap`: store new messages from JSON lines, a host's whole window, or its transcript;
and decisions about transcripts and windows that are held back.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from lossless.cli import failures, options
from lossless.cli.commands import F, Group, Invocation, command, ignore_progress, is_utf8
from lossless.cli.failures import CommandFailed
from lossless.cli.options import ConversationTarget
from lossless.cli.screen import Data, Screen, pick_json, session_name, styled, to_json
from lossless.errors import BadMessage, LosslessError
from lossless.formats.reading import json_name
from lossless.ingest import events
from lossless.ingest.transcripts import fields
from lossless.model.conversations import Session
from lossless.model.messages import Incoming, JsonObject
from lossless.model.paths import file_size
from lossless.tui.text import plural

if TYPE_CHECKING:
    from lossless.engine import Engine
    from lossless.model.records import QuarantinedConversation, TranscriptDecision


#: A longer line is no message.
MAX_LINE_BYTES = 100 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class InputLine:
    """A line of a file, or of standard input (`file` is None): what it holds, or why that is no message."""

    file: str | None
    number: int
    item: Incoming | JsonObject = field(default_factory=dict)
    size: int = 0
    problem: str = ""

    def where(self, line: str = "line") -> str:
        return f"{line} {self.number}" if self.file is None else f"{self.file}, line {self.number}"


def read_lines(
    stream: BinaryIO,
    file: str | None,
    advance: Callable[[int], None] = ignore_progress,
    *,
    longest: int = MAX_LINE_BYTES,
) -> Iterator[InputLine]:
    """Each line of a stream that is not blank; one that is longer than `longest` bytes is not read into memory."""
    number = 0
    while raw := stream.readline(longest + 1):
        number += 1
        advance(len(raw))
        if len(raw) > longest:
            while raw and not raw.endswith(b"\n"):  # the rest of the line
                raw = stream.readline(1024 * 1024)
                advance(len(raw))
            yield InputLine(file, number, problem=f"it is longer than {longest // 1024 // 1024} MB")
        elif raw.strip():
            try:
                yield InputLine(file, number, read_message(parse(raw)), len(raw))
            except ValueError as error:
                yield InputLine(file, number, problem=str(error))


def parse(raw: bytes) -> Any:
    """The value in some JSON; ValueError says what is wrong without repeating the text."""
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        where = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"it is not JSON: {error.msg} at {where}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_message(value: Any) -> Incoming | JsonObject:
    """A message in a format that lossless knows; ValueError for everything else."""
    item = unwrap(value)
    try:
        events.read_events([item])
    except BadMessage as error:
        raise ValueError(f"{f'field {error.field!r}: ' if error.field else ''}{error.reason}") from None
    return item


def unwrap(value: Any) -> Incoming | JsonObject:
    """A message, or `{"message": …, "id": …, "timestamp": …}` around one; ValueError for what is neither."""
    if not isinstance(value, dict):
        raise ValueError(f"expected an object with a message, got {json_name(value)}")
    inner = value.get("message")
    if not isinstance(inner, dict) or "role" in value:
        return value
    entry_id, written = value.get("id"), value.get("timestamp")
    entry_id = str(entry_id) if type(entry_id) is int else entry_id
    if entry_id is not None and not (isinstance(entry_id, str) and entry_id.strip() and is_utf8(entry_id)):
        raise ValueError("its id must be a number, or a text of valid Unicode")
    if (at := fields.time(written)) is None and written is not None:
        raise ValueError("its timestamp must be an ISO-8601 time or a number of seconds or milliseconds")
    return Incoming(inner, entry_id, at)


#: A batch is stored early when its lines are longer than this together.
_BATCH_BYTES = 8 * 1024 * 1024
#: So many bad lines, and so many reasons for skips, are named one by one.
_NAMED = 20
_COUNTS = ("stored", "replayed", "stamped", "revised", "likely", "ambiguous")


def _session(session_key: str | None, session_id: str | None) -> Session:
    if session_key is None and session_id is None:
        raise options.usage_error("Say whose messages these are: -s KEY, --session-id, or both.")
    if session_key in (options.LAST, options.LIVE):
        with click.get_current_context().ensure_object(Invocation).reader() as engine:
            return ConversationTarget(name=session_key).need(engine).session
    return Session(key=session_key, id=session_id)


#: Options that say whose messages they are, of which one is needed; the command gets `session`.
session_options = options.gathered(
    "session",
    _session,
    options.session_key_option("The session key: any name, which may be new, or @last or @live."),
    options.text("--session-id", help="The host's id of this run."),
)


@command("append")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@session_options
@options.text("--key", help="A name for this batch; a batch with a known name is not stored again.")
@options.number("--batch", maximum=100_000, default=1000, help="Messages per transaction.")
@options.flag("--skip-bad", help="Skip lines without a message, and count them.")
@options.dry_run
def append(
    invocation: Invocation,
    files: tuple[str, ...],
    session: Session,
    key: str | None,
    batch: int,
    skip_bad: bool,
    dry_run: bool,
) -> None:
    """Store new messages from FILES, or from standard input: JSON lines, one message per line."""
    intake = BatchAppender(session, key, batch, skip_bad, dry_run)
    with ExitStack() as stack:
        streams = [(None if name == "-" else name, stack.enter_context(open_input(name))) for name in files or ("-",)]
        total = None if "-" in (files or ("-",)) else sum(file_size(Path(name)) for name in files)
        advance = stack.enter_context(invocation.progress("Storing", total, in_bytes=True))
        lines = chain.from_iterable(read_lines(stream, name, advance) for name, stream in streams)
        engine = stack.enter_context(invocation.engine(dry_run=dry_run))
        intake.run(engine, lines)
    invocation.answer("append", intake.data(), view=print_arrivals)


@dataclass(slots=True)
class BatchAppender:
    """Stores lines in batches, and adds up what they came to."""

    session: Session
    key: str | None
    batch: int
    skip_bad: bool
    is_dry_run: bool = False
    conversation_id: int | None = None
    messages: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    bad_count: int = 0
    bad: list[InputLine] = field(default_factory=list)
    #: Where the last line is that is in the archive.
    through: str | None = None

    def data(self) -> Data:
        return {
            **pick_json(self, "conversation_id", "messages", "bad_lines=bad_count"),
            **{name: self.counts[name] for name in _COUNTS},
            "skipped": sum(self.skipped.values()),
            "skippedReasons": dict(self.skipped.most_common(_NAMED)),
            "bad": [pick_json(bad, "file", "line=number", "reason=problem") for bad in self.bad],
        }

    @property
    def so_far(self) -> str:
        """What is stored when the work ends early."""
        if self.through is None:
            return "Nothing was stored."
        if self.is_dry_run:
            return f"Nothing was stored: this is a dry run. Everything up to {self.through} would be."
        return f"Everything up to {self.through} is in the archive ({plural(self.counts['stored'], 'new message')})."

    def run(self, engine: Engine, lines: Iterable[InputLine]) -> None:
        """Store all lines; whatever ends the work early says how far it came."""
        try:
            self._run(engine, lines)
        except (LosslessError, CommandFailed) as error:
            failure = failures.as_failure(error)
            failure.details = {**failure.details, **self.data(), "soFar": self.so_far}
            raise failure from None
        except KeyboardInterrupt:
            hint, data = self.so_far, self.data()
            raise failures.fail("interrupted", "Interrupted.", failures.INTERRUPTED, hint=hint, **data) from None

    def _run(self, engine: Engine, lines: Iterable[InputLine]) -> None:
        pending: list[InputLine] = []
        size = 0
        for line in lines:
            if line.problem:
                if not self.skip_bad:
                    self._stop(engine, pending, line)
                self._add_bad(line)
                continue
            if len(pending) == self.batch:
                raise options.usage_error(f"--key names one batch, and the input is longer than --batch {self.batch}.")
            pending.append(line)
            size += line.size
            if self.key is None and (len(pending) == self.batch or size >= _BATCH_BYTES):
                self._store(engine, pending)
                pending, size = [], 0
        self._store(engine, pending)

    def _store(self, engine: Engine, lines: list[InputLine]) -> None:
        if not lines:
            return
        report = engine.append(self.session, [line.item for line in lines], key=self.key)
        self.conversation_id = report.conversation_id
        self.messages += len(lines)
        self.counts.update({name: getattr(report, name) for name in _COUNTS})
        self.skipped.update(skip.reason[:120] for skip in report.skipped)
        self.through = lines[-1].where()

    def _add_bad(self, line: InputLine) -> None:
        self.bad_count += 1
        if len(self.bad) < _NAMED:
            self.bad.append(line)

    def _stop(self, engine: Engine, before: list[InputLine], bad: InputLine) -> None:
        """End the work at a bad line; what came before it is stored, except where all or nothing was asked for."""
        if self.key is None:
            self._store(engine, before)
        self._add_bad(bad)
        start = "Mend the line" if self.is_dry_run else "Mend the line and append from it on"
        hint = f"{self.so_far} {start}, or leave such lines out with --skip-bad."
        message = f"{bad.where('Line')}: {bad.problem}."
        raise failures.fail("bad_message", message, hint=hint, file=bad.file, line=bad.number)


@contextmanager
def open_input(name: str) -> Iterator[BinaryIO]:
    """An input by its name; `-` is standard input, and a person at a terminal is told to type it."""
    if name == "-":
        if sys.stdin.buffer.isatty():
            click.echo("Reading from the terminal; end with Ctrl-D.", err=True)
        yield sys.stdin.buffer
        return
    try:
        file = open(name, "rb")  # noqa: SIM115 - an error of the reader is not one of the file
    except OSError as error:
        raise click.FileError(name, error.strerror or type(error).__name__) from error
    with file:
        yield file


@command("sync")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True), default="-")
@session_options
@options.text("--key", help="A name for this window; a window with a known name is not stored again.")
@options.dry_run
def sync(invocation: Invocation, file: str, session: Session, key: str | None, dry_run: bool) -> None:
    """Store the new messages of a whole window: a JSON array of messages, or JSON lines, from FILE or standard
    input.
    """
    with open_input(file) as stream:
        window = read_window(stream)
    with invocation.engine(dry_run=dry_run) as engine:
        report = engine.sync(session, window, key=key)
    skipped = Counter(skip.reason[:120] for skip in report.skipped)
    data: Data = {
        "messages": len(window),
        **pick_json(report, "conversation_id", *_COUNTS, "abandoned", "cause", "quarantine_id", "reason=blocked"),
        "skipped": len(report.skipped),
        "skippedReasons": dict(skipped.most_common(_NAMED)),
    }
    invocation.answer("sync", data, view=print_arrivals)


def read_window(file: BinaryIO) -> list[Incoming | JsonObject]:
    """The messages of a window, an array or lines."""
    data, window, where = file.read(), list[Incoming | JsonObject](), "The window"
    try:
        if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            for number, value in enumerate(parse(data), 1):
                where = f"Message {number}"
                window.append(read_message(value))
            return window
        for line in read_lines(BytesIO(data), None):
            where = line.where("Line")
            if line.problem:
                raise ValueError(line.problem)
            window.append(line.item)
    except ValueError as error:
        raise failures.fail("bad_message", f"{where}: {error}.", hint="Nothing was stored.") from None
    return window


def print_arrivals(screen: Screen, data: Data) -> None:
    where = None if data["conversationId"] is None else f"in conversation {data['conversationId']}"
    screen.title(f"{plural(data['stored'], 'message')} stored", where)
    if not data["messages"] and not data.get("badLines"):
        screen.line(f"  the {'input' if 'badLines' in data else 'window'} held no message")
    meanings = {
        "replayed": "were there already",
        "stamped": "took over an entry id",
        "revised": "have other words now; those they had are kept as versions",
        "likely": "were matched by likeness",
        "ambiguous": "could not be told from a replay and count as one",
    }
    screen.counts(data, meanings)
    for reason, count in data["skippedReasons"].items():
        screen.line(styled(f"  {count:,} not kept: ", "yellow"), reason)
    if data.get("badLines"):
        screen.warn(f"  {plural(data['badLines'], 'line')} left out:")
        for bad in data["bad"]:
            screen.line(f"    {InputLine(bad['file'], bad['line']).where()}: {bad['reason']}")
    screen.counts(data, {"abandoned": "left the context: the host went on differently"}, "message")
    if data.get("quarantineId") is not None:
        screen.warn(f"  {data['reason']}")
    elif data.get("cause") == "disjoint":
        screen.warn("  the window had nothing in common with what was stored before")


_NOT_STORED = ("held", "failed")
again_option = options.flag("--again", help="Also bring back what was deleted with `lcm prune`.")


@command("bootstrap")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@session_options
@click.option("--kind", metavar="KIND", help="openclaw, claude-code, codex, pi, gemini …; else it is detected.")
@again_option
@options.dry_run
def bootstrap(
    invocation: Invocation, file: Path, session: Session, kind: str | None, again: bool, dry_run: bool
) -> None:
    """Store the new messages of a transcript; the same transcript again changes nothing."""
    with invocation.engine(dry_run=dry_run) as engine:
        report = engine.bootstrap(session, file.absolute(), kind=kind, again=again)
    invocation.answer("bootstrap", to_json(report), view=print_bootstrap, ok=report.status not in _NOT_STORED)


def _numbered(metavar: str) -> Callable[[F], F]:
    """What is decided about has a number, which is in the list; the command gets `number`."""
    return options.combined(click.argument("number", metavar=metavar, type=options.id_type), options.dry_run)


transcripts = Group("transcripts", default="list", help="List transcripts, accept one that is held back, or refuse it.")


@command("list", transcripts)
@options.flag("--all", "every", help="All decisions, not only pending ones.")
def list_transcripts(invocation: Invocation, every: bool = False) -> None:
    """List transcripts that are held back or refused, or every decision about transcripts."""
    with invocation.reader() as engine:
        transcripts = engine.transcripts
        found = transcripts.decisions() if every else [*transcripts.held(), *transcripts.refused()]
    data: Data = {"items": to_json(found), "all": every}
    if screen := invocation.answer("transcripts list", data):
        none = "No transcript was read yet." if every else "No transcript is held back."
        screen.items(data["items"], f"no.=id, {_DECIDED}, file=path:key", none)
        for item in data["items"]:
            if item["decision"] == "held":
                screen.warn(f"{item['id']}: {item['reason']}")
        if data["items"] and not every:
            screen.note("`lcm transcripts accept NO` makes one the session's conversation, `refuse NO` hides it.")


@command("accept", transcripts)
@_numbered("NUMBER")
def accept_transcript(invocation: Invocation, number: int, dry_run: bool) -> None:
    """Make a transcript that was held back or refused its session's conversation. Its NUMBER is in the list."""
    with invocation.engine(dry_run=dry_run) as engine:
        waiting = [*engine.transcripts.held(), *engine.transcripts.refused()]
        asked = next((epoch for epoch in engine.transcripts.decisions() if epoch.id == number), None)
        place = asked and (asked.conversation_id, asked.path)  # one decision replaces another
        again = [epoch.id for epoch in waiting if (epoch.conversation_id, epoch.path) == place]
        epoch = _held_epoch(waiting, *again[:1] or [number])
        report = engine.transcripts.accept(epoch.conversation_id, epoch.path)
    invocation.answer("transcripts accept", to_json(report), view=print_bootstrap, ok=report.status not in _NOT_STORED)


@command("refuse", transcripts)
@_numbered("NUMBER")
def refuse_transcript(invocation: Invocation, number: int, dry_run: bool) -> None:
    """Keep a transcript that is held back out of every prompt, until it is accepted. Its NUMBER is in the list."""
    with invocation.engine(dry_run=dry_run) as engine:
        epoch = _held_epoch(engine.transcripts.held(), number)
        engine.transcripts.refuse(epoch.conversation_id, epoch.path)
    sentence = "What {path} says stays out of every prompt of conversation {conversationId}."
    refused = replace(epoch, decision="refused", reason="someone refused it")
    invocation.answer("transcripts refuse", to_json(refused), view=sentence)


def _held_epoch(waiting: list[TranscriptDecision], number: int) -> TranscriptDecision:
    if found := next((epoch for epoch in waiting if epoch.id == number), None):
        return found
    hint = "`lcm transcripts` lists those that are."
    raise failures.not_found(f"No transcript with number {number} is held back.", hint=hint, id=number)


quarantine = Group(
    "quarantine", default="list", help="List unrelated windows, accept one as its session's, or refuse it."
)


@command("list", quarantine)
def list_quarantine(invocation: Invocation) -> None:
    """List quarantined conversations, and those that were refused."""
    with invocation.reader() as engine:
        found = engine.transcripts.quarantined()
    data: Data = {"items": [_quarantine_json(one) for one in found]}
    if screen := invocation.answer("quarantine list", data):
        columns = f"{_DECIDED}, next to=neighbour:rest, session:key"
        values = {"neighbour": lambda item: item["beside"], "session": session_name}
        screen.items(data["items"], columns, "Nothing is quarantined.", **values)
        if data["items"]:
            screen.note("`lcm quarantine accept NO` makes one the session's conversation, `refuse NO` hides it.")


@command("accept", quarantine)
@_numbered("CONVERSATION")
def accept_quarantined(invocation: Invocation, number: int, dry_run: bool) -> None:
    """Make a quarantined CONVERSATION the active one of its session. The previous active one is closed and kept."""
    with invocation.engine(dry_run=dry_run) as engine:
        found = engine.transcripts.accept_quarantined(number)
    sentence = "Conversation {id} is the active one of its session now."
    invocation.answer("quarantine accept", to_json(found), view=sentence)


@command("refuse", quarantine)
@_numbered("CONVERSATION")
def refuse_quarantined(invocation: Invocation, number: int, dry_run: bool) -> None:
    """Keep a quarantined CONVERSATION out of every prompt. It stays in the archive, and can be accepted later."""
    with invocation.engine(dry_run=dry_run) as engine:
        found = engine.transcripts.refuse_quarantined(number)
    sentence = "Conversation {conversationId} stays in the archive and out of every prompt."
    invocation.answer("quarantine refuse", _quarantine_json(found), view=sentence)


def _quarantine_json(found: QuarantinedConversation) -> Data:
    names = ("session_key=session.key", "session_id=session.id", "decision", "at", "messages", "beside")
    return pick_json(found, "conversation_id", *names)


def print_bootstrap(screen: Screen, data: Data) -> None:
    if data["status"] in ("held", "refused", "excluded", "failed"):
        kept = f"Kept outside the context, in conversation {data['quarantineId']}"
        done = "Nothing was stored" if data["quarantineId"] is None else kept
        screen.line(styled(f"{done} ({data['status']}): ", "yellow"), data["reason"] or "")
        if data["status"] == "held":
            screen.note("`lcm transcripts` lists what is held back; accept or refuse it there.")
        return
    screen.line(styled(f"{plural(data['stored'], 'message')} stored", "bold"), f", {data['replayed']:,} known")
    screen.record({name: data[name] for name in ("stamped", "abandoned", "ambiguous", "opaque")})
    screen.counts(data, PRUNED, "message", "yellow")
    if data["badLines"]:
        screen.warn(f"{plural(data['badLines'], 'line')} could not be read:")
        for problem in data["problems"]:
            screen.line(f"  {problem}")


#: What is said of messages that a transcript has and that were deleted here.
PRUNED = {"pruned": "left out, deleted with `lcm prune`; --again brings them back."}
_DECIDED = "conversation=conversationId, decision, messages:count, when=at:time"
