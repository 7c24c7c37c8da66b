"""The archive: access to everything that is stored, and detection of what lossless-claw changed in the meantime."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, suppress
from copy import copy
from typing import TYPE_CHECKING

from lossless import errors
from lossless.model.paths import expand_path, make_private_folder
from lossless.settings.setting import mask_passwords
from lossless.store import migrate
from lossless.store.context import ContextItems, Summaries
from lossless.store.conversations import Conversations, TranscriptRecords
from lossless.store.database import Database
from lossless.store.files import LargeFileRows
from lossless.store.maintenance.integrity import VerifyReads
from lossless.store.messages import MARK_STEP, Messages, SearchIndex
from lossless.store.rows import RowDigests, digest_triggers
from lossless.store.search import WRITE_ERRORS, FullTextSearch, VectorMaker
from lossless.store.state import Guards, IngestMemory, Prompts, Tombstones
from lossless.store.versions import Versions
from lossless.store.views import Listings

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.model.masking import CutText
    from lossless.model.messages import StoredMessage

#: Rows of other programs that are indexed on opening; the rest follows with searches and `catch_up`.
_AT_OPEN = 5_000


class Archive:
    """Everything stored in one file. Each attribute covers one kind of record.

    Several threads and processes may share a file. Writes happen inside `writing()`, which is one transaction: when the
    block ends, all of it is durable; on an error, nothing is written.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.index = SearchIndex(database)
        self.conversations = Conversations(database)
        self.messages = Messages(database, self.index)
        self.summaries = Summaries(database, self.index)
        self.context = ContextItems(database)
        self.ingest = IngestMemory(database)
        self.files = LargeFileRows(database)
        self.row_digests = RowDigests(database)
        self.search = FullTextSearch(database)
        self.versions = Versions(database, self.index, self.search)
        self.prompts = Prompts(database)
        self.guards = Guards(database)
        self.checks = VerifyReads(database)
        self.listings = Listings(database)
        self.transcripts = TranscriptRecords(database, self.messages)
        self.tombstones = Tombstones(database)
        #: Masks secrets in incoming messages, if enabled.
        self.redact: CutText | None = None
        #: What turns texts into vectors, where that is switched on.
        self.embedder: VectorMaker | None = None
        #: The archive without limits, and the conversations that this one shows; None for all.
        self.whole = self
        self._shown: frozenset[int] | None = None

    @classmethod
    def open(cls, path: str | Path, *, read_only: bool = False, busy_timeout_ms: int = 30_000) -> Archive:
        """Open an archive, creating or upgrading it; opened read-only, the file's bytes do not change."""
        name = str(path)
        _check_place(name, read_only=read_only)
        database = Database(name, read_only=read_only, busy_timeout_ms=busy_timeout_ms)
        try:
            if read_only:
                if not migrate.check_is_archive(database):
                    raise errors.NotAnArchive(f"archive {database.path!r}: it is empty")
                database.prepare = migrate.temporary_views(database)
                database.reconnect()
                return cls(database)
            migrate.migrate(database)
            database.prepare = list(digest_triggers())
            for statement in database.prepare:
                database.run(statement)
            archive = cls(database)
            database.before_commit = archive.row_digests.settle
            # for example a damaged search index, which can be rebuilt only when it is open
            with suppress(errors.ArchiveCorrupt):
                archive.catch_up(limit=_AT_OPEN)
                archive.context.record_cleared()
                if archive.versions.lacks_index:
                    with archive.writing():
                        archive.versions.refill(limit=_AT_OPEN)
        except BaseException:
            database.close()
            raise
        return archive

    def within(self, conversation_ids: Collection[int] | None) -> Archive:
        """The archive for a reader who may see these conversations only; None for all that this one shows.

        What is read by an id, and every text that a search reads, then is of these conversations: the queries say so.
        """
        if conversation_ids is None:
            return self
        shown = sorted(set(conversation_ids) if self._shown is None else self._shown & set(conversation_ids))
        found, within = copy(self), json.dumps(shown)
        found._shown = frozenset(shown)
        found.messages, found.summaries = self.messages.limited(within), self.summaries.limited(within)
        found.files, found.listings = self.files.limited(within), self.listings.limited(within)
        found.versions, found.search = self.versions.limited(within), self.search.limited(within)
        return found

    @property
    def path(self) -> str:
        return self.database.path

    @property
    def read_only(self) -> bool:
        return self.database.read_only

    def writing(self) -> AbstractContextManager[None]:
        """One transaction; nested ones join it."""
        return self.database.transaction()

    def reading(self) -> AbstractContextManager[None]:
        """Several reads in one snapshot."""
        return self.database.snapshot()

    def context_tokens(self, conversation_id: int) -> int:
        """The tokens of a context: the running count, or a sum when that is not reliable."""
        counted = self.ingest.context_counts(conversation_id)[0]
        return self.context.tokens(conversation_id) if counted is None else counted

    def context_budget(self, conversation_id: int) -> int:
        """The same by budget estimates, which are stored with each message and summary."""
        return self.context_size(conversation_id)[0]

    def context_size(self, conversation_id: int) -> tuple[int, int]:
        """That, and how many items the context has at most."""
        tokens, extra, ordinal = self.ingest.context_counts(conversation_id)
        if isinstance(tokens, int) and isinstance(extra, int):
            return tokens + extra, ordinal
        return self.context.budget_tokens(conversation_id), self.context.next_ordinal(conversation_id)

    def readable(self, message_ids: Sequence[int]) -> list[StoredMessage]:
        """The messages among these that can be read: one that cannot does not block the others."""
        try:
            return self.messages.many(message_ids, exact=False)
        except errors.ArchiveCorrupt:
            half = len(message_ids) // 2
            return self.readable(message_ids[:half]) + self.readable(message_ids[half:]) if half else []

    def catch_up(
        self,
        limit: int | None = None,
        progress: Callable[[int], None] | None = None,
        unreadable: set[int] | None = None,
    ) -> int:
        """Index rows that another program wrote; returns how many. `unreadable` gets what is passed over."""
        if self.whole is not self:
            return self.whole.catch_up(limit, progress, unreadable)
        done = 0
        written_in: set[int] = set()
        while limit is None or done < limit:
            message_ids, summaries = self.index.unindexed()
            if not message_ids and not summaries:
                unmarked, newest = self.search.unmarked()
                if unmarked > MARK_STEP:  # record that everything is indexed, if that can be written
                    with suppress(*WRITE_ERRORS), self.writing():
                        self.index.mark_if_caught_up(newest)
                break
            written_in.update(self.context.conversations_of(message_ids, [id_ for id_, _ in summaries]))
            with self.writing():
                found = self.readable(message_ids)
                for stored in found:
                    self.index.reindex_message(stored.id, stored.message.content, stored.message)
                for summary_id, content in summaries:
                    self.index.put_summary(summary_id, content)
                if message_ids:
                    self.index.mark_caught_up(message_ids[-1])
            if unreadable is not None:
                unreadable.update(set(message_ids).difference(one.id for one in found))
            done += len(message_ids) + len(summaries)
            if progress:
                progress(len(message_ids) + len(summaries))
        self.context.record_cleared(sorted(written_in))
        return done

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_place(path: str, *, read_only: bool) -> None:
    """Check a path before opening, for clearer errors than SQLite's."""
    if path == ":memory:":
        return
    if "://" in path:
        raise errors.ArchiveDenied(f"archive {mask_passwords(path)!r}: it is an address; name a file")
    place = expand_path(path)
    try:
        if place.is_dir():
            raise errors.ArchiveDenied(f"archive {path!r}: it is a folder; name a file in it, such as {path}/lcm.db")
        if read_only and not place.exists():
            raise errors.NoArchive(path)
        if not read_only:
            make_private_folder(place.absolute().parent)
    except OSError as error:
        folder = place.absolute().parent
        what = "be used" if os.path.lexists(folder) else "be made"
        advice = "fix that, or choose another path with databasePath, LCM_DATABASE_PATH or --db"
        reason = f"its folder {str(folder)!r} cannot {what} ({error.strerror}); {advice}"
        raise errors.ArchiveDenied(f"archive {path!r}: {reason}") from error
