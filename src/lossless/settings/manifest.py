"""The settings as a host's plugin manifest describes them: a strict JSON Schema and hints for a form."""

from __future__ import annotations

import re
from typing import Any

from lossless.settings.declared import SETTINGS
from lossless.settings.names import RETIRED


def manifest_schema() -> dict[str, Any]:
    """`configSchema` and `uiHints` of a plugin manifest, with every key that a config file may hold."""
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": {}}
    hints: dict[str, dict[str, Any]] = {}
    for setting in SETTINGS:
        if setting.env_only:
            continue
        _put(schema, setting.key, setting.kind.schema())
        hints[setting.key] = {"label": label(setting.key), "help": setting.help}
        for alias in setting.aliases:
            state = {"deprecated": True} if alias.deprecated else {}
            _put(schema, alias.key, {**setting.kind.schema(), **state})
            hints[alias.key] = {
                "label": label(alias.key),
                "help": f"Another name of {setting.key}.",
                "advanced": True,
            }
    for retired in RETIRED:
        _put(schema, retired.key, {**retired.kind.schema(), "deprecated": True})
        hints[retired.key] = {
            "label": label(retired.key),
            "help": f"Accepted, without effect: {retired.why}.",
            "advanced": True,
        }
    return {"configSchema": schema, "uiHints": hints}


def label(key: str) -> str:
    """A key as a form shows it.

    >>> label("autoRotateSessionFiles.sizeBytes")
    'Auto rotate session files: size bytes'
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", key.replace(".", ": "))
    return words[:1].upper() + re.sub(r"\b[A-Z](?=[a-z])", lambda found: found[0].lower(), words[1:])


def _put(schema: dict[str, Any], key: str, described: dict[str, object]) -> None:
    *outer, name = key.split(".")
    for step in outer:
        empty = {"type": "object", "additionalProperties": False, "properties": {}}
        schema = schema["properties"].setdefault(step, empty)
    schema["properties"][name] = described
