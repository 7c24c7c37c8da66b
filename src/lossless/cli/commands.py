"""The click classes that every `lcm` command uses, the global options, and `Invocation`: the settings, archive and
output of one run. Loaded by `lcm --version`, so it imports nothing heavy.
"""

from __future__ import annotations

import os.path
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache, wraps
from importlib import import_module
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

import click

from lossless import __version__
from lossless.cli import failures

if TYPE_CHECKING:
    from pathlib import Path

    from click.shell_completion import CompletionItem

    from lossless.cli.screen import Data, Screen
    from lossless.compaction.summariser import Summariser
    from lossless.engine import Engine
    from lossless.files.vault import Vault
    from lossless.settings import LoadedSettings, Settings


#: How a new spelling behaves: it only reads (`read`), does at once what can be undone (`now`), or shows its plan and
#: asks (`ask`).
Rule: TypeAlias = Literal["read", "now", "ask"]
RULES: dict[str, Rule] = {"read": "read", "now": "now", "ask": "ask"}
F = TypeVar("F", bound="Callable[..., Any]")


class Invocation:
    """What the global options say, and what follows from them."""

    def __init__(self) -> None:
        self.db: str | None = None
        self.config: str | None = None
        self.openclaw_dir: str | None = None
        self.format: str | None = None
        self.pretty = False
        #: The rule of a new spelling, which prints text even into a pipe, unless JSON is asked for.
        self.rule: Rule | None = None
        self.create = False
        #: Whether what is answered was tried on a copy of the archive.
        self.is_dry_run = False
        self.exit_code = failures.OK
        self._loaded: LoadedSettings | None = None
        self._shown: tuple[Screen, Data | None] | None = None

    @property
    def as_json(self) -> bool:
        return self.format == "json" or (self.format is None and self.rule is None and not sys.stdout.isatty())

    @property
    def shows_progress(self) -> bool:
        return not self.as_json and sys.stderr.isatty()

    @property
    def loaded(self) -> LoadedSettings:
        if self._loaded is None:
            from lossless.settings import load

            if self.config is not None and not _expand_path(self.config).exists():
                raise failures.not_found(f"There is no config file {self.config!r}.", configPath=self.config)
            self._loaded = load(self.config, database=self.db, openclaw_dir=self.openclaw_dir)
        return self._loaded

    @property
    def chosen_files(self) -> list[str]:
        """The options that name the archive and the config file, as far as they were given."""
        options = (("--db", self.db), ("--config", self.config))
        return [part for name, value in options if value for part in (name, value)]

    @property
    def file_path(self) -> str:
        """The archive that is meant."""
        return str(_expand_path(self.loaded.settings.database_path or "lcm.db").absolute())

    @property
    def meta(self) -> Data:
        """What every answer says about where it comes from."""
        path = self.loaded.config_path
        meta: Data = {
            "databasePath": self.file_path,
            "configPath": None if path is None else str(_expand_path(path).absolute()),
        }
        if self.loaded.warnings:
            meta["warnings"] = [str(notice) for notice in self.loaded.warnings]
        return meta

    @property
    def vault(self) -> Vault:
        from lossless.files.vault import open_vault

        found = open_vault(self.file_path, self.loaded.settings.large_files_dir)
        assert found is not None  # an archive that a command names is a file
        return found

    def reader(self, settings: Settings | None = None, summariser: Summariser | None = None) -> Engine:
        """The engine on an archive that is there, opened for reading only: its bytes stay as they are."""
        path = self.file_path
        if not os.path.exists(path):
            raise self._no_archive(path, "`lcm init` makes one; --db or LCM_DATABASE_PATH names another.")
        return self._open(path, settings, summariser, read_only=True)

    def engine(
        self, settings: Settings | None = None, summariser: Summariser | None = None, *, dry_run: bool = False
    ) -> Engine:
        """The engine on the archive, which is made when it is not there; with settings of the command's own, if any.

        For a dry run it is one on a temporary copy, without stored files. A path after --db that leads to no archive
        may be mistyped: a person is asked, and programs say --create.
        """
        is_named = self.loaded.sources["databasePath"].kind == "option"
        if is_named and not self.create and not _has_bytes(self.file_path):
            failure = self._no_archive(self.file_path, "Add --create to make one there.")
            if dry_run or not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise failure
            from lossless.cli.options import confirm

            confirm("Make a new one there?", False, f"{failure.message} {_near_archive(self.file_path)}".rstrip())
            self.create = True
        return self._open_copy() if dry_run else self._open(self.file_path, settings, summariser, read_only=False)

    def _open_copy(self) -> Engine:
        from dataclasses import replace
        from pathlib import Path
        from tempfile import TemporaryDirectory

        from lossless.maintenance.backup import make_backup

        self.is_dry_run = True
        folder = TemporaryDirectory(prefix="lossless-")
        click.get_current_context().call_on_close(folder.cleanup)
        place = Path(folder.name, "copy.db")
        if _has_bytes(self.file_path):
            with self.reader() as engine:
                make_backup(engine.archive, place)
        quiet = replace(self.loaded.settings, payloads_in_files=False, independent_log_file_enabled=False)
        return self._open(str(place), quiet, None, read_only=False)

    def _no_archive(self, path: str, hint: str) -> failures.CommandFailed:
        hint = f"{_near_archive(path)} {hint}".strip()
        what = "The file {} is empty, not an archive." if os.path.exists(path) else "There is no archive at {}."
        return failures.not_found(what.format(path), hint=hint, databasePath=path)

    def _open(self, path: str, settings: Settings | None, summariser: Summariser | None, *, read_only: bool) -> Engine:
        from lossless.engine import open_engine

        asked = settings or self.loaded.settings
        return open_engine(path, asked, background=False, read_only=read_only, summariser=summariser)

    def progress(
        self, what: str, total: int | None = None, *, in_bytes: bool = False
    ) -> AbstractContextManager[Callable[[int], None]]:
        """A progress bar for a person who watches: call it with how many more are done."""
        if not self.shows_progress or total == 0:
            return nullcontext(ignore_progress)
        from lossless.cli.screen import progress_bar

        return progress_bar(what, total, in_bytes=in_bytes)

    def answer(
        self,
        command: str,
        data: Data,
        pagination: Data | None = None,
        *,
        view: Callable[[Screen, Data], None] | str = "",
        ok: bool = True,
        exit_code: int = failures.INTERNAL,
    ) -> Screen | None:
        """Answer a command: print an envelope for a program, else return the screen to show the data on.

        A view that several commands share shows it at once; it may be one sentence with names of the data in braces.
        The command ends with the exit code unless all is well.
        """
        from lossless.cli.screen import Screen, write_json

        self.finish()
        self.exit_code = failures.OK if ok else exit_code
        if self.is_dry_run:
            data |= {"dryRun": True} | ({"applied": False} if "applied" in data else {})
        if self.as_json:
            page = {} if pagination is None else {"pagination": pagination}
            write_json({"ok": ok, "command": command, "data": data, **page, "meta": self.meta}, pretty=self.pretty)
            return None
        for notice in self.loaded.warnings:
            click.secho(failures.printable(f"Warning: {notice}"), fg="yellow", err=True)
        screen = Screen(self.loaded.settings.timezone, self.rule, is_dry_run=self.is_dry_run)
        if self.is_dry_run:
            screen.note("A dry run: this is what would happen.")
        self._shown = screen, pagination
        if callable(view):
            view(screen, data)
        elif view:
            screen.line(view.format_map(data))
        return screen

    def finish(self) -> int:
        """End what a person sees of an answer; the exit code."""
        if self._shown is not None:
            (screen, pagination), self._shown = self._shown, None
            if self.is_dry_run:
                screen.unchanged("Leave --dry-run out to do it.")
            if pagination is not None:
                screen.footer(pagination)
        return self.exit_code


