"""The cascade of keys: profiles, environment, models file; and logins that run out."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from lossless import errors
from lossless.llm.credentials import (
    AuthProfile,
    Credential,
    CredentialSources,
    custom_provider,
    read_profiles,
    refresh_profile,
    resolve_credential,
)
from lossless.llm.providers import ModelConnector
from lossless.settings.model_rules import ModelCandidate

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_750_000_000_000
HOUR = 3_600_000


@dataclass
class StateDir:
    """An OpenClaw state directory."""

    root: Path
    agent: str = "main"

    @property
    def folder(self) -> Path:
        return self.root / "agents" / self.agent / "agent"

    def profiles(self, profiles: dict[str, Any], **rest: Any) -> Path:
        return self._write("auth-profiles.json", {"version": 1, "profiles": profiles, **rest})

    def models(self, providers: dict[str, Any]) -> Path:
        return self._write("models.json", {"providers": providers})

    def _write(self, name: str, document: dict[str, Any]) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / name
        path.write_text(json.dumps(document), "utf-8")
        return path


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path)


def key(secret: str, provider: str = "openai") -> dict[str, Any]:
    return {"type": "api_key", "provider": provider, "key": secret}


def login(access: str, expires: int, provider: str = "openai") -> dict[str, Any]:
    return {
        "type": "oauth",
        "provider": provider,
        "access": access,
        "refresh": f"r-{access}",
        "expires": expires,
    }


def secret(provider: str, sources: CredentialSources) -> str | None:
    found = resolve_credential(provider, sources, NOW)
    return found.secret if found else None


def test_profiles_then_environment_then_models_file(state: StateDir) -> None:
    environ = {"OPENAI_API_KEY": "from-environment"}
    state.models({"openai": {"apiKey": "from-models-file"}})
    assert secret("openai", CredentialSources(state_dir=state.root, environ={})) == "from-models-file"
    assert secret("openai", CredentialSources(state_dir=state.root, environ=environ)) == "from-environment"
    state.profiles({"openai:default": key("from-profile")})
    assert secret("openai", CredentialSources(state_dir=state.root, environ=environ)) == "from-profile"
    given = CredentialSources({"openai": "given"}, state_dir=state.root, environ=environ)
    assert secret("openai", given) == "given"


def test_a_key_of_one_provider_is_never_another_s(state: StateDir) -> None:
    state.profiles({"openai:default": key("a")})
    state.models({"openai": {"apiKey": "b"}})
    environ = {"OPENAI_API_KEY": "c"}
    assert secret("local", CredentialSources({"openai": "d"}, state_dir=state.root, environ=environ)) is None


@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("openai-responses", "OPENAI_API_KEY"),
        ("google", "GEMINI_API_KEY"),
        ("my-local.server", "MY_LOCAL_SERVER_API_KEY"),
    ],
)
def test_names_of_variables(provider: str, variable: str) -> None:
    assert secret(provider, CredentialSources(environ={variable: " key "})) == "key"


def test_a_token_variable_is_a_bearer(state: StateDir) -> None:
    found = resolve_credential("anthropic", CredentialSources(environ={"ANTHROPIC_OAUTH_TOKEN": "t"}), NOW)
    assert found is not None
    assert found.kind == "bearer"


def test_the_file_s_order_decides(state: StateDir) -> None:
    profiles = {"openai:a": key("a"), "openai:b": key("b")}
    state.profiles(profiles, order={"openai": ["openai:b", "openai:a"]})
    assert secret("openai", CredentialSources(state_dir=state.root, environ={})) == "b"


def test_without_an_order_logins_go_first_then_the_least_used(state: StateDir) -> None:
    used = {"openai:a": {"lastUsed": 9}, "openai:b": {"lastUsed": 3}}
    profiles = {"openai:a": key("a"), "openai:b": key("b"), "openai:c": login("c", NOW + HOUR)}
    path = state.profiles(profiles, usageStats=used)
    found = read_profiles(path, "openai", NOW)
    assert [profile.id for profile in found] == ["openai:c", "openai:b", "openai:a"]


def test_a_profile_in_cooldown_goes_last(state: StateDir) -> None:
    resting = {"openai:a": {"cooldownUntil": NOW + HOUR}}
    path = state.profiles(
        {"openai:a": key("a"), "openai:b": key("b")},
        order={"openai": ["openai:a", "openai:b"]},
        usageStats=resting,
    )
    assert [profile.id for profile in read_profiles(path, "openai", NOW)] == ["openai:b", "openai:a"]


def test_a_reference_to_the_environment_is_followed(state: StateDir) -> None:
    reference = {"type": "api_key", "provider": "openai", "keyRef": {"source": "env", "id": "MY_KEY"}}
    state.profiles({"openai:default": reference})
    assert secret("openai", CredentialSources(state_dir=state.root, environ={"MY_KEY": "k"})) == "k"
    assert secret("openai", CredentialSources(state_dir=state.root, environ={})) is None


def test_an_older_state_directory_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    folder.mkdir()
    (folder / "auth-profiles.json").write_text(json.dumps({"profiles": {"openai:x": key("old")}}))
    assert secret("openai", CredentialSources(state_dir=tmp_path, environ={})) == "old"


@pytest.mark.parametrize("content", ["", "[]", "{", '{"profiles": 3}', '{"profiles": {"a": 1, "b": {"type": 2}}}'])
def test_a_broken_file_has_no_profiles(state: StateDir, content: str) -> None:
    state.profiles({}).write_text(content)
    assert secret("openai", CredentialSources(state_dir=state.root, environ={})) is None


@dataclass
class Exchange:
    """Stands for a provider's token endpoint; none ships with the package."""

    seen: list[AuthProfile] = field(default_factory=list)

    def __call__(self, profile: AuthProfile, /) -> AuthProfile:
        self.seen.append(profile)
        return replace(profile, secret="fresh", refresh_token="next-refresh", expires_ms=NOW + HOUR)


