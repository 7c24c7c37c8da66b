"""What was done with tools, in short rows: what was run and how it ended, what was printed, what is still open."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from lossless.compaction.source_text import (
    PATH_KEYS,
    SourceMessage,
    call_arguments,
    file_operation,
    input_text,
    split_units,
)
from lossless.model.search_text import load_patterns
from lossless.model.tokens import one_line

if TYPE_CHECKING:
    from lossless.model.messages import ToolCall, ToolResult

#: How much a unit counts: a row that a tool printed, one at an edge of it; a command, one that only looks, one that
#: failed, and what the line of files names anyway.
PRINTED, EDGE = 0.25, 0.5
RAN, LOOKED, FAILED, NAMED = 0.8, 0.15, 2.0, 0.02
#: So many units at either end of an output are its edges.
_FIRST, _LAST = 2, 3
#: Of a long output this many rows at either end are looked at.
_EDGE_ROWS = 60
_INPUT_CHARS = 200
_ARGUMENT_CHARS = 80
_OUTCOME_CHARS = 160
_END_CHARS = 3_000
_OPEN_CHARS = 240
_MOST_OPEN = 3
#: Commands with the same so many first words are of a kind, wherever they run.
_KIND_WORDS = 3
_CODE_ENDS = tuple(";{}([,\\+")
_OUTPUTS = load_patterns(__package__)["outputs"]


class Attempt(NamedTuple):
    """A tool call as it went."""

    call: ToolCall
    #: In one short row: its command alone, or its arguments by name.
    asked: str
    #: What it does to the file that it names; '' for anything else.
    operation: str
    #: Whether a command only looks at something: then nothing hangs on how it ended.
    is_look: bool
    #: None where no output is known.
    has_failed: bool | None
    #: How it ended, where that can be told.
    outcome: str

    def row(self) -> tuple[str, float]:
        """The call in one row with how it ended, and how much that counts."""
        row = f"{self.asked} → {self.outcome}" if self.outcome else self.asked
        if self.operation and not self.outcome:
            return row, NAMED
        if self.is_look:
            return row, LOOKED
        return row, FAILED if self.has_failed else RAN


def attempts(lines: Sequence[SourceMessage]) -> list[Attempt]:
    """The tool calls of some messages in order, with what they came to by the id of the call."""
    outputs = {output.call_id: output for line in lines for output in line.outputs if output.call_id}
    return [_attempt(call, outputs.get(call.id or "")) for line in lines for call in line.inputs]


def _attempt(call: ToolCall, output: ToolResult | None) -> Attempt:
    asked, failed, ended = _asked(call), None, ""
    if output is not None:
        code = _exit_code(output.text)
        failed = output.is_error or code not in (None, 0)
        ended = _outcome(output, code) if failed else one_line(_tally(output.text), _OUTCOME_CHARS)
    is_look = _OUTPUTS["look"].match(asked) is not None
    return Attempt(call, asked, file_operation(call), is_look, failed, ended)


def _rows_at_ends(text: str) -> list[str]:
    if len(text) > 2 * _END_CHARS:
        text = f"{text[:_END_CHARS]}\n{text[-_END_CHARS:]}"
    return [bare for row in text.splitlines() if (bare := row.strip())]


def _tally(text: str) -> str:
    """The tally of the tests that ran."""
    folded = text.lower()
    if not any(sign in folded for sign in _OUTPUTS["tally_signs"]):
        return ""
    return next((row for row in reversed(_rows_at_ends(text)) if _OUTPUTS["tally"].search(row.lower())), "")


def _outcome(output: ToolResult, code: int | None) -> str:
    """How a call failed: its exit code, and the row that says why."""
    how = f"exit {code}" if code is not None else "failed"
    telling = [row for row in _rows_at_ends(output.text) if not _OUTPUTS["frame"].match(row)]
    reason = next(filter(_OUTPUTS["failure"].search, telling), "") or next(iter(telling), "")
    return f"{how}: {one_line(reason, _OUTCOME_CHARS)}" if reason else how


def printed_units(text: str, *, only_failures: bool = False) -> tuple[list[str], list[float]]:
    """What a tool printed but for code: first and last rows and what may speak of a failure, with their weights."""
    rows = text.splitlines()
    if only_failures:
        rows = [row for row in rows if _OUTPUTS["failure"].search(row)]
    if len(rows) > 2 * _EDGE_ROWS:
        middle = (row for row in rows[_EDGE_ROWS:-_EDGE_ROWS] if any(sign in row for sign in _OUTPUTS["failure_signs"]))
        rows = list(chain(rows[:_EDGE_ROWS], middle, rows[-_EDGE_ROWS:]))
    pieces = split_units(
        "\n".join(row for row in rows if not is_code(row) and not _OUTPUTS["runner"].match(row.lstrip()))
    )
    if len(pieces) <= _FIRST + _LAST:
        return pieces, [EDGE] * len(pieces)
    return pieces, [EDGE] * _FIRST + [PRINTED] * (len(pieces) - _FIRST - _LAST) + [EDGE] * _LAST


def is_code(row: str) -> bool:
    """Whether a row reads like code or data and not like a sentence.

    >>> [is_code(row) for row in ('import { a } from "b";', "const a = 1", "3 tests failed, see the log.")]
    [True, True, False]
    """
    row = row.strip()[:240]
    if row.endswith(_CODE_ENDS) or "=>" in row or _OUTPUTS["code"].match(row):
        return True
    return "(" in row and _OUTPUTS["called"].search(row) is not None


def open_ends(done: Iterable[Attempt]) -> list[str]:
    """What is not done at the end: commands that failed, if none like them succeeded later."""
    failed: dict[str, str] = {}
    for one in done:
        if one.has_failed is None or one.is_look or one.operation:
            continue
        steps = [" ".join(part.split()[:_KIND_WORDS]) for part in _OUTPUTS["step"].split(one.asked)]
        kinds = [step for step in steps if step and not step.startswith("cd ")] or [one.asked]
        for kind in kinds:
            failed.pop(kind, None)
        if one.has_failed:
            failed[kinds[-1]] = one_line(f"{one.asked} → {one.outcome}", _OPEN_CHARS)
    return list(failed.values())[-_MOST_OPEN:]


def _asked(call: ToolCall) -> str:
    """A tool call in one short row: its command alone, or its arguments by name."""
    given = call_arguments(call)
    if not given:
        return one_line(input_text(call), _INPUT_CHARS)
    shown = {key: value if isinstance(value, str) else json.dumps(value, default=str) for key, value in given.items()}
    if "command" in shown:
        return one_line(shown["command"], _INPUT_CHARS)
    short = [
        value if key in PATH_KEYS else f"{key}={value}"
        for key, value in shown.items()
        if len(value) <= _ARGUMENT_CHARS and "\n" not in value
    ]
    return one_line(", ".join(short) or next(iter(shown.values())), _INPUT_CHARS)


def _exit_code(text: str) -> int | None:
    for part in (text[-200:], text[:80]):
        if "xit" in part and (found := _OUTPUTS["exit_code"].search(part)):
            return int(found[1])
    return None
