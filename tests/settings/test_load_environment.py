"""How environment variables are read: the reference's rules, with a person told about odd values."""

from __future__ import annotations

from pathlib import Path

import pytest

from lossless.errors import BadSetting
from lossless.settings import LoadedSettings, Route, load


def from_env(**env: str) -> LoadedSettings:
    """What the environment alone says; the config file says something else about all that is tested."""
    config = {
        "enabled": False,
        "pruneHeartbeatOk": True,
        "freshTailCount": 5,
        "contextThreshold": 0.5,
        "fallbackMaxTokens": 100,
        "hostFallbackMode": "capture-only",
        "summaryModel": "from-config",
        "customInstructions": "from-config",
        "largeFilesDir": "/from-config",
        "databasePath": "/from-config",
        "independentLogFile": {"file": "/from-config"},
        "timezone": "Asia/Tokyo",
        "ignoreSessionPatterns": ["from-config"],
        "stripInjectedContextTags": ["from-config"],
        "fallbackProviders": [{"provider": "p", "model": "from-config"}],
    }
    return load(config, env=env, cwd=Path("/nowhere"), home=Path("/home/me"))


@pytest.mark.parametrize(
    ("variable", "text", "attribute", "value", "told"),
    [
        # Booleans: only the literal word against the default changes it.
        ("LCM_ENABLED", "false", "enabled", False, False),
        ("LCM_ENABLED", "true", "enabled", True, False),
        ("LCM_ENABLED", "False", "enabled", True, True),
        ("LCM_ENABLED", "0", "enabled", True, True),
        ("LCM_ENABLED", "", "enabled", True, True),
        ("LCM_PRUNE_HEARTBEAT_OK", "true", "prune_heartbeat_ok", True, False),
        ("LCM_PRUNE_HEARTBEAT_OK", "false", "prune_heartbeat_ok", False, False),
        ("LCM_PRUNE_HEARTBEAT_OK", "1", "prune_heartbeat_ok", False, True),
        ("LCM_PRUNE_HEARTBEAT_OK", " true", "prune_heartbeat_ok", False, True),
        # Whole numbers: the beginning counts; blank and NaN fall through to the config file.
        ("LCM_FRESH_TAIL_COUNT", "12", "fresh_tail_count", 12, False),
        ("LCM_FRESH_TAIL_COUNT", " +12 ", "fresh_tail_count", 12, False),
        ("LCM_FRESH_TAIL_COUNT", "12.9", "fresh_tail_count", 12, True),
        ("LCM_FRESH_TAIL_COUNT", "12abc", "fresh_tail_count", 12, True),
        ("LCM_FRESH_TAIL_COUNT", "1e3", "fresh_tail_count", 1, True),
        ("LCM_FRESH_TAIL_COUNT", "", "fresh_tail_count", 5, False),
        ("LCM_FRESH_TAIL_COUNT", "  ", "fresh_tail_count", 5, False),
        ("LCM_FRESH_TAIL_COUNT", "NaN", "fresh_tail_count", 5, False),
        ("LCM_FALLBACK_MAX_TOKENS", "63", "fallback_max_tokens", 100, True),
        ("LCM_FALLBACK_MAX_TOKENS", "64", "fallback_max_tokens", 64, False),
        ("LCM_TUI_CONVERSATION_WINDOW_SIZE", "0", "tui_conversation_window_size", 1, True),
        ("LCM_TUI_CONVERSATION_WINDOW_SIZE", "99999", "tui_conversation_window_size", 10_000, True),
        # Numbers.
        ("LCM_CONTEXT_THRESHOLD", "0.6", "context_threshold", 0.6, False),
        ("LCM_CONTEXT_THRESHOLD", ".6", "context_threshold", 0.6, False),
        ("LCM_CONTEXT_THRESHOLD", "6e-1x", "context_threshold", 0.6, True),
        ("LCM_CONTEXT_THRESHOLD", "0.6.1", "context_threshold", 0.6, True),
        ("LCM_CONTEXT_THRESHOLD", "", "context_threshold", 0.5, False),
        # Texts: for these a blank hides the config file, for the others it does not.
        ("LCM_SUMMARY_MODEL", " gpt ", "summary_model", "gpt", False),
        ("LCM_SUMMARY_MODEL", "  ", "summary_model", "", False),
        ("LCM_CUSTOM_INSTRUCTIONS", "", "custom_instructions", "", False),
        ("LCM_LARGE_FILES_DIR", "", "large_files_dir", "/from-config-files", False),
        ("LCM_LARGE_FILES_DIR", "~/files", "large_files_dir", "/home/me/files", False),
        ("LCM_DATABASE_PATH", " ", "database_path", "/from-config", False),
        ("LCM_LOG_FILE", "", "independent_log_file_file", "/from-config", False),
        # Choices.
        ("LCM_HOST_FALLBACK_MODE", "error", "host_fallback_mode", "error", False),
        ("LCM_HOST_FALLBACK_MODE", " Error ", "host_fallback_mode", "error", False),
        ("LCM_HOST_FALLBACK_MODE", "", "host_fallback_mode", "capture-only", False),
        # Lists.
        ("LCM_IGNORE_SESSION_PATTERNS", "a:*, b:**,,", "ignore_session_patterns", ("a:*", "b:**"), False),
        ("LCM_IGNORE_SESSION_PATTERNS", "", "ignore_session_patterns", (), False),
        ("LCM_STRIP_INJECTED_CONTEXT_TAGS", "", "strip_injected_context_tags", (), False),
        (
            "LCM_FALLBACK_PROVIDERS",
            "a/b, c/d/e",
            "fallback_providers",
            (Route("a", "b"), Route("c", "d/e")),
            False,
        ),
        ("LCM_FALLBACK_PROVIDERS", " ", "fallback_providers", (Route("p", "from-config"),), False),
        # The system's own variable is passed over when it is no zone.
        ("TZ", "Europe/Berlin", "timezone", "Europe/Berlin", False),
        ("TZ", "", "timezone", "Asia/Tokyo", False),
        ("TZ", ":/etc/localtime", "timezone", "Asia/Tokyo", True),
        ("TZ", "CET-1CEST,M3", "timezone", "Asia/Tokyo", True),
    ],
)
def test_reading_a_variable(variable: str, text: str, attribute: str, value: object, told: bool) -> None:
    loaded = from_env(**{variable: text})
    assert getattr(loaded.settings, attribute) == value
    odd = [notice for notice in loaded.warnings if notice.kind == "odd"]
    assert bool(odd) == told
    assert all(variable in str(notice) for notice in odd)


