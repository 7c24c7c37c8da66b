"""`grep`: search messages, summaries, earlier versions and stored files by words, literal text or regular
expression, one page at a time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from lossless.errors import ArchiveError, BadInput, NotFound
from lossless.files.media_types import is_text_type
from lossless.model.js_json import storable_text
from lossless.model.records import SearchPlace, TextKind
from lossless.model.search_text import WORD
from lossless.model.times import from_epoch, parse_time
from lossless.recall import rank, results, scan
from lossless.recall.query import MAX_QUESTION_CHARS, TermFinder, parse_query
from lossless.recall.results import NOTHING_FOUND_HINT, SearchHit, SearchResult, SearchStart, Snippet
from lossless.recall.scan import LiteralPattern, Regex, ScanMatch, ScanPattern, ScanResult
from lossless.recall.scope import GrepMode, GrepRequest, Scope, SearchIn, SortOrder
from lossless.store import search as stored
from lossless.store.search import FEW_MATCHES, MAX_UNREAD, WRITE_ERRORS, AnyText, MessageText, SearchScope

if TYPE_CHECKING:
    from lossless.files.vault import Vault
    from lossless.model.messages import StoredFile
    from lossless.recall.rank import WordSearch
    from lossless.settings import Settings
    from lossless.store.archive import Archive

#: Up to so many messages with a word in it are read to see whether they hold the letters around it, too.
_MOST = 2000


_PAGE = 100
_VERSION_LABELS = {"earlier": "[earlier words] ", "lesser": "[shortened by the host] "}


def _version_hits(asked: _Search) -> Iterator[SearchHit]:
    """Messages of which only a version has what is asked for, each once: best first, then newest first."""
    archive, where, seconds, match = asked.archive, asked.where, asked.means.seconds, None
    find: Callable[[str], Snippet | None]
    if asked.request.mode == "regex":
        find = partial(_find_regex, _regex(asked), seconds / 5)
    else:
        find, match = _words_in_version(asked.request.pattern[:MAX_QUESTION_CHARS])
        seconds = min(_LOOK_SECONDS, seconds)
    versions, end = archive.versions, time.monotonic() + seconds

    def pages() -> Iterator[Sequence[int]]:
        if match is not None:
            found = versions.having(match, where, _MOST)
            yield from (found[start : start + _PAGE] for start in range(0, len(found), _PAGE))
        below: int | None = None
        while time.monotonic() < end and (ids := versions.newest(where, below, _PAGE)):
            yield ids
            below = ids[-1]

    seen: set[int] = set()
    for ids in pages() if versions.any else ():
        fresh = [id_ for id_ in ids if id_ not in seen]
        seen.update(fresh)
        known = versions.many(fresh)
        for current in archive.search.messages(fresh):
            whole = (version for version in reversed(known.get(current.id, ())) if version.is_whole)
            spots = ((version.kind, snippet) for version in whole if (snippet := find(version.indexed)) is not None)
            newest = next(spots, None)
            if newest is not None and find(current.indexed) is None:
                kind, (text, matches) = newest
                label = _VERSION_LABELS[kind]
                places = tuple((start + len(label), stop + len(label)) for start, stop in matches)
                yield replace(_hit_of_text(current, 0.0, (label + text, places)), version=kind)


def _find_regex(regex: Regex, seconds: float, text: str) -> Snippet | None:
    """Where a regular expression matches; a text that takes too long does not have it."""
    with suppress(TimeoutError):
        place = regex.find(text, seconds)
        return None if place is None else results.snippet_around(text, *place)
    return None


def _words_in_version(question: str) -> tuple[Callable[[str], Snippet | None], str | None]:
    """What finds all words of a question, or its letters as they are; and the index's expression for the words."""
    query = parse_query(question)
    letters, finder = LiteralPattern(question), TermFinder(query.terms)
    asked = {at for at, term in enumerate(query.terms) if not term.piece_of}

    def find(text: str) -> Snippet | None:
        if asked and asked <= {spot.term for spot in finder.find(text, 1)}:
            return results.best_snippet(text, finder)
        place = letters.find(text) if letters.text else None
        return None if place is None else results.snippet_around(text, *place)

    return find, query.match_all if query.asked else None


#: Of a file so many bytes are searched, for so many matches; and what is shown before and after one.
SCAN_BYTES, MAX_MATCHES, _AROUND = 512_000, 10, 80
#: Where something stands in a text, in order: starts and ends.
Spans: TypeAlias = "Iterable[tuple[int, int]]"