def ignore_progress(more: int) -> None:
    """Progress that no one watches."""


def _has_bytes(path: str) -> bool:
    with suppress(OSError, ValueError):
        return os.path.getsize(path) > 0
    return False


def _expand_path(path: str | Path) -> Path:
    from lossless.model.paths import expand_path

    return expand_path(path)


def _near_archive(path: str) -> str:
    """A question that names a file in the same folder whose name is much like this one's, or an empty text."""
    from difflib import get_close_matches

    folder, name = os.path.split(path)
    with suppress(OSError):
        files = [file.name for file in os.scandir(folder or ".") if file.is_file() and file.name != name]
        files = [file for file in files if not file.endswith(("-wal", "-shm", "-journal"))]
        for near in get_close_matches(name, files, 1, 0.75):
            return f"Did you mean {failures.printable(os.path.join(folder, near))}?"
    return ""


def is_utf8(text: str) -> bool:
    """Whether UTF-8 can hold the text."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def text_type(value: str) -> str:
    """A text from the command line that can be looked up: not blank, and not bytes of another encoding."""
    if not value.strip():
        raise click.BadParameter("it is blank")
    if not is_utf8(value):
        raise click.BadParameter("it is not valid UTF-8")
    return value


text_type.__name__ = "text"  # what help shows


def store_global(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Keep what a global option says; the last one wins."""
    if value:
        setattr(ctx.ensure_object(Invocation), str(param.name), value)


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001
    if value:
        click.echo(f"lcm {__version__}")
        ctx.exit()


