"""The `lcm` command: reads its arguments, runs one command, turns every outcome into an exit code. And `lcm-tui`, with
the spellings of lossless-claw's terminal program.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from itertools import takewhile
from typing import Any

import click

from lossless.cli import failures
from lossless.cli.commands import CommandEntry, Invocation, LazyGroup, command_table
from lossless.cli.failures import CommandFailed, as_failure
from lossless.errors import LosslessError

#: What writing to a full disk, a closed terminal or beyond a limit comes to.
_OUTPUT_FAILURES = frozenset((errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG))


class Root(LazyGroup):
    def main(self, *positional: Any, **more: Any) -> Any:
        """Run one command and leave: no error of the user's making ends in a traceback."""
        given = more.pop("args", positional[0] if positional else None)
        arguments = [str(argument) for argument in (sys.argv[1:] if given is None else given)]
        invocation = Invocation()
        more |= {"standalone_mode": False, "obj": invocation, "prog_name": "lcm"}
        try:
            code = super().main(arguments, **more) or invocation.finish()
            sys.stdout.flush()
        except (LosslessError, CommandFailed, click.ClickException) as error:
            code = _failed(as_failure(error), invocation, arguments)
        except (KeyboardInterrupt, click.Abort) as error:
            if error.__cause__ is None and sys.stderr.isatty():  # the line of a question is not ended yet
                click.echo(err=True)
            code = _failed(CommandFailed("interrupted", "Interrupted.", failures.INTERRUPTED), invocation, arguments)
        except BrokenPipeError:  # the reader has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = failures.INTERNAL
        except OSError as error:
            if error.filename is not None or error.errno not in _OUTPUT_FAILURES:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            message = f"The answer cannot be written: {error.strerror}."
            invocation.format = invocation.format or "table"
            code = _failed(CommandFailed("output", message, failures.INTERNAL), invocation, arguments)
        sys.exit(code if isinstance(code, int) else failures.OK)


def _failed(failure: CommandFailed, invocation: Invocation, arguments: list[str]) -> int:
    invocation.format = invocation.format or _format_in(arguments)
    failures.print_error(failure, as_json=invocation.as_json, pretty=invocation.pretty)
    return failure.exit_code


def _format_in(arguments: list[str]) -> str | None:
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=False):
        name, _, value = argument.partition("=")
        if name == "--format" and (value or following) in ("json", "table"):
            return value or following
        if argument == "--json":
            return "json"
    return None


