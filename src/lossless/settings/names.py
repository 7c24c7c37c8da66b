"""Names: every spelling that leads to a setting, keys that no longer do anything, variables for paths."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from lossless.settings.declared import SETTINGS
from lossless.settings.kinds import OFF, ON, Kind, Number, Whole
from lossless.settings.setting import Setting, snake

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Retired(NamedTuple):
    """A key that is still accepted, so that old files load, and that changes nothing."""

    key: str
    env: str
    kind: Kind
    #: Why it changes nothing here.
    why: str


_CACHE = "the threshold alone decides when to fold"
_CHUNKS = "chunks have one size"
_REPLAYS = "replays are recognised message by message, and no batch is refused for their number"
#: Every key of lossless-claw that is accepted and has no effect here.
RETIRED: Final = (
    Retired("cacheAwareCompaction.enabled", "LCM_CACHE_AWARE_COMPACTION_ENABLED", ON, _CACHE),
    Retired("cacheAwareCompaction.cacheTTLSeconds", "LCM_CACHE_TTL_SECONDS", Whole(1), _CACHE),
    Retired("cacheAwareCompaction.maxColdCacheCatchupPasses", "LCM_MAX_COLD_CACHE_CATCHUP_PASSES", Whole(1), _CACHE),
    Retired("cacheAwareCompaction.hotCachePressureFactor", "LCM_HOT_CACHE_PRESSURE_FACTOR", Number(1), _CACHE),
    Retired(
        "cacheAwareCompaction.hotCacheBudgetHeadroomRatio",
        "LCM_HOT_CACHE_BUDGET_HEADROOM_RATIO",
        Number(0, 0.95),
        _CACHE,
    ),
    Retired(
        "cacheAwareCompaction.coldCacheObservationThreshold",
        "LCM_COLD_CACHE_OBSERVATION_THRESHOLD",
        Whole(1),
        _CACHE,
    ),
    Retired(
        "cacheAwareCompaction.criticalBudgetPressureRatio",
        "LCM_CRITICAL_BUDGET_PRESSURE_RATIO",
        Number(0, 1),
        _CACHE,
    ),
    Retired("dynamicLeafChunkTokens.enabled", "LCM_DYNAMIC_LEAF_CHUNK_TOKENS_ENABLED", OFF, _CHUNKS),
    Retired("dynamicLeafChunkTokens.max", "LCM_DYNAMIC_LEAF_CHUNK_TOKENS_MAX", Whole(1), _CHUNKS),
    Retired("replayFloodThresholdExternal", "LCM_REPLAY_FLOOD_THRESHOLD_EXTERNAL", Whole(1), _REPLAYS),
    Retired("replayFloodThresholdInternal", "LCM_REPLAY_FLOOD_THRESHOLD_INTERNAL", Whole(1), _REPLAYS),
)

#: Variables that say where things are; they are no settings.
PATH_VARIABLES: Final[Mapping[str, str]] = {
    "LCM_OPENCLAW_DIR": "The state folder, before all others.",
    "OPENCLAW_STATE_DIR": "The state folder.",
    "OPENCLAW_HOME": "The folder that holds the state folder `.openclaw`.",
    "OPENCLAW_CONFIG_PATH": "The host's config file, else `openclaw.json` in the state folder.",
    "XDG_CONFIG_HOME": "The folder that holds `lossless/lossless.toml`, else `~/.config`.",
}


@lru_cache(maxsize=1)
def spellings() -> Mapping[str, str]:
    """Every accepted spelling in a config file, and the key it stands for."""
    keys = [name for setting in SETTINGS for name in setting.config_names]
    keys += [retired.key for retired in RETIRED]
    return {form: key for key in keys for form in (snake(key).replace(".", "_"), snake(key), key)}


@lru_cache(maxsize=1)
def groups() -> Mapping[str, str]:
    """Every spelling of a key that holds other keys, such as `autoRotateSessionFiles`."""
    dotted = {key.partition(".")[0] for key in spellings().values() if "." in key}
    return {form: name for name in dotted for form in (name, snake(name))}


@lru_cache(maxsize=1)
def by_key() -> Mapping[str, Setting]:
    """The setting that a key or an alias names, in any spelling."""
    owners = {name: setting for setting in SETTINGS for name in (*setting.config_names, setting.key)}
    return owners | {form: owners[key] for form, key in spellings().items() if key in owners}


def retired_keys() -> frozenset[str]:
    """The keys that change nothing."""
    return frozenset(retired.key for retired in RETIRED)


def closest(name: str, names: Iterable[str], cutoff: float = 0.7) -> str:
    """The name that was probably meant, or an empty text."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(names), n=1, cutoff=cutoff)), "")
