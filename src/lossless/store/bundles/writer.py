"""Writes rows of whole conversations into an archive: under free ids, indexed, in the caller's transaction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lossless.model.budget import message_budget_tokens
from lossless.model.identity import fingerprint, part_id
from lossless.store import bundles
from lossless.store.database import TableAccess, by_ids, load_queries
from lossless.store.messages import index_digest, indexed_text
from lossless.store.rows import PartRow, unpack_message
from lossless.store.versions import MessageCopy, StoredWording

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lossless.model.messages import Message
    from lossless.store.archive import Archive
    from lossless.store.database import Database

_QUERIES = load_queries("bundles")
_MESSAGES = load_queries("messages")
#: The columns of a new message in the order of its query; None is its conversation.
_ROW = (
    "message_id", None, "seq", "role", "content", "token_count", "identity_hash", "openclaw_sender_metadata",
    "transcript_entry_id", "created_at", "stable_event_key", "large_content",
)  # fmt: skip
#: Larger numbers would leave none for new conversations.
_LAST = 1 << 40


class BundleWriter(TableAccess):
    """Finds what an archive already has, and writes the rest. Ids in the values are the archive's own."""

    queries = load_queries("bundles")

    def __init__(self, archive: Archive) -> None:
        self._archive, self._db = archive, archive.database
        self._reader = bundles.BundleReader(archive.database)

    def candidates(self, session_key: str | None, session_id: str) -> list[bundles.RowValues]:
        """Conversations that a key and a run id may refer to."""
        found = self._rows("candidates", session_key=session_key, session_id=session_id)
        names = ("conversation_id", "session_id", "session_key", "created_at")
        return [dict(zip(names, row, strict=True)) for row in found]

    def keys(self, conversation_id: int) -> list[bundles.MessageKey]:
        """What identifies the messages of a conversation."""
        return self._reader.keys(conversation_id)

    def is_free(self, conversation_id: object, message_ids: Sequence[object]) -> bool:
        """Whether a conversation can have these numbers here."""
        if not isinstance(conversation_id, int) or not all(isinstance(id_, int) for id_ in message_ids):
            return False
        if self._row("conversation_there", conversation_id=conversation_id):
            return False
        return self._count("taken_messages", by_ids(message_ids)) == 0

    def taken(self, what: str, ids: Iterable[str]) -> dict[str, int]:
        """Which `summaries`, `files` or `briefs` exist, and in which conversation."""
        return dict(self._rows(f"taken_{what}", by_ids(ids)))

    def numbers(self, table: str, given: Sequence[Any]) -> list[int]:
        """Numbers for new rows of `pins` or `context_log`: their own when all are free, else the next ones."""
        is_usable = all(type(number) is int and number > 0 for number in given) and len(set(given)) == len(given)
        if is_usable and not self._count(f"taken_{table}", by_ids(given)):
            return list(given)
        first = self._count("next_number", table=table)
        return list(range(first, first + len(given)))

    def has_active(self, session_key: str | None) -> bool:
        return self._row("is_active", session_key=session_key) is not None

    def hidden(self, conversation_id: int) -> dict[int | str, str]:
        return dict(self._rows("hidden", conversation_id=conversation_id))

    def moved(self, conversation_id: int) -> tuple[int, ...]:
        """The messages that a context has before older ones without a recorded reason."""
        return tuple(id_ for id_, is_logged in self._reader.moved(conversation_id).items() if not is_logged)

    def pinned(self, conversation_id: int) -> set[tuple[int | None, str | None]]:
        """What is pinned: a message, or a text."""
        return set(self._rows("pinned", conversation_id=conversation_id))

    def turn_keys(self, conversation_id: int) -> set[str]:
        return set(self._column("turn_keys", conversation_id=conversation_id))

    def next_places(self, conversation_id: int) -> tuple[int, int]:
        return self._row("next_message", conversation_id=conversation_id) or (1, 1)

    def put_conversation(self, values: bundles.RowValues) -> int:
        """Add a conversation; without a number it gets the next one."""
        bundles.insert_rows(self._db, "conversations", [values])
        return self._db.last_id()

    def put_messages(self, conversation_id: int, session_id: str, messages: Sequence[bundles.RowValues]) -> None:
        """Add messages with their parts, indexed, but not in a context."""
        read = [_read(message) for message in messages]
        texts = [indexed_text(decoded.content, decoded) for decoded in read]
        rows = [tuple(message[name] if name else conversation_id for name in _ROW) for message in messages]
        self._db.run_many(_MESSAGES["insert"], rows)
        self._db.run_many(
            _MESSAGES["insert_extras"],
            [
                (message["message_id"], message["fingerprint"] or fingerprint(decoded), index_digest(text),
                 1 if message["claimed"] is None else message["claimed"], message["preamble"] or 0, message["format"],
                 message["skeleton"], message_budget_tokens(decoded))
                for message, decoded, text in zip(messages, read, texts, strict=True)
            ],
        )  # fmt: skip
        self._put_parts(session_id, messages)
        for message in messages:
            if versions := message.get("versions"):
                self._archive.versions.put(message["message_id"], versions)
        self._archive.index.add_texts(zip([message["message_id"] for message in messages], texts, strict=True))
        if "messages_fts" in self._archive.index.upstream:
            self._archive.index.add_upstream((message["message_id"], message["content"]) for message in messages)

    def _put_parts(self, session_id: str, messages: Sequence[bundles.RowValues]) -> None:
        parts = [part | {"message_id": message["message_id"]} for message in messages for part in message["parts"]]
        if not parts:
            return
        foreign = json.dumps([part["part_id"] for part in parts if not _is_ours(part.get("part_id"))])
        taken = set(self._column("taken_parts", ids=foreign))
        for part in parts:
            given = part.get("part_id")
            if _is_ours(given):
                part["part_id"] = f"{part['message_id']}.{part['ordinal']}"
            elif given in taken:
                part["part_id"] = part_id(f"{part['message_id']}\0{given}", part["ordinal"])
            part.setdefault("session_id", session_id)
        bundles.insert_rows(self._db, "message_parts", parts)

    def put_summaries(self, conversation_id: int, summaries: Sequence[bundles.RowValues]) -> None:
        """Add summaries with links to their messages and sources, sources first, indexed."""
        bundles.insert_summaries(self._db, conversation_id, summaries)
        bundles.insert_rows(self._db, "stale_summaries", bundles.stale_rows(summaries))
        for one in summaries:
            self._archive.index.put_summary(one["summary_id"], one["content"])
            self._archive.index.put_upstream_summary(one["summary_id"], one["content"])

    def set_context(self, conversation_id: int, items: Sequence[bundles.RowValues]) -> None:
        """Replace the whole context of a conversation."""
        self._run("clear_context", conversation_id=conversation_id)
        self.put_beside("context_items", conversation_id, items)

    def put_beside(self, table: str, conversation_id: int, values: Sequence[bundles.RowValues]) -> None:
        """Add rows to one of the other tables."""
        is_linked = table in ("focus_brief_sources", "former_summaries")  # they have no conversation of their own
        rows = values if is_linked else [one | {"conversation_id": conversation_id} for one in values]
        bundles.insert_rows(self._db, table, rows)

    def lacks_pruned(self, row: bundles.RowValues) -> bool:
        """Whether a deleted conversation is unknown here."""
        return self._row("pruned_there", row) is None

    def put_pruned(self, rows: Sequence[bundles.RowValues]) -> None:
        """Add the remains of deleted conversations, under their numbers where these are free."""
        homeless = []
        for row in rows:
            if abs(row["number"]) < _LAST and self.is_free(row["number"], ()):
                bundles.insert_rows(self._db, bundles.PRUNED_TABLE, [row])
            else:
                homeless.append(row)
        first = self._count("pruned_before") - len(homeless)
        numbered = [row | {"number": first + n} for n, row in enumerate(homeless)]
        bundles.insert_rows(self._db, bundles.PRUNED_TABLE, numbered)
        if rows:
            reserve_conversation_ids(self._db)

    def rely(self, forks: Sequence[tuple[int, int]]) -> None:
        """Record that forks depend on other conversations for their older history."""
        self._run_many("rely", forks)

    def forget_messages(self, conversation_id: int, reason: str) -> None:
        """Remove messages from log entries whose message numbers are wrong here; the entries keep the reason."""
        self._run("forget_messages", conversation_id=conversation_id, detail=json.dumps({"lost": reason}))


