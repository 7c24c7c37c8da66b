"""Messages on disk: stored once, rebuilt exactly."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.errors import NotFound
from lossless.model.budget import message_budget_tokens
from lossless.model.identity import fingerprint
from lossless.model.messages import MADE_UP, line_alone
from lossless.model.times import row_time
from lossless.store import rows
from lossless.store.index import digest, indexed_text
from lossless.store.row_digests import message_digest
from lossless.store.rows import PackedMessage, PartRow
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from lossless.model.conversations import Conversation
    from lossless.model.messages import Message, StoredMessage
    from lossless.store.database import Database, Row
    from lossless.store.index import SearchIndex

_QUERIES = load("messages")
_INSERT, _INSERT_EXTRAS = _QUERIES["insert"], _QUERIES["insert_extras"]
_INSERT_PART, _INSERT_CONTEXT = _QUERIES["insert_part"], _QUERIES["insert_context"]
_NEXT_PLACES = _QUERIES["next_places"]


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message that is about to be stored, with everything worked out about it."""

    message: Message
    identity: str
    fingerprint: bytes
    created_at: datetime
    entry_id: str | None = None
    event_key: str | None = None
    sender: str | None = None
    #: `file_…` id of the payload that the content refers to.
    file_id: str | None = None
    #: A system prompt or a notice at the head of a window: it has no place in the order of what was said.
    is_preamble: bool = False


@dataclass(frozen=True, slots=True)
class TailRow:
    """A stored message as alignment sees it."""

    id: int
    fingerprint: bytes
    entry_id: str | None
    #: Whether a producer without entry ids has brought it.
    claimed: bool
    role: str
    seq: int
    #: Whether it stood at the head of a window, so that it has no place in the order of what was said.
    is_preamble: bool = False


@dataclass(frozen=True, slots=True)
class Appended:
    """Messages that were just stored: their ids, the seq of the last one, the tokens of all."""

    ids: tuple[int, ...] = ()
    last_seq: int | None = None
    tokens: int = 0
    #: By how much their estimates for budgets are above their tokens.
    extra: int = 0

    def __add__(self, later: Appended) -> Appended:
        last_seq = later.last_seq or self.last_seq
        return Appended(self.ids + later.ids, last_seq, self.tokens + later.tokens, self.extra + later.extra)