def _search_files(asked: _Search) -> SearchResult:
    request, means, archive = asked.request, asked.means, asked.archive
    words = [term.text for term in parse_query(request.pattern).asked] or [request.pattern.strip()]
    find: Callable[[str], Spans] = partial(spans_with_all, terms=words)
    if request.mode == "regex":
        find = partial(_regex(asked).spans, seconds=means.seconds)
    end = time.monotonic() + means.seconds
    found: list[SearchHit] = []
    is_whole = True
    for file in archive.files.listed(asked.where, request.file_ids):
        if len(found) > request.limit or time.monotonic() > end:
            is_whole = False
            break
        try:
            text, is_cut = searchable_text(archive, file, means.vault)
            found += list(file_hits(file, text, find(text)))
        except TimeoutError:
            is_cut = True
        is_whole = is_whole and not is_cut
    hint = None if found else NOTHING_FOUND_HINT
    is_whole = is_whole and len(found) <= request.limit
    found = found[: request.limit]
    return asked.findings(found, len(found), hint, None, truncated=not is_whole)


def searchable_text(archive: Archive, file: StoredFile, vault: Vault | None) -> tuple[str, bool]:
    """What is searched of a file, in its bytes or in the message that it is from, and whether that is not all of it."""
    if vault is not None:
        if not is_text_type(file.mime):
            return "", False
        with suppress(NotFound, ArchiveError):
            piece = vault.read_text(file, 0, SCAN_BYTES)
            return piece.text, piece.is_cut
    text = archive.files.text_of(file)
    return text or "", text is None and vault is None


def spans_with_all(text: str, terms: Sequence[str]) -> Spans:
    """Where the first of some terms stands in a text that has all of them, in any case; nothing without terms."""
    patterns = [re.compile(re.escape(term), re.IGNORECASE) for term in terms if term]
    if not patterns or not all(pattern.search(text) for pattern in patterns):
        return ()
    return (match.span() for match in patterns[0].finditer(text))


def file_hits(file: StoredFile, text: str, spans: Spans) -> Iterator[SearchHit]:
    """The first matches in a file, each with its line, its byte and what stands around it on one line."""
    line, offset, at = 1, 0, 0
    for start, end in islice((span for span in spans if span[1] > span[0]), MAX_MATCHES):
        line += text.count("\n", at, start)
        offset += len(text[at:start].encode("utf-8", "surrogatepass"))
        at, begin, stop = start, max(0, start - _AROUND), min(len(text), end + _AROUND)
        around = " ".join(text[begin:stop].split())
        shown = f"{'...' if begin else ''}{around}{'...' if stop < len(text) else ''}"
        matched = " ".join(text[start:end].split())
        place = shown.find(matched)
        yield SearchHit(
            file.id, "file", file.conversation_id, None, 0.0, shown, file.created_at,
            matches=((place, place + len(matched)),) if place >= 0 else (),
            name=file.name, line=line, offset=offset,
        )  # fmt: skip


MAX_HITS = 200
#: What a look for the letters themselves may take when words were found; and when they cannot be what was asked for.
_GLANCE_SECONDS = 0.03
_LOOK_SECONDS = 0.5
_BUILDING_SECONDS = 1.0
_LATE = "Not all was looked at in time; go on with the cursor, or narrow the search."
_UNREAD = "Of the messages that are not indexed yet, the newest {} were looked at."
_SLOW = "The pattern took too long on {} texts, which were passed over."


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """What a search may use: time, an index of letters, the bytes of files."""

    seconds: float = 2.0
    trigrams: Literal["auto", "on", "off"] = "auto"
    engine: Literal["regex", "re2"] = "regex"
    vault: Vault | None = None
    #: The part of the time that one text may take.
    share: float = scan.TEXT_TIME_SHARE
    #: Whether words are looked for that stand only in versions of messages, behind all others.
    versions: bool = True
    #: Messages that are left out, and so are newest ones of a user with one of these texts: they ask.
    asking: frozenset[int] = frozenset()
    questions: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Settings, vault: Vault | None) -> SearchLimits:
        """What the settings allow."""
        return cls(settings.regex_timeout_ms / 1000, settings.trigram_index, settings.regex_engine, vault)


