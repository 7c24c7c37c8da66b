"""`answer` (lcm_expand_query): a question, read for in the archive by somebody else, answered with citations."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias
from uuid import uuid4

from lossless.errors import ModelError
from lossless.recall import candidates, grants, loop, pack
from lossless.recall.answered import Answer, Part, merged, no_answer
from lossless.recall.candidates import MAX_BUCKETS, shares
from lossless.recall.citations import settled
from lossless.recall.delegate import Failure, Reply, Task, ask_host, failed
from lossless.recall.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lossless.recall.candidates import Bucket
    from lossless.recall.delegate import Delegate, Model, Use
    from lossless.recall.scope import Caller, Grep
    from lossless.store.archive import Archive

Strategy: TypeAlias = Literal["auto", "loop", "pack"]

NOTHING_FOUND = "No matching summaries found for this scope."
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
    token_cap: int = grants.TOKEN_CAP
    timeout_seconds: float = 150.0
    work_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Means:
    """What answering works with. Without a model and a delegate, the answer is the evidence itself."""

    archive: Archive
    grep: Grep
    #: Gives the tools to a reader, within its task's grant.
    tools: Callable[[Task], Use]
    #: The model to ask, and the one to ask when it refuses.
    models: tuple[Model, ...] = ()
    #: The host's own sub-agents; they go before models.
    delegate: Delegate | None = None
    strategy: Strategy = "auto"
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic
    #: The messages that ask; they are not cited.
    asking: frozenset[int] = frozenset()


def answer(means: Means, question: Question, scope: Scope, caller: Caller) -> Answer:
    """An answer with citations that exist, or the reason why there is none. One deadline holds for all of it.

    `NotFound` for a named summary that is not in scope. Grants are revoked on every exit.
    """
    if caller.is_delegated or scope.grant is not None:
        request = f"{question.prompt}\0{question.query}\0{question.summary_ids}"
        return _blocked(grants.recursion_block(means.archive, caller.name, request, means.clock()))
    if caller.session is None:
        return _answer(means, question, scope, caller)
    length = timedelta(seconds=question.timeout_seconds)
    with grants.one_at_a_time(means.archive, caller.name, means.clock, length) as is_free:
        if not is_free:
            return _blocked(grants.concurrency_block())
        return _answer(means, question, scope, caller)


def _blocked(block: grants.Blocked) -> Answer:
    return no_answer(block.text, block.code, reason=block.reason)


def _answer(means: Means, question: Question, scope: Scope, caller: Caller) -> Answer:
    started = means.monotonic()
    found = candidates.find(means.archive, means.grep, scope, question.summary_ids, question.query, means.clock())
    if not found:
        if scope.kind == "all":
            return no_answer("No matching summaries found in any conversation.", None)
        return Answer(NOTHING_FOUND)
    ranked = candidates.buckets(found)
    if scope.kind == "all":
        chosen, skipped = ranked[:MAX_BUCKETS], ranked[MAX_BUCKETS:]
        others: list[Bucket] = []
    else:
        first = found[0].conversation_id
        chosen = [bucket for bucket in ranked if bucket.conversation_id == first]
        skipped, others = [], [bucket for bucket in ranked if bucket.conversation_id != first]
    until = started + _work_seconds(question)
    work = [
        _Work(means, question, bucket, cap, started, until, caller.name)
        for bucket, cap in zip(chosen, shares(question.token_cap, len(chosen)), strict=True)
    ]
    parts = [*_run_all(work), *(Part(bucket.conversation_id, "skipped", bucket.ids) for bucket in skipped)]
    return merged(parts, others=tuple(bucket.conversation_id for bucket in others), several=scope.kind == "all")


def _work_seconds(question: Question) -> float:
    reserve = min(_RESERVE_SECONDS, question.timeout_seconds / _RESERVE_SHARE)
    return min(question.work_seconds, question.timeout_seconds - reserve)


@dataclass(frozen=True, slots=True)
class _Work:
    """One conversation to be read for one question."""

    means: Means
    question: Question
    bucket: Bucket
    token_cap: int
    started: float
    until: float
    issuer: str


def _run_all(work: list[_Work]) -> list[Part]:
    """Each conversation's part; several are read at the same time."""
    if len(work) == 1:
        return [_part(work[0])]
    with ThreadPoolExecutor(len(work), thread_name_prefix="lossless-answer") as pool:
        parts = [pool.submit(copy_context().run, _part, item) for item in work]
        return [part.result() for part in parts]


