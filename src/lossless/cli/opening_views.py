"""What a person sees when history is opened: summaries, messages, answers, stored files."""

from __future__ import annotations

from typing import Any

from lossless.cli.screen import Screen, bytes_, number, plural, styled

Data = dict[str, Any]


def opened(screen: Screen, data: Data) -> None:
    """The text that agents read."""
    screen.prose(data["text"], indent=0)


def ask(screen: Screen, data: Data) -> None:
    """The answer, then what carries it."""
    screen.prose(data["answer"], indent=0)
    if not data["citedIds"]:
        return
    screen.gap()
    rows: list[tuple[str, Any]] = [
        ("From", ", ".join(data["citedIds"])),
        ("Conversations", ", ".join(map(str, data["sourceConversationIds"]))),
        ("Read", f"{number(data['totalSourceTokens'])} tokens{', not all of it' if data['truncated'] else ''}"),
        ("Asked", ", ".join(data["models"]) or "no model"),
    ]
    screen.fields(rows)


def files_list(screen: Screen, data: Data) -> None:
    """One line for each file."""
    total = data["total"]
    screen.title(plural(total["count"], "file"), bytes_(total["bytes"]), data["folder"])
    if not data["items"]:
        return
    screen.table(
        ("id", ("conv", "right"), ("size", "right"), "stored", "bytes", "name", ("about", "rest")),
        (
            (item["fileId"], item["conversationId"], _size(item["byteSize"]), screen.date(item["createdAt"]),
             styled("there", "green") if item["isThere"] else styled("missing", "red"), item["fileName"],
             item["preview"])
            for item in data["items"]
        ),
    )  # fmt: skip


def files_show(screen: Screen, data: Data) -> None:
    """What is known of a file, and its content."""
    screen.line(styled("Lies at ", "dim"), data["storedAt"], "" if data["isThere"] else styled(" (missing)", "red"))
    opened(screen, data)


def files_explore(screen: Screen, data: Data) -> None:
    """The files that are better described now, and why no more of them are."""
    for item in data["items"]:
        screen.line(f"  {item['fileId']}  {item['fileName']}  ", styled(item["preview"], "dim"))
    left = plural(data["left"], "file")
    if data["dryRun"]:
        screen.line(f"{left} of prose would be described by {', '.join(data['models']) or 'no model'}.")
        return
    screen.line(f"Described {plural(data['described'], 'file')}; {left} left with the summary made here.")
    if data["stop"]:
        screen.line(styled("Stopped: ", "yellow"), data["stop"]["message"])


def files_gc(screen: Screen, data: Data) -> None:
    """The files that no row knows."""
    for item in data["items"]:
        screen.line(f"  {item['path']}  ", styled(bytes_(item["byteSize"]), "dim"))
    if not data["items"]:
        screen.line(f"Every file in {data['folder']} has its row, or is younger than an hour.")
        return
    what = f"{plural(data['count'], 'file')}, {bytes_(data['bytes'])}"
    screen.line(f"Deleted {what}." if data["applied"] else f"{what} without a row; --apply deletes them.")


def stub(screen: Screen, data: Data) -> None:
    """Which messages get a mark, or lose it."""
    if not data["count"]:
        screen.line("No message has such a mark." if data["reverted"] else "No answer of a tool is that large.")
        return
    if data["reverted"]:
        what = plural(data["count"], "mark")
        done = f"Took {what} away, and {plural(data.get('rows', 0), 'row')}." if data["applied"] else ""
        screen.line(done or f"{what} would go; --apply takes them away.")
        return
    screen.table(
        (("message", "right"), ("conv", "right"), "tool", ("size", "right"), ("text", "rest")),
        (
            (item["messageId"], item["conversationId"], item["tool"], bytes_(item["byteSize"]), item["preview"])
            for item in data["items"]
        ),
    )
    what = f"{plural(data['count'], 'message')}, {bytes_(data['bytes'])}"
    after = f"{what} got a file in {data['folder']}." if data["applied"] else f"{what}; --apply gives each a file."
    screen.line(after)


def _size(size: int | None) -> str:
    return "–" if size is None else bytes_(size)
