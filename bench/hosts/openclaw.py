"""OpenClaw: a real gateway with the plugin, as `lcm install openclaw` sets it up."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, ClassVar

from bench.hosts.host import Host
from bench.hosts.wire import Use
from tests.hosts.openclaw.gateway import Gateway


class _Plain(Gateway):
    """With a model of a given window, and no setting of ours."""

    window: int
    tool_search: bool

    def _settings(self) -> dict[str, Any]:
        made = super()._settings()
        model = made["models"]["providers"]["fake"]["models"][0]
        model |= {"contextWindow": self.window, "maxTokens": 4096}
        made["plugins"]["entries"] = {}
        if self.tool_search:
            del made["tools"]["toolSearch"]
        return made


class OpenClaw(Host):
    """The newest version that is tested, with its tools behind a search, as it comes."""

    name: ClassVar[str] = "openclaw"
    version: ClassVar[str] = "2026.9.6"
    tool_search: ClassVar[bool] = True
    quick_budget: ClassVar[int] = 48_000
    default_turns: ClassVar[int] = 40
    quick_turns: ClassVar[int] = 7

    def __post_init__(self) -> None:
        self.gateway = _Plain(self.version, self.folder / "state", f"{self.url}/v1")
        self.gateway.window, self.gateway.tool_search = self.budget, self.tool_search
        self.gateway.prepare()

    @staticmethod
    def shell(command: str) -> Use:
        return Use("exec", {"command": command})

    def start(self) -> None:
        self.gateway.start()

    def ask(self, text: str) -> str:
        return self.gateway.ask(text)

    def stop(self) -> None:
        self.gateway.stop()
        self.gateway.output.close()

    def kept_results(self) -> list[str]:
        """It cuts long results twice: one way for the running turn, another for its transcript, which plugins read."""
        place = self.gateway.state / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
        if not place.exists():  # older versions have files
            return []
        command = [str(self.gateway.node / "node"), str(Path(__file__).with_name("transcript.mjs")), str(place)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return [json.loads(line) for line in done.stdout.splitlines()]

    @property
    def archive(self) -> Any:
        return self.gateway.database


class OpenClawAllTools(OpenClaw):
    """The same with `tools.toolSearch: false`: all tools stand in every request."""

    name: ClassVar[str] = "openclaw-all-tools"
    tool_search: ClassVar[bool] = False


class OpenClawOld(OpenClaw):
    """The last version with the older contract."""

    name: ClassVar[str] = "openclaw-2026.7.1"
    version: ClassVar[str] = "2026.7.1"
