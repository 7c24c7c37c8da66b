"""What of a model's window is left for a conversation, once all that is sent beside it has its place."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lossless.assembly.policy_text import RECALL_POLICY
from lossless.model.budget import budget_tokens
from lossless.model.tokens import estimate_tokens
from lossless.recall.tools import openai_tools

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Less than one in so many parts of a window is no room for a conversation.
_LEAST_SHARE = 16
#: Where there is no room, the reply is thought to get all but one in so many parts, whatever the request says.
_REPLY_LEAVES = 4


@dataclass(frozen=True, slots=True)
class Room:
    """What the conversation gets, and by how much that is more than there is."""

    budget: int
    over: int = 0
    why_over: str = ""


def room(window: int, reply: int = 0, beside: int = 0) -> Room:
    """The room in a window beside the reply and all else that is sent: tools, and what is not in the messages."""
    left, least = window - reply - beside, max(1, window // _LEAST_SHARE)
    if left >= least:
        return Room(left)
    budget = max(window - min(reply, window - window // _REPLY_LEAVES) - beside, least)
    why = f"tools and system prompt take {beside:,} and the reply may take {reply:,} of {window:,} tokens"
    return Room(budget, budget - left, why)


def beside_tokens(system: str | None = None, tools: Iterable[Any] = ()) -> int:
    """What a system prompt and the definitions of tools take; a definition is whatever is sent of it, as JSON."""
    defined = list(tools)
    size = _tokens(json.dumps(defined, ensure_ascii=False, default=str)) if defined else 0
    return size + _tokens(system or "")


@lru_cache(maxsize=64)
def _tokens(text: str) -> int:
    """What a text takes; the same ones are sent with every request."""
    return max(estimate_tokens(text), budget_tokens(text))


def recall_tokens(*, policy: bool = True) -> int:
    """What the recall tools take, and the policy that tells how to use them."""
    return beside_tokens(RECALL_POLICY if policy else "", openai_tools())
