"""Back-fill files for older answers of tools, so that stubs may stand for them; and take that back.

No message changes: each gets a mark that its text also lies in a file. `revert` removes the marks and the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.files.keep import keep
from lossless.files.stub import DEFAULT_THRESHOLD_BYTES, StubPlan, ToolOutput, plan_stubs, stub_payload
from lossless.store.files import Files

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lossless.files.vault import Vault
    from lossless.store.archive import Archive
    from lossless.store.files import CallRow, LargeOutput

#: Messages a transaction: others may write in between.
_BATCH = 50


@dataclass(frozen=True, slots=True)
class StubReport:
    """What was done."""

    stubbed: int
    bytes: int
    #: Messages that got a mark or went away since the plan was made.
    passed_over: int = 0


@dataclass(frozen=True, slots=True)
class RevertPlan:
    """The marks that a revert would take away: message ids with the ids of their files."""

    marks: dict[int, str]


@dataclass(frozen=True, slots=True)
class RevertReport:
    """What was taken back; a file's row stays when something else refers to it."""

    messages: int
    rows: int


def plan(
    archive: Archive,
    *,
    threshold_bytes: int = DEFAULT_THRESHOLD_BYTES,
    conversation_id: int | None = None,
    limit: int | None = None,
) -> StubPlan:
    """Which answers of tools would get a file."""
    files = Files(archive.database)
    with archive.reading():
        found = files.large_outputs(threshold_bytes, conversation_id)
        return plan_stubs((_output(files, row) for row in found), limit)


def apply(
    archive: Archive, vault: Vault, work: StubPlan, now: datetime, progress: Callable[[int], None] | None = None
) -> StubReport:
    """Carry out a plan, some messages a transaction; doing it twice changes nothing."""
    stubbed = size = 0
    for start in range(0, len(work.outputs), _BATCH):
        batch = work.outputs[start : start + _BATCH]
        with archive.writing():
            done = [output for output in batch if _stub(archive, vault, output, now)]
        stubbed += len(done)
        size += sum(output.byte_size for output in done)
        if progress:
            progress(len(batch))
    return StubReport(stubbed, size, len(work.outputs) - stubbed)


def plan_revert(archive: Archive, conversation_id: int | None = None) -> RevertPlan:
    """Which marks would go."""
    return RevertPlan(Files(archive.database).stubs(conversation_id))


def revert(archive: Archive, work: RevertPlan) -> RevertReport:
    """Take the marks away, and the rows that nothing refers to then; their files are left for `collect`."""
    files = Files(archive.database)
    with archive.writing():
        files.clear_stubs(work.marks)
        unused = set(work.marks.values()) - files.referenced_ids()
        files.remove(unused)
    return RevertReport(len(work.marks), len(unused))


def _output(files: Files, row: LargeOutput) -> ToolOutput:
    call = None if row.tool else _call(files, row)
    tool = row.tool or (call.tool if call else None)
    return ToolOutput(row.message_id, row.conversation_id, row.byte_size, row.head, tool, row.call_id, row.seq)


def _call(files: Files, row: LargeOutput | ToolOutput) -> CallRow | None:
    return None if row.call_id is None else files.call(row.conversation_id, row.call_id, row.seq)


def _stub(archive: Archive, vault: Vault, output: ToolOutput, now: datetime) -> bool:
    """Give one message its file; False when it has one or is gone."""
    stored = archive.messages.many([output.message_id])
    if not stored or stored[0].file_id is not None:
        return False
    files = Files(archive.database)
    call = _call(files, output)
    payload = stub_payload(output, stored[0].message.content, call.input if call else None)
    keep(files, vault, output.conversation_id, [payload], now)
    files.set_stub(output.message_id, payload.file_id)
    return True
