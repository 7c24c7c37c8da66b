"""`lcm grep`: find what was said, in words, as a regular expression, or letter by letter."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import cursors
from lossless.cli.commands import Command
from lossless.cli.options import bad, paging, selector, time_filters
from lossless.model.times import parse_time, state_time
from lossless.store.listings import Place

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.cli.options import Selection
    from lossless.recall.found import Finding, Findings, Start
    from lossless.recall.scope import GrepRequest, Scope, SearchIn, Sort
    from lossless.store.archive import Archive
    from lossless.store.listings import Span
    from lossless.store.texts import Place as TextPlace

_START = re.compile(
    r"(scan\.)?(any\.)?(?:(?:versions\.)?offset:([0-9]{1,9})|message:([1-9][0-9]{0,17})|summary:(.+))", re.ASCII
)


@click.command("grep", cls=Command)
@click.argument("pattern")
@selector(required=False)
@click.option("--regex", "-E", is_flag=True, help="PATTERN is a regular expression.")
@click.option("--fixed", "-F", is_flag=True, help="PATTERN is taken literally, letter by letter.")
@click.option("--ignore-case", "-i", is_flag=True, help="With -E or -F: ignore upper and lower case.")
@click.option(
    "--in",
    "search_in",
    type=click.Choice(["both", "messages", "summaries", "files"]),
    default="both",
    show_default=True,
    help="Where to look; files are the large payloads that were set aside.",
)
@click.option(
    "--sort",
    type=click.Choice(["recency", "relevance", "hybrid"]),
    default="recency",
    show_default=True,
    help="For words: newest first, best first, or a mix of both.",
)
@time_filters
@paging("grep", str)
@click.pass_obj
def grep(
    invocation: Invocation,
    pattern: str,
    selection: Selection,
    regex: bool,
    fixed: bool,
    ignore_case: bool,
    search_in: SearchIn,
    sort: Sort,
    span: Span | None,
    limit: int,
    start: Place | None,
) -> None:
    """Find PATTERN in messages, tool calls and summaries: its words, in any script, in any form.

    Texts with all of the words come before those with some of them. Quote a phrase inside PATTERN to keep its
    words together. The newest come first.
    """
    from lossless.recall.scope import GrepRequest, Scope

    if not pattern:
        raise bad("PATTERN", "it is empty")
    if regex and fixed:
        raise bad("--fixed", "it does not go with --regex")
    if fixed or regex:
        pattern = f"{_flags(ignore_case, fixed)}{re.escape(pattern) if fixed else pattern}"
    since, before = (None, None) if span is None else (_moment(span.since), _moment(span.before))
    mode = "regex" if regex or fixed else "full_text"
    request = GrepRequest(pattern, mode, search_in, (), since, before, limit, sort)  # type: ignore[arg-type]
    with invocation.archive() as archive:
        id_ = selection.find(archive)
        scope = Scope("all", None) if id_ is None else Scope("conversation", (id_,))
        found = _search(invocation, archive, scope, request, _start(start))
    rest = found.next if found.truncated else None
    pagination = {
        "limit": found.request.limit,
        "returned": len(found.hits),
        "hasMore": rest is not None,
        "nextCursor": None if rest is None else cursors.encode("grep", _place(rest)),
    }
    data = {"items": [item_of(hit) for hit in found.hits], "total": found.total, "hint": found.hint}
    invocation.emit("grep", data, pagination)


def _search(
    invocation: Invocation, archive: Archive, scope: Scope, request: GrepRequest, start: Start | None
) -> Findings:
    from lossless.files.place import vault_of
    from lossless.recall import grep as search

    settings = invocation.loaded.settings
    vault = vault_of(archive.path, settings.large_files_dir)
    means = search.Means(settings.regex_timeout_ms / 1000, settings.trigram_index, settings.regex_engine, vault)
    return search.grep(archive, scope, request, datetime.now(UTC), cursor=start, means=means)


def _flags(ignore_case: bool, fixed: bool) -> str:
    """Letter by letter, ß and SS are the same without case."""
    return "" if not ignore_case else "(?if)" if fixed else "(?i)"


def _moment(text: str | None) -> datetime | None:
    return None if text is None else parse_time(text)


def _place(start: Start) -> Place:
    """Where the next page begins, as a cursor of this list holds it."""
    marks = f"{'scan.' if start.is_scan else ''}{'any.' if start.is_any else ''}"
    marks += "versions." if start.is_version else ""
    if start.place is None:
        return Place("", f"{marks}offset:{start.offset}")
    at, what, id_ = start.place
    return Place(state_time(datetime.fromtimestamp(at / 1000, UTC)), f"{marks}{what}:{id_}")


def _start(place: Place | None) -> Start | None:
    """What a cursor means."""
    from lossless.recall.found import Start

    if place is None:
        return None
    found = _START.fullmatch(str(place.id))
    if found is None or (found[3] is None) == (place.at == ""):
        raise bad("--cursor", "it was changed; take one from `pagination.nextCursor`")
    text_place, is_version = _text_place(place.at, found[4], found[5]), "versions.offset:" in found[0]
    return Start(int(found[3] or 0), text_place, bool(found[1]), bool(found[2]), is_version and found[3] is not None)


def _text_place(at: str, message: str | None, summary: str | None) -> TextPlace | None:
    from lossless.store import texts

    if not at:
        return None
    moment = round(parse_time(at).timestamp() * 1000)
    if message is not None:
        return texts.Place(moment, "message", int(message))
    return texts.Place(moment, "summary", summary or "")


def item_of(hit: Finding) -> dict[str, Any]:
    """A hit under JSON's names."""
    item: dict[str, Any] = {
        "id": hit.id,
        "type": hit.kind,
        "conversationId": hit.conversation_id,
        "createdAt": hit.created_at,
        "snippet": hit.snippet,
        "match": list(hit.matches[0]) if hit.matches else [0, 0],
        "matches": [list(match) for match in hit.matches],
    }
    if hit.kind == "message":
        version = {} if hit.version is None else {"version": hit.version}
        return item | {"seq": hit.seq, "role": hit.role, "summarizedIn": hit.summary_id} | version
    if hit.kind == "summary":
        kind = "condensed" if hit.depth else "leaf"
        return item | {"summaryId": hit.id, "depth": hit.depth, "kind": kind}
    return item | {"fileName": hit.name, "line": hit.line, "offset": hit.offset}
