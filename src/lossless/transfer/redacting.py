"""Archives that come in while secrets are masked: all of one is masked before anything of it is stored."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from lossless.files.vault import Vault
from lossless.store.archive import Archive
from lossless.store.bundles import BundleReader
from lossless.transfer.forgotten import mask_all
from lossless.transfer.merge import Merger
from lossless.transfer.payloads import Payloads

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.model.masking import Cut
    from lossless.transfer.lossless_claw import ImportOptions
    from lossless.transfer.reports import ImportReport


def redacted(
    archive: Archive,
    vault: Vault | None,
    options: ImportOptions,
    redact: Cut,
    bring: Callable[[Archive, Vault, ImportOptions], ImportReport],
) -> ImportReport:
    """Import into an archive in memory, mask what must not be kept there, and import that."""
    now = datetime.now(UTC)
    with TemporaryDirectory(prefix="lossless-") as folder, Archive.open(":memory:") as staged:
        files = Vault(Path(folder))
        first = bring(staged, files, replace(options, dry_run=False, progress=None))
        left = mask_all(staged, files, redact, now)
        with staged.reading():
            reader = BundleReader(staged.database)
            payloads = Payloads(vault, (Path(folder),))
            merger = Merger(archive, payloads, now, dry_run=options.dry_run, progress=options.progress)
            for conversation in reader.conversations():
                merger.add(reader.bundle(conversation))
            merger.finish(reader.pruned())
    merger.report.warnings += [*first.warnings, *left]
    merger.report.events_dropped = first.events_dropped
    return merger.report
