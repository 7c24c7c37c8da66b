"""Claude Agent SDK's transcripts in an archive; lines are made up, so no key and no program are needed."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from typing import Any

from claude_agent_sdk import get_session_messages_from_store

import lossless
from lossless.hosts.claude_agent import LosslessSessionStore

SESSION = "3f2b8c1e-4d5a-4b6c-8d7e-9f0a1b2c3d4e"


def line(number: int, role: str, text: str) -> Any:
    """A line of a transcript, as Claude Code writes them."""
    before = None if number == 0 else f"00000000-0000-4000-8000-{number - 1:012d}"
    return {
        "type": role,
        "uuid": f"00000000-0000-4000-8000-{number:012d}",
        "parentUuid": before,
        "sessionId": SESSION,
        "timestamp": f"2026-01-05T09:{number:02d}:00.000Z",
        "isSidechain": False,
        "message": {"role": role, "content": text if role == "user" else [{"type": "text", "text": text}]},
    }


async def main(folder: str) -> None:
    """Lines come in as a session goes on, some of them twice; then the session is read again."""
    cwd = f"{folder}/work"
    with lossless.open(f"{folder}/lcm.db") as engine:
        store = LosslessSessionStore(engine)
        project = "".join(letter if letter.isalnum() else "-" for letter in cwd)
        key: Any = {"project_key": project, "session_id": SESSION}
        lines = [line(n, ("user", "assistant")[n % 2], f"Line {n} about quay {n + 10}.") for n in range(20)]
        await store.append(key, lines[:12])
        await store.append(key, lines[8:])
        assert await store.load(key) == lines
        said = await get_session_messages_from_store(store, SESSION, directory=cwd)
        found = engine.grep("quay 17", mode="regex", session=store.session(key))
    assert found.total == 1
    print(f"{len(lines)} lines kept once, {len(said)} messages read back, {found.total} found by its words.")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))