@pytest.mark.parametrize(
    ("variable", "text", "key", "allowed"),
    [
        ("LCM_FRESH_TAIL_COUNT", "many", "freshTailCount", "a whole number of at least 1"),
        ("LCM_FRESH_TAIL_COUNT", "0", "freshTailCount", "a whole number of at least 1"),
        ("LCM_FRESH_TAIL_COUNT", "9" * 5000, "freshTailCount", "a whole number of at least 1"),
        ("LCM_NEW_SESSION_RETAIN_DEPTH", "-2", "newSessionRetainDepth", "a whole number of at least -1"),
        ("LCM_CONTEXT_THRESHOLD", "75%", "contextThreshold", "a number from 0 to 1"),
        ("LCM_CONTEXT_THRESHOLD", "Infinity", "contextThreshold", "a number from 0 to 1"),
        ("LCM_CONTEXT_THRESHOLD", "9" * 400, "contextThreshold", "a number from 0 to 1"),
        ("LCM_HOST_FALLBACK_MODE", "quiet", "hostFallbackMode", "one of error, capture-only"),
        ("LCM_FALLBACK_PROVIDERS", "a/b,gpt", "fallbackProviders[1].model", "a text that is not blank"),
        ("LCM_CUSTOM_INSTRUCTIONS", "\udcff", "customInstructions", "UTF-8"),
        ("LCM_REGEX_ENGINE", "pcre", "regexEngine", "one of regex, re2"),
    ],
)
def test_a_value_that_cannot_be_used_is_an_error(variable: str, text: str, key: str, allowed: str) -> None:
    with pytest.raises(BadSetting) as caught:
        from_env(**{variable: text})
    assert caught.value.key == key
    assert caught.value.source == f"environment variable {variable}"
    assert allowed in caught.value.allowed
    assert len(str(caught.value)) < 400


def test_both_variables_of_an_alias_go_before_the_config_file() -> None:
    config = {"sweepMaxDepth": 2, "incrementalMaxDepth": 3}
    both = {"LCM_SWEEP_MAX_DEPTH": "4", "LCM_INCREMENTAL_MAX_DEPTH": "5"}
    old = {"LCM_SWEEP_MAX_DEPTH": "", "LCM_INCREMENTAL_MAX_DEPTH": "5"}
    assert load(config, env=both).settings.sweep_max_depth == 4
    loaded = load(config, env=old)
    assert loaded.settings.sweep_max_depth == 5
    assert str(loaded.sources["sweepMaxDepth"]) == "environment variable LCM_INCREMENTAL_MAX_DEPTH"
    assert [notice.text for notice in loaded.warnings if notice.kind == "deprecated"] == [
        "is an old name; write LCM_SWEEP_MAX_DEPTH"
    ]
    assert load(config, env={}).settings.sweep_max_depth == 2
    assert load({"incrementalMaxDepth": 3}, env={}).settings.sweep_max_depth == 3


def test_variables_without_effect_and_misspelt_ones_are_reported() -> None:
    env = {
        "LCM_CACHE_TTL_SECONDS": "x",
        "LCM_FRESH_TAIL_CUONT": "3",
        "LCM_TEST_POSTGRES": "1",
        "PATH": "/bin",
    }
    notices = {notice.name: (notice.kind, notice.text) for notice in load({}, env=env).warnings}
    assert notices == {
        "LCM_CACHE_TTL_SECONDS": ("retired", "has no effect any more"),
        "LCM_FRESH_TAIL_CUONT": ("unknown", "is not a setting; did you mean LCM_FRESH_TAIL_COUNT?"),
    }
