"""Whatever is hidden or put in between, the places of a context have no gaps: lossless-claw cannot fold across one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lossless
from lossless.testing import VirtualClock

if TYPE_CHECKING:
    from pathlib import Path

HERE = lossless.Session(key="agent:main:here", id="run-1")
CHAT: list[dict[str, Any]] = [
    {"role": ("user", "assistant")[n % 2], "content": f"Ferry number {n} leaves from berth {n * 7}."} for n in range(12)
]


def open_engine(path: Path) -> lossless.Engine:
    return lossless.open(path, lossless.Settings(), clock=VirtualClock(), background=False)


def ordinals(engine: lossless.Engine) -> list[int]:
    found = engine.archive.conversations.find(HERE)
    assert found is not None
    return [item.ordinal for item in engine.archive.context.items(found.id)]


def is_dense(engine: lossless.Engine) -> bool:
    places = ordinals(engine)
    return bool(places) and places == list(range(len(places))) and engine.verify().ok


def test_another_system_prompt(path: Path) -> None:
    with open_engine(path) as engine:
        engine.sync(
            HERE, [{"role": "system", "content": "Be brief."}, {"role": "system", "content": "Be kind."}, *CHAT]
        )
        engine.sync(HERE, [{"role": "system", "content": "Be exact."}, *CHAT])
        assert len(ordinals(engine)) == 13
        assert is_dense(engine)
        engine.sync(HERE, [{"role": "system", "content": f"Rule {n}."} for n in range(4)] + CHAT)
        assert len(ordinals(engine)) == 16
        assert is_dense(engine)


def test_a_branch_and_back(path: Path) -> None:
    with open_engine(path) as engine:
        engine.sync(HERE, CHAT)
        other = [*CHAT[:6], {"role": "user", "content": "No: the tide tables, please."}]
        engine.sync(HERE, other)
        assert is_dense(engine)
        engine.sync(HERE, [*other, {"role": "assistant", "content": "High water is at nine."}])
        assert is_dense(engine)
        engine.sync(HERE, CHAT)
        assert is_dense(engine)


def test_a_message_in_between(path: Path) -> None:
    with open_engine(path) as engine:
        engine.sync(HERE, CHAT)
        engine.sync(HERE, [*CHAT[:4], {"role": "user", "content": "And, by the way, who pays?"}, *CHAT[4:]])
        assert len(ordinals(engine)) == 13
        assert is_dense(engine)


def test_beginning_anew(path: Path) -> None:
    with open_engine(path) as engine:
        engine.sync(HERE, CHAT)
        engine.new(HERE)
        engine.append(HERE, [{"role": "user", "content": "A new day."}])
        assert ordinals(engine) == [0]
        assert is_dense(engine)


def test_of_very_many_places_only_the_newest_are_numbered(path: Path) -> None:
    many = [{"role": ("user", "assistant")[n % 2], "content": f"Line {n}."} for n in range(5_040)]
    with open_engine(path) as engine:
        engine.append(HERE, many)
        (conversation,) = [engine.archive.conversations.find(HERE)]
        assert conversation is not None
        context, now = engine.archive.context, VirtualClock()()
        ids = {item.ordinal: item.message_id for item in context.items(conversation.id)}  # type: ignore[union-attr]
        with engine.archive.writing():
            context.hide(conversation.id, [ids[9], ids[5_030]], "branch", now)
            assert context.close_gaps(conversation.id)
        places = ordinals(engine)
        assert len(places) == 5_038
        assert places[:9] == list(range(9))
        assert places[9:] == list(range(10, 5_039))  # the older gap is too far away
        assert not context.close_gaps(conversation.id)
        assert engine.verify().ok
