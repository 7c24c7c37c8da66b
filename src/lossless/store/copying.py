"""Copies of summaries with everything below them, in another conversation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lossless.model.identity import file_ids_in
from lossless.model.index_text import index_text_of
from lossless.store.sql import load
from lossless.store.trigram import Trigrams

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lossless.store.archive import Archive

_QUERIES = load("moving")
_INDEX = load("index")
_PAGE = 500


class Copying:
    """Writes copies; every method that writes needs a transaction."""

    def __init__(self, archive: Archive) -> None:
        self._archive, self._db = archive, archive.database

    def texts(self, conversation_id: int) -> dict[str, str]:
        """The texts of a conversation's summaries by id."""
        return dict(self._db.rows(_QUERIES["summary_digests"], {"conversation_id": conversation_id}))

    def files_of(self, message_ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """The files that messages carry: payloads that left them, or copies of their text."""
        found: dict[int, tuple[str, ...]] = {}
        for id_, text in self._db.rows(_QUERIES["files_of_messages"], {"ids": json.dumps(list(message_ids))}):
            found[id_] = tuple(dict.fromkeys((*found.get(id_, ()), *file_ids_in(text))))
        return found

    def messages(self, conversation_id: int, message_ids: Sequence[int]) -> dict[int, int]:
        """Copy messages with their parts to the free places from seq 1 on; they are in no context yet.

        What is hidden stays hidden.
        """
        row = self._db.row(_QUERIES["next_id"])
        first: int = row[0] if row else 1
        triples = [(old, first + n, 1 + n) for n, old in enumerate(message_ids)]
        places = {"places": json.dumps(triples)}
        self._db.run(_QUERIES["copy_messages"], places | {"conversation_id": conversation_id})
        self._db.run(_QUERIES["copy_parts"], places)
        self._db.run(_QUERIES["copy_extras"], places)
        self._db.run(_QUERIES["copy_hidden"], places | {"conversation_id": conversation_id})
        return {old: new for old, new, _ in triples}

    def index(self, message_ids: Sequence[int]) -> None:
        """Make copied messages findable."""
        for start in range(0, len(message_ids), _PAGE):
            for stored in self._archive.messages.many(message_ids[start : start + _PAGE]):
                index = self._archive.index
                index.reindex_message(stored.id, stored.message.content, stored.message)
                text = index_text_of(stored.message.content)
                if "messages_fts" in index.upstream and text.strip():
                    self._db.run(_INDEX["upstream_message"], (stored.id, text))

    def rename_files(self, message_id: int, names: Mapping[str, str]) -> None:
        """Let a copied message refer to copied files: in its mark, and where its payload left it in text and recipe."""
        row = self._db.row(_QUERIES["file_texts"], {"message_id": message_id})
        assert row is not None
        parts = self._db.rows(_QUERIES["part_texts"], {"message_id": message_id})
        is_intercepted = any('"restore":' in (metadata or "") for *_, metadata in parts)
        content, file_id = (_renamed(row[0], names) if is_intercepted else row[0]), _renamed(row[1], names)
        self._db.run(_QUERIES["set_file_texts"], {"message_id": message_id, "content": content, "file_id": file_id})
        for part_id, text, output, metadata in parts if is_intercepted else ():
            texts = {"text": _renamed(text, names), "output": _renamed(output, names)}
            values = texts | {"metadata": _renamed(metadata, names), "part_id": part_id}
            self._db.run(_QUERIES["set_part_texts"], values)

    def remove_messages(self, conversation_id: int, message_ids: Sequence[int]) -> None:
        """Delete copied messages that nothing refers to any more."""
        ids = json.dumps(list(message_ids))
        for query in ("delete_context_messages", "delete_hidden"):
            self._db.run(_QUERIES[query], {"conversation_id": conversation_id, "ids": ids})
        for id_ in message_ids:
            self._archive.index.drop_message(id_)
        if "messages_fts" in self._archive.index.upstream:
            self._db.run_many(_QUERIES["delete_upstream_message"], [{"id": id_} for id_ in message_ids])
        if Trigrams(self._db).is_there:
            self._db.run(_QUERIES["delete_trigrams"], {"ids": ids})
        self._db.run(_QUERIES["lend_index"])
        self._db.run(_QUERIES["delete_messages"], {"ids": ids})
        self._db.run(_QUERIES["return_index"])
        while self._archive.versions.drop_gone():
            pass

    def take_out(self, conversation_id: int, summary_ids: Sequence[str]) -> None:
        """Take summaries out of a context."""
        values = {"conversation_id": conversation_id, "ids": json.dumps(list(summary_ids))}
        self._db.run(_QUERIES["delete_context_summaries"], values)


def _renamed(text: str | None, names: Mapping[str, str]) -> str | None:
    if text is not None:
        for old, new in names.items():
            text = text.replace(old, new)
    return text
