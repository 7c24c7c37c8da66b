"""What a person sees of work that was done, and of the settings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lossless.cli.screen import bytes_, number, plural, styled

if TYPE_CHECKING:
    from lossless.cli.screen import Screen

Data = dict[str, Any]


def append(screen: Screen, data: Data) -> None:
    """What came of the lines."""
    screen.title(f"{plural(data['stored'], 'message')} stored", *_in_conversation(data))
    _arrivals(screen, data)
    if data["badLines"]:
        screen.line(styled(f"  {plural(data['badLines'], 'line')} left out:", "yellow"))
        for bad in data["bad"]:
            where = f"line {bad['line']}" if bad["file"] is None else f"{bad['file']}, line {bad['line']}"
            screen.line(f"    {where}: {bad['reason']}")


def sync(screen: Screen, data: Data) -> None:
    """What the window added."""
    screen.title(f"{plural(data['stored'], 'message')} stored", *_in_conversation(data))
    _arrivals(screen, data)
    if data["abandoned"]:
        screen.line(f"  {plural(data['abandoned'], 'message')} left the context: the host went on differently")
    if data["quarantineId"] is not None:
        screen.line(styled(f"  {data['reason']}", "yellow"))
    elif data["cause"] == "disjoint":
        screen.line(styled("  the window had nothing in common with what was stored before", "yellow"))


def _in_conversation(data: Data) -> list[str]:
    return [] if data["conversationId"] is None else [f"in conversation {data['conversationId']}"]


def _arrivals(screen: Screen, data: Data) -> None:
    told = {
        "replayed": "were there already",
        "stamped": "took over an entry id",
        "revised": "have other words now; those they had are kept as versions",
        "likely": "were matched by likeness",
        "ambiguous": "could not be told from a replay and count as one",
    }
    for name, meaning in told.items():
        if data[name]:
            screen.line(f"  {number(data[name])} {meaning}")
    for reason, count in data["skippedReasons"].items():
        screen.line(styled(f"  {number(count)} not kept: ", "yellow"), reason)


def verify(screen: Screen, data: Data) -> None:
    """The offenders, then the verdict."""
    for problem in data["problems"]:
        colour = "red" if problem["severity"] == "error" else "yellow"
        screen.line(
            styled(f"{problem['severity']} ", colour), f"{problem['table']} {problem['id']}: {problem['detail']}"
        )
    left = data["errors"] + data["warnings"] - len(data["problems"])
    if left > 0:
        screen.line(styled(f"and {number(left)} more; see them with --limit", "dim"))
    if data["problems"]:
        screen.gap()
    checked = f"{plural(data['messages'], 'message')}, {plural(data['summaries'], 'summary', 'summaries')} checked"
    verdict = styled("All is there.", "bold green")
    if data["errors"]:
        verdict = styled(f"{plural(data['errors'], 'error')}.", "bold red")
    warned = f" {plural(data['warnings'], 'warning')}." if data["warnings"] else ""
    screen.line(verdict, f"{warned} {checked}.")


def adopt(screen: Screen, data: Data) -> None:
    """What can be freed, or what was."""
    if not data["tables"]:
        screen.line("There is nothing to drop: the archive has none of lossless-claw's search tables.")
        return
    tables = ", ".join(data["tables"])
    if not data["applied"]:
        screen.line(
            f"{tables}: about {bytes_(data['bytesToFree'])} of {bytes_(data['databaseSizeBytes'])} can be freed."
        )
        screen.line(styled("Nothing was changed. `lcm adopt --apply` makes a backup and does it.", "dim"))
        return
    size = f"{bytes_(data['sizeBefore'])} → {bytes_(data['databaseSizeBytes'])}"
    screen.title(f"{bytes_(data['bytesFreed'])} freed", size)
    messages, summaries = data["counts"]["messages"], data["counts"]["summaries"]
    screen.fields(
        (
            ("Dropped", tables),
            ("Counted again", f"{plural(messages, 'message')}, {plural(summaries, 'summary', 'summaries')}"),
            ("Backup", f"{data['backupPath']} ({bytes_(data['backupBytes'])}); delete it when all is well"),
        )
    )


def config_show(screen: Screen, data: Data) -> None:
    """Every setting with its value and, unless it is the default, its source."""
    sources = data["sources"]
    rows: list[tuple[str, str, str]] = []
    for key, value in data["effective"].items():
        inner = value if isinstance(value, dict) else {"": value}
        for name, item in inner.items():
            path = f"{key}.{name}" if name else key
            rows.append((path, _json(item), sources.get(path, "")))
    screen.table(("setting", ("value", "rest"), "from"), rows)
    for notice in data["diagnostics"]:
        screen.line(styled(f"{notice['name']} ", "yellow"), f"{notice['message']} (from {notice['source']})")


def config_get(screen: Screen, data: Data) -> None:
    """One value."""
    screen.line(_json(data["effectiveValue"]), styled(f"  from {data['source']}", "dim"))


def config_set(screen: Screen, data: Data) -> None:
    """The old value and the new one."""
    screen.line(styled(f"{data['path']} ", "bold"), f"{_json(data['oldValue'])} → {_json(data['newValue'])}")
    backup = f"; the old file is {data['backupPath']}" if data["backupPath"] else " (new file)"
    screen.line(styled(f"in {data['configPath']}{backup}", "dim"))


def _json(value: Any) -> str:
    return "–" if value is None else json.dumps(value, ensure_ascii=False)
