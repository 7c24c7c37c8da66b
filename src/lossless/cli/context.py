"""`lcm context`: what the model sees now, for a person to look at or as the payload that a host would send."""

from __future__ import annotations

from collections import Counter
from itertools import dropwhile, groupby, takewhile
from typing import TYPE_CHECKING, Any

import click

from lossless.assembly.plan import SHARE_TARGETS
from lossless.cli.commands import Command, text
from lossless.cli.output import preview, shape, write_json
from lossless.cli.target import budget_option, targeted
from lossless.compaction.loop import Situation
from lossless.engine import Engine
from lossless.model.tokens import estimate_tokens
from lossless.store.outline import Outline

if TYPE_CHECKING:
    from lossless.assembly.receipt import Receipt
    from lossless.assembly.run import Assembled
    from lossless.cli.invocation import Invocation
    from lossless.cli.target import Target
    from lossless.model.conversations import Conversation
    from lossless.store.archive import Archive

PAYLOADS = ("openai-chat", "openai-responses", "anthropic", "openclaw")
_ASKED = "lossless.payload"
_PROMPT_ROLES = ("system", "developer")
_POLICY_GAP = "\n\n"
#: So many of the newest changes of a context are told.
_CHANGES = 200


def _remember_format(ctx: click.Context, param: click.Parameter, value: str | None) -> None:  # noqa: ARG001
    if value in PAYLOADS:
        ctx.meta[_ASKED] = value
    elif value is not None:
        ctx.obj.format = value


class _ContextCommand(Command):
    """Its `--format` takes the names of payloads as well, as `--as` does."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        wide = click.Option(
            ["--format"],
            type=click.Choice(["json", "table", *PAYLOADS]),
            expose_value=False,
            callback=_remember_format,
        )
        return [wide if "--format" in param.opts else param for param in super().get_params(ctx)]


@click.command("context", cls=_ContextCommand)
@targeted()
@budget_option
@click.option("--prompt", type=text, help="What the user is about to say: shows what would be quoted for it.")
@click.option("--items", is_flag=True, help="List every message; without it, neighbours are counted together.")
@click.option("--as", "payload", type=click.Choice(PAYLOADS), help="Print the payload itself; --format NAME does too.")
@click.pass_context
def context(
    ctx: click.Context, target: Target, budget: int | None, prompt: str | None, items: bool, payload: str | None
) -> None:
    """Show what the model sees now: which messages and summaries, how many tokens, how the budget is shared.

    With --as, print exactly what a host would send, the text for the system prompt included, in the shape of that
    provider's request. Reads only.
    """
    invocation: Invocation = ctx.obj
    payload = payload or ctx.meta.get(_ASKED)
    with invocation.archive() as archive, archive.reading():
        engine = Engine(archive, invocation.loaded.settings, background=False)
        conversation = target.need(archive)
        prompted = engine.assemble(conversation, budget=budget, prompt=prompt, format=payload or PAYLOADS[0])
        data = {} if payload else _data(engine, conversation, prompted, budget, every_item=items)
    if payload:
        write_json(request(prompted, payload), pretty=invocation.pretty or not invocation.as_json)
        return
    invocation.emit("context", data)


def request(prompted: Assembled, format: str) -> dict[str, Any]:
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


def _data(
    engine: Engine, conversation: Conversation, prompted: Assembled, budget: int | None, *, every_item: bool
) -> dict[str, Any]:
    receipt, archive = prompted.receipt, engine.archive
    items = _beside(archive, conversation.id, receipt) + _items(archive, receipt)
    situation = Situation(conversation, budget or engine.settings.default_token_budget)
    decision = engine.loop.evaluate(situation)
    stored_items = archive.details.context_count(conversation.id)
    known = len(receipt.included) + len([id_ for id_, _ in receipt.left_out if not id_.startswith("pin_")])
    return {
        "conversationId": conversation.id,
        "sessionKey": conversation.session_key,
        "sessionId": conversation.session_id,
        "active": conversation.active,
        "budget": receipt.budget,
        "capacity": receipt.capacity,
        "factor": receipt.factor,
        "tokens": receipt.tokens,
        "fits": receipt.fits,
        "stored": {
            "items": stored_items,
            "tokens": decision.stored_tokens,
            "threshold": decision.target_tokens,
            "isOver": decision.should_compact,
        },
        "shares": _shares(receipt),
        "tokensByKind": dict(receipt.tokens_by_kind),
        "items": items if every_item else _in_runs(items),
        "leftOut": [{"id": id_, "reason": reason} for id_, reason in receipt.left_out],
        "notRead": max(0, stored_items - known),
        "repairs": [{"what": repair.what, "count": repair.count} for repair in receipt.repairs],
        "history": [shape(size) for size in Outline(archive.database).sizes(conversation.id, _CHANGES)],
    }


def _shares(receipt: Receipt) -> list[dict[str, Any]]:
    """Each lane's share of what there was to give, and what it aims at."""
    shares = []
    for lane, share in receipt.shares.items():
        low, high = SHARE_TARGETS.get(lane, (None, None))
        shares.append({"name": lane, "share": share, "aimLow": low, "aimHigh": high})
    return shares


def _beside(archive: Archive, conversation_id: int, receipt: Receipt) -> list[dict[str, Any]]:
    """Pins and the focus brief, as far as they are in the prompt: a brief is when it stands for a summary."""
    dropped = dict(receipt.left_out)
    rows = [
        {"id": f"pin_{pin.id}", "form": "verbatim", "type": "pin", "tokenCount": estimate_tokens(pin.content),
         "createdAt": pin.at, "preview": preview(pin.content)}
        for pin in archive.beside.pins(conversation_id)
        if f"pin_{pin.id}" not in dropped
    ]  # fmt: skip
    brief = archive.beside.active_brief(conversation_id)
    if brief is not None and f"covered by {brief.id}" in dropped.values():
        rows.append(
            {"id": brief.id, "form": "verbatim", "type": "focus", "tokenCount": brief.tokens,
             "createdAt": brief.created_at, "preview": preview(brief.prompt)}
        )  # fmt: skip
    return rows


def _items(archive: Archive, receipt: Receipt) -> list[dict[str, Any]]:
    """What is in the prompt, in its order."""
    message_ids = [int(id_.removeprefix("msg#")) for id_, _ in receipt.included if id_.startswith("msg#")]
    summary_ids = [id_ for id_, _ in receipt.included if not id_.startswith("msg#")]
    found: dict[str, dict[str, Any]] = {}
    for message in archive.listings.messages_by_id(message_ids, whole=False):
        found[f"msg#{message.message_id}"] = {
            "type": "message",
            "messageId": message.message_id,
            "role": message.role,
            "tokenCount": message.token_count,
            "createdAt": message.created_at,
            "preview": preview(message.content) or ", ".join(message.tools),
        }
    for summary in archive.listings.summaries_by_id(summary_ids, whole=False):
        found[summary.summary_id] = {
            "type": "summary",
            "summaryId": summary.summary_id,
            "kind": summary.kind,
            "depth": summary.depth,
            "tokenCount": summary.token_count,
            "earliestAt": summary.earliest_at,
            "latestAt": summary.latest_at,
            "preview": preview(summary.content),
        }
    return [{"id": id_, "form": form} | found.get(id_, {}) for id_, form in receipt.included]


def _in_runs(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items with neighbouring messages counted together."""
    listed: list[dict[str, Any]] = []
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
