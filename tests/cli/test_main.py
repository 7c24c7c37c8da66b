"""The command as a whole: where things are looked for, how it starts, how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

import lossless
from lossless.cli.commands import sections
from lossless.cli.main import cli
from lossless.cli.reference import write_reference_page as write_page

from .conftest import said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Lcm

LCM = [sys.executable, "-W", "error", "-m", "lossless.cli.main"]
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def run(*arguments: object, env: dict[str, str] | None = None, **more: Any) -> subprocess.CompletedProcess[str]:
    """A real process."""
    return subprocess.run(
        [*LCM, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | (env or {}),
        **more,
    )


@pytest.mark.parametrize("arguments", [("--version",), ("status", "--version"), ("messages", "list", "--version")])
def test_the_version(lcm: Lcm, arguments: tuple[str, ...]) -> None:
    answer = lcm(*arguments)
    assert (answer.code, answer.out) == (0, f"lcm {lossless.__version__}\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that takes nothing")
def test_a_version_that_cannot_be_written_is_an_error_without_a_trace() -> None:
    script = "import sys\nfrom lossless.cli import run\nsys.argv = ['lcm', '--version']\nrun()"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", script], stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )
    assert done.returncode == 1
    assert done.stderr == "Error: The answer cannot be written: No space left on device.\n"


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_starting_loads_nothing_heavy(option: str) -> None:
    script = (
        "import sys\nfrom lossless.cli.main import cli\n"
        f"try:\n    cli.main(args=[{option!r}])\nexcept SystemExit as leaving:\n    assert not leaving.code\n"
        "ours = {name for name in sys.modules if name.startswith('lossless.') and name.count('.') == 1}\n"
        "print(sorted(ours | {'apsw', 'rich', 'regex', 'sqlite3', 'difflib'} & sys.modules.keys()), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == "['lossless.cli', 'lossless.errors']\n"


def test_help_of_every_command(lcm: Lcm) -> None:
    assert lcm("--help").out == lcm("-h").out
    assert lcm("grep", "--help").out == lcm("grep", "-h").out
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        answer = lcm(name, "--help")
        assert answer.code == 0
        assert "Global options:" in answer.out
        assert "--openclaw-dir" in answer.out
        assert command.name == name
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                assert lcm(name, inner, "--help").code == 0
                assert inner in answer.out


def test_the_list_of_commands_says_what_each_is(lcm: Lcm) -> None:
    shown = " ".join(lcm("--help").out.split())
    for name, entry in cli.entries.items():
        assert f"{name} {entry.help}" in shown


def test_every_long_help_belongs_to_a_command() -> None:
    def texts(command: click.Command) -> Iterator[str]:
        yield command.help or ""
        if isinstance(command, click.Group):
            context = click.Context(command)
            inner = (*command.commands, *getattr(command, "entries", ()), *getattr(command, "old_spellings", ()))
            for found in filter(None, (command.get_command(context, name) for name in inner)):
                yield from texts(found)

    shown = set(texts(cli))
    assert not [text for text in shown if "\n " in text]  # an indented line would leave a gap in the paragraph
    for name, text in sections("help.txt").items():
        assert any(text in one for one in shown), name


def test_help_says_how_a_command_is_called(lcm: Lcm) -> None:
    shown = lcm("search", "--help").out
    assert "\nExample:\n  lcm search sandbox merchant\n" in shown
    assert "\n  WORDS\n" not in shown, "an argument is no option"
    assert shown.index("--since") < shown.index("Global options: --db")
    assert "\n  lcm summary dissolve ID\n" in lcm("summary", "dissolve", "--help").out
    assert lcm("append", "--help").out.count("\n  END\n") == 1
    assert lcm("prompts", "show", "--help").out.startswith("Usage: lcm prompts show [OPTIONS] NAME\n")


def test_global_options_stand_anywhere(lcm: Lcm, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LCM_DATABASE_PATH")
    expected = lcm("conversations", "list", "--db", archive).data
    assert lcm("--db", archive, "conversations", "list").data == expected
    assert lcm("conversations", "--db", archive, "list").data == expected
    assert lcm("--db", "elsewhere.db", "conversations", "list", "--db", archive).data == expected
    for arguments in (("conversations", "list", "--json"), ("--json", "conversations", "list")):
        assert lcm("--db", archive, *arguments).data == expected
    pretty = lcm("--pretty", "--db", archive, "conversations", "list")
    assert pretty.data == expected
    assert pretty.out.startswith('{\n  "ok": true,\n')


def test_where_the_archive_is_looked_for(lcm: Lcm, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def place() -> str:
        found: str = lcm("config", "get", "freshTailCount").envelope["meta"]["databasePath"]
        return found

    assert place() == str(home / ".local" / "share" / "lossless" / "lcm.db")
    (home / ".openclaw").mkdir()
    assert place() == str(home / ".openclaw" / "lcm.db")
    monkeypatch.setenv("OPENCLAW_HOME", str(tmp_path / "a"))
    assert place() == str(tmp_path / "a" / ".openclaw" / "lcm.db")
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(tmp_path / "b"))
    assert place() == str(tmp_path / "b" / "lcm.db")
    monkeypatch.setenv("LCM_OPENCLAW_DIR", str(tmp_path / "c"))
    assert place() == str(tmp_path / "c" / "lcm.db")
    config = tmp_path / "openclaw.json"
    block = {"databasePath": "/new/place.db"}
    config.write_text(json.dumps({"plugins": {"entries": {"lossless-claw": {"config": block}}}}))
    monkeypatch.setenv("OPENCLAW_CONFIG_PATH", str(config))
    assert place() == "/new/place.db"
    block["dbPath"] = "~/old.db"
    config.write_text(json.dumps({"plugins": {"entries": {"lossless-claw": {"config": block}}}}))
    assert place() == str(home / "old.db")
    monkeypatch.setenv("LCM_DATABASE_PATH", str(tmp_path / "env.db"))
    assert place() == str(tmp_path / "env.db")
    answer = lcm("config", "get", "freshTailCount", "--db", "here.db")
    assert answer.envelope["meta"] == {"databasePath": str(home / "here.db"), "configPath": str(config)}
    state = lcm("config", "get", "largeFilesDir", "--openclaw-dir", tmp_path / "d").data
    assert state["effectiveValue"] == str(tmp_path / "env-files"), "beside the archive"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("statsu",), "Did you mean 'status'?"),
        (("messages", "lits"), "Did you mean 'list'?"),
        (("xyzzy",), "No such command"),
        (("messages",), "Missing command: list, tail, show."),
        (("messages", "list"), "`lcm list`"),
        (("context",), "`lcm list`"),
        (("--json", "summary", "udno"), "Did you mean 'undo'?"),
        (("--fromat", "json", "status"), "No such option"),
        (("--format", "xml", "status"), "'json'"),
        (("--db",), "requires an argument"),
        (("--db", "", "status"), "blank"),
        (("--db", "\udcff.db", "status"), "UTF-8"),
    ],
)
def test_wrong_words_are_explained(lcm: Lcm, arguments: tuple[str, ...], said: str) -> None:
    answer = lcm(*arguments)
    assert (answer.code, answer.error["code"]) == (2, "bad_arguments")
    assert said in answer.error["message"]
    assert "--help" in answer.error["details"]["hint"]


def test_a_group_alone_shows_its_commands(lcm: Lcm) -> None:
    shown = lcm("summary", "--format", "table")
    assert (shown.code, shown.out) == (2, "")
    assert "undo        Take back the last change of a context." in shown.err


def test_a_terminal_without_unicode_shows_what_it_can(archive: Path) -> None:
    env = os.environ | {"PYTHONIOENCODING": "ascii", "LCM_DATABASE_PATH": str(archive)}
    with lossless.open(archive, background=False) as engine:
        engine.append(lossless.Session(key="naïve"), [{"role": "user", "content": "Where is the café?"}])
    done = subprocess.run(
        [sys.executable, "-m", "lossless.cli.main", "list"], env=env, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Where is the caf?" in done.stdout


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda path: path.mkdir(), "denied"),
        (lambda path: path.write_bytes(b""), "not_an_archive"),
        (lambda path: path.write_bytes(b"my diary " * 500), "not_an_archive"),
        (lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(5000)), None),
    ],
    ids=["a folder", "empty", "a diary", "damaged"],
)
def test_what_is_no_archive_is_an_error_of_the_database(lcm: Lcm, tmp_path: Path, make: Any, code: str | None) -> None:
    path = tmp_path / "thing"
    make(path)
    answer = lcm("status", "--db", path)
    assert answer.code == 5
    assert code is None or answer.error["code"] == code


def test_failures_are_json_for_programs_and_a_sentence_for_people(lcm: Lcm) -> None:
    for arguments in (("status",), ("messages", "list"), ("nonsense",)):
        assert json.loads(lcm(*arguments, "--format", "json").err)["ok"] is False
        assert json.loads(lcm("--format=json", *arguments).err)["ok"] is False
        shown = lcm("--format", "table", *arguments).err
        assert shown.startswith("Error: ")
        assert len(shown.splitlines()) == 2


def test_only_files_are_archives(lcm: Lcm, home: Path) -> None:
    for command in (("status",), ("append", "--session-key", "k"), ("adopt", "--apply")):
        answer = lcm(*command, "--db", "postgresql://me:hunter2@host/db", input=json.dumps(said(0)))
        assert (answer.code, answer.error["code"]) == (4, "bad_setting")
        assert "hunter2" not in answer.err
    assert list(home.iterdir()) == []


def test_a_real_process_end_to_end(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    lines = "\n".join(json.dumps(said(n)) for n in range(3))
    stored = run("append", "--db", path, "--create", "--session-key", "k", input=lines)
    assert (stored.returncode, stored.stderr) == (0, "")
    assert json.loads(stored.stdout)["data"]["stored"] == 3
    assert json.loads(run("status", "--db", path).stdout)["data"]["status"]["messages"]["count"] == 3
    found = run("grep", "2th", "--db", path)
    assert [item["id"] for item in json.loads(found.stdout)["data"]["items"]] == [3]
    assert run("verify", "--db", path).returncode == 0
    missing = run("messages", "show", 9, "--db", path)
    assert (missing.returncode, missing.stdout) == (3, "")
    assert json.loads(missing.stderr)["error"]["code"] == "not_found"
    assert "Traceback" not in missing.stderr


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    lines = "\n".join(json.dumps({"role": "user", "content": "x" * 5000}) for _ in range(100))
    assert run("append", "--db", path, "--create", "--session-key", "k", input=lines).returncode == 0
    command = (
        f"{' '.join(LCM)} messages list --db {path} --conversation-id 1 --include-content --limit 100 | head -c 10"
    )
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ('{"ok": tru', "")


UNEXPECTED = """
import sys
import click
from lossless.cli import main