@dataclass(frozen=True, slots=True)
class _Search:
    """One search: what, where, from which place on, and by which means."""

    archive: Archive
    scope: Scope
    request: GrepRequest
    where: SearchScope
    start: SearchStart | None
    means: SearchLimits

    def findings(
        self, found: Sequence[SearchHit], total: int, hint: str | None, rest: SearchStart | None, *, truncated: bool
    ) -> SearchResult:
        """The result, with the summaries above what was found."""
        archive, means = self.archive, self.means
        messages = [(hit.id, hit.conversation_id) for hit in found if isinstance(hit.id, int)]
        gone = means.asking
        if means.questions:
            gone |= messages_that_ask(archive, means.questions, messages)
        found = [hit for hit in found if hit.id not in gone]
        ids = [hit.id for hit in found if isinstance(hit.id, int)]
        echoes = archive.search.echoes(ids) if ids else ()
        found = sorted(found, key=lambda hit: hit.id in echoes)
        leaves = archive.summaries.covering(ids) if ids else {}
        hits = tuple(
            replace(hit, summary_id=leaves[hit.id]) if isinstance(hit.id, int) and hit.id in leaves else hit
            for hit in found
        )
        above = {*leaves.values(), *(str(hit.id) for hit in hits if hit.kind == "summary")}
        nodes = archive.listings.summary_nodes(above) if above else {}
        spans = {id_: (node.earliest_at, node.latest_at) for id_, node in nodes.items()}
        return SearchResult(self.request, self.scope, hits, total, hint, truncated, rest, spans)


def messages_that_ask(archive: Archive, questions: Iterable[str], found: Iterable[tuple[int, int]]) -> frozenset[int]:
    """Of found messages with their conversations, those that ask: a newest user message with the same words.

    The same question of an earlier turn is evidence like any other.
    """
    known = dict(found)
    newest = archive.messages.newest_users(set(known.values())).values()
    asked = {_normalised(question) for question in questions}
    stored = archive.messages.many([id_ for id_ in newest if id_ in known], exact=False)
    return frozenset(one.id for one in stored if _normalised(one.message.content) in asked)


def _normalised(text: str) -> str:
    return " ".join(text.split()).casefold()


def grep(
    archive: Archive,
    scope: Scope,
    request: GrepRequest,
    now: datetime,
    *,
    cursor: str | SearchStart | None = None,
    means: SearchLimits | None = None,
) -> SearchResult:
    """Search within a scope. No text makes it fail but a broken regular expression (`BadPattern`).

    `limit` is taken as 1 to 200. `BadInput` for a stretch of time that is empty, and for a foreign cursor.
    """
    request = check_request(request)
    archive = archive.within(scope.conversation_ids)
    start = results.start_from_cursor(cursor) if isinstance(cursor, str) else cursor
    times = (None if end is None else round(end.timestamp() * 1000) for end in (request.since, request.before))
    where = SearchScope(scope.conversation_ids, *times)
    asked = _Search(archive, scope, request, where, start, means or SearchLimits(versions=False))
    if request.search_in == "files":
        return _search_files(asked)
    if start is not None and start.is_version:
        return _add_version_hits(asked, asked.findings((), start.offset, None, None, truncated=False), start.offset)
    if request.mode == "regex":
        found = _search_by_scan(replace(asked, request=replace(request, sort="recency")), _regex(asked))
    else:
        found = _search_by_words(asked, now)
    is_last = not found.truncated and not (request.mode == "full_text" and start is not None and start.is_scan)
    wants_them = asked.means.versions and request.search_in != "summaries"
    return _add_version_hits(asked, found, 0) if is_last and wants_them else found


def _add_version_hits(asked: _Search, found: SearchResult, offset: int) -> SearchResult:
    """Findings with the messages behind them of which only a version has it."""
    request, found_in = asked.request, _version_hits(asked)
    space = request.limit - len(found.hits)
    known = {hit.id for hit in found.hits if hit.matches}
    more = list(islice((hit for hit in found_in if hit.id not in known), offset, offset + space + 1))
    if not more:
        return found
    rest = SearchStart(offset + space, is_version=True) if len(more) > space else found.next
    hint = None if found.hint == NOTHING_FOUND_HINT else found.hint
    shown = {hit.id for hit in more[:space]}
    hits = [*(hit for hit in found.hits if hit.id not in shown), *more[:space]]
    return asked.findings(hits, found.total + len(more), hint, rest, truncated=len(more) > space)


