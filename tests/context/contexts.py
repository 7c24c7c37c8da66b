"""Contexts as candidates: short to write, and grown turn by turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lossless.context.choose import ContextCandidate, CoveringSummary, SelectionPolicy
from lossless.model.context import MessageItem, SummaryItem, fresh_tail_start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.context.choose import PromptSelection
    from lossless.model.messages import Role

ROLES: dict[str, Role] = {"u": "user", "a": "assistant", "t": "tool"}


def message(number: int, tokens: int, role: Role = "user", **more: Any) -> ContextCandidate:
    return ContextCandidate(MessageItem(number, number, role, tokens, number), tokens, **more)


def summary(
    number: int, tokens: int, covers: int = 8, covered_by: CoveringSummary | None = None, **more: Any
) -> ContextCandidate:
    item = SummaryItem(number, f"sum_{number}", 0, tokens)
    return ContextCandidate(item, tokens, covers_messages=covers, covered_by=covered_by, **more)


def context(shape: str) -> list[ContextCandidate]:
    """`"s50 u10 a10"`: a summary of 50 tokens, a user's message of 10, an assistant's of 10; `t` is a tool's."""
    made = []
    for number, word in enumerate(shape.split(), 1):
        kind, tokens = word[0], int(word[1:])
        made.append(summary(number, tokens) if kind == "s" else message(number, tokens, ROLES[kind]))
    return made


def policy(candidates: Sequence[ContextCandidate], budget: int, tail: int = 2, **more: Any) -> SelectionPolicy:
    start = fresh_tail_start([candidate.item for candidate in candidates], tail)
    return SelectionPolicy(budget=budget, tail_start=start, **more)


def ids(chosen: PromptSelection) -> list[str]:
    """Kept ids in order, with a mark for what is not verbatim."""
    marks = {"verbatim": "", "stub": "~", "stand-in": "^", "run": "*"}
    return [marks[kept.form] + kept.candidate.id.removeprefix("msg#") for kept in chosen.kept]