class Messages:
    """Reads and writes of messages, parts and their places in the context."""

    def __init__(self, database: Database, index: SearchIndex) -> None:
        self._db, self._index = database, index

    def append(
        self, conversation: Conversation, new: Sequence[NewMessage], now: datetime, *, in_context: bool = True
    ) -> Appended:
        """Store messages at the end of a conversation: rows, parts, context and index, in the caller's transaction."""
        if not new:
            return Appended()
        places = self._db.row(_NEXT_PLACES, {"conversation_id": conversation.id})
        assert places is not None
        first, seq, ordinal = places
        packed = [rows.pack(item.message) for item in new]
        texts = [indexed_text(pack.content, item.message) for item, pack in zip(new, packed, strict=True)]
        at = row_time(now)
        parts = [rows.part_values(first + n, pack.parts) for n, pack in enumerate(packed)]
        estimates = [message_budget_tokens(item.message) for item in new]
        self._db.run_many(
            _INSERT,
            [
                (first + n, conversation.id, seq + n, item.message.role, pack.content, item.message.tokens,
                 item.identity, item.sender, item.entry_id, row_time(item.created_at), item.event_key, item.file_id)
                for n, (item, pack) in enumerate(zip(new, packed, strict=True))
            ],
        )  # fmt: skip
        self._db.run_many(
            _INSERT_EXTRAS,
            [
                (first + n, item.fingerprint, digest(text) + _whole(item, pack, parts[n], estimates[n]),
                 item.entry_id is None, item.is_preamble,
                 None if item.message.format == "plain" else item.message.format, pack.skeleton, estimates[n])
                for n, (item, pack, text) in enumerate(zip(new, packed, texts, strict=True))
            ],
        )  # fmt: skip
        if part_rows := [row for some in parts for row in some]:
            self._db.run_many(_INSERT_PART, part_rows)
        if in_context:
            self._db.run_many(_INSERT_CONTEXT, [(conversation.id, ordinal + n, first + n, at) for n in range(len(new))])
        self._index.add_messages(first, texts, [pack.content for pack in packed])
        tokens = sum(item.message.tokens for item in new)
        extra = sum(max(0, most - item.message.tokens) for most, item in zip(estimates, new, strict=True))
        return Appended(tuple(range(first, first + len(new))), seq + len(new) - 1, tokens, extra)

    def known_entries(self, conversation_id: int, entry_ids: Sequence[str]) -> dict[str, TailRow]:
        """Which of a host's entry ids are stored, and where, hidden rows too.

        One that was made up for a line whose words must not be kept is stored as that line alone.
        """
        lines = {id_: line for id_ in entry_ids if (line := line_alone(id_)) != id_}
        found = self._known("known_entries", conversation_id, [*entry_ids, *lines.values()])
        return {id_: row for id_ in entry_ids if (row := found.get(id_) or found.get(lines.get(id_, id_))) is not None}

    def known_events(self, conversation_id: int, event_keys: Sequence[str]) -> dict[str, TailRow]:
        """Which of the providers' event keys are stored, and where, hidden rows too."""
        return self._known("known_events", conversation_id, event_keys)

    def called_after(self, conversation_id: int, results: Mapping[str, int]) -> frozenset[str]:
        """Which of these calls were made again after the row of their result was stored."""
        if not results:
            return frozenset()
        place = {"conversation_id": conversation_id, "results": json.dumps(list(results.items()))}
        return frozenset(row[0] for row in self._db.rows(_QUERIES["called_after"], place))

    def _known(self, query: str, conversation_id: int, ids: Sequence[str]) -> dict[str, TailRow]:
        if not ids:
            return {}
        found = self._db.rows(_QUERIES[query], {"conversation_id": conversation_id, "ids": json.dumps(ids)})
        rows_ = self._tail_rows([row[1:] for row in found])
        return {row[0]: known for row, known in zip(found, rows_, strict=True)}

    def made_up(self, conversation_id: int) -> list[tuple[int, str]]:
        """Rows with an entry id that was made up, hidden ones too."""
        place = {"conversation_id": conversation_id, "first": MADE_UP, "end": chr(ord(MADE_UP) + 1)}
        return [(id_, entry) for id_, entry in self._db.rows(_QUERIES["made_up"], place)]

    def twins(self, conversation_id: int, pairs: Sequence[tuple[str, datetime]]) -> list[int]:
        """Rows with a host's entry id that have one of these identities, and its second."""
        asked = json.dumps([(identity, row_time(at)) for identity, at in pairs])
        found = self._db.rows(_QUERIES["twins"], {"conversation_id": conversation_id, "pairs": asked})
        return [row[0] for row in found]

    def newest_id(self, conversation_id: int) -> int | None:
        return _id(self._db.row(_QUERIES["newest"], {"conversation_id": conversation_id}))

    def newest_said_id(self, conversation_id: int) -> int | None:
        """The newest message that is no system prompt or notice at the head of a window."""
        return _id(self._db.row(_QUERIES["newest_said"], {"conversation_id": conversation_id}))

    def newest_users(self, conversation_ids: Iterable[int]) -> dict[int, int]:
        """The newest user message of each conversation that has one."""
        found = self._db.rows(_QUERIES["newest_users"], {"ids": json.dumps(list(conversation_ids))})
        return {conversation_id: id_ for conversation_id, id_ in found if id_ is not None}

    def tail(self, conversation_id: int, limit: int) -> list[TailRow]:
        """The newest visible messages, oldest first."""
        found = self._db.rows(_QUERIES["tail"], {"conversation_id": conversation_id, "limit": limit})
        return self._tail_rows(found[::-1])

    def entry_ids(self, message_ids: Sequence[int]) -> dict[int, str]:
        """The entry ids of those of some messages that have one."""
        found = self._db.rows(_QUERIES["entry_ids"], {"ids": json.dumps(list(message_ids))}) if message_ids else []
        return dict(found)

    def tail_rows(self, conversation_id: int, message_ids: Sequence[int]) -> list[TailRow]:
        """Those of some messages that are visible, in the order asked for."""
        place = {"conversation_id": conversation_id, "ids": json.dumps(list(message_ids))}
        found = {row.id: row for row in self._tail_rows(self._db.rows(_QUERIES["tail_rows"], place))}
        return [found[id_] for id_ in message_ids if id_ in found]

    def visible(self, conversation_id: int, limit: int) -> int:
        """How many messages were said and not left on a branch; at most `limit`."""
        row = self._db.row(_QUERIES["visible"], {"conversation_id": conversation_id, "limit": limit})
        return row[0] if row else 0

    def run_from(self, conversation_id: int, seq: int) -> list[TailRow]:
        """All visible messages from a place on, oldest first."""
        place = {"conversation_id": conversation_id, "seq": seq}
        return self._tail_rows(self._db.rows(_QUERIES["run_from"], place))

    def abandoned_from(self, conversation_id: int, seq: int) -> list[TailRow]:
        """Messages that left the context on a branch, from a place on, oldest first."""
        place = {"conversation_id": conversation_id, "seq": seq}
        return self._tail_rows(self._db.rows(_QUERIES["abandoned_from"], place))

    def _tail_rows(self, found: Sequence[Row]) -> list[TailRow]:
        """Rows as alignment sees them; the fingerprint of one that another program wrote is worked out here."""
        foreign = self.many([row[0] for row in found if row[1] is None])
        prints = {stored.id: fingerprint(stored.message) for stored in foreign}
        return [
            TailRow(id_, known or prints[id_], entry_id, bool(claimed), role, seq, *map(bool, more))
            for id_, known, entry_id, claimed, role, seq, *more in found
        ]

    def seqs_of_identity(self, conversation_id: int, identity: str, limit: int) -> list[int]:
        """Where messages with this identity stand, newest first, hidden ones too."""
        place = {"conversation_id": conversation_id, "identity": identity, "limit": limit}
        return [row[0] for row in self._db.rows(_QUERIES["seqs_of_identity"], place)]

    def referring(self, conversation_id: int, first: int, limit: int) -> list[int]:
        """The messages from a seq on whose words may refer to a file, newest first."""
        place = {"conversation_id": conversation_id, "first": first, "limit": limit}
        return [row[0] for row in self._db.rows(_QUERIES["referring"], place)]

    def seqs_in_context(self, conversation_id: int, identities: Sequence[str]) -> list[int]:
        """Where messages with these identities stand that are in the context as they are, oldest first."""
        place = {"conversation_id": conversation_id, "identities": json.dumps(list(identities))}
        return [row[0] for row in self._db.rows(_QUERIES["seqs_in_context"], place)]

    def context_run(self, conversation_id: int, first: int, last: int) -> list[TailRow]:
        """The messages from one seq to another that are in the context as they are."""
        place = {"conversation_id": conversation_id, "first": first, "last": last}
        return self._tail_rows(self._db.rows(_QUERIES["context_run"], place))

    def preamble_id(self, conversation_id: int, identity: str, fingerprint: bytes) -> int | None:
        """The system prompt or notice at the head of an earlier window that says the same."""
        place = {"conversation_id": conversation_id, "identity": identity, "fingerprint": fingerprint}
        return _id(self._db.row(_QUERIES["preamble"], place))

    def stamp(self, stamps: Sequence[tuple[int, str]]) -> None:
        """Give rows the host's entry ids; ids that move from row to row are freed first."""
        self._db.run_many(_QUERIES["clear_entry"], [{"message_id": id_} for id_, _ in stamps])
        self._db.run_many(_QUERIES["stamp_entry"], [{"message_id": id_, "entry_id": entry} for id_, entry in stamps])

    def claim(self, message_ids: Iterable[int]) -> None:
        """Note that a producer without entry ids has brought these rows, too."""
        self._db.run_many(_QUERIES["claim"], [{"message_id": id_} for id_ in message_ids])

    def get(self, message_id: int) -> StoredMessage:
        """One message, or `NotFound`."""
        found = self.many([message_id])
        if not found:
            raise NotFound("message", message_id)
        return found[0]

    def many(self, message_ids: Sequence[int], *, exact: bool = True) -> list[StoredMessage]:
        """Messages by id, in the order asked for; unknown ids are left out.

        Without `exact` their originals are not rebuilt: enough to read and count them, and faster.
        """
        if not message_ids:
            return []
        ids = {"ids": json.dumps(list(message_ids))}
        parts: defaultdict[int, list[PartRow]] = defaultdict(list)
        for message_id, ordinal, type_, text, call_id, name, input_, output, metadata in self._db.rows(
            _QUERIES["parts_by_ids"], ids
        ):
            parts[message_id].append(PartRow(ordinal, type_, text, call_id, name, input_, output, metadata or "{}"))
        found: dict[int, StoredMessage] = {}
        for row in self._db.rows(_QUERIES["by_ids"], ids):
            role, content, tokens, event_key, format_, skeleton = row[7:]
            body = skeleton if exact else None
            try:
                message = rows.unpack(role, content, tokens, parts[row[0]], body, format_, event_key)
                found[row[0]] = rows.stored_message(row[:7], message)
            except ValueError as error:
                raise rows.unreadable(row[0], error) from error
        return [found[id_] for id_ in message_ids if id_ in found]

    def in_order(self, conversation_id: int, after_seq: int = 0, limit: int = 500) -> list[StoredMessage]:
        """A page of a conversation, oldest first."""
        place = {"conversation_id": conversation_id, "after": after_seq, "limit": limit}
        return self.many([row[0] for row in self._db.rows(_QUERIES["ids_in_order"], place)])


def _whole(item: NewMessage, pack: PackedMessage, parts: Sequence[tuple[object, ...]], estimate: int) -> bytes:
    """The digest of all that is rebuilt of a message, as its rows will hold it."""
    message = item.message
    row = (
        message.role, pack.content, message.tokens, item.identity, item.sender, row_time(item.created_at), item.file_id,
        item.fingerprint, int(item.is_preamble), None if message.format == "plain" else message.format, pack.skeleton,
        estimate,
    )  # fmt: skip
    return message_digest(row, [(part[0], *part[2:]) for part in parts])


def _id(row: Row | None) -> int | None:
    return None if row is None else row[0]
