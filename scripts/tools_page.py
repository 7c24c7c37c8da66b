"""Writes the page of the tools for agents: `python -m scripts.tools_page [--check] PAGE`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.recall.tools import ALL_TOOLS, STATUS_TOOL
from lossless.settings.page import write_page

if TYPE_CHECKING:
    from lossless.recall.tools import Tool

_ONLY_MCP = "Over [MCP](../hosts/mcp.md), and not for sub-agents. "
_KINDS = {"string": "text", "integer": "whole number", "boolean": "true or false", "strings": "list of texts"}


def tools_page() -> str:
    head = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    return "\n".join([head, *(_section(tool) for tool in ALL_TOOLS)])


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` say whether it is up to date."""
    return write_page("scripts.tools_page", tools_page, arguments)


def _section(tool: Tool) -> str:
    rows = ["| Argument | Type | Default | Allowed | Meaning |", "|---|---|---|---|---|"]
    for one in tool.parameters:
        default = "required" if one.required else ""
        if not one.required and one.default not in (None, ()):
            default = f"`{str(one.default).lower() if isinstance(one.default, bool) else one.default}`"
        allowed = ", ".join(f"`{choice}`" for choice in one.choices)
        if not allowed and one.minimum is not None:
            allowed = f"≥ {one.minimum}" if one.maximum is None else f"{one.minimum} … {one.maximum}"
        cells = (f"`{one.name}`", _KINDS.get(one.kind, one.kind), default, allowed, one.help)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    where = _ONLY_MCP if tool is STATUS_TOOL else ""
    return f"## `{tool.name}`\n\n{where}{tool.help}\n\n" + "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
