"""How the source is built: layers import only downwards, SQL has one package, names are unique, files stay small.

Every rule is a function over a folder of sources, so that the last tests can show it a bad one.
"""

from __future__ import annotations

import ast
import functools
import gc
import io
import itertools
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "lossless"
#: Everything that is written here, and so is held to the same sizes.
WRITTEN = [PACKAGE, ROOT / "tests", ROOT / "bench", ROOT / "examples"]

#: From the ground up. A package imports packages of lower layers, never one of its own layer or above.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors",),
    ("model",),
    ("settings",),
    ("formats", "store", "files", "llm"),
    ("ingest", "compaction", "context", "recall"),
    ("maintenance",),
    ("transfer",),
    ("engine",),
    ("async_engine",),
    ("providers",),
    ("hosts", "serve", "tui"),
    ("cli",),
)
LAYER = {package: number for number, packages in enumerate(LAYERS) for package in packages}
#: Shipped for tests and demos: it may look at everything, and nothing in the package may look at it.
TESTING = "testing"
#: The package itself: public names, loaded on first use.
FRONT_DOOR = "__init__"

#: Packages that reach the archive through the engine alone.
DOORS = ("providers", "hosts", "serve", "tui", "cli")

MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 60
MAX_BROAD_EXCEPTS = 6
MAX_FILES = {"cli": 30, "recall": 15, "hosts": 24, "formats": 20, "ingest/transcripts": 20}
MAX_ALL_FILES = 300
MAX_CLASSES = 550
#: Names that were made up here once; the glossary in CONTRIBUTING has the words to use.
INVENTED = frozenset(
    """room desk crew beside whose told heard apart standing rooting elsewhere looks what_of_ours said paid situation
    squeeze logbook means keeping aged pictures exchange revising recognise assembly owe pay""".split()  # noqa: SIM905
)
#: Words that read like a translation, in comments and docstrings (names of parameters in backticks aside).
STILTED = re.compile(
    r"\b(?:anew|afresh|ow(?:ed|es)|beside|whoever|nobody|somebody|put off|lets? go of|as it lies|hangs? in the air)\b",
    re.I,
)
DRIVERS = frozenset({"apsw", "sqlite3", "psycopg", "aiosqlite", "sqlalchemy"})
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX|NotImplemented" + r"Error)\b")
SQL = re.compile(
    r"\bSELECT\s[^;]*\sFROM\b"
    r"|\bINSERT\s+(?:OR\s+\w+\s+)?INTO\s"
    r"|\bUPDATE\s+\w+\s+SET\s"
    r"|\bDELETE\s+FROM\s"
    r"|\b(?:CREATE|DROP|ALTER)\s+(?:VIRTUAL\s+|TEMP\s+|UNIQUE\s+)?(?:TABLE|INDEX|VIEW|TRIGGER)\s"
    r"|^\s*(?:PRAGMA\s+\w|BEGIN\b|COMMIT\b|ROLLBACK\b|SAVEPOINT\s|VACUUM\b|ATTACH\s|REINDEX\b)",
)


def python_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """The parsed file, and all that is in it."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))))


def package_of(path: Path, root: Path) -> str:
    return path.relative_to(root).parts[0].removesuffix(".py")


# --- imports -------------------------------------------------------------------------------------------------


def imported_modules(path: Path, inside: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import, wherever it stands; `inside` is the package of the file."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = inside[: len(inside) - node.level + 1] if node.level else ()
            module = ".".join((*above, *filter(None, [node.module])))
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and last_name(node.func) == "import_module":
            names = (argument.value for argument in node.args if isinstance(argument, ast.Constant))
            yield from ((node.lineno, str(name)) for name in names)


def last_name(node: ast.expr) -> str:
    """The `c` of `a.b.c`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@functools.cache
def public_places(package: Path) -> dict[str, str]:
    """The package of each public name, read from the front door."""
    for node in nodes(package / "__init__.py"):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_PUBLIC":
            table: dict[str, str] = ast.literal_eval(node.value)
            places = [(name.partition("=")[0], module) for module, names in table.items() for name in names.split()]
            return {name: module.split(".")[1] for name, module in places}
    return {}


