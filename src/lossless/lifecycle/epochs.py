"""Deciding how a transcript is read and whether it belongs to a conversation. Pure: values in, decisions out.

An epoch is the time in which a conversation follows one transcript: until its file is another one, has become
shorter, or begins with another header.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lossless.transcripts.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from lossless.store.transcripts import Checkpoint, Epoch
    from lossless.transcripts.entries import Entry, FileState

Reading = Literal["nothing", "appended", "whole"]
Change = Literal["first", "same", "new path", "shrunk", "new header"]
Verdict = Literal["continued", "fresh", "small", "held"]

#: A transcript that has nothing in common with a conversation is taken over up to this many messages, or a fifth
#: of what is stored.
_FLOOD_FLOOR, _FLOOD_SHARE = 50, 5
#: More records than this are never said together.
_MOST_TOGETHER = 64
#: So many messages in common are no coincidence.
_SURE = 3


@dataclass(frozen=True, slots=True)
class Approach:
    """How much of a transcript is read, and what has happened to it since it was read last."""

    reading: Reading
    change: Change


def approach(checkpoint: Checkpoint | None, state: FileState, header_id: str | None, lane: str | None) -> Approach:
    """What is to be read of a transcript."""
    if checkpoint is None or not checkpoint.path:
        return Approach("whole", "first")
    if checkpoint.path != str(state.path) or checkpoint.lane != lane:
        return Approach("whole", "new path")
    if state.size < max(checkpoint.offset, checkpoint.size):
        return Approach("whole", "shrunk")
    if checkpoint.header_id is not None and header_id is not None and checkpoint.header_id != header_id:
        return Approach("whole", "new header")
    if (state.size, state.mtime_ms) == (checkpoint.size, checkpoint.mtime_ms):
        return Approach("nothing", "same")
    return Approach("appended" if state.size > checkpoint.size else "whole", "same")


@dataclass(frozen=True, slots=True)
class Front:
    """The newest records of a path: the last one that stands alone, and those that were said together after it.

    Enough to see whether a path goes on straight, so that what is appended can be read without the rest.
    """

    #: Id, parent, tie, and whether it is a message.
    records: tuple[tuple[str, str | None, str | None, bool], ...] = ()

    def after(self, entry: Entry) -> Front | None:
        """The front with one more entry; None when that leaves a message on another branch."""
        if entry.is_loose or entry.id is None:
            return self
        is_message = entry.message is not None
        newest = (entry.id, entry.parent_id, entry.tie, is_message)
        if not self.records or (entry.parent_id is None and not self._is_linked):
            return Front((newest,))
        records = (*self.records, newest)
        if len(self.records) == 1 and entry.parent_id == self.records[0][0]:
            return Front((newest,)) if is_message and entry.tie is None else Front(records)
        if entry.parent_id not in {id_ for id_, *_ in self.records} or len(records) > _MOST_TOGETHER:
            return None
        tree = Tree()
        for place, (id_, parent, tie, _) in enumerate(records):
            tree.add(id_, parent if place else None, tie)
        path = tree.leaf_path()
        if path is not None and any(said and not path.kept[place] for place, (*_, said) in enumerate(records)):
            return None
        return Front((newest,)) if is_message and entry.tie is None else Front(records)

    @property
    def _is_linked(self) -> bool:
        return any(parent is not None for _, parent, *_ in self.records)

    def along(self, entries: Iterable[Entry]) -> Front:
        """The front after entries that are known to be on the path."""
        front = self
        for entry in entries:
            front = front.after(entry) or Front().after(entry) or front
        return front


def follow(front: Front, entries: Iterable[Entry]) -> Front | None:
    """The front after entries that go on from it in a straight line; None when they turn off."""
    for entry in entries:
        after = front.after(entry)
        if after is None:
            return None
        front = after
    return front


@dataclass(frozen=True, slots=True)
class Claim:
    """What a transcript has in common with the conversation that it is said to belong to."""

    #: Messages that are new, that are known by their ids, and that are known by their words alone.
    new: int
    known_by_id: int
    known_by_text: int
    #: When the first of the new messages was said; None when one of them has no time.
    earliest_at: datetime | None
    #: What is stored: how many messages, and when the newest was said.
    stored: int
    newest_at: datetime | None


def judge(claim: Claim) -> tuple[Verdict, str]:
    """Whether a transcript is this conversation's, and why; `held` waits for a person."""
    if not claim.stored or claim.known_by_id or claim.known_by_text >= min(_SURE, claim.stored):
        return "continued", f"{claim.known_by_id + claim.known_by_text} messages are stored already"
    if claim.earliest_at is not None and claim.newest_at is not None and claim.earliest_at > claim.newest_at:
        return "fresh", "every message is later than what is stored"
    cap = max(_FLOOD_FLOOR, claim.stored // _FLOOD_SHARE)
    if claim.new <= cap:
        return "small", f"{claim.new} messages with nothing in common, up to {cap} are taken over"
    return "held", (
        f"its {claim.new} messages have nothing in common with the {claim.stored} stored ones, "
        f"and not all of them are later; up to {cap} would be taken over"
    )


def is_settled(last: Epoch | None, state: FileState, header_id: str | None) -> Verdict | Literal["refused"] | None:
    """What a person or an earlier reading has decided about exactly this file; None when it must be judged."""
    if last is None or last.header_id != header_id:
        return None
    if last.decision == "refused":
        return "refused"
    if last.decision == "held" and (last.size, last.mtime_ms) == (state.size, state.mtime_ms):
        return "held"
    return None
