"""The short texts that stand in messages for payloads. Hosts and agents parse them: they are kept to the letter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.files.kinds import shown_name

if TYPE_CHECKING:
    from lossless.model.messages import Role

_OPEN = 'Call lcm_describe(id="<file_id above>", expandFile=true) to fetch the full {what} content from disk.'
_LABELS: dict[str, str] = {
    "user": "User image",
    "assistant": "Assistant image",
    "system": "System image",
    "tool": "Tool image",
}


def file_reference(file_id: str, name: str | None, mime: str | None, size: int, summary: str) -> str:
    """Stands for a file that a user sent."""
    head = f"[LCM File: {file_id} | {shown_name(name, 'unnamed')} | {shown_name(mime, 'unknown')} | {size:,} bytes]"
    return f"{head}\n\nExploration Summary:\n{summary}"


def tool_reference(file_id: str, tool: str | None, size: int, summary: str) -> str:
    """Stands for the output of a tool."""
    head = f"[LCM Tool Output: {file_id} | tool={shown_name(tool, 'unknown')} | {size:,} bytes]"
    return f"{head}\n\nExploration Summary:\n{summary}\n\n{_OPEN.format(what='output')}"


def raw_reference(file_id: str, role: Role, size: int, summary: str) -> str:
    """Stands for any other oversized message."""
    head = f"[LCM Raw Payload: {file_id} | role={role} | reason=large_raw_message | {size:,} bytes]"
    return f"{head}\n\nExploration Summary:\n{summary}\n\n{_OPEN.format(what='payload')}"


def image_reference(file_id: str, label: str, name: str, mime: str, size: int) -> str:
    """Stands for a picture.

    >>> image_reference("file_0123456789abcdef", "User image", "a.png", "image/png", 1234)
    '[User image: a.png (image/png, 1,234 bytes) | LCM file: file_0123456789abcdef]'
    """
    return f"[{label}: {shown_name(name, 'image')} ({shown_name(mime, 'image')}, {size:,} bytes) | LCM file: {file_id}]"


def image_label(role: Role, *, in_result: bool, inline: bool) -> str:
    """How a picture is called: by who sent it; one inside a user's own text is just an image."""
    if in_result:
        return _LABELS["tool"]
    return "Image" if inline and role == "user" else _LABELS[role]
