"""`lcm tui`: the archive on the whole screen."""

from __future__ import annotations

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
        hint = "Programs read the same with `lcm conversations`, `lcm summaries` and `lcm context`."
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
