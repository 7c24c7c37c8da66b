"""The JSON Schema of a host's plugin manifest; and what writes or checks a generated page."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from lossless.settings.declared import SETTINGS
from lossless.settings.load import RETIRED_KEYS


def write_page(module: str, page: Callable[[], str], arguments: list[str]) -> int:
    """Implements `python -m MODULE [--check] FILE`; returns the exit code."""
    names = [argument for argument in arguments if argument != "--check"]
    if len(names) != 1:
        sys.stderr.write(f"usage: python -m {module} [--check] FILE\n")
        return 2
    path, text = Path(names[0]), page()
    if "--check" not in arguments:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return 0
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{path} is out of date: python -m {module} {path}\n")
    return 1


@cache
def setting_texts() -> dict[str, tuple[str, str]]:
    """What each setting is for, by its key, and how its default is computed if it is not fixed; under the title of a
    section what that is about. In the order of the page.
    """
    text = files("lossless.settings").joinpath("help.toml").read_text(encoding="utf-8")
    texts: dict[str, tuple[str, str]] = {}
    for title, section in tomllib.loads(text).items():
        texts[title] = section.pop("about"), ""
        texts |= {key: (said, "") if isinstance(said, str) else (said[0], said[1]) for key, said in section.items()}
    return texts


def manifest_schema() -> dict[str, Any]:
    """`configSchema` and `uiHints` of a plugin manifest, with every key that a config file may hold."""
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": {}}
    hints: dict[str, dict[str, Any]] = {}
    for setting in SETTINGS:
        if setting.env_only:
            continue
        _put(schema, setting.key, setting.kind.schema())
        hints[setting.key] = {"label": form_label(setting.key), "help": setting_texts()[setting.key][0]}
        for alias in setting.aliases:
            state = {"deprecated": True} if alias.deprecated else {}
            _put(schema, alias.key, {**setting.kind.schema(), **state})
            hints[alias.key] = {"label": form_label(alias.key), "help": f"Another name of {setting.key}."}
            hints[alias.key]["advanced"] = True
    for retired in RETIRED_KEYS:
        _put(schema, retired.key, {**retired.kind.schema(), "deprecated": True})
        about = f"Accepted, without effect: {retired.no_effect}."
        hints[retired.key] = {"label": form_label(retired.key), "help": about, "advanced": True}
    return {"configSchema": schema, "uiHints": hints}


def form_label(key: str) -> str:
    """A key as a form shows it."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", key.replace(".", ": "))
    return words[:1].upper() + re.sub(r"\b[A-Z](?=[a-z])", lambda found: found[0].lower(), words[1:])


def _put(schema: dict[str, Any], key: str, described: dict[str, object]) -> None:
    *outer, name = key.split(".")
    for step in outer:
        empty = {"type": "object", "additionalProperties": False, "properties": {}}
        schema = schema["properties"].setdefault(step, empty)
    schema["properties"][name] = described