def check_request(request: GrepRequest) -> GrepRequest:
    """The request with its limit inside the bounds; `BadInput` for words that mean nothing here, and empty times."""
    for name, value, kind in (
        ("mode", request.mode, GrepMode),
        ("scope", request.search_in, SearchIn),
        ("sort", request.sort, SortOrder),
    ):
        if value not in get_args(kind):
            raise BadInput(f"{name}: {value!r:.40} is none of {', '.join(get_args(kind))}")
    since, before = _aware(request.since), _aware(request.before)
    if since is not None and before is not None and since >= before:
        raise BadInput(f"the stretch of time is empty: since ({since.isoformat()}) is not before {before.isoformat()}")
    return replace(request, limit=max(1, min(MAX_HITS, int(request.limit))), since=since, before=before)


def parse_moment(name: str, value: datetime | str | None) -> datetime | None:
    """A time from a caller: a datetime, or ISO-8601 text, without a zone UTC; `BadInput` for anything else."""
    if value is None or isinstance(value, datetime):
        return _aware(value)
    try:
        return parse_time(value)
    except (ValueError, AttributeError, TypeError, OverflowError):
        shown = str(value)[:40]
        raise BadInput(f"{name}: {shown!r} is not a time; write ISO-8601, such as 2026-01-05T09:00:00Z") from None


def _aware(value: datetime | None) -> datetime | None:
    return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


def _regex(asked: _Search) -> Regex:
    return Regex(storable_text(asked.request.pattern), asked.means.engine)


def _search_by_scan(asked: _Search, pattern: ScanPattern) -> SearchResult:
    start = asked.start or SearchStart()
    if asked.means.trigrams == "on":
        _build_trigrams(asked.archive)
    done = _scan(asked, pattern, asked.means.seconds, start.place)
    found = [_hit_of_match(spot) for spot in done.spots]
    notes = [_SLOW.format(done.slow)] if done.slow else []
    notes += [_LATE] if done.is_late else []
    notes += [NOTHING_FOUND_HINT] if not found and not notes and start.place is None else []
    is_over = done.stopped is None and not done.is_late
    rest = None if is_over else SearchStart(place=done.stopped or start.place, is_scan=start.is_scan)
    total = len(found) + (0 if is_over or done.is_late else 1)
    return asked.findings(found, total, " ".join(notes) or None, rest, truncated=rest is not None or bool(done.slow))


def _scan(asked: _Search, pattern: ScanPattern, seconds: float, start: SearchPlace | None = None) -> ScanResult:
    """Scan; one that was too slow has an index of letters made that would help it, a piece at each search."""
    request = asked.request
    looks = scan.TextScan(asked.archive, asked.where, pattern, request.limit, seconds, start, asked.means.share)
    done = looks.run(request.search_in)
    is_wanted = (done.is_late and bool(pattern.needed)) or asked.archive.search.trigrams.is_behind
    if is_wanted and asked.means.trigrams == "auto":
        _build_trigrams(asked.archive)
    return done


def _build_trigrams(archive: Archive) -> None:
    with suppress(*WRITE_ERRORS):
        stored.build_trigram_index(archive, _BUILDING_SECONDS)


def _hit_of_match(spot: ScanMatch) -> SearchHit:
    source, text, start, end = spot
    return _hit_of_text(source, 0.0, results.snippet_around(text, start, end))


def _search_by_words(asked: _Search, now: datetime) -> SearchResult:
    request, start = asked.request, asked.start
    letters = LiteralPattern(request.pattern[:MAX_QUESTION_CHARS])
    if start is not None and start.is_scan:
        return _search_by_scan(asked, letters)
    pool = rank.CANDIDATE_POOL + (start.offset if start else 0) + request.limit
    words = rank.word_search(asked.archive, request.pattern, asked.where, request.search_in, now, pool, request.sort)
    page = _word_page(words, asked, letters)
    if letters.text and start is None:
        page = _add_literal_hits(asked, page, letters)
    elif letters.text and page.rest is None:
        page = replace(page, beyond=SearchStart(is_scan=True))
    if len(page.found) > request.limit:
        page = _cut_page(page, request)
    found = page.found
    unread = _UNREAD.format(f"{MAX_UNREAD:,}") if len(words.unread_messages) == MAX_UNREAD else None
    hint = words.query.hint or page.hint or unread or (None if found or start else NOTHING_FOUND_HINT)
    is_more = page.rest is not None or page.hint is not None
    total = max(page.total, sum(bool(hit.matches) for hit in found))
    return asked.findings(found, total, hint, page.rest or page.beyond, truncated=is_more)


