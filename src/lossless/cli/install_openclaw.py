"""`lcm install openclaw`, the way back, and `lcm bridge`, which the plugin starts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lossless.cli.commands import Command
from lossless.cli.install_agents import change_files
from lossless.paths import expanded

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.hosts.openclaw.setup import Setup

_STATE = click.option(
    "--state-dir",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="OpenClaw's state folder; else OPENCLAW_STATE_DIR, else ~/.openclaw.",
)
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would be changed; change nothing.")


@click.command("openclaw", cls=Command)
@_STATE
@_DRY_RUN
@click.option("--uninstall", "is_removal", is_flag=True, help="The way back: `lcm uninstall openclaw`.")
@click.pass_obj
def install_openclaw(invocation: Invocation, state_dir: Path | None, dry_run: bool, is_removal: bool) -> None:
    """Make lossless the context engine of OpenClaw.

    In openclaw.json the plugin's folder is added, the contextEngine slot is set, and the plugin gets leave to add the
    recall policy to prompts and to use the models that its settings name. Settings of lossless-claw are taken over
    where OpenClaw accepts them here, the others are named; its lcm.db is used in place. Memory plugins stay. The file
    is copied first. Restart the gateway afterwards.
    """
    from lossless.hosts.openclaw import setup

    path = _config_path(invocation, state_dir)
    if is_removal:
        _change(invocation, "uninstall", setup.uninstall(path), dry_run=dry_run)
        return
    made = setup.install(path, setup.plugin_folder(), sys.executable)
    _change(invocation, "install", made, dry_run=dry_run)


@click.command("openclaw", cls=Command)
@_STATE
@_DRY_RUN
@click.pass_obj
def uninstall_openclaw(invocation: Invocation, state_dir: Path | None, dry_run: bool) -> None:
    """Take the plugin out of OpenClaw's config, and put back what it replaced there. The archive stays."""
    from lossless.hosts.openclaw import setup

    _change(invocation, "uninstall", setup.uninstall(_config_path(invocation, state_dir)), dry_run=dry_run)


@click.command("bridge", cls=Command)
def bridge() -> None:
    """Answer OpenClaw's plugin on standard input and output; the plugin starts it.

    One JSON-RPC message a line, both ways. It ends when its input does.
    """
    from lossless.hosts.openclaw.main import main

    raise click.exceptions.Exit(main())


def _config_path(invocation: Invocation, state_dir: Path | None) -> Path:
    from lossless.settings.paths import Places

    if state_dir is not None:
        return expanded(state_dir).absolute() / "openclaw.json"
    return Places.of(openclaw_dir=invocation.openclaw_dir).host_config


def _change(invocation: Invocation, command: str, made: Setup, *, dry_run: bool) -> None:
    files = change_files(made.edits, dry_run=dry_run)
    done = {"host": "openclaw", "applied": not dry_run, "files": files}
    invocation.emit(command, done | {"changes": list(made.changes), "remarks": list(made.remarks)})
