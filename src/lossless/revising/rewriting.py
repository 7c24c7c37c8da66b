"""Writing summaries anew: which ones, bottom-up; a draft of each with its diff; and putting drafts in place.

A draft counts only when it is smaller than its sources and when nothing that was made of the summary stops being
smaller than its own; a plan that goes upward writes that anew as well. A model is asked outside of any transaction. Who
asks for a plan asks for all of its calls: the spend limit is for calls that nobody asked for.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.compaction.escalate import Source, summarise
from lossless.compaction.lease import lease, lease_length, lease_name
from lossless.compaction.source_text import line_of, section_of
from lossless.errors import BadInput, GuardOpen, ModelAuth, ModelDenied, ModelError, NotFound, Stale
from lossless.model.context import token_sum
from lossless.model.summaries import EXTRACTIVE_MODEL
from lossless.revising.fit import outgrown, settled
from lossless.revising.markers import marker_of
from lossless.revising.order import by_time, subtree_by_subtree, written_before
from lossless.store.context import Change
from lossless.store.operations import Operations
from lossless.surgery.outcome import Operated, backed_up, one_line, text_diff

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from datetime import datetime

    from lossless.compaction.escalate import Ask, Written
    from lossless.compaction.summariser import Summariser
    from lossless.model.summaries import Summary
    from lossless.store.archive import Archive
    from lossless.surgery.outcome import Backup

Action: TypeAlias = Literal["rewrite", "repair"]

#: A model is asked for a summary, for a shorter one if need be, and each time once more when its answer is cut off.
_CALLS_EACH = 4
#: After so many failures in a row a model counts as down.
_FAILURES = 3

NOT_SMALLER = "no text came out that is smaller than its sources"
STILL_BROKEN = "the new text is a fallback, too"
UNCHANGED = "the new text is the old one"
GONE = "it is no longer in the archive"
TAKEN = "another worker has taken this conversation over; try again when it is done"


@dataclass(frozen=True, slots=True)
class Target:
    """A summary that is to be written anew, and why."""

    id: str
    depth: int
    tokens: int
    source_tokens: int
    model: str
    reason: str
    preview: str

    def __str__(self) -> str:
        return (
            f"{self.id} depth {self.depth}, {self.tokens} of {self.source_tokens} tokens, {self.reason}: {self.preview}"
        )


@dataclass(frozen=True, slots=True)
class RewritePlan:
    """Which summaries would be written anew, in this order; nothing is asked or written yet."""

    conversation_id: int
    targets: tuple[Target, ...]
    action: Action = "rewrite"
    #: Under which name a run is remembered that does not come to its end; empty when none is.
    rule: str = ""
    #: How many a run that was stopped has written already.
    kept: int = 0
    #: Whether those above are written anew as well that would no longer be smaller than their sources.
    is_upward: bool = False

    @property
    def input_tokens(self) -> int:
        """What a model would read."""
        return sum(target.source_tokens for target in self.targets)

    @property
    def text(self) -> str:
        """The plan for a person's eyes."""
        head = f"conversation {self.conversation_id}: {len(self.targets)} summaries, {self.input_tokens} tokens to read"
        more = f"; {self.kept} more were written by a run that was stopped" if self.kept else ""
        return "\n".join([head + more, *(f"~ {target}" for target in self.targets)])


