"""When a request is sent as it came, and when it has to be put together anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.providers.chat_completions import ChatCompletions
from lossless.providers.token_limits import window_tokens
from lossless.providers.turn import TurnRecorder
from tests.compaction.loop_kit import settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Raw = dict[str, Any]
SESSION = lossless.Session(key="agent:main:main")
#: What is added to the estimate as long as a model is not known.
MARGIN = 1.15


@pytest.fixture
def engine(path: Path) -> Iterator[lossless.Engine]:
    with lossless.open(path, settings(), background=False) as opened:
        yield opened


def window(count: int, text: str = 'He said "yes"\n' * 20) -> list[Raw]:
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": f"{n} {text}"} for n in range(count)]


def size(messages: list[Raw]) -> int:
    return window_tokens(messages)


def turn(engine: lossless.Engine, messages: list[Raw], budget: int) -> Any:
    keeping = TurnRecorder(engine, SESSION, ChatCompletions(), window=budget, tools="never")
    return keeping.turn({"model": "m", "messages": messages})


@pytest.mark.parametrize(("spare", "fits"), [(2, True), (-2, False)])
def test_a_request_that_just_fits_is_sent_as_it_came(engine: lossless.Engine, spare: int, fits: bool) -> None:
    messages = window(41)
    made = turn(engine, messages, int(MARGIN * size(messages)) + spare)
    assert made.is_assembled != fits
    assert (made.body["messages"] is messages) == fits
    assert size(made.body["messages"]) <= int(MARGIN * size(messages)) + spare


def test_a_model_that_counts_more_gets_less(engine: lossless.Engine) -> None:
    messages = window(9)
    for n in range(9):
        made = turn(engine, messages, 64_000)
        reply = {"role": "assistant", "content": f"ok {n}"}
        counted = {"prompt_tokens": 2 * size(made.body["messages"])}
        made.take({"choices": [{"index": 0, "message": reply, "finish_reason": "stop"}], "usage": counted})
        messages = [*messages, reply, {"role": "user", "content": f"go on {n} " + 'with "this" ' * 40}]
    made = turn(engine, messages, int(1.7 * size(messages)))
    assert made.is_assembled
    assert 2 * size(made.body["messages"]) <= 1.7 * size(messages)


def test_the_most_that_the_settings_allow(path: Path) -> None:
    messages = window(41)
    limit = size(messages) // 2
    with lossless.open(path, settings(max_assembly_token_budget=limit), background=False) as engine:
        made = turn(engine, messages, 10 * size(messages))
    assert made.is_assembled
    assert size(made.body["messages"]) <= limit
