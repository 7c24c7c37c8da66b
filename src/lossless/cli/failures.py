"""What went wrong, as one value: a code for programs, a sentence for people, an exit code for scripts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from lossless import errors

if TYPE_CHECKING:
    from lossless.cli.screen import Data

OK, INTERNAL, BAD_ARGUMENTS, NOT_FOUND, CONFIG, DATABASE = range(6)
INTERRUPTED = 130

#: By class, the first that fits: the exit code, and what the envelope tells of the error.
_KINDS: tuple[tuple[type[errors.LosslessError], int, tuple[str, ...]], ...] = (
    (errors.BadSetting, CONFIG, ("key", "source", "allowed")),
    (errors.BadMessage, BAD_ARGUMENTS, ("index", "field")),
    (errors.BadInput, BAD_ARGUMENTS, ()),
    (errors.NotFound, NOT_FOUND, ("kind", "id")),
    (errors.ArchiveError, DATABASE, ()),
    (errors.LosslessError, INTERNAL, ()),
)
#: What lists those of which one was not found.
_LISTS = {"summary": "lcm summary list", "conversation": "lcm list"}


class CommandFailed(Exception):
    """A command cannot go on: what the envelope says of it, the exit code, and what a person may do about it."""

    def __init__(
        self, code: str, message: str, exit_code: int = BAD_ARGUMENTS, details: Data | None = None, hint: str = ""
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.exit_code, self.details, self.hint = code, message, exit_code, details or {}, hint

    def envelope(self) -> Data:
        error: Data = {"code": self.code, "message": self.message}
        details = self.details | ({"hint": self.hint} if self.hint else {})
        if details:
            error["details"] = details
        return {"ok": False, "error": error}


def fail(code: str, message: str, exit_code: int = BAD_ARGUMENTS, *, hint: str = "", **details: Any) -> CommandFailed:
    return CommandFailed(code, message, exit_code, details, hint)


def not_found(message: str, *, hint: str = "", **details: Any) -> CommandFailed:
    return fail("not_found", message, NOT_FOUND, hint=hint, **details)


def is_at_terminal() -> bool:
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def need_extra(extra: str, message: str, *packages: str) -> None:
    """Raises when a package of an extra of lossless is not installed."""
    from importlib.util import find_spec

    if any(find_spec(package) is None for package in packages):
        hint = f"Install {'them' if len(packages) > 1 else 'it'} with `pip install 'lossless[{extra}]'`."
        raise fail("missing_extra", message, CONFIG, hint=hint)


def as_failure(error: errors.LosslessError | click.ClickException | CommandFailed) -> CommandFailed:
    """What an error means for the one who typed the command."""
    if isinstance(error, CommandFailed):
        return error
    if isinstance(error, click.ClickException):
        context = error.ctx if isinstance(error, click.UsageError) else None
        hint = f"See `{context.command_path if context else 'lcm'} --help`."
        return CommandFailed("bad_arguments", error.format_message(), BAD_ARGUMENTS, {}, hint)
    exit_code, names = next((code, names) for kind, code, names in _KINDS if isinstance(error, kind))
    hint = ""
    if isinstance(error, errors.BadSetting) and error.key == "config":
        hint = "Correct the file, or name another one with --config."
    elif isinstance(error, errors.NotFound) and error.kind in _LISTS:
        hint = f"`{_LISTS[error.kind]}` shows what is there."
    return CommandFailed(error.code, str(error), exit_code, {name: getattr(error, name) for name in names}, hint)


def print_error(failure: CommandFailed, *, as_json: bool, pretty: bool = False) -> None:
    if as_json:
        import json

        click.echo(json.dumps(failure.envelope(), indent=2 if pretty else None), err=True)
        return
    click.secho("Error: ", fg="red", bold=True, nl=False, err=True)
    click.echo(_wrapped(failure.message, first=len("Error: ")), err=True)
    if failure.hint:
        click.secho(_wrapped(failure.hint), dim=True, err=True)


def _wrapped(text: str, first: int = 0) -> str:
    """The text for standard error: at a terminal, lines are broken between words; the first one begins at a column."""
    if not sys.stderr.isatty():
        return printable(text)
    import shutil

    width = shutil.get_terminal_size().columns
    lines = (click.wrap_text(line, width, " " * first) for line in printable(text).split("\n"))
    return "\n".join(lines)[first:]


def printable(text: str) -> str:
    """The text with everything that would steer a terminal made visible.

    >>> printable("a\\x1b[31mb\\ud800")
    'a␛[31mb\\ufffd'
    """
    return text.translate(_VISIBLE)


_VISIBLE = (
    {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"}
    | {0x7F: "␡"}
    | dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "�")
    | dict.fromkeys(range(0xD800, 0xE000), "�")
)
