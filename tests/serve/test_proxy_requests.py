"""Requests that are written oddly: kept like others, or refused with words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import lossless
from lossless.errors import BadInput
from lossless.serve.proxy_bodies import read_body
from lossless.testing.provider import Provider, Say, Status
from tests.compaction.loop_kit import settings
from tests.serve.proxy_kit import TOKEN, post, proxied
from tests.serve.test_proxy import said

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GOOD = {"x-lossless-token": TOKEN}
ASKED = [{"role": "user", "content": "Where is the ferry?"}]
KEPT = ["Where is the ferry?", "At sea."]


@pytest.fixture
def engine(path: Path) -> Iterator[lossless.Engine]:
    with lossless.open(path, settings(), background=False) as opened:
        yield opened


@pytest.mark.parametrize(
    ("where", "sent"),
    [
        ("/v1//chat/completions", "/v1/chat/completions"),
        ("//v1/chat//completions", "/v1/chat/completions"),
        ("/openai//v1/chat/completions", "/v1/chat/completions"),
        ("/v1/./chat/completions", "/v1/chat/completions"),
        ("/v1/models/../chat/completions", "/v1/chat/completions"),
        ("/v1/chat%2Fcompletions", "/v1/chat/completions"),
        ("/v1/%63hat/completions/", "/v1/chat/completions/"),
        ("//v1//responses", "/v1/responses"),
        ("//v1/messages", "/v1/messages"),
        ("/anthropic//v1//messages", "/v1/messages"),
        ("/v1/chat/completions/", "/v1/chat/completions/"),
    ],
)
def test_a_conversation_is_known_however_its_path_is_written(engine: lossless.Engine, where: str, sent: str) -> None:
    body = {"model": "m", "max_tokens": 99, "input" if "responses" in where else "messages": ASKED}
    with Provider(lambda _: Say("At sea.")) as provider, proxied(engine, provider) as url:
        answer = post(url + where, json=body, headers=GOOD)
        assert answer.status_code == 200
        assert "x-lossless-session" in answer.headers
        assert provider.requests[0].path == sent
    assert said(engine) == KEPT


@pytest.mark.parametrize("where", ["/v1//files/a%2Fb", "/v1/models//x", "/v1/chat%252Fcompletions"])
def test_other_paths_go_on_as_they_were_written(engine: lossless.Engine, where: str) -> None:
    with Provider() as provider, proxied(engine, provider) as url:
        assert "x-lossless-session" not in post(url + where, json={}, headers=GOOD).headers
        assert provider.requests[0].path == where


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1e999", "-1E+999"])
@pytest.mark.parametrize("where", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
def test_a_number_that_is_none_is_refused_with_words(engine: lossless.Engine, where: str, number: str) -> None:
    key = "max_output_tokens" if "responses" in where else "max_tokens"
    asked = json.dumps({"model": "m", "input" if "responses" in where else "messages": ASKED}).removesuffix("}")
    with Provider() as provider, proxied(engine, provider) as url:
        for content in (f'{asked}, "{key}": {number}}}', f'{asked}, "metadata": [{{"a": {number}}}]}}'):
            answer = post(url + where, content=content, headers=GOOD)
            assert (answer.status_code, answer.headers["x-lossless-error"]) == (400, "1")
            assert f"the request has {number} where a number belongs" in answer.json()["error"]["message"]
        assert provider.requests == []
    assert said(engine) == []


@pytest.mark.parametrize("odd", [0, -1, 1.5, 1e308, 10**400, "many", [], {}, True, None])
def test_an_odd_limit_is_the_providers_to_judge(engine: lossless.Engine, odd: object) -> None:
    with Provider(lambda _: Say("At sea.")) as provider, proxied(engine, provider, window=8_000) as url:
        body = {"model": "m", "max_tokens": odd, "messages": ASKED}
        assert post(f"{url}/v1/chat/completions", json=body, headers=GOOD).status_code == 200
    assert said(engine) == KEPT


def _choice(index: int, text: str) -> dict[str, object]:
    return {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}


def test_of_several_choices_the_first_is_kept_and_all_are_shown(engine: lossless.Engine) -> None:
    reply = {"id": "c1", "object": "chat.completion", "choices": [_choice(0, "At sea."), _choice(1, "In the harbour.")]}
    body = {"model": "m", "n": 2, "messages": ASKED}
    with Provider(lambda _: Status(200, reply)) as provider, proxied(engine, provider, tools="always") as url:
        assert post(f"{url}/v1/chat/completions", json=body, headers=GOOD).json() == reply
        assert "tools" not in provider.requests[0].body
    assert said(engine) == KEPT


def test_numbers_are_read_as_they_are() -> None:
    body = read_body(b'{"a": [0.1, -2.5e-3, 7, 1e308]}', "")
    assert body == {"a": [0.1, -2.5e-3, 7, 1e308]}
    with pytest.raises(BadInput, match="NaN"):
        read_body(b'{"a": NaN}', "")
