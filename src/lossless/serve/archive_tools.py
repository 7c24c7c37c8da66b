"""The recall tools over one archive for MCP; the archive is opened on the first call."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lossless.errors import ArchiveDenied, LosslessError, NoArchive, NotFound
from lossless.model.paths import expand_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lossless.engine import Engine
    from lossless.recall.calls import ToolCallResult
    from lossless.recall.scope import Caller
    from lossless.recall.tools import Tool
    from lossless.settings import Settings

_FIND_IDS = "lcm_grep and lcm_recall show the ids that there are."


def open_existing(path: str, settings: Settings) -> Engine:
    """An engine on an existing archive, read-only where it is not writable. Nothing is created.

    `NoArchive` when nothing was ever stored there, also for an empty file.
    """
    from lossless.engine import open_engine

    try:
        found = expand_path(path).stat()
    except FileNotFoundError:
        raise NoArchive(path) from None
    except OSError:  # opening reports what is wrong
        return open_engine(path, settings, background=False)
    if not found.st_size:
        raise NoArchive(path)
    try:
        return open_engine(path, settings, background=False)
    except ArchiveDenied:
        return open_engine(path, settings, read_only=True)


class ArchiveTools:
    """The tools over one archive, for one session or for all. Thread-safe."""

    def __init__(self, open_engine: Callable[[], Engine], session_key: str | None = None) -> None:
        """`open_engine` is called on the first question; its error is the answer, and it is retried next time."""
        self.session_key = session_key
        self._open = open_engine
        self._engine: Engine | None = None
        self._lock = threading.Lock()

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        """The engine on the archive, kept open for the next call.

        A read-only engine is opened per call: an open one may not see other processes' writes.
        """
        with self._lock:
            engine = self._open() if self._engine is None else self._engine
            if not engine.browse.read_only:
                self._engine = engine
        try:
            yield engine
        finally:
            if engine.browse.read_only:
                engine.close()

    @property
    def caller(self) -> Caller:
        """The caller: the configured session, or one with access to everything."""
        from lossless.model.conversations import Session
        from lossless.recall.scope import Caller

        return Caller(Session(key=self.session_key) if self.session_key else None)

    def call(self, name: str, args: dict[str, Any] | None = None) -> ToolCallResult:
        """Call a tool; errors are results, too. Without a session, all conversations are searched.

        An empty or missing archive is a normal result, not a failure.
        """
        from lossless.recall.calls import ToolCallResult, error_result
        from lossless.recall.tools import read_arguments

        tool = tool_table().get(name)
        if tool is None:
            return error_result(f"there is no tool {name!r:.60}", hint=f"There are {', '.join(tool_table())}.")
        caller, given = self.caller, dict(args or {})
        if self.session_key is None and given.get("conversationId") is None and _takes_all(tool):
            given["allConversations"] = True
        try:
            with self.engine() as engine:
                return tool.function(engine.tools, read_arguments(tool.parameters, given), caller)
        except NoArchive as error:
            return ToolCallResult(f"Nothing is stored yet; {error}.", {"kept": False})
        except LosslessError as error:
            return _refusal(error, caller, everywhere=given.get("allConversations") is True)

    def close(self) -> None:
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()


def tool_table() -> dict[str, Tool]:
    from lossless.recall.tools import TOOLS_BY_NAME

    return TOOLS_BY_NAME


def _takes_all(tool: Tool) -> bool:
    return any(parameter.name == "allConversations" for parameter in tool.parameters)


def _refusal(error: LosslessError, caller: Caller, *, everywhere: bool) -> ToolCallResult:
    """One of our errors as a result; a caller that already searched everything gets no hint to search further."""
    from lossless.recall.calls import error_result, error_to_result
    from lossless.recall.scope import OUT_OF_SCOPE

    if everywhere and isinstance(error, NotFound) and error.kind == OUT_OF_SCOPE:
        return error_result(f"Not found in any conversation: {error.id}", hint=_FIND_IDS, code=error.code)
    return error_to_result(error, caller)
