"""The context: the ordered items that the model sees, its fresh tail, and where it may be cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lossless.model.messages import Role


@dataclass(frozen=True, slots=True)
class MessageItem:
    """A message standing in the context for itself."""

    ordinal: int
    message_id: int
    role: Role
    tokens: int
    seq: int
    #: The estimate for budgets (`model.budget`), never below `tokens`, which it is where none is known.
    budget_tokens: int = -1

    def __post_init__(self) -> None:
        if self.budget_tokens < self.tokens:
            object.__setattr__(self, "budget_tokens", self.tokens)


@dataclass(frozen=True, slots=True)
class SummaryItem:
    """A summary standing where its sources stood."""

    ordinal: int
    summary_id: str
    depth: int
    tokens: int
    #: The estimate for budgets (`model.budget`), never below `tokens`, which it is where none is known.
    budget_tokens: int = -1

    def __post_init__(self) -> None:
        if self.budget_tokens < self.tokens:
            object.__setattr__(self, "budget_tokens", self.tokens)


ContextItem: TypeAlias = MessageItem | SummaryItem

#: Message id → the tool call ids it names: an assistant asks with them, every other role answers them.
CallIds: TypeAlias = Mapping[int, frozenset[str]]


#: Braces, role and quotes around a message once it is sent.
FRAME_TOKENS = 10


#: Of a message that no prompt can hold, this share of the budget is shown: the words of a user, and anything else.
_USERS_PART, _PART = 1 / 2, 1 / 8


def token_sum(items: Iterable[ContextItem]) -> int:
    """How many tokens the items have together, as they are stored."""
    return sum(item.tokens for item in items)


def budget_sum(items: Iterable[ContextItem]) -> int:
    """How many tokens the items have together, by the estimate for budgets."""
    return sum(item.budget_tokens for item in items)


def prompt_tokens(items: Sequence[ContextItem]) -> int:
    """What the items are reckoned to take in a prompt: each with the frame around it."""
    return framed_tokens(budget_sum(items), len(items))


def framed_tokens(tokens: int, count: int = 1) -> int:
    """What `count` items of so many tokens are reckoned to take in a prompt."""
    return tokens + FRAME_TOKENS * count


def part_share(role: Role | None) -> float:
    """What a message that is longer than the whole budget takes of it, since it is shown in part."""
    return _USERS_PART if role == "user" else _PART


def shown_sum(items: Iterable[ContextItem], budget: int) -> int:
    """How many tokens of the items a prompt of this budget shows: of what is longer than all of it, a part."""
    return sum(
        int(part_share(item.role) * budget)
        if isinstance(item, MessageItem) and item.budget_tokens > budget
        else item.budget_tokens
        for item in items
    )


def newest_user_index(context: Sequence[ContextItem]) -> int | None:
    """Where the newest user message stands, or None when no user message stands for itself."""
    for index in range(len(context) - 1, -1, -1):
        item = context[index]
        if isinstance(item, MessageItem) and item.role == "user":
            return index
    return None


def fresh_tail_start(
    context: Sequence[ContextItem], count: int, max_tokens: int | None = None, *, frame: int = 0
) -> int:
    """The index in `context` from which on messages are never summarised or evicted.

    The newest user message and everything after it is atomic: it is inside whatever the caps say. Raw
    messages just before it join until there are `count`, or until one would exceed `max_tokens` (each counted with
    `frame` tokens around it); without a user message the caps alone decide, and the newest message is inside.
    `len(context)`: no tail.
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
    """For each border 0…len(context): would a cut there part a tool call from its result?

    A call belongs to the first later result with its id; ids may be used again. A call of the model's
    last step may still get its result, so no border after it is free; an older one without is given up.
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
    last_step = _last_step_index(context)
    for call in opened.values():
        if call >= last_step:
            steps[call + 1] += 1
    return [crossing > 0 for crossing in accumulate(steps[:-1])]


def _last_step_index(context: Sequence[ContextItem]) -> int:
    """Where the newest unbroken row of assistant messages begins; what follows it may still be answers."""
    index = len(context)
    for speaks in (False, True):
        while index > 0 and _is_assistant(context[index - 1]) is speaks:
            index -= 1
    return index


def _is_assistant(item: ContextItem) -> bool | None:
    return item.role == "assistant" if isinstance(item, MessageItem) else None


@dataclass(frozen=True, slots=True)
class QuoteSpan:
    """A piece of a message, with its white space counted once each, and why it was chosen."""

    message_id: int
    start: int
    end: int
    #: How well it fits the words that it was chosen for; about 1 when it has each of them once.
    score: float = 0.0
    #: How many of those words it has itself; 0 when only messages beside it have them.
    words: int = 0

    @property
    def why(self) -> str:
        """Why it stands in a prompt."""
        what = f"has {self.words} of its words" if self.words else "stands beside what has its words"
        return f"fits the newest words by {self.score:.2f}: {what}"


@dataclass(frozen=True, slots=True)
class EvidenceBlock:
    """Quotations from the past that stand directly before the words of a user."""

    #: The message with those words; None while they are not stored: then it stands at the end.
    message_id: int | None
    content: str
    quotes: tuple[QuoteSpan, ...]
    #: Where it is recorded; None for one that was chosen just now.
    row_id: int | None = None


@dataclass(frozen=True, slots=True)
class EvidenceNeed:
    """What evidence is to be chosen for."""

    #: The message with the newest words of a user; None while they are not stored.
    message_id: int | None
    words: str
    #: Messages that stand in the prompt already.
    shown: frozenset[int]
    #: How many tokens it may take.
    most: int
    #: Whether anything of the conversation is not in the prompt word for word.
    is_folded: bool
