"""Imports lossless-claw databases, and exports an archive to one that lossless-claw 0.15 opens as its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import ArchiveCorrupt, ArchiveError
from lossless.files.vault import Vault
from lossless.model.paths import expand_path
from lossless.store.bundles import EXTRA_COLUMNS, OWN_TABLES, Bundle, BundleReader, RowValues
from lossless.store.bundles.other_programs import ClawFile, explain_bad_text, open_claw
from lossless.transfer.files import PayloadCopier, check_not_archive, writing_file
from lossless.transfer.merge import Merger, import_redacted
from lossless.transfer.merge_plan import ImportReport, order_summaries
from lossless.transfer.remnic_format import SessionBy, derive_context

if TYPE_CHECKING:
    from lossless.store.archive import Archive


@dataclass(frozen=True, slots=True)
class TransferOptions:
    """Options of imports and exports: a dry run writes nothing; without sessions, by ids and keys, all are selected."""

    dry_run: bool = False
    sessions: frozenset[str] = frozenset()
    #: The folder of the files: where an import finds them, if not as in its rows; where an export writes them.
    files_dir: str | None = None
    progress: Callable[[int], None] | None = None
    overwrite: bool = False
    #: For lossless-claw: its own tables only.
    plain: bool = False
    #: For Remnic: what its sessions are named by, and whether to behave like its own importer, with its losses.
    session_by: SessionBy = "session_id"
    compat: bool = False


def check_lossless_claw(source: str) -> None:
    """Raises when a file is not a valid lossless-claw database; read-only."""
    open_claw(source).close()


def import_lossless_claw(
    source: str | Path, archive: Archive, vault: Vault | None, options: TransferOptions | None = None
) -> ImportReport:
    """Copy conversations of a lossless-claw database, or of another archive; once more adds nothing."""
    wanted = options or TransferOptions()
    with open_claw(source) as theirs, theirs.reading(), explain_bad_text(source):
        check_not_archive(source, theirs.path, archive)
        if archive.redact is not None:
            return import_redacted(archive, vault, wanted, archive.redact, partial(import_lossless_claw, source))
        folders = [Path(wanted.files_dir)] if wanted.files_dir else []
        payloads = PayloadCopier(vault, (*folders, Path(theirs.path).parent / "lcm-files"))
        reader = BundleReader(theirs.database)
        merger = Merger(archive, payloads, wanted, boundaries=not reader.has_log)
        conversations = reader.conversations()
        for conversation in select_conversations(conversations, wanted.sessions):
            bundle = reader.bundle(conversation)
            if not reader.has_contexts:  # all messages, older ones as their summaries
                context = derive_context(bundle.keys, order_summaries(bundle)[0], set(), None)
                bundle = replace(bundle, context=context)
            merger.add(bundle)
        merger.finish(reader.pruned(wanted.sessions))
    merger.report.warnings += unknown_session_warnings(map(session_names, conversations), wanted.sessions)
    return merger.report


def session_names(conversation: RowValues) -> set[str]:
    """The names of a conversation in a session filter: its key, its run id, or its number without one."""
    run = str(conversation["session_id"] or "").strip() or str(conversation["conversation_id"])
    return {name for name in (run, conversation["session_key"]) if name}


def select_conversations(conversations: Sequence[RowValues], sessions: Collection[str]) -> list[RowValues]:
    return [one for one in conversations if not sessions or session_names(one) & set(sessions)]


def unknown_session_warnings(names: Iterable[Collection[str]], sessions: Collection[str]) -> list[str]:
    """A warning for each session without a conversation of that name."""
    known = set[str]().union(*names)
    return [f"no session {name!r} in the source" for name in sorted(sessions) if name not in known]


@contextmanager
def reading_sessions(
    archive: Archive, sessions: Collection[str], warnings: list[str]
) -> Iterator[tuple[BundleReader, list[RowValues]]]:
    """A snapshot of an archive to export from, and its conversations of these sessions, or all."""
    with archive.reading(), explain_bad_text(archive.path):
        reader = BundleReader(archive.database)
        conversations = reader.conversations()
        warnings += unknown_session_warnings(map(session_names, conversations), sessions)
        yield reader, select_conversations(conversations, sessions)


def read_bundles(reader: BundleReader, conversations: Sequence[RowValues]) -> Iterator[Bundle]:
    """Conversations that are exported together; links to fork parents are kept where these are included."""
    numbers = {conversation["conversation_id"] for conversation in conversations}
    for conversation in conversations:
        bundle = reader.bundle(conversation)
        forks = [row for row in bundle.tables.get("fork_sources", []) if row["source_id"] in numbers]
        yield replace(bundle, tables=bundle.tables | {"fork_sources": forks})


#: Tables that only our archives have.
_OURS = frozenset((*OWN_TABLES, "former_summaries"))
#: Columns with a row's position.
_PLACE = frozenset(("message_id", "session_id"))


def bundle_difference(written: Bundle, back: Bundle, files: Sequence[RowValues], *, ours: bool) -> str | None:
    """The difference between two copies of a conversation, of all or of lossless-claw's own data; or None."""
    tables = dict.fromkeys(["large_files", *(name for name in written.tables if ours or name not in _OURS)])
    expected = replace(written, tables=written.tables | {"large_files": list(files)})
    rows = zip_longest(*(_named_rows(bundle, tables, ours=ours) for bundle in (expected, back)), fillvalue=("", {}))
    return next((what or other for (what, row), (other, copy) in rows if (what, row) != (other, copy)), None)


