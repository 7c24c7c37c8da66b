"""Contexts as candidates: short to write, and grown turn by turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lossless.context.choose import ContextCandidate, SelectionPolicy
from lossless.model.context import MessageItem, SummaryItem, fresh_tail_start
from lossless.model.records import StoredBrief

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lossless.context.choose import PromptSelection
    from lossless.model.messages import Role

ROLES: dict[str, Role] = {"u": "user", "a": "assistant", "t": "tool"}


def message(number: int, tokens: int, role: Role = "user", **more: Any) -> ContextCandidate:
    return ContextCandidate(MessageItem(number, number, role, tokens, number), tokens, **more)


def summary(number: int, tokens: int, covers: int = 8, **more: Any) -> ContextCandidate:
    item = SummaryItem(number, f"sum_{number}", 0, tokens)
    return ContextCandidate(item, tokens, covers_messages=covers, **more)


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
    marks = {"verbatim": "", "stub": "~", "run": "*"}
    return [marks[kept.form] + kept.candidate.id.removeprefix("msg#") for kept in chosen.kept]


def stored_brief(
    prompt: str, content: str, created_at: datetime | None, latest_at: datetime | None = None, seq: int | None = None
) -> StoredBrief:
    return StoredBrief("focus_1", 1, prompt, content, "active", 12, 900, latest_at, seq, "", None, created_at)
