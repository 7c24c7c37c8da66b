"""The command page of the documentation, written from the commands themselves.

`python -m lossless.cli.page docs/reference/cli.md` writes it; with `--check` nothing is written and the exit code
is 1 when the page is out of date.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from lossless.cli.commands import GLOBAL_OPTIONS
from lossless.cli.examples import EXAMPLES
from lossless.cli.main import cli
from lossless.settings.writing import write_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_INTRO = """\
# The `lcm` command

This page is made from the commands; `python -m lossless.cli.page docs/reference/cli.md` writes it anew.

`append`, `sync`, `bootstrap`, `transcripts`, `quarantine`, `compact`, `worker`, `pin`, `unpin`, `new`, `reset`,
`backup`, `restore`, `config set`, `files explore` and the imports of [archives](../transfer.md) write; with `--apply`
also `adopt`, `stub`, `prune`, `forget`, `rotate`, `files gc`, `backfill` and the imports of transcripts; `ask` counts
the model calls that it makes.
[Surgery](../surgery.md) and the [doctor](../doctor.md) write with `--apply` or `--confirm`, `focus`, `refocus` and
`unfocus` without; `hook` and `mcp` serve [agents](../hosts/claude-code.md), `install` and `uninstall` change files of
their hosts. All others open the archive for reading only and leave its bytes as they are.

## What is printed

At a terminal `lcm` prints tables. When its output goes elsewhere, or with `--format json`, it prints one JSON
document:

```json
{"ok": true, "command": "messages.list", "data": {"items": []},
 "pagination": {"limit": 50, "returned": 0, "hasMore": false, "nextCursor": null},
 "meta": {"databasePath": "/home/me/.openclaw/lcm.db", "configPath": null}}
```

Times in JSON are ISO-8601 in UTC; in tables they are in the zone of the setting `timezone`, else of the system. A
list gives at most `--limit` rows, 1 to 500, newest first; `--cursor` with the `nextCursor` of one page gives the next.
A cursor is good for the list it came from.

A failure is one JSON document on standard error, or a sentence at a terminal:

```json
{"ok": false, "error": {"code": "not_found", "message": "…", "details": {}}}
```

| Exit code | Meaning |
| --- | --- |
| 0 | all is well |
| 1 | something unexpected happened; or something is wrong, was refused or could not be written: the answer says what |
| 2 | a wrong command, option, filter or cursor, or input that holds no message |
| 3 | there is no such archive, config file, conversation, message, summary or setting |
| 4 | the config file, or a setting in it, cannot be used |
| 5 | the archive cannot be opened, read or written |
| 130 | interrupted |

With `LCM_DEBUG=1` an unexpected error shows where it happened.
"""


def page() -> str:
    """The page as Markdown."""
    context = click.Context(cli, info_name="lcm")
    parts = [_INTRO, f"## Global options\n\nBefore or after the subcommand.\n\n{_options(GLOBAL_OPTIONS, context)}"]
    parts += [_section(command, context) for command, context in _commands(cli, context)]
    return "\n".join(parts)


def _commands(group: click.Group, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """Every command that can be run, with the context that names it."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, context, info_name=name)
        if isinstance(command, click.Group):
            yield from _commands(command, inner)
        else:
            yield command, inner


def _section(command: click.Command, context: click.Context) -> str:
    """A command: how it is called, what it does, what it takes."""
    arguments = "".join(
        f" {param.make_metavar(context)}" for param in command.params if isinstance(param, click.Argument)
    )
    options = [param for param in command.params if isinstance(param, click.Option)]
    call = f"{context.command_path}{' [OPTIONS]' if options else ''}{arguments}"
    about = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    table = f"\n{_options(options, context)}" if options else ""
    example = EXAMPLES[context.command_path].strip()
    head = f"## `{context.command_path}`\n\n```text\n{call}\n```"
    return f"{head}\n\n{about}\n\n```sh\n{example}\n```\n{table}"


def _options(options: Iterable[click.Option], context: click.Context) -> str:
    rows = [("Option", "Meaning"), ("---", "---")]
    for option in options:
        record = option.get_help_record(context)
        assert record is not None
        rows.append((f"`{record[0]}`", " ".join(record[1].split())))
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows)


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` say whether it is up to date."""
    return write_page("lossless.cli.page", page, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
