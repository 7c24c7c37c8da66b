"""Transplanting: a deep copy of a conversation's graph of summaries at the head of another one's context."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING
from uuid import uuid4

from lossless.errors import BadInput, NotFound
from lossless.files.kinds import extension
from lossless.model.context import MessageItem, SummaryItem, token_sum
from lossless.model.files import StoredFile
from lossless.model.identity import file_id, file_ids_in, summary_id
from lossless.model.summaries import NewSummary
from lossless.store.context import Change
from lossless.store.copying import Copying
from lossless.store.merging import Merging
from lossless.store.operations import Operations
from lossless.surgery import reach
from lossless.surgery.outcome import Operated, Shown, backed_up, same, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lossless.files.vault import Vault
    from lossless.model.summaries import Summary
    from lossless.store.archive import Archive
    from lossless.store.operations import LogEntry
    from lossless.surgery.outcome import Backup


@dataclass(frozen=True, slots=True)
class TransplantPlan:
    """What would be copied, bottom-up; nothing is written yet."""

    source_id: int
    target_id: int
    #: The summaries that will stand in the target's context, in order.
    roots: tuple[Shown, ...]
    summary_ids: tuple[str, ...]
    message_ids: tuple[int, ...]
    file_ids: tuple[str, ...]
    tokens_before: int
    tokens_after: int

    @property
    def essence(self) -> tuple[object, ...]:
        """What was decided; messages that were only appended to the target since do not matter."""
        return self.source_id, self.target_id, self.roots, self.summary_ids, self.message_ids, self.file_ids

    @property
    def text(self) -> str:
        """The plan for a person's eyes."""
        counts = f"{len(self.summary_ids)} summaries, {len(self.message_ids)} messages, {len(self.file_ids)} files"
        return "\n".join(
            [
                f"{counts} are copied from conversation {self.source_id} to the head of conversation {self.target_id}",
                *(f"+ {root}" for root in self.roots),
                f"context: {self.tokens_before} → {self.tokens_after} tokens",
            ]
        )


def plan(archive: Archive, source_id: int, target_id: int, summary_ids: Sequence[str] = ()) -> TransplantPlan:
    """What a transplant of the summaries in a context, or of some of them, would copy.

    Raises BadInput when there is nothing to copy, when the target has a summary with the same text already, or when
    one of the two was merged away.
    """
    if source_id == target_id:
        raise BadInput("a conversation cannot be transplanted into itself")
    with archive.reading():
        for id_ in (source_id, target_id):
            archive.conversations.get(id_)
            reach.refuse_merged(archive, id_)
        context = archive.context.items(source_id)
        in_context = [item.summary_id for item in context if isinstance(item, SummaryItem)]
        roots = [id_ for id_ in in_context if not summary_ids or id_ in summary_ids]
        if unknown := [id_ for id_ in summary_ids if id_ not in in_context]:
            archive.summaries.get(unknown[0])
            raise BadInput(
                f"summary {unknown[0]!r} does not stand in the context of conversation {source_id}; "
                "only what stands there can be transplanted"
            )
        if not roots:
            raise BadInput(f"conversation {source_id} has no summaries in its context to transplant")
        below = Operations(archive).below(roots)
        _refuse_duplicates(archive, below, target_id)
        messages = _messages(archive, below)
        files = _files(archive, below, messages)
        before = token_sum(archive.context.items(target_id))
        heads = shown(archive, roots)
    after = before + sum(head.tokens for head in heads)
    return TransplantPlan(source_id, target_id, heads, tuple(below), messages, files, before, after)


def apply(archive: Archive, vault: Vault | None, work: TransplantPlan, now: datetime, backup: Backup) -> Operated:
    """Carry a plan out, all or nothing: rows in one transaction, bytes of files before it ends."""
    copy = backed_up(backup, "transplant")
    with archive.writing():
        wanted = [str(root.id) for root in work.roots]
        planned, work = work, plan(archive, work.source_id, work.target_id, wanted)
        same(planned.essence, work.essence)
        operations, copying = Operations(archive), Copying(archive)
        names = _copy_files(archive, vault, work, now)
        Merging(archive).shift(work.target_id, len(work.message_ids))
        places = copying.messages(work.target_id, work.message_ids)
        for old, carried in copying.files_of(work.message_ids).items():
            copying.rename_files(places[old], {id_: names[id_] for id_ in carried if id_ in names})
        copying.index(list(places.values()))
        ids = _copy_summaries(archive, work, places, names, now)
        roots = tuple(ids[id_] for id_ in wanted)
        head = _behind_prompts(archive, work.target_id)
        operations.exchange(work.target_id, head, head - 1, roots, now)
        archive.summaries.mark_pending_stale(work.target_id, 0, 2**62)
        made = {
            "messages": list(places.values()),
            "summaries": list(ids.values()),
            "files": sorted(names.values()),
            "from": wanted,
        }
        change = Change(
            "transplant", "transplant", f"from {work.source_id}", (), roots, head, work.tokens_before,
            work.tokens_after, json.dumps(made),
        )  # fmt: skip
        log_id = operations.log(work.target_id, change, now)
    return Operated("transplant", work.target_id, log_id, work.tokens_before, work.tokens_after, roots, copy)


