"""The tools page of the documentation, written from the table.

`python -m lossless.recall.page docs/reference/tools.md` writes it; with `--check` nothing is written and
the exit code is 1 when the page is out of date.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from lossless.recall.tools import ALL_TOOLS, STATUS
from lossless.settings.writing import write_page

if TYPE_CHECKING:
    from lossless.recall.arguments import Parameter
    from lossless.recall.tools import Tool

_INTRO = """\
# Tools

This page is made from the table in `lossless.recall.tools`; `python -m lossless.recall.page
docs/reference/tools.md` writes it anew. [Recall](../recall.md) says how the tools work together.

An agent gets the first five in every host, and over [MCP](../hosts/mcp.md) all six. Whatever it sends,
the result is a text of at most 40,000 characters. A call that cannot be done returns JSON:
`{"error": …, "hint": …, "errorCode": …}`. Names in snake case, numbers as text and a single text instead
of a list are understood.

Each of the five looks at the conversation of the calling session and its earlier ones. `conversationId` names
another one, `allConversations` means all. A sub-agent sees what its grant names and nothing else.
"""
_ONLY_MCP = "Over [MCP](../hosts/mcp.md), and not for sub-agents. "
_KINDS = {
    "string": "text",
    "integer": "whole number",
    "boolean": "true or false",
    "strings": "list of texts",
    "time": "time",
}


def page() -> str:
    """The page as Markdown."""
    return "\n".join([_INTRO, *(_section(tool) for tool in ALL_TOOLS)])


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` say whether it is up to date."""
    return write_page("lossless.recall.page", page, arguments)


def _section(tool: Tool) -> str:
    rows = ["| Argument | Type | Default | Allowed | Meaning |", "|---|---|---|---|---|"]
    rows += [_row(parameter) for parameter in tool.parameters]
    where = _ONLY_MCP if tool is STATUS else ""
    return f"## `{tool.name}`\n\n{where}{tool.help}\n\n" + "\n".join(rows) + "\n"


def _row(parameter: Parameter) -> str:
    default = "required" if parameter.required else _value(parameter.default)
    cells = (f"`{parameter.name}`", _KINDS[parameter.kind], default, _allowed(parameter), parameter.help)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _value(value: object) -> str:
    if value in (None, ()):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _allowed(parameter: Parameter) -> str:
    if parameter.choices:
        return ", ".join(f"`{choice}`" for choice in parameter.choices)
    if parameter.minimum is None:
        return ""
    if parameter.maximum is None:
        return f"≥ {parameter.minimum}"
    return f"{parameter.minimum} … {parameter.maximum}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
