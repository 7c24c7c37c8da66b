"""What each tool does when it is called: checked arguments in, a text for the agent and details for programs out."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput, GrantError, LosslessError, NotFound
from lossless.model.times import state_time
from lossless.recall import answer as answering
from lossless.recall.describe import DescribeRequest, describe, json_time
from lossless.recall.evidence import question_messages, recall, recent
from lossless.recall.expand import ExpandRequest, expand
from lossless.recall.results import MAX_RESULT_CHARS, parse_reference, parse_references
from lossless.recall.scope import OUT_OF_SCOPE, Caller, GrepRequest, Scope, resolve_scope

if TYPE_CHECKING:
    from datetime import datetime

    from lossless.model.records import IngestHealth
    from lossless.recall.evidence import Evidence
    from lossless.recall.results import SearchHit
    from lossless.recall.tools import Arguments, Toolbox
    from lossless.store.views import ArchiveTotals

#: How many summaries a query opens.
_QUERY_SUMMARIES = 8
_SUBAGENTS_ONLY = "lcm_expand is for sub-agents on this host."
_SUBAGENTS_HINT = "Call lcm_expand_query to have a sub-agent read, or lcm_describe to open one thing."


@dataclass(frozen=True, slots=True)
class ToolCallResult:
    """What a tool returns: a text of bounded length that an agent reads, and details for programs."""

    text: str
    details: dict[str, Any]
    is_error: bool = False

    def __post_init__(self) -> None:
        text = self.text.encode("utf-8", "replace").decode()
        if len(text) > MAX_RESULT_CHARS:
            note = "\n(truncated: the result is too long)"
            text = text[: MAX_RESULT_CHARS - len(note)] + note
        object.__setattr__(self, "text", text)

    @property
    def content(self) -> list[dict[str, str]]:
        """The text as the content blocks of a tool result."""
        return [{"type": "text", "text": self.text}]


def error_result(text: str, *, hint: str | None = None, code: str | None = None) -> ToolCallResult:
    """A refusal as JSON: `{error, hint?, errorCode?}`."""
    details = {name: value for name, value in (("error", text), ("hint", hint), ("errorCode", code)) if value}
    return ToolCallResult(json.dumps(details, ensure_ascii=False), details, is_error=True)


def error_to_result(error: LosslessError, caller: Caller) -> ToolCallResult:
    """One of our errors as a tool's result."""
    hint = None
    if isinstance(error, NotFound) and error.kind == OUT_OF_SCOPE and not caller.is_delegated:
        hint = "It may be in another conversation: pass conversationId, or allConversations=true."
    return error_result(str(error), hint=hint, code=error.code)


def _scope(box: Toolbox, args: Arguments, caller: Caller) -> Scope:
    id_, is_all, how = args["conversationId"], bool(args["allConversations"]), box.settings
    return resolve_scope(box.archive, caller, box.clock(), conversation_id=id_, all_conversations=is_all, settings=how)


def _with_scope_warning(scope: Scope, text: str, details: dict[str, Any]) -> ToolCallResult:
    if scope.warning is None:
        return ToolCallResult(text, details)
    return ToolCallResult(f"Note: {scope.warning}\n\n{text}", details | {"warning": scope.warning})


def call_grep(box: Toolbox, args: Arguments, caller: Caller) -> ToolCallResult:
    since, before = args["since"], args["before"]
    if since is not None and before is not None and since >= before:
        hint = "pass since before before; both are times such as 2026-01-05T09:00:00Z"
        raise BadInput(f"since must be earlier than before: {hint}")
    file_ids = tuple(named.id for named in parse_references(args["fileIds"], kinds=("file",)))
    if file_ids and args["scope"] != "files":
        raise BadInput('fileIds is only for scope="files"')
    scope = _scope(box, args, caller)
    request = GrepRequest(
        args["pattern"], args["mode"], args["scope"], file_ids, since, before, args["limit"], args["sort"]
    )
    found = box.grep(box.archive, scope, request, box.clock(), cursor=args["cursor"] or None)
    kinds = [hit.kind for hit in found.hits]
    details: dict[str, Any] = {
        "messageCount": kinds.count("message"),
        "summaryCount": kinds.count("summary"),
        "fileCount": kinds.count("file"),
        "totalMatches": found.total,
        "truncated": found.truncated,
        "cursor": found.cursor,
        "matches": [_hit_details(hit) for hit in found.hits],
    }
    more = {"hint": found.hint, "warning": scope.warning}
    return ToolCallResult(str(found), details | {name: text for name, text in more.items() if text})