def _named_rows(bundle: Bundle, tables: Iterable[str], *, ours: bool) -> Iterator[tuple[str, RowValues]]:
    """Every row of a conversation under a name, with the columns that are compared."""
    but = () if ours else (*EXTRA_COLUMNS, "versions", "stale")
    yield "the conversation itself", _plain(bundle.conversation)
    for table in tables:
        yield from ((f"its rows of {table}", _plain(row)) for row in bundle.tables.get(table, ()))
    yield from (("its context", _plain(item)) for item in bundle.context)
    yield from (("its summaries", _plain(one, but)) for one in bundle.summaries)
    for message in chain.from_iterable(bundle.pages()):
        parts = [_plain(part, _PLACE) for part in message["parts"]]
        yield f"the message at {message['seq']}", _plain(message, but) | {"parts": parts}


def _plain(row: RowValues, but: Collection[str] = ()) -> RowValues:
    return {name: value for name, value in row.items() if value is not None and name not in but}


#: Changes of a context that add messages of other conversations.
_JOINING = ("merge", "transplant")


@dataclass(slots=True)
class ExportReport:
    """What an export wrote."""

    path: str
    conversations: int = 0
    messages: int = 0
    message_parts: int = 0
    summaries: int = 0
    context_items: int = 0
    files_copied: int = 0
    files_missing: int = 0
    warnings: list[str] = field(default_factory=list)

    def count(self, bundle: Bundle) -> None:
        """One more conversation was written."""
        self.conversations += 1
        self.messages += len(bundle.keys)
        self.summaries += len(bundle.summaries)
        self.context_items += len(bundle.context)


def export_lossless_claw(
    archive: Archive, vault: Vault | None, target: str | Path, options: TransferOptions | None = None
) -> ExportReport:
    """Write the conversations of an archive to a new lossless-claw database, under their own ids.

    Files are copied into `lcm-files` next to it. Our tables, which lossless-claw ignores, hold what its own cannot. The
    file is read back and compared before it replaces the target.
    """
    wanted = options or TransferOptions()
    place = expand_path(target).absolute()
    report = ExportReport(str(place))
    folder = Vault(wanted.files_dir or place.parent / "lcm-files", archive=str(place))
    source = PayloadCopier(folder, () if vault is None else vault.roots)
    with (
        reading_sessions(archive, wanted.sessions, report.warnings) as (reader, conversations),
        writing_file(place, overwrite=wanted.overwrite, source=archive.path) as temporary,
    ):
        pruned = reader.pruned(wanted.sessions)
        files: list[list[RowValues]] = []
        with ClawFile(temporary, ours=not wanted.plain) as file, file.writing():
            file.create()
            file.put_pruned(pruned)
            for bundle in read_bundles(reader, conversations):
                number = bundle.conversation["conversation_id"]
                files.append([source.bring(one, number, report) for one in bundle.tables.get("large_files", ())])
                try:
                    report.message_parts += file.put(bundle, files[-1])
                except ArchiveError as error:
                    if "constraint failed" not in str(error):
                        raise
                    message = f"conversation {number} has inconsistent rows; `lcm verify` names them"
                    raise ArchiveCorrupt(message) from error
                report.count(bundle)
                if wanted.progress:
                    wanted.progress(len(bundle.keys))
        with ClawFile(temporary) as file:
            file.check()
        report.warnings += _plain_losses(reader, conversations) if wanted.plain else ()
        with open_claw(temporary) as written, written.reading():
            back = BundleReader(written.database)
            bundles = read_bundles(reader, conversations)
            for bundle, copy, rows in zip(bundles, back.conversations(), files, strict=True):
                wrong = bundle_difference(bundle, back.bundle(copy), rows, ours=not wanted.plain)
                if wrong is not None:
                    name = f"conversation {bundle.conversation['conversation_id']}"
                    raise ArchiveCorrupt(f"{name}, read back from the new database, is not the same: {wrong}")
            if not wanted.plain and back.pruned() != pruned:
                raise ArchiveCorrupt("what was permanently deleted, read back from the new database, is not the same")
    return report


def _plain_losses(reader: BundleReader, conversations: Sequence[RowValues]) -> Iterator[str]:
    """A warning that counts what lossless-claw's own tables cannot hold."""
    bundles = [reader.bundle(conversation) for conversation in conversations]
    hidden = sum(len(bundle.tables["hidden_items"]) for bundle in bundles)
    moved = sum(len(reader.moved(conversation["conversation_id"])) for conversation in conversations)
    joined = sum(any(row["action"] in _JOINING for row in bundle.tables["context_log"]) for bundle in bundles)
    if hidden or moved or joined:
        yield (
            f"hidden items: {hidden:,}; messages that a host put before older ones: {moved:,}; conversations with "
            f"messages of others: {joined:,}: lossless-claw's own tables cannot say why, and `lcm verify` of the new "
            "file may call them wrong"
        )
