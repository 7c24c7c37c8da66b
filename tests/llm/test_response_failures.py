"""Refused credentials and forbidden calls, told apart from everything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.llm import response


class HttpError(Exception):
    """What a client library raises."""

    def __init__(self, message: str, status_code: int | None = None, body: object = None) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.body = body


@pytest.mark.parametrize(
    "error",
    [
        HttpError("refused", 401),
        HttpError("x", None, {"error": {"code": 401}}),
        {"status": 401, "message": "no"},
        {"error": {"statusCode": "401"}},
        {"error": {"message": "Incorrect API key provided: sk-…"}},
        {"message": "invalid x-api-key"},
        {"error": "missing scope"},
        {"error": {"message": "You have insufficient permissions. Missing scopes: model.request"}},
        {"cause": {"message": "authentication_error"}},
        "Unauthorized",
        "Your API key has expired",
        "the token was revoked",
        "Invalid token",
        "Not logged in · Please run /login",
    ],
)
def test_refused_credentials_are_seen(error: object) -> None:
    assert response.is_auth_failure(error)


@pytest.mark.parametrize(
    "error",
    [
        HttpError("server error", 500),
        {"status": 429, "message": "too many requests"},
        {"error": {"message": "max_tokens is too large"}},
        "the token limit was reached",
        "connection refused",
        "",
        None,
        ValueError("bad"),
    ],
)
def test_other_failures_are_not_auth(error: object) -> None:
    assert not response.is_auth_failure(error)


def test_a_summary_about_keys_is_no_auth_failure() -> None:
    text = "The user had an invalid api key and got 401 Unauthorized until it was replaced."
    assert not response.answer_is_auth_failure({"content": text})
    assert not response.answer_is_auth_failure(text)
    assert response.answer_is_auth_failure({"status": 401, "content": text})
    assert response.answer_is_auth_failure({"error": {"kind": "provider_auth"}})
    assert response.answer_is_auth_failure({"error": {"code": 401}})


@pytest.mark.parametrize(
    "error",
    [
        PermissionError("no"),
        {"error": {"code": "policy_denied"}},
        {"message": "Plugin LLM completion cannot override the target model."},
        {"message": "model openai/gpt-x is not allowed for this plugin"},
        RuntimeError("denied by policy"),
        RuntimeError("runtime LLM is unavailable"),
        "no model is configured",
    ],
)
def test_denials_are_seen(error: object) -> None:
    assert response.is_denied_failure(error)


@pytest.mark.parametrize("error", [RuntimeError("503 service unavailable"), {"message": "overloaded"}, ""])
def test_other_failures_are_no_denials(error: object) -> None:
    assert not response.is_denied_failure(error)


def test_messages_are_short_and_on_one_line() -> None:
    assert response.error_message({"error": {"type": "x", "message": "one\n two"}}) == "one two"
    assert len(response.error_message({"message": "word " * 500})) == 200
    assert response.error_message(None) == ""


def test_an_answer_that_says_it_failed() -> None:
    assert response.error_in_response({"ok": False, "message": "x"}) == {"ok": False, "message": "x"}
    assert response.error_in_response({"error": "x"}) == "x"
    assert response.error_in_response({"error": None, "text": "x"}) is None
    assert response.error_in_response("error") is None


@given(st.recursive(st.none() | st.text() | st.integers(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_no_error_shape_raises(error: object) -> None:
    response.is_auth_failure(error)
    response.is_denied_failure(error)
    response.error_message(error)
    response.error_in_response(error)


def test_a_circle_of_causes_ends() -> None:
    error: dict[str, object] = {"message": "round and round"}
    error["cause"] = error
    assert not response.is_auth_failure(error)
