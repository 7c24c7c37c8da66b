"""What a doctor reads of an archive: few rows, or counts, never everything."""

from __future__ import annotations

import json
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from lossless.model.times import state_time
from lossless.store.foreign import moment, record, text
from lossless.store.index import PASSAGE_BASE, SearchIndex, digest
from lossless.store.sql import load

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from lossless.store.database import Database

_QUERIES = load("symptoms")
#: So many ids of a kind are named; more of them say nothing new.
_NAMED = 100


@dataclass(frozen=True, slots=True)
class Suspect:
    """A summary that may be broken."""

    id: str
    conversation_id: int
    content: str
    model: str


@dataclass(frozen=True, slots=True)
class DebtRow:
    """A sweep that was put off or is said to run."""

    conversation_id: int
    session_key: str | None
    active: bool
    pending: bool
    running: bool
    reason: str | None
    requested_at: datetime | None
    last_started_at: datetime | None
    last_failure: str | None
    retry_attempts: int
    next_attempt_after: datetime | None
    revision: int
    #: Whether somebody is at work on the conversation now.
    leased: bool


@dataclass(frozen=True, slots=True)
class IndexDrift:
    """Where search and rows disagree."""

    unindexed_messages: int
    unindexed_summaries: int
    #: How many messages have lost their row in the index, and how many rows have lost their message.
    lost_count: int
    gone_count: int
    #: The first hundred of each.
    lost: tuple[int, ...]
    gone: tuple[int, ...]
    #: Summaries whose text is not the text that was indexed, or that are missing from the index.
    stale_summaries: tuple[str, ...]
    #: How many rows of the index have lost their summary.
    gone_summaries: int = 0
    #: How many messages and summaries lossless-claw's own search tables lack.
    upstream_lost: int = 0
    #: Those of them that have lost all their rows.
    upstream_emptied: tuple[str, ...] = ()

    @property
    def wrong(self) -> int:
        """How many rows search gets wrong."""
        return self.lost_count + self.gone_count + len(self.stale_summaries) + self.gone_summaries

    @property
    def is_none(self) -> bool:
        return not (self.unindexed_messages or self.unindexed_summaries or self.wrong or self.upstream_lost)


@dataclass(frozen=True, slots=True)
class Hanging:
    """A place of a context whose message or summary is not in the archive."""

    conversation_id: int
    ordinal: int
    item: str