def _part(work: _Work) -> Part:
    """What one conversation says, its citations checked."""
    begun = work.means.monotonic()
    outcome, strategy = _read(work)
    elapsed = int(1000 * (work.means.monotonic() - begun))
    id_, ids = work.bucket.conversation_id, work.bucket.ids
    if isinstance(outcome, Failure):
        return Part(id_, "failed", ids, failure=outcome, elapsed_ms=elapsed, strategy=strategy)
    reply, dropped = settled(work.means.archive, _scope(work), outcome)
    asking = {f"msg#{message_id}" for message_id in work.means.asking}
    reply = replace(reply, cited_ids=tuple(cited for cited in reply.cited_ids if cited not in asking))
    return Part(id_, "success", ids, reply, elapsed_ms=elapsed, strategy=strategy, dropped=dropped)


def _read(work: _Work) -> tuple[Reply | Failure, str]:
    means, question = work.means, work.question
    if means.delegate is not None and not means.archive.read_only:
        with _granted(work) as task:
            outcome = ask_host(means.delegate, task)
            grant = means.archive.grants.get(task.grant_id)
        if isinstance(outcome, Reply) and grant is not None:
            outcome = replace(outcome, total_source_tokens=max(outcome.total_source_tokens, grant.tokens_used))
        return outcome, "delegate"
    if not means.models:
        return pack.without_model(_gather(work, min(work.token_cap, question.max_tokens))), "evidence"
    refusal = ""
    for model in means.models[:2]:
        try:
            return _ask(work, model)
        except ModelError as error:
            refusal = str(error)
    return failed("spawn", refusal), "none"


def _ask(work: _Work, model: Model) -> tuple[Reply | Failure, str]:
    """A model's answer, by the strategy that is set, that it is known to manage, or that did not fail."""
    means = work.means
    wanted = means.strategy
    if means.archive.read_only:
        wanted = "pack"  # a grant is a row, and here none can be written
    elif wanted == "auto" and means.archive.grants.remembered(_MEMORY + model.name) == "pack":
        wanted = "pack"
    if wanted != "pack":
        with _granted(work) as task:
            outcome = loop.run(model, task, means.tools(task), work.until, means.monotonic)
        is_clumsy = isinstance(outcome, Failure) and outcome.phase in ("read_reply", "parse_reply")
        if wanted == "loop" or not is_clumsy:
            return outcome, "loop"
    packed = _gather(work, work.token_cap)
    question = work.question
    outcome = pack.run(model, question.prompt, packed, question.max_tokens, work.until, means.monotonic)
    if wanted == "auto" and isinstance(outcome, Reply):
        with means.archive.writing():
            means.archive.grants.remember(_MEMORY + model.name, "pack")
    return outcome, "pack"


def _gather(work: _Work, token_cap: int) -> pack.Packed:
    question = work.question
    words = question.query if question.query and question.query.strip() else question.prompt
    means = work.means
    return pack.gather(means.archive, means.grep, _scope(work), work.bucket, words, token_cap, means.clock())


def _scope(work: _Work) -> Scope:
    return Scope("conversation", (work.bucket.conversation_id,))


@contextmanager
def _granted(work: _Work) -> Iterator[Task]:
    """A task with a grant of its own, which ends with the block, whatever happens in it."""
    means, question, bucket = work.means, work.question, work.bucket
    now = means.monotonic()
    left = max(0.0, work.started + question.timeout_seconds - now)
    key = f"agent:{_agent(work.issuer)}:subagent:{uuid4()}"
    terms = grants.Terms((bucket.conversation_id,), work.token_cap, ttl=timedelta(seconds=left))
    grant = grants.issue(means.archive, work.issuer, key, terms, means.clock())
    try:
        yield Task(
            question.prompt,
            question.query,
            bucket.conversation_id,
            key,
            grant.id,
            work.token_cap,
            question.max_tokens,
            max(0.0, work.until - now),
            bucket.ids,
            bucket.message_backed_ids,
        )
    finally:
        grants.end_child(means.archive, key, means.clock(), deleted=True)


def _agent(session: str) -> str:
    """The agent in a session key `agent:<agent>:…`."""
    segments = session.split(":")
    return segments[1] if len(segments) >= 3 and segments[0] == "agent" and segments[1] else "main"
