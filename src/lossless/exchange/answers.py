"""What a recall tool answers, no longer than a model has room for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lossless.assembly.shorten import short_text
from lossless.model.tokens import estimate_tokens
from lossless.recall.tools import TOOLS

if TYPE_CHECKING:
    from lossless.engine import Engine
    from lossless.model.conversations import Session
    from lossless.recall.calls import ToolResult

#: The arguments that say how much a tool may return.
_CAPS = ("tokenCap", "maxTokens")
_CAPPED = {tool.name: cap for tool in TOOLS for cap in _CAPS if cap in tool.schema["properties"]}
#: What stands around the words that a tool returns, in tokens.
_AROUND = 200


def recalled(engine: Engine, session: Session | None, name: str, args: Any, most: int) -> str:
    """The answer of a recall tool in at most about `most` tokens: with a cursor where the tool has pages."""
    return answer(engine, session, name, args, most).text


def answer(engine: Engine, session: Session | None, name: str, args: Any, most: int) -> ToolResult:
    """The same with what programs want to know of it."""
    if (cap := _CAPPED.get(name)) is not None and isinstance(args, dict):
        asked = args.get(cap)
        if not isinstance(asked, int) or asked > most - _AROUND:
            args = args | {cap: max(most - _AROUND, 1)}
    found = engine.tools.run(name, args, session=session)
    is_short = estimate_tokens(found.text) <= most
    return found if is_short else replace(found, text=short_text(found.text, most))
