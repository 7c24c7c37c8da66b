"""A framework's own messages through the archive and back: each one is carried inside the message it became."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lossless.errors import NotFound
from lossless.recall.tools import TOOLS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.engine import Engine
    from lossless.model.conversations import Session
    from lossless.model.messages import Message
    from lossless.recall.tools import Tool

Raw = dict[str, Any]
#: Under this name a message carries the framework's own, which comes back as it was.
CARRIED = "carried"


@dataclass(frozen=True, slots=True)
class Windows:
    """Syncs windows of chat messages and gives back what a model shall see."""

    engine: Engine
    #: Tokens that a prompt may have; else the setting `defaultTokenBudget`.
    budget: int | None = None

    def fit(self, session: Session, window: Sequence[Raw]) -> tuple[Message, ...] | None:
        """Store what the window adds, and the messages to send instead of it; None when it is sent as it is."""
        report = self.engine.after_turn(session, window=window, budget=self.budget).append
        if report.conversation_id is None or report.blocked is not None:
            return None
        try:
            made = self.engine.assemble(session, budget=self.budget, allow_trailing_assistant=True)
        except NotFound:
            return None
        is_whole = len(made.parts) == len(window) and all(carried(message) is not None for message in made.parts)
        return None if is_whole else made.parts

    def turn(self, session: Session, window: Sequence[Raw], prompt_tokens: int | None = None) -> None:
        """Store a window that ends with a reply, and see whether it is time to fold."""
        self.engine.after_turn(session, window=window, budget=self.budget, observed_tokens=prompt_tokens or None)

    def call(self, session: Session | None, name: str, args: Any) -> str:
        """Use a recall tool."""
        return self.engine.call_tool(name, args, session=session).text

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The recall tools, to be declared in the framework's way."""
        return TOOLS


def carried(message: Message) -> Any:
    """What a message carries; None for one that we wrote."""
    return None if message.body is None else message.body.get(CARRIED)


def spoken(content: Any) -> str:
    """Words for whatever a framework puts into a message."""
    if isinstance(content, str):
        return content
    pieces = content if isinstance(content, list | tuple) else [content]
    return "\n".join(str(piece.get("text", piece) if isinstance(piece, dict) else piece) for piece in pieces)
