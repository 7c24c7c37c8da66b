"""Odd models, odd figures and odd arguments: nothing breaks the loop, and mistakes are said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.errors import BadInput
from lossless.llm.response import answer_text
from tests.faults import SESSION, problems

if TYPE_CHECKING:
    from pathlib import Path


def long_talk(count: int = 40) -> list[dict[str, Any]]:
    return [{"role": "user" if n % 2 else "assistant", "content": f"word{n} and more " * 60} for n in range(count)]


def test_a_model_that_answers_with_half_a_character_is_understood(path: Path) -> None:
    settings = lossless.Settings(fresh_tail_count=4, leaf_chunk_tokens=2000)
    with lossless.open(path, settings, lambda _prompt: "short \ud83d summary", background=False) as engine:
        engine.append(SESSION, long_talk())
        report = engine.compact(SESSION, force=True)
        assert report.summary_ids
        assert "\ufffd" in engine.archive.summaries.get(report.summary_ids[0]).content
        assert problems(engine) == []


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("THOUGHT</think>short summary", "short summary"),
        ("first\n</think>\nDone.", "Done."),
        ("The tag `</think>` closes it.", "The tag `</think>` closes it."),
    ],
)
def test_thinking_whose_beginning_was_swallowed_is_no_summary(answer: str, expected: str) -> None:
    assert answer_text(answer) == expected


def test_cache_marks_stay_within_what_anthropic_takes(engine: lossless.Engine) -> None:
    for turn in range(8):
        marked = {"type": "text", "text": f"question {turn}", "cache_control": {"type": "ephemeral"}}
        said: list[Any] = [{"role": "user", "content": [marked]}, {"role": "assistant", "content": f"answer {turn}"}]
        engine.append(SESSION, said)
    engine.append(SESSION, [{"role": "user", "content": "and now?"}])
    messages = engine.assemble(SESSION, format="anthropic").messages
    blocks = [block for message in messages if isinstance(message["content"], list) for block in message["content"]]
    marks = [block["text"] for block in blocks if "cache_control" in block]
    assert marks == ["question 4", "question 5", "question 6", "question 7"]


def test_names_of_tools_are_legal_for_anthropic(engine: lossless.Engine) -> None:
    call: Any = {"id": "c:1", "type": "function", "function": {"name": "server.read file", "arguments": "{}"}}
    engine.append(
        SESSION,
        [
            {"role": "user", "content": "read"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c:1", "content": "done"},
            {"role": "user", "content": "thanks"},
        ],
    )
    messages = engine.assemble(SESSION, format="anthropic").messages
    assert messages[1]["content"][0]["name"] == "server_read_file"


def cache_read(engine: lossless.Engine) -> int:
    rows = engine.archive.database.rows("SELECT last_observed_cache_read FROM conversation_compaction_telemetry")
    return int(rows[0][0])


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 900, "prompt_tokens_details": {"cached_tokens": 700}},
        {"input_tokens": 900, "input_tokens_details": {"cached_tokens": 700}},
        {"input_tokens": 200, "cache_read_input_tokens": 700, "cache_creation_input_tokens": 0},
    ],
)
def test_what_the_cache_gave_is_recorded(engine: lossless.Engine, usage: dict[str, Any]) -> None:
    engine.after_turn(SESSION, new_messages=[{"role": "user", "content": "hi"}], usage=usage, model="openai/gpt")
    assert cache_read(engine) == 700


@pytest.mark.parametrize("count", [float("nan"), float("inf"), 10**30, -5, True, "many"])
def test_figures_that_make_no_sense_are_left_out(engine: lossless.Engine, count: Any) -> None:
    report = engine.after_turn(
        SESSION, new_messages=[{"role": "user", "content": "hi"}], usage={"input_tokens": count}, model="m"
    )
    assert report.append.stored == 1


def test_mistakes_are_said(engine: lossless.Engine, path: Path) -> None:
    engine.append(SESSION, [{"role": "user", "content": "hi"}])
    for budget in ("x", float("nan"), 0, -1, True):
        with pytest.raises(BadInput, match="budget"):
            engine.assemble(SESSION, budget=budget)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="surrogate"):
        engine.pin(SESSION, "half \ud800")

    async def complete(_prompt: object) -> str:
        return "later"

    with pytest.raises(BadInput, match="plain function"):
        lossless.open(path.with_name("other.db"), complete=complete)


def test_a_session_says_how_it_stands(engine: lossless.Engine) -> None:
    engine.append(SESSION, long_talk(6))
    found = engine.status(SESSION)
    assert (found.messages, found.context_items, found.ingest.stored) == (6, 6, 6)
    assert found.is_healthy
    assert found.last_compacted_at is None
