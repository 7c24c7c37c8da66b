"""What merging one conversation changes: aligned messages, summaries, rows and the log with new ids. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lossless.ingest.match import MatchedMessage, match
from lossless.model.times import parse_time, row_time, state_time
from lossless.store.rows import json_object

if TYPE_CHECKING:
    from lossless.store.bundles import Bundle, MessageId, MessageKey, RowValues
    from lossless.store.versions import MessageCopy


@dataclass(slots=True)
class ImportReport:
    """The result of an import. A dry run has the same counts and wrote nothing."""

    dry_run: bool = False
    conversations_scanned: int = 0
    #: New conversations, and existing ones that gained something.
    conversations_inserted: int = 0
    conversations_joined: int = 0
    messages_inserted: int = 0
    messages_skipped: int = 0
    #: Other wordings of existing messages.
    versions_inserted: int = 0
    message_parts_inserted: int = 0
    message_parts_skipped: int = 0
    summaries_inserted: int = 0
    summaries_skipped: int = 0
    #: Summaries without valid sources, which are omitted. Of these, those without any link, and those whose links are
    #: broken or lead into several conversations.
    summaries_without_sources: int = 0
    summaries_skipped_no_messages: int = 0
    summaries_skipped_multi_session: int = 0
    #: Always 0: here a summary may be used in several others.
    summaries_multi_parent_collapsed: int = 0
    #: Context log entries that mark the end of an import, one for each session that gained something.
    compaction_events_inserted: int = 0
    files_copied: int = 0
    files_skipped: int = 0
    #: Files with rows whose bytes were not found.
    files_missing: int = 0
    pins_inserted: int = 0
    briefs_inserted: int = 0
    #: Permanently deleted conversations of the source: recorded here, so that no transcript imports them again.
    pruned_inserted: int = 0
    #: Messages that were in no context and under no summary in one: they are hidden, with a cause.
    messages_hidden: int = 0
    #: Telemetry of another program that cannot be stored here.
    events_dropped: int = 0
    sessions_touched: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ImportPlan:
    """How one conversation is merged into the archive."""

    bundle: Bundle
    #: The matching conversation of the archive, None for a new one.
    target: int | None
    messages: dict[MessageId, int]
    keeps_numbers: bool = False
    summaries: list[RowValues] = field(default_factory=list)
    #: The ids of summaries in the archive.
    names: dict[str, str] = field(default_factory=dict)
    known_summaries: int = 0
    dropped: list[str] = field(default_factory=list)
    is_new: dict[str, set[str]] = field(default_factory=dict)
    #: Files with rows here whose bytes only the source has.
    without_bytes: list[RowValues] = field(default_factory=list)
    #: Existing messages with different imported text, by their ids here.
    copies: list[tuple[int, MessageCopy]] = field(default_factory=list)
    #: Whether this conversation gets the boundary of its session.
    has_boundary: bool = False
    #: The new numbers of log entries and pins, by those in the source, and of conversations that were imported before.
    logs: Mapping[int, int] = field(default_factory=dict)
    pins: Mapping[int, int] = field(default_factory=dict)
    conversations: Mapping[Any, int] = field(default_factory=dict)

    @property
    def new_count(self) -> int:
        return sum(key.id not in self.messages for key in self.bundle.keys)

    @property
    def keeps_places(self) -> bool:
        """Whether the messages of a new conversation can keep their seqs."""
        return all(one < other for one, other in pairwise([0, *(key.seq for key in self.bundle.keys)]))

    @property
    def are_numbers_explained(self) -> bool:
        """Whether message ids increase with their positions, or the log explains why not."""
        log = self.bundle.tables.get("context_log", ())
        ids = [key.id for key in self.bundle.keys]
        are_growing = all(
            isinstance(one, int) and isinstance(other, int) and one < other for one, other in pairwise(ids)
        )
        return are_growing or any(row["action"] in ("merge", "transplant") for row in log)

    @property
    def gains(self) -> bool:
        """Whether messages or summaries are new."""
        return bool(self.new_count or self.summaries)

    @property
    def changes(self) -> bool:
        """Whether the conversation is new or gains something."""
        return self.target is None or self.gains

    def count_parts(self, *, known: bool) -> int:
        """How many parts the existing messages have, or the new ones."""
        messages = (message for page in self.bundle.pages() for message in page)
        return sum(len(one["parts"]) for one in messages if (one["message_id"] in self.messages) == known)

    def new_files(self) -> list[RowValues]:
        return [row for row in self.bundle.tables.get("large_files", ()) if row["file_id"] in self.is_new["files"]]

    def item(self, item: Any) -> int | str | None:
        """The id of an item in the archive; None for a missing one."""
        return self.names.get(item) or self.messages.get(item)


def rename_summary(plan: ImportPlan, one: RowValues, now: datetime) -> RowValues:
    """A summary under the archive's ids."""
    changed = [(plan.messages[id_], str(at)) for id_, at in one.get("stale", ()) if id_ in plan.messages]
    return one | {
        "stale": changed,
        "summary_id": plan.names[one["summary_id"]],
        "messages": [plan.messages[id_] for id_ in one["messages"]],
        "sources": [plan.names[id_] for id_ in one["sources"]],
        "file_ids": one["file_ids"] or "[]",
        "model": one["model"] or "unknown",
        "created_at": one["created_at"] or row_time(now),
    }


