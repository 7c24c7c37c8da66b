"""What ingest remembers: turn keys, the last window, honest counters, and why input is refused."""

from __future__ import annotations

from dataclasses import dataclass
from struct import pack, unpack
from typing import TYPE_CHECKING

from lossless.model.times import row_time, state_time
from lossless.store.rows import time
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lossless.model.conversations import Conversation
    from lossless.store.database import Database

_QUERIES = load("ingest")
_PRINT = 8

#: Bits of `IngestState.producers`.
WITHOUT_IDS, WITH_IDS = 1, 2


@dataclass(frozen=True, slots=True)
class IngestState:
    """Counters of a conversation since its archive is ours; `blocked_reason` says why input is refused."""

    seen: int = 0
    stored: int = 0
    replayed: int = 0
    skipped: int = 0
    ambiguous: int = 0
    last_stored_at: datetime | None = None
    blocked_at: datetime | None = None
    blocked_reason: str | None = None
    producers: int = 0
    #: Messages that were given other words, and decisions that rest on likeness.
    revised: int = 0
    likely: int = 0


@dataclass(frozen=True, slots=True)
class WindowMark:
    """The last window that a host showed."""

    first_id: int | None
    last_id: int | None
    length: int
    #: Eight bytes for each of its messages.
    chain: bytes
    #: The row of each of its messages, with a minus for a system prompt at its head, 0 for what is not stored; None
    #: when nobody knows.
    rows: tuple[int, ...] | None = None
    #: The seq of the newest message when the first window was noted; None when nobody knows.
    began: int | None = None


@dataclass(frozen=True, slots=True)
class RecentWindow:
    """The last window of a conversation that was in use lately."""

    session_key: str
    conversation_id: int
    #: Eight bytes for each of its messages.
    chain: bytes


@dataclass(frozen=True, slots=True)
class Counts:
    """What one call adds to the counters."""

    seen: int
    stored: int = 0
    replayed: int = 0
    skipped: int = 0
    ambiguous: int = 0
    producers: int = 0
    #: Whether input is taken again, so that a refusal before it is over.
    fits: bool = False
    #: Tokens of the stored messages, and the seq of the last one.
    tokens: int = 0
    last_seq: int | None = None
    #: By how much their estimates for budgets are above their tokens.
    extra: int = 0
    revised: int = 0
    likely: int = 0