@dataclass(frozen=True, slots=True)
class Draft:
    """A new text for a summary; `refusal` says why it must not take the old one's place."""

    summary_id: str
    depth: int
    before: str
    tokens_before: int
    text: str = ""
    tokens: int = 0
    model: str = ""
    file_ids: tuple[str, ...] = ()
    source_tokens: int = 0
    calls: int = 0
    refusal: str | None = None
    #: The model gave no answer; another time it may.
    is_failed: bool = False
    #: The model could not be asked: those that follow would fare the same.
    is_last: bool = False
    #: Why it was written although no one chose it; empty when it was chosen.
    because: str = ""
    #: What was made of it and would no longer be smaller than its sources.
    breaks: str | None = None
    #: The newest version when its sources were read.
    version: int = 0

    @property
    def diff(self) -> str:
        """A unified diff from the old text to the new one."""
        return text_diff(self.before, self.text, self.summary_id)


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes drafts: the archive they are about and the summariser that is asked."""

    archive: Archive
    summariser: Summariser
    clock: Callable[[], datetime]
    #: Another model, or other templates, for this time only.
    ask: Ask | None = None

    @contextmanager
    def asking(self, work: RewritePlan, is_wanted: Callable[[], bool]) -> Iterator[Ask | None]:
        """How a model is asked for all that a plan needs; None when there is none.

        The spend limit of the conversation makes room for these calls, and they use up nothing of its window.
        """
        if self.ask is not None or not self.summariser.has_model:
            yield self.ask
            return
        gate = self.summariser.gate(self.archive, work.conversation_id, self.clock)
        ids = [target.id for target in work.targets]
        count = len(Operations(self.archive).above(ids)) if work.is_upward else len(ids)
        most = count * len(self.summariser.candidates()) * _CALLS_EACH
        room = replace(gate.spend, max_calls=max(gate.spend.max_calls, most))
        gate = replace(gate, is_wanted=is_wanted, spend=room)
        gate.reset()
        try:
            yield self.summariser.ask(gate)
        finally:
            gate.reset()

    @contextmanager
    def alone(self, conversation_id: int) -> Iterator[Callable[[], bool]]:
        """Keep others from summarising a conversation; yields what prolongs that. `Stale` when another one does."""
        most = self.summariser.settings.summary_timeout_ms
        with lease(self.archive, lease_name(conversation_id), self.clock, most) as prolong:
            if not prolong():
                seconds = lease_length(most).total_seconds()
                when = f"try again when it is done (if it died, in {seconds:.0f} seconds at most)"
                raise Stale(f"another worker is summarising conversation {conversation_id}; {when}")
            yield prolong


def plan(
    archive: Archive,
    conversation_id: int,
    *,
    summary_id: str | None = None,
    subtree: str | None = None,
    depth: int | None = None,
    everything: bool = False,
    extractive: bool = False,
    by: str = "",
    afresh: bool = False,
    upward: bool = False,
) -> RewritePlan:
    """Choose summaries by exactly one rule, subtree by subtree; what a summary was made of comes before it.

    `by` says who writes: what the same writer wrote by the same rule in a run that was stopped is not chosen again,
    unless `afresh`. With `upward` those above that would no longer be smaller than their sources come along.
    """
    rules = [summary_id is not None, subtree is not None, depth is not None, everything, extractive]
    if sum(rules) != 1:
        raise BadInput("choose summaries by exactly one rule: one, a subtree, a depth, all, or the extractive ones")
    with archive.reading():
        operations = Operations(archive)
        if summary_id is not None:
            ids = [summary_id]
        elif subtree is not None:
            ids = operations.below([subtree])
        else:
            ids = operations.all_of(conversation_id)
        found = archive.summaries.many(ids)
        for id_ in filter(None, (summary_id, subtree)):
            of_conversation(archive, id_, conversation_id)
        if depth is not None:
            found = [summary for summary in found if summary.depth == depth]
        if extractive:
            found = [summary for summary in found if summary.model == EXTRACTIVE_MODEL]
        rule = _rule(by, subtree, depth, everything=everything)
        before = written_before(archive, conversation_id, rule) if rule and not afresh else frozenset()
        rest = [summary for summary in found if summary.id not in before] or found
        ordered = subtree_by_subtree(by_time(rest))
        targets = tuple(target_of(archive, summary, summary.model) for summary in ordered)
        kept = len(found) - len(rest)
        return RewritePlan(conversation_id, targets, rule=rule, kept=kept, is_upward=upward)


def of_conversation(archive: Archive, summary_id: str, conversation_id: int) -> Summary:
    """A summary that must belong to a conversation; NotFound and BadInput say what is wrong."""
    found = archive.summaries.get(summary_id)
    if found.conversation_id != conversation_id:
        whose = f"it belongs to conversation {found.conversation_id}"
        raise BadInput(f"summary {summary_id!r} does not belong to conversation {conversation_id}: {whose}")
    return found


def target_of(archive: Archive, summary: Summary, reason: str) -> Target:
    """A summary as a plan lists it."""
    weight = Operations(archive).source_tokens(summary.id)
    return Target(summary.id, summary.depth, summary.tokens, weight, summary.model, reason, one_line(summary.content))


def source_of(archive: Archive, summariser: Summariser, summary_id: str, accepted: Mapping[str, Draft]) -> Source:
    """What a summary is made of, in words: without messages that were hidden since.

    Drafts that were accepted below it count already.
    """
    with archive.reading():
        summary = archive.summaries.get(summary_id)
        sources = [_drafted(source, accepted) for source in archive.summaries.many(summary.source_ids)]
        ids = Operations(archive).visible(summary.conversation_id, archive.summaries.message_ids(summary_id))
        messages = archive.messages.many([id_ for id_ in ids if isinstance(id_, int)])
        previous = _previous(archive, summary, accepted)
    if sources:
        sections = tuple(section_of(source) for source in sources)
        return Source(sections, summary.depth, sum(source.tokens for source in sources), previous)
    tags = summariser.settings.strip_injected_context_tags
    lines = tuple(line_of(message, tags) for message in messages)
    return Source(lines, 0, sum(message.message.tokens for message in messages), previous)


def draft(
    writer: Writer, work: RewritePlan, target: Target, accepted: Mapping[str, Draft], ask: Ask | None = None
) -> Draft:
    """Write one summary anew, without putting it in place; every outcome is a draft."""
    archive, summariser = writer.archive, writer.summariser
    try:
        now = archive.summaries.get(target.id)
    except NotFound:
        return Draft(target.id, target.depth, "", target.tokens, refusal=GONE)
    since = archive.summaries.moment().version
    source = source_of(archive, summariser, target.id, accepted)
    blank = Draft(target.id, target.depth, now.content, now.tokens, source_tokens=source.tokens or 0, version=since)
    if not source.parts:
        return replace(blank, refusal="it has no sources that could be read")
    try:
        written = summarise(source, ask, sizes=summariser.sizes, wording=summariser.wording, on_failure="raise")
    except (ModelError, GuardOpen, Stale) as error:
        is_last = isinstance(error, ModelAuth | ModelDenied | GuardOpen | Stale)
        return replace(blank, refusal=str(error), is_failed=True, is_last=is_last)
    if written is None:
        return replace(blank, refusal=NOT_SMALLER)
    return _judged(replace(_filled(blank, written), refusal=None), work.action, written.level)


def drafts(writer: Writer, work: RewritePlan, accept: Callable[[Draft], bool] | None = None) -> Generator[Draft]:
    """Drafts of all targets, bottom-up. `accept` decides, for each usable one, whether those above it build on it.

    One failure of a model costs one draft; credentials that are refused, and failures in a row, end it.
    """
    accepted: dict[str, Draft] = {}
    if not work.targets:
        return
    failures = 0
    waiting = [(target, "") for target in work.targets]
    with writer.alone(work.conversation_id) as prolong, writer.asking(work, prolong) as ask:
        while waiting:
            target, because = waiting.pop(0)
            if not prolong():
                yield Draft(target.id, target.depth, "", target.tokens, refusal=TAKEN, is_failed=True, is_last=True)
                return
            made = replace(draft(writer, work, target, accepted, ask), because=because)
            failures = failures + 1 if made.is_failed else 0
            made = replace(made, is_last=made.is_last or failures == _FAILURES)
            if made.refusal is None and (accept is None or accept(made)):
                accepted[made.summary_id] = made
                if work.is_upward:
                    _take_along(writer.archive, work, accepted, waiting, made, is_asked=ask is not None)
            yield made
            if made.is_last:
                return


def _take_along(
    archive: Archive,
    work: RewritePlan,
    accepted: Mapping[str, Draft],
    waiting: list[tuple[Target, str]],
    made: Draft,
    *,
    is_asked: bool,
) -> None:
    """Put those that a draft makes too large behind all that is below them and still waits.

    A repair without a model leaves alone what a model wrote.
    """
    known = {target.id for target in work.targets} | {target.id for target, _ in waiting}
    for user in outgrown(archive, made.summary_id, accepted):
        is_ours = user.conversation_id == work.conversation_id and user.id not in known
        if is_ours and (is_asked or work.action == "rewrite" or user.model == EXTRACTIVE_MODEL):
            below = set(Operations(archive).below([user.id]))
            place = max((n for n, (target, _) in enumerate(waiting, 1) if target.id in below), default=0)
            because = f"with {made.summary_id}, which it was made of, it would no longer be smaller than its sources"
            waiting.insert(place, (target_of(archive, user, user.model), because))


def apply(
    archive: Archive, work: RewritePlan, made: Sequence[Draft], now: datetime, backup: Backup, *, left: int = 0
) -> Operated:
    """Put drafts in place, all or nothing, with right dates, counts, models and index.

    `left` says how many another run of this rule has to go on with. Raises `Stale` when a summary was changed since
    its draft was made, and BadInput for drafts that do not go together.
    """
    if not made:
        raise BadInput("there is no draft to put in place")
    copy = backed_up(backup, "scoped-doctor-repair" if work.action == "repair" else work.action)
    with archive.writing():
        operations = Operations(archive)
        former = [operations.state(one.summary_id) for one in made]
        if any(was.row["content"] != one.before for was, one in zip(former, made, strict=True)):
            raise Stale("a summary changed while its new text was written; plan again")
        _, refused = settled(archive, made)
        if refused:
            raise BadInput(f"summary {refused[0].summary_id!r}: {refused[0].refusal}")
        before = token_sum(archive.context.items(work.conversation_id))
        for one in made:
            operations.write(one.summary_id, one.text, one.tokens, one.model, one.file_ids)
        for one in sorted(made, key=lambda one: one.depth):
            archive.summaries.clear_stale([one.summary_id], one.version)
        operations.recount([one.summary_id for one in made])
        after = token_sum(archive.context.items(work.conversation_id))
        detail = json.dumps({"rule": work.rule, "left": left, "kept": work.kept}) if work.rule else None
        change = Change(work.action, work.action, None, (), (), None, before, after, detail)
        log_id = operations.log(work.conversation_id, change, now, former)
    ids = tuple(one.summary_id for one in made)
    return Operated(work.action, work.conversation_id, log_id, before, after, ids, copy)


def _rule(by: str, subtree: str | None, depth: int | None, *, everything: bool) -> str:
    """The name of a run whose choice does not show by itself what was written already."""
    if not by or not (everything or subtree is not None or depth is not None):
        return ""
    which = "all" if everything else f"depth {depth}" if depth is not None else f"subtree {subtree}"
    return f"{which} by {by}"


def _drafted(summary: Summary, accepted: Mapping[str, Draft]) -> Summary:
    new = accepted.get(summary.id)
    return summary if new is None else replace(summary, content=new.text, tokens=new.tokens, file_ids=new.file_ids)


def _previous(archive: Archive, summary: Summary, accepted: Mapping[str, Draft]) -> str:
    """What came just before: one leaf before a leaf, two summaries before one of depth 1, nothing for deeper ones."""
    count = {0: 1, 1: 2}.get(summary.depth, 0)
    if not count or summary.earliest_at is None:
        return ""
    before = archive.summaries.many(Operations(archive).before(summary.id, count))
    return "\n\n".join(_drafted(other, accepted).content for other in before)


def _filled(blank: Draft, written: Written) -> Draft:
    return replace(
        blank,
        text=written.text,
        tokens=written.tokens,
        model=written.model,
        file_ids=written.file_ids,
        calls=written.calls,
    )


def _judged(made: Draft, action: Action, level: str) -> Draft:
    """The draft with the reason why it is of no use, if there is one."""
    if level == "fallback" or (action == "repair" and marker_of(made.text, made.model) is not None):
        return replace(made, refusal=STILL_BROKEN)
    if made.text == made.before:
        return replace(made, refusal=UNCHANGED)
    return replace(made, refusal=None if made.tokens < made.source_tokens else NOT_SMALLER)
