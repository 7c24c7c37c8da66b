"""`lcm tui`: the archive on the whole screen; `lcm completion`; and `lcm-tui`, with lossless-claw's words."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lossless.cli import failures
from lossless.cli.charts import check_chart_path, overwrite_option, write_chart
from lossless.cli.commands import Command
from lossless.cli.options import usage_error

if TYPE_CHECKING:
    from lossless.cli.commands import Invocation


@click.command("tui", cls=Command)
@click.option(
    "--sessions",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder with a host's session files; else those of OpenClaw's agents are found.",
)
@click.option(
    "--screenshot",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a picture (SVG) of the screen instead of opening it; needs no terminal.",
)
@click.option("--press", metavar="KEYS", default="", help="With --screenshot: keys to press before, such as enter,s.")
@overwrite_option
@click.option("--read-only", is_flag=True, help="Change nothing, whatever key is pressed.")
@click.pass_obj
def tui(
    invocation: Invocation, sessions: Path | None, screenshot: Path | None, press: str, overwrite: bool, read_only: bool
) -> None:
    """Browse conversations, summaries and contexts at a terminal, and operate on them after a preview.

    The archive is read while others write it; it is opened for writing only to carry out what was confirmed.
    Press ? for the keys.
    """
    if (press or overwrite) and screenshot is None:
        raise usage_error(f"{'--press' if press else '--overwrite'} goes with --screenshot.")
    if find_spec("textual") is None:
        raise failures.fail(
            "missing_extra",
            "The terminal interface needs the package textual.",
            failures.CONFIG,
            hint="Install it with `pip install 'lossless[tui]'`.",
        )
    invocation.reader().close()
    if screenshot is None and not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        hint = "Programs read the same with `lcm list`, `lcm show`, `lcm summary list` and `lcm context`."
        raise failures.fail("no_terminal", "This needs a terminal.", failures.BAD_ARGUMENTS, hint=hint)
    if screenshot is not None:
        check_chart_path(screenshot, invocation.file_path, overwrite=overwrite)
    picture = _run(invocation, sessions, [key for key in press.split(",") if key], screenshot, read_only=read_only)
    if screenshot is not None:
        write_chart(screenshot, picture, invocation.file_path, overwrite=overwrite)
        invocation.emit("tui", {"path": str(screenshot)})


def _run(
    invocation: Invocation, sessions: Path | None, keys: list[str], screenshot: Path | None, *, read_only: bool
) -> str:
    """Show the screen until it is left, or return its picture."""
    from lossless.settings.load import ProcessEnvironment
    from lossless.tui.app import TerminalApp
    from lossless.tui.archive import ArchiveAccess
    from lossless.tui.session_files import find_session_folders

    places = ProcessEnvironment.of(openclaw_dir=invocation.openclaw_dir)
    codex = Path(places.variable("CODEX_HOME") or places.home / ".codex")
    folders = (sessions,) if sessions else find_session_folders(places.state_dir, codex)
    settings = invocation.loaded.settings
    room = ArchiveAccess(invocation.file_path, settings, folders=folders, codex=codex, read_only=read_only)
    picture = ""
    try:
        app = TerminalApp(room, sessions)
        if screenshot is None:
            app.run()
        else:
            picture = app.pictured(keys)
    finally:
        room.close()
    if app.return_code:
        raise click.exceptions.Exit(failures.INTERNAL)
    return picture


_SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(_SHELLS), required=False)
@click.pass_context
def completion(ctx: click.Context, shell: str | None) -> None:
    """Print the script that has a SHELL complete commands, options and the names of conversations.

    Without SHELL it is the one in the variable SHELL. To have it in every new shell:

    \b
    echo 'eval "$(lcm completion bash)"' >> ~/.bashrc
    echo 'eval "$(lcm completion zsh)"' >> ~/.zshrc
    lcm completion fish > ~/.config/fish/completions/lcm.fish
    """
    from click.shell_completion import get_completion_class

    name = shell or Path(os.environ.get("SHELL", "")).name
    found = get_completion_class(name) if name in _SHELLS else None
    if found is None:
        raise usage_error(f"Name your shell: {', '.join(_SHELLS)}.")
    if name == "bash":  # session keys have colons, at which bash would begin another word
        click.echo("COMP_WORDBREAKS=${COMP_WORDBREAKS//:}")
    click.echo(found(ctx.find_root().command, {}, "lcm", "_LCM_COMPLETE").source())


# --- lcm-tui ---------------------------------------------------------------------------------------------------

TUI_HELP = """\
lcm-tui takes the spellings of lossless-claw's terminal program. Alone, it opens `lcm tui`.

  lcm-tui                                      lcm tui
  lcm-tui doctor CONVERSATION                  lcm doctor apply CONVERSATION
  lcm-tui repair CONVERSATION | --all          lcm repair -s CONVERSATION
  lcm-tui rewrite CONVERSATION --summary ID    lcm rewrite -s CONVERSATION --summary ID
  lcm-tui dissolve CONVERSATION --summary-id ID
                                               lcm dissolve ID --purge
  lcm-tui transplant FROM TO                   lcm transplant --from FROM --to TO
  lcm-tui backfill AGENT SESSION               lcm import openclaw, then lcm backfill -s SESSION
  lcm-tui prompts --list | --show NAME         lcm prompts list, show NAME

