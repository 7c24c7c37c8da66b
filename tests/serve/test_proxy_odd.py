"""Requests and replies that are not what they should be are passed on: whose they are, explains what is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.testing.provider import Provider, Say, Status
from tests.compaction.loop_kit import settings
from tests.serve.proxy_kit import TOKEN, post, proxied
from tests.serve.test_proxy import said

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Raw = dict[str, Any]
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
ASKED: list[Raw] = [{"role": "user", "content": "hello"}]
HISTORIES = pytest.mark.parametrize("history", ["window", "append"])
DEEP = "[" * 100_000 + "]" * 100_000


@pytest.fixture
def engine(path: Path) -> Iterator[lossless.Engine]:
    with lossless.open(path, settings(), background=False) as opened:
        yield opened


def headers(history: str, session: str = "s") -> dict[str, str]:
    return {"x-lossless-token": TOKEN, "x-lossless-session": session, "x-lossless-history": history}


ODD_FIELDS: list[Raw] = [
    {"tools": 5},
    {"tools": {"a": 1}},
    {"tools": ["ls"]},
    {"tools": [{"function": "ls"}]},
    {"tools": [{"type": "function", "function": ["ls"]}]},
    {"model": "\ud800"},
    {"system": 5},
    {"instructions": [1]},
]


@HISTORIES
@pytest.mark.parametrize("dialect", PATHS)
def test_odd_fields_are_the_providers_to_judge(engine: lossless.Engine, dialect: str, history: str) -> None:
    asked = {"model": "m", "max_tokens": 9, "input" if dialect == "responses" else "messages": ASKED}
    with Provider(lambda _: Say("ok")) as provider, proxied(engine, provider, tools="always") as url:
        for number, odd in enumerate(ODD_FIELDS):
            answer = post(url + PATHS[dialect], content=json.dumps(asked | odd), headers=headers(history, f"s{number}"))
            assert answer.status_code == 200, answer.text
            ((name, value),) = odd.items()
            found = provider.requests[-1].body[name]
            assert (found[:1] if isinstance(found, list) else found) == value, odd  # our tools may stand behind
    assert said(engine) == ["hello", "ok"] * len(ODD_FIELDS)


@pytest.mark.parametrize("odd", [None, "hello", [1, None, *ASKED, []], []], ids=str)
def test_odd_messages_are_the_providers_to_judge(engine: lossless.Engine, odd: object) -> None:
    content = json.dumps({"model": "m", "messages": odd}).encode()
    with Provider(lambda _: Status(400, {"error": "no"})) as provider, proxied(engine, provider, tools="always") as url:
        answer = post(url + PATHS["chat"], content=content, headers=headers("window"))
        assert answer.status_code == 400
        assert provider.requests[0].content == content


@pytest.mark.parametrize("depth", [100, 900, 100_000])
def test_deep_values_are_the_providers_to_judge(engine: lossless.Engine, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    content = f'{{"messages": [{{"role": "user", "content": "hi"}}], "deep": {deep}}}'.encode()
    with Provider(lambda _: Status(400, {})) as provider, proxied(engine, provider) as url:
        assert post(url + PATHS["chat"], content=content, headers=headers("window")).status_code == 400
        assert provider.requests[0].content == content


def test_half_a_surrogate_pair_is_sent_as_an_escape(engine: lossless.Engine) -> None:
    content = rb'{"model": "m", "messages": [{"role": "user", "content": "hi"}], "\udc00": "\ud83d"}'
    with Provider() as provider, proxied(engine, provider, tools="always") as url:
        assert post(url + PATHS["chat"], content=content, headers=headers("window")).status_code == 200
        assert json.loads(provider.requests[0].content.decode("utf-8"))["\udc00"] == "\ud83d"


def reply(message: Any, **more: Any) -> Raw:
    return {"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]} | more


def calling(function: Any) -> Raw:
    return reply({"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": function}]})


WORDS = {"role": "assistant", "content": "ok"}


ODD_REPLIES = [
    {"id": "x", "choices": "none"},
    reply("ok"),
    reply(WORDS | {"tool_calls": "ls"}),
    calling("ls"),
    calling({"name": "ls", "arguments": DEEP}),
    reply(WORDS, usage={"prompt_tokens": float("inf")}),
    reply(WORDS, usage={"prompt_tokens": float("nan")}),
    reply(WORDS, usage={"prompt_tokens": 10**30, "prompt_tokens_details": {"cached_tokens": 10**30}}),
    reply(WORDS | {"content": "\ud83d"}),
]


@HISTORIES
def test_an_odd_reply_is_passed_on(engine: lossless.Engine, history: str) -> None:
    replies = iter(ODD_REPLIES)
    with Provider(lambda _: Status(200, next(replies))) as provider, proxied(engine, provider) as url:
        for number, odd in enumerate(ODD_REPLIES):
            asked = {"model": "m", "messages": ASKED}
            answer = post(url + PATHS["chat"], json=asked, headers=headers(history, f"s{number}"))
            assert answer.status_code == 200, answer.text
            assert answer.content == json.dumps(odd).encode()
    assert engine.verify().messages >= len(ODD_REPLIES)


@pytest.mark.parametrize("stream", [False, True], ids=["at once", "streamed"])
def test_half_a_surrogate_pair_in_a_reply_of_two_rounds(engine: lossless.Engine, stream: bool) -> None:
    answers = [Say("half \ud83d", (("lcm_grep", {"pattern": "\ud83d"}),)), Say("and \ude00 more")]
    with Provider(lambda _: answers.pop(0)) as provider, proxied(engine, provider, tools="always") as url:
        asked = {"model": "m", "messages": ASKED, "stream": stream}
        answer = post(url + PATHS["chat"], json=asked, headers=headers("append"))
        assert rb"\ud83d" in answer.content
        assert b"more" in answer.content
        assert len(provider.requests) == 2
        provider.requests[1].content.decode("utf-8")
    assert engine.verify().ok
