"""`answer` (lcm_expand_query): find candidate conversations, have each one read, check the citations and merge the
answers.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from lossless.errors import ModelError
from lossless.model.conversations import Session
from lossless.model.tokens import cut_to_tokens, estimate_tokens
from lossless.recall import delegate, results
from lossless.recall import scope as recall_scope
from lossless.recall.delegate import DelegateError, DelegateReply, DelegateTask, ask_delegate
from lossless.recall.evidence import Evidence, quotation_place, recall, sentences
from lossless.recall.query import TermFinder, pair_list, parse_query
from lossless.recall.results import ELLIPSIS, TextBudget, find_references, json_fields, parse_reference
from lossless.recall.scope import Caller, Grep, GrepRequest, Scope, require_readable

if TYPE_CHECKING:
    from lossless.llm.completion import Complete
    from lossless.recall.tools import Toolbox
    from lossless.store.archive import Archive

_HINT = "lcm_recall finds evidence without a model; lcm_describe opens what it names."


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """What became of one conversation: a reply, a failure, or nothing when it was not read."""

    conversation_id: int
    seed_ids: tuple[str, ...]
    outcome: DelegateReply | DelegateError | None = None
    elapsed_ms: int | None = None
    strategy: str | None = None
    #: Ids that the reader made up.
    dropped: tuple[str, ...] = ()

    @property
    def reply(self) -> DelegateReply | None:
        return self.outcome if isinstance(self.outcome, DelegateReply) else None

    @property
    def status(self) -> Literal["success", "failed", "skipped"]:
        return "success" if self.reply else "failed" if self.outcome else "skipped"

    @property
    def details(self) -> dict[str, Any]:
        reply = self.reply or DelegateReply("", truncated=True)
        found = json_fields(self, "conversation_id status")
        found |= json_fields(reply, "expanded_summary_count cited_ids total_source_tokens truncated")
        found |= json_fields(self, "seed_ids=summaryIds")
        if isinstance(self.outcome, DelegateError):
            found |= {"error": str(self.outcome), "errorCode": self.outcome.code, "phase": self.outcome.phase}
        return found if self.elapsed_ms is None else found | {"elapsedMs": self.elapsed_ms}


def answer_details(
    head: dict[str, Any], parts: Sequence[AnswerPart] = (), *, others: Sequence[int] = (), several: bool = False
) -> dict[str, Any]:
    """An answer or an error with the ids that carry it, and what became of each conversation.

    `others` match, too, and were not read; `several`: whether more than one conversation was asked for.
    """
    good = [part for part in parts if part.reply]
    replies = [part.reply for part in good if part.reply]
    found = head | {
        "citedIds": _each_once(reply.cited_ids for reply in replies),
        "sourceConversationIds": sorted(part.conversation_id for part in good),
        "expandedSummaryCount": sum(reply.expanded_summary_count for reply in replies),
        "totalSourceTokens": sum(reply.total_source_tokens for reply in replies),
        "truncated": "error" in head or len(good) < len(parts) or any(reply.truncated for reply in replies),
    }
    if len(good) == 1:
        found["sourceConversationId"] = good[0].conversation_id
    if several or any(part.status == "failed" for part in parts):
        found["conversationBreakdown"] = [part.details for part in parts]
    optional = {
        "strategy": good[0].strategy if good else None,
        "droppedIds": _each_once(part.dropped for part in parts),
        "otherConversationIds": list(others),
    }
    return found | {name: value for name, value in optional.items() if value}


def _each_once(ids: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(ids)))


def no_answer(text: str, code: str | None = None, *, reason: str | None = None) -> dict[str, Any]:
    """The details of a question that was not read for."""
    head = {"error": text, "errorCode": code, "reason": reason}
    return answer_details({name: value for name, value in head.items() if value is not None})


def merge_parts(parts: Sequence[AnswerPart], *, others: Sequence[int], several: bool) -> dict[str, Any]:
    """One answer from all parts; an error only when every conversation that was read failed."""
    replies = [(part.conversation_id, part.reply.answer) for part in parts if part.reply]
    if not replies:
        failures = [part.outcome for part in parts if isinstance(part.outcome, DelegateError)]
        error = "; ".join(dict.fromkeys(map(str, failures)))
        head = {"error": error, "errorCode": failures[0].code, "hint": _HINT}
        return answer_details(head, parts, others=others, several=several)
    text = replies[0][1]
    if len(parts) > 1:
        lines = [f"Merged findings across {len(replies)} conversation{'s' if len(replies) != 1 else ''}"]
        lines += [f"### Conversation {id_}\n{answer}" for id_, answer in replies]
        missing = [f"{part.conversation_id} ({part.status})" for part in parts if part.reply is None]
        lines += [f"Partial coverage: not read were {', '.join(missing)}."] if missing else []
        text = "\n\n".join(lines)
    return answer_details({"answer": text}, parts, others=others, several=several)


MAX_CONVERSATIONS = 3
#: How many hits of a search are looked at.
_HITS = 50


@dataclass(frozen=True, slots=True)
class AnswerCandidate:
    """Something to open: a summary, or a message that no summary covers yet."""

    id: str
    conversation_id: int
    matched_at: datetime
    is_explicit: bool = False
    #: Whether it is here because of a message below it.
    is_message_backed: bool = False


def find_candidates(
    archive: Archive, grep: Grep, scope: Scope, summary_ids: Sequence[str], query: str | None, now: datetime
) -> list[AnswerCandidate]:
    """What the caller named, then what its query finds.

    Summaries are searched; where none is found, messages, each for the leaf above it or, when it is not
    folded yet, for itself. `NotFound` for a named summary that is not in scope.
    """
    archive = archive.within(scope.conversation_ids)
    nodes = {node.id: node for node in archive.summaries.many(summary_ids)}
    found: dict[str, AnswerCandidate] = {}
    for id_ in summary_ids:
        require_readable(archive, scope, nodes[id_].conversation_id if id_ in nodes else None, id_)
        at = nodes[id_].latest_at or nodes[id_].created_at
        found[id_] = AnswerCandidate(id_, nodes[id_].conversation_id, at, is_explicit=True)
    if not (query and query.strip()):
        return list(found.values())
    request = GrepRequest(query, "full_text", "summaries", limit=_HITS, sort="relevance")
    hits = grep(archive, scope, request, now).hits
    searched = [AnswerCandidate(str(hit.id), hit.conversation_id, hit.created_at) for hit in hits]
    if not searched:
        hits = grep(archive, scope, replace(request, search_in="messages"), now).hits
        ids = [hit.id for hit in hits if isinstance(hit.id, int)]
        echoes, leaves = archive.search.echoes(ids), archive.summaries.covering(ids)
        searched = [
            AnswerCandidate(
                leaves.get(hit.id, f"msg#{hit.id}"), hit.conversation_id, hit.created_at, False, hit.id in leaves
            )
            for hit in hits
            if isinstance(hit.id, int) and hit.id not in echoes
        ]
    for candidate in searched:
        found.setdefault(candidate.id, candidate)
    return list(found.values())


def group_candidates(candidates: Iterable[AnswerCandidate]) -> list[list[AnswerCandidate]]:
    """The candidates by conversation, the likeliest conversation first.

    More named ones win, then more candidates, then the newest match, then more that messages back, then
    the older conversation.
    """
    by_conversation: dict[int, list[AnswerCandidate]] = {}
    for candidate in candidates:
        by_conversation.setdefault(candidate.conversation_id, []).append(candidate)

    def likeliest_first(members: list[AnswerCandidate]) -> tuple[int, int, float, int, int]:
        return (
            -sum(candidate.is_explicit for candidate in members),
            -len(members),
            -max(candidate.matched_at.timestamp() for candidate in members),
            -sum(candidate.is_message_backed for candidate in members),
            members[0].conversation_id,
        )

    return sorted(by_conversation.values(), key=likeliest_first)


def _ids(members: Iterable[AnswerCandidate]) -> tuple[str, ...]:
    return tuple(candidate.id for candidate in members)


def split_tokens(token_cap: int, count: int) -> list[int]:
    """A cap split evenly; the first ones get what does not divide."""
    share, rest = divmod(max(0, token_cap), count)
    return [share + (1 if n < rest else 0) for n in range(count)]


MISSING_ID_MARK = " [no such id]"


def check_citations(archive: Archive, scope: Scope, reply: DelegateReply) -> tuple[DelegateReply, tuple[str, ...]]:
    """The reply with citations that are in scope only, in the text, too; and the ids that were made up.

    An id that stands in the text counts as cited.
    """
    spots = find_references(reply.answer)
    named = [parse_reference(id_) for id_ in reply.cited_ids] + [reference for _, _, reference in spots]
    summaries = archive.listings.summary_nodes(known.id for known in named if known.kind == "summary")
    places = archive.listings.message_places(known.message_id for known in named if known.kind == "message")
    files = archive.files.many(known.id for known in named if known.kind == "file")
    homes = {id_: node.conversation_id for id_, node in summaries.items()}
    homes |= {id_: stored.conversation_id for id_, stored in files.items()}
    homes |= {f"msg#{id_}": place[0] for id_, place in places.items()}
    there = {id_ for id_, conversation_id in homes.items() if scope.allows(conversation_id)}
    pieces: list[str] = []
    at = 0
    for _, end, reference in spots:
        if reference.id not in there:
            pieces += [reply.answer[at:end], MISSING_ID_MARK]
            at = end
    answer = "".join([*pieces, reply.answer[at:]])
    ids = list(dict.fromkeys(reference.id for reference in named))
    cited = tuple(id_ for id_ in ids if id_ in there)
    return replace(reply, answer=answer, cited_ids=cited), tuple(id_ for id_ in ids if id_ not in there)


RECURSION_TEXT = (
    "A delegated session cannot call lcm_expand_query. Use lcm_describe, lcm_grep and lcm_expand, "
    "and answer with what they return."
)
CONCURRENCY_TEXT = "Another lcm_expand_query of this session is still running. Wait for its answer, then ask again."
NO_CANDIDATES = "No matching summaries found for this scope."
NO_MODEL = "No model is configured; this is the evidence itself."
#: What of the whole time is kept for cleaning up, at most.
_RESERVE_SECONDS = 30.0
_RESERVE_SHARE = 4
_MEMORY = "expand_query_strategy:"


@dataclass(frozen=True, slots=True)
class Question:
    """What to find out, where to begin, and how much it may take."""

    prompt: str
    query: str | None = None
    summary_ids: tuple[str, ...] = ()
    #: How long the answer should be at most; stated, not enforced.
    max_tokens: int = 2000
    token_cap: int = recall_scope.GRANT_TOKEN_CAP
    timeout_seconds: float = 150.0
    work_seconds: float = 120.0


def answer(box: Toolbox, question: Question, scope: Scope, caller: Caller) -> dict[str, Any]:
    """The details of an answer with citations that exist, or why there is none. One deadline holds for all of it.

    Without a model and a delegate, the answer is the evidence itself.

    `NotFound` for a named summary that is not in scope. Grants are revoked on every exit.
    """
    if caller.is_delegated or scope.grant is not None:
        request = f"{question.prompt}\0{question.query}\0{question.summary_ids}"
        reason = recall_scope.recursion_reason(box.archive, caller.name, request, box.clock())
        return no_answer(RECURSION_TEXT, recall_scope.RECURSION_BLOCKED, reason=reason)
    if caller.session is None:
        return _answer_in_scope(box, question, scope, caller)
    length = timedelta(seconds=question.timeout_seconds)
    with recall_scope.answer_slot(box.archive, caller.name, box.clock, length) as is_free:
        if not is_free:
            return no_answer(CONCURRENCY_TEXT, recall_scope.CONCURRENCY_BLOCKED, reason="origin_session_in_flight")
        return _answer_in_scope(box, question, scope, caller)


def _answer_in_scope(box: Toolbox, question: Question, scope: Scope, caller: Caller) -> dict[str, Any]:
    started = box.monotonic()
    box = replace(box, archive=box.archive.within(scope.conversation_ids))
    found = find_candidates(box.archive, box.grep, scope, question.summary_ids, question.query, box.clock())
    if not found:
        if scope.kind == "all":
            return no_answer("No matching summaries found in any conversation.")
        return answer_details({"answer": NO_CANDIDATES})
    ranked = group_candidates(found)
    if not (box.models or box.delegate or question.summary_ids):
        return _answer_from_recall(box, question, scope, ranked)
    if scope.kind == "all":
        chosen, skipped = ranked[:MAX_CONVERSATIONS], ranked[MAX_CONVERSATIONS:]
        others: list[list[AnswerCandidate]] = []
    else:
        first = found[0].conversation_id
        chosen = [members for members in ranked if members[0].conversation_id == first]
        skipped, others = [], [members for members in ranked if members[0].conversation_id != first]
    reserve = min(_RESERVE_SECONDS, question.timeout_seconds / _RESERVE_SHARE)
    until = started + min(question.work_seconds, question.timeout_seconds - reserve)
    work = [
        _ConversationTask(box, question, members, cap, started, until, caller)
        for members, cap in zip(chosen, split_tokens(question.token_cap, len(chosen)), strict=True)
    ]
    if len(work) == 1:
        parts = [work[0].part()]
    else:
        with ThreadPoolExecutor(len(work), thread_name_prefix="lossless-answer") as pool:
            parts = [part.result() for part in [pool.submit(copy_context().run, item.part) for item in work]]
    parts += [AnswerPart(members[0].conversation_id, _ids(members)) for members in skipped]
    unread = [members[0].conversation_id for members in others]
    return merge_parts(parts, others=unread, several=scope.kind == "all")


#: About what a screen holds.
SCREEN_TOKENS = 700
#: Of so many of the best quotations one holds the answer: a question, a few words or code hardly.
_ANSWERING, _ASKS_SHARE, _KIND_SHARE, _CODE_SHARE = 8, 0.3, 2.0, 0.2
_LEAST_SENTENCE = 8
_CODE_SIGNS = re.compile(r"[{}()=;<>|]|::|->|_\w")
#: What a question begins with, and what its answer then holds.
_KINDS_OF_ANSWER = [
    (re.compile(rf"\b{asked}", re.I), re.compile(answer)) for asked, answer in pair_list("kinds of answer")
]


def _answer_from_recall(
    box: Toolbox, question: Question, scope: Scope, ranked: Sequence[list[AnswerCandidate]]
) -> dict[str, Any]:
    """Without a model: the sentence that answers best, then the evidence for it, about a screen of both."""
    asks = tuple(dict.fromkeys(filter(None, (question.prompt, question.query))))
    cap = min(question.token_cap, question.max_tokens, SCREEN_TOKENS)
    found = recall(box.archive, scope, " ".join(asks), cap, box.clock(), box.asking, asks)
    if not found.evidence:
        return answer_details({"answer": NO_CANDIDATES})
    first = answering_sentence(" ".join(asks), found.evidence)
    lines = [*([first, ""] if first else []), NO_MODEL, *found.lines[1:-1]]
    text = cut_to_tokens("\n".join(lines), min(question.token_cap, question.max_tokens))
    seeds = {members[0].conversation_id: _ids(members) for members in ranked}
    parts = []
    for id_ in sorted({item.conversation_id for item in found.evidence}):
        cited = tuple(item.reference for item in found.evidence if item.conversation_id == id_)
        weight = sum(estimate_tokens(item.text) for item in found.evidence if item.conversation_id == id_)
        reply = DelegateReply(text, cited, 0, weight)
        parts.append(AnswerPart(id_, seeds.get(id_, ()), reply, strategy="evidence"))
    return answer_details({"answer": text}, parts, several=scope.kind == "all")


def answering_sentence(question: str, evidence: Sequence[Evidence]) -> str:
    """The sentence among the best quotations that most likely answers, with where it is from; "" when none does.

    It has rare words of the question, or is in a message next to them, and holds what the question asks for: a
    time, a number, a name, a place, a reason.
    """
    query = parse_query(question)
    finder, best = TermFinder(query.terms), evidence[:_ANSWERING]
    having = Counter(term for item in best for term in {hit.term for hit in finder.find(item.text, 1)})
    kind = next((answer for asked, answer in _KINDS_OF_ANSWER if asked.search(question)), None)
    top, best_sentence, source = 0.0, "", best[0]
    for item in best:
        for sentence in sentences(item.text.strip(ELLIPSIS)):
            covered = sum(1 / having[term] for term in {hit.term for hit in finder.find(sentence, 1)} if having[term])
            value = item.score * (0.5 + covered) / math.sqrt(80 + len(sentence))
            value *= _ASKS_SHARE if sentence.endswith("?") else 1.0
            value *= _KIND_SHARE if kind and kind.search(sentence) else 1.0
            value *= _ASKS_SHARE if estimate_tokens(sentence) < _LEAST_SENTENCE else 1.0
            value *= _CODE_SHARE if len(_CODE_SIGNS.findall(sentence)) > len(sentence) // 40 else 1.0
            if value > top:
                top, best_sentence, source = value, sentence, item
    return f"{best_sentence} ({quotation_place(source)})" if best_sentence else ""


#: How many hits may be evidence, and the largest share of the room that one of them may take.
_EVIDENCE_HITS, _SHARE = 24, 3
_MIN_TOKENS = 24


@dataclass(frozen=True, slots=True)
class _ConversationTask:
    """One conversation to be read for one question."""

    box: Toolbox
    question: Question
    members: list[AnswerCandidate]
    token_cap: int
    started: float
    until: float
    caller: Caller

    @property
    def conversation_id(self) -> int:
        return self.members[0].conversation_id

    @property
    def scope(self) -> Scope:
        return Scope("conversation", (self.conversation_id,))

    def part(self) -> AnswerPart:
        """What becomes of it."""
        begun = self.box.monotonic()
        outcome, strategy = self._read()
        elapsed, dropped = int(1000 * (self.box.monotonic() - begun)), tuple[str, ...]()
        if isinstance(outcome, DelegateReply):
            outcome, dropped = check_citations(self.box.archive, self.scope, outcome)
            asking = {f"msg#{message_id}" for message_id in self.box.asking}
            outcome = replace(outcome, cited_ids=tuple(id_ for id_ in outcome.cited_ids if id_ not in asking))
        return AnswerPart(self.conversation_id, _ids(self.members), outcome, elapsed, strategy, dropped)

    def _read(self) -> tuple[DelegateReply | DelegateError, str]:
        box = self.box
        if box.delegate is not None and not box.archive.read_only:
            with self._granted() as task:
                outcome = ask_delegate(box.delegate, task)
                grant = box.archive.guards.grant(task.grant_id)
            if isinstance(outcome, DelegateReply) and grant is not None:
                outcome = replace(outcome, total_source_tokens=max(outcome.total_source_tokens, grant.tokens_used))
            return outcome, "delegate"
        if not box.models:
            packed = self._gather(min(self.token_cap, self.question.max_tokens))
            text = f"No model is configured, so this is the evidence itself, in order of time.\n\n{packed.answer}"
            none = DelegateReply("No model is configured, and no evidence was found.")
            return replace(packed, answer=text) if packed.cited_ids else none, "evidence"
        refusal = ""
        for name, complete in box.models[:2]:
            try:
                return self._ask_reader(name, complete)
            except ModelError as error:
                refusal = str(error)
        return DelegateError(refusal, "spawn"), "none"

    def _ask_reader(self, name: str, complete: Complete) -> tuple[DelegateReply | DelegateError, str]:
        """A model's answer, by the strategy that is set, that it is known to manage, or that did not fail."""
        box, guards, wanted = self.box, self.box.archive.guards, self.box.settings.expand_query_strategy
        if box.archive.read_only:
            wanted = "pack"  # a grant is a row, and here none can be written
        elif wanted == "auto" and guards.remembered(_MEMORY + name) == "pack":
            wanted = "pack"
        if wanted != "pack":
            with self._granted() as task:
                reader = Caller(Session(key=task.session_key), task.grant_id, self.caller.host_has_subagents)
                use = partial(box.call, caller=reader)
                outcome = delegate.run_tool_loop(complete, task, use, self.until, box.monotonic)
            is_clumsy = isinstance(outcome, DelegateError) and outcome.phase in ("read_reply", "parse_reply")
            if wanted == "loop" or not is_clumsy:
                return outcome, "loop"
        packed, question = self._gather(self.token_cap), self.question
        outcome = delegate.ask_with_evidence(
            complete, question.prompt, packed, question.max_tokens, self.until, box.monotonic
        )
        if wanted == "auto" and isinstance(outcome, DelegateReply):
            with box.archive.writing():
                guards.remember(_MEMORY + name, "pack")
        return outcome, "pack"

    def _gather(self, token_cap: int) -> DelegateReply:
        """The evidence within a cap, in order of time: what was named first, then the best hits of a search.

        Messages go before summaries that were not named, because a question asks for what was said.
        """
        question, box, scope, archive = self.question, self.box, self.scope, self.box.archive
        words = question.query if question.query and question.query.strip() else question.prompt
        named = _ids(candidate for candidate in self.members if candidate.is_explicit)
        request = GrepRequest(words, "full_text", "messages", limit=_EVIDENCE_HITS, sort="relevance")
        hits = [hit.reference for hit in box.grep(archive, scope, request, box.clock()).hits]
        wanted = list(dict.fromkeys([*named, *hits[: _EVIDENCE_HITS // 2], *_ids(self.members), *hits]))
        summaries = {found.id: found for found in archive.summaries.many([id_ for id_ in wanted if id_[:4] == "sum_"])}
        messages = archive.messages.many([int(id_[4:]) for id_ in wanted if id_[:4] == "msg#"])
        stored = {f"msg#{found.id}": found for found in messages}
        space, largest = TextBudget(token_cap), TextBudget(max(_MIN_TOKENS, token_cap // _SHARE))
        taken: list[tuple[datetime, str, str]] = []
        truncated = False
        for id_ in wanted:
            if (summary := summaries.get(id_)) and scope.allows(summary.conversation_id):
                span = results.format_span(summary.earliest_at, summary.latest_at)
                title, text = f"[{summary.id} | {summary.kind} summary | {span}]", summary.content
                at = summary.earliest_at or summary.created_at
            elif (message := stored.get(id_)) and scope.allows(message.conversation_id):
                title, at, text = (
                    results.message_header(message),
                    message.created_at,
                    results.message_text(message.message),
                )
            else:
                continue
            kept = largest.head(text)
            block = f"{title}\n{kept}{'' if kept == text else ' …'}\n\n"
            if (rest := space.less(block)).is_kept:
                space = rest
                taken.append((at, id_, block))
                truncated |= kept != text
        ids, blocks = [id_ for _, id_, _ in sorted(taken)], [block for _, _, block in sorted(taken)]
        counts = sum(id_.startswith("sum_") for id_ in ids), sum(map(estimate_tokens, blocks))
        return DelegateReply("".join(blocks).strip(), tuple(ids), *counts, truncated or not set(named) <= set(ids))

    @contextmanager
    def _granted(self) -> Iterator[DelegateTask]:
        """A task with a grant of its own, which ends with the block, whatever happens in it."""
        box, question, now, issuer = self.box, self.question, self.box.monotonic(), self.caller.name
        length = timedelta(seconds=max(0.0, self.started + question.timeout_seconds - now))
        agent = re.match(r"agent:([^:]+):", issuer)
        key = f"agent:{agent[1] if agent else 'main'}:subagent:{uuid4()}"
        grant = recall_scope.issue_grant(
            box.archive, issuer, key, box.clock(), (self.conversation_id,), token_cap=self.token_cap, ttl=length
        )
        caps = self.token_cap, question.max_tokens, max(0.0, self.until - now)
        ids, backed = _ids(self.members), _ids(one for one in self.members if one.is_message_backed)
        try:
            yield DelegateTask(question.prompt, question.query, self.conversation_id, key, grant.id, *caps, ids, backed)
        finally:
            recall_scope.end_child_grants(box.archive, key, box.clock(), deleted=True)
