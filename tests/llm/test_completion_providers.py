"""Providers over real HTTP: a server on the loopback that speaks both dialects of OpenAI, and Anthropic's."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from lossless import errors
from lossless.llm.completion import Prompt, Usage
from lossless.llm.credentials import Credential
from lossless.llm.providers import Endpoint, provider_model
from lossless.settings import ModelPrice

if TYPE_CHECKING:
    from tests.llm.conftest import ModelServer

KEY = Credential("sk-test-0123456789")
PROMPT = Prompt("Be brief.", "Sum up.", max_tokens=400, temperature=0.2)


def local(server: ModelServer, model: str = "small-1", provider: str = "local") -> Endpoint:
    return Endpoint(provider, model, server.v1, credential=KEY)


def claude(server: ModelServer, model: str = "claude-haiku-4-5") -> Endpoint:
    return Endpoint("anthropic", model, server.root, credential=KEY)


def ask(endpoint: Endpoint, prompt: Prompt = PROMPT, seconds: float = 60.0) -> Any:
    return provider_model(endpoint, seconds)(prompt)


def test_openai_chat(server: ModelServer) -> None:
    server.answers(server.chat("A summary."))
    answer = ask(local(server))
    assert (answer.text, answer.model, answer.stop_reason) == ("A summary.", "local/small-1", "stop")
    assert not answer.incomplete
    assert answer.usage == Usage(120, 30, cache_read=100)
    asked = server.requests[0]
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY.secret}"
    assert [message["content"] for message in asked.body["messages"]] == ["Be brief.", "Sum up."]
    assert (asked.body["max_tokens"], asked.body["temperature"]) == (400, 0.2)


def test_openai_itself_gets_the_newer_name_of_the_limit(server: ModelServer) -> None:
    server.answers(server.chat("A summary."))
    ask(local(server, "gpt-4o-mini", "openai"))
    assert server.requests[0].body["max_completion_tokens"] == 400
    assert "max_tokens" not in server.requests[0].body


def test_openai_responses(server: ModelServer) -> None:
    server.answers(server.responses("A summary."))
    answer = ask(local(server, "gpt-4o", "openai-responses"))
    assert answer.text == "A summary."
    assert answer.usage == Usage(50, 7)
    assert server.requests[0].path == "/v1/responses"
    assert server.requests[0].body["store"] is False


def test_anthropic_messages(server: ModelServer) -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    server.answers(server.messages(thinking, server.text("A summary.")))
    answer = ask(claude(server))
    assert (answer.text, answer.stop_reason) == ("A summary.", "end_turn")
    assert answer.usage == Usage(105, 9, cache_read=80, cache_write=5)
    asked = server.requests[0]
    assert asked.path.startswith("/v1/messages")
    assert (asked.body["system"], asked.body["temperature"]) == ("Be brief.", 0.2)


def test_a_login_goes_out_as_a_bearer_token(server: ModelServer) -> None:
    server.answers(server.messages(server.text("A summary.")))
    ask(Endpoint("anthropic", "claude-haiku-4-5", server.root, credential=Credential("login-123", "bearer")))
    headers = server.requests[0].headers
    assert headers["authorization"] == "Bearer login-123"
    assert "oauth" in headers["anthropic-beta"]
    assert "x-api-key" not in headers


def test_keys_in_the_environment_are_not_sent(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, "sk-from-the-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    server.answers(server.chat("x"), server.messages(server.text("x")))
    ask(Endpoint("local", "small-1", server.v1))
    ask(claude(server))
    assert "sk-from-the-environment" not in str(server.requests)


@pytest.mark.parametrize(
    ("model", "reasoning", "sent"),
    [
        pytest.param("claude-haiku-4-5", None, True, id="an ordinary model takes it"),
        pytest.param("claude-haiku-4-5", "low", False, id="not beside thinking"),
        pytest.param("claude-opus-4-8", None, False, id="a model without sampling does not"),
    ],
)
def test_temperature_is_sent_where_it_is_taken(server: ModelServer, model: str, reasoning: Any, sent: bool) -> None:
    server.answers(server.messages(server.text("x")))
    ask(claude(server, model), Prompt("", "u", 5000, 0.2, reasoning=reasoning))
    assert ("temperature" in server.requests[0].body) is sent
    assert ("thinking" in server.requests[0].body) is (reasoning is not None)


def test_reasoning_models_think_little_and_take_no_temperature(server: ModelServer) -> None:
    server.answers(server.chat("x"))
    ask(local(server, "o3-mini", "openai"), Prompt("s", "u", 500, 0.2, reasoning="low"))
    assert server.requests[0].body["reasoning_effort"] == "low"
    assert "temperature" not in server.requests[0].body


def test_thinking_never_eats_the_whole_answer(server: ModelServer) -> None:
    server.answers(server.messages(server.text("x")))
    ask(claude(server), Prompt("s", "u", 1500, reasoning="low"))
    assert "thinking" not in server.requests[0].body


def test_ollama_is_never_asked_to_think(server: ModelServer) -> None:
    server.answers(server.chat("x"))
    ask(Endpoint("ollama", "o3-mini", server.v1), Prompt("s", "u", 500, reasoning="low"))
    assert "reasoning_effort" not in server.requests[0].body


def test_a_refused_temperature_is_left_out(server: ModelServer) -> None:
    server.answers(server.error(400, "Unsupported value: 'temperature'"), server.chat("A summary."))
    assert ask(local(server)).text == "A summary."
    assert ["temperature" in request.body for request in server.requests] == [True, False]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.ModelError),
        (401, errors.ModelAuth),
        (403, errors.ModelAuth),
        (404, errors.ModelError),
        (413, errors.ModelError),
        (429, errors.ModelRateLimit),
        (500, errors.ModelError),
        (504, errors.ModelTimeout),
        (529, errors.ModelError),
    ],
)
@pytest.mark.parametrize("make", [local, claude])
def test_refusals_are_told_apart_and_never_repeated(
    server: ModelServer, make: Any, status: int, kind: type[errors.ModelError]
) -> None:
    server.answers(server.error(status, f"sorry, {KEY.secret} will not do", retry_after="7"))
    with pytest.raises(kind) as caught:
        ask(make(server))
    assert type(caught.value) is kind
    assert KEY.secret not in str(caught.value)
    assert caught.value.__cause__ is None
    assert len(server.requests) == 1
    if isinstance(caught.value, errors.ModelRateLimit):
        assert caught.value.retry_after == 7.0


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [(403, "model_not_found", errors.ModelAuth), (429, "overloaded", errors.ModelRateLimit)],
)
def test_the_status_of_a_refusal_counts_whatever_its_code_is(
    server: ModelServer, status: int, code: str, kind: type[errors.ModelError]
) -> None:
    refusal = server.error(status, retry_after="7")
    server.answers(replace(refusal, body={"error": {"message": "not for this project", "code": code}}))
    with pytest.raises(kind):
        ask(local(server))


def test_a_prompt_that_is_too_long_says_so(server: ModelServer) -> None:
    server.answers(server.error(400, "This model's maximum context length is 8192 tokens"))
    with pytest.raises(errors.ModelError, match="context window"):
        ask(local(server))


@pytest.mark.parametrize("make", [local, claude])
def test_a_server_that_hangs_is_left(server: ModelServer, make: Any) -> None:
    server.answers(server.hang())
    with pytest.raises(errors.ModelTimeout):
        ask(make(server), seconds=0.3)


def test_nobody_listens() -> None:
    with pytest.raises(errors.ModelError, match=r"local/small-1: no connection to http://127\.0\.0\.1:9/v1"):
        ask(Endpoint("local", "small-1", "http://127.0.0.1:9/v1"))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param({"output_text": "Odd."}, "Odd.", id="a bare output text"),
        pytest.param({"choices": [{"text": "Odd."}]}, "Odd.", id="old completions"),
        pytest.param({"message": {"content": [{"type": "text", "text": "Odd."}]}}, "Odd.", id="ollama's own"),
    ],
)
def test_odd_shapes_are_read(server: ModelServer, body: dict[str, Any], text: str) -> None:
    server.answers(body)
    assert ask(local(server)).text == text


def test_empty_thinking_only_and_cut_off_answers(server: ModelServer) -> None:
    server.answers(
        server.chat(""),
        server.chat(None, reasoning_content="deep"),
        server.chat("<think>deep</think>"),
        server.chat("Half of", "length"),
    )
    answers = [ask(local(server)) for _ in range(4)]
    assert [(answer.text, answer.incomplete) for answer in answers] == [
        ("", False),
        ("", False),
        ("", False),
        ("Half of", True),
    ]


def test_cut_off_answers_of_the_other_dialects(server: ModelServer) -> None:
    server.answers(
        server.responses("Half of", "incomplete"), server.messages(server.text("Half of"), stop="max_tokens")
    )
    first, second = ask(local(server, "gpt-4o", "openai-responses")), ask(claude(server))
    assert (first.text, first.incomplete, first.stop_reason) == ("Half of", True, "max_output_tokens")
    assert (second.text, second.incomplete, second.stop_reason) == ("Half of", True, "max_tokens")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"code": 401, "message": "no such user"}}, errors.ModelAuth),
        ({"error": {"code": 502, "message": "upstream is down"}}, errors.ModelError),
        ({}, errors.ModelBadAnswer),
        ("<html>welcome</html>", errors.ModelBadAnswer),
    ],
)
def test_failures_that_come_as_a_success(
    server: ModelServer, body: dict[str, Any] | str, kind: type[errors.ModelError]
) -> None:
    server.answers(body)
    with pytest.raises(kind) as caught:
        ask(local(server))
    assert type(caught.value) is kind


def test_a_content_filter_is_no_answer(server: ModelServer) -> None:
    server.answers(server.chat("x", "content_filter"))
    with pytest.raises(errors.ModelBadAnswer, match="content filter"):
        ask(local(server))


def test_cost_is_the_provider_s_or_the_user_s_or_unknown(server: ModelServer) -> None:
    reported = server.chat("x")
    reported["usage"]["cost"] = 0.0042
    server.answers(reported, server.chat("x"), server.chat("x"))
    price = ModelPrice("local/m", 3.0, 15.0, cache_read=0.3)
    assert provider_model(local(server), price=price)(PROMPT).usage.cost == Decimal("0.0042")
    assert provider_model(local(server), price=price)(PROMPT).usage.cost == Decimal("0.00054")
    assert provider_model(local(server))(PROMPT).usage.cost is None


def test_no_key_and_no_address_are_said_before_any_request() -> None:
    with pytest.raises(errors.ModelAuth, match="no credential for provider 'openai'"):
        ask(Endpoint("openai", "gpt-4o"))
    with pytest.raises(errors.ModelDenied, match="'nowhere' is not known"):
        ask(Endpoint("nowhere", "x", credential=KEY))


def test_it_can_be_called_inside_an_event_loop(server: ModelServer) -> None:
    server.answers(server.chat("A summary."))

    async def caller() -> str:
        return str(ask(local(server)).text)

    assert asyncio.run(caller()) == "A summary."


@pytest.mark.parametrize("missing", ["pydantic_ai", "openai"])
def test_without_the_extra_it_says_what_to_install(missing: str) -> None:
    code = f"""
        import sys
        sys.modules["{missing}"] = None
        from lossless.errors import ModelDenied
        from lossless.llm.completion import Prompt
        from lossless.llm.providers import Endpoint, provider_model
        try:
            provider_model(Endpoint("ollama", "x"))(Prompt("", "", 1))
        except ModelDenied as error:
            print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 'pip install "lossless[llm]"' in out.stdout


def test_the_key_shows_nowhere(server: ModelServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    server.answers(server.error(401, "no"))
    with pytest.raises(errors.ModelAuth):
        provider_model(local(server))(PROMPT)
    assert KEY.secret not in str(local(server)) + repr(KEY)
    assert KEY.secret not in caplog.text
