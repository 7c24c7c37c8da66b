"""The newest part of a context: what is remembered of the older part is not seen, but in the work."""

from __future__ import annotations

import json
from itertools import count, takewhile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lossless
from lossless.compaction.run import fold
from lossless.errors import ArchiveCorrupt
from lossless.model.context import ContextItem, MessageItem, NewSummary, SummaryItem
from lossless.model.identity import summary_id
from lossless.model.records import ContextChange
from lossless.store.context import ContextItems
from lossless.testing import VirtualClock
from lossless.testing.strategies import MESSAGES
from tests.faults import open_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lossless.store.context import NewestItems

NUMBERS = count()
CLOCK = VirtualClock()
STEPS = ("append", "prompt", "fold", "hide", "foreign fold")
_REMOVE = "DELETE FROM context_items WHERE conversation_id = ? AND ordinal BETWEEN ? AND ?"
_PUT = "INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id) VALUES (?, ?, 'summary', ?)"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lossless.Engine]:
    with open_engine(tmp_path_factory.mktemp("newest") / "lcm.db") as opened:
        yield opened


def begin(engine: lossless.Engine, messages: int) -> tuple[lossless.Session, int]:
    session = lossless.Session(key=f"case {next(NUMBERS)}")
    id_ = engine.append(session, said(messages)).conversation_id
    assert id_ is not None
    return session, id_


def said(messages: int) -> list[dict[str, str]]:
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": f"{next(NUMBERS)} {'word ' * 30}"} for n in range(messages)]


def looks(engine: lossless.Engine, id_: int, tokens: int) -> tuple[NewestItems, NewestItems]:
    """As one sees it who looked before, and as one who never did."""
    with engine.archive.reading():
        known = engine.archive.context.newest_items(id_, tokens)
        return known, ContextItems(engine.archive.database).newest_items(id_, tokens)


def some_of(engine: lossless.Engine, id_: int, at: int) -> Sequence[ContextItem]:
    """A few neighbours of one kind, not of the newest."""
    items = engine.archive.context.items(id_)[:-4]
    run = items[at % max(1, len(items)) :][:3]
    return list(takewhile(lambda item: type(item) is type(run[0]), run))


