"""What each driver of a host has: a folder, a budget, a model, and one turn after the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, ClassVar

from bench.hosts.install import ROOT
from bench.hosts.wire import Use

TOKEN = "bench-token-0123456789"


@dataclass
class Host(ABC):
    """A host that runs; each kind says what is different about it."""

    folder: Path
    url: str
    budget: int
    running: list[subprocess.Popen[Any]] = field(default_factory=list)

    name: ClassVar[str]
    #: What its requests may have at most, and whether the model's provider refuses larger ones.
    default_budget: ClassVar[int] = 64_000
    quick_budget: ClassVar[int] = 32_000
    #: As many as three minutes are enough for.
    default_turns: ClassVar[int] = 60
    #: As few as something is left out after; all of them are played, however slow the machine is.
    quick_turns: ClassVar[int] = 9
    refuses: ClassVar[bool] = True
    #: Whether lossless decides what is sent; if not, the host folds its own history, at about the budget.
    fits: ClassVar[bool] = True
    #: Whether the host shows its model all that a command printed, so that all of it must be in the archive.
    shows_all: ClassVar[bool] = False

    def __post_init__(self) -> None:  # noqa: B027
        """What a client remembers from the beginning is set up here; a restart does not touch it."""

    @staticmethod
    def shell(command: str) -> Use:
        """How a model of this host runs a command."""
        return Use("shell", {"command": command})

    @abstractmethod
    def start(self) -> None:
        """Install what is not there, and begin."""

    @abstractmethod
    def ask(self, text: str) -> str:
        """One turn: what the user gets to read."""

    def restart(self) -> None:
        """End as a machine does that is switched off, and go on with the same conversation."""
        self.stop()
        self.start()

    def stop(self) -> None:
        """End what was started, by its own handle."""
        for process in reversed(self.running):
            with suppress(OSError):
                process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.running.clear()
        wait_for_workers(self.folder)

    def kept_results(self) -> list[str]:
        """What tools said, as the host's own transcript has it, if it may have less than its model was shown."""
        return []

    @property
    def archive(self) -> Path:
        return self.folder / "lcm.db"

    @property
    def env(self) -> dict[str, str]:
        """An environment in which nothing of this machine's own settings is left."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_PASSED)}
        places = {"HOME": str(self.folder), "LCM_DATABASE_PATH": str(self.archive), "PYTHONPATH": str(ROOT / "src")}
        return kept | places

    def lcm(self, *arguments: str) -> None:
        """A command of ours, to its end."""
        command = [sys.executable, "-m", "lossless.cli.main", "--db", str(self.archive), *arguments]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(f"lcm {' '.join(arguments)}: {done.stdout[-1000:]}{done.stderr[-1000:]}")

    def proxy(self) -> str:
        """Start `lcm proxy` before the model: its address."""
        command = [sys.executable, "-m", "lossless.cli.main", "--db", str(self.archive), "--format", "json", "proxy"]
        options = ["--port", "0", "--window", str(self.budget)]
        options += ["--openai-url", f"{self.url}/v1", "--anthropic-url", self.url]
        process = self.spawn([*command, *options], self.env | {"LCM_PROXY_TOKEN": TOKEN}, stdout=subprocess.PIPE)
        assert process.stdout is not None
        url: str = json.loads(process.stdout.readline())["data"]["url"]
        return url

    def spawn(self, command: list[str], env: dict[str, str], **options: Any) -> subprocess.Popen[Any]:
        """A process that ends with the host; what it says on standard error is kept in the folder."""
        log: IO[str]
        with (self.folder / "errors.log").open("a", encoding="utf-8") as log:
            process: subprocess.Popen[Any] = subprocess.Popen(
                command, env=env, cwd=self.folder, text=True, stderr=log, **options
            )
        self.running.append(process)
        return process


def wait_for_workers(folder: Path, seconds: float = 60.0) -> None:
    """Wait for what hooks have started: a hook waits a second for its worker, which then goes on without the host."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and any(map(partial(_is_worker, folder), Path("/proc").glob("[0-9]*/cmdline"))):
        time.sleep(0.1)


def _is_worker(folder: Path, cmdline: Path) -> bool:
    try:
        command = cmdline.read_bytes()
    except OSError:  # it has ended
        return False
    return b"claude_code.worker" in command and os.fsencode(folder) in command


_NOT_PASSED = (
    "LCM_",
    "OPENCLAW_",
    "CLAUDE",
    "ANTHROPIC_",
    "CODEX_",
    "OPENAI_",
    "GOOGLE_",
    "GEMINI_",
    "HERMES_",
    "XDG_",
)
