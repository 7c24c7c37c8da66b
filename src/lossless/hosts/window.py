"""A framework's own messages through the archive and back: each one is carried inside the message it became."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput, NotFound
from lossless.exchange.dialect import CARRIED
from lossless.exchange.fitting import window_tokens, with_newest_whole
from lossless.model.conversations import Session
from lossless.model.tokens import estimate_tokens
from lossless.recall.tools import TOOLS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.assembly.run import Assembled
    from lossless.engine import Engine
    from lossless.model.messages import Message
    from lossless.recall.tools import Tool

Raw = dict[str, Any]
#: How the ids of messages begin in a receipt.
_MESSAGE = "msg#"


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
        assemble = partial(self._assemble, session)
        try:
            made = assemble(self.budget)
        except NotFound:
            return None
        is_whole = len(made.parts) == len(window) and all(self.own(message) is not None for message in made.parts)
        if is_whole and window_tokens(window) <= made.receipt.capacity:
            return None
        made = with_newest_whole(self.engine, report.conversation_id, made, "openai-chat", assemble).made
        return self._kept_together(self._with_references(made))

    def turn(self, session: Session, window: Sequence[Raw], prompt_tokens: int | None = None) -> None:
        """Store a window that ends with a reply, and see whether it is time to fold."""
        self.engine.after_turn(session, window=window, budget=self.budget, observed_tokens=prompt_tokens or None)

    def carrying(self, chat: Raw, own: Any) -> Raw:
        """A chat message that carries what it came from."""
        return chat | {CARRIED: {self.kind: own}}

    def own(self, message: Message) -> Any:
        """What a message carries of this framework; None for what we wrote, and for what came another way."""
        return None if message.body is None else (message.body.get(CARRIED) or {}).get(self.kind)  # type: ignore[union-attr]

    def _assemble(self, session: Session, budget: int | None) -> Assembled:
        return self.engine.assemble(session, budget=budget, allow_trailing_assistant=True)

    def _with_references(self, made: Assembled) -> list[Message]:
        """The messages; one that a file stands in does not carry the framework's own, which is as large as ever."""
        archive = self.engine.archive
        ids = [int(id_.removeprefix(_MESSAGE)) for id_, _ in made.receipt.included if id_.startswith(_MESSAGE)]
        with archive.reading():
            filed = archive.messages.many(list(archive.files.recipes(ids)), exact=False)
        references = {stored.message.content for stored in filed}
        return [replace(one, body=None) if one.content in references else one for one in made.parts]

    def _kept_together(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Messages that came as one carry it only while none of them has changed: else each stands for itself."""
        made: list[Message] = []
        for run in _runs(messages):
            own = [self.own(message) for message in run]
            is_broken = None in own and {} in own
            made += [replace(message, body=None) if is_broken else message for message in run]
        return tuple(made)

    def call(self, session: Session | None, name: str, args: Any) -> str:
        """Use a recall tool."""
        return self.engine.call_tool(name, args, session=session).text

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The recall tools, to be declared in the framework's way."""
        return TOOLS


def _runs(messages: Sequence[Message]) -> list[list[Message]]:
    """Messages by what may have come as one: the results of tools that follow each other, and what follows them."""
    runs: list[list[Message]] = []
    for message in messages:
        goes_on = bool(runs) and bool(runs[-1][-1].tool_results) and message.role in ("tool", "user")
        runs[-1].append(message) if goes_on else runs.append([message])
    return runs


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
