"""How much of a model's window is the conversation's: one number that folding and assembling share."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Less than one in so many parts of a window is no room for a conversation.
LEAST_SHARE = 16
#: The factor counts in steps of one in so many parts, so that a little learning is not felt.
_FACTOR_STEPS = 20


@dataclass(frozen=True, slots=True)
class HistoryBudget:
    """What is known about a window; `tokens` is what of it the conversation may take, by our estimate."""

    #: Tokens that the host or the caller gives to the whole prompt, by the provider's count.
    window: int
    #: What is sent beside the conversation (system prompt, tools), by our estimate.
    beside: int = 0
    #: What the provider's count says is sent beyond the conversation and `beside`.
    frame: int = 0
    #: What is kept for the reply, by the provider's count.
    reply: int = 0
    #: The provider's tokens per estimated token.
    factor: float = 1.0

    @property
    def left(self) -> int:
        """The estimated tokens that are left for the conversation; negative when the rest takes more than all."""
        steps = max(1, math.ceil(round(self.factor * _FACTOR_STEPS, 6)))
        return int((self.window - self.reply - self.frame) * _FACTOR_STEPS / steps) - self.beside

    @property
    def least(self) -> int:
        """The conversation gets so much whatever else is sent."""
        return max(1, self.window // LEAST_SHARE)

    @property
    def tokens(self) -> int:
        """The history budget: the whole window where nothing else is known."""
        return max(self.left, self.least)

    @property
    def over(self) -> int:
        """By how many tokens the rest of the prompt takes more than there is."""
        return self.tokens - self.left

    @property
    def why_over(self) -> str:
        """What takes the room, when there is not even the least; else empty."""
        if not self.over:
            return ""
        beside = self.beside + self.frame
        return (
            f"tools and system prompt take {beside:,} and the reply is given {self.reply:,} of {self.window:,} tokens"
        )

    def __str__(self) -> str:
        return (
            f"{self.tokens:,} of {self.window:,} (beside {self.beside + self.frame:,}, reply {self.reply:,}, "
            f"factor {self.factor:.2f})"
        )

    def in_history(self, tokens: int) -> int:
        """What a whole prompt of so many tokens, by the provider's count, leaves to the conversation; at least 1."""
        return max(1, HistoryBudget(tokens, self.beside, self.frame, 0, self.factor).left)


def held(known: HistoryBudget | None, fresh: HistoryBudget, size: int, threshold: float) -> HistoryBudget:
    """The budget that holds for a context of this size: the known one until a fold is due, or it is exceeded.

    So what is learned between two folds changes no prompt; another window counts at once.
    """
    if known is None or known.window != fresh.window:
        return fresh
    return fresh if size > min(fresh.tokens, int(threshold * known.tokens)) else known


@dataclass(frozen=True, slots=True)
class Kept:
    """What is remembered of a conversation's prompts: the budget that holds, and what providers have counted."""

    budget: HistoryBudget
    #: The newest that is known of what is sent beyond what we count, and in a prompt of which size that was seen.
    frame: int = 0
    frame_at: int | None = None
    #: The most tokens that a reply has taken.
    longest_reply: int = 0


def counted_frame(kept: Kept, sent: int, ratio: float | None, reported: int) -> Kept:
    """What a provider's count says about all that is not in the conversation.

    `sent` tokens by our estimate, `beside` included, were `reported`; `ratio` is what is known of its tokenizer. A
    small conversation tells the frame best; without a ratio, or when the window was exceeded, every prompt counts.
    """
    surplus = max(0, reported - int((ratio or 1.0) * sent))
    history = sent - kept.budget.beside
    tells = history <= reported // 4 and (kept.frame_at is None or history <= kept.frame_at)
    if ratio is None or tells or reported > kept.budget.window:
        return Kept(kept.budget, surplus, history, kept.longest_reply)
    return Kept(kept.budget, min(kept.frame, surplus), kept.frame_at, kept.longest_reply)
