"""State between calls: ingest counters and windows, pending compaction, cache telemetry, leases, spend, breakers,
recall grants, marks of forgotten texts, pins, briefs, evidence and receipts.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import blake2b
from itertools import count, groupby
from operator import itemgetter, sub
from pathlib import Path
from struct import iter_unpack, pack
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from lossless.errors import NotFound
from lossless.model.budget import BudgetMemory, HistoryBudget
from lossless.model.masking import CutText, PhraseMarker, mark_cutter
from lossless.model.records import CompactionDebt, EvidenceRow, ModelSpend, PromptRecord, StoredBrief, WindowMark
from lossless.model.times import row_time
from lossless.store.database import Database, Sql, TableAccess, column_time, load_queries, row_values, time_or_epoch
from lossless.store.rows import json_object

if TYPE_CHECKING:
    from decimal import Decimal

    from lossless.model.conversations import Conversation

_PRINT = 8
#: What one call adds to the counters, besides what it has seen.
_NO_COUNTS: dict[str, object] = dict.fromkeys(
    ("stored", "replayed", "skipped", "ambiguous", "producers", "fits", "tokens", "extra", "revised", "likely"), 0
)
#: Bits of `IngestState.producers`.
WITHOUT_IDS, WITH_IDS = 1, 2


@dataclass(frozen=True, slots=True)
class IngestState:
    """Counters of a conversation; `blocked_reason` says why input is refused."""

    seen: int = 0
    stored: int = 0
    replayed: int = 0
    skipped: int = 0
    ambiguous: int = 0
    last_stored_at: datetime | None = None
    blocked_at: datetime | None = None
    blocked_reason: str | None = None
    producers: int = 0
    #: Messages that were reworded, and decisions based on similarity.
    revised: int = 0
    likely: int = 0


class IngestMemory(TableAccess):
    """Reads and writes the rows behind exactly-once ingest."""

    queries = load_queries("ingest")
    block: Sql[[int, str, datetime], None] = Sql("run", "conversation_id reason at")
    #: The windows of the most recently used conversations below a key, newest first: key, conversation, prints; at most
    #: so many, and only so many of the newest overall are read: the cost does not grow with the archive.
    recent_windows: Sql[[str, int, int], list[tuple[str, int, bytes]]] = Sql("rows", "base limit most")
    #: The producers of messages so far: bits for those with and without entry ids.
    producers: Sql[[int], int] = Sql("count", "conversation_id")

    def __init__(self, database: Database) -> None:
        self._db = database
        self._has_advancements = False

    def state(self, conversation_id: int) -> IngestState:
        return self._record(IngestState, "state", conversation_id=conversation_id) or IngestState()

    def count(
        self, conversation_id: int, now: datetime, *, seen: int, last_seq: int | None = None, **counts: int
    ) -> None:
        """Add what one call stored (`stored`, `tokens`, `extra`), and what became of the rest; no other names.

        `extra` is by how much budget estimates exceed the tokens; `fits` ends an earlier refusal of input.
        """
        values: dict[str, object] = _NO_COUNTS | counts
        if len(values) > len(_NO_COUNTS):
            raise TypeError(f"unknown counts: {sorted(counts.keys() - _NO_COUNTS)}")
        stored_at = now if values["stored"] else None
        self._run("count", (conversation_id, seen, last_seq, stored_at, *values.values()))

    def context_counts(self, conversation_id: int) -> tuple[int | None, int | None, int]:
        """The running token count of the context, by how much budget estimates exceed it, and the ordinal that follows.

        A count that must be computed again is None.
        """
        return self._row("context_tokens", conversation_id=conversation_id) or (None, None, 0)

    def set_context_tokens(self, conversation_id: int, tokens: int, extra: int | None = None) -> None:
        """Store the token count of a context; `extra` is by how much the budget estimates exceed it."""
        self._run("set_context_tokens", conversation_id=conversation_id, tokens=tokens, extra=extra)

    def has_key(self, conversation_id: int, key: str, payload_hash: str | None = None) -> bool:
        """Whether a batch with this key, and with these words where known, was stored, by us or upstream."""
        place = {"conversation_id": conversation_id, "key": key}
        row = self._row("turn_key", place)
        if row is None:
            return self._advancements() and self._any("known_advancement", place)
        if payload_hash is None or row[0] in (0, _short(payload_hash)):
            return True
        return self._any("turn_key", place | {"key": _with_words(key, payload_hash)})

    def remember_key(
        self, conversation: Conversation, key: str, entries: list[str], count: int, payload_hash: str, now: datetime
    ) -> None:
        """Record a batch's key, also in upstream's table of turn advancements if it exists."""
        values = {"conversation_id": conversation.id, "key": key, "count": count, "now": row_time(now)}
        values["digest"] = _short(payload_hash)
        if not self._changed("remember_key", values):  # the key was used before, with other words
            self._run("remember_key", values | {"key": _with_words(key, payload_hash)})
        if count and self._advancements():
            self._run(
                "advancement", key=key, payload_hash=payload_hash, session_id=conversation.session_id,
                session_key=conversation.session_key, first_entry=entries[0] if entries else "",
                last_entry=entries[-1] if entries else "", count=count,
            )  # fmt: skip

    def window(self, conversation_id: int) -> WindowMark | None:
        row = self._row("window", conversation_id=conversation_id)
        if row is None:
            return None
        first, last, length, chain, began = row
        end = _PRINT * length
        return WindowMark(first, last, length, chain[:end], _unpacked(chain[end:], length), began)

    def set_window(self, conversation_id: int, mark: WindowMark, now: datetime) -> None:
        self._run(
            "set_window", conversation_id=conversation_id, first=mark.first_id, last=mark.last_id, length=mark.length,
            chain=mark.chain + _packed(mark.rows or ()), now=row_time(now),
        )  # fmt: skip

    def _advancements(self) -> bool:
        if not self._has_advancements:  # lossless-claw may create it at any time
            self._has_advancements = self._any("has_advancements")
        return self._has_advancements


def _with_words(key: str, payload_hash: str) -> str:
    """The name of a batch whose key was used before with other words."""
    return f"{key}\0{payload_hash[:32]}"


def _short(payload_hash: str) -> int:
    """A digest as an integer for a column; 0 when there is none."""
    return int(payload_hash[:15], 16) + 1 if payload_hash else 0


def _packed(rows: tuple[int, ...]) -> bytes:
    """Row ids as runs: starts and lengths. Most windows are one or two."""
    if rows and 0 < rows[0] == rows[-1] - len(rows) + 1 and rows == (*range(rows[0], rows[-1] + 1),):
        return pack("<2q", rows[0], len(rows))
    keys = zip(map(sub, rows, count()), map((0).__lt__, rows), strict=True)  # the same all along a run
    runs = [[row for row, _ in some] for _, some in groupby(zip(rows, keys, strict=True), itemgetter(1))]
    return b"".join([pack("<2q", run[0], len(run)) for run in runs])


def _unpacked(data: bytes, length: int) -> tuple[int, ...] | None:
    """The packed row ids; None for a window that was recorded without them."""
    if not data or len(data) % 16:
        return None
    runs = iter_unpack("<2q", data)
    rows = [row for first, count in runs for row in (range(first, first + count) if first else [0] * count)]
    return tuple(rows) if len(rows) == length else None


#: A compaction that was started longer ago is dead, in any process.
MAX_SWEEP_TIME = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class CacheObservation:
    """A provider's report about one call of the host: the prompt's size and its cache use."""

    prompt_tokens: int | None
    cache_read: int = 0
    cache_write: int = 0
    provider: str | None = None
    model: str | None = None
    #: Tokens of the reply.
    output_tokens: int = 0

    @property
    def cache_state(self) -> str:
        """`hot` when the cache was read, `cold` when it was only written, else `unknown`."""
        return "hot" if self.cache_read > 0 else "cold" if self.cache_write > 0 else "unknown"


_HOLDER = re.compile(r"([0-9a-f]{12}):(\d{1,9})-")
#: Identify a machine, its last boot, and its process namespace.
_BOOT, _PROCESSES = Path("/proc/sys/kernel/random/boot_id"), "/proc/self/ns/pid"


def new_holder() -> str:
    return f"{_machine()}:{os.getpid()}-{uuid4().hex[:8]}"


def holder_has_ended(holder: str) -> bool:
    """Whether a holder was a process of this machine that has ended; one elsewhere may still be running."""
    named = _HOLDER.match(holder)
    if named is None or named[1] != _machine() or os.name != "posix":
        return False
    try:
        os.kill(int(named[2]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


@cache
def _machine() -> str:
    seen = [os.uname().nodename if os.name == "posix" else ""]
    with suppress(OSError):  # a system without these
        seen += [_BOOT.read_text(), os.readlink(_PROCESSES)]
    return blake2b("\0".join(seen).encode(), digest_size=6).hexdigest()


@dataclass(frozen=True, slots=True)
class LedgerRow:
    id: int
    scope: str
    kind: str
    at: datetime
    until: datetime | None
    window_at: datetime | None
    result: str


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission for one session to read some conversations, up to a number of tokens, until a time."""

    id: str
    #: The session that issued it.
    issuer: str
    #: The session that may use it; None once it was released.
    holder: str | None
    conversation_ids: tuple[int, ...]
    #: Only these summaries and what is under them; empty means all.
    summary_ids: tuple[str, ...]
    token_cap: int
    tokens_used: int
    max_depth: int
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None

    @property
    def remaining(self) -> int:
        """How many tokens are left."""
        return max(0, self.token_cap - self.tokens_used)


