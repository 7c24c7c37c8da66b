"""The numbers of `lcm backfill`: each stands for one setting, for this command alone."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from lossless.cli.options import bad

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.settings import Settings

F = TypeVar("F", bound="Callable[..., Any]")

_MOST = 1_000_000_000


class _Number(NamedTuple):
    option: str
    setting: str
    key: str
    least: int
    about: str


_NUMBERS = (
    _Number("--leaf-chunk-tokens", "leaf_chunk_tokens", "leafChunkTokens", 1, "The most that one summary is made of"),
    _Number("--leaf-target-tokens", "leaf_target_tokens", "leafTargetTokens", 1, "How long a leaf should be"),
    _Number(
        "--condensed-target-tokens",
        "condensed_target_tokens",
        "condensedTargetTokens",
        1,
        "How long a summary of summaries should be",
    ),
    _Number("--leaf-fanout", "leaf_min_fanout", "leafMinFanout", 2, "The fewest leaves that are condensed together"),
    _Number(
        "--condensed-fanout",
        "condensed_min_fanout",
        "condensedMinFanout",
        2,
        "The fewest summaries above leaves that are condensed together",
    ),
    _Number(
        "--hard-fanout",
        "condensed_min_fanout_hard",
        "condensedMinFanoutHard",
        2,
        "The fewest that are condensed together when too many tokens are left",
    ),
)


def numbers(function: F) -> F:
    """Options for how histories are folded; the command gets `given`, settings by name."""

    @wraps(function)
    def with_numbers(*args: Any, **more: Any) -> Any:
        values = {number.setting: more.pop(number.setting) for number in _NUMBERS}
        return function(*args, given={name: value for name, value in values.items() if value is not None}, **more)

    wrapped: Any = with_numbers
    for number in reversed(_NUMBERS):
        wrapped = click.option(
            number.option,
            number.setting,
            metavar="N",
            type=click.IntRange(number.least, _MOST),
            help=f"{number.about}; else the setting {number.key}.",
        )(wrapped)
    return wrapped  # type: ignore[no-any-return]


def applied(settings: Settings, given: dict[str, int]) -> Settings:
    """The settings with the numbers that were given: they win over the rules for some sessions, too."""
    if not given:
        return settings
    rules = settings.context_threshold_overrides
    if "leaf_chunk_tokens" in given:
        rules = tuple(replace(rule, leaf_chunk_tokens=None) for rule in rules)
    changed = replace(settings, context_threshold_overrides=rules, **given)  # type: ignore[arg-type]
    for number in _NUMBERS:
        if number.setting.endswith("_target_tokens") and given.get(number.setting, 0) >= changed.leaf_chunk_tokens:
            chunk = f"the {changed.leaf_chunk_tokens} tokens (--leaf-chunk-tokens) that it is made of"
            raise bad(number.option, f"such a summary would not be smaller than {chunk}")
    return changed
