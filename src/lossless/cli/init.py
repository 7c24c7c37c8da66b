"""`lcm` alone, `lcm init`, `connect` and `disconnect`: what is on this machine, the way from nothing to an archive that
answers, and what connects a host to it; and `bridge` and `hook`, which hosts call.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures, options
from lossless.cli.commands import Command, Group, Invocation, command
from lossless.cli.screen import Data, Screen, message_counts, pick_json, styled
from lossless.errors import LosslessError
from lossless.model.context import EXTRACTIVE_MODEL
from lossless.model.paths import expand_path
from lossless.settings.load import ProcessEnvironment
from lossless.tui.text import format_bytes, home_path, plural

if TYPE_CHECKING:
    from lossless.engine import Engine
    from lossless.hosts.config_files import FileEdit
    from lossless.hosts.hook_config import HostCommands
    from lossless.transfer.transcripts import ImportOutcome, LocalHistory


#: So many bytes of each program's newest transcripts come first, so that something can be found soon.
_FIRST_BYTES = 1_000_000
_HOSTS = {"claude-code": "Claude Code", "codex": "Codex", "openclaw": "OpenClaw"}
_CONNECT = "Connect {}, so that every message is kept and can be recalled?"
_CONNECT_OPENCLAW = "Make lossless OpenClaw's context engine (restart its gateway afterwards)?"
_NO_MODEL = "none"


def show_overview(invocation: Invocation) -> None:
    """What `lcm` alone says: what is kept and what to do next, or what could be kept and how to begin."""
    invocation.format = invocation.format or "table"
    path = Path(invocation.file_path)
    if path.exists():
        invocation.answer("overview", _archive_json(invocation), view=print_overview)
        return
    found = _find(invocation)
    data: Data = {"archive": None, "path": str(path), "found": [_history_json(item) for item in found]}
    invocation.answer("overview", data, view=print_overview)
    if _can_ask(invocation):
        click.echo(err=True)
        if click.confirm("Run `lcm init` now?", default=True, err=True):
            _Setup(invocation, asks=True, found=found).run()


def _archive_json(invocation: Invocation) -> Data:
    from lossless.cli.config import writer_name

    with invocation.reader() as engine, engine.browse.reading():
        totals, health = engine.browse.totals(), engine.browse.health()
        archive = {
            **pick_json(totals.counts, "conversations", "messages", "summaries"),
            "sizeBytes": engine.browse.size()[0],
            "lastStoredAt": health.last_stored_at,
            "summariesBy": writer_name(invocation.loaded.settings),
        }
    # a second archive in the other usual place is easily overlooked
    other = ProcessEnvironment.of(openclaw_dir=invocation.openclaw_dir).data_dir / "lcm.db"
    is_chosen = invocation.loaded.sources["databasePath"].kind != "default"
    seen = None if is_chosen or not other.is_file() or str(other) == invocation.file_path else str(other)
    return {"archive": archive, "path": invocation.file_path, "otherArchive": seen}


def print_overview(screen: Screen, data: Data) -> None:
    archive = data["archive"]
    if archive is None:
        screen.line("lossless keeps every word of your agent conversations in one local file.")
        screen.gap()
        _print_found(screen, data["found"])
        imports = "import this history and connect these programs" if data["found"] else "make an archive"
        steps = {"init": imports, "demo": "see on a made-up conversation what lossless does", "--help": "all commands"}
    else:
        screen.title("lossless", format_bytes(archive["sizeBytes"]))
        click.echo(failures.printable(f"  {data['path']}"))  # on a line of its own, which nothing breaks
        counted = f"{plural(archive['conversations'], 'conversation')}, {message_counts(archive)}"
        screen.line(f"  {counted}; last stored {screen.ago(archive['lastStoredAt'])}")
        writer = archive["summariesBy"]
        screen.line(f"  Summaries: {'no model, made of the text itself' if writer == EXTRACTIVE_MODEL else writer}")
        if data["otherArchive"]:
            screen.warn(f"  Another archive, not used: {data['otherArchive']}")
        steps = {
            "recall …": "find messages by a question, or by some words",
            "tui": "browse everything",
            "init": "import what is new on this machine, and connect programs",
        }
    screen.gap()
    screen.line("Next:")
    for name, about in steps.items():
        screen.line("  ", styled(f"lcm {name:<12}", "bold"), about)
    if archive is not None:
        screen.note("All commands: lcm --help")


def _print_found(screen: Screen, found: Sequence[Data]) -> None:
    if not found:
        screen.line("No agent programs were found on this machine.")
        return
    screen.line("Found on this machine (only names and sizes were read):")
    columns = "  Program=program, Files=files:count, Size=bytes:bytes, Newest=newestAt:date, =rest:rest"
    screen.items(found, columns, program=lambda item: f"  {item['program']}", rest=lambda _: "")


def _find(invocation: Invocation) -> list[LocalHistory]:
    from lossless.transfer.transcripts import find_local_histories

    return find_local_histories(ProcessEnvironment.of(openclaw_dir=invocation.openclaw_dir))


def _history_json(item: LocalHistory) -> Data:
    return {**pick_json(item, "program", "kind"), "files": len(item.files), **pick_json(item, "bytes", "newest_at")}


def _can_ask(invocation: Invocation) -> bool:
    return not invocation.as_json and failures.is_at_terminal()


@command("init")
@options.flag("--yes", "-y", help="Ask nothing: take the default of each question.")
@options.flag("--dry-run", help="Show what would be done; change nothing.")
@options.flag("--no-import", help="Do not import the transcripts on this machine.")
@click.option(
    "--connect", "hosts", metavar="HOST", type=click.Choice([*_HOSTS, _NO_MODEL]), multiple=True,
    help="Connect only these hosts: claude-code, codex, openclaw; or none.",
)  # fmt: skip
@options.text("--model", metavar="NAME", help="The model that writes summaries, as for `lcm model use`; or none.")
def init(
    invocation: Invocation, yes: bool, dry_run: bool, no_import: bool, hosts: tuple[str, ...], model: str | None
) -> None:
    """Make an archive, import the history on this machine, and connect the programs that are here."""
    invocation.format = invocation.format or "table"
    invocation.create = True  # to make an archive is what this command is for
    if _NO_MODEL in hosts and len(hosts) > 1:
        raise options.usage_error("--connect none goes with no other --connect.")
    asks = not (yes or dry_run) and _can_ask(invocation)
    if not (yes or dry_run or asks):
        hint = "Give --yes to take the defaults, or --dry-run to see them."
        raise failures.fail("no_terminal", "`lcm init` asks questions at a terminal.", hint=hint)
    setup = _Setup(invocation, asks=asks)
    setup.may_import, setup.model, setup.dry_run, setup.hosts = not no_import, model or "", dry_run, hosts
    setup.run()


class _Setup:
    """One run of `lcm init`: with the hosts and the model that were chosen, asking about the others."""

    may_import, model, dry_run, hosts = True, "", False, tuple[str, ...]()

    def __init__(self, invocation: Invocation, *, asks: bool, found: list[LocalHistory] | None = None) -> None:
        self.invocation, self.asks, self.found = invocation, asks, found
        self.screen = Screen(invocation.loaded.settings.timezone)
        self.places = ProcessEnvironment.of(openclaw_dir=invocation.openclaw_dir)
        self.is_new = not Path(invocation.file_path).exists()
        self.problems: list[str] = []
        self.data: Data = {"path": invocation.file_path, "created": self.is_new}

    def run(self) -> None:
        """Ask, then do; the first command that finds something is printed as soon as there is one."""
        found = _find(self.invocation) if self.found is None else self.found
        self.data |= {"dryRun": self.dry_run, "found": [_history_json(item) for item in found]}
        if not self.invocation.as_json and self.found is None:
            _print_found(self.screen, self.data["found"])
        self._say("", f"Archive: {self.invocation.file_path} ({'new' if self.is_new else 'there already'})", "")
        can_import = [item for item in found if item.files]
        imports = self._choose_import(can_import)
        hosts = self._choose_hosts({item.kind for item in found if item.kind in _HOSTS})
        model = self._choose_model()
        if self.dry_run:
            files = self._unread(can_import) if imports else []
            self.data |= {"imports": len(files), "connects": list(hosts), "model": model}
            count = plural(len(files), "transcript") if files else "nothing: there is nothing new"
            self._say("", "Nothing was changed (--dry-run). It would:", f"  import {count}")
            self._say(*(f"  connect {host}" for host in hosts))
            self._say(f"  let {model} write summaries" if model else "  not change the model for summaries")
            self.invocation.answer("init", self.data)
            return
        with self.invocation.engine() as engine:
            later = self._import_newest(engine, can_import) if imports else []
            example = self._example(engine)
            if later and example:
                self._say("", f"You can search already: {example['command']}", "")
            self._connect(hosts)
            if model is not None:
                self._use_model(model)
            if later:
                self._import(engine, later, "Importing the rest")
                example = self._example(engine) or example
        self._finish(example)

    def _ask(self, question: str, *, default: bool = True) -> bool:
        return click.confirm(question, default=default, err=True) if self.asks else default

    def _choose_import(self, found: Sequence[LocalHistory]) -> bool:
        from lossless.model.paths import file_size

        if not found or not self.may_import or not self.asks:
            return bool(found) and self.may_import
        if not (files := self._unread(found)):
            self._say("Every transcript is imported already.")
            return False
        return self._ask(f"Import {plural(len(files), 'transcript')} ({format_bytes(sum(map(file_size, files)))})?")

    def _choose_hosts(self, here: set[str]) -> list[str]:
        """The hosts to connect: of those on this machine that are not connected yet, those that were chosen."""
        chosen = []
        for host, name in _HOSTS.items():
            is_here = host in here and (host != "openclaw" or self.places.host_config.is_file())
            if not (host in self.hosts if self.hosts else is_here):
                continue
            try:
                files = connect_host(self.invocation, host, dry_run=True)["files"]
            except (LosslessError, OSError) as error:
                self._problem(f"{name} cannot be connected: {error}")
                continue
            question = _CONNECT_OPENCLAW if host == "openclaw" else _CONNECT.format(name)
            if all(file["change"] == "unchanged" for file in files):
                self._say(f"{name} is connected already.")
            elif self.hosts or self._ask(question, default=host != "openclaw"):  # replaces something that works
                chosen.append(host)
        return chosen

    def _choose_model(self) -> str | None:
        from lossless.cli.config import model_suggestions, writer_name

        if self.model:
            return self.model
        if not self.asks or writer_name(self.invocation.loaded.settings) != EXTRACTIVE_MODEL:
            return None
        click.echo("\nSummaries need no model, but a model writes better ones. For example:", err=True)
        for name, about in model_suggestions():
            click.echo(f"  {name:<28}{about}", err=True)
        answer = str(click.prompt("Model", default=_NO_MODEL, err=True)).strip()
        return None if answer.lower() in ("", _NO_MODEL) else answer

    def _import_newest(self, engine: Engine, found: Sequence[LocalHistory]) -> list[tuple[str, list[Path]]]:
        from lossless.model.paths import file_size

        first, later = [], []
        for item in found:
            sizes = accumulate(map(file_size, item.files))
            count = max(1, sum(size <= _FIRST_BYTES for size in sizes))
            first.append((item.kind, list(item.files[:count][::-1])))
            if rest := list(item.files[count:][::-1]):
                later.append((item.kind, rest))
        self._import(engine, first, "Importing the newest" if later else "Importing")
        return later

    def _import(self, engine: Engine, groups: Sequence[tuple[str, list[Path]]], what: str) -> None:
        """Store transcripts; their summaries are left to `lcm backfill`, or to the first time one is needed."""
        from lossless.ingest.transcripts.reading import detect_other_kind
        from lossless.model.paths import file_size

        total = sum(file_size(file) for _, files in groups for file in files)
        outcomes: list[ImportOutcome] = []
        with self.invocation.progress(what, total, in_bytes=True) as advance:
            for kind, files in groups:
                own = [file for file in files if detect_other_kind(file, kind) is None]
                outcomes += engine.transfer.import_transcripts(kind, own, fold=False, progress=advance)
        counts: Counter[str] = Counter(self.data.get("imported", {}))
        for item in outcomes:
            counts[item.status] += 1
            counts["messages"] += item.messages
            if item.status == "error":
                self._problem(f"{item.path}: {item.reason}")
        self.data["imported"] = dict(counts)

    def _connect(self, hosts: Sequence[str]) -> None:
        for host in hosts:
            try:
                done = connect_host(self.invocation, host, dry_run=False)
            except (LosslessError, OSError) as error:
                self._problem(f"{_HOSTS[host]} cannot be connected: {error}")
                continue
            self.data.setdefault("connected", []).append(done)
            files = [file for file in done["files"] if file["change"] != "unchanged"]
            self._say("", f"Connected {_HOSTS[host]}; `lcm disconnect {host}` takes this back:")
            self._say(*(f"  {file['change']} {home_path(file['path'])}" for file in files))
            self._say(*(f"  note: {remark}" for remark in done.get("remarks", ())))

    def _use_model(self, name: str) -> None:
        from lossless.cli.config import print_model_use, use_model

        try:
            self.data["model"] = use_model(self.invocation, name)
        except (LosslessError, failures.CommandFailed) as error:
            outcome = failures.as_failure(error)
            self._problem(f"The model was not changed: {outcome.message} {outcome.hint}".rstrip())
            return
        if not self.invocation.as_json:
            print_model_use(self.screen, self.data["model"])

    def _example(self, engine: Engine) -> Data | None:
        if (found := find_example(engine)) is None:
            return None
        given = map(shlex.quote, self.invocation.chosen_files)
        return found | {"command": " ".join(["lcm", *given, "recall", f'"{found["words"]}"'])}

    def _unread(self, found: Sequence[LocalHistory]) -> list[Path]:
        from lossless.transfer.transcripts import unread_files

        if self.is_new:
            return [file for item in found for file in item.files]
        with self.invocation.reader() as engine:
            return [file for item in found for file in unread_files(engine.archive, item.kind, item.files)]

    def _finish(self, example: Data | None) -> None:
        self.data |= {"example": example, "problems": self.problems[:100]}
        if counts := self.data.get("imported"):
            new, same = counts.get("imported", 0), counts.get("up-to-date", 0)
            what = f"{plural(new, 'conversation')}, {plural(counts['messages'], 'message')}" if new else "nothing new"
            self._say("", f"Imported: {what}{f'; {same:,} were there already' if same else ''}.")
        if example is None:
            self._say("", 'The archive is empty. Once there is something in it, `lcm recall "…"` finds it.')
        else:
            where = f"{plural(example['passages'], 'passage')} from {plural(example['conversations'], 'conversation')}"
            self._say("", f"Done. You can find every message; this finds {where}:", "", f"  {example['command']}", "")
            self._say("`lcm tui` browses everything, `lcm` shows what else to do.")
        self.invocation.answer("init", self.data, ok=not self.problems)

    def _say(self, *lines: str) -> None:
        if not self.invocation.as_json:
            for line in lines:
                click.echo(failures.printable(line))

    def _problem(self, text: str) -> None:
        self.problems.append(text)
        self._say(f"Problem: {text}")


_WORD = re.compile(r"[^\W\d_]{5,16}")
_TRIED_CONVERSATIONS, _TRIED_MESSAGES = 12, 8


def find_example(engine: Engine) -> Data | None:
    """Words of the newest conversations with which `lcm recall` finds something; None when nothing was said.

    The words are plain ones that a person wrote, and the search is made before it is offered.
    """
    for row in engine.browse.conversations(_TRIED_CONVERSATIONS, by_message=True).rows:
        messages = engine.browse.messages(row.conversation_id, _TRIED_MESSAGES, roles=("user",)).rows
        for message in messages:
            words = _telling_words(message.content)
            if len(words) < 2:
                continue
            found = engine.recall(" ".join(words), all_conversations=True).evidence
            if any(all(word in item.text.casefold() for word in words) for item in found):
                places = {item.conversation_id for item in found}
                return {"words": " ".join(words), "passages": len(found), "conversations": len(places)}
    return None


def _telling_words(text: str) -> list[str]:
    """The longest words of a text without stop words, at most three, in the order of the text."""
    from lossless.model.search_text import STOP_WORDS

    if text.lstrip().startswith(("<", "{", "[", "#")):  # what a program wrote
        return []
    known = frozenset[str]().union(*STOP_WORDS.values())
    words = dict.fromkeys(word for word in map(str.casefold, _WORD.findall(text)) if word not in known)
    longest = sorted(words, key=len, reverse=True)[:3]
    return [word for word in words if word in longest]


install = Group("install", help="Connect a host to the archive with hooks and tools.")
uninstall = Group("uninstall", help="Remove from a host what `lcm connect` added.")
_PROJECT = options.folder("--project", "For one project, in its own files.")
_USER = options.flag("--user", help="For all projects, in the user's files; this is the default.")
_DRY_RUN = options.flag("--dry-run", help="Show what would be changed; change nothing.")
_DOCTOR = options.flag("--doctor", help="Only check whether everything is in place and works.")


def _agent_commands(name: str, about: str) -> None:
    """`lcm connect` and `lcm disconnect` of a host with hooks."""

    @command(name, install, short_help=about)
    @_PROJECT
    @_USER
    @_DRY_RUN
    @_DOCTOR
    def connect(invocation: Invocation, project: Path | None, user: bool, dry_run: bool, doctor: bool) -> None:
        from lossless.hosts.claude_code.setup import check_setup

        host, places = _agent(name, project, user)
        if doctor:
            again = f"lcm connect {name}{f' --project {project}' if project else ''}"
            checks = check_setup(host, places, again, invocation.file_path)
            listed = [pick_json(one, "name", "ok", "said=detail") | {"hint": one.hint or None} for one in checks]
            view = partial(print_checks, unknown={found.name for found in checks if not found.is_known})
            data = {"host": name, "checks": listed}
            invocation.answer("install.doctor", data, view=view, ok=all(check.ok for check in checks))
        else:
            made = _connect_agent(invocation, name, host, places, by_name=project is not None, dry_run=dry_run)
            invocation.answer("install", made, view=partial(print_changes, undo="disconnect"))

    @command(name, uninstall, short_help=about)
    @_PROJECT
    @_USER
    @_DRY_RUN
    def disconnect(invocation: Invocation, project: Path | None, user: bool, dry_run: bool) -> None:
        host, places = _agent(name, project, user)
        files = change_files(host.uninstall_edits(places), dry_run=dry_run)
        data = {"host": name, "applied": not dry_run, "files": files}
        invocation.answer("uninstall", data, view=partial(print_changes, undo="connect"))


def _agent(name: str, project: Path | None = None, user: bool = False) -> tuple[Any, Any]:
    """What knows a host with hooks, and the files of that host which are meant."""
    if project is not None and user:
        raise options.usage_error("Give --project or --user, not both.")
    host: Any = import_module("lossless.hosts.codex" if name == "codex" else "lossless.hosts.claude_code.setup")
    return host, host.user_files() if project is None else host.project_files(project.absolute())


def connect_host(invocation: Invocation, name: str, *, dry_run: bool) -> Data:
    """Give a host what it needs, for all projects, and say what changed, or would."""
    if name == "openclaw":
        return _change_openclaw(invocation, None, dry_run=dry_run)
    return _connect_agent(invocation, name, *_agent(name), by_name=False, dry_run=dry_run)


def _connect_agent(invocation: Invocation, name: str, host: Any, places: Any, *, by_name: bool, dry_run: bool) -> Data:
    from lossless.hosts.claude_code.setup import missing_package
    from lossless.hosts.config_files import read_object, read_text
    from lossless.hosts.hook_config import command_in

    before = command_in(read_object(places.settings, read_text(places.settings)), host.own_server(places))
    commands, archive = _programs(invocation, before, by_name=by_name)
    files = change_files(host.install_edits(places, commands), dry_run=dry_run)
    remarks = list(filter(None, [missing_package()]))
    return {"host": name, "applied": not dry_run, "files": files, "archive": archive, "remarks": remarks}


def _programs(invocation: Invocation, before: Sequence[str] | None, *, by_name: bool) -> tuple[HostCommands, str]:
    """The commands to write down, and the archive that they use.

    An archive or a config file that was chosen for this run is chosen for them, too; else those of the commands that
    are there already stay.
    """
    from lossless.hosts.hook_config import host_commands, options_in
    from lossless.settings import load

    loaded = invocation.loaded
    is_chosen = invocation.openclaw_dir is not None or loaded.sources["databasePath"].kind in ("option", "env")
    database, config = invocation.file_path if is_chosen else None, invocation.config
    if before is not None:
        known_database, known_config = options_in(before)
        database = known_database if database is None and config is None else database
        config = known_config if config is None and known_config and Path(known_config).exists() else config
    elif config is None and loaded.config_path is not None and loaded.config_path.absolute().parent == Path.cwd():
        config = str(loaded.config_path)
    used = load(config, cwd=Path.home(), database=database).settings.database_path or "lcm.db"
    return host_commands(database=database, config=config, by_name=by_name), str(Path(used).absolute())


def change_files(edits: Sequence[FileEdit], *, dry_run: bool) -> list[Data]:
    from lossless.hosts.config_files import apply_edits

    done = edits if dry_run else apply_edits(edits, datetime.now(UTC))
    return [pick_json(item, "path", "change", "backup") | {"note": item.note or None} for item in done]


_agent_commands("claude-code", "Claude Code: hooks, MCP server, skill.")
_agent_commands("codex", "Codex CLI: hooks, MCP server.")

_STATE = options.folder(
    "--state-dir", "OpenClaw's state folder; else OPENCLAW_STATE_DIR, else ~/.openclaw.", exists=False
)


@command("openclaw", install, short_help="OpenClaw: the context engine.")
@_STATE
@_DRY_RUN
def install_openclaw(invocation: Invocation, state_dir: Path | None, dry_run: bool) -> None:
    """Make lossless the context engine of OpenClaw."""
    done = _change_openclaw(invocation, state_dir, dry_run=dry_run)
    invocation.answer("install", done, view=partial(print_changes, undo="disconnect"))


@command("openclaw", uninstall, short_help="OpenClaw: the context engine.")
@_STATE
@_DRY_RUN
def uninstall_openclaw(invocation: Invocation, state_dir: Path | None, dry_run: bool) -> None:
    """Remove the plugin from OpenClaw's config, and put back what it replaced there. The archive stays."""
    done = _change_openclaw(invocation, state_dir, dry_run=dry_run, is_removal=True)
    invocation.answer("uninstall", done, view=partial(print_changes, undo="connect"))


