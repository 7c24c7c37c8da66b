"""Finds and loads settings: config files, accepted keys, and precedence of environment, file and default."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from lossless.errors import BadSetting
from lossless.model.paths import payload_folder
from lossless.settings.declared import SETTINGS, Settings
from lossless.settings.setting import (
    OFF,
    ON,
    UNSET,
    Number,
    Setting,
    ValueKind,
    is_time_zone,
    shorten_value,
    snake_case,
    whole_number,
)

ARCHIVE_NAME = "lcm.db"
CONFIG_NAME = "lossless.toml"
HOST_CONFIG_NAME = "openclaw.json"
#: A symlink to the machine's time zone file, on Linux and macOS.
_LOCALTIME = Path("/etc/localtime")
_UTC = frozenset(("UTC", "UCT", "Universal", "Zulu"))


class ProcessEnvironment(NamedTuple):
    """The environment that paths depend on; `openclaw_dir` is the user's explicit choice."""

    env: Mapping[str, str]
    cwd: Path | None
    home: Path
    openclaw_dir: Path | None = None

    @staticmethod
    def of(
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        home: str | os.PathLike[str] | None = None,
        openclaw_dir: str | os.PathLike[str] | None = None,
    ) -> ProcessEnvironment:
        """The given locations; defaults come from this process."""
        env = os.environ if env is None else env
        found = Path(home) if home is not None else Path(env.get("HOME") or os.path.expanduser("~"))
        with suppress(OSError):  # the working folder may be gone
            cwd = os.getcwd() if cwd is None else cwd
        places = ProcessEnvironment(env, None if cwd is None else Path(cwd), found)
        chosen = None if openclaw_dir is None else Path(places.expand(os.fspath(openclaw_dir)))
        return places._replace(openclaw_dir=chosen)

    def expand(self, text: str) -> str:
        """The path with a leading `~` replaced by the home folder."""
        return os.path.join(self.home, text[2:]) if text == "~" or text.startswith("~/") else text

    def variable(self, name: str) -> str | None:
        """The path in a variable; None when it is unset or blank."""
        text = self.env.get(name, "").strip()
        return self.expand(text) if text else None

    @property
    def time_zone(self) -> str | None:
        """The name of the machine's time zone; None when it is UTC or unknown."""
        name = os.path.realpath(_LOCALTIME).rpartition("/zoneinfo/")[2]
        return name if name.removeprefix("Etc/") not in _UTC and is_time_zone(name) else None

    @property
    def state_dir(self) -> Path:
        """Shared with OpenClaw, so that both see one archive."""
        if self.openclaw_dir is not None:
            return self.openclaw_dir
        chosen = self.variable("LCM_OPENCLAW_DIR") or self.variable("OPENCLAW_STATE_DIR")
        if chosen:
            return Path(chosen)
        return Path(self.variable("OPENCLAW_HOME") or self.home) / ".openclaw"

    @property
    def data_dir(self) -> Path:
        """The platform's folder for our data, there or not. A relative XDG_DATA_HOME counts as not set."""
        xdg = self.variable("XDG_DATA_HOME")
        if xdg and os.path.isabs(xdg):
            return Path(xdg) / "lossless"
        if sys.platform == "linux" and "ANDROID_ROOT" not in self.env:  # as platformdirs says, without its import
            return self.home / ".local" / "share" / "lossless"
        from platformdirs import user_data_path

        found, own_home = user_data_path("lossless", appauthor=False), Path(os.path.expanduser("~"))
        return self.home / found.relative_to(own_home) if found.is_relative_to(own_home) else found

    @property
    def default_archive(self) -> Path:
        """The archive where none is named: OpenClaw's if it is there, ours if it is there; else a new one in OpenClaw's
        folder, where that exists or was named, or in the platform's.
        """
        shared = self.state_dir / ARCHIVE_NAME
        is_named = self.openclaw_dir is not None or self.variable("LCM_OPENCLAW_DIR") is not None
        if is_named or self.state_dir != self.home / ".openclaw" or _is_file(shared):
            return shared
        own = self.data_dir / ARCHIVE_NAME
        return shared if not _is_file(own) and self.state_dir.is_dir() else own

    @property
    def host_config(self) -> Path:
        """The host's config file; it may not exist."""
        return Path(self.variable("OPENCLAW_CONFIG_PATH") or self.state_dir / HOST_CONFIG_NAME)

    @property
    def user_config(self) -> Path:
        """The user's config file; it may not exist. A relative XDG_CONFIG_HOME counts as not set."""
        xdg = self.variable("XDG_CONFIG_HOME")
        folder = Path(xdg) if xdg and os.path.isabs(xdg) else self.home / ".config"
        return folder / "lossless" / CONFIG_NAME

    def find_config(self) -> Path | None:
        """The config file to read: in the working folder, else the user's, else the host's."""
        candidates = [self.user_config, self.home / ".config" / "lossless" / CONFIG_NAME, self.host_config]
        if self.cwd is not None:
            candidates.insert(0, self.cwd / CONFIG_NAME)
        return next((path for path in candidates if _is_file(path)), None)


