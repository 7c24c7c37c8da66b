"""Two tabs on one session: from the second return on they are two conversations, and the one shown last is active."""

from __future__ import annotations

from random import Random
from typing import Any

import lossless
from tests.hosts_fuzz.words import sentence

SESSION = lossless.Session(key="agent:main:main")
Raw = dict[str, Any]


def turn(what: str) -> list[Raw]:
    """A question and its answer that have nothing in common with others."""
    random = Random(what)
    return [{"role": role, "content": sentence(random, f"{what} {role}")} for role in ("user", "assistant")]


def prompt(engine: lossless.Engine) -> list[str]:
    made = engine.assemble(SESSION, budget=100_000, allow_trailing_assistant=True)
    return [str(message["content"]) for message in made.messages]


def texts(window: list[Raw]) -> list[str]:
    return [str(message["content"]) for message in window]


def show(engine: lossless.Engine, window: list[Raw]) -> int | None:
    report = engine.sync(SESSION, window)
    assert prompt(engine) == texts(window)
    return report.conversation_id


def test_two_tabs_become_two_conversations_at_the_second_return(engine: lossless.Engine) -> None:
    shared = [*turn("chapter 1"), *turn("chapter 2")]
    tabs = [[*shared], [*shared]]
    ids = []
    for n, tab in enumerate((0, 1, 0, 1, 0, 1, 1, 0)):
        tabs[tab] += turn(f"note {n} of tab {tab}")
        ids.append(show(engine, tabs[tab]))
    assert len(set(ids[:3])) == 1  # a host that returns once may have changed its mind
    assert ids[3] != ids[2]
    assert ids[4:] == [ids[2], ids[3], ids[3], ids[2]]
    assert show(engine, tabs[0]) == ids[2]
    family = engine.archive.conversations.family(SESSION)
    assert [one.id for one in family if one.active] == [ids[2]]
    assert [(one.id, one.archive_cause) for one in family if not one.active] == [(ids[3], "tab")]
    for id_, window in zip((ids[2], ids[3]), tabs, strict=True):
        assert id_ is not None
        rows = engine.archive.database.rows("SELECT content FROM messages WHERE conversation_id = ?", (id_,))
        stored = [str(text) for (text,) in rows]
        assert len(stored) == len(set(stored))
        assert set(texts(window)) <= set(stored)
    assert engine.verify().ok


def test_a_host_that_changes_its_mind_once_keeps_one_conversation(engine: lossless.Engine) -> None:
    first, second = [*turn("page 1"), *turn("page 2")], [*turn("page 1"), *turn("page 3")]
    ids = {show(engine, first), show(engine, second), show(engine, first)}
    ids |= {show(engine, [*first, *turn("page 4")]), show(engine, [*first, *turn("page 5")])}
    assert len(ids) == 1


def test_a_tab_that_asks_for_an_answer_again_stays_where_it_is(engine: lossless.Engine) -> None:
    shared = turn("the preface")
    one, two = [*shared, *turn("left")], [*shared, *turn("right")]
    for window in (one, two, one, two):
        last = show(engine, window)
    again = [*one[:-1], {"role": "assistant", "content": "Nothing at all, as far as the left page goes."}]
    first = show(engine, again)
    assert first != last
    assert show(engine, two) == last
    assert show(engine, [*again, *turn("left again")]) == first


def test_a_message_of_the_branch_that_a_host_returns_to_is_its_row(engine: lossless.Engine) -> None:
    """Not a version of a similar one on the other branch."""
    pairs = [
        ("I love your ice cream so much, it is the best", "Me too!"),
        ("I love your turtles so much, so cute", "Yes!"),
    ]
    asked = [[{"role": "user", "content": one}, {"role": "assistant", "content": other}] for one, other in pairs]
    start = turn("page 1")
    first, second = [*start, *asked[0]], [*start, *turn("page 2"), *asked[1]]
    for window in (first, second, [*first, *turn("page 3")]):
        show(engine, window)
    rows = engine.archive.database.rows("SELECT content FROM messages WHERE role = 'user' ORDER BY message_id", ())
    stored = [str(text) for (text,) in rows]
    assert len(stored) == len(set(stored)) == 5