def _unexpected(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """One line for what should never happen; the whole story with LCM_DEBUG=1."""
    if os.environ.get("LCM_DEBUG"):
        sys.__excepthook__(kind, error, trace)
        return
    hint = "Run it again with LCM_DEBUG=1 to see where, and please report it."
    failure = CommandFailed("internal", f"Unexpected {kind.__name__}.", failures.INTERNAL, {}, hint)
    _failed(failure, Invocation(), sys.argv[1:])


_TABLE = command_table()
summary = LazyGroup(
    "summary",
    help="List, open, rewrite and repair summaries, and undo changes of a context.",
    sections={"Commands": _TABLE.pop("lcm summary")},
)
session = LazyGroup(
    "session",
    help="Reset a session, merge its conversations, and decide about transcripts that were held back.",
    sections={"Commands": _TABLE.pop("lcm session")},
)
#: With those of the groups that were commands of their own.
OLD_SPELLINGS = _TABLE.pop("old spellings") | {
    name: CommandEntry(entry.place, f"{group.name} {name}")
    for group in (session, summary)
    for name, entry in group.entries.items()
    if name != "list"
}


@click.pass_context
def _without_command(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        from lossless.cli.init import show_overview

        show_overview(ctx.obj)


cli = Root(
    "lcm",
    callback=_without_command,
    invoke_without_command=True,
    help="Keep every word of agent conversations, and find any of it again.",
    context_settings={"help_option_names": ["-h", "--help"]},
    old_spellings=OLD_SPELLINGS,
    sections=_TABLE,
)


def main() -> None:
    """The entry point."""
    sys.excepthook = _unexpected
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and "utf" not in stream.encoding.lower():
            stream.reconfigure(errors="replace")  # an old terminal shows ? for what it does not have
    cli()


# --- lcm-tui ---------------------------------------------------------------------------------------------------

_TUI_GLOBALS = ("--db", "--config", "--openclaw-dir")
#: Options of lossless-claw's program, and what they are called here; None for those that are the rule here.
_TUI_OPTIONS = {
    "--summary-id": "--summary",
    "--show-diff": "--diff",
    "--dry-run": None,
    "--verbose": None,
    "--purge=true": "--purge",
    "--purge=false": None,
    "--timestamps=true": "--timestamps",
    "--timestamps=false": "--no-timestamps",
}
#: What follows the name of a command there.
_TUI_NAMES = {
    **dict.fromkeys(("doctor", "repair", "rewrite"), "CONVERSATION"),
    "transplant": "FROM TO",
    "backfill": "AGENT SESSION",
}
_PROMPT_ACTIONS = ("list", "show", "diff", "render", "export")


def lcm_tui() -> None:
    """The entry point of `lcm-tui`."""
    try:
        commands = tui_commands(sys.argv[1:])
    except ValueError as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(failures.BAD_ARGUMENTS) from None
    for arguments in commands[:-1]:
        import subprocess

        code = subprocess.run([sys.executable, "-m", "lossless.cli.main", *arguments], check=False).returncode
        if code:
            raise SystemExit(code)
    if commands:
        sys.argv[1:] = commands[-1]
        main()
    else:
        from lossless.cli.commands import read_text

        click.echo(read_text("lcm-tui.txt"), nl=False)


def tui_commands(arguments: list[str]) -> list[list[str]]:
    """The `lcm` commands that a call of `lcm-tui` comes to, one after the other; none for its help.

    >>> tui_commands(["rewrite", "44", "--depth", "0", "--apply"])
    [['rewrite', '-s', '44', '--depth', '0', '--apply']]
    >>> tui_commands(["prompts", "--show", "leaf"])
    [['prompts', 'show', 'leaf']]
    """
    if arguments[:1] and arguments[0] in _TUI_GLOBALS and len(arguments) > 2:
        return [[*arguments[:2], *words] for words in tui_commands(arguments[2:])]
    if not arguments or arguments[0].startswith("-"):
        return [] if {"-h", "--help"} & set(arguments) else [["tui", *arguments]]
    command, *words = arguments
    # an option with one dash is one with two in Go's programs
    words = [f"-{word}" if re.match("-[A-Za-z]{2}", word) else word for word in words]
    given = [word for word in (_TUI_OPTIONS.get(word, word) for word in words) if word is not None]
    if command == "help" or {"-h", "--help"} & set(given):
        return []
    names = list(takewhile(lambda word: not word.startswith("-"), given))
    options = given[len(names) :]
    wanted = _TUI_NAMES.get(command)
    if wanted and len(names) != len(wanted.split()) and (names or "--all" not in options):
        raise ValueError(f"it is called like this: lcm-tui {command} {wanted}")
    if command == "prompts":
        return [["prompts", *_prompt_words(given)]]
    if command == "doctor":
        command, options = "repair", [*options, *(["--confirm"] if "--apply" in options else [])]
    if command in ("repair", "rewrite"):
        return [[command, *(["-s", *names] if names else []), *options]]
    if command == "dissolve":
        return [_dissolve(options, keeps="--purge=false" in words)]
    if command == "transplant":
        return [["transplant", "--from", names[0], "--to", names[1], *options]]
    return _backfill(names[0], names[1], options) if command == "backfill" else [arguments]


def _dissolve(options: list[str], *, keeps: bool) -> list[str]:
    at = options.index("--summary") if "--summary" in options[:-1] else -1
    if at < 0:
        raise ValueError("say which summary: lcm-tui dissolve CONVERSATION --summary-id ID")
    purges = [] if keeps or "--purge" in options else ["--purge"]
    return ["dissolve", options[at + 1], *options[:at], *options[at + 2 :], *purges]


def _prompt_words(given: list[str]) -> list[str]:
    for at, word in enumerate(given):
        action, _, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and action in _PROMPT_ACTIONS:
            before, after = given[:at], given[at + 1 :]
            place = [value] if value and action != "list" else []
            if action == "export" and not value and (not after or after[0].startswith("-")):
                place = [os.path.expanduser("~/.config/lcm-tui/prompts")]
            return [action, *place, *after, *before]
    return ["list", *given]


def _backfill(agent: str, session: str, options: list[str]) -> list[list[str]]:
    from lossless.settings.load import ProcessEnvironment

    file = ProcessEnvironment.of().state_dir / "agents" / agent / "sessions" / f"{session}.jsonl"
    if not file.is_file():
        raise ValueError(f"there is no transcript {file}")
    first = ["import", "openclaw", str(file), "--no-summaries"]
    return [[*first, "--apply"], ["backfill", "-s", session, *options]] if "--apply" in options else [first]


if __name__ == "__main__":
    main()
