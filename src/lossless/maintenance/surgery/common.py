"""What all surgeries share: applying plans, previews, the difference between two points of a log, and undo checks."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import unified_diff
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from lossless.errors import BadInput, NotFound, Stale
from lossless.model.tokens import one_line
from lossless.store.maintenance.surgery import FormerSummary, LogEntry, SurgeryWrites

if TYPE_CHECKING:
    from lossless.maintenance.engine_parts import EngineParts
    from lossless.model.conversations import SessionRef
    from lossless.model.records import ContextChange
    from lossless.store.archive import Archive

#: Copies the archive under a label and returns the path; None in memory.
BackupMaker: TypeAlias = Callable[[str], Path] | None

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OperationReport:
    """The result of a surgery; `log_id` is the log entry for undo."""

    action: str
    conversation_id: int
    log_id: int
    tokens_before: int
    tokens_after: int
    summary_ids: tuple[str, ...] = ()
    backup: Path | None = None


@dataclass(frozen=True, slots=True)
class PreviewItem:
    """A message or a summary as a preview shows it."""

    id: int | str
    what: str
    tokens: int
    text: str

    @property
    def name(self) -> str:
        return f"msg#{self.id}" if isinstance(self.id, int) else self.id

    def __str__(self) -> str:
        return f"{self.name} {self.what}, {self.tokens} tokens: {self.text}"


@dataclass(frozen=True, slots=True)
class Operation:
    """A plan being applied: in one transaction, after a backup."""

    archive: Archive
    now: datetime
    backup: Path | None = None

    def check(self, planned: T, again: T | None) -> T:
        """The plan as it is made again now; `Stale` when it differs."""
        if again is None or planned != again:
            raise Stale("the archive changed since this was planned; plan again")
        return again

    def log(
        self,
        conversation_id: int,
        change: ContextChange,
        before: int | None = None,
        *,
        summary_ids: tuple[str, ...] = (),
        former: Sequence[FormerSummary] = (),
        detail: object = None,
    ) -> OperationReport:
        """Log what was changed, with the tokens and the former state of summaries; returns the report."""
        after = self.archive.context.tokens(conversation_id)
        before = after if before is None else before
        text = None if detail is None else json.dumps(detail)
        change = replace(change, tokens_before=before, tokens_after=after, detail=text)
        log_id = SurgeryWrites(self.archive).log(conversation_id, change, self.now, former)
        return OperationReport(change.action, conversation_id, log_id, before, after, summary_ids, self.backup)


@contextmanager
def applying(parts: EngineParts, label: str, backup: BackupMaker = None) -> Iterator[Operation]:
    """Apply a plan inside: a backup with this label is made first, then everything is one transaction."""
    make = backup or parts.backups()
    copy = make(label) if make and label else None
    with parts.archive.writing():
        yield Operation(parts.archive, parts.clock(), copy)


def preview_items(archive: Archive, ids: Sequence[int | str]) -> tuple[PreviewItem, ...]:
    """Messages and summaries in the given order; missing ones are marked."""
    messages = archive.messages.many([id_ for id_ in ids if isinstance(id_, int)], exact=False)
    summaries = archive.summaries.many([id_ for id_ in ids if isinstance(id_, str)])
    told = [(one.id, one.message) for one in messages]
    found = [PreviewItem(id_, message.role, message.tokens, one_line(message.content)) for id_, message in told]
    found += [PreviewItem(one.id, f"depth {one.depth}", one.tokens, one_line(one.content)) for one in summaries]
    known = {item.id: item for item in found}
    return tuple(known.get(id_) or PreviewItem(id_, "gone", 0, "no longer in the archive") for id_ in ids)


def text_diff(before: str, after: str, name: str) -> str:
    """A unified diff of two texts; empty when they are the same."""
    lines = unified_diff(before.splitlines(), after.splitlines(), f"{name} (now)", f"{name} (new)", lineterm="")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ContextDiff:
    """The changes between two points, and their net effect: an item that left and came back is in neither list."""

    conversation_id: int
    after: int
    through: int
    entries: tuple[LogEntry, ...]
    left: tuple[PreviewItem, ...]
    entered: tuple[PreviewItem, ...]
    tokens_before: int | None
    tokens_after: int | None

    @property
    def text(self) -> str:
        """A readable diff."""
        lines = [f"--- change {self.after}", f"+++ change {self.through}"]
        lines += [f"- {item}" for item in self.left]
        lines += [f"+ {item}" for item in self.entered]
        if self.entries:
            lines.append(f"context: {self.tokens_before} → {self.tokens_after} tokens")
        return "\n".join(lines)


def diff_context(
    parts: EngineParts,
    session: SessionRef | int,
    after: int | datetime | None = None,
    through: int | datetime | None = None,
) -> ContextDiff:
    """What left the context and what entered it between two points of its log; by default, by the last change."""
    archive, conversation_id = parts.archive, parts.conversation_id(session)
    with archive.reading():
        operations = SurgeryWrites(archive)
        numbers = [point for point in (after, through) if isinstance(point, int)]
        newest = max((entry.id for entry in operations.entries(conversation_id)), default=0) if numbers else 0
        for number in numbers:  # one of another conversation's changes counts as a moment
            if number > newest:
                known = f"its last one is {newest}" if newest else "there is none yet"
                raise BadInput(f"conversation {conversation_id} has no change {number}; {known}")
        first, last = (
            operations.entry_at(conversation_id, point) if isinstance(point, datetime) else point
            for point in (after, through)
        )
        entries = operations.entries(conversation_id, 0, last)
        newest = entries[-1].id if entries else 0
        previous = entries[-2].id if len(entries) > 1 else 0
        before = previous if after is None else first or 0
        if last is not None and before > last:
            raise BadInput(f"the first point ({before}) is after the second ({last})")
        chosen = tuple(entry for entry in entries if entry.id > before)
        remaining: dict[int | str, None] = {}
        entered: dict[int | str, None] = {}
        for entry in chosen:
            for items, here, there in ((entry.removed, entered, remaining), (entry.added, remaining, entered)):
                for item in items:
                    if item in here:
                        del here[item]
                    else:
                        there[item] = None
        left, came = (preview_items(archive, list(items)) for items in (remaining, entered))
        tokens = (chosen[0].tokens_before, chosen[-1].tokens_after) if chosen else (None, None)
        return ContextDiff(conversation_id, before, newest, chosen, left, came, *tokens)


UNDOABLE = frozenset({"fold", "dissolve", "rewrite", "repair", "transplant", "merge", "focus", "unfocus"})
_SOURCE = frozenset({"id", "offset", "last", "context", "summaries", "files", "pins", "hidden", "records", "briefs"})


def undoable_steps(entries: Iterable[LogEntry]) -> list[LogEntry]:
    """The changes that were not undone, oldest first; a summary written in advance is no change.

    An undo entry that names none of them, as in renumbered logs, refers to the newest of its kind.
    """
    found: dict[int, LogEntry] = {}
    for entry in entries:
        if entry.action == "prepare":
            continue
        if entry.action != "undo":
            found[entry.id] = entry
            continue
        named = found.get(entry.detail.get("undoes", 0))
        if named is None or named.action != entry.cause:
            named = next((one for one in reversed(found.values()) if one.action == entry.cause), None)
        if named is not None and named.action in UNDOABLE:
            del found[named.id]
    return list(found.values())


def check_undoable(archive: Archive, conversation_id: int, entry: LogEntry, former: Sequence[FormerSummary]) -> None:
    """Raises BadInput with the reason when a step cannot be undone."""
    refuse_merged(archive, conversation_id)
    if reason := entry.detail.get("lost"):
        raise _refused(entry, str(reason))
    match entry.action:
        case "transplant":
            made = entry.detail
            if not made.keys() >= {"messages", "summaries", "files"}:
                raise _refused(entry, "the log does not say what it made")
            copied, above = made["messages"], made["summaries"]
            seqs = _require_own(archive, conversation_id, entry, [*copied, *above])
            if sorted(seqs.values()) != list(range(1, len(copied) + 1)):
                raise _refused(entry, "the copied messages are no longer at the start of the conversation")
            if needed := SurgeryWrites(archive).needed(conversation_id, above, copied):
                raise _refused(entry, f"{needed[0]} is still needed by {needed[1]}")
        case "merge":
            _check_merge(archive, conversation_id, entry)
        case "focus" | "unfocus":
            if "previous" not in entry.detail:
                raise _refused(entry, "the log does not say which brief was in use before")
            previous = entry.detail["previous"]
            if previous and SurgeryWrites(archive).brief_owner(previous) != conversation_id:
                raise _refused(entry, f"the brief that was in use before, {previous!r}, is not in this conversation")
        case "rewrite" | "repair":
            if not former:
                raise _refused(entry, "the former texts were not kept")
            _require_own(archive, conversation_id, entry, [was.id for was in former])
        case _:
            messages, summaries = (was.message_ids for was in former), (was.source_ids for was in former)
            items = chain(entry.added, entry.removed, *messages, *summaries)
            _require_own(archive, conversation_id, entry, items, may_be_gone={was.id for was in former})


def _refused(entry: LogEntry, reason: str) -> BadInput:
    return BadInput(f"the {entry.action} cannot be undone: {reason}")


def refuse_merged(archive: Archive, conversation_id: int) -> None:
    """While a conversation is merged into another one, only that one can be changed."""
    for log_id, target in SurgeryWrites(archive).merges_of(conversation_id):
        if any(entry.id == log_id for entry in undoable_steps(SurgeryWrites(archive).entries(target))):
            what = f"conversation {conversation_id} was merged into conversation {target} (change {log_id})"
            raise BadInput(f"{what}: undo that merge first, with `lcm undo --conversation-id {target}`")


def _require_own(
    archive: Archive, conversation_id: int, entry: LogEntry, ids: Iterable[int | str], may_be_gone: Collection[str] = ()
) -> dict[int, int]:
    """Refuse when one of these is missing or of another conversation; returns the seqs of messages."""
    wanted = set(ids)
    messages = archive.listings.message_places(id_ for id_ in wanted if isinstance(id_, int))
    owners: dict[int | str, int] = {id_: owner for id_, (owner, _) in messages.items()}
    nodes = archive.listings.summary_nodes(id_ for id_ in wanted if isinstance(id_, str))
    owners |= {id_: node.conversation_id for id_, node in nodes.items()}
    for id_ in sorted(wanted, key=str):
        name = f"msg#{id_}" if isinstance(id_, int) else f"summary {id_!r}"
        owner = owners.get(id_)
        if owner is None and id_ not in may_be_gone:
            raise _refused(entry, f"{name} is not in the archive")
        if owner is not None and owner != conversation_id:
            raise _refused(entry, f"{name} belongs to conversation {owner}, not to conversation {conversation_id}")
    return {id_: seq for id_, (_, seq) in messages.items()}


def _check_merge(archive: Archive, conversation_id: int, entry: LogEntry) -> None:
    sources: list[dict[str, Any]] = entry.detail.get("sources", [])
    is_whole = entry.detail.keys() >= {"sources", "ids", "superseded", "shift"}
    if not (is_whole and all(source.keys() >= _SOURCE for source in sources)):
        raise _refused(entry, "the log does not say what was merged")
    key = archive.conversations.get(conversation_id).session_key
    for source in sources:
        id_ = source["id"]
        try:
            session_key = archive.conversations.get(id_).session_key
        except NotFound:
            raise _refused(entry, f"conversation {id_}, which was merged, is not in the archive") from None
        if session_key != key:
            raise _refused(entry, f"conversation {id_} is of another session than the one that was merged")
        if archive.messages.last_seq(id_):
            raise _refused(entry, f"conversation {id_}, which was merged, has new messages of its own")
        items = [item for _, item in source["context"]]
        seqs = _require_own(archive, conversation_id, entry, [*items, *source["summaries"]])
        if any(not 0 < seq - source["offset"] <= source["last"] for seq in seqs.values()):
            raise _refused(entry, f"the messages of conversation {id_} are no longer where they were put")