def test_an_expired_login_without_a_hook_is_an_auth_failure(state: StateDir) -> None:
    state.profiles({"openai:me": login("old", NOW - 1)})
    with pytest.raises(errors.ModelAuth, match="'openai:me' has expired"):
        resolve_credential("openai", CredentialSources(state_dir=state.root, environ={}), NOW)
    environ = {"OPENAI_API_KEY": "still-there"}
    assert secret("openai", CredentialSources(state_dir=state.root, environ=environ)) == "still-there"


def test_an_expired_login_is_renewed_and_written_back(state: StateDir) -> None:
    path = state.profiles({"openai:me": login("old", NOW - 1) | {"email": "a@b"}}, lastGood={"openai": "openai:me"})
    exchange = Exchange()
    sources = CredentialSources(state_dir=state.root, environ={}, refresh=exchange)
    assert secret("openai", sources) == "fresh"
    assert secret("openai", sources) == "fresh"
    assert [profile.refresh_token for profile in exchange.seen] == ["r-old"]
    document = json.loads(path.read_text())
    assert document["profiles"]["openai:me"] == {
        "type": "oauth",
        "provider": "openai",
        "access": "fresh",
        "refresh": "next-refresh",
        "expires": NOW + HOUR,
        "email": "a@b",
    }
    assert document["lastGood"] == {"openai": "openai:me"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(item.name for item in path.parent.iterdir()) == ["auth-profiles.json"]


@pytest.mark.parametrize(
    ("id", "profile"),
    [
        pytest.param("openai:codex-cli", login("old", NOW - 1), id="another command line owns it"),
        pytest.param("openai:t", {"type": "token", "provider": "openai", "token": "t", "expires": NOW - 1}, id="fixed"),
        pytest.param("openai:r", login("old", NOW - 1) | {"refresh": ""}, id="no refresh token"),
    ],
)
def test_logins_that_are_not_ours_to_renew(state: StateDir, id: str, profile: dict[str, Any]) -> None:
    path = state.profiles({id: profile})
    before, exchange = path.read_bytes(), Exchange()
    with pytest.raises(errors.ModelAuth):
        resolve_credential("openai", CredentialSources(state_dir=state.root, environ={}, refresh=exchange), NOW)
    assert exchange.seen == []
    assert path.read_bytes() == before


def test_a_login_that_has_run_out_gives_way_to_the_next_profile(state: StateDir) -> None:
    state.profiles({"openai:me": login("old", NOW - 1), "openai:key": key("k")})
    assert secret("openai", CredentialSources(state_dir=state.root, environ={})) == "k"


def test_a_refused_refresh_writes_nothing(state: StateDir) -> None:
    def refuse(profile: AuthProfile, /) -> AuthProfile:
        raise errors.ModelAuth("revoked")

    path = state.profiles({"openai:me": login("old", NOW - 1)})
    before = path.read_bytes()
    with pytest.raises(errors.ModelAuth):
        resolve_credential("openai", CredentialSources(state_dir=state.root, environ={}, refresh=refuse), NOW)
    assert path.read_bytes() == before
    assert not (path.parent / "auth-profiles.json.lock").exists()


def test_a_lock_that_was_left_behind_is_taken_over(state: StateDir) -> None:
    path = state.profiles({"openai:me": login("old", NOW - 1)})
    lock = path.parent / "auth-profiles.json.lock"
    lock.mkdir()
    os.utime(lock, (1, 1))
    assert secret("openai", CredentialSources(state_dir=state.root, environ={}, refresh=Exchange())) == "fresh"
    assert not lock.exists()


def test_where_another_process_was_faster_its_tokens_are_taken(state: StateDir) -> None:
    path = state.profiles({"openai:me": login("old", NOW - 1)})
    (mine,) = read_profiles(path, "openai", NOW)
    state.profiles({"openai:me": login("theirs", NOW + HOUR)})
    exchange = Exchange()
    assert refresh_profile(path, mine, exchange, NOW).secret == "theirs"
    assert exchange.seen == []


def test_a_custom_provider_brings_address_dialect_and_key(state: StateDir) -> None:
    state.models({"mine": {"baseUrl": "http://h/v1", "api": "openai-responses", "apiKey": "${MINE}"}})
    sources = CredentialSources(state_dir=state.root, environ={"MINE": "k"})
    assert custom_provider("mine", sources)[:2] == ("http://h/v1", "openai-responses")
    endpoint = ModelConnector(sources, clock=lambda: NOW / 1000).endpoint(ModelCandidate("mine", "m"))
    assert (endpoint.address, endpoint.dialect, endpoint.secret) == ("http://h/v1", "openai-responses", "k")


@pytest.mark.parametrize(
    ("written", "expected"),
    [("MINE_KEY", "k"), ("${MINE_KEY}", "k"), ("sk-1", "sk-1"), ("NOT_SET", "NOT_SET"), ("${NO}", None)],
)
def test_a_models_file_may_name_a_variable(tmp_path: Path, written: str, expected: str | None) -> None:
    path = tmp_path / "models.json"
    path.write_text(json.dumps({"providers": {"mine": {"apiKey": written}}}))
    assert secret("mine", CredentialSources(environ={"MINE_KEY": "k"}, models_file=path)) == expected


def test_an_unknown_dialect_is_refused(state: StateDir) -> None:
    state.models({"mine": {"baseUrl": "http://h/v1", "api": "telepathy"}})
    with pytest.raises(errors.BadSetting, match="anthropic-messages"):
        ModelConnector(CredentialSources(state_dir=state.root, environ={}))(ModelCandidate("mine", "m"))


def test_a_base_url_belongs_to_its_provider_alone(state: StateDir) -> None:
    connector = ModelConnector(CredentialSources(environ={}), {"openai": "http://proxy/v1"})
    assert connector.endpoint(ModelCandidate("openai", "m")).address == "http://proxy/v1"
    assert connector.endpoint(ModelCandidate("anthropic", "m")).address == "https://api.anthropic.com"


def test_secrets_show_nowhere() -> None:
    sources = CredentialSources({"openai": "s3cr3t-given"}, environ={"X_API_KEY": "s3cr3t-env"})
    profile = AuthProfile("openai:me", "openai", "oauth", secret="s3cr3t")
    assert "s3cr3t" not in f"{Credential('s3cr3t')!r} {sources!r} {profile!r} {ModelConnector(sources)!r}"
    assert Credential("s3cr3t").redact("key s3cr3t!") == "key [secret]!"
