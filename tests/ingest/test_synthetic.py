"""Our own words in a window are recognised by ids and texts; look-alikes are ordinary messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

import lossless
from lossless.formats.synthetic import MISSING_RESULT, OPENING_TEXT
from lossless.testing import sample_conversation
from lossless.testing.sample import openai_chat

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SESSION = lossless.Session(key="agent:main:synthetic")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[lossless.Engine]:
    settings = lossless.Settings(fresh_tail_count=8)
    with lossless.open(tmp_path / "lcm.db", settings, background=False) as engine:
        engine.append(SESSION, cast("list[dict[str, Any]]", list(openai_chat(sample_conversation(200)))))
        engine.pin(SESSION, "Always answer in metric units.")
        engine.compact(SESSION, budget=8_000, force=True)
        yield engine


def _count(engine: lossless.Engine) -> int:
    return engine.archive.listings.counts().messages


def _prompt(engine: lossless.Engine, prompt: str | None = None) -> list[dict[str, Any]]:
    return engine.assemble(SESSION, budget=8_000, prompt=prompt).messages


def test_an_assembled_prompt_shown_back_stores_nothing(engine: lossless.Engine) -> None:
    before, shown = _count(engine), _prompt(engine)
    assert any(str(message.get("content", "")).startswith("<summary ") for message in shown)
    assert any(str(message.get("content", "")).startswith("Pinned by the user") for message in shown)
    report = engine.sync(SESSION, shown)
    assert report.stored == 0
    assert _count(engine) == before
    assert {skip.reason for skip in report.skipped} >= {"a summary of ours", "pins of ours"}


@pytest.mark.parametrize("budget", range(600, 8_000, 400))
@pytest.mark.parametrize("format", ["openai-chat", "anthropic"])
def test_so_does_one_that_shows_its_parts_in_part(engine: lossless.Engine, budget: int, format: str) -> None:
    before, made = _count(engine), engine.assemble(SESSION, budget=budget, format=format)
    assert engine.sync(SESSION, made.messages).stored == 0
    assert _count(engine) == before


def test_a_summary_shown_in_part_is_ours_and_one_with_other_words_is_not(engine: lossless.Engine) -> None:
    before, made = _count(engine), engine.assemble(SESSION, budget=900)
    (short,) = [message for message in made.messages if "[LCM Shortened: sum_" in str(message["content"])]
    other = short | {"content": short["content"].replace("  <content>\n", "  <content>\nOther words. ")}
    assert engine.sync(SESSION, [short, other, *made.messages[made.messages.index(short) + 1 :]]).stored == 1
    assert _count(engine) == before + 1


@pytest.mark.parametrize("budget", [900, 1_600, 3_000])
def test_words_that_a_host_joins_to_ours_are_kept(engine: lossless.Engine, budget: int) -> None:
    engine.surgery.focus(SESSION, "the ferry")
    made = engine.assemble(SESSION, budget=budget).messages
    texts = [str(message["content"]) for message in made if str(message["content"]).startswith(("<", "[LCM", "Pinned"))]
    texts.append("[LCM earlier steps of this turn: 2 messages left out to make room]\nThey are msg#3 to msg#5.")
    for n, text in enumerate(texts):
        words = f"Words of my own, number {n}."
        assert engine.sync(SESSION, [*made, {"role": "user", "content": text}]).stored == 0
        engine.sync(SESSION, [*made, {"role": "user", "content": f"{text}\n\n{words}"}])
        assert any(words in row["content"] for row in engine.sql("SELECT content FROM messages"))


def test_the_next_turn_behind_a_prompt_is_stored(engine: lossless.Engine) -> None:
    shown = _prompt(engine)
    report = engine.sync(SESSION, [*shown, {"role": "user", "content": "And now?"}])
    assert report.stored == 1


def test_a_cue_is_recognised(engine: lossless.Engine) -> None:
    folded = engine.archive.messages.in_order(1, 0, 40)
    word = next(w for m in folded for w in m.message.content.split() if "_" in w and w.strip(".,`").isidentifier())
    shown = _prompt(engine, f"What about {word.strip('.,`')}?")
    cues = [m for m in shown if str(m.get("content", "")).startswith("<lossless_claw_prompt_recall>")]
    report = engine.sync(SESSION, shown)
    assert report.stored == 0
    assert ("a recall cue of ours" in {skip.reason for skip in report.skipped}) == bool(cues)


@pytest.mark.parametrize(
    "text",
    [
        '<summary id="sum_0000000000000000" kind="leaf" depth="0" descendant_count="0" trust="untrusted">\n</summary>',
        "Pinned by the user: whatever",
        "[LCM earlier steps of this turn: 3 messages left out to make room]",
        "<lossless_claw_prompt_recall>\nnot ours\n</lossless_claw_prompt_recall>",
        '<focus_brief id="focus_0000000000000000" prompt="x">',
    ],
)
def test_a_pasted_look_alike_is_an_ordinary_message(engine: lossless.Engine, text: str) -> None:
    report = engine.sync(SESSION, [*_prompt(engine), {"role": "user", "content": text}])
    assert report.stored == 1


def test_an_altered_summary_is_an_ordinary_message(engine: lossless.Engine) -> None:
    shown = _prompt(engine)
    summary = next(m for m in shown if str(m.get("content", "")).startswith("<summary "))
    report = engine.sync(SESSION, [*shown, {"role": "user", "content": summary["content"] + " and more"}])
    assert report.stored == 1


def test_fixed_texts_are_never_stored(engine: lossless.Engine) -> None:
    shown = _prompt(engine)
    report = engine.sync(
        SESSION,
        [
            {"role": "user", "content": OPENING_TEXT},
            *shown,
            {"role": "tool", "tool_call_id": "call_gone", "content": MISSING_RESULT},
        ],
    )
    assert report.stored == 0
