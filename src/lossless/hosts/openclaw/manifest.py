"""The plugin's manifest, made from the declarations of settings and tools; and what of a config it accepts."""

from __future__ import annotations

import math
from typing import Any

from lossless import __version__
from lossless.recall.tools import TOOLS
from lossless.settings.page import manifest_schema

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
    """The part of a config that the host accepts from us, and for each other key why it does not."""
    refused: dict[str, str] = {}
    return _part(manifest()["configSchema"], config, "", refused), refused


def _part(schema: dict[str, Any], value: dict[str, Any], inside: str, refused: dict[str, str]) -> dict[str, Any]:
    part = {}
    for key, item in value.items():
        known = schema["properties"].get(key)
        if known is None:
            refused[inside + key] = "there is no such setting"
        elif known["type"] == "object" and isinstance(item, dict):
            part[key] = _part(known, item, f"{inside}{key}.", refused)
        elif matches_schema(known, item):
            part[key] = item
        else:
            limits = [f"{name} {known[name]}" for name in ("enum", "minimum", "maximum") if name in known]
            refused[inside + key] = f"it must be of type {', '.join([known['type'], *limits])}"
    return part


def matches_schema(schema: dict[str, Any], value: object) -> bool:
    """Whether a value is what a schema of the manifest asks for."""
    kind = schema["type"]
    if kind in ("integer", "number"):
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return False
        is_of_type = kind == "number" or value == math.floor(value)
    else:
        is_of_type = isinstance(value, {"string": str, "boolean": bool, "array": list, "object": dict}[kind])
    if not is_of_type or value not in schema.get("enum", [value]):
        return False
    if isinstance(value, list):
        return all(matches_schema(schema["items"], item) for item in value)
    if isinstance(value, dict):
        known = schema["properties"]
        is_whole = value.keys() >= set(schema.get("required", ())) and len(value) >= schema.get("minProperties", 0)
        return is_whole and all(key in known and matches_schema(known[key], item) for key, item in value.items())
    if isinstance(value, int | float):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    return True
