"""Windows with large messages anywhere: whatever the archive keeps in files, what is sent fits the window."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import settings as search
from hypothesis import strategies as st

import lossless
from lossless import formats
from lossless.context.render import item_json, item_tokens
from lossless.hosts.adapter import WindowSync
from lossless.model.messages import ModelIdentity
from lossless.providers.chat_completions import ChatCompletions
from lossless.providers.messages_api import MessagesApi
from lossless.providers.responses_api import ResponsesApi
from lossless.providers.turn import TurnRecorder
from tests.compaction.loop_kit import settings

if TYPE_CHECKING:
    from lossless.providers.api import ProviderAPI

Raw = dict[str, Any]
SESSION = lossless.Session(key="agent:main:main")
#: From so many tokens on a message lies in a file: the least that the setting takes.
THRESHOLD = 1_000
#: More than the recall tools and the text about them take of a window.
BESIDE = 4_000
DIALECTS: dict[str, ProviderAPI] = {"chat": ChatCompletions(), "messages": MessagesApi(), "responses": ResponsesApi()}


def words(count: int, name: str = "w") -> str:
    """A text of about `count` tokens that is like no other."""
    return " ".join(f"{name}{n}" for n in range(count))[: 4 * count] or name


def size(messages: list[Raw]) -> int:
    return sum(item_tokens(message, item_json(message)) for message in messages)


@dataclass(frozen=True)
class Step:
    """One turn: what the user says, what a tool answers if one is asked, what the model says."""

    user: int
    result: int | None
    reply: int


SIZES = st.one_of(st.integers(1, 60), st.integers(1, 60), st.integers(900, 9_000))
STEPS = st.lists(st.builds(Step, SIZES, st.none() | SIZES, SIZES), min_size=1, max_size=5)


def said(kind: str, n: int, step: Step) -> list[list[Raw]]:
    """A turn in a dialect: what each request of it adds, and last the reply."""
    user: Raw = {"role": "user", "content": words(step.user, f"u{n}x")}
    reply: Raw = {"role": "assistant", "content": words(step.reply, f"a{n}x")}
    if step.result is None:
        return [[user], [reply]]
    output, id_ = words(step.result, f"r{n}x"), f"call_{n}"
    if kind == "messages":
        call = {"type": "tool_use", "id": id_, "name": "ls", "input": {}}
        result = {"type": "tool_result", "tool_use_id": id_, "content": output}
        return [[user], [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}], [reply]]
    if kind == "responses":
        asked = {"type": "function_call", "call_id": id_, "name": "ls", "arguments": "{}"}
        return [[user], [asked, {"type": "function_call_output", "call_id": id_, "output": output}], [reply]]
    function = {"id": id_, "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    calls: Raw = {"role": "assistant", "content": None, "tool_calls": [function]}
    return [[user], [calls, {"role": "tool", "tool_call_id": id_, "content": output}], [reply]]


def windows(kind: str, steps: list[Step]) -> list[list[Raw]]:
    """The window of each request."""
    made: list[list[Raw]] = []
    window: list[Raw] = []
    for n, step in enumerate(steps):
        *asked, reply = said(kind, n, step)
        for added in asked:
            window = [*window, *added]
            made.append(window)
        window = [*window, *reply]
    return made


def is_possible(window: list[Raw], room: int) -> bool:
    """Whether the user's newest message fits by itself, or is so large that a reference stands for it."""
    users = [one for one in window if one.get("role") == "user" and isinstance(one["content"], str)]
    alone = size(users[-1:])
    return alone + 200 <= room or alone >= THRESHOLD + 20


def open_engine(folder: str) -> lossless.Engine:
    return lossless.open(Path(folder) / "lcm.db", settings(large_file_threshold_tokens=THRESHOLD), background=False)


@pytest.mark.parametrize("kind", DIALECTS)
@search(max_examples=5)
@given(steps=STEPS, window=st.integers(2_500, 14_000))
def test_every_request_fits(kind: str, steps: list[Step], window: int) -> None:
    dialect = DIALECTS[kind]
    key = "input" if kind == "responses" else "messages"
    with tempfile.TemporaryDirectory() as folder, open_engine(folder) as engine:
        for messages in windows(kind, steps):
            keeping = TurnRecorder(engine, SESSION, dialect, window=window, tools="never")
            turn = keeping.turn({"model": "m", key: messages})
            room = engine.host.capacity(SESSION, budget=turn.budget, model=ModelIdentity("openai", dialect.format, "m"))
            assert turn.not_kept is None
            assert turn.is_assembled == (turn.body[key] is not messages)
            assert turn.is_assembled or size(messages) <= room
            if is_possible(messages, room):
                assert size(turn.body[key]) <= room
        assert engine.verify().ok


