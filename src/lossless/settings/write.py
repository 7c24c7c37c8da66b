"""Writes one setting into a config file: checked first, atomically, with a copy of the old file.

In a `lossless.toml`, which tomlkit edits, one value is replaced, added or removed and all other text stays. So it is in
an `openclaw.json`, which may be JSON5: see `json5.py`. A file that is a symlink or includes other files is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless.errors import BadSetting
from lossless.model.js_json import parse_js
from lossless.model.paths import create_private_file, fsync_path, replacing
from lossless.settings.load import (
    HOST_CONFIG_BLOCKS,
    ConfigText,
    SettingSource,
    closest_name,
    flatten,
    group_spellings,
    is_toml,
    key_spellings,
    parse_config,
    settings_by_key,
    unusable_config,
)
from lossless.settings.setting import UNSET, Flag, Number, Setting, TextList, TextValue, shorten_value, snake_case

if TYPE_CHECKING:
    import os


#: A setting's key, its old and its new value as the file holds them, and the copy of the old file.
WrittenSetting: TypeAlias = tuple[str, object, object, Path | None]


def set_value(
    path: str | os.PathLike[str], key: str, value: object, now: datetime | None = None, *, dry_run: bool = False
) -> WrittenSetting:
    """Set one key in a config file; raises `BadSetting` and leaves the file unchanged when that is impossible."""
    path = Path(path)
    setting = _setting(key)
    wanted = setting.read(value, "config set")
    if wanted is UNSET:
        raise BadSetting(setting.key, shorten_value(value), "config set", setting.kind.sentence)
    old = _old_bytes(path)
    before = _given(path, parse_config(path, old or b""))
    preferred = setting.config_names[: setting.config_names.index(setting.key)]
    name = next((name for name in preferred if name in before), setting.key)
    new = _edited(path, old or b"", name, setting, wanted)
    backup = None if dry_run else _replace(path, old, new, now)
    return setting.key, before.get(name), setting.dump(wanted), backup


def remove_value(
    path: str | os.PathLike[str], key: str, now: datetime | None = None, *, dry_run: bool = False
) -> WrittenSetting:
    """Take one key out of a config file, so that its default holds; a file without it stays as it is."""
    path, setting = Path(path), _setting(key)
    old = _old_bytes(path)
    before, after = None, old or b""
    for name in setting.config_names:
        given = _given(path, parse_config(path, after))
        if name in given:
            before, after = given[name], _edited(path, after, name, setting, UNSET)
    if after == (old or b""):
        return setting.key, None, None, None
    return setting.key, before, None, None if dry_run else _replace(path, old, after, now)


def _given(path: Path, config: ConfigText) -> dict[str, object]:
    return flatten(config.values, SettingSource("config", str(path)), [])


def _edited(path: Path, old: bytes, name: str, setting: Setting, wanted: object) -> bytes:
    """The bytes of a file with another value for one name, or without it; refused if anything else would change."""
    config, text = parse_config(path, old), old.decode("utf-8-sig")
    after = UNSET if wanted is UNSET else setting.dump(wanted)
    new = _edit_toml(path, text, name, after) if is_toml(path) else _edit_json(path, text, config, name, after)
    try:
        changed = parse_config(path, new)
        given = _given(path, changed)
        is_set = name not in given if wanted is UNSET else setting.read(given.get(name), str(path)) == wanted
    except BadSetting:
        is_set = False
    if not is_set or _rest(changed.document, changed.block, name) != _rest(config.document, changed.block, name):
        raise _by_hand(path, name)
    return new


def read_plain(setting: Setting, text: str) -> object:
    """A value as a person types it, such as `on`, `30%`, `20k`, `2 days` or a bare word; ValueError for no such value.

    JSON is taken as JSON, where the setting can hold it.
    """
    is_text, word = isinstance(setting.kind, TextValue | TextList), text.strip().lower()
    if isinstance(setting.kind, Flag) and word in _FLAG_WORDS:
        return _FLAG_WORDS[word]
    with suppress(ValueError):
        value: object = parse_js(text)
        if value is None or isinstance(value, str | list) or not is_text:
            return value
    if is_text and word:
        return text
    number = _plain_number(setting, text)
    if number is None:
        raise ValueError(setting.kind.sentence)
    return int(number) if number == int(number) else number


_FLAG_WORDS = {"on": True, "yes": True, "off": False, "no": False}
_SECONDS = {"ms": 0.001, "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
_SECONDS |= {"d": 86_400, "day": 86_400, "w": 604_800, "week": 604_800}
_MULTIPLES = {"": 1, "k": 1_000, "m": 1_000_000}
_BYTES = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


def _plain_number(setting: Setting, text: str) -> float | None:
    """A number with a unit: 30% of a fraction, 2 MB of bytes, 5 minutes of a time, 20k of anything that is counted."""
    found = re.fullmatch(r"\s*([+-]?[0-9][0-9_,]*(?:\.[0-9]+)?)\s*(%|[A-Za-z]*)\s*", text)
    if not found or not isinstance(setting.kind, Number):
        return None
    number, unit = float(re.sub("[_,]", "", found[1])), found[2].lower()
    if unit == "%":
        return None if setting.kind.whole else round(number / 100, 6)
    if setting.key.endswith(("Ms", "Seconds")) and unit:
        size = _SECONDS.get(unit) or _SECONDS.get(unit.removesuffix("s"))
        return None if size is None else number * size * (1000 if setting.key.endswith("Ms") else 1)
    units = _BYTES if setting.key.endswith("Bytes") and unit else _MULTIPLES
    return number * units[unit] if unit in units else None


def _setting(key: str) -> Setting:
    setting = settings_by_key().get(key)
    if setting is None:
        meant = closest_name(key, key_spellings())
        retired = key in key_spellings()
        why = "a setting that still has an effect" if retired else "the name of a setting"
        raise BadSetting(key, key, "config set", f"{why}{f', such as {meant}' if meant and not retired else ''}")
    if setting.env_only:
        raise BadSetting(key, key, "config set", f"only the environment variable {setting.env}")
    return setting


def _old_bytes(path: Path) -> bytes | None:
    if path.is_symlink():
        raise unusable_config(path, "the file must not be a link; name the file that it points to")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        if is_toml(path):
            return None
        raise unusable_config(path, "the host's file must exist") from None
    except (OSError, ValueError) as error:
        raise unusable_config(path, f"the file must be readable ({error})") from error


def _rest(document: Mapping[str, Any], block: tuple[str, ...], name: str) -> object:
    def kept(inside: Mapping[str, Any], block: tuple[str, ...], prefix: str) -> dict[str, Any]:
        found = {}
        for key, value in inside.items():
            if not block and key_spellings().get(prefix + key) == name:
                continue
            if isinstance(value, dict) and (not block or key == block[0]):
                value = kept(value, block[1:], "" if block else f"{prefix}{key}.")
            if value is not None and value != {}:
                found[key] = value
        return found

    return kept(document, block, "")


def _edit_toml(path: Path, text: str, name: str, value: object) -> bytes:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError
    from tomlkit.items import AoT, Comment, Table

    try:
        document: Any = tomlkit.parse(text)
        place, key, table, group = _find_toml(document, name)
        given = None if place is None else place[key]
        # the last `[[table]]` of a list also holds the comments above what follows it
        if isinstance(given, AoT) and any(isinstance(one, Comment) for item in given for _, one in item.value.body):
            raise _by_hand(path, name)
        if place is not None and value is UNSET:
            del place[key]
        elif place is not None:
            place[key] = tomlkit.value(toml_text(value))
        elif isinstance(table, Table) or table is None:
            # `append` would put it between a table and the comments above that
            body = document.body if table is None else table.value.body
            inner = name.rpartition(".")[2]
            names = name.split(".") if table is None else [inner if group in name else snake_case(inner)]
            item, ending = tomlkit.value(toml_text(value)), "\r\n" if "\r\n" in text else "\n"
            item.trivia.trail = ending
            is_table = [isinstance(one, Table | AoT) and not (own and own.is_dotted()) for own, one in body]
            values = [n for n, (own, _) in enumerate(body) if own is not None and not is_table[n]]
            at = values[-1] + 1 if values else 0 if table is not None or any(is_table) else len(body)
            if at and not body[at - 1][1].as_string().endswith("\n") and not body[at - 1][1].trivia.trail:
                body[at - 1][1].trivia.trail = ending
            if table is not None and not table.trivia.trail:  # the file ends with its header
                table.trivia.trail = ending
            body.insert(at, (tomlkit.key(names), item))
        else:
            table.append(name.rpartition(".")[2], tomlkit.value(toml_text(value)))
        return tomlkit.dumps(document).encode()
    except (TOMLKitError, AttributeError, KeyError, RecursionError) as error:
        raise _by_hand(path, name) from error


def _find_toml(document: Any, name: str) -> tuple[Any, str, Any, str]:
    """The table and key of a setting, None when it is not there; and the table of its group, with that one's name."""
    groups = [(key, item) for key, item in document.items() if isinstance(item, dict)]
    for table, prefix in [(document, ""), *((item, f"{key}.") for key, item in groups)]:
        for key in table:
            if key_spellings().get(prefix + key) == name:
                return table, key, None, ""
    group = name.rpartition(".")[0]
    own = next(((item, key) for key, item in groups if group and group_spellings().get(key) == group), (None, ""))
    return None, "", *own


