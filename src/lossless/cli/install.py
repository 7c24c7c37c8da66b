"""`lcm connect` and `disconnect`, which were `install` and `uninstall`, `bridge` and `hook`: a host and an archive."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless.cli.commands import Command, CommandEntry, Invocation, LazyGroup, command, folder_option
from lossless.cli.options import usage_error
from lossless.cli.output import pick_json
from lossless.cli.screen import Data, Screen, styled
from lossless.model.paths import expand_path
from lossless.settings.load import ProcessEnvironment
from lossless.tui.text import home_path

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lossless.hosts.config_files import FileEdit
    from lossless.hosts.hook_config import HostCommands


_ABOUT = {
    "claude-code": "Claude Code: hooks, MCP server, skill.",
    "codex": "Codex CLI: hooks, MCP server.",
    "openclaw": "OpenClaw: the context engine.",
}
install, uninstall = (
    LazyGroup(
        verb,
        help=about,
        entries={host: CommandEntry(f"install:{verb}_{host.replace('-', '_')}", help) for host, help in _ABOUT.items()},
    )
    for verb, about in (
        ("install", "Connect a host to the archive with hooks and tools."),
        ("uninstall", "Remove from a host what `lcm connect` added."),
    )
)


_PROJECT = folder_option("--project", "For one project, in its own files.")
_USER = click.option("--user", is_flag=True, help="For all projects, in the user's files; this is the default.")
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Show what would be changed; change nothing.")
_DOCTOR = click.option("--doctor", is_flag=True, help="Only check whether everything is in place and works.")


def _agent_commands(name: str, module: str, connects: str, disconnects: str) -> tuple[Command, Command]:
    """`lcm connect` and `lcm disconnect` of a host with hooks; `connects` and `disconnects` are their help."""

    @command(name, help=connects)
    @_PROJECT
    @_USER
    @_DRY_RUN
    @_DOCTOR
    def connect(invocation: Invocation, project: Path | None, user: bool, dry_run: bool, doctor: bool) -> None:
        from lossless.hosts.claude_code.setup import check_setup

        host = import_module(module)
        places = _places(host, project, user)
        if doctor:
            again = f"lcm connect {name}{f' --project {project}' if project else ''}"
            checks = check_setup(host, places, again, invocation.file_path)
            listed = [{"name": one.name, "ok": one.ok, "said": one.detail, "hint": one.hint or None} for one in checks]
            view = partial(print_checks, unknown={found.name for found in checks if not found.is_known})
            data = {"host": name, "checks": listed}
            invocation.emit("install.doctor", view, data, ok=all(check.ok for check in checks))
        else:
            made = _connect_agent(invocation, name, host, places, by_name=project is not None, dry_run=dry_run)
            invocation.emit("install", partial(print_changes, undo="disconnect"), made)

    @command(name, help=disconnects)
    @_PROJECT
    @_USER
    @_DRY_RUN
    def disconnect(invocation: Invocation, project: Path | None, user: bool, dry_run: bool) -> None:
        host = import_module(module)
        files = change_files(host.uninstall_edits(_places(host, project, user)), dry_run=dry_run)
        data = {"host": name, "applied": not dry_run, "files": files}
        invocation.emit("uninstall", partial(print_changes, undo="connect"), data)

    return connect, disconnect


def _places(host: Any, project: Path | None, user: bool) -> Any:
    if project is not None and user:
        raise usage_error("Give --project or --user, not both.")
    return host.user_files() if project is None else host.project_files(project.absolute())


def connect_host(invocation: Invocation, name: str, *, dry_run: bool) -> Data:
    """Give a host what it needs, for all projects, and say what changed, or would."""
    if name == "openclaw":
        return _change_openclaw(invocation, None, dry_run=dry_run)
    host: Any = import_module(_CODEX if name == "codex" else _CLAUDE_CODE)
    return _connect_agent(invocation, name, host, host.user_files(), by_name=False, dry_run=dry_run)


def _connect_agent(invocation: Invocation, name: str, host: Any, places: Any, *, by_name: bool, dry_run: bool) -> Data:
    from lossless.hosts.claude_code.setup import missing_package
    from lossless.hosts.config_files import read_object, read_text
    from lossless.hosts.hook_config import command_in

    before = command_in(read_object(places.settings, read_text(places.settings)), host.own_server(places))
    commands, archive = _programs(invocation, before, by_name=by_name)
    files = change_files(host.install_edits(places, commands), dry_run=dry_run)
    remarks = list(filter(None, [missing_package()]))
    return {"host": name, "applied": not dry_run, "files": files, "archive": archive, "remarks": remarks}


def _programs(invocation: Invocation, before: Sequence[str] | None, *, by_name: bool) -> tuple[HostCommands, str]:
    """The commands to write down, and the archive that they use.

    An archive or a config file that was chosen for this run is chosen for them, too; else those of the commands that
    are there already stay.
    """
    from lossless.hosts.hook_config import host_commands, options_in
    from lossless.settings import load
    from lossless.settings.setting import mask_passwords

    loaded = invocation.loaded
    is_chosen = invocation.openclaw_dir is not None or loaded.sources["databasePath"].kind in ("option", "env")
    database, config = invocation.file_path if is_chosen else None, invocation.config
    if before is not None:
        known_database, known_config = options_in(before)
        database = known_database if database is None and config is None else database
        config = known_config if config is None and known_config and Path(known_config).exists() else config
    elif config is None and loaded.config_path is not None and loaded.config_path.absolute().parent == Path.cwd():
        config = str(loaded.config_path)
    used = load(config, cwd=Path.home(), database=database).settings.database_path or "lcm.db"
    archive = mask_passwords(used) if "://" in used else str(Path(used).absolute())
    return host_commands(database=database, config=config, by_name=by_name), archive


def change_files(edits: Sequence[FileEdit], *, dry_run: bool) -> list[Data]:
    """Make the edits, unless they are only to be seen: what happened to each file."""
    from lossless.hosts.config_files import apply_edits

    done = edits if dry_run else apply_edits(edits, datetime.now(UTC))
    return [pick_json(item, "path", "change", "backup") | {"note": item.note or None} for item in done]


_CLAUDE_CODE, _CODEX = "lossless.hosts.claude_code.setup", "lossless.hosts.codex"
install_claude_code, uninstall_claude_code = _agent_commands(
    "claude-code",
    _CLAUDE_CODE,
    """Set up Claude Code: hooks that store every message, an MCP server with the recall tools, and a skill.

    Hooks go into settings.json, the server into .mcp.json or the user's .claude.json, the skill into
    skills/lossless-recall. Nothing else in these files changes, and they are copied first. A second run changes
    nothing. With --db or --config, hooks and server use that archive; otherwise the one that they used before.
    """,
    "Remove hooks, MCP server and skill from Claude Code, and nothing else. The archive stays.",
)
install_codex, uninstall_codex = _agent_commands(
    "codex",
    _CODEX,
    """Set up Codex CLI: hooks that store every message, and an MCP server with the recall tools.

    Hooks go into hooks.json, the server into config.toml, of ~/.codex or of a project's .codex. Nothing else in these
    files changes, and they are copied first. Codex asks once whether it may run new hooks. With --db or --config, hooks
    and server use that archive; otherwise the one that they used before.
    """,
    "Remove hooks and MCP server from Codex CLI, and nothing else. The archive stays.",
)

_STATE = folder_option(
    "--state-dir", "OpenClaw's state folder; else OPENCLAW_STATE_DIR, else ~/.openclaw.", exists=False
)


@command("openclaw")
@_STATE
@_DRY_RUN
@click.option("--uninstall", "is_removal", is_flag=True, help="The way back: `lcm disconnect openclaw`.")
def install_openclaw(invocation: Invocation, state_dir: Path | None, dry_run: bool, is_removal: bool) -> None:
    """Make lossless the context engine of OpenClaw.

    This adds the plugin's folder to openclaw.json, sets the contextEngine slot, and allows the plugin to add the recall
    policy to prompts and to use the models that its settings name. Settings of lossless-claw are copied where OpenClaw
    accepts them here, and the others are listed; its lcm.db is used in place. Memory plugins stay. The file is copied
    first. Restart the gateway afterwards.
    """
    done = _change_openclaw(invocation, state_dir, dry_run=dry_run, is_removal=is_removal)
    view = partial(print_changes, undo="connect" if is_removal else "disconnect")
    invocation.emit("uninstall" if is_removal else "install", view, done)


@command("openclaw")
@_STATE
@_DRY_RUN
def uninstall_openclaw(invocation: Invocation, state_dir: Path | None, dry_run: bool) -> None:
    """Remove the plugin from OpenClaw's config, and put back what it replaced there. The archive stays."""
    done = _change_openclaw(invocation, state_dir, dry_run=dry_run, is_removal=True)
    invocation.emit("uninstall", partial(print_changes, undo="connect"), done)