class Guards(TableAccess):
    """Pending compactions, leases, limits of model calls, budgets, and grants; writes of grants need a transaction."""

    queries = load_queries("guards", "debts", "grants")
    #: Deduct tokens from a grant; False, without a deduction, when it is no longer valid or has too few.
    charge_grant: Sql[[str, int, datetime], bool] = Sql("changed", "id tokens now", "charge")
    #: Release a lease, if it is still ours.
    drop_lease: Sql[[str, str], None] = Sql("run", "name owner")
    #: Remove a lease, regardless of its holder.
    break_lease: Sql[[str], None] = Sql("run", "name")
    set_breaker: Sql[[str, int, datetime | None, datetime], None] = Sql("run", "key failures open_until now")
    #: A model's tokenizer calibration: ratio, spread, observations.
    factor: Sql[[str], tuple[float, float, int] | None] = Sql("row", "model")
    set_factor: Sql[[str, float, float, int, datetime], None] = Sql("run", "model ratio spread observations now")
    #: The active conversations with a budget, most recently changed first.
    active_histories: Sql[[], list[int]] = Sql("column")
    #: Chunks that are not worth another try, and why.
    stubborn: Sql[[int], dict[str, str]] = Sql("pairs", "conversation_id")
    remember_stubborn: Sql[[int, str, str, datetime], None] = Sql("run", "conversation_id chunk kind now")
    #: A conversation's pending compaction; None when it never had one.
    debt: Sql[[int], CompactionDebt | None] = Sql("record", "conversation_id", "get", CompactionDebt)
    #: Reset the counters after a leaf.
    leaf_compacted: Sql[[int, datetime], None] = Sql("run", "conversation_id now")
    #: A grant in any state; None when it never existed or was deleted.
    grant: Sql[[str], Grant | None] = Sql("record", "id", "by_id", Grant)
    #: The grant of a session: a valid one, else the newest.
    grant_of: Sql[[str, datetime], Grant | None] = Sql("record", "holder now", "by_holder", Grant)
    #: End all grants of a session; an earlier end is kept.
    revoke_grants_of: Sql[[str, datetime], None] = Sql("run", "holder now", "revoke_holder")
    #: Remove all grants, ended or not, from a session.
    unbind_grants: Sql[[str], None] = Sql("run", "holder", "unbind")
    remembered: Sql[[str], str | None] = Sql("value", "name", "memory")
    remember: Sql[[str, str], None] = Sql("run", "name value")

    def take_lease(self, name: str, owner: str, now: datetime, length: timedelta) -> bool:
        """Take or renew a lease; False when another live holder has it. Needs a transaction."""
        if not self.is_leased(name, now):
            self.break_lease(name)
        return self._changed("take_lease", name=name, owner=owner, now=now, expires=now + length)

    def is_leased(self, name: str, now: datetime) -> bool:
        """Whether a lease is held by a holder that seems alive."""
        holder = self._value("lease", name=name, now=now)
        return holder is not None and not holder_has_ended(holder)

    def ledger(self, scope: str, since: datetime) -> list[LedgerRow]:
        """The entries of a scope since a moment, oldest first."""
        return self._records(LedgerRow, "ledger", scope=scope, since=since)

    def add_entry(self, row: LedgerRow, **more: str | int | None) -> int:
        """Add an entry, with its `conversation_id`, `purpose` and `model`; the archive assigns its id."""
        none = dict.fromkeys(("conversation_id", "purpose", "model"))
        return self._added("add_entry", none | row_values(row) | more)

    def settle(
        self, entry_id: int, result: str, *, model: str | None, input_tokens: int, output_tokens: int,
        cost: Decimal | None,
    ) -> None:  # fmt: skip
        """Record how a reserved call ended and what it used."""
        price = None if cost is None else str(cost)
        self._run("settle", (entry_id, result, model, input_tokens, output_tokens, price))

    def spent(self, since: datetime, conversation_id: int | None = None) -> list[ModelSpend]:
        """Model calls since a moment, by model and purpose."""
        return self._records(ModelSpend, "spent", since=since, conversation_id=conversation_id)

    def breaker(self, key: str) -> tuple[int, datetime | None]:
        """How often in a row a model refused us, and until when it is not called."""
        row = self._row("breaker", key=key)
        return (0, None) if row is None else (row[0], column_time(row[1]))

    def history(self, conversation_id: int) -> BudgetMemory | None:
        """A conversation's remembered budget; None when it never had one."""
        row = self._row("history", conversation_id=conversation_id)
        return None if row is None else BudgetMemory(HistoryBudget(*row[:5]), *row[5:])

    def newest_histories(self, limit: int) -> list[tuple[int, HistoryBudget]]:
        """The most recently changed budgets, by conversation."""
        return [(row[0], HistoryBudget(*row[1:])) for row in self._rows("newest_histories", limit=limit)]

    def set_history(self, conversation_id: int, kept: BudgetMemory, now: datetime) -> None:
        counted = {"counted_frame": kept.frame, "counted_at": kept.frame_at, "longest_reply": kept.longest_reply}
        self._run("set_history", row_values(kept.budget) | counted | {"conversation_id": conversation_id, "now": now})

    def put_debt(self, debt: CompactionDebt) -> None:
        self._run("put", row_values(debt))

    def pending_debts(self, *, archived: bool = False, now: datetime | None = None) -> list[int]:
        """Conversations with a pending or unfinished compaction, longest waiting first."""
        now = now or datetime.now(UTC)
        return self._column("pending", all=archived, now=now, dead=now - MAX_SWEEP_TIME)

    def observe_cache(self, conversation_id: int, seen: CacheObservation, tokens: int, now: datetime) -> None:
        """Record a provider's report; informational only."""
        more = {"conversation_id": conversation_id, "state": seen.cache_state, "tokens": tokens, "now": now}
        self._run("observe", row_values(seen) | more)

    def issue_grant(self, grant: Grant) -> None:
        self._run("issue", row_values(grant))

    def sweep_grants(self, before: datetime, now: datetime, marks: str) -> None:
        """Delete grants that ended before a moment, and expired leases under a prefix."""
        self._run("sweep", before=before)
        self._run("sweep_marks", first=marks, last=(marks[:-1] + chr(ord(marks[-1]) + 1)), now=now)


