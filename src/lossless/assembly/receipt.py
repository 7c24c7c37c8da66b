"""The receipt of a prompt: what is in it, what is not and why, and how the budget was shared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.assembly.candidates import NOTHING_STANDS_FOR
from lossless.assembly.plan import SHARE_TARGETS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lossless.assembly.candidates import Policy
    from lossless.assembly.plan import Chosen
    from lossless.assembly.validate import Repair
    from lossless.model.history import HistoryBudget

#: What stands in a prompt beside the context, and how many of its pieces are named when it is too large.
_BESIDE = ("pins and focus", "cue")
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was assembled. Tokens are estimates; times `factor` they are the provider's."""

    budget: int
    factor: float
    #: Estimated tokens that were there to give, and that were used.
    capacity: int
    tokens: int
    #: Ids in the prompt's order with the form in which they stand.
    included: tuple[tuple[str, str], ...]
    #: Ids that stayed out, with the reason.
    left_out: tuple[tuple[str, str], ...]
    tokens_by_kind: Mapping[str, int]
    #: Lane → share of what there was to give; see `SHARE_TARGETS` for what is aimed at.
    shares: Mapping[str, float]
    repairs: tuple[Repair, ...] = ()
    #: The tokens of each item that is included, in the form in which it stands.
    sizes: tuple[int, ...] = ()
    #: What `capacity` was computed from; None where nobody said.
    history: HistoryBudget | None = None
    #: Older messages that were not even read, as no summary covers them and they cannot fit.
    unread: int = 0
    #: Summaries that are followed by a line about what changed below them since they were written.
    corrected: tuple[str, ...] = ()

    @property
    def history_budget(self) -> int:
        """What of the window is the conversation's, in estimated tokens."""
        return self.capacity if self.history is None else self.history.tokens

    @property
    def unstated(self) -> int:
        """How many items are left out with nothing standing for them; a line in the prompt says so."""
        return self.unread + sum(reason in NOTHING_STANDS_FOR for _, reason in self.left_out)

    @property
    def fits(self) -> bool:
        return self.tokens <= self.capacity

    @property
    def over(self) -> int:
        """By how many tokens the prompt is larger than it may be."""
        return max(0, self.tokens - self.capacity)

    @property
    def shortened(self) -> tuple[str, ...]:
        """Ids of messages that are shown in part, or as a reference to their file, to make room."""
        return tuple(id for id, form in self.included if form in ("shortened", "reference"))

    @property
    def why_over(self) -> str:
        """Why the prompt is larger than it may be; empty when it is not."""
        if self.fits:
            return ""
        sizes = [*zip((id for id, _ in self.included), self.sizes, strict=False)]
        sizes += [(kind, tokens) for kind, tokens in self.tokens_by_kind.items() if kind in _BESIDE]
        largest = sorted(sizes, key=lambda size: -size[1])[:_NAMED]
        named = ", ".join(f"{id} takes {tokens:,}" for id, tokens in largest)
        return f"{self.tokens:,} tokens where {self.capacity:,} fit, and nothing else can go or be shortened: {named}"

    def __str__(self) -> str:
        lines = [f"{self.tokens:,} of {self.capacity:,} tokens{'' if self.fits else ' (over budget)'}"]
        for lane, share in self.shares.items():
            low, high = SHARE_TARGETS.get(lane, (0.0, 0.0))
            aim = f" (aim {low:.0%} to {high:.0%})" if high else ""
            lines.append(f"  {lane}: {share:.1%}{aim}")
        lines += [f"  {kind}: {tokens:,} tokens" for kind, tokens in self.tokens_by_kind.items()]
        if self.history is not None and self.history.tokens != self.history.window:
            lines.append(f"  history budget: {self.history}")
        lines += [f"  left out {self.unread:,} older messages: over budget"] if self.unread else []
        lines += [f"  shown in part {id}" for id in self.shortened]
        lines += [f"  corrected {id}" for id in self.corrected]
        lines += [f"  left out {id}: {reason}" for id, reason in self.left_out]
        lines += [f"  repaired: {repair.what} ({repair.count})" for repair in self.repairs]
        return "\n".join(lines)


def receipt(
    chosen: Chosen,
    policy: Policy,
    *,
    extras: Mapping[str, int] | None = None,
    left_out: Sequence[tuple[str, str]] = (),
    repairs: Sequence[Repair] = (),
    history: HistoryBudget | None = None,
    unread: int = 0,
    corrected: Sequence[str] = (),
) -> Receipt:
    """The receipt for a choice; `extras` are tokens by kind beside it (pins, focus, cue, policy)."""
    shown = {kept.candidate.id for kept in chosen.kept}
    beside = {kind: tokens for kind, tokens in (extras or {}).items() if tokens}
    return Receipt(
        budget=policy.budget if history is None else history.window,
        factor=policy.factor if history is None else history.factor,
        capacity=policy.capacity,
        tokens=chosen.tokens + sum(beside.values()),
        included=tuple((kept.candidate.id, kept.form) for kept in chosen.kept),
        left_out=(*((out.candidate.id, out.reason) for out in chosen.left_out), *left_out),
        tokens_by_kind={**chosen.tokens_by_kind, **beside},
        shares=chosen.shares,
        repairs=tuple(repairs),
        sizes=tuple(kept.tokens for kept in chosen.kept),
        history=history,
        unread=unread,
        corrected=tuple(id_ for id_ in corrected if id_ in shown),
    )
