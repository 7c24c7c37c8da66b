"""The promise: what is sent is never larger than the window, unless that is impossible; and then it is said."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai
import pytest
from hypothesis import given
from hypothesis import settings as search
from hypothesis import strategies as st

import lossless
from lossless import formats
from lossless.context.render import item_json, item_tokens
from lossless.hosts.adapter import WindowSync
from lossless.hosts.client_calls import ENDPOINTS
from lossless.model.messages import ModelIdentity
from lossless.providers.chat_completions import ChatCompletions
from lossless.providers.messages_api import MessagesApi
from lossless.providers.responses_api import ResponsesApi
from lossless.providers.turn import TurnRecorder
from lossless.testing.provider import Provider
from tests.compaction.loop_kit import settings
from tests.compaction.providers import complaints
from tests.serve.proxy_kit import TOKEN, post, proxied

if TYPE_CHECKING:
    from lossless.context.run import Receipt
    from lossless.providers.api import ProviderAPI

Raw = dict[str, Any]
SESSION = lossless.Session(key="agent:main:promise")
DIALECTS: dict[str, ProviderAPI] = {
    "openai-chat": ChatCompletions(),
    "anthropic": MessagesApi(),
    "openai-responses": ResponsesApi(),
}
#: Texts that take as many characters as they have, more of them once they are JSON, and more tokens for each.
ALPHABETS = ("word and word. ", 'say "so"\n\t\\ ', "潮汐表と船 ", "🚢⚓ ")

#: From here on every turn fits; below, the least that can be shown of each message may be more than there is.
LEAST_WINDOW = 4_000

SIZES = st.one_of(st.integers(0, 40), st.integers(0, 40), st.integers(41, 900), st.integers(901, 30_000))
TEXTS = st.builds(
    lambda letters, size, n: f"{n} " + (letters * (size // len(letters) + 1))[:size],
    st.sampled_from(ALPHABETS),
    SIZES,
    st.integers(0, 999),
)
#: A step of a turn: nothing but words, or calls with their arguments and results.
CALLS = st.lists(st.tuples(TEXTS, TEXTS), max_size=3)
TURNS = st.lists(st.tuples(TEXTS, st.lists(CALLS, max_size=3), TEXTS), min_size=1, max_size=4)


def chat(turns: list[tuple[str, list[list[tuple[str, str]]], str]]) -> list[list[Raw]]:
    """What each request adds to a conversation, as chat messages."""
    made: list[list[Raw]] = []
    for n, (asked, steps, said) in enumerate(turns):
        added: list[Raw] = [{"role": "user", "content": asked}]
        for k, calls in enumerate(steps):
            made.append(added)
            ids = [f"call_{n}_{k}_{c}" for c in range(len(calls))]
            asks = [
                {"id": id_, "type": "function", "function": {"name": "run", "arguments": json.dumps({"code": args})}}
                for id_, (args, _) in zip(ids, calls, strict=True)
            ]
            added = [{"role": "assistant", "content": "so" if not asks else None, "tool_calls": asks}] if asks else []
            added += [
                {"role": "tool", "tool_call_id": id_, "content": result}
                for id_, (_, result) in zip(ids, calls, strict=True)
            ]
            if not added:
                added = [{"role": "user", "content": f"go on {k}"}]
        made.append(added)
        made.append([{"role": "assistant", "content": said}, {"role": "user", "content": f"and then? {n}"}])
    return made


def windows(turns: list[Any], format: str) -> list[list[Raw]]:
    """The window of each request."""
    made: list[list[Raw]] = []
    window: list[Raw] = [{"role": "system", "content": "Be brief."}] if format == "openai-chat" else []
    for added in chat(turns):
        window = [*window, *added]
        made.append(formats.encode([formats.decode(message) for message in window], format))
    return made


def size(messages: list[Raw]) -> int:
    return sum(item_tokens(message, item_json(message)) for message in messages)


def open_engine(folder: str) -> lossless.Engine:
    return lossless.open(Path(folder) / "lcm.db", settings(large_file_threshold_tokens=6_000), background=False)


@pytest.mark.parametrize("kind", DIALECTS)
@search(max_examples=2)
@given(
    turns=TURNS,
    window=st.one_of(st.integers(150, LEAST_WINDOW), st.integers(LEAST_WINDOW, 40_000)),
    tools=st.booleans(),
)
def test_a_request_fits_its_window_or_says_by_how_much_it_does_not(
    kind: str, turns: list[Any], window: int, tools: bool
) -> None:
    dialect, key = DIALECTS[kind], "input" if kind == "openai-responses" else "messages"
    with tempfile.TemporaryDirectory() as folder, open_engine(folder) as engine:
        for messages in windows(turns, kind):
            keeping = TurnRecorder(engine, SESSION, dialect, window=window, tools="auto" if tools else "never")
            turn = keeping.turn({"model": "m", key: messages})
            assert turn.not_kept is None
            room = engine.host.capacity(SESSION, budget=turn.budget, model=ModelIdentity("openai", dialect.format, "m"))
            talk = turn._bare[key]
            assert size(talk) <= room + turn.over
            assert bool(turn.over) == bool(turn.why_over)
            if window >= LEAST_WINDOW:
                assert turn.over == 0, turn.why_over
            if turn.is_assembled:
                assert complaints(talk, kind) == []
            again = keeping.turn({"model": "m", key: messages})
            assert again.body == turn.body, "the same request gives the same prompt"
        assert engine.verify().ok


@search(max_examples=3)
@given(turns=TURNS, budget=st.integers(2_000, 40_000), beside=st.integers(0, 600))
def test_a_framework_sends_no_more_than_its_budget(turns: list[Any], budget: int, beside: int) -> None:
    with tempfile.TemporaryDirectory() as folder, open_engine(folder) as engine:
        kept = WindowSync(engine, "mine", budget)
        for messages in windows(turns, "openai-chat"):
            fitting = kept.fit(
                SESSION, [kept.carrying(one, {"own": one, "more": "x" * 50}) for one in messages], beside
            )
            sent = messages
            if fitting is not None:
                own = [(kept.own(one) or {}).get("own") for one in fitting]
                built = [formats.encode([one], "openai-chat")[0] for one in fitting]
                sent = [mine or made for mine, made in zip(own, built, strict=True)]
            assert size(sent) + beside <= budget
            if fitting is not None:
                assert complaints(sent, "openai-chat") == []
        assert engine.verify().ok


#: A message of so many tokens may be put into a file when its turn is over.
PAYLOAD = 800


@pytest.mark.parametrize("kind", DIALECTS)
@search(max_examples=3)
@given(turns=TURNS, budget=st.integers(LEAST_WINDOW, 20_000))
def test_while_nothing_is_folded_a_prompt_grows_at_its_end(kind: str, turns: list[Any], budget: int) -> None:
    """A message more changes the beginning only when the prompt is full: then by a whole step, or a shorter form."""
    with tempfile.TemporaryDirectory() as folder, open_engine(folder) as engine:
        before: list[Raw] = []
        stood: list[tuple[str, str, int]] = []
        quoted: set[tuple[str, str]] = set()
        for added in chat(turns):
            engine.append(SESSION, added)
            made = engine.assemble(SESSION, budget=budget, format=kind)
            assert made.receipt.fits
            assert size(made.messages) <= budget
            if made.receipt.repairs:
                before, stood, quoted = [], [], set()
                continue
            stand, kept = forms(made.receipt), quoted <= set(made.receipt.evidence)  # quotations leave in one step
            if stand[: len(stood)] == stood and kept:
                may_join = kind == "anthropic"  # what follows to its last message
                shared = max(0, len(before) - may_join)
                assert made.messages[:shared] == before[:shared]
            before, stood, quoted = made.messages, stand, set(made.receipt.evidence)


def forms(receipt: Receipt) -> list[tuple[str, str, int]]:
    """How each item stands; of those that are shown in part, or may have gone to a file, also how long."""
    sizes = zip(receipt.included, receipt.sizes, strict=True)
    return [(id_, form, size if form == "shortened" or size >= PAYLOAD else 0) for (id_, form), size in sizes]


def test_a_paste_beyond_the_window_reads_the_same_while_the_turn_goes_on(tmp_path: Path) -> None:
    with open_engine(str(tmp_path)) as engine:
        engine.append(SESSION, [{"role": "user", "content": paste(5_000)}])
        (first,) = engine.assemble(SESSION, budget=4_000).messages
        for n in range(30):
            call: Raw = {"id": f"c{n}", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
            engine.append(SESSION, [{"role": "assistant", "content": None, "tool_calls": [call]}])
            engine.append(SESSION, [{"role": "tool", "tool_call_id": f"c{n}", "content": f"{n} " + "file.txt " * 40}])
            made = engine.assemble(SESSION, budget=4_000)
            assert made.messages[0] == first
            assert made.messages[-1]["content"].startswith(f"{n} file.txt")
            assert size(made.messages) <= 4_000


def turn_of(engine: lossless.Engine, messages: list[Raw], window: int, **more: Any) -> Any:
    return TurnRecorder(engine, SESSION, ChatCompletions(), window=window, **more).turn(
        {"model": "m", "messages": messages}
    )


def paste(tokens: int) -> str:
    return "\n".join(f"{n:05} a line of a log" for n in range(tokens // 5))


def asks(n: int, name: str, **arguments: Any) -> Raw:
    """A reply that calls a tool."""
    call = {"id": f"r{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return {"choices": [{"index": 0, "message": {"role": "assistant", "content": None, "tool_calls": [call]}}]}


def test_what_recall_answers_makes_room_for_itself(tmp_path: Path) -> None:
    with open_engine(str(tmp_path)) as engine:
        messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
        turn = turn_of(engine, [*messages, {"role": "user", "content": paste(5_000)}], 4_900, tools="always")
        (id_,) = turn.shortened
        for n in range(9):
            sent = turn.body
            assert size(sent["messages"]) + size([{"tools": sent["tools"]}]) <= 4_900
            assert complaints(sent["messages"], "openai-chat") == []
            assert turn.take(asks(n, "lcm_describe", id=id_)) is None
        answers = [one["content"] for one in turn.body["messages"] if one["role"] == "tool"]
        assert "a line of a log" in answers[0]
        assert answers[-1].startswith("No more recall")
        done = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "read"}}]}
        assert turn.take(done) is not None


def test_a_message_that_was_shortened_is_known_when_it_comes_back(tmp_path: Path) -> None:
    with open_engine(str(tmp_path)) as engine:
        said = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
        said.append({"role": "user", "content": paste(5_000)})
        engine.sync(SESSION, said)
        shown = engine.assemble(SESSION, budget=2_000).messages
        assert "[LCM Shortened: msg#3 | " in shown[-1]["content"]
        report = engine.sync(SESSION, [*shown, {"role": "assistant", "content": "long"}])
        assert report.stored == 1
        assert engine.verify().messages == 4
        copied = shown[-1] | {"content": shown[-1]["content"].replace("a line", "a lie")}
        assert engine.append(SESSION, [copied]).stored == 1, "what only looks like it is a message of its own"


@pytest.mark.parametrize(("tokens", "form"), [(2_000, "verbatim"), (5_000, "shortened"), (9_000, "reference")])
def test_the_receipt_says_how_a_paste_stands(tmp_path: Path, tokens: int, form: str) -> None:
    with open_engine(str(tmp_path)) as engine:
        engine.append(SESSION, [{"role": "user", "content": paste(tokens)}])
        receipt = engine.assemble(SESSION, budget=4_000).receipt
        assert receipt.included == (("msg#1", form),)
        assert receipt.shortened == (() if form == "verbatim" else ("msg#1",))
        assert receipt.fits


def test_a_system_prompt_that_is_too_long_is_sent_and_said_to_be(tmp_path: Path) -> None:
    with open_engine(str(tmp_path)) as engine:
        messages = [{"role": "system", "content": paste(3_000)}, {"role": "user", "content": "hello"}]
        turn = turn_of(engine, messages, 2_000, tools="never")
        assert turn.over > 1_000
        assert "msg#1 takes" in turn.why_over
        assert turn.notices == (f"{turn.over:,} tokens over the window: {turn.why_over}",)


def test_a_small_window_is_not_filled_with_tools(tmp_path: Path) -> None:
    with open_engine(str(tmp_path)) as engine:
        messages = [{"role": "user", "content": paste(5_000)}]
        assert not turn_of(engine, messages, 2_600).hidden
        assert turn_of(engine, messages, 8_000).hidden


def test_a_chat_names_what_it_showed_in_part_and_warns_of_what_cannot_fit(path: Path) -> None:
    with (
        Provider() as provider,
        openai.OpenAI(base_url=f"{provider.url}/v1", api_key="none") as client,
        lossless.chat(client, "c", archive=path, window=8_000) as kept,
    ):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": paste(20_000)}])
        assert kept.last is not None
        assert kept.last.shortened == ("msg#1",)
        assert size(provider.requests[-1].body["messages"]) <= 8_000
        system = {"role": "system", "content": paste(9_000)}
        with pytest.warns(RuntimeWarning, match="tokens over the window: .* msg#3 takes"):
            kept.turn(
                ENDPOINTS["chat.completions"],
                "never",
                {"model": "m", "messages": [system, {"role": "user", "content": "hi"}]},
            )


def test_a_proxy_names_what_it_showed_in_part(path: Path) -> None:
    with (
        lossless.open(path, settings(), background=False) as engine,
        Provider() as provider,
        proxied(engine, provider, window=8_000) as url,
    ):
        said = {"model": "m", "messages": [{"role": "user", "content": paste(20_000)}]}
        headers = {"x-lossless-token": TOKEN, "authorization": "Bearer none"}
        answer = post(f"{url}/v1/chat/completions", json=said, headers=headers)
        assert answer.headers["x-lossless-shortened"] == "msg#1"
        assert "x-lossless-over" not in answer.headers