@dataclass(frozen=True, slots=True)
class _HitPage:
    """Hits of one page, their texts, how many there are, and where the rest is."""

    found: Sequence[SearchHit]
    texts: Sequence[AnyText]
    total: int
    rest: SearchStart | None
    #: Where the same letters inside of other words are looked for.
    beyond: SearchStart | None = None
    hint: str | None = None
    is_any: bool = False


def _cut_page(page: _HitPage, request: GrepRequest) -> _HitPage:
    """A page that is not too long, after letters were added to words."""
    shown = page.found[: request.limit]
    known = {text.id for text in page.texts}
    if not any(hit.id in known for hit in page.found[request.limit :]):
        rest = page.rest or SearchStart(is_scan=True)
    elif request.sort == "recency":
        last = shown[-1]
        what: TextKind = "message" if last.kind == "message" else "summary"
        place = SearchPlace(round(last.created_at.timestamp() * 1000), what, last.id)
        rest = SearchStart(place=place, is_any=page.is_any)
    else:
        rest = SearchStart(sum(hit.id in known for hit in shown))
    return replace(page, found=shown, rest=rest)


def _word_page(words: WordSearch, asked: _Search, letters: LiteralPattern) -> _HitPage:
    request, start = asked.request, asked.start or SearchStart()
    is_any, weights = False, None
    end = start.offset + request.limit
    if request.sort == "recency":
        newest, total, is_any = _newest_texts(words, request.limit + 1, start.place, is_any=start.is_any)
        shown = [(text, 0.0) for text in newest[: request.limit]]
        rest = SearchStart(place=shown[-1][0].place, is_any=is_any) if len(newest) > request.limit else None
    else:
        ranked, known, weights = rank.ranked_hits(words)
        hits = ranked[start.offset : end]
        near = asked.archive.search.messages(hit.id for hit in hits if hit.id not in known)  # type: ignore[misc]
        known = known | {text.id: text for text in near}
        shown = [(known[hit.id], hit.score) for hit in hits if hit.id in known]
        rest, total = SearchStart(end) if len(ranked) > end else None, sum(bool(hit.matched) for hit in ranked)
    found = [
        _hit_of_text(text, score, _mark_literal(results.best_snippet(text.indexed, words.finder, weights), letters))
        for text, score in shown
    ]
    return _HitPage(found, [text for text, _ in shown], total, rest, is_any=is_any)


def _newest_texts(
    words: WordSearch, limit: int, start: SearchPlace | None, *, is_any: bool
) -> tuple[list[AnyText], int, bool]:
    """The newest texts behind a place that have all words; on the first page, else one of them.

    Also how many there are, as far as that is known; and whether one word was enough.
    """
    query = words.query
    if not query.terms:
        return [], 0, False
    if not is_any:
        found = _newest_of(words, query.match_all, limit, start, len(query.asked))
        if found[0] or start is not None:
            return *found, False
    return *_newest_of(words, query.match_any, limit, start, 1), True


def _newest_of(
    words: WordSearch, match: str, limit: int, start: SearchPlace | None, needed: int
) -> tuple[list[AnyText], int]:
    search, texts, total = words.archive.search, list[AnyText](), 0
    is_counted = True
    if "message" in words.looks_at:
        ids, count = search.newest(match, words.where, limit, start)
        texts, total, is_counted = [*search.messages(ids)], count or 0, count is not None
    if "summary" in words.looks_at:
        names, number = search.newest_summaries(match, words.where, limit, start)
        texts, total = [*texts, *search.summaries(names)], total + number
    texts = [text for text, _ in rank.current_texts(words.archive, texts)]
    unread = (text for what in words.looks_at for text in rank.unindexed_texts(words, what, needed))
    texts += [text for text in unread if start is None or stored.is_behind(text.place, start)]
    shown = sorted(texts, key=lambda text: stored.newest_first(text.place))[:limit]
    return shown, max(len(texts), total) if is_counted else len(shown)


def _mark_literal(snippet: Snippet, letters: LiteralPattern) -> Snippet:
    """With the pattern marked as a whole, where it stands there as it is."""
    text, matches = snippet
    whole = letters.find(text)
    if whole is None or whole[0] == whole[1]:
        return snippet
    others = [match for match in matches if match[1] <= whole[0] or match[0] >= whole[1]]
    return text, tuple(sorted([whole, *others]))


