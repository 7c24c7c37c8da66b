"""Lossless Context Management for AI agents: every message kept, the context small, any detail back.

import lossless

with lossless.open("lcm.db") as engine:
    engine.append("agent:main:main", [{"role": "user", "content": "hello"}])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lossless.async_engine import AsyncEngine, open_async
    from lossless.compaction.plan import Pass
    from lossless.compaction.run import CompactionReport
    from lossless.compaction.summarise import SummaryPrompt, SummarySource, WrittenSummary
    from lossless.compaction.summariser import DescribeReport
    from lossless.context.run import Assembled, Receipt
    from lossless.engine import Engine, TurnReport
    from lossless.engine import open_engine as open
    from lossless.errors import (
        ArchiveCorrupt,
        ArchiveDenied,
        ArchiveError,
        ArchiveFull,
        ArchiveLocked,
        BadInput,
        BadMessage,
        BadPattern,
        BadSetting,
        GrantError,
        GuardOpen,
        LosslessError,
        ModelAuth,
        ModelBadAnswer,
        ModelDenied,
        ModelError,
        ModelRateLimit,
        ModelTimeout,
        NoArchive,
        NotAnArchive,
        NotFound,
        SchemaUnknown,
        Stale,
    )
    from lossless.files.document import StubPlan
    from lossless.files.vault import FilePiece, OrphanFile
    from lossless.hosts.chat import chat
    from lossless.ingest.requests import HistoryMatch, RequestHistory, ResentRequest, StoredHistory
    from lossless.ingest.run import AppendReport
    from lossless.ingest.sessions import NewReport
    from lossless.ingest.transcripts.following import PathSurvey, TranscriptReport
    from lossless.ingest.transcripts.reading import Transcript
    from lossless.llm.completion import Completion, Prompt
    from lossless.maintenance.backup import Backup
    from lossless.maintenance.browse import PromptReport, SessionStatus
    from lossless.maintenance.doctor import Examination
    from lossless.maintenance.forget import ForgetReport
    from lossless.maintenance.prune import PruneFilter, PrunePlan, PruneReport, SizeReport, VacuumReport
    from lossless.maintenance.repair import CleanPlan, CleanReport, RebuildPlan, ReindexReport
    from lossless.maintenance.rotate import RotateReport, StartRotationReport
    from lossless.maintenance.surgery.common import BackupMaker, ContextDiff, OperationReport, PreviewItem
    from lossless.maintenance.surgery.dissolve import DissolvePlan, UndoPlan
    from lossless.maintenance.surgery.focus import FocusDraft, FocusPlan, FocusStatus
    from lossless.maintenance.surgery.merge import MergePlan, SplitSession, TransplantPlan
    from lossless.maintenance.surgery.rewriting import DraftedPlan, RewritePlan, SummaryDraft
    from lossless.maintenance.surgery.tool_outputs import EntryReplacement, StubReport, TranscriptGcReport
    from lossless.maintenance.verify import Verification
    from lossless.model.budget import HistoryBudget
    from lossless.model.context import ContextItem, MessageItem, Summary
    from lossless.model.conversations import Conversation, Session, SessionRef
    from lossless.model.messages import Incoming, Message, MessageLike, ModelIdentity, StoredFile, StoredMessage
    from lossless.model.records import (
        ArchiveCounts,
        CompactionDebt,
        ConversationRow,
        DailyCalls,
        DailyFolds,
        DepthSizes,
        IngestHealth,
        MessageRow,
        ModelSpend,
        Page,
        PageStart,
        PromptRecord,
        QuarantinedConversation,
        StoredBrief,
        SummaryRow,
        SummaryShape,
        TailRow,
        TimeRange,
        TokensSaved,
        TranscriptDecision,
    )
    from lossless.recall.describe import Description
    from lossless.recall.evidence import RecallResult, RecentResult, RecentTopic
    from lossless.recall.expand import Expansion
    from lossless.recall.results import SearchResult
    from lossless.recall.scope import GrepMode, SearchIn, SortOrder
    from lossless.recall.tools import ToolCallResult
    from lossless.settings import Settings
    from lossless.store.bundles.other_programs import ReclaimableTables
    from lossless.store.conversations import Checkpoint
    from lossless.store.maintenance.integrity import IndexDrift, PendingCompactionRow
    from lossless.store.state import Grant, IngestState, LedgerRow, PinRow
    from lossless.store.versions import Version
    from lossless.store.views import (
        ArchiveTotals,
        CacheTelemetry,
        ContextSize,
        ConversationDetails,
        MessageStatus,
        TopSummaries,
    )
    from lossless.transfer.lossless_claw import ExportReport
    from lossless.transfer.merge_plan import ImportReport
    from lossless.transfer.pages import PageFormat, PagesReport
    from lossless.transfer.remnic_format import RemnicReport, SessionBy
    from lossless.transfer.transcripts import ImportOutcome

__version__ = "0.1.0"

#: Public names by the module that they live in; loaded on first use, so that importing the package costs nothing.
_PUBLIC = {
    "lossless.async_engine": "AsyncEngine open_async",
    "lossless.compaction.plan": "Pass",
    "lossless.compaction.run": "CompactionReport",
    "lossless.compaction.summarise": "SummaryPrompt SummarySource WrittenSummary",
    "lossless.compaction.summariser": "DescribeReport",
    "lossless.context.run": "Assembled Receipt",
    "lossless.engine": "Engine TurnReport open=open_engine",
    "lossless.errors": (
        "ArchiveCorrupt ArchiveDenied ArchiveError ArchiveFull ArchiveLocked BadInput BadMessage BadPattern "
        "BadSetting GrantError GuardOpen LosslessError ModelAuth ModelBadAnswer ModelDenied ModelError "
        "ModelRateLimit ModelTimeout NoArchive NotAnArchive NotFound SchemaUnknown Stale"
    ),
    "lossless.files.document": "StubPlan",
    "lossless.files.vault": "FilePiece OrphanFile",
    "lossless.hosts.chat": "chat",
    "lossless.ingest.requests": "HistoryMatch RequestHistory ResentRequest StoredHistory",
    "lossless.ingest.run": "AppendReport",
    "lossless.ingest.sessions": "NewReport",
    "lossless.ingest.transcripts.following": "PathSurvey TranscriptReport",
    "lossless.ingest.transcripts.reading": "Transcript",
    "lossless.llm.completion": "Completion Prompt",
    "lossless.maintenance.backup": "Backup",
    "lossless.maintenance.browse": "PromptReport SessionStatus",
    "lossless.maintenance.doctor": "Examination",
    "lossless.maintenance.forget": "ForgetReport",
    "lossless.maintenance.prune": "PruneFilter PrunePlan PruneReport SizeReport VacuumReport",
    "lossless.maintenance.repair": "CleanPlan CleanReport RebuildPlan ReindexReport",
    "lossless.maintenance.rotate": "RotateReport StartRotationReport",
    "lossless.maintenance.surgery.common": "BackupMaker ContextDiff OperationReport PreviewItem",
    "lossless.maintenance.surgery.dissolve": "DissolvePlan UndoPlan",
    "lossless.maintenance.surgery.focus": "FocusDraft FocusPlan FocusStatus",
    "lossless.maintenance.surgery.merge": "MergePlan SplitSession TransplantPlan",
    "lossless.maintenance.surgery.rewriting": "DraftedPlan RewritePlan SummaryDraft",
    "lossless.maintenance.surgery.tool_outputs": ("EntryReplacement StubReport TranscriptGcReport"),
    "lossless.maintenance.verify": "Verification",
    "lossless.model.budget": "HistoryBudget",
    "lossless.model.context": "ContextItem MessageItem Summary",
    "lossless.model.conversations": "Conversation Session SessionRef",
    "lossless.model.messages": "Incoming Message MessageLike ModelIdentity StoredFile StoredMessage",
    "lossless.model.records": (
        "ArchiveCounts CompactionDebt ConversationRow DailyCalls DailyFolds DepthSizes IngestHealth "
        "MessageRow ModelSpend Page PageStart PromptRecord QuarantinedConversation StoredBrief SummaryRow "
        "SummaryShape TailRow TimeRange TokensSaved TranscriptDecision"
    ),
    "lossless.recall.tools": "ToolCallResult",
    "lossless.recall.describe": "Description",
    "lossless.recall.evidence": "RecallResult RecentResult RecentTopic",
    "lossless.recall.expand": "Expansion",
    "lossless.recall.results": "SearchResult",
    "lossless.recall.scope": "GrepMode SearchIn SortOrder",
    "lossless.settings": "Settings",
    "lossless.store.bundles.other_programs": "ReclaimableTables",
    "lossless.store.conversations": "Checkpoint",
    "lossless.store.maintenance.integrity": "IndexDrift PendingCompactionRow",
    "lossless.store.state": "Grant IngestState LedgerRow PinRow",
    "lossless.store.versions": "Version",
    "lossless.store.views": "ArchiveTotals CacheTelemetry ContextSize ConversationDetails MessageStatus TopSummaries",
    "lossless.transfer.lossless_claw": "ExportReport",
    "lossless.transfer.merge_plan": "ImportReport",
    "lossless.transfer.pages": "PageFormat PagesReport",
    "lossless.transfer.remnic_format": "RemnicReport SessionBy",
    "lossless.transfer.transcripts": "ImportOutcome",
}
_PLACES = {
    name.partition("=")[0]: (module, name.rpartition("=")[2])
    for module, names in _PUBLIC.items()
    for name in names.split()
}

__all__ = [
    "AppendReport", "ArchiveCorrupt", "ArchiveCounts", "ArchiveDenied", "ArchiveError", "ArchiveFull", "ArchiveLocked",
    "ArchiveTotals", "Assembled", "AsyncEngine", "Backup", "BackupMaker", "BadInput", "BadMessage", "BadPattern",
    "BadSetting", "CacheTelemetry", "Checkpoint", "CleanPlan", "CleanReport", "CompactionDebt", "CompactionReport",
    "Completion", "ContextDiff", "ContextItem", "ContextSize", "Conversation", "ConversationDetails", "ConversationRow",
    "DailyCalls", "DailyFolds", "DepthSizes", "DescribeReport", "Description", "DissolvePlan", "DraftedPlan", "Engine",
    "EntryReplacement", "Examination", "Expansion", "ExportReport", "FilePiece", "FocusDraft", "FocusPlan",
    "FocusStatus", "ForgetReport", "Grant", "GrantError", "GrepMode", "GuardOpen", "HistoryBudget", "HistoryMatch",
    "ImportOutcome", "ImportReport", "Incoming", "IndexDrift", "IngestHealth", "IngestState", "LedgerRow",
    "LosslessError", "MergePlan", "Message", "MessageItem", "MessageLike", "MessageRow", "MessageStatus", "ModelAuth",
    "ModelBadAnswer", "ModelDenied", "ModelError", "ModelIdentity", "ModelRateLimit", "ModelSpend", "ModelTimeout",
    "NewReport", "NoArchive", "NotAnArchive", "NotFound", "OperationReport", "OrphanFile", "Page", "PageFormat",
    "PageStart", "PagesReport", "Pass", "PathSurvey", "PendingCompactionRow", "PinRow", "PreviewItem", "Prompt",
    "PromptRecord", "PromptReport", "PruneFilter", "PrunePlan", "PruneReport", "QuarantinedConversation", "RebuildPlan",
    "RecallResult", "Receipt", "RecentResult", "RecentTopic", "ReclaimableTables", "ReindexReport", "RemnicReport",
    "RequestHistory", "ResentRequest", "RewritePlan", "RotateReport", "SchemaUnknown", "SearchIn", "SearchResult",
    "Session", "SessionBy", "SessionRef", "SessionStatus", "Settings", "SizeReport", "SortOrder", "SplitSession",
    "Stale", "StartRotationReport", "StoredBrief", "StoredFile", "StoredHistory", "StoredMessage", "StubPlan",
    "StubReport", "Summary", "SummaryDraft", "SummaryPrompt", "SummaryRow", "SummaryShape", "SummarySource", "TailRow",
    "TimeRange", "TokensSaved", "ToolCallResult", "TopSummaries", "Transcript", "TranscriptDecision",
    "TranscriptGcReport", "TranscriptReport", "TransplantPlan", "TurnReport", "UndoPlan", "VacuumReport",
    "Verification", "Version", "WrittenSummary", "__version__", "chat", "open", "open_async",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    try:
        module, attribute = _PLACES[name]
    except KeyError:
        raise AttributeError(f"module 'lossless' has no attribute {name!r}") from None
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
