"""`lcm grep`, `recall`, `recent`, `describe`, `expand` and `ask`: find what was said and open it.

The commands run the same tools that agents use.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures, options
from lossless.cli.commands import Invocation, command, text_type
from lossless.cli.screen import Data, Screen, pick_json, role_text, styled, to_json
from lossless.errors import BadInput, NotFound
from lossless.model.conversations import Session
from lossless.model.records import DEFAULT_PAGE_BYTES, MAX_PAGE_BYTES, MIN_PAGE_BYTES, TimeRange, unpack_cursor
from lossless.settings.setting import camel_case
from lossless.tui.text import plural

if TYPE_CHECKING:
    from lossless.cli.options import ConversationTarget
    from lossless.engine import Engine
    from lossless.recall.results import SearchHit
    from lossless.recall.scope import Caller
    from lossless.recall.tools import ToolCallResult
    from lossless.settings import Settings


def _scope(target: ConversationTarget | None, everything: bool) -> ConversationTarget | None:
    if target is not None and everything:
        raise options.usage_error("Give --all or a conversation, not both.")
    return target


#: Options that say where to look; the command gets `target`, None for all conversations.
tool_scope_options = options.gathered(
    "target",
    _scope,
    options.target_options(required=False),
    options.flag("--all", "everything", help="Look at all conversations; this is the default."),
)


def tool_settings(invocation: Invocation) -> Settings:
    """A person may use all tools, with everything that is allowed to sub-agents."""
    return replace(invocation.loaded.settings, expand_for_main_agents="allow")


def run_tool(engine: Engine, name: str, target: ConversationTarget | None, args: Data) -> ToolCallResult:
    """Use a tool as agents do: on a session with its earlier conversations, one conversation, or all.

    What is wrong is raised.
    """
    from lossless.recall.scope import OUT_OF_SCOPE
    from lossless.recall.tools import TOOLS_BY_NAME, read_arguments

    tool = TOOLS_BY_NAME[name]
    caller, where = _caller(engine, target)
    given = {camel_case(key): value for key, value in args.items() if value is not None}
    try:
        return tool.function(engine.tools, read_arguments(tool.parameters, given | where), caller)
    except NotFound as error:
        if error.kind != OUT_OF_SCOPE:
            raise
        is_all = target is None
        raise failures.not_found(
            f"There is no {error.id} in {'this archive' if is_all else 'the conversations that were named'}.",
            hint="" if is_all else "It may be in another conversation: --all looks in all of them.",
            id=error.id,
        ) from None


def _caller(engine: Engine, target: ConversationTarget | None) -> tuple[Caller, Data]:
    from lossless.recall.scope import Caller, is_subagent_key

    if target is None:
        return Caller(is_owner=True), {"allConversations": True}
    target = target.settled(engine)
    found = target.need_id(engine)
    if target.conversation_id is not None or is_subagent_key(target.session_key):
        return Caller(is_owner=True), {"conversationId": found}
    return Caller(Session(key=target.session_key, id=target.session_id), in_turn=False, is_owner=True), {}


@command("search")
@options.words("pattern", "WORDS...", kind=str)
@options.target_options(required=False)
@options.flag("--regex", "-E", help="Read WORDS as a regular expression.")
@options.flag("--fixed", "-F", help="Find exactly these characters.")
@options.flag("--ignore-case", "-i", help="With -E or -F: ignore upper and lower case.")
@options.choice(
    "--in",
    "scope",
    choices=("both", "messages", "summaries", "files"),
    help="Where to look; files are large payloads that are stored as files.",
)
@options.choice(
    "--sort", choices=("recency", "relevance", "hybrid"), help="For words: newest first, best first, or a mix of both."
)
@options.time_options
@options.limit_option
@options.cursor_option
def search(
    invocation: Invocation,
    /,
    pattern: str,
    target: ConversationTarget | None,
    regex: bool,
    fixed: bool,
    ignore_case: bool,
    span: TimeRange | None,
    **how: Any,
) -> None:
    """Find WORDS in messages, tool calls and summaries, in any order and any grammatical form."""
    if not pattern:
        raise options.bad_option("PATTERN", "it is empty")
    if regex and fixed:
        raise options.bad_option("--fixed", "it does not go with --regex")
    if fixed or regex:  # letter by letter, ß and SS are the same without case
        flags = "" if not ignore_case else "(?if)" if fixed else "(?i)"
        pattern = flags + (re.escape(pattern) if fixed else pattern)
    _check_cursor(how["cursor"])
    with invocation.reader() as engine:
        found = engine.grep(
            pattern,
            mode="regex" if regex or fixed else "full_text",
            conversation_id=options.id_or_none(target, engine),
            since=None if span is None else span.since,
            before=None if span is None else span.before,
            **how,
        )
    rest = found.cursor if found.truncated else None
    shown = {"limit": found.request.limit, "returned": len(found.hits)}
    pagination = shown | {"hasMore": rest is not None, "nextCursor": rest}
    data: Data = {"items": [hit_json(hit) for hit in found.hits], "total": found.total, "hint": found.hint}
    is_partial = found.next is not None and found.next.is_any
    name = click.get_current_context().info_name or "search"  # as `grep` it has the name of earlier versions
    invocation.answer(name, data, pagination, view=partial(print_hits, is_partial=is_partial))


def _check_cursor(cursor: str | None) -> None:
    if cursor is None:
        return
    from lossless.recall.results import start_from_cursor

    try:
        options.check_list("grep", (unpack_cursor(cursor) or {}).get("resource", "grep"))
        start_from_cursor(cursor)
    except (BadInput, ValueError) as error:
        raise options.bad_option("--cursor", str(error)) from None


def hit_json(hit: SearchHit) -> Data:
    item: Data = {
        **pick_json(hit, "id", "type=kind", "conversation_id", "created_at", "snippet", "matches"),
        "match": list(hit.matches[0]) if hit.matches else [0, 0],
    }
    if hit.kind == "message":
        version = {} if hit.version is None else {"version": hit.version}
        return item | pick_json(hit, "seq", "role", "summarized_in=summary_id") | version
    if hit.kind == "summary":
        return item | pick_json(hit, "summary_id=id", "depth") | {"kind": "condensed" if hit.depth else "leaf"}
    return item | pick_json(hit, "file_name=name", "line", "offset")


@command("recall")
@options.words("question", "QUESTION...")
@options.target_options(required=False)
@options.number("--max-tokens", help="The most tokens to show.")
def recall(invocation: Invocation, question: str, target: ConversationTarget | None, max_tokens: int | None) -> None:
    """Find messages that help to answer QUESTION, and quote them with their ids and days, the best first."""
    with invocation.reader() as engine:
        found = engine.recall(question, conversation_id=options.id_or_none(target, engine), max_tokens=max_tokens)
    evidence = [to_json(item) | {"reference": item.reference} for item in found.evidence]
    data: Data = {"question": question, "note": found.note, "evidence": evidence, "text": str(found)}
    if screen := invocation.answer("recall", data):
        days: dict[tuple[str, int, str | None], list[Data]] = {}
        for quote in data["evidence"]:
            place = screen.date(quote["createdAt"]), quote["conversationId"], quote["summaryId"]
            days.setdefault(place, []).append(quote)
        if data["note"]:
            screen.note(data["note"])
        for (day, conversation_id, summary_id), items in days.items():
            screen.gap()
            screen.title(day, f"conversation {conversation_id}", summary_id)
            for quote in sorted(items, key=lambda quote: int(quote["seq"])):
                screen.speaker(quote["id"], quote["role"], f"[{quote['days']}]" if quote["days"] else "")
                screen.prose(quote["text"])


@command("recent")
@options.words("when", "[WHEN]...", required=False)
@options.target_options(required=False)
@options.number("--max-tokens", help="The most tokens to show.")
def recent(invocation: Invocation, when: str | None, target: ConversationTarget | None, max_tokens: int | None) -> None:
    """Show what happened, by day and topic. WHEN is a time: yesterday, last week, since Monday, 3 March."""
    words = (when or "since yesterday").strip()
    with invocation.reader() as engine:
        try:
            found = engine.recent(words, conversation_id=options.id_or_none(target, engine), max_tokens=max_tokens)
        except BadInput as error:
            raise options.bad_option("WHEN", str(error)) from None
        newest = () if found.topics else engine.browse.conversations(1, by_message=True).rows
    topics = [
        to_json(topic) | {"quotes": [to_json(item) | {"reference": item.reference} for item in topic.quotes]}
        for topic in found.topics
    ]
    view = partial(print_recent, newest_at=newest[0].latest_message_at if newest else None)
    data: Data = {"when": words, **pick_json(found, "since", "before", "note"), "topics": topics, "text": str(found)}
    invocation.answer("recent", data, view=view)


def _file_page(start_line: int | None, end_line: int | None, max_bytes: int, cursor: str | None) -> Data:
    if start_line is not None and end_line is not None and end_line < start_line:
        raise options.usage_error("--end-line is before --start-line.")
    return {"startLine": start_line, "endLine": end_line, "expandFileMaxBytes": max_bytes, "cursor": cursor}


_from_cursor = options.text("--cursor", metavar="CURSOR", help="Continue where an earlier answer stopped.")
#: Which part of a stored file to show; the command gets `page`, for the tool.
file_page_options = options.gathered(
    "page",
    _file_page,
    options.number("--start-line", help="The first line of a file to show."),
    options.number("--end-line", help="The last line of a file to show."),
    options.number(
        "--max-bytes",
        minimum=MIN_PAGE_BYTES,
        maximum=MAX_PAGE_BYTES,
        default=DEFAULT_PAGE_BYTES,
        help="The most bytes of a file to show at once.",
    ),
    _from_cursor,
)


@command("describe")
@click.argument("name", metavar="ID", type=text_type)
@tool_scope_options
@options.number("--token-cap", help="The budget to compare branches with; else the most.")
@file_page_options
def describe(
    invocation: Invocation, name: str, target: ConversationTarget | None, token_cap: int | None, page: Data
) -> None:
    """Open ID: a summary (sum_…), a message (msg#12, or its number) or a stored file (file_…)."""
    with invocation.reader(tool_settings(invocation)) as engine:
        result = run_tool(engine, "lcm_describe", target, {"id": name, "tokenCap": token_cap, **page})
    invocation.answer("describe", result.details | {"text": result.text}, view=print_text)


@command("expand")
@click.argument("summary_ids", nargs=-1, metavar="[IDS]...", type=text_type)
@tool_scope_options
@options.text("--query", metavar="WORDS", help="Also open the summaries that match these words best.")
@options.number("--max-depth", maximum=10, default=3, help="How many layers to go down.")
@options.number("--token-cap", help="The most tokens; else the setting maxExpandTokens.")
@options.flag("--messages", "include_messages", help="Go down to the messages.")
@options.text("--around", metavar="ID", help="Centre on this message (msg#12).")
@_from_cursor
def expand(invocation: Invocation, /, target: ConversationTarget | None, **args: Any) -> None:
    """Read what the summaries IDS were made of, in order and within a budget."""
    if not any(args[name] for name in ("summary_ids", "query", "around", "cursor")):
        raise options.usage_error("Name a summary (sum_…), or give --query or --around.")
    args["summary_ids"] = list(args["summary_ids"])
    with invocation.reader(tool_settings(invocation)) as engine:
        result = run_tool(engine, "lcm_expand", target, args)
    invocation.answer("expand", result.details | {"text": result.text}, view=print_text)


@command("ask")
@options.words("prompt", "QUESTION...")
@tool_scope_options
@options.text("--query", metavar="WORDS", help="What to search for; else the words of QUESTION, without --ids.")
@options.text("--ids", metavar="ID,…", help="Summaries to begin with, with commas between them.")
@click.option("--timeout", metavar="SECONDS", type=click.FloatRange(0.001, 600), help="The longest time to wait.")
@options.number("--max-tokens", maximum=100_000, help="How long the answer should be.  [default: 2000]")
@options.number("--token-cap", help="The most tokens to read; else the setting maxExpandTokens.")
@options.flag("--no-model", help="Ask no model; the answer is the evidence itself.")
def ask(
    invocation: Invocation,
    /,
    target: ConversationTarget | None,
    ids: str | None,
    timeout: float | None,
    no_model: bool,
    **args: Any,
) -> None:
    """Answer QUESTION from the archive, with the ids that support the answer."""
    args["summary_ids"] = [id_.strip() for id_ in (ids or "").split(",") if id_.strip()]
    args["query"] = args["query"] or (None if args["summary_ids"] else args["prompt"])
    args["timeout_ms"] = None if timeout is None else max(1, round(1000 * timeout))
    with _open_for_answer(invocation, may_ask=not no_model) as engine:
        result, models = run_tool(engine, "lcm_expand_query", target, args), engine.tools.models
    details = result.details
    if result.is_error and "errorCode" in details:
        known = {"errorCode": details["errorCode"], "conversations": details.get("conversationBreakdown", [])}
        hint, message = "With --no-model the answer is the evidence itself.", f"There is no answer: {details['error']}."
        raise failures.fail("no_answer", message, failures.INTERNAL, hint=hint, **known)
    found = {"answer": details.get("answer", details.get("error")), "models": [name for name, _ in models]}
    data: Data = found | {name: value for name, value in details.items() if name != "error"}
    if screen := invocation.answer("ask", data):
        screen.prose(data["answer"], indent=0)
        if not data["citedIds"]:
            return
        screen.gap()
        read = f"{data['totalSourceTokens']:,} tokens{', not all of it' if data['truncated'] else ''}"
        places = {"from": data["citedIds"], "conversations": list(map(str, data["sourceConversationIds"]))}
        screen.record(places | {"read": read, "asked": data["models"] or "no model"})


def _open_for_answer(invocation: Invocation, *, may_ask: bool) -> Engine:
    """The engine that answers. Calls are rows, so it is opened for writing only when there is a model."""
    from lossless.compaction.summariser import Summariser
    from lossless.llm.chain import Gate

    settings = tool_settings(invocation)
    reader = invocation.reader(settings)
    if not (may_ask and Summariser(settings).readers(Gate())):
        return reader
    reader.close()
    return invocation.engine(settings)


def print_hits(screen: Screen, data: Data, *, is_partial: bool = False) -> None:
    from lossless.recall.query import EMPTY_HINT
    from lossless.recall.results import NOTHING_FOUND_HINT

    for item in data["items"]:
        snippet = styled(item["snippet"], "")
        for start, end in item["matches"]:
            snippet.stylize("bold black on yellow", start, end)
        name = f"#{item['id']}" if item["type"] == "message" else item["id"]
        when = f"  {screen.time(item['createdAt'])}  conversation {item['conversationId']}"
        if item["type"] == "message":
            speaker = role_text(item["role"])
        else:
            is_summary = item["type"] == "summary"
            place = f"depth {item['depth']}" if is_summary else f"{item['fileName'] or 'file'} line {item['line']}"
            speaker = styled(place, "blue")
        screen.line(styled(f"{name} ", "bold"), speaker, styled(when, "dim"))
        screen.prose(snippet)
    if is_partial:
        screen.note("No text has all of these words. --sort relevance shows the best matches first.")
    if data["hint"] and data["hint"] != NOTHING_FOUND_HINT:
        screen.note(data["hint"])
    if data["hint"] == EMPTY_HINT:
        screen.note("--fixed finds signs such as *; `lcm list` shows all conversations.")


def print_recent(screen: Screen, data: Data, newest_at: datetime | None = None) -> None:
    screen.note(data["note"])
    if not data["topics"] and newest_at is not None:
        newest = screen.date(newest_at)
        screen.line(f"The newest message is from {newest}: `lcm recent since {newest}` shows that day and later ones.")
    shown = None
    for topic in data["topics"]:
        day = screen.date(topic["since"]), topic["conversationId"]
        if day != shown:
            screen.gap()
            screen.title(day[0], f"conversation {day[1]}")
            shown = day
        count = f"  {plural(topic['messageCount'], 'message')}"
        screen.line(styled(", ".join(topic["words"]), "bold"), styled(count, "dim"))
        for item in topic["quotes"]:
            screen.speaker(item["id"], item["role"], screen.time(item["createdAt"]))
            screen.prose(item["text"])


def print_text(screen: Screen, data: Data) -> None:
    screen.prose(data["text"], indent=0)
