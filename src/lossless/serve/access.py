"""Tokens of the local servers, and access to the proxy: the token, the loopback check, and the API key to forward."""

from __future__ import annotations

import binascii
import hashlib
import hmac
import os
import secrets
import socket
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lossless.errors import BadInput
from lossless.model.paths import create_private_file, make_private_folder

MCP_TOKEN_VARIABLE = "LCM_MCP_TOKEN"
_LEAST_CHARS = 16


def token_file(env: Mapping[str, str] = os.environ) -> Path:
    state = env.get("XDG_STATE_HOME") or str(Path(env.get("HOME") or Path.home()) / ".local" / "state")
    return Path(state) / "lossless" / "mcp-token"


def load_token(
    file: Path | None = None,
    env: Mapping[str, str] = os.environ,
    variable: str = MCP_TOKEN_VARIABLE,
    name: str = "mcp-token",
) -> tuple[str, str]:
    """The token, and its source; a missing file is created.

    Raises BadInput for a token that is too short, and for a file that others can read.
    """
    given = env.get(variable, "").strip()
    if given and file is None:
        return _long_enough(given, f"${variable}"), f"${variable}"
    place = file or token_file(env).with_name(name)
    try:
        make_private_folder(place.parent)
        with suppress(FileExistsError):
            create_private_file(place)
            place.write_text(secrets.token_urlsafe(32) + "\n", encoding="utf-8")
        if os.name == "posix" and stat.S_IMODE(place.stat().st_mode) & 0o077:
            raise BadInput(f"others can read the token in {str(place)!r}: chmod 600 it, or delete it to get a new one")
        return _long_enough(place.read_text(encoding="utf-8").strip(), str(place)), str(place)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"the token file {str(place)!r} cannot be used: {error}") from error


def _long_enough(text: str, source: str) -> str:
    if len(text) < _LEAST_CHARS or not text.isascii() or not text.isprintable() or " " in text:
        raise BadInput(f"the token in {source} must have {_LEAST_CHARS} printable characters or more, without blanks")
    return text


OPENAI_URL, ANTHROPIC_URL = "https://api.openai.com/v1", "https://api.anthropic.com"
PROXY_TOKEN_VARIABLE = "LCM_PROXY_TOKEN"
TOKEN_HEADER, SESSION_HEADER = "x-lossless-token", "x-lossless-session"
HISTORY_HEADER = "x-lossless-history"
#: Headers in which clients send a session id, and the clients' names.
CLIENT_HEADERS = {"x-claude-code-session-id": "claude-code", "session-id": "codex", "session_id": "codex"}
#: Where clients put a provider's key.
_KEY_HEADERS = ("authorization", "x-api-key", "api-key")
_URL_SAFE = str.maketrans("-_", "+/")
_LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))


@dataclass(frozen=True, slots=True)
class AccessGranted:
    """An accepted request: its headers without the token, those with the client's own key, and that key's name."""

    headers: tuple[tuple[str, str], ...]
    key_name: str

    @property
    def key_headers(self) -> dict[str, str]:
        return {name: value for name, value in self.headers if name in _KEY_HEADERS}


@dataclass(frozen=True, slots=True)
class Access:
    """Access control: a token in its own header, as the API key, or before the API key with a colon."""

    token: str
    origins: frozenset[str] = frozenset()

    def check(self, headers: Mapping[str, str], url: str = "") -> AccessGranted | tuple[int, str]:
        """Accept a request, or say with which status it is refused, and why.

        The token is never forwarded, whichever header it is in.
        """
        if not is_loopback(headers.get("host", "")):
            return 403, "this Host is not served: the proxy answers on the loopback address only"
        origin = headers.get("origin")
        if origin is not None and origin not in self.origins:
            return 403, "this Origin is not served; `lcm proxy --allow-origin` lets a page in"
        given = headers.get(TOKEN_HEADER)
        pairs = list(headers.items())
        if given is not None and not self._is_token(given):
            return 401, "the proxy's token is wrong"
        keys = [_split(value)[1].partition(":")[0] for name, value in pairs if name in _KEY_HEADERS]
        if given is None and not any(map(self._is_token, keys)):
            hint = f"send the proxy's token as {TOKEN_HEADER}, as the API key, or as TOKEN:KEY"
            return 401, f"the proxy's token is missing or wrong: {hint}"
        if self._holds_token(url):
            return 400, "the proxy's token is in the URL, which is sent to the provider: send it in a header"
        return self._granted(pairs)

    def _granted(self, pairs: list[tuple[str, str]]) -> AccessGranted:
        """The headers without the token; of several for one key, the first that remains."""
        passed: list[tuple[str, str]] = []
        keys: dict[str, str] = {}
        for name, value in pairs:
            remaining = self._without_token(name, value)
            if remaining and name in _KEY_HEADERS:
                keys.setdefault(name, remaining)
            elif remaining is not None and name not in _KEY_HEADERS:
                passed.append((name, remaining))
        ordered = [(name, keys[name]) for name in _KEY_HEADERS if name in keys]
        key_text = "\0".join(value for _, value in ordered) or self.token
        return AccessGranted((*passed, *ordered), hashlib.sha256(key_text.encode("utf-8", "replace")).hexdigest()[:12])

    def _without_token(self, name: str, value: str) -> str | None:
        """A header's value for the provider; None for a header that would reveal the token."""
        if name in _KEY_HEADERS:
            scheme, key = _split(value)
            mine, _, rest = key.partition(":")
            if self._is_token(mine):
                value = scheme + rest if rest else ""
        is_told = name == TOKEN_HEADER or self._holds_token(value) or self.token.lower() in name.lower()
        return None if is_told else value

    def _holds_token(self, value: str) -> bool:
        """Whether a text contains the token: verbatim, percent-encoded, or in base64 as for Basic authorization."""
        return any(self.token in text for text in (value, unquote(value), *_decoded(value)))

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


def listen(port: int) -> socket.socket:
    """A socket that listens on 127.0.0.1, so that a client can connect as soon as it has the address."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(64)
    except OSError as error:
        listening.close()
        hint = "if the same server runs there already, use that one; else choose another port with --port"
        raise BadInput(f"port {port} cannot be used: {error.strerror}; {hint}") from error
    return listening


def load_proxy_token(path: Path | None = None, env: Mapping[str, str] = os.environ) -> tuple[str, str]:
    """The token and its source: LCM_PROXY_TOKEN, or a private file, created when missing.

    Raises BadInput for a token that is too short or has a colon, and for a file that others can read.
    """
    found, place = load_token(path, env, PROXY_TOKEN_VARIABLE, "proxy-token")
    if ":" in found:
        raise BadInput(f"the token in {place} has a colon, which would end it before a key")
    return found, place


def _split(value: str) -> tuple[str, str]:
    """A header's scheme with a space, and the key."""
    words = value.split(None, 1)
    return (f"{words[0]} ", words[1].strip()) if len(words) > 1 else ("", value.strip())


def _decoded(value: str) -> list[str]:
    texts = []
    for word in value.replace(",", " ").split():
        padded = word.rstrip("=").translate(_URL_SAFE)
        try:
            texts.append(binascii.a2b_base64(padded + "=" * (-len(padded) % 4)).decode("latin-1"))
        except ValueError:
            continue
    return texts
