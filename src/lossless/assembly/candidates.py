"""What may go into a prompt, and how much of it may."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.model.context import SummaryItem

if TYPE_CHECKING:
    from lossless.assembly.budget import Form
    from lossless.model.context import ContextItem

#: Why something was left out.
OVER_BUDGET = "over budget"
TAIL_OVER_BUDGET = "the fresh tail alone is over budget"
TURN_OVER_BUDGET = "the current turn alone is over budget"
IN_RUN = "an older step of the current turn"

#: Reasons after which nothing in the prompt stands for what was left out.
NOTHING_STANDS_FOR = frozenset((OVER_BUDGET, TAIL_OVER_BUDGET))

#: No message is shown in fewer tokens than this, if so few are possible.
SHORTEST = 64


@dataclass(frozen=True, slots=True)
class StandIn:
    """A condensed summary outside the context that covers several summaries in it."""

    summary_id: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """An item of the context, with what it would take in the prompt."""

    item: ContextItem
    #: As it will be serialised.
    tokens: int
    #: What it counts for when steps are counted: the same in every prompt; `tokens` when not given.
    weight: int | None = None
    #: How many messages lie below a summary.
    covers_messages: int = 0
    #: How well it matches the prompt (`relevance`).
    score: float = 0.0
    #: Candidates with the same number stay or go together (`atoms.atoms`).
    atom: int | None = None
    covered_by: StandIn | None = None
    #: What it takes when its tool results are stubbed; None when there is nothing to stub.
    stub_tokens: int | None = None
    #: What it takes when it is shown in part, as little as can be; None when it cannot be.
    least_tokens: int | None = None
    #: What it takes as the reference to its file that is stored; None when it has no file, or is that reference.
    reference_tokens: int | None = None
    #: A tool call that has no result yet.
    is_unanswered: bool = False
    #: How it stands while nothing has to go.
    form: Form = "verbatim"

    @property
    def moves(self) -> int:
        return self.tokens if self.weight is None else self.weight

    @property
    def id(self) -> str:
        item = self.item
        return item.summary_id if isinstance(item, SummaryItem) else f"msg#{item.message_id}"


@dataclass(frozen=True, slots=True)
class Policy:
    """How much may go in, and what goes first."""

    #: The provider's tokens for the whole prompt.
    budget: int
    #: Index of the first candidate of the fresh tail (`model.context.fresh_tail_start`).
    tail_start: int
    #: Estimated tokens of what is always there (system text, pins, focus brief); not to vary between turns.
    reserved: int = 0
    #: The provider's tokens per estimated token, as learned from its usage reports.
    factor: float = 1.0
    #: Order by relevance instead of age; the stable prefix is given up for it.
    is_prompt_aware: bool = False
    step_share: float = 0.10
    #: A summary up to this share of the budget is kept first if it covers most.
    widest_share: float = 0.15
    #: How many of the newest messages of a turn that is over budget stay verbatim.
    verbatim_in_turn: int = 8
    #: What the one line for the oldest steps of such a turn takes at most.
    run_tokens: int = 128
    #: The weight of older items that are out already, before the first candidate.
    border: int = 0
    #: Whether the tail before the newest turn stays while summaries go, as where it has no cap; else they stay longer.
    keeps_tail: bool = True
    #: What the line that says what is left out takes at most, once something is.
    notice_tokens: int = 0

    @property
    def capacity(self) -> int:
        """The budget in estimated tokens; the factor counts in steps of 5 %, so that learning is not felt."""
        return int(self.budget * 20 / max(1, math.ceil(round(self.factor * 20, 6))))

    @property
    def limit(self) -> int:
        """What the candidates may take together."""
        return max(0, self.capacity - self.reserved)

    @property
    def step(self) -> int:
        return max(1, int(self.capacity * self.step_share))

    @property
    def lengths(self) -> tuple[int, ...]:
        """What a message that is shown in part may take: half of all there is, or a quarter, and so on.

        They follow from the budget alone, so that a message reads the same from turn to turn.
        """
        halves = (self.capacity >> n for n in range(1, 24))
        return tuple(length for length in halves if length >= SHORTEST) or (SHORTEST,)