_KEY_BYTES = 32
#: The scope of a whole message that is forgotten in every conversation.
EVERYWHERE = 0


#: One round of forgetting: what removes phrases, or which whole messages are emptied: keyed digests of their
#: fingerprints, each with its conversation.
ForgetRound: TypeAlias = "CutText | frozenset[tuple[bytes, int]]"


class Tombstones(TableAccess):
    """Reads and writes marks of forgotten texts. Where nothing was forgotten, a check costs one small query."""

    queries = load_queries("tombstones")

    def __init__(self, database: Database) -> None:
        self._db = database
        self._read: tuple[tuple[int, int], tuple[ForgetRound, ...], PhraseMarker] | None = None

    def rounds(self) -> tuple[ForgetRound, ...]:
        """What was forgotten, in order; empty where nothing was."""
        newest, count = self._rows("newest")[0]
        if not count:
            return ()
        if self._read is None or self._read[0] != (newest, count):
            marker = self.marker()
            found: list[ForgetRound] = []
            for is_whole, some in groupby(self._rows("all"), lambda row: row[2] is None):
                if is_whole:
                    found.append(frozenset((digest, where) for _, digest, _, _, where in some))
                else:
                    rounds = groupby(some, itemgetter(0))
                    marks = [[(length, roll, digest) for _, digest, length, roll, _ in one] for _, one in rounds]
                    found.append(mark_cutter(marker, marks))
            self._read = (newest, count), tuple(found), marker
        return self._read[1]

    def digest(self, fingerprint: bytes) -> bytes:
        return (self._read[2] if self._read else self.marker()).digest(fingerprint)

    def marker(self) -> PhraseMarker:
        """Makes marks with this archive's key, which is created on first use."""
        if not self._any("key"):
            self._run("set_key", key=secrets.token_bytes(_KEY_BYTES))
        return PhraseMarker(self._column("key")[0])

    def add(self, phrases: Sequence[Iterable[str]], whole: Iterable[tuple[bytes, int]] = ()) -> None:
        """Record phrases, each in all its spellings and in its own round, and whole messages by their fingerprints.

        Needs a transaction.
        """
        marker = self.marker()
        round_ = self._count("newest")
        rows: list[tuple[int, bytes, int | None, int | None, int]] = []
        for texts in phrases:
            round_ += 1
            marks = [marker.mark(text) for text in texts]
            rows += [(round_, digest, length, roll, EVERYWHERE) for length, roll, digest in marks]
        rows += [(round_ + 1, marker.digest(print_), None, None, where) for print_, where in whole]
        self._run_many("add", rows)