def _global(*names: str, **more: Any) -> click.Option:
    return click.Option(names, expose_value=False, **{"callback": store_global, **more})


GLOBAL_OPTIONS: tuple[click.Option, ...] = (
    _global(
        "--db",
        metavar="PATH",
        type=text_type,
        help="The archive; else LCM_DATABASE_PATH, the config file's, or the existing one.",
    ),
    _global("--create", is_flag=True, help="Make a new archive at the path of --db without asking."),
    _global("--config", metavar="PATH", type=text_type, help="The config file; else lossless.toml or openclaw.json."),
    _global("--openclaw-dir", metavar="PATH", type=text_type, help="OpenClaw's state folder; else ~/.openclaw."),
    _global("--format", type=click.Choice(["json", "table"]), help="JSON or tables; by default tables at a terminal."),
    _global("--json", "format", flag_value="json", help="The same as --format json."),
    _global("--pretty", is_flag=True, help="Indent JSON."),
    _global("--version", is_flag=True, is_eager=True, callback=_print_version, help="Show the version."),
)


class Command(click.Command):
    """A command that takes the global options as well; its help has an example."""

    @property
    def help(self) -> str | None:
        """What it does: the docstring of its function, and what `help.txt` says under the name of the function.

        Where several commands share a function, the name of the command follows it there.
        """
        more, name = sections("help.txt"), getattr(self.callback, "__name__", self.name)
        texts = (self._first_help, more.get(f"{name} {self.name}"), more.get(str(name)))
        return "\n\n".join(filter(None, texts)) or None

    @help.setter
    def help(self, text: str | None) -> None:
        self._first_help = text and cleandoc(text)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), *GLOBAL_OPTIONS]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = [param for param in self.params if isinstance(param, click.Option)]
        _write_options(ctx, formatter, "Options", own)
        if not isinstance(self, click.Group):
            from lossless.cli.reference import lines_for_help

            if lines := list(lines_for_help(ctx.command_path)):
                formatter.write("\nExample:\n" + "".join(f"  {line}\n" for line in lines))
        if ctx.parent is None:
            help_option = self.get_help_option(ctx)
            _write_options(ctx, formatter, "Global options", [*GLOBAL_OPTIONS, *([help_option] if help_option else [])])
        else:
            names = ", ".join(max(option.opts, key=len) for option in GLOBAL_OPTIONS)
            formatter.write("\n")
            formatter.write_text(f"Global options: {names}; `lcm --help` explains them.")


@cache
def sections(file: str) -> dict[str, str]:
    """The sections of `help.txt` or `examples.txt` by their names.

    Examples are for an archive that holds a conversation of the session `agent:demo:ferry`.
    """
    found = read_text(file).replace("\\b", "\b").removeprefix("=== ").split("\n=== ")
    return {name: lines.strip("\n") for name, _, lines in (section.partition("\n") for section in found)}


def read_text(name: str) -> str:
    """A text that lies next to the code."""
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


def _write_options(
    ctx: click.Context, formatter: click.HelpFormatter, title: str, params: Sequence[click.Parameter]
) -> None:
    records = [record for param in params if (record := param.get_help_record(ctx))]
    if records:
        with formatter.section(title):
            formatter.write_dl(records)


def command(name: str, group: click.Group | None = None, **more: Any) -> Callable[[Callable[..., Any]], Command]:
    """Declares a command, of a group if there is one, whose function gets the invocation first."""

    def declare(function: Callable[..., Any]) -> Command:
        made = click.command(name, cls=Command, **more)(click.pass_obj(function))
        if group is not None:
            group.add_command(made)
        return made

    return declare


