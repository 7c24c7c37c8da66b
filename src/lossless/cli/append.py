"""`lcm append`: new messages from JSON lines, in batches that are each all or nothing."""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from lossless.cli import failures
from lossless.cli.commands import Command, text
from lossless.cli.failures import Failure
from lossless.cli.lines import BadLine, GoodLine, Where, read_lines
from lossless.cli.options import wrong
from lossless.errors import BadMessage, LosslessError
from lossless.ingest import events
from lossless.model.conversations import Session

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lossless.cli.invocation import Invocation
    from lossless.engine import Engine
    from lossless.ingest.run import AppendReport

#: A batch is stored early when its lines are longer than this together.
_BATCH_BYTES = 8 * 1024 * 1024
#: So many bad lines, and so many reasons for skips, are named one by one.
_NAMED = 20


@dataclass(slots=True)
class Tally:
    """What an input came to, added up batch by batch."""

    conversation_id: int | None = None
    messages: int = 0
    stored: int = 0
    replayed: int = 0
    stamped: int = 0
    revised: int = 0
    likely: int = 0
    ambiguous: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    bad_count: int = 0
    bad: list[BadLine] = field(default_factory=list)
    #: The last line that is in the archive.
    through: Where | None = None

    def add(self, report: AppendReport, lines: list[GoodLine]) -> None:
        self.conversation_id = report.conversation_id
        self.messages += len(lines)
        self.stored += report.stored
        self.replayed += report.replayed
        self.stamped += report.stamped
        self.revised += report.revised
        self.likely += report.likely
        self.ambiguous += report.ambiguous
        self.skipped.update(skip.reason[:120] for skip in report.skipped)
        self.through = lines[-1].where

    def add_bad(self, line: BadLine) -> None:
        self.bad_count += 1
        if len(self.bad) < _NAMED:
            self.bad.append(line)

    def data(self) -> dict[str, Any]:
        return {
            "conversationId": self.conversation_id,
            "messages": self.messages,
            "stored": self.stored,
            "replayed": self.replayed,
            "stamped": self.stamped,
            "revised": self.revised,
            "likely": self.likely,
            "ambiguous": self.ambiguous,
            "skipped": sum(self.skipped.values()),
            "skippedReasons": dict(self.skipped.most_common(_NAMED)),
            "badLines": self.bad_count,
            "bad": [{"file": bad.where.file, "line": bad.where.line, "reason": bad.reason} for bad in self.bad],
        }

    @property
    def so_far(self) -> str:
        """What is stored when the work ends early."""
        if self.through is None:
            return "Nothing was stored."
        what = "1 new message" if self.stored == 1 else f"{self.stored} new messages"
        return f"Everything up to {self.through} is in the archive ({what})."


def session_options(function: Any) -> Any:
    """Options that say whose messages they are; at least one is needed."""
    function = click.option("--session-id", type=text, help="The host's id of this run.")(function)
    return click.option("--session-key", type=text, help="The host's stable name of the conversation.")(function)


def session_of(key: str | None, id_: str | None) -> Session:
    """The session that the options name."""
    if key is None and id_ is None:
        raise wrong("Say whose messages these are: --session-key, --session-id, or both.")
    return Session(key=key, id=id_)


@click.command("append", cls=Command)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@session_options
@click.option("--key", type=text, help="A name for this batch: the same name twice is stored once.")
@click.option(
    "--batch",
    metavar="N",
    type=click.IntRange(1, 100_000),
    default=1000,
    show_default=True,
    help="Messages per transaction.",
)
@click.option("--skip-bad", is_flag=True, help="Leave out lines that hold no message, and count them.")
@click.pass_obj
def append(
    invocation: Invocation,
    files: tuple[str, ...],
    session_key: str | None,
    session_id: str | None,
    key: str | None,
    batch: int,
    skip_bad: bool,
) -> None:
    """Store new messages from FILES, or from standard input: JSON lines, one message per line.

    A message may have any format that lossless knows (OpenAI chat and responses, Anthropic, OpenClaw, plain role
    and content). {"message": …, "id": …, "timestamp": …} around it gives it the host's entry id and the time when
    it was said; what has an id that is stored already is not stored again.

    A line that holds no message stops the command with exit code 2; what came before it is stored. With --key the
    whole input is one batch: all of it is stored, or nothing.
    """
    intake = Intake(session_of(session_key, session_id), key, batch, skip_bad)
    with ExitStack() as stack:
        streams = [(None if name == "-" else name, stack.enter_context(open_input(name))) for name in files or ("-",)]
        advance = stack.enter_context(_progress(invocation, [stream for _, stream in streams]))
        lines = chain.from_iterable(read_lines(stream, name, advance) for name, stream in streams)
        engine = stack.enter_context(invocation.engine())
        intake.run(engine, lines)
    invocation.emit("append", intake.tally.data())