class IngestMemory:
    """Reads and writes the rows behind exactly-once ingest."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._has_advancements = False

    def state(self, conversation_id: int) -> IngestState:
        row = self._db.row(_QUERIES["state"], {"conversation_id": conversation_id})
        if row is None:
            return IngestState()
        seen, stored, replayed, skipped, ambiguous, last, blocked_at, reason, *more = row
        return IngestState(seen, stored, replayed, skipped, ambiguous, time(last), time(blocked_at), reason, *more)

    def producers(self, conversation_id: int) -> int:
        """Who has brought messages so far: bits of those with entry ids and those without."""
        row = self._db.row(_QUERIES["producers"], {"conversation_id": conversation_id})
        return 0 if row is None else row[0]

    def count(self, conversation_id: int, counts: Counts, now: datetime) -> None:
        """Add to the counters."""
        stored_at = state_time(now) if counts.stored else None
        self._db.run(
            _QUERIES["count"],
            {
                "conversation_id": conversation_id, "seen": counts.seen, "stored": counts.stored,
                "replayed": counts.replayed, "skipped": counts.skipped, "ambiguous": counts.ambiguous,
                "producers": counts.producers, "stored_at": stored_at, "fits": counts.fits, "tokens": counts.tokens,
                "last_seq": counts.last_seq, "extra": counts.extra, "revised": counts.revised, "likely": counts.likely,
            },
        )  # fmt: skip

    def block(self, conversation_id: int, reason: str, now: datetime) -> None:
        """Make it visible that input is refused, and why."""
        self._db.run(_QUERIES["block"], {"conversation_id": conversation_id, "at": state_time(now), "reason": reason})

    def context_tokens(self, conversation_id: int) -> int | None:
        """The tokens of the context as counted along; None when they must be added up."""
        return self._counted(conversation_id)[0]

    def context_budget(self, conversation_id: int) -> int | None:
        """The same by the estimates for budgets."""
        tokens, extra = self._counted(conversation_id)
        return None if tokens is None or extra is None else tokens + extra

    def _counted(self, conversation_id: int) -> tuple[int | None, int | None]:
        row = self._db.row(_QUERIES["context_tokens"], {"conversation_id": conversation_id})
        return (None, None) if row is None else (row[0], row[1])

    def set_context_tokens(self, conversation_id: int, tokens: int, extra: int | None = None) -> None:
        """Note what a context has; `extra` is by how much the estimates for budgets are above that."""
        self._db.run(
            _QUERIES["set_context_tokens"], {"conversation_id": conversation_id, "tokens": tokens, "extra": extra}
        )

    def has_key(self, conversation_id: int, key: str, payload_hash: str | None = None) -> bool:
        """Whether a batch with this key, and with these words where they are known, was stored, by us or upstream."""
        place = {"conversation_id": conversation_id, "key": key}
        row = self._db.row(_QUERIES["turn_key"], place)
        if row is not None and payload_hash is not None and row[0] not in (0, _short(payload_hash)):
            again = {"conversation_id": conversation_id, "key": _with_words(key, payload_hash)}
            return self._db.row(_QUERIES["turn_key"], again) is not None
        if row is not None:
            return True
        return self._advancements() and self._db.row(_QUERIES["known_advancement"], place) is not None

    def remember_key(
        self,
        conversation: Conversation,
        key: str,
        entries: list[str],
        count: int,
        payload_hash: str,
        now: datetime,
    ) -> None:
        """Record a batch's key; where upstream's table of turn advancements is there, in it as well."""
        values = {"conversation_id": conversation.id, "key": key, "count": count, "now": row_time(now)}
        values["digest"] = _short(payload_hash)
        self._db.run(_QUERIES["remember_key"], values)
        if not self._db.changes():  # the key was used before, with other words
            self._db.run(_QUERIES["remember_key"], values | {"key": _with_words(key, payload_hash)})
        if count and self._advancements():
            self._db.run(
                _QUERIES["advancement"],
                {
                    "key": key, "payload_hash": payload_hash, "session_id": conversation.session_id,
                    "session_key": conversation.session_key, "first_entry": entries[0] if entries else "",
                    "last_entry": entries[-1] if entries else "", "count": count,
                },
            )  # fmt: skip

    def window(self, conversation_id: int) -> WindowMark | None:
        row = self._db.row(_QUERIES["window"], {"conversation_id": conversation_id})
        if row is None:
            return None
        first, last, length, chain, began = row
        end = _PRINT * length
        return WindowMark(first, last, length, chain[:end], _unpacked(chain[end:], length), began)

    def recent_windows(self, base: str, limit: int, most: int) -> list[RecentWindow]:
        """The windows of the conversations below a key that were in use last, newest first.

        Only the `most` newest windows of all are looked at, so that the cost does not grow with the archive.
        """
        found = self._db.rows(_QUERIES["recent_windows"], {"base": base, "limit": limit, "most": most})
        return [RecentWindow(key, id_, bytes(chain)) for key, id_, chain in found]

    def set_window(self, conversation_id: int, mark: WindowMark, now: datetime) -> None:
        self._db.run(
            _QUERIES["set_window"],
            {
                "conversation_id": conversation_id, "first": mark.first_id, "last": mark.last_id,
                "length": mark.length, "chain": mark.chain + _packed(mark.rows or ()), "now": row_time(now),
            },
        )  # fmt: skip

    def _advancements(self) -> bool:
        if not self._has_advancements:  # lossless-claw may make it at any time
            self._has_advancements = self._db.row(_QUERIES["has_advancements"]) is not None
        return self._has_advancements


def _with_words(key: str, payload_hash: str) -> str:
    """The name of a batch whose key was used before with other words."""
    return f"{key}\0{payload_hash[:32]}"


def _short(payload_hash: str) -> int:
    """A digest as a number that a column can hold; 0 when there is none."""
    return int(payload_hash[:15], 16) + 1 if payload_hash else 0


def _packed(rows: Sequence[int]) -> bytes:
    """Row ids as runs: where each begins, and how long it is. Most windows are one or two."""
    runs: list[int] = []
    following: int | None = None
    for id_ in rows:
        if runs and (id_ == following or (not id_ and not runs[-2])):
            runs[-1] += 1
        else:
            runs += [id_, 1]
        following = id_ + 1 if id_ and id_ != -1 else None
    return pack(f"<{len(runs)}q", *runs)


def _unpacked(data: bytes, length: int) -> tuple[int, ...] | None:
    """The row ids that were packed; None for a window that was noted without them."""
    if not data or len(data) % 16:
        return None
    runs = unpack(f"<{len(data) // 8}q", data)
    rows: list[int] = []
    for first, count in zip(runs[::2], runs[1::2], strict=True):
        rows += range(first, first + count) if first else [0] * count
    return tuple(rows) if len(rows) == length else None
