"""Focus: one brief, written for a question, replaces the summaries that it covers in prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING
from uuid import uuid4

from lossless.compaction.extract import condense
from lossless.compaction.source_text import source_summary
from lossless.errors import BadInput, GuardOpen, ModelBadAnswer, ModelError
from lossless.llm.completion import Completion, Prompt
from lossless.maintenance.surgery.common import OperationReport, PreviewItem, applying, preview_items
from lossless.model.context import EXTRACTIVE_MODEL, ContextItem, MessageItem, Summary, SummaryItem
from lossless.model.identity import focus_id
from lossless.model.records import ContextChange, StoredBrief
from lossless.model.tokens import cut_to_tokens, estimate_tokens, one_line
from lossless.recall.evidence import Evidence, recall
from lossless.recall.scope import Scope
from lossless.store.maintenance.surgery import SurgeryWrites

if TYPE_CHECKING:
    from lossless.llm.chain import ModelChain
    from lossless.maintenance.engine_parts import EngineParts
    from lossless.model.conversations import SessionRef
    from lossless.model.messages import StoredMessage
    from lossless.store.archive import Archive

BRIEF_SECTIONS = (
    "Narrative", "Recent context", "Working state", "Evidence map", "Expansion guide", "Risks and gaps",
    "Likely irrelevant", "Confidence",
)  # fmt: skip


def _template(name: str) -> str:
    return files("lossless.maintenance.surgery").joinpath("prompts", f"focus-{name}.md").read_text("utf-8").strip()


def missing_sections(text: str) -> list[str]:
    heads = {line.strip("#* :").lower() for line in text.splitlines()}
    return [name for name in BRIEF_SECTIONS if name.lower() not in heads]


def summaries_text(summaries: Sequence[Summary], max_tokens: int) -> str:
    """Summaries with their ids, the newest within the limit."""
    texts = [f"[{summary.id}, depth {summary.depth}]\n{summary.content}" for summary in reversed(summaries)]
    return "\n\n".join(reversed(_fitting(texts, max_tokens) or texts[:1]))


def recent_text(messages: Sequence[StoredMessage], max_tokens: int) -> str:
    """The newest messages as text, within the limit."""
    lines = [f"msg#{stored.id} {stored.message.role}: {one_line(stored.message.content)}" for stored in messages]
    return "\n".join(reversed(_fitting(reversed(lines), max_tokens)))


def extract_brief(
    summaries: Sequence[Summary],
    found: Sequence[Evidence],
    messages: Sequence[StoredMessage],
    aside: Sequence[str],
    tokens: int,
    timezone: str,
) -> str:
    """A brief made of the history's own words, of at most so many tokens; `aside` are summaries without evidence."""

    def within(lines: Iterable[str], limit: int) -> str:
        return "\n".join(_fitting(lines, limit, each=1))

    opened = dict.fromkeys(f"open {item.summary_id}" for item in found if item.summary_id)
    about = [summary for summary in summaries if summary.id not in aside] or summaries
    narrative = condense([source_summary(summary) for summary in about], max(64, tokens // 3), timezone=timezone)
    sources = [f" ({item.summary_id})" if item.summary_id else "" for item in found]
    quotes = [f"{item.reference}{source}: {item.text}" for item, source in zip(found, sources, strict=True)]
    bodies = {
        "Narrative": narrative or summaries_text(about, tokens // 3),
        "Recent context": recent_text(messages, max(32, tokens // 8)) or "none",
        "Working state": one_line(messages[-1].message.content) if messages else "unknown",
        "Evidence map": within(quotes, max(32, 5 * tokens // 12)) or "no quotation was found",
        "Expansion guide": within(opened, max(16, tokens // 16)) or "open what is named above",
        "Risks and gaps": "extracted without a model: words are quoted, not weighed",
        "Likely irrelevant": within(aside, max(16, tokens // 16)) or "none",
        "Confidence": "low",
    }
    return cut_to_tokens("\n\n".join(f"## {name}\n{body}" for name, body in bodies.items()), tokens)


def _fitting(lines: Iterable[str], tokens: int, each: int = 0) -> list[str]:
    """The first of some lines, within so many tokens, with so many more for each."""
    kept: list[str] = []
    for line in lines:
        tokens -= estimate_tokens(line) + each
        if tokens < 0:
            break
        kept.append(line)
    return kept


FOCUS_TARGET_TOKENS = 12_000
#: A brief shorter than this share of its target gets a warning.
MIN_SHARE = 0.6
_MIN_TARGET = 256
_MAX_EVIDENCE = 120_000
_MIN_EVIDENCE = 40_000
_MIN_SECONDS, _MAX_SECONDS, _SECONDS_PER_TOKEN = 240.0, 900.0, 0.05
_RECENT_MESSAGES = 24
_EXTRACTED_EVIDENCE = 4_000
_SUMMARY, _MESSAGE = re.compile(r"\bsum_[0-9a-f]{16}\b"), re.compile(r"\bmsg#(\d+)")
#: More digits than any message number has, and how many unknown names a warning lists.
_MAX_DIGITS, _NAMED = 18, 5


@dataclass(frozen=True, slots=True)
class FocusPlan:
    """What a brief would cover; no model is called and nothing is written yet."""

    conversation_id: int
    prompt: str
    #: The summaries of the context that the brief would replace.
    covered: tuple[PreviewItem, ...]
    target_tokens: int
    evidence_tokens: int
    timeout_seconds: float
    covered_message_seq: int | None
    covered_latest_at: datetime | None
    context_hash: str
    #: The active brief, and its text when it is to be updated.
    previous_id: str | None = None
    previous: str = ""

    @property
    def text(self) -> str:
        before = sum(item.tokens for item in self.covered)
        head = f"{len(self.covered)} summaries, {before} tokens → a brief of about {self.target_tokens} tokens"
        return "\n".join([f"focus: {self.prompt}", head, *(f"- {item}" for item in self.covered)])


@dataclass(frozen=True, slots=True)
class FocusDraft:
    """A brief that is not in use yet; `error` says why there is none."""

    content: str
    tokens: int
    model: str
    cited: tuple[str, ...] = ()
    irrelevant: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class FocusStatus:
    """The newest brief of a conversation, and what happened since it was written."""

    brief: StoredBrief
    messages_since: int
    tokens_since: int
    summaries_since: int
    #: Whether the summaries that it covers have changed.
    source_context_changed: bool

    @property
    def is_stale(self) -> bool:
        """Whether it is in use and outdated."""
        return self.brief.status == "active" and (self.messages_since > 0 or self.source_context_changed)


def plan_focus(parts: EngineParts, session: SessionRef | int, prompt: str | None = None) -> FocusPlan:
    """What a brief for a question would cover; without one, the active brief is updated."""
    archive, conversation_id, settings = parts.archive, parts.conversation_id(session), parts.settings
    with archive.reading():
        context = archive.context.items(conversation_id)
        ids = [item.summary_id for item in context if isinstance(item, SummaryItem)]
        active = archive.prompts.active_brief(conversation_id)
        if prompt is None and active is None:
            raise BadInput(f"conversation {conversation_id} has no active focus to update")
        question = (prompt if prompt is not None else active.prompt if active else "").strip()
        if not question:
            raise BadInput("a focus needs a question in words")
        if not ids:
            raise BadInput(f"conversation {conversation_id} has no summaries in its context that a brief could cover")
        seqs = archive.prompts.newest_seqs(conversation_id)
        covered = preview_items(archive, ids)
        times = [summary.latest_at for summary in archive.summaries.many(ids) if summary.latest_at]
        hash_ = context_hash(archive, context)
    weight = sum(item.tokens for item in covered)
    target = min(FOCUS_TARGET_TOKENS, max(_MIN_TARGET, weight))
    evidence = min(_MAX_EVIDENCE, max(settings.max_expand_tokens, 10 * weight, 2 * target, _MIN_EVIDENCE))
    seconds = min(_MAX_SECONDS, max(settings.delegation_timeout_ms / 1000, _MIN_SECONDS, _SECONDS_PER_TOKEN * target))
    newest = max((seqs[id_] for id_ in ids if id_ in seqs), default=None), max(times, default=None)
    before = (active.id, active.content if prompt is None else "") if active else (None, "")
    return FocusPlan(conversation_id, question, covered, target, evidence, seconds, *newest, hash_, *before)


def context_hash(archive: Archive, context: list[ContextItem]) -> str:
    """A hash of the summaries of a context: their positions, ids, sizes and newest times."""
    items = [item for item in context if isinstance(item, SummaryItem)]
    latest = {summary.id: summary.latest_at for summary in archive.summaries.many([item.summary_id for item in items])}
    rows = [[n, item.summary_id, item.tokens, str(latest.get(item.summary_id))] for n, item in enumerate(items)]
    return sha256(json.dumps(rows).encode()).hexdigest()[:32]


def write_focus(parts: EngineParts, plan: FocusPlan) -> FocusDraft:
    """Write the planned brief without activating it; `.error` says why it could not be written.

    A model gets two prompts: what is known, then the brief. Without a model it is extracted.
    """
    archive, work, now, summariser = parts.archive, plan, parts.clock(), parts.loop.summariser
    gate = summariser.gate(archive, work.conversation_id, parts.clock)
    chain = summariser.chain(gate) if summariser.has_model else None
    scope = Scope("conversation", (work.conversation_id,))
    limit = work.evidence_tokens if chain is not None else min(_EXTRACTED_EVIDENCE, work.target_tokens)
    found = recall(archive, scope, work.prompt, limit, now)
    with archive.reading():
        summaries = archive.summaries.many([str(item.id) for item in work.covered])
        context = archive.context.items(work.conversation_id)
        tail = [item.message_id for item in context if isinstance(item, MessageItem)]
        messages = archive.messages.many(tail[-_RECENT_MESSAGES:], exact=False)
        cited = tuple(dict.fromkeys(item.summary_id for item in found.evidence if item.summary_id))
        below, covered = SurgeryWrites(archive).below, [str(item.id) for item in work.covered]
        aside = tuple(id_ for id_ in covered if not set(cited) & set(below([id_])))
    if chain is None:
        zone = summariser.settings.timezone or "UTC"
        text = extract_brief(summaries, found.evidence, messages, aside, work.target_tokens, zone)
        return FocusDraft(text, estimate_tokens(text), EXTRACTIVE_MODEL, cited, aside)
    inputs = summaries_text(summaries, work.evidence_tokens // 2)
    recent = recent_text(messages, work.target_tokens // 4)
    chain = replace(chain, timeout_seconds=work.timeout_seconds)
    made = _ask_model(chain, work, inputs, str(found), recent, (cited, aside))
    return replace(made, warnings=(*made.warnings, *_warn_unknown(archive, work, made.content)))


def apply_focus(parts: EngineParts, plan: FocusPlan, made: FocusDraft) -> OperationReport:
    """Activate a brief, in place of the previous one; one with an error is only recorded."""
    archive, briefs, work = parts.archive, parts.archive.prompts, plan
    with applying(parts, "") as step:
        now, conversation = step.now, archive.conversations.get(work.conversation_id)
        active = archive.prompts.active_brief(work.conversation_id)
        step.check([work.previous_id], [active.id if active else None])
        newest = archive.messages.last_seq(work.conversation_id)
        raw = json.dumps({"model": made.model, "warnings": made.warnings, "lastSeq": newest}, separators=(",", ":"))
        brief = StoredBrief(
            focus_id(str(uuid4())), work.conversation_id, work.prompt, made.content,
            "failed" if made.error else "active", made.tokens, work.target_tokens, work.covered_latest_at,
            work.covered_message_seq, work.context_hash, made.error, now, raw,
        )  # fmt: skip
        sources = {"active_input": [str(item.id) for item in work.covered], "cited": made.cited}
        briefs.add_brief(conversation, brief, sources | {"irrelevant": made.irrelevant}, now)
        change = ContextChange("failed focus" if made.error else "focus", "focus")
        detail = {"brief": brief.id, "previous": work.previous_id}
        return replace(step.log(brief.conversation_id, change, summary_ids=(brief.id,), detail=detail), action="focus")


def plan_unfocus(parts: EngineParts, session: SessionRef | int) -> tuple[StoredBrief, tuple[PreviewItem, ...]]:
    """The active brief, and the summaries that are shown again without it; BadInput when there is none."""
    archive, conversation_id = parts.archive, parts.conversation_id(session)
    with archive.reading():
        active = archive.prompts.active_brief(conversation_id)
        if active is None:
            raise BadInput(f"conversation {conversation_id} has no active focus")
        covered = archive.prompts.brief_sources(active.id).get("active_input", ())
        return active, preview_items(archive, covered)


def unfocus(parts: EngineParts, session: SessionRef | int) -> OperationReport:
    """Deactivate the brief: the summaries that it replaced are shown again."""
    archive, conversation_id = parts.archive, parts.conversation_id(session)
    with applying(parts, "") as step:
        active, _ = plan_unfocus(parts, conversation_id)
        archive.prompts.deactivate_brief(conversation_id, step.now)
        detail = {"brief": active.id, "previous": active.id}
        return step.log(conversation_id, ContextChange("unfocus", "unfocus"), summary_ids=(active.id,), detail=detail)


def focus_status(parts: EngineParts, session: SessionRef | int) -> FocusStatus | None:
    """The newest brief of a conversation and how current it is; None when there never was one."""
    archive, conversation_id = parts.archive, parts.conversation_id(session)
    with archive.reading():
        briefs = archive.prompts
        found = briefs.newest_briefs(conversation_id)
        if not found:
            return None
        messages, tokens, summaries = briefs.since_brief(found[0].id)
        now = context_hash(archive, archive.context.items(conversation_id))
    return FocusStatus(found[0], messages, tokens, summaries, now != found[0].context_hash)


def _ask_model(
    chain: ModelChain,
    work: FocusPlan,
    summaries: str,
    evidence: str,
    recent: str,
    named: tuple[tuple[str, ...], tuple[str, ...]],
) -> FocusDraft:
    target = work.target_tokens
    headings, earlier = "\n".join(f"## {name}" for name in BRIEF_SECTIONS), ""
    if work.previous:
        brief = work.previous.replace("</", "‹/")
        earlier = f"\nBring this earlier brief up to date:\n\n<earlier_brief>\n{brief}\n</earlier_brief>\n"

    def ask(name: str, tokens: int, **history: str) -> Completion:
        escaped = {name: value.replace("</", "‹/") for name, value in history.items()}  # no tag ends early
        text = _template(name).format_map(escaped | {"tokens": tokens, "headings": headings, "previous": earlier})
        return chain(Prompt(_template("system"), text, 2 * target, 0.2, "focus", target_tokens=target))

    try:
        dossier = ask("dossier", 2 * target, summaries=summaries, evidence=evidence, prompt=work.prompt)
        answer = ask("brief", target, dossier=dossier.text, recent=recent, prompt=work.prompt)
        if not answer.text.strip():
            raise ModelBadAnswer("the brief is empty")
    except (ModelError, GuardOpen) as error:
        return FocusDraft("", 0, "", error=str(error))
    text = answer.text.strip()
    warnings = [f"section {name!r} is missing" for name in missing_sections(text)]
    if estimate_tokens(text) < MIN_SHARE * target:
        warnings.append(f"it is shorter than {MIN_SHARE:.0%} of its target")
    if estimate_tokens(text) > 2 * target or answer.incomplete:
        text = cut_to_tokens(text, 2 * target)
        warnings.append("it was truncated")
    return FocusDraft(text, estimate_tokens(text), answer.model, *named, tuple(warnings))


def _warn_unknown(archive: Archive, work: FocusPlan, text: str) -> Iterator[str]:
    """A warning when a brief names messages or summaries that the conversation does not have."""
    messages = {f"msg#{id_}": int(id_) for id_ in _MESSAGE.findall(text) if len(id_) < _MAX_DIGITS}
    with archive.reading():
        owners = {f"msg#{id_}": owner for id_, (owner, _) in archive.listings.message_places(messages.values()).items()}
        nodes = archive.listings.summary_nodes(_SUMMARY.findall(text))
        owners |= {id_: node.conversation_id for id_, node in nodes.items()}
    cited = dict.fromkeys([*_SUMMARY.findall(text), *(f"msg#{id_}" for id_ in _MESSAGE.findall(text))])
    if wrong := [name for name in cited if owners.get(name) != work.conversation_id]:
        more = f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
        yield f"it cites what the conversation does not have: {', '.join(wrong[:_NAMED])}{more}"