@click.command("bridge", cls=Command)
def bridge() -> None:
    """Answer OpenClaw's plugin on standard input and output; the plugin starts it.

    One JSON-RPC message a line, both ways. It ends when its input does.
    """
    from lossless.hosts.openclaw.service import main

    raise click.exceptions.Exit(main())


def _change_openclaw(
    invocation: Invocation, state_dir: Path | None, *, dry_run: bool, is_removal: bool = False
) -> Data:
    from lossless.hosts.openclaw import setup

    path = ProcessEnvironment.of(openclaw_dir=invocation.openclaw_dir).host_config
    if state_dir is not None:
        path = expand_path(state_dir).absolute() / "openclaw.json"
    made = setup.uninstall(path) if is_removal else setup.install(path, setup.plugin_folder(), sys.executable)
    done: Data = {"host": "openclaw", "applied": not dry_run, "files": change_files(made.edits, dry_run=dry_run)}
    return done | {"changes": list(made.changes), "remarks": list(made.remarks)}


@command("hook", context_settings={"ignore_unknown_options": True})
@click.argument("event", nargs=-1, type=click.UNPROCESSED)
def hook(invocation: Invocation, event: tuple[str, ...]) -> None:
    """Answer one event of a host's hook: EVENT as JSON, else read from standard input.

    Hosts call `lcm-hook`, which is the same and starts faster. It always ends with 0; what went wrong is said on
    standard error.
    """
    from lossless.hosts.claude_code.hook import main

    main([*invocation.chosen_files, *event])


