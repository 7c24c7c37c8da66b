"""`lcm status`, `list` and `show`, and `lcm conversations`, `messages` and `summaries`, as they were called before: how
much is kept, what the archive holds, and one thing of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from lossless import __version__
from lossless.cli import failures, options
from lossless.cli.commands import Group, Invocation, command, text_type
from lossless.cli.options import ConversationTarget, Paging
from lossless.cli.screen import Data, Screen, pick_json, preview, role_text, session_name, styled, to_json
from lossless.model.budget import fresh_tail_cap
from lossless.model.context import MessageItem, SummaryKind
from lossless.model.messages import ROLES
from lossless.settings.setting import camel_case
from lossless.tui.reads import titles
from lossless.tui.text import format_bytes, plural, shorten_middle

if TYPE_CHECKING:
    from rich.text import Text

    from lossless.engine import Engine
    from lossless.model.records import ConversationRow, DepthSizes, TimeRange
    from lossless.settings import Settings


conversations = Group("conversations", help="List conversations, or show one.")


@command("list", conversations)
@options.paging_options("conversations", int)
def list_conversations(invocation: Invocation, paging: Paging) -> None:
    """List conversations, most recently changed first."""
    settings = invocation.loaded.settings
    with invocation.reader() as engine, engine.browse.reading():
        page = engine.browse.conversations(paging.limit, paging.start)
        ids = [row.conversation_id for row in page.rows]
        tails = engine.browse.tails(ids, settings.fresh_tail_count, _tail_cap(settings))
    items = [_with_tail(row, tails[row.conversation_id]) for row in page.rows]
    pages = paging.pagination(page)
    data: Data = {"items": items}
    if screen := invocation.answer("conversations.list", data, pages):
        is_titled = any(item["title"] for item in data["items"])
        screen.items(
            data["items"],
            f"#=conversationId:right, session:key, {'title:rest, ' if is_titled else ''}messages=messageCount:count, "
            "tokens=messageTokens:count, sums=summaryCount:count, context=contextTokens:count, changed=updatedAt:time",
            session=lambda item: styled(session_name(item), "" if item["active"] else "dim"),
        )


@command("show", conversations)
@options.target_options()
def show_conversation(invocation: Invocation, target: ConversationTarget) -> None:
    """Show one conversation: counts, context, pending compaction, what was refused."""
    with invocation.reader() as engine, engine.browse.reading():
        data = _conversation_json(engine, target.need_id(engine))
    invocation.answer("conversations.show", data, view=print_conversation)


def _conversation_json(engine: Engine, id_: int) -> Data:
    settings = engine.settings
    row = engine.browse.conversation(id_)
    assert row is not None
    tail = engine.browse.tails([id_], settings.fresh_tail_count, _tail_cap(settings))[id_]
    details, ingest = engine.browse.details(id_), to_json(engine.browse.ingest_state(id_))
    del ingest["producers"]
    return {
        "conversation": _with_tail(row, tail),
        "summaryDepths": _depths_json(engine.browse.depths(id_)),
        "context": [_row_json(row) for row in details.context],
        "telemetry": to_json(details.telemetry),
        "historyBudget": None if (budget := engine.browse.history_budget(id_)) is None else str(budget),
        "maintenance": details.debt and {k: v for k, v in to_json(details.debt).items() if k != "conversationId"},
        "bootstrap": details.frontier and _row_json(details.frontier),
        "focusBriefs": {
            "count": details.brief_count,
            "activeBrief": details.active_brief and _row_json(details.active_brief),
        },
        "largeFiles": _row_json(details.files),
        "ingest": ingest,
        "hidden": details.hidden,
    }


def _depths_json(depths: Sequence[DepthSizes]) -> list[Data]:
    return [pick_json(depth, "kind", "depth", "count", "tokens") for depth in depths]


def _row_json(row: Data) -> Data:
    return {camel_case(name): value for name, value in row.items()}


def _tail_cap(settings: Settings) -> int | None:
    return fresh_tail_cap(settings.fresh_tail_max_tokens, settings.default_token_budget)


def _with_tail(row: ConversationRow, tail: list[MessageItem]) -> Data:
    sizes = {"freshTailMessages": len(tail), "freshTailTokens": sum(item.tokens for item in tail)}
    return options.row_json(row) | sizes


messages = Group("messages", help="List messages, show one, or show the fresh tail.")


@command("list", messages)
@options.target_options()
@click.option("--role", "roles", type=click.Choice(ROLES), multiple=True, help="Only this role; may be repeated.")
@options.time_options
@options.paging_options("messages", int)
@options.flag("--include-content", help="Show the whole text, too.")
def list_messages(
    invocation: Invocation, /, target: ConversationTarget, paging: Paging, include_content: bool, **filters: Any
) -> None:
    """List the messages of a conversation, newest first."""
    with invocation.reader() as engine, engine.browse.reading():
        id_ = target.need_id(engine)
        page = engine.browse.messages(id_, paging.limit, paging.start, **filters, whole=include_content)
    items = options.rows_json(page.rows, whole=include_content)
    data: Data = {"items": items}
    if screen := invocation.answer("messages.list", data, paging.pagination(page)):
        screen.items(
            data["items"],
            "#=messageId:right, time=createdAt:time, role, tokens=tokenCount:count, text:rest",
            role=lambda item: role_text(item["role"]),
            text=lambda item: item["preview"] or styled(", ".join(item["tools"]), "dim"),
        )
        for item in data["items"]:
            if "content" in item:
                _print_message_text(screen, item)


@command("tail", messages)
@options.target_options()
@options.number("--count", maximum=options.MAX_LIMIT, help="As if this many were protected, instead of the setting.")
def show_tail(invocation: Invocation, target: ConversationTarget, count: int | None) -> None:
    """Show the fresh tail: the messages that are never summarised."""
    settings = invocation.loaded.settings
    limit, cap = count or settings.fresh_tail_count, _tail_cap(settings)
    with invocation.reader() as engine, engine.browse.reading():
        id_ = target.need_id(engine)
        tail = engine.browse.tails([id_], limit, cap)[id_]
        rows = engine.browse.messages_by_id([item.message_id for item in tail])
        count_of_all, tokens_of_all = engine.browse.message_totals(id_)
    data: Data = {
        "conversationId": id_,
        "limits": {"count": limit, "maxTokens": cap},
        "selected": {
            "messages": len(rows),
            "tokens": sum(item.tokens for item in tail),
            "firstSeq": min((row.seq for row in rows), default=None),
            "lastSeq": max((row.seq for row in rows), default=None),
        },
        "conversation": {"messages": count_of_all, "tokens": tokens_of_all},
        "messages": options.rows_json(rows, whole=True),
    }
    if screen := invocation.answer("messages.tail", data):
        screen.title(f"Fresh tail of conversation {data['conversationId']}")
        screen.record(data, "conversationId", "messages")
        for message in data["messages"]:
            _print_message_text(screen, message)


@command("show", messages)
@click.argument("message_id", type=options.id_type)
def show_message(invocation: Invocation, message_id: int) -> None:
    """Show one message in full, as it came in, and where it is now."""
    with invocation.reader() as engine, engine.browse.reading():
        data = _message_json(engine, message_id)
    invocation.answer("messages.show", data, view=print_message)


def _message_json(engine: Engine, message_id: int, what: str = "message") -> Data:
    rows = engine.browse.messages_by_id([message_id])
    if not rows:
        raise failures.not_found(f"No {what} has number {message_id}.", kind="message", id=message_id)
    stored, status = engine.browse.message(message_id), engine.browse.message_status(message_id)
    return {
        "message": options.row_json(rows[0], whole=True),
        "entryId": stored.entry_id,
        **pick_json(stored.message, "format", "event_key", "tool_calls", "original"),
        "standing": pick_json(status, "context_ordinal=ordinal", "summarized_in=leaf_id", "hidden_cause"),
        "versions": [
            pick_json(version, "kind", "at", "content=message.content", "original=message.original")
            for version in engine.browse.versions(message_id)
        ],
    }


summaries = Group("summaries", help="List summaries, or show one with its sources.")


@command("list", summaries)
@options.target_options(required=False)
@click.option("--depth", metavar="N", type=click.IntRange(0, 1_000_000), help="Only this depth; leaves have 0.")
@click.option("--kind", type=click.Choice(get_args(SummaryKind)), help="Made of messages, or of summaries.")
@options.time_options
@options.paging_options("summaries", str)
@options.flag("--include-content", help="Show the whole text, too.")
def list_summaries(
    invocation: Invocation, /, target: ConversationTarget | None, paging: Paging, include_content: bool, **filters: Any
) -> None:
    """List summaries, newest first, of one conversation or of all."""
    with invocation.reader() as engine, engine.browse.reading():
        id_ = options.id_or_none(target, engine)
        page = engine.browse.summaries(
            paging.limit, paging.start, conversation_id=id_, **filters, whole=include_content
        )
    items = options.rows_json(page.rows, whole=include_content)
    data: Data = {"items": items}
    if screen := invocation.answer("summaries.list", data, paging.pagination(page)):
        one = len({item["conversationId"] for item in data["items"]}) == 1
        screen.items(
            data["items"],
            f"id=summaryId:key, {'' if one else 'conv=conversationId:right, '}depth:right, tokens=tokenCount:count, "
            "up to=coverageAt:date, text=preview:rest",
        )
        for item in data["items"]:
            if "content" in item:
                screen.gap()
                screen.title(item["summaryId"])
                screen.prose(item["content"])


@command("show", summaries)
@click.argument("summary_id", type=text_type)
def show_summary(invocation: Invocation, summary_id: str) -> None:
    """Show a summary in full, with what it was made of and what was made of it."""
    with invocation.reader() as engine, engine.browse.reading():
        data = _summary_json(engine, summary_id)
    invocation.answer("summaries.show", data, view=print_summary)


def _summary_json(engine: Engine, summary_id: str) -> Data:
    found = engine.browse.summaries_by_id([summary_id])
    if not found:
        hint = "`lcm summary list` shows what is there."
        raise failures.not_found(f"No summary has id {summary_id!r}.", hint=hint, kind="summary", id=summary_id)
    sources, used_in = engine.browse.sources(summary_id), engine.browse.used_in(summary_id)
    messages = engine.browse.messages_by_id(engine.browse.source_messages(summary_id))
    return {
        "summary": options.row_json(found[0], whole=True),
        "parents": options.rows_json(engine.browse.summaries_by_id(used_in, whole=False)),
        "children": options.rows_json(engine.browse.summaries_by_id(sources, whole=False)),
        "usedIn": used_in,
        "sources": sources,
        "sourceMessages": [
            pick_json(row, "message_id", "seq", "role", "token_count", "created_at", "content") for row in messages
        ],
    }


@command("list")
@options.time_options
@options.paging_options("conversations", int)
def list_command(invocation: Invocation, span: TimeRange | None, paging: Paging) -> None:
    """List conversations, those with the newest messages first."""
    with invocation.reader() as engine, engine.browse.reading():
        page = engine.browse.conversations(paging.limit, paging.start, by_message=True, span=span)
        words = titles(engine.browse, page.rows)
    items = [
        options.row_json(row) | {"firstWords": row.title or preview(words[row.conversation_id])} for row in page.rows
    ]
    data: Data = {"items": items}
    if screen := invocation.answer("list", data, paging.pagination(page)):
        is_wide, is_widest = screen.width >= _WIDE, screen.width >= _WIDEST

        def session(item: Data) -> Text:
            name = session_name(item)
            short = shorten_middle(_RUN_ID.sub(":…", name), 32 if is_wide else 20)
            return styled(name if is_widest else short, "dim")

        screen.items(
            data["items"],
            "#=conversationId:right, conversation:rest, session:rest, messages=messageCount:count, "
            f"{'from=earliestMessageAt:date, ' if is_wide else ''}last=latestMessageAt:date",
            conversation=lambda item: styled(preview(item["firstWords"], 100), "" if item["active"] else "dim"),
            session=session,
        )


_NUMBER = re.compile(r"#?\d{1,18}", re.ASCII)
_REFERENCE = re.compile(r"\[|(msg[#:]|sum_|file_)\w")


@command("show")
@click.argument("name", metavar="ID", type=text_type, shell_complete=options.complete_sessions)
@options.flag("--details", help="For a conversation: counts, context and state instead of its messages.")
@options.flag("--full", help="Show all of long messages and tool results.")
@options.time_options
@options.paging_options("messages", int)
def show(invocation: Invocation, name: str, details: bool, full: bool, span: TimeRange | None, paging: Paging) -> None:
    """Open ID: a conversation (its number, its session key, @last, @live), a message (msg#12), a summary (sum_…) or a
    stored file (file_…).
    """
    settings = replace(invocation.loaded.settings, expand_for_main_agents="allow")
    with invocation.reader(settings) as engine, engine.browse.reading():
        target = _find_conversation(engine, name)
        if target is None:
            invocation.answer("show", _open_reference(engine, name), view=print_shown)
            return
        id_ = target.need_id(engine)
        if details:
            invocation.answer("show", {"type": "details"} | _conversation_json(engine, id_), view=print_shown)
            return
        page = engine.browse.messages(id_, paging.limit, paging.start, span=span, whole=True)
        row = engine.browse.conversation(id_)
    assert row is not None
    messages = options.rows_json(page.rows[::-1], whole=True)
    data: Data = {"type": "conversation", "conversation": options.row_json(row), "messages": messages, "full": full}
    invocation.answer("show", data, paging.pagination(page), view=print_shown)


def _find_conversation(engine: Engine, name: str) -> ConversationTarget | None:
    """The conversation that a name means; None for what is the id of another thing."""
    is_number = _NUMBER.fullmatch(name) is not None
    if not is_number and _REFERENCE.match(name):
        return None
    try:
        return ConversationTarget(name=name.removeprefix("#") if is_number else name).settled(engine)
    except failures.CommandFailed:
        if is_number:
            return None
        raise


def _open_reference(engine: Engine, name: str) -> Data:
    from lossless.recall.results import parse_reference

    found = parse_reference(name.removeprefix("#"))
    if found.kind == "message":
        what = "conversation or message" if _NUMBER.fullmatch(name) else "message"
        return {"type": "message"} | _message_json(engine, found.message_id, what)
    if found.kind == "summary":
        return {"type": "summary"} | _summary_json(engine, found.id)
    from lossless.cli.recall import run_tool

    result = run_tool(engine, "lcm_describe", None, {"id": found.id})
    return {"type": "file"} | result.details | {"text": result.text}


def ago_and_time(screen: Screen, moment: Any) -> str:
    return screen.ago(moment) + ("" if moment is None else f" ({screen.time(moment)})")


def ingest_rows(counts: Data) -> tuple[tuple[str, str], ...]:
    """Seen versus stored, and what became of the rest."""
    names = {"  not stored": ("replayed", "skipped", "ambiguous"), "  matched": ("revised", "likely")}
    rows = {
        title: ", ".join(f"{counts[name]:,} {name}" for name in group if counts[name]) for title, group in names.items()
    }
    arrived = f"{counts['seen']:,} seen, {counts['stored']:,} stored"
    return (("Arrived", arrived), *((title, text) for title, text in rows.items() if text))


#: From these widths on, lists have more columns, and whole session keys.
_WIDE, _WIDEST = 110, 150
_RUN_ID = re.compile(r":[0-9a-f-]{32,}$", re.ASCII)
#: So long are messages and tool results when they are not asked for as a whole.
_SHOWN_CHARS, _SHOWN_TOOL_CHARS = 2000, 300


def print_shown(screen: Screen, data: Data) -> None:
    views = {"message": print_message, "summary": print_summary, "details": print_conversation}
    if data["type"] in views:
        views[data["type"]](screen, data)
        return
    if data["type"] == "file":
        screen.prose(data["text"], 0)
        return
    item = data["conversation"]
    screen.title(f"Conversation {item['conversationId']}", item["title"], "" if item["active"] else "closed")
    days = dict.fromkeys(screen.date(item[name]) for name in ("earliestMessageAt", "latestMessageAt"))
    about = f"{plural(item['messageCount'], 'message')}, {' … '.join(days)}"
    screen.note(f"{session_name(item)}  {about}")
    for message in data["messages"]:
        text, limit = message["content"], _SHOWN_TOOL_CHARS if message["role"] == "tool" else _SHOWN_CHARS
        if not data["full"] and len(text) > limit:
            size = f"{len(text):,} characters"
            text = f"{text[:limit].rstrip()} …\n[{size}: lcm show msg#{message['messageId']}]"
        _print_message_text(screen, message | {"content": text})


def print_conversation(screen: Screen, data: Data) -> None:
    item, ingest = data["conversation"], data["ingest"]
    screen.title(f"Conversation {item['conversationId']}", item["title"], "active" if item["active"] else "closed")
    screen.gap()
    screen.record(item, "conversationId", "title", "active")
    screen.record(data, "conversation", "ingest", "type")
    screen.fields([*ingest_rows(ingest), ("Last stored", ago_and_time(screen, ingest["lastStoredAt"]))])
    if ingest["blockedReason"]:
        screen.gap()
        screen.line(styled("Blocked:", "bold red"))
        screen.prose(ingest["blockedReason"])


def _print_message_text(screen: Screen, item: Data) -> None:
    screen.gap()
    screen.speaker(item["messageId"], item["role"], screen.time(item["createdAt"]), *item.get("tools", ()))
    if text := item["content"].rstrip("\n"):
        screen.prose(text)


def print_message(screen: Screen, data: Data) -> None:
    item, status = data["message"], data["standing"]
    screen.title(f"Message {item['messageId']}")
    screen.gap()
    place = "in the context" if status["contextOrdinal"] is not None else "in no context"
    place = f"hidden ({status['hiddenCause']})" if status["hiddenCause"] else place
    place = f"below {status['summarizedIn']}" if status["summarizedIn"] else place
    facts = {"now": place, "format": data["format"], "entryId": data["entryId"]}
    screen.record(item | facts, "messageId", "content", "preview")
    screen.gap()
    if item["content"] or not data["toolCalls"]:
        screen.prose(item["content"] or "(no text)")
    for call in data["toolCalls"]:
        arguments = call["input"] if isinstance(call["input"], str) else json.dumps(call["input"], ensure_ascii=False)
        screen.prose(f"{call['name']} {arguments}")
    for version in data["versions"]:
        screen.gap()
        kind = "Earlier text" if version["kind"] == "earlier" else "Shortened by the host"
        screen.line(styled(f"{kind}, kept {screen.time(version['at'])}", "bold"))
        screen.prose(version["content"] or "(no text)")


def print_summary(screen: Screen, data: Data) -> None:
    item = data["summary"]
    screen.title(f"Summary {item['summaryId']}")
    screen.gap()
    sources = ", ".join(data["sources"]) or plural(len(data["sourceMessages"]), "message")
    screen.record(item | {"sources": sources, "usedIn": data["usedIn"]}, "summaryId", "content", "preview")
    screen.gap()
    screen.prose(item["content"])
    for message in data["sourceMessages"]:
        _print_message_text(screen, message)


#: Up to this size, what takes the room is always worked out.
_CHEAP_BYTES = 200 * 1024 * 1024
#: Of so many conversations, those that changed last, the history budget and the prompt cache are shown.
_BUDGETS = 3


@command("status")
@options.flag("--room", help="Say what takes up space, however large the archive is.")
@options.flag("--size", "wants_size", help="Only what takes up space, and what could be deleted.")
@options.flag("--cost", "wants_cost", help="Only what summaries cost, and what they save.")
@options.target_options(required=False)
@options.when_option("--since", "With --cost: from this time on: 2026-07-01, yesterday, 30d.")
def status(
    invocation: Invocation,
    room: bool,
    wants_size: bool,
    wants_cost: bool,
    target: ConversationTarget | None,
    since: datetime | None,
) -> None:
    """Show how much is stored, whether anything was lost, and what takes up space."""
    if wants_cost:
        from lossless.cli.compact import emit_cost

        emit_cost(invocation, target, since)
        return
    if target is not None or since is not None:
        raise options.usage_error("-s and --since go with --cost; `lcm show --details` is about one conversation.")
    if wants_size:
        from lossless.cli.retention import size as show_size

        click.get_current_context().invoke(show_size)
        return
    settings = invocation.loaded.settings
    with invocation.reader() as engine, engine.browse.reading():
        browse = engine.browse
        size, free = browse.size()
        wal = Path(f"{browse.path}-wal")
        data = {
            "version": __version__,
            "databasePath": browse.path,
            "databaseSizeBytes": size,
            "freeBytes": free,
            "walBytes": wal.stat().st_size if wal.exists() else 0,
            "freshTail": pick_json(settings, "count=fresh_tail_count", "max_tokens=fresh_tail_max_tokens"),
            "historyBudgets": [
                {"conversationId": id_, **pick_json(budget, "tokens", "window", "reply")}
                | {"beside": budget.overhead + budget.frame, "factor": round(budget.factor, 3)}
                for id_, budget in browse.newest_history_budgets(_BUDGETS)
            ],
            "promptCaches": [
                {"conversationId": id_, **to_json(seen)} for id_, seen in browse.newest_cache_telemetry(_BUDGETS)
            ],
            "status": _totals_json(engine),
            "withoutModel": _without_model_json(engine),
            "liveness": _liveness_json(engine),
            "room": browse.bytes_by_kind() if room or size < _CHEAP_BYTES else None,
        }
    invocation.answer("status", data, view=print_status)


def _totals_json(engine: Engine) -> Data:
    totals, depths = engine.browse.totals(), engine.browse.depths()
    return {
        "conversations": pick_json(totals.counts, "total=conversations", "active"),
        "messages": pick_json(
            totals, "count=counts.messages", "tokens=message_tokens", "earliest_at", "latest_at", "undated"
        ),
        "summaries": {
            "count": totals.counts.summaries,
            "tokens": sum(depth.tokens for depth in totals.depths),
            "sourceMessageTokens": sum(depth.source_tokens for depth in depths if depth.kind == "leaf"),
            "earliestAt": min((at for depth in totals.depths if (at := depth.earliest_at)), default=None),
            "latestAt": max((at for depth in totals.depths if (at := depth.latest_at)), default=None),
            "byDepth": _depths_json(depths),
        },
        "context": pick_json(totals, "items=context_items", "tokens=context_tokens"),
        "maintenance": pick_json(totals, "pending", "running", "failed"),
        "largeFiles": {"count": totals.counts.files},
    }


def _without_model_json(engine: Engine) -> Data | None:
    from lossless.llm.completion import estimate_model

    if engine.loop.summariser.has_model or (estimate := estimate_model(engine.browse.depths())) is None:
        return None
    counts = pick_json(estimate, "summaries", "input_tokens", "output_tokens", "as_of")
    return {**counts, "costs": {model: float(cost) for model, cost in estimate.costs}, "text": str(estimate)}


def _liveness_json(engine: Engine) -> Data:
    liveness, now = engine.browse.health(), datetime.now(UTC)
    last, counts = liveness.last_stored_at, ("seen", "stored", "replayed", "skipped", "ambiguous", "revised", "likely")
    return {
        "lastStoredAt": last,
        "secondsSinceStored": None if last is None else max(0, int((now - last).total_seconds())),
        **pick_json(liveness, "last_compacted_at", *counts, "quarantined"),
        "blocked": [
            {"conversationId": id_, "since": since, "reason": reason} for id_, since, reason in liveness.blocked
        ],
        "heldTranscripts": len(engine.transcripts.held()),
        "refusedTranscripts": len(engine.transcripts.refused()),
    }


def print_status(screen: Screen, data: Data) -> None:
    totals, live = data["status"], data["liveness"]
    size = f"{format_bytes(data['databaseSizeBytes'])}, {format_bytes(data['freeBytes'])} free"
    screen.title(f"lossless {data['version']}", data["databasePath"], size)
    screen.gap()
    last, compacted, blocks = live["lastStoredAt"], live["lastCompactedAt"], len(live["blocked"])
    messages, summaries, held = totals["messages"], totals["summaries"], totals["conversations"]
    below = f" for {summaries['sourceMessageTokens']:,}" if summaries["count"] else ""
    tail, cap = data["freshTail"], data["freshTail"]["maxTokens"]
    debts = [f"{count:,} {name}" for name, count in totals["maintenance"].items() if count]
    span = f"{screen.time(messages['earliestAt'])} … {screen.time(messages['latestAt'])}"
    span = "none yet" if messages["earliestAt"] is None else span
    undated = f"{plural(messages['undated'], 'message')}: their time cannot be read"
    screen.fields(
        (
            ("Last stored", ago_and_time(screen, last)),
            ("Last compacted", ago_and_time(screen, compacted)),
            *ingest_rows(live),
            ("Blocked", styled(f"{blocks:,}", "bold red") if blocks else styled("none", "green")),
            ("Compaction", f"{', '.join(debts)}; `lcm worker` runs them" if debts else "none pending"),
            ("", ""),
            ("Conversations", f"{held['total']:,}, {held['active']:,} active"),
            ("Messages", f"{messages['count']:,}, {messages['tokens']:,} tokens"),
            ("  from", span),
            ("  undated", styled(undated, "yellow") if messages["undated"] else None),
            ("Summaries", f"{summaries['count']:,}, {summaries['tokens']:,} tokens{below}"),
            *(
                (f"  depth {row['depth']}", f"{row['count']:,}, {row['tokens']:,} tokens")
                for row in summaries["byDepth"]
            ),
            ("Context", f"{plural(totals['context']['items'], 'item')}, {totals['context']['tokens']:,} tokens"),
            ("Fresh tail", f"{plural(tail['count'], 'message')}{'' if cap is None else f', {cap:,} tokens'}"),
        )
    )
    see = "; see `lcm session transcripts`"
    screen.counts(live, {"heldTranscripts": f"held back{see}"}, "transcript", "bold red")
    screen.counts(live, {"refusedTranscripts": f"refused{see}"}, "transcript", "dim")
    quarantined = {"quarantined": len(live["quarantined"])}
    screen.counts(quarantined, {"quarantined": "quarantined; see `lcm session quarantine`"}, "conversation", "bold red")
    screen.record({name: data[name] for name in ("historyBudgets", "promptCaches")})
    for blocked in live["blocked"]:
        screen.gap()
        since = screen.time(blocked["since"])
        screen.line(styled(f"Conversation {blocked['conversationId']} is blocked since {since}:", "red"))
        screen.prose(blocked["reason"])
    if data["withoutModel"]:
        screen.gap()
        screen.prose(data["withoutModel"]["text"])
    if data["room"]:
        screen.gap()
        whole = sum(data["room"].values()) or 1
        rooms = [{"what": what, "size": size, "share": size / whole} for what, size in data["room"].items()]
        screen.items(rooms, "takes up space=what, size:bytes, share:share")
