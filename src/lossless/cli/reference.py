"""The command page of the documentation, which is generated from the commands, their long help and their examples
(`python -m lossless.cli.reference FILE`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator

import click

from lossless.cli.commands import GLOBAL_OPTIONS, read_text, sections
from lossless.cli.main import OLD_SPELLINGS, cli
from lossless.settings.page import write_page


def lines_for_help(command: str) -> Iterator[str]:
    """The lines of a command's example that a person would type, with the input that belongs to them.

    >>> list(lines_for_help("lcm summary dissolve"))
    ['lcm summary dissolve ID']
    """
    in_input = False
    for line in sections("examples.txt").get(command, "").splitlines():
        if line.startswith("lcm ") or in_input:
            typed = line.replace("lcm --db demo.db ", "lcm ").replace("lcm --db anew.db ", "lcm ")
            yield re.sub(r'"\$\(.*\)"', "ID", typed)
            in_input = ("<<" in line) if line.startswith("lcm ") else line != "END"


def reference_page() -> str:
    context = click.Context(cli, info_name="lcm")
    parts = [
        read_text("reference.md"),
        f"## Global options\n\nBefore or after the subcommand.\n\n{_options(GLOBAL_OPTIONS, context)}",
    ]
    parts += [_section(command, context) for command, context in _commands(cli, context)]
    return "\n".join(parts)


def _commands(group: click.Group, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, context, info_name=name)
        if isinstance(command, click.Group):
            if name == "import":
                kindless = command.get_command(inner, "auto")
                assert kindless is not None
                yield kindless, click.Context(kindless, context, info_name="import")
            yield from _commands(command, inner)
        else:
            yield command, inner


def _section(command: click.Command, context: click.Context) -> str:
    arguments = "".join(
        f" {param.make_metavar(context)}" for param in command.params if isinstance(param, click.Argument)
    )
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    call = f"{context.command_path}{' [OPTIONS]' if options else ''}{arguments}"
    about = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    table = f"\n{_options(options, context)}" if options else ""
    example = sections("examples.txt")[context.command_path]
    head = f"## `{context.command_path}`\n\n```text\n{call}\n```"
    return f"{head}\n\n{about}\n\n```sh\n{example}\n```\n{table}"


def _options(options: Iterable[click.Option], context: click.Context) -> str:
    rows = [("Option", "Meaning"), ("---", "---")]
    for option in options:
        record = option.get_help_record(context)
        assert record is not None
        rows.append((f"`{record[0]}`", " ".join(record[1].split())))
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows)


def aliases_page() -> str:
    """The page of old spellings; those of groups that were split up are in its text."""
    old = {name: entry.help for name, entry in OLD_SPELLINGS.items() if name not in _SPLIT and entry.help}
    table = "".join(f"| `lcm {name}` | `lcm {new}` |\n" for name, new in old.items())
    tui = read_text("lcm-tui.txt").partition("\n\n")[2].rstrip()
    return read_text("aliases.md").replace("{table}", table).replace("{tui}", tui)


_SPLIT = ("conversations", "messages", "summaries")


def write_reference_page(arguments: list[str]) -> int:
    """Write the page, or with `--check` say whether it is up to date; aliases.md is the page of old spellings."""
    is_aliases = any(argument.endswith("aliases.md") for argument in arguments)
    return write_page("lossless.cli.reference", aliases_page if is_aliases else reference_page, arguments)


if __name__ == "__main__":
    sys.exit(write_reference_page(sys.argv[1:]))
