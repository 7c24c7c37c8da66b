"""The recall tools over one archive for MCP; the archive is opened on the first call."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lossless.errors import ArchiveDenied, LosslessError, NoArchive, NotFound
from lossless.model.conversations import Session
from lossless.model.paths import expand_path
from lossless.recall.scope import OUT_OF_SCOPE, Caller
from lossless.recall.tools import TOOLS_BY_NAME, Tool, ToolCallResult, error_result, error_to_result, read_arguments

if TYPE_CHECKING:
    from lossless.engine import Engine
    from lossless.settings import Settings

#: What says where to look.
_PLACES = ("conversationId", "allConversations")
_RUNNING_NOTE = "(From the running session; allConversations=true looks at the others, too.)"
_FIND_IDS = "lcm_grep and lcm_recall show the ids that there are."


#: Where a host says which session it starts a server for, and in which folder it works.
_SESSION_VARIABLE, _FOLDER_VARIABLE = "CLAUDE_CODE_SESSION_ID", "CLAUDE_PROJECT_DIR"


def host_session(env: Mapping[str, str] = os.environ) -> Session:
    """The session of the host that started this process, as far as it tells; its folder is known in any case."""
    run = env.get(_SESSION_VARIABLE, "").strip()
    return Session(id=run or f"process-{os.getpid()}", project=env.get(_FOLDER_VARIABLE) or os.getcwd())


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

    def __init__(
        self, open_engine: Callable[[], Engine], session_key: str | None = None, host: Session | None = None
    ) -> None:
        """`open_engine` is called with the first question; what it raises is the answer, and it is tried again.

        `host` is the session that a host runs it for: it is looked at first, and where it has nothing, all others.
        """
        self.session_key, self.host = session_key, host
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
        """Who asks: the session that the tools are for, or the one that the host runs."""
        return Caller(Session(key=self.session_key) if self.session_key else self.host)

    def call(self, name: str, args: dict[str, Any] | None = None) -> ToolCallResult:
        """Use a tool; whatever is wrong is a result, too. Without a known session, all conversations are looked at.

        An empty or missing archive is a normal result, not a failure.
        """
        tool = TOOLS_BY_NAME.get(name)
        if tool is None:
            return error_result(f"there is no tool {name!r:.60}", hint=f"There are {', '.join(TOOLS_BY_NAME)}.")
        caller, given = self.caller, dict(args or {})
        takes_all = any(parameter.name == "allConversations" for parameter in tool.parameters)
        names_place = not takes_all or any(given.get(name) for name in _PLACES)
        try:
            with self.engine() as engine:
                if not names_place and self.session_key is None:
                    if self.host is not None and engine.browse.find(self.host) is not None:
                        result = _use(engine, tool, given, caller)
                        found = {"lcm_grep": "matches", "lcm_recall": "evidence"}.get(tool.name)
                        if not result.is_error and (found is None or result.details.get(found)):
                            return replace(result, text=f"{result.text}\n{_RUNNING_NOTE}")
                    given["allConversations"] = True
                return _use(engine, tool, given, caller)
        except NoArchive as error:
            return ToolCallResult(f"Nothing is stored yet; {error}.", {"kept": False})
        except LosslessError as error:
            return error_to_result(error, caller)

    def close(self) -> None:
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()


def _use(engine: Engine, tool: Tool, given: dict[str, Any], caller: Caller) -> ToolCallResult:
    """The result of a tool, or our error as one; who searched everything already gets no hint to search further."""
    try:
        return tool.function(engine.tools, read_arguments(tool.parameters, given), caller)
    except LosslessError as error:
        is_everywhere = given.get("allConversations") is True
        if is_everywhere and isinstance(error, NotFound) and error.kind == OUT_OF_SCOPE:
            return error_result(f"Not found in any conversation: {error.id}", hint=_FIND_IDS, code=error.code)
        return error_to_result(error, caller)
