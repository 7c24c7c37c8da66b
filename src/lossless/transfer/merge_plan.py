"""What becomes of one conversation that comes in: its rows under the archive's ids. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lossless.model.times import parse_time, row_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from lossless.store.bundles import Bundle, MessageId, Values
    from lossless.store.versions import Copy


@dataclass(slots=True)
class Plan:
    """What becomes of one conversation."""

    bundle: Bundle
    #: The conversation of the archive that it is, None for a new one.
    target: int | None
    messages: dict[MessageId, int]
    keeps_numbers: bool = False
    summaries: list[Values] = field(default_factory=list)
    #: The ids that summaries have in the archive.
    names: dict[str, str] = field(default_factory=dict)
    known_summaries: int = 0
    dropped: list[str] = field(default_factory=list)
    is_new: dict[str, set[str]] = field(default_factory=dict)
    #: Files whose rows are here and whose bytes only the source has.
    without_bytes: list[Values] = field(default_factory=list)
    #: Messages that are here already and come with other words, by their ids here.
    copies: list[tuple[int, Copy]] = field(default_factory=list)
    #: Whether this conversation gets the boundary of its session.
    has_boundary: bool = False

    @property
    def new_count(self) -> int:
        """How many messages are new."""
        return sum(key.id not in self.messages for key in self.bundle.keys)

    @property
    def keeps_places(self) -> bool:
        """Whether the messages of a new conversation can stand at the seqs that they had."""
        return all(one < other for one, other in pairwise([0, *(key.seq for key in self.bundle.keys)]))

    @property
    def are_numbers_told(self) -> bool:
        """Whether the numbers of messages grow with their places, or the log says why they do not."""
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

    def new_messages(self) -> Iterator[Values]:
        """The messages that are not here yet."""
        known = frozenset(self.messages)
        for page in self.bundle.pages():
            yield from (message for message in page if message["message_id"] not in known)

    def known_parts(self) -> int:
        """How many parts the messages have that are here already."""
        if not self.messages:
            return 0
        pages = self.bundle.pages()
        return sum(len(one["parts"]) for page in pages for one in page if one["message_id"] in self.messages)

    def new_files(self) -> list[Values]:
        """The rows of files that are not here yet."""
        return [row for row in self.bundle.tables.get("large_files", ()) if row["file_id"] in self.is_new["files"]]

    def item(self, item: Any) -> int | str | None:
        """What an item is called in the archive; None for one that is not there."""
        return self.names.get(item) or self.messages.get(item)


def renamed(plan: Plan, one: Values, now: datetime) -> Values:
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


def context_rows(plan: Plan, now: datetime) -> list[Values]:
    """The context of the conversation under the archive's ids."""
    found: dict[int | str, Values] = {}
    for item in plan.bundle.context:
        is_message = item["summary_id"] is None
        id_ = plan.messages.get(item["message_id"]) if is_message else plan.names.get(item["summary_id"])
        if id_ is not None:
            ids = {"message_id": id_ if is_message else None, "summary_id": None if is_message else id_}
            found.setdefault(id_, item | ids | {"created_at": item["created_at"] or row_time(now)})
    return list(found.values())


def time_or(given: object, other: str, now: datetime) -> str:
    """A time that can be read: the one given, else another, else now."""
    for text in (given, other):
        try:
            parse_time(str(text))
        except ValueError:
            continue
        return str(text)
    return row_time(now)


def unnumbered(rows: list[Values], name: str) -> list[Values]:
    """Rows without their numbers: the archive gives its own."""
    return [{key: value for key, value in row.items() if key != name} for row in rows]