def earlier(archive: Archive, source_id: int, target_id: int) -> tuple[str, ...] | None:
    """What the newest transplant between two conversations copied, as far as it was not undone; None without one."""
    entries = reach.open_steps(Operations(archive).entries(target_id))
    found = [one for one in entries if one.action == "transplant" and one.cause == f"from {source_id}"]
    return tuple(found[-1].detail.get("from", ())) if found else None


def take_back(archive: Archive, conversation_id: int, entry: LogEntry) -> None:
    """Remove the copies that a transplant made; needs a transaction. Files without rows are left for `lcm files gc`."""
    operations, copying = Operations(archive), Copying(archive)
    copying.take_out(conversation_id, [str(id_) for id_ in entry.added])
    for id_ in reversed(entry.detail["summaries"]):
        operations.purge(id_)
    copying.remove_messages(conversation_id, entry.detail["messages"])
    Merging(archive).shift(conversation_id, -len(entry.detail["messages"]))
    archive.files.remove(set(entry.detail["files"]) - archive.files.referenced_ids())


def _refuse_duplicates(archive: Archive, summary_ids: Sequence[str], target_id: int) -> None:
    texts, summaries = Copying(archive).texts(target_id), archive.summaries.many(summary_ids)
    named = {id_ for text in (*texts.values(), *(one.content for one in summaries)) for id_ in file_ids_in(text)}
    files = archive.files.many(named)
    there = {_digest(text, files): id_ for id_, text in texts.items()}
    for summary in summaries:
        if (twin := there.get(_digest(summary.content, files))) is not None:
            raise BadInput(f"conversation {target_id} has the text of summary {summary.id!r} already, as {twin!r}")


def _digest(text: str, files: Mapping[str, StoredFile]) -> bytes:
    """The same for a text and its copy, which names the copies of its files."""
    for id_ in file_ids_in(text):
        if (file := files.get(id_)) is not None:
            text = text.replace(id_, repr((file.name, file.mime, file.byte_size)))
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def _messages(archive: Archive, summary_ids: Sequence[str]) -> tuple[int, ...]:
    """The messages below some summaries, each once, in the order in which they were said."""
    found = {id_ for summary in summary_ids for id_ in archive.summaries.message_ids(summary)}
    places = archive.lineage.places(sorted(found))
    return tuple(sorted(places, key=lambda id_: places[id_]))


def _files(archive: Archive, summary_ids: Sequence[str], message_ids: Sequence[int]) -> tuple[str, ...]:
    carried = {id_ for ids in Copying(archive).files_of(message_ids).values() for id_ in ids}
    carried |= {id_ for summary in archive.summaries.many(summary_ids) for id_ in summary.file_ids}
    return tuple(sorted(archive.files.many(carried)))


def _copy_files(archive: Archive, vault: Vault | None, work: TransplantPlan, now: datetime) -> dict[str, str]:
    """Copy bytes and rows of files; returns their new ids. A file whose bytes are gone keeps its id."""
    names: dict[str, str] = {}
    if vault is None:
        return names
    for row in archive.files.many(work.file_ids).values():
        try:
            data = vault.read(row).data
        except NotFound:
            continue
        new = file_id(work.target_id, data)
        place = vault.write(work.target_id, new, extension(row.name, row.mime), data)
        twin = StoredFile(
            new, work.target_id, row.name, row.mime, row.byte_size, row.line_count, str(place),
            row.exploration_summary, now,
        )  # fmt: skip
        archive.files.add([twin])
        names[row.id] = new
    return names


def _copy_summaries(
    archive: Archive, work: TransplantPlan, places: Mapping[int, int], names: Mapping[str, str], now: datetime
) -> dict[str, str]:
    """Copy summaries bottom-up with links to the copies below them; returns their new ids."""
    ids: dict[str, str] = {}
    for summary in archive.summaries.many(work.summary_ids):
        text = summary.content
        for old, new in names.items():
            text = text.replace(old, new)
        files = tuple(names.get(id_, id_) for id_ in summary.file_ids)
        twin = NewSummary(summary_id(text, str(uuid4())), summary.depth, text, summary.tokens, summary.model, files)
        archive.summaries.insert(work.target_id, _links(archive, summary, ids, places), twin, now)
        ids[summary.id] = twin.id
    stale = archive.summaries.stale(work.source_id)
    changed = {message for id_ in ids for message in stale.get(id_, ())}
    archive.summaries.mark_stale([places[id_] for id_ in sorted(changed) if id_ in places], now)
    return ids


def _links(
    archive: Archive, summary: Summary, ids: Mapping[str, str], places: Mapping[int, int]
) -> list[MessageItem | SummaryItem]:
    """The copies that a copied summary is made of."""
    if summary.source_ids:
        return [SummaryItem(n, ids[id_], 0, 0) for n, id_ in enumerate(summary.source_ids)]
    messages = archive.summaries.message_ids(summary.id)
    return [MessageItem(n, places[id_], "user", 0, 0) for n, id_ in enumerate(messages)]


def _behind_prompts(archive: Archive, conversation_id: int) -> int:
    """The ordinal behind the system prompts that a context begins with."""
    prompts, first = archive.context.preamble(conversation_id)
    if first is not None:
        return first
    return prompts[-1].ordinal + 1 if prompts else 0