def packages_imported(path: Path, package: Path) -> Iterator[tuple[int, str]]:
    """Line and package of every import of our own package; the package as a whole counts as the engine."""
    public = public_places(package)
    inside = (package.name, *path.relative_to(package).parts[:-1])
    for line, module in imported_modules(path, inside):
        top, *rest = module.split(".")
        if top != package.name or rest[:1] == ["__version__"]:
            continue
        yield line, public.get(rest[0], rest[0]) if rest else "engine"


def upward_imports(root: Path) -> Iterator[str]:
    for path in python_files(root):
        package = package_of(path, root)
        if package in (FRONT_DOOR, TESTING):
            continue
        if package not in LAYER:
            yield f"{path}: the package {package!r} has no layer; give it one in this file"
            continue
        for line, other in packages_imported(path, root):
            if other != package and LAYER.get(other, len(LAYERS)) >= LAYER[package]:
                yield f"{path}:{line}: {package} imports {other}, which is not below it"


def uses_of_the_store(root: Path, packages: Iterable[str]) -> Iterator[str]:
    """Where some packages go around the engine: imports of the store, and tables of the engine's archive."""
    for path in python_files(root):
        package = package_of(path, root)
        if package not in packages:
            continue
        for line, other in packages_imported(path, root):
            if other == "store":
                yield f"{path}:{line}: {package} imports lossless.store; use the engine"
        for node in nodes(path):
            above = node.value if isinstance(node, ast.Attribute) else None
            if isinstance(above, ast.Attribute) and above.attr in ("archive", "_archive"):
                yield f"{path}:{above.lineno}: {ast.unparse(node)}; use the engine's groups, such as engine.browse"


# --- one package for SQL -------------------------------------------------------------------------------------


