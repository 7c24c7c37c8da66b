"""Merging: conversations that a rollover split by mistake become one again, in the active one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput
from lossless.model.context import token_sum
from lossless.model.conversations import Session
from lossless.store.context import Change, item_id
from lossless.store.merging import Merging
from lossless.store.operations import Operations
from lossless.surgery.outcome import Operated, backed_up, same

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lossless.model.context import ContextItem
    from lossless.store.archive import Archive
    from lossless.store.merging import SplitRow
    from lossless.store.operations import LogEntry
    from lossless.surgery.outcome import Backup

#: Closed by somebody's order: never merged.
CLOSED_ON_PURPOSE = frozenset({"manual-reset", "cron-rotation"})
#: Closed by a rollover that found no way to go on, or by older programs that gave no cause.
SPLIT_BY_MISTAKE = frozenset({"rollover-fallback", None})


@dataclass(frozen=True, slots=True)
class Split:
    """A session whose history lies in several conversations; `review` says why a person should look first."""

    session_key: str
    target_id: int
    source_ids: tuple[int, ...]
    messages: int
    review: str | None = None

    @property
    def text(self) -> str:
        """One line for a person's eyes."""
        sources = ", ".join(map(str, self.source_ids))
        doubt = f"; look first: {self.review}" if self.review else ""
        return f"{self.session_key}: {self.messages} messages of {sources} belong to {self.target_id}{doubt}"


@dataclass(frozen=True, slots=True)
class MergePlan:
    """Which conversations would go into the active one; nothing is written yet."""

    split: Split
    tokens_before: int
    tokens_after: int
    #: Items of each source's context that move, oldest source first.
    context_items: tuple[int, ...]
    #: System prompts and notices at the head of the sources: the active one's stand for them.
    superseded: int = 0

    @property
    def essence(self) -> tuple[object, ...]:
        """What was decided; messages that were only appended to the active one since do not matter."""
        return self.split, self.context_items, self.superseded, self.tokens_after - self.tokens_before

    @property
    def text(self) -> str:
        """The plan for a person's eyes."""
        rows = [
            f"conversation {id_}: {count} context items go to the head of {self.split.target_id}"
            for id_, count in zip(self.split.source_ids, self.context_items, strict=True)
        ]
        if self.superseded:
            rows.append(f"system prompts at their heads that are hidden, as superseded: {self.superseded}")
        return "\n".join([self.split.text, *rows, f"context: {self.tokens_before} → {self.tokens_after} tokens"])


def splits(archive: Archive, session_key: str | None = None) -> list[Split]:
    """Sessions that were split; what a person closed on purpose does not count."""
    rows = [row for row in Merging(archive).splits(session_key) if _may_merge(row)]
    found = []
    for key, some in groupby(rows, key=lambda row: row.session_key):
        group = list(some)
        messages = sum(row.messages for row in group)
        sources = tuple(row.source_id for row in group)
        found.append(Split(key, group[0].target_id, sources, messages, _review(group)))
    return found


def plan(archive: Archive, session_key: str, *, reviewed: bool = False) -> MergePlan:
    """What merging a session would do. Raises BadInput when it is not split, or needs a person's look first."""
    with archive.reading():
        found = splits(archive, session_key)
        if not found:
            raise BadInput(
                f"session {session_key!r} is not split: no archived conversation with messages belongs to it"
            )
        split = found[0]
        if split.review and not reviewed:
            raise BadInput(f"session {session_key!r} needs a look first: {split.review}")
        contexts = [_context(archive, id_) for id_ in split.source_ids]
        before = token_sum(archive.context.items(split.target_id))
    moved = [item for context in contexts for item in context.rest]
    counts = tuple(len(context.rest) for context in contexts)
    superseded = sum(len(context.head) for context in contexts)
    return MergePlan(split, before, before + token_sum(moved), counts, superseded)


