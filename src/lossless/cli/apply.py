"""Plan, show, confirm, apply: the steps that every command that changes an archive goes through.

Raises `CommandFailed` when what was named is not there.
"""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

from lossless.cli import failures
from lossless.cli.failures import printable
from lossless.cli.output import to_json
from lossless.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lossless.cli.commands import Invocation
    from lossless.cli.screen import Data
    from lossless.engine import Engine
    from lossless.maintenance.surgery.common import OperationReport

R = TypeVar("R")


@contextmanager
def with_hints() -> Iterator[None]:
    """What is not there comes with where to look."""
    try:
        yield
    except NotFound as error:
        failure = failures.as_failure(error)
        if lists := {"summary": "lcm summary list", "conversation": "lcm list"}.get(error.kind):
            failure.hint = f"`{lists}` shows what is there."
        raise failure from None


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


@contextmanager
def planning(invocation: Invocation) -> Iterator[Engine]:
    """The engine for planning, which changes nothing; what is not there comes with where to look."""
    with invocation.reader() as engine, with_hints():
        yield engine


def result_json(report: OperationReport | None) -> Data:
    """What a surgery did, for the envelope."""
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
