"""The context on disk: its ordered items, the summaries among them with their sources, and a log of every change."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lossless.errors import ArchiveCorrupt, Stale
from lossless.model.budget import budget_tokens, message_budget_tokens
from lossless.model.context import ContextItem, MessageItem, NewSummary, Summary, SummaryItem, budget_sum, token_sum
from lossless.model.records import ContextChange, TokensSaved
from lossless.model.times import parse_time, row_time
from lossless.store.database import (
    Database,
    Row,
    Sql,
    TableAccess,
    column_count,
    column_text,
    column_texts,
    column_time,
    group_rows,
    load_queries,
    only,
    row_values,
    time_or_epoch,
)
from lossless.store.rows import RESTORE_ADVICE, MessageSketch, PartRow, json_object, sketch_message

if TYPE_CHECKING:
    from lossless.model.messages import Json, Role
    from lossless.store.messages import SearchIndex


CLAW_ACTOR = "lossless-claw"
#: The action of a change of words; and within what time, and up to how many messages, consecutive ones share an entry.
REVISE = "revise"
_ONE_ENTRY, _MOST_REVISED = timedelta(hours=1), 64
_PAGE = 512
#: The columns of an item: its role, the reference's count of its tokens, and the budget estimate.
_ROLE, _TOKENS, _BUDGET = 3, 4, 7
#: For how many rows of older versions one read computes estimates.
_MOST_ESTIMATED = 2_000
#: The maximum number of system prompts at the start of a context.
_MAX_PREAMBLE = 64
#: Longer contexts keep the gaps in their ordinals: renumbering 5,000 items takes about 45 ms.
_MOST_RENUMBERED = 5_000
#: For how many conversations the position of the last read is remembered.
_MOST_PASSED = 1_024


#: A system prompt, or a host's notice, at the start of a context: its ordinal, its message's id and fingerprint.
PreambleItem: TypeAlias = tuple[int, int, bytes]


#: The newer part of a context, in order: items that are never omitted, then the rest from an index on; and the older
#: messages that were not read, their tokens, and the same by budget estimate.
NewestItems: TypeAlias = "tuple[list[ContextItem], int, tuple[int, int, int]]"


@dataclass(frozen=True, slots=True)
class _ItemsBefore:
    """What precedes an ordinal of a context: items that are never omitted, and the totals of its messages."""

    version: Row | None
    #: The item at the ordinal.
    item: int | str
    ordinal: int
    prompts: tuple[ContextItem, ...]
    summaries: tuple[ContextItem, ...]
    messages: int
    tokens: int
    budget_tokens: int

    @property
    def never_left_out(self) -> tuple[ContextItem, ...]:
        return self.prompts + self.summaries


def item_id(item: ContextItem) -> int | str:
    return item.message_id if isinstance(item, MessageItem) else item.summary_id


class ContextItems(TableAccess):
    """Reads and changes the ordered items of a conversation."""

    queries = load_queries("context", "cleared") | {
        "forget_tokens": load_queries("ingest")["forget_context_tokens"],
        "unreachable": load_queries("verify")["unreachable"],
        "lost_summaries": load_queries("rebuilding")["lost_summaries"],
    }
    #: The context changed: the running count is no longer valid.
    _forget_tokens: Sql[[int], None] = Sql("run", "conversation_id", "forget_tokens")
    _unreachable: Sql[[int], list[int]] = Sql("column", "conversation_id", "unreachable")
    _stamp: Sql[[int], str | None] = Sql("value", "conversation_id", "stamp")
    #: The budget estimates of all items, summed; the stored count where there is none yet.
    budget_tokens: Sql[[int], int] = Sql("count", "conversation_id")
    #: Of each longer message in the context: role, size by budget estimate, whether it is of an earlier turn.
    longer_than: Sql[[int, int], list[tuple[Role, int, int]]] = Sql("rows", "conversation_id tokens")
    tokens: Sql[[int], int] = Sql("count", "conversation_id")
    #: The messages among these that a summary in the context covers.
    covered: Sql[[int, Collection[int]], frozenset[int]] = Sql("set", "conversation_id items")
    #: The first summary in the context over any of these messages: its ordinal and its id.
    above: Sql[[int, Collection[int]], tuple[int, str] | None] = Sql("row", "conversation_id items")
    #: The ordinals of the newest messages of a context.
    ordinals: Sql[[int, int], dict[int, int]] = Sql("pairs", "conversation_id limit")
    #: Remove an item's hidden mark; the caller puts it back into the context.
    unhide: Sql[[int, int | str], None] = Sql("run", "conversation_id item")
    #: Whether the host has left some of the first messages before, for some of the second.
    has_returned: Sql[[int, Sequence[int], Sequence[int]], bool] = Sql("any", "conversation_id left back")
    next_ordinal: Sql[[int], int] = Sql("count", "conversation_id")
    #: Put a message or a summary at a free ordinal.
    put: Sql[[int, int, int | str, datetime], None] = Sql("run", "conversation_id ordinal item now")
    #: The conversations of some messages and summaries.
    conversations_of: Sql[[Sequence[int], Sequence[str]], list[int]] = Sql(
        "column", "message_ids summary_ids", "written_in"
    )
    #: How many items a context has, and how many of them are summaries.
    counts: Sql[[int], tuple[int, int]] = Sql("row", "conversation_id")

    def __init__(self, database: Database) -> None:
        self._db = database
        self._passed: dict[int, _ItemsBefore] = {}
        #: Estimates of rows without one, computed once and stored with the next fold.
        self._estimates: dict[int | str, int] = {}

    def items(self, conversation_id: int) -> list[ContextItem]:
        """The whole context in order."""
        return self._items(self._rows("items", conversation_id=conversation_id))

    def newest_items(
        self, conversation_id: int, most_tokens: int, shown: Callable[[Role, int, bool], int] | None = None
    ) -> NewestItems:
        """The newest items within `most_tokens`, at least back to the newest user message.

        Leading system prompts and all summaries are included. Only the oldest messages are skipped, so the cost depends
        on the budget, not the history. A message counts as `shown` says for its role, its tokens, and whether it
        precedes the newest user message.
        """
        place = {"conversation_id": conversation_id}
        user = column_count((self._row("newest_user", place) or (sys.maxsize,))[0])

        def size(row: Row) -> int:
            tokens, role = column_count(row[_TOKENS]), row[_ROLE]
            is_past = column_count(row[0]) < user < sys.maxsize
            return tokens if shown is None or role is None else shown(role, tokens, is_past)

        rows: list[Row] = []
        sizes: list[int] = []
        tokens, is_whole, before = 0, False, sys.maxsize
        while not is_whole and (tokens <= most_tokens or before > user < sys.maxsize):
            page = self._rows("newest_items", place | {"limit": _PAGE, "ordinal": before})
            rows += page
            sizes += map(size, page)
            tokens = sum(sizes)
            is_whole = len(page) < _PAGE
            before = page[-1][0] if page else before
        while len(rows) > 1 and column_count(rows[-1][0]) < user and tokens - sizes[-1] > most_tokens:
            rows.pop()
            tokens -= sizes.pop()
            is_whole = False
        newest = self._items(rows[::-1])
        if is_whole:
            return newest, 0, (0, 0, 0)
        passed = self._before(conversation_id, newest[0])
        older, head = passed.never_left_out, passed.prompts
        unread = passed.messages - len(head), passed.tokens - token_sum(head), passed.budget_tokens - budget_sum(head)
        return [*older, *newest], len(older), unread

    def _before(self, conversation_id: int, item: ContextItem) -> _ItemsBefore:
        """What precedes an item: computed from an earlier position if there were only appends since."""
        version = self._row("version", conversation_id=conversation_id)
        known = self._passed.get(conversation_id)
        if known is not None and (known.version != version or not self._is_unchanged(conversation_id, known)):
            known = None
        if known is None or any(prompt.ordinal >= item.ordinal for prompt in known.prompts):
            before = {"conversation_id": conversation_id, "first": -sys.maxsize, "ordinal": item.ordinal}
            prompts = tuple(self._items(self._rows("prompts_before", before)))
            summaries = tuple(self._items(self._rows("summaries_between", before)))
            totals = self._row("messages_between", before) or (0, 0, 0)
            passed = _ItemsBefore(version, item_id(item), item.ordinal, prompts, summaries, *totals)
        else:
            passed = self._moved(conversation_id, known, item)
        if passed.messages > len(passed.prompts):
            if len(self._passed) >= _MOST_PASSED:
                self._passed.clear()
            self._passed[conversation_id] = passed
        return passed

    def _is_unchanged(self, conversation_id: int, known: _ItemsBefore) -> bool:
        ordinals = [*(item.ordinal for item in known.never_left_out), known.ordinal]
        there = self._items(self._rows("at", conversation_id=conversation_id, ordinals=ordinals))
        is_same = len(there) == len(ordinals) and tuple(there[:-1]) == known.never_left_out
        return is_same and item_id(there[-1]) == known.item

    def _moved(self, conversation_id: int, known: _ItemsBefore, item: ContextItem) -> _ItemsBefore:
        """What precedes another item; the cost depends on the distance."""
        low, high = sorted((known.ordinal, item.ordinal))
        between = {"conversation_id": conversation_id, "first": low, "ordinal": high}
        count, tokens, budget = self._row("messages_between", between) or (0, 0, 0)
        if high == item.ordinal:
            summaries = known.summaries + tuple(self._items(self._rows("summaries_between", between)))
        else:
            count, tokens, budget = -count, -tokens, -budget
            summaries = tuple(summary for summary in known.summaries if summary.ordinal < low)
        messages, total = known.messages + count, known.tokens + tokens
        return replace(
            known, item=item_id(item), ordinal=item.ordinal, summaries=summaries, messages=messages, tokens=total,
            budget_tokens=known.budget_tokens + budget,
        )  # fmt: skip

    def _items(self, rows: Sequence[Row]) -> list[ContextItem]:
        """Rows as items; estimates missing in older versions are computed, newest first, up to a limit per read."""
        items = [context_item(row) for row in rows]
        lacking = [item for item, row in zip(items, rows, strict=True) if row[_BUDGET] is None]
        if not lacking:
            return items
        wanted = [id_ for id_ in map(item_id, lacking) if id_ not in self._estimates][-_MOST_ESTIMATED:]
        found = self.sketches([id_ for id_ in wanted if isinstance(id_, int)])
        self._estimates |= {id_: message_budget_tokens(known.message) for id_, known in found.items()}
        texts = self._rows("summary_texts", ids=[id_ for id_ in wanted if isinstance(id_, str)])
        self._estimates |= {id_: budget_tokens(text) for id_, text in texts if isinstance(text, str)}
        return [
            replace(item, budget_tokens=self._estimates.get(item_id(item), -1)) if row[_BUDGET] is None else item
            for item, row in zip(items, rows, strict=True)
        ]

    def sketches(self, message_ids: Sequence[int]) -> dict[int, MessageSketch]:
        """Messages by id, without their originals; unknown ids are skipped."""
        if not message_ids:
            return {}
        ids = {"ids": message_ids}
        parts = group_rows(self._rows("parts", ids), PartRow)
        return {row[0]: sketch_message(row, parts.get(row[0], ())) for row in self._rows("sketches", ids)}

    def recipes(self, message_ids: Sequence[int]) -> dict[int, Json]:
        """Recipes for the originals of intercepted messages, by message id."""
        notes = ((id_, json_object(text).get("restore")) for id_, text in self._rows("notes", ids=message_ids))
        return {id_: recipe for id_, recipe in notes if recipe is not None}

    def replace(self, conversation_id: int, sources: Sequence[ContextItem], summary_id: str, now: datetime) -> int:
        """Replace a run of items by a summary; returns its ordinal.

        Raises `Stale` when the run is no longer contiguous; a run that moved is replaced at its new position.
        """
        wanted = [item_id(item) for item in sources]
        first, last = sources[0].ordinal, sources[-1].ordinal
        there = self._rows("range", conversation_id=conversation_id, first=first, last=last)
        if wanted != [message_id if summary_id is None else summary_id for _, message_id, summary_id in there]:
            items = self.items(conversation_id)
            ids = [item_id(item) for item in items]
            start = ids.index(wanted[0]) if wanted[0] in ids else len(ids)
            if ids[start : start + len(wanted)] != wanted:
                raise Stale("the context changed while this summary was written")
            first, last = items[start].ordinal, items[start + len(wanted) - 1].ordinal
        self.replace_run(conversation_id, first, last, [summary_id], now)
        for query in ("keep_message_estimate", "keep_summary_estimate"):
            self._run_many(query, [{"id": id_, "tokens": tokens} for id_, tokens in self._estimates.items()])
        self._estimates.clear()
        return first

    def replace_run(
        self, conversation_id: int, first: int, last: int, items: Sequence[int | str], now: datetime
    ) -> None:
        """Replace a run of ordinals by items; later items move up when more space is needed."""
        place = {"conversation_id": conversation_id, "first": first, "last": last}
        self._run("remove_range", place)
        following: int | None = self._value("next_after", place)
        if following is not None:
            self._make_space(conversation_id, following, first + len(items) - following)
        for n, item in enumerate(items):
            self.put(conversation_id, first + n, item, now)
        self._forget_tokens(conversation_id)

    def _make_space(self, conversation_id: int, ordinal: int, by: int) -> None:
        """Move the items from an ordinal on by so many, if any."""
        if by > 0:
            self._run("shift", conversation_id=conversation_id, by=by, first=ordinal)
            self._run("shift_back", conversation_id=conversation_id)

    def close_gaps(self, conversation_id: int) -> bool:
        """Renumber the items from 0 without gaps, in very long contexts only the newest; True when any changed.

        lossless-claw 1.0 cannot compact across a gap.
        """
        place = {"conversation_id": conversation_id}
        (before,) = self._row("numbered_before", place | {"most": _MOST_RENUMBERED}) or (-1,)
        place["before"] = before
        count, newest = self._row("span", place) or (0, before)
        if newest - before == count:
            return False
        self._run("close_gaps", place)
        self._run("shift_back", conversation_id=conversation_id)
        return True

    def hide(self, conversation_id: int, items: Sequence[int | str], cause: str, now: datetime) -> None:
        """Remove messages or summaries from the context with a recorded cause; the archive keeps them."""
        place = {"conversation_id": conversation_id, "items": items}
        self._run("remove_messages", place)
        self._run("remove_summaries", place)
        self._run("hide", place | {"cause": cause, "at": now})
        self._forget_tokens(conversation_id)

    def take_out(self, conversation_id: int, message_ids: Sequence[int]) -> None:
        """Remove messages from the context that a summary in it now covers."""
        self._run("remove_messages", conversation_id=conversation_id, items=message_ids)
        self._forget_tokens(conversation_id)

    def reveal(self, conversation_id: int, message_ids: Sequence[int], now: datetime) -> None:
        """Put messages of a branch back at the end of the context, in the given order.

        One that a summary of the context now covers stays there; one that is in the context moves.
        """
        place = {"conversation_id": conversation_id, "items": message_ids}
        covered = self.covered(conversation_id, message_ids)
        ids = [id_ for id_, stands in self._rows("revivable", place) if stands or id_ not in covered]
        self._run("return_from_branch", place)
        self._run("remove_messages", place)
        ordinal = self.next_ordinal(conversation_id)
        for n, id_ in enumerate(ids):
            self.put(conversation_id, ordinal + n, id_, now)

    def set_items(self, conversation_id: int, items: Iterable[tuple[int, int | str]], now: datetime) -> None:
        """Set a context to exactly these items at these ordinals."""
        self._run("clear", conversation_id=conversation_id)
        for ordinal, item in items:
            self.put(conversation_id, ordinal, item, now)

    def preamble(self, conversation_id: int) -> tuple[list[PreambleItem], int | None]:
        """The leading system prompts and notices of the context, and the ordinal of the item after them."""
        head = self._rows("head", conversation_id=conversation_id, limit=_MAX_PREAMBLE)
        prompts: list[PreambleItem] = []
        for ordinal, message_id, role, fingerprint, is_preamble in head:
            if role != "system" and not is_preamble:
                return prompts, ordinal
            prompts.append((ordinal, message_id, fingerprint))
        return prompts, None

    def begin_with(self, conversation_id: int, message_ids: Sequence[int], now: datetime) -> None:
        """Replace the leading system prompts of the context by these messages."""
        prompts, first = self.preamble(conversation_id)
        place = {"conversation_id": conversation_id, "items": [id_ for _, id_, _ in prompts]}
        self._run("remove_messages", place)
        ordinal = len(message_ids) if first is None else first
        self._put_before(conversation_id, message_ids, ordinal, ordinal, now)

    def _put_before(
        self, conversation_id: int, message_ids: Sequence[int], ordinal: int, free: int, now: datetime
    ) -> None:
        """Put messages just before an ordinal; items from there on move when too few ordinals are free."""
        lacking = max(0, len(message_ids) - free)
        self._make_space(conversation_id, ordinal, lacking)
        for n, id_ in enumerate(message_ids, ordinal + lacking - len(message_ids)):
            self.put(conversation_id, n, id_, now)

    def insert_before(
        self, conversation_id: int, message_ids: Sequence[int], before: Sequence[int], now: datetime
    ) -> None:
        """Move messages before the first of some others that is in the context; without one they stay."""
        place = {"conversation_id": conversation_id, "items": before}
        ordinal: int | None = self._value("first_of", place)
        if ordinal is None:
            return
        self._run("remove_messages", place | {"items": message_ids})
        previous = self._value("previous_ordinal", conversation_id=conversation_id, ordinal=ordinal)
        free = ordinal if previous is None else ordinal - 1 - previous
        self._put_before(conversation_id, message_ids, ordinal, free, now)

    def last_fold_at(self, conversation_id: int) -> datetime | None:
        return column_time(self._value("last_fold", conversation_id=conversation_id))

    def log(self, conversation_id: int, change: ContextChange, now: datetime) -> None:
        """Add a log entry about a change, in the transaction of the change.

        A revision takes the place of the entry just before it if that is a recent revision, too, and lists its messages
        as well: a host that decorates its newest message revises one in every turn.
        """
        if change.action == REVISE:
            recent = {"conversation_id": conversation_id, "since": now - _ONE_ENTRY, "most": _MOST_REVISED}
            for revised, tokens in self._rows("join_revision", recent):
                both = tuple(dict.fromkeys((*json.loads(revised), *change.added)))
                change = replace(change, added=both, tokens_before=tokens)
        self._run("log", row_values(change) | {"conversation_id": conversation_id, "at": now})
        self._forget_tokens(conversation_id)

    def saved(self, since: datetime, conversation_id: int | None = None) -> list[TokensSaved]:
        """What folds since a moment save, by the model of their summaries and by conversation."""
        return self._records(TokensSaved, "saved", since=since, conversation_id=conversation_id)

    def call_ids(self, conversation_id: int) -> dict[int, frozenset[str]]:
        """The tool call ids of each message in the context that has any."""
        found = self._lists("call_ids", conversation_id=conversation_id)
        return {message_id: frozenset(map(str, ids)) for message_id, ids in found.items()}

    def was_cleared(self, conversation_id: int, unreachable: Sequence[int]) -> bool:
        """Whether these unreachable messages left the context by `/new`.

        Then the context has nothing older than the last of them, and lossless-claw has recorded clearing it at a time
        that is no older than they are. lossless-claw 1.0 records no such time.
        """
        place = {"conversation_id": conversation_id, "ids": unreachable}
        if self._any("older_in_context", place):
            return False
        at = self._stamp(conversation_id)
        return self._any("has_pending") if at is None else not self._any("newer_messages", place | {"at": at})

    def record_cleared(self, conversation_ids: Iterable[int] | None = None) -> None:
        """Hide what has left these contexts, or all that were cleared since our last entry, by `/new`.

        Starts a transaction if needed.
        """
        for id_ in self._column("stamped") if conversation_ids is None else conversation_ids:
            unreachable = self._unreachable(id_)
            if not unreachable and self._stamp(id_) is None:
                continue
            with self._db.transaction():
                unreachable = self._unreachable(id_)
                if unreachable and not self.was_cleared(id_, unreachable):
                    continue
                at, tokens = self._stamp(id_), self.tokens(id_)
                now = datetime.now(UTC) if at is None else parse_time(at)
                # summaries first: they cover what is under them
                gone: list[int | str] = self._column("lost_summaries", conversation_id=id_)
                self.hide(id_, gone, "new", now)
                messages = self._unreachable(id_)
                self.hide(id_, messages, "new", now)
                gone += messages
                self.close_gaps(id_)
                self.log(id_, ContextChange("new", CLAW_ACTOR, None, tuple(gone), (), 0, tokens, tokens), now)


def context_item(row: Sequence[Any]) -> ContextItem:
    """An item from its columns: ordinal, message, summary, role, tokens, seq, depth, estimate for budgets."""
    ordinal, message_id, summary_id, role, tokens, seq, depth, budget = row
    known = budget if isinstance(budget, int) else -1
    if summary_id is not None:
        return SummaryItem(ordinal, column_text(summary_id), column_count(depth), column_count(tokens), known)
    return MessageItem(ordinal, message_id, role or "user", column_count(tokens), column_count(seq), known)


#: A change that a stale summary does not reflect: a message was reworded, left the context, or was added. It has the
#: message's id and content.
SourceChange: TypeAlias = tuple[int, Literal["revised", "removed", "added"], str]


class Summaries(TableAccess):
    """Reads summaries and their sources; writes new ones."""

    queries = load_queries("summaries")
    #: The messages that a leaf was made of, in order.
    message_ids: Sql[[str], list[int]] = Sql("column", "id", "messages_of")
    #: The summaries that were made of this one.
    used_in: Sql[[str], list[str]] = Sql("column", "id")
    former_texts: Sql[[str], frozenset[str]] = Sql("set", "id")
    #: The leaf over each message, if there is one.
    covering: Sql[[Sequence[int]], dict[int, str]] = Sql("pairs", "ids")
    #: The newest version of a message, and the newest change of a context; later changes are found by them.
    moment: Sql[[], tuple[int, int]] = Sql("row")

    def __init__(self, database: Database, index: SearchIndex) -> None:
        super().__init__(database)
        self._index = index
        self._has_pending: bool | None = None

    def insert(self, conversation_id: int, sources: Sequence[ContextItem], new: NewSummary, now: datetime) -> None:
        """Store a summary with links to its sources and the spans and counts derived from them."""
        message_ids: list[int | str] = [item.message_id for item in sources if isinstance(item, MessageItem)]
        summary_ids: list[int | str] = [item.summary_id for item in sources if isinstance(item, SummaryItem)]
        ids, source = (message_ids, "message") if message_ids else (summary_ids, "source")
        *spans, count = self._rows("span_of_messages" if message_ids else "span_of_summaries", ids=ids)[0]
        if count != len(ids):
            raise Stale(f"a {source} of this summary is gone")
        names = ("earliest", "latest", "descendants", "descendant_tokens", "source_tokens")
        values = row_values(new) | dict(zip(names, spans, strict=True)) | {"conversation_id": conversation_id}
        values |= {"kind": "leaf" if new.depth == 0 else "condensed", "created": row_time(now)}
        self._run("insert", values | {"files": json.dumps(new.file_ids, separators=(",", ":"))})
        self._run_many(f"link_{source}", [(new.id, id_, n) for n, id_ in enumerate(ids)])
        self._index.write_summary(new.id, new.content)

    def mark_pending_stale(self, conversation_id: int, first: int, last: int) -> None:
        """Tell a live upstream that its unfinished summaries over these ordinals are outdated."""
        if self._has_pending is None:
            self._has_pending = self._any("has_pending")
        if self._has_pending:
            self._run("mark_pending_stale", conversation_id=conversation_id, first=first, last=last)
            self._run("mark_pending_nodes_stale", conversation_id=conversation_id)

    def get(self, summary_id: str) -> Summary:
        """One summary; raises `NotFound`."""
        return only(self.many([summary_id]), "summary", summary_id)

    def many(self, summary_ids: Sequence[str]) -> list[Summary]:
        """Summaries by id with the ids of their sources, in the given order; unknown ids are skipped."""
        if not summary_ids:
            return []
        ids = self._seen(summary_ids)
        sources = group_rows(self._rows("sources_of", ids), column_text)
        found: dict[str, Summary] = {}
        for row in self._rows("by_ids", ids):
            id_, owner, depth, content, tokens, earliest, latest, count, below, source, created, files, model = row
            if not isinstance(content, str):
                raise ArchiveCorrupt(f"summary {id_} cannot be read back: its content is not text; {RESTORE_ADVICE}")
            found[id_] = Summary(
                id_, owner, column_count(depth), content, column_count(tokens), column_time(earliest),
                column_time(latest), column_count(count), column_count(below), column_count(source),
                time_or_epoch(created), column_texts(files), model, tuple(sources[id_]),
            )  # fmt: skip
        return [found[id_] for id_ in summary_ids if id_ in found]

    def prepared(self, conversation_id: int, message_ids: Sequence[int]) -> Summary | None:
        """The leaf written in advance for exactly these messages and not yet used, if there is one."""
        for (id_,) in self._rows("prepared", conversation_id=conversation_id, first=message_ids[0]):
            if self.message_ids(id_) == list(message_ids):
                return self.get(id_)
        return None

    def mark_stale(self, message_ids: Sequence[int], now: datetime) -> tuple[str, ...]:
        """Record that these messages were revised under every summary that covers them; returns those summaries."""
        values = {"ids": message_ids, "at": row_time(now)}
        found = tuple(self._column("above", values))
        self._run("mark_stale", values)
        return found

    def stale(self, conversation_id: int) -> dict[str, tuple[int, ...]]:
        """The stale summaries of a conversation, and the revised messages of each."""
        found = self._lists("stale", conversation_id=conversation_id)
        return {summary_id: tuple(ids) for summary_id, ids in found.items()}

    def clear_stale(self, summary_ids: Sequence[str], since: int | None = None) -> None:
        """Record that these summaries, sources first, were rewritten and reflect their messages.

        Changes that their sources do not reflect yet, and revisions after version `since`, stay recorded.
        """
        last = 2**62 if since is None else since
        self._run_many("clear_stale", [{"id": id_, "since": last} for id_ in summary_ids])

    def changes_below(self, summary_ids: Sequence[str]) -> dict[str, tuple[SourceChange, ...]]:
        """The changes that stale ones of these summaries do not reflect, in message order."""
        found = group_rows(self._rows("changes_below", ids=summary_ids), lambda *change: change)
        return {summary_id: tuple(changes) for summary_id, changes in found.items()}

    def mark_new(
        self, new_id: str, sources: Sequence[ContextItem], since: tuple[int, int] | None, now: datetime
    ) -> None:
        """Record the changes that a newly written summary cannot reflect: those missing in its sources, and later ones.

        `since` is the moment at which its sources were read.
        """
        if names := [item.summary_id for item in sources if isinstance(item, SummaryItem)]:
            self._run("carry_stale", id=new_id, at=row_time(now), ids=names)
        if since is None:
            return
        values = {"id": new_id, "version": since[0], "change": since[1], "at": row_time(now)}
        if self._any("has_changed_since", values):
            self._run("mark_since", values)

    def mark_older(self, summary_id: str, log_id: int, now: datetime) -> None:
        """Record the changes under a summary whose earlier text was restored."""
        since = self._value("written_at", id=summary_id, log_id=log_id)
        self._run("mark_changed_since", id=summary_id, since=since, at=row_time(now))

    def join(self, conversation_id: int, message_ids: Sequence[int], before: int) -> str | None:
        """Add messages to the leaf that covers another one, just before that one; returns the leaf.

        None, and no change, when no summary of the context covers it, or one begins with it.
        """
        found = self._row("leaf_in_context", conversation_id=conversation_id, message_id=before)
        if found is None or self._value("first_below", id=found[2]) == before:
            return None
        leaf: str = found[0]
        ordinal: int = found[1]
        self._run("make_room", id=leaf, ordinal=ordinal, by=len(message_ids))
        self._run_many("link_message", [(leaf, id_, ordinal + n) for n, id_ in enumerate(message_ids)])
        return leaf

    def leaves_over(self, message_ids: Sequence[int]) -> set[str]:
        """All leaves over these messages, including prepared ones that are not used yet."""
        return {row[1] for row in self._rows("covering", ids=message_ids)}
