"""A Remnic database: read whole, or added to in one transaction."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lossless.errors import ArchiveCorrupt, ArchiveDenied, NotAnArchive
from lossless.paths import expanded, private_folder
from lossless.store.foreign import text
from lossless.store.sql import load
from lossless.store.sqlite import SqliteDatabase
from lossless.store.tidy import value_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from lossless.store.bundles import Values

_QUERIES = load("remnic")
_TABLES = load("migrate")["tables"]
SCHEMA_VERSION = "2"
_BOUNDARY = "import_boundary:"
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Standing:
    """A session of a Remnic database: what it holds, and what of it came from lossless-claw."""

    newest_turn: int = -1
    tokens: int = 0
    #: `conversation|seq` → id and turn of the message.
    known: dict[str, tuple[int, int]] = field(default_factory=dict)
    has_boundary: bool = False


class RemnicFile:
    """A Remnic database. Without a file, and for looking only, an empty one in memory stands for it."""

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        place = expanded(path).absolute()
        is_there = place.exists()
        try:
            if not read_only:
                private_folder(place.parent)
        except OSError as error:
            raise ArchiveDenied(f"{str(place.parent)!r} cannot be used: {error.strerror}") from error
        memory = read_only and not is_there
        self._db = SqliteDatabase(":memory:" if memory else str(place), read_only=read_only and is_there)
        if memory:
            self.create(beside=True)

    def __enter__(self) -> RemnicFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def writing(self) -> AbstractContextManager[None]:
        """All of it, or nothing."""
        return self._db.transaction()

    def reading(self) -> AbstractContextManager[None]:
        """Several reads of one state."""
        return self._db.snapshot()

    def create(self, *, beside: bool) -> None:
        """The tables that are missing, ours beside Remnic's when asked for."""
        for name, sql in _QUERIES.items():
            if name.startswith(("create.", "beside.") if beside else "create."):
                self._db.run(sql)
        self._db.run(_QUERIES["set_meta"], {"key": "schema_version", "value": SCHEMA_VERSION})

    def check(self) -> None:
        """Raises when the file is a database of another program."""
        there = {row[0] for row in self._db.rows(_TABLES)}
        if there and not there & {"lcm_messages", "lcm_meta"}:
            raise NotAnArchive(f"{self._db.path!r} is a database of another program, not Remnic's; nothing was written")

    def has(self, table: str) -> bool:
        """Whether a table is there."""
        return table in {row[0] for row in self._db.rows(_QUERIES["tables"])}

    # --- what is there --------------------------------------------------------------------------------

    def standing(self, session_id: str) -> Standing:
        """How far a session has come."""
        if not self.has("lcm_messages"):
            return Standing()
        place = {"session_id": session_id}
        newest, tokens, _ = self._db.row(_QUERIES["extent"], place) or (-1, 0, 0)
        found = self._db.rows(_QUERIES["imported"], place)
        known = {f"{conversation}|{seq}": (id_, turn) for conversation, seq, id_, turn in found}
        marked = self._db.row(_QUERIES["meta"], {"key": f"{_BOUNDARY}{session_id}"}) is not None
        boundary = marked or self._db.row(_QUERIES["has_boundary"], place) is not None
        return Standing(newest, tokens, known, boundary)

    def nodes_there(self, ids: Iterable[str]) -> dict[str, tuple[str, str | None]]:
        """Summaries by id: their session, and the one above them."""
        if not self.has("lcm_summary_nodes"):
            return {}
        found = self._db.rows(_QUERIES["nodes_there"], {"ids": json.dumps(list(ids))})
        return {id_: (session, parent) for id_, session, parent in found}

    def parts_there(self, message_ids: Iterable[int]) -> set[tuple[int, int]]:
        """Which parts messages have: message and ordinal."""
        if not self.has("lcm_message_parts"):
            return set()
        return set(self._db.rows(_QUERIES["parts_there"], {"ids": json.dumps(list(message_ids))}))

    def next_message(self) -> int:
        """The id of the next message."""
        row = self._db.row(_QUERIES["next_message"]) if self.has("lcm_messages") else None
        return row[0] if row else 1

    # --- adding ---------------------------------------------------------------------------------------

    def add_messages(self, rows: Sequence[tuple[object, ...]], parts: Sequence[tuple[object, ...]]) -> None:
        """Messages and parts; the caller has them indexed at the end."""
        self._db.run_many(_QUERIES["add_message"], rows)
        self._db.run_many(_QUERIES["add_part"], parts)

    def marks(self) -> tuple[int, int]:
        """The newest message and the newest summary, to be given to `index_since`."""
        message = self._db.row(_QUERIES["newest_message"]) or (0,)
        node = self._db.row(_QUERIES["newest_node"]) or (0,)
        return message[0], node[0]

    def index_since(self, marks: tuple[int, int]) -> None:
        """Let Remnic's search find what was added."""
        self._db.run(_QUERIES["index_messages"], {"after": marks[0]})
        self._db.run(_QUERIES["index_nodes"], {"after": marks[1]})

    def add_nodes(self, nodes: Sequence[Values], adopted: Iterable[tuple[str, str]]) -> None:
        """Summaries, those above first; then those that were there without one above them get theirs."""
        self._db.run_many(_QUERIES["add_node"], nodes)
        self._db.run_many(_QUERIES["adopt_node"], [{"id": id_, "parent_id": above} for id_, above in adopted])

    def add_boundary(self, session_id: str, at: str) -> None:
        """Note that a session came from elsewhere up to here."""
        newest, tokens, _ = self._db.row(_QUERIES["extent"], {"session_id": session_id}) or (-1, 0, 0)
        event = {"session_id": session_id, "fired_at": at, "msg_before": newest + 1, "tokens": tokens}
        self._db.run(_QUERIES["add_event"], event)
        self._db.run(_QUERIES["set_meta"], {"key": f"{_BOUNDARY}{session_id}", "value": str(newest + 1)})

    def put_beside(
        self,
        conversation_id: str,
        rows: Iterable[tuple[str, str, str]],
        edges: Iterable[tuple[str, str, int]],
        messages: Iterable[tuple[str, int, int]],
    ) -> None:
        """What Remnic's tables have no room for: kind, id and JSON of rows; exact edges of the graph."""
        self._db.run(_QUERIES["clear_source_rows"], {"conversation_id": conversation_id})
        self._db.run_many(_QUERIES["put_source_row"], [(kind, conversation_id, id_, row) for kind, id_, row in rows])
        self._db.run_many(_QUERIES["put_edge"], edges)
        self._db.run_many(_QUERIES["put_summary_message"], messages)

    # --- reading whole --------------------------------------------------------------------------------

    def sessions(self) -> dict[str, int]:
        """The sessions, and how many messages each has."""
        found: dict[str, int] = dict(self._db.rows(_QUERIES["sessions"]))
        for (session,) in self._db.rows(_QUERIES["node_sessions"]):
            found.setdefault(session, 0)
        return found

    def rows(self, session_id: str) -> list[Values]:
        """Id, turn, role, tokens, time and metadata of the messages of a session, in their order."""
        names = ("id", "turn", "role", "tokens", "created_at", "metadata")
        found = self._db.rows(_QUERIES["session_rows"], {"session_id": session_id})
        return [_row(names, row) for row in found]

    def said(self, ids: Sequence[int]) -> Iterator[list[tuple[int, str, list[Values]]]]:
        """Text and parts of messages, some at a time, in the order asked for."""
        has_parts = self.has("lcm_message_parts")
        names = ("ordinal", "kind", "payload", "tool_name", "file_path", "created_at")
        for start in range(0, len(ids), _PAGE):
            some = ids[start : start + _PAGE]
            values = {"ids": json.dumps(some)}
            contents = {id_: text(content) for id_, content in self._db.rows(_QUERIES["contents"], values)}
            parts: defaultdict[int, list[Values]] = defaultdict(list)
            for id_, *row in self._db.rows(_QUERIES["parts_of"], values) if has_parts else ():
                parts[id_].append(_row(names, row))
            yield [(id_, contents[id_], parts[id_]) for id_ in some]

    def nodes(self, session_id: str) -> list[Values]:
        """The summaries of a session, shallow ones first, with exact sources and messages where they are known."""
        names = ("id", "depth", "parent_id", "text", "tokens", "start", "end", "escalation", "created_at")
        rows = self._db.rows(_QUERIES["session_nodes"], {"session_id": session_id})
        found = [_row(names, row) for row in rows]
        ids = [node["id"] for node in found]
        edges, messages = (
            self._links("edges", "lcm_x_edges", ids),
            self._links("summary_messages", "lcm_x_summary_messages", ids),
        )
        for node in found:
            node["sources"], node["messages"] = edges.get(node["id"]), messages.get(node["id"])
        return found

    def _links(self, query: str, table: str, ids: list[str]) -> dict[str, list[Any]]:
        found: defaultdict[str, list[Any]] = defaultdict(list)
        if self.has(table):
            for id_, linked in self._db.rows(_QUERIES[query], {"ids": json.dumps(ids)}):
                found[id_].append(linked)
        return dict(found)

    def source_rows(self, conversation_id: str) -> dict[str, list[tuple[str, Values]]]:
        """The rows that were kept beside for a conversation, by kind, each with its id."""
        found: defaultdict[str, list[tuple[str, Values]]] = defaultdict(list)
        if self.has("lcm_x_source_rows"):
            for kind, id_, value in self._db.rows(_QUERIES["source_rows"], {"conversation_id": conversation_id}):
                try:
                    row = json.loads(value)
                except (ValueError, TypeError, RecursionError) as error:
                    raise ArchiveCorrupt(f"a row of lcm_x_source_rows ({kind} {id_}) is no JSON") from error
                if isinstance(row, dict):
                    found[kind].append((str(id_), row))
        return dict(found)

    def events(self, sessions: Iterable[str]) -> int:
        """How many real compactions of these sessions are on record; boundaries of imports are none."""
        if not self.has("lcm_compaction_events"):
            return 0
        wanted = set(sessions)
        found = self._db.rows(_QUERIES["events"])
        return sum(count - (equal or 0) for session, count, equal in found if session in wanted)


def _row(names: tuple[str, ...], row: Sequence[Any]) -> Values:
    """A row of Remnic's; ids stay as they are."""
    return {name: value if name == "id" else value_of(name, value) for name, value in zip(names, row, strict=True)}
