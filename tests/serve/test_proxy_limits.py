"""Requests that do not fit: what the reply is given, what a refusal teaches, and whose session a client says it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.model.tokens import estimate_tokens
from lossless.providers.token_limits import TooLong, parse_too_long
from lossless.testing.provider import Provider, Request, Say, Status
from tests.compaction.loop_kit import settings, talk
from tests.serve.proxy_kit import TOKEN, post, proxied

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Raw = dict[str, Any]
HEADERS = {"authorization": f"Bearer {TOKEN}:sk-real"}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[lossless.Engine]:
    with lossless.open(tmp_path / "lcm.db", settings(), background=False) as opened:
        yield opened


def sessions(engine: lossless.Engine) -> list[str]:
    rows = engine.archive.database.rows("SELECT session_key FROM conversations ORDER BY conversation_id", ())
    return [str(key) for (key,) in rows]


def test_a_refused_request_is_sent_once_more_with_less(engine: lossless.Engine) -> None:
    """The provider counts twice what we do; from then on its count is believed."""
    sent: list[int] = []
    told = "This model's maximum context length is 6000 tokens. However, your messages resulted in {} tokens."

    def strict(request: Request) -> Say | Status:
        counted = 2 * estimate_tokens(str(request.body["messages"]))
        sent.append(counted)
        if counted > 6_000:
            error = {"message": told.format(counted), "type": "invalid_request_error"}
            return Status(400, {"error": error | {"code": "context_length_exceeded"}})
        return Say("Fine.")

    messages: list[Raw] = [*talk(60), {"role": "user", "content": "What now?"}]
    with Provider(strict) as provider, proxied(engine, provider, window=6_000, tools="never") as url:
        for _ in range(3):
            body = {"model": "gpt-test", "messages": messages}
            answer = post(f"{url}/v1/chat/completions", headers=HEADERS, json=body)
            assert answer.status_code == 200, answer.text
            messages += [{"role": "assistant", "content": "Fine."}, {"role": "user", "content": "And now?"}]
    assert sent[0] > 6_000
    assert all(counted <= 6_000 for counted in sent[1:]), "refused once"
    assert engine.archive.guards.factor("openai/gpt-test") is not None


def test_a_refusal_for_other_reasons_is_the_clients(engine: lossless.Engine) -> None:
    refusal = Status(400, {"error": {"message": "no such model", "type": "invalid_request_error"}})
    with Provider(lambda _: refusal) as provider, proxied(engine, provider, window=6_000) as url:
        body = {"model": "gpt-test", "messages": talk(3)}
        answer = post(f"{url}/v1/chat/completions", headers=HEADERS, json=body)
        assert (answer.status_code, answer.json()) == (400, refusal.body)
        assert len(provider.requests) == 1


@pytest.mark.parametrize("most", [5_900, 1_000_000])
def test_a_large_max_tokens_does_not_take_the_room_of_the_conversation(engine: lossless.Engine, most: int) -> None:
    messages: list[Raw] = [*talk(30), {"role": "user", "content": "Which berth was it, exactly?"}]
    with (
        Provider(lambda _: Say("Berth 4.")) as provider,
        proxied(engine, provider, window=6_000, tools="never") as url,
    ):
        body = {"model": "gpt-test", "messages": messages, "max_tokens": most}
        assert post(f"{url}/v1/chat/completions", headers=HEADERS, json=body).status_code == 200
        shown = provider.requests[-1].body
    assert shown["messages"][-1] == messages[-1], "the words of the user are whole"
    size = estimate_tokens(str(shown["messages"]))
    assert size > 2_000
    assert size + shown["max_tokens"] <= 6_000 + 600
    assert "lcm_" not in str(shown["messages"]), "no tool is named that is not offered"


@pytest.mark.parametrize(
    ("header", "client"),
    [("x-claude-code-session-id", "claude-code"), ("session-id", "codex"), ("session_id", "codex")],
)
def test_clients_say_by_themselves_which_session_it_is(engine: lossless.Engine, header: str, client: str) -> None:
    with Provider(lambda _: Say("ok")) as provider, proxied(engine, provider) as url:
        for id_ in ("one", "two", "one"):
            body = {"model": "gpt-test", "messages": [{"role": "user", "content": "hello"}]}
            post(f"{url}/v1/chat/completions", headers=HEADERS | {header: id_}, json=body)
    names = sessions(engine)
    assert [name.rsplit(":", 2)[1:] for name in names] == [[client, "one"], [client, "two"]]


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (400, "prompt is too long: 210431 tokens > 200000 maximum", (210_431, 200_000)),
        (
            400,
            "maximum context length is 128,000 tokens. However, you requested 130,000 tokens",
            (130_000, 128_000),
        ),
        (400, "Your input exceeds the context window of this model.", (None, None)),
        (413, "context_length_exceeded", (None, None)),
        (400, "temperature must be at most 2", None),
        (429, "too many tokens per minute: context window", None),
        (500, "prompt is too long", None),
    ],
)
def test_what_refusals_say(status: int, text: str, expected: TooLong | None) -> None:
    assert parse_too_long(text, status) == expected
