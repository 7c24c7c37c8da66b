"""`lcm install claude-code|codex`, and the way back."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.commands import Command
from lossless.cli.options import wrong

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.cli.invocation import Invocation
    from lossless.hosts.claude_code.checkup import Check
    from lossless.hosts.config_files import Edit
    from lossless.hosts.programs import Programs

_PROJECT = click.option(
    "--project",
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="For one project, in its own files.",
)
_USER = click.option("--user", is_flag=True, help="For all projects, in the user's files; this is the default.")
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would be changed; change nothing.")
_DOCTOR = click.option("--doctor", is_flag=True, help="Only look whether everything is in place and works.")


@click.command("claude-code", cls=Command)
@_PROJECT
@_USER
@_DRY_RUN
@_DOCTOR
@click.pass_obj
def install_claude_code(invocation: Invocation, project: Path | None, user: bool, dry_run: bool, doctor: bool) -> None:
    """Set Claude Code up: hooks that keep every message, an MCP server with the tools, a skill.

    Hooks go into settings.json, the server into .mcp.json or the user's .claude.json, the skill into
    skills/lossless-recall. All else in those files stays, and they are copied first. Doing it again changes nothing.
    With --db or --config before it, hooks and server use that archive; without, the one that they used before.
    """
    from lossless.hosts.claude_code import setup

    places = _places(setup, project, user)
    if doctor:
        _examine(invocation, "claude-code", _claude_checks(invocation, places, _again("claude-code", project)))
    else:
        _install(invocation, "claude-code", setup, places, by_name=project is not None, dry_run=dry_run)


@click.command("claude-code", cls=Command)
@_PROJECT
@_USER
@_DRY_RUN
@click.pass_obj
def uninstall_claude_code(invocation: Invocation, project: Path | None, user: bool, dry_run: bool) -> None:
    """Take hooks, MCP server and skill away from Claude Code, and nothing else. The archive stays."""
    from lossless.hosts.claude_code import setup

    edits = setup.uninstall_edits(_places(setup, project, user))
    _change(invocation, "uninstall", "claude-code", edits, dry_run=dry_run)


@click.command("codex", cls=Command)
@_PROJECT
@_USER
@_DRY_RUN
@_DOCTOR
@click.pass_obj
def install_codex(invocation: Invocation, project: Path | None, user: bool, dry_run: bool, doctor: bool) -> None:
    """Set Codex CLI up: hooks that keep every message, and an MCP server with the tools.

    Hooks go into hooks.json, the server into config.toml, of ~/.codex or of a project's .codex. All else in those
    files stays, and they are copied first. Codex asks once whether it may run new hooks. With --db or --config before
    it, hooks and server use that archive; without, the one that they used before.
    """
    from lossless.hosts import codex

    places = _places(codex, project, user)
    if doctor:
        _examine(invocation, "codex", _codex_checks(invocation, places, _again("codex", project)))
    else:
        _install(invocation, "codex", codex, places, by_name=project is not None, dry_run=dry_run)


@click.command("codex", cls=Command)
@_PROJECT
@_USER
@_DRY_RUN
@click.pass_obj
def uninstall_codex(invocation: Invocation, project: Path | None, user: bool, dry_run: bool) -> None:
    """Take hooks and MCP server away from Codex CLI, and nothing else. The archive stays."""
    from lossless.hosts import codex

    edits = codex.uninstall_edits(_places(codex, project, user))
    _change(invocation, "uninstall", "codex", edits, dry_run=dry_run)


def _places(host: Any, project: Path | None, user: bool) -> Any:
    if project is not None and user:
        raise wrong("Give --project or --user, not both.")
    return host.user_places() if project is None else host.project_places(project.absolute())


def _again(name: str, project: Path | None) -> str:
    """The command that would set a host up as it was set up."""
    return f"lcm install {name}{f' --project {project}' if project else ''}"


def _install(invocation: Invocation, name: str, host: Any, places: Any, *, by_name: bool, dry_run: bool) -> None:
    commands, archive = _programs(invocation, host.installed_command(places), by_name=by_name)
    _change(invocation, "install", name, host.install_edits(places, commands), dry_run=dry_run, archive=archive)


def _programs(invocation: Invocation, before: Sequence[str] | None, *, by_name: bool) -> tuple[Programs, str]:
    """The commands to write down, and the archive that they use.

    An archive or a config file that was chosen for this run is chosen for them, too; else those of the commands that
    are there already stay.
    """
    from lossless.hosts.programs import chosen_in, programs
    from lossless.settings import load
    from lossless.settings.setting import without_passwords

    loaded = invocation.loaded
    is_chosen = invocation.openclaw_dir is not None or loaded.sources["databasePath"].kind in ("option", "env")
    database, config = invocation.file_path if is_chosen else None, invocation.config
    if before is not None:
        known = chosen_in(before)
        database = known.database if database is None and config is None else database
        config = known.config if config is None and known.config and Path(known.config).exists() else config
    elif config is None and loaded.config_path is not None and loaded.config_path.absolute().parent == Path.cwd():
        config = str(loaded.config_path)
    used = load(config, cwd=Path.home(), database=database).settings.database_path or "lcm.db"
    archive = without_passwords(used) if "://" in used else str(Path(used).absolute())
    return programs(database=database, config=config, by_name=by_name), archive


def _change(
    invocation: Invocation, command: str, host: str, edits: Sequence[Edit], *, dry_run: bool, archive: str | None = None
) -> None:
    from lossless.hosts.claude_code.checkup import missing_package

    data: dict[str, Any] = {"host": host, "applied": not dry_run, "files": change_files(edits, dry_run=dry_run)}
    if archive is not None:
        missing = missing_package()
        data |= {"archive": archive, "remarks": [missing] if missing else []}
    invocation.emit(command, data)


def change_files(edits: Sequence[Edit], *, dry_run: bool) -> list[dict[str, Any]]:
    """Make the edits, unless they are only to be seen: what happened to each file."""
    from lossless.hosts.config_files import Done, apply

    done = [Done(edit) for edit in edits] if dry_run else apply(edits, datetime.now(UTC))
    return [
        {
            "path": str(item.edit.path),
            "change": item.edit.change,
            "backup": None if item.backup is None else str(item.backup),
            "note": item.edit.note or None,
        }
        for item in done
    ]


def _examine(invocation: Invocation, host: str, checks: Sequence[Check]) -> None:
    ok = all(check.ok for check in checks)
    listed = [{"name": found.name, "ok": found.ok, "said": found.said, "hint": found.hint or None} for found in checks]
    invocation.emit("install.doctor", {"host": host, "checks": listed}, ok=ok)
    if not ok:
        raise click.exceptions.Exit(failures.INTERNAL)


def _claude_checks(invocation: Invocation, places: Any, again: str) -> list[Check]:
    from lossless.hosts.claude_code import checkup, setup
    from lossless.hosts.config_files import read_object, read_text
    from lossless.hosts.hook_files import SERVER

    settings = read_object(places.settings, read_text(places.settings))
    servers = read_object(places.servers, read_text(places.servers)).get("mcpServers")
    skill = read_text(places.skill)
    return [
        checkup.check_host("claude", setup.LEAST_VERSION, "run `claude update`, or use npm to install it again."),
        *checkup.check_hooks(settings, places.settings, setup.EVENTS, again),
        *checkup.check_server(_entry(servers, SERVER), places.servers, again),
        checkup.Check("skill", skill is not None, str(places.skill), "" if skill is not None else f"Run `{again}`."),
        checkup.check_archive(checkup.archive_of(settings, invocation.file_path)),
    ]


def _codex_checks(invocation: Invocation, places: Any, again: str) -> list[Check]:
    from lossless.hosts import codex
    from lossless.hosts.claude_code import checkup
    from lossless.hosts.config_files import read_object, read_text
    from lossless.hosts.hook_files import SERVER

    hooks = read_object(places.hooks, read_text(places.hooks))
    servers = codex.servers_in(places.config, read_text(places.config) or "")
    off = codex.hooks_switched_off(*dict.fromkeys((codex.user_places().config, places.config)))
    return [
        checkup.check_host(
            "codex", codex.LEAST_VERSION, 'update it, or set `notify = ["lcm-hook"]` in its config.toml.'
        ),
        *checkup.check_hooks(hooks, places.hooks, codex.EVENTS, again),
        *([] if off is None else [checkup.switched_off("hooks enabled", off[0], f"[features] {off[1]} = false")]),
        *checkup.check_server(_entry(servers, SERVER), places.config, again),
        checkup.check_archive(checkup.archive_of(hooks, invocation.file_path)),
    ]


def _entry(servers: Any, name: str) -> Any:
    return servers.get(name) if isinstance(servers, dict) else None
