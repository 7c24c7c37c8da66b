"""Telling OpenClaw about the plugin: what its config file is to hold, and how it was before."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput
from lossless.hosts.config_files import Edit, read_text, write_object
from lossless.hosts.openclaw.manifest import PLUGIN_ID
from lossless.hosts.openclaw.model import full_name
from lossless.settings.files import BLOCKS
from lossless.settings.json5 import NotJson5, parse
from lossless.settings.json5_edit import edited

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The plugin whose database and settings this one takes over.
_BEFORE = "lossless-claw"
_MANIFEST = "openclaw.plugin.json"


@dataclass(frozen=True, slots=True)
class Setup:
    """A config file's edit, and in words what it changes."""

    edit: Edit
    changes: tuple[str, ...]


def plugin_folder() -> Path:
    """Where the plugin lies: inside the package when it was installed, beside it in a checkout."""
    here = Path(__file__).resolve()
    for place in (here.parent / "plugin", here.parents[4] / "bridges" / "openclaw"):
        if (place / _MANIFEST).is_file():
            return place
    raise BadInput("the plugin's files are not there: install lossless again, or work in a whole checkout")


def install(path: Path, plugin: Path, python: str) -> Setup:
    """The edit that makes OpenClaw use the plugin; again changes nothing."""
    return _setup(path, lambda document, notes: _add(document, plugin, python, notes))


def uninstall(path: Path) -> Setup:
    """The edit that takes the plugin out again; lossless-claw comes back if it was there. The archive stays."""
    return _setup(path, _remove)


def _setup(path: Path, change: Any) -> Setup:
    text = read_text(path)
    try:
        before = parse(text).value if text and text.strip() else {}
    except NotJson5 as error:
        raise BadInput(f"{str(path)!r} is no JSON5 and is left as it is: {error}. {_by_hand()}") from error
    if not isinstance(before, dict):
        raise BadInput(f"{str(path)!r} holds no object and is left as it is. {_by_hand()}")
    if "$include" in before or _includes(before.get("plugins")):
        raise BadInput(f"{str(path)!r} takes parts from other files ($include) and is left as it is. {_by_hand()}")
    after = copy.deepcopy(before)
    notes: list[str] = []
    change(after, notes)
    changed = _changed(path, text, before, after)
    return Setup(Edit(path, text, changed, "; ".join(notes)), tuple(notes))


def _changed(path: Path, text: str | None, before: dict[str, Any], after: dict[str, Any]) -> str | None:
    """The file's new text: comments and everything else that does not change stay as they are."""
    if after == before:
        return text
    if text is None or not text.strip():
        return write_object(after, text)
    try:
        return edited(text, after)
    except NotJson5 as error:
        raise BadInput(f"{str(path)!r} is left as it is: {error}. {_by_hand()}") from error


def _by_hand() -> str:
    wanted: dict[str, Any] = {}
    _add(wanted, Path("<folder of the plugin>"), "<python>", [])
    return f"Add this by hand: {json.dumps(wanted)}"


def _includes(value: object) -> bool:
    if isinstance(value, dict):
        return "$include" in value or any(map(_includes, value.values()))
    return isinstance(value, list) and any(map(_includes, value))


# --- in ---


def _add(document: dict[str, Any], plugin: Path, python: str, notes: list[str]) -> None:
    plugins = _inner(document, "plugins")
    if plugins.get("enabled") is False:
        plugins["enabled"] = True
        notes.append("plugins.enabled is true")
    _add_path(plugins, plugin, notes)
    if isinstance(plugins.get("allow"), list) and PLUGIN_ID not in plugins["allow"]:
        plugins["allow"].append(PLUGIN_ID)
        notes.append(f"plugins.allow holds {PLUGIN_ID}")
    slots = _inner(plugins, "slots")
    if slots.get("contextEngine") != PLUGIN_ID:
        before = slots.get("contextEngine")
        slots["contextEngine"] = PLUGIN_ID
        notes.append(f"plugins.slots.contextEngine is {PLUGIN_ID}{f' (was {before})' if before else ''}")
    entries = _inner(plugins, "entries")
    _add_entry(document, entries, python, notes)
    before_us = entries.get(_BEFORE)
    if isinstance(before_us, dict) and before_us.get("enabled") is not False:
        before_us["enabled"] = False
        notes.append(f"plugins.entries.{_BEFORE}.enabled is false: both have tools of the same names")


def _add_path(plugins: dict[str, Any], plugin: Path, notes: list[str]) -> None:
    load = _inner(plugins, "load")
    kept = [place for place in _list(load.get("paths")) if not _is_ours(place) or Path(place) == plugin]
    wanted = kept if str(plugin) in kept else [*kept, str(plugin)]
    if wanted != load.get("paths"):
        load["paths"] = wanted
        notes.append(f"plugins.load.paths holds {plugin}")


