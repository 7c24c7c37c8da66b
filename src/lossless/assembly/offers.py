"""What the items of a context would take in a prompt, whole and in each shorter form that they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.assembly import stubs
from lossless.assembly.atoms import atoms, unanswered
from lossless.assembly.candidates import SHORTEST, Candidate
from lossless.assembly.material import weight
from lossless.assembly.relevance import relevance
from lossless.assembly.wire import sent, sent_tokens
from lossless.model.context import MessageItem, framed, newest_user_index

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lossless.assembly.candidates import Policy
    from lossless.assembly.material import Material
    from lossless.assembly.request import Request
    from lossless.model.context import ContextItem
    from lossless.model.messages import Message


@dataclass(frozen=True, slots=True)
class Offers:
    """Makes candidates of items. Shorter forms are measured only where they may be needed."""

    material: Material
    request: Request
    policy: Policy

    def candidates(
        self, items: Sequence[ContextItem], rendered: Mapping[int, Message], sizes: Sequence[int] | None = None
    ) -> list[Candidate]:
        """The candidates for `items`, by their true sizes when these are known."""
        request, messages = self.request, [rendered[item.ordinal] for item in items]
        groups, open_at = atoms(messages), unanswered(messages)
        scores: Sequence[float] = [0.0] * len(items)
        if request.prompt_aware and request.prompt:
            scores = relevance(request.prompt, [message.content for message in messages])
        if sizes is None:
            pairs = zip(items, messages, strict=True)
            sizes = [framed(self.material.estimate(item, message)) for item, message in pairs]
        user = newest_user_index(items) or 0
        is_long_turn = 2 * sum(sizes[user:]) > self.policy.capacity
        newest = len(items) - self.policy.verbatim_in_turn
        found = []
        for n, item in enumerate(items):
            in_turn = is_long_turn and n >= user
            may_be_cut = (in_turn and (n == user or n >= newest or n in open_at)) or 2 * sizes[n] > self.policy.limit
            is_message = isinstance(item, MessageItem)
            found.append(
                Candidate(
                    item,
                    sizes[n],
                    weight(item),
                    covers_messages=self.material.covered(item),
                    score=scores[n],
                    atom=groups[n],
                    stub_tokens=self._stub(item, messages[n]) if in_turn else None,
                    least_tokens=self._least(item, messages[n], sizes[n]) if may_be_cut and is_message else None,
                    reference_tokens=self._reference(item) if may_be_cut and is_message else None,
                    is_unanswered=n in open_at,
                    form="reference" if self._is_reference(item) else "verbatim",
                )
            )
        return found

    def _stub(self, item: ContextItem, message: Message) -> int | None:
        if not isinstance(item, MessageItem) or not message.tool_results:
            return None
        return sent(
            stubs.stub_results(message, item.message_id, recall=self.request.recall), self.request.format
        ).tokens

    def _least(self, item: ContextItem, message: Message, size: int) -> int | None:
        assert isinstance(item, MessageItem)
        least = self.material.least(item, message, self.request, SHORTEST)
        tokens = self._sent(least)
        return tokens if tokens < size else None

    def _reference(self, item: ContextItem) -> int | None:
        if not isinstance(item, MessageItem) or self.material.payloads.get(item.ordinal) is None:
            return None
        kept = self.material.exact(item, self.material.kept(item), self.request)
        return self._sent(kept)

    def _sent(self, message: Message) -> int:
        return sent_tokens(message, sent(message, self.request.format))

    def _is_reference(self, item: ContextItem) -> bool:
        """Whether it is in the newest turn, and has a payload that is too much."""
        payloads = self.material.payloads
        return item.ordinal in payloads and payloads[item.ordinal] is None
