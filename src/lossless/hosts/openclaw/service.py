"""The process that the plugin starts: the methods that it may call, their order, and the loop on standard input and
output.
"""

from __future__ import annotations

import io
import logging
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import IO, Any, TypeAlias

from lossless import __version__
from lossless.errors import BadInput
from lossless.hosts.openclaw import commands, context_engine, prompt
from lossless.hosts.openclaw.bridge import Bridge, host_model, run_subagent
from lossless.hosts.openclaw.rpc import HostError, Peer, PluginCall
from lossless.recall.delegate import DelegateError, DelegateTask
from lossless.recall.scope import Caller


def call_tool(bridge: Bridge, call: PluginCall) -> dict[str, Any]:
    """Use a tool. A question goes to a sub-agent where the host has some, else to a model."""
    name, args = call.text("name"), call.params.get("args")
    if name is None:
        raise BadInput("name must be a text")
    caller = Caller(call.session if call.lane else None, host_has_subagents=bridge.has_subagents)
    is_missing = False

    def delegate(task: DelegateTask) -> str | None:
        nonlocal is_missing
        done = run_subagent(bridge, task)
        is_missing = is_missing or bool(done.get("missing"))
        if done.get("error"):
            raise DelegateError(str(done["error"]), done.get("phase") or "wait")
        text = done.get("text")
        return text if isinstance(text, str) else None

    toolbox = bridge.engine.tools
    if bridge.has_subagents:
        toolbox = replace(toolbox, delegate=delegate)
    result = toolbox.call(name, args, caller)
    if is_missing:  # the host cannot send sub-agents from here: a model reads instead
        result = replace(toolbox, delegate=None).call(name, args, caller)
    return {"content": result.content, "details": result.details, "isError": result.is_error}


#: What both sides must agree on; a plugin of another version is told so when it begins.
PROTOCOL = 1

Method: TypeAlias = "Callable[[Bridge, PluginCall], dict[str, Any]]"

#: What stores something: one after the other within a session.
_STORING: dict[str, Method] = {
    "bootstrap": context_engine.bootstrap,
    "ingest": context_engine.ingest,
    "ingestBatch": context_engine.ingest_batch,
    "afterTurn": context_engine.after_turn,
    "commitTurn": context_engine.commit_turn,
    "hook.before_reset": context_engine.before_reset,
    "hook.session_end": context_engine.session_end,
}
#: What folds: one after the other within a session, in parallel to storing.
_FOLDING: dict[str, Method] = {"compact": context_engine.compact, "maintain": context_engine.maintain}
_FREE: dict[str, Method] = {
    "assemble": prompt.assemble,
    "prepareSubagentSpawn": context_engine.subagent_starts,
    "onSubagentEnded": context_engine.subagent_ended,
    "tool.call": call_tool,
    "command": commands.run_command,
    "control": commands.control,
    "hook.gateway_start": context_engine.gateway_start,
}
METHODS: dict[str, Method] = {**_STORING, **_FOLDING, **_FREE}


class Service:
    """Answers the plugin. The archive is opened when the plugin says which one it means."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._bridge: Bridge | None = None

    def answer(self, call: PluginCall) -> object:
        if call.method == "initialize":
            return self._initialize(call)
        if call.method == "shutdown":
            self.close()
            return {}
        if call.method == "ping":
            return {"messages": call.params.get("messages")}
        method = METHODS.get(call.method)
        if method is None:
            raise HostError(f"there is no method {call.method!r:.60}", code="not_found")
        if self._bridge is None:
            raise BadInput("initialize comes first")
        return method(self._bridge, call)

    @staticmethod
    def lane(call: PluginCall) -> str | None:
        """The lane that a call waits in, if it has to wait for others."""
        if call.method in _STORING:
            return f"store:{call.lane}"
        waits = call.method == "compact" or call.flag("allowDeferredCompactionExecution")
        return f"fold:{call.lane}" if call.method in _FOLDING and waits else None

    def close(self) -> None:
        bridge, self._bridge = self._bridge, None
        if bridge is not None:
            bridge.engine.close()

    def _initialize(self, call: PluginCall) -> dict[str, Any]:
        from lossless.context.render import RECALL_POLICY
        from lossless.engine import open_engine
        from lossless.settings.load import load

        spoken = call.params.get("protocol")
        if spoken != PROTOCOL:
            raise BadInput(
                f"the plugin speaks version {spoken!r} of the protocol and lossless {__version__} version {PROTOCOL}: "
                "install the plugin and the Python package of one version (`lcm connect openclaw`)"
            )
        config = call.params.get("config")
        loaded = load(config if isinstance(config, dict) else {})
        if self._bridge is None:
            can = call.params.get("capabilities")
            can = can if isinstance(can, dict) else {}
            complete = host_model(self._peer, loaded.settings) if can.get("llm") is True else None
            engine, has_subagents = open_engine(None, loaded.settings, complete), can.get("subagents") is True
            host, folder = call.text("host") or "", call.text("stateDir")
            adds_policy = can.get("promptHook") is not False
            self._bridge = Bridge(engine, self._peer, host, has_subagents, folder, adds_policy)
        settings = self._bridge.engine.settings
        return {
            "protocol": PROTOCOL,
            "version": __version__,
            "python": platform.python_version(),
            "databasePath": self._bridge.engine.browse.path,
            "enabled": settings.enabled,
            "policy": RECALL_POLICY,
            "warnings": [str(notice) for notice in loaded.warnings],
        }


#: What calls that still run may take when the plugin hangs up.
_LAST_SECONDS = 2.0


def main() -> int:
    """Serve until the plugin hangs up. Whatever else is printed goes to standard error: standard output is taken."""
    reader, writer = take_pipes()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
    serve(reader, writer)
    return 0


def serve(reader: IO[bytes], writer: IO[bytes]) -> None:
    """Serve one plugin, then close the archive."""
    peer = Peer(reader, writer)
    service = Service(peer)
    try:
        peer.serve(service.answer, service.lane)
    finally:
        peer.settle(_LAST_SECONDS)
        service.close()


def take_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Standard input and output, taken away from everything else in this process."""
    sys.stdout.flush()
    writer = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdout = io.TextIOWrapper(os.fdopen(os.dup(sys.stderr.fileno()), "wb"), errors="backslashreplace")
    return sys.stdin.buffer, writer
