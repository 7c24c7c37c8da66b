"""The history budget of a conversation: computed from all that is known, kept as a row, taught by providers' counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lossless.llm.calibration import Calibration, factor, observe
from lossless.llm.calibration import refused as was_too_long
from lossless.model.history import HistoryBudget, Kept, counted_frame, held

if TYPE_CHECKING:
    from datetime import datetime

    from lossless.compaction.loop import Situation
    from lossless.compaction.policy import CompactionPolicy
    from lossless.store.archive import Archive

#: What a provider counts beyond what we count takes at most this share of a window, whatever one report says.
_MOST_FRAME = 0.75
#: A report of more than so many windows is about something else.
_MOST_WINDOWS = 2
#: A reply is given what the longest has taken, and so much more; before there was one, one in so many parts of the
#: window; and never more than another.
_REPLY_SPARE, _FIRST_REPLY, _MOST_REPLY = 1.25, 8, 4


def calibration(archive: Archive, model: str) -> Calibration:
    """What is known of a model's tokenizer."""
    known = archive.guards.factor(model)
    return Calibration(model) if known is None else Calibration(model, *known)


def fresh(archive: Archive, situation: Situation, policy: CompactionPolicy, kept: Kept | None) -> HistoryBudget:
    """The budget by all that is known now; what the situation does not tell is as it was."""
    window, model = policy.capped(situation.budget), situation.model
    known = HistoryBudget(window) if kept is None or kept.budget.window != window else kept.budget
    spare = situation.budget - window  # what a setting leaves of the window has room for some of the rest
    return HistoryBudget(
        window,
        known.beside if situation.beside is None else max(0, situation.beside - spare),
        0 if kept is None else min(kept.frame, int(_MOST_FRAME * window)),
        known.reply if situation.reply is None else situation.reply,
        known.factor if model is None else factor(calibration(archive, model)),
    )


def history_of(
    archive: Archive, situation: Situation, policy: CompactionPolicy, size: int, *, anew: bool = False
) -> HistoryBudget:
    """The budget that holds for a context of this size; `anew` for one that is about to be folded whatever its size."""
    kept = archive.guards.history(situation.conversation.id)
    now = fresh(archive, situation, policy, kept)
    return held(None if kept is None or anew else kept.budget, now, size, policy.context_threshold)


def keep(archive: Archive, conversation_id: int, budget: HistoryBudget, now: datetime) -> None:
    """Remember the budget that holds, if it is another one; a caller that has to be quick does it in a transaction."""
    kept = archive.guards.history(conversation_id)
    if kept is None or kept.budget != budget:
        with archive.writing():
            archive.guards.set_history(conversation_id, replace(kept or Kept(budget), budget=budget), now)


def teach(archive: Archive, model: str, estimated: int, reported: int, now: datetime, *, refused: bool) -> None:
    """Record how many tokens a provider counted in a prompt of so many by our estimate; in a transaction."""
    record = calibration(archive, model)
    taught = (was_too_long if refused else observe)(record, estimated, reported)
    if taught != record:
        archive.guards.set_factor(taught.model, taught.ratio, taught.spread, taught.observations, now)


def learn(
    archive: Archive, situation: Situation, reported: int, sent: int | None, now: datetime, *, was_refused: bool = False
) -> None:
    """Learn from a prompt of `sent` estimated tokens, for which a provider `reported` so many; in a transaction.

    A report about a prompt that is not ours says nothing about what is sent beside it, and teaches the factor only.
    """
    id_, model = situation.conversation.id, situation.model
    kept = archive.guards.history(id_) or Kept(HistoryBudget(situation.budget, beside=situation.beside or 0))
    beside = kept.budget.beside if situation.beside is None else situation.beside
    record = None if model is None else calibration(archive, model)
    is_ours = sent is not None or situation.beside is not None
    stored = archive.context_budget(id_)
    size = beside + (sent if sent is not None else stored if stored <= situation.budget else 0)
    if size <= beside or (not was_refused and reported > _MOST_WINDOWS * max(situation.budget, size)):
        return
    after = kept
    if is_ours and not (was_refused and record is not None):
        seen = replace(kept, budget=replace(kept.budget, beside=beside, window=situation.budget))
        after = replace(
            counted_frame(seen, size, None if record is None else record.ratio, reported), budget=kept.budget
        )
    if after != kept:
        archive.guards.set_history(id_, after, now)
    if model is not None:
        teach(archive, model, size, reported - (after.frame if is_ours else 0), now, refused=was_refused)


def reply_reserve(kept: Kept | None, window: int, most_output: int) -> int:
    """What a reply is given of a window: what replies have needed, never more than the request lets them have."""
    known = 0 if kept is None else kept.longest_reply
    wanted = int(known * _REPLY_SPARE) if known else window // _FIRST_REPLY
    wanted = min(wanted, window // _MOST_REPLY)
    return min(wanted, most_output) if most_output else (wanted if known else 0)


def replied(archive: Archive, conversation_id: int, tokens: int, now: datetime) -> None:
    """Remember how long a reply was, if it is the longest; in a transaction."""
    kept = archive.guards.history(conversation_id)
    if kept is not None and tokens > kept.longest_reply:
        archive.guards.set_history(conversation_id, replace(kept, longest_reply=tokens), now)