def _add_literal_hits(asked: _Search, page: _HitPage, letters: LiteralPattern) -> _HitPage:
    """A first page with the texts that hold the letters as they are: before all others when no hit does, else last."""
    has_them = any(letters.find(text.content) or letters.find(text.called) for text in page.texts)
    if has_them and page.rest is not None:
        return page
    done = _scan_literal(asked, letters, is_known=has_them, has_hits=bool(page.found))
    known = {hit.id for hit in page.found}
    fresh = [hit for hit in map(_hit_of_match, done.spots) if hit.id not in known]
    if has_them:
        found = [*page.found, *fresh]
    elif page.is_any and fresh:  # some of the words are not needed where the letters stand as they are
        found, page = fresh, replace(page, total=0, rest=None)
    elif asked.request.sort == "recency":
        found = sorted([*page.found, *fresh], key=lambda hit: -hit.created_at.timestamp())
    else:
        top = max((hit.score for hit in page.found), default=0.0)
        found = [*(replace(hit, score=top + 1.0) for hit in fresh), *page.found]
    page = replace(page, found=found, total=page.total + len(fresh))
    if done.stopped is None and not done.is_late:
        return page
    hint = _LATE if done.is_late and len(known) == 0 else None
    return replace(page, beyond=SearchStart(place=done.stopped, is_scan=True), hint=hint)


def _scan_literal(asked: _Search, letters: LiteralPattern, *, is_known: bool, has_hits: bool) -> ScanResult:
    """The texts that hold the letters as they are: all of them, or as far as what is found already makes it worth."""
    search, text = asked.archive.search, letters.text
    if not has_hits or search.size(asked.where)[0] <= FEW_MATCHES:
        return _scan(asked, letters, asked.means.seconds)
    words = list(WORD.finditer(text))
    # Something else stands on both sides of these, so that they are no pieces of longer words.
    whole = [word for word in words if word.start() > 0 and word.end() < len(text)]
    counted = sorted(
        (search.count(f'body: "{word}"', _MOST), word) for word in {one.group() for one in whole} if word.isascii()
    )
    if counted and counted[0][0] <= _MOST:
        return _scan_messages(asked, letters, search.having(f'body: "{counted[0][1]}"'))
    if len(whole) > 1:
        phrase = text[whole[0].start() : whole[-1].end()].replace("\0", " ").replace('"', '""')
        match = f'body: "{phrase}"'
        ids = search.having(match) if search.count(match, _MOST) <= _MOST else []
        if ids and (found := _scan_messages(asked, letters, ids)).spots:
            return replace(found, is_late=True)  # those whose words break within may be missing
    # Letters at an end that are no word anywhere must be a piece of something.
    ends = {word.group() for word in words[:1] + words[-1:] if word.start() == 0 or word.end() == len(text)}
    is_strange = not is_known and any(search.count(f'body: "{word}"', 0) == 0 for word in ends)
    seconds = min(_LOOK_SECONDS, asked.means.seconds) if is_strange else _GLANCE_SECONDS
    return _glance(asked, asked.request.search_in, letters, seconds)


def _scan_messages(asked: _Search, letters: LiteralPattern, ids: list[int]) -> ScanResult:
    """The texts that hold the letters: of these messages, and of all summaries."""
    request, where = asked.request, asked.where
    found = scan.ScanResult()
    if request.search_in != "summaries":
        texts = [text for text in asked.archive.search.messages(ids) if where.holds(text)]
        found = scan.ScanResult(tuple(scan.scan_texts(texts, letters, request.limit)))
    if request.search_in == "messages":
        return found
    return scan.merge_scans(found, _glance(asked, "summaries", letters, _GLANCE_SECONDS), request.limit)


def _glance(asked: _Search, search_in: SearchIn, letters: LiteralPattern, seconds: float) -> ScanResult:
    """A short look counts its own work, so that what it finds does not depend on how busy the machine is."""
    limit, clock = asked.request.limit, time.thread_time
    return scan.TextScan(asked.archive, asked.where, letters, limit, seconds, clock=clock).run(search_in)


def _hit_of_text(text: AnyText, score: float, snippet: Snippet) -> SearchHit:
    at, what = from_epoch(text.at / 1000), text.place.what
    seq, role = (text.seq, text.role) if isinstance(text, MessageText) else (None, None)
    depth = None if isinstance(text, MessageText) else text.depth
    return SearchHit(text.id, what, text.conversation_id, seq, score, snippet[0], at, role, depth, matches=snippet[1])