def reserve_conversation_ids(database: Database) -> None:
    """Ensure that no new conversation gets the number of a deleted one."""
    if database.row(_QUERIES["numbers_known"]) is None:
        database.run(_QUERIES["begin_numbers"])
    database.run(_QUERIES["lift_numbers"])


def _is_ours(given: Any) -> bool:
    """Whether a part's id is ours: derived from the message's id and the ordinal."""
    return not isinstance(given, str) or given.replace(".", "", 1).isdigit()


def _part_rows(message: bundles.RowValues) -> list[PartRow]:
    return [
        PartRow(
            part["ordinal"], part["part_type"], part.get("text_content"), part.get("tool_call_id"),
            part.get("tool_name"), part.get("tool_input"), part.get("tool_output"), part.get("metadata") or "{}",
        )
        for part in message["parts"]
    ]  # fmt: skip


def message_copy(message: bundles.RowValues, *, is_other: bool) -> MessageCopy:
    """An existing message, for comparison with the incoming one."""
    wording = StoredWording(
        message["content"], tuple(_part_rows(message)), message["skeleton"], message["format"],
        message["stable_event_key"], message["token_count"] or 0,
    )  # fmt: skip
    return MessageCopy(wording, message.get("versions", ()), is_other)


def _read(message: bundles.RowValues) -> Message:
    """The message in the columns, without its original."""
    return unpack_message(
        message["role"], message["content"], message["token_count"], _part_rows(message), None, message["format"],
        message["stable_event_key"],
    )  # fmt: skip
