"""Older answers of tools as files, so that a stub may stand for them: which, under which name, with which summary.

The message keeps its text; only a mark beside it says that the text also lies in a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.files.draft import MARKS, Payload, Reason
from lossless.files.explore import summarise
from lossless.files.explore.words import clipped, one_line
from lossless.files.kinds import shown_name
from lossless.model.identity import file_id

if TYPE_CHECKING:
    from collections.abc import Iterable

DEFAULT_THRESHOLD_BYTES = 8000
_REFERENCES = ("[LCM Tool Output: file_", "[LCM File: file_", "[LCM Raw Payload: file_")
_OWN_TOOLS = "lcm_"
_INPUT_CHARS = 400


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A stored answer of a tool that is large enough."""

    message_id: int
    conversation_id: int
    byte_size: int
    #: How its text begins.
    head: str
    tool: str | None
    #: The call that it answers, and its place in the conversation.
    call_id: str | None = None
    seq: int = 0


@dataclass(frozen=True, slots=True)
class StubPlan:
    """What a back-fill would do."""

    outputs: tuple[ToolOutput, ...]
    #: Large answers that stay as they are: references already, or answers of our own tools.
    left: int = 0

    @property
    def bytes(self) -> int:
        return sum(output.byte_size for output in self.outputs)


def plan_stubs(candidates: Iterable[ToolOutput], limit: int | None = None) -> StubPlan:
    """Which of the large answers get a file."""
    taken: list[ToolOutput] = []
    left = 0
    for output in candidates:
        if output.head.startswith(_REFERENCES) or _OWN_TOOLS in (output.tool or ""):
            left += 1
        elif limit is None or len(taken) < limit:
            taken.append(output)
    return StubPlan(tuple(taken), left)


def stub_payload(output: ToolOutput, content: str, tool_input: str | None) -> Payload:
    """The file for an answer; its summary says first what the tool was asked."""
    data = content.encode("utf-8", "surrogatepass")
    name = shown_name(output.tool, "tool-output").replace("/", "_") + ".txt"
    summary = summarise(data, name, "text/plain")
    if tool_input:
        summary = f"Tool input: {clipped(one_line(tool_input[: 4 * _INPUT_CHARS]), _INPUT_CHARS)}\n{summary}"
    id_ = file_id(output.conversation_id, data)
    reason: Reason = "large_tool_result"
    lines = content.count("\n") + 1
    return Payload(id_, data, name, "text/plain", reason, summary, lines, MARKS[reason])
