"""What a person sees of imports and exports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lossless.cli.screen import number, plural, styled

if TYPE_CHECKING:
    from lossless.cli.screen import Screen

Data = dict[str, Any]

#: How each count is called; those that are not here are not shown.
_NAMES = {
    "conversationsScanned": "Conversations scanned",
    "conversationsInserted": "  new",
    "conversationsJoined": "  gained something",
    "sessionsTouched": "Sessions touched",
    "messagesInserted": "Messages inserted",
    "messagesSkipped": "  there already",
    "versionsInserted": "  other wordings of these",
    "messagePartsInserted": "Parts inserted",
    "messagePartsSkipped": "  there already",
    "summariesInserted": "Summaries inserted",
    "summariesSkipped": "  there already",
    "summariesMultiParentCollapsed": "  used in several, one kept",
    "summariesSkippedNoMessages": "  without messages",
    "summariesSkippedMultiSession": "  of several sessions",
    "summariesWithoutSources": "  without sources",
    "filesCopied": "Files copied",
    "filesSkipped": "Files there already",
    "filesMissing": "Files without bytes",
    "pinsInserted": "Pins inserted",
    "briefsInserted": "Focus briefs inserted",
    "prunedInserted": "Deleted conversations remembered",
    "messagesHidden": "Messages outside of contexts",
    "compactionEventsInserted": "Boundaries noted",
    "eventsDropped": "Compaction events without a place",
    "conversations": "Conversations",
    "messages": "Messages",
    "messageParts": "Parts",
    "summaries": "Summaries",
    "contextItems": "Context items",
}
#: Counts that are worth a line even when they are 0.
_ALWAYS = frozenset(
    ("conversationsScanned", "messagesInserted", "messagesSkipped", "summariesInserted", "messages", "conversations")
)


def imported(screen: Screen, data: Data) -> None:
    """What came in, or would."""
    screen.title("DRY RUN — no rows written." if data["dryRun"] else "Import complete.", *_place(data))
    _counts(screen, data)
    if "verified" in data:
        is_ok = data["verified"]["ok"]
        verdict = styled("all is there", "green") if is_ok else styled("something is wrong", "red")
        screen.line("  verified: ", verdict)
        for problem in data["verified"]["problems"]:
            screen.line(f"    {problem}")
    _warnings(screen, data)
    if data.get("hint"):
        screen.gap()
        screen.line(styled(data["hint"], "dim"))


def exported(screen: Screen, data: Data) -> None:
    """What was written, and where."""
    screen.title("DRY RUN — no rows written." if data.get("dryRun") else "Export complete.", *_place(data))
    _counts(screen, data)
    if data.get("files"):
        screen.line(styled(f"  {plural(len(data['files']), 'file')}, the first {data['files'][0]}", "dim"))
    _warnings(screen, data)


def _place(data: Data) -> list[str]:
    place = data.get("path") or data.get("folder")
    return [place] if place else []


def _counts(screen: Screen, data: Data) -> None:
    rows: list[tuple[str, str]] = []
    above = ("", "")  # the count that those below it belong to
    for key, name in _NAMES.items():
        value = data.get(key)
        if value is None:
            continue
        count = len(value) if isinstance(value, list) else value
        row = (name, number(count))
        if count and name.startswith(" ") and above not in rows:
            rows.append(above)
        if count or key in _ALWAYS:
            rows.append(row)
        above = above if name.startswith(" ") else row
    screen.fields(rows)


def _warnings(screen: Screen, data: Data) -> None:
    for warning in data["warnings"]:
        screen.line(styled("  note: ", "yellow"), warning)
    left = data["warningCount"] - len(data["warnings"])
    if left:
        screen.line(styled(f"  and {number(left)} more", "dim"))
