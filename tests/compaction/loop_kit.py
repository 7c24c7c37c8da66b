"""A small world for the loop: short chunks, talk that is quick to fold, and what must hold after everything."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import lossless
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lossless.llm.completion import Prompt
    from lossless.testing import VirtualClock

Raw = dict[str, Any]
_SOURCE_TOKENS = """
SELECT sum(tokens) FROM (
    SELECT m.token_count AS tokens FROM summary_messages l JOIN messages m USING (message_id) WHERE l.summary_id = ?1
    UNION ALL
    SELECT s.token_count FROM summary_parents p JOIN summaries s ON s.summary_id = p.parent_summary_id
     WHERE p.summary_id = ?1)
"""
SESSION = lossless.Session(key="agent:main:loop")
BUDGET = 4_000
#: So many messages of `talk` are over the threshold of the budget, and under the budget.
SOFT = 42
#: So many are over the budget.
HARD = 70

WORDS = (
    "ferry", "harbour", "timetable", "berth", "crane", "pilot", "ledger", "invoice", "storm", "buoy", "anchor",
    "deck", "engine", "fuel", "crew", "captain", "passenger", "ticket", "lighthouse", "tide", "radar", "chart",
    "compass", "signal", "rope", "winch", "cargo", "container", "customs", "current",
)  # fmt: skip


def settings(**changed: Any) -> lossless.Settings:
    """Settings under which a few thousand tokens give several leaves and condensed summaries."""
    small: Raw = {
        "fresh_tail_count": 4,
        "leaf_chunk_tokens": 600,
        "leaf_target_tokens": 200,
        "condensed_target_tokens": 512,
        "leaf_min_fanout": 4,
        "condensed_min_fanout": 3,
        "enable_summary_thinking": False,
    }
    return lossless.Settings(**small | changed)


def open_engine(
    path: Path,
    model: Callable[[Prompt], object] | None = None,
    clock: VirtualClock | None = None,
    *,
    background: bool = False,
    **changed: Any,
) -> lossless.Engine:
    """An engine over small settings that does nothing by itself."""
    more: Raw = {} if clock is None else {"clock": clock}
    return lossless.open(path, settings(**changed), model, background=background, **more)


def talk(count: int, seed: int = 0, words: int = 40, first: int = 0) -> list[Raw]:
    """Turns of a user and an assistant; each message is different and about `words` words long."""
    roles = ("user", "assistant")
    return [
        {"role": roles[n % 2], "content": f"{n}: {' '.join(random.Random(f'{seed}/{n}').choices(WORDS, k=words))}."}
        for n in range(first, first + count)
    ]


def rows(engine: lossless.Engine, sql: str, *params: object) -> list[tuple[Any, ...]]:
    """What the archive says, asked directly."""
    return [tuple(row) for row in engine.archive.database.rows(sql, params)]


def one(engine: lossless.Engine, sql: str, *params: object) -> Any:
    """The only value of the only row."""
    ((value,),) = rows(engine, sql, *params)
    return value


def changes(engine: lossless.Engine) -> int:
    """How many rows this thread has ever written."""
    return engine.archive.database.connection().total_changes()


def debt(engine: lossless.Engine) -> Raw:
    """The one debt of the archive; empty when there never was one."""
    found = engine.archive.guards.debt(conversation_id(engine))
    return {} if found is None else asdict(found)


def conversation_id(engine: lossless.Engine) -> int:
    found = engine.archive.conversations.find(SESSION)
    assert found is not None
    return found.id


def summaries(engine: lossless.Engine) -> list[tuple[str, int, int, str]]:
    """Id, depth, tokens and writer of every stored summary."""
    return [
        (id_, depth, tokens, model)
        for id_, depth, tokens, model in rows(
            engine, "SELECT summary_id, depth, token_count, model FROM summaries ORDER BY rowid"
        )
    ]


def check(engine: lossless.Engine, said: Sequence[Raw]) -> None:
    """What holds at every moment: the archive proves itself, no word is lost, every summary is smaller."""
    found = engine.verify()
    assert found.problems == (), [str(problem) for problem in found.problems]
    stored = rows(engine, "SELECT role, content FROM messages ORDER BY message_id")
    assert stored == [(message["role"], message["content"]) for message in said]
    for id_, _, tokens, _ in summaries(engine):
        sources = one(
            engine,
            "SELECT coalesce((SELECT sum(m.token_count) FROM summary_messages l JOIN messages m USING (message_id)"
            " WHERE l.summary_id = :id), 0) + coalesce((SELECT sum(c.token_count) FROM summary_parents p"
            " JOIN summaries c ON c.summary_id = p.parent_summary_id WHERE p.summary_id = :id), 0)".replace(
                ":id", "?1"
            ),
            id_,
        )
        assert tokens < sources


def size(messages: Sequence[Raw]) -> int:
    """The estimate over the JSON that a provider would get."""
    return estimate_tokens(json.dumps(list(messages), ensure_ascii=False, separators=(",", ":")))
