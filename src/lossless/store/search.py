"""Full-text search within a scope: matching messages and summaries, their texts, and the optional trigram index."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import apsw

from lossless.errors import ArchiveDenied, ArchiveFull, ArchiveLocked
from lossless.model.js_json import storable_text
from lossless.model.messages import Json, ToolCall
from lossless.model.records import SearchPlace, TextKind
from lossless.model.search_text import index_text_of, texts_in
from lossless.store.database import (
    PASSAGE_BASE,
    Database,
    Row,
    Sql,
    TableAccess,
    column_count,
    column_text,
    group_rows,
    load_queries,
)
from lossless.store.messages import index_digest
from lossless.store.rows import PartRow, unpack_part

if TYPE_CHECKING:
    from lossless.store.archive import Archive

_BATCH = 500
#: Above every summary's id.
_LAST_ID = "\U0010ffff"
#: Parses JSON from a position on; quicker for short texts.
_READ: Callable[[str, int], tuple[Json, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
#: Characters that are unescaped in all JSON.
_PLAIN_JSON = re.compile(r'[^"\\/\x00-\x1f\x7f-\U0010ffff]+')


_STEMMABLE = re.compile("[a-z]{3,64}")
#: Case, number and gender endings of Russian, longest first; a stem keeps three letters.
_RUSSIAN_END = re.compile(
    "(?<=[а-я]{3})(?:иями|ями|ами|ого|его|ому|ему|ыми|ими|иях|ях|ах|ям|ам|ов|ев|ей|ой|ый|ий|ая|яя|ое|ее|ые|ие|ую"
    "|юю|ия|ии|ию|ью|ом|ем|ым|им|ых|их|а|е|и|о|у|ы|ю|я|й|ь)$"
)


@lru_cache(maxsize=1)
def _porter() -> apsw.FTS5Tokenizer:
    """The tokenizer of the index; it lives as long as its database does."""
    return apsw.Connection(":memory:").fts5_tokenizer("porter", ["ascii"])


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """The stem of a folded English word, or a Russian one without its ending; any other word unchanged.

    >>> [stem(word) for word in ("running", "happiness", "relational", "deployed", "é", "x86")]
    ['run', 'happi', 'relat', 'deploi', 'é', 'x86']
    """
    if not _STEMMABLE.fullmatch(word):
        return word if word.isascii() else _RUSSIAN_END.sub("", word)
    (found,) = _porter()(word.encode(), apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False, include_colocated=False)
    return str(found)


@dataclass(frozen=True, slots=True)
class SearchScope:
    """The rows that a search may see: of these conversations (None: all), in this time range (milliseconds)."""

    conversation_ids: tuple[int, ...] | None = None
    since: int | None = None
    before: int | None = None

    @property
    def values(self) -> dict[str, Any]:
        times = {"since": self.since, "before": self.before}
        return {"conversations": self.conversation_ids, "base": PASSAGE_BASE, **times}

    @property
    def has_times(self) -> bool:
        return self.since is not None or self.before is not None

    def holds(self, text: AnyText) -> bool:
        """Whether a text is one of them."""
        is_late = self.since is None or text.at >= self.since
        is_in = self.conversation_ids is None or text.conversation_id in self.conversation_ids
        return is_in and is_late and (self.before is None or text.at < self.before)


class MessageText(NamedTuple):
    """The searchable data of a message."""

    id: int
    conversation_id: int
    seq: int
    role: str
    #: Its time, in milliseconds since 1970.
    at: int
    tokens: int
    content: str
    #: Its tool inputs, as JSON.
    calls: tuple[str, ...]
    #: Of the indexed text; None when it is not indexed.
    digest: bytes | None
    sender: str | None = None

    @property
    def indexed(self) -> str:
        return storable_text(index_text_of(self.content, [_json(call) for call in self.calls]))

    @property
    def called(self) -> str:
        return "\n".join(_strings(self.calls)) if self.calls else ""

    @property
    def place(self) -> SearchPlace:
        return SearchPlace(self.at, "message", self.id)


class SummaryText(NamedTuple):
    """The searchable data of a summary; its time is that of the newest message under it."""

    id: str
    conversation_id: int
    depth: int
    at: int
    tokens: int
    content: str
    digest: bytes | None

    @property
    def indexed(self) -> str:
        return self.content

    @property
    def called(self) -> str:
        return ""

    @property
    def place(self) -> SearchPlace:
        return SearchPlace(self.at, "summary", self.id)


AnyText: TypeAlias = MessageText | SummaryText


def is_behind(place: SearchPlace, start: SearchPlace) -> bool:
    return newest_first(place) > newest_first(start)


def newest_first(place: SearchPlace) -> tuple[int, TextKind, tuple[int, ...]]:
    at, what, id_ = place
    return -at, what, (-id_,) if isinstance(id_, int) else tuple(-ord(letter) for letter in id_)


def is_stale(text: AnyText, indexed: str) -> bool:
    """Whether a text changed since it was indexed; `indexed` is its text in the index today."""
    return text.digest is not None and index_digest(indexed) != text.digest[:8]


def _behind(start: SearchPlace | None, what: TextKind) -> dict[str, Any]:
    """Where texts of a kind continue after a position: messages come before summaries of the same time."""
    id_ = start.id if start and start.what == what else 0 if what == "message" else _LAST_ID
    return {"from_at": start.at if start else None, "from_id": id_}


@lru_cache(maxsize=4096)
def _is_call(metadata: str | None) -> bool:
    """Whether a part with an input is a call; some programs store the input with the result."""
    known = _json(metadata or "{}")
    row = PartRow(0, "tool")
    return isinstance(unpack_part(row, known if isinstance(known, dict) else {}, ""), ToolCall)


def _json(text: str) -> Json:
    try:
        value, end = _READ(text, 0)
        if end < len(text):
            value = json.loads(text)
    except (StopIteration, ValueError, RecursionError):
        return text
    return value


def _strings(calls: Iterable[str]) -> list[str]:
    """The texts inside tool inputs; JSON in strings is parsed, too."""
    values = map(_json, calls)
    return [text for value in values for text in texts_in(_json(value) if isinstance(value, str) else value)]


_TRIGRAM_BATCH = 200
#: More pieces of a text than this do not narrow a search any further.
_MOST_PIECES = 24


class TrigramIndex(TableAccess):
    """Narrows a substring search down to messages that can match."""

    queries = load_queries("trigram")
    #: Create the empty index; needs a transaction.
    create: Sql[[], None] = Sql("run")

    @property
    def is_there(self) -> bool:
        return self._any("is_there")

    @property
    def through(self) -> int:
        """The message up to which all are in the index; 0 when there is none."""
        return self._count("through") if self.is_there else 0

    @property
    def is_behind(self) -> bool:
        return self.is_there and bool(self.next_ids(1))

    def having(self, texts: Iterable[str]) -> set[int] | None:
        """The messages that can contain all of `texts`, ignoring case; None when the texts are too short."""
        pieces = dict.fromkeys(text[at : at + 3] for text in texts for at in range(len(text) - 2))
        usable = [piece.replace('"', '""') for piece in pieces if "\0" not in piece]
        if not usable:
            return None
        match = " AND ".join(f'"{piece}"' for piece in usable[:: -(-len(usable) // _MOST_PIECES)])
        return set(self._column("having", match=match))

    def add(self, rows: Sequence[tuple[int, str]]) -> None:
        """Index texts by message; needs a transaction."""
        self._run_many("add", [(id_, text.replace("\0", "\ufffd")) for id_, text in rows])
        self._run("set_through", value=rows[-1][0])

    def replace(self, message_id: int, text: str) -> None:
        """Reindex a revised message, if it is in the index; needs a transaction."""
        if message_id <= self.through:
            self._run("drop", message_id=message_id)
            self._run("add", (message_id, text.replace("\0", "\ufffd")))

    def next_ids(self, limit: int = _TRIGRAM_BATCH) -> list[int]:
        return self._column("next", after=self.through, limit=limit)


def build_trigram_index(archive: Archive, seconds: float) -> bool:
    """Build the index, or continue, for so long; returns whether it is complete."""
    if archive.read_only:
        return False
    archive = archive.whole
    trigrams = archive.search.trigrams
    end = time.monotonic() + seconds
    while True:
        with archive.writing():
            trigrams.create()
            ids = trigrams.next_ids()
            if not ids:
                return True
            trigrams.add([(text.id, f"{text.content}\n{text.called}") for text in archive.search.messages(ids)])
        if time.monotonic() > end:
            return False


_VECTOR_BATCH = 64
#: So many vectors of a scope are compared, the newest.
_MOST_VECTORS = 50_000


class VectorMaker(Protocol):
    """An embedder, as the archive knows it."""

    name: str

    def embed(self, texts: Sequence[str]) -> list[bytes]: ...

    def question(self, text: str) -> Sequence[float] | None: ...


class MessageVectors(TableAccess):
    """Reads and writes vectors of messages; what writes needs a transaction."""

    queries = load_queries("vectors")
    #: Forget what a message meant: its words are others by now.
    drop: Sql[[int], None] = Sql("run", "message_id")
    #: How many messages have a vector.
    count: Sql[[], int] = Sql("count")

    def of(self, where: SearchScope, model: str) -> list[tuple[int, bytes]]:
        """The vectors of a scope by this model; none of the whole archive."""
        if where.conversation_ids is None or self.model != model:
            return []
        return self._rows("of", **where.values, limit=_MOST_VECTORS)

    @property
    def model(self) -> str | None:
        return self._value("model")

    def use(self, model: str) -> None:
        """Drop all vectors when the embedder is another one."""
        if self.model != model:
            self._run("clear")
            self._run("set_model", name=model)

    def pending(self, below: int, limit: int = _VECTOR_BATCH) -> dict[int, bytes]:
        """Messages without a vector of their words, with the digests of these, the newest first, below an id."""
        return dict(self._rows("pending", below=below, limit=limit))

    def put(self, rows: Sequence[tuple[int, bytes, bytes]]) -> None:
        self._run_many("put", rows)


def build_vectors(archive: Archive, seconds: float) -> int:
    """Make vectors that are missing, or of other words, for so long; how many. Raises what the embedder raises."""
    embedder, archive = archive.embedder, archive.whole
    if embedder is None or archive.read_only:
        return 0
    vectors, end, below, done = archive.search.vectors, time.monotonic() + seconds, 1 << 62, 0
    with archive.writing():
        vectors.use(embedder.name)
    while (pending := vectors.pending(below)) and time.monotonic() < end:
        below = min(pending)
        texts = [text for text in archive.search.messages(pending) if index_digest(text.indexed) == pending[text.id]]
        if not texts:
            continue
        made = embedder.embed([text.indexed for text in texts])
        with archive.writing():
            if vectors.model == embedder.name:
                vectors.put([(text.id, pending[text.id], vector) for text, vector in zip(texts, made, strict=True)])
        done += len(texts)
    return done


#: Up to so many matches are counted and put in order exactly.
FEW_MATCHES = 3000
#: For a scope with at least this share of the archive, the best rows of the whole archive are looked at first.
_LARGE_SHARE = 0.25
#: How many rows of other programs one search indexes; the rest is scanned.
_CATCH_UP = 2000
#: How many unindexed rows one search scans, newest first.
MAX_UNREAD = 20_000
#: Why a search may be unable to write its index updates; it continues without.
WRITE_ERRORS = (ArchiveDenied, ArchiveFull, ArchiveLocked)


class FullTextSearch(TableAccess):
    """Reads for recall, which interprets the query. Never writes."""

    queries = load_queries("search")
    #: The newest message, the further passages, and the summaries: about how many there are of each.
    _sizes: Sql[[], tuple[int, int, int]] = Sql("row", "", "sizes")

    #: Unindexed messages of a scope, last stored first; at most so many.
    unread: Sql[[SearchScope, int], list[int]] = Sql("column", "where limit")
    unread_summaries: Sql[[SearchScope, int], list[str]] = Sql("column", "where limit")
    #: Messages of users that match, newest first; of very many in the archive the newest are looked at.
    users_words: Sql[[str, SearchScope, int], list[int]] = Sql("column", "match where limit")
    #: What people and models said in the time of a scope, in order of time: id, conversation, seq, time. Of more than
    #: so many messages the newest.
    said_between: Sql[[SearchScope, int], list[tuple[int, int, int, int]]] = Sql("rows", "where limit")
    #: Messages that only call our recall tools, or have their results: they repeat other messages.
    echoes: Sql[[Iterable[int]], frozenset[int]] = Sql("set", "ids")

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.trigrams = TrigramIndex(database)
        self.vectors = MessageVectors(database)
        #: Up to which message times rise with ids; None once they do not. Limited copies share it.
        self._ordered_through: list[int | None] = [0]

    def quotes(self, conversation_id: int, phrase: str, limit: int) -> list[Row]:
        """Messages of people and models that contain a phrase: id, role, time, text; newest first."""
        words = phrase.replace("\0", " ").replace('"', " ").strip()
        if not any(character.isalnum() for character in words):
            return []
        return self._rows("quotes", match=f'body: "{words}"', conversation_id=conversation_id, limit=limit)

    def unmarked(self) -> tuple[int, int]:
        """The approximate number of messages stored since all were indexed; and the newest of them."""
        newest = self._sizes()[0]
        return newest - self._count("marked"), newest

    def size(self, where: SearchScope, what: TextKind = "message") -> tuple[int, int]:
        """The approximate number of index rows of the scope and of the whole archive."""
        messages, passages, summaries = self._sizes()
        everything = messages + passages if what == "message" else summaries
        if where.conversation_ids is None:
            return everything, everything
        inside = self._count("messages_in" if what == "message" else "summaries_in", where.values)
        if what == "message" and messages:
            inside = inside * everything // messages
        return min(inside, everything), everything

    def counts(self, matches: Sequence[str], where: SearchScope, what: TextKind) -> tuple[int, list[int]]:
        """The index rows of the scope, and how many match each expression: exact for few, else estimated by share."""
        inside, everything = self.size(where, what)
        query = "count" if what == "message" else "count_summaries"
        found = []
        for match in matches:
            count = self._count(query, {"match": match, "limit": -1})
            if count and inside < everything:
                if what == "message" and count <= FEW_MATCHES:
                    count = self._count("count_in", where.values | {"match": match})
                else:
                    count = max(1, count * inside // everything)
            found.append(count)
        return inside, found

    def count(self, match: str, limit: int = FEW_MATCHES) -> int:
        """How many index rows of messages match, counted up to one more than `limit`."""
        return self._count("count", {"match": match, "limit": limit + 1})

    def candidates(
        self, matches: Iterable[tuple[str, str | None, int]], where: SearchScope, what: TextKind
    ) -> list[Row]:
        """The best rows by bm25 of each expression, of those that match another one too if given, up to a limit: a
        summary, or a message and the start of its passage, None for the first.
        """
        inside, everything = self.size(where, what)
        asked = [where.values | {"match": match, "needed": needed, "limit": limit} for match, needed, limit in matches]
        if what == "summary":
            values = {"everything": not where.has_times and inside >= everything}
            return [row for one in asked for row in self._rows("candidate_summaries", one | values)]
        share = inside / (everything or 1)
        return [row for one in asked for row in self._candidates(one, where.conversation_ids, share)]

    def _candidates(self, asked: dict[str, Any], ids: Container[int] | None, share: float) -> list[Row]:
        """The best rows of some conversations (None: all), which hold this share of the archive's rows."""
        limit: int = asked["limit"]
        if ids is None or share >= _LARGE_SHARE:
            most = limit if ids is None else round(2 * limit / share)
            found = self._rows("candidates", asked | {"anywhere": True, "limit": most})
            kept = [row for row in found if ids is None or row[2] in ids][:limit]
            if len(kept) == limit or len(found) < most:
                return kept
        return self._rows("candidates", asked | {"anywhere": False})

    def neighbours(self, places: Sequence[tuple[int, int]], where: SearchScope) -> list[Row]:
        """Messages at positions (conversation and seq): id, conversation, seq, time, tokens, sender, opening bytes."""
        found = self._rows("neighbours", **where.values, places=places) if places else []
        return [row for row in found if isinstance(row[1], int) and isinstance(row[2], int)]  # damage has other kinds

    def having(self, match: str) -> list[int]:
        """All matching messages, unordered."""
        return self._column("having", match=match, base=PASSAGE_BASE)

    def newest(
        self, match: str, where: SearchScope, limit: int, start: SearchPlace | None = None
    ) -> tuple[list[int], int | None]:
        """Matching messages, newest first, after a position; and how many there are, None when unknown."""
        values = where.values | _behind(start, "message") | {"match": match, "limit": limit}
        if self.count(match) <= FEW_MATCHES or not self.is_ordered():
            found = self._rows("newest_ids", values)
            return [row[0] for row in found], found[0][1] if found else 0
        values["below"] = start.id if start and start.what == "message" else PASSAGE_BASE
        both = (self._rows(query, values) for query in ("newest_heads", "newest_passages"))
        places = sorted({(row[1], row[0]) for rows in both for row in rows}, reverse=True)
        behind = [id_ for at, id_ in places if start is None or is_behind(SearchPlace(at, "message", id_), start)]
        return behind[:limit], None

    def newest_summaries(
        self, match: str, where: SearchScope, limit: int, start: SearchPlace | None = None
    ) -> tuple[list[str], int]:
        """Matching summaries, newest first, after a position; and how many there are."""
        values = where.values | _behind(start, "summary") | {"match": match, "limit": limit}
        found = self._rows("newest_summaries", values)
        return [row[0] for row in found], found[0][1] if found else 0

    def messages(self, ids: Iterable[int]) -> list[MessageText]:
        """Messages by id, in the order asked for; unknown ids are left out."""
        wanted = self._seen(id_ for id_ in ids if isinstance(id_, int))  # an index may hold anything
        calls = self._calls(wanted)
        return [
            MessageText(
                id_, owner, column_count(seq), role, at, tokens, column_text(content), calls.get(id_, ()), known, sender
            )
            for id_, owner, seq, role, at, tokens, content, known, sender in self._rows("texts", wanted)
        ]

    def _calls(self, wanted: dict[str, Any]) -> dict[int, tuple[str, ...]]:
        rows = [(id_, raw) for id_, raw, metadata in self._rows("calls", wanted) if _is_call(metadata)]
        return {id_: tuple(inputs) for id_, inputs in group_rows(rows, column_text).items()}

    def bodies(self, ids: Sequence[int]) -> list[tuple[int, str]]:
        """Messages in this order, each with its content and the texts it called tools with as one text."""
        wanted = self._seen(ids)
        calls = {id_: "\n".join(_strings(some)) for id_, some in self._calls(wanted).items()}
        found = ((id_, column_text(raw)) for id_, raw in self._rows("contents", wanted))
        return [(id_, f"{text}\n{calls[id_]}" if id_ in calls else text) for id_, text in found]

    def summaries(self, ids: Iterable[str]) -> list[SummaryText]:
        """Summaries by id, in the given order; unknown ids are skipped."""
        wanted = self._seen(id_ for id_ in ids if isinstance(id_, str))
        return [
            SummaryText(id_, owner, depth, at, tokens, column_text(content), known)
            for id_, owner, depth, at, tokens, content, known in self._rows("summary_texts", wanted)
        ]

    def is_ordered(self) -> bool:
        """Whether messages that were stored later were said later; what was seen before is not read again."""
        newest, through = self._sizes()[0], self._ordered_through[0]
        if through is not None and newest > through:
            self._ordered_through[0] = None if self._any("disorder", after=through) else newest
        return self._ordered_through[0] is not None

    def order(self, where: SearchScope, start: SearchPlace | None = None) -> list[int]:
        """The ids of all messages of a scope after a position."""
        values = where.values | _behind(start, "message")
        if not where.has_times and (start is None or start.what == "message") and self.is_ordered():
            values["below"] = start.id if start else None
            return sorted(self._column("all_ids", values), reverse=True)
        return self._column("all_by_time", values)

    def read(self, ids: Sequence[int]) -> Iterator[MessageText]:
        for start in range(0, len(ids), _BATCH):
            yield from self.messages(ids[start : start + _BATCH])

    def holding(self, ids: Sequence[int], text: str, *, ignore_case: bool) -> list[int]:
        """The messages among these that may contain a text, in order. `ignore_case`: the text is lower-case ASCII."""
        piece = max(_PLAIN_JSON.findall(text), key=len, default="")
        found = set(self._column("holding", ids=ids, text=text, piece=piece, ignore_case=ignore_case))
        return [id_ for id_ in ids if id_ in found]

    def all_summaries(self, where: SearchScope, start: SearchPlace | None = None) -> Iterator[SummaryText]:
        """All summaries of a scope after a position."""
        ids = iter(self._column("all_summaries", where.values | _behind(start, "summary")))
        while batch := list(islice(ids, _BATCH)):
            yield from self.summaries(batch)


def reindex_stale(archive: Archive, stale: Iterable[AnyText]) -> None:
    """Reindex texts that another program has changed; skipped when that cannot be written."""
    texts = list(stale)
    if archive.read_only or not texts:
        return
    ids = [text.id for text in texts if isinstance(text, MessageText)]
    with suppress(*WRITE_ERRORS), archive.writing():
        for stored in archive.messages.many(ids, exact=False):
            archive.index.reindex_message(stored.id, stored.message.content, stored.message)
        for text in texts:
            if isinstance(text, SummaryText):
                archive.index.put_summary(text.id, text.content)


def index_new_rows(archive: Archive) -> bool:
    """Index what other programs wrote, up to a limit; returns whether all is indexed now."""
    if archive.read_only:
        return False
    with suppress(*WRITE_ERRORS):
        return archive.catch_up(limit=_CATCH_UP) < _CATCH_UP
    return False
