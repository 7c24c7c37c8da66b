"""An archive into a new lossless-claw database, which lossless-claw 0.15 opens as its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lossless.errors import ArchiveCorrupt, ArchiveError
from lossless.files.vault import Vault
from lossless.paths import expanded
from lossless.store.bundles import BundleReader
from lossless.store.claw import ClawFile
from lossless.store.sources import open_claw, texts_of
from lossless.transfer.lossless_claw import chosen, unknown_sessions
from lossless.transfer.payloads import Payloads
from lossless.transfer.placing import placed
from lossless.transfer.proof import difference
from lossless.transfer.pruned import with_forks_of
from lossless.transfer.reports import ImportReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from lossless.store.archive import Archive
    from lossless.store.bundles import Bundle, Values


#: Changes of a context that bring messages of other conversations in.
_JOINING = ("merge", "transplant")


@dataclass(slots=True)
class ExportReport:
    """What was written."""

    path: str
    conversations: int = 0
    messages: int = 0
    message_parts: int = 0
    summaries: int = 0
    context_items: int = 0
    files_copied: int = 0
    files_missing: int = 0
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What is exported, and where the bytes of files go; without sessions everything is."""

    sessions: frozenset[str] = frozenset()
    files_dir: str | None = None
    overwrite: bool = False
    progress: Callable[[int], None] | None = None
    #: For lossless-claw: its own tables only.
    plain: bool = False


def export_lossless_claw(
    archive: Archive, vault: Vault | None, target: str | Path, options: ExportOptions | None = None
) -> ExportReport:
    """Write the conversations of an archive into a new lossless-claw database, under their own ids.

    Files are copied into `lcm-files` beside it. Tables of ours, which lossless-claw does not look at, keep what its own
    have no room for. The file is read back and compared before it takes its place.
    """
    wanted = options or ExportOptions()
    place = expanded(target).absolute()
    report = ExportReport(str(place))
    folder = Vault(wanted.files_dir or place.parent / "lcm-files", archive=str(place))
    source = Payloads(folder, () if vault is None else vault.roots)
    with (
        archive.reading(),
        texts_of(archive.path),
        placed(place, overwrite=wanted.overwrite, source=archive.path) as beside,
    ):
        reader = BundleReader(archive.database)
        conversations = reader.conversations()
        report.warnings += unknown_sessions(conversations, wanted.sessions)
        wanted_ones = chosen(conversations, wanted.sessions)
        numbers = {conversation["conversation_id"] for conversation in wanted_ones}
        pruned = reader.pruned(wanted.sessions)
        files: list[list[Values]] = []
        with ClawFile(beside, ours=not wanted.plain) as file, file.writing():
            file.create()
            file.put_pruned(pruned)
            for conversation in wanted_ones:
                bundle = with_forks_of(reader.bundle(conversation), numbers)
                files.append(_bring(source, bundle, report))
                report.message_parts += _put(file, bundle, files[-1])
                _count(report, bundle)
                if wanted.progress:
                    wanted.progress(len(bundle.keys))
        _count_again(beside, report)
        report.warnings += _untold(reader, wanted_ones) if wanted.plain else ()
        with open_claw(beside) as written, written.reading():
            back = BundleReader(written.database)
            for conversation, copy, rows in zip(wanted_ones, back.conversations(), files, strict=True):
                bundle = with_forks_of(reader.bundle(conversation), numbers)
                wrong = difference(bundle, back.bundle(copy), rows, ours=not wanted.plain)
                if wrong is not None:
                    name = f"conversation {conversation['conversation_id']}"
                    raise ArchiveCorrupt(f"{name}, read back from the new database, is not the same: {wrong}")
            if not wanted.plain and back.pruned() != pruned:
                raise ArchiveCorrupt("what was deleted for good, read back from the new database, is not the same")
    return report


def _put(file: ClawFile, bundle: Bundle, files: list[Values]) -> int:
    """Write a conversation; one whose rows do not fit together is named."""
    try:
        return file.put(bundle, files)
    except ArchiveError as error:
        if "constraint failed" not in str(error):
            raise
        name = f"conversation {bundle.conversation['conversation_id']}"
        raise ArchiveCorrupt(f"{name} holds rows that do not fit together; `lcm verify` names them") from error


def _untold(reader: BundleReader, conversations: Sequence[Values]) -> Iterator[str]:
    """What lossless-claw's own tables cannot say, and is therefore taken for wrong."""
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


def _count_again(path: Path, report: ExportReport) -> None:
    """Raises when the new database is damaged or does not hold as many rows as were written."""
    expected = (report.conversations, report.messages, report.message_parts, report.summaries, report.context_items)
    with ClawFile(path) as file:
        if file.counts() != expected:
            raise ArchiveCorrupt(f"the new database holds {file.counts()} rows instead of {expected}")


def _bring(source: Payloads, bundle: Bundle, report: ExportReport) -> list[Values]:
    """The rows of a conversation's files, whose bytes now lie beside the new database."""
    tally = ImportReport()
    files = bundle.tables.get("large_files", ())
    rows = [source.bring(file, bundle.conversation["conversation_id"], tally) for file in files]
    report.files_copied += tally.files_copied
    report.files_missing += tally.files_missing
    report.warnings += tally.warnings
    return rows


def _count(report: ExportReport, bundle: Bundle) -> None:
    report.conversations += 1
    report.messages += len(bundle.keys)
    report.summaries += len(bundle.summaries)
    report.context_items += len(bundle.context)