def _is_file(path: Path) -> bool:
    with suppress(OSError, ValueError):
        return path.is_file()
    return False


#: Where a host's file may hold our settings; the first that exists is used.
HOST_CONFIG_BLOCKS: Final = (
    ("plugins", "entries", "lossless", "config"),
    ("plugins", "entries", "lossless-claw", "config"),
    ("plugins", "config", "lossless"),
    ("plugins", "config", "lossless-claw"),
)


class ConfigText(NamedTuple):
    """A parsed config file: the whole document, our settings in it, and the path to them."""

    document: Mapping[str, Any]
    values: Mapping[str, Any]
    block: tuple[str, ...] = ()

    @property
    def includes_others(self) -> bool:
        return includes_others(self.document)


def includes_others(*values: object) -> bool:
    """Whether a host's config includes other files, which are not read here."""
    todo = list(values)
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            if "$include" in item:
                return True
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
    return False


def is_toml(path: Path) -> bool:
    """Whether the file is ours; any other file is a host's JSON."""
    return path.suffix.lower() == ".toml"


def unusable_config(path: Path, why: str) -> BadSetting:
    return BadSetting("config", str(path), "the config file", why, f"the config file {path} cannot be used: {why}")


def read_config(path: Path) -> ConfigText:
    """The settings in a config file; raises `BadSetting` when it cannot be read or parsed."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise unusable_config(path, "the file must exist") from None
    except (OSError, ValueError) as error:
        raise unusable_config(path, f"the file must be readable ({error})") from error
    return parse_config(path, data)


def parse_config(path: Path, data: bytes) -> ConfigText:
    if not is_toml(path):
        return _parse_json(path, data)
    import tomllib

    try:
        document = tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise unusable_config(path, f"the file must be TOML: {error}") from error
    return ConfigText(document, document)


def _parse_json(path: Path, data: bytes) -> ConfigText:
    import json

    try:
        text = data.decode("utf-8-sig")
        try:
            document = json.loads(text) if text.strip() else {}
        except (ValueError, RecursionError):  # users write comments and trailing commas, which hosts accept
            from lossless.settings.json5 import parse_json5

            document = parse_json5(text).value
    except ValueError as error:
        raise unusable_config(
            path, f"the file must be JSON or JSON5: {error}; or put the settings into a lossless.toml"
        ) from error
    if not isinstance(document, dict):
        raise unusable_config(path, "the file must hold a JSON object")
    for block in HOST_CONFIG_BLOCKS:
        values = value_at(document, block)
        if values is not None:
            if not isinstance(values, dict):
                raise unusable_config(path, f"{'.'.join(block)} must be an object")
            return ConfigText(document, values, block)
    return ConfigText(document, {})


def value_at(document: Any, path: Sequence[str]) -> Any:
    """What stands at a path of keys in nested objects; None when nothing does."""
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document


_WHOLE: Final = whole_number(1)
#: Every key of lossless-claw that is accepted and has no effect here: its variable, its kind, and why.
_NO_EFFECT: Final[Mapping[str, tuple[tuple[str, str, ValueKind], ...]]] = {
    "the threshold alone decides when to fold": (
        ("cacheAwareCompaction.enabled", "CACHE_AWARE_COMPACTION_ENABLED", ON),
        ("cacheAwareCompaction.cacheTTLSeconds", "CACHE_TTL_SECONDS", _WHOLE),
        ("cacheAwareCompaction.maxColdCacheCatchupPasses", "MAX_COLD_CACHE_CATCHUP_PASSES", _WHOLE),
        ("cacheAwareCompaction.hotCachePressureFactor", "HOT_CACHE_PRESSURE_FACTOR", Number(1)),
        ("cacheAwareCompaction.hotCacheBudgetHeadroomRatio", "HOT_CACHE_BUDGET_HEADROOM_RATIO", Number(0, 0.95)),
        ("cacheAwareCompaction.coldCacheObservationThreshold", "COLD_CACHE_OBSERVATION_THRESHOLD", _WHOLE),
        ("cacheAwareCompaction.criticalBudgetPressureRatio", "CRITICAL_BUDGET_PRESSURE_RATIO", Number(0, 1)),
    ),
    "chunks have one size": (
        ("dynamicLeafChunkTokens.enabled", "DYNAMIC_LEAF_CHUNK_TOKENS_ENABLED", OFF),
        ("dynamicLeafChunkTokens.max", "DYNAMIC_LEAF_CHUNK_TOKENS_MAX", _WHOLE),
    ),
    "replays are recognised message by message, and no batch is refused for their number": (
        ("replayFloodThresholdExternal", "REPLAY_FLOOD_THRESHOLD_EXTERNAL", _WHOLE),
        ("replayFloodThresholdInternal", "REPLAY_FLOOD_THRESHOLD_INTERNAL", _WHOLE),
    ),
}
RETIRED_KEYS: Final = tuple(
    Setting(None, kind, key, f"LCM_{env}", no_effect=why) for why, keys in _NO_EFFECT.items() for key, env, kind in keys
)


@lru_cache(maxsize=1)
def key_spellings() -> Mapping[str, str]:
    """Every accepted spelling in a config file, and its key."""
    keys = [name for setting in SETTINGS for name in setting.config_names]
    keys += [retired.key for retired in RETIRED_KEYS]
    return {form: key for key in keys for form in (snake_case(key).replace(".", "_"), snake_case(key), key)}


@lru_cache(maxsize=1)
def group_spellings() -> Mapping[str, str]:
    """Every spelling of a key that contains other keys, such as `autoRotateSessionFiles`."""
    dotted = {key.partition(".")[0] for key in key_spellings().values() if "." in key}
    return {form: name for name in dotted for form in (name, snake_case(name))}


@lru_cache(maxsize=1)
def settings_by_key() -> Mapping[str, Setting]:
    """The setting that a key or an alias names, in any spelling."""
    owners = {name: setting for setting in SETTINGS for name in (*setting.config_names, setting.key)}
    return owners | {form: owners[key] for form, key in key_spellings().items() if key in owners}


def closest_name(name: str, names: Iterable[str], cutoff: float = 0.7) -> str:
    """The name that was probably meant, or an empty string."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(names), n=1, cutoff=cutoff)), "")


