"""`grep`: find what was said. Words, best or newest first; regular expressions; letters as they are.

Any text may be asked for: it is read as words, and where words find nothing, as the letters that it is.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Literal, get_args

from lossless.errors import BadInput
from lossless.model.times import from_epoch, parse_time
from lossless.recall import filesearch, literal, scan, wordsearch
from lossless.recall.dates import time_asked_about
from lossless.recall.found import NOTHING, Finding, Findings, Snippet, Start, best_snippet, snippet_around, start_at
from lossless.recall.rank import Span
from lossless.recall.scope import GrepMode, SearchIn, Sort
from lossless.recall.versions import VersionSearch
from lossless.store.search import FEW, MOST_UNREAD, UNWRITABLE
from lossless.store.skeleton import storable
from lossless.store.texts import AnyText, MessageText, Place, Where
from lossless.store.trigram import build

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.files.vault import Vault
    from lossless.recall.regexes import Regex
    from lossless.recall.scan import Pattern, Scan, Spot
    from lossless.recall.scope import GrepRequest, Scope
    from lossless.recall.wordsearch import Words
    from lossless.store.archive import Archive
    from lossless.store.texts import What

MAX_LIMIT = 200
MAX_CHARS = 8_000
#: What a look for the letters themselves may take when words were found; and when they cannot be what was asked for.
_GLANCE_SECONDS = 0.03
_LOOK_SECONDS = 0.5
_BUILDING_SECONDS = 1.0
_LATE = "Not all was looked at in time; go on with the cursor, or narrow the search."
_UNREAD = "Of the messages that are not indexed yet, the newest {} were looked at."
_SLOW = "The pattern took too long on {} texts, which were passed over."


@dataclass(frozen=True, slots=True)
class Means:
    """What a search may use: time, an index of letters, the bytes of files."""

    seconds: float = 2.0
    trigrams: Literal["auto", "on", "off"] = "auto"
    engine: Literal["regex", "re2"] = "regex"
    vault: Vault | None = None
    #: The part of the time that one text may take.
    share: float = scan.SHARE
    #: Whether words are looked for that stand only in versions of messages, behind all others.
    versions: bool = True


@dataclass(frozen=True, slots=True)
class _Asked:
    """One search: what, where, from which place on, and by which means."""

    archive: Archive
    scope: Scope
    request: GrepRequest
    where: Where
    start: Start | None
    means: Means

    def findings(
        self, found: Sequence[Finding], total: int, hint: str | None, rest: Start | None, *, truncated: bool
    ) -> Findings:
        """The result, with the summaries above what was found."""
        archive = self.archive
        ids = [hit.id for hit in found if isinstance(hit.id, int)]
        echoes = archive.search.echoes(ids) if ids else ()
        found = sorted(found, key=lambda hit: hit.id in echoes)
        leaves = archive.summaries.covering(ids) if ids else {}
        hits = tuple(
            replace(hit, summary_id=leaves[hit.id]) if isinstance(hit.id, int) and hit.id in leaves else hit
            for hit in found
        )
        above = {*leaves.values(), *(str(hit.id) for hit in hits if hit.kind == "summary")}
        nodes = archive.lineage.nodes(above) if above else {}
        spans = {id_: (node.earliest_at, node.latest_at) for id_, node in nodes.items()}
        return Findings(self.request, self.scope, hits, total, hint, truncated, rest, spans)


def grep(
    archive: Archive,
    scope: Scope,
    request: GrepRequest,
    now: datetime,
    *,
    cursor: str | Start | None = None,
    means: Means | None = None,
) -> Findings:
    """Search within a scope. No text makes it fail but a broken regular expression (`BadPattern`).

    `limit` is taken as 1 to 200. `BadInput` for a stretch of time that is empty, and for a foreign cursor.
    """
    request = checked(request)
    start = start_at(cursor) if isinstance(cursor, str) else cursor
    where = Where(scope.conversation_ids, _milliseconds(request.since), _milliseconds(request.before))
    asked = _Asked(archive, scope, request, where, start, means or Means(versions=False))
    if request.search_in == "files":
        return _in_files(asked)
    if start is not None and start.is_version:
        return _among_versions(asked, asked.findings((), start.offset, None, None, truncated=False), start.offset)
    if request.mode == "regex":
        found = _scanned(replace(asked, request=replace(request, sort="recency")), _regex(asked))
    else:
        found = _by_words(asked, now)
    is_last = not found.truncated and not (request.mode == "full_text" and start is not None and start.is_scan)
    wants_them = asked.means.versions and request.search_in != "summaries"
    return _among_versions(asked, found, 0) if is_last and wants_them else found


def _among_versions(asked: _Asked, found: Findings, offset: int) -> Findings:
    """Findings with the messages behind them of which only a version has it."""
    request, means = asked.request, asked.means
    if request.mode == "regex":
        search = VersionSearch.expression(asked.archive, asked.where, _regex(asked), means.seconds)
    else:
        seconds = min(_LOOK_SECONDS, means.seconds)
        search = VersionSearch.words(asked.archive, asked.where, request.pattern[:MAX_CHARS], seconds)
    room = request.limit - len(found.hits)
    known = {hit.id for hit in found.hits if hit.matches}
    more = list(islice((hit for hit in search.hits() if hit.id not in known), offset, offset + room + 1))
    if not more:
        return found
    rest = Start(offset + room, is_version=True) if len(more) > room else found.next
    hint = None if found.hint == NOTHING else found.hint
    shown = {hit.id for hit in more[:room]}
    hits = [*(hit for hit in found.hits if hit.id not in shown), *more[:room]]
    return asked.findings(hits, found.total + len(more), hint, rest, truncated=len(more) > room)


def checked(request: GrepRequest) -> GrepRequest:
    """The request with its limit inside the bounds; `BadInput` for words that mean nothing here, and empty times."""
    for name, value, kind in (
        ("mode", request.mode, GrepMode),
        ("scope", request.search_in, SearchIn),
        ("sort", request.sort, Sort),
    ):
        if value not in get_args(kind):
            raise BadInput(f"{name}: {value!r:.40} is none of {', '.join(get_args(kind))}")
    since, before = _aware(request.since), _aware(request.before)
    if since is not None and before is not None and since >= before:
        raise BadInput(f"the stretch of time is empty: since ({since.isoformat()}) is not before {before.isoformat()}")
    return replace(request, limit=max(1, min(MAX_LIMIT, int(request.limit))), since=since, before=before)


def moment(name: str, value: datetime | str | None) -> datetime | None:
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


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


# --- regular expressions, and letters as they are ---------------------------------------------------


def _regex(asked: _Asked) -> Regex:
    from lossless.recall.regexes import Regex

    return Regex(storable(asked.request.pattern), asked.means.engine)


def _scanned(asked: _Asked, pattern: Pattern) -> Findings:
    start = asked.start or Start()
    if asked.means.trigrams == "on":
        _build(asked.archive)
    done = _scan(asked, pattern, asked.means.seconds, start.place)
    found = [_spotted(spot) for spot in done.spots]
    notes = [_SLOW.format(done.slow)] if done.slow else []
    notes += [_LATE] if done.is_late else []
    notes += [NOTHING] if not found and not notes and start.place is None else []
    is_over = done.stopped is None and not done.is_late
    rest = None if is_over else Start(place=done.stopped or start.place, is_scan=start.is_scan)
    total = len(found) + (0 if is_over or done.is_late else 1)
    return asked.findings(found, total, " ".join(notes) or None, rest, truncated=rest is not None or bool(done.slow))


def _scan(asked: _Asked, pattern: Pattern, seconds: float, start: Place | None = None) -> Scan:
    """Scan; one that was too slow has an index of letters made that would help it, a piece at each search."""
    request = asked.request
    within = scan.Time(seconds, asked.means.share)
    done = scan.scan(asked.archive, asked.where, request.search_in, pattern, request.limit, within, start)
    is_wanted = (done.is_late and bool(pattern.needed)) or asked.archive.search.trigrams.is_behind
    if is_wanted and asked.means.trigrams == "auto":
        _build(asked.archive)
    return done


def _build(archive: Archive) -> None:
    with suppress(*UNWRITABLE):
        build(archive, _BUILDING_SECONDS)


def _spotted(spot: Spot) -> Finding:
    return _finding(spot.source, 0.0, snippet_around(spot.text, spot.start, spot.end))


# --- words ------------------------------------------------------------------------------------------


def _by_words(asked: _Asked, now: datetime) -> Findings:
    request, start = asked.request, asked.start
    letters = literal.Literal(request.pattern[:MAX_CHARS])
    if start is not None and start.is_scan:
        return _scanned(asked, letters)
    words = wordsearch.words_of(asked.archive, request.pattern, asked.where, request.search_in)
    page = _newest(words, asked) if request.sort == "recency" else _ranked(words, asked, now)
    if letters.text and start is None:
        page = _with_letters(asked, page, letters)
    elif letters.text and page.rest is None:
        page = replace(page, beyond=Start(is_scan=True))
    if len(page.found) > request.limit:
        page = _cut(page, request)
    found = page.found
    hint = words.query.hint or page.hint or _unread_hint(words) or (None if found or start else NOTHING)
    is_more = page.rest is not None or page.hint is not None
    total = max(page.total, sum(bool(hit.matches) for hit in found))
    return asked.findings(found, total, hint, page.rest or page.beyond, truncated=is_more)


def _unread_hint(words: Words) -> str | None:
    is_cut = len(words.unread_messages) == MOST_UNREAD
    return _UNREAD.format(f"{MOST_UNREAD:,}") if is_cut else None


@dataclass(frozen=True, slots=True)
class _Page:
    """Hits of one page, their texts, how many there are, and where the rest is."""

    found: Sequence[Finding]
    texts: Sequence[AnyText]
    total: int
    rest: Start | None
    #: Where the same letters inside of other words are looked for.
    beyond: Start | None = None
    hint: str | None = None
    #: Whether one of the words was enough.
    is_any: bool = False


def _cut(page: _Page, request: GrepRequest) -> _Page:
    """A page that is not too long, after letters were added to words."""
    shown = page.found[: request.limit]
    known = {text.id for text in page.texts}
    if not any(hit.id in known for hit in page.found[request.limit :]):
        rest = page.rest or Start(is_scan=True)
    elif request.sort == "recency":
        last = shown[-1]
        what: What = "message" if last.kind == "message" else "summary"
        rest = Start(place=Place(round(last.created_at.timestamp() * 1000), what, last.id), is_any=page.is_any)
    else:
        rest = Start(sum(hit.id in known for hit in shown))
    return replace(page, found=shown, rest=rest)


def _ranked(words: Words, asked: _Asked, now: datetime) -> _Page:
    request, texts = asked.request, asked.archive.search.texts
    offset = asked.start.offset if asked.start else 0
    end = offset + request.limit
    spoken = time_asked_about(request.pattern[:MAX_CHARS], now)
    span = None if spoken is None else Span(spoken.since.timestamp(), spoken.before.timestamp())
    ranked = wordsearch.ranked(words, wordsearch.POOL + end, request.sort, now.timestamp(), span)
    hits = ranked.hits[offset:end]
    near = [hit.id for hit in hits if hit.id not in ranked.texts and isinstance(hit.id, int)]
    known = ranked.texts | {text.id: text for text in texts.messages(near)}
    finder = words.finder
    shown = [(hit, known[hit.id]) for hit in hits if hit.id in known]
    letters = literal.Literal(request.pattern[:MAX_CHARS])
    found = [
        _finding(text, hit.score, _marked(best_snippet(text.indexed, finder, ranked.weights), letters))
        for hit, text in shown
    ]
    rest = Start(end) if len(ranked.hits) > end else None
    total = sum(bool(hit.matched) for hit in ranked.hits)
    return _Page(found, [text for _, text in shown], total, rest)


def _newest(words: Words, asked: _Asked) -> _Page:
    finder, limit, start = words.finder, asked.request.limit, asked.start or Start()
    newest = wordsearch.newest(words, limit + 1, start.place, is_any=start.is_any)
    texts = newest.texts[:limit]
    letters = literal.Literal(asked.request.pattern[:MAX_CHARS])
    found = [_finding(text, 0.0, _marked(best_snippet(text.indexed, finder), letters)) for text in texts]
    rest = Start(place=texts[-1].place, is_any=newest.is_any) if len(newest.texts) > limit else None
    total = len(newest.texts) if newest.total is None else newest.total
    return _Page(found, texts, total, rest, is_any=newest.is_any)


def _marked(snippet: Snippet, letters: literal.Literal) -> Snippet:
    """With the pattern marked as a whole, where it stands there as it is."""
    whole = letters.find(snippet.text)
    if whole is None or whole[0] == whole[1]:
        return snippet
    others = [match for match in snippet.matches if match[1] <= whole[0] or match[0] >= whole[1]]
    return Snippet(snippet.text, tuple(sorted([whole, *others])))


def _with_letters(asked: _Asked, page: _Page, letters: literal.Literal) -> _Page:
    """A first page with the texts that hold the letters as they are: before all others when no hit does, else last."""
    has_them = any(letters.is_in(text) for text in page.texts)
    if has_them and page.rest is not None:
        return page
    done = _letters(asked, letters, is_known=has_them, has_hits=bool(page.found))
    known = {hit.id for hit in page.found}
    fresh = [hit for hit in map(_spotted, done.spots) if hit.id not in known]
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
    return replace(page, beyond=Start(place=done.stopped, is_scan=True), hint=hint)


def _letters(asked: _Asked, letters: literal.Literal, *, is_known: bool, has_hits: bool) -> Scan:
    """The texts that hold the letters as they are: all of them, or as far as what is found already makes it worth."""
    search, request = asked.archive.search, asked.request
    if not has_hits or search.size(asked.where)[0] <= FEW:
        return _scan(asked, letters, asked.means.seconds)
    likely = literal.likely_messages(search, literal.inner_words(letters.text))
    if likely is not None:
        return _among(asked, letters, likely)
    if (phrase := literal.phrase_of(letters.text)) and (ids := literal.messages_with_phrase(search, phrase)):
        found = _among(asked, letters, ids)
        if found.spots:
            return replace(found, is_late=True)
    is_strange = not is_known and literal.is_strange(search, letters.text)
    seconds = min(_LOOK_SECONDS, asked.means.seconds) if is_strange else _GLANCE_SECONDS
    return scan.scan(asked.archive, asked.where, request.search_in, letters, request.limit, _own_time(seconds))


def _among(asked: _Asked, letters: literal.Literal, ids: list[int]) -> Scan:
    """The texts that hold the letters: of these messages, and of all summaries."""
    search, request = asked.archive.search, asked.request
    spots: list[Spot] = []
    if request.search_in != "summaries":
        spots = scan.look_at(wordsearch.visible(search.texts.messages(ids), asked.where), letters, request.limit)
    if request.search_in == "messages":
        return scan.Scan(tuple(spots))
    summaries = scan.scan(asked.archive, asked.where, "summaries", letters, request.limit, _own_time(_GLANCE_SECONDS))
    return scan.merged(scan.Scan(tuple(spots)), summaries, request.limit)


def _own_time(seconds: float) -> scan.Time:
    """A short look counts its own work, so that what it finds does not depend on how busy the machine is."""
    return scan.Time(seconds, clock=time.thread_time)


def _finding(text: AnyText, score: float, snippet: Snippet) -> Finding:
    at, what = from_epoch(text.at / 1000), text.place.what
    seq, role = (text.seq, text.role) if isinstance(text, MessageText) else (None, None)
    depth = None if isinstance(text, MessageText) else text.depth
    return Finding(
        text.id, what, text.conversation_id, seq, score, snippet.text, at, role, depth, matches=snippet.matches
    )


# --- files ------------------------------------------------------------------------------------------


def _in_files(asked: _Asked) -> Findings:
    request, means = asked.request, asked.means
    if request.mode == "regex":
        find = filesearch.find_pattern(_regex(asked), means.seconds)
    else:
        find = filesearch.find_words(request.pattern)
    bounds = filesearch.Bounds(request.limit, means.seconds, means.vault)
    found, is_whole = filesearch.in_files(asked.archive, asked.where, find, request.file_ids, bounds)
    return asked.findings(found, len(found), None if found else NOTHING, None, truncated=not is_whole)
