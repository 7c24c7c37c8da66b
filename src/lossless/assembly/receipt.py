"""The receipt of a prompt: what is in it, what is not and why, and how the budget was shared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.assembly.plan import SHARE_TARGETS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lossless.assembly.candidates import Policy
    from lossless.assembly.plan import Chosen
    from lossless.assembly.validate import Repair


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

    @property
    def fits(self) -> bool:
        return self.tokens <= self.capacity

    def __str__(self) -> str:
        lines = [f"{self.tokens:,} of {self.capacity:,} tokens{'' if self.fits else ' (over budget)'}"]
        for lane, share in self.shares.items():
            low, high = SHARE_TARGETS.get(lane, (0.0, 0.0))
            aim = f" (aim {low:.0%} to {high:.0%})" if high else ""
            lines.append(f"  {lane}: {share:.1%}{aim}")
        lines += [f"  {kind}: {tokens:,} tokens" for kind, tokens in self.tokens_by_kind.items()]
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
) -> Receipt:
    """The receipt for a choice; `extras` are tokens by kind beside it (pins, focus, cue, policy)."""
    beside = {kind: tokens for kind, tokens in (extras or {}).items() if tokens}
    return Receipt(
        budget=policy.budget,
        factor=policy.factor,
        capacity=policy.capacity,
        tokens=chosen.tokens + sum(beside.values()),
        included=tuple((kept.candidate.id, kept.form) for kept in chosen.kept),
        left_out=(*((out.candidate.id, out.reason) for out in chosen.left_out), *left_out),
        tokens_by_kind={**chosen.tokens_by_kind, **beside},
        shares=chosen.shares,
        repairs=tuple(repairs),
        sizes=tuple(kept.tokens for kept in chosen.kept),
    )