def change(engine: lossless.Engine, session: lossless.Session, id_: int, step: str, at: int) -> None:
    """One change of a context, by us or behind our back."""
    archive, run = engine.archive, some_of(engine, id_, at)
    new = NewSummary(summary_id("s", str(next(NUMBERS))), 0, "s", 1, "m")
    if step == "append":
        engine.append(session, said(2 + at % 7))
    elif step == "prompt":
        window = [{"role": "system", "content": f"rules {at % 3}"}]
        newest = engine.archive.messages.tail(id_, 3)
        window += [dict(stored.message.original) for stored in archive.messages.many([row.id for row in newest])]  # type: ignore[arg-type]
        engine.sync(session, window)
    elif step == "fold" and run:
        depth = max((item.depth + 1 for item in run if isinstance(item, SummaryItem)), default=0)
        fold(archive, id_, run, NewSummary(new.id, depth, "s", 1, "m"), CLOCK())
    elif step == "hide":
        ids = [item.message_id for item in run if isinstance(item, MessageItem)]
        with archive.writing():
            archive.context.hide(id_, ids, "branch", CLOCK())
            archive.context.log(id_, ContextChange("hide", "test", "branch", tuple(ids)), CLOCK())
    elif step == "foreign fold" and run and isinstance(run[0], MessageItem):
        with archive.writing():
            archive.summaries.insert(id_, run, new, CLOCK())
            archive.database.run(_REMOVE, (id_, run[0].ordinal, run[-1].ordinal))
            archive.database.run(_PUT, (id_, run[0].ordinal, new.id))


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 60), st.integers(0, 2_000)), max_size=12))
@settings(max_examples=15, deadline=None)
def test_what_is_remembered_is_what_would_be_read(engine: lossless.Engine, steps: list[tuple[str, int, int]]) -> None:
    session, id_ = begin(engine, 40)
    for step, at, tokens in steps:
        known, fresh = looks(engine, id_, tokens)
        assert known == fresh
        change(engine, session, id_, step, at)
        assert engine.archive.context.newest_items(id_, tokens)[0] == looks(engine, id_, tokens)[1][0]
        known, fresh = looks(engine, id_, tokens // 2)
        assert known == fresh


def test_a_summary_that_another_program_took_away_is_not_remembered(engine: lossless.Engine) -> None:
    _, id_ = begin(engine, 40)
    archive = engine.archive
    run = archive.context.items(id_)[4:8]
    fold(archive, id_, run, NewSummary(summary_id("s", "gone"), 0, "s", 1, "m"), CLOCK())
    assert sum(isinstance(item, SummaryItem) for item in looks(engine, id_, 300)[0][0]) == 1
    with archive.writing():
        archive.database.run(_REMOVE, (id_, run[0].ordinal, run[0].ordinal))
    known, fresh = looks(engine, id_, 300)
    assert known == fresh
    assert not any(isinstance(item, SummaryItem) for item in known[0])


def test_the_work_does_not_grow_with_what_is_not_read(engine: lossless.Engine) -> None:
    """Counted in steps of SQLite's machine, turn by turn, once something was read before."""
    session, id_ = begin(engine, 1_500)
    archive = engine.archive
    archive.context.newest_items(id_, 2_000)
    short = steps_of(engine, lambda: archive.context.newest_items(id_, 2_000))
    engine.append(session, said(9_000))
    archive.context.newest_items(id_, 2_000)
    engine.append(session, said(2))
    long = steps_of(engine, lambda: archive.context.newest_items(id_, 2_000))
    assert long < 1.2 * short
    known, fresh = looks(engine, id_, 2_000)
    assert known == fresh
    items, _, (unread, _, _) = known
    assert unread == 10_502 - len(items)


def steps_of(engine: lossless.Engine, act: Callable[[], object]) -> int:
    connection, taken = engine.archive.database.connection(), 0

    def step() -> bool:
        nonlocal taken
        taken += 1
        return False

    connection.set_progress_handler(step, 10)
    try:
        act()
    finally:
        connection.set_progress_handler(None)
    return taken


@pytest.mark.parametrize("format", MESSAGES)
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_a_sketch_gives_the_message_as_it_is_read_whole(
    engine: lossless.Engine, format: str, data: st.DataObject
) -> None:
    session = lossless.Session(key=f"case {next(NUMBERS)}")
    (id_,) = engine.append(session, [data.draw(MESSAGES[format]())]).message_ids
    sketch, whole = engine.archive.context.sketches([id_])[id_], engine.archive.messages.get(id_)
    assert sketch.exact() == whole.message
    assert json.dumps(sketch.exact().original) == json.dumps(whole.message.original)
    assert sketch.message == engine.archive.messages.many([id_], exact=False)[0].message
    assert sketch.file_id == whole.file_id


def test_a_damaged_original_is_said_to_be_so(engine: lossless.Engine) -> None:
    session = lossless.Session(key=f"case {next(NUMBERS)}")
    (id_,) = engine.append(
        session, [{"role": "user", "content": [{"type": "text", "text": "hello", "n": 1}]}]
    ).message_ids
    with engine.archive.writing():
        engine.archive.database.run("UPDATE message_extras SET skeleton = x'3100' WHERE message_id = ?", (id_,))
    sketch = engine.archive.context.sketches([id_])[id_]
    assert sketch.message.content == "hello"
    assert sketch.exact().content == "hello"  # a prompt goes on with the words that are left
    assert sketch.exact().body is None
    with pytest.raises(ArchiveCorrupt, match=f"message {id_} cannot be read back"):
        engine.archive.messages.get(id_)
    assert engine.archive.context.sketches([]) == {}


def test_long_results_that_are_shown_in_part_do_not_make_a_prompt_read_all_history(engine: lossless.Engine) -> None:
    session = lossless.Session(key=f"case {next(NUMBERS)}")
    messages: list[dict[str, object]] = []
    for n in range(300):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "run", "arguments": "{}"}}
        messages += [
            {"role": "user", "content": f"step {n}"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": f"{n:04d}=0x7f,{n * 31:06d};\n" * 200},
            {"role": "assistant", "content": f"done {n}"},
        ]
    engine.append(session, messages)
    made = engine.assemble(session, budget=8_000)
    shown = sum(form == "shortened" for _, form in made.receipt.included)
    assert shown > 10  # the results are counted as they are shown: more of them fit
    assert len(made.receipt.included) + len(made.receipt.left_out) < 400
    assert len(made.receipt.included) + len(made.receipt.left_out) + made.receipt.unread == len(messages)


def test_a_summary_that_fits_by_its_estimate_alone_is_shown_in_part(engine: lossless.Engine) -> None:
    session, id_ = begin(engine, 12)
    words = "\n".join(f'- "harbour {n}"' for n in range(60))
    items = engine.archive.context.items(id_)
    fold(engine.archive, id_, items, NewSummary(summary_id("s", words), 0, words, 400, "m"), CLOCK())
    block = {"type": "text", "text": "And now, after the harbour?"}  # sent, it takes more than its words
    engine.append(session, [{"role": "user", "content": [block]}])
    size = sum(item.budget_tokens for item in engine.archive.context.items(id_))
    for budget in range(size + 70, size + 140):
        receipt = engine.assemble(session, budget=budget, format="anthropic", record=False).receipt
        assert receipt.fits
        assert receipt.included[0][0].startswith("sum_"), (budget, size)
