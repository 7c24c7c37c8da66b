"""The scripted model does what its script says, and the virtual clock moves only when told."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from lossless.errors import ModelAuth, ModelRateLimit, ModelTimeout
from lossless.llm.completion import Complete, Prompt
from lossless.model.tokens import estimate_tokens
from lossless.testing import DIRECTIVES, Mode, Scripted, VirtualClock, hang, sample_conversation, say
from lossless.testing.scripted import source_of
from tests.waiting import wait_for

SOURCE = "\n".join(message["content"][0].get("text", "") for message in sample_conversation(40))


def _prompt(source: str = SOURCE, max_tokens: int = 500) -> Prompt:
    return Prompt(
        system="Summarise.",
        user=f"Shorten this:\n<history>\n{source}\n</history>\nNow.",
        max_tokens=max_tokens,
    )


def test_it_is_a_model() -> None:
    model: Complete = Scripted()
    answer = model(_prompt())
    assert answer.model == "scripted"
    assert answer.stop_reason == "stop"
    assert not answer.incomplete
    assert answer.usage.output_tokens == estimate_tokens(answer.text)


def test_ok_shortens_the_source_and_always_alike() -> None:
    first, second = Scripted()(_prompt()), Scripted()(_prompt())
    assert first == second
    assert 0 < estimate_tokens(first.text) <= estimate_tokens(SOURCE) // 4
    assert " ".join(SOURCE.split()).startswith(first.text)


def test_ok_keeps_to_the_cap() -> None:
    assert estimate_tokens(Scripted()(_prompt(max_tokens=20)).text) <= 20


def test_the_source_is_the_longest_block() -> None:
    assert source_of(Prompt("", "<a>short</a> <b x='1'>much longer</b>", 10)) == "much longer"
    assert source_of(Prompt("", "no block at all", 10)) == "no block at all"


def test_the_lines_are_played_in_order_and_then_the_last_one_for_ever() -> None:
    model = Scripted("empty", say("two words"), then="echo")
    assert [model(_prompt()).text for _ in range(4)] == ["", "two words", SOURCE.strip(), SOURCE.strip()]
    assert [call.line for call in model.calls] == ["empty", say("two words"), "echo", "echo"]
    assert {call.prompt for call in model.calls} == {_prompt()}


def test_bad_answers() -> None:
    model = Scripted("longer", "reasoning", "incomplete", "directives")
    longer, reasoning, incomplete, directives = (model(_prompt()) for _ in range(4))
    assert estimate_tokens(longer.text) > estimate_tokens(SOURCE)
    assert reasoning.text.startswith("<think>")
    assert reasoning.text.endswith("</think>")
    assert incomplete.incomplete
    assert incomplete.stop_reason == "length"
    assert DIRECTIVES in directives.text
    assert estimate_tokens(directives.text) < estimate_tokens(SOURCE)


@pytest.mark.parametrize(
    ("mode", "error"), [("auth", ModelAuth), ("rate_limit", ModelRateLimit), ("timeout", ModelTimeout)]
)
def test_failures_are_raised_and_recorded(mode: Mode, error: type[Exception]) -> None:
    model = Scripted(mode)
    with pytest.raises(error) as raised:
        model(_prompt())
    assert model.calls[0].error is raised.value
    assert model(_prompt()).text


def test_any_error_can_be_played() -> None:
    with pytest.raises(ConnectionResetError):
        Scripted(ConnectionResetError("gone"))(_prompt())


def test_an_unknown_mode_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="no mode 'okay'"):
        Scripted("okay")  # type: ignore[arg-type]


def test_a_hang_waits_until_released() -> None:
    model = Scripted(hang(600))
    thread = threading.Thread(target=model, args=(_prompt(),))
    thread.start()
    wait_for(lambda: model.started)
    ended_early = len(model.calls)
    model.release()
    thread.join(60)
    assert ended_early == 0
    assert model.calls[0].completion is not None


def test_a_hang_passes_virtual_time() -> None:
    clock = VirtualClock()
    before = clock()
    assert Scripted(hang(90), clock=clock)(_prompt()).text
    assert clock() - before == timedelta(seconds=90)


def test_calls_from_many_threads_are_all_recorded() -> None:
    script: list[Mode] = ["empty"] * 20
    model = Scripted(*script)
    threads = [threading.Thread(target=model, args=(_prompt(),)) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [call.line for call in model.calls].count("empty") == 20
    assert model.started == len(model.calls) == 40


def test_the_clock_moves_only_when_told() -> None:
    clock = VirtualClock(datetime(2026, 3, 29, 0, 30, tzinfo=UTC))
    assert clock() == clock()
    assert clock.advance(30, minutes=1, hours=2, days=1) == datetime(2026, 3, 30, 2, 32, tzinfo=UTC) - timedelta(
        seconds=30
    )
    clock.sleep(0.5)
    assert clock.monotonic() == 26 * 3600 + 90.5
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)
