"""Versions of messages: earlier wordings and host reductions. Each wording is stored exactly once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

from lossless.errors import ArchiveCorrupt, NotFound
from lossless.model.budget import message_budget_tokens
from lossless.model.identity import words_digest
from lossless.model.js_json import storable_json
from lossless.model.search_text import extra_tokens
from lossless.store.database import Database, Row, Sql, TableAccess, load_queries, only
from lossless.store.messages import NewMessage, SearchIndex, index_digest, index_pieces, indexed_text
from lossless.store.rows import (
    RESTORE_ADVICE,
    PartNotes,
    PartRow,
    compress_residual,
    decompress_residual,
    pack_message,
    part_values,
    unpack_message,
    with_notes,
)

if TYPE_CHECKING:
    from lossless.model.conversations import Conversation
    from lossless.model.messages import Json, Message, Role
    from lossless.store.search import FullTextSearch, SearchScope


@dataclass(frozen=True, slots=True)
class StoredWording:
    """A message as columns, without its role."""

    content: str
    parts: tuple[PartRow, ...]
    skeleton: bytes | None
    format: str | None
    event_key: str | None
    tokens: int

    @classmethod
    def of(cls, message: Message, notes: PartNotes | None = None) -> StoredWording:
        """The columns of a message, with notes about payloads moved out of it."""
        content, parts, skeleton = pack_message(message)
        parts = with_notes(parts, message.role, notes) if notes else parts
        format_ = None if message.format == "plain" else message.format
        return cls(content, parts, skeleton, format_, message.event_key, message.tokens)

    def message(self, role: Role) -> Message:
        """The message; ValueError when it cannot be rebuilt."""
        return unpack_message(role, self.content, self.tokens, self.parts, self.skeleton, self.format, self.event_key)

    def cut(self, length: int, tokens: int) -> StoredWording:
        """The same with only the beginning of its text."""
        content = self.content[:length]
        parts = tuple(
            part._replace(text_content=content) if part.text_content == self.content else part for part in self.parts
        )
        return replace(self, content=content, parts=parts, tokens=tokens)

    def begins(self, other: StoredWording, role: Role) -> bool:
        """Whether `other` is this wording with a shorter text: everything else that counts as words is equal."""
        if len(self.content) >= len(other.content) or not other.content.startswith(self.content):
            return False
        if self._outline() != other._outline():
            return False
        mine, cut = self.message(role), other.cut(len(self.content), self.tokens).message(role)
        mine_raw, cut_raw = ((one.body or {}).get("content") for one in (mine, cut))
        return words_digest(mine) == words_digest(cut) and mine_raw == cut_raw

    @property
    def shape(self) -> Json:
        """The position of the text in the original; wordings of one shape and outline are cut alike."""
        shape: Json = None if self.skeleton is None else json.loads(decompress_residual(self.skeleton)).get("content")
        return shape

    def _outline(self) -> list[tuple[object, ...]]:
        return [
            (part.ordinal, part.part_type, True if part.text_content == self.content else part.text_content,
             part.tool_call_id, part.tool_name, part.tool_input, part.tool_output)
            for part in self.parts
        ]  # fmt: skip

    def body(self) -> bytes:
        """Everything but the tokens, in stored form."""
        parts = [[*one, part.metadata] for one, part in zip(self._outline(), self.parts, strict=True)]
        skeleton = None if self.skeleton is None else decompress_residual(self.skeleton)
        return compress_residual(storable_json([self.content, self.format, self.event_key, skeleton, *parts]))

    @classmethod
    def from_body(cls, body: bytes, tokens: int) -> StoredWording:
        """The inverse of `body`; ValueError when it is damaged."""
        try:
            content, format_, event_key, skeleton, *parts = json.loads(decompress_residual(body))
            rows = tuple(PartRow(n, type_, content if text is True else text, *more) for n, type_, text, *more in parts)
            residual = None if skeleton is None else compress_residual(skeleton)
            return cls(content, rows, residual, format_, event_key, tokens)
        except (TypeError, UnicodeDecodeError) as error:
            raise ValueError(f"a damaged version: {error}") from error

    @property
    def recipe(self) -> Json:
        """The recipe for the original, when payloads were moved out."""
        for part in self.parts:
            if '"restore":' in part.metadata:
                recipe: Json = json.loads(part.metadata).get("restore")
                return recipe
        return None


_INSERT_PART = load_queries("messages")["insert_part"]
_BATCH = 500
_VERSION_COLUMNS = ("digest", "lesser", "length", "tokens", "at", "body")
#: `earlier`: a former current text; `lesser`: a host's reduction, which never was current.
VersionKind = Literal["earlier", "lesser"]


@dataclass(frozen=True, slots=True)
class Version:
    """One wording of a message that is not its current one."""

    id: int
    message_id: int
    kind: VersionKind
    digest: bytes
    at: datetime
    message: Message
    #: The recipe for the original, when payloads were moved out.
    recipe: Json = None
    #: Whether it has its own index entries; a prefix of another wording is found through that.
    is_whole: bool = True

    @property
    def indexed(self) -> str:
        return indexed_text(self.message.content, self.message)


@dataclass(frozen=True, slots=True)
class MessageCopy:
    """A message in another archive: its text there, and its versions as rows."""

    current: StoredWording
    versions: Sequence[Mapping[str, Any]]
    #: Whether its text may differ from the one here.
    is_other: bool

    def wordings(self, role: Role, now: datetime) -> list[tuple[bytes, StoredWording, VersionKind, datetime]]:
        """Digest, text, kind and time of each wording; damaged ones are skipped."""
        by_id = {row["version_id"]: row for row in self.versions}
        found: list[tuple[bytes, StoredWording, VersionKind, datetime]] = []
        for row in by_id.values():
            with suppress(ValueError, OverflowError, OSError):
                found.append((row["digest"], _wording(row, by_id, self.current), *_kind_and_time(row)))
        if self.is_other:
            with suppress(ValueError):
                found.append((words_digest(self.current.message(role)), self.current, "earlier", now))
        return found


class Versions(TableAccess):
    """Reads and writes of versions, and of the words of a row that is revised."""

    queries = load_queries("versions")
    #: Messages of a scope that have separately indexed versions, newest first, below an id.
    newest: Sql[[SearchScope, int | None, int], list[int]] = Sql("column", "where below limit")

    def __init__(self, database: Database, index: SearchIndex, search: FullTextSearch) -> None:
        super().__init__(database)
        self._index, self._search = index, search

    def keep(
        self, message_id: int, message: Message, digest: bytes, kind: VersionKind, now: datetime,
        notes: PartNotes | None = None,
    ) -> bool:  # fmt: skip
        """Add a wording of a message, in the caller's transaction; False when it is already stored.

        `digest` is that of the original words; `message` may be without its payloads, with `notes` to restore them.
        """
        role, current = self._current(message_id, message.role)
        if digest == words_digest(current.message(role)):
            return False
        return self._add(message_id, role, StoredWording.of(message, notes), digest, current, kind, now) is not None

    def revise(
        self, conversation: Conversation, message_id: int, new: NewMessage, now: datetime, *,
        digest: bytes | None = None, notes: PartNotes | None = None,
    ) -> bool:  # fmt: skip
        """Give a row a new text, in the caller's transaction; the old wording becomes a version of it.

        Row id, seq, role, time and entry id stay; everything derived from the words is updated. False when the words
        are the same, and only other fields were updated. `new.message` may be without its payloads, with `notes` to
        restore them and `digest` for its original words.
        """
        role, old = self._current(message_id, new.message.role)
        fresh = StoredWording.of(new.message, notes)
        digest = digest or words_digest(new.message)
        old_digest = words_digest(old.message(role))
        is_other = digest != old_digest
        is_refilled = not is_other and old != fresh
        if is_other:  # the current text becomes a version; prefixes of it stay prefixes
            begins = old.begins(fresh, role)
            version_id = self._add(message_id, role, old, old_digest, fresh, "earlier", now)
            if not begins:
                self._run("base_on", {"message_id": message_id, "from": None, "to": version_id})
            is_refilled = begins and old.shape != fresh.shape
        if is_refilled:
            rows = self._version_rows([message_id])
            prefixes = [row for row in rows if row["length"] is not None and row["base_id"] is None]
            self._fill(prefixes, role, old, fresh)
        self._forget(message_id, role, digest, fresh)
        self._write(conversation, message_id, new, fresh, old.tokens)
        return is_other

    def replace(
        self, conversation: Conversation, message_id: int, new: NewMessage,
        versions: Sequence[tuple[Version, StoredWording, bytes]], *, digest: bytes, notes: PartNotes | None = None,
    ) -> None:  # fmt: skip
        """Give a row a new text without keeping the old one; `versions` replaces its versions.

        `digest` is that of the original new words. In the caller's transaction, only on the user's command.
        """
        role, old = self._current(message_id)
        for row in self._version_rows([message_id]):
            self._remove(row["version_id"])
        fresh = StoredWording.of(new.message, notes)
        self._write(conversation, message_id, new, fresh, old.tokens)
        for version, wording, words in versions:
            if words != digest:
                self._add(message_id, role, wording, words, fresh, version.kind, version.at)

    def _forget(self, message_id: int, role: Role, digest: bytes, fresh: StoredWording) -> None:
        """Remove the version whose text becomes the current one."""
        id_ = self._value("known", message_id=message_id, digest=digest)
        if id_ is None:  # as for most: a message that its host decorates in every turn gets more and more versions
            return
        rows = {row["version_id"]: row for row in self._version_rows([message_id])}
        version, based = rows[id_], [row for row in rows.values() if row["base_id"] == id_]
        if based and version["body"] is not None:
            self._fill(based, role, StoredWording.from_body(version["body"], version["tokens"]), fresh)
            self._run("base_on", {"message_id": message_id, "from": id_, "to": None})
        self._remove(id_)

    def _remove(self, version_id: int) -> None:
        self._run("drop_index", (version_id,))
        self._run("remove", version_id=version_id)

    def _fill(self, based: Sequence[dict[str, Any]], role: Role, old: StoredWording, fresh: StoredWording) -> None:
        """Store in full those prefixes of one wording that are not prefixes of its replacement."""
        for row in based:
            wording = old.cut(row["length"], row["tokens"])
            if row["length"] > len(old.content) or not wording.begins(fresh, role):
                self._run("fill", version_id=row["version_id"], body=wording.body())
                self._put_index(row["version_id"], wording, role)

    def _add(
        self, message_id: int, role: Role, wording: StoredWording, digest: bytes, current: StoredWording,
        kind: VersionKind, now: datetime,
    ) -> int | None:  # fmt: skip
        length, body = (len(wording.content), None) if wording.begins(current, role) else (None, wording.body())
        values = (message_id, digest, kind == "lesser", length, wording.tokens, int(now.timestamp()), body)
        version_id: int | None = self._value("add", values)
        if version_id is not None and body is not None:
            self._put_index(version_id, wording, role)
        return version_id

    def _put_index(self, version_id: int, wording: StoredWording, role: Role) -> bool:
        text = indexed_text(wording.content, wording.message(role))
        return bool(index_pieces(text)) and self._changed("index", (version_id, text, extra_tokens(text)))

    def _write(
        self, conversation: Conversation, message_id: int, new: NewMessage, fresh: StoredWording, old_tokens: int
    ) -> None:
        place: dict[str, Any] = {"message_id": message_id, "conversation_id": conversation.id}
        words = {
            "content": fresh.content, "tokens": fresh.tokens, "identity": new.identity, "file_id": new.file_id,
            "sender": new.sender, "event_key": new.event_key,
        }  # fmt: skip
        if not self._changed("set_words", place | words):
            raise NotFound("message", message_id)
        text = indexed_text(fresh.content, new.message)
        extras = {
            "message_id": message_id, "fingerprint": new.fingerprint, "digest": index_digest(text),
            "format": fresh.format, "skeleton": fresh.skeleton, "budget_tokens": message_budget_tokens(new.message),
        }  # fmt: skip
        self._run("set_extras", extras)
        self._run("drop_parts", message_id=message_id)
        self._db.run_many(_INSERT_PART, part_values(message_id, fresh.parts))
        self._index.refill([(message_id, text)])
        self._index.replace_upstream(message_id, fresh.content)
        for indexed in self._search.messages([message_id]):
            self._search.trigrams.replace(message_id, f"{indexed.content}\n{indexed.called}")
        self._search.vectors.drop(message_id)
        if fresh.tokens != old_tokens:
            more = fresh.tokens - old_tokens
            self._run("count_tokens", place | {"more": more})
            self._run("count_source_tokens", message_id=message_id, more=more)

    def of(self, message_id: int) -> tuple[Version, ...]:
        """The versions of a message, oldest first; `ArchiveCorrupt` when one cannot be read."""
        return self.many([message_id]).get(message_id, ())

    def many(self, message_ids: Sequence[int]) -> dict[int, tuple[Version, ...]]:
        """The versions of several messages, by message; those without any are skipped."""
        found: dict[int, tuple[Version, ...]] = {}
        for version in self._versions(message_ids):
            if isinstance(version, ArchiveCorrupt):
                raise version
            found[version.message_id] = (*found.get(version.message_id, ()), version)
        return found

    def each(self, batch: int = _BATCH) -> Iterator[Version | ArchiveCorrupt]:
        """Every version of the archive; for an unreadable one, the reason."""
        for page in self._pages("messages", batch):
            yield from self._versions([row[0] for row in page])

    def _versions(self, message_ids: Sequence[int]) -> Iterator[Version | ArchiveCorrupt]:
        for message_id, some in groupby(self._version_rows(message_ids), itemgetter("message_id")):
            role, current = self._current(message_id)
            by_id = {row["version_id"]: row for row in some}
            for id_, row in by_id.items():
                kind, at = _kind_and_time(row)
                try:
                    wording = _wording(row, by_id, current)
                    message, recipe = wording.message(role), wording.recipe
                except ValueError as error:
                    reason = f"version {id_} of message {message_id} cannot be read back: {error}; {RESTORE_ADVICE}"
                    yield ArchiveCorrupt(reason)
                else:
                    is_whole = row["body"] is not None
                    yield Version(id_, message_id, kind, row["digest"], at, message, recipe, is_whole)

    def digests(self, message_ids: Sequence[int]) -> dict[int, set[bytes]]:
        """The digests of the versions of some messages; those without any are skipped."""
        return {id_: set(digests) for id_, digests in self._lists("digests", ids=message_ids).items()}

    def having(self, match: str, where: SearchScope, limit: int) -> list[int]:
        """Messages of a scope with a matching version, best first."""
        return list(dict.fromkeys(self._column("having", **where.values, match=match, limit=limit)))

    @property
    def any(self) -> bool:
        return self._any("any")

    @property
    def lacks_index(self) -> bool:
        """Whether there are versions and none is indexed, as in a file written for lossless-claw."""
        return self._any("lacks_index")

    def drop_gone(self, limit: int = _BATCH) -> int:
        """Remove up to so many index rows whose version is gone; returns how many. Needs a transaction."""
        gone = self._rows("gone", limit=limit)
        self._run_many("drop_index", gone)
        return len(gone)

    def refill(self, limit: int = _BATCH) -> int:
        """Index versions that have lost their index row, up to a limit; returns how many. Needs a transaction."""
        after, filled = 0, 0
        while filled < limit and (found := self._rows("lost", after=after, limit=limit)):
            for version_id, role, tokens, body in found:
                after = version_id
                with suppress(ValueError):
                    filled += self._put_index(version_id, StoredWording.from_body(body, tokens), role)
        return filled

    def put(self, message_id: int, values: Sequence[Mapping[str, Any]]) -> None:
        """Write versions of another archive's message with new numbers, indexed; in the caller's transaction."""
        role, _ = self._current(message_id)
        ids: dict[Any, int] = {}
        for one in values:
            version_id = self._value("add", (message_id, *map(one.get, _VERSION_COLUMNS)))
            if version_id is None:
                continue
            ids[one.get("version_id")] = version_id
            if one.get("body") is not None:
                with suppress(ValueError):
                    self._put_index(version_id, StoredWording.from_body(one["body"], one["tokens"]), role)
        based = [
            (ids.get(one["base_id"], one["base_id"]), ids[one["version_id"]])
            for one in values
            if one.get("base_id") is not None and one["version_id"] in ids
        ]
        self._run_many("set_base", based)

    def bring(self, message_id: int, copy: MessageCopy, now: datetime) -> int:
        """Add the wordings of another archive's copy of a message that this one lacks, in the caller's transaction.

        Returns how many; the row keeps its text.
        """
        role, here = self._current(message_id)
        mine = words_digest(here.message(role))
        return sum(
            self._add(message_id, role, wording, digest, here, kind, at) is not None
            for digest, wording, kind, at in copy.wordings(role, now)
            if digest != mine
        )

    def lacks(self, message_id: int, copy: MessageCopy) -> int:
        """How many wordings `bring` would add."""
        role, here = self._current(message_id)
        known = self.digests([message_id]).get(message_id, set()) | {words_digest(here.message(role))}
        return len({digest for digest, *_ in copy.wordings(role, datetime.now(UTC))} - known)

    def _version_rows(self, message_ids: Sequence[int]) -> list[dict[str, Any]]:
        return self._dicts("of", self._seen(message_ids))

    def _current(self, message_id: int, wanted: Role | None = None) -> tuple[Role, StoredWording]:
        row: Row = only(self._rows("wording", message_id=message_id), "message", message_id)
        role, content, tokens, event_key, format_, skeleton = row
        if wanted not in (None, role):
            raise ValueError(f"message {message_id} is of role {role}, not {wanted}")
        parts = tuple(PartRow(*part) for part in self._rows("parts", message_id=message_id))
        return role, StoredWording(content, parts, skeleton, format_, event_key, tokens)


def _kind_and_time(row: Mapping[str, Any]) -> tuple[VersionKind, datetime]:
    return "lesser" if row["lesser"] else "earlier", datetime.fromtimestamp(row["at"], UTC)


def _wording(row: Mapping[str, Any], by_id: Mapping[int, Mapping[str, Any]], current: StoredWording) -> StoredWording:
    length, base, base_id = row.get("length"), current, row.get("base_id")
    if row.get("body") is not None:
        return StoredWording.from_body(row["body"], row["tokens"])
    if length is None:
        raise ValueError("it has neither text nor a length")
    if base_id is not None:
        kept = by_id.get(base_id)
        if kept is None or kept.get("body") is None:
            raise ValueError(f"the version {base_id} that it is a prefix of is missing")
        base = StoredWording.from_body(kept["body"], kept["tokens"])
    if not 0 <= length < len(base.content):
        raise ValueError("it is longer than the text that it is a prefix of")
    return base.cut(length, row["tokens"])
