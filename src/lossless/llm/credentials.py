"""Finds a provider's key: settings, environment, a models file, or OpenClaw auth profiles, refreshed if allowed."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lossless.errors import ModelAuth
from lossless.model.paths import replacing

if TYPE_CHECKING:
    from pathlib import Path

#: A token with less remaining lifetime counts as expired.
_LEEWAY_MS = 60_000
_LOCK_WAIT_SECONDS = 5.0
_LOCK_STALE_SECONDS = 120.0
_TYPE_RANK = {"oauth": 0, "token": 1, "api_key": 2}


@dataclass(frozen=True, slots=True)
class AuthProfile:
    """One stored login; its repr never shows secrets."""

    id: str
    provider: str
    #: `api_key`, `token` (a fixed bearer token) or `oauth`.
    type: str
    secret: str = field(default="", repr=False)
    #: The environment variable that holds the secret, when the profile refers to one.
    secret_variable: str = ""
    refresh_token: str = field(default="", repr=False)
    expires_ms: int | None = None

    def is_expired(self, now_ms: int) -> bool:
        return self.expires_ms is not None and self.expires_ms - _LEEWAY_MS <= now_ms

    @property
    def may_refresh(self) -> bool:
        """Whether we may refresh it: an OAuth login with a refresh token that no other program owns."""
        owner = self.id.partition(":")[2]
        return self.type == "oauth" and bool(self.refresh_token) and not owner.endswith("-cli")


#: Exchanges a profile's refresh token at its provider: the profile with new tokens. Raises `ModelAuth` when the
#: provider refuses. This package has no implementation: pass your own.
RefreshTokens: TypeAlias = Callable[[AuthProfile], AuthProfile]


def read_profiles(path: Path, provider: str, now_ms: int) -> list[AuthProfile]:
    """A provider's profiles in an `auth-profiles.json`, preferred first, those in cooldown last; none in a broken file.

    The file's own `order` decides if there is one; otherwise logins come before keys, and least recently used first.
    """
    document = read_json_file(path)
    if not isinstance(document, Mapping):
        return []
    profiles = (_profile(str(id), raw) for id, raw in _inner(document, "profiles").items() if isinstance(raw, Mapping))
    found = {profile.id: profile for profile in profiles if profile is not None and profile.provider == provider}
    listed = _inner(document, "order").get(provider)
    order = [id for id in listed if isinstance(id, str)] if isinstance(listed, list) else []
    stats = _inner(document, "usageStats")

    def rank(profile: AuthProfile) -> tuple[bool, int, int]:
        record = _inner(stats, profile.id)
        resting = max(_number(record, "cooldownUntil"), _number(record, "disabledUntil")) > now_ms
        if order:
            return resting, order.index(profile.id), 0
        return resting, _TYPE_RANK.get(profile.type, 9), _number(record, "lastUsed")

    return sorted([found[id] for id in order if id in found] if order else found.values(), key=rank)


def refresh_profile(path: Path, profile: AuthProfile, refresh: RefreshTokens, now_ms: int) -> AuthProfile:
    """The profile with new tokens, written back before it is returned.

    The file is locked and read again under the lock: if another process has refreshed it, its tokens are used. Every
    other field of the file stays.
    """
    with _locked(path):
        document = read_json_file(path)
        raw = _inner(_inner(document, "profiles"), profile.id)
        if not raw:
            raise ModelAuth(f"auth profile {profile.id!r} has gone")
        current = _profile(profile.id, raw)
        if current is not None and not current.is_expired(now_ms):
            return current
        fresh = refresh(current or profile)
        raw |= {"access": fresh.secret, "refresh": fresh.refresh_token, "expires": fresh.expires_ms or 0}
        try:
            with replacing(path) as new:  # atomic, and readable by its owner only
                new.write_text(json.dumps(document, indent=2, ensure_ascii=False), encoding="utf-8")
        except OSError as error:
            raise ModelAuth(f"{path.name} cannot be written: {error.strerror}") from error
    return fresh


def read_json_file(path: Path) -> object:
    """A JSON file's content; None when it is missing or not JSON."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def _inner(raw: object, key: str) -> dict[str, Any]:
    value = raw.get(key) if isinstance(raw, dict) else None
    return value if isinstance(value, dict) else {}


def _profile(id: str, raw: Mapping[str, object]) -> AuthProfile | None:
    kind, provider = raw.get("type"), raw.get("provider")
    if not isinstance(kind, str) or not isinstance(provider, str):
        return None
    secret_key = {"api_key": "key", "token": "token", "oauth": "access"}.get(kind)
    if secret_key is None:
        return None
    reference = _inner(raw, f"{secret_key}Ref")  # references to other stores are not followed
    return AuthProfile(
        id=id,
        provider=provider.strip().lower(),
        type=kind,
        secret=_text(raw, secret_key),
        secret_variable=_text(reference, "id") if reference.get("source") == "env" else "",
        refresh_token=_text(raw, "refresh"),
        expires_ms=_number(raw, "expires") or None,
    )


def _text(raw: Mapping[str, object], key: str) -> str:
    value = raw.get(key)
    return value.strip() if isinstance(value, str) else ""