def context_rows(plan: ImportPlan, now: datetime) -> list[RowValues]:
    """The context of the conversation under the archive's ids."""
    found: dict[int | str, RowValues] = {}
    for item in plan.bundle.context:
        is_message = item["summary_id"] is None
        id_ = plan.messages.get(item["message_id"]) if is_message else plan.names.get(item["summary_id"])
        if id_ is not None:
            ids = {"message_id": id_ if is_message else None, "summary_id": None if is_message else id_}
            found.setdefault(id_, item | ids | {"created_at": item["created_at"] or row_time(now)})
    return list(found.values())


def valid_time(text: object) -> datetime | None:
    """The time that a text says; None when it says none."""
    try:
        return parse_time(str(text))
    except ValueError:
        return None


#: Why a step of an imported log cannot be undone.
LOST_REASON = "it came from another archive, and not all that it changed came along"


def merged_conversations(log: Sequence[RowValues]) -> set[Any]:
    """The conversations that a log says were merged, by their numbers there."""
    sources = [json_object(row.get("detail")).get("sources") for row in log if row["action"] == "merge"]
    found = [one.get("id") for some in sources if isinstance(some, list) for one in some if isinstance(one, dict)]
    return {id_ for id_ in found if isinstance(id_, int | str)}


#: A logged step refers to something that was not imported, or an entry is another program's.
_NOT_IMPORTED = (KeyError, TypeError, ValueError)


def renumber_log(
    plan: ImportPlan, log: Sequence[RowValues], former: Sequence[RowValues]
) -> tuple[list[RowValues], list[RowValues]]:
    """The entries of a log, and the summaries before their changes."""
    kept, lost = [], set()
    for row in former:
        log_id = int(given) if (given := str(row.get("log_id"))).isdecimal() else 0  # stored as text in files
        try:  # the former state of a summary, under the archive's numbers
            state, (name,) = json_object(row["state"]), _all(plan, [row["summary_id"]])
            state["row"] = state["row"] | {"summary_id": name, "conversation_id": plan.target}
            state["messages"], state["sources"] = _all(plan, state["messages"]), _all(plan, state["sources"])
            text = json.dumps(state, separators=(",", ":"))
            kept.append({"log_id": plan.logs[log_id], "summary_id": name, "state": text})
        except _NOT_IMPORTED:
            lost.add(log_id)
    return [_line(plan, row, is_lost=row["log_id"] in lost) for row in log], kept


def _line(plan: ImportPlan, row: RowValues, *, is_lost: bool) -> RowValues:
    detail = json_object(row.get("detail"))
    removed, added = _items(plan, row["removed"]), _items(plan, row["added"])
    if row["action"] == "undo":
        undone = plan.logs.get(detail.get("undoes", 0))
        detail = {} if undone is None else {"undoes": undone}
    else:
        try:
            is_lost = is_lost or None in (*removed, *added)
            detail = {"lost": LOST_REASON} if is_lost else _detail(plan, row["action"], detail)
        except _NOT_IMPORTED:
            detail = {"lost": LOST_REASON}
    return row | {
        "log_id": plan.logs[row["log_id"]],
        "removed": json.dumps([item for item in removed if item is not None]),
        "added": json.dumps([item for item in added if item is not None]),
        "detail": json.dumps(detail) if detail else None,
    }


def _items(plan: ImportPlan, text: Any) -> list[int | str | None]:
    """The items of a JSON list under the archive's ids, None for a missing message; deleted summaries stay."""
    try:
        items = json.loads(text)
    except (TypeError, ValueError):
        return []
    return [_item(plan, item) for item in items if isinstance(item, int | str)] if isinstance(items, list) else []


def _item(plan: ImportPlan, item: int | str) -> int | str | None:
    return plan.item(item) or (item if plan.keeps_numbers or isinstance(item, str) else None)


