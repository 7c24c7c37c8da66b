"""Reports of transfers, actual or planned: counts for programs and people."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(slots=True)
class ImportReport:
    """The result of an import. A dry run has the same counts and wrote nothing."""

    dry_run: bool = False
    conversations_scanned: int = 0
    #: New conversations, and existing ones that gained something.
    conversations_inserted: int = 0
    conversations_joined: int = 0
    messages_inserted: int = 0
    messages_skipped: int = 0
    #: Other wordings of existing messages.
    versions_inserted: int = 0
    message_parts_inserted: int = 0
    message_parts_skipped: int = 0
    summaries_inserted: int = 0
    summaries_skipped: int = 0
    #: Summaries without valid sources, which are omitted. Of these, those without any link, and those whose links are
    #: broken or lead into several conversations.
    summaries_without_sources: int = 0
    summaries_skipped_no_messages: int = 0
    summaries_skipped_multi_session: int = 0
    #: Always 0: here a summary may be used in several others.
    summaries_multi_parent_collapsed: int = 0
    #: Context log entries that mark the end of an import, one for each session that gained something.
    compaction_events_inserted: int = 0
    files_copied: int = 0
    files_skipped: int = 0
    #: Files with rows whose bytes were not found.
    files_missing: int = 0
    pins_inserted: int = 0
    briefs_inserted: int = 0
    #: Permanently deleted conversations of the source: recorded here, so that no transcript imports them again.
    pruned_inserted: int = 0
    #: Messages that were in no context and under no summary in one: they are hidden, with a cause.
    messages_hidden: int = 0
    #: Telemetry of another program that cannot be stored here.
    events_dropped: int = 0
    sessions_touched: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)

    def drop_summaries(self, dropped: Iterable[dict[str, Any]]) -> None:
        """Count summaries without valid sources."""
        for one in dropped:
            self.summaries_without_sources += 1
            has_links = bool(one["messages"] or one["sources"])
            self.summaries_skipped_multi_session += has_links
            self.summaries_skipped_no_messages += not has_links


@dataclass(slots=True)
class RemnicReport:
    """The result of an export to a Remnic database: the counters of Remnic's own importer, and warnings."""

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
