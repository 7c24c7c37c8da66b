"""Telling OpenClaw about the plugin: what its config file is to hold, and how it was before."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lossless.errors import BadInput
from lossless.hosts.config_files import (
    FileEdit,
    duplicate_key_text,
    edits_with_record,
    read_record,
    read_text,
    undo_changes,
    write_object,
)
from lossless.hosts.openclaw.bridge import qualified_model
from lossless.hosts.openclaw.manifest import PLUGIN_ID, accepted_config
from lossless.settings.json5 import edit_json5, parse_json5, repeated_key
from lossless.settings.load import HOST_CONFIG_BLOCKS, includes_others, value_at

#: The plugin whose database and settings this one takes over.
_BEFORE = "lossless-claw"
_MANIFEST = "openclaw.plugin.json"
_ENTRY = ("plugins", "entries", PLUGIN_ID)


@dataclass(frozen=True, slots=True)
class ConfigSetup:
    """What happens to a config: in words, and the edits of the file and of the record of what stood there before."""

    changes: list[str]
    edits: list[FileEdit]
    #: What is left as it is, and should be known.
    remarks: tuple[str, ...] = ()


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
    _add(wanted, plugin, python)
    config = _ConfigFile(path, f"Add this by hand: {json.dumps(wanted, ensure_ascii=False)}")
    after = copy.deepcopy(config.document)
    try:
        remarks = _add(after, plugin, python)
    except BadInput as error:
        raise BadInput(f"{str(path)!r}: {error}") from error
    changes = list(_differences(config.document, after))
    own = FileEdit(path, config.text, config.holding(after), "; ".join(changes))
    before = config.before() if _is_installed(config.document) else config.text
    return ConfigSetup(changes, edits_with_record(own, (before, own.after)), tuple(remarks))


def uninstall(path: Path) -> ConfigSetup:
    """The edits that take the plugin out again and put back what it replaced. The archive stays."""
    config = _ConfigFile(
        path,
        f"Take out by hand: plugins.entries.{PLUGIN_ID}, plugins.slots.contextEngine if it is {PLUGIN_ID}, "
        f"and from plugins.load.paths the folder that holds {_MANIFEST} of {PLUGIN_ID}.",
    )
    before = config.before()
    changes = list(_differences(config.document, config.parsed(before), is_back=True))
    return ConfigSetup(changes, edits_with_record(FileEdit(path, config.text, before, "; ".join(changes))))


class _ConfigFile:
    """A config file as it is; `by_hand` is what a person may do where it cannot be edited."""

    def __init__(self, path: Path, by_hand: str) -> None:
        self._path, self._by_hand, self.text = path, by_hand, read_text(path)
        self.document = self.parsed(self.text)

    def parsed(self, text: str | None) -> dict[str, Any]:
        name = repr(str(self._path))
        try:
            found = parse_json5(text if text and text.strip() else "{}")
        except ValueError as error:
            raise BadInput(f"{name} is no JSON5 and is left as it is: {error}. {self._by_hand}") from error
        document = found.value
        if not isinstance(document, dict):
            raise BadInput(f"{name} holds no object and is left as it is. {self._by_hand}")
        if (key := repeated_key(found)) is not None:
            raise BadInput(f"{duplicate_key_text(self._path, key)}. {self._by_hand}")
        if "$include" in document or includes_others(document.get("plugins")):
            raise BadInput(f"{name} takes parts from other files ($include) and is left as it is. {self._by_hand}")
        return document

    def holding(self, after: dict[str, Any]) -> str | None:
        """The text with another document: comments and everything else that does not change stay as they are."""
        if after == self.document:
            return self.text
        if self.text is None or not self.text.strip():
            return write_object(after, self.text)
        try:
            return edit_json5(self.text, after)
        except ValueError as error:
            raise BadInput(f"{str(self._path)!r} is left as it is: {error}. {self._by_hand}") from error

    def before(self) -> str | None:
        """The text without the plugin: as it was written down, with what was changed since; else without its names."""
        document = copy.deepcopy(self.document)
        record = read_record(self._path)
        if record is not None and _is_installed(document):
            before, after = record
            if after == self.text:
                return before
            document = undo_changes(document, self.parsed(after), self.parsed(before))
        if record is None or _is_installed(document):
            _remove(document)
        return self.holding(document)


def _is_installed(document: dict[str, Any]) -> bool:
    """Whether OpenClaw is told to load the plugin or to use it; an entry alone may be the user's own."""
    paths = value_at(document, ("plugins", "load", "paths"))
    return value_at(document, ("plugins", "slots", "contextEngine")) == PLUGIN_ID or any(map(_is_ours, _list(paths)))


