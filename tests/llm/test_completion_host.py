"""The host's model: every kind of answer, and denials that stay denials."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from lossless import errors
from lossless.llm.chain import ModelChain
from lossless.llm.completion import Complete, Completion, Prompt, Usage
from lossless.llm.providers import host_model
from lossless.settings.model_rules import ModelCandidate

PROMPT = Prompt("system", "user", 400)


@pytest.mark.parametrize(
    "result",
    [
        "Fine.",
        "<think>hm</think>Fine.",
        {"text": "Fine."},
        {"content": [{"type": "text", "text": "Fine."}]},
        {"choices": [{"message": {"content": "Fine."}}]},
        {"response": {"message": {"content": [{"type": "thinking", "thinking": "x"}, {"text": "Fine."}]}}},
        Completion("Fine.", "x"),
        Completion("<think>hm</think>Fine.", "x"),
    ],
)
def test_answers_in_every_shape(result: object) -> None:
    assert host_model(lambda _: result)(PROMPT).text == "Fine."


def test_the_callable_gets_the_prompt_and_its_usage_is_kept() -> None:
    seen: list[Prompt] = []

    def call(prompt: Prompt) -> dict[str, Any]:
        seen.append(prompt)
        return {"text": "Fine.", "usage": {"input": 5, "output": 2}, "stopReason": "length"}

    answer = host_model(call, "openclaw")(PROMPT)
    assert seen == [PROMPT]
    assert (answer.model, answer.usage, answer.incomplete) == ("openclaw", Usage(5, 2), True)


def raising(error: BaseException) -> Complete:
    def call(prompt: Prompt) -> object:
        raise error

    return host_model(call)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PermissionError("override"), errors.ModelDenied),
        (RuntimeError("model override is not allowed by policy"), errors.ModelDenied),
        (RuntimeError("runtime llm unavailable"), errors.ModelDenied),
        (RuntimeError("401 Unauthorized"), errors.ModelAuth),
        (TimeoutError(), errors.ModelTimeout),
        (ValueError("odd"), errors.ModelError),
        (errors.ModelRateLimit("slow", 3.0), errors.ModelRateLimit),
        (errors.GuardOpen("spend", "spent", "later"), errors.GuardOpen),
    ],
)
def test_what_the_callable_raises(error: Exception, kind: type[errors.LosslessError]) -> None:
    with pytest.raises(kind) as caught:
        raising(error)(PROMPT)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        (None, errors.ModelDenied),
        ({"error": {"kind": "denied", "message": "not this plugin"}}, errors.ModelDenied),
        ({"ok": False, "message": "model x/y is not allowed"}, errors.ModelDenied),
        ({"error": {"kind": "provider_auth"}}, errors.ModelAuth),
        ({"status": 401}, errors.ModelAuth),
        ({"error": {"message": "invalid api key"}}, errors.ModelAuth),
        ({"error": {"message": "overloaded"}}, errors.ModelError),
    ],
)
def test_what_the_callable_returns_instead_of_an_answer(result: object, kind: type[errors.LosslessError]) -> None:
    with pytest.raises(kind) as caught:
        host_model(lambda _: result)(PROMPT)
    assert type(caught.value) is kind


def test_a_denied_model_is_not_replaced_by_another() -> None:
    asked: list[str] = []

    def connect(candidate: ModelCandidate) -> Complete:
        def call(prompt: Prompt) -> object:
            asked.append(candidate.name)
            return {"error": {"code": "policy_denied", "message": f"{candidate.name} is not allowed"}}

        return host_model(call)

    chain = ModelChain([ModelCandidate("a", "one"), ModelCandidate("b", "two")], connect, 5.0)
    with pytest.raises(errors.ModelDenied, match="a/one is not allowed"):
        chain(PROMPT)
    assert asked == ["a/one"]


def test_a_host_that_hangs_is_left() -> None:
    release = threading.Event()
    with pytest.raises(errors.ModelTimeout):
        host_model(lambda _: release.wait(), timeout_seconds=0.05)(PROMPT)
    release.set()


def test_a_coroutine_is_refused_with_a_hint() -> None:
    async def call(prompt: Prompt) -> str:
        return "never"

    with pytest.raises(errors.ModelDenied, match="waits for its answer"):
        host_model(call)(PROMPT)