@dataclass(slots=True)
class Intake:
    """Stores lines in batches and keeps the tally."""

    session: Session
    key: str | None
    batch: int
    skip_bad: bool
    tally: Tally = field(default_factory=Tally)

    def run(self, engine: Engine, lines: Iterable[GoodLine | BadLine]) -> None:
        """Store all lines; whatever ends the work early says how far it came."""
        try:
            self._run(engine, lines)
        except (LosslessError, Failure) as error:
            raise failures.adding(error, **self.tally.data(), soFar=self.tally.so_far) from error
        except KeyboardInterrupt:
            hint = self.tally.so_far
            raise failures.fail(
                "interrupted", "Interrupted.", failures.INTERRUPTED, hint=hint, **self.tally.data()
            ) from None

    def _run(self, engine: Engine, lines: Iterable[GoodLine | BadLine]) -> None:
        pending: list[GoodLine] = []
        size = 0
        for line in lines:
            if isinstance(line, BadLine):
                if not self.skip_bad:
                    self._stop(engine, pending, line)
                self.tally.add_bad(line)
                continue
            if len(pending) == self.batch:
                raise wrong(f"--key names one batch, and the input is longer than --batch {self.batch}.")
            pending.append(line)
            size += line.size
            if self.key is None and (len(pending) == self.batch or size >= _BATCH_BYTES):
                self._store(engine, pending)
                pending, size = [], 0
        self._store(engine, pending)

    def _store(self, engine: Engine, lines: list[GoodLine]) -> None:
        """Store a batch whole; a line that is no message ends the work, or is left out."""
        if not lines:
            return
        try:
            report = engine.append(self.session, [line.item for line in lines], key=self.key)
        except BadMessage as error:
            index = error.index or 0
            if not self.skip_bad:
                self._stop(engine, lines[:index], _bad(lines[index], error))
            good = []
            for line in lines:
                bad = _checked(line)
                if bad is None:
                    good.append(line)
                else:
                    self.tally.add_bad(bad)
            self._store(engine, good)
            return
        self.tally.add(report, lines)

    def _stop(self, engine: Engine, before: list[GoodLine], bad: BadLine) -> None:
        """End the work at a bad line; what came before it is stored, except where all or nothing was asked for."""
        if self.key is None:
            self._store(engine, before)
        self.tally.add_bad(bad)
        raise failures.fail(
            "bad_message",
            f"{bad.where.opening}: {bad.reason}.",
            failures.BAD_ARGUMENTS,
            hint=f"{self.tally.so_far} Mend the line and append from it on, or leave such lines out with --skip-bad.",
            file=bad.where.file,
            line=bad.where.line,
        )


def _bad(line: GoodLine, error: BadMessage) -> BadLine:
    return BadLine(line.where, f"{f'field {error.field!r}: ' if error.field else ''}{error.reason}")


def _checked(line: GoodLine) -> BadLine | None:
    try:
        events.read([line.item])
    except BadMessage as error:
        return _bad(line, error)
    return None


def _standard_input() -> BinaryIO:
    """Standard input as bytes; somebody at a terminal is told that they are waited for."""
    stream = sys.stdin.buffer
    if stream.isatty():
        click.echo("Reading from the terminal; end with Ctrl-D.", err=True)
    return stream


@contextmanager
def open_input(name: str) -> Iterator[BinaryIO]:
    """An input by its name; `-` is standard input."""
    if name == "-":
        yield _standard_input()
        return
    try:
        file = open(name, "rb")  # noqa: SIM115 - an error of the reader is not one of the file
    except OSError as error:
        raise click.FileError(name, error.strerror or type(error).__name__) from error
    with file:
        yield file


def _progress(invocation: Invocation, streams: list[BinaryIO]) -> Any:
    """A bar for somebody who watches; it knows its end when all inputs are files."""
    if not invocation.shows_progress:
        return nullcontext()
    from lossless.cli.progress import reading

    sizes = [_file_size(stream) for stream in streams]
    return reading("Storing", sum(size for size in sizes if size) if None not in sizes else None)


def _file_size(stream: BinaryIO) -> int | None:
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
