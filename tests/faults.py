"""A fault-injection kit: fail or die at the n-th statement, and tell what an archive holds."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

import lossless
from lossless.model.context import MessageItem
from lossless.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lossless.store.database import Database

ROOT = Path(__file__).parents[1]
SESSION = lossless.Session(key="agent:main:main", id="run-1")
#: A turn with everything that is stored in tables of its own.
TURN: list[Mapping[str, Any]] = [
    {"role": "user", "content": "Which port does the proxy use?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call_0123456789ab", "type": "function", "function": {"name": "read", "arguments": '{"n": 1}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "call_0123456789ab", "content": "port = 8443\n" * 200},
    {"role": "assistant", "content": "It listens on 8443."},
]


class Fault(Exception):
    """What is thrown in."""


@contextmanager
def before_each_statement(database: Database, act: Callable[[int, str], None]) -> Iterator[None]:
    """Call `act` with number and text before each statement of this thread; what it raises stops the statement."""
    connection = database.connection()
    count = 0

    def trace(_cursor: object, statement: str, _bindings: object) -> bool:
        nonlocal count
        count += 1
        act(count - 1, statement)
        return True

    connection.exec_trace = trace
    try:
        yield
    finally:
        connection.exec_trace = None


@contextmanager
def failing_at(database: Database, number: int) -> Iterator[None]:
    """Raise `Fault` in place of the statement with this number, counted from 0."""

    def fail(count: int, _statement: str) -> None:
        if count == number:
            raise Fault

    with before_each_statement(database, fail):
        yield


def statements_of(database: Database, act: Callable[[], object]) -> list[str]:
    """The statements that `act` takes."""
    seen: list[str] = []
    with before_each_statement(database, lambda _count, statement: seen.append(statement)):
        act()
    return seen


def open_engine(path: Path | str) -> lossless.Engine:
    """An engine whose clock stands still, so that the same calls write the same rows, all of them into one file."""
    settings = lossless.Settings(payloads_in_files=False)
    return lossless.open(path, settings, clock=VirtualClock(), background=False)


Rows = dict[str, list[tuple[Any, ...]]]


def dump(path: Path | str) -> Rows:
    """Every row of every table, but for the inner tables of full-text indexes, of which only the sizes count."""
    return {table: sorted(rows, key=repr) for table, rows in dump_as_stored(path).items()}


def dump_as_stored(path: Path | str) -> Rows:
    """The same, in the order of the file."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    inner = ("_data", "_idx", "_config", "_index", "_fts", "_fts_cjk")
    found = {
        table: connection.execute(f'SELECT * FROM "{table}"').fetchall()
        for table in tables
        if not table.endswith(inner)
    }
    connection.close()
    return found


def all_or_nothing(
    folder: Path, prepare: Callable[[lossless.Engine], object], act: Callable[[lossless.Engine], object]
) -> tuple[Rows, Rows]:
    """What an archive holds before and after. These are its only states when any statement fails, and a retry reaches
    the second exactly; every fourth is tried, and with LOSSLESS_EXAMPLES every one.
    """
    first, last = folder / "first.db", folder / "last.db"
    with open_engine(first) as engine:
        prepare(engine)
    shutil.copy(first, last)
    with open_engine(last) as engine:
        total = len(statements_of(engine.archive.database, lambda: act(engine)))
    before, after = dump(first), dump(last)
    for number in range(total % 4, total, 1 if os.environ.get("LOSSLESS_EXAMPLES") else 4):
        path = folder / f"{number}.db"
        shutil.copy(first, path)
        with open_engine(path) as engine:
            try:
                with failing_at(engine.archive.database, number):
                    act(engine)
                raise AssertionError("the fault was swallowed")
            except Fault:
                assert dump(path) == before, number
            act(engine)
            assert dump(path) == after, number
    with open_engine(path) as engine:
        assert problems(engine) == []
    return before, after


def contents(engine: lossless.Engine, session: lossless.Session = SESSION) -> list[str]:
    """The texts of a session's stored messages in order."""
    conversation = engine.archive.conversations.find(session)
    if conversation is None:
        return []
    stored = engine.archive.messages.in_order(conversation.id, limit=1_000_000)
    return [message.message.content for message in stored]


def context(engine: lossless.Engine, session: lossless.Session = SESSION) -> list[str]:
    """The texts of a session's context in order, summaries by id."""
    conversation = engine.archive.conversations.find(session)
    if conversation is None:
        return []
    items = engine.archive.context.items(conversation.id)
    return [
        engine.archive.messages.get(item.message_id).message.content
        if isinstance(item, MessageItem)
        else item.summary_id
        for item in items
    ]


def problems(engine: lossless.Engine) -> list[str]:
    """What verify says, warnings included."""
    return [str(problem) for problem in engine.verify().problems]


def die_at(path: str, number: int) -> None:
    """Store a turn, and die in place of the statement with this number."""
    engine = open_engine(path)

    def die(count: int, _statement: str) -> None:
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    with before_each_statement(engine.archive.database, die):
        engine.append(SESSION, TURN, key="turn-1")
    sys.stdout.write("stored\n")


def append_as_nobody(path: str) -> None:
    """Store a turn as a user without rights, and name the error."""
    open_engine(":memory:").close()  # so that everything is imported
    if os.geteuid() == 0:
        for entry in (Path(path), Path(path).parent):
            os.chown(entry, 65534, -1)
        os.seteuid(65534)
    try:
        open_engine(path).append(SESSION, TURN)
    except lossless.LosslessError as error:
        sys.stdout.write(f"{type(error).__name__}\n")
