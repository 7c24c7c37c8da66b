"""Where the key for a configured provider comes from.

In this order: a key given by name, an auth profile of an OpenClaw state directory, the environment, the
provider's entry in a models file. Only asked for a provider that the user configured: finding a key is not
consent to use it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.errors import ModelAuth
from lossless.llm.profiles import Profile, ProfileStore, Refresh, read_json, refreshed

if TYPE_CHECKING:
    from pathlib import Path

CredentialKind: TypeAlias = Literal["api_key", "bearer"]

#: Variables that hold a provider's key where `<PROVIDER>_API_KEY` is not the usual name.
_VARIABLES: dict[str, tuple[str, ...]] = {
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "openai-responses": ("OPENAI_API_KEY",),
}
_BEARER_VARIABLES: dict[str, tuple[str, ...]] = {"anthropic": ("ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN")}
_VARIABLE_NAME = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Z][A-Z0-9_]*_[A-Z0-9_]+)")


@dataclass(frozen=True, slots=True)
class Credential:
    """A secret and where it was found; the secret never shows in its text form."""

    secret: str = field(repr=False)
    kind: CredentialKind = "api_key"
    source: str = ""

    def redact(self, text: str) -> str:
        """`text` with the secret blanked out."""
        return text.replace(self.secret, "[secret]") if len(self.secret) >= 6 else text


@dataclass(frozen=True, slots=True)
class CustomProvider:
    """A provider's entry in a models file: its address, its dialect, its key."""

    base_url: str | None = None
    #: `openai-completions`, `openai-responses` or `anthropic-messages`.
    api: str | None = None
    credential: Credential | None = None


@dataclass(frozen=True, slots=True)
class Sources:
    """Where to look for keys. `environ` is the process's environment unless another is given."""

    #: Keys given outright, by provider.
    explicit: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: An OpenClaw state directory (`~/.openclaw`); None looks at no profiles.
    state_dir: Path | None = None
    agent: str = "main"
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    #: None means `models.json` beside the profiles.
    models_file: Path | None = None
    #: Exchanges an expired OAuth profile for a fresh one; None leaves expired profiles alone.
    refresh: Refresh | None = None


def resolve(provider: str, sources: Sources, now_ms: int) -> Credential | None:
    """The credential for a configured provider, None when no source has one.

    Raises `ModelAuth` when the only thing found is a profile that has run out and cannot be renewed.
    """
    if given := sources.explicit.get(provider):
        return Credential(given, source="settings")
    problem: ModelAuth | None = None
    try:
        if found := _from_profiles(provider, sources, now_ms):
            return found
    except ModelAuth as error:
        problem = error
    found = _from_environment(provider, sources.environ) or custom_provider(provider, sources).credential
    if found is None and problem is not None:
        raise problem
    return found


def variables(provider: str) -> tuple[str, ...]:
    """The environment variables that may hold a provider's key, in the order they are looked at.

    >>> variables("openrouter"), variables("lm-studio")
    (('OPENROUTER_API_KEY',), ('LM_STUDIO_API_KEY',))
    """
    usual = f"{re.sub(r'[^A-Z0-9]+', '_', provider.upper())}_API_KEY"
    return _VARIABLES.get(provider, (usual,))


def custom_provider(provider: str, sources: Sources) -> CustomProvider:
    """What the models file says about a provider; empty when it says nothing."""
    path = sources.models_file or _beside_profiles(sources, "models.json")
    document = read_json(path) if path is not None else None
    providers = document.get("providers") if isinstance(document, Mapping) else None
    entry = providers.get(provider) if isinstance(providers, Mapping) else None
    if not isinstance(entry, Mapping):
        return CustomProvider()
    key = _expand(_text(entry, "apiKey"), sources.environ)
    credential = Credential(key, source=f"models file ({provider})") if key else None
    return CustomProvider(_text(entry, "baseUrl") or None, _text(entry, "api") or None, credential)


def _from_environment(provider: str, environ: Mapping[str, str]) -> Credential | None:
    for name in variables(provider):
        if secret := environ.get(name, "").strip():
            return Credential(secret, source=f"environment ({name})")
    for name in _BEARER_VARIABLES.get(provider, ()):
        if secret := environ.get(name, "").strip():
            return Credential(secret, "bearer", f"environment ({name})")
    return None


def _from_profiles(provider: str, sources: Sources, now_ms: int) -> Credential | None:
    """The first profile in the file's order that can be used now; raises when all have run out."""
    path = _beside_profiles(sources, "auth-profiles.json")
    if path is None:
        return None
    problem: ModelAuth | None = None
    for profile in ProfileStore(path).profiles(provider, now_ms):
        try:
            usable = _renewed(path, profile, sources.refresh, now_ms)
        except ModelAuth as error:
            problem = problem or error
            continue
        if credential := _credential(usable, sources.environ):
            return credential
    if problem is not None:
        raise problem
    return None


def _renewed(path: Path, profile: Profile, refresh: Refresh | None, now_ms: int) -> Profile:
    if not profile.is_expired(now_ms):
        return profile
    if refresh is None or not profile.may_refresh:
        raise ModelAuth(f"auth profile {profile.id!r} has expired; log in again with the tool that made it")
    return refreshed(path, profile, refresh, now_ms)


def _credential(profile: Profile, environ: Mapping[str, str]) -> Credential | None:
    secret = profile.secret or environ.get(profile.secret_variable, "")
    kind: CredentialKind = "api_key" if profile.type == "api_key" else "bearer"
    return Credential(secret, kind, f"auth profile {profile.id!r}") if secret else None


def _beside_profiles(sources: Sources, name: str) -> Path | None:
    """A file of the agent, or the older one at the root of the state directory."""
    if sources.state_dir is None:
        return None
    usual = sources.state_dir / "agents" / sources.agent / "agent" / name
    older = sources.state_dir / "agent" / name
    return older if older.exists() and not usual.exists() else usual


def _expand(value: str, environ: Mapping[str, str]) -> str:
    """A key as written, or the value of the variable that stands in its place."""
    match = _VARIABLE_NAME.fullmatch(value)
    if match is None:
        return value
    name = match[1] or match[2]
    return environ.get(name, "") if match[1] else environ.get(name, value)


def _text(entry: Mapping[str, object], key: str) -> str:
    value = entry.get(key)
    return value.strip() if isinstance(value, str) else ""