class Odd(Exception):
    pass

@main.cli.command("odd")
def odd():
    raise Odd("a secret")

main.cli.get_command = lambda ctx, name: odd
sys.argv = ["lcm", "odd", *sys.argv[1:]]
main.main()
"""


@pytest.mark.parametrize("form", ["json", "table"])
def test_the_unexpected_is_one_line(form: str) -> None:
    script = UNEXPECTED.replace('"odd", *', f'"--format", "{form}", "odd", *')
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Unexpected Odd." in done.stderr
    assert "LCM_DEBUG=1" in done.stderr
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr
    if form == "json":
        assert json.loads(done.stderr)["error"]["code"] == "internal"
    debug = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env=os.environ | {"LCM_DEBUG": "1"}
    )
    assert debug.returncode == 1
    assert "Traceback" in debug.stderr
    assert "a secret" in debug.stderr


def test_the_page_is_made_from_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert write_page(["--check", str(PAGE)]) == 0
    path = tmp_path / "docs" / "cli.md"
    assert write_page(["--check", str(path)]) == 1
    assert write_page([str(path)]) == 0
    assert path.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
    path.write_text("old")
    assert write_page(["--check", str(path)]) == 1
    assert "out of date" in capsys.readouterr().err
    assert write_page([]) == 2
