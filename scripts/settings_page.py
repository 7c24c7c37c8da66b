"""Writes the settings page from the declarations: `python -m scripts.settings_page [--check] PAGE`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.settings.declared import SETTINGS
from lossless.settings.load import RETIRED_KEYS
from lossless.settings.page import setting_texts, write_page

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lossless.settings.setting import Setting

#: Variables for locations; not settings.
PATH_VARIABLES = {
    "LCM_OPENCLAW_DIR": "The state folder, before all others.",
    "OPENCLAW_STATE_DIR": "The state folder.",
    "OPENCLAW_HOME": "The folder that holds the state folder `.openclaw`.",
    "OPENCLAW_CONFIG_PATH": "The host's config file, else `openclaw.json` in the state folder.",
    "XDG_CONFIG_HOME": "The folder that holds `lossless/lossless.toml`, else `~/.config`.",
    "XDG_DATA_HOME": "The folder that holds `lossless/lcm.db` where OpenClaw is not used, else the platform's own.",
}
_COLUMNS = ("Key", "Type", "Default", "Allowed", "Environment", "Meaning")


def settings_page() -> str:
    by_key = {setting.key: setting for setting in SETTINGS}
    rows: dict[str, list[tuple[str, ...]]] = {}
    heading = ""
    for name, (about, _) in setting_texts().items():
        if name in by_key:
            rows[heading].append(_row(by_key[name]))
        else:
            heading = f"## {name}\n\n{about}"
            rows[heading] = []
    sections = [f"{heading}\n\n{_table(_COLUMNS, settings)}" for heading, settings in rows.items()]
    paths = _table(("Variable", "Meaning"), [(_code(name), about) for name, about in PATH_VARIABLES.items()])
    text = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    return text.replace("{sections}", "\n".join(sections)).replace("{names}", _old_names()).replace("{paths}", paths)


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` report whether it is up to date."""
    return write_page("scripts.settings_page", settings_page, arguments)


def _row(setting: Setting) -> tuple[str, ...]:
    about = setting_texts()[setting.key][0]
    meaning = f"*ours* · {about}" if setting.ours else about
    key = "environment only" if setting.env_only else _code(setting.key)
    return (key, setting.kind.word, _default(setting), _allowed(setting), _code(setting.env), meaning)


def _default(setting: Setting) -> str:
    if derived := setting_texts()[setting.key][1]:
        return derived
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
    rows += [(_code(item.key), _code(item.env), f"accepted, without effect: {item.no_effect}") for item in RETIRED_KEYS]
    return "## Other and old names\n\n" + _table(("Key", "Environment", "What it is"), rows)


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [columns, tuple("---" for _ in columns), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
