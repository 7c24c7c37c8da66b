"""The declarations: complete, in step with each other, and checked on construction."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from dataclasses import fields, replace

import pytest

from lossless.errors import BadInput, BadSetting
from lossless.settings import SETTINGS, ContextThresholdOverride, ModelPrice, Route, Settings
from lossless.settings.load import RETIRED_KEYS, key_spellings, settings_by_key
from lossless.settings.page import setting_texts
from lossless.settings.setting import Flag, Setting, camel_case, mask_passwords, snake_case
from scripts.settings_page import PATH_VARIABLES

#: Every active key that lossless-claw has: default, variable.
REFERENCE: dict[str, tuple[object, str | None]] = {
    "enabled": (True, "LCM_ENABLED"),
    "databasePath": (None, "LCM_DATABASE_PATH"),
    "largeFilesDir": (None, "LCM_LARGE_FILES_DIR"),
    "ignoreSessionPatterns": ((), "LCM_IGNORE_SESSION_PATTERNS"),
    "statelessSessionPatterns": ((), "LCM_STATELESS_SESSION_PATTERNS"),
    "skipStatelessSessions": (True, "LCM_SKIP_STATELESS_SESSIONS"),
    "hostFallbackMode": ("error", "LCM_HOST_FALLBACK_MODE"),
    "newSessionRetainDepth": (2, "LCM_NEW_SESSION_RETAIN_DEPTH"),
    "timezone": (None, "TZ"),
    "pruneHeartbeatOk": (False, "LCM_PRUNE_HEARTBEAT_OK"),
    "transcriptGcEnabled": (False, "LCM_TRANSCRIPT_GC_ENABLED"),
    "enableSummaryThinking": (True, "LCM_ENABLE_SUMMARY_THINKING"),
    "proactiveThresholdCompactionMode": ("deferred", "LCM_PROACTIVE_THRESHOLD_COMPACTION_MODE"),
    "autoRotateSessionFiles.enabled": (True, "LCM_AUTO_ROTATE_SESSION_FILES_ENABLED"),
    "autoRotateSessionFiles.createBackups": (False, "LCM_AUTO_ROTATE_SESSION_FILES_CREATE_BACKUPS"),
    "autoRotateSessionFiles.sizeBytes": (2097152, "LCM_AUTO_ROTATE_SESSION_FILES_SIZE_BYTES"),
    "autoRotateSessionFiles.startup": ("rotate", "LCM_AUTO_ROTATE_SESSION_FILES_STARTUP"),
    "autoRotateSessionFiles.runtime": ("rotate", "LCM_AUTO_ROTATE_SESSION_FILES_RUNTIME"),
    "independentLogFile.enabled": (True, "LCM_LOG_FILE_ENABLED"),
    "independentLogFile.file": (None, "LCM_LOG_FILE"),
    "independentLogFile.maxFileBytes": (104857600, "LCM_LOG_MAX_FILE_BYTES"),
    "contextThreshold": (0.75, "LCM_CONTEXT_THRESHOLD"),
    "contextThresholdOverrides": ((), None),
    "freshTailCount": (64, "LCM_FRESH_TAIL_COUNT"),
    "freshTailMaxTokens": (None, "LCM_FRESH_TAIL_MAX_TOKENS"),
    "promptAwareEviction": (False, "LCM_PROMPT_AWARE_EVICTION_ENABLED"),
    "stubLargeToolPayloads": (False, "LCM_STUB_LARGE_TOOL_PAYLOADS"),
    "leafMinFanout": (8, "LCM_LEAF_MIN_FANOUT"),
    "condensedMinFanout": (4, "LCM_CONDENSED_MIN_FANOUT"),
    "condensedMinFanoutHard": (2, "LCM_CONDENSED_MIN_FANOUT_HARD"),
    "sweepMaxDepth": (1, "LCM_SWEEP_MAX_DEPTH"),
    "leafChunkTokens": (20000, "LCM_LEAF_CHUNK_TOKENS"),
    "summaryPrefixTargetTokens": (None, "LCM_SUMMARY_PREFIX_TARGET_TOKENS"),
    "maxSweepIterations": (12, "LCM_MAX_SWEEP_ITERATIONS"),
    "sweepDeadlineMs": (120000, "LCM_SWEEP_DEADLINE_MS"),
    "compactUntilUnderDeadlineMs": (300000, "LCM_COMPACT_UNTIL_UNDER_DEADLINE_MS"),
    "bootstrapMaxTokens": (6000, "LCM_BOOTSTRAP_MAX_TOKENS"),
    "leafTargetTokens": (2400, "LCM_LEAF_TARGET_TOKENS"),
    "condensedTargetTokens": (2000, "LCM_CONDENSED_TARGET_TOKENS"),
    "summaryMaxOverageFactor": (3.0, "LCM_SUMMARY_MAX_OVERAGE_FACTOR"),
    "fallbackMaxTokens": (512, "LCM_FALLBACK_MAX_TOKENS"),
    "largeFileThresholdTokens": (25000, "LCM_LARGE_FILE_TOKEN_THRESHOLD"),
    "maxAssemblyTokenBudget": (None, "LCM_MAX_ASSEMBLY_TOKEN_BUDGET"),
    "maxExpandTokens": (4000, "LCM_MAX_EXPAND_TOKENS"),
    "summaryModel": ("", "LCM_SUMMARY_MODEL"),
    "summaryProvider": ("", "LCM_SUMMARY_PROVIDER"),
    "largeFileSummaryModel": ("", "LCM_LARGE_FILE_SUMMARY_MODEL"),
    "largeFileSummaryProvider": ("", "LCM_LARGE_FILE_SUMMARY_PROVIDER"),
    "expansionModel": ("", "LCM_EXPANSION_MODEL"),
    "expansionProvider": ("", "LCM_EXPANSION_PROVIDER"),
    "delegationTimeoutMs": (120000, "LCM_DELEGATION_TIMEOUT_MS"),
    "summaryTimeoutMs": (60000, "LCM_SUMMARY_TIMEOUT_MS"),
    "summaryCallWindowMs": (600000, "LCM_SUMMARY_CALL_WINDOW_MS"),
    "summaryMaxCallsPerWindow": (24, "LCM_SUMMARY_MAX_CALLS_PER_WINDOW"),
    "summarySpendBackoffMs": (1800000, "LCM_SUMMARY_SPEND_BACKOFF_MS"),
    "customInstructions": ("", "LCM_CUSTOM_INSTRUCTIONS"),
    "fallbackProviders": ((), "LCM_FALLBACK_PROVIDERS"),
    "circuitBreakerThreshold": (5, "LCM_CIRCUIT_BREAKER_THRESHOLD"),
    "circuitBreakerCooldownMs": (1800000, "LCM_CIRCUIT_BREAKER_COOLDOWN_MS"),
    "stripInjectedContextTags": (
        ("active_memory_plugin", "relevant-memories", "relevant_memories", "hindsight_memories"),
        "LCM_STRIP_INJECTED_CONTEXT_TAGS",
    ),
}
ENVIRONMENT_ONLY = {
    "LCM_TUI_CONVERSATION_WINDOW_SIZE": 200,
    "LCM_TUI_SUMMARY_MODEL": "",
    "LCM_TUI_SUMMARY_PROVIDER": "",
    "LCM_TUI_SUMMARY_BASE_URL": "",
}
#: Bounds that the reference's schema gives.
LOWEST = {
    "newSessionRetainDepth": -1,
    "sweepMaxDepth": -1,
    "freshTailMaxTokens": -1,
    "contextThreshold": 0,
    "leafMinFanout": 2,
    "condensedMinFanout": 2,
    "condensedMinFanoutHard": 2,
    "fallbackMaxTokens": 64,
    "largeFileThresholdTokens": 1000,
    "maxAssemblyTokenBudget": 1000,
}


def test_every_key_of_the_reference_is_there_with_its_default_and_variable() -> None:
    settings = Settings()
    declared = {
        setting.key: (getattr(settings, setting.attribute), setting.env)
        for setting in SETTINGS
        if not setting.ours and not setting.env_only
    }
    assert declared == REFERENCE


def test_what_only_the_environment_sets_has_no_name_in_a_config_file() -> None:
    only = {setting.env: setting.default for setting in SETTINGS if setting.env_only}
    assert only == ENVIRONMENT_ONLY
    assert not any(setting.config_names for setting in SETTINGS if setting.env_only)


def test_bounds_are_the_references() -> None:
    lows = {setting.key: setting.kind.schema()["minimum"] for setting in SETTINGS if not setting.ours
            if "minimum" in setting.kind.schema()}  # fmt: skip
    assert lows == {key: LOWEST.get(key, 1) for key in lows}
    assert lows.keys() >= LOWEST.keys()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_each_setting_is_complete(setting: Setting) -> None:
    assert setting.attribute == snake_case(setting.key).replace(".", "_")
    about, derived = setting_texts()[setting.key]
    assert about.endswith(".")
    assert about[0].isupper() or about.startswith(("`", "re2"))
    assert setting.env or setting.key == "contextThresholdOverrides"
    assert setting.kind.sentence
    assert setting.kind.schema()["type"]
    if setting.default in (None, 0):
        assert derived or setting.default is False
    if isinstance(setting.kind, Flag):
        assert setting.kind.default is setting.default


def test_a_field_is_its_declaration() -> None:
    assert [name for name in setting_texts() if name[0].islower()] == [setting.key for setting in SETTINGS]
    assert [item.name for item in fields(Settings)] == [setting.attribute for setting in SETTINGS]


def test_no_name_means_two_things() -> None:
    keys = [name for setting in SETTINGS for name in (*setting.config_names, setting.key)]
    variables = [name for setting in SETTINGS for name in setting.env_names]
    variables += [str(retired.env) for retired in RETIRED_KEYS] + list(PATH_VARIABLES)
    assert len(variables) == len(set(variables))
    assert len(set(keys)) + len(RETIRED_KEYS) == len(set(keys) | {retired.key for retired in RETIRED_KEYS})
    assert key_spellings()["auto_rotate_session_files.size_bytes"] == "autoRotateSessionFiles.sizeBytes"
    assert settings_by_key()["db_path"].key == "databasePath"


@pytest.mark.parametrize(
    ("attribute", "value", "allowed"),
    [
        ("fresh_tail_count", 0, "a whole number of at least 1"),
        ("fresh_tail_count", "8", "a whole number of at least 1"),
        ("fresh_tail_count", True, "a whole number of at least 1"),
        ("fresh_tail_count", 2.0, "a whole number of at least 1"),
        ("fresh_tail_count", 2**60, "at most 9007199254740991"),
        pytest.param("fresh_tail_count", 10**5000, "at most 9007199254740991", id="an enormous number"),
        ("regex_timeout_ms", 60_001, "from 1 to 60000"),
        ("context_threshold", 1.5, "a number from 0 to 1"),
        ("context_threshold", float("nan"), "a number from 0 to 1"),
        ("context_threshold", "0.5", "a number from 0 to 1"),
        ("summary_max_overage_factor", 10**400, "a number of at least 1"),
        ("summary_max_overage_factor", float("inf"), "a number of at least 1"),
        ("enabled", 1, "true or false"),
        ("enabled", None, "true or false"),
        ("host_fallback_mode", "quiet", "one of error, capture-only"),
        ("database_path", "", "a path"),
        ("database_path", "a\0b", "a path"),
        ("summary_model", None, "a text"),
        ("custom_instructions", "\ud800", "UTF-8"),
        ("ignore_session_patterns", "agent:*", "a list of texts"),
        ("ignore_session_patterns", ["a", ""], "not blank"),
        ("timezone", "Mars/Base", "an IANA time zone"),
        ("timezone", "../../etc/passwd", "an IANA time zone"),
        ("fallback_providers", ["openai/x"], "a Route"),
        ("fallback_providers", [Route("openai", "")], "not blank"),
        ("context_threshold_overrides", [{}], "a ContextThresholdOverride"),
        ("context_threshold_overrides", [ContextThresholdOverride(context_threshold=0.5)], "at least one of"),
        ("leaf_chunk_tokens", "many", "a whole number"),
        ("model_prices", {}, "a list of ModelPrice"),
        ("model_prices", [{}], "a ModelPrice"),
        ("model_prices", [ModelPrice("p/m", 1, -1)], "a number of at least 0"),
        ("model_prices", [ModelPrice("p/m", 1, 1), ModelPrice("p/m", 1, 1)], "each model once"),
    ],
)
def test_a_wrong_value_names_key_value_source_and_what_is_allowed(attribute: str, value: object, allowed: str) -> None:
    setting = next(setting for setting in SETTINGS if setting.attribute == attribute)
    with pytest.raises(BadSetting) as caught:
        Settings(**{attribute: value})  # type: ignore[arg-type]
    assert caught.value.key.startswith(setting.key)
    assert caught.value.source == "Settings()"
    assert allowed in caught.value.allowed
    assert len(str(caught.value)) < 400
    assert isinstance(caught.value, BadInput)


def test_values_take_their_one_true_form() -> None:
    settings = Settings(context_threshold=1, ignore_session_patterns=["a:*"])  # type: ignore[arg-type]
    assert (settings.context_threshold, type(settings.context_threshold)) == (1.0, float)
    assert settings.ignore_session_patterns == ("a:*",)
    assert hash(settings) == hash(Settings(context_threshold=1.0, ignore_session_patterns=("a:*",)))


@pytest.mark.parametrize(("chunk", "budget"), [(20_000, 6000), (100_000, 30_000), (33_333, 9999), (1, 6000)])
def test_the_first_import_follows_from_the_chunk_size(chunk: int, budget: int) -> None:
    assert Settings(leaf_chunk_tokens=chunk).bootstrap_max_tokens == budget
    assert Settings(leaf_chunk_tokens=chunk, bootstrap_max_tokens=7).bootstrap_max_tokens == 7


def test_settings_can_be_replaced_copied_and_pickled() -> None:
    settings = replace(Settings(), fresh_tail_count=8)
    assert settings == copy.deepcopy(settings) == pickle.loads(pickle.dumps(settings)) != Settings()
    with pytest.raises(AttributeError):
        settings.fresh_tail_count = 9  # type: ignore[misc]


def test_repr_shows_what_differs_and_no_password() -> None:
    text = repr(Settings(fresh_tail_count=8, summary_base_url="https://me:secret@host/v1"))
    assert "fresh_tail_count=8" in text
    assert "me:***@host" in text
    assert "secret" not in text
    assert "leaf_min_fanout" not in text


def test_an_import_needs_nothing_heavy() -> None:
    program = "import sys, lossless.settings; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    heavy = {"pydantic", "tomllib", "json", "zoneinfo", "difflib", "tempfile", "sqlite3", "apsw", "asyncio"}
    assert not set(run.stdout.split()) & heavy


def test_names_are_spelled_as_json_and_as_python_spell_them() -> None:
    assert camel_case("max_summary_depth") == "maxSummaryDepth"
    assert snake_case("cacheAwareCompaction.cacheTTLSeconds") == "cache_aware_compaction.cache_ttl_seconds"


def test_the_password_of_an_address_is_not_shown() -> None:
    assert mask_passwords("postgresql://me:secret@host/db") == "postgresql://me:***@host/db"
