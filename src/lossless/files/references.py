"""The short texts that replace payloads (hosts and agents parse them), and which older tool outputs get one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.files.document import REASON_KEYS, Payload
from lossless.files.explore import summarise
from lossless.files.explore.phrases import clip, one_line
from lossless.files.media_types import reference_name
from lossless.model.identity import file_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lossless.model.messages import Role, StoredToolOutput

_OPEN = 'Call lcm_describe(id="<file_id above>", expandFile=true) to fetch the full {what} content from disk.'


def file_reference(file_id: str, name: str | None, mime: str | None, size: int, summary: str) -> str:
    """Replaces a file that a user sent."""
    named, kind = reference_name(name, "unnamed"), reference_name(mime, "unknown")
    head = f"[LCM File: {file_id} | {named} | {kind} | {size:,} bytes]"
    return f"{head}\n\nExploration Summary:\n{summary}"


def tool_reference(file_id: str, tool: str | None, size: int, summary: str) -> str:
    """Replaces the output of a tool."""
    head = f"[LCM Tool Output: {file_id} | tool={reference_name(tool, 'unknown')} | {size:,} bytes]"
    return f"{head}\n\nExploration Summary:\n{summary}\n\n{_OPEN.format(what='output')}"


def raw_reference(file_id: str, role: Role, size: int, summary: str) -> str:
    head = f"[LCM Raw Payload: {file_id} | role={role} | reason=large_raw_message | {size:,} bytes]"
    return f"{head}\n\nExploration Summary:\n{summary}\n\n{_OPEN.format(what='payload')}"


def image_reference(file_id: str, label: str, name: str, mime: str, size: int) -> str:
    """Replaces an image.

    >>> image_reference("file_0123456789abcdef", "User image", "a.png", "image/png", 1234)
    '[User image: a.png (image/png, 1,234 bytes) | LCM file: file_0123456789abcdef]'
    """
    named, kind = reference_name(name, "image"), reference_name(mime, "image")
    return f"[{label}: {named} ({kind}, {size:,} bytes) | LCM file: {file_id}]"


def image_label(role: Role, *, in_result: bool, inline: bool) -> str:
    """The label of an image: by its sender; one inside a user's own text is just an image."""
    return "Image" if inline and role == "user" and not in_result else f"{'Tool' if in_result else role.title()} image"


DEFAULT_STUB_BYTES = 8000
_REFERENCES = ("[LCM Tool Output: file_", "[LCM File: file_", "[LCM Raw Payload: file_")
_OWN_TOOLS = "lcm_"
_INPUT_CHARS = 400


@dataclass(frozen=True, slots=True)
class StubPlan:
    """What a back-fill would change."""

    outputs: tuple[StoredToolOutput, ...]
    #: Large results that stay: existing references, or results of our own tools.
    left: int = 0

    @property
    def bytes(self) -> int:
        return sum(output.byte_size for output in self.outputs)


def plan_stubs(candidates: Iterable[StoredToolOutput], limit: int | None = None) -> StubPlan:
    """Which of the large results get a file."""
    found = list(candidates)
    wanted = [one for one in found if not one.head.startswith(_REFERENCES) and _OWN_TOOLS not in (one.tool or "")]
    return StubPlan(tuple(wanted[:limit]), len(found) - len(wanted))


def stub_payload(output: StoredToolOutput, content: str, tool_input: str | None) -> Payload:
    """The file for a result; its summary begins with the tool's input."""
    data = content.encode("utf-8", "surrogatepass")
    name = reference_name(output.tool, "tool-output").replace("/", "_") + ".txt"
    summary = summarise(data, name, "text/plain")
    if tool_input:
        summary = f"Tool input: {clip(one_line(tool_input[: 4 * _INPUT_CHARS]), _INPUT_CHARS)}\n{summary}"
    id_, lines = file_id(output.conversation_id, data), content.count("\n") + 1
    return Payload(id_, data, name, "text/plain", "large_tool_result", summary, lines, REASON_KEYS["large_tool_result"])
