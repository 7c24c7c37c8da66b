"""Who may use the proxy, and with whose key the provider is asked."""

from __future__ import annotations

import binascii
import hashlib
import hmac
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from lossless.errors import BadInput
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
_URL_SAFE = str.maketrans("-_", "+/")
_LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a request is not served."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class Granted:
    """A request that is served: its headers without the token, those with the client's own key, and that key's name."""

    headers: tuple[tuple[str, str], ...]
    key_name: str

    @property
    def key_headers(self) -> dict[str, str]:
        """The headers that carry the client's own key."""
        return {name: value for name, value in self.headers if name in _KEY_HEADERS}


@dataclass(frozen=True, slots=True)
class Access:
    """Who gets in: a token in its own header, or as the API key, or before the API key with a colon."""

    token: str
    origins: frozenset[str] = frozenset()

    def check(self, headers: Mapping[str, str], url: str = "") -> Granted | Refused:
        """Let a request in, or say why not. The token itself is never passed on, wherever it stands in the headers."""
        if not is_loopback(headers.get("host", "")):
            return Refused(403, "this Host is not served: the proxy answers on the loopback address only")
        origin = headers.get("origin")
        if origin is not None and origin not in self.origins:
            return Refused(403, "this Origin is not served; `lcm proxy --allow-origin` lets a page in")
        given = headers.get(TOKEN_HEADER)
        pairs = list(headers.items())
        if given is not None and not self._is_token(given):
            return Refused(401, "the proxy's token is wrong")
        if given is None and not any(self._brings_token(value) for name, value in pairs if name in _KEY_HEADERS):
            hint = f"send the proxy's token as {TOKEN_HEADER}, as the API key, or as TOKEN:KEY"
            return Refused(401, f"the proxy's token is missing or wrong: {hint}")
        if self._holds_token(url):
            return Refused(
                400, "the proxy's token stands in the address, which goes to the provider: send it in a header"
            )
        return self._granted(pairs)

    def _granted(self, pairs: list[tuple[str, str]]) -> Granted:
        """The headers without the token; of several for one key, the first that is left."""
        passed: list[tuple[str, str]] = []
        keys: dict[str, str] = {}
        for name, value in pairs:
            left = self._without_token(name, value)
            if left and name in _KEY_HEADERS:
                keys.setdefault(name, left)
            elif left is not None and name not in _KEY_HEADERS:
                passed.append((name, left))
        ordered = [(name, keys[name]) for name in _KEY_HEADERS if name in keys]
        whose = "\0".join(value for _, value in ordered) or self.token
        return Granted((*passed, *ordered), hashlib.sha256(whose.encode("utf-8", "replace")).hexdigest()[:12])

    def _without_token(self, name: str, value: str) -> str | None:
        """A header's value as a provider may see it; None for a header that would tell the token."""
        if name in _KEY_HEADERS:
            scheme, key = _split(value)
            mine, _, rest = key.partition(":")
            if self._is_token(mine):
                value = scheme + rest if rest else ""
        is_told = name == TOKEN_HEADER or self._holds_token(value) or self.token.lower() in name.lower()
        return None if is_told else value

    def _holds_token(self, value: str) -> bool:
        """Whether the token stands in a text, as it is, with escapes, or in base64 as for Basic authorization."""
        return any(self.token in text for text in (value, unquote(value), *_decoded(value)))

    def _brings_token(self, value: str) -> bool:
        return self._is_token(_split(value)[1].partition(":")[0])

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


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
        found, place = token(None, env, VARIABLE)
    else:
        found, place = token(path or token_file(env).with_name("proxy-token"), {})
    if ":" in found:
        raise BadInput(f"the token in {place} has a colon, which would end it before a key")
    return found, place


def _split(value: str) -> tuple[str, str]:
    """The scheme of a header with a space, and the key."""
    words = value.split(None, 1)
    return (f"{words[0]} ", words[1].strip()) if len(words) > 1 else ("", value.strip())


def _decoded(value: str) -> list[str]:
    """What the words of a header say when they are base64."""
    texts = []
    for word in value.replace(",", " ").split():
        padded = word.rstrip("=").translate(_URL_SAFE)
        try:
            texts.append(binascii.a2b_base64(padded + "=" * (-len(padded) % 4)).decode("latin-1"))
        except ValueError:
            continue
    return texts
