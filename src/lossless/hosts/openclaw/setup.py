"""Telling OpenClaw about the plugin: what its config file is to hold, and how it was before."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput
from lossless.hosts.config_files import FileEdit, duplicate_key_text, read_text, record_path, text_digest, write_object
from lossless.hosts.openclaw.bridge import qualified_model
from lossless.hosts.openclaw.manifest import PLUGIN_ID, accepted_config
from lossless.settings.json5 import edit_json5, parse_json5, repeated_key
from lossless.settings.load import HOST_CONFIG_BLOCKS, includes_others, value_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: The plugin whose database and settings this one takes over.
_BEFORE = "lossless-claw"
_MANIFEST = "openclaw.plugin.json"
#: What is made where it is missing, and what is left of it when the plugin goes.
_MADE: tuple[tuple[tuple[str, ...], object], ...] = (
    (("plugins",), {}),
    (("plugins", "load"), {}),
    (("plugins", "load", "paths"), []),
    (("plugins", "slots"), {}),
    (("plugins", "entries"), {}),
)
_SLOT = ("plugins", "slots", "contextEngine")
_ENTRY = ("plugins", "entries", PLUGIN_ID)
#: Under this path the record has the whole file as it was, and what the text that took its place is known by.
_WHOLE = ()


@dataclass(slots=True)
class ConfigSetup:
    """What happens to a config: in words, and the edits of the file and of the record of what stood there before."""

    changes: list[str] = field(default_factory=list)
    #: What is left as it is, and should be known.
    remarks: list[str] = field(default_factory=list)
    edits: list[FileEdit] = field(default_factory=list)
    #: For each path what was there (nothing: not there) and what was put there.
    replaced: dict[tuple[str, ...], dict[str, Any]] = field(default_factory=dict)

    def replace(self, inside: dict[str, Any], path: tuple[str, ...], value: object) -> None:
        """Put a value in place of another one, which is remembered."""
        former = {"before": inside[path[-1]]} if path[-1] in inside else {}
        self.replaced[path] = former | {"after": value}
        inside[path[-1]] = value


def plugin_folder() -> Path:
    """Where the plugin lies: inside the package when it was installed, next to it in a checkout."""
    here = Path(__file__).resolve()
    for place in (here.parent / "plugin", here.parents[4] / "bridges" / "openclaw"):
        if (place / _MANIFEST).is_file():
            return place
    raise BadInput("the plugin's files are not there: install lossless again, or work in a whole checkout")


def install(path: Path, plugin: Path, python: str) -> ConfigSetup:
    """The edits that make OpenClaw use the plugin; again changes nothing."""
    wanted: dict[str, Any] = {}
    _add(wanted, plugin, python, ConfigSetup())
    by_hand = f"Add this by hand: {json.dumps(wanted, ensure_ascii=False)}"
    return _setup(path, by_hand, lambda document, work: _add(document, plugin, python, work))


def uninstall(path: Path) -> ConfigSetup:
    """The edits that take the plugin out again and put back what it replaced. The archive stays."""
    by_hand = (
        f"Take out by hand: plugins.entries.{PLUGIN_ID}, plugins.slots.contextEngine if it is {PLUGIN_ID}, "
        f"and from plugins.load.paths the folder that holds {_MANIFEST} of {PLUGIN_ID}."
    )
    return _setup(path, by_hand, _remove)


def _setup(path: Path, by_hand: str, change: Callable[[dict[str, Any], ConfigSetup], None]) -> ConfigSetup:
    text, before = _document(path, by_hand)
    record = record_path(path)
    old = read_text(record)
    after = copy.deepcopy(before)
    work = ConfigSetup(replaced=_recorded(old))
    whole = work.replaced.pop(_WHOLE, {})
    is_known = text is not None and whole.get("after") == text_digest(text)
    former, was_there = whole.get("before"), _is_installed(before)
    try:
        change(after, work)
    except BadInput as error:
        raise BadInput(f"{str(path)!r}: {error}") from error
    if is_known and not _is_installed(after):
        made = former
    else:
        made = _changed(path, text, before, after, by_hand)
        if _is_installed(after) and (is_known or not was_there):
            work.replaced[_WHOLE] = {"before": former if is_known else text, "after": text_digest(made)}
    work.edits = [FileEdit(path, text, made, "; ".join(work.changes))]
    if work.replaced == _recorded(old):
        noted = old if work.replaced else None
    else:
        items = [{"path": path, **item} for path, item in work.replaced.items()]
        noted = json.dumps(items, indent=2) + "\n" if items else None
    if old is not None or noted is not None:
        work.edits.append(FileEdit(record, old, noted, "what `lcm disconnect openclaw` puts back", is_private=True))
    return work


def _is_installed(document: dict[str, Any]) -> bool:
    """Whether OpenClaw is told to load the plugin or to use it; an entry alone may be the user's own."""
    paths = value_at(document, ("plugins", "load", "paths"))
    return value_at(document, _SLOT) == PLUGIN_ID or any(map(_is_ours, _list(paths)))


