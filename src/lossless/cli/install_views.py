"""What a person sees of setting a host up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lossless.cli.screen import styled

if TYPE_CHECKING:
    from lossless.cli.screen import Screen

Data = dict[str, Any]


def changed(screen: Screen, data: Data) -> None:
    """Each file, what happened to it, and where its copy lies; then what else a person should know."""
    screen.title(data["host"], *([] if data["applied"] else ["nothing was changed (--dry-run)"]))
    for file in data["files"]:
        screen.line(f"{file['change']:<10}{file['path']}")
        for label in ("backup", "note"):
            if file[label]:
                screen.line(f"{'':<10}{label}: {file[label]}")
    if data.get("archive"):
        screen.line(f"{'archive':<10}{data['archive']}")
        screen.line(styled(f"{'':<10}another one: lcm --db PATH install {data['host']}", "dim"))
    for remark in data.get("remarks", ()):
        screen.line(styled(f"{'note':<10}", "yellow"), remark)


def examined(screen: Screen, data: Data) -> None:
    """Each check with its outcome, and what helps."""
    screen.title(data["host"])
    for check in data["checks"]:
        mark = styled("ok  ", "green") if check["ok"] else styled("no  ", "bold red")
        screen.line(mark, f"{check['name']:<14}{check['said']}")
        if check["hint"]:
            screen.line(f"{'':<18}{check['hint']}")
