"""What a person sees of the loop: the context, folding, debts, pins, costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lossless.cli.picture_views import context_history, cost_days
from lossless.cli.screen import joined, number, plural, role, styled
from lossless.model.summaries import EXTRACTIVE_MODEL

if TYPE_CHECKING:
    from rich.text import Text

    from lossless.cli.screen import Screen

Data = dict[str, Any]

_BAR = 24
#: So many reasons for leaving something out are told.
_REASONS = 8


def bar(share: float, width: int = _BAR, colour: str = "cyan") -> Text:
    """A bar that is full at 1.

    >>> bar(0.5, 4).plain
    '██░░'
    """
    full = min(width, max(0, round(width * share)))
    full = max(full, 1) if share > 0 else full
    return joined(("█" * full, colour), ("░" * (width - full), "dim"))


def context(screen: Screen, data: Data) -> None:
    name = data["sessionKey"] or data["sessionId"]
    screen.title(f"Context of conversation {data['conversationId']}", name, *([] if data["active"] else ["closed"]))
    screen.gap()
    used, stored = data["tokens"] / max(1, data["capacity"]), data["stored"]
    colour = "cyan" if data["fits"] else "red"
    over = "" if data["fits"] else "  over budget"
    sent = f"{_percent(used)}  {number(data['tokens'])} of {number(data['capacity'])} tokens{over}"
    full = stored["tokens"] / max(1, stored["threshold"])
    fold = ": it is due" if stored["isOver"] else ""
    kept = f"{_percent(full)}  {number(stored['tokens'])} of {number(stored['threshold'])} until a fold{fold}"
    screen.fields((("Prompt", _after(bar(used, colour=colour), sent)), ("Context", _after(bar(full), kept))))
    screen.gap()
    screen.fields((share["name"].capitalize(), _after(bar(share["share"]), _aim(share))) for share in data["shares"])
    screen.gap()
    if data["items"]:
        screen.table(("what", ("tokens", "right"), "from", ("text", "rest")), [_row(screen, i) for i in data["items"]])
    _left_out(screen, data)
    for repair in data["repairs"]:
        screen.line(styled(f"  repaired: {repair['what']} ({repair['count']})", "dim"))
    context_history(screen, data["history"])


def _after(left: Text, right: str) -> Text:
    return joined(left, "  ", right)


def _percent(share: float) -> str:
    return f"{share * 100:5.1f} %"


def _aim(share: Data) -> str:
    aim = "" if share["aimLow"] is None else f"  aims at {share['aimLow'] * 100:.0f}–{share['aimHigh'] * 100:.0f} %"
    return _percent(share["share"]) + aim


def _row(screen: Screen, item: Data) -> tuple[Any, ...]:
    """A line of the context: a summary, a message, or a run of messages."""
    form = "" if item["form"] == "verbatim" else f"({item['form']}) "
    kind = item.get("type")
    if kind == "messages":
        by_role = ", ".join(f"{number(count)} {name}" for name, count in item["byRole"].items())
        text = styled(f"{form}{item['id']} … {item['lastId']}: {by_role}", "dim")
        what: Any = plural(item["count"], "message")
        when = item["earliestAt"]
    elif kind == "summary":
        what, when = styled(f"depth {item['depth']}", "blue"), item["earliestAt"]
        text = joined((f"{form}{item['id']} ", "dim"), styled(item["preview"], ""))
    else:
        what = styled(str(kind), "magenta") if kind in ("pin", "focus") else role(item.get("role", ""))
        when = item.get("createdAt")
        text = joined((f"{form}{item['id']} ", "dim"), styled(item.get("preview", ""), ""))
    return what, number(item.get("tokenCount", 0)), screen.date(when), text


def _left_out(screen: Screen, data: Data) -> None:
    reasons: dict[str, int] = {}
    for item in data["leftOut"]:
        reasons[item["reason"]] = reasons.get(item["reason"], 0) + 1
    if data["notRead"]:
        reasons["older than anything that fits"] = data["notRead"]
    if not reasons:
        return
    screen.gap()
    for reason, count in list(reasons.items())[:_REASONS]:
        screen.line(styled(f"  {plural(count, 'item')} left out: ", "yellow"), reason)


def compact(screen: Screen, data: Data) -> None:
    passes, before, after = data["passes"], data["tokensBefore"], data["tokensAfter"]
    if data["dryRun"]:
        if not passes:
            screen.line(f"Nothing would be folded: the context has {number(before)} tokens.")
            return
        counted = plural(len(passes), "summary", "summaries")
        screen.title(f"{counted} would be written", f"{number(before)} → about {number(after)} tokens")
    elif not data["compacted"]:
        colour = "" if data["ok"] else "red"
        screen.line(styled(f"Nothing was folded: {data['reason']}", colour), f" ({number(before)} tokens).")
        return
    else:
        written = plural(len(data["summaryIds"]), "summary", "summaries")
        screen.title(f"{written} written", f"{number(before)} → {number(after)} tokens")
    screen.table(
        (("depth", "right"), ("sources", "rest"), ("tokens", "right"), ("summary", "right"), "by"),
        [_pass(item) for item in passes],
    )
    if not data["dryRun"]:
        _ending(screen, data)


def _pass(item: Data) -> tuple[Any, ...]:
    what = "message" if item["depth"] == 0 else "summary"
    count = plural(item["sources"], what, "summaries" if item["depth"] else "")
    sources = f"{count}, {item['firstSource']} … {item['lastSource']}"
    if "expectedTokens" in item:
        return item["depth"], sources, number(item["tokens"]), f"~{number(item['expectedTokens'])}", ""
    if item["summaryTokens"] is None:
        return item["depth"], sources, number(item["tokens"]), "", styled("left as it is", "dim")
    by = _writer(item["model"]) if item["failure"] is None else f"{_writer(item['model'])} ({item['failure']})"
    return item["depth"], sources, number(item["tokens"]), number(item["summaryTokens"]), by


def _ending(screen: Screen, data: Data) -> None:
    calls = f"  {plural(data['calls'], 'model call')}." if data["calls"] else ""
    until = f" Until {data['until']}." if data["until"] else ""
    if not data["ok"]:
        screen.line(styled(data["reason"].capitalize() + ".", "red"), until, calls)
    elif data["reason"] != "compacted":
        screen.line(styled(data["reason"].capitalize() + ".", "yellow"), until, calls)
    elif calls:
        screen.line(calls.strip())


def worker(screen: Screen, data: Data) -> None:
    if not data["items"]:
        screen.line("Nothing is due.")
    if data.get("prepared"):
        screen.line(styled(f"{plural(data['prepared'], 'summary', 'summaries')} written ahead.", "green"))
    for item in data["items"]:
        name = item["sessionKey"] or item["sessionId"]
        state = styled("paid ", "green") if item["isPaid"] else styled("owed ", "yellow")
        sizes = f", {number(item['tokensBefore'])} → {number(item['tokensAfter'])} tokens" if item["compacted"] else ""
        again = item["nextAttemptAfter"]
        later = "" if again is None else f"; again after {screen.time(again)}"
        screen.line(state, f"{item['conversationId']} {name}: {item['reason']}{sizes}{later}")


def debt(screen: Screen, data: Data) -> None:
    if not data["items"]:
        screen.line(styled("Nothing is owed.", "green"))
        return
    for item in data["items"]:
        until = item["nextAttemptAfter"] if item["state"] == "waiting" else None
        state = styled(item["state"], _STATES.get(item["state"], ""))
        screen.line(
            styled(f"{item['conversationId']} {item['sessionKey'] or item['sessionId']}  ", "bold"),
            state,
            "" if until is None else f" until {screen.time(until)}",
        )
        size = [f"{number(item[name])}" for name in ("currentTokenCount", "tokenBudget") if item[name] is not None]
        sizes = f", {' of '.join(size)} tokens" if size else ""
        screen.line(f"  {item['reason'] or 'no reason given'}{sizes}, asked for {screen.ago(item['requestedAt'])}")
        if item["lastFailureSummary"]:
            screen.line(f"  {plural(item['retryAttempts'], 'try', 'tries')} failed: {item['lastFailureSummary']}")


_STATES = {"due": "yellow", "running": "cyan", "waiting": "dim", "closed": "dim"}


def pin(screen: Screen, data: Data) -> None:
    if data["pinned"] is not None:
        screen.line(styled(f"Pin {data['pinned']} ", "bold"), f"stands in every prompt of {data['conversationId']}.")
    _pins(screen, data["items"])


def unpin(screen: Screen, data: Data) -> None:
    screen.line(f"Pin {data['unpinned']} is gone.")
    if data["items"]:
        _pins(screen, data["items"])


def _pins(screen: Screen, items: list[Data]) -> None:
    if not items:
        screen.line(styled("There are no pins.", "dim"))
        return
    screen.table(
        (("pin", "right"), ("message", "right"), "since", ("text", "rest")),
        [(item["pinId"], item["messageId"], screen.time(item["pinnedAt"]), item["preview"]) for item in items],
    )


def new(screen: Screen, data: Data) -> None:
    gone = f"{plural(data['messages'], 'message')}, {plural(data['summaries'], 'summary', 'summaries')}"
    sizes = f"{number(data['tokensBefore'])} → {number(data['tokensAfter'])} tokens"
    if not data["messages"] and not data["summaries"]:
        screen.line(f"Nothing left the context of conversation {data['conversationId']} ({sizes}).")
        return
    screen.title("A new beginning", f"in conversation {data['conversationId']}", sizes)
    screen.line(f"  {gone} left the context and stay in the archive")


def reset(screen: Screen, data: Data) -> None:
    if data["closedConversationId"] is None:
        screen.line(f"Conversation {data['conversationId']} has no messages: it is fresh and stays.")
        return
    screen.title(f"Conversation {data['closedConversationId']} is closed")
    screen.line(f"  {data['sessionKey'] or data['sessionId']} goes on in conversation {data['conversationId']}")


def _writer(model: str) -> str:
    return "extracted" if model == EXTRACTIVE_MODEL else model


def cost(screen: Screen, data: Data) -> None:
    totals = data["totals"]
    since = "ever" if data["since"] is None else f"since {screen.time(data['since'])}"
    screen.title("Summaries", since, *([] if data["conversationId"] is None else [f"#{data['conversationId']}"]))
    screen.gap()
    whole = f"{plural(totals['folds'], 'fold')} in {plural(totals['conversations'], 'conversation')}"
    saved = f"{number(totals['savedTokensPerTurn'])} tokens on average, by {whole}"
    tokens = f"{number(totals['inputTokens'])} read, {number(totals['outputTokens'])} written"
    screen.fields(
        (
            ("Spent", totals["costText"] if totals["calls"] else "nothing: no model was called"),
            *((("Calls", number(totals["calls"])), ("Tokens", tokens)) if totals["calls"] else ()),
            ("Each turn saves", saved),
        )
    )
    if data["spent"]:
        screen.gap()
        screen.table(
            (("model", "rest"), "for", ("calls", "right"), ("failed", "right"), ("read", "right"),
             ("written", "right"), ("cost", "right")),
            [
                (row["model"], row["purpose"], number(row["calls"]), number(row["failed"]), number(row["inputTokens"]),
                 number(row["outputTokens"]), _least(row))
                for row in data["spent"]
            ],
        )  # fmt: skip
    if data["saved"]:
        screen.gap()
        screen.table(
            (("written by", "rest"), ("folds", "right"), ("tokens saved a turn", "right")),
            [(_writer(row["model"]), number(row["folds"]), number(row["savedTokensPerTurn"])) for row in data["saved"]],
        )
    cost_days(screen, data["days"])


def _least(row: Data) -> str:
    """A cost that leaves room for the name of its model; what is left out stands in the total."""
    known, _, unknown = row["costText"].partition(" + ")
    return f"at least {known}" if unknown else str(known)


def model_test(screen: Screen, data: Data) -> None:
    if not data["configured"]:
        screen.line(styled("Summaries are extracted: no model is configured.", "bold"))
        screen.line("Name one with `lcm config set summaryModel '\"provider/model\"'` or LCM_SUMMARY_MODEL.")
        return
    for item in data["items"]:
        screen.title(item["name"], f"named by {item['namedBy']}")
        known = (("Address", item["address"]), ("Key", item["keyFrom"]))
        screen.fields(row for row in known if row[1])
        if item.get("problem"):
            screen.line(styled("  cannot be asked: ", "red"), item["problem"])
        elif item.get("ok"):
            used = f"{item['inputTokens']} + {item['outputTokens']} tokens, cost {item['cost']}"
            screen.line(styled("  answers ", "green"), f"in {item['seconds']:.1f} s: {item['answer']}  ({used})")
        elif "ok" in item:
            screen.line(styled("  no answer ", "red"), f"({item['error']}, {item['seconds']:.1f} s): {item['message']}")