def _document(path: Path, by_hand: str) -> tuple[str | None, dict[str, Any]]:
    text = read_text(path)
    try:
        found = parse_json5(text if text and text.strip() else "{}")
    except ValueError as error:
        raise BadInput(f"{str(path)!r} is no JSON5 and is left as it is: {error}. {by_hand}") from error
    before = found.value
    if not isinstance(before, dict):
        raise BadInput(f"{str(path)!r} holds no object and is left as it is. {by_hand}")
    if (key := repeated_key(found)) is not None:
        raise BadInput(f"{duplicate_key_text(path, key)}. {by_hand}")
    if "$include" in before or includes_others(before.get("plugins")):
        raise BadInput(f"{str(path)!r} takes parts from other files ($include) and is left as it is. {by_hand}")
    return text, before


def _recorded(text: str | None) -> dict[tuple[str, ...], dict[str, Any]]:
    """What an installation before this one replaced; nothing when its record is gone or is none."""
    try:
        found = json.loads(text or "[]")
        known = {tuple(map(str, item.pop("path"))): item for item in found if "after" in item}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}
    if not isinstance(known.get(_WHOLE, {}).get("before", ""), str | None):
        del known[_WHOLE]
    return known


def _changed(path: Path, text: str | None, before: dict[str, Any], after: dict[str, Any], by_hand: str) -> str | None:
    """The file's new text: comments and everything else that does not change stay as they are."""
    if after == before:
        return text
    if text is None or not text.strip():
        return write_object(after, text)
    try:
        return edit_json5(text, after)
    except ValueError as error:
        raise BadInput(f"{str(path)!r} is left as it is: {error}. {by_hand}") from error


def _add(document: dict[str, Any], plugin: Path, python: str, work: ConfigSetup) -> None:
    was_there = _is_installed(document)
    if not was_there:
        work.replaced.clear()
    for path, emptied in _MADE:
        inside = value_at(document, path[:-1])
        if inside is None or (isinstance(inside, dict) and path[-1] not in inside):
            work.replaced[path] = {"after": emptied}
    notes, plugins = work.changes, _inner(document, "plugins")
    if plugins.get("enabled") is False:
        work.replace(plugins, ("plugins", "enabled"), True)
        notes.append("plugins.enabled is true (was false): all plugins that are enabled run now")
    if PLUGIN_ID in _list(plugins.get("deny")):
        work.remarks.append(f"plugins.deny holds {PLUGIN_ID}: OpenClaw will not run it until you take that out")
    load = _inner(plugins, "load")
    kept = [place for place in _list(load.get("paths")) if not _is_ours(place) or Path(place) == plugin]
    wanted = kept if str(plugin) in kept else [*kept, str(plugin)]
    if wanted != load.get("paths"):
        load["paths"] = wanted
        notes.append(f"plugins.load.paths holds {plugin}")
    if isinstance(plugins.get("allow"), list) and PLUGIN_ID not in plugins["allow"]:
        plugins["allow"].append(PLUGIN_ID)
        notes.append(f"plugins.allow holds {PLUGIN_ID}")
    slots = _inner(plugins, "slots")
    if slots.get("contextEngine") != PLUGIN_ID:
        before = slots.get("contextEngine")
        work.replace(slots, _SLOT, PLUGIN_ID)
        notes.append(f"plugins.slots.contextEngine is {PLUGIN_ID}{f' (was {before})' if before else ''}")
    entries = _inner(plugins, "entries")
    own = copy.deepcopy(entries.get(PLUGIN_ID)) if not was_there else None
    _add_entry(document, entries, python, work)
    if own is not None:
        work.replaced[_ENTRY] = {"after": None}
        _note_differences(own, entries[PLUGIN_ID], _ENTRY, work)
    before_us = entries.get(_BEFORE)
    if isinstance(before_us, dict) and before_us.get("enabled") is not False:
        work.replace(before_us, ("plugins", "entries", _BEFORE, "enabled"), False)
        notes.append(f"plugins.entries.{_BEFORE}.enabled is false: both have tools of the same names")


def _note_differences(before: dict[str, Any], after: dict[str, Any], path: tuple[str, ...], work: ConfigSetup) -> None:
    for key, value in after.items():
        if key not in before:
            work.replaced[*path, key] = {"after": value}
        elif isinstance(before[key], dict) and isinstance(value, dict):
            _note_differences(before[key], value, (*path, key), work)
        elif before[key] != value:
            work.replaced[*path, key] = {"before": before[key], "after": value}