@dataclass(frozen=True, slots=True)
class Uncovered:
    """Messages of a conversation that nothing in its context leads to."""

    conversation_id: int
    count: int
    first_id: int
    last_id: int


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Messages of a conversation that were stored twice, side by side."""

    conversation_id: int
    count: int
    first_id: int


class Symptoms:
    """Reads for the doctor, and the one write that closes a debt."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def suspects(self, conversation_id: int | None = None) -> list[Suspect]:
        """Summaries that may be broken, shallow ones first."""
        found = self._db.rows(_QUERIES["suspects"], {"conversation_id": conversation_id})
        return [Suspect(id_, owner, text(content), text(model)) for id_, owner, content, model in found]

    def context_order(self, conversation_id: int) -> list[str]:
        """The summaries in a context, in order."""
        return [row[0] for row in self._db.rows(_QUERIES["context_order"], {"conversation_id": conversation_id})]

    def index_drift(self) -> IndexDrift:
        """Where our search index and the rows disagree; texts of messages are not read again."""
        messages, summaries = self._db.row(_QUERIES["unindexed"]) or (0, 0)
        place = {"base": PASSAGE_BASE, "limit": _NAMED}
        lost = self._db.rows(_QUERIES["lost_from_index"], place | {"blank": digest("")})
        gone = self._db.rows(_QUERIES["gone_from_archive"], place)
        gone_summaries = (self._db.row(_QUERIES["gone_summaries"]) or (0,))[0]
        texts = self._db.rows(_QUERIES["summary_texts"])
        stale = tuple(id_ for id_, content, known, is_there in texts if not is_there or known != digest(content))
        return IndexDrift(
            messages, summaries, lost[0][1] if lost else 0, gone[0][1] if gone else 0,
            tuple(row[0] for row in lost), tuple(row[0] for row in gone), stale, gone_summaries,
            SearchIndex(self._db).count_upstream_lost(), SearchIndex(self._db).emptied_upstream(),
        )  # fmt: skip

    def were_here(self, items: list[str]) -> bool:
        """Whether any of some messages that are not there has left something behind: then its words are gone."""
        ids = json.dumps([int(item.removeprefix("msg#")) for item in items if item.removeprefix("msg#").isdigit()])
        return self._db.row(_QUERIES["left_behind"], {"ids": ids}) is not None

    def is_folded(self, summary_ids: list[str]) -> bool:
        """Whether the log says what all of some summaries were made of."""
        row = self._db.row(_QUERIES["folded"], {"ids": json.dumps(summary_ids)})
        return row is not None and row[0] == len(summary_ids)

    def hanging(self) -> list[Hanging]:
        """Places of contexts that lead to nothing."""
        return [Hanging(*row) for row in self._db.rows(_QUERIES["hanging"])]

    def uncovered(self) -> list[Uncovered]:
        """Conversations with messages that are neither in the context, nor below a summary in it, nor hidden."""
        return [Uncovered(*row) for row in self._db.rows(_QUERIES["uncovered"])]

    def cycle(self) -> list[str]:
        """Summaries that are, through their sources, made of themselves; none in a sound archive."""
        sorter: TopologicalSorter[str] = TopologicalSorter()
        for summary_id, source_id in self._db.rows(_QUERIES["source_links"]):
            sorter.add(summary_id, source_id)
        try:
            sorter.prepare()
        except CycleError as error:
            return list(dict.fromkeys(error.args[1]))
        return []

    def without_sources(self) -> list[tuple[int, str]]:
        """Summaries that nothing was made into: conversation and id."""
        return [(row[0], row[1]) for row in self._db.rows(_QUERIES["without_sources"])]

    def no_texts(self) -> list[tuple[int, str]]:
        """Messages and summaries whose words are bytes: conversation and id."""
        return [(row[0], row[1]) for row in self._db.rows(_QUERIES["no_texts"])]

    def debts(self, now: datetime) -> list[DebtRow]:
        """Sweeps that are pending or said to run, those of closed conversations first."""
        return [record(DebtRow, row) for row in self._db.rows(_QUERIES["debts"], {"now": state_time(now)})]

    def close_debt(self, conversation_id: int, revision: int, reason: str, now: datetime) -> bool:
        """Close a pending debt that nobody changed since it was seen; needs a transaction."""
        values = {"conversation_id": conversation_id, "revision": revision, "reason": reason, "now": state_time(now)}
        self._db.run(_QUERIES["close_debt"], values)
        return self._db.changes() > 0

    def duplicates(self) -> list[Duplicates]:
        """Conversations with rows that older engines stored twice."""
        return [Duplicates(*row) for row in self._db.rows(_QUERIES["duplicates"])]

    def open_breakers(self, now: datetime) -> list[tuple[str, int, datetime | None]]:
        """Models that are not asked for now: key, failures, until when."""
        found = self._db.rows(_QUERIES["open_breakers"], {"now": state_time(now)})
        return [(key, failures, moment(until)) for key, failures, until in found]

    def schema(self) -> int | None:
        """The version of our tables in the file; None: none of ours."""
        row = self._db.row(_QUERIES["schema"])
        return row[0] if row else None

    def sqlite(self) -> str:
        """The version of SQLite."""
        row = self._db.row(_QUERIES["sqlite"])
        return str(row[0]) if row else ""

    def steps(self) -> dict[str, int]:
        """lossless-claw's migration steps in the file."""
        return dict(self._db.rows(_QUERIES["steps"]))

    def matching(self, filter_id: str, now: datetime, silence: timedelta) -> list[int]:
        """The conversations that a filter of `doctor clean` means; those that are open only after a silence."""
        moments = {"now": state_time(now), "silent_since": state_time(now - silence)}
        return [row[0] for row in self._db.rows(_QUERIES[filter_id], moments)]

    def broken_references(self) -> list[tuple[str, str]]:
        """Rows that refer to rows which are not there: table, and the table referred to."""
        return [(row[0], row[2]) for row in self._db.rows(_QUERIES["references"])]
