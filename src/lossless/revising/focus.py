"""Focus: one brief, written for a question, stands in prompts for the summaries that it covers. Storage stays."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING
from uuid import uuid4

from lossless.errors import BadInput, GuardOpen, ModelBadAnswer, ModelError
from lossless.llm.base import Prompt
from lossless.model.context import MessageItem, SummaryItem, token_sum
from lossless.model.identity import focus_id
from lossless.model.summaries import EXTRACTIVE_MODEL
from lossless.model.tokens import cut_to_tokens, estimate_tokens
from lossless.recall.recall import recall
from lossless.recall.scope import Scope
from lossless.revising import focus_text
from lossless.store.belonging import Belonging
from lossless.store.briefs import Brief, Briefs
from lossless.store.context import Change
from lossless.store.operations import Operations
from lossless.surgery.outcome import Operated, Shown, same, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from lossless.compaction.summariser import Summariser
    from lossless.llm.chain import Chain
    from lossless.model.context import ContextItem
    from lossless.recall.evidence import Evidence
    from lossless.store.archive import Archive

TARGET_TOKENS = 12_000
#: A brief shorter than this share of its target is worth a warning.
LEAST_SHARE = 0.6
_LEAST_TARGET = 256
_MOST_EVIDENCE = 120_000
_LEAST_EVIDENCE = 40_000
_LEAST_SECONDS, _MOST_SECONDS, _SECONDS_A_TOKEN = 240.0, 900.0, 0.05
_RECENT_MESSAGES = 24
_EXTRACTED_EVIDENCE = 4_000
_SUMMARY, _MESSAGE = re.compile(r"\bsum_[0-9a-f]{16}\b"), re.compile(r"\bmsg#(\d+)")
#: Digits of a number that no message has, and how many wrong names a warning tells.
_LONGEST_NUMBER, _NAMED = 18, 5


@dataclass(frozen=True, slots=True)
class FocusPlan:
    """What a brief would be about and would cover; nothing is asked or written yet."""

    conversation_id: int
    prompt: str
    #: The summaries of the context that the brief would stand for.
    covered: tuple[Shown, ...]
    target_tokens: int
    evidence_tokens: int
    timeout_seconds: float
    covered_message_seq: int | None
    covered_latest_at: datetime | None
    context_hash: str
    #: The brief that is active now, and its text when it is to be brought up to date.
    previous_id: str | None = None
    previous: str = ""

    @property
    def text(self) -> str:
        """The plan for a person's eyes."""
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

    brief: Brief
    messages_since: int
    tokens_since: int
    summaries_since: int
    #: Whether the summaries that it covers are others by now.
    source_context_changed: bool

    @property
    def is_stale(self) -> bool:
        """Whether it is in use and no longer tells everything."""
        return self.brief.status == "active" and (self.messages_since > 0 or self.source_context_changed)


def plan(
    archive: Archive, conversation_id: int, prompt: str | None, settings_expand: int, timeout_seconds: float = 0.0
) -> FocusPlan:
    """What a brief for a question would cover; without one, the active brief is brought up to date.

    Raises BadInput when there is no question, or nothing that a brief could stand for.
    """
    with archive.reading():
        context = archive.context.items(conversation_id)
        ids = [item.summary_id for item in context if isinstance(item, SummaryItem)]
        active = archive.beside.active_brief(conversation_id)
        if prompt is None and active is None:
            raise BadInput(f"conversation {conversation_id} has no active focus to bring up to date")
        question = (prompt if prompt is not None else active.prompt if active else "").strip()
        if not question:
            raise BadInput("a focus needs a question in words")
        if not ids:
            raise BadInput(
                f"conversation {conversation_id} has no summaries in its context that a brief could stand for"
            )
        seqs = archive.beside.newest_seqs(conversation_id)
        covered = shown(archive, ids)
        times = [summary.latest_at for summary in archive.summaries.many(ids) if summary.latest_at]
        hash_ = context_hash(archive, context)
    weight = sum(item.tokens for item in covered)
    target = min(TARGET_TOKENS, max(_LEAST_TARGET, weight))
    evidence = min(_MOST_EVIDENCE, max(settings_expand, 10 * weight, 2 * target, _LEAST_EVIDENCE))
    seconds = min(_MOST_SECONDS, max(timeout_seconds, _LEAST_SECONDS, _SECONDS_A_TOKEN * target))
    return FocusPlan(
        conversation_id,
        question,
        covered,
        target,
        evidence,
        seconds,
        max((seqs[id_] for id_ in ids if id_ in seqs), default=None),
        max(times, default=None),
        hash_,
        active.id if active else None,
        active.content if active and prompt is None else "",
    )


