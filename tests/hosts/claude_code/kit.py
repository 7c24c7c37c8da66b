"""Claude Code as far as hooks see it: transcripts in a home folder, events, and the hook as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import lossless

if TYPE_CHECKING:
    from pathlib import Path

SESSION = "11111111-2222-4333-8444-555555555555"
PROJECT = "-home-me-ferry"
HOOK = [sys.executable, "-P", "-W", "error", "-m", "lossless.hosts.claude_code.hook"]


@dataclass
class Told:
    """What a hook said."""

    code: int
    out: str
    err: str

    @property
    def context(self) -> str:
        """What the model gets to read; '' when the hook said nothing."""
        return str(json.loads(self.out)["hookSpecificOutput"]["additionalContext"]) if self.out else ""


@dataclass
class Claude:
    """A session of Claude Code."""

    home: Path
    session: str = SESSION
    lines: int = 0
    last: str | None = None
    more: dict[str, str] = field(default_factory=dict)

    @property
    def transcript(self) -> Path:
        return self.home / ".claude" / "projects" / PROJECT / f"{self.session}.jsonl"

    @property
    def archive(self) -> Path:
        return self.home / "lcm.db"

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LCM_", "OPENCLAW_", "XDG_"))}
        own = {"HOME": str(self.home), "LCM_DATABASE_PATH": str(self.archive), "LCM_HOOK_WAIT_MS": "60000"}
        return kept | own | self.more

    def say(self, role: str, content: Any, **more: Any) -> None:
        """Add a line to the transcript."""
        self.last = self._write(self.transcript, role, content, self.last, **more)

    def add(self, record: dict[str, Any]) -> None:
        """Add a line to the transcript that is no message."""
        with self.transcript.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def agent_says(self, agent: str, role: str, content: Any) -> Path:
        """Add a line to the transcript of a sub-agent."""
        path = self.transcript.parent / self.session / "subagents" / f"agent-{agent}.jsonl"
        self._write(path, role, content, None, isSidechain=True, agentId=agent)
        return path

    def _write(self, path: Path, role: str, content: Any, parent: str | None, **more: Any) -> str:
        id_ = f"{self.session[:8]}-{self.lines:06}"
        record = {
            "type": role,
            "uuid": id_,
            "parentUuid": parent,
            "sessionId": self.session,
            "isSidechain": False,
            "cwd": "/home/me/ferry",
            "timestamp": f"2026-07-01T{9 + self.lines // 3600:02}:{self.lines // 60 % 60:02}:{self.lines % 60:02}.000Z",
            "message": {"role": role, "content": content},
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record | more) + "\n")
        self.lines += 1
        return id_

    def talk(self, turns: int, start: int = 0) -> None:
        """Some turns about a ferry."""
        for turn in range(start, start + turns):
            self.say("user", f"Please fix ERR-{4000 + turn} in src/queue_{turn}.py.")
            done = f"I fixed ERR-{4000 + turn}: we decided that MAX_RETRIES_{turn} is {turn}. " * 4
            self.say("assistant", [{"type": "text", "text": done}])

    def event(self, name: str, **more: Any) -> dict[str, Any]:
        common = {"session_id": self.session, "transcript_path": str(self.transcript), "cwd": str(self.home)}
        return {"hook_event_name": name, **common, **more}

    def hook(self, name: str, **more: Any) -> Told:
        """Call the hook as Claude Code does."""
        return self.send(json.dumps(self.event(name, **more)).encode())

    def send(self, text: bytes, *options: str) -> Told:
        """Send these bytes to the hook."""
        done = subprocess.run(
            [*HOOK, *options],
            input=text,
            capture_output=True,
            env=self.environment,
            cwd=self.home,
            check=False,
            timeout=90,
        )
        return Told(done.returncode, done.stdout.decode(), done.stderr.decode())

    def engine(self) -> lossless.Engine:
        return lossless.open(self.archive, background=False)

    def stored(self) -> dict[str, list[str]]:
        """The texts of each conversation, by session key."""
        with self.engine() as engine:
            rows = engine.archive.listings.conversations(100).rows
            return {
                str(row.session_key): [
                    stored.message.content
                    for stored in engine.archive.messages.in_order(row.conversation_id, limit=9999)
                ]
                for row in rows
            }