def _hit_details(hit: SearchHit) -> dict[str, Any]:
    details: dict[str, Any] = {
        "id": hit.id,
        "type": hit.kind,
        "snippet": hit.snippet,
        "conversationId": hit.conversation_id,
        "createdAt": state_time(hit.created_at),
    }
    if hit.kind == "summary":
        return details | {"depth": hit.depth, "kind": "condensed" if hit.depth else "leaf", "summaryId": hit.id}
    if hit.kind == "message":
        version = {} if hit.version is None else {"version": hit.version}
        return details | {"seq": hit.seq, "role": hit.role, "coveredBy": hit.summary_id} | version
    return details | {"fileName": hit.name, "line": hit.line, "offset": hit.offset}


def call_describe(box: Toolbox, args: Arguments, caller: Caller) -> ToolCallResult:
    reference = parse_reference(args["id"])
    cap, first, last = box.settings.max_expand_tokens, args["startLine"], args["endLine"]
    request = DescribeRequest(args["tokenCap"], cap, args["expandFileMaxBytes"], first, last, args["cursor"] or None)
    scope = _scope(box, args, caller)
    found = describe(box.archive, reference, scope, box.clock(), request, box.vault)
    return _with_scope_warning(scope, str(found), found.details)


def call_expand(box: Toolbox, args: Arguments, caller: Caller) -> ToolCallResult:
    rule = box.settings.expand_for_main_agents
    if not (caller.is_delegated or rule == "allow" or (rule == "auto" and not caller.host_has_subagents)):
        return error_result(_SUBAGENTS_ONLY, hint=_SUBAGENTS_HINT, code="SUBAGENTS_ONLY")
    scope = _scope(box, args, caller)
    ids, query = args["summaryIds"], args["query"]
    references = parse_references(ids, kinds=("summary", "message"))
    if query and not args["cursor"]:
        found = answering.find_candidates(box.archive, box.grep, scope, (), query, box.clock())
        if not found and not references:
            return _with_scope_warning(
                scope, "Nothing found for this query in this scope.", {"citedIds": [], "totalTokens": 0}
            )
        more = parse_references((candidate.id for candidate in found[:_QUERY_SUMMARIES]), kinds=("summary", "message"))
        references = tuple(dict.fromkeys((*references, *more)))
    around = parse_reference(args["around"]) if args["around"] else None
    if around is not None and around.kind != "message":
        raise BadInput(f"around must be a message, such as msg#12, not {around.id}")
    cap, message_id = args["tokenCap"] or box.settings.max_expand_tokens, around.message_id if around else None
    request = ExpandRequest(references, args["maxDepth"], cap, args["includeMessages"], message_id)
    opened = expand(box.archive, request, scope, box.clock(), args["cursor"] or None)
    return _with_scope_warning(scope, str(opened), opened.details)


def call_expand_query(box: Toolbox, args: Arguments, caller: Caller) -> ToolCallResult:
    if not args["query"] and not args["summaryIds"]:
        raise BadInput("pass query, summaryIds or both")
    ids = tuple(named.id for named in parse_references(args["summaryIds"], kinds=("summary",)))
    settings = box.settings
    work_ms, cap = settings.delegation_timeout_ms, args["tokenCap"] or settings.max_expand_tokens
    seconds = (args["timeoutMs"] or min(600_000, work_ms + 30_000)) / 1000, work_ms / 1000
    question = answering.Question(args["prompt"], args["query"] or None, ids, args["maxTokens"], cap, *seconds)
    try:
        scope = _scope(box, args, caller)
    except GrantError:
        if not caller.is_delegated:
            raise
        scope = Scope("grant", ())
    asks = (question.prompt, question.query or "")
    box = replace(box, asking=_question_ids(box, caller), questions=asks)  # readers are not shown what asks
    details = answering.answer(box, question, scope, caller) | ({"warning": scope.warning} if scope.warning else {})
    text = json.dumps(details, ensure_ascii=False)
    if len(text) > MAX_RESULT_CHARS and "answer" in details:  # it is cut, so that they stay JSON
        rest = details | {"answer": "", "truncated": True, "conversationBreakdown": []}
        space = (MAX_RESULT_CHARS - len(json.dumps(rest, ensure_ascii=False))) // 2
        text = json.dumps(rest | {"answer": details["answer"][: max(0, space)]}, ensure_ascii=False)
    return ToolCallResult(text, details, is_error="error" in details)


def _question_ids(box: Toolbox, caller: Caller) -> frozenset[int]:
    return box.asking | (question_messages(box.archive, caller.session) if caller.in_turn else frozenset())


def call_recall(box: Toolbox, args: Arguments, caller: Caller) -> ToolCallResult:
    scope = _scope(box, args, caller)
    limit = args["maxTokens"] or box.settings.recall_max_tokens
    found = recall(box.archive, scope, args["question"], limit, box.clock(), _question_ids(box, caller))
    return _with_scope_warning(scope, str(found), {"evidence": [_evidence_details(item) for item in found.evidence]})


