"""Settings from the environment, a config file and the defaults, in this order of precedence."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lossless.errors import BadSetting
from lossless.paths import payload_folder
from lossless.settings.declared import SETTINGS, Settings
from lossless.settings.files import read_config
from lossless.settings.kinds import UNSET, Place
from lossless.settings.names import RETIRED, closest, groups, retired_keys, spellings
from lossless.settings.paths import Places
from lossless.settings.setting import Setting, shown

AnyPath = str | os.PathLike[str]


#: What only the plugin reads, from the same block of a host's file: how it starts us.
_OF_THE_PLUGIN = frozenset(("python",))


class Source(NamedTuple):
    """Where a value came from: `name` is the option, the variable or the file."""

    kind: Literal["option", "env", "config", "default"]
    name: str = ""

    def __str__(self) -> str:
        return f"environment variable {self.name}" if self.kind == "env" else self.name or self.kind


class Notice(NamedTuple):
    """Something that a person should know and that did not stop the loading."""

    kind: Literal["unknown", "deprecated", "retired", "odd", "ignored"]
    name: str
    source: Source
    text: str

    def __str__(self) -> str:
        return f"{self.name} (from {self.source}) {self.text}"


class Loaded(NamedTuple):
    """The settings, the source of each key, and what a person should know.

    `config_path` is the file that was read, `config` what it holds under the keys of the settings page.
    """

    settings: Settings
    sources: Mapping[str, Source]
    warnings: tuple[Notice, ...]
    config_path: Path | None
    config: Mapping[str, object]


def load(
    config: AnyPath | Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: AnyPath | None = None,
    home: AnyPath | None = None,
    *,
    database: str | None = None,
    openclaw_dir: AnyPath | None = None,
) -> Loaded:
    """The settings that hold here; raises `BadSetting` for a value that cannot be used.

    `config` is a file, or the object that a host passes to its plugin; without it the usual files
    are looked for. `database` and `openclaw_dir` are a person's options and win over all else.
    """
    return load_at(Places.of(env, cwd, home, openclaw_dir), config, database)


def load_at(places: Places, config: AnyPath | Mapping[str, Any] | None = None, database: str | None = None) -> Loaded:
    """The settings that hold at these places."""
    notices: list[Notice] = []
    path, raw, origin = _config(config, places, notices)
    given = flatten(raw, origin, notices)
    values: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    for setting in SETTINGS:
        value, source = _value(setting, places.env, given, origin, notices)
        if isinstance(setting.kind, Place) and isinstance(value, str):
            value = places.expand(value)
        sources[setting.key] = source
        if value is not UNSET:
            values[setting.attribute] = value
    if database:
        values["database_path"] = places.expand(database)
        sources["databasePath"] = Source("option", "--db")
    values["database_path"] = values.get("database_path") or str(places.state_dir / "lcm.db")
    is_address = "://" in values["database_path"]
    values["timezone"] = values.get("timezone") or places.time_zone
    folder = payload_folder(places.state_dir / "lcm.db" if is_address else values["database_path"])
    values["large_files_dir"] = values.get("large_files_dir") or str(folder)
    _warn_of_variables(places.env, notices)
    return Loaded(Settings(**values), sources, tuple(notices), path, given)


def to_config(settings: Settings) -> dict[str, object]:
    """The settings as a config file would hold them, nested and with the keys of the settings page."""
    config: dict[str, Any] = {}
    for setting in SETTINGS:
        *outer, name = setting.key.split(".")
        inside = config.setdefault(outer[0], {}) if outer else config
        inside[name] = setting.dump(getattr(settings, setting.attribute))
    return config


def flatten(raw: Mapping[str, Any], origin: Source, notices: list[Notice]) -> dict[str, object]:
    """The values of a config by their keys; spellings are unified, unknown keys are noted."""
    given: dict[str, object] = {}
    for name, value in raw.items():
        if name not in groups():
            _take(name, value, given, origin, notices)
        elif isinstance(value, Mapping):
            for inner, item in value.items():
                _take(f"{name}.{inner}", item, given, origin, notices)
        elif value is not None:
            inner_names = sorted(key for key in spellings().values() if key.startswith(f"{groups()[name]}."))
            allowed = "an object with " + ", ".join(dict.fromkeys(inner_names))
            raise BadSetting(groups()[name], shown(value), str(origin), allowed)
    return given


def _take(name: str, value: object, given: dict[str, object], origin: Source, notices: list[Notice]) -> None:
    key = spellings().get(name)
    if key is None and name in _OF_THE_PLUGIN:
        return
    if key is None:
        meant = closest(name, spellings())
        hint = f"; did you mean {meant}?" if meant else ""
        notices.append(Notice("unknown", name, origin, f"is not a setting{hint}"))
    elif key in given:
        raise BadSetting(key, shown(value), str(origin), "one value; it stands there in two spellings")
    else:
        given[key] = value
        if key in retired_keys():
            notices.append(Notice("retired", key, origin, "has no effect any more"))


def _value(
    setting: Setting,
    env: Mapping[str, str],
    given: Mapping[str, object],
    origin: Source,
    notices: list[Notice],
) -> tuple[object, Source]:
    for name in setting.env_names:
        if name in env:
            source = Source("env", name)
            value, note = setting.parse(env[name], str(source))
            if note:
                notices.append(Notice("odd", f"{name}={shown(env[name])!r}", source, note))
            if value is not UNSET:
                _note_alias(setting, name, source, notices)
                return value, source
    chosen: object = UNSET
    for name in setting.config_names:
        value = setting.read(given.get(name), str(origin))
        if value is UNSET:
            continue
        _note_alias(setting, name, origin, notices)
        if chosen is UNSET:
            chosen = value
        elif chosen != value:
            notices.append(Notice("ignored", name, origin, f"is ignored; {setting.config_names[0]} wins"))
    return chosen, Source("default") if chosen is UNSET else origin


def _note_alias(setting: Setting, name: str, source: Source, notices: list[Notice]) -> None:
    if any(alias.deprecated and name in (alias.key, alias.env) for alias in setting.aliases):
        new = setting.env if source.kind == "env" else setting.key
        notices.append(Notice("deprecated", name, source, f"is an old name; write {new}"))


def _config(
    config: AnyPath | Mapping[str, Any] | None, places: Places, notices: list[Notice]
) -> tuple[Path | None, Mapping[str, Any], Source]:
    if isinstance(config, Mapping):
        return None, config, Source("config", "the host's config")
    path = places.find_config() if config is None else Path(places.expand(os.fspath(config)))
    if path is None:
        if places.variable("OPENCLAW_CONFIG_PATH"):
            source = Source("env", "OPENCLAW_CONFIG_PATH")
            notices.append(Notice("ignored", str(places.host_config), source, "is not there"))
        return None, {}, Source("config", "no config file")
    origin, text = Source("config", str(path)), read_config(path)
    if text.includes_others:
        notices.append(Notice("ignored", "$include", origin, "is not followed; settings there are not seen"))
    return path, text.values, origin


def _warn_of_variables(env: Mapping[str, str], notices: list[Notice]) -> None:
    ours = [name for name in env if name.startswith("LCM_")]
    if not ours:
        return
    retired = {item.env for item in RETIRED}
    known = {name for setting in SETTINGS for name in setting.env_names} | retired | {"LCM_OPENCLAW_DIR"}
    for name in ours:
        source = Source("env", name)
        if name in retired:
            notices.append(Notice("retired", name, source, "has no effect any more"))
        elif name not in known and (meant := closest(name, known, cutoff=0.85)):
            notices.append(Notice("unknown", name, source, f"is not a setting; did you mean {meant}?"))
