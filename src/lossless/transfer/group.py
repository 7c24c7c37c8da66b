"""`engine.transfer`: imports of archives and transcripts of other programs, and exports of this archive."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from lossless.store.bundles.other_programs import open_claw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from lossless.maintenance.engine_parts import EngineParts
    from lossless.transfer.lossless_claw import ExportReport
    from lossless.transfer.pages import PageFormat, PagesReport
    from lossless.transfer.remnic_format import SessionBy
    from lossless.transfer.reports import ImportReport, RemnicReport
    from lossless.transfer.transcripts import ImportOutcome

    #: Called with the number of messages, or for transcripts bytes, processed since the last call.
    Progress = Callable[[int], None]


class Transfer:
    """`engine.transfer`: idempotent imports, and exports that are verified by reading them back.

    Without `sessions`, by id or key, all of them are selected. A `dry_run` counts and writes nothing.
    """

    def __init__(self, parts: EngineParts) -> None:
        self._parts = parts

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
        from lossless.transfer.lossless_claw import ImportOptions, import_lossless_claw

        options = ImportOptions(dry_run, frozenset(sessions), files_dir, progress)
        return import_lossless_claw(source, self._parts.archive, self._parts.vault, options)

    def import_remnic(
        self,
        source: str | Path,
        *,
        sessions: Iterable[str] = (),
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Copy the sessions of a Remnic database, or of a memory folder with one, into this archive."""
        from lossless.transfer.lossless_claw import ImportOptions
        from lossless.transfer.remnic_import import import_remnic

        options = ImportOptions(dry_run, frozenset(sessions), None, progress)
        return import_remnic(source, self._parts.archive, self._parts.vault, options)

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
        from lossless.transfer.archive_file import import_archive
        from lossless.transfer.lossless_claw import ImportOptions

        options = ImportOptions(dry_run, frozenset(sessions), files_dir, progress)
        return import_archive(source, self._parts.archive, self._parts.vault, options)

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
        from lossless.transfer.transcripts import import_transcripts, preview_transcripts

        parts = self._parts
        if dry_run:
            return preview_transcripts(parts.archive, parts.settings, kind, files, again=again, progress=progress)
        return import_transcripts(parts, kind, files, fold=fold, again=again, progress=progress)

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
        from lossless.transfer.archive_file import export_archive
        from lossless.transfer.lossless_claw import ExportOptions

        options = ExportOptions(frozenset(sessions), files_dir, overwrite, progress)
        return export_archive(self._parts.archive, self._parts.vault, target, options)

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
        from lossless.transfer.lossless_claw import ExportOptions, export_lossless_claw

        options = ExportOptions(frozenset(sessions), files_dir, overwrite, progress, plain)
        return export_lossless_claw(self._parts.archive, self._parts.vault, target, options)

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
        from lossless.transfer.remnic_export import RemnicOptions, export_remnic

        options = RemnicOptions(dry_run, frozenset(sessions), session_by, compat, progress)
        with ExitStack() as stack:
            if source is None:
                return export_remnic(self._parts.archive, self._parts.vault, target, options)
            return export_remnic(stack.enter_context(open_claw(source)), None, target, options)

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
        from lossless.transfer.lossless_claw import ExportOptions
        from lossless.transfer.pages import export_pages

        options = ExportOptions(frozenset(sessions), None, overwrite, progress)
        return export_pages(self._parts.archive, self._parts.vault, target, kind, options)
