"""`lcm config`: what holds and where it came from; one setting at a time is written. And `lcm completion`."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import click

from lossless.cli import failures
from lossless.cli.commands import Command, Group, Invocation, command, dry_run_option, text_type, words_argument
from lossless.cli.options import bad_option, usage_error
from lossless.cli.screen import Data, Screen, styled
from lossless.errors import BadSetting
from lossless.settings import to_config
from lossless.settings.load import (
    ProcessEnvironment,
    closest_name,
    group_spellings,
    is_toml,
    key_spellings,
    read_config,
    settings_by_key,
)
from lossless.settings.setting import mask_passwords
from lossless.settings.write import read_plain, remove_value, set_value

config = Group("config", help="Show the settings, or set one.")


@command("show", config, short_help="Show all settings, and where they come from.")
def show_settings(invocation: Invocation) -> None:
    """Show all settings, their values, and where each comes from.

    Passwords in addresses are masked.
    """
    loaded = invocation.loaded
    data = {
        "raw": _setting_json(dict(loaded.config)),
        "effective": _setting_json(to_config(loaded.settings)),
        "sources": {key: str(source) for key, source in loaded.sources.items() if source.kind != "default"},
        "diagnostics": [
            {"kind": notice.kind, "name": notice.name, "source": str(notice.source), "message": notice.text}
            for notice in loaded.warnings
        ],
        "environmentOverrides": sorted(source.name for source in loaded.sources.values() if source.kind == "env"),
    }
    invocation.emit("config.show", print_settings, data)


@command("get", config, short_help="Show one setting.")
@click.argument("path", type=text_type)
def get_setting(invocation: Invocation, path: str) -> None:
    """Show one setting: PATH is its key, such as freshTailCount or autoRotateSessionFiles.enabled."""
    loaded = invocation.loaded
    setting, group = settings_by_key().get(path), group_spellings().get(path)
    if setting is not None:
        given = [loaded.config[name] for name in setting.config_names if name in loaded.config]
        effective, sources = setting.dump(getattr(loaded.settings, setting.attribute)), [loaded.sources[setting.key]]
    elif group is not None:
        inside = {key.partition(".")[2]: value for key, value in loaded.config.items() if key.startswith(f"{group}.")}
        given, effective = [inside] if inside else [], to_config(loaded.settings).get(group)
        sources = [source for key, source in loaded.sources.items() if key.startswith(f"{group}.")]
    else:
        raise _unknown(path, "not_found")
    data = {
        "path": path,
        "isSet": bool(given),
        "rawValue": _setting_json(given[0]) if given else None,
        "effectiveValue": _setting_json(effective),
        "source": ", ".join(sorted(set(map(str, sources)))),
    }
    invocation.emit("config.get", print_setting, data)


def _unknown(path: str, code: str) -> failures.CommandFailed:
    meant = closest_name(path, key_spellings())
    hint = f"Did you mean {meant}?" if meant else "`lcm config show` shows all."
    return failures.fail(code, f"There is no setting {path!r}.", failures.NOT_FOUND, hint=hint, path=path)


@command("set", config, short_help="Write one setting into the config file.")
@click.argument("path", type=text_type)
@words_argument("value", "VALUE...", kind=str)
@dry_run_option
def set_setting(invocation: Invocation, path: str, value: str, dry_run: bool) -> None:
    """Write one setting into the config file: PATH is its key, VALUE a plain value or JSON.

    Plain values are on, off, 30%, 20k, 2 MB, 5 minutes, or words; `default` removes the setting from the file. The
    value is checked first, and a copy of the old file stays next to it. Where there is no config file, a new
    lossless.toml is made.
    """
    if path not in key_spellings() and path not in group_spellings():
        raise _unknown(path, "bad_setting")
    setting = settings_by_key().get(path)
    file = config_file(invocation)
    if value.strip().lower() == "default":
        written = remove_value(file, path, dry_run=dry_run)
    else:
        try:
            wanted = json.loads(value) if setting is None else read_plain(setting, value)
        except ValueError as error:
            allowed = str(error) if setting else "JSON"
            raise bad_option("VALUE", f"{value!r:.80} is not what {path} can be: {allowed}") from None
        try:
            written = set_value(file, path, wanted, dry_run=dry_run)
        except BadSetting as error:
            if error.source != "config set":  # the file is at fault, not what was typed
                raise
            failure = failures.as_failure(error)
            failure.exit_code = failures.BAD_ARGUMENTS
            raise failure from None
    key, before, after, backup = written
    data = {
        "path": key,
        "oldValue": _setting_json(before),
        "newValue": _setting_json(after),
        "configPath": str(file),
        "backupPath": None if backup is None else str(backup),
    }
    invocation.is_dry_run = dry_run
    if not dry_run:
        invocation.config = str(file)
    invocation.emit("config.set", print_setting_change, data)


def config_file(invocation: Invocation) -> Path:
    """The file that is read, else the person's own, which is made. A host's file without settings of ours stays so."""
    places = ProcessEnvironment.of(openclaw_dir=invocation.openclaw_dir)
    if invocation.config is not None:
        return Path(places.expand(invocation.config)).absolute()
    found = places.find_config()
    if found is None or (not is_toml(found) and not (text := read_config(found)).block and not text.includes_others):
        found = places.user_config
    return found.absolute()


def _setting_json(value: Any) -> Any:
    """The value without passwords."""
    if isinstance(value, str):
        return mask_passwords(value)
    if isinstance(value, dict):
        return {key: _setting_json(item) for key, item in value.items()}
    return [_setting_json(item) for item in value] if isinstance(value, list | tuple) else value


_SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(_SHELLS), required=False)
@click.pass_context
def completion(ctx: click.Context, shell: str | None) -> None:
    """Print a script for SHELL that completes commands, options and names of conversations.

    Without SHELL, the variable SHELL says which. To load it in every new shell:

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


def print_settings(screen: Screen, data: Data) -> None:
    """Every setting with its value and, unless it is the default, its source."""
    sources = data["sources"]
    rows: list[tuple[str, str, str]] = []
    for key, value in data["effective"].items():
        inner = value if isinstance(value, dict) else {"": value}
        for name, item in inner.items():
            path = f"{key}.{name}" if name else key
            rows.append((path, _json(item), sources.get(path, "")))
    screen.table(("setting", ("value", "rest"), "from"), rows)
    for notice in data["diagnostics"]:
        screen.line(styled(f"{notice['name']} ", "yellow"), f"{notice['message']} (from {notice['source']})")


def print_setting(screen: Screen, data: Data) -> None:
    screen.line(_json(data["effectiveValue"]), styled(f"  from {data['source']}", "dim"))


def print_setting_change(screen: Screen, data: Data) -> None:
    before, after = ("default" if data[key] is None else _json(data[key]) for key in ("oldValue", "newValue"))
    screen.line(styled(f"{data['path']} ", "bold"), f"{before} → {after}")
    is_new = not data["backupPath"] and not data.get("dryRun")
    backup = f"; the old file is {data['backupPath']}" if data["backupPath"] else " (new file)" * is_new
    screen.line(styled(f"in {data['configPath']}{backup}", "dim"))
    if before != after:
        screen.undo(f"lcm config set {data['path']} {shlex.quote(before)}")


def _json(value: Any) -> str:
    return "–" if value is None else json.dumps(value, ensure_ascii=False)
