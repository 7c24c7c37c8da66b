"""Streams: put together they are the reply that comes at once, and what is hidden leaves no trace."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.llm.response import parse_usage
from lossless.providers.chat_completions import ChatCompletions
from lossless.providers.messages_api import MessagesApi
from lossless.providers.responses_api import ResponsesApi
from lossless.providers.token_limits import known_window
from lossless.testing.provider import Say, streamed, whole

if TYPE_CHECKING:
    from lossless.providers.api import ProviderAPI

Raw = dict[str, Any]
PLACES: list[tuple[ProviderAPI, str]] = [
    (ChatCompletions(), "/v1/chat/completions"),
    (MessagesApi(), "/v1/messages"),
    (ResponsesApi(), "/v1/responses"),
]
HIDDEN = ("lcm_grep", "lcm_recall")
by_dialect = pytest.mark.parametrize(("dialect", "path"), PLACES, ids=[dialect.format for dialect, _ in PLACES])
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=30)
calls = st.tuples(
    st.sampled_from([*HIDDEN, "ls", "cat"]), st.dictionaries(st.text("abc", min_size=1), texts, max_size=2)
)
says = st.builds(Say, texts, st.lists(calls, max_size=4).map(tuple)).filter(lambda say: say.text.strip() or say.calls)


def events_of(path: str, say: Say) -> list[Raw]:
    lines = [
        line for raw in streamed(path, say, {}) for line in raw.decode().splitlines() if line.startswith("data: {")
    ]
    return [json.loads(line[6:]) for line in lines]


def flat(dialect: ProviderAPI, reply: Raw) -> list[Any]:
    """What a reply says and asks for, without what providers name things."""
    names = [(call.name, call.arguments) for call in dialect.calls(reply)]
    words = "".join(_words(message) for message in dialect.reply_messages(reply))
    return [words, names]


def _words(message: Raw) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else "".join(str(block.get("text", "")) for block in content or ())


@by_dialect
@given(say=says)
def test_a_stream_is_the_reply_that_comes_at_once(dialect: ProviderAPI, path: str, say: Say) -> None:
    stream, events = dialect.stream(()), events_of(path, say)
    shown = [one for event in events for one in stream.feed(event)]
    shown += stream.ending()
    assert flat(dialect, stream.reply()) == flat(dialect, whole(path, say, {}))
    assert len(shown) == len(events)
    assert all(one is event for one, event in zip(shown, events, strict=True))
    assert parse_usage(stream.reply()) == parse_usage(whole(path, say, {}))


@by_dialect
@given(say=says)
def test_what_is_hidden_leaves_no_trace(dialect: ProviderAPI, path: str, say: Say) -> None:
    stream, again = dialect.stream(HIDDEN), dialect.stream(())
    shown = [one for event in events_of(path, say) for one in stream.feed(event)]
    shown += stream.ending()
    for one in shown:
        again.feed(one)
    visible = Say(say.text, tuple(call for call in say.calls if call[0] not in HIDDEN))
    assert flat(dialect, again.reply()) == flat(dialect, whole(path, visible, {}))
    assert flat(dialect, dialect.without_calls(whole(path, say, {}), HIDDEN)) == flat(dialect, again.reply())
    assert flat(dialect, stream.reply()) == flat(dialect, whole(path, say, {}))


@by_dialect
@given(first=says, second=says)
def test_two_rounds_are_one_reply(dialect: ProviderAPI, path: str, first: Say, second: Say) -> None:
    first = Say(first.text, (("lcm_grep", {}),))
    stream, client = dialect.stream(HIDDEN), dialect.stream(())
    shown = [one for event in events_of(path, first) for one in stream.feed(event)]
    stream.again()
    shown += [one for event in events_of(path, second) for one in stream.feed(event)]
    shown += stream.ending()
    for one in shown:
        client.feed(one)
    kept = [dialect.without_calls(whole(path, say, {}), HIDDEN) for say in (first, second)]
    assert flat(dialect, client.reply()) == flat(dialect, dialect.joined(*kept))
    numbers = [one["sequence_number"] for one in shown if "sequence_number" in one]
    assert numbers == list(range(len(numbers)))
    places = [one["index"] for one in shown if one.get("type") == "content_block_start"]
    assert places == list(range(len(places)))


@by_dialect
@given(say=says, at=st.integers(0, 30))
def test_half_a_stream_is_half_a_reply(dialect: ProviderAPI, path: str, say: Say, at: int) -> None:
    stream = dialect.stream(HIDDEN)
    for event in events_of(path, say)[:at]:
        stream.feed(event)
    half = stream.reply()
    bare = dialect.without_calls(half, {call.name for call in dialect.calls(half)})
    assert whole(path, say, {}) is not half
    assert say.text.startswith(str(flat(dialect, bare)[0]))


def test_content_may_come_in_blocks_and_then_as_words() -> None:
    stream = ChatCompletions().stream(())
    for piece in ([{"type": "thinking", "thinking": "Hm."}], [{"type": "text", "text": "It "}], "is."):
        stream.feed({"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", "content": piece}}]})
    (message,) = ChatCompletions().reply_messages(stream.reply())
    assert message["role"] == "assistant"
    assert [block.get("text") or block.get("thinking") for block in message["content"]] == ["Hm.", "It ", "is."]


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, 0, -1, 1.5, True, "", "x", [], {}, [1], ["x"], {"a": 1}, [{}], "[" * 20_000, float("inf")]
)


def spoiled(value: Any, data: st.DataObject) -> Any:
    """A value with something in it that does not belong there."""
    if not isinstance(value, dict | list) or not value or not data.draw(st.integers(0, 4)):
        return data.draw(ODD)
    place = data.draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value))))
    if isinstance(value, dict):
        return value | {place: spoiled(value[place], data)}
    return [*value[:place], spoiled(value[place], data), *value[place + 1 :]]


@by_dialect
@given(say=says, data=st.data())
def test_whatever_a_provider_says_is_read_without_an_error(
    dialect: ProviderAPI, path: str, say: Say, data: st.DataObject
) -> None:
    events: list[Any] = events_of(path, say)
    at = data.draw(st.integers(0, len(events) - 1))
    events[at] = spoiled(events[at], data)
    stream = dialect.stream(HIDDEN)
    for _ in range(2):
        for event in events:
            stream.feed(event if isinstance(event, dict) else {})
        assert stream.is_over in (True, False)
        stream.ending()
        last = stream.reply()
        stream.again()
    odd = spoiled(whole(path, say, {}), data)
    for reply in (last, odd if isinstance(odd, dict) else {}):
        assert all(isinstance(one, dict) for one in dialect.reply_messages(reply))
        assert isinstance(parse_usage(reply).input_tokens, int)
        made = dialect.calls(reply)
        json.dumps([call.arguments for call in made])
        bare = dialect.without_calls(reply, {call.name for call in made})
        assert not dialect.calls(bare)
        dialect.joined(bare, bare)


@by_dialect
@given(data=st.data())
def test_whatever_a_client_asks_is_read_without_an_error(dialect: ProviderAPI, path: str, data: st.DataObject) -> None:
    said = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
    body: Any = {"model": "m", "system": "Be kind.", "instructions": "Be kind.", "messages": said, "input": said}
    body |= {"tools": dialect.tools()[:1], "tool_choice": "auto", "n": 1, "max_tokens": 5, "max_output_tokens": 5}
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(sorted(body)))
        body = body | {name: spoiled(body[name], data)}
    assert all(isinstance(one, dict) for one in dialect.window(body))
    assert dialect.most_output(body) >= 0
    dialect.tool_names(body)
    assert dialect.knows_history(body) is False
    if dialect.may_call(body):
        more = dialect.with_recall(body, "policy", dialect.tools())
        answers = [(call, "found") for call in dialect.calls(whole(path, Say("", (("lcm_grep", {}),)), {}))]
        dialect.window(dialect.answered(more, whole(path, Say("", (("lcm_grep", {}),)), {}), answers))
    dialect.with_window(body, said, "Be brief.")


@pytest.mark.parametrize(("model", "window"), [("gpt-4o-2024-08-06", 128_000), ("Claude-X", 200_000), ("mine", None)])
def test_windows_that_are_known(model: str, window: int | None) -> None:
    assert known_window(model) == window
