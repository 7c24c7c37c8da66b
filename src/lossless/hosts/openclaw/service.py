"""The methods that the plugin may call, and the order in which they run."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless import __version__
from lossless.errors import BadInput
from lossless.hosts.openclaw import commands, folding, prompt, recalling, status, turns
from lossless.hosts.openclaw.bridge import Bridge, Host
from lossless.hosts.openclaw.model import AskModel
from lossless.hosts.openclaw.peer import NoMethod
from lossless.hosts.openclaw.reading import lane_of, words

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.engine import Engine
    from lossless.hosts.openclaw.calls import Call
    from lossless.hosts.openclaw.peer import Peer

#: What both sides must agree on; a plugin of another version is told so when it begins.
PROTOCOL = 1

Method: TypeAlias = "Callable[[Bridge, Call], dict[str, Any]]"

#: What stores something: one after the other within a session.
_STORING: dict[str, Method] = {
    "bootstrap": turns.bootstrap,
    "ingest": turns.ingest,
    "ingestBatch": turns.ingest_batch,
    "afterTurn": turns.after_turn,
    "commitTurn": turns.commit_turn,
    "hook.before_reset": turns.before_reset,
    "hook.session_end": turns.session_end,
}
#: What folds: one after the other within a session, beside what is stored.
_FOLDING: dict[str, Method] = {"compact": folding.compact, "maintain": folding.maintain}
_FREE: dict[str, Method] = {
    "assemble": prompt.assemble,
    "prepareSubagentSpawn": turns.subagent_starts,
    "onSubagentEnded": turns.subagent_ended,
    "tool.call": recalling.call_tool,
    "command": commands.answer,
    "control": status.control,
    "hook.gateway_start": folding.gateway_start,
}
METHODS: dict[str, Method] = {**_STORING, **_FOLDING, **_FREE}


class Service:
    """Answers the plugin. The archive is opened when the plugin says which one it means."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._bridge: Bridge | None = None

    def answer(self, call: Call) -> object:
        """The result of one call."""
        if call.method == "initialize":
            return self._initialize(call)
        if call.method == "shutdown":
            self.close()
            return {}
        if call.method == "ping":
            return {"messages": call.params.get("messages")}
        method = METHODS.get(call.method)
        if method is None:
            raise NoMethod(f"there is no method {call.method!r:.60}")
        if self._bridge is None:
            raise BadInput("initialize comes first")
        return method(self._bridge, call)

    @staticmethod
    def lane(call: Call) -> str | None:
        """The lane that a call waits in, if it has to wait for others."""
        if call.method in _STORING:
            return f"store:{lane_of(call.params)}"
        waits = call.method == "compact" or call.params.get("allowDeferredCompactionExecution") is True
        return f"fold:{lane_of(call.params)}" if call.method in _FOLDING and waits else None

    def close(self) -> None:
        """Let go of the archive."""
        bridge, self._bridge = self._bridge, None
        if bridge is not None:
            bridge.engine.close()

    def _initialize(self, call: Call) -> dict[str, Any]:
        from lossless.assembly.policy_text import RECALL_POLICY
        from lossless.settings.load import load

        spoken = call.params.get("protocol")
        if spoken != PROTOCOL:
            raise BadInput(
                f"the plugin speaks version {spoken!r} of the protocol and lossless {__version__} version {PROTOCOL}: "
                "install the plugin and the Python package of one version (`lcm install openclaw`)"
            )
        config = call.params.get("config")
        loaded = load(config if isinstance(config, dict) else {})
        host = _host(call.params)
        if self._bridge is None:
            self._bridge = Bridge(self._opened(loaded.settings, host), self._peer, host)
        settings = self._bridge.engine.settings
        return {
            "protocol": PROTOCOL,
            "version": __version__,
            "python": platform.python_version(),
            "databasePath": self._bridge.engine.archive.path,
            "enabled": settings.enabled,
            "policy": RECALL_POLICY,
            "warnings": [str(notice) for notice in loaded.warnings],
        }

    def _opened(self, settings: Any, host: Host) -> Engine:
        from lossless.engine import open_engine

        path = settings.database_path or ""
        if "://" in path:
            raise BadInput("databasePath must be a file: this plugin cannot use a server")
        return open_engine(path, settings, AskModel(self._peer, settings) if host.has_model else None)


def _host(params: Any) -> Host:
    can = params.get("capabilities")
    can = can if isinstance(can, dict) else {}
    return Host(
        words(params, "host") or "",
        can.get("llm") is True,
        can.get("subagents") is True,
        words(params, "stateDir"),
        can.get("promptHook") is not False,
    )