def _detail(plan: ImportPlan, action: str, detail: dict[str, Any]) -> dict[str, Any]:
    if action not in ("transplant", "merge"):
        return detail
    if not detail or "lost" in detail:
        return detail or {"lost": LOST_REASON}
    if action == "transplant":
        return detail | _things(plan, detail) | {"messages": _all(plan, detail["messages"])}
    if not plan.keeps_places:
        raise ValueError("the positions of its messages have changed")
    ids = [[[_all(plan, [id_])[0], entry, event] for id_, entry, event in rows] for rows in detail["ids"]]
    sources = [
        source | _things(plan, source) | {
            "id": plan.conversations.get(source["id"], source["id"]) if plan.keeps_numbers
            else plan.conversations[source["id"]],
            "context": [[ordinal, _all(plan, [item])[0]] for ordinal, item in source["context"]],
            "hidden": _all(plan, source["hidden"]),
            "pins": [plan.pins[pin] for pin in source["pins"] if pin in plan.pins],
            "briefs": [[id_, status] for id_, status in source["briefs"] if id_ in plan.is_new["briefs"]],
        }
        for source in detail["sources"]
    ]  # fmt: skip
    return detail | {"sources": sources, "ids": ids, "superseded": _all(plan, detail["superseded"])}


def _things(plan: ImportPlan, one: dict[str, Any]) -> dict[str, Any]:
    """Summaries and files; a file that another conversation has here is excluded."""
    files = [id_ for id_ in one["files"] if id_ in plan.is_new["files"]]
    return {"summaries": _all(plan, one["summaries"]), "files": files}


def _all(plan: ImportPlan, items: Sequence[int | str]) -> list[int | str]:
    found = [item for given in items if (item := _item(plan, given)) is not None]
    if len(found) < len(items):
        raise ValueError("some of these were not imported")
    return found


def align_messages(coming: Sequence[MessageKey], there: Sequence[MessageKey]) -> tuple[dict[MessageId, int], bool]:
    """Pair messages by the host's ids, by a common beginning, by text and time, and by position, role and time.

    Returns the existing messages, the imported id → the archive's id; and whether that is sure: ids of the host or text
    with its time agree, not the text alone.

    A provider's own id is no proof by itself, as calls reuse ids; two that differ distinguish messages. Each is paired
    once, so nothing is duplicated and repeats are kept. A message between the same neighbours, with the same role and
    time, was edited on one side; different text elsewhere is another message.
    """
    size = min(len(coming), len(there))
    begin = next((n for n in range(size) if coming[n].identity != there[n].identity), size)  # the common beginning
    marks, others = (
        [(key.identity if n < begin else f"{key.identity} {_second(key)}").encode() for n, key in enumerate(keys)]
        for keys in (coming, there)
    )
    named = {key.entry_id: n for n, key in enumerate(there) if key.entry_id is not None}
    known = {n: named[key.entry_id] for n, key in enumerate(coming) if key.entry_id in named}
    both = set(marks) & set(others)
    shown = [n for n, mark in enumerate(marks) if n in known or mark in both]
    taken = set(known.values())
    stored = [n for n, mark in enumerate(others) if n in taken or mark in both]
    place = {n: k for k, n in enumerate(stored)}
    found = match(
        [MatchedMessage(marks[n], "user", place[known[n]] if n in known else None) for n in shown],
        [MatchedMessage(others[n], "user") for n in stored],
        _EqualMessages([coming[n] for n in shown], [there[n] for n in stored]),
        last=range(len(stored)),
        follows=begin > 0,
    )
    pairs = [(coming[shown[w]], there[stored[s]]) for w, s in enumerate(found.rows) if s is not None]
    pairs += _edited(coming, there, {one.id: int(other.id) for one, other in pairs})
    is_sure = any(
        (one.entry_id is not None and one.entry_id == other.entry_id)
        or (one.event_key is not None and one.event_key == other.event_key)
        or _second(one) == _second(other)
        for one, other in pairs
    )
    return {one.id: int(other.id) for one, other in pairs}, is_sure


def _second(key: MessageKey) -> str:
    return key.created_at[:19]


