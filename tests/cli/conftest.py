"""A person at a shell: an archive with something in it, and `lcm` on the path."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import apsw
import pytest
from click.testing import CliRunner

import lossless
from lossless.cli.main import cli
from lossless.model.context import NewSummary
from tests.built import built
from tests.maintenance.surgery_kit import THERE, open_engine, talk, told

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.store.archive import Archive

START = datetime(2026, 7, 1, tzinfo=UTC)
FERRY = lossless.Session(key="agent:main:ferry", id="run-1")
CRANE = lossless.Session(key="agent:main:crane", id="run-2")


@dataclass(frozen=True)
class Answer:
    """What a run of `lcm` left: its exit code, its output, its complaints."""

    code: int
    out: str
    err: str

    @property
    def envelope(self) -> dict[str, Any]:
        assert self.err == "", self.err
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def data(self) -> dict[str, Any]:
        assert self.code == 0, self.err
        found: dict[str, Any] = self.envelope["data"]
        return found

    @property
    def items(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.data["items"]
        return found

    @property
    def error(self) -> dict[str, Any]:
        assert self.out == "", self.out
        failure = json.loads(self.err)
        assert failure["ok"] is False
        found: dict[str, Any] = failure["error"]
        return found


Lcm: TypeAlias = Callable[..., Answer]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of the real machine's settings is seen."""
    for name in [name for name in os.environ if name.startswith(("LCM_", "OPENCLAW_", "XDG_"))]:
        monkeypatch.delenv(name)
    place = tmp_path / "home"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def lcm(home: Path) -> Lcm:
    """Runs `lcm` with these arguments."""

    def run(*arguments: object, input: str | bytes | None = None) -> Answer:
        done = CliRunner().invoke(cli, [str(argument) for argument in arguments], input=input)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Answer(done.exit_code, done.stdout, done.stderr)

    return run


def sql(path: Path, *statements: str) -> list[tuple[Any, ...]]:
    """What another program does to the file; the rows of the last statement."""
    connection = apsw.Connection(str(path))
    try:
        return [connection.execute(statement).fetchall() for statement in statements][-1]
    finally:
        connection.close()


def said(number: int) -> dict[str, str]:
    role = ("user", "assistant")[number % 2]
    return {"role": role, "content": f"{role} says the {number}th thing about ferries"}


def fold(archive: Archive, conversation_id: int, first: int, last: int, summary: NewSummary) -> None:
    """Put a summary where the items `first` to `last` of a context stand."""
    sources = archive.context.items(conversation_id)[first : last + 1]
    with archive.writing():
        archive.summaries.insert(conversation_id, sources, summary, START + timedelta(days=30))
        archive.context.replace(conversation_id, sources, summary.id, START + timedelta(days=30))


def sound(lcm: Lcm) -> None:
    """Nothing is wrong with the archive."""
    assert lcm("verify").data["problems"] == []


@pytest.fixture
def folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two conversations, the first of them folded into a graph of three depths."""
    path = tmp_path / "lcm.db"
    monkeypatch.setenv("LCM_DATABASE_PATH", str(path))
    return built(path, build_folded)


def build_folded(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
        engine.append(THERE, talk(4, "there"))


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two conversations: one of 12 messages, 6 of them below two leaves and a condensed summary; one of 2."""
    path = tmp_path / "lcm.db"
    monkeypatch.setenv("LCM_DATABASE_PATH", str(path))
    return built(path, _build_archive)


def _build_archive(path: Path) -> None:
    with lossless.open(path, background=False) as engine:
        messages = [lossless.Incoming(said(n), f"e{n}", START + timedelta(hours=n)) for n in range(12)]
        engine.append(FERRY, messages)
        tool = {"id": "c1", "type": "function", "function": {"name": "lift", "arguments": '{"cargo": "three crates"}'}}
        calls: list[dict[str, Any]] = [
            {"role": "user", "content": "Lift the crates"},
            {"role": "assistant", "content": None, "tool_calls": [tool]},
        ]
        engine.append(CRANE, calls)
        for n, (first, last) in enumerate(((0, 2), (1, 3))):
            fold(engine.archive, 1, first, last, NewSummary(f"sum_leaf{n}", 0, f"leaf {n}: ferries went", 4, "model-a"))
        fold(engine.archive, 1, 0, 1, NewSummary("sum_root", 1, "root: ferries, again", 3, "model-b"))