def _number(raw: Mapping[str, object], key: str) -> int:
    value = raw.get(key)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold `<path>.lock`, which OpenClaw uses for the file, too."""
    lock = path.with_name(path.name + ".lock")
    give_up = time.monotonic() + _LOCK_WAIT_SECONDS
    while True:
        try:
            lock.mkdir()
            break
        except FileExistsError:
            with suppress(FileNotFoundError):  # a holder that lives touches it every few seconds
                if lock.is_dir() and time.time() - lock.stat().st_mtime > _LOCK_STALE_SECONDS:
                    lock.rmdir()
                    continue
            if time.monotonic() > give_up:
                raise ModelAuth(f"{path.name} is locked by another process") from None
            time.sleep(0.05)
        except OSError as error:
            raise ModelAuth(f"{path.name} cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        lock.rmdir()


CredentialKind: TypeAlias = Literal["api_key", "bearer"]

_VARIABLE_NAME = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Z][A-Z0-9_]*_[A-Z0-9_]+)")


@dataclass(frozen=True, slots=True)
class Credential:
    """A secret and its source; the repr never shows the secret."""

    secret: str = field(repr=False)
    kind: CredentialKind = "api_key"
    source: str = ""

    def redact(self, text: str) -> str:
        return text.replace(self.secret, "[secret]") if len(self.secret) >= 6 else text


@dataclass(frozen=True, slots=True)
class CredentialSources:
    """Where to search for keys. `environ` defaults to the process's environment."""

    #: Explicit keys, by provider.
    explicit: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: An OpenClaw state directory (`~/.openclaw`); None disables profiles.
    state_dir: Path | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    #: None means `models.json` next to the profiles.
    models_file: Path | None = None
    #: Refreshes an expired OAuth profile; None ignores expired profiles.
    refresh: RefreshTokens | None = None


def resolve_credential(provider: str, sources: CredentialSources, now_ms: int) -> Credential | None:
    """The credential for a configured provider, None without one; `ModelAuth` when it has expired."""
    if given := sources.explicit.get(provider):
        return Credential(given, source="settings")
    problem: ModelAuth | None = None
    try:
        if found := _from_profiles(provider, sources, now_ms):
            return found
    except ModelAuth as error:
        problem = error
    names: list[tuple[str, CredentialKind]] = [(name, "api_key") for name in key_variables(provider)]
    names += [(name, "bearer") for name in known_providers().get(provider, {}).get("bearerVariables", ())]
    for name, kind in names:
        if secret := sources.environ.get(name, "").strip():
            return Credential(secret, kind, f"environment ({name})")
    found = custom_provider(provider, sources)[2]
    if found is None and problem is not None:
        raise problem
    return found


@cache
def known_providers() -> dict[str, dict[str, Any]]:
    """What is known of providers, by name: the URL, the variables that hold keys, whether it needs none."""
    return json.loads(files("lossless.llm").joinpath("providers.json").read_text("utf-8"))  # type: ignore[no-any-return]


def key_variables(provider: str) -> tuple[str, ...]:
    """The environment variables that may hold a provider's key, in order of precedence.

    >>> key_variables("openrouter"), key_variables("lm-studio")
    (('OPENROUTER_API_KEY',), ('LM_STUDIO_API_KEY',))
    """
    usual = f"{re.sub(r'[^A-Z0-9]+', '_', provider.upper())}_API_KEY"
    return tuple(known_providers().get(provider, {}).get("keyVariables", (usual,)))


def custom_provider(provider: str, sources: CredentialSources) -> tuple[str, str, Credential | None]:
    """A provider's entry in the models file: its URL, its API dialect, its key; empty when there is none."""
    path = sources.models_file or _beside_profiles(sources, "models.json")
    document = read_json_file(path) if path is not None else None
    entry = _inner(_inner(document, "providers"), provider)
    key = _text(entry, "apiKey")
    if named := _VARIABLE_NAME.fullmatch(key):  # not a literal key, but the variable that holds it
        key = sources.environ.get(named[1], "") if named[1] else sources.environ.get(key, key)
    credential = Credential(key, source=f"models file ({provider})") if key else None
    return _text(entry, "baseUrl"), _text(entry, "api"), credential


def _from_profiles(provider: str, sources: CredentialSources, now_ms: int) -> Credential | None:
    """The first usable profile in the file's order; raises when all have expired."""
    path = _beside_profiles(sources, "auth-profiles.json")
    if path is None:
        return None
    problem: ModelAuth | None = None
    for profile in read_profiles(path, provider, now_ms):
        try:
            if profile.is_expired(now_ms):
                if sources.refresh is None or not profile.may_refresh:
                    how = "log in again with the tool that made it"
                    raise ModelAuth(f"auth profile {profile.id!r} has expired; {how}")
                profile = refresh_profile(path, profile, sources.refresh, now_ms)
        except ModelAuth as error:
            problem = problem or error
            continue
        if secret := profile.secret or sources.environ.get(profile.secret_variable, ""):
            kind: CredentialKind = "api_key" if profile.type == "api_key" else "bearer"
            return Credential(secret, kind, f"auth profile {profile.id!r}")
    if problem is not None:
        raise problem
    return None


def _beside_profiles(sources: CredentialSources, name: str) -> Path | None:
    """A file of the agent, or the older one at the root of the state directory."""
    if sources.state_dir is None:
        return None
    usual = sources.state_dir / "agents" / "main" / "agent" / name
    older = sources.state_dir / "agent" / name
    return older if older.exists() and not usual.exists() else usual