def without_docstrings(path: Path) -> Iterator[ast.Constant]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = {
        id(node.body[0].value)
        for node in nodes(path)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node


def sql_outside_the_store(root: Path) -> Iterator[str]:
    for path in sorted(root.rglob("*.sql")):
        if package_of(path, root) != "store":
            yield f"{path}: .sql files belong into store/"
    for path in python_files(root):
        package = package_of(path, root)
        if package == "store":
            continue
        for text in without_docstrings(path):
            if SQL.search(str(text.value)) and package != TESTING:  # whose made-up conversations speak of SQL
                yield f"{path}:{text.lineno}: SQL outside of store/"
        for line, module in imported_modules(path, ()):
            if module.split(".")[0] in DRIVERS:
                yield f"{path}:{line}: only store/ talks to a database"


# --- sizes and habits ----------------------------------------------------------------------------------------


def long_files(folder: Path) -> Iterator[str]:
    for path in python_files(folder):
        count = len(path.read_text(encoding="utf-8").splitlines())
        if count > MAX_FILE_LINES:
            yield f"{path}: {count} lines, more than {MAX_FILE_LINES}"


def long_functions(folder: Path) -> Iterator[str]:
    for path in python_files(folder):
        for node in statements(ast.parse(path.read_text(encoding="utf-8"), str(path))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = (node.end_lineno or node.lineno) - node.lineno + 1
                if count > MAX_FUNCTION_LINES:
                    yield f"{path}:{node.lineno}: {node.name} has {count} lines, more than {MAX_FUNCTION_LINES}"


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements below a node, without the expressions in them."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, field, ()):
            if isinstance(inner, ast.stmt):
                yield inner
            yield from statements(inner)


def mocks(folder: Path) -> Iterator[str]:
    for path in python_files(folder):
        if "mock" not in path.read_text(encoding="utf-8"):
            continue
        for line, module in imported_modules(path, ()):
            if module.startswith(("unittest.mock", "mock.", "pytest_mock")) or module == "mock":
                yield f"{path}:{line}: {module}; use real SQLite and lossless.testing"


def unfinished(folder: Path) -> Iterator[str]:
    for path in python_files(folder):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if found := UNFINISHED.search(line):
                yield f"{path}:{number}: {found[0]}"


def broad_excepts(folder: Path) -> list[str]:
    """Handlers that catch everything; one that only cleans up and raises again is none."""
    return [
        f"{path}:{node.lineno}: a broad except"
        for path in python_files(folder)
        for node in nodes(path)
        if isinstance(node, ast.ExceptHandler) and _is_broad(node) and not _raises_again(node)
    ]


def _is_broad(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(ast.unparse(kind) in ("Exception", "BaseException") for kind in kinds)


def _raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def too_many_broad_excepts(folder: Path) -> list[str]:
    found = broad_excepts(folder)
    return found if len(found) > MAX_BROAD_EXCEPTS else []


def crowded_packages(root: Path) -> Iterator[str]:
    """Packages with more files than one can hold in mind; one a host, format or kind of transcript is fine."""
    counts = Counter(path.parent for path in python_files(root))
    for folder, count in sorted(counts.items()):
        name = str(folder.relative_to(root))
        if count > MAX_FILES.get(name, 14):
            yield f"{folder}: {count} files, more than {MAX_FILES.get(name, 14)}"


def classes_defined_twice(root: Path) -> Iterator[str]:
    places: dict[str, list[Path]] = {}
    for path in python_files(root):
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(path)
    for name, paths in sorted(places.items()):
        if len(paths) > 1:
            yield f"{name} is defined in {', '.join(map(str, paths))}"


def count_classes(root: Path) -> int:
    return sum(isinstance(node, ast.ClassDef) for path in python_files(root) for node in nodes(path))


def invented_words(root: Path) -> Iterator[str]:
    """Modules, classes and functions with names that nobody would search for."""
    for path in python_files(root):
        if path.stem in INVENTED:
            yield f"{path}: {path.stem}"
        for node in nodes(path):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name.lstrip("_").lower() in INVENTED:
                yield f"{path}:{node.lineno}: {node.name}"


def comments_in(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every comment and docstring of a Python file, and of every whole-line comment of an SQL file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".sql":
        yield from ((n, line) for n, line in enumerate(text.splitlines(), 1) if re.match(r" *--(?! name:)", line))
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in nodes(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""


def opening_line(path: Path) -> str | None:
    module = nodes(path)[0]
    assert isinstance(module, ast.Module)
    return ast.get_docstring(module)


def stilted_english(root: Path) -> Iterator[str]:
    for path in [*python_files(root), *sorted(root.rglob("*.sql"))]:
        if STILTED.search(path.read_text(encoding="utf-8")):
            for line, text in comments_in(path):
                if found := STILTED.search(re.sub(r"`[^`]*`", "", text)):
                    yield f"{path}:{line}: {found[0]!r}; say it in plain modern English"


#: Tests of the whole: of no module more than of any other.
WHOLE = ("architecture", "docs", "end_to_end", "paths", "prose", "public_names", "envelopes")


def named_after_no_module(tests: Path, *roots: Path) -> Iterator[str]:
    """Test files that are not named after a module: `tests/a/test_b.py` and `tests/a/test_b_more.py` test `a/b.py`."""
    for path in sorted(tests.rglob("test_*.py")):
        place = path.relative_to(tests)
        if path.stem.removeprefix("test_") in WHOLE:
            continue
        folder = next((root / place.parent for root in roots if (root / place.parent).is_dir()), tests / "nowhere")
        inside = folder.rglob("*") if place.parent.name else folder.glob("*.py")
        names = {found.stem for found in inside if found.is_dir() or found.suffix == ".py"}
        if not any(f"{path.stem}_".startswith(f"test_{name}_") for name in names):
            yield f"{path}: is named after no module of its package; WHOLE in this file has those of the whole"


def ways_around_the_engine(root: Path) -> Iterator[str]:
    return uses_of_the_store(root, DOORS)


#: What holds for the package, and what for all that is written here.
RULES: list[Callable[[Path], Iterable[str]]] = [
    upward_imports,
    ways_around_the_engine,
    sql_outside_the_store,
    too_many_broad_excepts,
    crowded_packages,
    classes_defined_twice,
    invented_words,
    stilted_english,
]
RULES_OF_ALL = [long_files, long_functions, mocks, unfinished]


# --- the rules hold ------------------------------------------------------------------------------------------


def none(problems: Iterable[str]) -> None:
    """Fails with all problems, one a line."""
    found = list(problems)
    assert not found, "\n".join(["", *found])


def test_the_source_keeps_the_rules() -> None:
    """One test for all: they read the same parsed files, among which collecting garbage takes most of the time."""
    gc.disable()
    try:
        none(itertools.chain.from_iterable(rule(PACKAGE) for rule in RULES))
        none(problem for folder in WRITTEN for rule in RULES_OF_ALL for problem in rule(folder))
        none(named_after_no_module(ROOT / "tests", PACKAGE, ROOT))
        assert len(python_files(PACKAGE)) <= MAX_ALL_FILES
        assert count_classes(PACKAGE) <= MAX_CLASSES, "look for one to merge or remove"
        assert [path for path in python_files(PACKAGE) if path.stat().st_size and not opening_line(path)] == []
    finally:
        nodes.cache_clear()
        gc.enable()


def test_the_map_is_drawn_as_it_is() -> None:
    drawn = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## The layers")[1].split("```")[1]
    layers = [re.split(r" {3,}", line)[0].split() for line in drawn.strip().splitlines()]
    assert layers == [list(packages) for packages in reversed(LAYERS)]


def test_the_picture_of_the_layers_is_fresh() -> None:
    command = [sys.executable, "scripts/draw_layers.py", "docs/images/layers.svg", "--check"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0, "run `make docs`"


def test_constraints_pin_versions_and_nothing_else() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9][\w.-]*==[\w.]+", line)] == []
    pinned = {_name(line) for line in lines}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for extra in project["project"]["optional-dependencies"].values():
        wanted += extra
    assert {_name(line) for line in wanted} <= pinned


def _name(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9][\w.-]*", requirement)
    assert match
    return re.sub(r"[-_.]+", "-", match[0]).lower()


# --- and they can fail ---------------------------------------------------------------------------------------

FRONT = '_PUBLIC = {"lossless.engine": "Engine", "lossless.model.conversations": "Session"}\n'


def tree(tmp_path: Path, **files: str) -> Path:
    """A package of the given files; `__` in a name stands for a slash."""
    package = tmp_path / "lossless"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(FRONT)
    for name, text in files.items():
        path = package / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return package


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("model__words", "from lossless.store.archive import Archive", id="up"),
        pytest.param("recall__rank", "import lossless.compaction.plan", id="to a neighbour"),
        pytest.param("recall__rank", "from lossless import compaction", id="to a neighbour, by name"),
        pytest.param("ingest__plan", "from ..recall import rank", id="to a neighbour, relative"),
        pytest.param("store__rows", "def f():\n    from lossless.engine import Engine", id="inside a function"),
        pytest.param("store__rows", "if TYPE_CHECKING:\n    from lossless.engine import Engine", id="for types"),
        pytest.param("store__rows", "from lossless import Engine", id="a public name"),
        pytest.param("store__rows", "import lossless", id="the whole package"),
        pytest.param("ingest__run", "import_module('lossless.hosts.openclaw')", id="by a string"),
        pytest.param("engine", "from lossless.testing import Scripted", id="to the testing package"),
        pytest.param("shed__tools", "import json", id="a package without a layer"),
        pytest.param("store__rows", "from lossless.shed import tools", id="into a package without a layer"),
    ],
)
def test_a_wrong_import_is_found(tmp_path: Path, name: str, text: str) -> None:
    assert list(upward_imports(tree(tmp_path, **{name: text})))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("cli__main", "import lossless\nfrom lossless import Engine, __version__", id="from the top"),
        pytest.param("store__rows", "from lossless import errors, Session\nfrom . import sql", id="downwards, inside"),
        pytest.param("testing__scripted", "from lossless.cli import main", id="from the testing package"),
        pytest.param("model__context", "from lossless.model.search_text import fold", id="among values"),
    ],
)
def test_a_right_import_passes(tmp_path: Path, name: str, text: str) -> None:
    assert list(upward_imports(tree(tmp_path, **{name: text}))) == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("from lossless.store.archive import Archive", id="an import"),
        pytest.param("from lossless import store", id="by name"),
        pytest.param("def f():\n    import lossless.store.views", id="inside a function"),
        pytest.param("if TYPE_CHECKING:\n    from lossless.store.archive import Archive", id="for types"),
        pytest.param("rows = engine.archive.messages.many(ids)", id="a table"),
        pytest.param("with self.engine.archive.writing():\n    pass", id="a transaction"),
    ],
)
def test_a_way_around_the_engine_is_found(tmp_path: Path, text: str) -> None:
    package = tree(tmp_path, cli__main=text, maintenance__admin=text)
    assert [problem.split(":")[0] for problem in uses_of_the_store(package, ["cli"])] == [str(package / "cli/main.py")]


