"""Carrying a plan of new summaries out: what is written and goes together is kept, however the run ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lossless.errors import NotFound
from lossless.model.summaries import EXTRACTIVE_MODEL
from lossless.revising import rewriting
from lossless.revising.fit import settled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lossless.revising.rewriting import Draft, RewritePlan, Writer
    from lossless.store.archive import Archive
    from lossless.surgery.outcome import Backup, Operated

INTERRUPTED = "interrupted"
CHANGED = "it was changed while its new text was written"


class Stopped(Exception):
    """A person wants no more drafts: as an interrupt, where there is no signal to send one."""


@dataclass(frozen=True, slots=True)
class Drafted:
    """The drafts of a plan: those that may be put in place together, and those that must not be, each with why."""

    work: RewritePlan
    usable: tuple[Draft, ...]
    refused: tuple[Draft, ...]
    #: How many summaries of the plan it came to.
    reached: int = 0
    #: How many summaries another run should try: not reached, failed, or held back by one that was not reached.
    left: int = 0
    #: Why it ended before its end: `INTERRUPTED`, or what the model said.
    stop: str | None = None

    @property
    def drafts(self) -> list[Draft]:
        return [*self.usable, *self.refused]


def write(
    writer: Writer,
    work: RewritePlan,
    accept: Callable[[Draft], bool] | None = None,
    heard: Callable[[Draft], None] | None = None,
) -> Drafted:
    """Write a plan's summaries anew, without putting them in place. `heard` is told of each draft.

    What `accept` turns down is not among the drafts. An interrupt, `Stopped` out of `accept` or `heard`, and a model
    that is down end it: what goes together by then is usable.
    """
    made: list[Draft] = []
    turned_down: set[str] = set()

    def decide(draft: Draft) -> bool:
        is_wanted = accept is None or accept(draft)
        turned_down.update(() if is_wanted else (draft.summary_id,))
        return is_wanted

    stop = None
    try:
        for one in rewriting.drafts(writer, work, decide):
            made.append(one)
            if heard:
                heard(one)
            stop = one.refusal if one.is_last else None
    except (KeyboardInterrupt, Stopped):
        stop = INTERRUPTED
    wanted = [_as_it_is(writer.archive, one) for one in made if one.summary_id not in turned_down]
    good, refused = settled(writer.archive, wanted)
    missing = {target.id for target in work.targets} - {one.summary_id for one in made if not one.is_failed}
    if over := _bridges(writer, work, refused, good, missing):
        failed = [one for one in wanted if one.is_failed]
        good, rest = settled(writer.archive, [*(one for one in wanted if not one.is_failed), *over])
        refused = [*(one for one in rest if one.summary_id not in missing), *failed]
    held = sum(one.breaks is not None for one in refused) if missing or stop else 0
    reached = sum(not one.because for one in made)
    return Drafted(work, tuple(good), tuple(refused), reached, len(missing) + held, stop)


def place(writer: Writer, made: Drafted, backup: Backup) -> Operated | None:
    """Put the usable drafts in place, all or nothing; None when there are none."""
    if not made.usable:
        return None
    return rewriting.apply(writer.archive, made.work, made.usable, writer.clock(), backup, left=made.left)


def _bridges(
    writer: Writer, work: RewritePlan, refused: Sequence[Draft], good: Sequence[Draft], missing: set[str]
) -> list[Draft]:
    """Texts that hold new ones in place until another run comes to those above them.

    An extracted summary that is missing is extracted again, from the new texts; a model's text is left alone.
    """
    held = [replace(one, refusal=None, breaks=None) for one in refused if one.breaks is not None]
    accepted = {one.summary_id: one for one in (*good, *held)}
    below = {one.summary_id for one in held}
    over: list[Draft] = []
    for target in work.targets if held and work.action == "rewrite" else ():
        if target.id not in missing or target.model != EXTRACTIVE_MODEL:
            continue
        if all(below.isdisjoint(one.source_ids) for one in writer.archive.summaries.many([target.id])):
            continue
        one = rewriting.draft(writer, work, target, accepted)
        if one.refusal is None:
            accepted[target.id] = one
            below.add(target.id)
            over.append(one)
    return over


def _as_it_is(archive: Archive, made: Draft) -> Draft:
    """The draft, refused when its summary is no longer what it was."""
    if made.refusal is not None:
        return made
    try:
        is_same = archive.summaries.get(made.summary_id).content == made.before
    except NotFound:
        is_same = False
    return made if is_same else replace(made, refusal=CHANGED)
