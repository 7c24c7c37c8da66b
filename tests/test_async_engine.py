"""`open_async`: the same verbs, awaited, on the same archive."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING

import pytest

import lossless
from lossless.async_engine import AsyncEngine
from lossless.errors import BadInput

if TYPE_CHECKING:
    from pathlib import Path


def test_a_turn_is_stored_and_assembled(tmp_path: Path) -> None:
    async def talk() -> list[str]:
        async with lossless.open_async(tmp_path / "lcm.db", lossless.Settings()) as engine:
            await asyncio.gather(*(engine.append("a", [{"role": "user", "content": f"word {n}"}]) for n in range(20)))
            made = await engine.assemble("a", budget=8_000)
            tokens = await engine.run(lambda it: it.host.capacity("a", budget=8_000))
            assert tokens == 8_000
            return sorted(str(message["content"]) for message in made.messages)

    assert asyncio.run(talk()) == sorted(f"word {n}" for n in range(20))
    with lossless.open(tmp_path / "lcm.db") as engine:
        assert engine.verify().ok


def test_the_event_loop_goes_on_and_a_coroutine_may_be_the_model(tmp_path: Path) -> None:
    asked = []

    async def complete(prompt: object) -> str:
        asked.append(prompt)
        await asyncio.sleep(0)
        return "They counted words, one after the other."

    async def talk() -> None:
        path = tmp_path / "lcm.db"
        async with lossless.open_async(path, lossless.Settings(), complete, background=False) as engine:
            words = [{"role": "user", "content": f"{n} " + "counted words " * 200} for n in range(80)]
            await engine.append("a", words)
            report = await engine.compact("a", budget=4_000, force=True)
            assert report.summary_ids

    asyncio.run(talk())
    assert asked


def test_an_engine_that_is_not_open_says_so(tmp_path: Path) -> None:
    async def talk() -> None:
        await lossless.open_async(tmp_path / "lcm.db").verify()

    with pytest.raises(BadInput, match="async with"):
        asyncio.run(talk())


def test_every_verb_has_its_awaited_twin() -> None:
    for name, verb in vars(lossless.Engine).items():
        if inspect.isfunction(verb) and not name.startswith("_"):
            assert inspect.iscoroutinefunction(getattr(AsyncEngine, name)), name
            assert inspect.signature(getattr(AsyncEngine, name)) == inspect.signature(verb), name