def test_the_way_through_the_engine_passes(tmp_path: Path) -> None:
    text = "from lossless.engine import open_engine\nrows = engine.browse.messages(1, 10)"
    assert list(uses_of_the_store(tree(tmp_path, cli__main=text), ["cli"])) == []


@pytest.mark.parametrize(
    "text",
    [
        "rows = db.run('SELECT content FROM messages')",
        "db.run(f'DELETE FROM {table}')",
        "db.run('''\n  INSERT OR IGNORE INTO messages (seq) VALUES (1)''')",
        "db.run('PRAGMA journal_mode')",
        "import apsw",
        "from sqlite3 import connect",
    ],
)
def test_sql_elsewhere_is_found(tmp_path: Path, text: str) -> None:
    assert list(sql_outside_the_store(tree(tmp_path, recall__grep=text)))
    assert not list(sql_outside_the_store(tree(tmp_path / "again", store__rows=text)))


def test_words_that_are_no_sql_pass(tmp_path: Path) -> None:
    text = '"""SELECT a FROM b, in a docstring."""\nhelp = "Select what to update, then set it from the table."'
    assert list(sql_outside_the_store(tree(tmp_path, cli__main=text))) == []


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        pytest.param(long_files, "x = 1\n" * (MAX_FILE_LINES + 1), id="a long file"),
        pytest.param(long_functions, "def f():\n" + "    x = 1\n" * MAX_FUNCTION_LINES, id="a long function"),
        pytest.param(mocks, "from unittest.mock import patch", id="a mock"),
        pytest.param(mocks, "from unittest import mock", id="the mock module"),
        pytest.param(unfinished, "# TO" + "DO: later", id="a promise"),
        pytest.param(unfinished, "raise NotImplemented" + "Error", id="a stub"),
        pytest.param(too_many_broad_excepts, "try:\n    f()\nexcept Exception:\n    pass\n" * 7, id="broad excepts"),
        pytest.param(too_many_broad_excepts, "try:\n    f()\nexcept:\n    pass\n" * 7, id="bare excepts"),
    ],
)
def test_a_bad_habit_is_found(tmp_path: Path, rule: Callable[[Path], Iterator[str]], text: str) -> None:
    assert list(rule(tree(tmp_path, engine=text)))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (classes_defined_twice, "class Hit: ...\n\n\nclass Hit: ..."),
        (invented_words, "class Desk: ..."),
        (invented_words, "def _said() -> None: ..."),
        (stilted_english, "x = 1  # written anew"),
        (stilted_english, 'def f():\n    """Lets go of the file."""'),
    ],
)
def test_a_name_that_misleads_is_found(tmp_path: Path, rule: Callable[[Path], Iterator[str]], text: str) -> None:
    assert list(rule(tree(tmp_path, store__rows=text)))


def test_a_crowded_package_is_found(tmp_path: Path) -> None:
    assert list(crowded_packages(tree(tmp_path, **{f"store__part{n}": "" for n in range(15)})))


def test_a_test_of_no_module_is_found(tmp_path: Path) -> None:
    package, tests = tree(tmp_path, store__rows="", recall__rank="", engine=""), tmp_path / "tests"
    right, wrong = (
        ["store/test_rows", "store/test_rows_more", "test_engine"],
        ["store/test_rank", "test_rows", "x/test_x"],
    )
    for name in right + wrong:
        (tests / name).parent.mkdir(parents=True, exist_ok=True)
        (tests / f"{name}.py").touch()
    assert [problem.split(".py")[0] for problem in named_after_no_module(tests, package)] == [
        str(tests / name) for name in wrong
    ]


def test_a_handler_that_raises_again_is_no_broad_except(tmp_path: Path) -> None:
    text = "try:\n    f()\nexcept BaseException:\n    close()\n    raise\n"
    assert broad_excepts(tree(tmp_path, engine=text)) == []
