"""Conversations that are folded into a graph of three depths, and what must hold of an archive at any time."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import lossless
from lossless.model.context import MessageItem, SummaryItem
from lossless.testing import VirtualClock
from tests.compaction.loop_kit import WORDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lossless.llm.completion import Prompt
    from lossless.maintenance.surgery.common import BackupMaker

Raw = dict[str, Any]
HERE = lossless.Session(key="agent:main:here", id="run-here")
THERE = lossless.Session(key="agent:main:there", id="run-there")
BUDGET = 4_000


def settings(**changed: Any) -> lossless.Settings:
    """Settings under which a few thousand tokens give several leaves and condensed summaries."""
    small: Raw = {
        "fresh_tail_count": 4,
        "leaf_chunk_tokens": 700,
        "leaf_target_tokens": 192,
        "condensed_target_tokens": 256,
        "leaf_min_fanout": 2,
        "condensed_min_fanout": 2,
        "summary_prefix_target_tokens": 300,
        "enable_summary_thinking": False,
    }
    return lossless.Settings(**small | changed)


def open_engine(path: Path | str, model: Callable[[Prompt], object] | None = None, **changed: Any) -> lossless.Engine:
    """An engine over small settings whose clock moves only when it is asked."""
    return lossless.open(path, settings(**changed), model, clock=VirtualClock(), background=False)


def writer() -> Callable[[Prompt], str]:
    """A model that never says the same twice."""
    numbers = itertools.count(1)
    return lambda _: f"Text {next(numbers)} about ferries and berths."


def talk(count: int, seed: object = 0, words: int = 40, first: int = 0) -> list[Raw]:
    """Turns of a user and an assistant; each message is different and about `words` words long."""
    return [
        {
            "role": ("user", "assistant")[n % 2],
            "content": f"{seed}/{n}: {' '.join(random.Random(f'{seed}/{n}').choices(WORDS, k=words))}.",
        }
        for n in range(first, first + count)
    ]


def told(engine: lossless.Engine, count: int = 60, session: lossless.Session = HERE) -> int:
    """Store and fold a conversation; returns its number."""
    engine.append(session, talk(count, session.key))
    engine.compact(session, budget=BUDGET, force=True)
    found = engine.archive.conversations.find(session)
    assert found is not None
    return found.id


def roots(engine: lossless.Engine, conversation_id: int) -> list[str]:
    """The summaries in a context, in order."""
    items = engine.archive.context.items(conversation_id)
    return [item.summary_id for item in items if isinstance(item, SummaryItem)]


def context(engine: lossless.Engine, conversation_id: int) -> list[int | str]:
    """The ids in a context, in order."""
    items = engine.archive.context.items(conversation_id)
    return [item.message_id if isinstance(item, MessageItem) else item.summary_id for item in items]


def depths(engine: lossless.Engine, conversation_id: int) -> dict[str, int]:
    """All summaries of a conversation with their depths."""
    found = rows(engine, "SELECT summary_id, depth FROM summaries WHERE conversation_id = ?", conversation_id)
    return dict(found)


def rows(engine: lossless.Engine, sql: str, *params: object) -> list[Any]:
    """What the archive says, asked directly."""
    return engine.archive.database.rows(sql, params)


def prove(engine: lossless.Engine) -> None:
    """The archive proves itself, without so much as a warning."""
    assert [str(problem) for problem in engine.verify().problems] == []


def backup_of(engine: lossless.Engine) -> BackupMaker:
    """Makes real backups beside the archive."""
    return lambda label: engine.admin.copy(label).path


def copies(path: Path) -> list[str]:
    """The labels of the backups beside an archive."""
    return sorted(entry.name.split(".")[2].rsplit("-", 2)[0] for entry in path.parent.glob(f"{path.name}.*.bak"))


def undo_all(engine: lossless.Engine, session: lossless.Session) -> None:
    """Undo until an error says that there is no more."""
    while True:
        engine.undo(session)
