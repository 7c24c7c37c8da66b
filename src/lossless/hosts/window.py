"""A framework's own messages through the archive and back: each one is carried inside the message it became."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput, NotFound
from lossless.exchange.dialect import CARRIED
from lossless.model.conversations import Session
from lossless.model.tokens import estimate_tokens
from lossless.recall.tools import TOOLS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.engine import Engine
    from lossless.model.messages import Message
    from lossless.recall.tools import Tool

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Windows:
    """Syncs windows of one framework's messages and gives back what a model shall see."""

    engine: Engine
    #: The framework; of what others have stored in the same session, only the words are read.
    kind: str
    #: Tokens that a prompt may have; else the setting `defaultTokenBudget`.
    budget: int | None = None

    def __post_init__(self) -> None:
        checked_budget(self.budget)

    def fit(self, session: Session, window: Sequence[Raw]) -> tuple[Message, ...] | None:
        """Store what the window adds, and the messages to send instead of it; None when it is sent as it is."""
        report = self.engine.after_turn(session, window=window, budget=self.budget).append
        if report.conversation_id is None or report.blocked is not None:
            return None
        try:
            made = self.engine.assemble(session, budget=self.budget, allow_trailing_assistant=True)
        except NotFound:
            return None
        is_whole = len(made.parts) == len(window) and all(self.own(message) is not None for message in made.parts)
        return None if is_whole else made.parts

    def turn(self, session: Session, window: Sequence[Raw], prompt_tokens: int | None = None) -> None:
        """Store a window that ends with a reply, and see whether it is time to fold."""
        self.engine.after_turn(session, window=window, budget=self.budget, observed_tokens=prompt_tokens or None)

    def carrying(self, chat: Raw, own: Any) -> Raw:
        """A chat message that carries what it came from."""
        return chat | {CARRIED: {self.kind: own}}

    def own(self, message: Message) -> Any:
        """What a message carries of this framework; None for what we wrote, and for what came another way."""
        return None if message.body is None else (message.body.get(CARRIED) or {}).get(self.kind)  # type: ignore[union-attr]

    def call(self, session: Session | None, name: str, args: Any) -> str:
        """Use a recall tool."""
        return self.engine.call_tool(name, args, session=session).text

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The recall tools, to be declared in the framework's way."""
        return TOOLS


def checked_budget(budget: Any, name: str = "budget") -> Any:
    """A number of tokens, or None; raises BadInput for anything else."""
    if budget is not None and (not isinstance(budget, int) or isinstance(budget, bool) or budget <= 0):
        raise BadInput(f"{name} is a number of tokens above 0, or None for the setting's, not {budget!r}")
    return budget


def tokens_of(messages: Sequence[Any]) -> int:
    """About how many tokens messages are on the wire."""
    return estimate_tokens(json.dumps(messages, ensure_ascii=False, default=str))


def named(name: Any, what: str) -> Session:
    """The session of this name; without one, BadInput says where it belongs."""
    if name is None or not str(name).strip():
        raise BadInput(f"nothing says which session this is: pass {what}")
    return Session(key=str(name))


def spoken(content: Any) -> str:
    """Words for whatever a framework puts into a message."""
    if isinstance(content, str):
        return content
    pieces = content if isinstance(content, list | tuple) else [content]
    return "\n".join(str(piece.get("text", piece) if isinstance(piece, dict) else piece) for piece in pieces)
