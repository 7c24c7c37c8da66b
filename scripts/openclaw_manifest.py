"""Writes the files of the OpenClaw plugin that are made from declarations.

`python -m scripts.openclaw_manifest bridges/openclaw`; with `--check` nothing is written, and the exit code is 1 when
one of them is out of date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from lossless import __version__
from lossless.hosts.openclaw.commands import SLASH_COMMANDS
from lossless.hosts.openclaw.manifest import OWN_SETTINGS, manifest
from lossless.hosts.openclaw.service import PROTOCOL
from lossless.recall.tools import TOOLS


def declarations() -> dict[str, Any]:
    """`declared.json`: what the plugin registers before Python runs."""
    return {
        "version": __version__,
        "protocol": PROTOCOL,
        "ownSettings": list(OWN_SETTINGS),
        "commands": {name: does for name, (_, does) in SLASH_COMMANDS.items()},
        "tools": [{"name": tool.name, "description": tool.help, "parameters": tool.schema} for tool in TOOLS],
    }


def files() -> dict[str, str]:
    made = {"openclaw.plugin.json": manifest(), "declared.json": declarations()}
    return {name: json.dumps(value, indent=2, ensure_ascii=False) + "\n" for name, value in made.items()}


def main(arguments: list[str]) -> int:
    folders = [argument for argument in arguments if argument != "--check"]
    if len(folders) != 1:
        sys.stderr.write("usage: python -m scripts.openclaw_manifest [--check] FOLDER\n")
        return 2
    code = 0
    for name, text in files().items():
        path = Path(folders[0]) / name
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"{path} is out of date: python -m scripts.openclaw_manifest {folders[0]}\n")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