Nothing is changed without --apply. The options of the commands on the right work as well."""
_TUI_GLOBALS = ("--db", "--config", "--openclaw-dir")
#: Go's programs take one dash for two.
_ONE_DASH = re.compile(r"-[a-z]{2}")
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


def lcm_tui() -> None:
    """The entry point of `lcm-tui`."""
    from lossless.cli.main import main

    try:
        commands = tui_commands(sys.argv[1:])
    except ValueError as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(failures.BAD_ARGUMENTS) from None
    for arguments in commands[:-1]:
        code = subprocess.run([sys.executable, "-m", "lossless.cli.main", *arguments], check=False).returncode
        if code:
            raise SystemExit(code)
    if commands:
        sys.argv[1:] = commands[-1]
        main()
    else:
        click.echo(TUI_HELP)


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
    command, words = arguments[0], [f"-{word}" if _ONE_DASH.match(word) else word for word in arguments[1:]]
    given = [word for word in (_TUI_OPTIONS.get(word, word) for word in words) if word is not None]
    if command == "help" or {"-h", "--help"} & set(given):
        return []
    names, options = _leading_names(given)
    if command == "prompts":
        return [["prompts", *_prompt_words(given)]]
    if command in ("doctor", "repair", "rewrite"):
        return [_about_conversation(command, names, options)]
    if command == "dissolve":
        at = options.index("--summary") if "--summary" in options else -1
        if at < 0 or at + 1 == len(options):
            raise ValueError("say which summary: lcm-tui dissolve CONVERSATION --summary-id ID")
        purges = [] if "--purge=false" in words or "--purge" in options else ["--purge"]
        return [["dissolve", options[at + 1], *options[:at], *options[at + 2 :], *purges]]
    if command == "transplant":
        _need(names, 2, "lcm-tui transplant FROM TO")
        return [["transplant", "--from", names[0], "--to", names[1], *options]]
    if command == "backfill":
        _need(names, 2, "lcm-tui backfill AGENT SESSION")
        return _backfill(names[0], names[1], options)
    return [arguments]


def _leading_names(given: list[str]) -> tuple[list[str], list[str]]:
    """The positional arguments that come first, and the rest."""
    end = next((n for n, word in enumerate(given) if word.startswith("-")), len(given))
    return given[:end], given[end:]


def _need(names: list[str], count: int, call: str) -> None:
    if len(names) != count:
        raise ValueError(f"it is called like this: {call}")


def _about_conversation(command: str, names: list[str], options: list[str]) -> list[str]:
    """A command about one conversation, which comes first, or about all of them."""
    if len(names) > 1 or (not names and "--all" not in options):
        raise ValueError(f"it is called like this: lcm-tui {command} CONVERSATION")
    if command != "doctor":
        return [command, *(["-s", names[0]] if names else []), *options]
    words = {"--apply": "--confirm", "--all": ""}
    return ["doctor", "apply", *names, *(word for word in (words.get(one, one) for one in options) if word)]


def _prompt_words(given: list[str]) -> list[str]:
    """`--list`, `--show NAME`, `--diff NAME`, `--render NAME`, `--export [DIR]` as a command and its arguments."""
    actions = {f"--{word}": word for word in ("list", "show", "diff", "render", "export")}
    at = next((n for n, word in enumerate(given) if word.partition("=")[0] in actions), None)
    if at is None:
        return ["list", *given]
    name, _, value = given[at].partition("=")
    after = [value] if value else given[at + 1 : at + 2] if not "".join(given[at + 1 : at + 2]).startswith("-") else []
    rest = given[:at] + given[at + 1 + (0 if value else len(after)) :]
    if actions[name] == "export" and not after:
        after = [str(Path.home() / ".config" / "lcm-tui" / "prompts")]
    return [actions[name], *(after if actions[name] != "list" else []), *rest]


def _backfill(agent: str, session: str, options: list[str]) -> list[list[str]]:
    """Import a session of an agent of OpenClaw's, then build its summaries."""
    from lossless.settings.load import ProcessEnvironment

    folder = ProcessEnvironment.of().state_dir / "agents" / agent / "sessions"
    file = folder / f"{session}.jsonl"
    if not file.is_file():
        raise ValueError(f"there is no transcript {file}")
    is_real = "--apply" in options
    first = ["import", "openclaw", str(file), "--no-summaries", *(["--apply"] if is_real else [])]
    return [first, ["backfill", "-s", session, *options]] if is_real else [first]
