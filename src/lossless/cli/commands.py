"""Commands and groups as `lcm` has them: global options before or after the subcommand, families loaded when used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from lossless import __version__
from lossless.cli.invocation import Invocation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def text(value: str) -> str:
    """A text from the command line that can be looked up: not blank, and not bytes of another encoding."""
    if not value.strip():
        raise click.BadParameter("it is blank")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise click.BadParameter("it is not valid UTF-8")
    return value


def number(value: str) -> int:
    """The number of a conversation or a message; one that no row can have is left as the highest there is."""
    if not (value.isascii() and value.isdigit() and value.strip("0")):
        raise click.BadParameter(f"{value!r:.40} is not a number from 1 on")
    return int(value) if len(value) < 19 else 2**63 - 1


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value:
        setattr(ctx.ensure_object(Invocation), str(param.name), value)


def _say_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001
    if value:
        click.echo(f"lcm {__version__}")
        ctx.exit()


def _global(*names: str, **more: Any) -> click.Option:
    return click.Option(names, expose_value=False, **{"callback": _remember, **more})


GLOBAL_OPTIONS: tuple[click.Option, ...] = (
    _global(
        "--db",
        metavar="PATH",
        type=text,
        help="The archive; else LCM_DATABASE_PATH, the config file's, ~/.openclaw/lcm.db.",
    ),
    _global("--config", metavar="PATH", type=text, help="The config file; else lossless.toml, openclaw.json."),
    _global("--openclaw-dir", metavar="PATH", type=text, help="OpenClaw's state folder; else ~/.openclaw."),
    _global(
        "--format",
        type=click.Choice(["json", "table"]),
        help="JSON for programs, tables for people; by default tables at a terminal.",
    ),
    _global("--json", "format", flag_value="json", help="The same as --format json."),
    _global("--pretty", is_flag=True, help="Indent JSON."),
    _global("--version", is_flag=True, is_eager=True, callback=_say_version, help="Say the version."),
)


class _WithGlobals(click.Command):
    """A command that takes the global options as well."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), *GLOBAL_OPTIONS]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = [param for param in self.params if isinstance(param, click.Option)]
        help_option = self.get_help_option(ctx)
        common = [*GLOBAL_OPTIONS, *([help_option] if help_option else [])]
        _write_options(ctx, formatter, "Options", own)
        self.format_example(ctx, formatter)
        _write_options(ctx, formatter, "Global options", common)

    def format_example(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """How it may be called, where one example says it."""


def _write_options(
    ctx: click.Context, formatter: click.HelpFormatter, title: str, params: Sequence[click.Parameter]
) -> None:
    records = [record for param in params if (record := param.get_help_record(ctx))]
    if records:
        with formatter.section(title):
            formatter.write_dl(records)


class Command(_WithGlobals):
    """One command; its help has an example."""

    def format_example(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from lossless.cli.examples import lines_for_help

        lines = list(lines_for_help(ctx.command_path))
        if lines:
            formatter.write("\nExample:\n" + "".join(f"  {line}\n" for line in lines))


class Group(_WithGlobals, click.Group):
    """A family of commands."""

    command_class = Command

    def __init__(self, *args: Any, **more: Any) -> None:
        defaults: dict[str, Any] = {"no_args_is_help": False, "subcommand_metavar": "COMMAND"}
        super().__init__(*args, **(defaults | more))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if error.ctx is not ctx or error.message != "Missing command.":
                raise
            names = ", ".join(self.list_commands(ctx))
            raise click.UsageError(f"Missing command: {names}.", ctx) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            meant = get_close_matches(args[0], self.list_commands(ctx), 1)
            if not meant:
                raise
            raise click.UsageError(f"{error.message} Did you mean {meant[0]!r}?", ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        _WithGlobals.format_options(self, ctx, formatter)


class Entry(NamedTuple):
    """Where a command lives (`module:attribute`), and its line in the help: read without loading it."""

    place: str
    help: str


class LazyGroup(Group):
    """A group whose commands are imported when one of them runs; its help has them in sections."""

    def __init__(
        self,
        *args: Any,
        entries: Mapping[str, Entry] | None = None,
        sections: Mapping[str, Mapping[str, Entry]] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self.sections = sections or {"Commands": entries or {}}
        self.entries = {name: entry for section in self.sections.values() for name, entry in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.place.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, self.entries), default=0)
        for title, entries in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), entry.help) for name, entry in entries.items()])
