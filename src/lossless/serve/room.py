"""A reading room: an archive that is opened when the first question comes, and who asks in it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from lossless.errors import LosslessError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.engine import Engine
    from lossless.recall.calls import ToolResult
    from lossless.recall.scope import Caller
    from lossless.recall.tools import Tool


class ReadingRoom:
    """The tools over one archive, for one session or for all. Safe to share between threads."""

    def __init__(self, open_engine: Callable[[], Engine], session_key: str | None = None) -> None:
        """`open_engine` is called with the first question; what it raises is the answer, and it is tried again."""
        self.session_key = session_key
        self._open = open_engine
        self._engine: Engine | None = None
        self._lock = threading.Lock()

    @property
    def engine(self) -> Engine:
        """The engine on the archive."""
        with self._lock:
            if self._engine is None:
                self._engine = self._open()
            return self._engine

    @property
    def caller(self) -> Caller:
        """Who asks: the session that the room is for, or somebody who may look at everything."""
        from lossless.model.conversations import Session
        from lossless.recall.scope import Caller

        return Caller(Session(key=self.session_key) if self.session_key else None)

    def call(self, name: str, args: dict[str, Any] | None = None) -> ToolResult:
        """Use a tool; whatever is wrong is a result, too. Without a session, all conversations are looked at."""
        from lossless.recall.arguments import read_arguments
        from lossless.recall.calls import error_result, refusal

        tool = tools().get(name)
        if tool is None:
            return error_result(f"there is no tool {name!r:.60}", hint=f"There are {', '.join(tools())}.")
        caller, given = self.caller, dict(args or {})
        if self.session_key is None and given.get("conversationId") is None and _takes_all(tool):
            given["allConversations"] = True
        try:
            return tool.function(self.engine.toolbox, read_arguments(tool.parameters, given), caller)
        except LosslessError as error:
            return refusal(error, caller)

    def close(self) -> None:
        """Let go of the archive, if it was opened."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()


def tools() -> dict[str, Tool]:
    """What agents may call through a door: the whole tool table."""
    from lossless.recall.tools import BY_NAME

    return BY_NAME


def _takes_all(tool: Tool) -> bool:
    return any(parameter.name == "allConversations" for parameter in tool.parameters)
