"""Rewrites summaries: chooses them, drafts each bottom-up with its diff, and stores the drafts that are consistent; and
rewrites stale ones, whose sources have changed: extracts at once, those of a model before the next compaction.

A draft counts only when it is smaller than its sources and no summary made of it stops being smaller than its own; an
upward plan rewrites those as well. Models are called outside of any transaction. The spend limit does not apply to
calls that a user asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.compaction import source_text
from lossless.compaction.source_text import SourceSummary, input_text
from lossless.compaction.summarise import AskForSummary, SummaryPrompt, SummarySource, WrittenSummary
from lossless.compaction.summariser import Summariser, lease_length
from lossless.errors import BadInput, GuardOpen, ModelAuth, ModelDenied, ModelError, NotFound, Stale
from lossless.maintenance.surgery.common import BackupMaker, OperationReport, applying, text_diff
from lossless.model.context import EXTRACTIVE_MODEL, Summary
from lossless.model.records import ContextChange
from lossless.model.tokens import cut_to_tokens, estimate_tokens, one_line
from lossless.store.maintenance.surgery import FormerSummary, SurgeryWrites

if TYPE_CHECKING:
    from lossless.compaction.compactor import Compactor
    from lossless.llm.completion import Complete, Completion, Prompt
    from lossless.maintenance.engine_parts import EngineParts
    from lossless.model.conversations import SessionRef
    from lossless.store.archive import Archive


def split_compatible(archive: Archive, made: Sequence[SummaryDraft]) -> tuple[list[SummaryDraft], list[SummaryDraft]]:
    """Drafts that may be stored together, and others with a refusal: a summary above them would not shrink."""
    good = {draft.summary_id: draft for draft in made if draft.refusal is None}
    refused = [draft for draft in made if draft.refusal is not None]
    reasons = {draft.summary_id: str(draft.refusal) for draft in refused}
    users = {user for id_ in good for user in archive.summaries.used_in(id_)} | set(good)
    known = {summary.id: summary for summary in archive.summaries.many(sorted(users))}
    below = {id_ for summary in known.values() for id_ in summary.source_ids}
    sizes = {summary.id: summary.tokens for summary in archive.summaries.many(sorted(below))}
    while (found := _find_conflict(known, sizes, good)) is not None:
        guilty, user = found
        refusal = f"{user}, which was made of it, would no longer be smaller than its sources"
        if guilty == user:
            refusal = "with the new texts below it, it would be no smaller than its sources"
        elif user in reasons:
            refusal += f", and is not rewritten: {reasons[user]}; try again, or with another --model"
        else:
            refusal += f"; `lcm rewrite --summary {guilty} --upward --apply` rewrites both"
        refused.append(replace(good.pop(guilty), refusal=refusal, breaks=user))
        reasons[guilty] = refusal
    return [draft for draft in made if draft.summary_id in good], refused


def _find_conflict(
    known: Mapping[str, Summary], sizes: Mapping[str, int], good: Mapping[str, SummaryDraft]
) -> tuple[str, str] | None:
    """A draft to be refused, and the summary that would no longer be smaller than its sources."""

    def size(id_: str, otherwise: int) -> int:
        return good[id_].tokens if id_ in good else otherwise

    for summary in known.values():
        if not summary.source_ids:
            continue
        before = sum(sizes[id_] for id_ in summary.source_ids)
        weight = sum(size(id_, sizes[id_]) for id_ in summary.source_ids)
        was_small, own = summary.tokens < before, size(summary.id, summary.tokens)
        if own < weight or (summary.id not in good and not was_small):
            continue
        if summary.id in good and own >= before:
            return summary.id, summary.id
        shrunk = [id_ for id_ in summary.source_ids if id_ in good]  # one of them is smaller now
        return min(shrunk, key=lambda id_: good[id_].tokens - sizes[id_]), summary.id
    return None


BrokenMarker: TypeAlias = Literal["old", "fallback", "new", "emergency", "empty"]
EMERGENCY_MODEL = "emergency-fallback"
EMERGENCY_TEXT = "[Truncated for context management]"
_NEW_WITHIN = 40
_FALLBACK_WITHIN = 80


def find_marker(content: str, model: str) -> BrokenMarker | None:
    """How a summary is broken; None when it is valid."""
    text = content.strip()
    if not text:
        return "empty"
    if text.startswith(source_text.FALLBACK_MARKER):
        return "old"
    if source_text.DIRECTIVE_MARKER in text:
        return "fallback"
    if source_text.TRUNCATED_PREFIX in text[-_NEW_WITHIN:]:
        return "new"
    if source_text.FALLBACK_MARKER in text[-_FALLBACK_WITHIN:]:
        return "fallback"
    if model == EMERGENCY_MODEL or (model == "unknown" and EMERGENCY_TEXT in text):
        return "emergency"
    return None


def subtree_by_subtree(summaries: Sequence[Summary]) -> list[Summary]:
    """The same summaries, each after its sources and as soon as these are complete, else in their order."""
    known = {summary.id: summary for summary in summaries}
    used = {id_ for summary in summaries for id_ in summary.source_ids}
    ordered: list[Summary] = []
    seen: set[str] = set()

    def visit(summary: Summary) -> None:
        if summary.id not in seen:
            seen.add(summary.id)
            for id_ in summary.source_ids:
                if id_ in known:
                    visit(known[id_])
            ordered.append(summary)

    for summary in (*(one for one in summaries if one.id not in used), *summaries):
        visit(summary)
    return ordered


def sort_by_time(summaries: Iterable[Summary]) -> list[Summary]:
    """Oldest first; those without a time come last."""
    return sorted(summaries, key=lambda one: (one.earliest_at is None, one.earliest_at and one.earliest_at.timestamp()))


def already_written(archive: Archive, conversation_id: int, rule: str) -> frozenset[str]:
    """What an interrupted run of a rule had a model write so far, including its continuations; empty when it completed.

    Extracted texts cost nothing, and may only be placeholders for a model's.
    """
    operations = SurgeryWrites(archive)
    entries = operations.entries(conversation_id)
    undone = {entry.detail.get("undoes") for entry in entries if entry.action == "undo"}
    found: set[str] = set()
    for entry in reversed(entries):
        if entry.action != "rewrite" or entry.id in undone or entry.detail.get("rule") != rule:
            continue
        if not entry.detail.get("left"):
            break
        found.update(was.id for was in operations.former(entry.id))
        if not entry.detail.get("kept"):
            break
    now = archive.summaries.many(sorted(found))
    return frozenset(summary.id for summary in now if summary.model != EXTRACTIVE_MODEL)


RewriteAction: TypeAlias = Literal["rewrite", "repair"]
#: The maximum number of calls per summary: one, a shorter one if needed, and each again when it is cut off.
_CALLS_EACH = 4
#: After so many failures in a row a model counts as down.
_FAILURES = 3
NOT_SMALLER = "no text was produced that is smaller than its sources"
STILL_BROKEN = "the new text is a fallback, too"
UNCHANGED = "the new text is the old one"
GONE = "it is no longer in the archive"
TAKEN = "another worker has taken this conversation over; try again when it is done"


@dataclass(frozen=True, slots=True)
class RewriteTarget:
    """A summary to be rewritten, and why."""

    id: str
    depth: int
    tokens: int
    source_tokens: int
    model: str
    reason: str
    preview: str

    def __str__(self) -> str:
        size = f"{self.tokens} of {self.source_tokens} tokens"
        return f"{self.id} depth {self.depth}, {size}, {self.reason}: {self.preview}"


@dataclass(frozen=True, slots=True)
class RewritePlan:
    """Which summaries would be rewritten, in this order; no model is called and nothing is written yet."""

    conversation_id: int
    targets: tuple[RewriteTarget, ...]
    action: RewriteAction = "rewrite"
    #: The name under which an incomplete run is recorded; empty when it is not.
    rule: str = ""
    #: How many an interrupted run has already written.
    kept: int = 0
    #: Whether summaries above that would no longer be smaller than their sources are rewritten as well.
    is_upward: bool = False

    @property
    def input_tokens(self) -> int:
        """The tokens that a model would read."""
        return sum(target.source_tokens for target in self.targets)

    @property
    def text(self) -> str:
        head = f"conversation {self.conversation_id}: {len(self.targets)} summaries, {self.input_tokens} tokens to read"
        more = f"; {self.kept} more were written by a run that was stopped" if self.kept else ""
        return "\n".join([head + more, *(f"~ {target}" for target in self.targets)])


@dataclass(frozen=True, slots=True)
class SummaryDraft:
    """A new text for a summary; `refusal` says why it must not replace the old one."""

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
    #: The model gave no answer; a retry may help.
    is_failed: bool = False
    #: The model could not be called: further calls would fail, too.
    is_last: bool = False
    #: Why it was written although it was not chosen; empty when it was.
    because: str = ""
    #: The summary made of it that would no longer be smaller than its sources.
    breaks: str | None = None
    #: The newest version when its sources were read.
    version: int = 0

    @property
    def diff(self) -> str:
        return text_diff(self.before, self.text, self.summary_id)


@contextmanager
def asking(writer: Compactor, work: RewritePlan, is_wanted: Callable[[], bool]) -> Iterator[AskForSummary | None]:
    """How a model is called for a plan, beyond the conversation's spend limit; None when there is none."""
    if not writer.summariser.has_model:
        yield None
        return
    gate = writer.summariser.gate(writer.archive, work.conversation_id, writer.clock)
    ids = [target.id for target in work.targets]
    count = len(SurgeryWrites(writer.archive).above(ids)) if work.is_upward else len(ids)
    calls = count * len(writer.summariser.candidates()) * _CALLS_EACH
    limits = replace(gate.limits, max_calls=max(gate.limits.max_calls, calls))
    gate = replace(gate, is_wanted=is_wanted, limits=limits)
    gate.reset()
    try:
        yield writer.summariser.ask(gate)
    finally:
        gate.reset()


