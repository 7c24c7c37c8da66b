"""The estimate for budgets beside the stored count: written with each message and summary, worked out for old rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apsw

import lossless
from lossless.model.budget import budget_tokens, message_budget_tokens
from lossless.model.context import MessageItem, SummaryItem, budget_sum, newest_user_index
from lossless.store.archive import Archive

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.model.context import ContextItem

HEX = " ".join(f"{n * 2654435761 % 2**32:08x}" for n in range(400))
SESSION = lossless.Session(key="s")
WINDOW: list[dict[str, Any]] = [
    {"role": "user", "content": f"What is at {HEX}?"},
    {"role": "assistant", "content": "", "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "dump", "arguments": '{"path": "/var/log/a"}'}}]},
    {"role": "tool", "tool_call_id": "call_1", "content": HEX},
    {"role": "assistant", "content": "It is a table of numbers."},
]  # fmt: skip


def _filled(path: Path) -> None:
    with lossless.open(path, background=False) as engine:
        for n in range(6):
            engine.append(SESSION, [{"role": "user", "content": f"turn {n}: {HEX}"}, *WINDOW[1:]])
        engine.compact(SESSION, budget=2_000, force=True)


def _items(engine: lossless.Engine) -> list[ContextItem]:
    with engine.archive.reading():
        return engine.archive.context.items(1)


def test_messages_and_summaries_have_an_estimate_of_their_own(tmp_path: Path) -> None:
    _filled(tmp_path / "lcm.db")
    with lossless.open(tmp_path / "lcm.db", background=False) as engine:
        items, archive = _items(engine), engine.archive
        assert {type(item) for item in items} == {MessageItem, SummaryItem}
        for item in items:
            if isinstance(item, MessageItem):
                stored = archive.messages.get(item.message_id).message
                assert item.budget_tokens == max(item.tokens, message_budget_tokens(stored))
                assert item.tokens == stored.tokens
            else:
                words = archive.summaries.get(item.summary_id).content
                assert item.budget_tokens == max(item.tokens, budget_tokens(words))
        assert any(item.budget_tokens > item.tokens for item in items)
        assert archive.context.budget_tokens(1) == archive.context_budget(1) == budget_sum(items)
        user = newest_user_index(items) or 0
        sizes = sorted((i.role, i.budget_tokens, n < user) for n, i in enumerate(items) if isinstance(i, MessageItem))
        assert sorted(archive.context.longer_than(1, 0)) == sizes
        assert archive.context.longer_than(1, max(size for _, size, _ in sizes)) == []
        newest, _, (_, _, unread) = archive.context.newest_items(1, 10)
        assert unread + budget_sum(newest) == budget_sum(items)


def _made_older(path: Path) -> None:
    """The file as a version without estimates has left it."""
    connection = apsw.Connection(str(path))
    for table in ("message_extras", "summary_extras"):
        connection.execute(f"ALTER TABLE {table} DROP COLUMN budget_tokens")
    connection.execute("ALTER TABLE ingest_state DROP COLUMN context_extra")
    connection.close()


def test_an_older_archive_is_read_the_same(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    _filled(path)
    with lossless.open(path, background=False) as engine:
        expected = _items(engine)
    _made_older(path)
    archive = Archive.open(path, read_only=True)
    assert archive.context.items(1) == expected
    assert archive.context_budget(1) >= archive.context_tokens(1) > 0
    archive.close()
    with lossless.open(path, background=False) as engine:
        assert _items(engine) == expected
        assert engine.archive.database.rows("SELECT 1 FROM message_extras WHERE budget_tokens IS NOT NULL") == []


def test_estimates_of_an_older_archive_are_stored_with_the_next_fold(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    _filled(path)
    _made_older(path)
    with lossless.open(path, background=False) as engine:
        for n in range(12):
            engine.append(SESSION, [{"role": "user", "content": f"later {n}: {HEX}"}, WINDOW[-1]])
        engine.compact(SESSION, budget=2_000, force=True)
    with lossless.open(path, background=False) as engine:
        kept = [item for item in _items(engine) if isinstance(item, SummaryItem)]
        rows = engine.archive.database.rows("SELECT summary_id, budget_tokens FROM summary_extras")
        stored: dict[str, int] = dict(rows)
        assert kept
        assert all(max(item.tokens, stored[item.summary_id]) == item.budget_tokens for item in kept)


def test_what_is_counted_along_is_what_the_items_add_up_to(tmp_path: Path) -> None:
    with lossless.open(tmp_path / "lcm.db", background=False) as engine:
        for n in range(8):
            engine.append(SESSION, [{"role": "user", "content": f"turn {n}: {HEX}"}, *WINDOW[1:]])
            counted = sum(filter(None, engine.archive.ingest.context_counts(1)[:2]))
            assert counted == budget_sum(_items(engine)) > 2 * engine.archive.context_tokens(1)
            if n % 3 == 2:
                assert engine.compact(SESSION, budget=6_000, force=True).compacted
                assert sum(filter(None, engine.archive.ingest.context_counts(1)[:2])) == budget_sum(_items(engine))


def test_dense_text_is_folded_by_what_it_takes_not_by_its_length(tmp_path: Path) -> None:
    """By their length the messages are half of the threshold."""
    dump = [{"role": role, "content": f"{n} {HEX}"} for n in range(8) for role in ("user", "assistant")]
    with lossless.open(tmp_path / "lcm.db", background=False) as engine:
        engine.append(SESSION, dump)
        budget = int(2 * engine.archive.context_tokens(1) / 0.75)
        turn = engine.after_turn(SESSION, new_messages=[], budget=budget)
        assert turn.outcome is not None
        assert turn.outcome.decision.should_compact
        made = engine.assemble(SESSION, budget=budget // 2, fold=True)
        assert sum(map(budget_tokens, (str(message["content"]) for message in made.messages))) <= budget // 2
        assert made.receipt.unstated == 0
        assert any(id_.startswith("sum_") for id_, _ in made.receipt.included)
        engine.verify()