def _differences(before: Any, after: Any, name: str = "", *, is_back: bool = False) -> Iterator[str]:
    """What has changed, a sentence for each value."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*after, *before)):
            inside = f"{name}.{key}" if name else key
            if key not in after:
                yield f"{inside} is gone"
            else:
                empty: Any = {} if isinstance(after[key], dict) else [] if isinstance(after[key], list) else None
                yield from _differences(before.get(key, empty), after[key], inside, is_back=is_back)
    elif isinstance(before, list) and isinstance(after, list):
        yield from (f"{name} holds {_shown(one)}" for one in after if one not in before)
        yield from (f"{name} is without {_shown(one)}" for one in before if one not in after)
    elif before != after:
        former = " again" if is_back else "" if before is None else f" (was {_shown(before)})"
        yield f"{name} is {_shown(after)}{former}"


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _add(document: dict[str, Any], plugin: Path, python: str) -> list[str]:
    """Put in what is needed; what a person should know about it."""
    remarks, plugins = [], _inner(document, "plugins")
    if plugins.get("enabled") is False:
        plugins["enabled"] = True
        remarks.append("plugins.enabled was false: all plugins that are enabled run now")
    if PLUGIN_ID in _list(plugins.get("deny")):
        remarks.append(f"plugins.deny holds {PLUGIN_ID}: OpenClaw will not run it until you take that out")
    load = _inner(plugins, "load")
    kept = [place for place in _list(load.get("paths")) if not _is_ours(place) or Path(place) == plugin]
    load["paths"] = kept if str(plugin) in kept else [*kept, str(plugin)]
    if isinstance(plugins.get("allow"), list) and PLUGIN_ID not in plugins["allow"]:
        plugins["allow"].append(PLUGIN_ID)
    _inner(plugins, "slots")["contextEngine"] = PLUGIN_ID
    entries = _inner(plugins, "entries")
    remarks += _add_entry(document, entries, python)
    before_us = entries.get(_BEFORE)
    if isinstance(before_us, dict):  # both have tools of the same names
        before_us["enabled"] = False
    return remarks


def _is_ours(place: object) -> bool:
    with suppress(OSError, ValueError, AttributeError, TypeError):
        return bool(json.loads((Path(str(place)) / _MANIFEST).read_text(encoding="utf-8")).get("id") == PLUGIN_ID)
    return False


def _add_entry(document: dict[str, Any], entries: dict[str, Any], python: str) -> list[str]:
    remarks, entry, name = list[str](), _inner(entries, PLUGIN_ID), ".".join(_ENTRY)
    entry["enabled"] = True
    config = _inner(entry, "config")
    older = ((".".join(block), value_at(document, block)) for block in HOST_CONFIG_BLOCKS[1:])
    place, found = next(((place, found) for place, found in older if isinstance(found, dict) and found), ("", {}))
    if not config.keys() - {"python"} and found:
        known, refused = accepted_config(found)
        remarks += [f"{place}.{key} is not taken over: {why}" for key, why in refused.items()]
        config.update(known)
    config["python"] = python
    hooks = _inner(entry, "hooks")
    hooks["allowConversationAccess"] = True
    if hooks.get("allowPromptInjection") is False:
        remarks.append(f"{name}.hooks.allowPromptInjection is false: the recall policy stays out of system prompts")
    _allow(entry, "llm", _models(config, "summary", "largeFileSummary"))
    _allow(entry, "subagent", _models(config, "expansion"))
    return remarks


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _allow(entry: dict[str, Any], policy: str, models: list[str]) -> None:
    """The host's leave to ask for models by name; without one named, none is needed."""
    if not models:
        return
    rule = _inner(entry, policy)
    rule["allowModelOverride"] = True
    known = _list(rule.get("allowedModels"))
    if "*" not in known and (missing := [model for model in models if model not in known]):
        rule["allowedModels"] = [*known, *missing]


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


def _remove(document: dict[str, Any]) -> None:
    """Take out what names the plugin, where nothing is known of what stood there before."""
    plugins, was_installed = document.get("plugins"), _is_installed(document)
    if not isinstance(plugins, dict):
        return
    load, slots, entries = (
        found if isinstance(found := plugins.get(name), dict) else {} for name in ("load", "slots", "entries")
    )
    if isinstance(load.get("paths"), list):
        load["paths"] = [place for place in load["paths"] if not _is_ours(place)]
    if was_installed and isinstance(plugins.get("allow"), list):
        plugins["allow"] = [name for name in plugins["allow"] if name != PLUGIN_ID]
    if was_installed or value_at(document, (*_ENTRY, "config", "python")) is not None:
        entries.pop(PLUGIN_ID, None)
    if slots.get("contextEngine") == PLUGIN_ID:  # then lossless-claw if it is there, else the host's own
        del slots["contextEngine"]
        if isinstance(entries.get(_BEFORE), dict):
            slots["contextEngine"], entries[_BEFORE]["enabled"] = _BEFORE, True