def _is_ours(place: object) -> bool:
    with suppress(OSError, ValueError, AttributeError, TypeError):
        return bool(json.loads((Path(str(place)) / _MANIFEST).read_text(encoding="utf-8")).get("id") == PLUGIN_ID)
    return False


def _add_entry(document: dict[str, Any], entries: dict[str, Any], python: str, work: ConfigSetup) -> None:
    notes, entry = work.changes, _inner(entries, PLUGIN_ID)
    name = f"plugins.entries.{PLUGIN_ID}"
    _put(entry, "enabled", True, name, notes)
    config = _inner(entry, "config")
    older = ((".".join(block), value_at(document, block)) for block in HOST_CONFIG_BLOCKS[1:])
    place, found = next(((place, found) for place, found in older if isinstance(found, dict) and found), ("", {}))
    if not config.keys() - {"python"} and found:
        known, refused = accepted_config(found)
        work.remarks += [f"{place}.{key} is not taken over: {why}" for key, why in refused.items()]
        if known:
            config.update(known)
            notes.append(f"{name}.config has the settings of {place}")
    _put(config, "python", python, f"{name}.config", notes)
    hooks = _inner(entry, "hooks")
    _put(hooks, "allowConversationAccess", True, f"{name}.hooks", notes)
    if hooks.get("allowPromptInjection") is False:
        remark = f"{name}.hooks.allowPromptInjection is false: the recall policy stays out of system prompts"
        work.remarks.append(remark)
    _allow(entry, "llm", _models(config, "summary", "largeFileSummary"), name, notes)
    _allow(entry, "subagent", _models(config, "expansion"), name, notes)


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


def _models(config: Mapping[str, Any], *kinds: str) -> list[str]:
    """The models that settings of these kinds name with their provider; `summary` has others to fall back to."""
    named = [(config.get(f"{kind}Provider"), config.get(f"{kind}Model")) for kind in kinds]
    if "summary" in kinds:
        routes = [route for route in _list(config.get("fallbackProviders")) if isinstance(route, dict)]
        named += [(route.get("provider"), route.get("model")) for route in routes]
    found = dict.fromkeys(qualified_model(str(provider or ""), str(model or "")) for provider, model in named)
    return [name for name in found if name and "/" in name]


def _inner(value: dict[str, Any], name: str) -> dict[str, Any]:
    found = value.setdefault(name, {})
    if not isinstance(found, dict):
        raise BadInput(f"{name!r} must be an object; nothing was changed")
    return found


def _remove(document: dict[str, Any], work: ConfigSetup) -> None:
    notes, plugins = work.changes, document.get("plugins")
    former, work.replaced = work.replaced, {}
    if not isinstance(plugins, dict):
        return
    had_python = value_at(document, (*_ENTRY, "config", "python")) is not None
    # made by an installation, and not by the user before it
    is_ours = _ENTRY not in former and (bool(former) or _is_installed(document) or had_python)
    load, slots, entries = (plugins.get(name) for name in ("load", "slots", "entries"))
    if isinstance(load, dict) and isinstance(load.get("paths"), list) and any(map(_is_ours, load["paths"])):
        load["paths"] = [place for place in load["paths"] if not _is_ours(place)]
        notes.append("plugins.load.paths is without the plugin")
    if isinstance(plugins.get("allow"), list) and PLUGIN_ID in plugins["allow"]:
        plugins["allow"].remove(PLUGIN_ID)
        notes.append(f"plugins.allow is without {PLUGIN_ID}")
    if is_ours and isinstance(entries, dict) and entries.pop(PLUGIN_ID, None) is not None:
        notes.append(f"plugins.entries.{PLUGIN_ID} is gone")
    for path in sorted(former, key=len, reverse=True):
        _restore(document, path, former[path], notes)
    if isinstance(slots, dict) and slots.get("contextEngine") == PLUGIN_ID:
        # An installation without a record: lossless-claw if it is there, else the host's own.
        before = entries.get(_BEFORE) if isinstance(entries, dict) else None
        if isinstance(before, dict):
            before["enabled"] = True
            slots["contextEngine"] = _BEFORE
            notes.append(f"plugins.slots.contextEngine is {_BEFORE} again")
        else:
            del slots["contextEngine"]
            notes.append("plugins.slots.contextEngine is the host's own again")


def _restore(document: dict[str, Any], path: Sequence[str], item: Mapping[str, Any], notes: list[str]) -> None:
    """What stood at a path before, unless it was changed meanwhile."""
    inside = value_at(document, path[:-1])
    if not isinstance(inside, dict) or path[-1] not in inside or inside[path[-1]] != item["after"]:
        return
    if "before" in item:
        inside[path[-1]] = item["before"]
        notes.append(f"{'.'.join(path)} is {json.dumps(item['before'])} again")
    else:
        del inside[path[-1]]
        notes.append(f"{'.'.join(path)} is gone")
