"""Merges conversations that a rollover split, and transplants summaries, with all under them, to another context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from itertools import accumulate, groupby
from operator import itemgetter
from typing import TYPE_CHECKING
from uuid import uuid4

from lossless.errors import BadInput, NotFound
from lossless.files.media_types import storage_extension
from lossless.maintenance.surgery import common
from lossless.maintenance.surgery.common import BackupMaker, OperationReport, PreviewItem, applying, preview_items
from lossless.model.context import ContextItem, MessageItem, NewSummary, SummaryItem, token_sum
from lossless.model.conversations import Session, SessionRef
from lossless.model.identity import file_id, file_ids_in, summary_id
from lossless.model.records import ContextChange
from lossless.store.context import item_id
from lossless.store.maintenance.surgery import MERGE_REASON, LogEntry, SurgeryWrites

if TYPE_CHECKING:
    from lossless.files.vault import Vault
    from lossless.maintenance.engine_parts import EngineParts
    from lossless.model.messages import StoredFile
    from lossless.store.archive import Archive

#: Closed on purpose: never merged.
CLOSED_ON_PURPOSE = frozenset({"manual-reset", "cron-rotation"})
#: Closed by a rollover that could not continue, or by older programs without a cause.
SPLIT_BY_MISTAKE = frozenset({"rollover-fallback", None})


@dataclass(frozen=True, slots=True)
class SplitSession:
    """A session whose history is in several conversations; `review` says why a user should review it first."""

    session_key: str
    target_id: int
    source_ids: tuple[int, ...]
    messages: int
    review: str | None = None

    @property
    def text(self) -> str:
        sources = ", ".join(map(str, self.source_ids))
        doubt = f"; review first: {self.review}" if self.review else ""
        return f"{self.session_key}: {self.messages} messages of {sources} belong to {self.target_id}{doubt}"


@dataclass(frozen=True, slots=True)
class MergePlan:
    """Which conversations would be merged into the active one; equal if only messages were appended meanwhile."""

    split: SplitSession
    tokens_before: int = field(compare=False)
    tokens_after: int = field(compare=False)
    #: Items of each source's context that move, oldest source first.
    context_items: tuple[int, ...]
    #: Leading system prompts and notices of the sources: the active one's replace them.
    superseded: int = 0

    @property
    def text(self) -> str:
        moved, where = zip(self.split.source_ids, self.context_items, strict=True), self.split.target_id
        rows = [f"conversation {id_}: {count} context items go to the start of {where}" for id_, count in moved]
        if self.superseded:
            rows.append(f"leading system prompts that are hidden as superseded: {self.superseded}")
        return "\n".join([self.split.text, *rows, f"context: {self.tokens_before} → {self.tokens_after} tokens"])


def find_splits(archive: Archive, session_key: str | None = None) -> list[SplitSession]:
    """Sessions that were split; what was closed on purpose does not count."""
    found = []
    for (key, target), rows in groupby(SurgeryWrites(archive).splits(session_key), key=itemgetter(0, 1)):
        group = [row[2:] for row in rows if row[3] not in CLOSED_ON_PURPOSE]
        if not group or Session(key=key).is_cron:
            continue
        doubts = (  # why it is not certain that these belong together
            f"conversation {source} goes on after conversation {target} began"
            if overlaps
            else f"conversation {source} was closed with the cause {cause!r}"
            for source, cause, _, overlaps in group
            if overlaps or cause not in SPLIT_BY_MISTAKE
        )
        sources, _, counts, _ = zip(*group, strict=True)
        found.append(SplitSession(key, target, sources, sum(counts), next(doubts, None)))
    return found


def plan_merge(archive: Archive, session_key: str, *, reviewed: bool = False) -> MergePlan:
    """What merging a session would do. Raises BadInput when it is not split, or needs a review first."""
    with archive.reading():
        found = find_splits(archive, session_key)
        if not found:
            why = "no archived conversation with messages belongs to it"
            raise BadInput(f"session {session_key!r} is not split: {why}")
        split = found[0]
        if split.review and not reviewed:
            raise BadInput(f"session {session_key!r} needs a review first: {split.review}")
        contexts = [_context(archive, id_) for id_ in split.source_ids]
        before = token_sum(archive.context.items(split.target_id))
    moved = [item for _, rest in contexts for item in rest]
    counts = tuple(len(rest) for _, rest in contexts)
    superseded = sum(len(head) for head, _ in contexts)
    return MergePlan(split, before, before + token_sum(moved), counts, superseded)


def apply_merge(parts: EngineParts, planned: MergePlan, backup: BackupMaker = None) -> OperationReport:
    """Carry a plan out in one transaction: messages are renumbered from 1, contexts joined, the sources emptied."""
    archive, target = parts.archive, planned.split.target_id
    with applying(parts, "rollover-splits", backup) as step:
        reviewed, now = planned.split.review is not None, step.now
        work = step.check(planned, plan_merge(archive, planned.split.session_key, reviewed=reviewed))
        merging = SurgeryWrites(archive)
        sources = work.split.source_ids
        contexts = [_context(archive, id_) for id_ in sources]
        own_head, own_rest = _context(archive, target)
        others = [[target, *sources[n:]] for n in range(1, len(sources) + 1)]
        ids = [merging.clear_ids(*source) for source in zip(sources, others, strict=True)]
        superseded = [item_id(item) for head, _ in contexts for item in head]
        moved = [item for _, rest in contexts for item in rest]
        joined = [*own_head, *moved, *own_rest]
        offsets = list(accumulate((archive.messages.last_seq(id_) for id_ in sources), initial=0))
        taken = [merging.snapshot(*source) for source in zip(sources, offsets, others, strict=False)]
        for id_ in sources:
            archive.context.set_items(id_, [], now)
        merging.shift(target, offsets[-1])
        for things in taken:  # everything of a source moves; its state for the next turn is deleted
            merging.move_messages(things["id"], target, things["offset"])
            merging.move_records(things["records"], things["id"], target, things["offset"])
            merging.retire_briefs([id_ for id_, _ in things["briefs"]])
            merging.move(things, target, things["id"])
            merging.move_keys(things["id"], target)
            merging.drop_states(things["id"])
        archive.context.set_items(target, [(n, item_id(item)) for n, item in enumerate(joined)], now)
        archive.context.hide(target, superseded, "superseded", now)
        merging.request_sweep(target, now, MERGE_REASON)
        added = tuple(item_id(item) for item in moved)
        detail = {"sources": taken, "ids": ids, "superseded": superseded, "shift": offsets[-1]}
        change = ContextChange("merge", "merge", f"from {', '.join(map(str, sources))}", (), added, 0)
        return step.log(target, change, work.tokens_before, detail=detail)


def undo_merge(archive: Archive, conversation_id: int, entry: LogEntry, now: datetime) -> None:
    """Give every source back its own rows; messages that came since stay in the active one. In a transaction."""
    merging, detail = SurgeryWrites(archive), entry.detail
    gone = {item for source in detail["sources"] for _, item in source["context"]}
    stays = [item for item in archive.context.items(conversation_id) if item_id(item) not in gone]
    archive.context.set_items(conversation_id, [(item.ordinal, item_id(item)) for item in stays], now)
    for prompt in detail["superseded"]:
        archive.context.unhide(conversation_id, prompt)
    for source in detail["sources"]:
        first = source["offset"] + 1
        last = source["offset"] + source["last"]
        merging.move_messages(conversation_id, source["id"], -source["offset"], first, last)
        merging.move_records(source["records"], conversation_id, source["id"], -source["offset"])
        merging.move(source, source["id"], conversation_id)
        merging.revive_briefs(source)
        archive.context.set_items(source["id"], [(ordinal, item) for ordinal, item in source["context"]], now)
    merging.shift(conversation_id, -detail["shift"])
    for rows in detail["ids"]:
        merging.set_ids(rows)


def _context(archive: Archive, conversation_id: int) -> tuple[list[ContextItem], list[ContextItem]]:
    """A context: its leading prompts and notices, and the rest."""
    prompts = {id_ for _, id_, _ in archive.context.preamble(conversation_id)[0]}
    items = archive.context.items(conversation_id)
    head = [item for item in items if item_id(item) in prompts]
    return head, [item for item in items if item_id(item) not in prompts]


@dataclass(frozen=True, slots=True)
class TransplantPlan:
    """What would be copied, bottom-up; plans are equal if only messages were appended meanwhile."""

    source_id: int
    target_id: int
    #: The summaries that will be in the target's context, in order.
    roots: tuple[PreviewItem, ...]
    summary_ids: tuple[str, ...]
    message_ids: tuple[int, ...]
    file_ids: tuple[str, ...]
    tokens_before: int = field(compare=False)
    tokens_after: int = field(compare=False)

    @property
    def text(self) -> str:
        counts = f"{len(self.summary_ids)} summaries, {len(self.message_ids)} messages, {len(self.file_ids)} files"
        return "\n".join(
            [
                f"{counts} are copied from conversation {self.source_id} to the start of conversation {self.target_id}",
                *(f"+ {root}" for root in self.roots),
                f"context: {self.tokens_before} → {self.tokens_after} tokens",
            ]
        )


def plan_transplant(
    parts: EngineParts, source: SessionRef | int, target: SessionRef | int, summary_ids: Sequence[str] = ()
) -> TransplantPlan:
    """What a transplant of the summaries in a context, or of some of them, would copy."""
    archive, source_id, target_id = parts.archive, parts.conversation_id(source), parts.conversation_id(target)
    if source_id == target_id:
        raise BadInput("a conversation cannot be transplanted into itself")
    with archive.reading():
        for id_ in (source_id, target_id):
            archive.conversations.get(id_)
            common.refuse_merged(archive, id_)
        context = archive.context.items(source_id)
        in_context = [item.summary_id for item in context if isinstance(item, SummaryItem)]
        roots = [id_ for id_ in in_context if not summary_ids or id_ in summary_ids]
        if unknown := [id_ for id_ in summary_ids if id_ not in in_context]:
            archive.summaries.get(unknown[0])
            what = f"summary {unknown[0]!r} is not in the context of conversation {source_id}"
            raise BadInput(f"{what}; only summaries in the context can be transplanted")
        if not roots:
            raise BadInput(f"conversation {source_id} has no summaries in its context to transplant")
        below = SurgeryWrites(archive).below(roots)
        summaries = archive.summaries.many(below)
        texts = SurgeryWrites(archive).summary_texts(target_id)
        named = {id_ for text in (*texts.values(), *(one.content for one in summaries)) for id_ in file_ids_in(text)}
        known = archive.files.many(named)
        there = {_digest(text, known): id_ for id_, text in texts.items()}
        for summary in summaries:
            if (twin := there.get(_digest(summary.content, known))) is not None:
                raise BadInput(f"conversation {target_id} has the text of summary {summary.id!r} already, as {twin!r}")
        told = {id_ for one in below for id_ in archive.summaries.message_ids(one)}
        places = archive.listings.message_places(sorted(told))
        messages = tuple(sorted(places, key=lambda id_: places[id_]))
        carried = {id_ for ids in SurgeryWrites(archive).files_of(messages).values() for id_ in ids}
        files = tuple(sorted(archive.files.many(carried.union(*(one.file_ids for one in summaries)))))
        before = token_sum(archive.context.items(target_id))
        heads = preview_items(archive, roots)
    after = before + sum(head.tokens for head in heads)
    return TransplantPlan(source_id, target_id, heads, tuple(below), messages, files, before, after)


def apply_transplant(parts: EngineParts, planned: TransplantPlan, backup: BackupMaker = None) -> OperationReport:
    """Carry a plan out in one transaction; bytes of files are copied before it ends."""
    archive = parts.archive
    with applying(parts, "transplant", backup) as step:
        wanted, now = [str(root.id) for root in planned.roots], step.now
        work = step.check(planned, plan_transplant(parts, planned.source_id, planned.target_id, wanted))
        operations = SurgeryWrites(archive)
        names = _copy_files(archive, parts.vault, work, now)
        operations.shift(work.target_id, len(work.message_ids))
        places = operations.copy_messages(work.target_id, work.message_ids)
        for old, carried in operations.files_of(work.message_ids).items():
            operations.rename_files(places[old], {id_: names[id_] for id_ in carried if id_ in names})
        operations.index_copies(list(places.values()))
        ids = _copy_summaries(archive, work, places, names, now)
        roots = tuple(ids[id_] for id_ in wanted)
        prompts, first = archive.context.preamble(work.target_id)
        head = first if first is not None else prompts[-1][0] + 1 if prompts else 0
        archive.context.replace_run(work.target_id, head, head - 1, roots, now)
        archive.summaries.mark_pending_stale(work.target_id, 0, 2**62)
        made = {"messages": [*places.values()], "summaries": [*ids.values()], "files": sorted(names.values())}
        change = ContextChange("transplant", "transplant", f"from {work.source_id}", (), roots, head)
        return step.log(work.target_id, change, work.tokens_before, summary_ids=roots, detail=made | {"from": wanted})


def earlier_transplant(
    parts: EngineParts, source: SessionRef | int, target: SessionRef | int
) -> tuple[str, ...] | None:
    """What the newest transplant between two conversations copied, unless it was undone; None without one."""
    entries = common.undoable_steps(SurgeryWrites(parts.archive).entries(parts.conversation_id(target)))
    cause = f"from {parts.conversation_id(source)}"
    found = [one for one in entries if one.action == "transplant" and one.cause == cause]
    return tuple(found[-1].detail.get("from", ())) if found else None


def undo_transplant(archive: Archive, conversation_id: int, entry: LogEntry) -> None:
    """Remove the copies of a transplant; needs a transaction. Files without rows are left for `lcm files gc`."""
    operations = SurgeryWrites(archive)
    operations.take_out_summaries(conversation_id, [str(id_) for id_ in entry.added])
    for id_ in reversed(entry.detail["summaries"]):
        operations.purge(id_)
    operations.remove_messages(conversation_id, entry.detail["messages"])
    operations.shift(conversation_id, -len(entry.detail["messages"]))
    archive.files.remove(set(entry.detail["files"]) - archive.files.referenced_ids())


def _digest(text: str, files: Mapping[str, StoredFile]) -> bytes:
    """A digest that is the same for a text and its copy, which names the copies of its files."""
    for id_ in file_ids_in(text):
        if (file := files.get(id_)) is not None:
            text = text.replace(id_, repr((file.name, file.mime, file.byte_size)))
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def _copy_files(archive: Archive, vault: Vault | None, work: TransplantPlan, now: datetime) -> dict[str, str]:
    """Copy bytes and rows of files; returns their new ids. A file with missing bytes keeps its id."""
    names: dict[str, str] = {}
    if vault is None:
        return names
    for row in archive.files.many(work.file_ids).values():
        try:
            data = vault.read(row).data
        except NotFound:
            continue
        new = file_id(work.target_id, data)
        place = vault.write(work.target_id, new, storage_extension(row.name, row.mime), data)
        twin = replace(row, id=new, conversation_id=work.target_id, storage_uri=str(place), created_at=now)
        archive.files.add([twin])
        names[row.id] = new
    return names


def _copy_summaries(
    archive: Archive, work: TransplantPlan, places: Mapping[int, int], names: Mapping[str, str], now: datetime
) -> dict[str, str]:
    """Copy summaries bottom-up with links to the copies under them; returns their new ids."""
    ids: dict[str, str] = {}
    for summary in archive.summaries.many(work.summary_ids):
        text = summary.content
        for old, new in names.items():
            text = text.replace(old, new)
        files = tuple(names.get(id_, id_) for id_ in summary.file_ids)
        twin = NewSummary(summary_id(text, str(uuid4())), summary.depth, text, summary.tokens, summary.model, files)
        links: list[MessageItem | SummaryItem] = [
            SummaryItem(n, ids[id_], 0, 0) for n, id_ in enumerate(summary.source_ids)
        ]
        messages = () if links else archive.summaries.message_ids(summary.id)
        links += [MessageItem(n, places[id_], "user", 0, 0) for n, id_ in enumerate(messages)]
        archive.summaries.insert(work.target_id, links, twin, now)
        ids[summary.id] = twin.id
    stale = archive.summaries.stale(work.source_id)
    changed = {message for id_ in ids for message in stale.get(id_, ())}
    archive.summaries.mark_stale([places[id_] for id_ in sorted(changed) if id_ in places], now)
    return ids