@click.command("bridge", cls=Command)
def bridge() -> None:
    """Answer OpenClaw's plugin on standard input and output; the plugin starts it."""
    from lossless.hosts.openclaw.service import main

    raise click.exceptions.Exit(main())


def _change_openclaw(
    invocation: Invocation, state_dir: Path | None, *, dry_run: bool, is_removal: bool = False
) -> Data:
    from lossless.hosts.openclaw import setup

    path = ProcessEnvironment.of(openclaw_dir=invocation.openclaw_dir).host_config
    if state_dir is not None:
        path = expand_path(state_dir).absolute() / "openclaw.json"
    made = setup.uninstall(path) if is_removal else setup.install(path, setup.plugin_folder(), sys.executable)
    done: Data = {"host": "openclaw", "applied": not dry_run, "files": change_files(made.edits, dry_run=dry_run)}
    return done | {"changes": list(made.changes), "remarks": list(made.remarks)}


@command("hook", context_settings={"ignore_unknown_options": True})
@click.argument("event", nargs=-1, type=click.UNPROCESSED)
def hook(invocation: Invocation, event: tuple[str, ...]) -> None:
    """Answer one event of a host's hook: EVENT as JSON, else read from standard input."""
    from lossless.hosts.claude_code.hook import main

    main([*invocation.chosen_files, *event])


