"""What a person sees of each answer: a projection of the same data that programs get."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lossless.cli.screen import Screen, bytes_, number, plural, role, styled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.text import Text

Data = dict[str, Any]


def status(screen: Screen, data: Data) -> None:
    """Whether the archive is alive, how much it holds, what takes the room."""
    totals, live = data["status"], data["liveness"]
    size = f"{bytes_(data['databaseSizeBytes'])}, {bytes_(data['freeBytes'])} free"
    screen.title(f"lossless {data['version']}", data["databasePath"], size)
    screen.gap()
    last, compacted, blocks = live["lastStoredAt"], live["lastCompactedAt"], len(live["blocked"])
    messages, summaries, held = totals["messages"], totals["summaries"], totals["conversations"]
    below = f" for {number(summaries['sourceMessageTokens'])}" if summaries["count"] else ""
    tail, cap = data["freshTail"], data["freshTail"]["maxTokens"]
    screen.fields(
        (
            ("Last stored", _with_time(screen, last)),
            ("Last compacted", _with_time(screen, compacted)),
            *_arrived(live),
            ("Blocked", styled(number(blocks), "bold red") if blocks else styled("none", "green")),
            *_held(live["heldTranscripts"], "held back", "bold red"),
            *_held(live["refusedTranscripts"], "refused", "dim"),
            *_quarantined(len(live["quarantined"])),
            ("Debt", _debt(totals["maintenance"])),
            ("", ""),
            ("Conversations", f"{number(held['total'])}, {number(held['active'])} active"),
            ("Messages", f"{number(messages['count'])}, {number(messages['tokens'])} tokens"),
            ("  said", _span(screen, messages)),
            *_undated(messages["undated"]),
            ("Summaries", f"{number(summaries['count'])}, {number(summaries['tokens'])} tokens{below}"),
            *((f"  depth {row['depth']}", f"{number(row['count'])} {row['kind']}, {number(row['tokens'])} tokens")
              for row in summaries["byDepth"]),
            ("Context", f"{plural(totals['context']['items'], 'item')}, {number(totals['context']['tokens'])} tokens"),
            ("Fresh tail", f"{plural(tail['count'], 'message')}{'' if cap is None else f', {number(cap)} tokens'}"),
            *_budgets(data["historyBudgets"]),
        )
    )  # fmt: skip
    for blocked in live["blocked"]:
        screen.gap()
        since = screen.time(blocked["since"])
        screen.line(styled(f"Conversation {blocked['conversationId']} is blocked since {since}:", "red"))
        screen.prose(blocked["reason"])
    if data["room"]:
        screen.gap()
        screen.bars(list(data["room"].items()))


def _quarantined(count: int) -> list[tuple[str, Any]]:
    told = f"{plural(count, 'conversation')} quarantined; see `lcm quarantine`"
    return [("", styled(told, "bold red"))] if count else []


def _budgets(known: list[Data]) -> list[tuple[str, str]]:
    """How much of its window each of the newest conversations has for its history."""
    return [
        (
            "" if n else "History budget",
            f"conversation {one['conversationId']}: {number(one['tokens'])} of {number(one['window'])} tokens "
            f"(beside {number(one['beside'])}, reply {number(one['reply'])}, factor {one['factor']:.2f})",
        )
        for n, one in enumerate(known)
    ]


def _held(count: int, what: str, style: str) -> list[tuple[str, Any]]:
    told = f"{plural(count, 'transcript')} {what}; see `lcm transcripts`"
    return [("", styled(told, style))] if count else []


def _with_time(screen: Screen, moment: Any) -> str:
    return screen.ago(moment) + ("" if moment is None else f" ({screen.time(moment)})")


def _arrived(counts: Data) -> tuple[tuple[str, str], ...]:
    """Seen versus stored, and what became of the rest."""
    names = ("seen", "stored", "replayed", "skipped", "ambiguous", "revised", "likely")
    told = {name: f"{number(counts[name])} {name}" for name in names}
    return (
        ("Arrived", f"{told['seen']}, {told['stored']}"),
        ("  the rest", f"{told['replayed']}, {told['skipped']}, {told['ambiguous']}"),
        ("  matched", f"{told['revised']}, {told['likely']}"),
    )


def _debt(debt: Data) -> str:
    parts = [f"{number(debt[name])} {name}" for name in ("pending", "running", "failed") if debt[name]]
    return ", ".join(parts) or "none"


def _undated(count: int) -> list[tuple[str, Any]]:
    """Whether times stand there that are none."""
    return [("  undated", styled(f"{plural(count, 'message')}: their time cannot be read", "yellow"))] if count else []


def _span(screen: Screen, data: Data) -> str:
    if data["earliestAt"] is None:
        return "none yet"
    return f"{screen.time(data['earliestAt'])} … {screen.time(data['latestAt'])}"


def conversations_list(screen: Screen, data: Data) -> None:
    """One line for each conversation; archived ones are dim."""
    if data["items"]:
        screen.table(
            (("#", "right"), ("session", "rest"), ("messages", "right"), ("tokens", "right"), ("sums", "right"),
             ("context", "right"), "changed"),
            (
                (item["conversationId"], _name(item), number(item["messageCount"]), number(item["messageTokens"]),
                 number(item["summaryCount"]), number(item["contextTokens"]), screen.time(item["updatedAt"]))
                for item in data["items"]
            ),
        )  # fmt: skip


def _name(item: Data) -> Text:
    text = item["title"] or item["sessionKey"] or item["sessionId"]
    return styled(text, "" if item["active"] else "dim")


def conversations_show(screen: Screen, data: Data) -> None:
    """Everything about one conversation."""
    item, ingest = data["conversation"], data["ingest"]
    state = "active" if item["active"] else f"archived {screen.time(item['archivedAt'])} ({item['archiveCause']})"
    screen.title(f"Conversation {item['conversationId']}", *([item["title"]] if item["title"] else []))
    screen.gap()
    hidden = ", ".join(f"{number(count)} {cause}" for cause, count in data["hidden"].items())
    tail = f"{plural(item['freshTailMessages'], 'message')}, {number(item['freshTailTokens'])} tokens"
    rows: Iterable[tuple[str, Any]] = (
        ("Session key", item["sessionKey"]),
        ("Session id", item["sessionId"]),
        ("State", state),
        ("Made, changed", f"{screen.time(item['createdAt'])}, {screen.time(item['updatedAt'])}"),
        ("Messages", f"{number(item['messageCount'])}, {number(item['messageTokens'])} tokens"),
        ("Summaries", f"{number(item['summaryCount'])}, {number(item['summaryTokens'])} tokens"),
        *((f"  depth {row['depth']}", f"{number(row['count'])} {row['kind']}, {number(row['tokens'])} tokens")
          for row in data["summaryDepths"]),
        ("Context", f"{plural(item['contextItems'], 'item')}, {number(item['contextTokens'])} tokens"),
        *((f"  {row['itemType']}", f"{number(row['count'])}, {number(row['tokens'])} tokens")
          for row in data["context"]),
        ("Fresh tail", tail),
        ("Hidden", hidden or "none"),
        *_arrived(ingest),
        ("Last stored", _with_time(screen, ingest["lastStoredAt"])),
        ("Debt", _conversation_debt(data["maintenance"])),
        ("Large files", f"{number(data['largeFiles']['count'])}, {bytes_(data['largeFiles']['bytes'])}"),
    )  # fmt: skip
    screen.fields(rows)
    if ingest["blockedReason"]:
        screen.gap()
        screen.line(styled("Blocked:", "bold red"))
        screen.prose(ingest["blockedReason"])


def _conversation_debt(debt: Data | None) -> str:
    if debt is None or not (debt["pending"] or debt["running"] or debt["lastFailureSummary"]):
        return "none"
    said = "running" if debt["running"] else "pending" if debt["pending"] else "failed"
    return f"{said}: {debt['lastFailureSummary'] or debt['reason'] or 'no reason given'}"


def messages_list(screen: Screen, data: Data) -> None:
    """One line for each message, then the whole texts when they were asked for."""
    items = data["items"]
    if not items:
        return
    screen.table(
        (("#", "right"), "said", "role", ("tokens", "right"), ("text", "rest")),
        (
            (item["messageId"], screen.time(item["createdAt"]), role(item["role"]), number(item["tokenCount"]),
             item["preview"] or styled(", ".join(item["tools"]), "dim"))
            for item in items
        ),
    )  # fmt: skip
    for item in items:
        if "content" in item:
            _said(screen, item)


def _said(screen: Screen, item: Data) -> None:
    """A message with its whole text."""
    screen.gap()
    tools = f"  {', '.join(item['tools'])}" if item.get("tools") else ""
    screen.line(
        styled(f"#{item['messageId']} ", "bold"),
        role(item["role"]),
        styled(f"  {screen.time(item['createdAt'])}", "dim"),
        tools,
    )
    if item["content"]:
        screen.prose(item["content"])


def messages_tail(screen: Screen, data: Data) -> None:
    """The fresh tail, word for word."""
    selected, limits, whole = data["selected"], data["limits"], data["conversation"]
    cap = "" if limits["maxTokens"] is None else f", at most {number(limits['maxTokens'])} tokens"
    screen.title(f"Fresh tail of conversation {data['conversationId']}")
    screen.line(
        f"{plural(selected['messages'], 'message')}, {number(selected['tokens'])} tokens, of "
        f"{number(whole['messages'])} and {number(whole['tokens'])}; protected: {number(limits['count'])}{cap}"
    )
    for item in data["messages"]:
        _said(screen, item)


def messages_show(screen: Screen, data: Data) -> None:
    """One message, whole."""
    item, standing = data["message"], data["standing"]
    screen.title(f"Message {item['messageId']}")
    screen.gap()
    place = "in the context" if standing["contextOrdinal"] is not None else "in no context"
    if standing["summarizedIn"]:
        place = f"below {standing['summarizedIn']}"
    elif standing["hiddenCause"]:
        place = f"hidden ({standing['hiddenCause']})"
    rows: list[tuple[str, Any]] = [
        ("Conversation", f"{item['conversationId']}, place {item['seq']}"),
        ("Role", role(item["role"])),
        ("Said", screen.time(item["createdAt"])),
        ("Tokens", number(item["tokenCount"])),
        ("Format", data["format"]),
        ("Stands", place),
    ]
    more = (("Tools", ", ".join(item["tools"])), ("Entry id", data["entryId"]), ("File", item["largeContent"]))
    screen.fields([*rows, *(row for row in more if row[1])])
    screen.gap()
    if item["content"] or not data["toolCalls"]:
        screen.prose(item["content"] or "(no text)")
    for call in data["toolCalls"]:
        said = call["input"] if isinstance(call["input"], str) else json.dumps(call["input"], ensure_ascii=False)
        screen.prose(f"{call['name']} {said}")
    for version in data["versions"]:
        screen.gap()
        kind = "Said before" if version["kind"] == "earlier" else "As the host shortened it"
        screen.line(styled(f"{kind}, kept {screen.time(version['at'])}", "bold"))
        screen.prose(version["content"] or "(no text)")


def summaries_list(screen: Screen, data: Data) -> None:
    """One line for each summary, then the whole texts when they were asked for."""
    items = data["items"]
    one = len({item["conversationId"] for item in items}) == 1
    if items:
        screen.table(
            ("id", *(() if one else (("conv", "right"),)), ("depth", "right"), ("tokens", "right"), "up to",
             ("text", "rest")),
            (
                (item["summaryId"], *(() if one else (item["conversationId"],)), item["depth"],
                 number(item["tokenCount"]), screen.date(item["coverageAt"]), item["preview"])
                for item in items
            ),
        )  # fmt: skip
    for item in items:
        if "content" in item:
            screen.gap()
            screen.title(item["summaryId"])
            screen.prose(item["content"])


def summaries_show(screen: Screen, data: Data) -> None:
    """One summary with its sources."""
    item = data["summary"]
    screen.title(f"Summary {item['summaryId']}")
    screen.gap()
    sources = ", ".join(data["sources"]) or plural(len(data["sourceMessages"]), "message")
    screen.fields(
        (
            ("Conversation", item["conversationId"]),
            ("Kind", f"{item['kind']}, depth {item['depth']}"),
            ("Covers", f"{screen.time(item['earliestAt'])} … {screen.time(item['latestAt'])}"),
            ("Tokens", f"{number(item['tokenCount'])} for {number(item['sourceMessageTokenCount'])}"),
            ("Written", f"{screen.time(item['createdAt'])} by {item['model']}"),
            ("Sources", sources),
            ("Used in", ", ".join(data["usedIn"]) or "nothing yet"),
        )
    )
    screen.gap()
    screen.prose(item["content"])
    for message in data["sourceMessages"]:
        _said(screen, message)