class Group(Command, click.Group):
    command_class = Command

    def __init__(self, *args: Any, default: str = "", **more: Any) -> None:
        """A group; with the name of a command, that is what it does when none is named."""
        self.default = default
        defaults: Data = {"no_args_is_help": False, "subcommand_metavar": "COMMAND"}
        alone: Data = {"invoke_without_command": True, "callback": self._run_default} if default else {}
        super().__init__(*args, **(defaults | alone | more))

    def _run_default(self) -> None:
        context = click.get_current_context()
        if context.invoked_subcommand is None:
            context.invoke(self.commands[self.default])

    @property
    def synonyms(self) -> dict[str, str]:
        """Words that people try, and the commands that they mean."""
        lines = [line.split(": ") for line in read_text("synonyms.txt").splitlines()]
        return {word: meant for name, meant, words in lines if name == self.name for word in words.split()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [name for name, one in self.commands.items() if not one.hidden]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if error.ctx is not ctx or error.message != "Missing command.":
                raise
            if not ctx.ensure_object(Invocation).as_json:
                click.echo(ctx.get_help(), err=True)
                raise click.exceptions.Exit(failures.BAD_ARGUMENTS) from None
            names = ", ".join(self.list_commands(ctx))
            raise click.UsageError(f"Missing command: {names}.", ctx) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            meant = self.nearest_commands(args[0], self.list_commands(ctx))
            if not meant:
                raise
            asked = " or ".join(map(repr, meant))
            raise click.UsageError(f"{error.message} Did you mean {asked}?", ctx) from None

    def nearest_commands(self, word: str, names: Sequence[str]) -> list[str]:
        """The commands, of these names, that a mistyped one may mean."""
        from difflib import get_close_matches

        word, known = word.lower(), self.synonyms
        near = [word] if word in known else get_close_matches(word, [*known, *names], 1)
        return known.get(near[0], near[0]).split("|") if near else []

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        Command.format_options(self, ctx, formatter)


class CommandEntry(NamedTuple):
    """Where a command lives (`module:attribute`, a module of this package unless it has a dot), and its line in the
    help: read without loading it.
    """

    place: str
    #: Of an old spelling, the new one.
    help: str
    #: How a new spelling behaves; None: as the command itself says, JSON in a pipe included.
    rule: Rule | None = None


def command_table() -> dict[str, dict[str, CommandEntry]]:
    """The entries of commands by the sections of `commands.txt`."""
    table: dict[str, dict[str, CommandEntry]] = {}
    for line in read_text("commands.txt").splitlines():
        if line.startswith("== "):
            entries = table.setdefault(line.removeprefix("== "), {})
        elif line and not line.startswith("#"):
            name, rule, place, *about = line.split(maxsplit=3)
            entries[name] = CommandEntry(place, "".join(about), RULES.get(rule))
    return table


class LazyGroup(Group):
    """A group whose commands are imported when one of them runs; its help has them in sections.

    Old spellings work and are not shown.
    """

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, Mapping[str, CommandEntry]],
        old_spellings: Mapping[str, CommandEntry] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self.sections = sections
        self.entries = {name: entry for section in self.sections.values() for name, entry in section.items()}
        self.old_spellings = old_spellings or {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = self.entries.get(cmd_name) or self.old_spellings.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.place.partition(":")
        module = module if "." in module else f"lossless.cli.{module}"
        command: click.Command = getattr(import_module(module), attribute)
        return command if entry.rule is None else new_spelling(command, cmd_name, entry.rule)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        found = super().resolve_command(ctx, args)
        entry = self.entries.get(str(found[0])) or self.old_spellings.get(str(found[0]))
        if entry is not None and entry.rule is not None:
            ctx.ensure_object(Invocation).rule = entry.rule
        return found

    def nearest_commands(self, word: str, names: Sequence[str]) -> list[str]:
        return super().nearest_commands(word, [*names, *self.old_spellings])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        names = {name: entry for name, entry in self.entries.items() if name.startswith(incomplete)}
        options = [] if not incomplete.startswith("-") else click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=entry.help) for name, entry in names.items()), *options]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, self.entries), default=0)
        for title, entries in self.sections.items():
            with formatter.section(title):
                # as click writes it, without the time that wrapping takes
                formatter.write("".join(f"  {name:<{width}}  {entry.help}\n" for name, entry in entries.items()))


_DRY_RUN = click.Option(["--dry-run"], is_flag=True, help="Show what would be done; change nothing.")
_YES = click.Option(["--yes", "-y"], is_flag=True, help="Do it without asking.")


def new_spelling(command: click.Command, name: str, rule: Rule) -> click.Command:
    """The command under a new name and the one rule for changes; its own `--apply` and `--confirm` are gone."""
    from copy import copy

    made = copy(command)
    made.name = name
    if isinstance(command, click.Group) or rule == "read":
        return made
    old = {str(param.name): param for param in command.params}
    flags = {"is_real", "dry_run", "yes"} & old.keys()
    made.params = [param for param in command.params if param.name not in flags]
    made.params += [_DRY_RUN] if rule == "now" else [_YES, _DRY_RUN]
    run = command.callback
    assert run is not None

    @wraps(run)
    def changed(*args: Any, dry_run: bool, yes: bool = False, **given: Any) -> Any:
        if rule == "now":
            is_real, yes = not dry_run, True
        else:
            is_real = not dry_run and (yes or sys.stdin.isatty())
        click.get_current_context().ensure_object(Invocation).rule = rule
        words = {"is_real": is_real, "dry_run": not is_real, "yes": yes}
        return run(*args, **given, **{flag: words[flag] for flag in flags})

    made.callback = changed
    return made
