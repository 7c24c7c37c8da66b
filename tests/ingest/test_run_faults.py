"""A call that fails anywhere leaves nothing behind, and the next one stores everything once."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from lossless import Incoming
from tests.faults import (
    SESSION,
    TURN,
    Fault,
    all_or_nothing,
    before_each_statement,
    contents,
    die_at,
    dump,
    failing_at,
    open_engine,
    problems,
    statements_of,
)
from tests.forking import run_forked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import lossless
    from lossless.model.messages import JsonObject


def _user(text: str) -> JsonObject:
    return {"role": "user", "content": text}


def _named(message: Mapping[str, Any], entry_id: str) -> Incoming:
    return Incoming(message, entry_id=entry_id)


_TEXTS = [text for message in TURN if isinstance(text := message["content"], str)]
_PROMPT = {"role": "system", "content": "You are a careful operator."}
_OTHER_PROMPT = {"role": "system", "content": "You are a terse operator."}


def _before_sync(engine: lossless.Engine) -> None:
    engine.sync(SESSION, [_PROMPT, *TURN])


def _upstream_tables(engine: lossless.Engine) -> None:
    engine.archive.database.run("CREATE VIRTUAL TABLE messages_fts USING fts5(content, tokenize='porter unicode61')")


CASES: dict[str, tuple[Callable[[lossless.Engine], object], Callable[[lossless.Engine], object]]] = {
    "the first batch, with a key": (lambda _: None, lambda e: e.append(SESSION, TURN, key="turn-1")),
    "the first window": (lambda _: None, lambda e: e.sync(SESSION, [_PROMPT, *TURN])),
    "a window that has grown": (_before_sync, lambda e: e.sync(SESSION, [_PROMPT, *TURN, _user("thanks")])),
    "a window that went on differently, with another prompt": (
        _before_sync,
        lambda e: e.sync(SESSION, [_OTHER_PROMPT, *TURN[:3], _user("stop"), _user("no, go on")]),
    ),
    "a transcript that adopts a runtime batch": (
        lambda e: e.append(SESSION, TURN),
        lambda e: e.append(SESSION, [_named(message, f"e{n}") for n, message in enumerate(TURN)]),
    ),
    "a file with upstream's search table": (_upstream_tables, lambda e: e.append(SESSION, TURN, key="turn-1")),
}


@pytest.mark.parametrize("case", CASES)
def test_a_failing_statement_leaves_the_archive_as_it_was(case: str, tmp_path: Path) -> None:
    before, after = all_or_nothing(tmp_path, *CASES[case])
    assert before != after


def test_the_search_rows_are_gone_with_their_messages(path: Path) -> None:
    """Oracle: a word of a failed batch is not found; after the retry it is, in ours and in upstream's table."""
    ours = "SELECT rowid FROM message_index WHERE message_index MATCH 'proxy'"
    theirs = "SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'proxy'"
    with open_engine(path) as engine:
        _upstream_tables(engine)
        rows = engine.archive.database.rows
        engine.append(SESSION, [_user("hello")])
        total = len(statements_of(engine.archive.database, lambda: engine.append(SESSION, [_user("the proxy is up")])))
        assert (rows(ours), rows(theirs)) == ([(2,)], [(2,)])
        for number in range(total):
            with pytest.raises(Fault), failing_at(engine.archive.database, number):
                engine.append(SESSION, [_user("the proxy is down")])
            assert (rows(ours), rows(theirs)) == ([(2,)], [(2,)]), number
        engine.append(SESSION, [_user("the proxy is down")])
        assert (rows(ours), rows(theirs)) == ([(2,), (3,)], [(2,), (3,)])
        assert problems(engine) == []


def test_a_transaction_that_could_not_even_be_rolled_back_takes_nothing_with_it(path: Path) -> None:
    """Oracle: what is acknowledged after two interrupts in a row is on disk, and the interrupted batch is not."""

    def interrupt(count: int, _statement: str) -> None:
        if count >= 20:
            raise KeyboardInterrupt

    with open_engine(path) as engine:
        with pytest.raises(KeyboardInterrupt), before_each_statement(engine.archive.database, interrupt):
            engine.append(SESSION, TURN)
        engine.append(SESSION, [_user("still there?")])
        assert [row[4] for row in dump(path)["messages"]] == ["still there?"]
        assert problems(engine) == []


@pytest.mark.parametrize("number", [0, 7, 12, 17, 21, 10_000])
def test_a_killed_process_leaves_all_or_nothing(number: int, path: Path) -> None:
    """Oracle: the archive opens clean; the batch with its key, sent again, is there once."""
    code, out, err = run_forked(die_at, str(path), number)
    assert code in (0, -signal.SIGKILL), err
    assert (out == "stored\n") == (number == 10_000)
    with open_engine(path) as engine:
        assert len(contents(engine)) == (4 if out else 0)
        engine.append(SESSION, TURN, key="turn-1")
        engine.append(SESSION, TURN, key="turn-1")
        assert [text for text in contents(engine) if text] == _TEXTS
        assert problems(engine) == []
