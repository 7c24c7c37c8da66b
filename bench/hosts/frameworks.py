"""Frameworks, each with a small agent in an environment of its own, and Hermes, which is a program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from bench.hosts.host import Host
from bench.hosts.install import ROOT, environment, pinned
from bench.hosts.wire import Use


class Framework(Host):
    """A program that answers line by line. A restart kills it; it goes on from what is on disk."""

    default_budget: ClassVar[int] = 16_000
    quick_budget: ClassVar[int] = 16_000
    refuses: ClassVar[bool] = False
    shows_all: ClassVar[bool] = True
    #: Its packages in the versions that all tests use, and others; without any it runs in the environment of the tests.
    packages: ClassVar[tuple[str, ...]] = ()
    others: ClassVar[tuple[str, ...]] = ()

    def python(self) -> str:
        if not self.packages:
            return sys.executable
        return str(environment(self.name, *pinned(*self.packages), *self.others))

    def start(self) -> None:
        module = f"bench.hosts.programs.{self.name.replace('-', '_')}"
        command = [self.python(), "-m", module, str(self.archive), self.url, str(self.budget)]
        env = self.env | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        self.process = self.spawn(command, env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, text: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{json.dumps(text)}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("the program ended; see errors.log")
        found = json.loads(answer)
        if "error" in found:
            raise RuntimeError(found["error"])
        return str(found["text"])

    def restart(self) -> None:
        self.process.kill()
        super().restart()


class OpenAIAgents(Framework):
    """OpenAI Agents, with the Responses interface."""

    name: ClassVar[str] = "openai-agents"


class PydanticAI(Framework):
    """Pydantic AI, with OpenAI's chat interface."""

    name: ClassVar[str] = "pydantic-ai"


class LangChain(Framework):
    """LangChain, with OpenAI's chat interface."""

    name: ClassVar[str] = "langchain"
    packages: ClassVar[tuple[str, ...]] = ("langchain", "langgraph")
    others: ClassVar[tuple[str, ...]] = ("langchain-openai==1.7.3", "langgraph-checkpoint-sqlite==3.1.2")


class GoogleADK(Framework):
    """Google's ADK, with Gemini's interface."""

    name: ClassVar[str] = "google-adk"
    packages: ClassVar[tuple[str, ...]] = ("google-adk",)


class Hermes(Framework):
    """Hermes Agent: a process for each turn."""

    name: ClassVar[str] = "hermes"
    default_budget: ClassVar[int] = 70_000
    default_turns: ClassVar[int] = 20
    refuses: ClassVar[bool] = True
    shows_all: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ("hermes-agent",)

    def __post_init__(self) -> None:
        self.asked = 0

    @staticmethod
    def shell(command: str) -> Use:
        return Use("terminal", {"command": command})

    def start(self) -> None:
        self.program = Path(self.python()).with_name("hermes")
        model = {"default": "scripted", "provider": "custom", "base_url": f"{self.url}/v1", "api_key": "none"}
        config = {
            "model": {**model, "context_length": self.budget},
            "plugins": {"enabled": ["lcm"]},
            "context": {"engine": "lcm"},
        }
        (self.folder / "config.yaml").write_text(json.dumps(config), encoding="utf-8")

    def ask(self, text: str) -> str:
        command = [str(self.program), "chat", "-Q", "--yolo", "-q", text, *(["--continue"] if self.asked else [])]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.env | {"HERMES_HOME": str(self.folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        self.asked += 1
        if done.returncode != 0:
            raise RuntimeError(f"{done.stdout[-300:]} {done.stderr[-300:]}")
        return done.stdout

    def restart(self) -> None:
        """Each turn is a process of its own already."""