def print_changes(screen: Screen, data: Data, undo: str) -> None:
    """Each file, what happened to it, and where its copy is; then what else a person should know."""
    screen.title(data["host"], "" if data["applied"] else "nothing was changed (--dry-run)")
    for file in data["files"]:
        screen.line(f"{file['change']:<10}{home_path(file['path'])}")
        if file["backup"]:
            screen.line(styled(f"{'':<10}copy of the old file: {home_path(file['backup'])}", "dim"))
        if file["note"]:
            screen.prose(styled(file["note"], "dim"), 10)
    if data.get("archive"):
        screen.line(f"{'archive':<10}{home_path(data['archive'])}")
        screen.line(styled(f"{'':<10}another one: lcm --db PATH connect {data['host']}", "dim"))
    if data["applied"] and any(file["change"] != "unchanged" for file in data["files"]):
        screen.undo(f"lcm {undo} {data['host']}")
    for remark in data.get("remarks", ()):
        screen.line(styled(f"{'note':<10}", "yellow"), remark)


def print_checks(screen: Screen, data: Data, unknown: Collection[str] = ()) -> None:
    screen.title(data["host"])
    for check in data["checks"]:
        mark = styled("ok  ", "green") if check["ok"] else styled("no  ", "bold red")
        mark = styled("?   ", "yellow") if check["name"] in unknown else mark
        screen.line(mark, f"{check['name']:<14}{check['said']}")
        if check["hint"]:
            screen.prose(check["hint"], 18)
