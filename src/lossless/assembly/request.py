"""What a host asks for when it wants a prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import tzinfo

    from lossless.model.history import HistoryBudget
    from lossless.model.messages import ModelIdentity


@dataclass(frozen=True, slots=True)
class Request:
    """What a host asks for."""

    budget: int
    format: str = "openai-chat"
    prompt: str | None = None
    fresh_tail_count: int = 64
    fresh_tail_max_tokens: int | None = None
    prompt_aware: bool = False
    #: Replace old tool results that lie in files by stubs.
    stub_payloads: bool = False
    #: The provider's tokens per estimated token.
    factor: float = 1.0
    timezone: tzinfo | None = None
    #: The model that will read the prompt; only its own thinking is replayed to it.
    model: ModelIdentity | None = None
    allow_trailing_assistant: bool = False
    #: Whether to quote what the prompt names and the context does not show.
    cue: bool = True
    #: Whether the model has the recall tools, so that texts may point to them.
    recall: bool = True
    #: What the budget was computed from.
    history: HistoryBudget | None = None
