"""What a person sees of searches: hits with what was found marked in them, evidence by day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lossless.cli.screen import Screen, role, styled
from lossless.recall.found import NOTHING

if TYPE_CHECKING:
    from rich.text import Text

Data = dict[str, Any]


def grep(screen: Screen, data: Data) -> None:
    """Each place with what was found marked in it."""
    for item in data["items"]:
        snippet = styled(item["snippet"], "")
        for start, end in item["matches"]:
            snippet.stylize("bold black on yellow", start, end)
        name = f"#{item['id']}" if item["type"] == "message" else item["id"]
        when = f"  {screen.time(item['createdAt'])}  conversation {item['conversationId']}"
        screen.line(styled(f"{name} ", "bold"), _who(item), styled(when, "dim"))
        screen.prose(snippet)
    if data["hint"] and data["hint"] != NOTHING:
        screen.line(styled(data["hint"], "dim"))


def _who(item: Data) -> Text:
    if item["type"] == "message":
        return role(item["role"])
    if item["type"] == "summary":
        return styled(f"depth {item['depth']}", "blue")
    return styled(f"{item['fileName'] or 'file'} line {item['line']}", "blue")


def recall(screen: Screen, data: Data) -> None:
    """The evidence under the days on which it was said, the best day first."""
    days: dict[tuple[str, int, str | None], list[Data]] = {}
    for item in data["evidence"]:
        place = screen.date(item["createdAt"]), item["conversationId"], item["summaryId"]
        days.setdefault(place, []).append(item)
    if data["note"]:
        screen.line(styled(data["note"], "dim"))
    for (day, conversation_id, summary_id), items in days.items():
        screen.gap()
        screen.title(day, f"conversation {conversation_id}", *([summary_id] if summary_id else []))
        for item in sorted(items, key=lambda item: int(item["seq"])):
            meant = f"  [{item['days']}]" if item["days"] else ""
            screen.line(styled(f"#{item['id']} ", "bold"), role(item["role"]), styled(meant, "dim"))
            screen.prose(item["text"])
