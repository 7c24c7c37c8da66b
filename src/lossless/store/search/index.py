"""The search index: entries are written in the transaction of the rows that they find."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from lossless.model.budget import budget_tokens, message_budget_tokens
from lossless.model.identity import fingerprint
from lossless.model.messages import ToolCall
from lossless.model.search_text import INDEX_VERSION, extra_tokens, index_text_of, passages
from lossless.store import rows
from lossless.store.database import load_queries, load_schema
from lossless.store.migrate import split_script
from lossless.store.rows import storable_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lossless.model.messages import Message
    from lossless.store.database import Database

_QUERIES = load_queries("index")
_MIGRATE = load_queries("migrate")

#: Index rows of passages beyond the first live above this; below it a row has its message's id.
PASSAGE_BASE = 1 << 40
_CAUGHT_UP = "indexed_through"
#: The mark up to which all rows are known to be indexed moves on in steps of this.
MARK_STEP = 1000
_BATCH = 500
_ROWS_A_STATEMENT = 500
_SALT = str(INDEX_VERSION).encode()


def index_digest(text: str) -> bytes:
    """Eight bytes that change when the indexed text, or the way it is indexed, changes."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=_SALT).digest()


def indexed_text(content: str, message: Message) -> str:
    """The text of a stored message that search looks at."""
    return storable_text(index_text_of(content, [part.input for part in message.parts if isinstance(part, ToolCall)]))


def index_pieces(text: str) -> list[tuple[int, str]]:
    """The index rows of a text: where each begins, and what it holds. A blank text has none."""
    spans = passages(text)
    return [(0, text)] if len(spans) == 1 else [(start, text[start:end]) for start, end in spans]


