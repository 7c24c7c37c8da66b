"""What can be derived is made again: places of contexts, sources and counts of summaries, counters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lossless.model.times import row_time
from lossless.store.context import Change
from lossless.store.operations import Operations
from lossless.store.sql import load

if TYPE_CHECKING:
    from datetime import datetime

    from lossless.store.archive import Archive
    from lossless.store.database import Row

_QUERIES = load("rebuilding")
_CONTEXT = load("context")
#: Rules of `verify.sql` about numbers that follow from the sources of a summary.
COUNTED = ("summaries.leaf_counts", "summaries.condensed_counts", "summaries.leaf_times", "summaries.condensed_times")


class Rebuilding:
    """Finds what can be made again from messages and summaries, and makes it; words are never touched."""

    def __init__(self, archive: Archive) -> None:
        self._archive, self._db = archive, archive.database

    # --- what is wrong ---

    def contexts(self) -> list[int]:
        """Conversations whose context does not hold what it should, in its order."""
        found = {row[0] for row in self._db.rows(_QUERIES["wrong_contexts"])}
        for offender, is_certain in self._archive.checks.out_of_order():
            if is_certain:
                found.add(int(offender.id.partition(":")[0]))
        return [id_ for id_ in self._archive.checks.conversation_ids() if id_ in found or self._has_lost(id_)]

    def _has_lost(self, conversation_id: int) -> bool:
        ids = self._archive.checks.unreachable(conversation_id)
        return bool(ids) and not self._archive.cleared.explains(conversation_id, ids)

    def without_sources(self) -> list[str]:
        """Summaries that have lost their sources, and of which the log says what they were made of."""
        return [row[0] for row in self._db.rows(_QUERIES["without_sources"])]

    def miscounted(self) -> list[str]:
        """Summaries whose counts or times are not those of their sources."""
        return list(dict.fromkeys(one.id for name in COUNTED for one in self._archive.checks.rule(name)))

    def counters(self) -> list[int]:
        """Conversations whose counters do not add up."""
        return [row[0] for row in self._db.rows(_QUERIES["wrong_counters"])]

    # --- making it again; each needs a transaction ---

    def link(self, summary_id: str) -> None:
        """Give a summary the sources that the log of its fold names."""
        self._db.run(_QUERIES["link_messages"], {"summary_id": summary_id})
        self._db.run(_QUERIES["link_summaries"], {"summary_id": summary_id})
        self._keep_digest([summary_id])

    def recount(self, summary_ids: list[str]) -> None:
        """Work out counts and times again."""
        operations = Operations(self._archive)
        operations.recount(summary_ids)
        self._keep_digest(operations.above(summary_ids))

    def _keep_digest(self, summary_ids: list[str]) -> None:
        """What is derived is as it was written; a digest that is still another one tells of other damage, and stays."""
        for id_ in summary_ids:
            self._archive.row_digests.forget_note("summaries", json.dumps([id_]))

    def count(self, conversation_id: int) -> None:
        """Let the counters of a conversation add up, and its size be worked out anew."""
        self._db.run(_QUERIES["count"], {"conversation_id": conversation_id})

    def context(self, conversation_id: int, now: datetime) -> None:
        """Lay the items of a context again: those that are there, each once, and those that nothing covers."""
        place = {"conversation_id": conversation_id}
        before = self._archive.context.items(conversation_id)
        size = self._archive.context.tokens(conversation_id)
        kept = self._db.rows(_QUERIES["kept"], place)
        if any(
            one.id.startswith(f"{conversation_id}:") for one, is_sure in self._archive.checks.out_of_order() if is_sure
        ):
            kept = sorted(kept, key=lambda row: (not row[3], row[2] if not row[3] else 0))
        self._lay(conversation_id, kept, now)
        for row in self._db.rows(_QUERIES["lost_summaries"], place):
            kept = _inserted(kept, row)
        self._lay(conversation_id, kept, now)
        for id_ in self._archive.checks.unreachable(conversation_id):
            kept = _inserted(kept, (*self._db.rows(_QUERIES["message"], {"message_id": id_})[0],))
        self._lay(conversation_id, kept, now)
        after = tuple(id_ for id_, *_ in kept)
        ids = tuple(one.message_id if hasattr(one, "message_id") else one.summary_id for one in before)
        change = Change("rebuild", "doctor", None, ids, after, 0, size, self._archive.context.tokens(conversation_id))
        self._archive.context.log(conversation_id, change, now)
        self.count(conversation_id)

    def _lay(self, conversation_id: int, rows: list[Row], now: datetime) -> None:
        self._db.run(_QUERIES["clear"], {"conversation_id": conversation_id})
        for n, (id_, *_) in enumerate(rows):
            name = "put_summary" if isinstance(id_, str) else "put_message"
            item = {"summary_id": id_} if isinstance(id_, str) else {"message_id": id_}
            place = {"conversation_id": conversation_id, "ordinal": n, "now": row_time(now)}
            self._db.run(_CONTEXT[name], place | item)


def _inserted(rows: list[Row], new: Row) -> list[Row]:
    """Rows with one more at its place: before the first that begins later."""
    at = next((n for n, row in enumerate(rows) if not row[3] and row[2] > new[2]), len(rows))
    return [*rows[:at], new, *rows[at:]]