def apply(archive: Archive, work: MergePlan, now: datetime, backup: Backup, *, reviewed: bool = False) -> Operated:
    """Carry a plan out, all or nothing: messages are numbered anew from 1, contexts joined, the sources left empty."""
    copy = backed_up(backup, "rollover-splits")
    target = work.split.target_id
    with archive.writing():
        planned, work = work, plan(archive, work.split.session_key, reviewed=reviewed)
        same(planned.essence, work.essence)
        merging, operations = Merging(archive), Operations(archive)
        sources = work.split.source_ids
        contexts = [_context(archive, id_) for id_ in sources]
        own = _context(archive, target)
        ids = [merging.clear_ids(id_, [target, *sources[n + 1 :]]) for n, id_ in enumerate(sources)]
        superseded = [item_id(item) for context in contexts for item in context.head]
        joined = [*own.head, *(item for context in contexts for item in context.rest), *own.rest]
        offsets = list(accumulate((merging.last_seq(id_) for id_ in sources), initial=0))
        taken = [
            merging.snapshot(id_, offset, [target, *sources[n + 1 :]])
            for n, (id_, offset) in enumerate(zip(sources, offsets, strict=False))
        ]
        for id_ in sources:
            merging.set_context(id_, [], now)
        merging.shift(target, offsets[-1])
        for things in taken:
            _move(merging, target, things)
        merging.set_context(target, [(n, item_id(item)) for n, item in enumerate(joined)], now)
        archive.context.hide(target, superseded, "superseded", now)
        merging.owe(target, now)
        added = tuple(item_id(item) for context in contexts for item in context.rest)
        detail = {"sources": taken, "ids": ids, "superseded": superseded, "shift": offsets[-1]}
        change = Change(
            "merge", "merge", f"from {', '.join(map(str, sources))}", (), added, 0, work.tokens_before,
            work.tokens_after, json.dumps(detail),
        )  # fmt: skip
        log_id = operations.log(target, change, now)
    return Operated("merge", target, log_id, work.tokens_before, work.tokens_after, (), copy)


def take_back(archive: Archive, conversation_id: int, entry: LogEntry, now: datetime) -> None:
    """Give every source back what was its own; messages that came since stay in the active one. In a transaction."""
    merging, detail = Merging(archive), entry.detail
    gone = {item for source in detail["sources"] for _, item in source["context"]}
    stays = [item for item in archive.context.items(conversation_id) if item_id(item) not in gone]
    merging.set_context(conversation_id, [(item.ordinal, item_id(item)) for item in stays], now)
    for prompt in detail["superseded"]:
        archive.context.unhide(conversation_id, prompt)
    for source in detail["sources"]:
        first = source["offset"] + 1
        merging.move_messages(
            conversation_id, source["id"], -source["offset"], first, source["offset"] + source["last"]
        )
        merging.move_records(source["records"], conversation_id, source["id"], -source["offset"])
        merging.move(source, source["id"], conversation_id)
        merging.revive_briefs(source)
        merging.set_context(source["id"], [(ordinal, item) for ordinal, item in source["context"]], now)
    merging.shift(conversation_id, -detail["shift"])
    for rows in detail["ids"]:
        merging.set_ids(rows)


def _may_merge(row: SplitRow) -> bool:
    is_cron = Session(key=row.session_key).is_cron
    return row.cause not in CLOSED_ON_PURPOSE and not is_cron


def _review(group: Sequence[SplitRow]) -> str | None:
    """Why it is not certain that these belong together, or None."""
    for row in group:
        if row.overlaps:
            return f"conversation {row.source_id} goes on after conversation {row.target_id} began"
        if row.cause not in SPLIT_BY_MISTAKE:
            return f"conversation {row.source_id} was closed with the cause {row.cause!r}"
    return None


@dataclass(frozen=True, slots=True)
class _Context:
    """A context: the prompts and notices that it begins with, and the rest."""

    head: tuple[ContextItem, ...]
    rest: tuple[ContextItem, ...]


def _context(archive: Archive, conversation_id: int) -> _Context:
    prompts = {prompt.message_id for prompt in archive.context.preamble(conversation_id)[0]}
    items = archive.context.items(conversation_id)
    head = tuple(item for item in items if item_id(item) in prompts)
    return _Context(head, tuple(item for item in items if item_id(item) not in prompts))


def _move(merging: Merging, target: int, things: dict[str, Any]) -> None:
    """Move all that a source holds; what it remembered for its next turn goes."""
    merging.move_messages(things["id"], target, things["offset"])
    merging.move_records(things["records"], things["id"], target, things["offset"])
    merging.retire_briefs(things)
    merging.move(things, target, things["id"])
    merging.move_keys(things["id"], target)
    merging.drop_states(things["id"])
