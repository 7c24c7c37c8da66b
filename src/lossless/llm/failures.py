"""Reading failures: whether credentials were refused, or the call was forbidden."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_SECRET = r"(?:x-)?(?:api[ _-]?key|access[ _-]token|auth(?:entication)?[ _-]token|token|credentials?)\b"
_AUTH_TEXT = re.compile(
    r"\bunauthori[sz]ed\b|\bunauthenticated\b"
    rf"|\b(?:invalid|incorrect|expired|missing|revoked)[ _-]{_SECRET}"
    rf"|\b{_SECRET}.{{0,30}}\b(?:invalid|expired|revoked|incorrect|missing)\b"
    r"|\bno (?:api[ _-]?key|credentials?)\b"
    r"|\bauthentication[ _](?:failed|error|required)\b|\b(?:failed|unable) to authenticate\b"
    r"|\b(?:missing|insufficient)[ _](?:required[ _])?scopes?\b|\bmodel\.request\b"
    r"|\bnot logged in\b|\bplease (?:log|sign) ?in\b",
    re.IGNORECASE,
)
_DENIED_TEXT = re.compile(
    r"\bmodel override\b|\boverride\b.{0,40}\bmodel\b|\ballow(?:ed)? ?model(?:override|s)\b"
    r"|\b(?:denied|forbidden|refused|blocked|not allowed|not permitted)\b.{0,20}\b(?:by|policy)\b"
    r"|\bpolicy\b.{0,20}\b(?:denied|denies|refused|forbids|blocked)\b|\bpermission denied\b"
    r"|\b(?:llm|model|completion)s?\b.{0,20}\b(?:unavailable|disabled|denied)\b"
    r"|\b(?:llm|model|completion)s?\b.{0,20}\bnot (?:available|allowed|permitted)\b"
    r"|\bno (?:model|llm)s?\b",
    re.IGNORECASE,
)
_DENIED_KINDS = frozenset(
    {"denied", "policy", "policy_denied", "forbidden", "unavailable", "llm_unavailable", "model_denied"}
)
_STATUS_KEYS = ("status", "status_code", "statusCode", "http_status", "code")
_TEXT_KEYS = (
    "message",
    "error",
    "detail",
    "details",
    "reason",
    "description",
    "kind",
    "type",
    "code",
    "title",
)
_INNER_KEYS = ("error", "errors", "cause", "data", "details", "body", "response")
_MAX_DEPTH = 6


def says_auth(text: str) -> bool:
    """Whether an error's text says that credentials were refused.

    >>> says_auth("401 Incorrect API key provided"), says_auth("the token limit was reached")
    (True, False)
    """
    return bool(_AUTH_TEXT.search(text[:4000]))


def is_auth(error: object) -> bool:
    """Whether an error (an exception, an object or a text) means that credentials were refused."""
    return _has_401(error) or any(says_auth(text) for text in _texts(error, 0))


def is_denied(error: object) -> bool:
    """Whether an error means that a policy forbids the call or that the host has no model to offer."""
    if isinstance(error, PermissionError):
        return True
    return any(text.lower() in _DENIED_KINDS or _DENIED_TEXT.search(text[:4000]) for text in _texts(error, 0))


def answer_is_auth_failure(response: object) -> bool:
    """Whether an answer that came as a success is an authentication failure after all.

    Only structure counts (a 401, or an error of kind `provider_auth`): a summary may well talk about
    invalid keys.
    """
    if not isinstance(response, Mapping):
        return False
    error = response.get("error")
    kinds = [error.get(key) for key in ("kind", "type", "code")] if isinstance(error, Mapping) else []
    return _has_401(response) or "provider_auth" in kinds


def error_of(response: object) -> object | None:
    """The error inside an answer that came as a success, None when it has none."""
    if not isinstance(response, Mapping):
        return None
    error: object = response.get("error")
    if error:
        return error
    failed = response.get("ok") is False or response.get("success") is False
    return response if failed else None


def message_of(error: object) -> str:
    """The first sentence that an error has to say, at most 200 characters."""
    text = next((text for text in _texts(error, 0) if " " in text), next(_texts(error, 0), ""))
    flat = " ".join(text.split())
    return flat if len(flat) <= 200 else flat[:199] + "…"


def _has_401(error: object) -> bool:
    return any(str(level.get(key)) == "401" for level in _levels(error, 0) for key in _STATUS_KEYS if key in level)


def _levels(error: object, depth: int) -> Iterator[Mapping[object, object]]:
    """The object, and the error-shaped objects inside it."""
    if depth > _MAX_DEPTH or isinstance(error, str):
        return
    if isinstance(error, list):
        for item in error[:20]:
            yield from _levels(item, depth + 1)
        return
    level = _as_mapping(error)
    if level is None:
        return
    yield level
    for key in _INNER_KEYS:
        if (inner := level.get(key)) is not None:
            yield from _levels(inner, depth + 1)


def _as_mapping(error: object) -> Mapping[object, object] | None:
    if isinstance(error, Mapping):
        return error
    if isinstance(error, BaseException):
        fields = {key: getattr(error, key, None) for key in (*_STATUS_KEYS, *_INNER_KEYS, "message")}
        return {"message": str(error), "cause": error.__cause__} | {k: v for k, v in fields.items() if v is not None}
    status = getattr(error, "status_code", None)
    return {"status_code": status} if isinstance(status, int) else None


def _texts(error: object, depth: int) -> Iterator[str]:
    if isinstance(error, str):
        yield error
        return
    for level in _levels(error, depth):
        for key in _TEXT_KEYS:
            if isinstance(text := level.get(key), str) and text:
                yield text