def _is_ours(place: object) -> bool:
    """Whether a folder holds this plugin, perhaps of another version."""
    if not isinstance(place, str):
        return False
    try:
        return bool(json.loads((Path(place) / _MANIFEST).read_text(encoding="utf-8")).get("id") == PLUGIN_ID)
    except (OSError, ValueError, AttributeError):
        return False


def _add_entry(document: dict[str, Any], entries: dict[str, Any], python: str, notes: list[str]) -> None:
    entry = _inner(entries, PLUGIN_ID)
    name = f"plugins.entries.{PLUGIN_ID}"
    _put(entry, "enabled", True, name, notes)
    config = _inner(entry, "config")
    if not config.keys() - {"python"} and (place := _older_settings(document)) is not None:
        config.update(place[1])
        notes.append(f"{name}.config has the settings of {place[0]}")
    _put(config, "python", python, f"{name}.config", notes)
    hooks = _inner(entry, "hooks")
    _put(hooks, "allowConversationAccess", True, f"{name}.hooks", notes)
    if hooks.get("allowPromptInjection") is False:
        notes.append(f"{name}.hooks.allowPromptInjection is false: the recall policy stays out of system prompts")
    for policy, models in (("llm", _summary_models(config)), ("subagent", _reader_models(config))):
        _allow(entry, policy, models, name, notes)


def _older_settings(document: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Settings that stand in another place than ours, and that place."""
    for block in BLOCKS[1:]:
        found: Any = document
        for name in block:
            found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, dict) and found:
            return ".".join(block), found
    return None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _put(inside: dict[str, Any], key: str, value: object, name: str, notes: list[str]) -> None:
    if inside.get(key) != value:
        inside[key] = value
        notes.append(f"{name}.{key} is {json.dumps(value)}")


def _allow(entry: dict[str, Any], policy: str, models: list[str], name: str, notes: list[str]) -> None:
    """The host's leave to ask for models by name; without one named, none is needed."""
    if not models:
        return
    rule = _inner(entry, policy)
    _put(rule, "allowModelOverride", True, f"{name}.{policy}", notes)
    known = _list(rule.get("allowedModels"))
    if "*" not in known and (missing := [model for model in models if model not in known]):
        rule["allowedModels"] = [*known, *missing]
        notes.append(f"{name}.{policy}.allowedModels holds {', '.join(missing)}")


def _summary_models(config: Mapping[str, Any]) -> list[str]:
    named = [_model(config, "summary"), _model(config, "largeFileSummary")]
    routes = [route for route in _list(config.get("fallbackProviders")) if isinstance(route, dict)]
    named += [full_name(str(route.get("provider") or ""), str(route.get("model") or "")) for route in routes]
    return [name for name in dict.fromkeys(named) if name and "/" in name]


def _reader_models(config: Mapping[str, Any]) -> list[str]:
    found = _model(config, "expansion")
    return [found] if found and "/" in found else []


def _model(config: Mapping[str, Any], kind: str) -> str | None:
    return full_name(str(config.get(f"{kind}Provider") or ""), str(config.get(f"{kind}Model") or ""))


def _inner(value: dict[str, Any], name: str) -> dict[str, Any]:
    """The object under a name, made when it is not there."""
    found = value.setdefault(name, {})
    if not isinstance(found, dict):
        raise BadInput(f"{name!r} in OpenClaw's config must be an object; nothing was changed")
    return found


# --- out ---


def _remove(document: dict[str, Any], notes: list[str]) -> None:
    plugins = document.get("plugins")
    if not isinstance(plugins, dict):
        return
    load, slots, entries = (plugins.get(name) for name in ("load", "slots", "entries"))
    if isinstance(load, dict) and isinstance(load.get("paths"), list) and any(map(_is_ours, load["paths"])):
        load["paths"] = [place for place in load["paths"] if not _is_ours(place)]
        notes.append("plugins.load.paths is without the plugin")
    if isinstance(plugins.get("allow"), list) and PLUGIN_ID in plugins["allow"]:
        plugins["allow"].remove(PLUGIN_ID)
        notes.append(f"plugins.allow is without {PLUGIN_ID}")
    if isinstance(entries, dict) and entries.pop(PLUGIN_ID, None) is not None:
        notes.append(f"plugins.entries.{PLUGIN_ID} is gone")
    if isinstance(slots, dict) and slots.get("contextEngine") == PLUGIN_ID:
        _put_back(slots, entries if isinstance(entries, dict) else {}, notes)


def _put_back(slots: dict[str, Any], entries: dict[str, Any], notes: list[str]) -> None:
    before = entries.get(_BEFORE)
    if isinstance(before, dict):
        before["enabled"] = True
        slots["contextEngine"] = _BEFORE
        notes.append(f"plugins.slots.contextEngine is {_BEFORE} again")
    else:
        del slots["contextEngine"]
        notes.append("plugins.slots.contextEngine is the host's own again")
