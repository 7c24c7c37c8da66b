"""A search's findings as the text that an agent reads: gathered under the summaries that cover them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.recall.room import MAX_CHARS
from lossless.recall.said import moment

if TYPE_CHECKING:
    from lossless.recall.found import Finding, Findings

_OPENING = (
    "Open a hit with lcm_describe (id: msg#… shows the whole message, sum_… the summary, file_… the file); "
    "read around it with lcm_expand or lcm_expand_query."
)
_UNCOVERED = "### Not summarised"
_FILES = "### Files"
_ROOM_FOR_END = 600


def rendered(found: Findings) -> str:
    """The findings as Markdown: what was asked, then one line a hit with its id, its speaker and its time."""
    lines = _head(found)
    room = MAX_CHARS - _ROOM_FOR_END - sum(len(line) + 1 for line in lines)
    shown = 0
    for title, hits in _groups(found):
        block = [title, *(_line(hit) for hit in hits)] if title else [_line(hit) for hit in hits]
        for n, line in enumerate(block):
            if len(line) + 1 > room:
                lines.append(f"(truncated: {shown} of {len(found.hits)} hits fit)")
                return "\n".join([*lines, *_end(found)])
            lines.append(line)
            room -= len(line) + 1
            shown += 1 if n or not title else 0
    return "\n".join([*lines, *_end(found)])


def _head(found: Findings) -> list[str]:
    request = found.request
    lines = [
        "## LCM Grep Results",
        f"**Pattern:** `{' '.join(request.pattern.split())[:400]}`",
        f"**Mode:** {request.mode} | **Scope:** {request.search_in} | **Sort:** {request.sort}",
        f"**Conversations:** {found.scope}",
    ]
    if found.scope.warning:
        lines.append(f"**Warning:** {found.scope.warning}")
    if request.since or request.before:
        since = f"since {moment(request.since)}" if request.since else ""
        before = f"before {moment(request.before)}" if request.before else ""
        lines.append(f"**Time:** {' '.join(filter(None, (since, before)))}")
    more = f" ({len(found.hits)} shown)" if found.total > len(found.hits) else ""
    lines.append(f"**Total matches:** {found.total}{'+' if found.truncated else ''}{more}")
    if found.hint:
        lines.append(f"**Note:** {found.hint}")
    return [*lines, ""]


def _end(found: Findings) -> list[str]:
    lines = ["", _OPENING] if found.hits else ["Nothing was found."]
    if found.cursor:
        what = "There is more" if found.truncated else "For the same letters inside of other words"
        lines.append(f"{what}: pass cursor={found.cursor}")
    return lines


def _groups(found: Findings) -> list[tuple[str, list[Finding]]]:
    """The hits under the summary that covers them, in the order of each group's best hit."""
    groups: dict[str, list[Finding]] = {}
    for hit in found.hits:
        key = hit.summary_id or (str(hit.id) if hit.kind == "summary" else hit.kind)
        groups.setdefault(key, []).append(hit)
    if list(groups) == ["message"]:
        return [("", groups["message"])]
    return [(_title(key, found), hits) for key, hits in groups.items()]


def _title(key: str, found: Findings) -> str:
    if key == "message":
        return _UNCOVERED
    if key == "file":
        return _FILES
    first, last = found.spans.get(key, (None, None))
    return f"### {key}" + (f" ({moment(first)} to {moment(last)})" if first or last else "")


def _line(hit: Finding) -> str:
    if hit.kind == "file":
        name = f" ({hit.name})" if hit.name else ""
        place = f" line {hit.line}, offset {hit.offset}" if hit.line is not None else ""
        return f"- [conv={hit.conversation_id} {hit.id}{name}]{place}: {hit.snippet}"
    if hit.kind == "summary":
        kind = "leaf" if hit.depth == 0 else "condensed"
        return f"- [conv={hit.conversation_id} {hit.id}] ({kind}, {moment(hit.created_at)}): {hit.snippet}"
    beside = ", beside a hit" if not hit.matches else ""
    return f"- [conv={hit.conversation_id} msg#{hit.id}] ({hit.role}, {moment(hit.created_at)}{beside}): {hit.snippet}"
