"""Generates the settings page (`python -m lossless.settings.page`) and the JSON Schema of a host's plugin manifest."""

from __future__ import annotations

import re
import sys
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
            "help": f"Accepted, without effect: {retired.why}.",
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


_INTRO = """\
# Settings

This page is generated from the declarations in `lossless.settings` by `python -m lossless.settings.page
docs/reference/settings.md`.

Every setting has a default that works. A value is looked up in the environment, then in the config
file, then the default applies. A value that cannot be used is an error that names the key, the value,
where it came from and what is allowed. Unknown keys, old names and values that were read in an
unusual way are reported as warnings. `lcm config show` prints the current values and their sources.

## Where the config file is

The first of these that exists is read, and only that one:

1. the file given with `--config`;
2. `lossless.toml` in the working folder;
3. `$XDG_CONFIG_HOME/lossless/lossless.toml`, then `~/.config/lossless/lossless.toml`;
4. the host's file: `$OPENCLAW_CONFIG_PATH`, else `openclaw.json` in the state folder. Our settings
   are there in `plugins.entries.lossless.config`, in `plugins.entries.lossless-claw.config`, or in
   the older `plugins.config`. The file may be JSON5: comments and trailing commas stay when `lcm` writes to it.

The state folder `<state>` is `--openclaw-dir`, `$LCM_OPENCLAW_DIR`, `$OPENCLAW_STATE_DIR`,
`$OPENCLAW_HOME/.openclaw` or `~/.openclaw`, the first that is given. The archive is `--db`,
`$LCM_DATABASE_PATH`, `dbPath` or `databasePath` in the config file. Where none of them names one, it is
the one that exists already, `<state>/lcm.db` (which OpenClaw's plugin uses) before `lossless/lcm.db` in
the platform's data folder (`~/.local/share` on Linux). A new one is made in the state folder if that
exists or is named, else in the data folder.

```toml
# lossless.toml: keys as below, or in snake case (fresh_tail_count)
freshTailCount = 32
contextThreshold = 0.6

[autoRotateSessionFiles]
enabled = false
```

`lcm config set <key> <json>` writes one key: checked first, atomically, with a copy of the old
file next to it. In a `lossless.toml` one line changes and all others stay.

## How the environment is read

* A boolean that is true by default is false only for `false`; one that is false by default is true
  only for `true`. Any other text is reported.
* A number is read from the beginning of the text (`20k` is 20, and reported). Blank counts as not
  set; a text without a number, or a number out of range, is an error.
* Lists are comma-separated; blank means an empty list. `LCM_FALLBACK_PROVIDERS` is
  `provider/model,provider/model`. `LCM_MODEL_PRICES` is JSON.
* A blank text counts as not set, except for models, providers, `customInstructions` and
  `largeFilesDir`: there it overrides the config file.

Settings marked *ours* are not known to lossless-claw.
"""

_RULES = """\
## Rules for other thresholds

Each rule of `contextThresholdOverrides` has a `match` with at least one condition; all its conditions
must hold. Of several rules that hold the most specific is used (a model counts 100, a session pattern
50, each bound of the context window 20), and of equally specific ones the first. A model is matched
whole, as `provider/model` or as the bare name; the window is what the host says of the model. Nothing
in a rule is guessed: an unknown field is an error.

```toml
[[contextThresholdOverrides]]
name = "large models"                       # optional
match = { modelContextWindowMin = 900000 }  # also: model, modelContextWindowMax, sessionPattern
contextThreshold = 0.15
freshTailCount = 16                         # optional
leafChunkTokens = 12000                     # optional
```
"""

_PRICES = """\
## Prices of models

`modelPrices` holds, by `provider/model`, US dollars for a million tokens. `input` and `output` are needed;
`cacheRead` and `cacheWrite` are the input price unless they are given. A missing price is unknown,
never 0; a wrong one is an error that names the model and the field.

```toml
[modelPrices."anthropic/claude-haiku-4-5"]
input = 1
output = 5
cacheRead = 0.1                             # optional
cacheWrite = 1.25                           # optional
```
"""

_COLUMNS = ("Key", "Type", "Default", "Allowed", "Environment", "Meaning")


def settings_page() -> str:
    parts = [_INTRO]
    for section, settings in groupby(SETTINGS, key=lambda setting: setting.section):
        parts.append(f"## {section.title}\n\n{section.about}\n\n{_table(_COLUMNS, map(_row, settings))}")
    parts += [_RULES, _PRICES, _old_names()]
    parts.append("## Variables for paths\n\n" + _table(("Variable", "Meaning"), _paths()))
    return "\n".join(parts)


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
    rows += [(_code(item.key), _code(item.env), f"accepted, without effect: {item.why}") for item in RETIRED_KEYS]
    return "## Other and old names\n\n" + _table(("Key", "Environment", "What it is"), rows)


def _paths() -> Iterable[tuple[str, str]]:
    return ((_code(name), about) for name, about in PATH_VARIABLES.items())


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [columns, tuple("---" for _ in columns), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
