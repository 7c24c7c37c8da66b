"""Which session a transcript belongs to: the same names that `lcm import` gives, so that both are one history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.lifecycle import naming
from lossless.lifecycle.stream import said
from lossless.model.conversations import Session
from lossless.transcripts.kinds import KINDS
from lossless.transcripts.read import open_transcript

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lossless.transcripts.read import Transcript


def session_of(transcript: Transcript) -> Session:
    """The session of a main transcript, by the host's own names."""
    header = transcript.header
    return naming.session_of(transcript.kind, transcript.state.path, header.id, header.cwd)


def agent_session(main: Session, agent: str) -> Session:
    """The session of a sub-agent."""
    return Session(key=f"{main.key}:subagent:{agent}", id=agent)


def agent_files(transcript: Transcript, also: Path | None = None) -> Iterator[tuple[Path, str]]:
    """The transcripts of sub-agents, each with the agent's name; `also` is one that a host has named."""
    files = KINDS[transcript.kind].side_files(transcript.state.path)
    if also is not None and also not in files and also.is_file():
        files.append(also)
    for file in files:
        yield file, file.stem.removeprefix("agent-")


def main_transcript(path: Path) -> Transcript:
    """The transcript at a path; raises BadInput when it is none."""
    return open_transcript(path.absolute())


def is_silent(transcript: Transcript, lane: str | None = None) -> bool:
    """Whether nothing was said on a line yet."""
    return next(said(transcript.path(lane)), None) is None


def rollout(thread: str, home: Path) -> Path | None:
    """The newest file in which Codex writes a thread down."""
    if not thread or not all(letter.isalnum() or letter in "-_" for letter in thread):
        return None
    return max((home / "sessions").glob(f"*/*/*/rollout-*-{thread}.jsonl"), default=None)