class SearchIndex:
    """Keeps our full-text tables, and upstream's where a file has them, in step with the base rows."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._upstream: frozenset[str] | None = None

    @property
    def upstream(self) -> frozenset[str]:
        """Upstream's search tables in this file; a live upstream may read them."""
        if self._upstream is None:
            self._upstream = frozenset(row[0] for row in self._db.rows(_QUERIES["upstream_tables"]))
        return self._upstream

    def add_messages(self, first: int, texts: Sequence[str], contents: Sequence[str]) -> None:
        """Index messages that were just stored under consecutive ids."""
        self.add_texts((first + n, text) for n, text in enumerate(texts))
        if first // MARK_STEP != (first + len(texts)) // MARK_STEP:
            self.mark_if_caught_up(first - 1)
        if "messages_fts" in self.upstream:
            self.add_upstream((first + n, content) for n, content in enumerate(contents))

    def add_texts(self, texts: Iterable[tuple[int, str]]) -> None:
        """Index texts that are not indexed yet, each under its message's id."""
        heads: list[tuple[int, str, str]] = []
        rest: list[tuple[int, int, str]] = []
        for message_id, text in texts:
            if pieces := index_pieces(text):
                heads.append((message_id, pieces[0][1], extra_tokens(pieces[0][1])))
                rest.extend((message_id, start, body) for start, body in pieces[1:])
        self._insert(heads)
        if rest:
            self._add_passages(rest)

    def _add_passages(self, rest: list[tuple[int, int, str]]) -> None:
        row = self._db.row(_QUERIES["next_passage"])
        first: int = row[0] if row else 1
        self._db.run_many(
            _QUERIES["add_passage"],
            [(first + n, message_id, start, len(text)) for n, (message_id, start, text) in enumerate(rest)],
        )
        self._insert([(PASSAGE_BASE + first + n, text, extra_tokens(text)) for n, (_, _, text) in enumerate(rest)])

    def _insert(self, rows: list[tuple[int, str, str]]) -> None:
        """Write index rows, many to a statement: FTS5 writes out a segment whenever a statement begins."""
        for start in range(0, len(rows), _ROWS_A_STATEMENT):
            some = rows[start : start + _ROWS_A_STATEMENT]
            sql = _QUERIES["add_messages"] + ", (?, ?, ?)" * (len(some) - 1)
            self._db.run(sql, [value for row in some for value in row])

    def add_upstream(self, contents: Iterable[tuple[int, str]]) -> None:
        """Upstream indexes content as it is, references to files as header and exploration summary."""
        indexed = [(id_, index_text_of(content)) for id_, content in contents]
        self._db.run_many(_QUERIES["upstream_message"], [row for row in indexed if row[1].strip()])

    def replace_upstream(self, message_id: int, content: str) -> None:
        """Write the words of a message into upstream's search table anew, where the file has it."""
        if "messages_fts" in self.upstream:
            self._db.run(_QUERIES["upstream_drop_message"], {"message_id": message_id})
            self.add_upstream([(message_id, content)])

    def drop_message(self, message_id: int) -> None:
        """Take a message out of our index."""
        for (passage_id,) in self._db.rows(_QUERIES["passages_of"], {"message_id": message_id}):
            self._db.run(_QUERIES["drop_row"], {"rowid": PASSAGE_BASE + passage_id})
        self._db.run(_QUERIES["drop_passages"], {"message_id": message_id})
        self._db.run(_QUERIES["drop_row"], {"rowid": message_id})

    def reindex_message(self, message_id: int, content: str, message: Message) -> None:
        """Index a row anew, or for the first time when another program wrote it."""
        self.drop_message(message_id)
        text = indexed_text(content, message)
        self.add_texts([(message_id, text)])
        values: dict[str, Any] = {
            "message_id": message_id,
            "fingerprint": fingerprint(message),
            "digest": index_digest(text),
            "budget_tokens": message_budget_tokens(message),
        }
        self._db.run(_QUERIES["set_extras"], values)

    def lost(self, after: int, *, passages: bool = False, limit: int = _BATCH) -> list[int]:
        """The next messages behind `after` that have lost their row in the index, or the row of a further passage."""
        place: dict[str, Any] = {"after": after, "limit": limit}
        place |= {"base": PASSAGE_BASE} if passages else {"blank": index_digest("")}
        return [row[0] for row in self._db.rows(_QUERIES["lost_passages" if passages else "lost_messages"], place)]

    def refill(self, texts: Sequence[tuple[int, str]]) -> None:
        """Put back the index rows of messages, in place of what is left of them; needs a transaction."""
        for message_id, _ in texts:
            self.drop_message(message_id)
        self.add_texts(texts)

    @property
    def has_stray_passages(self) -> bool:
        """Whether it holds passages of which nobody knows whose they are."""
        return self._db.row(_QUERIES["stray_passages"], {"base": PASSAGE_BASE}) is not None

    def drop_gone(self, limit: int = _BATCH) -> int:
        """Take out rows whose message is gone, at most so many; returns how many. Needs a transaction."""
        gone = self._db.rows(_QUERIES["gone_rows"], {"base": PASSAGE_BASE, "limit": limit})
        self._db.run_many(_QUERIES["drop_row"], [{"rowid": row[0]} for row in gone])
        return len(gone)

    def drop_gone_summaries(self, limit: int = _BATCH) -> int:
        """Take out rows whose summary is gone, at most so many; returns how many. Needs a transaction."""
        gone = self._db.rows(_QUERIES["gone_summary_rows"], {"limit": limit})
        self._db.run_many(_QUERIES["drop_summary_row"], [{"rowid": row[0]} for row in gone])
        return len(gone)

    def empty(self) -> None:
        """Make our full-text tables anew, without a row; needs a transaction."""
        for query in ("drop_message_index", "drop_summary_index", "drop_version_index", "drop_all_passages"):
            self._db.run(_QUERIES[query])
        for statement in split_script(load_schema("additions")):
            if statement.startswith("CREATE VIRTUAL TABLE "):
                self._db.run(statement)

    def put_summary(self, summary_id: str, content: str) -> None:
        """Index a summary, anew when it is there already."""
        known = self._db.row(_QUERIES["summary_entry"], {"summary_id": summary_id})
        if known:
            self._db.run(_QUERIES["drop_summary_row"], {"rowid": known[0]})
        values = {"summary_id": summary_id, "digest": index_digest(content), "budget_tokens": budget_tokens(content)}
        row = self._db.row(_QUERIES["add_summary_extras"], values)
        assert row is not None
        self._db.run(_QUERIES["add_summary"], (row[0], content, extra_tokens(content)))
        self._db.run(_QUERIES["forget_context_tokens"], {"summary_id": summary_id})

    def put_upstream_summary(self, summary_id: str, content: str, *, replace: bool = False) -> None:
        """Write a summary into upstream's search tables, where the file has them."""
        values = {"summary_id": summary_id, "content": content}
        for table, suffix in (("summaries_fts", ""), ("summaries_fts_cjk", "_cjk")):
            if table in self.upstream:
                if replace:
                    self._db.run(_QUERIES[f"upstream_drop_summary{suffix}"], {"summary_id": summary_id})
                self._db.run(_QUERIES[f"upstream_summary{suffix}"], values)

    def count_upstream_lost(self) -> int:
        """How many messages and summaries upstream's search tables lack, where the file has them."""
        messages = sum(len(some) for some in self._upstream_lost_messages(_BATCH))
        return messages + sum(len(self._upstream_lost_summaries(suffix, -1)) for suffix in self._suffixes)

    def emptied_upstream(self) -> tuple[str, ...]:
        """Those of upstream's search tables that find nothing although there is something: all their rows are gone."""
        lacks = {"messages_fts": any(self._upstream_lost_messages(_BATCH))}
        lacks |= {f"summaries_fts{suffix}": bool(self._upstream_lost_summaries(suffix, 1)) for suffix in self._suffixes}
        return tuple(table for table, is_so in lacks.items() if is_so and not self._db.rows(_QUERIES[f"{table}_any"]))

    def refill_upstream(self, limit: int = _BATCH) -> int:
        """Put into upstream's search tables what they lack, about so much; returns how much. Needs a transaction."""
        lost = next(self._upstream_lost_messages(limit), [])
        self.add_upstream(lost)
        filled = len(lost)
        for suffix in self._suffixes:
            summaries = self._upstream_lost_summaries(suffix, limit)
            rows = [{"summary_id": id_, "content": content} for id_, content in summaries]
            self._db.run_many(_QUERIES[f"upstream_summary{suffix}"], rows)
            filled += len(rows)
        return filled

    def renew_upstream(self) -> bool:
        """Make those of upstream's search tables anew, empty, that are damaged; whether any was. In a transaction."""
        is_renewed = False
        for table in sorted(self.upstream):
            if any(text != "ok" for (text,) in self._db.rows(_QUERIES[f"{table}_integrity"])):
                definition = self._db.row(_QUERIES["table_definition"], {"name": table})
                assert definition is not None
                self._db.run(_QUERIES[f"drop_{table}"])
                self._db.run(definition[0])
                is_renewed = True
        return is_renewed

    @property
    def _suffixes(self) -> list[str]:
        tables = (("summaries_fts", ""), ("summaries_fts_cjk", "_cjk"))
        return [suffix for table, suffix in tables if table in self.upstream]

    def _upstream_lost_messages(self, limit: int) -> Iterator[list[tuple[int, str]]]:
        """Messages that upstream's search table lacks, in pages; those without words are none of them."""
        after = 0
        while "messages_fts" in self.upstream:
            found = self._db.rows(_QUERIES["upstream_lost_messages"], {"after": after, "limit": limit})
            if not found:
                return
            if lost := [(id_, content) for id_, content in found if index_text_of(content).strip()]:
                yield lost
            after = found[-1][0]

    def _upstream_lost_summaries(self, suffix: str, limit: int) -> list[tuple[str, str]]:
        found = self._db.rows(_QUERIES[f"upstream_lost_summaries{suffix}"], {"limit": limit})
        return [(row[0], row[1]) for row in found]

    def unindexed(self, limit: int = _BATCH) -> tuple[list[int], list[tuple[str, str]]]:
        """Rows that another program wrote and that are not indexed yet: message ids, and summaries with their text."""
        mark = self._db.row(_MIGRATE["state"], {"name": _CAUGHT_UP})
        after = mark[0] if mark else 0
        messages = self._db.rows(_QUERIES["unindexed_messages"], {"after": after, "limit": limit})
        summaries = self._db.rows(_QUERIES["unindexed_summaries"], {"limit": limit})
        return [row[0] for row in messages], [(row[0], rows.column_text(row[1])) for row in summaries]

    def mark_if_caught_up(self, through: int) -> None:
        """Remember that all messages up to one are indexed, if they are; needs a transaction."""
        mark = self._db.row(_MIGRATE["state"], {"name": _CAUGHT_UP})
        after = mark[0] if mark else 0
        if after < through and not self._db.row(_QUERIES["gap"], {"after": after, "through": through}):
            self.mark_caught_up(through)

    def unmark(self) -> None:
        """Forget up to which message all are indexed, so that all are looked at; needs a transaction."""
        self.mark_caught_up(0)

    def mark_caught_up(self, through: int) -> None:
        """Remember up to which message all are indexed."""
        self._db.run(_MIGRATE["set_state"], {"name": _CAUGHT_UP, "value": through})
