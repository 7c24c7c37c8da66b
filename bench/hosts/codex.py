"""Codex, as a program: `codex exec` for the first turn, `codex exec resume` for each other."""

from __future__ import annotations

import json
import os
import subprocess
from typing import ClassVar

from bench.hosts.host import TOKEN, Host
from bench.hosts.install import npm_program
from bench.hosts.wire import Use
from tests.hosts.openclaw.gateway import install_node

_PACKAGE = "@openai/codex@0.166.0"
_OPTIONS = (
    "--json",
    "--skip-git-repo-check",
    "--dangerously-bypass-hook-trust",
    "--dangerously-bypass-approvals-and-sandbox",
)


class Codex(Host):
    """With hooks and the MCP server: its context is its own, and it folds it by itself."""

    name: ClassVar[str] = "codex-hooks"
    default_budget: ClassVar[int] = 40_000
    quick_budget: ClassVar[int] = 40_000
    default_turns: ClassVar[int] = 36
    fits: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.session = ""

    @staticmethod
    def shell(command: str) -> Use:
        return Use("exec_command", {"cmd": command})

    def start(self) -> None:
        url = self.proxy() if self.fits else self.url
        window = 400_000 if self.fits else self.budget
        home = self.folder / ".codex"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(
            f'model = "gpt-5"\nmodel_provider = "bench"\nmodel_context_window = {window}\n'
            f"model_auto_compact_token_limit = {window * 9 // 10}\n"
            f'[model_providers.bench]\nname = "bench"\nbase_url = "{url}/v1"\nwire_api = "responses"\n'
            f'env_key = "BENCH_KEY"\n',
            encoding="utf-8",
        )
        if not self.fits:
            self.lcm("install", "codex")
            # This model answers before the server has started, which no real one does: so Codex is told to wait for it.
            made = (home / "config.toml").read_text(encoding="utf-8")
            table = "[mcp_servers.lossless]\n"
            assert table in made, made
            (home / "config.toml").write_text(made.replace(table, f"{table}required = true\n"), encoding="utf-8")

    def ask(self, text: str) -> str:
        path = f"{install_node()}{os.pathsep}{os.environ['PATH']}"
        command = [str(npm_program(_PACKAGE, "codex")), "exec", *(["resume", self.session] if self.session else [])]
        done = subprocess.run(
            [*command, *_OPTIONS, text],
            cwd=self.folder,
            env=self.env | {"BENCH_KEY": f"{TOKEN}:none", "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        self.session = next((one["thread_id"] for one in events if one["type"] == "thread.started"), self.session)
        failed = [one for one in events if one["type"] == "turn.failed"]
        said = [one["item"]["text"] for one in events if one.get("item", {}).get("type") == "agent_message"]
        if failed or done.returncode or not said:
            raise RuntimeError(f"{failed} {done.stderr[-500:]} {events[-2:]}")
        return str(said[-1])


class CodexProxy(Codex):
    """Through the proxy, which fits each request into a window smaller than the one that Codex knows of."""

    name: ClassVar[str] = "codex-proxy"
    fits: ClassVar[bool] = True
