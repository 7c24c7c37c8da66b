"""What a person sees of surgery, focus, prompts and the doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lossless.cli.screen import bytes_, number, plural, styled

if TYPE_CHECKING:
    from rich.text import Text

    from lossless.cli.screen import Screen

Data = dict[str, Any]

_COLOURS = {"+": "green", "-": "red", "~": "yellow", "!": "bold yellow", "@": "cyan"}
_SEVERITIES = {"problem": "red", "warning": "yellow", "note": "dim"}


def operation(screen: Screen, data: Data) -> None:
    """A plan with its signs in colour, and what became of it."""
    _lines(screen, data["text"])
    screen.gap()
    _outcome(screen, data)


def _lines(screen: Screen, text: str) -> None:
    for line in text.splitlines():
        screen.line(_coloured(line))


def _coloured(line: str) -> Text:
    return styled(line, _COLOURS.get(line[:1], ""))


def _outcome(screen: Screen, data: Data, word: str = "--apply") -> None:
    report = data["done"]
    if report is None:
        more = f" {word} does it, after a backup." if word else ""
        screen.line(styled(f"Nothing was changed.{more}", "dim"))
        return
    tokens = f"{number(report['tokensBefore'])} → {number(report['tokensAfter'])} tokens"
    screen.line(styled("Done. ", "bold green"), f"The context: {tokens} (change {report['logId']}).")
    if report["backup"]:
        back = "lcm restore" if report["action"] == "undo" else "lcm undo"
        screen.line(styled(f"The copy from before is {report['backup']}; `{back}` takes this back.", "dim"))


def diff(screen: Screen, data: Data) -> None:
    """The changes, then what they come to."""
    if not data["entries"]:
        screen.line("The context did not change between these points, but for what was appended.")
        return
    screen.table(
        (("change", "right"), "when", "what", "by", ("out", "right"), ("in", "right"), ("tokens", "right")),
        (
            (entry["id"], screen.time(entry["at"]), entry["action"], entry["actor"], len(entry["removed"]),
             len(entry["added"]), number(entry["tokensAfter"]))
            for entry in data["entries"]
        ),
    )  # fmt: skip
    screen.gap()
    _lines(screen, data["text"])


def repairs(screen: Screen, data: Data) -> None:
    """The same for the doctor, who is told with another word."""
    if data["targets"]:
        rewrite(screen, data, "--confirm")
    else:
        screen.line("No summary is broken: nothing to do.")


def rewrite(screen: Screen, data: Data, word: str = "--apply") -> None:
    """Which summaries, the diffs of their texts, and what became of them."""
    if not data["targets"]:
        screen.line("There is no such summary: nothing to do.")
        return
    screen.line(styled(f"written by: {data['writer']}", "dim"))
    if data["calls"]:
        limit = f"the limit of {data['callLimit']} (summaryMaxCallsPerWindow) is for calls that nobody asked for"
        takes = f"takes {plural(data['calls'], 'call')}, and another where an answer is too long or cut off; {limit}"
        screen.line(styled(takes, "dim"))
    for item in data["items"]:
        _lines(screen, item["text"])
        for draft in item["drafts"]:
            screen.gap()
            if draft["refusal"] is not None:
                screen.line(styled(f"{draft['summaryId']} stays as it is: ", "yellow"), draft["refusal"])
                continue
            by = f"{number(draft['tokensBefore'])} → {number(draft['tokens'])} tokens, by {draft['model']}"
            screen.title(draft["summaryId"], by)
            if draft["because"]:
                screen.line(styled(f"Written anew as well: {draft['because']}.", "dim"))
            _lines(screen, draft["diff"])
        screen.gap()
        _outcome(screen, item, "" if data["wanted"] else word)
        _left_alone(screen, item)
        _stopped(screen, item)
    for reason in data.get("blocked", ()):
        screen.line(styled(f"Wants your word (--confirm): {reason}", "yellow"))


def _left_alone(screen: Screen, item: Data) -> None:
    """How many of those that were written are not in place, so that nobody has to look for it among the others."""
    refused = [draft for draft in item["drafts"] if draft["refusal"] is not None]
    if refused:
        count = f"{len(refused)} of {plural(len(item['drafts']), 'summary', 'summaries')}"
        verb = "stays" if len(refused) == 1 else "stay"
        screen.line(styled(f"{count} {verb} as before; why is said above.", "yellow"))


def _stopped(screen: Screen, item: Data) -> None:
    """How far a run came that did not come to its end."""
    if item["stop"] is None:
        return
    count, tried = len(item["plan"]["targets"]), item["reached"]
    kept = len(item["done"]["summaryIds"]) if item["done"] else 0
    screen.line(styled(f"Stopped after {tried} of {count}: ", "yellow"), item["stop"])
    screen.line(f"{plural(kept, 'new text')} in place, {item['left']} to go; the same command goes on with these.")


def focus(screen: Screen, data: Data) -> None:
    """The brief and how current it is."""
    if data.get("text"):
        _lines(screen, data["text"])
        return
    found = data["focus"]
    if found is None:
        screen.line("There is no focus. `lcm focus QUESTION` writes a brief.")
        return
    brief = found["brief"]
    screen.title(f"Focus {brief['id']}", brief["status"], *(["stale"] if found["isStale"] else []))
    since = f"{plural(found['messagesSince'], 'message')}, {number(found['tokensSince'])} tokens"
    size = f"{number(brief['tokens'])} of about {number(brief['targetTokens'])} tokens"
    screen.fields(
        (("Question", brief["prompt"]), ("Written", screen.time(brief["createdAt"])), ("Size", size), ("Since", since))
    )
    if brief["error"]:
        screen.line(styled(f"It could not be written: {brief['error']}", "red"))
    screen.gap()
    screen.prose(brief["content"])


def prompts_list(screen: Screen, data: Data) -> None:
    screen.table(
        ("template", ("characters", "right"), ("from", "rest")),
        ((item["name"], number(item["characters"]), item["origin"]) for item in data["items"]),
    )


def prompts_show(screen: Screen, data: Data) -> None:
    screen.title(data["name"], data["origin"])
    screen.gap()
    screen.prose(data["text"], 0)


def prompts_export(screen: Screen, data: Data) -> None:
    left = data["all"] - len(data["written"])
    stayed = f"; {plural(left, 'file')} stayed" if left else ""
    screen.line(f"{plural(len(data['written']), 'template')} written to {data['folder']}{stayed}.")


def prompts_diff(screen: Screen, data: Data) -> None:
    if not data["items"]:
        screen.line("The templates are the built-in ones.")
    for item in data["items"]:
        _lines(screen, item["diff"])


def prompts_render(screen: Screen, data: Data) -> None:
    screen.title(data["name"], f"about {number(data['targetTokens'])} tokens", *([data["summaryId"] or ""]))
    for name in ("system", "user"):
        screen.gap()
        screen.line(styled(name, "bold"))
        screen.prose(data[name])


def doctor(screen: Screen, data: Data) -> None:
    """The findings with what helps, then the verdict."""
    live = data["liveness"]
    screen.title(f"lossless {data['version']}", f"schema {data['schema']}", f"SQLite {data['sqlite']}")
    seen = f"{number(live['seen'])} seen, {number(live['stored'])} stored, {number(live['ambiguous'])} ambiguous"
    rows: list[tuple[str, Any]] = [("Last stored", screen.ago(live["lastStoredAt"])), ("Arrived", seen)]
    rows += [(f"Model {model['name']}", _answers(model)) for model in data["models"]]
    if not data["models"]:
        rows.append(("Model", "not asked" if data["offline"] else "none is configured; summaries are extracted"))
    screen.fields(rows)
    screen.gap()
    for finding in data["findings"]:
        colour = _SEVERITIES[finding["severity"]]
        screen.line(styled(f"{finding['severity']} ", colour), finding["message"])
        if finding["remedy"]:
            screen.line(styled(f"  {finding['remedy']}", "dim"))
    if data["findings"]:
        screen.gap()
    verdict = styled("Not healthy.", "bold red")
    if data["healthy"]:
        warnings = sum(finding["severity"] == "warning" for finding in data["findings"])
        verdict = styled("Healthy.", "bold green")
        if warnings:
            verdict = styled(f"Nothing is damaged; {plural(warnings, 'warning')}.", "bold yellow")
    screen.line(verdict, styled("  `lcm verify` proves every row.", "dim"))


def _answers(model: Data) -> str:
    return f"answers in {model['seconds']} s" if model["ok"] else str(model["error"])


def doctor_clean(screen: Screen, data: Data) -> None:
    screen.table(
        ("filter", ("conversations", "right"), ("messages", "right"), ("text", "right"), ("meaning", "rest")),
        (
            (item["filter"], number(item["count"]), number(item["messages"]), bytes_(item["bytes"]), item["meaning"])
            for item in data["items"]
        ),
    )
    report = data["done"]
    if report is None:
        _meant(screen, data)
        screen.line(styled("Nothing was changed. --apply FILTER deletes, after a backup.", "dim"))
        return
    screen.line(styled(f"{plural(report['conversations'], 'conversation')} deleted.", "bold green"))
    if report["backup"]:
        screen.line(styled(f"The copy from before is {report['backup']}.", "dim"))
    if report["refusal"]:
        screen.line(styled(f"The room was not given back: {report['refusal']}", "yellow"))


def _meant(screen: Screen, data: Data) -> None:
    """Which conversations would go, filter by filter."""
    for item in data["items"]:
        for held in item["conversations"]:
            name = held["sessionKey"] or held["sessionId"]
            rest = f" {name}: {plural(held['messages'], 'message')}, {bytes_(held['bytes'])}"
            screen.line(styled(f"- {item['filter']} ", "red"), f"#{held['conversationId']}{rest}")
        if (more := item["count"] - len(item["conversations"])) > 0:
            screen.line(styled(f"  {item['filter']}: and {number(more)} more", "dim"))


def doctor_maintenance(screen: Screen, data: Data) -> None:
    if not data["items"]:
        screen.line("Nobody owes a sweep.")
    else:
        screen.table(
            (("#", "right"), ("session", "rest"), "state", "reason", "since"),
            (
                (item["conversationId"], item["sessionKey"], _state(item), item["reason"],
                 screen.time(item["requestedAt"]))
                for item in data["items"]
            ),
        )  # fmt: skip
    if data["applied"]:
        screen.line(styled(f"The debt of conversation {data['closed']} is closed.", "bold green"))


def _state(item: Data) -> str:
    state = "pending" if item["pending"] else "running"
    return f"{state}, {'active' if item['active'] else 'closed'}{', stuck' if item['isStuck'] else ''}"


def doctor_reindex(screen: Screen, data: Data) -> None:
    lost, gone, stale = data["lostMessages"], data["goneMessages"], data["staleSummaries"]
    screen.line(
        f"The search index lacks {plural(lost, 'message')}, holds {plural(gone, 'row')} of messages that are gone, "
        f"and lacks or misreads {plural(stale, 'summary', 'summaries')}."
    )
    if data["damaged"]:
        screen.line(styled(f"It is damaged ({', '.join(data['damaged'])}), and is made anew.", "red"))
    if data["unindexed"]:
        screen.line(f"{plural(data['unindexed'], 'row')} of other programs were never indexed.")
    if data["losslessClawLost"]:
        screen.line(f"lossless-claw's own search tables lack {plural(data['losslessClawLost'], 'row')}.")
    if not data["applied"]:
        screen.line(styled("Nothing was changed. --apply makes it again.", "dim"))
        return
    done = data["done"]
    made = f"{plural(done['messages'], 'message')} and {plural(done['summaries'], 'summary', 'summaries')}"
    screen.line(styled(f"{made} indexed, {plural(done['dropped'], 'row')} dropped.", "bold green"))
    for id_ in done["unreadable"]:
        screen.line(styled(f"{id_} cannot be read: see `lcm verify`", "red"))


def doctor_rebuild(screen: Screen, data: Data) -> None:
    found = {
        "context": data["contexts"],
        "summary without its sources": data["withoutSources"],
        "summary with wrong counts or times": data["miscounted"],
        "conversation with wrong counters": data["counters"],
    }
    for what, ids in found.items():
        if ids:
            screen.line(f"{what}: {', '.join(map(str, ids[:10]))}{' …' if len(ids) > 10 else ''}")
    if not any(found.values()):
        screen.line("All that can be derived is as it should be.")
    elif data["applied"]:
        screen.line(styled("It was made again.", "bold green"))
    else:
        screen.line(styled("Nothing was changed. --apply makes it again.", "dim"))


def doctor_splits(screen: Screen, data: Data) -> None:
    if not data["items"]:
        screen.line("No session is split.")
        return
    screen.table(
        ("session", ("active", "right"), "archived", ("messages", "right"), ("look first", "rest")),
        (
            (item["sessionKey"], item["targetId"], ", ".join(map(str, item["sourceIds"])), number(item["messages"]),
             item["review"] or "")
            for item in data["items"]
        ),
    )  # fmt: skip
    if data["applied"]:
        screen.line(styled(f"{plural(len(data['done']), 'session')} merged.", "bold green"))
    else:
        screen.line(styled("Nothing was changed. --apply merges those that are certain, after a backup.", "dim"))
