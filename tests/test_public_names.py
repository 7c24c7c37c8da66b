"""The front door: what `import lossless` offers, what it costs, and that it keeps its promises to type checkers."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lossless

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
FRONT_DOOR = ROOT / "src" / "lossless" / "__init__.py"
#: Names that programs rely on; a name is added here when it is public for good.
PROMISED = {
    "AppendReport",
    "Engine",
    "Incoming",
    "LosslessError",
    "Message",
    "Session",
    "Settings",
    "TurnReport",
    "chat",
    "open",
}
#: What `import lossless` must not load: start-up counts in hooks and commands.
HEAVY = {"apsw", "asyncio", "click", "json", "pydantic", "pydantic_ai", "regex", "rich", "sqlite3", "zoneinfo"}


def test_promised_names_are_there() -> None:
    assert PROMISED | {"__version__"} <= set(lossless.__all__)


@pytest.mark.parametrize("name", lossless.__all__)
def test_every_name_is_there_and_says_what_it_is(name: str) -> None:
    value = getattr(lossless, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert inspect.getdoc(value), name


def test_names_are_sorted_and_listed_once() -> None:
    assert sorted(set(lossless.__all__)) == lossless.__all__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = lossless.no_such_name


def test_type_checkers_see_the_same_names() -> None:
    """The imports for type checkers, the table of lazy names and `__all__` agree."""
    tree = ast.parse(FRONT_DOOR.read_text(encoding="utf-8"))
    typed: dict[str, tuple[str | None, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lossless."):
            typed |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    (table,) = (node.value for node in tree.body if isinstance(node, ast.Assign) and _target(node) == "_PUBLIC")
    names = [(module, name) for module, names in ast.literal_eval(table).items() for name in names.split()]
    assert {name.partition("=")[0]: (module, name.rpartition("=")[2]) for module, name in names} == typed
    assert {*typed, "__version__"} == set(lossless.__all__)


def _target(node: ast.Assign) -> str:
    return ast.unparse(node.targets[0])


def test_importing_costs_nothing() -> None:
    script = "import sys; before = set(sys.modules); import lossless; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert loaded & HEAVY == set()
    assert {name for name in loaded if name.startswith("lossless.")} == set()


def test_every_public_method_says_what_holds() -> None:
    methods = [value for name, value in inspect.getmembers(lossless.Engine, inspect.isfunction) if name[0] != "_"]
    assert [method.__qualname__ for method in methods if not inspect.getdoc(method)] == []


def test_the_package_is_marked_as_typed() -> None:
    assert (FRONT_DOOR.parent / "py.typed").exists()


def test_one_version_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert lossless.__version__ == project["version"] == metadata("lossless")["Version"]


def test_the_command_is_called_lcm() -> None:
    (command,) = entry_points(group="console_scripts", name="lcm")
    assert callable(command.load())


# --- every type that a call takes or returns is public ---------------------------------------------------------------


def types_in(kind: type) -> dict[str, str]:
    """Our own types in the signatures of a class's public methods, and the modules that they come from."""
    tree = ast.parse(Path(inspect.getfile(kind)).read_text(encoding="utf-8"))
    places = {node.name: kind.__module__ for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lossless"):
            places.update((alias.asname or alias.name, node.module or "") for alias in node.names)
    found = {}
    for name, member in vars(kind).items():
        if inspect.isfunction(member) and not name.startswith("_"):
            for argument, annotation in inspect.get_annotations(member).items():
                if argument not in ("parts", "archive", "writer"):  # which the group has
                    found.update({word: places[word] for word in re.findall(r"\w+", str(annotation)) if word in places})
    return found


def test_types_of_public_calls_are_public() -> None:
    with lossless.open(":memory:", lossless.Settings()) as engine:
        values = [getattr(engine, name) for name in dir(engine) if not name.startswith("_")]
        kinds: list[type] = [lossless.Engine, *(type(value) for value in values if is_group(value))]
    missing = {f"{name} of {place}" for kind in kinds for name, place in types_in(kind).items()
               if name not in lossless.__all__}  # fmt: skip
    assert missing == set()


def is_group(value: object) -> bool:
    module = type(value).__module__
    return module.startswith(("lossless.maintenance", "lossless.transfer")) and type(value).__name__ != "EngineParts"


def test_every_error_is_public() -> None:
    from lossless import errors

    raised = [name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Exception)]
    assert set(raised) <= set(lossless.__all__)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda engine: engine.sync("s", None), "window must be a list of messages, not NoneType"),
        (lambda engine: engine.append("s", {"role": "user"}), "messages must be a list of messages, not dict"),
        (lambda engine: engine.sync("s", ["hi"]), "message 0: expected an object with a role and content, got str"),
        (lambda engine: engine.append(5, []), "a session is its name or a Session, not int"),
        (lambda engine: engine.after_turn("s", new_messages=[], usage=5), "usage must be an object with token counts"),
        (lambda engine: engine.bootstrap("s", 5), "transcript must be the path of a file or its entries, not int"),
        (lambda engine: engine.grep("word", session=5), "a session is its name or a Session, not int"),
        (lambda engine: engine.grep("word", limit="many"), "limit must be a number, not str"),
        (lambda engine: engine.recall(None), "question must be a text, not NoneType"),
        (lambda engine: engine.describe(5), "id must be a text, not int"),
        (lambda engine: engine.expand(5), "ids must be an id or a list of ids, not int"),
        (lambda engine: engine.expand(["sum_1", 5]), "ids are texts such as sum_… or msg#12, not 5"),
        (lambda engine: engine.backup(5), "path must be the path of a file, not int"),
        (
            lambda _: vars(lossless)["open"](":memory:", {"enabled": True}),
            "settings must be lossless.Settings(…)",
        ),
        (lambda engine: vars(lossless)["open"](engine.clock), "path must be the path of a file, not function"),
    ],
)
def test_an_argument_of_a_wrong_type_is_refused_before_anything_is_done(
    call: Callable[[Any], object], message: str
) -> None:
    with lossless.open(":memory:", lossless.Settings()) as engine:
        with pytest.raises(lossless.BadInput, match=re.escape(message)):
            call(engine)
        assert engine.browse.counts().messages == 0


def test_groups_take_a_session_by_its_name_a_conversation_or_its_id() -> None:
    with lossless.open(":memory:", lossless.Settings()) as engine:
        engine.append("s", [{"role": "user", "content": "hello"}])
        conversation = engine.browse.get(1)
        for session in ("s", lossless.Session(key="s"), conversation, 1):
            assert engine.host.context_counts(session) == (1, 0)
            assert (engine.surgery.focus_status(session), engine.transcripts.followed(session)) == (None, None)
            assert engine.admin.debt(session)[1] == "waiting"
        with pytest.raises(lossless.NotFound):
            engine.surgery.plan_undo("another")
