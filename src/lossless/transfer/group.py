"""`engine.transfer`: imports of archives and transcripts of other programs, and exports of this archive."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from lossless.maintenance.engine_parts import EngineGroup
from lossless.transfer.archive_file import export_archive, import_archive
from lossless.transfer.lossless_claw import ExportReport, TransferOptions, export_lossless_claw, import_lossless_claw
from lossless.transfer.pages import PageFormat, PagesReport, export_pages
from lossless.transfer.remnic import export_claw_to_remnic, export_remnic, import_remnic
from lossless.transfer.transcripts import ImportOutcome, TranscriptImporter, preview_transcripts

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.transfer.merge_plan import ImportReport
    from lossless.transfer.remnic_format import RemnicReport, SessionBy

    #: Called with the number of messages, or for transcripts bytes, processed since the last call.
    Progress = Callable[[int], None]


class Transfer(EngineGroup):
    """`engine.transfer`: idempotent imports, and exports that are verified by reading them back.

    Without `sessions`, by id or key, all of them are selected. A `dry_run` counts and writes nothing.
    """

    def import_lossless_claw(
        self,
        source: str | Path,
        *,
        sessions: Iterable[str] = (),
        files_dir: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Copy the conversations of a lossless-claw database, or of another archive, into this one."""
        options = TransferOptions(dry_run, frozenset(sessions), files_dir, progress)
        return import_lossless_claw(source, self._archive, self._parts.vault, options)

    def import_remnic(
        self,
        source: str | Path,
        *,
        sessions: Iterable[str] = (),
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Copy the sessions of a Remnic database, or of a memory folder with one, into this archive."""
        options = TransferOptions(dry_run, frozenset(sessions), None, progress)
        return import_remnic(source, self._archive, self._parts.vault, options)

    def import_archive(
        self,
        source: str | Path,
        *,
        sessions: Iterable[str] = (),
        files_dir: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Import a file of `export_archive`; nothing is written before the whole file is verified."""
        options = TransferOptions(dry_run, frozenset(sessions), files_dir, progress)
        return import_archive(source, self._archive, self._parts.vault, options)

    def import_transcripts(
        self,
        kind: str,
        files: Iterable[Path],
        *,
        fold: bool = True,
        again: bool = False,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> list[ImportOutcome]:
        """Store transcripts of one kind (`TRANSCRIPT_KINDS`); a problem with a file is its outcome.

        The older part of each new conversation is folded at once, without a model, unless `fold` is off. Permanently
        deleted messages are imported only with `again`. A dry run imports into a copy of the archive.
        """
        if dry_run:
            settings = self._parts.settings
            return preview_transcripts(self._archive, settings, kind, files, again=again, progress=progress)
        return TranscriptImporter(self._parts, kind, fold, again).import_files(files, progress)

    def export_archive(
        self,
        target: str | Path,
        *,
        sessions: Iterable[str] = (),
        files_dir: str | None = None,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> ExportReport:
        """Write everything to one file of JSON lines, which `import_archive` restores exactly."""
        options = TransferOptions(False, frozenset(sessions), files_dir, progress, overwrite)
        return export_archive(self._archive, self._parts.vault, target, options)

    def export_lossless_claw(
        self,
        target: str | Path,
        *,
        sessions: Iterable[str] = (),
        files_dir: str | None = None,
        plain: bool = False,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> ExportReport:
        """Write a new database that lossless-claw opens as its own; `plain` omits our tables."""
        options = TransferOptions(False, frozenset(sessions), files_dir, progress, overwrite, plain)
        return export_lossless_claw(self._archive, self._parts.vault, target, options)

    def export_remnic(
        self,
        target: str | Path,
        *,
        source: str | Path | None = None,
        sessions: Iterable[str] = (),
        session_by: SessionBy = "session_id",
        compat: bool = False,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> RemnicReport:
        """Add conversations of this archive, or of the lossless-claw database `source`, to a Remnic database.

        With `compat` the counters and losses are those of Remnic's own importer.
        """
        options = TransferOptions(dry_run, frozenset(sessions), None, progress, session_by=session_by, compat=compat)
        if source is not None:
            return export_claw_to_remnic(source, target, options)
        return export_remnic(self._archive, self._parts.vault, target, options)

    def export_jsonl(
        self,
        target: str | Path,
        *,
        sessions: Iterable[str] = (),
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> PagesReport:
        """Write each conversation to a file of JSON lines in a folder, one original message per line."""
        return self.export_pages(target, "jsonl", sessions=sessions, overwrite=overwrite, progress=progress)

    def export_pages(
        self,
        target: str | Path,
        kind: PageFormat,
        *,
        sessions: Iterable[str] = (),
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> PagesReport:
        """Write each conversation to a file in a folder: readable `markdown` or `html`, or `jsonl`."""
        options = TransferOptions(False, frozenset(sessions), None, progress, overwrite)
        return export_pages(self._archive, self._parts.vault, target, kind, options)