def print_changes(screen: Screen, data: Data, undo: str) -> None:
    screen.title(data["host"], "" if data["applied"] else "nothing was changed (--dry-run)")
    for file in data["files"]:
        screen.line(f"{file['change']:<10}{home_path(file['path'])}")
        copied = f"copy of the old file: {home_path(file['backup'])}" if file["backup"] else ""
        for about in filter(None, (copied, file["note"])):
            screen.prose(styled(about, "dim"), 10)
    if data.get("archive"):
        screen.line(f"{'archive':<10}{home_path(data['archive'])}")
        screen.note(f"{'':<10}another one: lcm --db PATH connect {data['host']}")
    if data["applied"] and any(file["change"] != "unchanged" for file in data["files"]):
        screen.undo(f"lcm {undo} {data['host']}")
    for remark in data.get("remarks", ()):
        screen.line(styled(f"{'note':<10}", "yellow"), remark)


def print_checks(screen: Screen, data: Data, unknown: Collection[str] = ()) -> None:
    screen.title(data["host"])
    for check in data["checks"]:
        mark = styled("ok  ", "green") if check["ok"] else styled("no  ", "bold red")
        mark = styled("?   ", "yellow") if check["name"] in unknown else mark
        screen.line(mark, f"{check['name']:<14}{check['said']}")
        if check["hint"]:
            screen.prose(check["hint"], 18)
