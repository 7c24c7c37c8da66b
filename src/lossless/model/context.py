"""The context: the ordered items that the model sees, its fresh tail, and where it may be split; and summaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from lossless.model.messages import Role


@dataclass(frozen=True, slots=True)
class MessageItem:
    """A message in the context."""

    ordinal: int
    message_id: int
    role: Role
    tokens: int
    seq: int
    #: The estimate for budgets (`model.budget`); never below `tokens`, and equal to it when no estimate is known.
    budget_tokens: int = -1

    def __post_init__(self) -> None:
        if self.budget_tokens < self.tokens:
            object.__setattr__(self, "budget_tokens", self.tokens)


@dataclass(frozen=True, slots=True)
class SummaryItem:
    """A summary in place of its sources."""

    ordinal: int
    summary_id: str
    depth: int
    tokens: int
    #: The estimate for budgets (`model.budget`); never below `tokens`, and equal to it when no estimate is known.
    budget_tokens: int = -1

    def __post_init__(self) -> None:
        if self.budget_tokens < self.tokens:
            object.__setattr__(self, "budget_tokens", self.tokens)


ContextItem: TypeAlias = MessageItem | SummaryItem

#: Message id → the tool call ids it names: calls in an assistant message, results in any other.
CallIds: TypeAlias = Mapping[int, frozenset[str]]


#: Braces, role and quotes around a message in a prompt.
FRAME_TOKENS = 10


#: The share of the budget shown of a message that exceeds it: for user messages, and for all others.
_USERS_PART, _PART = 1 / 2, 1 / 8
#: Where not everything fits, a tool result of an earlier turn takes at most this share of the budget.
PAST_RESULT_SHARE = 1 / 32


def token_sum(items: Iterable[ContextItem]) -> int:
    return sum([item.tokens for item in items])


def budget_sum(items: Iterable[ContextItem]) -> int:
    return sum([item.budget_tokens for item in items])


def prompt_tokens(items: Sequence[ContextItem]) -> int:
    """The estimated tokens of the items in a prompt, each with its frame."""
    return framed_tokens(budget_sum(items), len(items))


def framed_tokens(tokens: int, count: int = 1) -> int:
    """The estimated tokens of `count` items in a prompt, frames included."""
    return tokens + FRAME_TOKENS * count


def part_share(role: Role | None, *, is_past: bool = False) -> float:
    """The share of the budget that is shown of a message that is shown in part."""
    if role == "user":
        return _USERS_PART
    return PAST_RESULT_SHARE if is_past and role == "tool" else _PART


def whole_limit(role: Role, budget: float, *, is_past: bool) -> float:
    """A longer message is shown in part: what no prompt can hold, and of earlier turns results of tools before that."""
    return PAST_RESULT_SHARE * budget if is_past and role == "tool" else budget


def shown_tokens(role: Role, tokens: int, budget: int, *, is_past: bool) -> int:
    """How many tokens of a message a prompt of this budget shows."""
    limit = whole_limit(role, budget, is_past=is_past)
    return tokens if tokens <= limit else int(part_share(role, is_past=is_past) * budget)


def newest_user_index(context: Sequence[ContextItem]) -> int | None:
    """The index of the newest user message in the context, or None."""
    users = (n for n, item in enumerate(reversed(context), 1) if isinstance(item, MessageItem) and item.role == "user")
    return len(context) - back if (back := next(users, None)) is not None else None


def fresh_tail_start(
    context: Sequence[ContextItem], count: int, max_tokens: int | None = None, *, frame: int = 0
) -> int:
    """The index in `context` from which on messages are never summarised or evicted; `len(context)` when there is no
    tail.

    The newest user message and everything after it is always inside. Raw messages just before it are added until there
    are `count`, or until one would exceed `max_tokens` (each counted with `frame` extra tokens). Without a user message
    only the caps apply, and the newest message is inside.
    """
    start, kept, tokens = len(context), 0, 0
    if count <= 0:
        return start
    user = newest_user_index(context)
    for index in range(len(context) - 1, -1, -1):
        item = context[index]
        may_end = kept > 0 and (user is None or index < user)
        if not isinstance(item, MessageItem):
            if may_end:
                break
            continue
        size = item.budget_tokens + frame
        if may_end and (kept >= count or (max_tokens is not None and tokens + size > max_tokens)):
            break
        start, kept, tokens = index, kept + 1, tokens + size
    return start


def cuts_splitting_pairs(context: Sequence[ContextItem], call_ids: CallIds) -> list[bool]:
    """For each boundary 0…len(context): would a cut there separate a tool call from its result?

    A call belongs to the first later result with its id; ids may be reused. A call in the model's last step may still
    get its result, so no boundary after it is free; an older call without a result is ignored.
    """
    opened: dict[str, int] = {}
    steps = [0] * (len(context) + 2)
    for index, item in enumerate(context):
        if not isinstance(item, MessageItem):
            continue
        for call_id in call_ids.get(item.message_id, ()):
            if item.role == "assistant":
                opened[call_id] = index
            elif call_id in opened:
                steps[opened.pop(call_id) + 1] += 1
                steps[index + 1] -= 1
    # the newest unbroken run of assistant messages; later messages may still be results
    last_step = len(context)
    for speaks in (False, True):
        while last_step > 0 and isinstance(item := context[last_step - 1], MessageItem):
            if (item.role == "assistant") is not speaks:
                break
            last_step -= 1
    for call in opened.values():
        if call >= last_step:
            steps[call + 1] += 1
    return [crossing > 0 for crossing in accumulate(steps[:-1])]


@dataclass(frozen=True, slots=True)
class QuoteSpan:
    """A piece of a message with collapsed white space, and why it was chosen."""

    message_id: int
    start: int
    end: int
    #: The match score; about 1 when each query word occurs once.
    score: float = 0.0
    #: The number of query words in the piece itself; 0 when only neighbouring messages have them.
    words: int = 0

    @property
    def why(self) -> str:
        what = f"has {self.words} of its words" if self.words else "is next to a message with its words"
        return f"fits the newest words by {self.score:.2f}: {what}"


@dataclass(frozen=True, slots=True)
class EvidenceBlock:
    """Quotations from earlier history, placed directly before a user message."""

    #: The user message; None while it is not stored: then the block goes at the end.
    message_id: int | None
    content: str
    quotes: tuple[QuoteSpan, ...]
    #: The row that records it; None for one that was chosen just now.
    row_id: int | None = None


@dataclass(frozen=True, slots=True)
class EvidenceNeed:
    """The input for choosing evidence."""

    #: The newest user message; None while it is not stored.
    message_id: int | None
    words: str
    #: Messages that are already in the prompt.
    shown: frozenset[int]
    #: The maximum tokens of the evidence.
    max_tokens: int
    #: Whether any part of the conversation is missing from the prompt or summarised in it.
    is_folded: bool


SummaryKind = Literal["leaf", "condensed"]

#: `model` of a summary that was not written by a language model and may be rewritten by one.
EXTRACTIVE_MODEL = "lossless-extractive"


@dataclass(frozen=True, slots=True)
class Summary:
    """Replaces older history. Depth 0 is made of messages, deeper ones of summaries."""

    id: str
    conversation_id: int
    depth: int
    content: str
    tokens: int
    earliest_at: datetime | None
    latest_at: datetime | None
    #: Summaries under this one, at any depth.
    descendant_count: int
    descendant_tokens: int
    #: Tokens of all messages under this one.
    source_message_tokens: int
    created_at: datetime
    file_ids: tuple[str, ...] = ()
    model: str = "unknown"
    #: Ids of the summaries it was made of, in order; empty for a leaf.
    source_ids: tuple[str, ...] = ()

    @property
    def kind(self) -> SummaryKind:
        return "leaf" if self.depth == 0 else "condensed"


@dataclass(frozen=True, slots=True)
class NewSummary:
    """A summary to be folded into a context; the archive computes its spans and counts."""

    id: str
    depth: int
    content: str
    tokens: int
    model: str
    file_ids: tuple[str, ...] = ()
