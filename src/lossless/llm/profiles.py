"""The auth profiles of an OpenClaw state directory: read, told apart by age, renewed where they may be."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from lossless.errors import ModelAuth

#: A token that has less than this left counts as expired.
_LEEWAY_MS = 60_000
_LOCK_WAIT_SECONDS = 5.0
_LOCK_STALE_SECONDS = 120.0
_TYPE_RANK = {"oauth": 0, "token": 1, "api_key": 2}


@dataclass(frozen=True, slots=True)
class Profile:
    """One stored login; its secrets never show in its text form."""

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
        """Whether we may renew it: an OAuth login with a refresh token that no other command line owns."""
        owner = self.id.partition(":")[2]
        return self.type == "oauth" and bool(self.refresh_token) and not owner.endswith("-cli")


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a refresh yields."""

    access: str = field(repr=False)
    refresh: str = field(repr=False)
    expires_ms: int = 0


class Refresh(Protocol):
    """Exchanges a profile's refresh token for fresh tokens at its provider.

    Raises `ModelAuth` when the provider refuses. None ships with this package: pass your own.
    """

    def __call__(self, profile: Profile, /) -> Tokens: ...


@dataclass(frozen=True, slots=True)
class ProfileStore:
    """The profiles in one `auth-profiles.json`; a missing or broken file has none."""

    path: Path

    def profiles(self, provider: str, now_ms: int) -> list[Profile]:
        """A provider's profiles, the preferred one first, resting ones last.

        The file's own `order` decides where there is one; otherwise logins go before keys, and the one
        that was not used for longest goes first.
        """
        document = read_json(self.path)
        if not isinstance(document, Mapping):
            return []
        stored = document.get("profiles")
        entries = stored.items() if isinstance(stored, Mapping) else ()
        found = {
            str(id): profile
            for id, raw in entries
            if isinstance(raw, Mapping) and (profile := _profile(str(id), raw)) and profile.provider == provider
        }
        order = _listed(document, provider)
        usage = document.get("usageStats")
        stats = usage if isinstance(usage, Mapping) else {}
        chosen = [found[id] for id in order if id in found] if order else list(found.values())

        def rank(profile: Profile) -> tuple[bool, int, int, int]:
            used = stats.get(profile.id)
            record = used if isinstance(used, Mapping) else {}
            resting = max(_number(record, "cooldownUntil"), _number(record, "disabledUntil"))
            if order:
                return resting > now_ms, order.index(profile.id), 0, 0
            return resting > now_ms, _TYPE_RANK.get(profile.type, 9), _number(record, "lastUsed"), 0

        return sorted(chosen, key=rank)


def refreshed(path: Path, profile: Profile, refresh: Refresh, now_ms: int) -> Profile:
    """The profile with fresh tokens, written back before it is returned.

    The file is locked meanwhile and read again under the lock: where another process was faster, its
    tokens are taken and nothing is exchanged. Every other field of the file stays as it is.
    """
    with _locked(path):
        document = read_json(path)
        stored = document.get("profiles") if isinstance(document, dict) else None
        raw = stored.get(profile.id) if isinstance(stored, dict) else None
        if not isinstance(raw, dict):
            raise ModelAuth(f"auth profile {profile.id!r} has gone")
        current = _profile(profile.id, raw)
        if current is not None and not current.is_expired(now_ms):
            return current
        tokens = refresh(current or profile)
        raw |= {"access": tokens.access, "refresh": tokens.refresh, "expires": tokens.expires_ms}
        _write_json(path, document)
    return replace(profile, secret=tokens.access, refresh_token=tokens.refresh, expires_ms=tokens.expires_ms)


def read_json(path: Path) -> object:
    """A JSON file's content, None when it is missing or is not JSON."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def _profile(id: str, raw: Mapping[str, object]) -> Profile | None:
    kind, provider = raw.get("type"), raw.get("provider")
    if not isinstance(kind, str) or not isinstance(provider, str):
        return None
    secret_key = {"api_key": "key", "token": "token", "oauth": "access"}.get(kind)
    if secret_key is None:
        return None
    expires = _number(raw, "expires")
    return Profile(
        id=id,
        provider=provider.strip().lower(),
        type=kind,
        secret=_text(raw, secret_key),
        secret_variable=_variable(raw.get(f"{secret_key}Ref")),
        refresh_token=_text(raw, "refresh"),
        expires_ms=expires or None,
    )


def _variable(reference: object) -> str:
    """The variable that a secret reference names; references to other stores are not followed."""
    if isinstance(reference, Mapping) and reference.get("source") == "env":
        return _text(reference, "id")
    return ""


def _listed(document: Mapping[str, object], provider: str) -> list[str]:
    orders = document.get("order")
    order = orders.get(provider) if isinstance(orders, Mapping) else None
    return [id for id in order if isinstance(id, str)] if isinstance(order, list) else []


def _text(raw: Mapping[str, object], key: str) -> str:
    value = raw.get(key)
    return value.strip() if isinstance(value, str) else ""


def _number(raw: Mapping[str, object], key: str) -> int:
    value = raw.get(key)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold `<path>.lock`, the name under which OpenClaw locks the file too."""
    lock = path.with_name(path.name + ".lock")
    give_up = time.monotonic() + _LOCK_WAIT_SECONDS
    while True:
        try:
            lock.mkdir()
            break
        except FileExistsError:
            if _is_left_behind(lock):
                with suppress(FileNotFoundError):
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


def _is_left_behind(lock: Path) -> bool:
    """Whether the holder of a lock has died: a living one touches it every few seconds."""
    try:
        return lock.is_dir() and time.time() - lock.stat().st_mtime > _LOCK_STALE_SECONDS
    except FileNotFoundError:
        return False


def _write_json(path: Path, document: object) -> None:
    """Replace the file as a whole, readable by its owner only."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=2, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise ModelAuth(f"{path.name} cannot be written: {error.strerror}") from error
