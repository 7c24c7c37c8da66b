"""Generates the settings page (`python -m lossless.settings.page`) and the JSON Schema of a host's plugin manifest."""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossless.settings.declared import SETTINGS
from lossless.settings.load import PATH_VARIABLES, RETIRED_KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lossless.settings.setting import Setting


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


def manifest_schema() -> dict[str, Any]:
    """`configSchema` and `uiHints` of a plugin manifest, with every key that a config file may hold."""
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": {}}
    hints: dict[str, dict[str, Any]] = {}
    for setting in SETTINGS:
        if setting.env_only:
            continue
        _put(schema, setting.key, setting.kind.schema())
        hints[setting.key] = {"label": form_label(setting.key), "help": setting.help}
        for alias in setting.aliases:
            state = {"deprecated": True} if alias.deprecated else {}
            _put(schema, alias.key, {**setting.kind.schema(), **state})
            hints[alias.key] = {
                "label": form_label(alias.key),
                "help": f"Another name of {setting.key}.",
                "advanced": True,
            }
    for retired in RETIRED_KEYS:
        _put(schema, retired.key, {**retired.kind.schema(), "deprecated": True})
        hints[retired.key] = {
            "label": form_label(retired.key),
            "help": f"Accepted, without effect: {retired.help}.",
            "advanced": True,
        }
    return {"configSchema": schema, "uiHints": hints}


def form_label(key: str) -> str:
    """A key as a form shows it.

    >>> form_label("autoRotateSessionFiles.sizeBytes")
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


_COLUMNS = ("Key", "Type", "Default", "Allowed", "Environment", "Meaning")


def settings_page() -> str:
    sections = [
        f"## {title}\n\n{about}\n\n{_table(_COLUMNS, map(_row, settings))}"
        for (title, about), settings in groupby(SETTINGS, key=lambda setting: setting.section)
    ]
    paths = _table(("Variable", "Meaning"), [(_code(name), about) for name, about in PATH_VARIABLES.items()])
    text = files("lossless.settings").joinpath("page.md").read_text(encoding="utf-8")
    return text.replace("{sections}", "\n".join(sections)).replace("{names}", _old_names()).replace("{paths}", paths)


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` report whether it is up to date."""
    return write_page("lossless.settings.page", settings_page, arguments)


def _row(setting: Setting) -> tuple[str, ...]:
    meaning = f"*ours* · {setting.help}" if setting.ours else setting.help
    key = "environment only" if setting.env_only else _code(setting.key)
    return (key, setting.kind.word, _default(setting), _allowed(setting), _code(setting.env), meaning)


def _default(setting: Setting) -> str:
    if setting.derived:
        return setting.derived
    value = setting.dump(setting.default)
    if isinstance(value, bool):
        return _code(str(value).lower())
    if isinstance(value, list | dict):
        return ", ".join(_code(str(item)) for item in value) or "none"
    return _code(f"{value:g}" if isinstance(value, float) else str(value)) or "empty"


def _allowed(setting: Setting) -> str:
    bounds = setting.kind.schema()
    if "enum" in bounds:
        return ", ".join(_code(str(word)) for word in getattr(setting.kind, "words", ()))
    low, high = bounds.get("minimum"), bounds.get("maximum")
    if low is None:
        return ""
    return f"≥ {low}" if high is None else f"{low} … {high}"


def _old_names() -> str:
    rows = [
        (
            _code(alias.key),
            _code(alias.env),
            f"another name of `{setting.key}`"
            + (", deprecated" if alias.deprecated else "")
            + ("; wins when both are given" if alias.wins else f"; `{setting.key}` wins when both are given"),
        )
        for setting in SETTINGS
        for alias in setting.aliases
    ]
    rows += [(_code(item.key), _code(item.env), f"accepted, without effect: {item.help}") for item in RETIRED_KEYS]
    return "## Other and old names\n\n" + _table(("Key", "Environment", "What it is"), rows)


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [columns, tuple("---" for _ in columns), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
