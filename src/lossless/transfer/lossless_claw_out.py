"""An archive into a new lossless-claw database, which lossless-claw 0.15 opens as its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import ArchiveCorrupt
from lossless.files.vault import Vault
from lossless.store.bundles import BundleReader
from lossless.store.claw import ClawFile
from lossless.store.sources import texts_of
from lossless.transfer.lossless_claw import chosen, unknown_sessions
from lossless.transfer.payloads import Payloads
from lossless.transfer.placing import placed
from lossless.transfer.reports import ImportReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.store.archive import Archive
    from lossless.store.bundles import Bundle, Values


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


def export_lossless_claw(
    archive: Archive, vault: Vault | None, target: str | Path, options: ExportOptions | None = None
) -> ExportReport:
    """Write the conversations of an archive into a new lossless-claw database, under their own ids.

    Files are copied into `lcm-files` beside it. The file is counted and checked before it takes its place.
    """
    wanted = options or ExportOptions()
    place = Path(target).expanduser().absolute()
    report = ExportReport(str(place))
    folder = Vault(wanted.files_dir or place.parent / "lcm-files")
    source = Payloads(folder, () if vault is None else (vault.root,))
    with (
        archive.reading(),
        texts_of(archive.path),
        placed(place, overwrite=wanted.overwrite) as beside,
        ClawFile(beside) as file,
    ):
        reader = BundleReader(archive.database)
        conversations = reader.conversations()
        report.warnings += unknown_sessions(conversations, wanted.sessions)
        with file.writing():
            file.create()
            for conversation in chosen(conversations, wanted.sessions):
                bundle = reader.bundle(conversation)
                rows = _bring(source, bundle, report)
                report.message_parts += file.put(bundle, rows)
                _count(report, bundle)
                if wanted.progress:
                    wanted.progress(len(bundle.keys))
        expected = (
            report.conversations, report.messages, report.message_parts, report.summaries, report.context_items
        )  # fmt: skip
        if file.counts() != expected:
            raise ArchiveCorrupt(f"the new database holds {file.counts()} rows instead of {expected}")
    return report


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
