"""The plugin's manifest, made from the declarations of settings and tools; and what of a config it accepts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lossless import __version__
from lossless.errors import BadSetting
from lossless.recall.tools import TOOLS
from lossless.settings.load import HOST_CONFIG_NAME, group_spellings, key_spellings, settings_by_key
from lossless.settings.page import manifest_schema
from lossless.settings.setting import UNSET

PLUGIN_ID = "lossless"
CONTROL = "lcm-control"
#: Settings of the plugin itself, which starts Python and therefore cannot ask it.
OWN_SETTINGS: dict[str, tuple[dict[str, Any], str, str]] = {
    "python": (
        {"type": "string"},
        "Python",
        "The Python (3.11 or newer) that has lossless installed; else LCM_PYTHON, else python3 on the PATH.",
    )
}


def manifest() -> dict[str, Any]:
    """`openclaw.plugin.json`."""
    found = manifest_schema()
    schema, hints = found["configSchema"], found["uiHints"]
    for key, (kind, label, help_) in OWN_SETTINGS.items():
        schema["properties"] = {key: kind, **schema["properties"]}
        hints = {key: {"label": label, "help": help_}, **hints}
    return {
        "id": PLUGIN_ID,
        "name": "lossless",
        "description": "Keeps every message, folds older history into summaries, and gets any detail back.",
        "version": __version__,
        "kind": "context-engine",
        "activation": {"onStartup": True},
        "contracts": {"tools": [tool.name for tool in TOOLS], "sessionActions": [CONTROL]},
        "commandAliases": [{"name": name, "kind": "runtime-slash"} for name in ("lossless", "lcm")],
        "configSchema": schema,
        "uiHints": hints,
    }


def accepted_config(config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings in a config, written as the host accepts them from us; for each other key why it is left out."""
    part: dict[str, Any] = {}
    refused: dict[str, str] = {}
    for key, value in _by_key(config):
        setting = settings_by_key().get(key)
        if setting is None or setting.env_only:
            refused[key] = "it has no effect any more" if key in key_spellings() else "there is no such setting"
            continue
        try:
            read = setting.read(value, HOST_CONFIG_NAME)
        except BadSetting as error:
            refused[key] = f"it must be {error.allowed}"
            continue
        if read is not UNSET:
            *outer, last = key_spellings()[key].split(".")
            (part.setdefault(outer[0], {}) if outer else part)[last] = setting.dump(read)
    return part, refused


def _by_key(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, item in config.items():
        if name in group_spellings() and isinstance(item, dict):
            yield from ((f"{name}.{inner}", value) for inner, value in item.items())
        else:
            yield name, item
