"""What a transfer did, or would do: counts that programs read and people see."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(slots=True)
class TransferReport:
    """What the reports of all imports and exports have in common."""

    def data(self) -> dict[str, Any]:
        """The report as JSON has it."""
        found = {_camel(one.name): getattr(self, one.name) for one in fields(self)}
        return {name: sorted(value) if isinstance(value, set) else value for name, value in found.items()}


@dataclass(slots=True)
class ImportReport(TransferReport):
    """What an import brought into an archive. A dry run has the same counts and wrote nothing."""

    dry_run: bool = False
    conversations_scanned: int = 0
    #: Conversations that were not there before, and those that were and gained something.
    conversations_inserted: int = 0
    conversations_joined: int = 0
    messages_inserted: int = 0
    messages_skipped: int = 0
    #: Other wordings of messages that were there already.
    versions_inserted: int = 0
    message_parts_inserted: int = 0
    message_parts_skipped: int = 0
    summaries_inserted: int = 0
    summaries_skipped: int = 0
    #: Summaries that stand on nothing: left out. Of them those without any link, and those whose links lead nowhere or
    #: into several conversations.
    summaries_without_sources: int = 0
    summaries_skipped_no_messages: int = 0
    summaries_skipped_multi_session: int = 0
    #: Always 0: here a summary may be used in several others.
    summaries_multi_parent_collapsed: int = 0
    #: Lines in the log of a context that say where an import ended, one for each session that gained something.
    compaction_events_inserted: int = 0
    files_copied: int = 0
    files_skipped: int = 0
    #: Files whose bytes were not found: their rows are there, their bytes are not.
    files_missing: int = 0
    pins_inserted: int = 0
    briefs_inserted: int = 0
    #: Conversations that were deleted for good there: remembered here now, so that no transcript brings them back.
    pruned_inserted: int = 0
    #: Messages that stood in no context and below no summary in one: they are hidden, with a cause.
    messages_hidden: int = 0
    #: Telemetry of another program that has no place here.
    events_dropped: int = 0
    sessions_touched: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)

    def drop_summaries(self, dropped: Iterable[dict[str, Any]]) -> None:
        """Count summaries that stand on nothing."""
        for one in dropped:
            self.summaries_without_sources += 1
            has_links = bool(one["messages"] or one["sources"])
            self.summaries_skipped_multi_session += has_links
            self.summaries_skipped_no_messages += not has_links


@dataclass(slots=True)
class RemnicReport(TransferReport):
    """What an export wrote into a Remnic database: the counters of Remnic's own importer, and warnings."""

    conversations_scanned: int = 0
    sessions_touched: list[str] = field(default_factory=list)
    messages_inserted: int = 0
    messages_skipped: int = 0
    message_parts_inserted: int = 0
    message_parts_skipped: int = 0
    summaries_inserted: int = 0
    summaries_skipped: int = 0
    summaries_multi_parent_collapsed: int = 0
    summaries_skipped_no_messages: int = 0
    summaries_skipped_multi_session: int = 0
    compaction_events_inserted: int = 0
    dry_run: bool = False
    warnings: list[str] = field(default_factory=list)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