@search(max_examples=6)
@given(steps=STEPS, budget=st.integers(2_500, 14_000))
def test_every_window_of_a_framework_fits(steps: list[Step], budget: int) -> None:
    with tempfile.TemporaryDirectory() as folder, open_engine(folder) as engine:
        kept = WindowSync(engine, "mine", budget)
        for messages in windows("chat", steps):
            fitting = kept.fit(SESSION, [kept.carrying(one, one) for one in messages])
            given_back = messages
            if fitting is not None:
                given_back = [kept.own(one) or formats.encode([one], "openai-chat")[0] for one in fitting]
            if is_possible(messages, budget) or fitting is None:
                assert size(given_back) <= budget
        assert engine.verify().ok


def filled(*texts: str) -> list[Raw]:
    """A window in which each text is answered but for the last."""
    made: list[Raw] = []
    for text in texts:
        made += [{"role": "user", "content": text}, {"role": "assistant", "content": f"ok {len(made)}"}]
    return made[:-1]


def sent(engine: lossless.Engine, messages: list[Raw], window: int, **more: Any) -> Any:
    return TurnRecorder(engine, SESSION, ChatCompletions(), window=window, **more).turn(
        {"model": "m", "messages": messages}
    )


def test_an_old_paste_beyond_the_window_is_a_reference_and_can_be_read_by_the_model(tmp_path: Path) -> None:
    with open_engine(str(tmp_path)) as engine:
        turn = sent(engine, filled("hello", words(9_000), "and now?"), 8_000 + BESIDE)
        text = json.dumps(turn.body["messages"])
        assert turn.is_assembled
        assert "[LCM Raw Payload: file_" in text
        assert size(turn.body["messages"]) <= 2_000
        assert "lcm_describe" in turn.hidden


def test_what_fits_goes_as_it_came_though_the_archive_has_it_in_a_file(tmp_path: Path) -> None:
    messages = filled("hello", words(3_000), "and now?")
    with open_engine(str(tmp_path)) as engine:
        turn = sent(engine, messages, 8_000 + BESIDE)
        assert turn.body["messages"] is messages
        assert not turn.hidden


@pytest.mark.parametrize("share", [0.4, 0.6, 0.9])
@pytest.mark.parametrize("kind", DIALECTS)
def test_the_newest_words_of_the_user_are_whole_while_they_fit(tmp_path: Path, kind: str, share: float) -> None:
    key = "input" if kind == "responses" else "messages"
    paste = "the ferry is late " * int(share * 8_000 / 1.15 * 4 / 18)
    older = [f"{n} {words(700, f'o{n}x')}" for n in range(12)]
    with open_engine(str(tmp_path)) as engine:
        keeping = TurnRecorder(engine, SESSION, DIALECTS[kind], window=8_000, tools="never")
        turn = keeping.turn({"model": "m", key: filled(*older, paste)})
        last = turn.body[key][-1]
        assert turn.is_assembled
        assert last["role"] == "user"
        assert paste in json.dumps(last["content"])
        assert size(turn.body[key]) <= 8_000 / 1.15


def test_newest_words_that_do_not_fit_are_a_reference(tmp_path: Path) -> None:
    with open_engine(str(tmp_path)) as engine:
        turn = sent(engine, filled("hello", words(9_000)), 8_000, tools="never")
        assert turn.body["messages"][-1]["content"].startswith("[LCM Raw Payload: file_")
        assert size(turn.body["messages"]) < 1_000


def test_nothing_is_learned_about_a_tokenizer_from_words_that_are_counted_as_a_reference(tmp_path: Path) -> None:
    messages = filled("hello", words(9_000), *(words(90, f"q{n}x") for n in range(9)))
    with open_engine(str(tmp_path)) as engine:
        identity = ModelIdentity("openai", "openai-chat", "m")
        for n in range(8):
            turn = sent(engine, messages, 40_000, tools="never")
            assert turn.body["messages"] is messages
            reply = {"role": "assistant", "content": f"fine {n}"}
            counted = {"prompt_tokens": size(messages)}
            turn.take({"choices": [{"index": 0, "message": reply, "finish_reason": "stop"}], "usage": counted})
            messages = [*messages, reply, {"role": "user", "content": f"go on {n}"}]
        assert engine.host.capacity(SESSION, budget=40_000, model=identity) == int(40_000 / 1.15)
