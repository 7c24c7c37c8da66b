"""`lcm context`, `pin`, `unpin` and `lcm session`: show what the model sees now, and change it."""

from __future__ import annotations

from collections import Counter
from itertools import dropwhile, groupby, takewhile
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import options
from lossless.cli.charts import print_context_history
from lossless.cli.commands import Command, Invocation, command, store_global
from lossless.cli.screen import (
    Data,
    Screen,
    joined,
    message_counts,
    pick_json,
    preview,
    role_text,
    session_name,
    styled,
    to_json,
    write_json,
)
from lossless.context.choose import SHARE_TARGETS
from lossless.model.records import MessageRow
from lossless.model.tokens import estimate_tokens
from lossless.tui.text import plural, share_bar

if TYPE_CHECKING:
    from lossless.cli.options import ConversationTarget
    from lossless.context.run import Assembled
    from lossless.engine import Engine
    from lossless.maintenance.browse import PromptItem, PromptReport
    from lossless.model.conversations import Conversation

PAYLOADS = ("openai-chat", "openai-responses", "anthropic", "openclaw")
_PROMPT_ROLES = ("system", "developer")
_POLICY_GAP = "\n\n"
#: So many of the newest changes of a context are told.
_CHANGES = 200


class _ContextCommand(Command):
    """Its `--format` takes the names of payloads as well, as `--as` does."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        formats = click.Choice(["json", "table", *PAYLOADS])
        wide = click.Option(["--format"], type=formats, expose_value=False, callback=store_global)
        return [wide if "--format" in param.opts else param for param in super().get_params(ctx)]


@click.command("context", cls=_ContextCommand)
@options.target_options()
@options.budget_option
@options.text("--prompt", help="The next message of the user: show what would be quoted for it.")
@options.flag("--items", help="List every message; otherwise neighbouring messages are counted together.")
@options.flag("--history", help="Show how the last prompts were assembled, and the tokens of each kind.")
@click.option(
    "--as", "payload", type=click.Choice(PAYLOADS), help="Print the payload itself; the same as --format NAME."
)
@click.pass_context
def context(
    ctx: click.Context,
    target: ConversationTarget,
    budget: int | None,
    prompt: str | None,
    items: bool,
    history: bool,
    payload: str | None,
) -> None:
    """Show what the model sees now: messages and summaries, their tokens, and how the budget is shared."""
    invocation: Invocation = ctx.obj
    if invocation.format in PAYLOADS:
        payload, invocation.format = payload or invocation.format, None
    if history:
        if payload or prompt is not None or items:
            raise options.usage_error("--history shows past prompts; leave out --prompt, --items and --as.")
        _show_history(invocation, target)
        return
    with invocation.reader() as engine, engine.browse.reading():
        conversation = target.need(engine)
        shape = payload or PAYLOADS[0]
        prompted = engine.assemble(conversation, budget=budget, prompt=prompt, format=shape, record=False)
        data = {} if payload else _context_json(engine, conversation, prompted, budget, every_item=items)
    if payload:
        write_json(provider_request(prompted, payload), pretty=invocation.pretty or not invocation.as_json)
        return
    invocation.answer("context", data, view=print_context)


def _show_history(invocation: Invocation, target: ConversationTarget) -> None:
    with invocation.reader() as engine:
        conversation = target.need(engine)
        receipts = engine.receipts(conversation, limit=_CHANGES)
    items = [
        {
            **pick_json(one, "at", "tokens", "capacity", "tokens_by_kind"),
            "included": [{"id": id_, "form": form} for id_, form in one.included],
            "leftOut": [{"id": id_, "reason": reason} for id_, reason in one.left_out],
            "evidence": [{"id": id_, "why": why} for id_, why in one.evidence],
        }
        for one in receipts
    ]
    data = pick_json(conversation, "conversation_id=id", "session_key", "session_id") | {"items": items}
    if screen := invocation.answer("context-history", data):
        screen.title(f"Prompts of conversation {conversation.id}", session_name(data))
        screen.gap()
        kinds = dict.fromkeys(kind for one in receipts for kind in one.tokens_by_kind)
        rows = [
            {"at": one.at, "tokens": one.tokens, "full": _percent(one.tokens / max(1, one.capacity)).strip()}
            | {kind: one.tokens_by_kind.get(kind, 0) for kind in kinds}
            | {"left": len(one.left_out)}
            for one in receipts
        ]
        columns = ["when=at:time", "tokens:count", "full:right", *(f"{kind}:count" for kind in kinds)]
        screen.items(rows, ", ".join([*columns, "left out=left:count"]), "No prompt has been assembled yet.")


def provider_request(prompted: Assembled, format: str) -> Data:
    """The assembled messages as the request of a provider, the recall policy in its system prompt."""
    head = [message.content for message in takewhile(lambda message: message.role == "system", prompted.parts)]
    policy, wire = prompted.system_prompt, prompted.messages
    if format == "openclaw":
        return {"messages": wire, "estimatedTokens": prompted.tokens, "systemPromptAddition": policy}
    system = _POLICY_GAP.join([*head, policy])
    rest = list(dropwhile(lambda item: item.get("role") in _PROMPT_ROLES, wire))
    if format == "anthropic":
        return {"system": system, "messages": rest}
    if format == "openai-responses":
        return {"instructions": system, "input": rest}
    return {"messages": [{"role": "system", "content": system}, *rest]}


def _context_json(
    engine: Engine, conversation: Conversation, prompted: Assembled, budget: int | None, *, every_item: bool
) -> Data:
    receipt, found = prompted.receipt, engine.browse.prompt_report(conversation, prompted.receipt, budget)
    items, decision = [*_pins_and_focus_json(found), *map(_item_json, found.items)], found.decision
    return {
        **pick_json(conversation, "conversation_id=id", "session_key", "session_id", "active"),
        **pick_json(receipt, "budget", "capacity", "factor", "tokens", "fits", "tokens_by_kind", "repairs"),
        "stored": {
            "items": found.stored_items,
            **pick_json(decision, "tokens=stored_tokens", "threshold=target_tokens", "is_over=should_compact"),
        },
        "shares": [
            {"name": lane, "share": share, "aimLow": low, "aimHigh": high}
            for lane, share in receipt.shares.items()
            for low, high in [SHARE_TARGETS.get(lane, (None, None))]
        ],
        "items": items if every_item else _group_messages(items),
        "leftOut": [{"id": id_, "reason": reason} for id_, reason in receipt.left_out],
        "notRead": found.not_read,
        "history": to_json(engine.browse.context_sizes(conversation.id, _CHANGES)),
    }


def _pins_and_focus_json(found: PromptReport) -> list[Data]:
    shown = [(f"pin_{pin.id}", "pin", estimate_tokens(pin.content), pin.at, pin.content) for pin in found.pins]
    if (brief := found.brief) is not None:
        shown.append((brief.id, "focus", brief.tokens, brief.created_at, brief.prompt))
    return [
        {"id": id_, "form": "verbatim", "type": kind, "tokenCount": tokens, "createdAt": at, "preview": preview(text)}
        for id_, kind, tokens, at, text in shown
    ]


def _item_json(item: PromptItem) -> Data:
    row, known = item.row, {"id": item.id, "form": item.form}
    if row is None:
        return known
    if isinstance(row, MessageRow):
        facts = pick_json(row, "message_id", "role", "token_count", "created_at")
        return known | {"type": "message", **facts, "preview": preview(row.content) or ", ".join(row.tools)}
    facts = pick_json(row, "summary_id", "kind", "depth", "token_count", "earliest_at", "latest_at")
    return known | {"type": "summary", **facts, "preview": preview(row.content)}


def _group_messages(items: list[Data]) -> list[Data]:
    listed: list[Data] = []
    for (kind, form), group in groupby(items, key=lambda item: (item.get("type"), item["form"])):
        run = list(group)
        if kind != "message" or len(run) == 1:
            listed += run
            continue
        listed.append(
            {
                "id": run[0]["id"],
                "lastId": run[-1]["id"],
                "form": form,
                "type": "messages",
                "count": len(run),
                "byRole": dict(Counter(item["role"] for item in run)),
                "tokenCount": sum(item["tokenCount"] for item in run),
                "earliestAt": run[0]["createdAt"],
                "latestAt": run[-1]["createdAt"],
            }
        )
    return listed


@command("pin")
@options.words("words", "[TEXT]...", required=False)
@options.target_options()
@options.row_id("--message", "message_id", help="Pin a message by its number.")
@options.dry_run
def pin(
    invocation: Invocation, words: str | None, target: ConversationTarget, message_id: int | None, dry_run: bool
) -> None:
    """Pin TEXT or a message: it is never summarised, and every prompt has it word for word."""
    if words is not None and message_id is not None:
        raise options.usage_error("Give a text or --message, not both.")
    what: str | int | None = words if message_id is None else message_id
    conversation = None if what is None else options.find_active(invocation, target)
    with invocation.reader() if conversation is None else invocation.engine(dry_run=dry_run) as engine:
        pinned = None if conversation is None or what is None else engine.pin(conversation, what)
        with engine.browse.reading():
            number = target.need_id(engine)
            items = _pins_json(engine, number)
    invocation.answer("pin", {"conversationId": number, "pinned": pinned, "items": items}, view=print_pins)


@command("unpin")
@click.argument("pin_id", metavar="ID", type=options.id_type)
@options.target_options()
@options.dry_run
def unpin(invocation: Invocation, pin_id: int, target: ConversationTarget, dry_run: bool) -> None:
    """Remove the pin ID. The pinned message stays in the archive. `lcm pin` lists the pins."""
    conversation = options.find_active(invocation, target)
    with invocation.engine(dry_run=dry_run) as engine:
        engine.unpin(conversation, pin_id)
        items = _pins_json(engine, conversation.id)
    invocation.answer("unpin", {"conversationId": conversation.id, "unpinned": pin_id, "items": items}, view=print_pins)


def _pins_json(engine: Engine, conversation_id: int) -> list[Data]:
    return [
        {"pinId": row.id, "messageId": row.message_id, "pinnedAt": row.at, "preview": preview(row.content)}
        for row in engine.browse.pins(conversation_id)
    ]


@command("new")
@options.target_options()
@options.number(
    "--retain-depth",
    minimum=-1,
    maximum=1_000_000,
    help="Keep summaries of at least this depth; -1 keeps everything. Else the setting newSessionRetainDepth.",
)
@options.yes
@options.dry_run
def new(invocation: Invocation, target: ConversationTarget, retain_depth: int | None, yes: bool, dry_run: bool) -> None:
    """Empty the context and keep the conversation: everything except deeper summaries leaves the context."""
    conversation = options.find_active(invocation, target)
    options.confirm(
        f"Empty the context of conversation {conversation.id} ({conversation.session.name})?", yes or dry_run
    )
    with invocation.engine(dry_run=dry_run) as engine:
        report = engine.new(conversation, retain_depth=retain_depth)
    data: Data = to_json(report) | {"sessionKey": conversation.session_key}
    if screen := invocation.answer("new", data):
        sizes = f"{data['tokensBefore']:,} → {data['tokensAfter']:,} tokens"
        what = f"{message_counts(data)} left the context and stay in the archive"
        nothing = f"Nothing left the context of conversation {data['conversationId']}"
        screen.line(f"{what if data['messages'] or data['summaries'] else nothing} ({sizes}).")


@command("reset")
@options.target_options()
@options.yes
@options.dry_run
def reset(invocation: Invocation, target: ConversationTarget, yes: bool, dry_run: bool) -> None:
    """Close a conversation and start another one under the same session."""
    conversation = options.find_active(invocation, target)
    options.confirm(
        f"Close conversation {conversation.id} ({conversation.session.name}) and begin another?", yes or dry_run
    )
    with invocation.engine(dry_run=dry_run) as engine:
        fresh = engine.reset(conversation)
    closed = conversation.id if fresh.id != conversation.id else None
    data = pick_json(fresh, "conversation_id=id", "session_key", "session_id") | {"closedConversationId": closed}
    if screen := invocation.answer("reset", data):
        going_on = f"Conversation {closed} is closed; {session_name(data)} goes on in conversation {fresh.id}."
        none = f"Conversation {fresh.id} has no messages: it is fresh and stays."
        screen.line(none if closed is None else going_on)


_BAR = 20
#: So many reasons for leaving something out are listed.
_REASONS = 8


def print_context(screen: Screen, data: Data) -> None:
    screen.title(
        f"Context of conversation {data['conversationId']}", session_name(data), "" if data["active"] else "closed"
    )
    screen.gap()
    used, stored = data["tokens"] / max(1, data["capacity"]), data["stored"]
    colour, over = ("cyan", "") if data["fits"] else ("red", "  over budget")
    sent = f"{_percent(used)}  {data['tokens']:,} of {data['capacity']:,} tokens{over}"
    full = stored["tokens"] / max(1, stored["threshold"])
    limit = f"compacts at {stored['threshold']:,}{': due now' if stored['isOver'] else ''}"
    kept = f"{_percent(full)}  {stored['tokens']:,}, {limit}"
    bars = [("Prompt", used, colour, sent), ("Context", full, "cyan", kept)]
    for share in data["shares"]:
        low, high = share["aimLow"], share["aimHigh"]
        aim = "" if low is None else f"  target {low * 100:.0f}–{high * 100:.0f} %"
        bars.append((share["name"].capitalize(), share["share"], "cyan", _percent(share["share"]) + aim))
    screen.fields((name, joined(share_bar(part, _BAR, style), "  ", text)) for name, part, style, text in bars)
    screen.gap()
    rows = [_item_row(screen, item) for item in data["items"]]
    if rows:
        screen.table(("what", ("tokens", "right"), "from", ("text", "rest")), rows)
    reasons = Counter(item["reason"] for item in data["leftOut"])
    if data["notRead"]:
        reasons["older than anything that fits"] = data["notRead"]
    if reasons:
        screen.gap()
    for reason, count in list(reasons.items())[:_REASONS]:
        screen.line(styled(f"  {plural(count, 'item')} left out: ", "yellow"), reason)
    for repair in data["repairs"]:
        screen.note(f"  repaired: {repair['what']} ({repair['count']})")
    print_context_history(screen, data["history"])


def _percent(share: float) -> str:
    return f"{share * 100:5.1f} %"


def _item_row(screen: Screen, item: Data) -> tuple[Any, ...]:
    form = "" if item["form"] == "verbatim" else f"({item['form']}) "
    kind, name, words = item.get("type"), item["id"], item.get("preview", "")
    if kind == "messages":
        name = f"{name} … {item['lastId']}:"
        words = ", ".join(f"{count:,} {role}" for role, count in item["byRole"].items())
        what: Any = plural(item["count"], "message")
    elif kind == "summary":
        what = styled(f"depth {item['depth']}", "blue")
    else:
        what = styled(str(kind), "magenta") if kind in ("pin", "focus") else role_text(item.get("role", ""))
    when, text = item.get("earliestAt", item.get("createdAt")), joined((f"{form}{name} ", "dim"), styled(words, ""))
    return what, f"{item.get('tokenCount', 0):,}", screen.date(when), text


def print_pins(screen: Screen, data: Data) -> None:
    if (pinned := data.get("pinned")) is not None:
        screen.line(styled(f"Pin {pinned} ", "bold"), f"is in every prompt of conversation {data['conversationId']}.")
        screen.undo(f"lcm unpin {pinned} -s {data['conversationId']}")
    elif "unpinned" in data:
        screen.line(f"Pin {data['unpinned']} was removed.")
    elif not data["items"]:
        screen.note("There are no pins.")
    screen.items(data["items"], "pin=pinId:right, message=messageId:right, since=pinnedAt:time, text=preview:rest")