AnyPath = str | os.PathLike[str]


#: Keys that only the plugin reads, from the same block of a host's file: how it starts our process.
_OF_THE_PLUGIN = frozenset(("python",))


class SettingSource(NamedTuple):
    """Where a value came from: `name` is the option, the variable or the file."""

    kind: Literal["option", "env", "config", "default"]
    name: str = ""

    def __str__(self) -> str:
        return f"environment variable {self.name}" if self.kind == "env" else self.name or self.kind


class SettingNotice(NamedTuple):
    """A notice for the user that did not stop loading."""

    kind: Literal["unknown", "deprecated", "retired", "odd", "ignored"]
    name: str
    source: SettingSource
    text: str

    def __str__(self) -> str:
        return f"{self.name} (from {self.source}) {self.text}"


class LoadedSettings(NamedTuple):
    """The settings, the source of each key, and notices for the user.

    `config_path` is the file that was read, `config` its values under the keys of the settings page.
    """

    settings: Settings
    sources: Mapping[str, SettingSource]
    warnings: tuple[SettingNotice, ...]
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
) -> LoadedSettings:
    """Loads the settings; raises `BadSetting` for an unusable value.

    `config` is a file, or the object that a host passes to its plugin; without it the usual files are searched.
    `database` and `openclaw_dir` are the user's options and take precedence over everything else.
    """
    places = ProcessEnvironment.of(env, cwd, home, openclaw_dir)
    notices: list[SettingNotice] = []
    path, raw, origin = _config(config, places, notices)
    given = flatten(raw, origin, notices)
    values: dict[str, Any] = {}
    sources: dict[str, SettingSource] = {}
    for setting in SETTINGS:
        value, source = _value(setting, places.env, given, origin, notices)
        if setting.kind.word == "path" and isinstance(value, str):
            value = places.expand(value)
        sources[setting.key] = source
        if value is not UNSET:
            values[setting.attribute] = value
    if database:
        values["database_path"] = settings_by_key()["databasePath"].check(places.expand(database), "--db")
        sources["databasePath"] = SettingSource("option", "--db")
    values["database_path"] = values.get("database_path") or str(places.default_archive)
    values["timezone"] = values.get("timezone") or places.time_zone
    folder = payload_folder(values["database_path"])
    values["large_files_dir"] = values.get("large_files_dir") or str(folder)
    _warn_of_variables(places.env, notices)
    return LoadedSettings(Settings(**values), sources, tuple(notices), path, given)