@contextmanager
def alone(writer: Compactor, conversation_id: int) -> Iterator[Callable[[], bool]]:
    """Hold the summariser lease of a conversation; yields a function to renew it. `Stale` when another has it."""
    with writer.summariser.lease(writer.archive, conversation_id, writer.clock) as prolong:
        if not prolong():
            seconds = lease_length(writer.summariser.settings.summary_timeout_ms).total_seconds()
            when = f"try again when it is done (if it died, in {seconds:.0f} seconds at most)"
            raise Stale(f"another worker is summarising conversation {conversation_id}; {when}")
        yield prolong


def plan_rewrite(
    parts: EngineParts,
    session: SessionRef | int,
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
    """Choose summaries by exactly one rule, subtree by subtree; sources come before what was made of them.

    `by` is the writer: what the same writer wrote by the same rule in an interrupted run is not chosen again, unless
    `afresh`. With `upward`, summaries above that would no longer be smaller than their sources are included.
    """
    archive, conversation_id = parts.archive, parts.conversation_id(session)
    if sum((summary_id is not None, subtree is not None, depth is not None, everything, extractive)) != 1:
        raise BadInput("choose summaries by exactly one rule: one, a subtree, a depth, all, or the extractive ones")
    with archive.reading():
        operations = SurgeryWrites(archive)
        ids = operations.all_of(conversation_id) if subtree is None else operations.below([subtree])
        found = archive.summaries.many(ids if summary_id is None else [summary_id])
        for id_ in filter(None, (summary_id, subtree)):
            check_summary(archive, id_, conversation_id)
        if depth is not None:
            found = [summary for summary in found if summary.depth == depth]
        if extractive:
            found = [summary for summary in found if summary.model == EXTRACTIVE_MODEL]
        rule = ""  # the name of a run whose choice does not show what was already written
        if by and (everything or subtree is not None or depth is not None):
            which = "all" if everything else f"depth {depth}" if depth is not None else f"subtree {subtree}"
            rule = f"{which} by {by}"
        before = already_written(archive, conversation_id, rule) if rule and not afresh else frozenset()
        rest = [summary for summary in found if summary.id not in before] or found
        ordered = subtree_by_subtree(sort_by_time(rest))
        targets = tuple(rewrite_target(archive, summary, summary.model) for summary in ordered)
        kept = len(found) - len(rest)
        return RewritePlan(conversation_id, targets, rule=rule, kept=kept, is_upward=upward)


def check_summary(archive: Archive, summary_id: str, conversation_id: int) -> None:
    """Raises NotFound or BadInput when a conversation does not have this summary."""
    found = archive.summaries.get(summary_id)
    if found.conversation_id != conversation_id:
        what = f"summary {summary_id!r} does not belong to conversation {conversation_id}"
        raise BadInput(f"{what}: it belongs to conversation {found.conversation_id}")


def rewrite_target(archive: Archive, summary: Summary, reason: str) -> RewriteTarget:
    weight = SurgeryWrites(archive).source_tokens(summary.id)
    words = one_line(summary.content)
    return RewriteTarget(summary.id, summary.depth, summary.tokens, weight, summary.model, reason, words)


def summary_source(
    archive: Archive, summariser: Summariser, summary_id: str, accepted: Mapping[str, SummaryDraft]
) -> SummarySource:
    """The source text of a summary, with accepted drafts below it, and without messages hidden since."""
    with archive.reading():
        summary = archive.summaries.get(summary_id)
        sources = [_with_draft(source, accepted) for source in archive.summaries.many(summary.source_ids)]
        ids = SurgeryWrites(archive).visible(summary.conversation_id, archive.summaries.message_ids(summary_id))
        messages = archive.messages.many([id_ for id_ in ids if isinstance(id_, int)])
        # one leaf before a leaf, two before one of depth 1, none for deeper ones
        count = 0 if summary.earliest_at is None else {0: 1, 1: 2}.get(summary.depth, 0)
        before = archive.summaries.many(SurgeryWrites(archive).before(summary.id, count)) if count else ()
        previous = "\n\n".join(_with_draft(other, accepted).content for other in before)
    if sources:
        sections = tuple(source_text.source_summary(source) for source in sources)
        return SummarySource(sections, summary.depth, sum(source.tokens for source in sources), previous)
    tags = summariser.settings.strip_injected_context_tags
    lines = tuple(source_text.source_message(message, tags) for message in messages)
    return SummarySource(lines, 0, sum(message.message.tokens for message in messages), previous)


def draft_summary(
    writer: Compactor,
    work: RewritePlan,
    target: RewriteTarget,
    accepted: Mapping[str, SummaryDraft],
    ask: AskForSummary | None = None,
) -> SummaryDraft:
    """Rewrite one summary, without storing it; every outcome is a draft."""
    archive, summariser = writer.archive, writer.summariser
    try:
        now = archive.summaries.get(target.id)
    except NotFound:
        return SummaryDraft(target.id, target.depth, "", target.tokens, refusal=GONE)
    since, _ = archive.summaries.moment()
    source = summary_source(archive, summariser, target.id, accepted)
    blank = SummaryDraft(
        target.id, target.depth, now.content, now.tokens, source_tokens=source.tokens or 0, version=since
    )
    if not source.parts:
        return replace(blank, refusal="it has no sources that could be read")
    try:
        written = summariser.write(source, ask, "raise")
    except (ModelError, GuardOpen, Stale) as error:
        is_last = isinstance(error, ModelAuth | ModelDenied | GuardOpen | Stale)
        return replace(blank, refusal=str(error), is_failed=True, is_last=is_last)
    if written is None:
        return replace(blank, refusal=NOT_SMALLER)
    refusal = None if written.tokens < blank.source_tokens else NOT_SMALLER
    if written.level == "fallback" or (work.action == "repair" and find_marker(written.text, written.model)):
        refusal = STILL_BROKEN
    elif written.text == now.content:
        refusal = UNCHANGED
    made = replace(blank, text=written.text, tokens=written.tokens, model=written.model, file_ids=written.file_ids)
    return replace(made, calls=written.calls, refusal=refusal)


def draft_all(
    writer: Compactor, work: RewritePlan, accept: Callable[[SummaryDraft], bool] | None = None
) -> Generator[SummaryDraft]:
    """Drafts of all targets, bottom-up. `accept` decides, for each usable one, whether those above it build on it.

    One failure of a model costs one draft; refused credentials, and failures in a row, end the run.
    """
    accepted: dict[str, SummaryDraft] = {}
    if not work.targets:
        return
    archive, failures = writer.archive, 0
    waiting = [(target, "") for target in work.targets]

    def queue_outgrown(made: SummaryDraft, *, is_asked: bool) -> None:
        """Queue summaries above a draft that would outgrow their sources; extracts do not replace a model's."""
        known = {target.id for target in work.targets} | {target.id for target, _ in waiting} | accepted.keys()
        because = f"with {made.summary_id}, which it was made of, it would no longer be smaller than its sources"
        for user in archive.summaries.many(archive.summaries.used_in(made.summary_id)):
            sources = archive.summaries.many(user.source_ids)
            weight = sum(accepted[one.id].tokens if one.id in accepted else one.tokens for one in sources)
            is_outgrown = weight <= user.tokens < sum(source.tokens for source in sources)
            is_ours = user.conversation_id == work.conversation_id and user.id not in known
            if is_outgrown and is_ours and (is_asked or work.action == "rewrite" or user.model == EXTRACTIVE_MODEL):
                below = set(SurgeryWrites(archive).below([user.id]))
                place = max((n for n, (target, _) in enumerate(waiting, 1) if target.id in below), default=0)
                waiting.insert(place, (rewrite_target(archive, user, user.model), because))

    with alone(writer, work.conversation_id) as prolong, asking(writer, work, prolong) as ask:
        while waiting:
            target, because = waiting.pop(0)
            if not prolong():
                blank = SummaryDraft(target.id, target.depth, "", target.tokens)
                yield replace(blank, refusal=TAKEN, is_failed=True, is_last=True)
                return
            made = replace(draft_summary(writer, work, target, accepted, ask), because=because)
            failures = failures + 1 if made.is_failed else 0
            made = replace(made, is_last=made.is_last or failures == _FAILURES)
            if made.refusal is None and (accept is None or accept(made)):
                accepted[made.summary_id] = made
                if work.is_upward:
                    queue_outgrown(made, is_asked=ask is not None)
            yield made
            if made.is_last:
                return


def place_drafts(parts: EngineParts, made: DraftedPlan, backup: BackupMaker = None) -> OperationReport | None:
    """Store the usable drafts, after a backup, in one transaction; None when there are none.

    Raises `Stale` when a summary was changed since its draft was made, and BadInput for inconsistent drafts.
    """
    archive, work, drafts = parts.archive, made.work, made.usable
    if not drafts:
        return None
    with applying(parts, "scoped-doctor-repair" if work.action == "repair" else work.action, backup) as step:
        operations = SurgeryWrites(archive)
        former = [operations.state(one.summary_id) for one in drafts]
        if any(was.row["content"] != one.before for was, one in zip(former, drafts, strict=True)):
            raise Stale("a summary changed while its new text was written; plan again")
        _, refused = split_compatible(archive, drafts)
        if refused:
            raise BadInput(f"summary {refused[0].summary_id!r}: {refused[0].refusal}")
        before = archive.context.tokens(work.conversation_id)
        for one in drafts:
            operations.write(one.summary_id, one.text, one.tokens, one.model, one.file_ids)
        for one in sorted(drafts, key=lambda one: one.depth):
            archive.summaries.clear_stale([one.summary_id], one.version)
        operations.recount([one.summary_id for one in drafts])
        detail = {"rule": work.rule, "left": made.left, "kept": work.kept} if work.rule else None
        ids = tuple(one.summary_id for one in drafts)
        change = ContextChange(work.action, work.action)
        return step.log(work.conversation_id, change, before, summary_ids=ids, former=former, detail=detail)


def _with_draft(summary: Summary, accepted: Mapping[str, SummaryDraft]) -> Summary:
    new = accepted.get(summary.id)
    return summary if new is None else replace(summary, content=new.text, tokens=new.tokens, file_ids=new.file_ids)


INTERRUPTED = "interrupted"
CHANGED = "it was changed while its new text was written"


@dataclass(frozen=True, slots=True)
class DraftedPlan:
    """The drafts of a plan: those that may be stored together, and the others, each with its reason."""

    work: RewritePlan
    usable: tuple[SummaryDraft, ...]
    refused: tuple[SummaryDraft, ...]
    #: How many summaries of the plan were reached.
    reached: int = 0
    #: How many summaries another run should try: not reached, failed, or held back by one that was not reached.
    left: int = 0
    #: Why it ended early: `INTERRUPTED`, or the model's error.
    stop: str | None = None

    @property
    def drafts(self) -> list[SummaryDraft]:
        return [*self.usable, *self.refused]


def write_drafts(
    writer: Compactor,
    plan: RewritePlan,
    accept: Callable[[SummaryDraft], bool] | None = None,
    on_draft: Callable[[SummaryDraft], None] | None = None,
) -> DraftedPlan:
    """Write a plan's drafts, without storing them; `on_draft` is called with each draft.

    Drafts that `accept` rejects are not included. An interrupt, which `accept` and `on_draft` may raise, and a model
    that is down end it: the consistent part is usable.
    """
    made: list[SummaryDraft] = []
    turned_down: set[str] = set()
    stop = None

    def decide(draft: SummaryDraft) -> bool:
        is_wanted = accept is None or accept(draft)
        turned_down.update(() if is_wanted else (draft.summary_id,))
        return is_wanted

    try:
        for one in draft_all(writer, plan, decide):
            made.append(one)
            if on_draft:
                on_draft(one)
            stop = one.refusal if one.is_last else None
    except KeyboardInterrupt:
        stop = INTERRUPTED
    wanted = [one for one in made if one.summary_id not in turned_down]
    now = {one.id: one.content for one in writer.archive.summaries.many([one.summary_id for one in wanted])}
    wanted = [
        replace(one, refusal=CHANGED) if one.refusal is None and now.get(one.summary_id) != one.before else one
        for one in wanted
    ]
    good, refused = split_compatible(writer.archive, wanted)
    missing = {target.id for target in plan.targets} - {one.summary_id for one in made if not one.is_failed}
    if over := _bridges(writer, plan, refused, good, missing):
        failed = [one for one in wanted if one.is_failed]
        good, rest = split_compatible(writer.archive, [*(one for one in wanted if not one.is_failed), *over])
        refused = [*(one for one in rest if one.summary_id not in missing), *failed]
    held = sum(one.breaks is not None for one in refused) if missing or stop else 0
    reached = sum(not one.because for one in made)
    return DraftedPlan(plan, tuple(good), tuple(refused), reached, len(missing) + held, stop)


def _bridges(
    writer: Compactor, work: RewritePlan, refused: list[SummaryDraft], good: list[SummaryDraft], missing: set[str]
) -> list[SummaryDraft]:
    """Texts until another run reaches what is above: extracts are made again from the new texts, no others."""
    held = [replace(one, refusal=None, breaks=None) for one in refused if one.breaks is not None]
    accepted = {one.summary_id: one for one in (*good, *held)}
    below = {one.summary_id for one in held}
    over: list[SummaryDraft] = []
    for target in work.targets if held and work.action == "rewrite" else ():
        if target.id not in missing or target.model != EXTRACTIVE_MODEL:
            continue
        if all(below.isdisjoint(one.source_ids) for one in writer.archive.summaries.many([target.id])):
            continue
        one = draft_summary(writer, work, target, accepted)
        if one.refusal is None:
            accepted[target.id] = one
            below.add(target.id)
            over.append(one)
    return over


def preview_prompt(summariser: Summariser, source: SummarySource) -> SummaryPrompt:
    """The first prompt for a summary of a source, as a model would get it."""
    shown: list[SummaryPrompt] = []

    def ask(prompt: SummaryPrompt) -> Completion:
        shown.append(prompt)
        raise ModelDenied("it is only shown")

    with suppress(ModelDenied):
        summariser.write(source, ask, "raise")
    if not shown:
        raise BadInput("it has no sources that could be read")
    return shown[0]


_MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d \S+"
_MESSAGE = re.compile(rf"^\[{_MOMENT} \| ", re.MULTILINE)
_SUMMARY = re.compile(rf"^\[{_MOMENT}(?: - {_MOMENT})?\]$", re.MULTILINE)


def without_times(text: str) -> str:
    """The text of a prompt without times in the headers of messages and summaries."""
    return _SUMMARY.sub("[summary]", _MESSAGE.sub("[", text))


def complete_without_times(complete: Complete) -> Complete:
    """The same model, without times in its prompts."""

    def ask(prompt: Prompt, /) -> Completion:
        return complete(replace(prompt, user=without_times(prompt.user)))

    return ask


#: How many summaries are extracted again in one call; others keep their corrections until the next one.
MAX_AT_ONCE = 16
#: The text of a summary whose sources have all left the conversation.
NOTHING_LEFT = "[Nothing that this told of is part of the conversation any more.]"


def extract_stale(
    archive: Archive, conversation_id: int, summariser: Summariser, now: datetime, *, everything: bool = False
) -> tuple[str, ...]:
    """Extract stale summaries again whose sources are up to date, or `everything`; returns their ids."""

    def extracted() -> Iterator[tuple[Summary, WrittenSummary]]:
        found = _stale(archive, conversation_id)
        stale = {summary.id for summary in found}
        for summary in found:
            if (everything or summary.model == EXTRACTIVE_MODEL) and stale.isdisjoint(summary.source_ids):
                source = summary_source(archive, summariser, summary.id, {})
                yield summary, _smaller(source, summariser.write(source))
                stale.discard(summary.id)

    with archive.writing():
        return _replace_texts(archive, conversation_id, now, islice(extracted(), MAX_AT_ONCE))


def write_stale(archive: Archive, conversation_id: int, summariser: Summariser, clock: Callable[[], datetime]) -> None:
    """Rewrite all stale summaries, by a model where one wrote them; when it fails, the rest stays stale."""
    tried = set[str]()
    with summariser.lease(archive, conversation_id, clock) as prolong:
        gate = replace(summariser.gate(archive, conversation_id, clock), is_wanted=prolong)
        ask = summariser.ask(gate) if summariser.has_model else None
        while prolong():
            extract_stale(archive, conversation_id, summariser, clock(), everything=ask is None)
            found = _stale(archive, conversation_id)
            stale = {one.id for one in found}
            summary = next((one for one in found if one.id not in tried and stale.isdisjoint(one.source_ids)), None)
            if summary is None:
                break
            if ask is None or summary.model == EXTRACTIVE_MODEL:
                continue  # there were more than one call extracts
            tried.add(summary.id)
            source = summary_source(archive, summariser, summary.id, {})
            try:
                written = summariser.write(source, ask, "raise")
            except (ModelError, GuardOpen, Stale):
                break
            with archive.writing():
                is_same = archive.summaries.many([summary.id]) == [summary]
                if prolong() and is_same and summary_source(archive, summariser, summary.id, {}) == source:
                    _replace_texts(archive, conversation_id, clock(), [(summary, _smaller(source, written))])


def _stale(archive: Archive, conversation_id: int) -> list[Summary]:
    return archive.summaries.many(list(archive.summaries.stale(conversation_id)))


def _replace_texts(
    archive: Archive, conversation_id: int, now: datetime, texts: Iterable[tuple[Summary, WrittenSummary]]
) -> tuple[str, ...]:
    """Replace texts inside a transaction, each before the next is asked for, and log that; returns their ids."""
    operations, before = SurgeryWrites(archive), archive.context.tokens(conversation_id)
    former: list[FormerSummary] = []
    done: list[str] = []
    for summary, written in texts:
        if written.text != summary.content:
            former.append(operations.state(summary.id))
            operations.write(summary.id, written.text, written.tokens, written.model, written.file_ids)
        archive.summaries.clear_stale([summary.id])
        done.append(summary.id)
    if former:
        operations.recount([was.id for was in former])
        after = archive.context.tokens(conversation_id)
        change = ContextChange("renew", "sync", "revised", (), (), None, before, after)
        operations.log(conversation_id, change, now, former)
    return tuple(done)


def _smaller(source: SummarySource, written: WrittenSummary | None) -> WrittenSummary:
    """A new text, or, where none is smaller than its sources, as many of their words as fit."""
    if written is not None:
        return written
    words = "\n".join(
        part.text
        if part.text or isinstance(part, SourceSummary)
        else " ".join((*map(input_text, part.inputs), *(result.text for result in part.outputs)))
        for part in source.parts
        if part.is_meaningful
    )
    text = cut_to_tokens(words, max(1, (source.tokens or 0) - 1)).strip() or NOTHING_LEFT
    return WrittenSummary(text, "extractive", estimate_tokens(text), EXTRACTIVE_MODEL)