def context_hash(archive: Archive, context: list[ContextItem]) -> str:
    """Changes with the summaries of a context: their places, ids, sizes and newest times."""
    items = [item for item in context if isinstance(item, SummaryItem)]
    latest = {summary.id: summary.latest_at for summary in archive.summaries.many([item.summary_id for item in items])}
    rows = [[n, item.summary_id, item.tokens, str(latest.get(item.summary_id))] for n, item in enumerate(items)]
    return sha256(json.dumps(rows).encode()).hexdigest()[:32]


def write(archive: Archive, work: FocusPlan, summariser: Summariser, now: datetime, chain: Chain | None) -> FocusDraft:
    """Write a brief in two questions to a model: what is known, then the brief. Without one it is extracted."""
    scope = Scope("conversation", (work.conversation_id,))
    room = work.evidence_tokens if chain is not None else min(_EXTRACTED_EVIDENCE, work.target_tokens)
    found = recall(archive, scope, work.prompt, room, now)
    with archive.reading():
        summaries = archive.summaries.many([str(item.id) for item in work.covered])
        tail = [
            item.message_id for item in archive.context.items(work.conversation_id) if isinstance(item, MessageItem)
        ]
        messages = archive.messages.many(tail[-_RECENT_MESSAGES:], exact=False)
        cited, aside = _cited(archive, work, found.evidence)
    if chain is None:
        zone = summariser.settings.timezone or "UTC"
        text = focus_text.extracted(summaries, found.evidence, messages, aside, work.target_tokens, zone)
        return FocusDraft(text, estimate_tokens(text), EXTRACTIVE_MODEL, cited, aside)
    inputs = focus_text.summaries_text(summaries, work.evidence_tokens // 2)
    recent = focus_text.recent_text(messages, work.target_tokens // 4)
    made = _asked(
        replace(chain, timeout_seconds=work.timeout_seconds), work, inputs, str(found), recent, (cited, aside)
    )
    return replace(made, warnings=(*made.warnings, *_unknown(archive, work, made.content)))


def apply(archive: Archive, work: FocusPlan, made: FocusDraft, now: datetime) -> Operated:
    """Put a brief in use, in place of the one before; a draft with an error is only recorded."""
    briefs = Briefs(archive.database)
    with archive.writing():
        conversation = archive.conversations.get(work.conversation_id)
        active = archive.beside.active_brief(work.conversation_id)
        same(work.previous_id, active.id if active else None)
        newest = briefs.last_seq(work.conversation_id)
        raw = json.dumps({"model": made.model, "warnings": made.warnings, "lastSeq": newest}, separators=(",", ":"))
        brief = Brief(
            focus_id(str(uuid4())), work.conversation_id, work.prompt, made.content,
            "failed" if made.error else "active", made.tokens, work.target_tokens, work.covered_latest_at,
            work.covered_message_seq, work.context_hash, made.error, now, raw,
        )  # fmt: skip
        sources = {"active_input": [str(item.id) for item in work.covered], "cited": made.cited}
        briefs.add(conversation, brief, sources | {"irrelevant": made.irrelevant}, now)
        tokens = token_sum(archive.context.items(work.conversation_id))
        detail = json.dumps({"brief": brief.id, "previous": work.previous_id})
        change = Change("failed focus" if made.error else "focus", "focus", None, (), (), None, tokens, tokens, detail)
        log_id = Operations(archive).log(work.conversation_id, change, now)
    return Operated("focus", work.conversation_id, log_id, tokens, tokens, (brief.id,))


def unfocus(archive: Archive, conversation_id: int, now: datetime) -> Operated:
    """Put the active brief away: the summaries that it covered are shown again."""
    with archive.writing():
        active = archive.beside.active_brief(conversation_id)
        if active is None:
            raise BadInput(f"conversation {conversation_id} has no active focus")
        Briefs(archive.database).deactivate(conversation_id, now)
        tokens = token_sum(archive.context.items(conversation_id))
        detail = json.dumps({"brief": active.id, "previous": active.id})
        change = Change("unfocus", "unfocus", None, (), (), None, tokens, tokens, detail)
        log_id = Operations(archive).log(conversation_id, change, now)
    return Operated("unfocus", conversation_id, log_id, tokens, tokens, (active.id,))


def status(archive: Archive, conversation_id: int) -> FocusStatus | None:
    """The newest brief of a conversation and how current it is; None when there never was one."""
    with archive.reading():
        briefs = Briefs(archive.database)
        found = briefs.newest(conversation_id)
        if not found:
            return None
        messages, tokens, summaries = briefs.since(found[0])
        now = context_hash(archive, archive.context.items(conversation_id))
    return FocusStatus(found[0], messages, tokens, summaries, now != found[0].context_hash)


def _asked(
    chain: Chain,
    work: FocusPlan,
    summaries: str,
    evidence: str,
    recent: str,
    named: tuple[tuple[str, ...], tuple[str, ...]],
) -> FocusDraft:
    target = work.target_tokens
    first = focus_text.dossier_prompt(work.prompt, 2 * target, summaries, evidence, work.previous)
    try:
        dossier = chain(Prompt(focus_text.SYSTEM, first, 2 * target, 0.2, "focus", target_tokens=target))
        second = focus_text.synthesis_prompt(work.prompt, target, dossier.text, recent, work.previous)
        answer = chain(Prompt(focus_text.SYSTEM, second, 2 * target, 0.2, "focus", target_tokens=target))
        if not answer.text.strip():
            raise ModelBadAnswer("the brief is empty")
    except (ModelError, GuardOpen) as error:
        return FocusDraft("", 0, "", error=str(error))
    text = answer.text.strip()
    warnings = [f"section {name!r} is missing" for name in focus_text.missing_sections(text)]
    if estimate_tokens(text) < LEAST_SHARE * target:
        warnings.append(f"it is shorter than {LEAST_SHARE:.0%} of its target")
    if estimate_tokens(text) > 2 * target or answer.incomplete:
        text = cut_to_tokens(text, 2 * target)
        warnings.append("it was truncated")
    return FocusDraft(text, estimate_tokens(text), answer.model, *named, tuple(warnings))


def _unknown(archive: Archive, work: FocusPlan, text: str) -> Iterator[str]:
    """A warning when a brief names messages or summaries that the conversation does not have."""
    belonging = Belonging(archive)
    messages = {f"msg#{id_}": int(id_) for id_ in _MESSAGE.findall(text) if len(id_) < _LONGEST_NUMBER}
    with archive.reading():
        owners = {f"msg#{id_}": owner for id_, (owner, _) in belonging.messages(messages.values()).items()}
        owners |= belonging.summaries(_SUMMARY.findall(text))
    cited = dict.fromkeys([*_SUMMARY.findall(text), *(f"msg#{id_}" for id_ in _MESSAGE.findall(text))])
    if wrong := [name for name in cited if owners.get(name) != work.conversation_id]:
        more = f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
        yield f"it cites what the conversation does not have: {', '.join(wrong[:_NAMED])}{more}"


def _cited(
    archive: Archive, work: FocusPlan, evidence: tuple[Evidence, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Summaries that carry evidence, and covered ones with none below them."""
    cited = tuple(dict.fromkeys(item.summary_id for item in evidence if item.summary_id))
    operations = Operations(archive)
    covered = [str(item.id) for item in work.covered]
    return cited, tuple(id_ for id_ in covered if not set(cited) & set(operations.below([id_])))
