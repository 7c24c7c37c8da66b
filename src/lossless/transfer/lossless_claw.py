"""lossless-claw databases into an archive, and an archive into a lossless-claw database."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import BadInput
from lossless.store.bundles import BundleReader
from lossless.store.sources import open_claw, texts_of
from lossless.transfer.merge import Merger
from lossless.transfer.payloads import Payloads
from lossless.transfer.placing import is_same
from lossless.transfer.redacting import redacted
from lossless.transfer.remnic_graph import context_of
from lossless.transfer.summaries import ordered

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from lossless.files.vault import Vault
    from lossless.store.archive import Archive
    from lossless.store.bundles import Bundle, Values
    from lossless.transfer.reports import ImportReport


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How an import goes: nothing is written in a dry run; without sessions all of them come."""

    dry_run: bool = False
    sessions: frozenset[str] = frozenset()
    #: Where the source's large files lie, if not where its rows say.
    files_dir: str | None = None
    progress: Callable[[int], None] | None = None


def import_lossless_claw(
    source: str | Path, archive: Archive, vault: Vault | None, options: ImportOptions | None = None
) -> ImportReport:
    """Copy the conversations of a lossless-claw database, or of another archive, into this one.

    The source is read only. What is here already is left alone, so the same import twice adds nothing.
    """
    wanted = options or ImportOptions()
    with open_claw(source) as theirs, theirs.reading(), texts_of(source):
        if is_same(theirs.path, archive.path):
            raise BadInput(f"source {str(source)!r} is the archive itself")
        if archive.redact is not None:
            return redacted(archive, vault, wanted, archive.redact, partial(import_lossless_claw, source))
        folders = [Path(wanted.files_dir)] if wanted.files_dir else []
        payloads = Payloads(vault, (*folders, Path(theirs.path).parent / "lcm-files"))
        reader = BundleReader(theirs.database)
        merger = Merger(
            archive, payloads, datetime.now(UTC),
            dry_run=wanted.dry_run, boundaries=not reader.has_log, progress=wanted.progress,
        )  # fmt: skip
        conversations = reader.conversations()
        for conversation in chosen(conversations, wanted.sessions):
            bundle = reader.bundle(conversation)
            merger.add(bundle if reader.has_contexts else _with_context(bundle))
        merger.finish(reader.pruned(wanted.sessions))
    merger.report.warnings.extend(unknown_sessions(conversations, wanted.sessions))
    return merger.report


def _with_context(bundle: Bundle) -> Bundle:
    """A conversation of a file without contexts: all that was said, older words by their summaries."""
    summaries = ordered(bundle).summaries
    return replace(bundle, context=context_of(bundle.keys, summaries, set(), None))


def names_of(conversation: Values) -> set[str]:
    """What a session filter may call a conversation: its key, its run id, or its number where it has none."""
    run = str(conversation["session_id"] or "").strip() or str(conversation["conversation_id"])
    return {name for name in (run, conversation["session_key"]) if name}


def chosen(conversations: Sequence[Values], sessions: Collection[str]) -> list[Values]:
    """The conversations of these sessions, or all."""
    return [one for one in conversations if not sessions or names_of(one) & set(sessions)]


def unknown_sessions(conversations: Sequence[Values], sessions: Collection[str]) -> list[str]:
    """A warning for each session that is not there."""
    known = {name for one in conversations for name in names_of(one)}
    return [f"no session {name!r} in the source" for name in sorted(sessions) if name not in known]