def to_config(settings: Settings) -> dict[str, object]:
    """The settings as a config file would hold them: nested, with the keys of the settings page."""
    config: dict[str, Any] = {}
    for setting in SETTINGS:
        *outer, name = setting.key.split(".")
        inside = config.setdefault(outer[0], {}) if outer else config
        inside[name] = setting.dump(getattr(settings, setting.attribute))
    return config


def flatten(raw: Mapping[str, Any], origin: SettingSource, notices: list[SettingNotice]) -> dict[str, object]:
    """The values of a config by key; spellings are normalised, unknown keys are reported."""
    given: dict[str, object] = {}
    for name, value in raw.items():
        if name not in group_spellings():
            _take(name, value, given, origin, notices)
        elif isinstance(value, Mapping):
            for inner, item in value.items():
                _take(f"{name}.{inner}", item, given, origin, notices)
        elif value is not None:
            group = group_spellings()[name]
            inner_names = sorted({key for key in key_spellings().values() if key.startswith(f"{group}.")})
            raise BadSetting(group, shorten_value(value), str(origin), "an object with " + ", ".join(inner_names))
    return given


def _take(
    name: str, value: object, given: dict[str, object], origin: SettingSource, notices: list[SettingNotice]
) -> None:
    key = key_spellings().get(name)
    if key is None and name in _OF_THE_PLUGIN:
        return
    if key is None:
        meant = closest_name(name, key_spellings())
        hint = f"; did you mean {meant}?" if meant else ""
        notices.append(SettingNotice("unknown", name, origin, f"is not a setting{hint}"))
    elif key in given:
        raise BadSetting(key, shorten_value(value), str(origin), "one value; it is given in two spellings")
    else:
        given[key] = value
        if any(key == retired.key for retired in RETIRED_KEYS):
            notices.append(SettingNotice("retired", key, origin, "has no effect any more"))


def _value(
    setting: Setting,
    env: Mapping[str, str],
    given: Mapping[str, object],
    origin: SettingSource,
    notices: list[SettingNotice],
) -> tuple[object, SettingSource]:
    for name in setting.env_names:
        if name in env:
            source = SettingSource("env", name)
            value, note = setting.parse(env[name], str(source))
            if note:
                notices.append(SettingNotice("odd", f"{name}={shorten_value(env[name])!r}", source, note))
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
            notices.append(SettingNotice("ignored", name, origin, f"is ignored; {setting.config_names[0]} wins"))
    return chosen, SettingSource("default") if chosen is UNSET else origin


def _note_alias(setting: Setting, name: str, source: SettingSource, notices: list[SettingNotice]) -> None:
    if any(alias.deprecated and name in (alias.key, alias.env) for alias in setting.aliases):
        new = setting.env if source.kind == "env" else setting.key
        notices.append(SettingNotice("deprecated", name, source, f"is an old name; write {new}"))


def _config(
    config: AnyPath | Mapping[str, Any] | None, places: ProcessEnvironment, notices: list[SettingNotice]
) -> tuple[Path | None, Mapping[str, Any], SettingSource]:
    if isinstance(config, Mapping):
        return None, config, SettingSource("config", "the host's config")
    path = places.find_config() if config is None else Path(places.expand(os.fspath(config)))
    if path is None:
        if places.variable("OPENCLAW_CONFIG_PATH"):
            source = SettingSource("env", "OPENCLAW_CONFIG_PATH")
            notices.append(SettingNotice("ignored", str(places.host_config), source, "is not there"))
        return None, {}, SettingSource("config", "no config file")
    origin, text = SettingSource("config", str(path)), read_config(path)
    if text.includes_others:
        notices.append(SettingNotice("ignored", "$include", origin, "is not followed; settings there are not seen"))
    return path, text.values, origin


def _warn_of_variables(env: Mapping[str, str], notices: list[SettingNotice]) -> None:
    ours = [name for name in env if name.startswith("LCM_")]
    if not ours:
        return
    retired = {str(item.env) for item in RETIRED_KEYS}
    known = {name for setting in SETTINGS for name in setting.env_names} | retired | {"LCM_OPENCLAW_DIR"}
    for name in ours:
        source = SettingSource("env", name)
        if name in retired:
            notices.append(SettingNotice("retired", name, source, "has no effect any more"))
        elif name not in known and (meant := closest_name(name, known, cutoff=0.85)):
            notices.append(SettingNotice("unknown", name, source, f"is not a setting; did you mean {meant}?"))
