"""Claude Code, as a program: one process, a turn for each line on its standard input."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from contextlib import suppress
from typing import Any, ClassVar

from bench.hosts.host import TOKEN, Host
from bench.hosts.install import npm_program
from bench.hosts.wire import Use
from tests.hosts.openclaw.gateway import install_node

_PACKAGE = "@anthropic-ai/claude-code@2.1.325"
_QUIET = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY")


class ClaudeCode(Host):
    """With hooks and the MCP server: its context is its own, and it folds it by itself."""

    name: ClassVar[str] = "claude-code-hooks"
    default_budget: ClassVar[int] = 60_000
    fits: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.session = ""
        if not self.fits:
            self.lcm("install", "claude-code", "--user")

    @staticmethod
    def shell(command: str) -> Use:
        return Use("Bash", {"command": command, "description": "run"})

    def start(self) -> None:
        options = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        options += ["--model", "claude-haiku-4-5", "--allowedTools", "Bash,mcp__lossless,ToolSearch"]
        options += ["--resume", self.session] if self.session else []
        url = self.proxy() if self.fits else self.url
        own = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": f"{TOKEN}:none", **dict.fromkeys(_QUIET, "1")}
        own |= {"PATH": f"{install_node()}{os.pathsep}{os.environ['PATH']}"}
        if not self.fits:
            own["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(self.budget)
        program = [str(npm_program(_PACKAGE, "claude")), "-p", *options]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = self.spawn(program, self.env | own, **pipes)
        self.events: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._read, args=(self.process, self.events), daemon=True).start()

    @staticmethod
    def _read(process: subprocess.Popen[Any], events: queue.Queue[dict[str, Any]]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            events.put(json.loads(line))
        events.put({"type": "end"})

    def ask(self, text: str) -> str:
        line = json.dumps({"type": "user", "message": {"role": "user", "content": text}})
        self.process.stdin.write(f"{line}\n")  # type: ignore[union-attr]
        self.process.stdin.flush()  # type: ignore[union-attr]
        while True:
            event = self.events.get(timeout=120)
            self.session = event.get("session_id") or self.session
            if event["type"] == "end":
                raise RuntimeError("Claude Code ended; see errors.log")
            if event["type"] == "result":
                if event.get("is_error"):
                    raise RuntimeError(str(event.get("result") or event.get("errors") or event))
                return str(event["result"])

    def stop(self) -> None:
        with suppress(OSError, AttributeError):
            self.process.stdin.close()  # type: ignore[union-attr]
            self.process.wait(20)
        super().stop()


class ClaudeCodeProxy(ClaudeCode):
    """Through the proxy, which fits each request into a window smaller than the one that Claude Code knows of."""

    name: ClassVar[str] = "claude-code-proxy"
    default_budget: ClassVar[int] = 90_000
    quick_budget: ClassVar[int] = 50_000
    fits: ClassVar[bool] = True