class _EqualMessages:
    """Only equal messages match, and only if no id distinguishes them; text is not compared."""

    def __init__(self, coming: Sequence[MessageKey], there: Sequence[MessageKey]) -> None:
        self._coming, self._there = coming, there

    def may_be(self, shown: int, row: int) -> bool:
        one, other = self._coming[shown], self._there[row]
        if one.identity != other.identity:
            return False
        ids = ((one.entry_id, other.entry_id), (one.event_key, other.event_key))
        return all(mine is None or theirs is None or mine == theirs for mine, theirs in ids)

    def likeness(self, shown: int, row: int) -> float:  # noqa: ARG002
        return 0.0

    def _never(self, *_: Any, **__: Any) -> bool:
        return False

    is_respelled = holds = is_held = uses_tools = is_short = is_gap_mark = is_lesser = are_rewritten = _never


def _edited(
    coming: Sequence[MessageKey], there: Sequence[MessageKey], known: Mapping[MessageId, int]
) -> list[tuple[MessageKey, MessageKey]]:
    """Pair messages that were edited: runs of equal length between known messages."""
    found: list[tuple[MessageKey, MessageKey]] = []
    places = {key.id: n for n, key in enumerate(there)}
    taken = set(known.values())
    at = 0
    while known and at < len(coming):
        if coming[at].id in known:
            at += 1
            continue
        end = next((n for n in range(at, len(coming)) if coming[n].id in known), len(coming))
        first = places[known[coming[at - 1].id]] + 1 if at else 0
        last = places[known[coming[end].id]] if end < len(coming) else len(there)
        mine, theirs = coming[at:end], there[first:last]
        if len(mine) == len(theirs) and all(_is_edited(*two, taken) for two in zip(mine, theirs, strict=True)):
            found += zip(mine, theirs, strict=True)
        at = end
    return found


def _is_edited(one: MessageKey, other: MessageKey, taken: Collection[MessageId]) -> bool:
    is_same = one.role == other.role and _second(one) == _second(other)
    return is_same and other.id not in taken and None in (one.entry_id, other.entry_id)


def order_summaries(bundle: Bundle) -> tuple[list[RowValues], list[str]]:
    """The summaries made of messages or summaries of the same conversation, sources first; and the ids of the rest."""
    messages = {key.id: key for key in bundle.keys}
    given = {one["summary_id"]: one for one in bundle.summaries}
    done: dict[str, RowValues] = {}
    for id_ in sources_first(given):
        one = given[id_]
        made_of = [source for source in dict.fromkeys(one["sources"]) if source in done]
        direct = [message for message in dict.fromkeys(one["messages"]) if message in messages]
        if one["kind"] == "leaf" or not made_of:
            made_of = [] if direct else made_of
        if made_of:
            below = [done[source] for source in made_of]
            done[id_] = one | _span(one, [it["earliest_at"] for it in below], [it["latest_at"] for it in below]) | {
                "kind": "condensed", "depth": max(it["depth"] for it in below) + 1, "messages": [],
                "descendant_count": sum(it["descendant_count"] + 1 for it in below),
                "descendant_token_count": sum(it["token_count"] + it["descendant_token_count"] for it in below),
                "source_message_token_count": sum(it["source_message_token_count"] for it in below),
            }  # fmt: skip
        elif direct:
            times = [messages[message].created_at for message in direct]
            done[id_] = one | _span(one, times, times) | {
                "kind": "leaf", "depth": 0, "descendant_count": 0, "descendant_token_count": 0, "messages": direct,
                "source_message_token_count": sum(messages[message].tokens for message in direct),
            }  # fmt: skip
        else:
            continue
        done[id_]["sources"] = made_of
    return list(done.values()), [id_ for id_ in given if id_ not in done]


def sources_first(given: Mapping[str, RowValues]) -> list[str]:
    """The ids with each after its sources; those in a cycle are omitted."""
    sorter = TopologicalSorter({id_: [one for one in row["sources"] if one in given] for id_, row in given.items()})
    with suppress(CycleError):
        sorter.prepare()
    found: list[str] = []
    while ready := sorter.get_ready():
        found += ready
        sorter.done(*ready)
    return found


def _span(one: RowValues, begins: Sequence[Any], ends: Sequence[Any]) -> RowValues:
    first = valid_time(min(filter(None, begins), default=None))
    last = valid_time(max(filter(None, ends), default=None))
    return {
        "earliest_at": one["earliest_at"] or (first and state_time(first)),
        "latest_at": one["latest_at"] or (last and state_time(last)),
    }


def messages_below(summaries: Sequence[RowValues]) -> dict[str, list[MessageId]]:
    """All messages under each summary, in source order; summaries come sources first."""
    found: dict[str, list[MessageId]] = {}
    for one in summaries:
        mine = list(one["messages"])
        for source in one["sources"]:
            mine += found.get(source, [])
        found[one["summary_id"]] = mine
    return found
