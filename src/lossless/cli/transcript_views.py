"""What a person sees of transcripts and of their import."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossless.cli.screen import number, plural, styled

if TYPE_CHECKING:
    from lossless.cli.screen import Screen

Data = dict[str, Any]
_COLOURS = {"imported": "green", "would-import": "green", "error": "red", "held": "yellow"}


def bootstrap(screen: Screen, data: Data) -> None:
    """What one reading of a transcript did."""
    if data["status"] in ("held", "refused", "excluded", "failed"):
        screen.line(styled(f"Nothing was stored ({data['status']}): ", "yellow"), data["reason"] or "")
        if data["status"] == "held":
            screen.line(styled("`lcm transcripts` lists what is held back; accept or refuse it there.", "dim"))
        return
    screen.line(styled(f"{plural(data['stored'], 'message')} stored", "bold"), f", {number(data['replayed'])} known")
    rows = [
        ("Given the host's ids", data["stamped"]),
        ("Left on another branch", data["abandoned"]),
        ("Undecided by content", data["ambiguous"]),
        ("Records beside messages", data["opaque"]),
    ]
    screen.fields([(label, number(count)) for label, count in rows if count])
    _pruned(screen, data["pruned"])
    _problems(screen, data["badLines"], data["problems"])


def _pruned(screen: Screen, count: int) -> None:
    if count:
        left_out = f"{plural(count, 'message')} left out, deleted with `lcm prune`; --again brings them back."
        screen.line(styled(left_out, "yellow"))


def _problems(screen: Screen, count: int, problems: list[str] | tuple[str, ...]) -> None:
    if count:
        screen.line(styled(f"{plural(count, 'line')} could not be read:", "yellow"))
        for problem in problems:
            screen.line(f"  {problem}")


def transcripts(screen: Screen, data: Data) -> None:
    """Decisions about transcripts, or those that wait for one."""
    items = data["items"]
    if not items:
        screen.line("No transcript is held back." if not data["all"] else "No transcript was read yet.")
        return
    screen.table(
        ("no.", "conversation", "decision", ("messages", "right"), "when", ("file", "rest")),
        (
            (item["id"], item["conversationId"], item["decision"], number(item["messages"]), screen.time(item["at"]),
             item["path"])
            for item in items
        ),
    )  # fmt: skip
    for item in items:
        if item["decision"] == "held":
            screen.line(styled(f"{item['id']}: {item['reason']}", "yellow"))
    if not data["all"]:
        screen.line(styled("`lcm transcripts accept NO` stores one, `refuse NO` never does.", "dim"))


def refuse(screen: Screen, data: Data) -> None:
    screen.line(f"Nothing of {data['path']} will be stored in conversation {data['conversationId']}.")


def quarantine(screen: Screen, data: Data) -> None:
    """What had nothing in common with its session."""
    if not data["items"]:
        screen.line("Nothing is quarantined.")
        return
    screen.table(
        ("conversation", "decision", ("messages", "right"), "when", "beside", ("session", "rest")),
        (
            (item["conversationId"], item["decision"], number(item["messages"]), screen.time(item["at"]),
             item["beside"] or "", item["sessionKey"] or item["sessionId"])
            for item in data["items"]
        ),
    )  # fmt: skip
    screen.line(styled("`lcm quarantine accept NO` makes one the session's conversation, `refuse NO` hides it.", "dim"))


def quarantine_accepted(screen: Screen, data: Data) -> None:
    screen.line(f"Conversation {data['id']} is the active one of its session now.")


def quarantine_refused(screen: Screen, data: Data) -> None:
    screen.line(f"Conversation {data['conversationId']} stays in the archive and out of every prompt.")


def import_(screen: Screen, data: Data) -> None:
    """What an import of transcripts did, or would do."""
    if not data["files"] and not data["items"]:
        screen.line(f"There are no transcripts of kind {data['kind']} there.")
        return
    screen.table(
        ("status", ("messages", "right"), ("conversation", "rest")),
        (
            (styled(item["status"], _COLOURS.get(item["status"], "dim")), number(item["messages"]), _name(item))
            for item in data["items"]
        ),
    )
    for item in data["items"]:
        if item["reason"] and item["status"] in ("error", "held"):
            screen.line(styled(f"{Path(item['path']).name}: {item['reason']}", "red"))
        for problem in item["problems"]:
            screen.line(styled(f"{Path(item['path']).name}, {problem}", "yellow"))
    told = ", ".join(f"{number(count)} {status}" for status, count in sorted(data["conversations"].items()))
    screen.line(styled(f"{plural(data['files'], 'file')}, {plural(data['messages'], 'message')}", "bold"), f": {told}")
    _pruned(screen, data["pruned"])
    if data["filesLeftOut"]:
        screen.line(styled(f"{plural(data['filesLeftOut'], 'file')} left out by --limit.", "dim"))
    if not data["applied"]:
        more = " --apply does it." if data["messages"] else ""
        screen.line(styled(f"Nothing was stored.{more}", "dim"))


def _name(item: Data) -> str:
    name = item["sessionKey"] or item["sessionId"]
    return f"{name} · {item['title']}" if item["title"] else str(name)


def backfill(screen: Screen, data: Data) -> None:
    """The summaries that were made, or would be."""
    (_backfill_plan if data["dryRun"] else _backfill_done)(screen, data)


def _backfill_plan(screen: Screen, data: Data) -> None:
    about = "" if data["exact"] else "about "
    for item in data["items"]:
        name, made = item["sessionKey"] or item["conversationId"], plural(item["summaries"], "summary", "summaries")
        gone = plural(item["unfolded"], "summary gives", "summaries give") if item["unfolded"] else ""
        screen.line(
            f"{name}: ", f"{gone} way, then " if gone else "", f"{about}{made} of {number(item['tokens'])} tokens"
        )
        if item["roots"] is not None and item["roots"] != 1:
            screen.line(styled(f"  {plural(item['roots'], 'root')} would be left", "yellow"))
    if not data["summaries"]:
        screen.line("There is nothing to fold.")
    _backfill_after(screen, data)
    screen.line(styled(f"Nothing was changed; written by: {data['writer']}. --apply does it, after a backup.", "dim"))


def _backfill_done(screen: Screen, data: Data) -> None:
    if data["items"]:
        screen.table(
            ("conversation", ("summaries", "right"), ("tokens", "right"), ("after", "right"), ("how it ended", "rest")),
            (
                (item["sessionKey"] or item["conversationId"], number(item["summaries"]), number(item["tokensBefore"]),
                 number(item["tokensAfter"]), _how_it_ended(item))
                for item in data["items"]
            ),
        )  # fmt: skip
    made = plural(data["summaries"], "summary", "summaries")
    screen.line(styled(made, "bold"), f" in {plural(data['conversations'], 'conversation')}")
    for failure in dict.fromkeys(item["failure"] for item in data["items"] if item["failure"]):
        helps = "`lcm rewrite --extractive` has a model write what was extracted instead."
        screen.line(styled(f"The model failed ({failure}). {helps}", "yellow"))
    _backfill_after(screen, data)
    if data["backup"]:
        back = "`lcm undo` takes back the last one, `lcm restore` all of it."
        screen.line(styled(f"The copy from before is {data['backup']}; {back}", "dim"))


def _how_it_ended(item: Data) -> str:
    roots = "" if item["roots"] is None else f"; {plural(item['roots'], 'root')}"
    gone = f"{plural(item['unfolded'], 'summary', 'summaries')} gave way; " if item["unfolded"] else ""
    return f"{gone}{item['reason']}{roots}"


def _backfill_after(screen: Screen, data: Data) -> None:
    """What follows the folding, or would."""
    if data["title"] is not None:
        given = {"there": "It has this title already.", "given": "The title is given."}[data["title"]]
        screen.line(given if data["title"] == "there" or not data["dryRun"] else "Then the title would be given.")
    copied = data["transplant"]
    if copied is None:
        return
    for line in copied["text"].splitlines():
        screen.line(styled(line, "green" if line.startswith("+") else ""))
    where = f"conversation {copied['to']}"
    said = {
        "there": f"The summaries are in {where} already.",
        "planned": f"Then the summaries would be copied to {where}.",
        "copied": f"The summaries were copied to {where}; `lcm undo --conversation-id {copied['to']}` removes them.",
    }
    screen.line(said[copied["status"]])
