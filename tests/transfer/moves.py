"""Moving things between archives in tests: into one, out of it, and looking at what is there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lossless.files.vault import Vault
from lossless.maintenance.verify import verify_archive
from lossless.store.archive import Archive
from lossless.transfer.archive_file import export_archive, import_archive
from lossless.transfer.lossless_claw import (
    ExportReport,
    TransferOptions,
    export_lossless_claw,
    import_lossless_claw,
)
from lossless.transfer.remnic import export_remnic, import_remnic

from .claws import bytes_of, rows

if TYPE_CHECKING:
    from pathlib import Path

    from lossless import ImportReport, RemnicReport

IMPORTS = {"claw": import_lossless_claw, "remnic": import_remnic, "archive": import_archive}
#: What an archive says, table by table, without numbers that it gives itself.
SAID = {
    "conversations": "SELECT session_id, session_key, active, title FROM conversations",
    "messages": "SELECT c.session_id, m.seq, m.role, m.content, m.token_count, m.created_at, m.identity_hash "
    "FROM messages m JOIN conversations c USING (conversation_id)",
    "parts": "SELECT c.session_id, m.seq, p.ordinal, p.part_type, p.text_content, p.tool_call_id, p.tool_name, "
    "p.tool_input, p.tool_output, p.file_name, p.metadata FROM message_parts p JOIN messages m USING (message_id) "
    "JOIN conversations c USING (conversation_id)",
    "summaries": "SELECT summary_id, kind, depth, content, token_count FROM summaries",
    "leaves": "SELECT l.summary_id, l.ordinal, m.seq FROM summary_messages l JOIN messages m USING (message_id)",
    "sources": "SELECT summary_id, parent_summary_id, ordinal FROM summary_parents",
    "context": "SELECT c.session_id, i.item_type, coalesce(i.summary_id, m.seq), "
    "rank() OVER (PARTITION BY i.conversation_id ORDER BY i.ordinal) FROM context_items i "
    "JOIN conversations c USING (conversation_id) LEFT JOIN messages m USING (message_id)",
    "files": "SELECT file_id, file_name, byte_size FROM large_files",
}


def vault(path: Path) -> Vault:
    """The folder of an archive's files."""
    return Vault(path.parent / f"{path.stem}-files")


def bring(kind: str, source: Path, target: Path, **options: Any) -> ImportReport:
    """An import, after a dry run that must count the same and write nothing; the archive is proven afterwards."""
    before = bytes_of(source)
    make: Any = IMPORTS[kind]
    if target.exists():
        with Archive.open(target, read_only=True) as archive:
            looked = make(source, archive, vault(target), TransferOptions(dry_run=True, **options))
    else:
        with Archive.open(":memory:") as archive:
            looked = make(source, archive, vault(target), TransferOptions(dry_run=True, **options))
        assert not target.exists()
    with Archive.open(target) as archive:
        report: ImportReport = make(source, archive, vault(target), TransferOptions(**options))
        found = [one for one in verify_archive(archive, vault=vault(target)).problems if one.severity == "error"]
        assert [str(one) for one in found if not report.files_missing or one.check != "files"] == []
    assert bytes_of(source)[source.name] == before[source.name]
    assert replace(looked, dry_run=False, warnings=report.warnings) == report
    return report


def to_claw(source: Path, target: Path, **options: Any) -> ExportReport:
    """An export into lossless-claw's shape."""
    with Archive.open(source, read_only=True) as archive:
        return export_lossless_claw(archive, vault(source), target, TransferOptions(**options))


def to_remnic(source: Path, target: Path, **options: Any) -> RemnicReport:
    """An export into Remnic's shape."""
    with Archive.open(source, read_only=True) as archive:
        return export_remnic(archive, vault(source), target, TransferOptions(**options))


def to_file(source: Path, target: Path, **options: Any) -> ExportReport:
    """An export into one file."""
    with Archive.open(source, read_only=True) as archive:
        return export_archive(archive, vault(source), target, TransferOptions(**options))


def said(path: Path, *but: str) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that an archive says, in a fixed order."""
    return {name: sorted(rows(path, sql), key=repr) for name, sql in SAID.items() if name not in but}


def nothing_new(report: ImportReport) -> bool:
    """Whether an import brought nothing."""
    counts = ("conversations_inserted", "conversations_joined", "messages_inserted", "summaries_inserted",
              "files_copied", "message_parts_inserted", "pins_inserted", "briefs_inserted",
              "messages_hidden")  # fmt: skip
    return not any(getattr(report, name) for name in counts) and not report.sessions_touched