#: How many receipts of one conversation are kept, and for how long.
MOST_RECEIPTS = 500
RECEIPT_AGE = timedelta(days=30)
#: After so many receipts the older ones are deleted.
_TRIM_EVERY = 32
#: What of a receipt are pairs: an id, and a form or a reason.
_PAIRS = ("included", "left_out", "evidence")


@dataclass(frozen=True, slots=True)
class PinRow:
    """A pinned text or message."""

    id: int
    message_id: int | None
    content: str
    at: datetime | None


class Prompts(TableAccess):
    """Reads and writes what a prompt shows in addition to the context (pins, briefs, evidence), and receipts.

    Evidence and receipts contain no message text. Writes need a transaction.
    """

    queries = load_queries("prompts", "extras", "briefs")
    #: Deactivate the active brief; False when there was none.
    deactivate_brief: Sql[[int, datetime], bool] = Sql("changed", "conversation_id now", "deactivate")
    set_brief_status: Sql[[str, str, datetime], None] = Sql("run", "id status now", "set_status")
    #: The newest message under each summary of the context; reads the whole graph below.
    newest_seqs: Sql[[int], dict[str, int]] = Sql("pairs", "conversation_id")
    #: Summaries of the context with older content than a brief's sources, added by surgery.
    newcomers: Sql[[int, str], frozenset[str]] = Sql("set", "conversation_id brief_id")
    #: A number that changes with each fold; 0 before the first.
    newest_fold: Sql[[int], int] = Sql("count", "conversation_id", "fold")
    #: The evidence chosen since a fold, oldest first.
    evidence: Sql[[int, int], list[EvidenceRow]] = Sql("records", "conversation_id fold", "", EvidenceRow)
    #: What came after a brief: messages, their tokens, summaries.
    since_brief: Sql[[str], tuple[int, int, int]] = Sql("row", "id", "since")
    #: Record that the user message for evidence is now stored.
    bind_evidence: Sql[[int, int], None] = Sql("run", "evidence_id message_id")
    #: The first user message after another message.
    user_after: Sql[[int, int], int | None] = Sql("value", "conversation_id after_id")
    #: Remove evidence from the prompt until something is chosen for other words.
    empty_evidence: Sql[[Collection[int]], None] = Sql("run", "ids")
    #: The messages among these that were removed from their conversation.
    hidden: Sql[[Sequence[int]], frozenset[int]] = Sql("set", "ids")

    def pins(self, conversation_id: int) -> list[PinRow]:
        return self._records(PinRow, "pins", conversation_id=conversation_id)

    def pin(
        self, conversation_id: int, now: datetime, *, text: str | None = None, message_id: int | None = None
    ) -> int:
        """Pin a text or a message; returns the pin's id."""
        values = {"conversation_id": conversation_id, "message_id": message_id, "content": text}
        return self._added("add_pin", values | {"now": row_time(now)})

    def unpin(self, conversation_id: int, pin_id: int) -> None:
        """Remove a pin; raises `NotFound`."""
        if not self._changed("drop_pin", conversation_id=conversation_id, pin_id=pin_id):
            raise NotFound("pin", pin_id)

    def active_brief(self, conversation_id: int) -> StoredBrief | None:
        """The active focus brief, which covers older summaries, if there is one."""
        return self._record(StoredBrief, "active_brief", conversation_id=conversation_id)

    def files(self, file_ids: Sequence[str]) -> dict[str, tuple[int, str]]:
        return {file_id: (size or 0, summary or "") for file_id, size, summary in self._rows("files", ids=file_ids)}

    def newest_briefs(self, conversation_id: int, limit: int = 1) -> list[StoredBrief]:
        return self._records(StoredBrief, "newest", conversation_id=conversation_id, limit=limit)

    def brief_sources(self, brief_id: str) -> dict[str, tuple[str, ...]]:
        """The summaries behind a brief by their role."""
        return {role: tuple(ids) for role, ids in self._lists("sources", id=brief_id).items()}

    def add_brief(
        self, conversation: Conversation, brief: StoredBrief, sources: Mapping[str, Sequence[str]], now: datetime
    ) -> None:
        """Write a brief; an active one supersedes earlier ones."""
        at = row_time(now)
        latest = None if brief.covered_latest_at is None else row_time(brief.covered_latest_at)
        values = asdict(brief) | {"session_key": conversation.session_key, "latest": latest, "run": brief.id, "now": at}
        self._run("insert", values | {"conversation_id": conversation.id})
        rows = [(brief.id, id_, n, role, at) for role, ids in sources.items() for n, id_ in enumerate(ids)]
        self._run_many("add_source", rows)
        if brief.status == "active":
            self._run("supersede", conversation_id=conversation.id, id=brief.id, now=at)

    def add_evidence(self, conversation_id: int, fold: int, row: EvidenceRow, now: datetime) -> None:
        """Record evidence; deletes what was chosen before the newest fold, or for words that never came."""
        values = row_values(row) | {"conversation_id": conversation_id, "fold": fold, "at": now}
        quotes = [[q.message_id, q.start, q.end, round(q.score, 3), q.words] for q in row.quotes]
        self._run("drop_older_evidence", values)
        self._run("add_evidence", values | {"quotes": quotes})

    def add_receipt(
        self, conversation_id: int, tokens: int, capacity: int, detail: dict[str, Any], now: datetime
    ) -> None:
        """Record how a prompt was assembled."""
        text = json.dumps(detail, ensure_ascii=False, separators=(",", ":"))
        if self._added("add_receipt", (conversation_id, now, tokens, capacity, text)) % _TRIM_EVERY == 0:
            self._run("trim_receipts", (conversation_id, now - RECEIPT_AGE, MOST_RECEIPTS))

    def receipts(self, conversation_id: int, limit: int = MOST_RECEIPTS) -> list[PromptRecord]:
        """The newest receipts of a conversation, oldest first."""
        found = []
        for id_, at, tokens, capacity, text in self._rows("receipts", conversation_id=conversation_id, limit=limit):
            detail = json_object(text)
            pairs = {name: tuple((str(one), str(two)) for one, two in detail.get(name, ())) for name in _PAIRS}
            found.append(PromptRecord(id_, time_or_epoch(at), tokens, capacity, detail.get("kinds", {}), **pairs))
        return found[::-1]
