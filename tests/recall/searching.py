"""A short talk to search in, and what reads a result."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import lossless

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.recall.results import SearchResult

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
NOW = datetime(2026, 4, 1, tzinfo=UTC)
ANNA = lossless.Session(key="agent:main:anna")
BEN = lossless.Session(key="agent:main:ben")
SAID = (
    "Can you look at the billing worker? It dropped a batch after the deploy.",
    "The retry queue was full: ERR-4711 in src/billing/retry.py, see getUserName.",
    "数据库迁移失败，请检查日志输出。",
    "Das Café in Zürich schließt um 18:00 Uhr 🎉",
    "We decided to use PostgreSQL for the ledger and C++ for the engine.",
    "Nothing of note.",
)


def say(engine: lossless.Engine, session: lossless.Session, texts: Sequence[str], start: datetime = START) -> None:
    roles = ("user", "assistant")
    engine.append(
        session,
        [
            lossless.Incoming({"role": roles[n % 2], "content": text}, created_at=start + timedelta(minutes=n))
            for n, text in enumerate(texts)
        ],
    )


def ids(found: SearchResult) -> list[int | str]:
    return [hit.id for hit in found.hits]
