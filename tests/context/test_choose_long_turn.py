"""One question and hundreds of tool results: the question stays, the newest steps stay, and the prompt fits."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from lossless.model.context import MessageItem
from lossless.testing import Scripted
from tests.compaction.loop_kit import SESSION, conversation_id, open_engine, rows, size, summaries, talk
from tests.compaction.providers import FORMATS, accepted_by_sdk, complaints

if TYPE_CHECKING:
    from pathlib import Path

Raw = dict[str, Any]
BUDGET = 8_000
STEPS = 100
NEWEST = 8
QUESTION: Raw = {"role": "user", "content": "Read all of it and find the odd one."}


def step(n: int, letters: int = 2_000) -> list[Raw]:
    """A call, and its result of `letters`."""
    function = {"name": "read", "arguments": json.dumps({"path": f"src/part_{n}.py"})}
    call = {"id": f"call_{n}", "type": "function", "function": function}
    text = f"{n:04d} line\n" * (letters // 10)
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{n}", "content": text},
    ]


def test_a_hundred_results_without_a_fold(tmp_path: Path) -> None:
    before: dict[str, list[str]] = {format: [] for format in FORMATS}
    changes, added = Counter[str](), 0
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(SESSION, [{"role": "system", "content": "Be thorough."}, *talk(6), QUESTION])
        for n in range(STEPS):
            engine.append(SESSION, step(n))
            added += size(step(n))
            for format in FORMATS:
                if n % 10 != FORMATS.index(format) and n != STEPS - 1:
                    continue
                made = engine.assemble(SESSION, budget=BUDGET, format=format)
                assert size(made.messages) <= BUDGET, n
                assert complaints(made.messages, format) == [], n
                assert QUESTION["content"] in json.dumps(made.messages), "the question is there"
                now = [json.dumps(message) for message in made.messages]
                changes[format] += now[: len(before[format])] != before[format]
                before[format] = now
        newest = rows(engine, "SELECT message_id FROM messages ORDER BY seq DESC LIMIT ?", NEWEST)
        for format in FORMATS:
            made = engine.assemble(SESSION, budget=BUDGET, format=format)
            accepted_by_sdk(made.messages, format)
            verbatim = {id_ for id_, form in made.receipt.included if form == "verbatim"}
            assert {f"msg#{id_}" for (id_,) in newest} <= verbatim
            assert made.tokens > 0.6 * BUDGET, "and the room is used"
    assert max(changes.values()) <= added / (0.1 * BUDGET) + 1


def test_every_step_is_there_or_named(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(SESSION, [QUESTION, *(message for n in range(120) for message in step(n))])
        made = engine.assemble(SESSION, budget=8_000)
        (run,) = (m["content"] for m in made.messages if "LCM earlier steps" in str(m["content"]))
        shown = [m["tool_call_id"] for m in made.messages if m["role"] == "tool"]
        first = int(shown[0].removeprefix("call_"))
        assert shown == [f"call_{n}" for n in range(first, 120)]
        assert f"msg#2 to msg#{1 + 2 * first}" in run
        stubs = [m["content"] for m in made.messages if "LCM Tool Output" in str(m["content"])]
        assert all("lcm_describe" in stub for stub in stubs)
        assert len(stubs) >= 10


def test_the_turn_is_folded_from_within_when_it_fills_the_budget(tmp_path: Path) -> None:
    budget, model = 8_000, Scripted()
    with open_engine(tmp_path / "lcm.db", model, leaf_chunk_tokens=2_000) as engine:
        engine.append(SESSION, [*talk(10), QUESTION])
        for n in range(30):
            engine.after_turn(SESSION, new_messages=step(n), budget=budget)
            made = engine.assemble(SESSION, budget=budget)
            assert complaints(made.messages, "openai-chat") == []
            assert size(made.messages) <= budget
            assert QUESTION in made.messages
            newest = [message for k in range(max(0, n - 2), n + 1) for message in step(k)]
            assert made.messages[-len(newest) :] == newest
        items = engine.archive.context.items(conversation_id(engine))
        question = next(n for n, item in enumerate(items) if isinstance(item, MessageItem))
        assert any(not isinstance(item, MessageItem) for item in items[question:]), "summaries stand inside the turn"
        assert {writer for *_, writer in summaries(engine)} == {"lossless-extractive"}
        assert engine.verify().problems == ()


def test_a_question_that_is_too_long_by_itself_is_shown_in_part_and_said_to_be(tmp_path: Path) -> None:
    long = {"role": "user", "content": "why? " * 2_000}
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(SESSION, [*talk(10), long])
        made = engine.assemble(SESSION, budget=1_000)
        assert made.messages[-1]["content"].startswith("why? why? ")
        assert '; lcm_describe(id="msg#11") reads them]' in made.messages[-1]["content"]
        assert (made.receipt.fits, made.receipt.shortened) == (True, ("msg#11",))
        assert size(made.messages) <= 1_000
