"""The docs are true: everything has its place, every example runs, every link leads somewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import pytest

import lossless
from lossless import errors
from lossless.cli.main import cli
from lossless.settings import SETTINGS
from tests.forked_lcm import lcm_in

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
#: Pages whose examples need more than a folder, and the tests that run them.
RUN_ELSEWHERE = {"docs/models.md": "tests/llm/test_providers_docs.py"}
#: Pages that look at an archive which somebody has filled.
SEEDED = {"docs/reference/cli.md"}
GENERATED = {
    "settings.md": "scripts.settings_page",
    "cli.md": "lossless.cli.reference",
    "aliases.md": "lossless.cli.reference",
    "tools.md": "scripts.tools_page",
}

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
NOT_RUN = re.compile(r"# not run\b[^:\n]*: \S")


class Block(NamedTuple):
    """A fenced piece of a page."""

    language: str
    text: str
    line: int

    @property
    def excused(self) -> bool:
        """Whether it says at its top why it is not run."""
        return NOT_RUN.match(self.text) is not None


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(text: str) -> Iterator[Block]:
    for match in FENCE.finditer(text):
        yield Block(match[1], match[2], text.count("\n", 0, match.start()) + 1)


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


# --- everything has its place ----------------------------------------------------------------------------------


def error_classes(top: type[errors.LosslessError] = errors.LosslessError) -> Iterator[type[errors.LosslessError]]:
    yield top
    for below in top.__subclasses__():
        yield from error_classes(below)


def test_every_error_is_documented() -> None:
    page = read(REFERENCE / "errors.md")
    missing = [error for error in error_classes() if f"| `{error.__name__}` | `{error.code}` |" not in page]
    assert missing == []


def test_every_setting_is_documented() -> None:
    page = read(REFERENCE / "settings.md")
    names = {setting.key for setting in SETTINGS if not setting.env_only}
    names |= {setting.env for setting in SETTINGS if setting.env}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def commands(command: click.Command, path: tuple[str, ...] = ("lcm",)) -> Iterator[tuple[str, click.Command]]:
    """Every command that can be run, with its full name."""
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    with click.Context(command, info_name=path[-1]) as context:
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, (*path, name))


def all_commands() -> dict[str, click.Command]:

    return dict(commands(cli))


def test_every_command_and_option_is_documented() -> None:
    page = read(REFERENCE / "cli.md")
    for name, command in all_commands().items():
        assert re.search(rf"(?:^#+ |`){re.escape(name)}\b", page, re.MULTILINE), name
        options = [flag for param in command.params if isinstance(param, click.Option) for flag in param.opts]
        assert [f"{name} {flag}" for flag in options if flag not in page] == []


def test_every_public_name_is_documented() -> None:
    page = read(REFERENCE / "library.md")
    assert [name for name in lossless.__all__ if not re.search(rf"`{name}\b", page) and name != "__version__"] == []
    command = [sys.executable, "scripts/library_page.py", "docs/reference/library.md", "--check"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0, "run `make docs`"


def test_every_table_is_documented() -> None:
    page = read(DOCS / "archive.md")
    for script in sorted((ROOT / "src/lossless/store/schema").glob("*.sql")):
        tables = re.findall(r"CREATE (?:VIRTUAL )?TABLE IF NOT EXISTS (\w+)", read(script))
        assert [table for table in tables if f"`{table}`" not in page] == [], script.name


def test_the_map_leads_to_files() -> None:
    page = read(ROOT / "CONTRIBUTING.md")
    paths = re.findall(r"`((?:src|tests|docs|bench)/[\w./*-]+)`", page)
    assert paths
    assert [path for path in paths if not list(ROOT.glob(path.rstrip("/")))] == []


# --- generated pages are fresh ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("page", "module"), GENERATED.items())
def test_generated_pages_are_fresh(page: str, module: str) -> None:
    command = [sys.executable, "-m", module, "--check", str(REFERENCE / page)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr}: run `make docs`"
    assert f"-m {module} docs/reference/{page}" in read(ROOT / "Makefile")


# --- links -----------------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings make, as GitHub spells them."""
    headings = re.findall(r"^#+ +(.+?)\s*$", FENCE.sub("", read(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(FENCE.sub("", read(page))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        assert other.exists(), target
        assert ROOT in other.parents, target
        assert not anchor or anchor in anchors(other), target


def test_every_page_can_be_reached() -> None:
    seen, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        todo += [
            (page.parent / link.partition("#")[0]).resolve() for link in LINK.findall(read(page)) if ":" not in link
        ]
    assert [name_of(page) for page in PAGES if page not in seen] == []


# --- every example runs ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive that `make demo` leaves; making it is the test of the demo."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "demo.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "still 400 messages" in done.stdout
    return folder


@pytest.fixture(scope="module")
def commands_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with an `lcm` that starts quickly: pages have hundreds of them."""
    folder = tmp_path_factory.mktemp("bin")
    with lcm_in(folder):
        yield folder


@pytest.fixture
def place(demo: Path, commands_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a person who has run the demo and has `lcm` on the path."""
    shutil.copytree(demo, tmp_path / ".demo")
    for name in [name for name in os.environ if name.startswith(("LCM_", "OPENCLAW_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LCM_DATABASE_PATH", str(tmp_path / "lcm.db"))
    folders = [str(commands_folder), str(Path(sys.executable).parent), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(folders))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell_script(block: Block) -> str:
    """The commands of a shell block that uses `lcm`, else nothing; in a console they stand after `$`."""
    text = block.text
    if block.language == "console":
        text = "".join(line[2:] for line in text.splitlines(keepends=True) if line.startswith("$ "))
    return text if re.search(r"^\s*lcm ", text, re.MULTILINE) else ""


def run_block(block: Block, page: str, names: dict[str, Any]) -> None:
    if block.language == "python":
        code = "\n" * block.line + block.text
        exec(compile(code, page, "exec", dont_inherit=True), names)
    elif block.language in ("sh", "bash", "console") and (script := shell_script(block)):
        done = subprocess.run(["sh", "-euxc", script], capture_output=True, text=True, check=False, timeout=200)
        assert done.returncode == 0, f"{page}, line {block.line}\n{done.stderr}\n{done.stdout}"


@pytest.mark.parametrize("page", [page for page in PAGES if name_of(page) not in RUN_ELSEWHERE], ids=name_of)
def test_examples_run(page: Path, place: Path) -> None:
    if name_of(page) in SEEDED:
        shutil.copy(place / ".demo" / "lcm.db", place / "lcm.db")
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(read(page)):
        if not block.excused:
            run_block(block, name_of(page), names)


@pytest.mark.parametrize(("page", "test"), RUN_ELSEWHERE.items())
def test_other_examples_are_run_by_their_own_tests(page: str, test: str) -> None:
    assert f'"{Path(page).name}"' in read(ROOT / test)


def test_every_command_has_an_example() -> None:
    """Each command is run by at least one page."""
    scripts = "\n".join(shell_script(block) for page in PAGES for block in blocks(read(page)) if not block.excused)
    flat = re.sub(r"lcm (?:--\S+ \S+ )*", "lcm ", scripts)
    assert [name for name in all_commands() if not re.search(rf"^\s*{name}\b", flat, re.MULTILINE)] == []


# --- and the tests can fail ------------------------------------------------------------------------------------


def test_a_wrong_example_is_found(place: Path) -> None:
    with pytest.raises(AssertionError):
        run_block(Block("python", "assert 1 == 2", 1), "page.md", {})
    with pytest.raises(AssertionError, match=r"page\.md, line 7"):
        run_block(Block("sh", "lcm no-such-command\n", 7), "page.md", {})
    with pytest.raises(AssertionError):
        run_block(Block("console", "$ lcm grep\nsome output\n", 1), "page.md", {})
    run_block(Block("sh", "exit 7 # no lcm in it, so it is never run\n", 1), "page.md", {})


def test_an_excuse_needs_a_reason() -> None:
    assert Block("sh", "# not run here: it needs a network\nlcm x\n", 1).excused
    assert not Block("sh", "# not run\nlcm x\n", 1).excused
    assert not Block("sh", "# not run: \nlcm x\n", 1).excused


# --- the two commands of the README ----------------------------------------------------------------------------


def test_the_readme_begins_with_what_matters() -> None:
    text = read(ROOT / "README.md")
    first_screen = text.split("\n## ")[0]
    example = next(block for block in blocks(first_screen) if block.language == "python")
    assert len([line for line in example.text.splitlines() if line]) <= 12
    assert [line.split("#")[0].strip() for line in re.findall(r"^make .*$", text, re.MULTILINE)] == [
        "make demo",
        "make test",
    ]
    assert "docs/images/lossless.svg" in first_screen
    assert len(re.findall(r"^\* \[", first_screen, re.MULTILINE)) == 5


def test_the_integration_runs_the_test_command_of_the_readme() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert read(script).splitlines()[-2:] == ["make test", "make test-hosts QUICK=1"]
