"""The proxy in front of a provider: real clients talk through it, and nothing of what is said is lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anthropic
import httpx2
import openai
import pytest

import lossless
from lossless.model.tokens import estimate_tokens
from lossless.testing.provider import Provider, Request, Say, Status, last_text
from tests.compaction.loop_kit import settings, talk
from tests.serve.proxy_kit import TOKEN, post, proxied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Raw = dict[str, Any]
WINDOW = 6_000
DIALECTS = ("chat", "responses", "messages")


@pytest.fixture
def engine(path: Path) -> Iterator[lossless.Engine]:
    with lossless.open(path, settings(), background=False) as opened:
        yield opened


def said(engine: lossless.Engine, roles: tuple[str, ...] = ("user", "assistant")) -> list[str]:
    """Everything in the archive, in order."""
    rows = engine.archive.database.rows("SELECT role, content FROM messages ORDER BY message_id", ())
    return [str(content) for role, content in rows if role in roles]


def sessions(engine: lossless.Engine) -> list[str]:
    rows = engine.archive.database.rows("SELECT session_key FROM conversations ORDER BY conversation_id", ())
    return [str(key) for (key,) in rows]


def without_labels(value: Any) -> Any:
    """What a model reads of a request: not what items are called."""
    if isinstance(value, list):
        return [without_labels(item) for item in value]
    labels = ("id", "status", "annotations", "logprobs")
    return value if not isinstance(value, dict) else {k: without_labels(v) for k, v in value.items() if k not in labels}


class Talker:
    """A loop as people write it, with one of the real clients; the window is its own."""

    def __init__(self, url: str, dialect: str, key: str = f"{TOKEN}:sk-real", **more: Any) -> None:
        self.dialect, self.more = dialect, more
        self.openai = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
        self.anthropic = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)
        self.window: list[Any] = []

    def say(self, text: str, *, stream: bool = False) -> str:
        self.window.append({"role": "user", "content": text})
        return getattr(self, f"_{self.dialect}")(stream)  # type: ignore[no-any-return]

    def _chat(self, stream: bool) -> str:
        request: Raw = {"model": "gpt-test", "messages": self.window, "stream": stream, **self.more}
        made: Any = self.openai.chat.completions.create(**request)
        if stream:
            chunks = [chunk for chunk in made if chunk.choices]
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
            assert chunks[-1].choices[0].finish_reason
        else:
            text = str(made.choices[0].message.content)
        self.window.append({"role": "assistant", "content": text})
        return text

    def _responses(self, stream: bool) -> str:
        request: Raw = {"model": "gpt-test", "input": self.window, "store": False, **self.more}
        if stream:
            with self.openai.responses.stream(**request) as events:
                made: Any = events.get_final_response()
        else:
            made = self.openai.responses.create(**request)
        self.window += [item.to_dict() for item in made.output]
        return str(made.output_text)

    def _messages(self, stream: bool) -> str:
        request: Raw = {"model": "claude-test", "max_tokens": 200, "messages": self.window, **self.more}
        if stream:
            with self.anthropic.messages.stream(**request) as events:
                made: Any = events.get_final_message()
        else:
            made = self.anthropic.messages.create(**request)
        self.window.append({"role": "assistant", "content": [block.to_dict() for block in made.content]})
        return "".join(block.text for block in made.content if block.type == "text")

    def close(self) -> None:
        self.openai.close()
        self.anthropic.close()


@pytest.fixture
def talker(request: pytest.FixtureRequest) -> Iterator[Callable[..., Talker]]:
    made: list[Talker] = []

    def make(*args: Any, **more: Any) -> Talker:
        made.append(Talker(*args, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [False, True], ids=["at once", "streamed"])
def test_a_conversation_is_kept_word_for_word(
    engine: lossless.Engine, talker: Callable[..., Talker], dialect: str, stream: bool
) -> None:
    with Provider() as provider, proxied(engine, provider) as url:
        one = talker(url, dialect)
        for text in ("first", "second", "third"):
            assert one.say(text, stream=stream) == f"You said: {text}"
    assert said(engine) == ["first", "You said: first", "second", "You said: second", "third", "You said: third"]
    assert len(sessions(engine)) == 1
    assert engine.verify().ok


def test_a_request_that_fits_is_passed_on_byte_for_byte(engine: lossless.Engine) -> None:
    body = b'{"model": "m",  "messages": [{"role": "user", "content": "hi", "name": "x"}], "frobnicate": [1.50]}'
    with Provider() as provider, proxied(engine, provider) as url:
        headers = {"x-lossless-token": TOKEN, "authorization": "Bearer sk-1", "x-other": "kept"}
        answer = post(f"{url}/v1/chat/completions", content=body, headers=headers)
        assert answer.status_code == 200
        (request,) = provider.requests
    assert request.content == body
    assert (request.headers["authorization"], request.headers["x-other"]) == ("Bearer sk-1", "kept")
    assert not [name for name in request.headers if "lossless" in name]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_long_conversation_stays_inside_the_window(
    engine: lossless.Engine, talker: Callable[..., Talker], dialect: str
) -> None:
    with Provider() as provider, proxied(engine, provider, window=WINDOW) as url:
        one = talker(url, dialect)
        for message in talk(30, words=110):
            one.say(message["content"], stream=message["role"] == "user")
        newest = provider.requests[-1].body
        sizes = [estimate_tokens(json.dumps(without_labels(request.body))) for request in provider.requests]
    assert max(sizes) <= WINDOW
    assert len(json.dumps(one.window)) // 4 > 1.3 * WINDOW
    assert "<summary" in json.dumps(newest)
    assert said(engine)[::2] == [message["content"] for message in talk(30, words=110)]
    assert engine.verify().ok


def recalling(request: Request) -> Say | Status:
    """Looks into the past when asked about the berth, and says what it found."""
    body = request.body
    names = {str((tool.get("function") or tool).get("name")) for tool in body.get("tools") or ()}
    last = last_text(body)
    if "which berth" in last and "lcm_grep" in names:
        return Say("Let me look. ", (("lcm_grep", {"pattern": "Berth No. \\d+"}),))
    if "Berth No. 17" in last and "which berth" not in last and "arrives" not in last[:20]:
        return Say("It was No. 17.")
    return Say("Noted.")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [False, True], ids=["at once", "streamed"])
def test_recall_is_answered_on_the_way(
    engine: lossless.Engine, talker: Callable[..., Talker], dialect: str, stream: bool
) -> None:
    with Provider(recalling) as provider, proxied(engine, provider, window=WINDOW) as url:
        one = talker(url, dialect)
        one.window = [
            {"role": "user", "content": "She arrives at Berth No. 17."},
            {"role": "assistant", "content": "Noted."},
            *talk(70),
        ]
        one.say("Go on.")
        count = len(provider.requests)
        assert one.say("And which berth was it?", stream=stream) == "Let me look. It was No. 17."
        assert len(provider.requests) == count + 2
        one.say("Thanks.", stream=stream)
    words = " ".join(" ".join(said(engine)).split())
    assert words.endswith("And which berth was it? Let me look. It was No. 17. Thanks. Noted.")
    assert "lcm_grep" not in json.dumps(one.window)
    assert said(engine, ("tool",)) == []
    assert engine.verify().ok


@pytest.mark.parametrize("stream", [False, True], ids=["at once", "streamed"])
def test_a_clients_own_calls_go_to_the_client(engine: lossless.Engine, stream: bool) -> None:
    def script(request: Request) -> Say:
        return Say("", (("lcm_recall", {"question": "q"}), ("ls", {"path": "."})))

    with Provider(script) as provider, proxied(engine, provider, tools="always") as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=TOKEN, max_retries=0)
        tool: Any = {"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}
        request: Raw = {"model": "m", "messages": [{"role": "user", "content": "list"}], "tools": [tool]}
        if stream:
            with client.chat.completions.stream(**request) as events:
                made: Any = events.get_final_completion()
        else:
            made = client.chat.completions.create(**request)
        client.close()
        names = [tool["function"]["name"] for tool in provider.requests[0].body["tools"]]
    (call,) = made.choices[0].message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("ls", {"path": "."})
    assert names[0] == "ls"
    assert "lcm_recall" in names
    assert "authorization" not in provider.requests[0].headers


def test_recall_comes_to_an_end(engine: lossless.Engine, talker: Callable[..., Talker]) -> None:
    def script(request: Request) -> Say:
        return Say("again ", (("lcm_recall", {"question": "q"}),))

    with Provider(script) as provider, proxied(engine, provider, tools="always") as url:
        assert talker(url, "chat").say("go").startswith("again again")
        assert 8 <= len(provider.requests) <= 12


def test_a_tool_of_the_clients_is_not_ours(engine: lossless.Engine) -> None:
    with Provider(lambda _: Say("", (("lcm_grep", {}),))) as provider, proxied(engine, provider, tools="always") as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=TOKEN, max_retries=0)
        tool: Any = {"type": "function", "function": {"name": "lcm_grep", "parameters": {"type": "object"}}}
        ask: Any = [{"role": "user", "content": "x"}]
        made = client.chat.completions.create(model="m", messages=ask, tools=[tool])
        client.close()
        assert len(provider.requests) == 1
    calls: Any = made.choices[0].message.tool_calls
    assert [call.function.name for call in calls] == ["lcm_grep"]


def test_two_conversations_with_the_same_beginning(engine: lossless.Engine, talker: Callable[..., Talker]) -> None:
    replies = iter(["one", "two", "one again", "two again", "one more"])
    with Provider(lambda _: Say(next(replies))) as provider, proxied(engine, provider) as url:
        first, second = talker(url, "chat"), talker(url, "chat")
        first.say("hello")
        second.say("hello")
        first.say("go on")
        second.say("go on")
    assert len(sessions(engine)) == 2
    assert sorted(map(len, map(str.split, said(engine)))) == [1, 1, 1, 1, 2, 2, 2, 2]
    with Provider(lambda _: Say(next(replies))) as provider, proxied(engine, provider) as url:  # after a restart
        again = talker(url, "chat")
        again.window = first.window
        again.say("and on")
    assert len(sessions(engine)) == 2
    assert engine.verify().ok


def test_a_session_has_the_name_that_the_header_gives(engine: lossless.Engine, talker: Callable[..., Talker]) -> None:
    with Provider() as provider, proxied(engine, provider) as url:
        for name in ("agent:a:main", "agent:b:main"):
            talker(url, "chat", extra_headers={"x-lossless-session": name}).say("same words")
    assert sessions(engine) == ["agent:a:main", "agent:b:main"]


def test_keys_have_sessions_of_their_own(engine: lossless.Engine, talker: Callable[..., Talker]) -> None:
    with Provider() as provider, proxied(engine, provider, by="key") as url:
        one, two = talker(url, "chat", key=f"{TOKEN}:sk-1"), talker(url, "messages", key=f"{TOKEN}:sk-2")
        one.say("hello")
        one.say("more")
        two.say("hello")
    assert len(sessions(engine)) == 2
    assert not [name for name in sessions(engine) if "sk-" in name]


def test_a_conversation_that_the_provider_stores(engine: lossless.Engine) -> None:
    with Provider() as provider, proxied(engine, provider, window=WINDOW, tools="always") as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=TOKEN, max_retries=0)
        first = client.responses.create(model="m", input="first")
        second = client.responses.create(model="m", input="second", previous_response_id=first.id)
        client.close()
        assert provider.requests[-1].body == {"model": "m", "input": "second", "previous_response_id": first.id}
    assert second.output_text == "You said: second"
    assert said(engine) == ["first", "You said: first", "second", "You said: second"]
    assert len(sessions(engine)) == 1


def test_what_is_no_conversation_passes(engine: lossless.Engine) -> None:
    answers = {
        "/v1/embeddings": Status(200, {"data": [{"index": 0, "object": "embedding", "embedding": [0.5]}]}),
        "/v1/unheard/of?x=1": Status(418, {"odd": True}, {"x-teapot": "yes"}),
        "/v1/messages/count_tokens": Status(200, {"input_tokens": 3}),
    }
    with Provider(lambda request: answers[request.path]) as provider, proxied(engine, provider) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=f"{TOKEN}:k", max_retries=0)
        made = client.embeddings.create(model="m", input="x", encoding_format="float")
        assert made.data[0].embedding == [0.5]
        client.close()
        odd = httpx2.delete(f"{url}/v1/unheard/of?x=1", headers={"x-lossless-token": TOKEN}, timeout=60)
        assert (odd.status_code, odd.json(), odd.headers["x-teapot"]) == (418, {"odd": True}, "yes")
        counter = anthropic.Anthropic(base_url=url, api_key=f"{TOKEN}:k", max_retries=0)
        ask: Any = [{"role": "user", "content": "count"}]
        assert counter.messages.count_tokens(model="m", messages=ask).input_tokens == 3
        counter.close()
    assert sessions(engine) == []