def _by_hand(path: Path, name: str) -> BadSetting:
    return unusable_config(path, f"{name} is written in a form that must be edited by hand")


def toml_text(value: object) -> str:
    """A value as TOML writes it on one line; strings are JSON's, but for the delete character."""
    import json

    if isinstance(value, dict):
        keys = {key: key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_text(key) for key in value}
        return "{" + ", ".join(f"{keys[key]} = {toml_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml_text(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _edit_json(path: Path, text: str, config: ConfigText, name: str, value: object) -> bytes:
    import copy

    from lossless.settings.json5 import edit_json5

    if config.includes_others:
        raise unusable_config(path, "the file must not include other files ($include)")
    document = copy.deepcopy(dict(config.document))
    inside: dict[str, Any] = document
    for step in config.block or HOST_CONFIG_BLOCKS[0]:
        inside = inside.setdefault(step, {})
        if not isinstance(inside, dict):
            raise unusable_config(path, f"{step} must be an object")
    *outer, last = name.split(".")
    for step in outer:
        spelled = next((form for form in inside if group_spellings().get(form) == step), step)
        inside[spelled] = inside = inside.get(spelled) or {}
    here = ".".join((*outer, ""))
    last = next((form for form in inside if key_spellings().get(f"{here}{form}") == name), last)
    if value is UNSET:
        inside.pop(last, None)
    else:
        inside[last] = value
    try:
        return edit_json5(text, document).encode("utf-8", "surrogatepass")
    except ValueError as error:
        raise unusable_config(path, f"{name} is written in a form that must be edited by hand ({error})") from error


def _replace(path: Path, old: bytes | None, new: bytes, now: datetime | None) -> Path | None:
    from datetime import UTC, datetime

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, 0o600 if old is None else path.stat().st_mode & 0o7777) as temporary:
            temporary.write_bytes(new)
            if _old_bytes(path) != old:
                raise unusable_config(path, "the file must not change while it is being written")
            if old is None:
                return None
            backup = path.with_name(f"{path.name}.{(now or datetime.now(UTC)).strftime('%Y%m%dT%H%M%S.%fZ')}.bak")
            create_private_file(backup)
            backup.write_bytes(old)
            fsync_path(backup)
            return backup
    except OSError as error:
        raise unusable_config(path, f"the file must be writable ({error})") from error
