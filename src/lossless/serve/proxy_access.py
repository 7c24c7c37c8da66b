"""Who may use the proxy, and with whose key the provider is asked."""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lossless.errors import BadInput
from lossless.serve import tokens
from lossless.serve.tokens import token, token_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

OPENAI_URL, ANTHROPIC_URL = "https://api.openai.com/v1", "https://api.anthropic.com"
VARIABLE = "LCM_PROXY_TOKEN"
TOKEN_HEADER, SESSION_HEADER = "x-lossless-token", "x-lossless-session"
#: Says what the messages of a request are: the whole window, or what is new.
HISTORY_HEADER = "x-lossless-history"
#: Headers in which clients say by themselves which session a request belongs to, and who they are.
CLIENT_HEADERS = {"x-claude-code-session-id": "claude-code", "session-id": "codex", "session_id": "codex"}
#: Where clients put a provider's key.
_KEY_HEADERS = ("authorization", "x-api-key", "api-key")
_LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a request is not served."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class Granted:
    """A request that is served: the headers that carry the client's own key, and a name for that key."""

    key_headers: dict[str, str]
    key_name: str


@dataclass(frozen=True, slots=True)
class Access:
    """Who gets in: a token in its own header, or as the API key, or before the API key with a colon."""

    token: str
    origins: frozenset[str] = frozenset()

    def check(self, headers: Mapping[str, str]) -> Granted | Refused:
        """Let a request in, or say why not. The token itself is never passed on."""
        if not is_loopback(headers.get("host", "")):
            return Refused(403, "this Host is not served: the proxy answers on the loopback address only")
        origin = headers.get("origin")
        if origin is not None and origin not in self.origins:
            return Refused(403, "this Origin is not served; `lcm proxy --allow-origin` lets a page in")
        keys = {name: value for name in _KEY_HEADERS if (value := headers.get(name))}
        given = headers.get(TOKEN_HEADER)
        if given is not None:
            return self._granted(keys) if self._is_token(given) else Refused(401, "the proxy's token is wrong")
        for name, value in keys.items():
            scheme, key = _split(value)
            mine, colon, rest = key.partition(":")
            if self._is_token(mine):
                others = {other: text for other, text in keys.items() if other != name}
                return self._granted(others | ({name: scheme + rest} if colon and rest else {}))
        hint = f"send the proxy's token as {TOKEN_HEADER}, as the API key, or as TOKEN:KEY"
        return Refused(401, f"the proxy's token is missing or wrong: {hint}")

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    def _granted(self, keys: dict[str, str]) -> Granted:
        whose = "\0".join(keys.values()) or self.token
        return Granted(keys, hashlib.sha256(whose.encode("utf-8", "replace")).hexdigest()[:12])


def is_loopback(host: str) -> bool:
    """Whether a Host header, or an address to listen on, is this machine's own.

    >>> [is_loopback(h) for h in ("127.0.0.1:8799", "localhost", "[::1]:1", "evil.example", "127.0.0.1.evil.example")]
    [True, True, True, False, False]
    """
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return name in _LOOPBACK


def read_token(path: Path | None = None, env: Mapping[str, str] = os.environ) -> tuple[str, str]:
    """The token and where it is: in LCM_PROXY_TOKEN, or in a file for its owner alone, made when it is not there.

    Raises BadInput for a token that is too short or has a colon, and for a file that others can read.
    """
    given = env.get(VARIABLE, "").strip()
    if given and path is None:
        found, place = token(None, {tokens.VARIABLE: given})[0], f"${VARIABLE}"
    else:
        found, place = token(path or token_file(env).with_name("proxy-token"), {})
    if ":" in found:
        raise BadInput(f"the token in {place} has a colon, which would end it before a key")
    return found, place


def _split(value: str) -> tuple[str, str]:
    """The scheme of a header with its space, and the key."""
    scheme, space, key = value.partition(" ")
    return (f"{scheme} ", key.strip()) if space else ("", value)