def _evidence_details(item: Evidence) -> dict[str, Any]:
    return {
        "id": item.reference, "conversationId": item.conversation_id, "seq": item.seq, "role": item.role,
        "createdAt": state_time(item.created_at), "text": item.text, "summaryId": item.summary_id,
    }  # fmt: skip


def call_recent(box: Toolbox, args: Arguments, caller: Caller) -> ToolCallResult:
    """What was said in a time. `BadInput` when the words name none."""
    scope = _scope(box, args, caller)
    limit = args["maxTokens"] or box.settings.recall_max_tokens
    found = recent(box.archive, scope, args["when"], limit, box.clock(), _question_ids(box, caller))
    topics = [
        {
            "conversationId": topic.conversation_id,
            "since": state_time(topic.since),
            "until": state_time(topic.until),
            "words": list(topic.words),
            "messages": topic.message_count,
            "quotes": [_evidence_details(item) for item in topic.quotes],
        }
        for topic in found.topics
    ]
    details = {"since": state_time(found.since), "before": state_time(found.before), "note": found.note}
    return _with_scope_warning(scope, str(found), details | {"topics": topics})


#: A title or a session key is shown up to so many characters.
_NAME_CHARS = 80


def call_status(box: Toolbox, args: Arguments, caller: Caller) -> ToolCallResult:
    """How much is kept, whether anything is held up, and the newest conversations with their numbers.

    Raises GrantError for a sub-agent: it sees what its grant names, and this names everything.
    """
    if caller.is_delegated:
        raise GrantError("the status of the archive is not for sub-agents")
    archive = box.archive.within(box.visible(caller))
    with archive.reading():
        totals, live = archive.listings.totals(), archive.listings.liveness()
        held = len(archive.transcripts.held())
        newest = archive.listings.conversations(args["limit"]).rows
        own = None if caller.session is None else archive.conversations.find(caller.session)
    details: dict[str, Any] = {
        "conversations": totals.counts.conversations,
        "messages": totals.counts.messages,
        "messageTokens": totals.message_tokens,
        "summaries": totals.counts.summaries,
        "files": totals.counts.files,
        "lastStoredAt": json_time(live.last_stored_at),
        "lastCompactedAt": json_time(live.last_compacted_at),
        "seen": live.seen,
        "stored": live.stored,
        "ambiguous": live.ambiguous,
        "revised": live.revised,
        "likely": live.likely,
        "blocked": len(live.blocked),
        "quarantined": len(live.quarantined),
        "heldTranscripts": held,
        "sweepsPutOff": totals.pending,
        "conversationId": None if own is None else own.id,
        "newest": [
            {
                "conversationId": row.conversation_id,
                "sessionKey": row.session_key,
                "title": row.title,
                "messages": row.message_count,
                "summaries": row.summary_count,
                "latestAt": json_time(row.latest_message_at),
            }
            for row in newest
        ],
    }
    lines = _status_lines(totals, live, held, box.clock())
    if own is not None:
        lines.append(f"This session is conversation {own.id}.")
    lines += ["", "Newest conversations (pass conversationId to look at one):"] if newest else []
    for row in newest:
        name = " ".join((row.title or row.session_key or row.session_id)[:_NAME_CHARS].split())
        last = json_time(row.latest_message_at) or "undated"
        counted = f"{row.message_count:,} messages, {row.summary_count:,} summaries"
        lines.append(f"{row.conversation_id}: {name}; {counted}, last {last}")
    return ToolCallResult("\n".join(lines), details)


def _status_lines(totals: ArchiveTotals, live: IngestHealth, held: int, now: datetime) -> list[str]:
    counts = totals.counts
    return [
        f"Kept: {counts.conversations:,} conversations, {counts.messages:,} messages "
        f"({totals.message_tokens:,} tokens), {counts.summaries:,} summaries, {counts.files:,} files.",
        f"Last stored: {_ago(live.last_stored_at, now)}. Last compacted: {_ago(live.last_compacted_at, now)}.",
        f"Seen {live.seen:,}, stored {live.stored:,}, ambiguous {live.ambiguous:,}, revised {live.revised:,}, "
        f"likely {live.likely:,}. Blocked conversations: {len(live.blocked)}. Transcripts held back: {held}. "
        f"Quarantined conversations: {len(live.quarantined)}. Sweeps put off: {totals.pending}.",
    ]


def _ago(at: datetime | None, now: datetime) -> str:
    if at is None:
        return "never"
    seconds = max(0, int((now - at).total_seconds()))
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count:,} {unit}{'s' if count > 1 else ''} ago"
    return "just now"
