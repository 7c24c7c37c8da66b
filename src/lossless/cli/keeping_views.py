"""What a person sees of backups, rotation, retention and sizes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossless.cli.screen import bytes_, number, plural, styled

if TYPE_CHECKING:
    from lossless.cli.screen import Screen

Data = dict[str, Any]


def backup(screen: Screen, data: Data) -> None:
    screen.line(styled(f"{bytes_(data['bytes'])} copied ", "bold"), f"to {data['path']}")
    if data["files"]:
        screen.line(styled(f"{plural(data['files'], 'payload')} in {data['path']}.files", "dim"))


def backups(screen: Screen, data: Data) -> None:
    if not data["items"]:
        screen.line("There are no backups beside the archive. `lcm backup` makes one.")
        return
    screen.table(
        ("made", "label", ("size", "right"), ("file", "rest")),
        (
            (screen.time(item["madeAt"]), item["label"], bytes_(item["bytes"]), Path(item["path"]).name)
            for item in data["items"]
        ),
    )
    screen.line(styled(f"{plural(data['count'], 'backup')}, {bytes_(data['bytes'])}", "dim"))


def restore(screen: Screen, data: Data) -> None:
    counts = data["counts"]
    held = f"{plural(counts['messages'], 'message')}, {plural(counts['summaries'], 'summary', 'summaries')}"
    if not data["applied"]:
        screen.line(f"{data['source']} is sound: {held}.")
        screen.line(styled("Nothing was changed. --yes puts it in place.", "dim"))
    else:
        screen.title("Restored", held)
        before = data["before"]
        was = "nothing that could be read" if before is None else plural(before["messages"], "message")
        rows = [("Archive", data["databasePath"]), ("From", data["source"])]
        if data["previous"]:
            rows.append(("Before", f"{was}, kept as {data['previous']}"))
        if data["files"]:
            rows.append(("Payloads", f"{plural(data['files'], 'file')} brought back"))
        screen.fields(rows)
    if data["warnings"]:
        which = "" if data["applied"] else f" --db {shlex.quote(data['source'])}"
        screen.line(styled(f"{plural(data['warnings'], 'warning')}; see `lcm{which} verify`.", "yellow"))


def size(screen: Screen, data: Data) -> None:
    whole = data["databaseBytes"] + data["fileBytes"]
    screen.title(bytes_(whole), f"{bytes_(data['databaseBytes'])} archive, {bytes_(data['fileBytes'])} files")
    screen.gap()
    screen.table(
        (("what", "rest"), ("count", "right"), ("size", "right"), ("share", "right"), ("of messages", "right")),
        (
            (row["name"], "" if row["count"] is None else number(row["count"]), bytes_(row["bytes"]),
             _percent(row["bytes"] / (whole or 1)), "" if row["ofMessages"] is None else _percent(row["ofMessages"]))
            for row in data["rows"]
        ),
    )  # fmt: skip
    if not data["isExact"]:
        screen.line(styled("Texts were counted, not pages: these are estimates.", "yellow"))
    if data["couldGo"]:
        screen.gap()
        screen.table(
            (("could go", "rest"), ("count", "right"), ("size", "right"), "with"),
            ((item["what"], number(item["count"]), bytes_(item["bytes"]), item["command"]) for item in data["couldGo"]),
        )


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 or not share else f"{share:.1%}"


def prune(screen: Screen, data: Data) -> None:
    if data["items"]:
        screen.table(
            (("#", "right"), ("session", "rest"), "newest", ("messages", "right"), ("files", "right"),
             ("size", "right")),
            (
                (item["conversationId"], styled(_name(item), "bold" if item["active"] else ""),
                 screen.date(item["newestAt"]), number(item["messages"]), number(item["files"]), bytes_(item["bytes"]))
                for item in data["items"]
            ),
        )  # fmt: skip
    if data["applied"]:
        _pruned(screen, data)
    elif not data["items"]:
        screen.line("Nothing would go.")
    else:
        what = f"{plural(data['conversations'], 'conversation')}, {plural(data['messages'], 'message')}"
        files = f"{plural(data['files'], 'file')}, about {bytes_(data['bytes'])}"
        screen.line(styled(f"{what}, {files} would go for good.", "bold"))
        screen.line(styled("Nothing was changed. --apply makes a backup and deletes them.", "dim"))
    if data["inUse"]:
        screen.line(styled(f"{plural(len(data['inUse']), 'conversation')} stay: others hold parts of them.", "yellow"))


def _name(item: Data) -> str:
    return str(item["title"] or item["sessionKey"] or item["sessionId"])


def _pruned(screen: Screen, data: Data) -> None:
    what = f"{plural(data['conversations'], 'conversation')}, {plural(data['messages'], 'message')}"
    screen.title("Deleted", f"{what}, {plural(data['files'], 'file')}")
    rows = [("Archive now", f"{bytes_(data['databaseSizeBytes'])}, {bytes_(data['freeBytes'])} free")]
    if data.get("backupPath"):
        rows.append(("Backup", f"{data['backupPath']}; delete it when all is well"))
    if data.get("vacuumReason"):
        rows.append(("Room", f"not given back: {data['vacuumReason']}"))
    if data.get("left"):
        rows.append(("Left", f"{plural(len(data['left']), 'conversation')} that changed meanwhile"))
    if data.get("filesLeft"):
        rows.append(("Files left", f"{plural(data['filesLeft'], 'file')}; see `lcm files gc`"))
    screen.fields(rows)


def forget(screen: Screen, data: Data) -> None:
    if not data["found"]:
        screen.line("It is nowhere in the archive, nor in a backup beside it.")
    else:
        screen.title("Forgotten" if data["applied"] else "Would be forgotten", _lost(data))
        rows = [("Messages", ", ".join(f"msg#{id_}" for id_ in data["messageIds"]) + _more(data))]
        rows += [("Elsewhere", f"{count} in {table}") for table, count in data["elsewhere"].items()]
        rows += [("Backup", f"{Path(backup['path']).name}: {_lost(backup)}") for backup in data["backups"]]
        screen.fields([row for row in rows if row[1]])
    for reason in data["left"]:
        screen.line(styled("Left: ", "yellow"), reason)
    if not data["applied"]:
        screen.line(styled("Nothing was changed. --apply does it; it cannot be undone.", "dim"))


def _lost(data: Data) -> str:
    whole = f" ({number(data['emptied'])} as a whole)" if data["emptied"] else ""
    found = [f"{plural(data['messages'], 'message')}{whole}"]
    found += [plural(data[f"{what}s"], what) for what in ("version", "file") if data[f"{what}s"]]
    summaries = data["rewritten"] + data["cut"]
    return ", ".join([*found, *([plural(summaries, "summary", "summaries")] if summaries else [])])


def _more(data: Data) -> str:
    rest = data["messages"] - len(data["messageIds"])
    return f" and {number(rest)} more" if rest else ""


def absent(screen: Screen, data: Data) -> None:
    looked = f"{plural(data['files'], 'file')}, {bytes_(data['bytes'])}"
    if data["ok"]:
        screen.line(styled("Nowhere. ", "green"), f"None of it is in {looked}.")
        return
    if data["traces"]:
        screen.table(
            (("phrase", "right"), "place", ("file", "rest")),
            ((trace["phrase"], trace["place"], trace["file"]) for trace in data["traces"]),
        )
    for reason in data["unreadable"]:
        screen.line(styled("Not read: ", "yellow"), reason)
    screen.line(styled(f"Found in {plural(data['found'], 'place')} of {looked}.", "red"))


def rotate(screen: Screen, data: Data) -> None:
    sizes = f"{bytes_(data['sizeBefore'])} → {bytes_(data['sizeAfter'])}"
    kept = f"{plural(data['keptMessages'], 'message')} stay, {number(data['droppedMessages'])} leave the file"
    if data["rotated"]:
        screen.title("Rotated", sizes)
        rows = [("File", data["sessionFile"]), ("Messages", kept)]
        if data["backupPath"]:
            rows.append(("Backup", data["backupPath"]))
        screen.fields(rows)
    elif data["reason"] is not None:
        screen.line(styled("Not rotated: ", "yellow"), f"{data['reason']}.")
    else:
        screen.line(f"{data['sessionFile']}: {sizes}; {kept}. The archive keeps all of them.")
        screen.line(styled("Nothing was changed. --apply does it.", "dim"))
