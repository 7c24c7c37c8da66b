"""Archives to read from, filled through the engine: a folded conversation, several sessions, stored files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import lossless
from lossless.recall.scope import Caller, Scope, resolve_scope
from lossless.recall.tools import Toolbox
from lossless.testing import VirtualClock, openai_chat, sample_conversation

if TYPE_CHECKING:
    from lossless.store.archive import Archive

NOW = datetime(2026, 2, 1, 12, tzinfo=UTC)
MAIN = lossless.Session(key="agent:main:main", id="run-1")
OTHER = lossless.Session(key="agent:main:other", id="run-2")
SETTINGS = lossless.Settings(
    fresh_tail_count=16,
    leaf_chunk_tokens=900,
    leaf_target_tokens=300,
    condensed_target_tokens=300,
    leaf_min_fanout=3,
    condensed_min_fanout=2,
    sweep_max_depth=-1,
    max_sweep_iterations=60,
)


@dataclass(frozen=True, slots=True)
class Folded:
    """An archive with one folded conversation and one that is not."""

    archive: Archive
    conversation_id: int
    #: By depth, in the order in which they were made.
    leaves: tuple[str, ...]
    condensed: tuple[str, ...]
    #: The deepest summary.
    top: str
    #: A conversation of another session, not folded.
    other_id: int

    @property
    def scope(self) -> Scope:
        return resolve_scope(self.archive, Caller(MAIN), NOW)

    def text_of(self, message_id: int) -> str:
        return self.archive.messages.get(message_id).message.content


def fill(path: str, count: int = 240) -> Folded:
    """Fill an archive: the ferry conversation, folded to depth 2, and a short one beside it."""
    engine = lossless.open(path, SETTINGS, clock=VirtualClock(), background=False)
    chat: list[Any] = list(openai_chat(sample_conversation(count)))
    engine.sync(MAIN, chat)
    report = engine.compact(MAIN, budget=8_000, force=True)
    engine.append(OTHER, [{"role": "user", "content": "The other port is 9999."}])
    archive = engine.archive
    made = archive.summaries.many(report.summary_ids)
    main, other = archive.conversations.find(MAIN), archive.conversations.find(OTHER)
    assert main
    assert other
    leaves = tuple(summary.id for summary in made if summary.depth == 0)
    condensed = tuple(summary.id for summary in made if summary.depth > 0)
    top = max(made, key=lambda summary: (summary.depth, summary.descendant_count)).id
    return Folded(archive, main.id, leaves, condensed, top, other.id)


@cache
def folded() -> Folded:
    """One such archive for all tests that only read, or write grants."""
    return fill(f"{mkdtemp(prefix='lossless-')}/lcm.db")


def toolbox(archive: Archive, **more: Any) -> Toolbox:
    """The tools over an archive, at a time that stands still."""
    given: dict[str, Any] = {"settings": SETTINGS, "clock": lambda: NOW}
    return Toolbox(archive, **(given | more))
