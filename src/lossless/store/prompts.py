"""What stands in prompts beside the context (evidence), and how each prompt was put together (receipts)."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lossless.model.context import QuoteSpan
from lossless.model.records import EvidenceRow, PromptRecord
from lossless.model.times import state_time
from lossless.store.database import load_queries, time_or_epoch

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from lossless.store.database import Database

_QUERIES = load_queries("prompts")

#: Receipts of one conversation that are kept: so many, and so long.
MOST_RECEIPTS = 500
RECEIPT_AGE = timedelta(days=30)
#: After so many receipts the older ones are deleted.
_TRIM_EVERY = 32


class Prompts:
    """Reads and writes evidence and receipts; nothing in either is text of messages."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def newest_fold(self, conversation_id: int) -> int:
        """A number that is another one after each fold; 0 before the first."""
        row = self._db.row(_QUERIES["fold"], {"conversation_id": conversation_id})
        return row[0] if row else 0

    def evidence(self, conversation_id: int, fold: int) -> list[EvidenceRow]:
        """What was chosen since a fold, oldest first."""
        values = {"conversation_id": conversation_id, "fold": fold}
        return [
            EvidenceRow(id_, message_id, after_id, asked, _quotes(quotes), tokens, digest)
            for id_, message_id, after_id, asked, quotes, tokens, digest in self._db.rows(_QUERIES["evidence"], values)
        ]

    def add_evidence(self, conversation_id: int, fold: int, row: EvidenceRow, now: datetime) -> None:
        """Record what was chosen; what was chosen before the newest fold, or for words that did not come, goes."""
        found = {"conversation_id": conversation_id, "fold": fold, "message_id": row.message_id}
        self._db.run(_QUERIES["drop_older_evidence"], found)
        quotes = json.dumps([[q.message_id, q.start, q.end, round(q.score, 3), q.words] for q in row.quotes])
        rest = {"after_id": row.after_id, "asked": row.asked, "tokens": row.tokens, "digest": row.digest}
        self._db.run(_QUERIES["add_evidence"], found | rest | {"quotes": quotes, "at": state_time(now)})

    def bind_evidence(self, evidence_id: int, message_id: int) -> None:
        """The words that it was chosen for are stored by now."""
        self._db.run(_QUERIES["bind_evidence"], {"evidence_id": evidence_id, "message_id": message_id})

    def user_after(self, conversation_id: int, message_id: int) -> int | None:
        """The first message of a user behind another message."""
        values = {"conversation_id": conversation_id, "after_id": message_id}
        row = self._db.row(_QUERIES["user_after"], values)
        return row[0] if row else None

    def empty_evidence(self, evidence_ids: Collection[int]) -> None:
        """Evidence leaves the prompt until something else is chosen for other words."""
        self._db.run(_QUERIES["empty_evidence"], {"ids": json.dumps(sorted(evidence_ids))})

    def hidden(self, message_ids: Sequence[int]) -> frozenset[int]:
        """Of these messages those that were taken out of their conversation."""
        return frozenset(row[0] for row in self._db.rows(_QUERIES["hidden"], {"ids": json.dumps(list(message_ids))}))

    def add_receipt(
        self, conversation_id: int, tokens: int, capacity: int, detail: dict[str, Any], now: datetime
    ) -> None:
        """Keep how a prompt was put together."""
        values = {"conversation_id": conversation_id, "tokens": tokens, "capacity": capacity}
        text = json.dumps(detail, ensure_ascii=False, separators=(",", ":"))
        self._db.run(_QUERIES["add_receipt"], values | {"detail": text, "at": state_time(now)})
        if self._db.last_id() % _TRIM_EVERY == 0:
            oldest = state_time(now - RECEIPT_AGE)
            most = {"conversation_id": conversation_id, "oldest": oldest, "most": MOST_RECEIPTS}
            self._db.run(_QUERIES["trim_receipts"], most)

    def receipts(self, conversation_id: int, limit: int = MOST_RECEIPTS) -> list[PromptRecord]:
        """The newest receipts of a conversation, oldest first."""
        rows = self._db.rows(_QUERIES["receipts"], {"conversation_id": conversation_id, "limit": limit})
        return [_record(*row) for row in reversed(rows)]


def _quotes(text: str) -> tuple[QuoteSpan, ...]:
    return tuple(QuoteSpan(*values) for values in json.loads(text))


def _record(id_: int, at: str, tokens: int, capacity: int, text: str) -> PromptRecord:
    detail = json.loads(text)
    pairs = {name: tuple((str(one), str(two)) for one, two in detail.get(name, ())) for name in _PAIRS}
    return PromptRecord(id_, time_or_epoch(at), tokens, capacity, detail.get("kinds", {}), **pairs)


_PAIRS = ("included", "left_out", "evidence")
