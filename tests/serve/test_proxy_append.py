"""Clients without a memory: they send what is new, and the proxy adds the past."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.model.tokens import estimate_tokens
from lossless.testing.provider import Provider, Request, Say, Status, last_text
from tests.compaction.loop_kit import settings, talk
from tests.serve.proxy_kit import TOKEN, post, proxied, streamed
from tests.serve.test_proxy import DIALECTS, recalling, said, sessions, without_labels
from tests.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Raw = dict[str, Any]
WINDOW = 6_000
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
HEADERS = {"x-lossless-token": TOKEN, "x-lossless-session": "bot:7", "x-lossless-history": "append"}
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["at once", "streamed"])
EVERY_DIALECT = pytest.mark.parametrize("dialect", DIALECTS)


@pytest.fixture
def engine(path: Path) -> Iterator[lossless.Engine]:
    with lossless.open(path, settings(), background=False) as opened:
        yield opened


def body(dialect: str, new: str | list[Raw], system: str | None = None, **more: Any) -> Raw:
    """A request with nothing but new messages, and perhaps a system prompt."""
    messages = [{"role": "user", "content": new}] if isinstance(new, str) else new
    if dialect == "responses":
        return {"model": "m", "input": new, "store": False} | ({"instructions": system} if system else {}) | more
    if dialect == "messages":
        apart = {"system": system} if system else {}
        return {"model": "m", "max_tokens": 200, "messages": messages} | apart | more
    prompt = [{"role": "system", "content": system}] if system else []
    return {"model": "m", "messages": [*prompt, *messages]} | more


def tell(url: str, dialect: str, new: str | list[Raw], system: str | None = None, **more: Any) -> str:
    """The words of the reply."""
    headers = HEADERS | more.pop("headers", {})
    answer = post(url + PATHS[dialect], json=body(dialect, new, system, **more), headers=headers)
    assert answer.status_code == 200, answer.text
    if more.get("stream"):
        return answer.text
    reply = answer.json()
    if dialect == "chat":
        return str(reply["choices"][0]["message"]["content"])
    blocks = reply["content"] if dialect == "messages" else reply["output"][-1].get("content", [])
    return "".join(block.get("text", "") for block in blocks)


def shown(request: Request) -> list[tuple[str, str]]:
    """What a provider was sent: who said what, with the system prompt wherever it stands."""
    sent = request.body
    apart = sent.get("system") or sent.get("instructions")
    items = sent.get("messages") or sent.get("input") or []
    items = [{"role": "user", "content": items}] if isinstance(items, str) else items
    texts = [(item.get("role", "assistant"), last_text({"messages": [item]}).strip()) for item in items]
    return [*([("system", str(apart))] if apart else []), *texts]


# --- the past -------------------------------------------------------------------------------------


@EVERY_DIALECT
@STREAMED
def test_the_past_stands_before_what_is_new(engine: lossless.Engine, dialect: str, stream: bool) -> None:
    with Provider() as provider, proxied(engine, provider) as url:
        for text in ("first", "second", "third"):
            assert text in tell(url, dialect, text, "Be kind.", stream=stream)
        requests = [shown(request) for request in provider.requests]
        assert not [name for name in provider.requests[-1].headers if "lossless" in name]
        assert "tools" not in provider.requests[-1].body
    assert requests[0] == [("system", "Be kind."), ("user", "first")]
    assert requests[-1] == [
        ("system", "Be kind."), ("user", "first"), ("assistant", "You said: first"),
        ("user", "second"), ("assistant", "You said: second"), ("user", "third"),
    ]  # fmt: skip
    assert said(engine) == ["first", "You said: first", "second", "You said: second", "third", "You said: third"]
    assert sessions(engine) == ["bot:7"]
    assert engine.verify().ok


def test_the_first_request_goes_on_byte_for_byte(engine: lossless.Engine) -> None:
    content = b'{"model": "m",  "messages": [{"role": "user", "content": "hi"}], "frobnicate": [1.50]}'
    with Provider() as provider, proxied(engine, provider) as url:
        post(url + PATHS["chat"], content=content, headers=HEADERS)
        assert provider.requests[0].content == content


@EVERY_DIALECT
def test_a_system_prompt_stays_until_there_is_another(engine: lossless.Engine, dialect: str) -> None:
    with Provider() as provider, proxied(engine, provider) as url:
        for text, system in (("one", "Be kind."), ("two", None), ("three", "Be brief."), ("four", None)):
            tell(url, dialect, text, system)
        prompts = [[text for role, text in shown(request) if role == "system"] for request in provider.requests]
    assert prompts == [["Be kind."], ["Be kind."], ["Be brief."], ["Be brief."]]
    assert said(engine)[::2] == ["one", "two", "three", "four"]


@EVERY_DIALECT
def test_a_long_past_stays_inside_the_window_and_can_be_recalled(engine: lossless.Engine, dialect: str) -> None:
    long = ["She arrives at Berth No. 17.", *(message["content"] for message in talk(24, words=200))]
    with Provider(recalling) as provider, proxied(engine, provider, window=WINDOW) as url:
        for text in long:
            tell(url, dialect, text, "Be kind.")
        newest = provider.requests[-1].body
        sizes = [estimate_tokens(json.dumps(without_labels(request.body))) for request in provider.requests]
        assert said(engine)[::2] == long
        for stream in (False, True):
            count = len(provider.requests)
            tell(url, dialect, "And which berth was it?", stream=stream)
            assert len(provider.requests) == count + 2
            assert "It was No. 17." in said(engine)[-1]
    assert max(sizes) <= WINDOW
    assert "<summary" in json.dumps(newest)
    assert "lcm_grep" in json.dumps(newest["tools"])
    assert "tools" not in provider.requests[1].body
    assert engine.verify().ok


@EVERY_DIALECT
def test_words_before_a_recall_that_fails_are_kept(engine: lossless.Engine, dialect: str) -> None:
    looking = Say("Let me look.", (("lcm_grep", {"pattern": "berth"}),))
    answers: list[Say | Status] = [looking, Status(500, {"error": "busy"}), Say("It was No. 17.")]
    with Provider(lambda _: answers.pop(0)) as provider, proxied(engine, provider, tools="always") as url:
        answer = tell(url, dialect, "Which berth?", stream=True)
        assert "the provider answered 500" in answer
        assert said(engine) == ["Which berth?", "Let me look."]
        tell(url, dialect, "Which berth?")
        assert "Let me look." not in json.dumps(provider.requests[-1].body)
    assert said(engine) == ["Which berth?", "Let me look.", "It was No. 17."]


def test_another_session_has_another_past(engine: lossless.Engine) -> None:
    with Provider() as provider, proxied(engine, provider) as url:
        tell(url, "chat", "hello")
        tell(url, "chat", "hello", headers={"x-lossless-session": "bot:8"})
        assert len(shown(provider.requests[-1])) == 1
    assert sessions(engine) == ["bot:7", "bot:8"]


def test_a_client_that_sends_everything_adds_only_what_is_new(engine: lossless.Engine) -> None:
    window: list[Raw] = []
    with Provider() as provider, proxied(engine, provider) as url:
        for text in ("one", "two", "three"):
            window.append({"role": "user", "content": text})
            window.append({"role": "assistant", "content": tell(url, "chat", window)})
        assert provider.requests[-1].body["messages"] == window[:-1]
    assert said(engine) == [message["content"] for message in window]


# --- who decides ----------------------------------------------------------------------------------


def test_a_proxy_may_append_by_default(engine: lossless.Engine) -> None:
    own = {"x-lossless-token": TOKEN, "authorization": "Bearer sk-1"}
    with Provider() as provider, proxied(engine, provider, by="key", history="append") as url:
        for text in ("one", "two"):
            assert post(url + PATHS["chat"], json=body("chat", text), headers=own).status_code == 200
        assert len(shown(provider.requests[-1])) == 3
        window = own | {"x-lossless-history": "Window"}
        post(url + PATHS["chat"], json=body("chat", "aside"), headers=window)
        assert shown(provider.requests[-1]) == [("user", "aside")]
    assert len(sessions(engine)) == 2
    assert ":beside:" in sessions(engine)[1]


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"x-lossless-history": "all", "x-lossless-session": "bot"}, "window or append, not 'all'"),
        ({"x-lossless-history": "append"}, "name the session in x-lossless-session"),
    ],
)
@EVERY_DIALECT
def test_what_cannot_be_is_refused(engine: lossless.Engine, dialect: str, headers: Raw, reason: str) -> None:
    with Provider() as provider, proxied(engine, provider) as url:
        given = {"x-lossless-token": TOKEN} | headers
        answer = post(url + PATHS[dialect], json=body(dialect, "hello"), headers=given)
        assert answer.status_code == 400
        assert reason in answer.json()["error"]["message"]
        assert not provider.requests
    assert sessions(engine) == []


def test_a_request_without_a_message_is_refused(engine: lossless.Engine) -> None:
    with Provider() as provider, proxied(engine, provider) as url:
        answer = post(url + PATHS["chat"], json=body("chat", [], "Be kind."), headers=HEADERS)
        assert (answer.status_code, "no new message" in answer.text) == (400, True)
    assert sessions(engine) == []


def test_what_the_provider_stores_is_the_providers(engine: lossless.Engine) -> None:
    with Provider() as provider, proxied(engine, provider, history="append") as url:
        sent = {"model": "m", "input": "second", "previous_response_id": "resp_1"}
        answer = post(url + PATHS["responses"], json=sent, headers={"x-lossless-token": TOKEN})
        assert answer.status_code == 200
        assert provider.requests[0].body == sent
    assert said(engine) == ["second", "You said: second"]


# --- the same request again -----------------------------------------------------------------------


@EVERY_DIALECT
@STREAMED
def test_a_retry_after_an_error_is_stored_once(engine: lossless.Engine, dialect: str, stream: bool) -> None:
    answers: list[Say | Status] = [Say("one."), Status(529, {"error": "busy"}), Status(500, {}), Say("two.")]
    with Provider(lambda _: answers.pop(0)) as provider, proxied(engine, provider) as url:
        tell(url, dialect, "first")
        for status in (529, 500):
            again = post(url + PATHS[dialect], json=body(dialect, "ok", stream=stream), headers=HEADERS)
            assert again.status_code == status
        tell(url, dialect, "ok", stream=stream)
        assert shown(provider.requests[-1]) == [("user", "first"), ("assistant", "one."), ("user", "ok")]
    assert said(engine) == ["first", "one.", "ok", "two."]


def test_what_was_not_answered_may_come_with_more(engine: lossless.Engine) -> None:
    answers: list[Say | Status] = [Status(500, {}), Say("both.")]
    two = [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]
    with Provider(lambda _: answers.pop(0)) as provider, proxied(engine, provider) as url:
        post(url + PATHS["chat"], json=body("chat", "one"), headers=HEADERS)
        tell(url, "chat", two)
    assert said(engine) == ["one", "two", "both."]


@EVERY_DIALECT
def test_what_is_said_twice_is_stored_twice(engine: lossless.Engine, dialect: str) -> None:
    with Provider(lambda _: Say("fine")) as provider, proxied(engine, provider) as url:
        for _ in range(3):
            tell(url, dialect, "ok")
        assert len(shown(provider.requests[-1])) == 5
    assert said(engine) == ["ok", "fine"] * 3


@EVERY_DIALECT
def test_a_reply_that_broke_off_is_asked_for_again(engine: lossless.Engine, dialect: str) -> None:
    answers = [Say("half of it is here", words=6, then="break"), Say("half again", words=4, then="break"), Say("all")]
    with Provider(lambda _: answers.pop(0)) as provider:
        with proxied(engine, provider) as url:
            tell(url, dialect, "go", stream=True)
        assert len(said(engine)) == 2
        with proxied(engine, provider) as url:  # after a restart
            tell(url, dialect, "go", stream=True)
            tell(url, dialect, "go", stream=True)
            assert shown(provider.requests[-1]) == [("user", "go")]
            answers.append(Say("more"))
            tell(url, dialect, "go", stream=True)
            assert shown(provider.requests[-1]) == [("user", "go"), ("assistant", "all"), ("user", "go")]
    kept = said(engine)
    assert (len(kept), kept.count("go"), kept[-3:]) == (6, 2, ["all", "go", "more"])
    assert engine.verify().ok


def test_a_reply_that_broke_off_stays_when_the_talk_goes_on(engine: lossless.Engine) -> None:
    answers = [Say("half of it", words=2, then="break"), Say("sure")]
    with Provider(lambda _: answers.pop(0)) as provider, proxied(engine, provider) as url:
        tell(url, "chat", "go", stream=True)
        tell(url, "chat", "what?")
        roles = [role for role, _ in shown(provider.requests[-1])]
    assert roles == ["user", "assistant", "user"]


def test_a_client_that_went_away_asks_again(engine: lossless.Engine) -> None:
    answers = [Say("a long reply that comes slowly", words=3), Say("all")]
    with Provider(lambda _: answers.pop(0)) as provider, proxied(engine, provider) as url:
        request = {"json": body("chat", "go", stream=True), "headers": HEADERS}
        with streamed("POST", url + PATHS["chat"], **request) as answer:  # type: ignore[arg-type]
            next(line for line in answer.iter_lines() if "long" in line)
        provider.let_go.set()
        wait_for(lambda: len(said(engine)) == 2)
        assert tell(url, "chat", "go") == "all"
        assert shown(provider.requests[-1]) == [("user", "go")]
    assert said(engine).count("go") == 1


# --- tools of the client's ------------------------------------------------------------------------

TOOLS: dict[str, Raw] = {
    "chat": {"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}},
    "responses": {"type": "function", "name": "ls", "parameters": {"type": "object"}},
    "messages": {"name": "ls", "input_schema": {"type": "object"}},
}


def call_id(reply: Raw) -> str:
    """The id of the only call in a reply."""
    if "choices" in reply:
        return str(reply["choices"][0]["message"]["tool_calls"][0]["id"])
    if "output" in reply:
        return str(next(item["call_id"] for item in reply["output"] if item["type"] == "function_call"))
    return str(next(block["id"] for block in reply["content"] if block["type"] == "tool_use"))


def result(dialect: str, id_: str, text: str) -> list[Raw]:
    """What a tool said, as a request that has nothing else brings it."""
    if dialect == "chat":
        return [{"role": "tool", "tool_call_id": id_, "content": text}]
    if dialect == "responses":
        return [{"type": "function_call_output", "call_id": id_, "output": text}]
    return [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": id_, "content": text}]}]


@EVERY_DIALECT
@pytest.mark.parametrize("fails", ["never", "before the reply", "behind the reply"])
def test_the_result_of_a_tool_is_enough(engine: lossless.Engine, dialect: str, fails: str) -> None:
    answers: list[Say | Status] = [Say("Looking.", (("ls", {"path": "."}),)), Say("Two files.")]
    if fails != "never":
        answers.insert(1, Status(500, {}) if fails == "before the reply" else Say("Two of them."))
    tools: Raw = {"tools": [TOOLS[dialect]]}
    with Provider(lambda _: answers.pop(0)) as provider, proxied(engine, provider) as url:
        asked = post(url + PATHS[dialect], json=body(dialect, "list", **tools), headers=HEADERS)
        brought = body(dialect, result(dialect, call_id(asked.json()), "a.txt b.txt"), **tools)
        for _ in range(1 if fails == "never" else 2):
            answer = post(url + PATHS[dialect], json=brought, headers=HEADERS)
        assert "Two files." in answer.text
        newest = json.dumps(provider.requests[-1].body)
    assert newest.count("a.txt b.txt") == 1
    assert newest.count('"ls"') == 2
    assert "Two of them." not in newest
    everything = said(engine, ("user", "assistant", "tool"))
    assert sum("a.txt b.txt" in text for text in everything) == 1
    assert ("Two of them." in everything) == (fails == "behind the reply")
    assert engine.verify().ok


def test_a_model_may_use_the_id_of_a_call_again(engine: lossless.Engine) -> None:
    call = {"id": "call_0", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    answers = [Status(200, {"choices": [{"index": 0, "message": message}]})] * 2 + [Say("Still two.")]
    with Provider(lambda _: answers.pop(0)) as provider, proxied(engine, provider) as url:
        tools: Raw = {"tools": [TOOLS["chat"]]}
        post(url + PATHS["chat"], json=body("chat", "list", **tools), headers=HEADERS)
        for _ in range(2):
            brought = body("chat", result("chat", "call_0", "a.txt b.txt"), **tools)
            post(url + PATHS["chat"], json=brought, headers=HEADERS)
        shown = [one["tool_call_id"] for one in provider.requests[-1].body["messages"] if one["role"] == "tool"]
    assert shown == ["call_0", "call_0__2"]
    assert said(engine, ("tool",)) == ["a.txt b.txt"] * 2
