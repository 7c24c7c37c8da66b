"""Every setting, declared once: the environment, config files, host manifests and the settings page derive from here.

To add one, add a field. Its key is the attribute in camel case unless `key` is given; its variable is `LCM_` and the
attribute in capitals unless `env` is given. `ours` marks settings that lossless-claw does not have.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
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

storage = partial(declare, ("Storage", "Where the archive and its files are."))
sessions = partial(declare, ("Sessions", "Which conversations are kept, and what a host's session commands do."))
tail = partial(declare, ("Context", "What stays verbatim in front of the model, and how much fits."))
compaction = partial(declare, ("Compaction", "When older history is folded into summaries, and how far."))
summaries = partial(declare, ("Summaries", "Which model writes summaries, how long they are, and what they may cost."))
recall = partial(declare, ("Recall", "How the agent gets details back."))
files = partial(declare, ("Transcripts and logs", "Files next to the archive."))
terminal = partial(declare, ("Terminal", "Only for the terminal browser; only from the environment."))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Settings:
    """All settings. Every value is checked on construction; a wrong one raises `BadSetting`.

    None means that the value depends on something not known here, such as the state folder.
    """

    enabled: bool = storage(True, "Turn everything off without uninstalling it.")
    database_path: str | None = storage(
        None,
        "The archive: a file.",
        ARCHIVE_PATH,
        aliases=(SettingAlias("dbPath", wins=True),),
        derived="the one that exists, else `<state>/lcm.db` with OpenClaw, else in the data folder",
    )
    large_files_dir: str | None = storage(
        None,
        "The folder for large payloads that are moved out of messages.",
        BLANKABLE_PATH,
        derived="next to the archive, named after it: `lcm-files` for `lcm.db`",
    )
    large_file_threshold_tokens: int = storage(
        25_000,
        "Payloads of this many tokens or more are stored as files.",
        whole_number(1000),
        env="LCM_LARGE_FILE_TOKEN_THRESHOLD",
        aliases=(SettingAlias("largeFileTokenThreshold"),),
    )
    payloads_in_files: bool = storage(
        True, "Whether images and large payloads are moved out of messages into files.", ours=True
    )
    redact_secrets: bool = storage(
        False, "Whether text that looks like a key, a token or a password is masked before it is stored.", ours=True
    )
    redact_patterns: tuple[str, ...] = storage(
        (), "Regular expressions; what they match is stored as `[redacted:pattern]` only.", ours=True
    )
    timezone: str | None = storage(
        None, "The time zone for displayed times.", TIME_ZONE, env="TZ", derived="the machine's zone, else UTC"
    )

    ignore_session_patterns: tuple[str, ...] = sessions(
        (), "Sessions that are ignored: `*` stops at `:`, `**` does not."
    )
    stateless_session_patterns: tuple[str, ...] = sessions(
        (), "Sessions that may read the archive but never write to it."
    )
    skip_stateless_sessions: bool = sessions(True, "Whether `statelessSessionPatterns` is enforced.")
    host_fallback_mode: Literal["error", "capture-only"] = sessions(
        "error", "What to do on a host that lacks a needed capability: refuse, or only store messages."
    )
    new_session_retain_depth: int = sessions(
        2, "`/new` keeps summaries of this depth and deeper; -1 keeps all.", whole_number(-1)
    )
    bootstrap_max_tokens: int = sessions(
        0,
        "How much of a first import stays verbatim in the context, in tokens.",
        derived="0.3 × `leafChunkTokens`, at least 6000",
    )
    prune_heartbeat_ok: bool = sessions(False, "Also hide older heartbeat turns that had nothing to report.")

    fresh_tail_count: int = tail(64, "How many of the newest messages always stay verbatim.")
    fresh_tail_max_tokens: int | None = tail(
        None,
        "A cap on the fresh tail, -1 for none; the newest user message and what follows it stay in any case.",
        whole_number(-1),
        derived="30 % of the history budget",
    )
    default_token_budget: int = tail(
        128_000, "The budget where neither host nor caller gives one.", whole_number(1000), ours=True
    )
    max_assembly_token_budget: int | None = tail(
        None, "A cap on every budget that a host gives.", whole_number(1000), derived="no cap"
    )
    prompt_aware_eviction: bool = tail(
        False,
        "Over budget, keep what is relevant to the prompt instead of what is newest; costs prompt-cache hits.",
        env="LCM_PROMPT_AWARE_EVICTION_ENABLED",
    )
    evidence: bool = tail(
        True, "Once history is folded, quote related earlier messages before the newest user message.", ours=True
    )
    evidence_tokens: int = tail(
        1_500,
        "The maximum tokens quoted before one message; all quotations take at most 20 % of the history budget.",
        whole_number(200),
        ours=True,
    )
    hook_evidence: bool = tail(
        False,
        "Whether hooks of Claude Code and Codex add such quotations to a prompt after their host has compacted.",
        ours=True,
    )
    stub_large_tool_payloads: bool = tail(False, "Show stored tool results as openable stubs.")
    strip_injected_context_tags: tuple[str, ...] = tail(
        ("active_memory_plugin", "relevant-memories", "relevant_memories", "hindsight_memories"),
        "XML blocks that other plugins inject, left out of what is summarised; empty keeps them.",
    )

    context_threshold: float = compaction(
        0.75, "The share of the budget above which older history is folded.", Number(0, 1)
    )
    context_threshold_overrides: tuple[ContextThresholdOverride, ...] = compaction(
        (),
        "Other thresholds for some models, context sizes or sessions; the most specific rule applies.",
        OVERRIDES,
        env=None,
    )
    proactive_threshold_compaction_mode: Literal["deferred", "inline"] = compaction(
        "deferred", "Whether compaction above the threshold is deferred or runs within the turn."
    )
    hard_limit_summariser: Literal["extractive", "model"] = compaction(
        "extractive",
        "What summarises when a turn reaches the hard limit: the built-in summariser at once, or the model.",
        ours=True,
    )
    host_maintain_compacts: bool = compaction(
        False, "Whether a host's maintenance call may run pending compaction.", ours=True
    )
    prepare_summaries: bool = compaction(
        False, "Have a model write summaries in advance, so that none is called at the threshold.", ours=True
    )
    leaf_chunk_tokens: int = compaction(20_000, "The maximum source tokens of one summary.")
    leaf_min_fanout: int = compaction(
        8, "The minimum number of leaves that are condensed into one summary.", whole_number(2)
    )
    condensed_min_fanout: int = compaction(
        4, "The minimum number of condensed summaries of one depth that are condensed again.", whole_number(2)
    )
    condensed_min_fanout_hard: int = compaction(
        2, "The minimum number of summaries that are condensed when space is short.", whole_number(2)
    )
    sweep_max_depth: int = compaction(
        1,
        "How deep an ordinary sweep condenses: 0 only makes leaves, -1 has no limit.",
        whole_number(-1),
        aliases=(SettingAlias("incrementalMaxDepth", env="LCM_INCREMENTAL_MAX_DEPTH", deprecated=True),),
    )
    summary_prefix_target_tokens: int | None = compaction(
        None,
        "How many tokens of summaries a sweep aims to leave in the context.",
        whole_number(1),
        derived="half the threshold, at most `leafChunkTokens`, at least `condensedTargetTokens`",
    )
    max_sweep_iterations: int = compaction(12, "The maximum passes of one sweep, and the maximum sweeps of one chain.")
    sweep_target_fraction: float = compaction(
        0.0,
        "The share of the history budget at which a sweep at the threshold stops, so that the newest history stays "
        "verbatim.",
        Number(0, 1),
        derived="all that can be folded is folded",
        ours=True,
    )
    sweep_deadline_ms: int = compaction(120_000, "The longest one sweep may take.")
    compact_until_under_deadline_ms: int = compaction(300_000, "The time limit for getting below a budget.")

    summary_model: str = summaries("", "The model that writes summaries: `model` or `provider/model`.")
    summary_provider: str = summaries("", "The provider of `summaryModel` when that is a bare name.")
    summary_base_url: str = summaries("", "Another address for the provider's API.", TEXT, ours=True)
    fallback_providers: tuple[Route, ...] = summaries(
        (), "Models that are tried in this order when the first one fails.", ROUTES
    )
    leaf_target_tokens: int = summaries(2400, "The target length of a leaf.")
    condensed_target_tokens: int = summaries(2000, "The target length of a condensed summary.")
    summary_max_overage_factor: float = summaries(3.0, "A summary longer than its target times this is cut.", Number(1))
    fallback_max_tokens: int = summaries(
        512, "The maximum length of a summary made without a model.", whole_number(64, outside="ignore")
    )
    custom_instructions: str = summaries("", "A text that is added to every summary prompt.")
    prompt_dir: str | None = summaries(
        None,
        "A folder with prompt templates of your own; `lcm prompts export` writes the built-in ones into one.",
        BLANKABLE_PATH,
        derived="none: the built-in ones",
        ours=True,
    )
    enable_summary_thinking: bool = summaries(True, "Let models reason a little before they write a summary.")
    summary_parallelism: int = summaries(
        1,
        "Concurrent model calls; above 1 a leaf is written without the one before it.",
        whole_number(1, 64),
        ours=True,
    )
    summary_processes: int = summaries(
        0,
        "Processes that extract a long backlog in parallel; 1 starts none.",
        whole_number(0, 64),
        derived="one for each core",
        ours=True,
    )
    summary_timeout_ms: int = summaries(60_000, "The time limit of one model call.")
    summary_call_window_ms: int = summaries(600_000, "The time window in which model calls are counted.")
    summary_max_calls_per_window: int = summaries(24, "The maximum model calls for one conversation in that window.")
    summary_spend_backoff_ms: int = summaries(1_800_000, "How long model calls pause after too many.")
    model_prices: tuple[ModelPrice, ...] = summaries(
        (),
        "What models cost, in US dollars for a million tokens, where their provider does not say; for `lcm cost`.",
        PRICES,
        ours=True,
    )
    circuit_breaker_threshold: int = summaries(5, "Refused credentials in a row after which a model is not called.")
    circuit_breaker_cooldown_ms: int = summaries(1_800_000, "How long it is not called then.")
    large_file_summary_model: str = summaries("", "The model that describes stored files.")
    large_file_summary_provider: str = summaries("", "Its provider; without both no model is called.")

    max_expand_tokens: int = recall(4000, "How much an expansion returns by default.")
    recall_max_tokens: int = recall(2000, "How much `lcm_recall` returns by default.", ours=True)
    recall_scope: Literal["session", "project", "agent", "all"] = recall(
        "all",
        "The most that agents reach with `allConversations` and `conversationId`; they look at their session first.",
        ours=True,
    )
    recall_scope_overrides: tuple[str, ...] = recall(
        (),
        "Another `recallScope` for some hosts, agents or sessions, by the key: `agent:support:**=session`; the first "
        "rule that fits holds.",
        SCOPES,
        ours=True,
    )
    expansion_model: str = recall("", "The model that answers `lcm_expand_query`.")
    expansion_provider: str = recall("", "The provider of `expansionModel` when that is a bare name.")
    delegation_timeout_ms: int = recall(120_000, "The time limit for `lcm_expand_query`.")
    expand_for_main_agents: Literal["auto", "allow", "refuse"] = recall(
        "auto",
        "Whether a main agent may call `lcm_expand`; auto refuses it only where the host has sub-agents.",
        ours=True,
    )
    expand_query_strategy: Literal["auto", "loop", "pack"] = recall(
        "auto",
        "How a question is answered: loop lets the model call tools, pack gives it the evidence at once.",
        ours=True,
    )
    embedder: str = recall(
        "",
        "Search by meaning, too: the address of an OpenAI-compatible API (`http://localhost:11434/v1`), or a folder "
        "with a model for model2vec or fastembed. Nothing is downloaded.",
        ours=True,
    )
    embedder_model: str = recall(
        "", "The model at that address; for a folder, its name in fastembed, and none for model2vec.", ours=True
    )
    regex_engine: Literal["regex", "re2"] = recall(
        "regex", "re2 is linear in time but knows no look-around; it must be installed.", ours=True
    )
    regex_timeout_ms: int = recall(
        2000, "The time limit of one regular-expression search.", whole_number(1, 60_000), ours=True
    )
    trigram_index: Literal["auto", "on", "off"] = recall(
        "auto", "An index for substrings; auto builds it once a scan was too slow.", ours=True
    )

    transcript_gc_enabled: bool = files(False, "Allow the host's transcript to be rewritten with stored stubs.")
    auto_rotate_session_files_enabled: bool = files(
        True, "Shorten transcripts that are too large.", key="autoRotateSessionFiles.enabled"
    )
    auto_rotate_session_files_create_backups: bool = files(
        False, "Back up the archive before such a rotation.", key="autoRotateSessionFiles.createBackups"
    )
    auto_rotate_session_files_size_bytes: int = files(
        2_097_152, "A transcript above this size is too large.", key="autoRotateSessionFiles.sizeBytes"
    )
    auto_rotate_session_files_startup: Literal["rotate", "warn", "off"] = files(
        "rotate", "What happens at start.", key="autoRotateSessionFiles.startup"
    )
    auto_rotate_session_files_runtime: Literal["rotate", "warn", "off"] = files(
        "rotate", "What happens between turns.", key="autoRotateSessionFiles.runtime"
    )
    independent_log_file_enabled: bool = files(
        True, "Write a log of our own.", key="independentLogFile.enabled", env="LCM_LOG_FILE_ENABLED"
    )
    independent_log_file_file: str | None = files(
        None,
        "Its file; a name with a date starts a new file every day.",
        PATH,
        key="independentLogFile.file",
        env="LCM_LOG_FILE",
        derived="`<temp>/lossless/lossless-<date>.log`",
    )
    independent_log_file_max_file_bytes: int = files(
        104_857_600,
        "A log of this size is rotated.",
        key="independentLogFile.maxFileBytes",
        env="LCM_LOG_MAX_FILE_BYTES",
    )

    tui_conversation_window_size: int = terminal(
        200,
        "Messages on one page.",
        whole_number(1, 10_000, outside="clamp"),
        key="tui.conversationWindowSize",
        env_only=True,
    )
    tui_summary_model: str = terminal(
        "", "The model for rewriting; else `summaryModel`.", TEXT, key="tui.summaryModel", env_only=True
    )
    tui_summary_provider: str = terminal(
        "", "Its provider; else `summaryProvider`.", TEXT, key="tui.summaryProvider", env_only=True
    )
    tui_summary_base_url: str = terminal(
        "", "Its base URL; else `summaryBaseUrl`.", TEXT, key="tui.summaryBaseUrl", env_only=True
    )

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
