"""Every setting, declared once: the environment, config files, host manifests and the settings page derive from here.

To add one, add a field, and in `help.toml` a line that says what it is for. Its key is the attribute in camel case
unless `key` is given; its variable is `LCM_` and the attribute in capitals unless `env` is given. `ours` marks settings
that lossless-claw does not have.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Literal

from lossless.settings.model_rules import OVERRIDES, PRICES, ROUTES, SCOPES, ContextThresholdOverride, ModelPrice, Route
from lossless.settings.setting import (
    ARCHIVE_PATH,
    BLANKABLE_PATH,
    PATH,
    TEXT,
    TIME_ZONE,
    Number,
    Setting,
    SettingAlias,
    declare,
    mask_passwords,
    whole_number,
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Settings:
    """All settings. Every value is checked on construction; a wrong one raises `BadSetting`.

    None means that the value depends on something not known here, such as the state folder.
    """

    # Storage
    enabled: bool = declare(True)
    database_path: str | None = declare(None, ARCHIVE_PATH, aliases=(SettingAlias("dbPath", wins=True),))
    large_files_dir: str | None = declare(None, BLANKABLE_PATH)
    large_file_threshold_tokens: int = declare(
        25_000,
        whole_number(1000),
        env="LCM_LARGE_FILE_TOKEN_THRESHOLD",
        aliases=(SettingAlias("largeFileTokenThreshold"),),
    )
    payloads_in_files: bool = declare(True, ours=True)
    redact_secrets: bool = declare(False, ours=True)
    redact_patterns: tuple[str, ...] = declare((), ours=True)
    timezone: str | None = declare(None, TIME_ZONE, env="TZ")

    # Sessions
    ignore_session_patterns: tuple[str, ...] = declare(())
    stateless_session_patterns: tuple[str, ...] = declare(())
    skip_stateless_sessions: bool = declare(True)
    host_fallback_mode: Literal["error", "capture-only"] = declare("error")
    new_session_retain_depth: int = declare(2, whole_number(-1))
    bootstrap_max_tokens: int = declare(0)
    prune_heartbeat_ok: bool = declare(False)

    # Context
    fresh_tail_count: int = declare(64)
    fresh_tail_max_tokens: int | None = declare(None, whole_number(-1))
    default_token_budget: int = declare(128_000, whole_number(1000), ours=True)
    max_assembly_token_budget: int | None = declare(None, whole_number(1000))
    prompt_aware_eviction: bool = declare(False, env="LCM_PROMPT_AWARE_EVICTION_ENABLED")
    evidence: bool = declare(True, ours=True)
    evidence_tokens: int = declare(1_500, whole_number(200), ours=True)
    hook_evidence: bool = declare(False, ours=True)
    stub_large_tool_payloads: bool = declare(False)
    strip_injected_context_tags: tuple[str, ...] = declare(
        ("active_memory_plugin", "relevant-memories", "relevant_memories", "hindsight_memories")
    )

    # Compaction
    context_threshold: float = declare(0.75, Number(0, 1))
    context_threshold_overrides: tuple[ContextThresholdOverride, ...] = declare((), OVERRIDES, env=None)
    proactive_threshold_compaction_mode: Literal["deferred", "inline"] = declare("deferred")
    hard_limit_summariser: Literal["extractive", "model"] = declare("extractive", ours=True)
    host_maintain_compacts: bool = declare(False, ours=True)
    prepare_summaries: bool = declare(False, ours=True)
    leaf_chunk_tokens: int = declare(20_000)
    leaf_min_fanout: int = declare(8, whole_number(2))
    condensed_min_fanout: int = declare(4, whole_number(2))
    condensed_min_fanout_hard: int = declare(2, whole_number(2))
    sweep_max_depth: int = declare(
        1,
        whole_number(-1),
        aliases=(SettingAlias("incrementalMaxDepth", env="LCM_INCREMENTAL_MAX_DEPTH", deprecated=True),),
    )
    summary_prefix_target_tokens: int | None = declare(None, whole_number(1))
    max_sweep_iterations: int = declare(12)
    sweep_target_fraction: float = declare(0.0, Number(0, 1), ours=True)
    sweep_deadline_ms: int = declare(120_000)
    compact_until_under_deadline_ms: int = declare(300_000)

    # Summaries
    summary_model: str = declare("")
    summary_provider: str = declare("")
    summary_base_url: str = declare("", TEXT, ours=True)
    fallback_providers: tuple[Route, ...] = declare((), ROUTES)
    leaf_target_tokens: int = declare(2400)
    condensed_target_tokens: int = declare(2000)
    summary_max_overage_factor: float = declare(3.0, Number(1))
    fallback_max_tokens: int = declare(512, whole_number(64, outside="ignore"))
    custom_instructions: str = declare("")
    prompt_dir: str | None = declare(None, BLANKABLE_PATH, ours=True)
    enable_summary_thinking: bool = declare(True)
    summary_parallelism: int = declare(1, whole_number(1, 64), ours=True)
    summary_processes: int = declare(0, whole_number(0, 64), ours=True)
    summary_timeout_ms: int = declare(60_000)
    summary_call_window_ms: int = declare(600_000)
    summary_max_calls_per_window: int = declare(24)
    summary_spend_backoff_ms: int = declare(1_800_000)
    model_prices: tuple[ModelPrice, ...] = declare((), PRICES, ours=True)
    circuit_breaker_threshold: int = declare(5)
    circuit_breaker_cooldown_ms: int = declare(1_800_000)
    large_file_summary_model: str = declare("")
    large_file_summary_provider: str = declare("")

    # Recall
    max_expand_tokens: int = declare(4000)
    recall_max_tokens: int = declare(2000, ours=True)
    recall_scope: Literal["session", "project", "agent", "all"] = declare("all", ours=True)
    recall_scope_overrides: tuple[str, ...] = declare((), SCOPES, ours=True)
    expansion_model: str = declare("")
    expansion_provider: str = declare("")
    delegation_timeout_ms: int = declare(120_000)
    expand_for_main_agents: Literal["auto", "allow", "refuse"] = declare("auto", ours=True)
    expand_query_strategy: Literal["auto", "loop", "pack"] = declare("auto", ours=True)
    embedder: str = declare("", ours=True)
    embedder_model: str = declare("", ours=True)
    regex_engine: Literal["regex", "re2"] = declare("regex", ours=True)
    regex_timeout_ms: int = declare(2000, whole_number(1, 60_000), ours=True)
    trigram_index: Literal["auto", "on", "off"] = declare("auto", ours=True)

    # Transcripts and logs
    transcript_gc_enabled: bool = declare(False)
    auto_rotate_session_files_enabled: bool = declare(True, key="autoRotateSessionFiles.enabled")
    auto_rotate_session_files_create_backups: bool = declare(False, key="autoRotateSessionFiles.createBackups")
    auto_rotate_session_files_size_bytes: int = declare(2_097_152, key="autoRotateSessionFiles.sizeBytes")
    auto_rotate_session_files_startup: Literal["rotate", "warn", "off"] = declare(
        "rotate", key="autoRotateSessionFiles.startup"
    )
    auto_rotate_session_files_runtime: Literal["rotate", "warn", "off"] = declare(
        "rotate", key="autoRotateSessionFiles.runtime"
    )
    independent_log_file_enabled: bool = declare(True, key="independentLogFile.enabled", env="LCM_LOG_FILE_ENABLED")
    independent_log_file_file: str | None = declare(None, PATH, key="independentLogFile.file", env="LCM_LOG_FILE")
    independent_log_file_max_file_bytes: int = declare(
        104_857_600, key="independentLogFile.maxFileBytes", env="LCM_LOG_MAX_FILE_BYTES"
    )

    # Terminal
    tui_conversation_window_size: int = declare(
        200, whole_number(1, 10_000, outside="clamp"), key="tui.conversationWindowSize", env_only=True
    )
    tui_summary_model: str = declare("", TEXT, key="tui.summaryModel", env_only=True)
    tui_summary_provider: str = declare("", TEXT, key="tui.summaryProvider", env_only=True)
    tui_summary_base_url: str = declare("", TEXT, key="tui.summaryBaseUrl", env_only=True)

    def __post_init__(self) -> None:
        for setting in SETTINGS:
            given = getattr(self, setting.attribute)
            value = setting.check(given, "Settings()")
            if value is not given:
                object.__setattr__(self, setting.attribute, value)
        if not self.bootstrap_max_tokens:
            object.__setattr__(self, "bootstrap_max_tokens", max(6000, self.leaf_chunk_tokens * 3 // 10))

    def __repr__(self) -> str:
        given = ((setting, getattr(self, setting.attribute)) for setting in SETTINGS)
        differing = [f"{setting.attribute}={value!r}" for setting, value in given if value != setting.default]
        return mask_passwords(f"Settings({', '.join(differing)})")


#: Every setting in the order of the page.
SETTINGS: Final[tuple[Setting, ...]] = tuple(
    item.metadata["setting"].named(item.name, item.type) for item in fields(Settings)
)
